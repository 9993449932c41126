"""pass^k: how likely k customers with one and the same task are all served.

Of task t, n customers were played and c of them served; then (Yao et al., 2024, "τ-bench",
arXiv:2406.12045, after the estimator of Chen et al., 2021, arXiv:2107.03374)

    pass^k = mean over t of  C(c_t, k) / C(n, k)            k = 1 … n

the share of k-subsets of the customers that hold successes only. It is unbiased for E[p_t^k],
where (c/n)^k is too high. Where the agent met each customer m times, p_tu is the share of those m,
and the same average over k-subsets is

    pass^k = mean over t of  e_k(p_t1, …, p_tn) / C(n, k)   e_k: sum of all products of k

(a U-statistic; Hoeffding, 1948), which is the formula above for m = 1. pass^1 is the success rate;
pass^8 far below it says that the agent serves every task sometimes, rather than some always.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from convgym.evaluation.bootstrap import Floats, TaskBootstrap, middle
from convgym.evaluation.intervals import BOOTSTRAP, WILSON, Estimate, wilson


def pass_k_by_task(shares: Floats) -> Floats:
    """Each task's unbiased estimate for k = 1 … n from its n shares of success.

    # (tasks, n) in [0, 1] → (tasks, n)
    """
    tasks, n = shares.shape
    elementary = np.zeros((tasks, n + 1))  # e_0 … e_n of the shares so far
    elementary[:, 0] = 1.0
    for u in range(n):
        elementary[:, 1:] += elementary[:, :-1] * shares[:, u : u + 1]
    return elementary[:, 1:] / np.array([comb(n, k) for k in range(1, n + 1)], dtype=np.float64)


def user_pass_k(success: NDArray[np.int8], bootstrap: TaskBootstrap) -> tuple[Estimate, ...]:
    """pass^k over customers, k = 1 … users.  # (tasks, users, agents)"""
    return _estimates(pass_k_by_task(success.mean(axis=2)), success, bootstrap)


def agent_pass_k(success: NDArray[np.int8], bootstrap: TaskBootstrap) -> tuple[Estimate, ...]:
    """The same for one customer who comes k times, k = 1 … agents.  # (tasks, users, agents)

    What is lost here from k to k + 1 is the agent's own chance alone.
    """
    tasks, users, agents = success.shape
    each = pass_k_by_task(success.reshape(tasks * users, agents).astype(np.float64))
    return _estimates(each.reshape(tasks, users, agents).mean(axis=1), success, bootstrap)


def _estimates(
    by_task: Floats, success: NDArray[np.int8], bootstrap: TaskBootstrap
) -> tuple[Estimate, ...]:
    tasks, several = len(by_task), success[0].size > 1
    redrawn = bootstrap.sums(by_task) / tasks  # (resamples, k)
    found = []
    for k in range(by_task.shape[1]):
        value = float(by_task[:, k].mean())
        if several and 0.0 < value < 1.0:
            found.append(Estimate(value, *middle(redrawn[:, k]), BOOTSTRAP))
        else:  # one run a task, or a share of 0 or 1, whose redraws never differ
            found.append(Estimate(value, *wilson(round(value * tasks), tasks), WILSON))
    return tuple(found)
