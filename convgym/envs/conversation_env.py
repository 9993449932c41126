"""The Gymnasium driver: action in, observation out, whatever the domain.

    action ─► codec ─► AgentTurn ─► Engine.apply ─► Episode ─► observation codec
              act: a number             │            message | transcript | dict | features
              text: understood          └─► reward codec: success | graded | milestones

Knows nothing of orders or customers; a subclass hands in the domain.
"""

from __future__ import annotations

import json
from numbers import Integral, Real
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.actions import ActionTable
from convgym.engine.acts import AgentTurn, UserTurn
from convgym.engine.belief import BeliefLayout
from convgym.engine.engine import ERROR_BUDGET, Engine
from convgym.engine.engine import Desk as EngineDesk
from convgym.engine.episode import Episode
from convgym.engine.grading import Grade
from convgym.engine.tasks import SPLITS, check_split, parse_task_id
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.language.phrases import PhraseBank
from convgym.spaces import CHARSET, UtteranceSpace, sanitize
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import DecisionModel
from convgym.users.fit import UserFit
from convgym.users.persona import Persona, draw_persona, named_persona

ACTION_LENGTH = 4096
MESSAGE_LENGTH = 4096
POLICY_LENGTH = 4096
VIEW_LENGTH = 4096
TRANSCRIPT_LENGTH = 16384
_AGENT_LINE = 1024
"""An agent's message is clipped to this in a transcript; the customer read all of it."""

OBSERVATIONS = ("message", "transcript", "dict", "features")
ACTION_MODES = ("text", "act")
REWARDS = ("success", "graded", "milestones")


class Domain(EngineDesk, Protocol):
    """What a domain hands to the driver beside what it does for the engine."""

    domain: str
    actions: ActionTable
    layout: BeliefLayout
    vocabulary: dict[str, int]
    scales: dict[str, float]
    tools: str
    """JSON schemas of the tools."""

    @property
    def violations(self) -> tuple[str, ...]: ...
    @property
    def utterances(self) -> tuple[str, ...]:
        """What `action_space.sample()` says in text mode."""

    def task(self, split: str, number: int) -> Any: ...
    def open(self, episode: Episode, persona: Persona) -> None: ...
    def policy_document(self, task: Any) -> str: ...
    def turn(self, episode: Episode, number: int) -> AgentTurn: ...
    def understand(self, episode: Episode, text: str) -> AgentTurn: ...
    def user_banks(self) -> dict[str, PhraseBank]: ...
    def user_text(self, episode: Episode, turn: UserTurn, bank: PhraseBank, index: int) -> str: ...
    def acts_json(self, episode: Episode, turn: UserTurn) -> str: ...
    def view(self, episode: Episode) -> dict[str, Any]: ...
    def agent_text(self, episode: Episode, number: int) -> str: ...
    def privileged(self, episode: Episode) -> dict[str, Any]: ...


