"""How likely a user's turn is under the simulated user: its acts teacher-forced, in nats.

    log p(acts of turn t | what was said before) = log Σ_h p(h) Σ_c p(c | h) [c gives these acts]

h: hidden states of the simulated user that explain the turns so far; c: sequences of its choices.
Choices are forced one way and the other, the likeliest first, so the sum is exact but for what
`NEGLIGIBLE` leaves out. It is the forward algorithm of a hidden Markov model, over the acts as a
set: two states that say the same go on side by side.

A turn that no state explains gets `FLOOR`, and so does any turn less likely than that; the states
that come nearest to it are kept. Nothing here decides anything in an episode.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.envs.domain import Domain
from convgym.users.decisions import LOG_UNIT, Choice, DecisionModel
from convgym.users.persona import Levels

FLOOR = -20.0
"""Nats of a turn that the simulated user cannot produce; no turn counts as less likely."""
NEGLIGIBLE = 1e-6
"""Probability of choices, together, that are not followed."""
MOST_RUNS = 2000
"""Sequences of choices that are followed for one state in one turn."""
MOST_STATES = 16


class Forced(DecisionModel):
    """A decision model whose choices are made beforehand, with `model`'s probabilities.

    Choices beyond the script are made the likelier way.
    """

    def __init__(self, model: DecisionModel) -> None:
        self.base, self.tilts, self.bother = model.base, model.tilts, model.bother
        self._script: tuple[bool, ...] = ()
        self.made: list[tuple[bool, int, int]] = []
        """(yes, log-probability of it, of the other way) of each choice, in whole LOG_UNITs."""

    def begin(self, script: Sequence[bool]) -> None:
        """Make the next choices so."""
        self._script = tuple(script)
        self.made.clear()

    def choice(self, point: int, persona: Levels, situation: int = 0) -> Choice:
        """Threshold 2**32, which every draw is below, or 0, which none is."""
        _, yes, no = super().choice(point, persona, situation)
        place = len(self.made)
        taken = self._script[place] if place < len(self._script) else yes >= no
        self.made.append((taken, yes, no) if taken else (taken, no, yes))
        return (2**32 if taken else 0), yes, no


class Outcome(NamedTuple):
    """One thing that a user in one state may do."""

    log_prob: float
    turn: UserTurn
    state: Any


class TurnLikelihood:
    """Follows one episode at a time; `begin` starts over."""

    def __init__(self, domain: Domain, model: DecisionModel) -> None:
        self._forced = Forced(model)
        self._user = domain.make_user(self._forced)
        self._states: list[tuple[float, Any]] = []

    def begin(self, state: Any) -> None:
        """The user's record as it is before its first turn; it is copied."""
        self._states = [(0.0, state.copy())]

    def outcomes(
        self, episode: Episode, state: Any, heard: Sequence[Heard] | None
    ) -> Iterator[Outcome]:
        """What the user may do from `state` after `heard`, likeliest first; None: its first turn.

        `episode` stays as it is.
        """
        queue: list[tuple[int, int, tuple[bool, ...]]] = [(0, 0, ())]
        pushed, left = 0, 1.0
        for _ in range(MOST_RUNS):
            if not queue or left < NEGLIGIBLE:
                return
            _, _, script = heapq.heappop(queue)
            self._forced.begin(script)
            trial = episode.snapshot()
            trial.user = state.copy()
            turn = self._user.open(trial) if heard is None else self._user.answer(trial, heard)
            so_far = 0
            taken: list[bool] = []
            for place, (yes, log_prob, other) in enumerate(self._forced.made):
                if place >= len(script):
                    pushed += 1
                    heapq.heappush(queue, (-so_far - other, pushed, (*taken, not yes)))
                taken.append(yes)
                so_far += log_prob
            left -= math.exp(so_far * LOG_UNIT)
            yield Outcome(so_far * LOG_UNIT, turn, trial.user)

    def take(
        self, episode: Episode, heard: Sequence[Heard] | None, acts: Sequence[int]
    ) -> float:
        """Log-likelihood of `acts` after `heard`, in [FLOOR, 0]; the states move on."""
        done = frozenset(acts)
        nearest: float = math.inf
        kept: list[tuple[float, Any]] = []
        total: list[float] = []
        for weight, state in self._states:
            for log_prob, turn, after in self.outcomes(episode, state, heard):
                apart = len(done.symmetric_difference(turn.acts))
                if apart < nearest:
                    nearest, kept = apart, []
                if apart == nearest:
                    kept.append((weight + log_prob, after))
                total.append(weight + log_prob if not apart else -math.inf)
        likelihood = _log_sum(total)
        self._states = _merged(kept)
        return min(max(likelihood, FLOOR), 0.0)


def _log_sum(logs: Sequence[float]) -> float:
    most = max(logs, default=-math.inf)
    if most == -math.inf:
        return most
    return most + math.log(math.fsum(math.exp(log - most) for log in logs))


def _merged(states: Sequence[tuple[float, Any]]) -> list[tuple[float, Any]]:
    """The likeliest states, equal ones put together, their weights summing to one."""
    together: dict[str, list[Any]] = {}
    for weight, state in states:
        together.setdefault(_identity(state), []).append((weight, state))
    merged = [(_log_sum([w for w, _ in same]), same[0][1]) for same in together.values()]
    merged.sort(key=lambda pair: -pair[0])
    merged = merged[:MOST_STATES]
    whole = _log_sum([weight for weight, _ in merged])
    return [(weight - whole, state) for weight, state in merged]


def _identity(state: Any) -> str:
    """All that a record holds, as text."""
    names = [name for owner in type(state).__mro__ for name in getattr(owner, "__slots__", ())]
    names += sorted(getattr(state, "__dict__", ()))
    return repr([(name, getattr(state, name)) for name in names])
