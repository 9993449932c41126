"""Counted choices with back-off: what followed each history, smoothed by shorter histories.

    P(y | h₁ … h_L)      histories from the shortest h₁ to the longest h_L

              c(h_k, y) + s_k · d(h_k) · P_{k−1}(y)
    P_k(y) = ───────────────────────────────────────    P₀ uniform over the outcomes seen
                    c(h_k) + s_k · d(h_k)

c counts, d(h) is how many different outcomes followed h: a hierarchical Dirichlet prior (MacKay &
Peto, 1995, "A hierarchical Dirichlet language model") of strength s · d(h); with s = 1 it is Witten
& Bell's (1991) estimate of how often something new comes, and each s_k is chosen, from the shortest
history on, by the likelihood of every observation given all others. A history never seen leaves P
as it was. Drawing walks from the longest history down and backs off with probability
s d / (c + s d), so that one uniform number makes a choice in L look-ups, from exactly the P above.
Knows nothing of conversations.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Y = TypeVar("Y", bound=Hashable)
History = Sequence[Hashable]
Floats = NDArray[Any]
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0)


class _Successors(Generic[Y]):
    """What followed one history."""

    __slots__ = ("counts", "different", "outcomes", "prior", "sums", "total")

    def __init__(self, counts: Counter[Y]) -> None:
        self.counts = counts
        self.outcomes = sorted(counts, key=repr)
        self.sums = list(accumulate(counts[y] for y in self.outcomes))
        self.total, self.different = self.sums[-1], len(counts)
        self.prior = 0.0
        """s · d, once s is chosen."""

    def shrunk(self, strength: float) -> _Successors[Y]:
        """The same counts, which are only read, with another s."""
        made: _Successors[Y] = _Successors.__new__(_Successors)
        made.counts, made.outcomes, made.sums = self.counts, self.outcomes, self.sums
        made.total, made.different = self.total, self.different
        made.prior = strength * self.different
        return made


class Backoff(Generic[Y]):
    """P(outcome | histories), drawn and weighed."""

    def __init__(self, seen: Sequence[tuple[History, Y]]) -> None:
        """Count `(histories, outcome)`; every observation has the same number of histories."""
        self._known = {outcome for _, outcome in seen}
        self.outcomes = sorted(self._known, key=repr)
        self._after: list[dict[Hashable, _Successors[Y]]] = []
        for place in range(len(seen[0][0]) if seen else 0):
            counted: dict[Hashable, Counter[Y]] = defaultdict(Counter)
            for histories, outcome in seen:
                counted[histories[place]][outcome] += 1
            self._after.append({history: _Successors(after) for history, after in counted.items()})
        self.strengths = self._chosen_strengths(seen)
        """s of each history, the shortest first."""
        for strength, table in zip(self.strengths, self._after, strict=True):
            for after in table.values():
                after.prior = strength * after.different

    def shrunk(self, strengths: Sequence[float]) -> Backoff[Y]:
        """The same counts with other strengths."""
        made = copy(self)
        made.strengths = list(strengths)
        made._after = [
            {history: after.shrunk(strength) for history, after in table.items()}
            for strength, table in zip(made.strengths, self._after, strict=True)
        ]
        return made

    def draw(self, histories: History, uniform: float) -> Y:
        """The outcome that a number in [0, 1) chooses."""
        for after in reversed(self._found(histories)):
            reached = uniform * (after.total + after.prior)
            if reached < after.total:
                return after.outcomes[bisect_right(after.sums, reached)]
            uniform = min((reached - after.total) / after.prior, 1 - 1e-12)
        return self.outcomes[int(uniform * len(self.outcomes))]

    def probability(self, histories: History, outcome: Y) -> float:
        """P(outcome | histories); 0 for an outcome never seen."""
        return self.given(histories)(outcome)

    def given(self, histories: History) -> Callable[[Y], float]:
        """P(· | histories), for whoever asks for several outcomes."""
        found = self._found(histories)

        def probability(outcome: Y) -> float:
            if outcome not in self._known:
                return 0.0
            share = 1 / len(self.outcomes)
            for after in found:
                count = after.counts.get(outcome, 0)
                share = (count + after.prior * share) / (after.total + after.prior)
            return share

        return probability

    def log_prob(self, histories: History, outcome: Y) -> float:
        """Its logarithm in nats; −∞ for an outcome never seen."""
        found = self.probability(histories, outcome)
        return math.log(found) if found else -math.inf

    def _found(self, histories: History) -> list[_Successors[Y]]:
        """What followed those of the histories that were seen, the shortest first."""
        if not self._known:  # nobody was ever there, so that nothing says how histories vary
            return []
        return [
            after
            for table, history in zip(self._after, histories, strict=True)
            if (after := table.get(history)) is not None
        ]

    def _chosen_strengths(self, seen: Sequence[tuple[History, Y]]) -> list[float]:
        """For each place the s under which observations, each left out, are most likely."""
        found = np.full(len(seen), 1 / max(1, len(self.outcomes)))
        chosen = []
        for place, table in enumerate(self._after):
            after = [table[histories[place]] for histories, _ in seen]
            others = np.array(
                [a.counts[outcome] - 1 for a, (_, outcome) in zip(after, seen, strict=True)]
            )
            total = np.array([a.total - 1 for a in after])
            different = np.array([a.different for a in after]) - (others == 0)

            def left_out(
                s: float,
                others: Floats = others,
                total: Floats = total,
                different: Floats = different,
                found: Floats = found,
            ) -> Floats:
                weight = s * different
                mixed = (others + weight * found) / np.maximum(total + weight, 1e-12)
                return np.where(total > 0, mixed, found)

            chosen.append(max(STRENGTHS, key=lambda s: float(np.log(left_out(s)).sum())))
            found = left_out(chosen[-1])
        return chosen
