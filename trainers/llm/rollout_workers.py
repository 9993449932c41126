"""Conversations of one model, played by workers with copies of it: a collector for many cores.

    learner ─► weights that learn, once a collection ─► object store ─► each worker loads them
            ─► shares of `seeds_per_share` seeds     ─► whoever is free: RolloutEngine
            ◄─ rollouts, in the order of the seeds   ◄─

    with RolloutWorkers(model, environment, config, workers=8, backend="ray") as collector:
        PolicyOptimizer(model, collector, config).train()

The shares do not hang on the number of workers, so neither do the rollouts: one worker here and
many on a cluster give the same bytes, on processors of one kind with one thread each. Beside one
RolloutEngine that plays all seeds at once they say the same, with log-probabilities that differ by
rounding. Knows nothing of what is learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.crew.crew import Backend, Crew, crew_of
from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.chat_format import ChatFormat
from trainers.llm.language_model import LanguageModel
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.rollouts import Rollout
from trainers.llm.sampling import Sampling
from trainers.llm.seed_shares import seed_shares, together
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


@dataclass(frozen=True)
class Asked:
    """What is common to the shares of one collection."""

    number: int
    """Of the collection; another one may have other weights."""
    group_size: int
    rng_seed: int
    version: int
    weights: Mapping[str, NDArray[np.uint8]] = field(repr=False)
    """Of what learns, as bytes; empty where the worker has the learner's own."""


class RolloutWorkers(AbstractContextManager["RolloutWorkers"]):
    """`model` talks in `environment`, an id, a callable or a TextEnvironment, on many workers.

    workers           with backend "local" processes of this machine, with "ray" actors
    seeds_per_share   seeds that a worker plays at a time, `group_size` conversations of each
    device            of the copies, such as "cuda"; None: the model's own

    Raises InvalidConfiguration for what cannot be sent; WorkerLost where workers die.
    """

    def __init__(
        self,
        model: LanguageModel,
        environment: TextEnvironment | str | Callable[..., Any],
        config: PolicyOptimizerConfig,
        *,
        workers: int = 1,
        backend: Backend = "local",
        seeds_per_share: int = 2,
        device: str | None = None,
    ) -> None:
        if seeds_per_share < 1:
            raise InvalidConfiguration(f"seeds_per_share={seeds_per_share}; it counts from 1")
        if not isinstance(environment, TextEnvironment):
            environment = TextEnvironment(environment)
        self.sampling, self.exact = config.sampling, _is_whole(config.sampling)
        self._learnt = model.trainable()
        self._seeds_per_share = seeds_per_share
        self._sends = workers > 1 or backend != "local"
        self._collections = 0
        make = partial(
            _Player, model.module, model.tokenizer, environment.another(), config, device
        )
        self._crew: Crew = crew_of(make, workers, backend)

    def collect(
        self, seeds: Sequence[int], group_size: int, rng_seed: int, version: int = 0
    ) -> list[Rollout]:
        """As `RolloutEngine.collect`."""
        if group_size < 1:
            raise InvalidConfiguration(f"group_size={group_size}; it must be 1 or more")
        self._collections += 1
        weights = self.message() if self._sends else {}
        asked = Asked(self._collections, group_size, rng_seed, version, weights)
        shares = seed_shares(seeds, -(-len(set(seeds)) // self._seeds_per_share))
        wanted = [[int(seeds[place]) for place in share] for share in shares]
        return together(shares, list(self._crew.results(wanted, asked)), group_size)

    def message(self) -> dict[str, NDArray[np.uint8]]:
        """What a worker is sent of the model for a collection."""
        return {name: _as_bytes(value) for name, value in self._learnt.items()}

    def __exit__(self, *_: object) -> None:
        """Send the workers away."""
        self._crew.__exit__(*_)


class _Player:
    """A worker: a model, and the engine that plays with it."""

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        environment: TextEnvironment,
        config: PolicyOptimizerConfig,
        device: str | None,
    ) -> None:
        model = LanguageModel(module if device is None else module.to(device), tokenizer)
        self._learnt, self._loaded = model.trainable(), 0
        self._engine = RolloutEngine(
            environment,
            TransformersSampler(model.causal),
            ChatFormat(tokenizer),
            config.sampling,
            slots=config.slots,
            max_turns=config.max_turns,
        )

    def __call__(self, seeds: Sequence[int], asked: Asked) -> list[Rollout]:
        if asked.number != self._loaded:
            self._load(asked.weights)
            self._loaded = asked.number
        return self._engine.collect(seeds, asked.group_size, asked.rng_seed, asked.version)

    @torch.no_grad()
    def _load(self, weights: Mapping[str, NDArray[np.uint8]]) -> None:
        for name, value in weights.items():
            own = self._learnt[name]
            own.copy_(torch.from_numpy(value.copy()).view(own.dtype).view(own.shape))


def _as_bytes(value: Tensor) -> NDArray[np.uint8]:
    flat = value.detach().cpu().contiguous().flatten()
    found: NDArray[np.uint8] = flat.view(torch.uint8).numpy().copy()
    return found


def _is_whole(sampling: Sampling) -> bool:
    """Whether it samples from the whole distribution, as the learner scores."""
    return sampling.top_p == 1 and sampling.top_k == 0