def _choose(keyword: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidConfiguration(f"{keyword}={value!r} is not one of {', '.join(allowed)}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


class ConversationEnv(gym.Env[Any, Any]):
    """A conversation between an agent, which acts, and a simulated user.

    Subclasses set `make_domain`. See `CustomerServiceEnv` for the meaning of the keywords.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012

    def make_domain(self) -> Domain:
        """The domain's desk; it holds no episode's state and may be shared."""
        raise NotImplementedError

    def __init__(
        self,
        observation: str = "message",
        action: str = "text",
        split: str = "train",
        task_id: str | None = None,
        persona: str | None = None,
        user: str | None = None,
        phrases: str = "train",
        reward: str = "success",
        discount: float = 1.0,
        max_turns: int = 30,
        privileged: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self._observation = _choose("observation", observation, OBSERVATIONS)
        self._action = _choose("action", action, ACTION_MODES)
        self._reward = _choose("reward", reward, REWARDS)
        self._split = check_split(split)
        self._task_id = task_id
        if task_id is not None:
            parse_task_id(task_id)
        self._persona = named_persona(persona) if persona is not None else None
        if not (_is_number(discount) and 0.0 < discount <= 1.0):
            raise InvalidConfiguration(f"discount={discount!r} is not a number in (0, 1]")
        if not isinstance(privileged, bool):
            raise InvalidConfiguration(f"privileged={privileged!r} is not True or False")
        if not (user is None or isinstance(user, str)):
            raise InvalidConfiguration(f"user={user!r} is not the path of a fitted user, a str")
        if not (_is_whole(max_turns) and 2 <= max_turns <= 200):
            raise InvalidConfiguration(f"max_turns={max_turns!r}; it takes 2 to 200 agent turns")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidConfiguration(f"render_mode={render_mode!r} is not None, ansi or human")
        self._discount = float(discount)
        self._privileged = privileged
        self.render_mode = render_mode

        self._domain = domain = self.make_domain()
        fit = UserFit.from_json(user) if user is not None else None
        model = DecisionModel(fit.bases() if fit else None)
        banks = domain.user_banks()
        self._bank = banks[_choose("phrases", phrases, tuple(banks))]
        if fit:
            self._bank = self._bank.extended(fit.wordings())
        self._engine = Engine(domain, AgendaUser(domain.vocabulary, model), int(max_turns))
        scales = {"turn": 1.0 / max_turns, "errors": 1.0 / ERROR_BUDGET, **domain.scales}
        self._scale = np.array(
            [scales.get(name, 1.0) for name in domain.layout], dtype=np.float32
        )
        self._all_legal = np.ones(len(domain.actions), dtype=np.int8)
        self.action_space = self._make_action_space()
        self.observation_space = self._make_observation_space()

        self._run_key: int | None = None
        self._episodes = 0
        self._episode: Episode | None = None
        self._grade: Grade | None = None
        self._lines: list[tuple[str, str]] = []
        """(who, what) in order; who is "" for a user's turn not yet put into words."""
        self._user_turns: list[UserTurn] = []
        self._potential = 0.0
        self._message = ""
        self._policy = ""

    # -- spaces ----------------------------------------------------------------------------------

    def _make_action_space(self) -> spaces.Space[Any]:
        if self._action == "act":
            return spaces.Discrete(len(self._domain.actions))
        return UtteranceSpace(ACTION_LENGTH, self._domain.utterances)

    def _make_observation_space(self) -> spaces.Space[Any]:
        def text(length: int) -> spaces.Text:
            return spaces.Text(length, min_length=0, charset=CHARSET)

        features = spaces.Box(0.0, 255.0, (len(self._domain.layout),), dtype=np.float32)
        if self._observation == "features":
            return features
        if self._observation == "message":
            return text(MESSAGE_LENGTH)
        if self._observation == "transcript":
            return text(TRANSCRIPT_LENGTH)
        return spaces.Dict(
            {
                "features": features,
                "message": text(MESSAGE_LENGTH),
                "policy": text(POLICY_LENGTH),
                "tool_results": text(MESSAGE_LENGTH),
                "tools": text(POLICY_LENGTH),
                "turn": spaces.Box(0, self._engine.max_turns, (1,), dtype=np.int64),
                "view": text(VIEW_LENGTH),
            }
        )

    # -- reset and step ----------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; `options` may fix `task_id`, `user_seed`, `wording_seed`."""
        super().reset(seed=seed)
        if seed is not None or self._run_key is None:
            self._run_key = int(self.np_random.integers(0, 2**64, dtype=np.uint64))
            self._episodes = 0
        key = keys.child(self._run_key, self._episodes)
        split, number, user_key, wording_key = self._episode_keys(key, options or {})
        task = self._domain.task(split, number)
        self._episodes += 1
        episode = Episode(task, user_key, wording_key, self._domain.layout.row())
        self._domain.open(episode, self._persona or draw_persona(user_key))
        self._engine.open(episode)
        self._episode = episode
        self._lines.clear()
        self._user_turns.clear()
        self._grade = None
        self._potential = 0.0
        self._policy = ""
        self._hear_user()
        info = self._info(0, {})
        if self.render_mode == "human":
            self.render()
        return self._observe(), info

    def _episode_keys(self, key: int, options: dict[str, Any]) -> tuple[str, int, int, int]:
        if not isinstance(options, dict):
            raise InvalidConfiguration(f"reset's options are {options!r}; they must be a dict")
        unknown = set(options) - {"task_id", "user_seed", "wording_seed"}
        if unknown:
            raise InvalidConfiguration(
                f"reset knows no option {min(unknown, key=str)!r}; it takes task_id, user_seed and "
                "wording_seed"
            )
        task_id = options.get("task_id", self._task_id)
        if task_id is not None:
            split, number = parse_task_id(task_id)
        else:
            split = self._split
            number = keys.below(keys.draw(key, keys.TASK, 0, 0), SPLITS[split])
        user_key, wording_key = keys.child(key, 1), keys.child(key, 2)
        for name in ("user_seed", "wording_seed"):
            seed = options.get(name)
            if seed is None:
                continue
            if not _is_whole(seed) or seed < 0:
                raise InvalidConfiguration(f"{name}={seed!r}; it must be a whole number from 0")
            if name == "user_seed":
                user_key = keys.child(keys.mix(int(seed)), 1)
            else:
                wording_key = keys.child(keys.mix(int(seed)), 2)
        return split, number, user_key, wording_key

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One agent turn and what it brings: the user's answer, or tool results."""
        episode = self._episode
        if episode is None or episode.end:
            raise gym.error.ResetNeeded(
                "step came without an episode under way; call reset first, and again after an "
                "episode has terminated or been truncated"
            )
        turn, characters = self._agent_turn(episode, action)
        self._engine.apply(episode, turn)
        if episode.tool_results:
            self._lines.append(("Tool", "\n".join(episode.tool_results)))
        self._hear_user()
        reward, terms = self._score(episode)
        info = self._info(characters, terms)
        ended = bool(episode.end)
        if self.render_mode == "human":
            self.render()
        return (
            self._observe(),
            reward,
            ended and not episode.truncated,
            ended and episode.truncated,
            info,
        )

    def _agent_turn(self, episode: Episode, action: Any) -> tuple[AgentTurn, int]:
        """The action as a turn, and its length in characters."""
        if self._action == "act":
            if not self.action_space.contains(action):
                raise InvalidAction(
                    f"the action {str(action)[:40]!r} is not a whole number from 0 to "
                    f"{len(self._domain.actions) - 1}"
                )
            number = int(action)
            self._lines.append(("Act", str(number)))
            if self._observation == "transcript":
                self._lines[-1] = ("Agent", self._domain.agent_text(episode, number))
            return self._domain.turn(episode, number), 0
        text = sanitize(action, ACTION_LENGTH)
        self._lines.append(("Agent", text[:_AGENT_LINE]))
        return self._domain.understand(episode, text), len(text)

    def _hear_user(self) -> None:
        """Note the user's turn; its words are made only when somebody reads them."""
        assert self._episode is not None
        turn = self._episode.user_turn
        if turn is not None:
            index = len(self._user_turns)
            self._user_turns.append(turn)
            features = self._observation == "features"
            line = ("", str(index)) if features else ("Customer", self._in_words(index))
            self._lines.append(line)

    def _in_words(self, index: int) -> str:
        """The user's `index`-th turn."""
        assert self._episode is not None
        return self._domain.user_text(self._episode, self._user_turns[index], self._bank, index)

    def _score(self, episode: Episode) -> tuple[float, dict[str, float]]:
        """The reward of this step and its terms."""
        self._grade = grade = self._domain.grade(episode)
        if self._reward != "milestones" and not episode.end:
            return 0.0, {}
        success = float(self._succeeded(episode, grade))
        if self._reward == "success":
            return success, {"success": success}
        if self._reward == "graded":
            # Terminal only: learners bootstrap where an episode was cut off, so what is paid
            # there would be counted twice, and stalling to the turn cap would pay best (tried).
            graded = 0.0 if episode.truncated else grade.graded
            return graded, {"graded": graded, "success": success}
        # F = γ Φ(s') − Φ(s), with Φ = 0 where the episode has terminated (Ng et al., 1999).
        potential = 0.0 if episode.end and not episode.truncated else grade.progress
        shaping = self._discount * potential - self._potential
        self._potential = potential
        return success + shaping, {"success": success, "milestones": shaping}

    # -- what is seen ------------------------------------------------------------------------------

    def _features(self) -> NDArray[np.float32]:
        assert self._episode is not None
        return np.frombuffer(self._episode.belief, dtype=np.uint8) * self._scale

    def action_masks(self) -> NDArray[np.int8]:
        """1 for each act that is legal now, from what the agent has seen.  # (actions,)"""
        if self._action == "text" or self._episode is None:
            return self._all_legal.copy()
        return self._domain.actions.mask(np.frombuffer(self._episode.belief, dtype=np.uint8))

    @property
    def system_prompt(self) -> str:
        """Policy document and tool schemas of the running episode."""
        if self._episode is None:
            raise gym.error.ResetNeeded("the policy is an episode's; call reset first")
        return f"{self._policy_document()}\n\nTools:\n{self._domain.tools}"

    def _policy_document(self) -> str:
        if not self._policy and self._episode is not None:
            self._policy = self._domain.policy_document(self._episode.task)
        return self._policy

    def _newest(self) -> str:
        """What came back from the newest step: the tools' words, then the user's."""
        assert self._episode is not None
        newest = list(self._episode.tool_results)
        if self._episode.user_turn is not None:
            newest.append(self._lines[-1][1])
        return "\n".join(newest)[:MESSAGE_LENGTH]

    def _observe(self) -> Any:
        if self._observation == "features":
            return self._features()
        if self._observation == "message":
            return self._newest()
        if self._observation == "transcript":
            return self._transcript()
        episode = self._episode
        assert episode is not None
        return {
            "features": self._features(),
            "message": self._lines[-1][1] if episode.user_turn is not None else "",
            "policy": self._policy_document(),
            "tool_results": "\n".join(episode.tool_results)[:MESSAGE_LENGTH],
            "tools": self._domain.tools,
            "turn": np.array([episode.turn], dtype=np.int64),
            "view": json.dumps(self._domain.view(episode)),
        }

    def _transcript(self) -> str:
        head = self.system_prompt
        lines = [f"{who}: {text}" for who, text in self._lines]
        room = TRANSCRIPT_LENGTH - len(head) - 8
        kept: list[str] = []
        for line in reversed(lines):
            room -= len(line) + 1
            if room < 0:
                kept.append("[...]")
                break
            kept.append(line)
        return "\n".join((head, "", *reversed(kept)))

    def _info(self, characters: int, terms: dict[str, float]) -> dict[str, Any]:
        episode = self._episode
        assert episode is not None
        turn, grade = episode.user_turn, self._grade
        ended = bool(episode.end)
        success = grade is not None and self._succeeded(episode, grade)
        names = self._domain.violations
        info: dict[str, Any] = {
            "task_id": episode.task.task_id,
            "split": episode.task.split,
            "turn": episode.turn,
            "user_acts": self._domain.acts_json(episode, turn) if turn else "[]",
            "user_log_prob": turn.log_prob if turn else 0.0,
            "tool_results": "\n".join(episode.tool_results),
            "errors": episode.errors,
            "violations": " ".join(
                name for bit, name in enumerate(names) if episode.violations >> bit & 1
            )
            if episode.violations
            else "",
            "milestones": grade.progress if grade and self._shows_progress(ended) else 0.0,
            "action_mask": self.action_masks(),
            "cost_characters": characters,
            "success": success,
            "reward_terms": json.dumps({k: round(v, 9) for k, v in terms.items()}),
            "failure_reason": self._failure(episode, success) if ended else "",
            "oracle_length": episode.task.oracle_length if ended else 0,
        }
        if self._privileged:
            info["privileged"] = json.dumps(self._domain.privileged(episode))
        return info

    def _shows_progress(self, ended: bool) -> bool:
        """Progress tells which order is meant, so it shows only where the reward tells it too."""
        return ended or self._reward == "milestones" or self._privileged

    @staticmethod
    def _succeeded(episode: Episode, grade: Grade) -> bool:
        """Success is earned by the step that ends the conversation, never by the turn cap."""
        return bool(episode.end) and not episode.truncated and grade.success

    @staticmethod
    def _failure(episode: Episode, success: bool) -> str:
        if success:
            return ""
        return "violation" if episode.violations else episode.end

    # -- for people ------------------------------------------------------------------------------

    def render(self) -> str | None:  # type: ignore[override]
        """`ansi`: the conversation with its ledger as text; `human`: prints the newest lines."""
        if self.render_mode is None or self._episode is None:
            return None
        lines = []
        for who, text in self._lines:
            if who == "Act":
                who, text = "Agent", f"({self._domain.actions.names[int(text)]})"
            elif not who:
                who, text = "Customer", self._in_words(int(text))
            lines.append(f"{who:>8}: {text}")
        if self.render_mode == "human":
            print("\n".join(lines[-2:]))
            return None
        ledger = [f"  {e.turn:>3}  {e.event}: {e.detail}" for e in self._episode.ledger]
        return "\n".join([*lines, "  -- ledger", *ledger])
