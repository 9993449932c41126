"""Where the spread of success comes from: the task, the customer, or the agent's own chance.

n tasks × k customers each × m runs of the agent with each, y = 0 or 1. With p_tu the chance of
success of customer u with task t, and p_t the mean of those over all customers,

    Var(y)  =  Var(p_t)  +  E Var(p_tu | t)  +  E p_tu (1 − p_tu)
               task         user                agent

These are the components of the balanced nested random-effects design, and its analysis of
variance estimates them without bias, whatever the distribution, so for 0 and 1 as well (Searle,
Casella & McCulloch, 1992, "Variance Components", chapter 3):

    MS_task  = k m Σ (ȳ_t − ȳ)² / (n − 1)           σ²_task  = (MS_task − MS_user) / (k m)
    MS_user  = m ΣΣ (ȳ_tu − ȳ_t)² / (n (k − 1))     σ²_user  = (MS_user − MS_agent) / m
    MS_agent = ΣΣΣ (y − ȳ_tu)² / (n k (m − 1))      σ²_agent = MS_agent

A difference of mean squares can fall below 0 where the component is small: it is then reported as
0 with the raw number beside it. What a design cannot tell apart it names together: with m = 1
"user + agent", with k = 1 "task + user".

Where all tasks were played with the *same* k customers (`crossed`), a part belongs to who the
customer is whatever the task, and the rest of the user's part to who meets what:

    MS_user  = n m Σ (ȳ_u − ȳ)² / (k − 1)
    MS_both  = m ΣΣ (ȳ_tu − ȳ_t − ȳ_u + ȳ)² / ((n − 1)(k − 1))
    σ²_task  = (MS_task − MS_both) / (k m)    σ²_user = (MS_user − MS_both) / (n m)
    σ²_both  = (MS_both − MS_agent) / m       "task × user"

The agent's chance holds whatever else differs between two runs with one customer, tool faults
that depend on what was done before included.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.evaluation.bootstrap import Floats, TaskBootstrap, middle

TASK, USER, BOTH, AGENT = "task", "user", "task × user", "agent"


@dataclass(frozen=True, slots=True)
class Part:
    """One component of the variance."""

    name: str
    variance: float
    """Not below 0."""
    raw: float
    """As the mean squares give it; it may be negative."""
    share: float
    """Of the sum of all parts; 0 where nothing varies."""
    interval: tuple[float, float] | None = None
    """Of `variance`, 95 %, tasks redrawn; None where it is not known."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        interval = None if self.interval is None else list(self.interval)
        return asdict(self) | {"interval": interval}


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """The parts of Var(y), in the order task, user, agent."""

    parts: tuple[Part, ...]
    design: tuple[int, int, int]
    """Tasks, users, agents."""

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return sum(part.variance for part in self.parts)

    def __getitem__(self, name: str) -> Part:
        """The part of that name; raises KeyError where the design cannot tell it apart."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"no part {name!r}; there are {', '.join(p.name for p in self.parts)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "design": list(self.design),
            "total": self.total,
            "parts": [part.to_dict() for part in self.parts],
        }


def nested(success: NDArray[Any], bootstrap: TaskBootstrap | None = None) -> VarianceSplit:
    """The split where each task has customers of its own; with intervals if `bootstrap` is given.

    # (tasks, users, agents); raises ValueError for fewer than two tasks
    """
    y = _table(success)
    tasks, users, agents = y.shape
    sums = _sums_by_task(y)
    raw = _components(sums.sum(axis=0), y.shape)
    intervals: list[tuple[float, float] | None] = [None] * len(raw)
    if bootstrap is not None:
        redrawn = np.maximum(_components(bootstrap.sums(sums), y.shape), 0.0)
        intervals = [middle(row) for row in redrawn]
    return VarianceSplit(_parts(_names(users, agents), raw, intervals), (tasks, users, agents))


def crossed(success: NDArray[Any]) -> VarianceSplit:
    """The split where all tasks have the same customers in the same order.

    # (tasks, users, agents); raises ValueError for fewer than two tasks or users
    """
    y = _table(success)
    tasks, users, agents = y.shape
    if users < 2:
        raise ValueError(f"{users} user; a crossed design takes two or more that all tasks share")
    cells, of_task, of_user = y.mean(axis=2), y.mean(axis=(1, 2)), y.mean(axis=(0, 2))
    mean = y.mean()
    left = cells - of_task[:, None] - of_user[None, :] + mean
    ms_task = users * agents * ((of_task - mean) ** 2).sum() / (tasks - 1)
    ms_user = tasks * agents * ((of_user - mean) ** 2).sum() / (users - 1)
    ms_both = agents * (left**2).sum() / ((tasks - 1) * (users - 1))
    raw = [(ms_task - ms_both) / (users * agents), (ms_user - ms_both) / (tasks * agents)]
    names = [TASK, USER]
    if agents > 1:
        ms_agent = ((y - cells[:, :, None]) ** 2).sum() / (tasks * users * (agents - 1))
        raw += [(ms_both - ms_agent) / agents, ms_agent]
        names += [BOTH, AGENT]
    else:
        raw.append(ms_both)
        names.append(f"{BOTH} + {AGENT}")
    return VarianceSplit(
        _parts(names, np.array(raw), [None] * len(raw)), (tasks, users, agents)
    )


def _table(success: NDArray[Any]) -> Floats:
    y = np.asarray(success, dtype=np.float64)
    if y.ndim != 3 or y.shape[0] < 2 or 0 in y.shape:
        raise ValueError(f"a table of shape {y.shape}; it takes (two or more tasks, users, agents)")
    return y


def _sums_by_task(y: Floats) -> Floats:
    """What the mean squares need of each task: ȳ_t, ȳ_t², and the sums of squares below it.

    # (tasks, 4)
    """
    cells, of_task = y.mean(axis=2), y.mean(axis=(1, 2))
    below_task = y.shape[2] * ((cells - of_task[:, None]) ** 2).sum(axis=1)
    below_user = ((y - cells[:, :, None]) ** 2).sum(axis=(1, 2))
    return np.stack([of_task, of_task**2, below_task, below_user], axis=1)


def _components(sums: Floats, shape: tuple[int, ...]) -> Floats:
    """Raw components from the sums over the tasks, outermost first.

    # (…, 4) → (parts, …)
    """
    tasks, users, agents = shape
    mean, squares, below_task, below_user = np.moveaxis(sums, -1, 0)
    runs = users * agents
    ms = [runs * (squares - mean**2 / tasks) / (tasks - 1)]
    size = [runs]
    if users > 1:
        ms.append(below_task / (tasks * (users - 1)))
        size.append(agents)
    if agents > 1:
        ms.append(below_user / (tasks * users * (agents - 1)))
        size.append(1)
    # The innermost mean square is a component by itself, scaled to a single run.
    inner = [(upper - lower) / n for upper, lower, n in zip(ms, ms[1:], size, strict=False)]
    return np.stack([*inner, ms[-1]])


def _names(users: int, agents: int) -> list[str]:
    if users > 1:
        return [TASK, USER, AGENT] if agents > 1 else [TASK, f"{USER} + {AGENT}"]
    return [f"{TASK} + {USER}", AGENT] if agents > 1 else [f"{TASK} + {USER} + {AGENT}"]


def _parts(
    names: list[str], raw: Floats, intervals: list[tuple[float, float] | None]
) -> tuple[Part, ...]:
    kept = [max(float(value), 0.0) for value in raw]
    total = sum(kept)
    return tuple(
        Part(name, variance, float(value), variance / total if total else 0.0, interval)
        for name, variance, value, interval in zip(names, kept, raw, intervals, strict=True)
    )
