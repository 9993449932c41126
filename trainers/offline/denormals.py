"""Numbers too small for full precision, below 1e-38: counted as 0 while a learner learns.

What Adam remembers of a unit that fell silent shrinks by a tenth at each step, and sticks at the
smallest such number: 0.9 · 4e-45 is 4e-45 again. Processors take many times as long for these, and
after a thousand steps a tenth of all moments may be some.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flushed() -> Iterator[None]:
    """In this thread, and as it was before afterwards; does nothing where a processor cannot."""
    before = (torch.full((), 1e-39) * 1.0).item() == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
