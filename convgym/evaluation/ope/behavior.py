"""What acted in the logs, where the stored propensities are not what weights should use.

    stored     b_k(a | o_t)                               of the policy k that played
    mixture    Σ_j P(j | a_0 … a_{t-1}) b_j(a | o_t)      of whoever does not know who plays
    counted    (n(s, a) + prior) / (n(s) + prior · legal) of nobody: counted in cells of states

The mixture's weights Π π / Σ_j share_j Π b_j are bounded wherever one of the policies is close to
π (balance heuristic; Veach & Guibas, 1995), the stored ones only where the policy that played is.
With data from several policies it is the mixture that keeps the effective sample size usable.

Estimated propensities ("regression importance sampling", Hanna, Niekum & Stone, 2019,
arXiv:1806.01347) are for logs without any. Every function gives (rows, acts), for
`LoggedPolicyData.build(…, behavior=…)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import DatasetError, InvalidConfiguration
from convgym.evaluation.ope.logged import (
    Floats,
    LoggedPolicyData,
    policy_probabilities,
    together,
)

if TYPE_CHECKING:
    from convgym.data.transitions import EpisodeArrays

States = Callable[[Any], NDArray[np.intp]]
"""Observations (rows, …) → (rows,) the number of each one's cell."""


def mixture_behavior(
    episodes: Sequence[EpisodeArrays],
    policies: Sequence[Any],
    shares: Sequence[float] | None = None,
) -> Floats:
    """b(· | o_t, a_0 … a_{t-1}) where one of `policies` plays a whole conversation.  # (rows, acts)

    `shares` are those of the conversations; left out, they are counted from `episode.policy`.

    Raises DatasetError where no policy could have done what was done, or who played is unknown.
    """
    given = np.asarray(_counted_shares(episodes, len(policies)) if shares is None else shares)
    if given.shape != (len(policies),) or (given < 0).any() or abs(given.sum() - 1.0) > 1e-6:
        raise InvalidConfiguration(
            f"shares={given.tolist()}; it takes one for each of {len(policies)} policies, 1 in sum"
        )
    each = np.stack([policy_probabilities(policy, episodes) for policy in policies])
    believed = posterior(each, episodes, given)  # (rows, policies)
    found: Floats = np.einsum("rk,kra->ra", believed, each)
    return found


def _counted_shares(episodes: Sequence[EpisodeArrays], policies: int) -> Floats:
    who = [-1 if episode.policy is None else episode.policy for episode in episodes]
    if min(who) < 0 or max(who) >= policies:
        raise DatasetError(
            f"the conversations name policies {min(who)} to {max(who)}, and {policies} came; hand "
            "them in in the order of the data, or give `shares`"
        )
    return np.bincount(who, minlength=policies) / len(who)


def posterior(each: Floats, episodes: Sequence[EpisodeArrays], shares: Floats) -> Floats:
    """P(j | a_0 … a_{t-1}) at each observation, of b_j (policies, rows, acts).

    # (rows, policies)
    """
    found, first = np.empty((each.shape[1], len(shares))), 0
    for number, episode in enumerate(episodes):
        rows = slice(first, first + len(episode) + 1)
        with np.errstate(divide="ignore"):
            told = np.log(each[:, np.arange(first, rows.stop - 1), episode.actions])
            score = np.log(shares) + np.pad(told.cumsum(axis=1).T, ((1, 0), (0, 0)))  # (T + 1, k)
        best = score.max(axis=1, keepdims=True)
        if not np.isfinite(best).all():
            turn = int(np.isfinite(best[:, 0]).argmin()) - 1
            raise DatasetError(
                f"none of the policies could have done what was done in turn {turn} of "
                f"conversation {number}"
            )
        share = np.exp(score - best)
        found[rows] = share / share.sum(axis=1, keepdims=True)
        first = rows.stop
    return found


def counted_behavior(
    episodes: Sequence[EpisodeArrays], acts: int, states: States, prior: float = 0.0
) -> Floats:
    """How often each act was taken in the cell of each observation.  # (rows, acts)

    `prior` counts every legal act that often more; with 0 the estimate is the maximum of the
    likelihood, which regression importance sampling wants. In cells where nobody acted, every
    legal act is alike.
    """
    cells = states(together(episodes, "observations"))  # (rows,)
    masks = together(episodes, "masks")
    legal = np.ones((len(cells), acts)) if masks is None else np.asarray(masks, dtype=np.float64)
    acted = np.concatenate([np.arange(len(e) + 1) < len(e) for e in episodes])  # (rows,)
    taken = np.concatenate([e.actions for e in episodes])
    counts = np.zeros((int(cells.max()) + 1, acts))
    np.add.at(counts, (cells[acted], taken), 1.0)
    weights = (counts[cells] + prior) * (legal > 0)
    empty = weights.sum(axis=1) == 0
    weights[empty] = legal[empty]
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


def as_behavior(data: LoggedPolicyData) -> LoggedPolicyData:
    """The behaviour as the policy to be evaluated: all ratios are 1, its value is the mean return.

    Where only propensities are known, the policy is what was done: the act taken, for certain.
    After a last observation that is what is done anywhere, as far as it is legal there.
    """
    if data.behavior is not None:
        return data.with_evaluation(data.behavior, "behaviour")
    done = np.zeros(data.evaluation.shape)
    done[data.row_of_turn, data.actions] = 1.0
    last = done.sum(axis=1) == 0
    often = np.bincount(data.actions, minlength=data.acts) + 1e-9
    masks = together(data.episodes, "masks")
    done[last] = often if masks is None else often * (masks[last] > 0)
    done /= done.sum(axis=1, keepdims=True)
    return data.with_behavior(done).with_evaluation(done, "behaviour")
