"""Plain loops over integer rows, compiled where they run: the inside of the batched engine.

    @loop     def f(tables, rows, …)       takes arrays from Python
    @kernel   def g(tables, record, …)     is called by loops and other kernels

Compiled code is kept on disk. Numba asks only whether the file of the compiled function itself has
changed, and not those of what it calls or of the constants it uses; so the folder of the kept code
is named by a hash of all source that kernels can draw on, and a change anywhere compiles anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba as _numba

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_PARTS = ("engine", "users", "desk", "domains")
"""Folders of the package that hold kernels, and constants that they use."""

numba: Any = _numba
"""Without its types, which do not know every option that it takes."""

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` where another kernel or a loop calls it; Python itself cannot.

    Wrappers for Python would take half of the time of compiling.
    """
    compiled: Any = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    if compiled is not function:
        typed = compiled.get_call_template
        compiled.get_call_template = lambda args, kws: typed(tuple(map(_widened, args)), kws)
    made: Function = compiled
    return made


def _widened(kind: Any) -> Any:
    """The type that a kernel is compiled for where it is called with `kind`.

    Numba would compile it anew for every constant and every width of a whole number.
    """
    kind = numba.types.unliteral(kind)
    narrow = isinstance(kind, numba.types.Integer) and kind.bitwidth < 64
    return numba.types.int64 if narrow else kind


def loop(function: Function) -> Function:
    """Compile `function`, which Python calls with arrays, and all kernels that it is made of.

    Done at the first call, in half a minute for an engine; kept on disk from then on.
    `NUMBA_DISABLE_JIT=1` leaves functions as they are.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_folder())
    try:
        compiled: Function = numba.njit(cache=True)(function)
    finally:
        numba.config.CACHE_DIR = before
    if compiled is not function:
        _compile_once(compiled, f"{function.__module__}.{function.__qualname__}")
    return compiled


def _compile_once(compiled: Any, name: str) -> None:
    """Let one of several processes compile it; the others wait, and read what that one kept."""
    compile_it = compiled.compile

    def compile_alone(signature: Any) -> Any:
        with _alone(_folder() / f"{name}.lock"):
            return compile_it(signature)

    compiled.compile = compile_alone


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which ends with the process; go without where files have none."""
    with ExitStack() as held:
        if fcntl is not None:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                file = held.enter_context(path.open("wb"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def _folder() -> Path:
    """Where compiled code of this very source is kept."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(numba.__version__.encode())
    for part in _PARTS:
        for path in sorted((package / part).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode())
            digest.update(path.read_bytes())
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    base = Path(home) if home else Path.home() / ".cache"
    return base / "convgym" / f"kernels-{digest.hexdigest()[:16]}"
