"""How far two distributions lie apart: divergences of counts, distances of samples.

    counts of the same categories        p, q ─► KL (nats), JS (bits)
    values                               x, y ─► 1-Wasserstein (in their unit)
    vectors or values                    x, y ─► MMD² (unbiased, may fall below 0)

What a newcomer would get wrong: every one of them lies above its expected value of 0 when both
samples come from one distribution, by an amount that hangs on n (`convgym.calibration.floors`). KL
adds ½ to each count, so that a category that one side lacks does not make it infinite; JS needs no
such help, and is taken of the shares as they are. Knows nothing of conversations.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgym.errors import InvalidConfiguration

Floats = NDArray[np.float64]
Kernel = Literal["gaussian", "laplacian"]
Method = Literal["kl", "js", "mmd", "wasserstein"]

LENGTH_EDGES = (*range(2, 31), 41, 61)
"""Where a new bin of words a turn begins: 1, 2, … 29 alone, 30–40, 41–60 and above: 32 bins."""
MEDIAN_OF = 1_000
"""So many points tell the median distance, spread evenly over those given."""
_CELLS = 1 << 23
"""Differences held at once by the Laplacian kernel."""


def compute_kl_divergence(p: ArrayLike, q: ArrayLike, smoothing: float = 0.5) -> float:
    """Kullback-Leibler divergence Σ p ln(p / q), in nats; at least 0.

    p, q: counts of the same categories, each above which `smoothing` is added.  (k,)
    Hand in shares with smoothing 0; then it is infinite where q lacks what p has.

    Raises InvalidConfiguration for counts of unlike length, negative, or all 0.
    """
    first, second = _shares(p, q, smoothing)
    there = first > 0
    with np.errstate(divide="ignore"):
        terms = first[there] * np.log(first[there] / second[there])
    return max(0.0, float(terms.sum()))


def compute_js_divergence(p: ArrayLike, q: ArrayLike, smoothing: float = 0.0) -> float:
    """Jensen-Shannon divergence, in bits: 0 for equal shares, 1 where they have nothing in common.

    ½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q) / 2 (Lin, 1991). Arguments and errors as for KL.
    """
    first, second = _shares(p, q, smoothing)
    middle = (first + second) / 2
    total = 0.0
    for shares in (first, second):
        there = shares > 0
        total += float((shares[there] * np.log2(shares[there] / middle[there])).sum()) / 2
    return min(max(total, 0.0), 1.0)


def compute_wasserstein(x: ArrayLike, y: ArrayLike) -> float:
    """1-Wasserstein distance ∫ |F(t) − G(t)| dt of two samples, in their unit.  (n,), (m,)

    Raises InvalidConfiguration for a sample that is empty or not finite.
    """
    first, second = _sample(x), _sample(y)
    points = np.sort(np.concatenate([first, second]))
    shares = [
        np.searchsorted(np.sort(sample), points[:-1], side="right") / len(sample)
        for sample in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]) @ np.diff(points))


def compute_mmd(
    x: ArrayLike, y: ArrayLike, kernel: Kernel = "gaussian", bandwidth: float | None = None
) -> float:
    """Squared maximum mean discrepancy, unbiased (Gretton et al., 2012, JMLR 13, eq. 3).

    mean k(xᵢ, xⱼ), i ≠ j  +  mean k(yᵢ, yⱼ), i ≠ j  −  2 mean k(xᵢ, yⱼ)

    x, y: points, or values that count as points of one dimension.  (n, d), (m, d)
    bandwidth: σ; the median distance of both samples' points where it is None.

    Memory: the similarities of all pairs. Raises InvalidConfiguration for samples of unlike
    dimensions or fewer than two points, another kernel, or a σ that is not above 0.
    """
    first, second = _points(x), _points(y)
    if first.shape[1] != second.shape[1] or min(len(first), len(second)) < 2:
        raise InvalidConfiguration(
            f"samples of shape {first.shape} and {second.shape} came; MMD takes two or more points "
            "of the same dimension on each side"
        )
    if bandwidth is None:
        bandwidth = median_distance(np.concatenate([first, second]), kernel)
    within = [
        (similarities(side, side, kernel, bandwidth).sum() - len(side))
        / (len(side) * (len(side) - 1))
        for side in (first, second)
    ]
    across = similarities(first, second, kernel, bandwidth).mean()
    return float(within[0] + within[1] - 2 * across)


def compute_distribution_divergence(
    x: ArrayLike, y: ArrayLike, method: Method = "js", edges: ArrayLike = LENGTH_EDGES
) -> float:
    """One number for two samples of values: `x` the real ones, `y` the simulated.  (n,), (m,)

    method: `kl` (nats, of x from y) and `js` (bits) over bins that begin at `edges`; `wasserstein`
        and `mmd` (Gaussian kernel) over the values themselves.
    edges: ascending; below the first and above the last lies a bin too.

    Raises InvalidConfiguration for another method, and what the methods raise.
    """
    first, second = _sample(x), _sample(y)
    if method == "wasserstein":
        return compute_wasserstein(first, second)
    if method == "mmd":
        return compute_mmd(first, second)
    if method not in ("kl", "js"):
        raise InvalidConfiguration(
            f"method={method!r}; it takes 'kl', 'js', 'mmd' or 'wasserstein'"
        )
    divergence = compute_kl_divergence if method == "kl" else compute_js_divergence
    return divergence(histogram(first, edges), histogram(second, edges))


def histogram(values: ArrayLike, edges: ArrayLike = LENGTH_EDGES) -> NDArray[np.int64]:
    """How many values lie in each bin.  (n,), (k,) → (k + 1,)"""
    steps = np.asarray(edges)
    return np.bincount(bins_of(values, steps), minlength=len(steps) + 1)


def bins_of(values: ArrayLike, edges: ArrayLike = LENGTH_EDGES) -> NDArray[np.int64]:
    """The bin of each value, from 0.  (n,) → (n,)"""
    return np.searchsorted(np.asarray(edges), np.asarray(values), side="right")


def similarities(
    x: NDArray[np.floating], y: NDArray[np.floating], kernel: Kernel, bandwidth: float
) -> NDArray[np.floating]:
    """k(x, y) of all pairs: exp(−|x − y|² / 2σ²), or Laplacian exp(−|x − y|₁ / σ).  (n, m)

    Raises InvalidConfiguration for another kernel or a bandwidth σ that is not above 0.
    """
    if kernel not in ("gaussian", "laplacian") or not bandwidth > 0:
        raise InvalidConfiguration(
            f"kernel={kernel!r} and bandwidth={bandwidth!r} came; it takes 'gaussian' or "
            "'laplacian', and a bandwidth above 0"
        )
    if kernel == "laplacian":
        return np.exp(_sum_distances(x, y) / -bandwidth)
    return np.exp(_square_distances(x, y) / (-2 * bandwidth**2))


def median_distance(points: NDArray[np.floating], kernel: Kernel = "gaussian") -> float:
    """The median distance of two points, by the kernel's norm; 1 where most points are one."""
    some = points[:: -(-len(points) // MEDIAN_OF)]
    apart = np.triu_indices(len(some), 1)
    if kernel == "laplacian":
        return float(np.median(_sum_distances(some, some)[apart])) or 1.0
    return float(np.sqrt(np.median(_square_distances(some, some)[apart]))) or 1.0


def _square_distances(x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.floating]:
    squares = np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1) - 2 * (x @ y.T)
    return np.maximum(squares, 0)


def _sum_distances(x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.floating]:
    rows = max(1, _CELLS // max(1, y.size))
    parts = [
        np.abs(x[start : start + rows, None] - y).sum(axis=2) for start in range(0, len(x), rows)
    ]
    return np.concatenate(parts)


def _shares(p: ArrayLike, q: ArrayLike, smoothing: float) -> tuple[Floats, Floats]:
    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    both = np.concatenate([first.ravel(), second.ravel()])
    if first.ndim != 1 or first.shape != second.shape or not np.isfinite(both).all():
        raise InvalidConfiguration(
            f"counts of shape {first.shape} and {second.shape} came; it takes two lists of finite "
            "counts of the same categories"
        )
    first, second = first + smoothing, second + smoothing
    if (both < 0).any() or smoothing < 0 or not (first.sum() > 0 and second.sum() > 0):
        raise InvalidConfiguration(
            "counts below 0, or none above it; it takes counts from 0, some above 0 on each side"
        )
    return first / first.sum(), second / second.sum()


def _sample(values: ArrayLike) -> Floats:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not sample.size or not np.isfinite(sample).all():
        raise InvalidConfiguration(
            f"a sample of shape {sample.shape} came; it takes one or more finite values in a list"
        )
    return sample


def _points(values: ArrayLike) -> Floats:
    points = np.asarray(values, dtype=np.float64)
    return points[:, None] if points.ndim == 1 else points
