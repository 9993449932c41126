"""The one loop that fits every offline algorithm.

    data ─► Transitions ─► config.items ─► batch ─► algorithm.update ─► … ─► algorithm.policy()
                                             ▲            │ metrics, TD errors
                                             └─ sampling ◄┘
    every `report_every` steps: a row for the callbacks

Chance is the config's seed: weights, batches and noise, so the same seed gives the same weights on
a CPU with one torch thread. A checkpoint holds weights, optimisers and generators; who is stopped
at any moment and fits again with the same file ends with the same weights. Knows nothing of
algorithms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from convgym.data.transitions import EpisodeArrays, read_episodes, returns_to_go
from convgym.errors import InvalidConfiguration, MissingExtra, told
from convgym.language.archive import DAMAGE
from convgym.policies.policy import Policy

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "offline") from error

from trainers.archive import Arrays, read_archive, write_archive
from trainers.callbacks import Callback
from trainers.offline.batches import Items, Transitions
from trainers.offline.config import Algorithm, Batch, OfflineConfig, Shapes
from trainers.offline.denormals import flushed
from trainers.offline.sampling import Sampling, Uniform

if TYPE_CHECKING:
    from minari import MinariDataset

Data: TypeAlias = "MinariDataset | Sequence[EpisodeArrays] | Transitions"
Evaluator = Callable[[Policy], float]
_FORMAT = "convgym offline checkpoint 1"


class OfflineLearner:
    """Fits one policy to recorded conversations; `history` has a row for each report."""

    def __init__(self, config: OfflineConfig, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.history: list[dict[str, float]] = []
        self.step = 0
        self.generator = torch.Generator(self.device)
        self.generator.manual_seed(config.seed)
        self._algorithm: Algorithm | None = None
        self._sums: dict[str, Tensor] = {}
        self._summed = 0

    @property
    def algorithm(self) -> Algorithm:
        """What is being fitted; there after `build` or `fit`."""
        if self._algorithm is None:
            raise InvalidConfiguration("nothing was fitted yet; call fit or build first")
        return self._algorithm

    # -- fitting -----------------------------------------------------------------------------------

    def build(self, data: Data, shapes: Shapes | None = None) -> Transitions:
        """Make the algorithm for these data, untrained; returns them as it reads them."""
        if shapes is None:
            data, shapes = shapes_of(data, self.config.discount)
        if shapes.discrete != self.config.discrete:
            name = type(self.config).__name__
            raise InvalidConfiguration(
                f"{name} learns over {'acts' if self.config.discrete else 'vectors'}, and these "
                f"actions are {'acts' if shapes.discrete else 'vectors'}; "
                "`trainers.offline.registry` lists what there is for either"
            )
        turns = self.read(data)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            self._algorithm = self.config.build(shapes, turns)
        self._algorithm.parts.to(self.device)
        return turns

    def read(self, data: Data) -> Transitions:
        """Data as this learner's config takes them: its discount and its length of TD targets."""
        if isinstance(data, Transitions):
            return data
        if isinstance(data, Sequence):  # read with another discount, perhaps
            discount = self.config.discount
            data = [replace(e, returns=returns_to_go(e.rewards, discount)) for e in data]
        return Transitions(
            data,
            device=self.device,
            dtype=torch.bfloat16 if self.config.precision == "bfloat16" else None,
            discount=self.config.discount,
            n_step=self.config.n_step,
        )

    def fit(
        self,
        data: Data,
        n_steps: int,
        evaluators: Mapping[str, Evaluator] | None = None,
        *,
        shapes: Shapes | None = None,
        evaluate_every: int = 0,
        report_every: int = 500,
        callbacks: Sequence[Callback] = (),
        sampling: Sampling | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1000,
    ) -> Policy:
        """Take `n_steps` updates, those of a loaded checkpoint included, and give the policy.

        shapes: of observations and actions; read off the data where they are a Minari dataset,
            and needed beside plain episodes of acts, which may not show all there are.
        evaluators: scores of the policy by name, every `evaluate_every` steps and at the end.
        sampling: of `config.items(turns)`, single turns mostly; uniform if it is not given.
        checkpoint: a file that is gone on from where it exists, and written as training goes.

        Raises InvalidConfiguration for acts where the algorithm takes vectors or the other way
        round, no steps, or a checkpoint of another config.
        """
        if n_steps < 1 or report_every < 1 or checkpoint_every < 1:
            raise InvalidConfiguration(
                f"n_steps={n_steps}, report_every={report_every}, checkpoint_every="
                f"{checkpoint_every}; at least 1"
            )
        turns = self.build(data, shapes) if self._algorithm is None else self.read(data)
        items = self.config.items(turns)
        sampling = sampling or Uniform(len(items))
        if checkpoint is not None and Path(checkpoint).exists():
            self.load_checkpoint(checkpoint, sampling)
            if any([_stops(callbacks, row) for row in self.history]):
                n_steps = self.step
        while self.step < n_steps:
            self._update(items, sampling)
            last = self.step == n_steps
            due = evaluate_every and self.step % evaluate_every == 0
            if last or due or self.step % report_every == 0:
                row = self.report(evaluators if evaluators and (last or due) else {})
                if _stops(callbacks, row):
                    n_steps = self.step
            done = self.step >= n_steps
            if checkpoint is not None and (done or self.step % checkpoint_every == 0):
                self.save_checkpoint(checkpoint, sampling)
        return self.algorithm.policy()

    def _update(self, items: Items, sampling: Sampling) -> None:
        indices, weights = sampling.draw(self.config.batch_size, self.generator)
        batch = items[indices]
        if weights is not None:
            batch["weights"] = weights
        errors = self.update(batch)
        if errors is not None:
            sampling.heard(indices, errors)

    def update(self, batch: Batch) -> Tensor | None:
        """One step on a batch; returns the TD error of each row, where there is one."""
        if self.config.reward_scale != 1.0:
            for name in ("rewards", "returns_to_go"):
                batch[name] = batch[name] * self.config.reward_scale
        self.step += 1
        half = self.config.precision == "bfloat16"
        with flushed(), torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            metrics, errors = self.algorithm.update(batch, self.generator, self.step)
        self._summed += 1
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        return errors

    def report(self, evaluators: Mapping[str, Evaluator]) -> dict[str, float]:
        """A new row of `history`: mean metrics since the last one, and the policy's scores."""
        row = {"step": float(self.step)}
        row |= {name: float(total) / self._summed for name, total in self._sums.items()}
        self._sums, self._summed = {}, 0
        if evaluators:
            policy = self.algorithm.policy()
            row |= {name: float(evaluator(policy)) for name, evaluator in evaluators.items()}
        self.history.append(row)
        return row

    # -- checkpoints -------------------------------------------------------------------------------

    def save_checkpoint(self, path: str | Path, sampling: Sampling | None = None) -> None:
        """Write all that is needed to go on as if nothing had happened."""
        tensors = {f"parts.{k}": v for k, v in self.algorithm.parts.state_dict().items()}
        for name, optimizer in self.algorithm.optimizers.items():
            for index, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizers.{name}.{index}.{k}": v for k, v in state.items()}
        tensors |= {f"sums.{name}": value for name, value in self._sums.items()}
        tensors["generator"] = self.generator.get_state()
        if sampling is not None:
            tensors |= {f"sampling.{name}": value for name, value in sampling.state().items()}
        about = {
            "format": _FORMAT,
            "config": self.config.to_dict(),
            "step": self.step,
            "summed": self._summed,
            "history": self.history,
        }
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        write_archive(path, about, arrays)

    def load_checkpoint(self, path: str | Path, sampling: Sampling | None = None) -> None:
        """Go on from a checkpoint; the algorithm must have been built for the same data."""
        about, arrays = read_archive(path, _FORMAT)
        config = json.loads(json.dumps(self.config.to_dict()))
        written = about.get("config")
        if written != config:
            known = written if isinstance(written, dict) else {}
            other = sorted(k for k in config if known.get(k) != config[k])
            raise InvalidConfiguration(
                f"{path} was written with another {', '.join(other)}; take another file, or the "
                "options it was made with"
            )
        try:
            self._restore(about, arrays, sampling)
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is no whole checkpoint of {self.algorithm.name}: {told(error)}"
            ) from error

    def _restore(
        self, about: Mapping[str, Any], arrays: Arrays, sampling: Sampling | None
    ) -> None:
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        self.algorithm.parts.load_state_dict(_under(tensors, "parts."))
        for name, optimizer in self.algorithm.optimizers.items():
            states: dict[int, dict[str, Tensor]] = {}
            for key, value in _under(tensors, f"optimizers.{name}.").items():
                index, part = key.split(".")
                states.setdefault(int(index), {})[part] = value
            optimizer.load_state_dict({**optimizer.state_dict(), "state": states})
        self._sums = {k: v.to(self.device) for k, v in _under(tensors, "sums.").items()}
        self.generator.set_state(tensors["generator"])
        if sampling is not None:
            sampling.restore(_under(tensors, "sampling."))
        self.step, self._summed = about["step"], about["summed"]
        self.history = about["history"]


