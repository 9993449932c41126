"""Logged conversations, and what the policy to be evaluated would have done at every turn.

    episodes      o0 a0 o1 a1 o2 │ o0 a0 o1 a1 o2 a2 o3      T turns and T + 1 observations each
    rows          0     1     2  │ 3     4     5     6       one an observation; `evaluation`
    turns         0     1        │ 2     3     4             one an act; `propensities`, `actions`
    padded        0     1     –  │ 2     3     4             (conversations, longest); fill at –

    ratio         ρ_t = π(a_t | o_t) / b(a_t | o_t)          1 past the end,
    weight        w_t = ρ_0 · … · ρ_t                        so an ended conversation keeps its own

A conversation that was cut off earns nothing after the cut (`after_cut="nothing"`): what is
estimated is the value within the horizon of the data. With `after_cut="value"` estimators that
know action values add the value of the last observation; the others cannot and say so.

Knows nothing of estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from convgym.errors import DatasetError, InvalidConfiguration
from convgym.policies.batched import BatchActPolicy, RowPolicies

if TYPE_CHECKING:
    from convgym.data.transitions import EpisodeArrays

Floats = NDArray[np.float64]
AfterCut = Literal["nothing", "value"]
_TOLERANCE = 1e-4
"""Probabilities of networks in single precision sum to 1 within this."""


@dataclass(frozen=True, eq=False)
class LoggedPolicyData:
    """Conversations of a behaviour policy b beside an evaluation policy π."""

    episodes: tuple[EpisodeArrays, ...]
    evaluation: Floats  # (rows, acts) π(· | o_t) at every observation, the last of each included
    propensities: Floats  # (turns,) b(a_t | o_t), in (0, 1]
    discount: float = 1.0
    """γ per agent turn, in (0, 1]."""
    after_cut: AfterCut = "nothing"
    """What follows where a conversation was cut off: "nothing" or "value"."""
    behavior: Floats | None = None  # (rows, acts) all of b(· | o_t), where it is known
    policy: Any = None
    """Whoever gave `evaluation`."""

    def __post_init__(self) -> None:
        if not 0.0 < self.discount <= 1.0:
            raise InvalidConfiguration(f"discount={self.discount}; it must be in (0, 1]")
        if self.after_cut not in ("nothing", "value"):
            raise InvalidConfiguration(f'after_cut={self.after_cut!r}; it is "nothing" or "value"')
        if not self.episodes:
            raise DatasetError("there are no conversations to evaluate a policy on")
        acts = self.episodes[0].actions
        if any(e.actions.dtype.kind not in "iu" or e.actions.ndim != 1 for e in self.episodes):
            raise DatasetError(
                f"the actions are {acts.dtype}, and weights take numbers of acts; evaluate on a "
                'dataset recorded with action="act"'
            )
        check_distribution("the evaluation policy", self.evaluation, len(self.row_of_turn) + self.n)
        if self.behavior is not None:
            check_distribution("the behaviour", self.behavior, len(self.evaluation))
        odds = self.propensities
        if odds.shape != self.row_of_turn.shape or not (odds > 0).all() or (odds > 1.001).any():
            raise DatasetError(
                f"propensities of shape {odds.shape} for {len(self.row_of_turn)} turns, between "
                f"{odds.min(initial=np.inf):.3g} and {odds.max(initial=-np.inf):.3g}; each turn "
                "takes one in (0, 1]: what was done had some chance"
            )
        if self.actions.max() >= self.acts or self.actions.min() < 0:
            raise DatasetError(
                f"acts {self.actions.min()} to {self.actions.max()} were taken, but the "
                f"evaluation policy knows 0 to {self.acts - 1}"
            )

    @classmethod
    def build(
        cls,
        episodes: Sequence[EpisodeArrays],
        policy: Any,
        *,
        discount: float = 1.0,
        after_cut: AfterCut = "nothing",
        behavior: Floats | None = None,
    ) -> LoggedPolicyData:
        """Ask the policy about every observation; propensities are the stored ones.

        `policy` is a callable (observations (n, …), masks (n, acts)) → (n, acts), a batched
        policy, or any with `action_probs(observation, mask)`, asked turn by turn. `behavior`
        (rows, acts) stands in for the stored propensities: see
        `convgym.evaluation.ope.behavior`.

        Raises DatasetError for data without propensities or acts, InvalidConfiguration for a
        policy that cannot say its probabilities.
        """
        kept = tuple(episodes)
        if not kept:
            raise DatasetError("there are no conversations to evaluate a policy on")
        stored = [episode.propensities for episode in kept]
        evaluation = policy_probabilities(policy, kept)
        if behavior is not None:
            odds = np.ones(sum(map(len, kept)))  # replaced below
        elif any(column is None for column in stored):
            raise DatasetError(
                "the conversations hold no propensities; give `behavior`, estimated by "
                "convgym.evaluation.ope.behavior.counted_behavior, say"
            )
        else:
            odds = np.concatenate([np.asarray(column, dtype=np.float64) for column in stored])
        data = cls(kept, evaluation, odds, discount, after_cut, policy=policy)
        return data if behavior is None else data.with_behavior(behavior)

    def with_behavior(self, behavior: Floats) -> LoggedPolicyData:
        """The same conversations, as if `behavior` (rows, acts) had acted."""
        odds = behavior[self.row_of_turn, self.actions]
        return replace(self, behavior=behavior, propensities=odds)

    def with_evaluation(self, evaluation: Floats, policy: Any = None) -> LoggedPolicyData:
        """The same conversations beside another policy's probabilities (rows, acts)."""
        return replace(self, evaluation=evaluation, policy=policy)

    def subset(self, chosen: NDArray[np.intp]) -> LoggedPolicyData:
        """Some of the conversations, by their numbers."""
        turns = np.concatenate([np.arange(self._first[i], self._first[i + 1]) for i in chosen])
        rows = np.concatenate(
            [np.arange(self._first[i], self._first[i + 1] + 1) + i for i in chosen]
        )
        return replace(
            self,
            episodes=tuple(self.episodes[i] for i in chosen),
            evaluation=self.evaluation[rows],
            propensities=self.propensities[turns],
            behavior=None if self.behavior is None else self.behavior[rows],
        )

    # -- sizes and places --------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Conversations."""
        return len(self.episodes)

    @property
    def acts(self) -> int:
        """Acts there are."""
        return self.evaluation.shape[1]

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        """(n,) turns of each conversation."""
        return np.array([len(episode) for episode in self.episodes])

    @cached_property
    def _first(self) -> NDArray[np.intp]:
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def conversation(self) -> NDArray[np.intp]:
        """(turns,) the conversation of each turn."""
        return np.repeat(np.arange(self.n), self.lengths)

    @cached_property
    def row_of_turn(self) -> NDArray[np.intp]:
        """(turns,) the row of o_t; the row of o_{t+1} is the next one."""
        return np.arange(len(self.conversation)) + self.conversation

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """(n, longest) whether the conversation has that turn."""
        return np.arange(self.lengths.max()) < self.lengths[:, None]

    def padded(self, values: NDArray[Any], fill: float = 0.0) -> Floats:
        """(turns,) → (n, longest), `fill` past the end of each conversation."""
        found = np.full(self.live.shape, fill)
        found[self.live] = values
        return found

    # -- what was logged ---------------------------------------------------------------------------

    @cached_property
    def observations(self) -> Any:
        """(rows, …) of all conversations, one beside the other."""
        return together(self.episodes, "observations")

    @cached_property
    def actions(self) -> NDArray[np.intp]:
        """(turns,)"""
        return np.concatenate([episode.actions for episode in self.episodes]).astype(np.intp)

    @cached_property
    def rewards(self) -> Floats:
        """(turns,)"""
        return np.concatenate([episode.rewards for episode in self.episodes]).astype(np.float64)

    @cached_property
    def goes_on(self) -> Floats:
        """(turns,) 0 where the turn ended the conversation, else 1: where it was cut off, too."""
        found = np.ones(len(self.conversation))
        found[self._first[1:] - 1] = [not episode.terminated for episode in self.episodes]
        return found

    @property
    def horizon(self) -> int | None:
        """Turns that count: the longest conversation's, or None where values follow a cut."""
        return self.live.shape[1] if self.after_cut == "nothing" else None

    @cached_property
    def start_rows(self) -> NDArray[np.intp]:
        """(n,) the row of each o_0."""
        return self._first[:-1] + np.arange(self.n)

    def first_values(self, q: Floats) -> Floats:
        """(n,) Σ_a π(a | o_0) q(o_0, a), of action values (rows, acts)."""
        found: Floats = (self.evaluation[self.start_rows] * q[self.start_rows]).sum(axis=1)
        return found

    def padded_values(self, q: Floats) -> tuple[Floats, Floats]:
        """q(o_t, a_t) (n, longest) and v(o_t) (n, longest + 1), of action values (rows, acts).

        After the end, and after a cut that counts nothing, both are 0.
        """
        taken = self.padded(q[self.row_of_turn, self.actions])
        v = (self.evaluation * q).sum(axis=1)
        values = np.concatenate([self.padded(v[self.row_of_turn]), np.zeros((self.n, 1))], axis=1)
        if self.after_cut == "value":
            last = self.goes_on[self._first[1:] - 1] * v[self._first[1:] + np.arange(self.n)]
            values[np.arange(self.n), self.lengths] = last
        return taken, values

    @cached_property
    def returns(self) -> Floats:
        """(n,) Σ_t γ^t r_t of each conversation."""
        return np.asarray(
            self.padded(self.rewards) @ self.discount ** np.arange(self.live.shape[1])
        )

    # -- the evaluation policy ---------------------------------------------------------------------

    @cached_property
    def ratios(self) -> Floats:
        """(n, longest) ρ_t; 1 past the end."""
        taken = self.evaluation[self.row_of_turn, self.actions]
        return self.padded(taken / self.propensities, fill=1.0)

    @cached_property
    def weights(self) -> Floats:
        """(n, longest) w_t = ρ_0 … ρ_t; past the end the last one."""
        return np.asarray(np.cumprod(self.ratios, axis=1), dtype=np.float64)

    @property
    def final_weights(self) -> Floats:
        """(n,) of whole conversations."""
        return self.weights[:, -1]


