"""Where torch computes for a while, and with how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra


def torch_module(extra: str) -> Any:
    """torch; raises MissingExtra naming the extra that brings it."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(error.name or "torch", extra) from error
    return torch


@contextmanager
def computing_on(device: str, extra: str) -> Iterator[None]:
    """Torch computes on `device`; on a CPU in one thread, so that one seed gives one result.

    Raises InvalidConfiguration for a device that torch has not.
    """
    torch = torch_module(extra)
    before = torch.get_num_threads()
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        what = str(error).splitlines()[0]
        raise InvalidConfiguration(f"device={device!r} cannot be used ({what}); take cpu") from None
    try:
        if device == "cpu":
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
