"""An iteration's rollouts: seeds drawn, groups without spread drawn anew, long ones penalised.

    seeds ─► collector ─► rollouts ─► penalty ─► spread? ─ yes ─► kept
      ▲                                             └──── no, and attempts left ───┐
      └────────────────────────────────────────────────────────────────────────────┘

Which seeds are drawn, and what is sampled for them, follows from the run's seed and two counters,
so that a run that is taken up again goes on as it would have. What is measured is of all rollouts,
not only of those kept. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from convgym.errors import MissingExtra
from trainers.llm.advantages import have_spread, overlong_penalty
from trainers.llm.policy_config import FIRST_TRAINING_SEED, Overlong, PolicyOptimizerConfig
from trainers.llm.ranks import Ranks
from trainers.llm.rollouts import Rollout
from trainers.llm.seed_shares import seed_shares, together

try:
    import torch
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

EVALUATION = 2**20
"""The number of an attempt that no training has."""


class Collector(Protocol):
    """Whatever plays conversations: `RolloutEngine`, or a stand-in.

    With an attribute `exact` that is true, its log-probabilities are taken for the learner's own:
    those of the same weights in the same precision.
    """

    def collect(
        self, seeds: Sequence[int], group_size: int, rng_seed: int, version: int = 0
    ) -> list[Rollout]:
        """`group_size` rollouts of each seed; what failed has an `error`."""
        ...


@dataclass(frozen=True, eq=False)
class Gathered:
    """What was played in an iteration."""

    kept: list[Rollout]
    """To learn from; failed ones among them."""
    played: list[Rollout]
    """All of them; rewards as the environment gave them."""
    attempts: int
    penalty: float
    """Mean over what was played."""
    spread: bool
    """Whether any group has rewards that differ."""


class Collection:
    """Draws seeds and has them played."""

    def __init__(
        self,
        collector: Collector,
        config: PolicyOptimizerConfig,
        evaluation: Collector | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.collector, self.config = collector, config
        self._ranks = ranks or Ranks()
        self._evaluation = evaluation or collector
        self.drawn = 0
        """Seeds so far; with the iteration it is all that there is to remember."""

    def gather(self, iteration: int, version: int) -> Gathered:
        """Play one iteration; `version` is told to the collector."""
        config = self.config
        kept: list[Rollout] = []
        played: list[Rollout] = []
        penalties: list[float] = []
        missing, attempts, groups = config.seeds_per_iteration, 0, 0
        while missing and attempts <= config.resample:
            rng_seed = _mixed(config.seed, iteration, attempts)
            found = self._played(
                self.collector, self._draw(missing), config.group_size, rng_seed, version
            )
            found, groups = _numbered(found, groups)
            played += found
            found, penalty = _penalised(found, config.overlong)
            penalties += penalty
            attempts += 1
            if config.resample:
                found = with_spread(found)
            kept += found
            missing = config.seeds_per_iteration - len({rollout.group for rollout in kept})
            if not config.resample:
                break
        penalty_mean = float(np.mean(penalties)) if penalties else 0.0
        return Gathered(kept, played, attempts, penalty_mean, bool(with_spread(kept)))

    def evaluate(self) -> list[Rollout]:
        """One rollout of each held-out seed, sampled alike at every evaluation."""
        seeds = range(self.config.evaluation_episodes)
        rng_seed = _mixed(self.config.seed, 0, EVALUATION)
        return self._played(self._evaluation, list(seeds), 1, rng_seed, 0)

    def _played(
        self, collector: Collector, seeds: list[int], group_size: int, rng_seed: int, version: int
    ) -> list[Rollout]:
        """Each rank its share; all of them everywhere."""
        shares = seed_shares(seeds, self._ranks.size)
        own = shares[self._ranks.rank] if self._ranks.rank < len(shares) else []
        found = collector.collect(
            [seeds[place] for place in own], group_size, rng_seed=rng_seed, version=version
        )
        return together(shares, self._ranks.gathered(found)[: len(shares)], group_size)

    def _draw(self, number: int) -> list[int]:
        """New seeds, or those of the pool in turn."""
        numbers = range(self.drawn, self.drawn + number)
        self.drawn += number
        if (pool := self.config.distinct_seeds) is not None:
            numbers = [place % pool for place in numbers]  # type: ignore[assignment]
        span = 2**31 - FIRST_TRAINING_SEED
        first = self.config.seed * 1_000_003
        return [FIRST_TRAINING_SEED + (first + place) % span for place in numbers]


def _mixed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _numbered(rollouts: Iterable[Rollout], first: int) -> tuple[list[Rollout], int]:
    """Groups of different attempts are different groups."""
    numbers: dict[int, int] = {}
    found = [
        replace(rollout, group=first + numbers.setdefault(rollout.group, len(numbers)))
        for rollout in rollouts
    ]
    return found, first + len(numbers)


def _penalised(
    rollouts: list[Rollout], overlong: Overlong | None
) -> tuple[list[Rollout], list[float]]:
    valid = [rollout for rollout in rollouts if rollout.valid]
    if overlong is None or not valid:
        return rollouts, [0.0] * len(valid)
    lengths = torch.tensor([rollout.sampled for rollout in valid])
    shares = overlong_penalty(lengths, overlong.longest, overlong.cache)
    amounts = iter((overlong.penalty * shares).tolist())
    found, taken = [], []
    for rollout in rollouts:
        if rollout.valid:
            taken.append(next(amounts))
            rewards = rollout.rewards.astype(np.float64)
            rewards[-1] += taken[-1]
            rollout = replace(rollout, rewards=rewards)
        found.append(rollout)
    return found, taken


def with_spread(rollouts: list[Rollout]) -> list[Rollout]:
    """Those whose group has rewards that differ."""
    if not rollouts:
        return []
    returns = torch.tensor([rollout.return_ for rollout in rollouts], dtype=torch.float64)
    groups = torch.tensor([rollout.group for rollout in rollouts])
    valid = torch.tensor([rollout.valid for rollout in rollouts])
    kept = have_spread(returns, groups, valid).tolist()
    return [rollout for rollout, keep in zip(rollouts, kept, strict=True) if keep]


# -- what to watch ---------------------------------------------------------------------------------


def rollout_statistics(gathered: Gathered) -> dict[str, float]:
    """Of everything that was played and did not fail; rewards are sums over a conversation.

    `length` counts sampled tokens, `flat_groups` is the share of groups of one reward only,
    `failed` and `truncated` are shares of rollouts, `attempts` counts collections.
    """
    valid = [rollout for rollout in gathered.played if rollout.valid]
    found = {
        "failed": 1 - len(valid) / max(1, len(gathered.played)),
        "attempts": float(gathered.attempts),
        "rollouts": float(len(gathered.played)),
        "sampled_tokens": float(sum(rollout.sampled for rollout in gathered.played)),
    }
    if not valid:
        return found
    returns = np.array([rollout.return_ for rollout in valid])
    lengths = np.array([rollout.sampled for rollout in valid])
    groups = {rollout.group for rollout in valid}
    lively = {rollout.group for rollout in with_spread(valid)}
    return found | {
        "reward_mean": float(returns.mean()),
        "reward_std": float(returns.std()),
        "reward_min": float(returns.min()),
        "reward_max": float(returns.max()),
        "success": float(np.mean([rollout.success for rollout in valid])),
        "flat_groups": 1 - len(lively) / len(groups),
        "length_mean": float(lengths.mean()),
        "length_max": float(lengths.max()),
        "turns_mean": float(np.mean([len(rollout.rewards) for rollout in valid])),
        "truncated": float(np.mean([not rollout.terminated for rollout in valid])),
        "overlong_penalty": gathered.penalty,
    }
