"""Learners over vectors beside d3rlpy's, of the same options, on the same conversations."""

import contextlib
import io

import numpy as np
import pytest

pytest.importorskip("minari")
torch = pytest.importorskip("torch", reason="torch is not installed")
try:
    with contextlib.redirect_stderr(io.StringIO()):  # gym's notice
        import d3rlpy
except ImportError:
    pytest.skip("d3rlpy is not installed", allow_module_level=True)

from vectored import PointMass, config, q  # noqa: E402

from trainers.offline.d3rlpy_adapter import fit_d3rlpy  # noqa: E402
from trainers.offline.d3rlpy_buffers import to_replay_buffer  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.slow  # about 30 CPU-seconds together
STEPS = 600
RATES = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3, "tau": 0.05}
NETWORK = d3rlpy.models.VectorEncoderFactory([32, 32])
NETWORKS = {"actor_encoder_factory": NETWORK, "critic_encoder_factory": NETWORK}

PAIRS = {
    "bc": ({}, "BCConfig", {"learning_rate": 3e-3, "encoder_factory": NETWORK}),
    "td3_bc": ({"alpha": 2.5}, "TD3PlusBCConfig", {**RATES, **NETWORKS, "alpha": 2.5}),
    "iql": (
        {"expectile": 0.9, "temperature": 10.0},
        "IQLConfig",
        {
            **RATES, **NETWORKS, "value_encoder_factory": NETWORK,
            "expectile": 0.9, "weight_temp": 10.0,
        },
    ),
    "bcq": (
        {"num_samples": 10, "perturbation_limit": 0.05},
        "BCQConfig",
        {
            **RATES, **NETWORKS, "imitator_encoder_factory": NETWORK, "n_action_samples": 10,
            "imitator_learning_rate": 1e-3,
        },
    ),
    "cql": (
        {"cql_alpha": 1.0, "initial_entropy_weight": 0.1},
        "CQLConfig",
        {
            **RATES, **NETWORKS, "conservative_weight": 1.0, "alpha_learning_rate": 0.0,
            "initial_temperature": 0.1, "temp_learning_rate": 3e-3,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_ours_and_theirs_learn_the_same(name):
    ours, made, theirs = PAIRS[name]
    task = PointMass()
    data = task.record()
    learner = config(name, discount=0.9, **ours).create()
    policy = learner.fit(data, STEPS)
    factory = getattr(d3rlpy.algos, made)
    other = fit_d3rlpy(
        factory(batch_size=64, gamma=0.9, **theirs),
        to_replay_buffer(data, discount=0.9),
        n_steps=STEPS,
    )

    class Theirs:
        def reset(self, seed):
            pass

        def predict(self, observation, **_):
            return other.predict(observation[None])[0], None

    scores = [task.score(one) for one in (policy, Theirs())]
    assert scores[0] == pytest.approx(scores[1], abs=0.3)
    if name != "bc":
        seen = np.concatenate([e.observations[:-1] for e in data])[:300]
        done = np.concatenate([e.actions for e in data])[:300]
        values = q(learner, seen, done).numpy(), other.predict_value(seen, done)
        assert np.corrcoef(*values)[0, 1] > 0.97
        assert np.abs(values[0] - values[1]).mean() < 0.2
