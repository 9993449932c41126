"""d3rlpy's discrete learners on conversations: Minari dataset in, `DiscretePolicy` out.

    Minari dataset ─► ReplayBuffer (trainers.offline.d3rlpy_buffers) ─┐ fit_d3rlpy
                                                                      ▼
    DiscretePolicy (numpy, legal acts only) ◄─ weights copied out ◄─ d3rlpy algo

What d3rlpy 2.8.1 would do by itself, and why not:

- It values illegal acts too. Here they are masked (`trainers.offline.masked_q`).
- Its BEAR does not work; it is refused.

Needs the extra `offline`. d3rlpy and torch are imported when something is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from convgym.data.transitions import EpisodeArrays
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.policies.policy import Policy
from trainers.offline.d3rlpy_buffers import episodes_and_size, to_replay_buffer
from trainers.offline.d3rlpy_manners import import_d3rlpy, quiet, seeded, version
from trainers.offline.discrete_policy import DiscretePolicy

if TYPE_CHECKING:
    from minari import MinariDataset

Evaluator = Callable[[Policy], float]
Progress = Callable[[int, Mapping[str, float]], None]
History = list[dict[str, float]]

BEAR = (
    "d3rlpy's BEAR is refused: up to 2.8.1 its update of alpha leaves a gradient in the actor "
    "that cancels the MMD penalty (since 2.3.0), and it squashes the imitator's actions twice "
    "(since 2.1.0), so it optimises Q alone; choose another algorithm, such as BCQ or CQL"
)


# -- learning --------------------------------------------------------------------------------------


def fit_d3rlpy(
    config: Any,
    buffer: Any,
    *,
    n_steps: int,
    seed: int = 0,
    report_every: int = 1000,
    evaluate_every: int = 0,
    report: Callable[[Any, int, dict[str, float]], bool | None] | None = None,
    device: str = "cpu",
) -> Any:
    """Any d3rlpy Q-learning config on `buffer`, quietly: no log lines, no progress bar, no files.

    `report(algo, step, mean losses)` is called every `report_every` steps, every `evaluate_every`
    steps where that is given, and at the end; it may say True to stop.
    Seeds Python's, numpy's and torch's global generators, because d3rlpy draws from all three,
    and puts them back as they were: same seed, same weights, on a CPU with one torch thread.

    Raises InvalidConfiguration for BEAR, with the reason.
    """
    d3rlpy = import_d3rlpy()
    if type(config).__name__ == "BEARConfig" and version(d3rlpy) <= (2, 8, 1):
        raise InvalidConfiguration(BEAR)
    if n_steps < 1 or report_every < 1:
        raise InvalidConfiguration(f"n_steps={n_steps}, report_every={report_every}; at least 1")
    from d3rlpy.algos.utility import build_scalers_with_transition_picker

    from trainers.offline.masked_q import mask_clone

    with quiet(), seeded(seed):
        algo = config.create(device=device if device != "cpu" else False)
        build_scalers_with_transition_picker(algo, buffer)
        algo.build_with_dataset(buffer)
        mask_clone(algo)
        losses: list[dict[str, float]] = []
        for step in range(1, n_steps + 1):
            losses.append(algo.update(buffer.sample_transition_batch(config.batch_size)))
            due = step % report_every == 0 or (evaluate_every and step % evaluate_every == 0)
            if report is not None and (due or step == n_steps):
                names = dict.fromkeys(name for row in losses for name in row)  # some come later
                means = {k: float(np.mean([row[k] for row in losses if k in row])) for k in names}
                losses = []
                if report(algo, step, means):
                    break
    return algo


def train_discrete_cql(
    dataset: MinariDataset | Sequence[EpisodeArrays],
    *,
    action_size: int | None = None,
    n_steps: int = 4000,
    alpha: float = 0.5,
    discount: float = 0.98,
    n_step_td: int = 30,
    hidden: Sequence[int] = (256, 256),
    learning_rate: float = 1e-3,
    batch_size: int = 128,
    target_update: int = 500,
    seed: int = 0,
    progress: Progress | None = None,
    evaluators: Mapping[str, Evaluator] | None = None,
    evaluate_every: int = 1000,
) -> tuple[DiscretePolicy, History]:
    """Conservative Q-learning over acts (Kumar et al., 2020, arXiv:2006.04779), by d3rlpy.

    L = α E[ log Σ_a exp Q(s, a) − Q(s, a_data) ] + L_DoubleDQN, sums over legal acts only

    Every `evaluate_every` steps a row of mean losses and of each evaluator's score for the
    greedy policy is added to the history, and handed to `progress` with the step.

    Why these defaults: success on 500 validation tasks after training on the 3,000 episodes of
    `make demo`, mean of seeds 0 and 1, one change at a time (the standard error of such a mean
    is about 0.02). Defaults: 0.34. Behaviour: 0.22.

        alpha      0.2: 0.30     1.0: 0.33
        n_step_td    1: 0.30      10: 0.34
        hidden     (128, 128): 0.30, in 0.9 of the time
        n_steps   8000: 0.34, in twice as long

    More and better episodes matter more: 6,000 of which half are a planner's teach 0.46 to 0.52
    (`scripts/learn_policies.py`).

    With little `alpha` the greedy policy talks in circles: an act that does nothing loses only
    1 − γ of the value, less than the value's noise. With much of it CQL ranks acts as a clone
    does, forbidden deeds included. A long `n_step_td` teaches what the *mixture* earns after an
    act and steadies learning.

    Different from the paper: Double DQN, n-step targets without correction, and masks.
    """
    d3rlpy = import_d3rlpy()
    _check(alpha=alpha, discount=discount, n_step_td=n_step_td)
    episodes, size = episodes_and_size(dataset, action_size)
    masked = all(episode.masks is not None for episode in episodes)
    buffer = to_replay_buffer(
        episodes, size, with_masks=masked, n_step_td=n_step_td, discount=discount
    )
    encoder, q_function = networks(d3rlpy, hidden, size, masked)
    config = d3rlpy.algos.DiscreteCQLConfig(
        batch_size=batch_size,
        learning_rate=learning_rate,
        gamma=discount,
        alpha=alpha,
        target_update_interval=target_update,
        encoder_factory=encoder,
        q_func_factory=q_function,
    )
    return _train(config, buffer, "CQL", n_steps, seed, progress, evaluators, evaluate_every)


def train_discrete_bc(
    dataset: MinariDataset | Sequence[EpisodeArrays],
    *,
    action_size: int | None = None,
    n_steps: int = 4000,
    hidden: Sequence[int] = (128, 128),
    learning_rate: float = 1e-3,
    batch_size: int = 128,
    seed: int = 0,
    progress: Progress | None = None,
    evaluators: Mapping[str, Evaluator] | None = None,
    evaluate_every: int = 1000,
) -> tuple[DiscretePolicy, History]:
    """Behaviour cloning over acts, by d3rlpy: what imitation alone earns.

    The policy is greedy, which already drops the behaviour's noise; its `temperature` set to 1
    samples as the data do. Without d3rlpy's penalty on the logits, which keeps them from being
    log-probabilities.
    """
    d3rlpy = import_d3rlpy()
    episodes, size = episodes_and_size(dataset, action_size)
    config = d3rlpy.algos.DiscreteBCConfig(
        batch_size=batch_size,
        learning_rate=learning_rate,
        beta=0.0,
        encoder_factory=d3rlpy.models.VectorEncoderFactory(list(hidden)),
    )
    buffer = to_replay_buffer(episodes, size)
    return _train(config, buffer, "BC", n_steps, seed, progress, evaluators, evaluate_every)


def _train(
    config: Any,
    buffer: Any,
    name: str,
    n_steps: int,
    seed: int,
    progress: Progress | None,
    evaluators: Mapping[str, Evaluator] | None,
    evaluate_every: int,
) -> tuple[DiscretePolicy, History]:
    if buffer.dataset_info.action_space != import_d3rlpy().ActionSpace.DISCRETE:
        raise DatasetError(
            "the dataset's actions are vectors, and this learner chooses among acts; hand "
            "to_replay_buffer's buffer to one of d3rlpy's continuous algorithms"
        )
    history: History = []

    def report(algo: Any, step: int, losses: dict[str, float]) -> None:
        row = {"step": float(step), **losses}
        for key, evaluator in (evaluators or {}).items():
            row[key] = float(evaluator(policy_of(algo, name)))
        history.append(row)
        if progress is not None:
            progress(step, row)

    algo = fit_d3rlpy(
        config, buffer, n_steps=n_steps, seed=seed, report_every=evaluate_every, report=report
    )
    return policy_of(algo, name), history


def networks(d3rlpy: Any, hidden: Sequence[int], size: int, masked: bool) -> tuple[Any, Any]:
    """d3rlpy's encoder and Q-function factories, those that know masks where there are masks."""
    if not masked:
        models = d3rlpy.models
        return models.VectorEncoderFactory(list(hidden)), models.MeanQFunctionFactory()
    from trainers.offline.masked_q import MaskedMeanQFunctionFactory, MaskedVectorEncoderFactory

    return MaskedVectorEncoderFactory(list(hidden), actions=size), MaskedMeanQFunctionFactory()


