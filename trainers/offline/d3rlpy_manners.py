"""d3rlpy with better manners: imported without a notice, run without log lines or side effects.

Knows nothing of data or algorithms.
"""

from __future__ import annotations

import contextlib
import io
import logging
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from convgym.errors import MissingExtra


def import_d3rlpy() -> Any:
    """The package, without the notice that gym prints when d3rlpy imports it."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            import d3rlpy
    except ImportError as error:
        raise MissingExtra(error.name or "d3rlpy", "offline") from error
    return d3rlpy


def version(d3rlpy: Any) -> tuple[int, ...]:
    """`2.8.1` as (2, 8, 1)."""
    return tuple(int(part) for part in d3rlpy.__version__.split(".")[:3] if part.isdigit())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """d3rlpy's log lines below a warning are not written, for a while."""
    import structlog

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global generators that d3rlpy draws from, seeded for a while."""
    import torch

    deterministic = torch.backends.cudnn.deterministic
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    import_d3rlpy().seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        torch.backends.cudnn.deterministic = deterministic
