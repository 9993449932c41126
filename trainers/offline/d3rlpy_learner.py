"""d3rlpy's algorithms by name, used like our own.

    D3RLPyConfig(algorithm="iql", options={"expectile": 0.8}).create().fit(dataset, n_steps)

    over acts       ─► DiscretePolicy    weights copied, legal acts only
    over vectors    ─► D3RLPyPolicy      wraps the algorithm, within the bounds of the space

What d3rlpy 2.8.1 would do by itself and why not stands in `d3rlpy_buffers` (data) and
`d3rlpy_adapter` (masks, BEAR). Not here: its Decision Transformer and TACR, whose losses average
over padding, and PRDC, whose search tree all instances of the class share. Needs the extra
`offline`; d3rlpy is imported when something is fitted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from convgym.errors import InvalidConfiguration
from convgym.policies.policy import Policy
from trainers.callbacks import Callback
from trainers.offline.config import Shapes, above, at_least, within
from trainers.offline.d3rlpy_adapter import BEAR, fit_d3rlpy, networks, policy_of
from trainers.offline.d3rlpy_buffers import to_replay_buffer
from trainers.offline.d3rlpy_manners import import_d3rlpy
from trainers.offline.d3rlpy_policy import D3RLPyPolicy
from trainers.offline.learner import Data, Evaluator, shapes_of

ACTS = {
    "bc": "DiscreteBC",
    "bcq": "DiscreteBCQ",
    "cql": "DiscreteCQL",
    "double_dqn": "DoubleDQN",
    "dqn": "DQN",
    "nfq": "NFQ",
    "sac": "DiscreteSAC",
}
"""Its algorithms that choose among acts."""
VECTORS = {
    "awac": "AWAC",
    "bc": "BC",
    "bcq": "BCQ",
    "cal_ql": "CalQL",
    "cql": "CQL",
    "crr": "CRR",
    "ddpg": "DDPG",
    "iql": "IQL",
    "plas": "PLAS",
    "plas_with_perturbation": "PLASWithPerturbation",
    "rebrac": "ReBRAC",
    "sac": "SAC",
    "td3": "TD3",
    "td3_plus_bc": "TD3PlusBC",
}
"""Its algorithms whose actions are vectors."""
_MASKED = {"bcq", "cql", "double_dqn", "dqn", "nfq"}


@dataclass(frozen=True, kw_only=True)
class D3RLPyConfig:
    """One of d3rlpy's algorithms, with its own options where they are not named here."""

    algorithm: str
    """A name of `ACTS` or `VECTORS`; the data say which of the two."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of d3rlpy's config: plain numbers, texts or truth values, such as `{"alpha": 0.1}`."""
    discount: float = 0.99
    """γ per agent turn."""
    n_step: int = 1
    """Turns that a TD target spans."""
    batch_size: int = 128
    learning_rate: float | None = None
    """Of every network; None leaves d3rlpy's."""
    hidden: tuple[int, ...] = (256, 256)
    """Units of each layer, of every network."""
    temperature: float = 0.0
    """Of the policy over acts: 0 is greedy, above it softmax(Q / temperature) or, of a clone or
    SAC, softmax(logits / temperature). For ε-greedy wrap the policy in
    `trainers.offline.exploration.EpsilonGreedy`."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "options", dict(self.options))
        if self.algorithm == "bear":
            raise InvalidConfiguration(BEAR)
        if self.algorithm not in ACTS.keys() | VECTORS.keys():
            raise InvalidConfiguration(
                f"there is no {self.algorithm!r} of d3rlpy here; over acts there are "
                f"{', '.join(ACTS)}, over vectors {', '.join(VECTORS)}"
            )
        at_least(self, 1, "n_step", "batch_size")
        at_least(self, 0, "temperature")
        within(self, 0, 1, "discount")
        if self.learning_rate is not None:
            above(self, 0, "learning_rate")
        for name, value in self.options.items():
            if not isinstance(value, int | float | str | None):
                raise InvalidConfiguration(
                    f"options hold {name}={value!r}; they take numbers, texts and truth values, "
                    "and networks are made of `hidden`"
                )

    def create(self, device: str = "cpu") -> D3RLPyLearner:
        """The learner."""
        return D3RLPyLearner(self, device)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the config's name."""
        return {"config": type(self).__name__, **asdict(self)}


