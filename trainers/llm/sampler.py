"""What writes the replies: a model of transformers, a server, or any callable.

    engine                                     sampler
      begin(sampling, end, slots) ───────────►
      submit([Request, …]) ──────────────────►   as many conversations as slots at a time
      ◄─────────────────────────── replies()     those that are ready, one or more
      release(conversation) ─────────────────►   nothing of it is asked again

`trainers.llm.transformers_sampler` keeps what a model has read between the turns of a
conversation; `CallableSampler` makes a sampler of a function that answers a list of requests.
Knows nothing of environments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversations import Message
from trainers.llm.sampling import Sampling


@dataclass(frozen=True, eq=False)
class Request:
    """A reply is wanted."""

    conversation: int
    """Which conversation it belongs to."""
    context: NDArray[np.int64]  # (L,)
    """All tokens that stand before the reply. Mostly they begin with those of the request before
    and its reply; not so where the environment edited what was said."""
    key: int
    """Of the reply's draws, see `trainers.llm.draws`."""
    budget: int
    """Tokens that it may have."""
    messages: tuple[Message, ...] = ()
    """The conversation in words, for samplers that read words."""


@dataclass(frozen=True, eq=False)
class Reply:
    """What was sampled."""

    conversation: int
    tokens: NDArray[np.int64]  # (n,), n in [1, budget]; the end token is the last, or there is none
    log_probs: NDArray[np.float32]  # (n,) at the sampling temperature; NaN where they are not known


@runtime_checkable
class Sampler(Protocol):
    """What a rollout engine asks for replies."""

    def begin(self, sampling: Sampling, end: int, slots: int) -> None:
        """New conversations follow, at most `slots` at a time; replies end with token `end`."""

    def submit(self, requests: Sequence[Request]) -> None:
        """Replies are wanted, at most one for a conversation at a time."""

    def replies(self) -> list[Reply]:
        """Wait until some are ready; there is at least one while any is wanted."""

    def release(self, conversation: int) -> None:
        """A conversation is over."""

    def finish(self) -> None:
        """No conversation is open any more, whatever was wanted."""


Answer = Reply | str | Sequence[int]
"""A reply, or its text, or its tokens."""


class CallableSampler:
    """`function` answers a list of requests with as many replies, texts or lists of tokens.

    Log-probabilities of texts and bare tokens are not known: NaN. A text gets an end token if it
    fits into the budget; tokens beyond it, and tokens after an end token, are dropped.
    Raises InvalidConfiguration for answers that are none of these.
    """

    def __init__(
        self, function: Callable[[list[Request]], Sequence[Answer]], chat_format: ChatFormat
    ) -> None:
        self._function, self._format = function, chat_format
        self._wanted: list[Request] = []

    def begin(self, sampling: Sampling, end: int, slots: int) -> None:
        """As `Sampler`."""
        self._wanted = []

    def submit(self, requests: Sequence[Request]) -> None:
        """As `Sampler`."""
        self._wanted += requests

    def replies(self) -> list[Reply]:
        """As `Sampler`: all that are wanted, from one call of the function."""
        wanted, self._wanted = self._wanted, []
        answers = self._function(wanted)
        if len(answers) != len(wanted):
            raise InvalidConfiguration(
                f"the sampler gave {len(answers)} answers to {len(wanted)} requests; it must "
                "answer each, in order"
            )
        return [self._reply(*pair) for pair in zip(wanted, answers, strict=True)]

    def release(self, conversation: int) -> None:
        """As `Sampler`."""

    def finish(self) -> None:
        """As `Sampler`."""
        self._wanted = []

    def _reply(self, request: Request, answer: Answer) -> Reply:
        if isinstance(answer, Reply):
            return answer
        ids = self._format.reply(answer) if isinstance(answer, str) else list(answer)
        if self._format.end in ids:
            ids = ids[: ids.index(self._format.end) + 1]
        tokens = np.array(ids[: request.budget], dtype=np.int64)
        if not len(tokens):
            raise InvalidConfiguration(
                "the sampler answered with no tokens; a reply has at least its end token, "
                f"{self._format.end}"
            )
        return Reply(request.conversation, tokens, np.full(len(tokens), np.nan, dtype=np.float32))
