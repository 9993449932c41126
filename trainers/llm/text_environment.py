"""A Gymnasium environment of texts as messages: what a model is shown, and what its reply earned.

    observation                      what the model is shown of it
    Text      message (default)      a user message
              transcript             what was added to the one before, less the reply itself
              replace                the whole context from now on; what stood before is forgotten
    Dict      message, tool_results  tool results and the user's words
    Sequence  of role and content    the whole context: what was added, or all where it was edited

    reset(seed) ─► messages ─► model ─► step(reply) ─► Step(messages, reward, …) ─► …

A system message stands first where one is given or where the environment has a `system_prompt`.
An environment that raises costs its own episode: the reason is in `error`, and the next reset
makes a new one. Knows nothing of tokens or models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import gymnasium as gym
from gymnasium import spaces

from convgym.errors import ConvGymError, InvalidConfiguration, told
from convgym.spaces import sanitize
from trainers.llm.conversations import Message

History = Literal["auto", "message", "transcript", "replace"]
RewardFunction = Callable[[Sequence[Message], Mapping[str, Any]], float]
"""Of a whole conversation and the last `info`."""


@dataclass(frozen=True)
class Step:
    """What came back from one reply."""

    messages: list[Message]
    """What is new since; with `rewritten`, all that the model reads from now on."""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
    rewritten: bool = False
    """Whether what the model read before was edited, so that its tokens are no prefix any more."""
    error: str = ""
    """Why the episode failed; then it is truncated."""

    @property
    def done(self) -> bool:
        """Whether nobody answers any more."""
        return self.terminated or self.truncated


class TextEnvironment:
    """`environment`, an id or a callable that makes one, as messages.

    reward_fn  called with all messages and the last info when an episode ends; what it returns is
               added to the last reward, or with `replace` is the only reward
    system     None: the environment's `system_prompt`, if it has one; a text: that; "": none
    history    what an observed text is, see the module. "auto": a transcript if it begins with the
               one before it and goes on with the reply, else a message
    kwargs     options for `gymnasium.make`, or for the callable

    Raises InvalidConfiguration where actions are no texts or observations are none of the above.
    """

    info: Mapping[str, Any]
    """The newest of the episode."""

    def __init__(
        self,
        environment: str | Callable[..., gym.Env[Any, Any]],
        reward_fn: RewardFunction | None = None,
        *,
        replace: bool = False,
        system: str | None = None,
        history: History = "auto",
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(environment, gym.Env) or not (
            isinstance(environment, str) or callable(environment)
        ):
            raise InvalidConfiguration(
                f"environment is a {type(environment).__name__}; pass an id or a callable that "
                "makes an environment, for many are played at once"
            )
        if history not in get_args(History):
            raise InvalidConfiguration(
                f"history={history!r}; it is one of {', '.join(get_args(History))}"
            )
        if replace and reward_fn is None:
            raise InvalidConfiguration("replace=True needs a reward_fn that gives the reward")
        self._make, self._kwargs = environment, dict(kwargs or {})
        self._reward_fn, self._replace = reward_fn, replace
        self._system, self._history = system, history
        self._env: gym.Env[Any, Any] | None = None
        self._begin()
        self._check(self._first())

    def another(self) -> TextEnvironment:
        """One of the same kind, for an episode beside this one's."""
        twin = object.__new__(TextEnvironment)
        twin.__dict__.update(self.__dict__)
        twin._env = None
        twin._begin()
        return twin

    def reset(self, seed: int) -> list[Message]:
        """Begin an episode: what the model reads first; nothing if that failed, see `error`."""
        self._begin()
        try:
            env = self._made()
            observation, info = env.reset(seed=seed)
            self.info = _readable(info)
            return self._opened(observation, self._system_prompt(env))
        except Exception as error:  # whatever an environment raises, it costs this episode only
            self._fail(error)
            return []

    def step(self, reply: str) -> Step:
        """The model's reply, and what it brings; never raises."""
        try:
            env = self._made()
            self.messages.append({"role": "assistant", "content": reply})
            found = env.step(self._clipped(reply))
            observation, reward, terminated, truncated, info = found
            self.info = _readable(info)
            earned = 0.0 if self._replace else _finite(reward, "the environment's reward")
            done = bool(terminated or truncated)
            new, rewritten = self._news(observation, reply, done)
            if done:  # after the news, for the user's last words are part of the conversation
                earned += self._final_reward()
            return Step(new, earned, bool(terminated), bool(truncated), self.info, rewritten)
        except Exception as error:  # as above
            return self._fail(error)

    def cut(self) -> Step:
        """End the episode from outside, after a step that did not; `reward_fn` may reward it."""
        try:
            return Step([], self._final_reward(), truncated=True, info=self.info)
        except Exception as error:  # a judge may be away
            return self._fail(error)

    def prompt(self, seed: int = 0) -> str:
        """The system message of an episode, "" where there is none; the episode is begun for it."""
        first = next(iter(self.reset(seed)), _message("", ""))
        return first["content"] if first["role"] == "system" else ""

    def close(self) -> None:
        """Close the environment, quietly."""
        env, self._env = self._env, None
        if env is not None:
            try:
                env.close()
            except Exception:  # a broken environment may not even close
                return

    # -- an episode ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self.messages: list[Message] = []
        """All that was said in this episode."""
        self.error = ""
        """Why this episode failed, if it did."""
        self.info = {}
        self._page = ""
        """The newest observed text."""
        self._is_transcript = self._history == "transcript"
        self._head: list[Message] = []
        self._context: list[Message] = []
        """What the model has read, where the environment itself keeps it."""

    def _fail(self, error: Exception) -> Step:
        self.error = f"{type(error).__name__}: {error}"[:500]
        self.close()
        return Step([], truncated=True, info=self.info, error=self.error)

    def _final_reward(self) -> float:
        if self._reward_fn is None:
            return 0.0
        return _finite(self._reward_fn(tuple(self.messages), self.info), "reward_fn's reward")

    def _opened(self, observation: Any, system: str) -> list[Message]:
        shown = self._shown(observation, done=False)
        if isinstance(observation, str) and system and observation.startswith(system):
            system = ""  # the page begins with it
        if system and shown[0]["role"] != "system":
            self._head = [_message("system", system)]
        self._page = observation if isinstance(observation, str) else ""
        self.messages = [*self._head, *shown]
        self._context = list(self.messages)
        return list(self.messages)

    def _news(self, observation: Any, reply: str, done: bool) -> tuple[list[Message], bool]:
        """What is new, or all there is and True where what was read before was edited."""
        rewritten = False
        if isinstance(observation, str):
            new, rewritten = self._news_of_text(observation, reply)
        elif isinstance(observation, Mapping):
            new = self._shown(observation, done)
        else:
            whole = self._shown(observation, done)
            whole = whole if whole[0]["role"] == "system" else [*self._head, *whole]
            known = [*self._context, _message("assistant", reply)]
            rewritten = whole[: len(known)] != known
            new = whole if rewritten else whole[len(known) :]
            self._context = whole
        if done:
            new = [message for message in new if message["content"]]
        self.messages += new
        return new, rewritten

    def _news_of_text(self, page: str, reply: str) -> tuple[list[Message], bool]:
        before, self._page = self._page, page
        if self._history == "replace":
            return [*self._head, _message("user", page)], True
        grows = bool(before) and page.startswith(before)
        added = _after_reply(page[len(before) :], reply) if grows else None
        if self._history == "auto" and added is not None:
            self._is_transcript = True
        if not self._is_transcript:
            return [_message("user", page)], False
        if not grows:  # it was clipped or edited, so this page is all there is
            return [*self._head, _message("user", page)], True
        return [_message("user", page[len(before) :].strip() if added is None else added)], False

    def _shown(self, observation: Any, done: bool) -> list[Message]:
        if isinstance(observation, str):
            return [_message("user", observation)]
        if isinstance(observation, Mapping):
            results = str(observation.get("tool_results", ""))
            said = str(observation["message"])
            parts = [_message("tool", results)] if results else []
            return [*parts, _message("user", said)] if said or not parts or done else parts
        shown = [_message(str(m["role"]), str(m["content"])) for m in observation]
        if not shown:
            raise InvalidConfiguration("the environment observed no message at all")
        return shown

    # -- the environment -----------------------------------------------------------------------

    def _first(self) -> gym.Env[Any, Any]:
        """The first one; raises InvalidConfiguration where there can be none."""
        try:
            return self._made()
        except (ConvGymError, gym.error.Error, ImportError):  # they say it well
            raise
        except Exception as error:
            raise InvalidConfiguration(
                f"no environment can be made of {self._make!r}: {told(error)}"
            ) from error

    def _made(self) -> gym.Env[Any, Any]:
        if self._env is None:
            if isinstance(self._make, str):
                self._env = gym.make(self._make, disable_env_checker=True, **self._kwargs)
            else:
                self._env = self._make(**self._kwargs)
        return self._env

    def _check(self, env: gym.Env[Any, Any]) -> None:
        shown, acted = env.observation_space, env.action_space
        if not isinstance(acted, spaces.Text):
            raise InvalidConfiguration(
                f"a model replies in texts, and this environment takes {type(acted).__name__} "
                'actions; those of ConvGym take texts with action="text"'
            )
        if isinstance(shown, spaces.Text | spaces.Sequence):
            return
        if not (isinstance(shown, spaces.Dict) and isinstance(shown.get("message"), spaces.Text)):
            raise InvalidConfiguration(
                f"a model reads texts, and this environment shows {type(shown).__name__}; it may "
                "be a Text, a Dict with a Text named message, or a Sequence of messages"
            )

    def _clipped(self, reply: str) -> str:
        assert self._env is not None
        # Its length alone: Gymnasium's Text has letters and digits unless somebody says otherwise,
        # which hardly anybody does who means words.
        space = self._env.action_space
        return reply[: space.max_length] if isinstance(space, spaces.Text) else reply

    def _system_prompt(self, env: gym.Env[Any, Any]) -> str:
        if self._system is not None:
            return self._system
        return str(getattr(env.unwrapped, "system_prompt", "") or "")


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _after_reply(added: str, reply: str) -> str | None:
    """What a transcript has after the reply it repeats; None if it repeats none.

    Environments may write a reply without odd characters or surrounding space.
    """
    for said in (reply.strip(), sanitize(reply, len(reply)).strip()):
        if said and said in added:
            return added.partition(said)[2].strip()
    return None


def _readable(info: Any) -> Mapping[str, Any]:
    """The info itself, where what is read of it can be read."""
    if not isinstance(info, Mapping):
        raise InvalidConfiguration(f"info is a {type(info).__name__}; it must be a mapping")
    bool(info.get("success", False))
    return info


def _finite(reward: Any, what: str) -> float:
    found = float(reward)
    if not math.isfinite(found):
        raise InvalidConfiguration(f"{what} is {found}; it must be a finite number")
    return found