def _stops(callbacks: Sequence[Callback], row: Mapping[str, float]) -> bool:
    """Tell every callback; whether one of them wants to stop."""
    return any([callback(row) is True for callback in callbacks])


def _under(tensors: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}


def shapes_of(data: Data, discount: float = 1.0) -> tuple[Any, Shapes]:
    """The data, read once with this discount of their returns, and what networks must fit."""
    if isinstance(data, Transitions):
        raise InvalidConfiguration("transitions do not say how many acts there are; give shapes=")
    space: Any = None
    if not isinstance(data, Sequence):
        space = data.action_space
        data = read_episodes(data, discount)
    if not data:
        raise InvalidConfiguration("there are no episodes to learn from")
    first = data[0]
    observation = int(np.asarray(first.observations).shape[-1])
    if first.actions.ndim > 1:
        low = getattr(space, "low", np.full(first.actions.shape[1], -1.0))
        high = getattr(space, "high", np.full(first.actions.shape[1], 1.0))
        return data, Shapes(
            observation, first.actions.shape[1], False,
            np.asarray(low, dtype=np.float32), np.asarray(high, dtype=np.float32),
        )  # fmt: skip
    if space is not None:
        return data, Shapes(observation, int(space.n), True)
    if first.masks is not None:
        return data, Shapes(observation, int(first.masks.shape[1]), True)
    raise InvalidConfiguration(
        "plain episodes without masks do not say how many acts there are; give shapes="
    )
