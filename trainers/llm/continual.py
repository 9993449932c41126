"""Tasks learnt one after another, and what becomes of the earlier ones.

    task A ─► task B ─► task C          each: the one loop, for `task_switch_iterations`
      │         │         │
      └ score ──┴ score ──┴─►  success[k][j]: on task j after task k was learnt

    replay       groups of earlier tasks beside the new ones, with the log-probabilities that they
                 were sampled with, so that ratios and clips are right
    lwf          KL to the model as it was when the task began, on the new task's conversations
                 (learning without forgetting: Li and Hoiem, 2016, arXiv:1606.09282)
    ewc          weights held where earlier tasks need them (`elastic_weights`)
    replay_lwf   the first two together

Knows nothing of what the tasks are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration
from trainers.callbacks import Callback
from trainers.llm.elastic_weights import ElasticWeights
from trainers.llm.language_model import LanguageModel
from trainers.llm.objectives import KLPenalty
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.replay import RolloutReplay
from trainers.llm.rollout_collection import Collector, with_spread
from trainers.llm.rollouts import Rollout, RolloutBatch, Rows
from trainers.option_kinds import check_kinds

Method = Literal["none", "replay", "lwf", "ewc", "replay_lwf"]


@dataclass(frozen=True, kw_only=True)
class ContinualConfig:
    """How earlier tasks are kept."""

    method: Method = "replay_lwf"
    """ "none", "replay", "lwf", "ewc" or "replay_lwf"."""
    task_switch_iterations: int = 50
    """Iterations of each task."""
    replay_groups: int = 4
    """Groups of earlier tasks in each iteration, beside the new ones."""
    replay_capacity: int = 64
    """Groups that are kept of all earlier tasks: the newest that taught.

    A clipped ratio protects a reply only up to the probability that it was sampled with, so that
    older groups, of a policy that knew less, hold a task less firmly.
    """
    balanced_replay: bool = True
    """Whether each earlier task has the same share of them."""
    lwf_coefficient: float = 0.1
    """Of the KL to the model as it was when the task began."""
    ewc_strength: float = 100.0
    """λ."""
    ewc_decay: float = 1.0
    """What the information of earlier tasks is multiplied by with each new one."""
    ewc_conversations: int = 64
    """Of a finished task, from which its information is taken."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.method not in get_args(Method):
            raise InvalidConfiguration(
                f"method={self.method!r}; it is one of {', '.join(get_args(Method))}"
            )
        for name in ("task_switch_iterations", "replay_groups", "replay_capacity"):
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it counts from 1")
        if self.lwf_coefficient < 0 or self.ewc_conversations < 1:
            raise InvalidConfiguration(
                f"lwf_coefficient={self.lwf_coefficient}, ewc_conversations="
                f"{self.ewc_conversations}; the first is 0 or more and the second counts from 1"
            )
        if self.ewc_strength < 0 or not 0 <= self.ewc_decay <= 1:
            raise InvalidConfiguration(
                f"ewc_strength={self.ewc_strength}, ewc_decay={self.ewc_decay}; the first is 0 or "
                "more and the second lies in [0, 1]"
            )

    @property
    def replays(self) -> bool:
        """Whether earlier conversations are learnt from again."""
        return self.method in ("replay", "replay_lwf")

    @property
    def distils(self) -> bool:
        """Whether the model is held near what it was."""
        return self.method in ("lwf", "replay_lwf")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ContinualResult:
    """What K tasks in a row came to."""

    tasks: tuple[str, ...]
    before: NDArray[np.float64]  # (K,) success before anything was learnt
    success: NDArray[np.float64]  # (K, K) row k: after task k, on each task
    rows: list[list[dict[str, float]]] = field(default_factory=list)
    """The loop's rows of each task."""

    @property
    def forgetting(self) -> float:
        """Mean over all but the last task of its best success less its last.

        (Chaudhry et al., 2018, arXiv:1801.10112, eq. 3.) 0 of one task alone.
        """
        if len(self.tasks) < 2:
            return 0.0
        best = self.success[:-1, :-1].max(axis=0)
        return float((best - self.success[-1, :-1]).mean())

    @property
    def average(self) -> float:
        """Mean success on all tasks at the end."""
        return float(self.success[-1].mean())


