"""A domain's tasks at a glance: how many differ, and what scripted and null agents score on them.

    survey("sales", "test", tasks=1000) ─► distinct goals; random < keyword < … ≤ oracle; floors

Conversations are played on the engine alone, with drawn personas, each task once: quick enough
for all splits of a domain. What a null policy says is read as any agent's text is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from convgym.domains.catalogue import domain_called
from convgym.engine import keys
from convgym.engine.acts import AgentTurn
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.tasks import SPLITS
from convgym.evaluation.intervals import wilson
from convgym.policies.policy import ActPolicy
from convgym.policies.roster import ladder, null_policies
from convgym.spaces import sanitize
from convgym.users.decisions import DecisionModel
from convgym.users.persona import drawn_levels

MOST_TURNS = 60
"""Agent turns; three requests of an impatient customer take no more."""
_ACTION_LENGTH = 4096


@dataclass(frozen=True)
class Score:
    """Successes of one agent."""

    agent: str
    successes: int
    tasks: int

    @property
    def success(self) -> float:
        """Share of tasks."""
        return self.successes / self.tasks

    @property
    def upper(self) -> float:
        """Upper end of Wilson's 95 % interval."""
        return wilson(self.successes, self.tasks)[1]


@dataclass(frozen=True)
class Survey:
    """One split of one domain."""

    domain: str
    split: str
    tasks: int
    distinct: int
    """How many of all tasks of the split differ in substance, not in name."""
    ladder: tuple[Score, ...]
    floors: tuple[Score, ...]

    @property
    def ordered(self) -> bool:
        """Whether each rung of the ladder scores at least what the one below it does."""
        scores = [score.success for score in self.ladder]
        return scores == sorted(scores)

    @property
    def highest_floor(self) -> Score:
        """The null policy whose upper end is highest."""
        return max(self.floors, key=lambda score: score.upper)

    def row(self) -> str:
        """A row of a Markdown table."""
        scores = " | ".join(f"{score.success:.3f}" for score in self.ladder)
        floor = self.highest_floor
        return (
            f"| {self.split} | {self.distinct:,} of {SPLITS[self.split]:,} | {scores} "
            f"| {floor.upper:.4f} ({floor.agent}) |"
        )


HEAD = (
    "| split | different tasks | random | keyword | slot-filling | planner | oracle "
    "| highest null floor, upper end |\n|---|---|---|---|---|---|---|---|"
)
"""Head of the table whose rows are `Survey.row`."""


def survey(domain: str, split: str, tasks: int = 1000, seed: int = 0) -> Survey:
    """Play the first `tasks` tasks of a split with every scripted and null agent."""
    played = domain_called(domain)
    count = min(tasks, SPLITS[split])
    return Survey(
        domain=domain,
        split=split,
        tasks=count,
        distinct=_distinct(played, split),
        ladder=tuple(
            _score(played, name, make, split, count, seed) for name, make in ladder(domain).items()
        ),
        floors=tuple(
            _score(played, name, make, split, count, seed)
            for name, make in null_policies(domain).items()
        ),
    )


@lru_cache(maxsize=64)
def _distinct(domain: Any, split: str) -> int:
    """How many tasks of a split differ; every one of them is drawn."""
    return len({domain.signature(domain.task(split, n)) for n in range(SPLITS[split])})


def _score(
    domain: Any, name: str, make: Callable[[], Any], split: str, tasks: int, seed: int
) -> Score:
    policy = make()
    successes = sum(play_task(domain, policy, split, number, seed) for number in range(tasks))
    return Score(name, successes, tasks)


def play_task(
    domain: Any, policy: Any, split: str, number: int, seed: int = 0, turns: int = MOST_TURNS
) -> bool:
    """Whether `policy` succeeds on one task with the persona that its number and `seed` draw."""
    task = domain.task(split, number)
    key = keys.child(keys.mix(seed), number)
    user_key = keys.child(key, 1)
    episode = Episode(task, user_key, keys.child(key, 2), domain.layout.row())
    domain.open(episode, drawn_levels(user_key, split))
    engine = Engine(domain, domain.make_user(DecisionModel()), turns)
    engine.open(episode)
    policy.reset(key)
    scale = np.array([domain.scales.get(name, 1.0) for name in domain.layout], dtype=np.float32)
    while not episode.end:
        engine.apply(episode, _turn(domain, policy, episode, scale))
    return bool(domain.grade(episode).success and not episode.truncated)


def _turn(domain: Any, policy: Any, episode: Episode, scale: Any) -> AgentTurn:
    if not isinstance(policy, ActPolicy):
        text, _ = policy.predict("")
        turn: AgentTurn = domain.understand(episode, sanitize(text, _ACTION_LENGTH))
        return turn
    belief = np.frombuffer(bytes(episode.belief), dtype=np.uint8)
    number, _ = policy.predict(belief * scale, action_masks=domain.actions.mask(belief))
    acted: AgentTurn = domain.turn(episode, number)
    return acted


def table(domain: str, splits: Sequence[str] = (), tasks: int = 1000) -> str:
    """Markdown of all splits of a domain, or of some."""
    chosen = splits or domain_called(domain).splits
    return "\n".join([HEAD, *(survey(domain, split, tasks).row() for split in chosen)])
