"""d3rlpy's algorithms by name: what they learn, what they are kept from, the same as ours."""

import contextlib
import io
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from convgym.data.episodes import write_dataset
from convgym.data.transitions import EpisodeArrays, episode_buffers, returns_to_go
from convgym.errors import InvalidConfiguration

pytest.importorskip("minari")
torch = pytest.importorskip("torch", reason="torch is not installed")
try:
    with contextlib.redirect_stderr(io.StringIO()):  # gym's notice
        import d3rlpy
except ImportError:
    pytest.skip("d3rlpy is not installed", allow_module_level=True)

from trainers.offline.algorithms.bc import BCConfig  # noqa: E402
from trainers.offline.algorithms.cql import CQLConfig  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.d3rlpy_buffers import to_replay_buffer  # noqa: E402
from trainers.offline.d3rlpy_learner import ACTS, VECTORS, D3RLPyConfig  # noqa: E402
from trainers.offline.d3rlpy_policy import D3RLPyPolicy  # noqa: E402
from trainers.offline.saved_policies import load_policy  # noqa: E402
from trainers.toy_dialogue import (  # noqa: E402
    MAJORITY_BAD,
    START,
    ToyDialogue,
    majority_bad,
    policy_table,
    record,
    toy_model,
)

ROWS = np.eye(4, dtype=np.float32)
ALL = np.ones(3, dtype=np.int8)


def episode(rows, actions, rewards, terminated, masks=None) -> EpisodeArrays:
    gained = np.array(rewards, dtype=np.float64)
    return EpisodeArrays(
        np.asarray(rows, np.float32), np.array(actions), gained, terminated, not terminated,
        returns_to_go(gained, 0.9), masks,
    )  # fmt: skip


def bandit(count: int = 200, seed: int = 0) -> list[EpisodeArrays]:
    """One-turn episodes over three acts; the act 1 pays 1, the others 0."""
    rng = np.random.default_rng(seed)
    acts = rng.integers(0, 3, count)
    return [episode(ROWS[[0, 1]], [act], [float(act == 1)], True) for act in acts]


def darts(count: int = 300, seed: int = 0) -> list[EpisodeArrays]:
    """Vectors within [0, 10]; what is paid is minus the distance from 2 + 6 x."""
    rng, made = np.random.default_rng(seed), []
    for number in range(count):
        rows = rng.random((int(rng.integers(1, 5)) + 1, 1)).astype(np.float32)
        vectors = (2 + 6 * rows[:-1] + rng.normal(0, 0.5, rows[:-1].shape)).astype(np.float32)
        paid = -np.abs(vectors - 2 - 6 * rows[:-1])[:, 0]
        made.append(episode(rows, vectors, paid, number % 2 == 0))
    return made


DART = Shapes(1, 1, False, np.array([0.0], np.float32), np.array([10.0], np.float32))


# Acts


@pytest.mark.parametrize("algorithm", sorted(ACTS.keys() - {"bc"}))
def test_every_algorithm_over_acts_finds_the_act_that_pays(algorithm):
    options = {"initial_temperature": 0.05} if algorithm == "sac" else {}
    config = D3RLPyConfig(
        algorithm=algorithm, options=options, hidden=(16,), learning_rate=1e-2, batch_size=32
    )
    policy = config.create().fit(bandit(), 150, shapes=Shapes(4, 3, True))
    assert policy.action_probs(ROWS[0], ALL).tolist() == [0.0, 1.0, 0.0]
    assert policy.action_probs(ROWS[0], np.array([1, 0, 1]))[1] == 0.0


def test_a_clone_samples_as_its_data_do():
    skewed = [e for e in bandit() if e.actions[0] != 2]
    config = D3RLPyConfig(
        algorithm="bc", hidden=(16,), learning_rate=1e-2, batch_size=32, temperature=1.0
    )
    policy = config.create().fit(skewed, 200, shapes=Shapes(4, 3, True))
    share = np.mean([e.actions[0] == 1 for e in skewed])
    assert policy.action_probs(ROWS[0], ALL) == pytest.approx([1 - share, share, 0.0], abs=0.1)


def test_bcq_leaves_unlikely_acts_alone_as_d3rlpy_itself_does():
    rng = np.random.default_rng(1)
    rows = rng.random((400, 4)).astype(np.float32)
    acts = rng.choice(3, 400, p=[0.5, 0.4, 0.1])
    data = [
        episode([row, row], [act], [float(act == 2)], True)
        for row, act in zip(rows, acts, strict=True)
    ]
    config = D3RLPyConfig(algorithm="bcq", options={"action_flexibility": 0.4}, hidden=(16,))
    learner = config.create()
    policy = learner.fit(data, 300, shapes=Shapes(4, 3, True))
    chosen = policy.action_probs(rows, np.ones((400, 3), np.int8)).argmax(axis=1)
    assert np.array_equal(chosen, learner.algo.predict(rows))
    assert (chosen != 2).all(), "the act that pays is done one time in ten only"


