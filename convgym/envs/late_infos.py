"""The info of a step, whose dearer values are made when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


class NOT_MADE:
    """Stands for a value until it is made; a class, since its copies and pickles are itself."""


class LateInfos(dict[str, Any]):
    """A dictionary some of whose values are made at their first use, and then kept.

    `make` gives the value of a key whose value is `NOT_MADE`; what it needs it must hold itself, so
    that a value is the same whenever it is asked for. Copies, pickles and comparisons hold every
    value.
    """

    __slots__ = ("_make",)

    def __init__(self, values: Mapping[str, Any], make: Callable[[str], Any]) -> None:
        super().__init__(values)
        self._make = make

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if value is NOT_MADE:
            value = self._make(key)
            super().__setitem__(key, value)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value, made if need be, or `default`."""
        if key not in self:
            return default
        return self[key]

    def complete(self) -> dict[str, Any]:
        """Itself as a plain dictionary, with every value made."""
        return {key: self[key] for key in self}

    # Without an iterator of its own, `dict(infos)` would copy what is not made yet.
    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def items(self) -> Any:
        """All keys with their values, made."""
        return self.complete().items()

    def values(self) -> Any:
        """All values, made."""
        return self.complete().values()

    def pop(self, key: str, *default: Any) -> Any:
        """Take a value out, made."""
        if key in self:
            self[key]
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        """Take the last key and its value out, made."""
        key = next(reversed(self.keys()))
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value, made if need be; `default` is put in where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def copy(self) -> dict[str, Any]:
        """A plain dictionary with every value made."""
        return self.complete()

    def __or__(self, other: Any) -> Any:
        return self.complete() | dict(other)

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self.complete()

    def __eq__(self, other: object) -> bool:
        return self.complete() == (other.complete() if isinstance(other, LateInfos) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.complete())

    def __reduce__(self) -> Any:
        return dict, (self.complete(),)
