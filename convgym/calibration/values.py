"""The values of a simulated conversation: what one real user told, in part with other digits.

    a slot not told yet ─► somebody of the log, of the same kind, who told it
                           └─ all that they told is wanted from now on, where nothing was before

So that nobody travels from Cambridge to Cambridge. A value with digits that stands once in the log
for its slot would be another with somebody else: it is crossed with one of its shape (12:30 and
09:45 make 12:45), at a place that chance chooses. Names stay what they are.

Knows nothing of what a value means: two dates may make one that no calendar has.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from convgym.calibration.signatures import LoggedUser
from convgym.engine.keys import WORDING, below, draw

_ATOM = re.compile(r"\d|[^\W\d_]+|[\W_]")


class SlotValues:
    """The values that a log has for one slot."""

    def __init__(self, values: Sequence[str]) -> None:
        self._count = Counter(values)
        self._alike: dict[str, list[str]] = defaultdict(list)
        for value in self._count:
            self._alike[_shape(value)].append(value)

    def varied(self, value: str, key: int, place: int) -> str:
        """One of them, or what takes its place; `key` and `place` are the chance."""
        if self._count[value] > 1 or not any(map(str.isdecimal, value)):
            return value
        alike = self._alike[_shape(value)]
        other = alike[below(draw(key, WORDING, place, 0), len(alike))]
        atoms, others = _ATOM.findall(value), _ATOM.findall(other)
        at = below(draw(key, WORDING, place, 1), len(atoms))
        return "".join(atoms[:at] + others[at:])


class Told:
    """What the users of a log told."""

    def __init__(self, log: Sequence[LoggedUser]) -> None:
        self.by_user: list[dict[str, str]] = []
        self.tellers: dict[tuple[str, str], list[int]] = defaultdict(list)
        """Who told a slot, by kind and slot; of the kind "" everybody."""
        values: dict[str, list[str]] = defaultdict(list)
        for number, user in enumerate(log):
            self.by_user.append({})
            for turn in user.turns:
                self.by_user[number].update(turn.values)
                for slot, value in turn.values.items():
                    values[slot].append(value)
            for slot in self.by_user[number]:
                for kind in {user.kind, ""}:
                    self.tellers[kind, slot].append(number)
        self.values = {slot: SlotValues(told) for slot, told in values.items()}


class Wanted(Mapping[str, str]):
    """The values of a conversation, which `values` keeps; one not told yet is found when asked."""

    def __init__(self, told: Told, kind: str, key: int, values: dict[str, str]) -> None:
        self._told, self._kind, self._key, self._values = told, kind, key, values

    def __getitem__(self, slot: str) -> str:
        if slot not in self._values:
            self._adopt(slot)
        return self._values[slot]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _adopt(self, slot: str) -> None:
        """Want what one who told this slot told, where nothing is wanted yet."""
        tellers = self._told.tellers.get((self._kind, slot)) or self._told.tellers["", slot]
        teller = tellers[below(draw(self._key, WORDING, len(self), 2), len(tellers))]
        for other, value in self._told.by_user[teller].items():
            if other not in self._values:
                among = self._told.values[other]
                self._values[other] = among.varied(value, self._key, len(self))


def _shape(value: str) -> str:
    """A 0 for each digit, an a for each run of letters."""
    atoms = _ATOM.findall(value)
    return "".join("0" if a.isdecimal() else "a" if a.isalpha() else a for a in atoms)
