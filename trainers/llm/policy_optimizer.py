"""The one loop in which language models learn from their own conversations, whatever the objective.

    ┌─► rollouts ─► credit ─► minibatches ─► loss ─► step ─► row ─► callbacks ─► checkpoint ─┐
    └────────────────────────────────────────────────────────────────────────────────────────┘

An algorithm is an `Objective`; GRPO, GSPO, PPO and the others differ in nothing else. A rollout
that failed is in no mean; an iteration in which all failed is skipped and says so. A run that is
taken up from a checkpoint goes on bit by bit as it would have (CPU, one thread). Started by
`torchrun` it learns in several processes as it would in one, but for rounding (`ranks`).
Knows nothing of what a conversation is about.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.callbacks import Callback
from trainers.llm.credit import GroupRelative
from trainers.llm.language_model import LanguageModel
from trainers.llm.policy_batches import Old, PolicyBatch, policy_batch
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_engine import Environment, collector_of, is_exact
from trainers.llm.policy_update import Penalty, PolicyUpdate
from trainers.llm.ranks import Ranks, ranks_here
from trainers.llm.reply_statistics import reply_statistics
from trainers.llm.rollout_collection import Collection, Collector, Gathered, rollout_statistics
from trainers.llm.rollouts import Rollout, RolloutBatch
from trainers.llm.run_checkpoints import RunState, digest, put_back, read_run, write_run
from trainers.llm.text_environment import RewardFunction
from trainers.llm.trpo import TrustRegionUpdate
from trainers.llm.value_head import ValueHead

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


Prepare = Callable[[list[Rollout]], list[Rollout]]
"""From an iteration's rollouts to those that are learnt from."""


