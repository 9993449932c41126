"""One policy, many customers: every task played with k customers, and m times with each.

    task t ─┬─ customer (t, 0) ─┬─ agent (t, 0, 0)        seeds, all from one:
            │                   └─ agent (t, 0, 1)        user_seed    who comes, what it decides
            └─ customer (t, 1) ─┬─ agent (t, 1, 0)        wording_seed its words, of the task alone
                                └─ …                      agent_seed   the policy's own chance

Every seed is a hash of (seed, places in this table), so the runs can be played in any order and by
any number of processes and are the same; two policies played with one seed meet the same people.
Customers belong to one task each (nested), so that n tasks show n × k personas; with
`shared_users` all tasks have the same k (crossed). Needs of an environment its id, the reset
options `task_id`, `user_seed` and `wording_seed`, and the common keys of `info`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from convgym.crew.crew import Backend, Crew, crew_of
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS, check_split
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import play
from convgym.evaluation.shares import Source, given
from convgym.policies.policy import Policy
from convgym.users.persona import HUNDRED, TRAITS

SEEDED = ("task_id", "split", "user_seed", "wording_seed")
"""Reset options that the plan decides."""
_RESET, _AGENT, _WORDING, _DRAW = 1 << 20, 1 << 21, 1 << 22, 1 << 23


@dataclass(frozen=True, slots=True)
class Run:
    """One episode and where it stands in the table."""

    task_id: str
    task: int
    user: int
    agent: int
    user_seed: int
    wording_seed: int
    agent_seed: int
    persona: tuple[int, ...] | None
    """Levels in hundredths, in the order of `TRAITS`; None where the environment hides them."""
    success: bool
    return_: float
    turns: int
    """Agent turns."""
    failure_reason: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a line of JSON."""
        persona = None if self.persona is None else list(self.persona)
        return asdict(self) | {"persona": persona}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is played; raises InvalidConfiguration for what cannot be.

    `tasks` is how many of the split's tasks, in order (drawn from it where `topic` or `difficulty`
    is fixed), or the names of the tasks. `keywords` are the environment's, `options` reset options
    for every episode. Personas are read with `privileged=True`, which no policy is shown; pass
    `{"privileged": False}` to do without them.
    """

    env_id: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    split: str = "test"
    tasks: int | tuple[str, ...] = 200
    users: int = 4
    agents: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    deterministic: bool = False
    """Whether the policy takes its likeliest action."""
    vary_wording: bool = False
    """Whether another customer also finds other words."""
    shared_users: bool = False
    """Whether all tasks have the same customers."""

    def __post_init__(self) -> None:
        check_split(self.split)
        for name, least in (("users", 1), ("agents", 1), ("seed", 0)):
            _whole(name, getattr(self, name), least)
        if isinstance(self.tasks, int):
            if _whole("tasks", self.tasks, 2) > SPLITS[self.split]:
                raise InvalidConfiguration(
                    f"tasks={self.tasks}; the split {self.split!r} has {SPLITS[self.split]}"
                )
        elif len(set(self.tasks)) != len(self.tasks) or len(self.tasks) < 2:
            raise InvalidConfiguration("tasks are two or more different names, or a number")
        for name in SEEDED:
            if name in self.options or name in self.keywords:
                raise InvalidConfiguration(
                    f"{name!r} is decided by the repeated evaluation; say it with split=, tasks= "
                    "and seed="
                )

    def make(self) -> gym.Env[Any, Any]:
        """The environment; raises InvalidConfiguration where it has a randomizer."""
        keywords = {"privileged": True, **self.keywords}
        if isinstance(self.tasks, int):
            keywords["split"] = self.split
        env = gym.make(self.env_id, disable_env_checker=True, **keywords)
        if getattr(env.unwrapped, "randomizer", None) is not None:
            raise InvalidConfiguration(
                "a randomizer changes with the episodes played before; evaluate without one, and "
                "fix topic, difficulty or persona instead"
            )
        return env

    def task_ids(self, env: gym.Env[Any, Any]) -> tuple[str, ...]:
        """The names of the tasks, in order.

        Raises InvalidConfiguration where keywords and options leave too few different tasks.
        """
        if not isinstance(self.tasks, int):
            return tuple(self.tasks)
        drawn = bool({"topic", "difficulty"} & set(self.options))
        if not (drawn or getattr(env.unwrapped, "draws_tasks", False)):
            return tuple(f"{self.split}-{number}" for number in range(self.tasks))
        found: dict[str, None] = {}
        for attempt in range(50 * self.tasks):
            _, info = env.reset(
                seed=child(child(self.seed, _DRAW), attempt),
                options=dict(self.options) | {"split": self.split},
            )
            found.setdefault(info["task_id"])
            if len(found) == self.tasks:
                return tuple(found)
        raise InvalidConfiguration(
            f"only {len(found)} different tasks of split {self.split!r} fit these keywords and "
            f"options; ask for fewer than {self.tasks}"
        )

    def seeds(self, task: int, user: int, agent: int) -> tuple[int, int, int, int]:
        """(reset, user, wording, agent) seeds of a run, each below 2**32."""
        of_task = child(self.seed, task)
        of_user = child(self.seed if self.shared_users else of_task, user)
        wording = child(of_user if self.vary_wording else of_task, _WORDING)
        own = child(child(child(of_task, user), _AGENT), agent)
        return child(of_task, _RESET) >> 32, of_user >> 32, wording >> 32, own >> 32

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what JSON does not know is shown as Python would."""
        given = asdict(self) | {"keywords": dict(self.keywords), "options": dict(self.options)}
        return dict(json.loads(json.dumps(given, default=repr)))


