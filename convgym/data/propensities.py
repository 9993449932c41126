"""How likely each recorded act was: under the policy that played, and under the mixture.

    stored     π_k(a_t | o_t)                           of the policy k that played
    mixture    Σ_j P(j | a_0 … a_(t-1)) π_j(a_t | o_t)   of whoever does not know who plays

    P(j | a_0 … a_(t-1))  ∝  w_j Π_(s<t) π_j(a_s | o_s)

One policy plays a whole episode, so what has been done so far tells who plays, and the mixture's
probability of an act is no mean by weight. Data hold the first line; the second needs the
policies, which are asked again. Acts alone: the same text can stand for several acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.policies.batched import BatchActPolicy, RowPolicies

if TYPE_CHECKING:
    from minari import MinariDataset


def distributions(policy: Any, episode: EpisodeArrays) -> NDArray[np.float64]:
    """π(· | o_t) at each of the recorded observations and masks.  # (T, actions)

    `policy` is a single one or a batched one that can say its probabilities (`action_probs`).

    Raises DatasetError for an episode without masks or acts, InvalidConfiguration for another
    policy.
    """
    if episode.masks is None or episode.actions.dtype.kind not in "iu":
        raise DatasetError(
            "the dataset holds no acts with their masks, so a policy's choice among the legal ones "
            'cannot be repeated; take one recorded with action="act"'
        )
    if hasattr(policy, "episode_probs"):  # it remembers what it said and what it earned
        return np.asarray(policy.episode_probs(episode))
    seen, masks = episode.observations[:-1], episode.masks[:-1]
    if isinstance(policy, BatchActPolicy):
        return policy.action_probs(seen, masks)
    single: Any = policy.make() if isinstance(policy, RowPolicies) else policy
    if not hasattr(single, "action_probs"):
        raise InvalidConfiguration(f"the policy {single.name!r} cannot say its action_probs")
    single.reset(0)  # a script may count its turns
    return np.array([single.action_probs(*both) for both in zip(seen, masks, strict=True)])


def mixture_propensities(
    episode: EpisodeArrays, policies: Sequence[Any], weights: Sequence[float]
) -> NDArray[np.float64]:
    """Probability of each act given all before it, where one of `policies` plays.  # (T,)

    Their product is the probability of the episode's acts: Σ_j w_j Π_t π_j(a_t | o_t).

    Raises DatasetError where no policy could have done what was done.
    """
    if len(policies) != len(weights):
        raise InvalidConfiguration(f"{len(policies)} policies have {len(weights)} weights")
    turns = np.arange(len(episode))
    each = [distributions(policy, episode)[turns, episode.actions] for policy in policies]
    return posterior_mean(np.array(each).T, weights)


def posterior_mean(
    likelihoods: NDArray[np.float64], weights: Sequence[float]
) -> NDArray[np.float64]:
    """Mean of each turn's likelihoods (T, K), weighed by what the turns before tell.  # (T,)"""
    believed, means = np.array(weights, dtype=np.float64), np.zeros(len(likelihoods))
    believed /= believed.sum()
    for t, row in enumerate(likelihoods):
        means[t] = believed @ row
        if not means[t] > 0:
            raise DatasetError(f"none of the policies could have done what was done in turn {t}")
        believed = believed * row / means[t]
    return means


def check_propensities(
    dataset: MinariDataset, policies: Sequence[Any], tolerance: float = 1e-6
) -> int:
    """Ask the policies that played again, in the order they were handed in: how many turns agree.

    At every turn the distribution of the policy must sum to 1, give nothing to illegal acts, and
    give the act that was taken the stored propensity. A network that answers other batches than
    it did then rounds otherwise, hence the tolerance.

    Raises DatasetError at the first turn where one of these does not hold.
    """
    checked = 0
    for number, episode in enumerate(read_episodes(dataset)):
        if episode.propensities is None:
            raise DatasetError("the dataset holds no propensities to be checked")
        if not 0 <= (episode.policy or 0) < len(policies):
            raise DatasetError(
                f"episode {number} was played by policy {episode.policy}; {len(policies)} came"
            )
        asked = distributions(policies[episode.policy or 0], episode)
        legal = np.asarray(episode.masks)[:-1] > 0
        taken = asked[np.arange(len(episode)), episode.actions]
        for what, difference in (
            ("sums to 1", asked.sum(axis=1) - 1.0),
            ("gives illegal acts nothing", np.where(legal, 0.0, asked).max(axis=1)),
            ("gives the act taken what is stored", taken - episode.propensities),
        ):
            wrong = np.flatnonzero(~(np.abs(difference) <= tolerance))  # NaN is wrong, too
            if len(wrong):
                raise DatasetError(
                    f"episode {number}, turn {wrong[0]}: it does not hold that the policy's "
                    f"distribution {what}; it is off by {difference[wrong[0]]:.3g}"
                )
        checked += len(episode)
    return checked
