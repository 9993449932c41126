"""Minari learns of ConvGym's remotes, at once or as soon as somebody imports it.

`import convgym` must not import Minari, which takes longer than all of ConvGym. So where Minari is
not there yet, a finder waits for its module of remotes, and adds ours behind its own.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_MODULE = "minari.storage.remotes"
_SCHEMES = ("file", "http", "https")


def register_remotes() -> None:
    """Tell Minari of `file://`, `http://` and `https://`; a second call does nothing."""
    if _MODULE in sys.modules:
        _add(sys.modules[_MODULE])
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


def _add(remotes: ModuleType) -> None:
    for scheme in _SCHEMES:
        remotes._registry.setdefault(scheme, _maker(scheme))


def _maker(scheme: str) -> Any:
    """What Minari calls for the class of a remote, which it then calls for one."""

    def kind() -> Any:
        from convgym.data.remotes import StaticRemote

        return lambda name, token=None: StaticRemote(scheme, name, token)

    return kind


class _Waiting(MetaPathFinder):
    """Finds Minari's module of remotes once, as others do, and has ours added to it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that does one thing more; else None."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _add(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