@dataclass(frozen=True, eq=False)
class RepeatedEvaluation:
    """All runs of one policy, in the order task, user, agent."""

    plan: Plan
    policy: str
    runs: tuple[Run, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(tasks, users, agents)."""
        users, agents = self.plan.users, self.plan.agents
        return len(self.runs) // (users * agents), users, agents

    @property
    def task_ids(self) -> tuple[str, ...]:
        """Names of the tasks, in order."""
        return tuple(run.task_id for run in self.runs[:: self.plan.users * self.plan.agents])

    @property
    def success(self) -> NDArray[np.int8]:
        """# (tasks, users, agents)"""
        return np.array([run.success for run in self.runs], dtype=np.int8).reshape(self.shape)

    @property
    def returns(self) -> NDArray[np.float64]:
        """# (tasks, users, agents)"""
        return np.array([run.return_ for run in self.runs], dtype=np.float64).reshape(self.shape)

    @property
    def personas(self) -> NDArray[np.int64] | None:
        """Trait levels in hundredths; None where one is not known.  # (tasks, users, traits)"""
        met = [run.persona for run in self.runs[:: self.plan.agents]]
        if any(persona is None for persona in met):
            return None
        return np.array(met, dtype=np.int64).reshape(*self.shape[:2], len(TRAITS))


def evaluate_repeatedly(
    policy: Policy,
    plan: Plan,
    *,
    workers: int = 1,
    backend: Backend = "local",
    source: Source | None = None,
    crew: Crew | None = None,
    progress: Callable[[int], None] | None = None,
) -> RepeatedEvaluation:
    """Play the plan; `progress` hears how many tasks are done.

    More `workers` are more processes, or actors on Ray, and give the same runs; `source` is that of
    `convgym.evaluation.evaluate.evaluate`. A script that starts processes must be guarded by
    `if __name__ == "__main__"`. `crew` is one of `crew_for` this policy that has begun, instead.
    Raises InvalidConfiguration for what cannot be sent, WorkerLost where workers die.
    """
    env = plan.make()
    ids = plan.task_ids(env)
    with nullcontext(crew) if crew else crew_for(policy, workers, backend, source) as found:
        runs = _joined(found, plan, ids, progress)
    return RepeatedEvaluation(plan, policy.name, tuple(runs))


def crew_for(
    policy: Policy, workers: int = 1, backend: Backend = "local", source: Source | None = None
) -> Crew:
    """Workers that play plans with this policy, one plan after another."""
    return crew_of(partial(_Player, source or partial(given, policy)), workers, backend)


def _joined(
    crew: Crew, plan: Plan, ids: Sequence[str], progress: Callable[[int], None] | None
) -> list[Run]:
    """The runs of all tasks, in order."""
    runs: list[Run] = []
    met: set[str] = set()
    shares = crew.results(crew.cut(list(enumerate(ids))), plan)
    for number, played in enumerate(chain.from_iterable(shares), 1):
        name = played[0].task_id
        if name in met:  # it would count as two tasks, and every interval be too narrow
            raise InvalidConfiguration(
                f"{ids[number - 1]!r} is the task {name!r} again, which was played already; name "
                "tasks that differ, with tasks=(…)"
            )
        met.add(name)
        runs += played
        if progress is not None:
            progress(number)
    return runs


class _Player:
    """A worker: the environment of the plan that it plays, and a policy for it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._plan: Plan | None = None

    def __call__(self, share: Sequence[tuple[int, str]], plan: Plan) -> list[list[Run]]:
        if plan != self._plan:
            self._env, self._plan = plan.make(), plan
            self._policy = self._source(self._env)
        return [_play_task(self._env, self._policy, plan, task_id, task) for task, task_id in share]


def _play_task(
    env: gym.Env[Any, Any], policy: Policy, plan: Plan, task_id: str, task: int
) -> list[Run]:
    return [
        _play(env, policy, plan, task_id, (task, user, agent))
        for user in range(plan.users)
        for agent in range(plan.agents)
    ]


def _play(
    env: gym.Env[Any, Any],
    policy: Policy,
    plan: Plan,
    task_id: str,
    place: tuple[int, int, int],
) -> Run:
    reset_seed, user_seed, wording_seed, agent_seed = plan.seeds(*place)
    own = {"task_id": task_id, "user_seed": user_seed, "wording_seed": wording_seed}
    rollout = play(
        env,
        policy,
        seed=reset_seed,
        options=dict(plan.options) | own,
        deterministic=plan.deterministic,
        keep=False,
        policy_seed=agent_seed,
    )
    info = rollout.final_info
    task, user, agent = place
    return Run(
        task_id=info["task_id"],
        task=task,
        user=user,
        agent=agent,
        user_seed=user_seed,
        wording_seed=wording_seed,
        agent_seed=agent_seed,
        persona=_persona(info),
        success=bool(info["success"]),
        return_=rollout.return_,
        turns=rollout.length,
        failure_reason="" if info["success"] else str(info["failure_reason"]),
    )


def _persona(info: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Trait levels from the privileged part of `info`, where they stand there."""
    hidden = json.loads(info.get("privileged") or "{}").get("persona")
    if not isinstance(hidden, Mapping) or not set(TRAITS) <= set(hidden):
        return None
    levels = tuple(int(hidden[trait]) for trait in TRAITS)
    assert all(0 <= level <= HUNDRED for level in levels)
    return levels


def _whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidConfiguration(f"{name}={value!r}; it must be a whole number from {least}")
    return value
