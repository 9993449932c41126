"""A collection's seeds in shares, and the rollouts of all shares as one collection.

    seeds   8 3 8 5  ─►  [8 8] [3] [5]  ─► collected apart ─►  rollouts in the order of seeds

What a conversation says hangs on (rng_seed, seed, member, turn, place) alone, and members are
counted within their seed; so a seed is in one share however often it comes, and the union of the
shares is the whole. A model's log-probabilities differ by rounding between batches of different
sizes, so that for equal bytes the shares must be equal too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

from trainers.llm.rollouts import Rollout

Share = list[int]
"""Places in the list of seeds."""


def seed_shares(seeds: Sequence[int], shares: int) -> list[Share]:
    """At most `shares` of them, of nearly as many different seeds each; none is empty."""
    places: dict[int, Share] = {}
    for place, seed in enumerate(seeds):
        places.setdefault(int(seed), []).append(place)
    alike, count = list(places.values()), min(shares, len(places))
    ends = [len(alike) * number // count for number in range(count + 1)] if count else [0]
    return [sorted(chain.from_iterable(alike[first:end])) for first, end in pairwise(ends)]


def together(
    shares: Sequence[Share], found: Sequence[Sequence[Rollout]], group_size: int
) -> list[Rollout]:
    """Rollouts of shares, `group_size` of each seed, as if they had been collected at once."""
    placed = {
        place: rollouts[number * group_size : (number + 1) * group_size]
        for share, rollouts in zip(shares, found, strict=True)
        for number, place in enumerate(share)
    }
    return [rollout for place in sorted(placed) for rollout in placed[place]]