def policy_probabilities(policy: Any, episodes: Sequence[EpisodeArrays]) -> Floats:
    """π(· | o_t) at every observation of every episode, the last ones included.  # (rows, acts)

    `policy` is what `LoggedPolicyData.build` takes. Raises InvalidConfiguration for one that
    cannot say its probabilities, DatasetError where it needs masks that were not stored.
    """
    single: Any = policy.make() if isinstance(policy, RowPolicies) else policy
    by_turn = hasattr(single, "action_probs") and not isinstance(single, BatchActPolicy)
    if not by_turn and not callable(getattr(single, "action_probs", single)):
        raise InvalidConfiguration(
            f"{policy!r} cannot say its probabilities; give a callable (observations, masks) → "
            "(n, acts), or a policy with action_probs(observation, mask)"
        )
    if not by_turn:
        ask: Callable[..., Any] = getattr(single, "action_probs", single)
        found = ask(together(episodes, "observations"), together(episodes, "masks"))
        return np.asarray(found, dtype=np.float64)
    rows = []
    for episode in episodes:
        if episode.masks is None:
            raise DatasetError(
                "the conversations hold no masks of legal acts, which this policy asks for"
            )
        if hasattr(single, "episode_probs"):  # it remembers what it said and what it earned
            legal = episode.masks[-1:].astype(np.float64)
            # It says nothing of the last observation, which is nobody's turn.
            rows += [*single.episode_probs(episode), *(legal / legal.sum())]
            continue
        if hasattr(single, "reset"):
            single.reset(0)  # a script may count its turns
        parts = _rows(episode.observations)
        rows += [single.action_probs(*pair) for pair in zip(parts, episode.masks, strict=True)]
    return np.asarray(rows, dtype=np.float64)


def check_distribution(who: str, given: Floats, rows: int) -> None:
    """Raise InvalidConfiguration unless `given` is (rows, acts), each row adding up to 1."""
    if given.ndim != 2 or len(given) != rows:
        raise InvalidConfiguration(
            f"{who} gave probabilities of shape {given.shape}; it takes one row for each of "
            f"{rows} observations, the last of each conversation included"
        )
    if not (given >= 0).all() or (np.abs(given.sum(axis=1) - 1.0) > _TOLERANCE).any():
        raise InvalidConfiguration(
            f"{who} gave rows that are no probabilities: the least is {given.min():.3g}, sums are "
            f"{given.sum(axis=1).min():.6g} to {given.sum(axis=1).max():.6g}"
        )


def together(episodes: Sequence[EpisodeArrays], name: str) -> Any:
    """`observations` or `masks` of all episodes, one beside the other; None without masks."""
    parts = [getattr(episode, name) for episode in episodes]
    if parts[0] is None:
        return None
    if isinstance(parts[0], dict):
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return np.concatenate(parts)


def _rows(observations: Any) -> Any:
    if not isinstance(observations, dict):
        return observations
    columns = zip(*observations.values(), strict=True)
    return [dict(zip(observations, row, strict=True)) for row in columns]