class D3RLPyLearner:
    """Fits one policy; `history` has a row for each report, `algo` is d3rlpy's own."""

    def __init__(self, config: D3RLPyConfig, device: str = "cpu") -> None:
        self.config, self.device = config, device
        self.history: list[dict[str, float]] = []
        self.algo: Any = None

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
    ) -> Policy:
        """Take `n_steps` updates from new weights on, and give the policy.

        As `OfflineLearner.fit`, without checkpoints: d3rlpy's chance is global.

        Raises InvalidConfiguration for an algorithm that is not there for these actions, an option
        it does not have, or SAC beside acts that are sometimes illegal.
        """
        if shapes is None:
            data, shapes = shapes_of(data)
        if not isinstance(data, Sequence):
            raise InvalidConfiguration("d3rlpy reads a Minari dataset or episodes, no transitions")
        masked = shapes.discrete and any(e.masks is not None and not e.masks.all() for e in data)
        theirs = self._config(shapes, masked)
        buffer = to_replay_buffer(
            data,
            shapes.actions,
            with_masks=masked and self.config.algorithm in _MASKED,
            n_step_td=self.config.n_step,
            discount=self.config.discount,
            with_next_actions=self.config.algorithm == "rebrac",
        )
        self.algo = fit_d3rlpy(
            theirs,
            buffer,
            n_steps=n_steps,
            seed=self.config.seed,
            report_every=report_every,
            evaluate_every=evaluate_every,
            report=self._report(evaluators or {}, evaluate_every, n_steps, callbacks),
            device=self.device,
        )
        return self._policy(self.algo)

    def _config(self, shapes: Shapes, masked: bool) -> Any:
        """d3rlpy's config for these data."""
        config, d3rlpy = self.config, import_d3rlpy()
        known = ACTS if shapes.discrete else VECTORS
        if config.algorithm not in known:
            raise InvalidConfiguration(
                f"d3rlpy has no {config.algorithm!r} over "
                f"{'acts' if shapes.discrete else 'vectors'}; there are {', '.join(known)}"
            )
        if masked and config.algorithm == "sac" and config.options.get("temp_learning_rate") != 0:
            raise InvalidConfiguration(
                "d3rlpy's SAC seeks the entropy of 98 % of all acts, which no policy over the "
                "legal ones may have, so its temperature grows for ever; give options="
                '{"temp_learning_rate": 0}, or another algorithm'
            )
        made = getattr(d3rlpy.algos, f"{known[config.algorithm]}Config")
        fields = {part.name for part in dataclasses.fields(made)}
        encoder, q_function = networks(
            d3rlpy, config.hidden, shapes.actions, masked and config.algorithm in _MASKED
        )
        options: dict[str, Any] = {"batch_size": config.batch_size, "gamma": config.discount}
        options |= {name: encoder for name in fields if name.endswith("encoder_factory")}
        if "q_func_factory" in fields:
            options["q_func_factory"] = q_function
        if config.learning_rate is not None:
            rates = [name for name in fields if name.endswith("learning_rate")]
            options |= dict.fromkeys(rates, config.learning_rate)
        if shapes.discrete and "beta" in fields:
            options["beta"] = 0.0  # no penalty on a clone's logits, so that they are probabilities
        if not shapes.discrete:
            options["action_scaler"] = d3rlpy.preprocessing.MinMaxActionScaler(
                minimum=shapes.low, maximum=shapes.high
            )
        plain = fields - {name for name in fields if name.endswith(("_factory", "_scaler"))}
        own = {"batch_size", "gamma", "compile_graph"}
        if unknown := sorted(config.options.keys() - (plain - own)):
            raise InvalidConfiguration(
                f"d3rlpy's {made.__name__} has no option {', '.join(unknown)} to give; it takes "
                f"{', '.join(sorted(plain - own))}"
            )
        return made(**{**options, **config.options})

    def _policy(self, algo: Any) -> Policy:
        name = type(algo).__name__
        if algo.get_action_type() == import_d3rlpy().ActionSpace.DISCRETE:
            return policy_of(algo, name, self.config.temperature)
        return D3RLPyPolicy(algo, name)

    def _report(
        self,
        evaluators: Mapping[str, Evaluator],
        evaluate_every: int,
        n_steps: int,
        callbacks: Sequence[Callback],
    ) -> Callable[[Any, int, dict[str, float]], bool]:
        def report(algo: Any, step: int, losses: dict[str, float]) -> bool:
            row = {"step": float(step), **losses}
            if step == n_steps or (evaluate_every and step % evaluate_every == 0):
                policy = self._policy(algo)
                row |= {name: float(evaluator(policy)) for name, evaluator in evaluators.items()}
            self.history.append(row)
            return any([bool(callback(row)) for callback in callbacks])

        return report
