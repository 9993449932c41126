"""The PettingZoo AEC driver: both speakers are players, and both have tools of their own.

    user_0   act or words ─► acts that count ──┐
             its tools ─► what it alone reads  ├─► Engine ─► observation, reward of each side
    agent_0  act or words ─► AgentTurn ────────┘
             its tools ─► what it alone reads          sync() after every write

The Gymnasium environment does the agent's half and the grading (`two_sided_halves`); this file
passes the floor. Who calls a tool keeps the floor until it speaks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv  # type: ignore[import-untyped]

from convgym.engine.acts import UserTurn
from convgym.engine.episode import Episode
from convgym.envs.episode_setup import choose, is_whole
from convgym.envs.two_sided_halves import HalvedEnv, Step, halved
from convgym.envs.two_sided_likelihood import TurnLikelihood
from convgym.envs.two_sided_outside import Offered, OutsideUser, read_nothing
from convgym.envs.two_sided_user import ACTION_MODES, OBSERVATIONS, UserCodec, Utterances, talk
from convgym.envs.user_side import Known, PlainSide, UserSide, known_acts, load
from convgym.errors import InvalidConfiguration, UnknownRenderMode

AGENT, USER = "agent_0", "user_0"
USER_REWARDS = ("cooperative", "realistic", "adversarial")
MOST_TOOL_STEPS = 8
"""Steps of tools alone after which the user has to speak; the floor then passes in silence."""


class OwnTurn:
    """What the environment's own user would do now, until the floor passes."""

    __slots__ = ("action", "after", "turn")

    def __init__(self, turn: UserTurn, after: Episode, action: Any) -> None:
        self.turn, self.after, self.action = turn, after, action


