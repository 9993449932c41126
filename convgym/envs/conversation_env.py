"""The Gymnasium driver: action in, observation out, whatever the domain.

    action ─► codec ─► AgentTurn ─► Engine.apply ─► Episode ─► words ─► observation codec
              act: a number             │                               message | transcript |
              text: understood          └─► reward: success | graded |  dict | features |
              embedding: the nearest act            milestones          embedding

`step` is `prepare` (all but a writer's words) and what comes after it; a vector environment
prepares all rows, has their words written at once, and then steps. Knows nothing of orders or
customers; a subclass hands in the domain.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.acts import AgentTurn, UserTurn
from convgym.engine.engine import ERROR_BUDGET, USER_FAILED, Engine
from convgym.engine.episode import Episode
from convgym.engine.grading import Grade
from convgym.engine.tasks import check_split
from convgym.envs.conditions import Conditions
from convgym.envs.domain import Domain
from convgym.envs.embedding import Embedding
from convgym.envs.episode_setup import (
    EpisodeSetup,
    choose,
    hundredths,
    is_number,
    is_whole,
    persona_or_ranges,
)
from convgym.envs.late_infos import NOT_MADE
from convgym.envs.modes import (
    ACTION_LENGTH,
    ACTION_MODES,
    MESSAGE_LENGTH,
    OBSERVATIONS,
    TRANSCRIPT_LENGTH,
    action_space,
    observation_space,
)
from convgym.envs.step_info import StepInfo
from convgym.envs.transcript import ACT, AGENT, CUSTOMER, TOOL, UNWORDED, Transcript
from convgym.envs.user_words import UserWords
from convgym.errors import InvalidAction, InvalidConfiguration, UnknownRenderMode
from convgym.language.models import ChatModel
from convgym.language.writers import writer_of
from convgym.language.writing import WriteRequest, Written, checked
from convgym.randomization.randomizer import DomainRandomizer
from convgym.randomization.scenarios import user_key_of, wording_key_of
from convgym.spaces import holds, sanitize
from convgym.users.decisions import DecisionModel
from convgym.users.fitted_user import FittedUser
from convgym.users.generative import Describe, ModelUser, Read, chat_model
from convgym.users.persona import Persona

REWARDS = ("success", "graded", "milestones")
OWN_WORDS = "model"
"""`info["wording"]` where the user is a language model itself."""
WRITER_FAILED = "writer_failed"
"""How the failure reason of an episode begins that was cut off for want of words."""
_CELL = np.dtype(np.uint8)


class ConversationEnv(gym.Env[Any, Any]):
    """A conversation between an agent, which acts, and a simulated user.

    Subclasses set `make_domain`. See `CustomerServiceEnv` for the meaning of the keywords.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012

    def make_domain(self) -> Domain:
        """The domain's desk; it holds no episode's state and may be shared."""
        raise NotImplementedError

    def make_role(self) -> tuple[Describe, Read]:
        """How the domain's user is described to who plays it, and how its words are read."""
        raise InvalidConfiguration(
            "no model can play the user of this environment; leave user= away, or give a fitted one"
        )

    def _played_by(self, model: ChatModel) -> ModelUser:
        return ModelUser(model, *self.make_role(), self._domain.vocabulary)

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
        realism: float | None = None,
        writer: Any = None,
        randomizer: Any = None,
        user: Any = None,
        phrases: str | None = None,
        reranker: Any = None,
        reward: str = "success",
        discount: float = 1.0,
        max_turns: int = 50,
        privileged: bool = False,
        render_mode: str | None = None,
        messages: int = 4,
        encoder: Any = "hashed",
    ) -> None:
        self._observation = choose("observation", observation, OBSERVATIONS)
        self._action = choose("action", action, ACTION_MODES)
        self._reward = choose("reward", reward, REWARDS)
        if not (is_number(discount) and 0.0 < discount <= 1.0):
            raise InvalidConfiguration(f"discount={discount!r} is not a number in (0, 1]")
        if not isinstance(privileged, bool):
            raise InvalidConfiguration(f"privileged={privileged!r} is not True or False")
        if not (user is None or isinstance(user, str | os.PathLike)) and action != "text":
            raise InvalidConfiguration(
                'a user played by a model reads what the agent writes; take action="text" with it'
            )
        if not (is_whole(max_turns) and 2 <= max_turns <= 200):
            raise InvalidConfiguration(f"max_turns={max_turns!r}; it takes 2 to 200 agent turns")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnknownRenderMode(f"render_mode={render_mode!r} is not None, ansi or human")
        self._discount = float(discount)
        self._privileged = privileged
        self.render_mode = render_mode

        self._domain = domain = self.make_domain()
        if reranker is not None and reranker is not True and not hasattr(reranker, "propose"):
            raise InvalidConfiguration(
                f"reranker={reranker!r} is neither True, for the built-in one, nor has it propose("
                "text); see convgym.language.reranker"
            )
        domain.reranker = domain.own_reranker() if reranker is True else reranker
        check_split(split, domain.splits)
        self._setup = EpisodeSetup().overridden(
            {
                "task_id": task_id,
                "split": split,
                "topic": topic,
                "difficulty": difficulty,
                "persona": None if persona is None else persona_or_ranges(persona),
                "style": style,
            },
            domain.topics,
            "the keywords of this environment",
        )
        self.randomizer = None if randomizer is None else DomainRandomizer.of(randomizer)
        for named in self.randomizer.topics if self.randomizer else ():
            choose("a topic of the randomizer", named, domain.topics)
        fitted = FittedUser.load(user) if isinstance(user, str | os.PathLike) else None
        self._played = None if user is None or fitted else self._played_by(chat_model(user))
        if realism is None:
            realism = 0.5 if fitted else 0.0
        hundred = hundredths("realism", realism)
        self._decisions = fitted.model(realism) if fitted else DecisionModel()
        voices = domain.user_voices()
        if phrases is not None:
            voices = {part: voices[choose("phrases", phrases, tuple(voices))] for part in voices}
        self._words_of = {
            part: UserWords(
                voice,
                realism=hundred,
                diversity=hundredths("response_diversity", response_diversity),
                writer=None if writer is None else writer_of(writer),
                tagger=domain.user_tagger,
                harvested=fitted.words if fitted else None,
            )
            for part, voice in voices.items()
        }
        self._words = self._words_of["train"]
        user = self._played or domain.make_user(self._decisions)
        self._engine = Engine(domain, user, int(max_turns))
        scales = {"turn": 1.0 / max_turns, "errors": 1.0 / ERROR_BUDGET, **domain.scales}
        self._scale = np.array(
            [scales.get(name, 1.0) for name in domain.layout], dtype=np.float32
        )
        self._infos = StepInfo(domain, action)
        self._n_acts = len(domain.actions)
        self.embedding = embedding = Embedding(domain, encoder, messages)
        self.action_space = action_space(action, domain, embedding)
        self.observation_space = observation_space(observation, domain, embedding, int(max_turns))

        self._run_key: int | None = None
        self._episodes, self._steps, self._drawn_with = 0, 0, 0
        self._difficulty = -1.0
        self._episode: Episode | None = None
        self._grade: Grade | None = None
        self._prepared: tuple[Any, int] | None = None
        """The action whose turn has been taken, and its characters; `step` completes it."""
        self._reset_with: tuple[int | None, dict[str, Any] | None] | None = None
        """The arguments of a reset that has been begun; `reset` completes it."""
        self._request: WriteRequest | None = None
        self._written: Written | None = None
        self._transcript = Transcript(self._in_words, domain.actions.names)
        self._user_turns: list[UserTurn] = []
        self._potential = 0.0
        self._wording = ""
        self._policy = ""

    # -- reset and step ----------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        `options` may fix `task_id`, `split`, `topic`, `difficulty`, `persona`, `style`,
        `user_seed` and `wording_seed` of this episode.
        """
        if self._reset_with is None:
            self.prepare_reset(seed=seed, options=options)
        elif self._reset_with != (seed, options or None):
            raise InvalidConfiguration(
                f"a reset with {self._reset_with} was prepared; complete it with the same arguments"
            )
        self._reset_with = None
        self._hear_user()
        info = self._info(0, {})
        if self.render_mode == "human":
            self.render()
        return self._observe(), info

    def prepare_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> WriteRequest | None:
        """The first half of `reset`: all but the opening words of a writer, which it asks for."""
        super().reset(seed=seed)
        if seed is not None or self._run_key is None:
            self._run_key = int(self.np_random.integers(0, 2**64, dtype=np.uint64))
            self._episodes = 0
        key = keys.child(self._run_key, self._episodes)
        setup, topics = self._setup, self._domain.topics
        if self.randomizer is not None:
            self._drawn_with = keys.child(key, 3)
            drawn = self.randomizer.draw(self._drawn_with, self._steps)
            setup = setup.completed(drawn, topics, "the randomizer's options")
        if options is not None:
            setup = setup.overridden(options, topics, "reset's options")
        task = self._domain.task(*setup.task(key, self._domain.table))
        user_key, wording_key = keys.child(key, 1), keys.child(key, 2)
        if setup.user_seed is not None:
            user_key = user_key_of(setup.user_seed)
        if setup.wording_seed is not None:
            wording_key = wording_key_of(setup.wording_seed)
        persona = setup.drawn_persona(user_key, task.split)
        self._words = self._words_of["held_out" if task.split == "test_lexical" else "train"]
        self._episodes += 1
        self._difficulty = -1.0 if setup.difficulty is None else setup.difficulty / 100
        episode = Episode(task, user_key, wording_key, self._domain.layout.row())
        levels = persona.levels if isinstance(persona, Persona) else persona
        self._domain.open(episode, levels)
        if self._played is not None:
            self._played.cast(
                episode, persona if isinstance(persona, Persona) else None, setup.style
            )
        self._engine.open(episode)
        self._words.begin(persona, levels, setup.style, wording_key)
        self._episode = episode
        self._infos.begin(task, self._difficulty)
        self._transcript.clear()
        self._user_turns.clear()
        self._grade = self._prepared = self._request = self._written = None
        self._potential = 0.0
        self._policy = ""
        self._reset_with = (seed, options or None)
        return self._ask_for_words()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One agent turn and what it brings: the user's answer, or tool results."""
        if self._prepared is None:
            self.prepare(action)
        assert self._prepared is not None and self._episode is not None
        (prepared, characters), episode = self._prepared, self._episode
        if prepared is not action and not np.array_equal(prepared, action):
            raise InvalidAction(
                f"the action {str(prepared)[:40]!r} was prepared, and {str(action)[:40]!r} was "
                "stepped; step the action that was prepared"
            )
        self._prepared = None
        self._hear_user()
        reward, terms = self._score(episode)
        info = self._info(characters, terms)
        ended = bool(episode.end)
        if ended and self.randomizer is not None:
            self.randomizer.record(info["success"], self._drawn_with)
        if self.render_mode == "human":
            self.render()
        return (
            self._observe(),
            reward,
            ended and not episode.truncated,
            ended and episode.truncated,
            info,
        )

    def prepare(self, action: Any) -> WriteRequest | None:
        """The first half of `step`: all but the words of a writer, which it asks for.

        Whoever has the words hands them in with `supply`; otherwise `step` has them written.
        """
        episode = self._episode
        if episode is None or episode.end or self._reset_with is not None:
            raise gym.error.ResetNeeded(
                "step came without an episode under way; call reset first, and again after an "
                "episode has terminated or been truncated"
            )
        if self._prepared is not None:
            raise InvalidAction(
                f"the action {str(self._prepared[0])[:40]!r} was prepared and not yet stepped; "
                "step it, or reset"
            )
        turn, characters = self._agent_turn(episode, action)
        self._engine.apply(episode, turn)
        self._steps += 1
        self._prepared = (action, characters)
        if episode.tool_results:
            self._transcript.add(TOOL, "\n".join(episode.tool_results))
        return self._ask_for_words()

    def write(self, requests: Sequence[WriteRequest]) -> list[Written]:
        """Have this environment's writer word requests, of whichever environments they are."""
        return self._words.write(requests)

    def supply(self, written: Written) -> None:
        """Hand in what a writer made of the request of `prepare` or `prepare_reset`."""
        self._written = checked(written)

    def _agent_turn(self, episode: Episode, action: Any) -> tuple[AgentTurn, int]:
        """The action as a turn, and its length in characters."""
        if self._action != "text":
            number = self._number(episode, action)
            if self._observation == "transcript":
                self._transcript.add(AGENT, self._domain.agent_text(episode, number))
            else:
                self._transcript.lines.append((ACT, str(number)))
            return self._domain.turn(episode, number), 0
        text = sanitize(action, ACTION_LENGTH)
        self._transcript.add(AGENT, text)
        return self._domain.understand(episode, text), len(text)

    def check_action(self, action: Any) -> None:
        """Raises InvalidAction for what is no action here, as `step` does; changes nothing."""
        if self._action == "text":
            sanitize(action, 0)
        elif self._action == "embedding":
            self.embedding.candidates.checked(action)
        # The space's own check takes a tenth of the step.
        elif not (type(action) is int and 0 <= action < self._n_acts):
            if not holds(self.action_space, action):
                raise InvalidAction(
                    f"the action {str(action)[:40]!r} is not a whole number from 0 to "
                    f"{len(self._domain.actions) - 1}"
                )

    def _number(self, episode: Episode, action: Any) -> int:
        """Which act an action is, noted where it was decoded; raises InvalidAction for none."""
        if self._action == "embedding":
            mask = self._infos.mask(episode.belief)
            self._infos.candidate = int(self.embedding.candidates.nearest(action, mask))
            return self._infos.candidate
        self.check_action(action)
        return int(action)

    def _ask_for_words(self) -> WriteRequest | None:
        """What the writer has to word of this step, if this turn is its to word."""
        if not self._words.has_writer or self._observation == "features":
            return None
        episode = self._episode
        assert episode is not None
        self._request = self._written = None
        turn = episode.user_turn
        if turn is not None and not turn.text:
            spoken = self._domain.spoken(episode, turn)
            said = self._transcript.spoken()
            self._request = self._words.request(len(self._user_turns), spoken, said)
        return self._request

    def _hear_user(self) -> None:
        """Note the user's turn; its words are made only when somebody reads them."""
        episode = self._episode
        assert episode is not None
        turn = episode.user_turn
        if turn is None:
            return
        index = len(self._user_turns)
        self._user_turns.append(turn)
        if turn.text:
            text, self._wording = turn.text, OWN_WORDS
        elif self._request is not None:
            written = self._written or self._words.write([self._request])[0]
            text, self._wording = self._words.checked(self._request, written)
            if written.error and not episode.end and episode.turn:
                # An opening that could not be written is said in the words of its draft.
                episode.end, episode.truncated = f"{WRITER_FAILED}: {written.error}", True
        else:
            self._wording = self._words.source(index)
            if self._observation == "features":
                self._transcript.lines.append((UNWORDED, str(index)))
                return
            text = self._in_words(index)
        self._transcript.add(CUSTOMER, text)

    def _in_words(self, index: int) -> str:
        """The user's `index`-th turn, in words that need no writer."""
        assert self._episode is not None
        return self._words.say(index, self._domain.spoken(self._episode, self._user_turns[index]))

    def _score(self, episode: Episode) -> tuple[float, dict[str, float]]:
        """The reward of this step and its terms."""
        self._grade = None
        if not (episode.end or self._reward == "milestones" or self._privileged):
            return 0.0, {}
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

    @property
    def domain(self) -> Domain:
        """The domain played here: its layout, actions, tasks, tools and words."""
        return self._domain

    @property
    def conditions(self) -> Conditions:
        """What its keywords make of every episode, for who plays the same ones another way."""
        return Conditions(
            setup=self._setup,
            observation=self._observation,
            action=self._action,
            reward=self._reward,
            discount=self._discount,
            max_turns=self._engine.max_turns,
            scale=self._scale,
            words=self._words_of,
            model=None if self._played else self._decisions,
            privileged=self._privileged,
        )

    @property
    def draws_tasks(self) -> bool:
        """Whether a task, a topic, a difficulty or a randomizer decides which tasks are drawn."""
        setup = self._setup
        return setup.draws_tasks or setup.task_id is not None or self.randomizer is not None

    @property
    def fixed(self) -> frozenset[str]:
        """Names of the reset options that the keywords fix."""
        return self._setup.fixed

    # -- what is seen ------------------------------------------------------------------------------

    def _features(self) -> NDArray[np.float32]:
        assert self._episode is not None
        return np.frombuffer(self._episode.belief, _CELL) * self._scale

    def action_masks(self) -> NDArray[np.int8]:
        """1 for each act that is legal now, from what the agent has seen.  # (actions,)"""
        return self._infos.mask(None if self._episode is None else self._episode.belief)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The reply that stands for each act, by its number."""
        return self.embedding.candidates.texts

    @property
    def candidate_vectors(self) -> NDArray[np.float32]:
        """The candidates' vectors, not to be written to.  # (actions, dim)"""
        return self.embedding.candidates.vectors

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
            newest.append(self._transcript.newest)
        return "\n".join(newest)[:MESSAGE_LENGTH]

    def _observe(self) -> Any:
        if self._observation == "features":
            return self._features()
        if self._observation == "message":
            return self._newest()
        if self._observation == "embedding":
            return self.embedding.seen(self._transcript.lines)
        if self._observation == "transcript":
            return self._transcript.page(self.system_prompt, TRANSCRIPT_LENGTH)
        episode = self._episode
        assert episode is not None
        return {
            "features": self._features(),
            "message": self._transcript.newest if episode.user_turn is not None else "",
            "policy": self._policy_document(),
            "tool_results": "\n".join(episode.tool_results)[:MESSAGE_LENGTH],
            "tools": self._domain.tools,
            "turn": np.array([episode.turn], dtype=np.int64),
            "view": json.dumps(self._domain.view(episode)),
        }

    def _info(self, characters: int, terms: dict[str, float]) -> dict[str, Any]:
        episode = self._episode
        assert episode is not None
        grade, ended = self._grade, bool(episode.end)
        info = self._infos.of(episode, self._wording, characters)
        if grade is not None:
            info["success"] = self._succeeded(episode, grade)
            if self._shows_progress(ended):
                info["milestones"] = grade.progress
        if terms:
            info["reward_terms"] = json.dumps({k: round(v, 9) for k, v in terms.items()})
        if ended:
            info["failure_reason"] = self._failure(episode, info["success"])
            info["oracle_length"] = NOT_MADE
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
        cut_off = episode.end.startswith((WRITER_FAILED, USER_FAILED))
        return "violation" if episode.violations and not cut_off else episode.end

    # -- for wrappers ---------------------------------------------------------------------------

    def said(self, since: int = 0) -> list[tuple[str, str]]:
        """(who, text) of the lines of the running episode from the `since`-th on, in order.

        who is Customer, Agent, Tool, or Act, whose text is an action number.
        """
        return self._transcript.worded(since)

    def in_words(self, number: int) -> tuple[str, str]:
        """(name, wording) of an act, as the agent would say it now."""
        if self._episode is None:
            raise gym.error.ResetNeeded("an act is worded in an episode; call reset first")
        return self._domain.actions.names[number], self._domain.agent_text(self._episode, number)

    # -- for people ------------------------------------------------------------------------------

    def render(self) -> str | None:  # type: ignore[override]
        """`ansi`: the conversation with its ledger as text; `human`: prints the newest lines."""
        if self.render_mode is None or self._episode is None:
            return None
        lines = self._transcript.columns()
        if self.render_mode == "human":
            print("\n".join(lines[-2:]))
            return None
        ledger = [f"  {e.turn:>3}  {e.event}: {e.detail}" for e in self._episode.ledger]
        return "\n".join([*lines, "  -- ledger", *ledger])
