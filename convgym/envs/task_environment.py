"""A conversational task of one's own: give a task, a user and a verdict, get an environment.

    draw_task ─► open ─► observation ─► action ─► Reply ─► call, answer ─► succeeded ─► reward
    your hooks:  ────                              your hooks: ─────────────────────

Resetting, seeds, spaces, tool calls, rewards, info and rendering are given, on the contract that
every registered id keeps. Knows no task; `ScenariosEnv` is one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.engine import ERROR_BUDGET
from convgym.engine.grading import CLOSING
from convgym.engine.tasks import check_split
from convgym.envs.episode_setup import (
    OPTIONS,
    EpisodeSetup,
    choose,
    hundredths,
    is_number,
    is_whole,
    persona_or_ranges,
)
from convgym.envs.reply import Reply
from convgym.envs.shared_text import SharedText
from convgym.envs.task_episode import Answer, TaskEpisode, as_typed
from convgym.envs.task_hooks import MOST_TURNS, TaskHooks, tool
from convgym.envs.text_vectors import NewestMessages, check_messages, text_vectors
from convgym.envs.transcript import AGENT, TOOL, Transcript
from convgym.errors import InvalidAction, InvalidConfiguration, UnknownRenderMode
from convgym.language.tool_calls import check_arguments
from convgym.language.voice import TEMPLATE
from convgym.randomization.scenarios import user_key_of, wording_key_of
from convgym.spaces import UtteranceSpace, sanitize
from convgym.users.decisions import DecisionModel
from convgym.users.fitted_user import FittedUser
from convgym.users.persona import TRAITS, Persona, own_style

ACTION_LENGTH = MESSAGE_LENGTH = POLICY_LENGTH = VIEW_LENGTH = 4096
TRANSCRIPT_LENGTH = 16384
OBSERVATIONS = ("message", "transcript", "dict", "embedding")
REWARDS = ("success", "graded", "milestones")
USER = "User"
END_CONVERSATION = "end_conversation"
_SILENT = Answer("")


class TaskEnvironment(TaskHooks, gym.Env[Any, Any]):
    """A conversation about a task of one's own; the base class to subclass.

    ## Description
    A user wants something; the agent talks with it and may call tools. A subclass says what:

    | hook | gives |
    |---|---|
    | `name` | names the task family; tasks are drawn from it |
    | `policy` | what the agent reads first; `policy_document(task)` where it depends on the task |
    | `tools` | schemas by name, made by `tool(...)`; `end_conversation` is always there |
    | `draw_task(draws)` | a task, any plain value, from counter-based draws |
    | `open(episode)` | the user's first words: a text or an `Answer` |
    | `answer(episode, reply)` | its answer to a message: a text or an `Answer` |
    | `call(episode, name, arguments)` | runs a checked tool call; returns what the agent reads |
    | `succeeded(episode)` | whether the task is done, asked when the conversation has ended |
    | `progress(episode)` | evidence so far, 0 to 1; left out it is 0, and "graded" ends at ¼ |
    | `view(episode)` | what the agent has in sight, as JSON; `hidden(episode)`: what it has not |
    | `give_up(episode)` | the user's last words when it has lost patience |
    | `oracle_length(task)` | agent turns that somebody who knows the task needs; 0 unknown |

    `reply` (`convgym.envs.reply.Reply`) tells what a message `says`, `asks` and `denies`.
    `episode` (`convgym.envs.task_episode.TaskEpisode`) holds `task`, `notes` for your own
    memory, `bother`, and all chance: `decide`, `chance` and `pick` log their probabilities, `word`
    chooses words. Use no other source of chance, and keep `task` and `notes` picklable.

    ## Action Space
    A `UtteranceSpace(4096)`: a reply of at most 4,096 characters, speech and tool calls
    mixed, as in `ConvGym/CustomerService-v0`. Calls run first. A reply of calls alone keeps
    the floor; `end_conversation` comes last. A malformed or unknown call is an error; five
    errors end the episode.

    ## Observation Space
    | `observation` | space | what |
    |---|---|---|
    | `message` | `Text(4096)` | what the newest step brought, alone: partially observed |
    | `transcript` | `Text(16384)` | policy, tools and the whole conversation |
    | `dict` | `Dict` | `policy`, `tools`, `message`, `tool_results`, `view`, `turn` |
    | `embedding` | `Box(-1, 1, (1024,), float32)` | vectors of the newest `messages`, as in \
