"""Replies from a causal model of transformers: many conversations at once, each read only once.

    wanted ─► prefill: what a context adds to what its lane holds, many rows in one pass;
              equal contexts once, and of others what they begin with from who has it already
           ─► decode: one token for each row, all rows in one pass
           ─► draw: by the uniform of (reply, place), so that nobody else in the batch matters
              ended ─► replies() ─► the engine asks for the next, or for a new conversation

A slot is a conversation, a lane its place in the key-value cache. Those that decode hold the
first lanes; what has ended moves out of their way, so that it costs next to nothing. Everything
about a slot is in numpy; on the device are the model, its cache and the logits. Knows nothing of
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.draws import uniforms
from trainers.llm.sampler import Reply, Request
from trainers.llm.sampling import Sampling

try:
    import torch
    from torch import Tensor

    from trainers.llm.decoder import Decoder
    from trainers.llm.next_token import next_tokens
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_PASS = 4096
"""Tokens of a prefill pass, padding included, unless one row alone has more."""
_SHARED = 256
"""Tokens that must be saved for one row to be read ahead of those that begin as it does."""
_COPIED = 8
"""Tokens that are read again rather than copied from another lane."""
_IDLE = 0.125
"""Rows of a decode step that may do nothing, as a share of those that decode."""
_FREE = -1
_NONE = np.zeros(1, np.int64)
Wanted = tuple[int, Request]
"""A slot and what is asked of it."""


class TransformersSampler:
    """A `Sampler` over any causal model of transformers with full attention.

    wait   a prefill waits until this share of the slots wants one, or nobody decodes
    keep   False: every turn's context is read anew, for comparison

    `begin` raises InvalidConfiguration for a model that cannot work this way, such as one whose
    layers keep a state instead of keys and values, or whose context is too short.
    """

    def __init__(self, model: Any, *, wait: float = 0.125, keep: bool = True) -> None:
        if not 0 <= wait <= 1:
            raise InvalidConfiguration(f"wait={wait}; it is a share of the slots, in [0, 1]")
        self.model = model
        self._wait, self._keep = wait, keep
        self._decoder: Decoder | None = None
        self._was_training = False

    # -- Sampler -------------------------------------------------------------------------------

    def begin(self, sampling: Sampling, end: int, slots: int) -> None:
        """As `Sampler`. Weights may have changed, so nothing is kept from before."""
        self._was_training = self.model.training
        self.model.eval()
        if self._decoder is None or self._decoder.cache.lanes != slots:
            self._decoder = Decoder(self.model, slots)
        self._decoder.check_context(sampling.max_context)
        self._sampling, self._end, self._slots = sampling, end, slots
        self._quota = max(1, round(self._wait * slots))
        self._slot_of: dict[int, int] = {}
        self._waiting: list[tuple[int, Request]] = []
        self._reading = False
        """Whether all that waits is being read, in as many passes as it takes."""
        self._unused = list(range(slots))[::-1]
        self._active: NDArray[np.int64] = np.zeros(0, np.int64)  # slots that decode
        self._lane = np.arange(slots)  # (slots,)
        self._owner = np.full(slots, _FREE)  # (slots,) conversation
        self._tokens = np.zeros((slots, sampling.max_context), np.int64)
        self._cached = np.zeros(slots, np.int64)  # (slots,) tokens whose keys are in the lane
        self._known = np.zeros(slots, np.int64)  # (slots,) tokens, those drawn included
        self._drawn = np.zeros(slots, np.int64)  # (slots,) of the reply that is being written
        self._budget = np.zeros(slots, np.int64)
        self._chances = np.zeros((slots, sampling.max_tokens))  # uniforms of the reply
        self._log_probs = np.zeros((slots, sampling.max_tokens), np.float32)
        self._rows = np.arange(slots)

    def submit(self, requests: Sequence[Request]) -> None:
        """As `Sampler`."""
        for request in requests:
            slot = self._slot_of.get(request.conversation, _FREE)
            if slot == _FREE:
                slot = self._slot_of[request.conversation] = self._unused.pop()
                self._owner[slot] = request.conversation
            self._waiting.append((slot, request))

    @torch.no_grad()
    def replies(self) -> list[Reply]:
        """As `Sampler`."""
        while self._waiting or len(self._active):
            self._reading |= len(self._waiting) >= self._quota or not len(self._active)
            ended = self._prefill() if self._reading else self._decode()
            if len(ended):
                return [self._reply(slot) for slot in ended.tolist()]
        return []

    def release(self, conversation: int) -> None:
        """As `Sampler`. What the lane holds stays for others that begin the same, until reused."""
        slot = self._slot_of.pop(conversation, _FREE)
        if slot != _FREE:
            self._owner[slot] = _FREE
            self._unused.append(slot)

    def finish(self) -> None:
        """As `Sampler`."""
        self._waiting, self._active = [], np.zeros(0, np.int64)
        self.model.train(self._was_training)

    # -- decode and draw -----------------------------------------------------------------------

    def _decode(self) -> NDArray[np.int64]:
        """One token for every slot that decodes; those that have ended with it."""
        slots = self._first_lanes()
        decoding = np.isin(slots, self._active)
        fed = np.where(decoding, self._cached[slots], -1)
        logits = self._decoder_.step(np.where(decoding, self._tokens[slots, fed], 0), fed)
        if len(slots) > len(self._active):
            logits = logits[torch.from_numpy(decoding).to(logits.device)]
            slots = slots[decoding]
        self._cached[slots] += 1
        return self._draw(slots, logits)

    def _draw(self, slots: NDArray[np.int64], logits: Tensor) -> NDArray[np.int64]:
        """A token for each slot from the logits of what follows it.  (n,), (n, V)"""
        places = self._drawn[slots]
        tokens, log_probs = next_tokens(logits, self._chances[slots, places], self._sampling)
        self._tokens[slots, self._known[slots]] = tokens
        self._log_probs[slots, places] = log_probs
        self._known[slots] += 1
        self._drawn[slots] = places + 1
        over = (tokens == self._end) | (places + 1 >= self._budget[slots])
        if over.any():
            self._active = slots[~over]
            return slots[over]
        self._active = slots
        return slots[:0]

    def _reply(self, slot: int) -> Reply:
        known, drawn = self._known[slot], self._drawn[slot]
        return Reply(
            int(self._owner[slot]),
            self._tokens[slot, known - drawn : known].copy(),
            self._log_probs[slot, :drawn].copy(),
        )

    def _first_lanes(self) -> NDArray[np.int64]:
        """Slots by lane, up to the last that decodes; few of them do not.

        A row that does not decode costs what any row costs, and moving one costs about as much as
        a token, so that they are moved when they are many.
        """
        count, lanes = len(self._active), self._lane[self._active]
        reach = int(lanes.max()) + 1
        slot_at = np.argsort(self._lane)
        if reach <= count + count * _IDLE:
            return slot_at[:reach]
        movers = lanes[lanes >= count]
        holes = np.setdiff1d(self._rows[:count], lanes)
        inside, outside = slot_at[movers], slot_at[holes]
        width = int(max(self._cached[inside].max(), self._cached[outside].max()))
        self._decoder_.swap(holes, movers, width)
        self._lane[inside], self._lane[outside] = holes, movers
        return np.argsort(self._lane)[:count]

    # -- prefill -------------------------------------------------------------------------------

    def _prefill(self) -> NDArray[np.int64]:
        """Read contexts that wait, draw a first token for each; those that ended with it."""
        if not self._keep:
            self._cached[np.isin(self._rows, self._active, invert=True)] = 0
        groups = self._next_pass()
        leaders = np.array([group[0][0] for group in groups])
        contexts = [group[0][1].context for group in groups]
        starts = np.array([self._begun(*group[0]) for group in groups])
        logits = self._decoder_.read(self._lane[leaders], contexts, starts)
        members = [member for group in groups for member in group]
        slots = np.array([slot for slot, _ in members])
        if len(slots) > len(groups):
            row = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
            logits = logits[torch.from_numpy(row).to(logits.device)]
            self._share(leaders[row], slots, max(len(context) for context in contexts))
        self._open(members, slots)
        gone = set(slots.tolist())
        self._waiting = [pair for pair in self._waiting if pair[0] not in gone]
        self._reading = bool(self._waiting)
        decoding = self._active
        ended = self._draw(slots, logits)
        self._active = np.concatenate([decoding, self._active])
        return ended

    def _open(self, members: list[Wanted], slots: NDArray[np.int64]) -> None:
        """What is known of slots whose contexts have been read."""
        for slot, request in members:
            length = len(request.context)
            self._tokens[slot, :length] = request.context
            self._cached[slot] = self._known[slot] = length
            self._budget[slot] = min(request.budget, self._sampling.max_tokens)
        keys = np.array([request.key for _, request in members], dtype=np.uint64)
        self._chances[slots] = uniforms(keys, self._sampling.max_tokens)
        self._drawn[slots] = 0

    def _share(self, leaders: NDArray[np.int64], slots: NDArray[np.int64], width: int) -> None:
        """Give what was read for the leader to who waited for the same."""
        other = slots != leaders
        self._decoder_.copy(self._lane[leaders[other]], self._lane[slots[other]], width)

    def _next_pass(self) -> list[list[Wanted]]:
        """What is read in one pass: groups that wait for the same, of similar lengths.

        Rows are padded to the longest, so a much longer one has a pass of its own.
        """
        alike: dict[bytes, list[Wanted]] = {}
        for slot, request in self._waiting:
            alike.setdefault(request.context.tobytes(), []).append((slot, request))
        groups = list(alike.values())
        if len(groups) == 1:
            return groups
        left = [len(group[0][1].context) - self._own(*group[0]) for group in groups]
        ahead = self._ahead(groups)
        if ahead is not None:
            return [ahead]
        order = sorted(range(len(groups)), key=left.__getitem__)
        fitting = min(2 * left[order[0]] + 32, _PASS)
        taken = [place for place in order if left[place] <= fitting] or order[:1]
        rows = max(1, _PASS // left[taken[-1]])
        return [groups[place] for place in taken[:rows]]

    def _ahead(self, groups: list[list[Wanted]]) -> list[Wanted] | None:
        """Who is read alone, since others begin as it does and no lane has that yet."""
        fresh = [group for group in groups if not self._own(*group[0])]
        if len(fresh) < 2 or not self._keep:
            return None
        first = fresh[0][0][1].context
        shared = min(_common(first, group[0][1].context) for group in fresh[1:])
        known = self._found(first)[1]
        return fresh[0] if (shared - known) * (len(fresh) - 1) >= _SHARED else None

    def _own(self, slot: int, request: Request) -> int:
        """Tokens of the context that the slot's lane holds; one at least is left to be read."""
        known = min(int(self._cached[slot]), len(request.context) - 1)
        return _common(self._tokens[slot, :known], request.context)

    def _begun(self, slot: int, request: Request) -> int:
        """The same, after copying what another lane holds where that is more."""
        own = self._own(slot, request)
        if own and own == self._cached[slot]:  # a conversation that goes on; nobody has more of it
            return own
        donor, known = self._found(request.context)
        if known <= own + _COPIED:
            return own
        self._decoder_.copy(self._lane[donor : donor + 1], self._lane[slot : slot + 1], known)
        self._tokens[slot, :known] = request.context[:known]
        self._cached[slot] = known
        return known

    def _found(self, context: NDArray[np.int64]) -> tuple[int, int]:
        """Which slot's lane holds the most of what the context begins with, and how much."""
        length = len(context) - 1
        different = self._tokens[:, :length] != context[:length]
        different |= np.arange(length) >= self._cached[:, None]
        common = np.where(different.any(-1), different.argmax(-1), length) if length else _NONE
        donor = int(common.argmax())
        return donor, int(common[donor]) if self._keep else 0

    @property
    def _decoder_(self) -> Decoder:
        assert self._decoder is not None, "begin() makes it"
        return self._decoder


def _common(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """How many tokens two contexts begin with alike."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length