def policy_of(algo: Any, name: str, temperature: float = 0.0) -> DiscretePolicy:
    """The greedy policy of a fitted discrete d3rlpy algorithm, its weights copied.

    Raises InvalidConfiguration for networks other than linear layers with ReLU between, or that
    give other than one number an act.
    """
    modules, size = algo.impl.modules, algo.impl.action_size
    actor, clone = getattr(modules, "policy", None), getattr(modules, "imitator", None)
    q_functions = getattr(modules, "q_funcs", None)
    if actor is not None:
        return DiscretePolicy([_layers(actor, size)], name, temperature)
    if q_functions is None:
        return DiscretePolicy([_layers(clone, size)], name, temperature)
    networks = [_layers(network, size) for network in q_functions]
    if clone is None:
        return DiscretePolicy(networks, name, temperature)
    return DiscretePolicy(
        networks,
        name,
        temperature,
        support=_layers(clone, size),
        threshold=algo.config.action_flexibility,
    )


def _layers(network: Any, size: int) -> list[Any]:
    """Weights (in, out) and biases (out,) of a d3rlpy network, copied."""
    from torch import nn

    leaves = [part for part in network.modules() if not list(part.children())]
    strange = [part for part in leaves if not isinstance(part, nn.Linear | nn.ReLU)]
    if strange:
        raise InvalidConfiguration(
            f"the network has {type(strange[0]).__name__}; a DiscretePolicy takes Linear and "
            "ReLU only, as d3rlpy's plain VectorEncoderFactory makes them"
        )
    linear = [part for part in leaves if isinstance(part, nn.Linear)]
    if linear[-1].out_features != size:
        raise InvalidConfiguration(
            f"the network gives {linear[-1].out_features} numbers for {size} acts; a "
            "DiscretePolicy takes one an act, as d3rlpy's mean Q-function has it"
        )
    return [
        (p.weight.detach().cpu().numpy().T.copy(), p.bias.detach().cpu().numpy().copy())
        for p in linear
    ]


def _check(alpha: float, discount: float, n_step_td: int) -> None:
    if alpha < 0:
        raise InvalidConfiguration(f"alpha={alpha}; it must be 0 or more")
    if not 0.0 < discount <= 1.0:
        raise InvalidConfiguration(f"discount={discount} is outside (0, 1]")
    if n_step_td < 1:
        raise InvalidConfiguration(f"n_step_td={n_step_td}; it must be 1 or more")