`ConvGym/CustomerService-v0` |

    ## Starting State
    A task of `split`, a persona and a wording, each drawn from its own key; the user has said
    its first words.

    ## Rewards
    `reward="success"`: 1 once, at the end, if `succeeded` and nothing was violated; else 0.
    `"graded"`: at termination ¾ `progress` + ¼ success; 0 where something was violated.
    `"milestones"`: success plus `discount` Φ(s') − Φ(s), Φ = ¾ `progress`, 0 at termination.

    ## Episode End
    Terminated: the user leaves, content or out of patience; the agent hangs up; five
    errors. Truncated: `max_turns` agent turns.

    ## Information
    The same keys at reset and every step: `task_id`, `split`, `turn`, `difficulty` (-1 where none
    is set), `wording` ("template" where the user spoke), `user_acts` (JSON), `user_log_prob`
    (nats, of the user's choices in this step), `tool_results`, `errors`, `violations`, `milestones`
    (Φ; 0 until the end unless the reward is "milestones"), `action_mask` (one 1: any text is
    legal), `cost_characters`, `success`, `reward_terms` (JSON), `failure_reason`, `oracle_length`
    (at the end); `privileged` (JSON) only on request.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `observation` | `"message"` | see above |
    | `action` | `"text"` | `"text"`; there are no numbered acts, so no candidates either |
    | `split` | `"train"` | tasks of different splits share no key |
    | `task_id` | None | play one task, such as `"test-17"` |
    | `topic` | None | one of `topics`, where the class has any |
    | `difficulty` | None | 0 (easy) to 1 (hard): moves the persona |
    | `persona` | None | name of a built-in one, mapping of traits (a pair is a range); None draws |
    | `style` | None | how the user writes: a name or a mapping; None writes as the persona does |
    | `response_diversity` | 1.0 | 0 always words a stock phrase alike, 1 uses all of them |
    | `user` | None | path of a user fitted to logs, whose probabilities the decision points take |
    | `reward` | `"success"` | see above |
    | `discount` | 1.0 | γ of the milestones' shaping; the learner's |
    | `max_turns` | 30 | agent turns, 2 to 200 |
    | `privileged` | False | put what is hidden into `info` |
    | `render_mode` | None | `"ansi"` or `"human"` |
    | `messages` | 4 | messages in an embedding |
    | `encoder` | `"hashed"` | what makes their vectors: a name, or an `Encoder` |

    `reset(options=)` takes `task_id`, `split`, `topic`, `difficulty`, `persona`, `style`,
    `user_seed` and `wording_seed` for this episode.

    ## Vectorized environment
    `gym.make_vec(...)` is the synchronous one. `"async"` is right too: text
    survives its shared memory.

    ## Version History
    * v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012

    # -- making ------------------------------------------------------------------------------------

    def __init__(
        self,
        observation: str = "message",
        action: str = "text",
        split: str = "train",
        task_id: str | None = None,
        topic: str | None = None,
        difficulty: float | None = None,
        persona: Any = None,
        style: Any = None,
        response_diversity: float = 1.0,
        user: str | None = None,
        reward: str = "success",
        discount: float = 1.0,
        max_turns: int = 30,
        privileged: bool = False,
        render_mode: str | None = None,
        messages: int = 4,
        encoder: Any = "hashed",
    ) -> None:
        self._observation = choose("observation", observation, OBSERVATIONS)
        if action != "text":
            raise InvalidConfiguration(
                f"action={action!r}; {type(self).__name__} has no numbered acts, and so no "
                'candidate replies either; take action="text"'
            )
        self._reward = choose("reward", reward, REWARDS)
        if not (is_number(discount) and 0.0 < discount <= 1.0):
            raise InvalidConfiguration(f"discount={discount!r} is not a number in (0, 1]")
        if not isinstance(privileged, bool):
            raise InvalidConfiguration(f"privileged={privileged!r} is not True or False")
        if not (is_whole(max_turns) and 2 <= max_turns <= MOST_TURNS):
            raise InvalidConfiguration(f"max_turns={max_turns!r}; it takes 2 to 200 agent turns")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnknownRenderMode(f"render_mode={render_mode!r} is not None, ansi or human")
        if not (user is None or isinstance(user, str | os.PathLike)):
            raise InvalidConfiguration(
                f"user={user!r:.60}; it takes the path of a user fitted to logs, or None"
            )
        self._discount, self._privileged = float(discount), privileged
        self._max_turns, self._messages = int(max_turns), check_messages(messages)
        self._encoder = encoder
        self.render_mode = render_mode
        self._diversity = hundredths("response_diversity", response_diversity)
        self._model = DecisionModel() if user is None else FittedUser.load(user).model()
        self._setup = self._with(
            EpisodeSetup(),
            {
                "task_id": task_id,
                "split": check_split(split),
                "topic": topic,
                "difficulty": difficulty,
                "persona": None if persona is None else persona_or_ranges(persona),
                "style": style,
            },
            "the keywords of this environment",
        )
        schemas = {**self.tools, END_CONVERSATION: tool("Hang up.")}
        self._schemas = {name: dict(body) for name, body in schemas.items()}
        self._tools_json = sanitize(
            json.dumps(
                [{"type": "function", "function": {"name": n, **b}} for n, b in schemas.items()]
            ),
            POLICY_LENGTH,
        )
        self.action_space: spaces.Space[Any] = UtteranceSpace(
            ACTION_LENGTH, [sanitize(u, ACTION_LENGTH) for u in self.utterances]
        )
        self.observation_space = self._make_observation_space()

        self._run_key: int | None = None
        self._episodes = 0
        self._difficulty = -1.0
        self._episode: TaskEpisode | None = None
        self._transcript = Transcript(str, ())
        self._limit = self._max_turns
        self._potential = 0.0
        self._policy = ""

    def _make_observation_space(self) -> spaces.Space[Any]:
        if self._observation == "message":
            return SharedText(MESSAGE_LENGTH)
        if self._observation == "transcript":
            return SharedText(TRANSCRIPT_LENGTH)
        if self._observation == "embedding":
            self._newest = NewestMessages(text_vectors(self._encoder), self._messages)
            return self._newest.space
        return spaces.Dict(
            {
                "message": SharedText(MESSAGE_LENGTH),
                "policy": SharedText(POLICY_LENGTH),
                "tool_results": SharedText(MESSAGE_LENGTH),
                "tools": SharedText(POLICY_LENGTH),
                "turn": spaces.Box(0, self._max_turns, (1,), dtype=np.int64),
                "view": SharedText(VIEW_LENGTH),
            }
        )

    def _with(self, setup: EpisodeSetup, given: Any, where: str) -> EpisodeSetup:
        """`setup` with what `given` fixes."""
        if not isinstance(given, Mapping):
            raise InvalidConfiguration(f"{where} are {given!r}; they must be a dict")
        allowed = (*OPTIONS, *self.aliases)
        unknown = set(given) - set(allowed)
        if unknown:
            raise InvalidConfiguration(
                f"{where} have {min(unknown, key=str)!r}; they take {', '.join(allowed)}"
            )
        fixed: dict[str, Any] = {}
        for called, value in given.items():
            option = self.aliases.get(called, called)
            if value is not None:
                if option in fixed:
                    raise InvalidConfiguration(f"{where} have {called} beside {option}; give one")
                fixed[option] = value
        if "topic" in fixed and not self.topics:
            raise InvalidConfiguration(f"topic={fixed['topic']!r}; this environment has no topics")
        task_id = fixed.pop("task_id", None)
        setup = setup.overridden(fixed, self.topics, where)
        return setup if task_id is None else replace(setup, task_id=self.check_task_id(task_id))

    # -- reset and step ----------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see the class for what `options` may fix."""
        super().reset(seed=seed)
        if seed is not None or self._run_key is None:
            self._run_key = int(self.np_random.integers(0, 2**64, dtype=np.uint64))
            self._episodes = 0
        key = keys.child(self._run_key, self._episodes)
        setup = self._setup
        if options is not None:
            setup = self._with(setup, options, "reset's options")
        task_id, split, task = self.pick_task(setup, key, self._episodes)
        user_key, wording_key = keys.child(key, 1), keys.child(key, 2)
        if setup.user_seed is not None:
            user_key = user_key_of(setup.user_seed)
        if setup.wording_seed is not None:
            wording_key = wording_key_of(setup.wording_seed)
        own_persona, its_style = self.preferred(task)
        if setup.persona is None and own_persona is not None:
            setup = replace(setup, persona=own_persona)
        persona = setup.drawn_persona(user_key, split)
        levels = persona.levels if isinstance(persona, Persona) else persona
        style = setup.style or its_style or own_style(levels, self._diversity)
        self._episodes += 1
        self._difficulty = -1.0 if setup.difficulty is None else setup.difficulty / 100
        self._limit = min(self._max_turns, self.turn_limit(task))
        self._policy = sanitize(self.policy_document(task), POLICY_LENGTH)
        self._potential = 0.0
        self._transcript.clear()
        self._episode = episode = TaskEpisode(
            task_id,
            split,
            task,
            user_key=user_key,
            wording_key=wording_key,
            persona=levels,
            style=replace(style, diversity=min(style.diversity, self._diversity)),
            model=self._model,
        )
        episode.begin_turn()
        self._hear(episode, self.open(episode))
        info = self._info(episode, 0, {}, False)
        if self.render_mode == "human":
            self.render()
        return self._observe(episode), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One agent turn and what it brings: the user's answer, or tool results."""
        episode = self._episode
        if episode is None or episode.end:
            raise gym.error.ResetNeeded(
                "step came without an episode under way; call reset first, and again after an "
                "episode has terminated or been truncated"
            )
        text = sanitize(action, ACTION_LENGTH)
        reply = Reply(text)
        episode.turn += 1
        self._transcript.add(AGENT, text)
        self._run_calls(episode, reply)
        if reply.text or not (reply.calls or reply.errors):
            self._let_answer(episode, reply)
        self._end(episode, reply)
        success = self._succeeds(episode)
        reward, terms = self._score(episode, success)
        info = self._info(episode, len(text), terms, success)
        if self.render_mode == "human":
            self.render()
        over = bool(episode.end)
        ended, cut_off = over and not episode.truncated, over and episode.truncated
        return self._observe(episode), reward, ended, cut_off, info

    def _run_calls(self, episode: TaskEpisode, reply: Reply) -> None:
        """All calls but the one that hangs up, which waits for what is said."""
        episode.answer = None
        results = []
        for error in reply.errors:
            episode.fail(error)
            results.append(error)
        for name, arguments in reply.calls:
            if name != END_CONVERSATION:
                results.append(self._run(episode, name, arguments))
        episode.tool_results = tuple(sanitize(result, MESSAGE_LENGTH) for result in results)
        if results:
            self._transcript.add(TOOL, "\n".join(episode.tool_results))

    def _run(self, episode: TaskEpisode, name: str, arguments: Mapping[str, Any]) -> str:
        body = self._schemas.get(name)
        if body is None:
            wrong = f"there is no tool {name[:40]!r}; there are {', '.join(self._schemas)}"
        else:
            wrong = check_arguments(body["parameters"], arguments)
        if wrong:
            return json.dumps({"error": episode.fail(wrong)})
        result: Any = self.call(episode, name, dict(arguments))
        if not isinstance(result, str):
            raise InvalidConfiguration(
                f"{type(self).__name__}.call returned a {type(result).__name__} for {name!r}; "
                "return what the agent reads, a str"
            )
        return result

    def _let_answer(self, episode: TaskEpisode, reply: Reply) -> None:
        """The user's answer; a user that has just been bothered may leave instead."""
        episode.begin_turn()
        before = episode.bother
        answer = self.answer(episode, reply)
        left = isinstance(answer, Answer) and answer.leaves
        if not left and episode.bother > before and episode.leaves_now():
            answer = Answer(self.give_up(episode), (("give_up", ""),), leaves=True)
            episode.notes["gave_up"] = True
        self._hear(episode, answer)
        episode.earlier.append(reply.content)

    def _hear(self, episode: TaskEpisode, said: Any) -> None:
        """Note the user's turn, typed as it types."""
        answer = Answer(said) if isinstance(said, str) else said
        if not (isinstance(answer, Answer) and isinstance(answer.text, str)):
            raise InvalidConfiguration(
                f"{type(self).__name__} let the user say a {type(said).__name__}; return a str or "
                "an Answer"
            )
        if not all(
            isinstance(one, tuple | list) and len(one) == 2 and all(isinstance(x, str) for x in one)
            for one in answer.acts
        ):
            raise InvalidConfiguration(
                f"{type(self).__name__} let the user do {answer.acts!r:.60}; acts are pairs of "
                'texts, as in (("tell", "day"),)'
            )
        text = as_typed(sanitize(answer.text, MESSAGE_LENGTH), episode)
        answer = answer._replace(text=text[:MESSAGE_LENGTH])
        self._transcript.add(USER, answer.text)
        episode.end_turn(answer)
        if answer.leaves:
            episode.end = "user_closed"

    def _end(self, episode: TaskEpisode, reply: Reply) -> None:
        if episode.end:
            return
        if any(name == END_CONVERSATION for name, _ in reply.calls):
            episode.end = "agent_ended"
            episode.note(END_CONVERSATION, "")
        elif episode.errors >= ERROR_BUDGET:
            episode.end = "error_budget_spent"
        elif episode.turn >= self._limit:
            episode.end, episode.truncated = "turn_cap", True

    def _succeeds(self, episode: TaskEpisode) -> bool:
        """Success is earned by the step that ends the conversation, never by the turn cap."""
        over = bool(episode.end) and not episode.truncated
        return over and not episode.violations and bool(self.succeeded(episode))

    def _evidence(self, episode: TaskEpisode) -> float:
        """Φ: ¾ of the progress, 0 where something was violated."""
        if episode.violations:
            return 0.0
        progress = self.progress(episode)
        if not (is_number(progress) and 0.0 <= progress <= 1.0):
            raise InvalidConfiguration(
                f"{type(self).__name__}.progress returned {progress!r}; return a number from 0 to 1"
            )
        return (1.0 - CLOSING) * float(progress)

    def _score(self, episode: TaskEpisode, success: bool) -> tuple[float, dict[str, float]]:
        """The reward of this step and its terms."""
        earned = float(success)
        if self._reward == "milestones":
            over = episode.end and not episode.truncated
            potential = 0.0 if over else self._evidence(episode)
            shaping = self._discount * potential - self._potential
            self._potential = potential
            return earned + shaping, {"success": earned, "milestones": shaping}
        if not episode.end:
            return 0.0, {}
        if self._reward == "success":
            return earned, {"success": earned}
        graded = 0.0
        if not episode.truncated:
            graded = self._evidence(episode) + CLOSING * earned
        return graded, {"graded": graded, "success": earned}

    # -- what is seen ------------------------------------------------------------------------------

    def _observe(self, episode: TaskEpisode) -> Any:
        if self._observation == "transcript":
            return self._transcript.page(self.system_prompt, TRANSCRIPT_LENGTH)
        if self._observation == "embedding":
            return self._newest.of([text for _, text in self._transcript.lines])
        results = "\n".join(episode.tool_results)[:MESSAGE_LENGTH]
        said = episode.answer.text if episode.answer else ""
        if self._observation == "message":
            both = [*([results] if results else []), *([said] if episode.answer else [])]
            return "\n".join(both)[:MESSAGE_LENGTH]
        return {
            "message": said,
            "policy": self._policy,
            "tool_results": results,
            "tools": self._tools_json,
            "turn": np.array([episode.turn], dtype=np.int64),
            "view": sanitize(json.dumps(self.view(episode)), VIEW_LENGTH),
        }

    def _info(
        self, episode: TaskEpisode, characters: int, terms: dict[str, float], success: bool
    ) -> dict[str, Any]:
        answer, ended = episode.answer, bool(episode.end)
        shown = ended or self._reward == "milestones" or self._privileged
        acts = [{"act": a, "value": v} if v else {"act": a} for a, v in (answer or _SILENT).acts]
        failure = "violation" if episode.violations else episode.end
        info: dict[str, Any] = {
            "task_id": episode.task_id,
            "split": episode.split,
            "turn": episode.turn,
            "difficulty": self._difficulty,
            "wording": TEMPLATE if answer else "",
            "user_acts": json.dumps(acts),
            "user_log_prob": episode.log_prob if answer else 0.0,
            "tool_results": "\n".join(episode.tool_results),
            "errors": episode.errors,
            "violations": " ".join(dict.fromkeys(episode.violations)),
            "milestones": self._evidence(episode) if shown and episode.turn else 0.0,
            "action_mask": self.action_masks(),
            "cost_characters": characters,
            "success": success,
            "reward_terms": json.dumps({k: round(v, 9) for k, v in terms.items()}),
            "failure_reason": failure if ended and not success else "",
            "oracle_length": self.oracle_length(episode.task) if ended else 0,
        }
        if self._privileged:
            info["privileged"] = json.dumps(
                {
                    **self.hidden(episode),
                    "bother": episode.bother,
                    "persona": dict(zip(TRAITS, episode.persona, strict=True)),
                    "decisions": [list(made) for made in episode.decided],
                },
                default=str,
            )
        return info

    # -- for learners and wrappers -----------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        """Policy document and tool schemas of the running episode."""
        if self._episode is None:
            raise gym.error.ResetNeeded("the policy is an episode's; call reset first")
        return f"{self._policy}\n\nTools:\n{self._tools_json}"

    @property
    def draws_tasks(self) -> bool:
        """Whether a task, a topic or a difficulty decides which tasks are drawn."""
        return self._setup.draws_tasks or self._setup.task_id is not None

    @property
    def fixed(self) -> frozenset[str]:
        """Names of the reset options that the keywords fix."""
        return self._setup.fixed

    def action_masks(self) -> NDArray[np.int8]:
        """One 1: any text is legal.  # (1,)"""
        return np.ones(1, dtype=np.int8)

    def said(self, since: int = 0) -> list[tuple[str, str]]:
        """(who, text) of the lines of the running episode from the `since`-th on, in order.

        who is User, Agent or Tool.
        """
        return self._transcript.worded(since)

    def in_words(self, number: int) -> tuple[str, str]:
        """There are no numbered acts here; always raises InvalidAction."""
        raise InvalidAction(
            f"act {number!r} came; {type(self).__name__} has no numbered acts, send a text"
        )

    def render(self) -> str | None:  # type: ignore[override]
        """`ansi`: the conversation with its ledger as text; `human`: prints the newest lines."""
        if self.render_mode is None or self._episode is None:
            return None
        lines = self._transcript.columns()
        if self.render_mode == "human":
            print("\n".join(lines[-2:]))
            return None
        return "\n".join([*lines, "  -- ledger", *(f"  {e}" for e in self._episode.ledger)])
