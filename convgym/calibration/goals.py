"""What a user has come for: the turns of a real user, an agenda from which the next one is taken.

    agenda   hello │ order │ address │ ok │ thanks, bye      of one user of the log, in its order
             1       ρ       ρ²                              how ready each is to be said

    P(turn | history, agenda) ∝ P(turn | history) · (β + Σ_j ρ^j [the j-th open turn is this one])

The tables of `convgym.calibration.transitions` say which open turn fits what the agent did, so that
a question is answered out of turn; β leaves them room for what is on no agenda. Agenda-based
simulation (Schatzmann et al., 2007) with goals drawn from real users in place of a hand-written
distribution. Said turns are gone, and with the last one the user goes.

Where no agent speaks, the agenda says what an agent would: what followed that turn in the log.
Where recorded agents speak, whom they talk to is drawn from users to whose agents they are like,
over the whole conversation: acts and slots, or words where the log names none. An agent who books
trains was asked for trains; a user who wanted a taxi would make a conversation that nobody had.
Agents' turns tell of the recorded user what answers tell of questions; its own words tell nothing.

Where the agent asks, a later turn that tells it comes forward, and turns that answer weigh as much
together as questions are answered, P(answers | history). What is asked for and nowhere on the
agenda is none of this user's: the tables alone say what becomes of it.

β and ρ were chosen on the training parts of MultiWOZ and MultiDoGO and on synthetic users: a larger
β invents more orders of acts and is found out more easily.

Knows nothing of words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.signatures import SILENCE, Heard, LoggedTurn, LoggedUser, Signature
from convgym.calibration.turns import slot_name

OFF_AGENDA = 0.0003
"""β, what a turn on no agenda weighs beside the next one on it, 1."""
READY = 0.2
"""ρ, what a turn weighs beside the one before it."""
WINDOW = 3
"""Open turns that may be next."""
ALIKE = 10
"""Users among whom one is chosen for a recorded agent."""
MOST_USERS = 2000
"""So many, evenly spaced over the log, are compared with a recorded agent."""
RARE = 0.01
"""Share of the users below which what their agents did tells nothing."""
_WORD = re.compile(r"[^\W\d_]+")


class OpenTurn(NamedTuple):
    """A turn that is still to be said."""

    turn: LoggedTurn
    ends: bool
    """Whether it is the user's last."""
    reply: Heard
    """What the agent said next."""


class Agenda:
    """What one user still wants to say."""

    def __init__(self, user: LoggedUser) -> None:
        replies = [*(turn.heard for turn in user.turns[1:]), SILENCE]
        last = len(replies) - 1
        self._open = [
            OpenTurn(turn, place == last, reply)
            for place, (turn, reply) in enumerate(zip(user.turns, replies, strict=True))
        ]
        self._count = len(self._open)
        self.heard = user.turns[0].heard
        """What an agent whom nobody hears has just said."""

    def next(
        self, ends: bool | None = None, asked: Sequence[str] = ()
    ) -> list[tuple[OpenTurn, float]]:
        """Turns that may be said now, each with ρ^j; `ends` where it is known whether it ends.

        asked: slots that the agent asks for; later turns that tell one of them come forward.
        """
        fitting = [open_ for open_ in self._open if ends is None or open_.ends == ends]
        later = [open_ for open_ in fitting[WINDOW:] if answers(open_.turn, asked)]
        return [(open_, READY**j) for j, open_ in enumerate(fitting[:WINDOW] + later[:1])]

    @property
    def share_said(self) -> float:
        """How much of it has been said, from 0 to 1."""
        return 1 - len(self._open) / self._count

    def tells(self, asked: Sequence[str]) -> bool:
        """Whether something on it tells one of these slots."""
        return any(answers(open_.turn, asked) for open_ in self._open)

    def signatures(self) -> list[Signature]:
        """What is still to be said."""
        return [open_.turn.signature for open_ in self._open]

    def said(self, open_: OpenTurn) -> None:
        """Take it off."""
        self._open.remove(open_)
        self.heard = open_.reply


