"""A Gymnasium conversation cut in two: the agent's half, and the user's turn from elsewhere.

    ConversationEnv.step(action)  =  take(action) ─► somebody's UserTurn ─► settle(turn)
    ConversationEnv.reset(...)    =  begin(...)   ─► somebody's UserTurn ─► opened(turn)

With the environment's own user in the gap, both give exactly what `reset` and `step` give.
Observations, infos, rewards and words are the Gymnasium environment's own, unchanged.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from convgym.engine.acts import FIRST_TOOL, AgentTurn, Heard, UserTurn
from convgym.engine.engine import Engine, Taken
from convgym.engine.episode import Episode
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.domain import Domain
from convgym.envs.transcript import TOOL
from convgym.envs.two_sided_outside import Nobody, read_nothing
from convgym.envs.user_side import known_in_words, load
from convgym.errors import InvalidConfiguration
from convgym.spaces import holds
from convgym.users.decisions import DecisionModel
from convgym.users.generative import Describe, ModelUser, Read

CYCLE_CAP = "cycle_cap"
"""The failure reason of an episode that was cut off after `max_cycles`."""
Step = tuple[Any, float, bool, bool, dict[str, Any]]


class _Unopened(Engine):
    """An engine that leaves the first word to somebody else."""

    def open(self, episode: Episode) -> None:
        episode.user_turn = None


class HalvedEnv(ConversationEnv):
    """Mixed into an environment's class by `halved`; `reset` and `step` are not for it."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        whole = self._engine
        self._engine = _Unopened(whole.desk, whole.user, whole.max_turns)
        self._taken: Taken | None = None
        self._characters = 0

    @property
    def episode(self) -> Episode:
        """The running episode."""
        assert self._episode is not None
        return self._episode

    @property
    def modes(self) -> tuple[str, str]:
        """What `observation=` and `action=` are."""
        return self._observation, self._action

    @property
    def domain(self) -> Domain:
        """The desk."""
        return self._domain

    @property
    def max_turns(self) -> int:
        """Agent turns until the episode is cut off."""
        return self._engine.max_turns

    @property
    def model(self) -> DecisionModel:
        """The decision points of the simulated user, fitted ones where `user=` names a fit."""
        model = getattr(self._engine.user, "model", None)
        return model if isinstance(model, DecisionModel) else DecisionModel()

    @property
    def heard(self) -> tuple[Heard, ...] | None:
        """What the user has to answer; None before its first turn."""
        return self._taken.heard if self._taken is not None else None

    def roles(self) -> tuple[Describe, Read | None]:
        """How the domain describes its user, and how it reads the user's words, where it can."""
        try:
            return self.make_role()
        except InvalidConfiguration:
            return partial(known_in_words, self._domain), None

    def played(self) -> ModelUser:
        """The domain's user as a model plays it, with a model that is never asked."""
        describe, read = self.roles()
        if read is None:
            return ModelUser(Nobody(), describe, read_nothing, self._domain.vocabulary)
        return self._played_by(Nobody())

    def begin(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in which nobody has spoken yet."""
        self._taken = None
        return self.reset(seed=seed, options=options)

    def own_turn(self, episode: Episode) -> UserTurn:
        """What the environment's own user does now, in `episode`, a copy of the running one."""
        if self._taken is None:
            return self._engine.user.open(episode)
        assert self._taken.heard is not None
        return self._engine.user.answer(episode, self._taken.heard)

    def own_words(self, episode: Episode, turn: UserTurn) -> str:
        """The words of a turn that was made in a copy of the running episode."""
        if turn.text or turn.error:
            return turn.text
        return self._words.say(len(self._user_turns), self._domain.spoken(episode, turn))

    def opened(self, turn: UserTurn) -> tuple[Any, dict[str, Any]]:
        """The user's first turn; the agent's first observation and info."""
        self._engine.opened(self.episode, turn)
        self._ask_for_words()
        self._hear_user()
        return self._observe(), self._info(0, {})

    def take(self, action: Any) -> tuple[Taken, str]:
        """The agent's half of a step, and what the user reads of it.

        Raises InvalidAction where the action is not in the space.
        """
        words = self._in_agent_words(action)
        turn, self._characters = self._agent_turn(self.episode, action)
        return self._run(turn), turn.text or words

    def take_silence(self) -> Taken:
        """The same for an agent that has the floor and does nothing."""
        self._characters = 0
        return self._run(AgentTurn())

    def _run(self, turn: AgentTurn) -> Taken:
        self._taken = taken = self._engine.take(self.episode, turn)
        self._steps += 1
        return taken

    def _in_agent_words(self, action: Any) -> str:
        """An act number in words, where it speaks and is legal."""
        if self._action == "text" or not holds(self.action_space, action):
            return ""
        number, actions = int(action), self._domain.actions
        speaks = actions.actions[number].kind < FIRST_TOOL
        if not (speaks and actions.is_legal(self.episode.belief, number)):
            return ""
        return self._domain.agent_text(self.episode, number)

    def settle(self, answer: UserTurn | None) -> Step:
        """The rest of a step: `answer` where the user had the floor, else None."""
        assert self._taken is not None
        self._finish(self._taken, answer)
        self._ask_for_words()
        self._hear_user()
        return self._step(*self._score(self.episode))

    def cut(self) -> Step:
        """Cut the episode off where it stands, with whatever the newest agent turn still brings."""
        episode, taken = self.episode, self._taken
        unanswered = taken is not None and taken.heard is not None and episode.user_turn is None
        if taken is not None and unanswered:
            self._finish(taken, None)
        if not episode.end:
            episode.end, episode.truncated = CYCLE_CAP, True
        return self._step(*(self._score(episode) if unanswered else (0.0, {})))

    def _finish(self, taken: Taken, answer: UserTurn | None) -> None:
        self._engine.settle(self.episode, taken, answer)
        if self.episode.tool_results:
            self._transcript.add(TOOL, "\n".join(self.episode.tool_results))

    def _step(self, reward: float, terms: dict[str, float]) -> Step:
        episode = self.episode
        info = self._info(self._characters, terms)
        ended = bool(episode.end)
        if ended and self.randomizer is not None:
            self.randomizer.record(info["success"], self._drawn_with)
        return (
            self._observe(),
            reward,
            ended and not episode.truncated,
            ended and episode.truncated,
            info,
        )

    def lines(self) -> list[str]:
        """The conversation as lines for people."""
        return self._transcript.columns()


@cache
def halved(entry_point: str) -> type[HalvedEnv]:
    """The Gymnasium class at `entry_point` in two halves.

    Raises InvalidConfiguration where there is no `ConversationEnv`.
    """
    environment = load(entry_point)
    if not (isinstance(environment, type) and issubclass(environment, ConversationEnv)):
        raise InvalidConfiguration(
            f"{entry_point!r} is no ConversationEnv, and so cannot be played from both sides"
        )
    return type(f"Halved{environment.__name__}", (HalvedEnv, environment), {})
