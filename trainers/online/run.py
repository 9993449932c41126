"""What happens between two rollouts of an online run: measure, report, stop, keep.

    rollout ─► update ─► │ evaluators ─► history │ callbacks ─► stop? │ checkpoint │ ─► rollout ─► …

Knows no algorithm: Stable-Baselines3 calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from convgym.errors import MissingExtra
from convgym.policies.policy import Policy

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError as error:
    raise MissingExtra(error.name or "stable_baselines3", "sb3") from error

from trainers.callbacks import Callback
from trainers.online.checkpoints import History, begin_stretch

Evaluator = Callable[[Policy], float]
_QUIET = 1_000
"""Steps between two reports, at least."""


class Run(BaseCallback):
    """One run; `history` gets a row for each evaluation."""

    def __init__(
        self,
        policy: Policy,
        history: History,
        evaluators: Mapping[str, Evaluator],
        evaluate_every: int,
        callbacks: Sequence[Callback],
        keep: Callable[[], None] | None,
        keep_every: int,
    ) -> None:
        super().__init__()
        self._policy, self._history = policy, history
        self._evaluators, self._evaluate_every = evaluators, evaluate_every
        self._callbacks = callbacks
        self._keep, self._keep_every = keep, keep_every
        self._stopped = False
        self._reported = self._evaluated = self._kept = -1

    def _on_training_start(self) -> None:
        begun = self.model.num_timesteps
        self._reported = self._kept = begun
        self._evaluated = int(self._history[-1]["step"]) if self._history else 0
        for row in self._history:
            self._tell(row)

    def _on_rollout_start(self) -> None:
        done = self.model.num_timesteps
        due = self._evaluate_every and done - self._evaluated >= self._evaluate_every
        if due or done - self._reported >= _QUIET:
            self._report(bool(due))
        if self._keep is None:
            return
        if done - self._kept >= self._keep_every:
            self._kept = done
            self._keep()
        if done == self._kept:  # a stretch begins, or is taken up again
            begin_stretch(self.model, done)

    def _on_step(self) -> bool:
        return not self._stopped

    def _on_training_end(self) -> None:
        self._report(bool(self._evaluators))
        if self._keep is not None:
            self._keep()

    def _report(self, evaluate: bool) -> None:
        done = self.model.num_timesteps
        self._reported = done
        row = {"step": float(done), **self._played()}
        if evaluate and self._evaluators:
            self._evaluated = done
            row |= {name: float(score(self._policy)) for name, score in self._evaluators.items()}
            self._history.append(row)
        self._tell(row)

    def _tell(self, row: Mapping[str, float]) -> None:
        # A list: every callback hears every row.
        self._stopped |= any([callback(row) is True for callback in self._callbacks])

    def _played(self) -> dict[str, float]:
        """Means over the newest hundred episodes of training, once one has ended."""
        episodes = list(self.model.ep_info_buffer or [])
        if not episodes:
            return {}
        returns = [one["r"] for one in episodes]
        means = {"return": np.mean(returns)}
        means["length"] = np.mean([one["l"] for one in episodes])
        if self.model.ep_success_buffer:
            means["success"] = np.mean(self.model.ep_success_buffer)
        means["return_std"] = np.std(returns)
        return {name: float(mean) for name, mean in means.items()}