@pytest.mark.parametrize("algorithm", ["bcq", "cql", "double_dqn"])
def test_an_illegal_act_is_never_bootstrapped_from(algorithm):
    """Act 2 pays 10 where it is legal, and is what is mostly done there; after act 0 it is not."""
    never, always = np.array([1, 1, 0], np.int8), np.array([1, 1, 1], np.int8)
    data = []
    for number in range(200):
        legal = np.array([never, never, never])
        data.append(episode(ROWS[[0, 1, 2]], [0, number % 2], [0.0, 1.0], True, legal))
        for _ in range(4):
            data.append(episode(ROWS[[1, 2]], [2], [10.0], True, np.array([always, never])))
    options = {"target_update_interval": 20, **({"alpha": 0.1} if algorithm == "cql" else {})}
    config = D3RLPyConfig(
        algorithm=algorithm, options=options, discount=0.9, hidden=(32,), learning_rate=3e-3,
        batch_size=64,
    )  # fmt: skip
    policy = config.create().fit(data, 300, shapes=Shapes(4, 3, True))
    assert policy.scores(ROWS[0])[0] == pytest.approx(0.9, abs=0.25)


def test_a_cut_conversation_bootstraps_from_what_was_seen_last(tmp_path, monkeypatch):
    """CI row 2: through Minari; the cut turn is worth γ, or 0 were it dropped or ended."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = []
    for _ in range(40):
        data += [
            episode(ROWS[[0, 1]], [0], [0.0], False),
            episode(ROWS[[1, 2]], [0], [1.0], True),
        ]
    spaces = gym.spaces.Box(0, 1, (4,), np.float32), gym.spaces.Discrete(3)
    dataset = write_dataset(
        "cut/turns-v0", spaces, episode_buffers(data), description="", ref_min_score=None,
        ref_max_score=None, algorithm_name="none",
    )  # fmt: skip
    config = D3RLPyConfig(
        algorithm="double_dqn", options={"target_update_interval": 20}, discount=0.9,
        hidden=(32,), learning_rate=3e-3, batch_size=32,
    )  # fmt: skip
    seen = data[0].observations
    policy = config.create().fit(dataset, 400)
    assert policy.scores(seen)[:, 0] == pytest.approx([0.9, 1.0], abs=0.1)


def test_scores_rows_and_stops_are_those_of_our_learners():
    heard = []
    learner = D3RLPyConfig(algorithm="cql", hidden=(8,), batch_size=8).create()
    learner.fit(
        bandit(20), 100, {"one": lambda policy: 1.0}, shapes=Shapes(4, 3, True),
        evaluate_every=20, report_every=15, callbacks=[lambda row: heard.append(row["step"])],
    )  # fmt: skip
    assert heard == [15, 20, 30, 40, 45, 60, 75, 80, 90, 100]
    assert [row["step"] for row in learner.history if "one" in row] == [20, 40, 60, 80, 100]
    stopped = D3RLPyConfig(algorithm="cql", hidden=(8,), batch_size=8).create()
    stopped.fit(
        bandit(20), 100, shapes=Shapes(4, 3, True), report_every=15,
        callbacks=[lambda row: row["step"] >= 30],
    )  # fmt: skip
    assert [row["step"] for row in stopped.history] == [15, 30]


# Vectors


@pytest.mark.parametrize("algorithm", sorted(VECTORS))
def test_every_algorithm_over_vectors_runs_within_the_space_and_is_saved(algorithm, tmp_path):
    config = D3RLPyConfig(algorithm=algorithm, hidden=(16, 16), batch_size=16)
    policy = config.create().fit(darts(40), 12, shapes=DART)
    policy.save(tmp_path / "policy.zip")
    loaded = load_policy(tmp_path / "policy.zip")
    assert isinstance(loaded, D3RLPyPolicy) and loaded.name == policy.name
    for one in (policy, loaded):
        one.reset(7)
    for x in (0.1, 0.5, 0.9):
        row = np.array([x], np.float32)
        action = policy.predict(row)[0]
        assert action.shape == (1,) and 0.0 <= action[0] <= 10.0
        assert np.array_equal(action, loaded.predict(row)[0])


@pytest.mark.parametrize("algorithm", ["bc", "iql", "td3_plus_bc"])
def test_algorithms_over_vectors_hit_what_the_data_hit(algorithm):
    config = D3RLPyConfig(algorithm=algorithm, hidden=(32, 32), learning_rate=3e-3, batch_size=64)
    policy = config.create().fit(darts(), 400, shapes=DART)
    xs = np.linspace(0.1, 0.9, 5, dtype=np.float32)
    hit = np.array([policy.predict(np.array([x]))[0][0] for x in xs])
    assert hit == pytest.approx(2 + 6 * xs, abs=0.6)


def test_rebrac_reads_no_made_up_action():
    data = darts(20)
    buffer = to_replay_buffer(data, 1, with_next_actions=True)
    places = [buffer.transition_picker(*place) for place in buffer.buffer]
    assert len(places) == sum(len(e) if e.terminated else len(e) - 1 for e in data)
    made = np.concatenate([e.actions for e in data])
    assert all(one.terminal or one.next_action in made for one in places)


# What is refused


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"algorithm": "bear"}, "d3rlpy's BEAR is refused"),
        ({"algorithm": "decision_transformer"}, "over acts there are bc, bcq"),
        ({"algorithm": "cql", "batch_size": 0}, "batch_size=0"),
        ({"algorithm": "cql", "options": {"encoder_factory": object()}}, "made of `hidden`"),
    ],
)
def test_a_config_that_cannot_be_says_why(options, what):
    with pytest.raises(InvalidConfiguration, match=what):
        D3RLPyConfig(**options)


def test_data_that_do_not_fit_the_algorithm_say_why():
    shapes = Shapes(4, 3, True)
    with pytest.raises(InvalidConfiguration, match="no 'iql' over acts"):
        D3RLPyConfig(algorithm="iql").create().fit(bandit(5), 1, shapes=shapes)
    wrong = D3RLPyConfig(algorithm="cql", options={"conservative_weight": 1.0, "gamma": 0.5})
    with pytest.raises(InvalidConfiguration, match="no option conservative_weight, gamma to give"):
        wrong.create().fit(bandit(5), 1, shapes=shapes)
    masked = [replace(e, masks=np.array([[1, 1, 0 + (e.actions[0] == 2)]] * 2)) for e in bandit(9)]
    with pytest.raises(InvalidConfiguration, match="entropy of 98 % of all acts"):
        D3RLPyConfig(algorithm="sac").create().fit(masked, 1, shapes=shapes)
    quantiles = d3rlpy.models.QRQFunctionFactory(n_quantiles=4)
    from trainers.offline.d3rlpy_adapter import fit_d3rlpy, policy_of

    algo = fit_d3rlpy(
        d3rlpy.algos.DQNConfig(batch_size=4, q_func_factory=quantiles),
        to_replay_buffer(bandit(5), 3), n_steps=1,
    )  # fmt: skip
    with pytest.raises(InvalidConfiguration, match="gives 12 numbers for 3 acts"):
        policy_of(algo, "quantiles")


# Beside our own


def interval(values: list[float]) -> tuple[float, float]:
    """Of a mean of three seeds, Student's at 95 %, and never narrower than 0.02."""
    width = max(4.30 * float(np.std(values, ddof=1)) / np.sqrt(len(values)), 0.01)
    return float(np.mean(values)) - width, float(np.mean(values)) + width


