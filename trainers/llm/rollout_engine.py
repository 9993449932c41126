"""Conversations of a model with environments: many at a time, a finished one replaced at once.

    seeds × group_size ─► slots, each a conversation with an environment of its own
                            messages ─► chat format ─► Request ─► sampler ─► Reply
                            Step  ◄──────────── text of the reply ◄───────────┘
                          over: Rollout, and the slot takes the next one

Every rollout draws by (rng_seed, seed, member, turn, place), so that neither the number of slots
nor the others change what it says. What the model sampled stays as it was sampled. Knows nothing
of what is learnt.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversation_record import ConversationRecord
from trainers.llm.draws import draw_key
from trainers.llm.rollouts import Rollout
from trainers.llm.sampler import CallableSampler, Reply, Request, Sampler
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import Step, TextEnvironment

Planned = tuple[int, int, int]
"""Number, seed and member of a rollout."""


class RolloutEngine:
    """Plays `environment` with the replies of `sampler`.

    environment  a TextEnvironment, an id, or a callable that makes an environment
    sampler      a Sampler, a model of transformers, or a function of a list of requests
    slots        conversations that are played at a time
    max_turns    replies after which a conversation is cut off; None: the environment decides

    A reply of `max_tokens` without an end gets its end token put in, which was not sampled. A
    conversation whose next observation leaves no room in `max_context` is cut off; of one that is
    cut off, what was said last stands at the end if there is room, for a critic to read.
    """

    def __init__(
        self,
        environment: TextEnvironment | str | Callable[..., Any],
        sampler: Any,
        chat_format: ChatFormat,
        sampling: Sampling | None = None,
        *,
        slots: int = 64,
        max_turns: int | None = None,
    ) -> None:
        if slots < 1 or (max_turns is not None and max_turns < 1):
            raise InvalidConfiguration(f"slots={slots}, max_turns={max_turns}; at least 1 of each")
        if not isinstance(environment, TextEnvironment):
            environment = TextEnvironment(environment)
        self.environment, self.chat_format = environment, chat_format
        self.sampler = _sampler(sampler, chat_format)
        self.sampling = sampling or Sampling()
        self.slots, self.max_turns = slots, max_turns
        self.seconds = {"generation": 0.0, "environment": 0.0}
        """Of the last collection, by the clock."""
        self._idle = [environment]

    def collect(
        self, seeds: Sequence[int], group_size: int, rng_seed: int, version: int = 0
    ) -> list[Rollout]:
        """`group_size` rollouts of each seed, those of a seed one after the other.

        Their `group` is the seed; a seed that comes twice has a group of twice the size. `version`
        is kept with them. Rollouts whose environment failed are there too, with the `error`.
        """
        if group_size < 1:
            raise InvalidConfiguration(f"group_size={group_size}; it must be 1 or more")
        members: Counter[int] = Counter()
        plan: deque[Planned] = deque()
        for seed in (int(seed) for seed in seeds for _ in range(group_size)):
            plan.append((len(plan), seed, members[seed]))
            members[seed] += 1
        return _Collection(self, plan, rng_seed, version).run()

    def close(self) -> None:
        """Close the environments that are kept for the next collection."""
        while self._idle:
            self._idle.pop().close()

    def _taken(self) -> TextEnvironment:
        return self._idle.pop() if self._idle else self.environment.another()


class _Collection:
    """One call of `collect`."""

    def __init__(
        self, engine: RolloutEngine, plan: deque[Planned], rng_seed: int, version: int
    ) -> None:
        self._engine, self._plan = engine, plan
        self._rng_seed, self._version = rng_seed, version
        self._open: dict[int, tuple[ConversationRecord, TextEnvironment]] = {}
        self._done: dict[int, Rollout] = {}
        self._sampler: Sampler = engine.sampler
        self._format, self._sampling = engine.chat_format, engine.sampling

    def run(self) -> list[Rollout]:
        """All rollouts, in the order of the plan."""
        count, seconds = len(self._plan), {"generation": 0.0, "environment": 0.0}
        self._engine.seconds = seconds
        self._sampler.begin(self._sampling, self._format.end, self._engine.slots)
        try:
            while self._plan or self._open:
                began = time.perf_counter()
                wanted = [request for request in self._opened() if request is not None]
                self._sampler.submit(wanted)
                asked = time.perf_counter()
                replies = self._sampler.replies() if self._open else []
                answered = time.perf_counter()
                found = (self._answered(reply) for reply in replies)
                self._sampler.submit([request for request in found if request is not None])
                seconds["generation"] += answered - asked
                seconds["environment"] += asked - began + time.perf_counter() - answered
        finally:
            self._sampler.finish()
            for _, environment in self._open.values():
                self._engine._idle.append(environment)
        return [self._done[number] for number in range(count)]

    def _opened(self) -> list[Request | None]:
        """A conversation for every free slot."""
        wanted = []
        while self._plan and len(self._open) < self._engine.slots:
            record = ConversationRecord(*self._plan.popleft(), self._sampling.max_context)
            environment = self._engine._taken()
            self._open[record.number] = record, environment
            messages = environment.reset(record.seed)
            record.task = str(environment.info.get("task_id", ""))
            step = Step(messages, error=environment.error, rewritten=True)
            wanted.append(self._next(record, environment, step))
        return wanted

    def _answered(self, reply: Reply) -> Request | None:
        """Give a reply to its environment; the request for the next, or None if that was all."""
        record, environment = self._open[reply.conversation]
        record.sampled(reply.tokens, reply.log_probs)
        step = environment.step(self._format.decode(reply.tokens.tolist()))
        record.earn(step.reward)
        if reply.tokens[-1] != self._format.end:
            record.read([self._format.end])
        if not step.done and record.turn == self._engine.max_turns:
            self._tail(record, step)
            self._cut(record, environment)
            return None
        return self._next(record, environment, step)

    def _next(
        self, record: ConversationRecord, environment: TextEnvironment, step: Step
    ) -> Request | None:
        if step.error:
            record.error = step.error
            self._close(record, environment, step)
            return None
        if step.done:
            if step.truncated and not step.terminated:
                self._tail(record, step)
            self._close(record, environment, step)
            return None
        try:
            tokens = self._encoded(step)
        except Exception as error:  # a template that cannot write what this environment showed
            record.error = f"{type(error).__name__}: {error}"
            self._close(record, environment, step)
            return None
        if step.rewritten:
            record.rewrite()
        if len(tokens) >= record.left or not record.read(tokens):
            if not record.turn:
                record.error = (
                    f"the first observation has {len(tokens)} tokens, which leaves no room for a "
                    f"reply in max_context={record.room}; raise it, or shorten the system prompt"
                )
                self._close(record, environment, step)
                return None
            self._cut(record, environment)
            return None
        return Request(
            record.number,
            record.context,
            draw_key(self._rng_seed, record.seed, record.member, record.turn),
            min(self._sampling.max_tokens, record.left),
            tuple(environment.messages),
        )

    def _encoded(self, step: Step) -> list[int]:
        if step.rewritten:
            return self._format.opening(step.messages)
        return self._format.continuation(step.messages)

    def _tail(self, record: ConversationRecord, step: Step) -> None:
        """What was said after the last reply, where nobody answers it."""
        if step.messages and not step.rewritten:
            record.read(self._encoded(step))

    def _cut(self, record: ConversationRecord, environment: TextEnvironment) -> None:
        step = environment.cut()
        record.error = step.error
        record.earn(step.reward)
        self._close(record, environment, step)

    def _close(self, record: ConversationRecord, environment: TextEnvironment, step: Step) -> None:
        del self._open[record.number]
        self._sampler.release(record.number)
        self._engine._idle.append(environment)
        self._done[record.number] = record.rollout(
            environment.messages, step.terminated, step.info, self._version
        )


def _sampler(given: Any, chat_format: ChatFormat) -> Sampler:
    if isinstance(given, Sampler):
        return given
    if hasattr(given, "get_input_embeddings"):
        from trainers.llm.transformers_sampler import TransformersSampler

        return TransformersSampler(given)
    if callable(given):
        return CallableSampler(given, chat_format)
    raise InvalidConfiguration(
        f"sampler is a {type(given).__name__}; pass a Sampler, a model of transformers, or a "
        "function that answers a list of requests"
    )