class TwoSidedEnv(AECEnv[str, Any, Any]):
    """A conversation whose two speakers are both played from outside.

    ## Description
    `user_0` speaks first; then `agent_0` and `user_0` take turns. Each has tools that only it
    can call and whose results only it reads; a step that calls tools and says nothing keeps the
    floor. Writes of either side reach the other through the world: what the agent cancels lands
    as a mail in the user's mailbox. The task, the persona and what the user knows are drawn as in
    the Gymnasium environment, and grading is its grading: a fact that the user does not know is
    not taken up when it states it, and a yes to nothing confirms nothing.
    With the environment's own user as the policy of `user_0` (`BoundUser`) the agent's
    observations, rewards, flags and infos are those of the Gymnasium environment, bit for bit.

    ## Action Spaces
    `agent_0`: the Gymnasium environment's, `action="text"` or `"act"`.
    `user_0`: `user_action="text"`: at most 1,024 characters, speech and calls of its own tools
    mixed, calls in the agent's format. `"act"`: `MultiDiscrete([n] * acts_per_turn)`: 0 says
    nothing, then the user's acts, then the calls of its tools, in the order of
    `user_names`; calls run first, the acts are put into words as the simulated user's are.
    After eight steps of tools alone the floor passes in silence.

    ## Observation Spaces
    `Dict`s, none with a key called `observation`. `agent_0`: the Gymnasium observation under its
    name (`message`, `embedding`, …), or the parts of `dict`. `user_0`: `message` (what
    the agent said), `tool_results` (of its own tools), `role` (who it is, what it wants and
    knows), `tools`, `turn`, `features` (what it can say, said and heard; see `user_layout`); or one
    of `message` and `features` alone. In act mode both have an `action_mask`: the agent's
    legal acts; for the user a tuple of masks, one for each act of the turn, 1 where an act is true
    of it. An act beyond the mask is not taken up.

    ## Rewards
    `agent_0`: as in the Gymnasium environment (`reward=`). `user_0`, by `user_reward`:
    `"cooperative"` is paid what the agent is paid, `"adversarial"` minus that, `"realistic"` the
    log-likelihood of each of its turns under the simulated user, in nats, in [-20, 0]; -20 is
    what a turn gets that the simulated user cannot produce.

    ## Episode End
    Both sides end together, as in the Gymnasium environment: the user leaves, a transfer, the agent
    hangs up, too many errors; truncated after `max_turns` agent turns, which the user still
    answers, or once both sides have made `max_cycles` steps, which nobody answers.

    ## Information
    `agent_0`: the Gymnasium environment's keys. `user_0`: `task_id`, `split`, `turn` (agent
    turns), `tool_results`, `ignored` (acts of its newest turn that did not count),
    `log_likelihood` (nats, of its newest turn, with the realistic reward; else 0), `success`,
    `failure_reason`, and in act mode `action_mask`.

    ## Arguments
    Those of the Gymnasium environment, for the agent and the task, and:

    | parameter | default | |
    |---|---|---|
    | `user_action` | `"text"` | `"text"` or `"act"` |
    | `user_observation` | `"dict"` | `"dict"`, `"features"` or `"message"` |
    | `user_reward` | `"cooperative"` | `"cooperative"`, `"realistic"` or `"adversarial"` |
    | `acts_per_turn` | 8 | most acts and calls of the user in one action |
    | `max_cycles` | None | steps that both sides make before the episode is cut off |

    ## Version History
    * v0: first version.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "name": "convgym_v0",
        "render_modes": ["ansi", "human"],
        "render_fps": 4,
        "is_parallelizable": False,
    }

    def __init__(
        self,
        environment: str,
        side: str = "",
        *,
        user_action: str = "text",
        user_observation: str = "dict",
        user_reward: str = "cooperative",
        acts_per_turn: int = 8,
        max_cycles: int | None = None,
        render_mode: str | None = None,
        **keywords: Any,
    ) -> None:
        """`environment` and `side` are entry points: the Gymnasium class, and a `UserSide`."""
        super().__init__()
        choose("action", keywords.get("action", "text"), ACTION_MODES)
        choose("user_action", user_action, ACTION_MODES)
        choose("user_observation", user_observation, OBSERVATIONS)
        self._user_reward = choose("user_reward", user_reward, USER_REWARDS)
        if not (is_whole(acts_per_turn) and 1 <= acts_per_turn <= 64):
            raise InvalidConfiguration(f"acts_per_turn={acts_per_turn!r}; it takes 1 to 64")
        if not (max_cycles is None or (is_whole(max_cycles) and max_cycles >= 1)):
            raise InvalidConfiguration(f"max_cycles={max_cycles!r}; it takes None, or 1 and more")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnknownRenderMode(f"render_mode={render_mode!r} is not None, ansi or human")
        self.render_mode, self.max_cycles = render_mode, max_cycles
        self._env: HalvedEnv = halved(environment)(**keywords, render_mode="ansi")
        domain = self._env.domain
        self._agent_observation, self._agent_action = self._env.modes
        name = f"convgym_{domain.domain.replace('-', '_')}_v0"
        self.metadata = {**type(self).metadata, "name": name}
        made: UserSide = load(side)(domain) if side else PlainSide(domain)
        self._side = made
        self.codec = UserCodec(
            self._side,
            domain.vocabulary,
            domain.actions,
            action=user_action,
            observation=user_observation,
            acts_per_turn=int(acts_per_turn),
            most_turns=self._env.max_turns + 1,
        )
        self._describe, read = self._env.roles()
        if read is None and user_action == "text":
            raise InvalidConfiguration(
                'the words of this domain\'s user cannot be read; take user_action="act"'
            )
        self._outside = OutsideUser(self._env.played(), read or read_nothing)
        self._likelihood = (
            TurnLikelihood(domain, self._env.model) if user_reward == "realistic" else None
        )
        self._own_turn: OwnTurn | None = None
        self._role = ""
        self.possible_agents = [AGENT, USER]
        self.agents: list[str] = []
        self._action_spaces = {AGENT: self._agent_space(), USER: self.codec.action_space}
        self._observation_spaces: dict[str, spaces.Space[Any]] = {
            AGENT: self._agent_view_space(), USER: self.codec.make_space()
        }  # fmt: skip
        state = len(domain.layout) + len(self.codec.layout)
        self.state_space = spaces.Box(0.0, 255.0, (state,), dtype=np.float32)

    # -- spaces ----------------------------------------------------------------------------------

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The same object each time."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The same object each time."""
        return self._action_spaces[agent]

    @property
    def user_names(self) -> tuple[str, ...]:
        """What each number of the user's act mode means."""
        return self.codec.names

    @property
    def user_layout(self) -> tuple[str, ...]:
        """The names of the user's features."""
        return self.codec.layout

    @property
    def role(self) -> str:
        """Who `user_0` is in the running episode, what it wants and what it knows."""
        return self._role

    @property
    def conversation(self) -> HalvedEnv:
        """The Gymnasium environment inside, for what it says of tasks and spaces."""
        return self._env

    def _agent_space(self) -> spaces.Space[Any]:
        space: Any = self._env.action_space
        if self._agent_action == "act":
            return space  # type: ignore[no-any-return]
        return Utterances(space.max_length, talk(space.utterances))

    def _agent_view_space(self) -> spaces.Dict:
        space = self._env.observation_space
        parts = dict(space) if isinstance(space, spaces.Dict) else {self._agent_observation: space}
        if self._agent_action == "act":
            parts["action_mask"] = spaces.MultiBinary(len(self._env.domain.actions))
        return spaces.Dict(parts)

    # -- reset and step ----------------------------------------------------------------------------

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode; `options` are the Gymnasium environment's.

        A key called `options`, which PettingZoo's own tests send, means nothing.
        """
        if isinstance(options, Mapping):  # what is none is refused below
            options = {k: v for k, v in options.items() if k != "options"} or None
        observation, info = self._env.begin(seed, options)
        episode = self._env.episode
        self.agents = [*self.possible_agents]
        self.rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._stepped = dict.fromkeys(self.agents, 0)
        self._opened, self._own_turn = False, None
        self._skip_agent_selection = None
        self._lines: list[str] = []
        self._printed = 0
        self._own = self._side.open(episode)
        self._outside.begin()
        self._memory = self.codec.memory()
        self._ignored, self._nats = "", 0.0
        self._role = self._side.describe(episode, self._own, self._describe(episode))
        if self._likelihood is not None:
            self._likelihood.begin(episode.user)
        self._side.sync(episode, self._own)
        self.infos = {AGENT: info, USER: {}}
        self._views = {AGENT: self._agent_view(observation, info)}
        self._give_floor(USER)
        if self.render_mode == "human":
            self.render()

    def step(self, action: Any) -> None:
        """One action of `agent_selection`: it speaks, or calls tools and keeps the floor.

        Raises InvalidAction for an action outside the space; the episode stays as it was.
        """
        if not self.agents:
            raise gym.error.ResetNeeded("step came without an episode under way; call reset first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        (self._agent_step if agent == AGENT else self._user_step)(action)
        self._count(agent)

    def _count(self, agent: str) -> None:
        """Close the step that `agent` has made."""
        self._stepped[agent] += 1
        if self.max_cycles is not None and min(self._stepped.values()) >= self.max_cycles:
            self.cut()
        self._cumulative_rewards[agent] = 0.0
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def _agent_step(self, action: Any) -> None:
        taken, words = self._env.take(action)
        self._after_agent(taken.heard is None, words)

    def pass_in_silence(self) -> None:
        """Step for whoever has the floor, saying nothing; the parallel form needs it."""
        if self.agent_selection == USER:
            self.step("" if self.codec.action == "text" else self.codec.encoded((), ""))
            return
        self._env.take_silence()
        self._after_agent(False, "")
        self._count(AGENT)

    def _after_agent(self, keeps_floor: bool, words: str) -> None:
        self._clear_rewards()
        self._side.sync(self._env.episode, self._own)
        if keeps_floor:
            self._settle(None)
            return
        self.codec.hear(self._memory, self._env.heard or (), words)
        self._give_floor(USER)

    def _user_step(self, action: Any) -> None:
        episode, own = self._env.episode, self._own_turn
        if own is not None and _same(action, own.action):
            self._clear_rewards()
            self._nats = self._likelihood_of(own.turn.acts)
            episode.restore(own.after)
            self._ignored = ""
            self._user_speaks(own.turn)
            return
        intent = self.codec.read(action)
        self._clear_rewards()
        memory = self._memory
        memory.results = [*intent.errors]
        for call in intent.calls:
            memory.results.append(self._side.call(episode, self._own, call))
            self._lines.append(f"{call.name} {json.dumps(dict(call.arguments))}")
            self._side.sync(episode, self._own)
            self._own_turn = None  # it may see things otherwise now
        self.codec.note_calls(memory, intent.calls)
        memory.in_a_row += not intent.speaks
        if not intent.speaks and memory.in_a_row < MOST_TOOL_STEPS:
            self._give_floor(USER)
            return
        turn = self._from_outside(intent.offered if intent.speaks else Offered())
        self._user_speaks(turn)

    def _from_outside(self, offered: Offered) -> UserTurn:
        episode, outside = self._env.episode, self._outside
        before = episode.snapshot() if self._likelihood is not None else episode
        turn = outside.turn(episode, self._env.heard, offered, self._known())
        left_out = [act for act in outside.proposed if act not in turn.acts]
        self._ignored = " ".join(self.codec.names[act + 1] for act in left_out)
        self._nats = self._likelihood_of(outside.proposed, before)
        return turn

    def _likelihood_of(self, acts: tuple[int, ...], before: Episode | None = None) -> float:
        if self._likelihood is None:
            return 0.0
        return self._likelihood.take(before or self._env.episode, self._env.heard, acts)

    def _user_speaks(self, turn: UserTurn) -> None:
        self._own_turn = None
        self.codec.note_turn(self._memory, turn.acts)
        self._side.sync(self._env.episode, self._own)
        if self._opened:
            self._settle(turn)
        else:
            self._opened = True
            observation, info = self._env.opened(turn)
            self._see(observation, info)
        if self._user_reward == "realistic":
            self.rewards[USER] = self._nats

    def _settle(self, answer: UserTurn | None) -> None:
        self._end_step(self._env.settle(answer))

    def cut(self) -> None:
        """Cut the episode off here, as truncated, unless it has ended."""
        if self.agents and not self._env.episode.end:
            self._end_step(self._env.cut())

    def _end_step(self, result: Step) -> None:
        observation, reward, terminated, truncated, info = result
        self._side.sync(self._env.episode, self._own)
        self.rewards[AGENT] += reward
        if self._user_reward != "realistic":
            self.rewards[USER] += reward if self._user_reward == "cooperative" else -reward
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self._see(observation, info)

    def _see(self, observation: Any, info: dict[str, Any]) -> None:
        self.infos[AGENT] = info
        self._views[AGENT] = self._agent_view(observation, info)
        self._give_floor(AGENT)

    def _give_floor(self, side: str) -> None:
        self.agent_selection = side
        self.infos[USER] = self._user_info()

    # -- the simulated user ------------------------------------------------------------------------

    def own_action(self) -> Any:
        """What the environment's own user does now, as an action of `user_0`.

        First the call of a tool, where what it says rests on one. Stepping the action that came
        last makes its turn as it is, choices and all. Raises InvalidConfiguration where it is not
        the user's turn.
        """
        if not self.agents or self.agent_selection != USER or self._env.episode.end:
            raise InvalidConfiguration("own_action came when user_0 has not the floor")
        if self._own_turn is None:
            after = self._env.episode.snapshot()
            turn = self._env.own_turn(after)
            words = self._env.own_words(after, turn) if self.codec.action == "text" else ""
            self._own_turn = OwnTurn(turn, after, self.codec.encoded(turn.acts, words))
        turn, after = self._own_turn.turn, self._own_turn.after
        calls = self._side.rests_on(self._env.episode, self._own, turn.acts)
        return self.codec.encoded_calls(calls) if calls else self._own_turn.action

    def _known(self) -> Known:
        """What the user can truthfully do now."""
        episode = self._env.episode
        known = known_acts(episode.user, self._env.domain.vocabulary)
        return self._side.truthful(episode, self._own, known)

    # -- what is seen ------------------------------------------------------------------------------

    def observe(self, agent: str) -> Any:
        """What `agent` saw when it last had the floor; at the end, what the end brought."""
        if agent == AGENT:
            return self._views[AGENT]
        return self.codec.observe(self._memory, self._known(), self._user_mask(), self._role)

    def _agent_view(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        whole = isinstance(self._env.observation_space, spaces.Dict)
        view = dict(observation) if whole else {self._agent_observation: observation}
        if self._agent_action == "act":
            view["action_mask"] = info["action_mask"].copy()
        return view

    def gymnasium_observation(self, view: dict[str, Any]) -> Any:
        """What the Gymnasium environment would have shown in place of the agent's `view`."""
        if isinstance(self._env.observation_space, spaces.Dict):
            return {name: view[name] for name in self._env.observation_space}
        return view[self._agent_observation]

    def _user_mask(self) -> NDArray[np.int8]:
        return self.codec.mask(self._known())

    def _user_info(self) -> dict[str, Any]:
        episode = self._env.episode
        info: dict[str, Any] = {
            "task_id": episode.task.task_id,
            "split": episode.task.split,
            "turn": episode.turn,
            "tool_results": "\n".join(self._memory.results),
            "ignored": self._ignored,
            "log_likelihood": self._nats,
            "success": bool(self.infos[AGENT]["success"]),
            "failure_reason": self.infos[AGENT]["failure_reason"],
        }
        if self.codec.action == "act":
            info["action_mask"] = self.codec.masks(self._user_mask())
        return info

    def state(self) -> NDArray[np.float32]:
        """The belief of the desk and the features of the user, for a critic that sees both."""
        belief = np.frombuffer(self._env.episode.belief, dtype=np.uint8).astype(np.float32)
        return np.concatenate((belief, self.codec.features(self._memory, self._known())))

    # -- for people ------------------------------------------------------------------------------

    def render(self) -> str | None:  # type: ignore[override]
        """`ansi`: the conversation, its ledger and the user's calls; `human`: prints new lines."""
        if self.render_mode is None:
            return None
        if self.render_mode == "human":
            lines = self._env.lines()
            for line in lines[self._printed :]:
                print(line)
            self._printed = len(lines)
            return None
        calls = [f"  {line}" for line in self._lines]
        return "\n".join([self._env.render() or "", "  -- the user's tools", *calls])

    def close(self) -> None:
        """Let go of what the conversation holds."""
        self._env.close()


def _same(action: Any, other: Any) -> bool:
    if isinstance(other, str) or isinstance(action, str):
        return isinstance(action, str) and action == other
    return action is not None and np.array_equal(np.asarray(action), other)