class ContinualLearner:
    """Learns `tasks`, collectors by name, in their order; trains `model` in place.

    `evaluations` play held-out conversations of each task; None: the tasks' own collectors do.
    """

    def __init__(
        self,
        model: LanguageModel,
        tasks: Mapping[str, Collector],
        config: PolicyOptimizerConfig,
        continual: ContinualConfig | None = None,
        callbacks: Sequence[Callback] = (),
        *,
        evaluations: Mapping[str, Collector] | None = None,
    ) -> None:
        if not tasks:
            raise InvalidConfiguration("there is no task; give a collector for each, by name")
        self.model, self.tasks = model, dict(tasks)
        self.continual = continual or ContinualConfig()
        self.config = config.changed(iterations=self.continual.task_switch_iterations)
        self.callbacks, self.evaluations = list(callbacks), dict(evaluations or tasks)
        if missing := [name for name in self.tasks if name not in self.evaluations]:
            raise InvalidConfiguration(f"no evaluation of {', '.join(missing)}; give one for each")
        kept = self.continual
        self.replay = RolloutReplay(
            kept.replay_capacity, balanced=kept.balanced_replay, seed=config.seed
        )
        self.elastic = ElasticWeights(model.module, kept.ewc_strength, kept.ewc_decay)

    def train(self) -> ContinualResult:
        """Learn every task; what each is worth after each."""
        before = self._scores()
        scores, rows = [], []
        for number, name in enumerate(self.tasks):
            rows.append(self._learn(number, name))
            scores.append(self._scores())
        return ContinualResult(tuple(self.tasks), before, np.array(scores), rows)

    def _learn(self, number: int, name: str) -> list[dict[str, float]]:
        """One task: the one loop, with what the method adds from the second task on."""
        recent: list[Rollout] = []
        most = self.continual.replay_capacity * self.config.group_size

        def beside(rollouts: list[Rollout]) -> list[Rollout]:
            first = recent[-1].group + 1 if recent else 0  # each iteration numbers its own from 0
            recent.extend(replace(r, group=first + r.group) for r in with_spread(rollouts))
            del recent[:-most]
            return rollouts + self.replay.draw(self.continual.replay_groups)

        elastic = self.elastic
        optimizer = PolicyOptimizer(
            self.model,
            self.tasks[name],
            self._config(number),
            self.callbacks,
            prepare=[beside],
            penalties={"elastic_loss": lambda step: elastic.loss()} if elastic.anchors else None,
        )
        found = optimizer.train()
        self._keep(name, recent)
        return found

    def _config(self, number: int) -> PolicyOptimizerConfig:
        """Another seed for each task; from the second on, a KL to where it began."""
        config = self.config.changed(seed=self.config.seed + number)
        if not (self.continual.distils and number):
            return config
        near = KLPenalty(coefficient=self.continual.lwf_coefficient)
        return config.changed(objective=replace(config.goal, kl=near))

    def _keep(self, name: str, recent: list[Rollout]) -> None:
        """Of a finished task, what the method needs: the newest conversations that still taught.

        Those of the end teach nothing where a task is mastered: all of a group earn alike, and no
        weight moves what is certain.
        """
        valid = [rollout for rollout in recent if rollout.valid]
        if self.continual.replays:
            self.replay.add(name, [replace(r, version=_EARLIER) for r in valid])
        if self.continual.method == "ewc" and valid:
            rows = RolloutBatch(valid[-self.continual.ewc_conversations :]).rows
            self.elastic.consolidate(self._log_probs, rows)

    def _log_probs(self, rows: Rows) -> Any:
        found = self.model.score(rows.to(self.model.device), self.config.sampling.temperature)
        return found.log_probs

    def _scores(self) -> NDArray[np.float64]:
        """Success on each task now.  # (K,)"""
        seeds = list(range(self.config.evaluation_episodes))
        found = []
        for name in self.tasks:
            played = self.evaluations[name].collect(seeds, 1, rng_seed=self.config.seed)
            valid = [rollout.success for rollout in played if rollout.valid]
            found.append(float(np.mean(valid)) if valid else 0.0)
        return np.array(found)


_EARLIER = -1
"""Version of what an earlier task's policies have sampled: no policy of the running task's."""