class PolicyOptimizer:
    """Trains `model` in place.

    `environment` is one of texts, an id or a callable that makes one, with a `reward_fn` or
    without; or else a collector, which plays conversations with the model as it is at that moment.
    `evaluation` plays held-out ones (None: as in training, on seeds that training never has).
    `prepare` are functions from an iteration's rollouts to those that are learnt from: shaped by a
    critic, with earlier ones beside them; what is measured stays what was played. `penalties` give
    a loss of the weights, by name, that is added at each optimiser step.
    Callbacks get each row; one that returns True ends the run. `rows` are all rows so far,
    `stopped` says why the run ended before its last iteration.
    """

    def __init__(
        self,
        model: LanguageModel,
        environment: Environment,
        config: PolicyOptimizerConfig | None = None,
        callbacks: Sequence[Callback] = (),
        reward_fn: RewardFunction | None = None,
        *,
        evaluation: Collector | None = None,
        prepare: Sequence[Prepare] = (),
        penalties: Mapping[str, Penalty] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.model, self.config = model, config or PolicyOptimizerConfig()
        self.ranks = ranks or ranks_here()
        self.prepare = list(prepare)
        collector = collector_of(environment, model, self.config, reward_fn)
        self.callbacks = list(callbacks)
        self.rows: list[dict[str, float]] = []
        self.stopped = ""
        self._collection = Collection(collector, self.config, evaluation, self.ranks)
        self._iteration = self._flat = self._failed = self._told = 0
        goal = self.config.goal
        self.head: ValueHead | None = None
        if goal.value is not None:
            dtype = torch.float64 if model.dtype == torch.float64 else None
            self.head = ValueHead(model.width, self.config.critic, dtype).to(model.device)
        if goal.kl is not None:
            model.freeze_reference()
        if penalties and self.config.trust_region is not None:
            raise InvalidConfiguration(
                "a trust region's steps follow the objective alone; with penalties take AdamW's"
            )
        self._update: Any = (
            PolicyUpdate(model, self.head, self.config, penalties, self.ranks)
            if self.config.trust_region is None
            else TrustRegionUpdate(model, self.config)
        )
        if not model.trainable():
            raise InvalidConfiguration(
                "no weight of this model learns; set requires_grad, or take adapters with LoRA()"
            )
        self._digest = digest(self._fixed())
        self._check_ranks()

    # -- the loop ----------------------------------------------------------------------------------

    @property
    def pretraining(self) -> int:
        """Iterations in which the critic alone learns."""
        return 0 if self.head is None else self.config.critic.pretraining

    def train(self, save_path: str | os.PathLike[str] | None = None) -> list[dict[str, float]]:
        """Go on up to the last iteration; all rows, those of before included.

        With a path, a checkpoint is written every `save_every` iterations and at the end.
        Raises InvalidConfiguration where all rollouts of several iterations failed, with why.
        """
        self.stopped = ""
        self._tell()
        last = self.pretraining + self.config.iterations
        while self._iteration < last and not self.stopped:
            self.rows.append(self._iterate())
            self._tell()
            self._stop_if_flat()
            ends = self.stopped or self._iteration == last
            if save_path is not None and (ends or self._iteration % self.config.save_every == 0):
                self.save(save_path)
        return self.rows

    def evaluate(self) -> dict[str, float]:
        """Mean reward and success on held-out seeds, sampled as in training, alike each time."""
        found = [rollout for rollout in self._collection.evaluate() if rollout.valid]
        if not found:
            return {"evaluation_failed": 1.0}
        return {
            "evaluation_reward": sum(rollout.return_ for rollout in found) / len(found),
            "evaluation_success": sum(rollout.success for rollout in found) / len(found),
        }

    def _iterate(self) -> dict[str, float]:
        """One iteration; its row."""
        begun = time.perf_counter()
        gathered = self._collection.gather(self._iteration, self._update.steps)
        played = time.perf_counter()
        row = {"step": float(self._iteration + 1), "skipped": 0.0} | rollout_statistics(gathered)
        row |= reply_statistics(gathered.played)
        self._iteration += 1
        if not any(rollout.valid for rollout in gathered.played):
            self._bear_failure(gathered.played)
            row["skipped"] = 1.0
        elif any(rollout.valid for rollout in gathered.kept):
            self._failed = 0
            row |= self._learn(gathered)
        else:  # groups of one reward only, each time they were drawn
            self._failed, row["skipped"] = 0, 1.0
        self._flat = self._flat + 1 if self._is_flat(gathered) else 0
        row["optimizer_steps"] = float(self._update.steps)
        row |= _speed(row, played - begun, time.perf_counter() - played)
        every = self.config.evaluate_every
        if every and self._iteration % every == 0:
            row |= self.evaluate()
        return row

    def _learn(self, gathered: Gathered) -> dict[str, float]:
        kept = gathered.kept
        for change in self.prepare:
            kept = change(kept)
        batch = RolloutBatch(kept)
        made = policy_batch(
            batch,
            self.model,
            self.head,
            self.config,
            self._old(batch),
            self._update.steps,
            self.ranks,
        )
        if self._iteration <= self.pretraining:
            found = self._update.pretrain(made) | {"pretraining": 1.0}
        else:
            found = self._update.run(made, self._iteration)
        return _with_alert(found, self.config.sampler_gap_limit) | {
            "update_tokens": float(_update_tokens(made, self.config))
        }

    def _old(self, batch: RolloutBatch) -> Old:
        """Where log-probabilities of the policy that sampled come from."""
        config, goal = self.config, self.config.goal
        if config.recompute_old != "auto":
            return "scored" if config.recompute_old == "always" else "sampler"
        fresh = all(rollout.version == self._update.steps for rollout in batch.rollouts)
        if fresh and config.steps_per_iteration == 1 and goal.ratio != "group_expectation":
            return "current"  # the first pass is of the policy that sampled
        exact = is_exact(self._collection.collector, self.model)
        single = self.model.dtype in (torch.float32, torch.float64)
        return "sampler" if exact and single else "scored"

    # -- ends --------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Callbacks get the rows that they have not had; first those of before a checkpoint.

        Those of the first rank; whether the run ends holds for all.
        """
        told = [
            callback(row)
            for row in self.rows[self._told :]
            for callback in (self.callbacks if self.ranks.first else ())
        ]
        if self.ranks.agreed(any(told)):
            self.stopped = "a callback asked for it"
        self._told = len(self.rows)

    def _is_flat(self, gathered: Gathered) -> bool:
        """Whether an objective that compares rollouts of a group had nothing to compare."""
        goal = self.config.goal
        failed = not any(rollout.valid for rollout in gathered.played)
        return isinstance(goal.credit, GroupRelative) and not gathered.spread and not failed

    def _stop_if_flat(self) -> None:
        patience = self.config.flat_patience
        if patience is not None and self._flat >= patience and not self.stopped:
            self.stopped = f"in {self._flat} iterations in a row no group had rewards that differ"

    def _bear_failure(self, played: list[Rollout]) -> None:
        """Warn, or raise where it has happened too often."""
        self._failed += 1
        last = self._iteration == self.pretraining + self.config.iterations
        if self._failed >= self.config.failure_patience or (
            last and self._failed == len(self.rows) + 1
        ):
            RolloutBatch(played)  # raises, with the reasons
        reasons = sorted({rollout.error or "nothing was sampled" for rollout in played})
        warnings.warn(
            f"iteration {self._iteration} is skipped: all {len(played)} rollouts failed: "
            f"{'; '.join(reasons)[:300]}",
            RuntimeWarning,
            stacklevel=4,
        )

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to one file, whole or not at all; of several ranks the first one does."""
        counters = {
            "iteration": self._iteration, "steps": self._update.steps, "flat": self._flat,
            "failed": self._failed, "drawn": self._collection.drawn,
        }  # fmt: skip
        state = RunState(
            config=self.config.to_dict(), counters=counters, rows=self.rows, digest=self._digest
        )
        if self.ranks.first:
            write_run(path, state, self._learnt(), self._update.optimizer)
        self.ranks.wait()

    def restore(self, path: str | os.PathLike[str]) -> PolicyOptimizer:
        """Go on where `save` was called; the model is the one that the run began with.

        Raises InvalidConfiguration for a file that cannot be read, and for a model or a
        configuration with which the run would go on as another one.
        """
        state, tensors = read_run(path)
        _check_config(state.config, self.config.to_dict())
        if state.digest != self._digest:
            raise InvalidConfiguration(
                f"{path} is a run that began with other weights; bring the model that it began "
                "with, as what does not learn and the reference are not in the file"
            )
        put_back(tensors, self._learnt(), self._update.optimizer)
        counters = state.counters
        self._iteration, self._update.steps = counters["iteration"], counters["steps"]
        self._flat, self._failed = counters["flat"], counters["failed"]
        self._collection.drawn = counters["drawn"]
        self.rows, self._told = state.rows, 0
        return self

    def _check_ranks(self) -> None:
        learnt = [digest(weights) for weights in self._learnt().values()]
        own = (self._digest, learnt, self.config.to_dict())
        if any(other != own for other in self.ranks.gathered(own)):
            raise InvalidConfiguration(
                f"the {self.ranks.size} processes of this run do not begin alike; load the same "
                "model, adapters of the same seed and the same configuration in each"
            )

    def _learnt(self) -> dict[str, dict[str, Tensor]]:
        found = {"model": {n: p.detach() for n, p in self.model.trainable().items()}}
        if self.head is not None:
            found["critic"] = {n: p.detach() for n, p in self.head.named_parameters()}
        return found

    def _fixed(self) -> dict[str, Tensor]:
        """What a checkpoint does not hold: frozen weights, and those of a frozen reference."""
        whole = self.config.goal.kl is not None and not self.model.has_adapter
        named = self.model.module.named_parameters()
        return {name: p for name, p in named if whole or not p.requires_grad}


_FREE = {"iterations", "save_every", "evaluate_every", "flat_patience", "failure_patience"}


def _check_config(stored: dict[str, Any], given: dict[str, Any]) -> None:
    differ = sorted(n for n in given if n not in _FREE and stored.get(n) != given[n])
    if differ:
        raise InvalidConfiguration(
            f"the run was begun with another {' and '.join(differ)}; only "
            f"{', '.join(sorted(_FREE))} may change on the way"
        )


def _with_alert(found: dict[str, float], limit: float) -> dict[str, float]:
    gap = found.get("sampler_gap")
    if gap is None:
        return found
    alert = not gap <= limit or not math.isfinite(gap)
    if alert:
        warnings.warn(
            f"the sampler's log-probabilities are {gap:.3g} away from the learner's on average, "
            f"above {limit:g}; sample in the learner's precision, or correct with "
            "SamplerCorrection()",
            RuntimeWarning,
            stacklevel=5,
        )
    return found | {"sampler_alert": float(alert)}


def _update_tokens(batch: PolicyBatch, config: PolicyOptimizerConfig) -> int:
    """Tokens that went through the model to learn, without padding."""
    taught = batch.teaches if config.skip_zero_advantages else torch.ones_like(batch.teaches)
    return config.epochs * int(batch.rows.lengths[taught].sum())


def _speed(row: dict[str, float], generation: float, update: float) -> dict[str, float]:
    """Seconds and tokens a second of each half."""
    learnt = row.pop("update_tokens", 0.0)
    return {
        "generation_seconds": generation,
        "update_seconds": update,
        "generation_tokens_per_second": row["sampled_tokens"] / max(generation, 1e-9),
        "update_tokens_per_second": learnt / max(update, 1e-9),
    }