def answers(turn: LoggedTurn, asked: Sequence[str]) -> bool:
    """Whether a turn tells one of these slots."""
    return any(slot_name(slot) in asked for slot in turn.slots)


class Goals:
    """The users of a log, to be found by what their agents did.

    alike(u, agent) = cos(tf-idf of u's agent, tf-idf of the agent) − ½ |ln turns of both, apart|
                      − [they are of two kinds]          tf = ln(1 + count)
    """

    def __init__(self, log: Sequence[LoggedUser]) -> None:
        self.count = len(log)
        size = min(self.count, MOST_USERS)
        self._users = np.linspace(0, self.count - 1, size).astype(np.int64)
        users = [log[at] for at in self._users]
        kinds = np.array([user.kind for user in users])
        self._other = {kind: (kinds != kind).astype(np.float32) for kind in set(kinds.tolist())}
        self._turns = np.log([len(user.turns) for user in users], dtype=np.float32)
        self._labelled = any(t.heard.asked or t.heard.values for u in users for t in u.turns)
        bags = [self._bag([turn.heard for turn in user.turns]) for user in users]
        among = Counter(item for bag in bags for item in bag)
        told = [item for item, n in among.items() if max(2, RARE * size) <= n < size]
        self._number = {item: number for number, item in enumerate(told)}
        self._rarity = np.array([math.log(size / among[item]) for item in told])
        self._weights = np.zeros((len(told), size), dtype=np.float32)
        for user, bag in enumerate(bags):
            items, weights = self._weighed(bag)
            self._weights[items, user] = weights

    def like(self, kind: str, heard: Sequence[Heard]) -> list[int]:
        """`ALIKE` users whose agents did what this one does; all where there are no more."""
        items, weights = self._weighed(self._bag(heard))  # (k,), (k,)
        alike = weights @ self._weights[items] - np.abs(self._turns - math.log(len(heard))) / 2
        if kind in self._other:
            alike -= self._other[kind]
        least = max(0, len(alike) - ALIKE)
        found: list[int] = self._users[np.argpartition(alike, least)[least:]].tolist()
        return found

    def _bag(self, heard: Sequence[Heard]) -> Counter[Hashable]:
        return Counter(item for one in heard for item in self._items(one))

    def _items(self, heard: Heard) -> Iterator[Hashable]:
        yield from (("does", act) for act in heard.acts)
        yield from (("asks", slot) for slot in heard.asked)
        yield from (("tells", slot) for slot, _ in heard.values)
        if not self._labelled:
            yield from _WORD.findall(heard.text.lower())

    def _weighed(self, bag: Counter[Hashable]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Numbers of the items, and their weights, of length 1.  both (items known,)"""
        known = [(self._number[item], count) for item, count in bag.items() if item in self._number]
        items = np.array([item for item, _ in known], dtype=np.int64)
        weights = np.log1p([count for _, count in known]) * self._rarity[items]
        weights /= max(1e-9, math.sqrt(weights @ weights))
        return items, weights.astype(np.float32)


class Cast:
    """Who comes in one run: nobody again before all others have come."""

    def __init__(self, goals: Goals, seed: int) -> None:
        self._goals = goals
        self._order = np.random.default_rng(seed).permutation(goals.count).tolist()
        self._come = [0] * goals.count

    def anyone(self, number: int) -> int:
        """The user of a run's conversation of this number, where no agent was recorded."""
        at: int = self._order[number % len(self._order)]
        return at

    def whom_they_tell(self, kind: str, heard: Sequence[Heard], uniform: float) -> int:
        """A user for recorded agents' turns: of those alike one who has come least often."""
        alike = self._goals.like(kind, heard)
        first = int(uniform * len(alike))
        chosen = min(alike[first:] + alike[:first], key=self._come.__getitem__)
        self._come[chosen] += 1
        return chosen
