"""The processes that one run learns in, one of which may be all there are.

    rank 0   seeds 0 1 ─► rollouts ─┐           ┌─ rows 0 1 2 ─► gradient ─┐
    rank 1   seeds 2 3 ─► rollouts ─┴─► all ────┴─ rows 3 4 5 ─► gradient ─┴─► sum: one step

Every rank holds the whole model and takes the same steps; what each has a share of is added up,
and what is decided is decided by the first. `torchrun` and `accelerate launch` start the processes
and tell each who it is, by RANK, WORLD_SIZE and MASTER_ADDR. Knows nothing of what is learnt.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import Any, TypeVar

from convgym.errors import MissingExtra

try:
    import torch
    import torch.distributed as dist
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

T = TypeVar("T")


class Ranks:
    """One process, which is all there are."""

    rank, size = 0, 1

    @property
    def first(self) -> bool:
        """Whether this one writes files and tells people."""
        return self.rank == 0

    def gathered(self, value: T) -> list[T]:
        """What every rank brought, in their order."""
        return [value]

    def agreed(self, value: T) -> T:
        """What the first rank brought."""
        return self.gathered(value)[0]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Each in place: the sum over ranks."""

    def add_up_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """The same of their gradients; what has one on no rank has none."""

    def wait(self) -> None:
        """Until all are here."""


class ProcessGroup(Ranks):
    """Processes of torch.distributed; numbers on GPUs go by NCCL, all others by gloo."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._plain = dist.new_group(backend="gloo")

    def gathered(self, value: T) -> list[T]:
        """As `Ranks`; pickled."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self._plain)
        return found

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """As `Ranks`: one message for each, all on their way at once."""
        sent = [
            dist.all_reduce(each, group=None if each.is_cuda else self._plain, async_op=True)
            for each in tensors
        ]
        for one in sent:
            one.wait()

    def add_up_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """As `Ranks`."""
        has = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.uint8)
        dist.all_reduce(has, op=dist.ReduceOp.MAX, group=self._plain)
        for weight, somewhere in zip(weights, has.tolist(), strict=True):
            if somewhere and weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        self.add_up([weight.grad for weight in weights if weight.grad is not None])

    def wait(self) -> None:
        """As `Ranks`."""
        dist.barrier(group=self._plain)


def ranks_here() -> Ranks:
    """The processes that `torchrun` has started; without it, or with one, this one alone.

    Begins torch.distributed where nobody has, to be ended with the process.
    """
    if not dist.is_available():
        return Ranks()
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Ranks()
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(_end)
    return ProcessGroup() if dist.get_world_size() > 1 else Ranks()


def own_rows(index: Tensor, lengths: Tensor, ranks: Ranks) -> Tensor:
    """This rank's of the rows: neighbours, which may share a prompt, and about as many tokens.

    (n,), (B,) → (m,)
    """
    if ranks.size == 1 or not len(index):
        return index
    order = index.sort().values
    tokens = lengths[order].double()
    middles = tokens.cumsum(0) - tokens / 2
    return order[(middles * ranks.size / tokens.sum()).long() == ranks.rank]


def _end() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