@pytest.mark.slow  # about 45 CPU-seconds
@pytest.mark.parametrize("algorithm", ["bc", "cql"])
def test_ours_and_d3rlpys_reach_the_same_value(algorithm):
    model, shared = toy_model(), {"discount": 0.95, "hidden": (64, 64), "batch_size": 128}
    values: dict[str, list[float]] = {"ours": [], "theirs": []}
    for seed in range(3):
        env = ToyDialogue(64)
        data = record(majority_bad(), 1000, shares=MAJORITY_BAD, env=env, discount=0.95, seed=seed)
        if algorithm == "bc":
            ours = BCConfig(seed=seed, learning_rate=1e-3, **shared)
            theirs = D3RLPyConfig(algorithm="bc", seed=seed, learning_rate=1e-3, **shared)
        else:
            ours = CQLConfig(
                seed=seed, cql_alpha=0.05, target_update=500, learning_rate=5e-4, **shared
            )
            theirs = D3RLPyConfig(
                algorithm="cql", seed=seed, learning_rate=5e-4,
                options={"alpha": 0.05, "target_update_interval": 500}, **shared,
            )  # fmt: skip
        for side, config in (("ours", ours), ("theirs", theirs)):
            policy = config.create().fit(data, 2500)
            table = policy_table(policy.action_probs, 64)
            values[side].append(float(model.values(table)[START]))
    (low, high), (other_low, other_high) = interval(values["ours"]), interval(values["theirs"])
    assert low <= other_high and other_low <= high, values
    expected = (-0.6, -0.3) if algorithm == "bc" else (0.55, 0.75)
    assert all(expected[0] <= v <= expected[1] for v in values["ours"] + values["theirs"]), values
