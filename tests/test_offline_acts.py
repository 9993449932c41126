"""Offline algorithms over acts against exact values: what each must learn, and must never do.

The rows are those of the table in the project's notes on offline learning. Small networks and
64 features here; the same at full size is `slow`.
"""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
import torch
from toy_fits import (
    DISCOUNT,
    MODEL,
    OFTEN,
    SIZE,
    SMALL,
    WITH_Q,
    configured,
    conversation,
    fitted,
    mostly_bad,
)

from convgym.errors import DatasetError, InvalidConfiguration
from trainers.offline.algorithms.bc import BCConfig
from trainers.offline.algorithms.bcq import BCQConfig
from trainers.offline.algorithms.bear import BEARConfig
from trainers.offline.algorithms.cql import CQLConfig, DQNConfig
from trainers.offline.algorithms.iql import IQLConfig
from trainers.offline.algorithms.mc import MCConfig
from trainers.offline.config import Shapes
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.toy_dialogue import (
    ACTS,
    BLUNDERS,
    HORIZON,
    MAJORITY_BAD,
    START,
    STATES,
    ToyDialogue,
    embedding,
    majority_bad,
    policy_table,
    record,
    script,
    toy_model,
    uniform,
)

# -- 1: probes -------------------------------------------------------------------------------------

OVER = [[0.0, 0.0]]
PROBES = {
    "constant": [([[1.0, 0.0]], [a], [1.0]) for a in (0, 1)],
    "discounted": [([[1.0, 0.0], [0.0, 1.0]], [a, b], [0.0, 1.0]) for a in (0, 1) for b in (0, 1)],
    "by observation": [([[1.0, s]], [a], [s]) for a in (0, 1) for s in (-1.0, 1.0)],
    "by act": [([[1.0, 0.0]], [a], [1.0 - 2 * a]) for a in (0, 1)],
}
TRUTHS = {
    "constant": {(1.0, 0.0): [1.0, 1.0]},
    "discounted": {(1.0, 0.0): [0.5, 0.5], (0.0, 1.0): [1.0, 1.0]},
    "by observation": {(1.0, -1.0): [-1.0, -1.0], (1.0, 1.0): [1.0, 1.0]},
    "by act": {(1.0, 0.0): [1.0, -1.0]},
}


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param("constant", marks=pytest.mark.slow),  # "by act" without a difference
        "discounted",
        pytest.param("by observation", marks=pytest.mark.slow),
        "by act",
    ],
)
@pytest.mark.parametrize("algorithm", WITH_Q)
def test_values_of_a_probe_are_true(algorithm, probe):
    data = [conversation(seen + OVER, acts, rewards) for seen, acts, rewards in PROBES[probe]]
    config = configured(
        WITH_Q[algorithm], discount=0.5, hidden=(16,), batch_size=32, learning_rate=1e-2
    )
    learner = config.create()
    learner.fit(data, 400)
    for seen, truth in TRUTHS[probe].items():
        values = learner.algorithm.critic(torch.tensor([seen])).detach().numpy()  # (E, 1, 2)
        assert np.abs(values - truth).max() < 0.05


# -- data of the toy dialogue ----------------------------------------------------------------------


def visited(table):
    """States that a policy comes to from the start.  # (STATES,) bool"""
    found = np.zeros(STATES)
    found[START] = 1.0
    for _ in range(HORIZON):
        found = found + np.einsum("s,sa,sab->b", found > 0, table, MODEL.moves)
    return found > 0


def states_of(observations):
    return (observations @ embedding(SIZE).T).argmax(axis=1)


def counts(data):
    """How often each act was done in each state.  # (STATES, ACTS)"""
    found = np.zeros((STATES, ACTS))
    for episode in data:
        np.add.at(found, (states_of(episode.observations[:-1]), episode.actions), 1)
    return found


# -- 3: implicit Q-learning's limits ---------------------------------------------------------------


def expectiles(table, weights, expectile):
    """Of each row, by fixed-point iteration; 0 where nothing weighs."""
    value = np.zeros((len(table), 1))
    for _ in range(60):
        pull = weights * np.where(table < value, 1 - expectile, expectile)
        value = (pull * table).sum(1, keepdims=True) / np.maximum(pull.sum(1, keepdims=True), 1e-12)
    return value[:, 0]


@pytest.mark.parametrize("expectile", [0.5, 0.8, 0.95])
def test_iql_finds_the_expectiles_of_what_the_data_show(expectile):
    seen = counts(mostly_bad())
    truth, _ = MODEL.fixed_point(lambda table: expectiles(table, seen, expectile), DISCOUNT)
    config = IQLConfig(expectile=expectile, critics=1, target_rate=0.02)
    *_, learner, _ = fitted(config, mostly_bad(), 700)
    start = torch.from_numpy(embedding(SIZE)[[START]])
    assert learner.algorithm.value(start).item() == pytest.approx(truth[START], abs=0.1)


def test_a_higher_expectile_is_worth_more():
    seen = counts(mostly_bad())
    values = [
        MODEL.fixed_point(lambda table, t=tau: expectiles(table, seen, t), DISCOUNT)[0][START]
        for tau in (0.5, 0.8, 0.95)
    ]
    assert values[0] + 0.2 < values[1] and values[1] + 0.05 < values[2]
    assert values[2] < MODEL.optimal(DISCOUNT)[0][START]


# -- 4: batch-constrained Q-learning's limits ------------------------------------------------------


def test_bcq_that_allows_only_the_likeliest_act_is_a_clone():
    cloned, *_, clone = fitted(BCConfig(), mostly_bad(), 300)
    table, *_, policy = fitted(BCQConfig(threshold=1.0), mostly_bad(), 300)
    assert np.array_equal(table, cloned)
    for own, other in zip(policy.support, clone.networks[0], strict=True):
        assert np.array_equal(own[0], other[0]) and np.array_equal(own[1], other[1])


def test_bcq_that_allows_every_act_is_double_q_learning():
    free, *_, q = fitted(DQNConfig(**OFTEN), mostly_bad(), 250)
    table, *_, policy = fitted(BCQConfig(threshold=0.0, **OFTEN), mostly_bad(), 250)
    assert np.array_equal(table, free)
    for own, other in zip(policy.networks[0], q.networks[0], strict=True):
        assert np.array_equal(own[0], other[0]) and np.array_equal(own[1], other[1])


# -- 5: conservative Q-learning's limits -----------------------------------------------------------


def test_without_its_term_cql_is_plain_double_q_learning():
    config = configured(CQLConfig(cql_alpha=0.0, target_update=7), **SMALL)
    learner = config.create()
    turns = learner.build(mostly_bad())
    q = [torch.tensor(part) for pair in learner.algorithm.critic.layers() for part in pair]
    for part in q:
        part.requires_grad_()
    target = [part.detach().clone() for part in q]
    optimizer = torch.optim.Adam(q, lr=config.learning_rate)
    generator = torch.Generator().manual_seed(config.seed)

    def values(parts, x):
        for place in range(0, len(parts) - 2, 2):
            x = torch.relu(x @ parts[place] + parts[place + 1])
        return x @ parts[-2] + parts[-1]

    for step in range(1, 21):
        batch = turns[torch.randint(len(turns), (config.batch_size,), generator=generator)]
        with torch.no_grad():
            best = values(q, batch["next_observations"]).argmax(1)
            following = values(target, batch["next_observations"])[torch.arange(len(best)), best]
            aim = batch["rewards"] + DISCOUNT * (1 - batch["terminated"]) * following
        done = values(q, batch["observations"])[torch.arange(len(best)), batch["actions"]]
        optimizer.zero_grad()
        torch.nn.functional.huber_loss(done, aim).backward()
        optimizer.step()
        if step % 7 == 0:
            target = [part.detach().clone() for part in q]
    learner.fit(turns, 20)
    found = [part for pair in learner.algorithm.critic.layers() for part in pair]
    for part, other in zip(found, q, strict=True):
        assert np.allclose(part, other.detach(), atol=1e-5)


def test_the_double_q_learner_is_cql_without_its_term():
    *_, own = fitted(DQNConfig(), mostly_bad(), 50)
    *_, other = fitted(CQLConfig(cql_alpha=0.0), mostly_bad(), 50)
    assert own.name == "double DQN"
    assert all(
        np.array_equal(a, b)
        for x, y in zip(own.networks[0], other.networks[0], strict=True)
        for a, b in zip(x, y, strict=True)
    )


def test_much_conservatism_ranks_acts_as_the_data_do():
    *_, policy = fitted(CQLConfig(cql_alpha=300.0), mostly_bad(), 600)
    seen, values = counts(mostly_bad()), policy.scores(embedding(SIZE))
    compared = 0
    for state in np.flatnonzero(seen.sum(1) >= 100):
        for act, other in np.argwhere(seen[state][:, None] > 2 * seen[state] + 20):
            assert values[state, act] > values[state, other]
            compared += 1
    assert compared > 100


def test_the_conservative_gap_falls_with_alpha():
    gaps = []
    for alpha in (0.0, 0.05, 0.5, 5.0):
        *_, learner, _ = fitted(CQLConfig(cql_alpha=alpha, **OFTEN), mostly_bad(), 250)
        gaps.append(learner.history[-1]["conservative_gap"])
    assert all(low + 0.03 < high for high, low in pairwise(gaps))


# -- 6: acts that nobody has tried -----------------------------------------------------------------


ALL_IS_LOST = -1.0
"""Every ending is 1 worse: all true values are below 0, where untrained values begin."""


def strange(table):
    """Share of the states it comes to in which a policy does what the data never show."""
    there = visited(table)
    return table[there, BLUNDERS:].sum() / there.sum()


def test_double_q_learning_believes_in_acts_that_nobody_tried():
    table, _, _, policy = fitted(DQNConfig(**OFTEN), mostly_bad(ALL_IS_LOST), 600)
    assert strange(table) > 0.2
    assert policy.scores(embedding(SIZE))[START].max() > 0


@pytest.mark.parametrize(
    "config",
    [
        CQLConfig(cql_alpha=0.05, **OFTEN),
        BCQConfig(**OFTEN),
        IQLConfig(expectile=0.9, target_rate=0.02),
        MCConfig(),
        CQLConfig(cql_alpha=0.0, kl_weight=0.2, **OFTEN),
    ],
    ids=["CQL", "BCQ", "IQL", "MC", "KL"],
)
def test_careful_learners_do_not(config):
    table, _, learner, _ = fitted(config, mostly_bad(ALL_IS_LOST), 600)
    assert strange(table) == 0.0
    values = learner.algorithm.critic(torch.from_numpy(embedding(SIZE))).detach().numpy().min(0)
    assert ((values * table).sum(1)[visited(table)] < 0).all()


# -- 7, 8: mostly bad, and expert ------------------------------------------------------------------


GOOD = {
    "CQL": CQLConfig(cql_alpha=0.05, **OFTEN),
    "CQL by return": CQLConfig(cql_alpha=0.05, weighting="return", **OFTEN),
    "CQL by importance": CQLConfig(cql_alpha=0.05, weighting="importance", **OFTEN),
    "CQL of a pessimistic ensemble": CQLConfig(cql_alpha=0.05, critics=3, pessimism=1.0, **OFTEN),
    "CQL towards the behaviour": CQLConfig(cql_alpha=0.05, bc_weight=0.05, **OFTEN),
    "CQL with KL": CQLConfig(cql_alpha=0.0, kl_weight=0.2, **OFTEN),
    "IQL": IQLConfig(expectile=0.9, target_rate=0.02),
    "IQL by weights": IQLConfig(expectile=0.9, extraction="weighted", temperature=10.0),
    "IQL in closed form": IQLConfig(expectile=0.9, extraction="exact", temperature=10.0),
    "BCQ": BCQConfig(**OFTEN),
    "MC": MCConfig(),
}


def test_a_clone_of_bad_conversations_is_bad():
    _, value, *_ = fitted(BCConfig(), mostly_bad(), 500)
    assert value < -0.3


# Their quick tests are those of what they vary.
VARIANTS = {"CQL by return", "CQL by importance", "CQL of a pessimistic ensemble"} | {
    name for name in GOOD if name.startswith(("CQL towards", "IQL "))
}
MARKED = [pytest.param(name, marks=[pytest.mark.slow] * (name in VARIANTS)) for name in GOOD]


@pytest.mark.parametrize("algorithm", MARKED)
def test_good_replies_are_found_among_bad_ones(algorithm):
    _, value, *_ = fitted(GOOD[algorithm], mostly_bad(), 600)
    assert value > 0.55


@pytest.fixture(scope="module")
def expert():
    return record(script(), 300, env=ToyDialogue(SIZE))


def test_a_clone_of_an_expert_is_as_good(expert):
    _, value, *_ = fitted(BCConfig(), expert, 300)
    assert value > MODEL.values(script())[START] - 0.01


@pytest.mark.parametrize("algorithm", [*MARKED, "BEAR"])
def test_nothing_is_lost_on_the_words_of_an_expert(expert, algorithm):
    best = MODEL.values(script())[START]
    _, value, *_ = fitted({**GOOD, "BEAR": BEARConfig()}[algorithm], expert, 400)
    assert value >= best - 0.05


# -- 16: stitching ---------------------------------------------------------------------------------

HERE, THERE, BETWEEN, GONE = np.eye(4, dtype=np.float32)


def stitched():
    """Two roads cross. Who came from HERE always went wrong between; who came from THERE, right.

    HERE ── 1 ─► 0.2, the end                 most go home at once
     └─ 0 ─► BETWEEN ── 0 ─► 0, the end       who does not, does this
    THERE ─► BETWEEN ── 1 ─► 1, the end
    """
    return (
        [conversation([HERE, GONE], [1], [0.2])] * 30
        + [conversation([HERE, BETWEEN, GONE], [0, 0], [0.0, 0.0])] * 20
        + [conversation([THERE, BETWEEN, GONE], [0, 1], [0.0, 1.0])] * 10
    )


def earned(policy):
    """What a policy earns from HERE."""
    both = np.ones(2, np.int8)
    if policy.predict(HERE, action_masks=both)[0] == 1:
        return 0.2
    return float(policy.predict(BETWEEN, action_masks=both)[0] == 1)


@pytest.mark.parametrize("algorithm", ["CQL", "CQL with KL", "IQL", "BCQ", "double DQN"])
def test_learners_with_targets_stitch_two_conversations_together(algorithm):
    config = {**GOOD, "double DQN": DQNConfig(**OFTEN)}[algorithm]
    policy = configured(config, hidden=(16,), learning_rate=3e-3).create().fit(stitched(), 800)
    assert earned(policy) == 1.0


@pytest.mark.parametrize("config", [BCConfig(), MCConfig()], ids=["BC", "MC"])
def test_learners_without_targets_do_not(config):
    policy = configured(config, hidden=(16,), learning_rate=3e-3).create().fit(stitched(), 800)
    assert earned(policy) == 0.2
    # Nor could one that is told which return to reach: nobody has earned more from HERE.
    best = max(e.rewards.sum() for e in stitched() if np.array_equal(e.observations[0], HERE))
    assert best == 0.2


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        (BCQConfig, {"threshold": 1.5}, "threshold"),
        (BEARConfig, {"kernel": "cosine"}, "gaussian, laplacian"),
        (BEARConfig, {"mmd_threshold": 0.0}, "mmd_threshold"),
        (CQLConfig, {"weighting": "rank"}, "importance"),
        (CQLConfig, {"bc_weight": 1.0, "kl_weight": 1.0}, "one of them"),
        (CQLConfig, {"critics": 2, "pessimism": -1.0}, "pessimism"),
        (IQLConfig, {"expectile": 1.0}, "expectile"),
        (IQLConfig, {"extraction": "greedy"}, "masked"),
        (IQLConfig, {"temperature": 0.0}, "temperature"),
        (MCConfig, {"threshold": -0.1}, "threshold"),
    ],
)
def test_bad_options_are_refused(config, options, reason):
    with pytest.raises(InvalidConfiguration, match=reason):
        config(**options)


def test_a_clones_accuracy_counts_the_likeliest_legal_act():
    algorithm = BCConfig(hidden=(4,)).build(Shapes(2, 3, True), None)
    with torch.no_grad():
        for weight in algorithm.logits.weights:
            weight.zero_()
        algorithm.logits.biases[-1].copy_(torch.tensor([[[3.0, 2.0, 1.0]]]))
    batch = {
        "observations": torch.zeros(4, 2),
        "actions": torch.tensor([0, 1, 2, 2]),
        "masks": torch.tensor([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 1, 1]]).bool(),
    }
    metrics, _ = algorithm.update(batch, torch.Generator(), 1)
    assert metrics["accuracy"] == 0.75  # of all acts the likeliest is right once in four


def test_importance_takes_propensities():
    bare = [dataclasses.replace(episode, propensities=None) for episode in mostly_bad()[:5]]
    with pytest.raises(DatasetError, match="propensity"):
        CQLConfig(weighting="importance").create().fit(bare, 1)


def test_a_clone_of_the_best_leaves_the_rest_alone():
    _, value, *_ = fitted(BCConfig(best=0.2), mostly_bad(), 600)
    assert value > 0.55


def test_a_policy_held_by_kl_is_saved_with_what_holds_it(tmp_path):
    *_, policy = fitted(CQLConfig(kl_weight=0.3), mostly_bad(), 100)
    policy.save(tmp_path / "one")
    rows = embedding(SIZE)
    assert policy.prior == 0.3
    assert np.array_equal(DiscretePolicy.load(tmp_path / "one").scores(rows), policy.scores(rows))


# -- the same at full size -------------------------------------------------------------------------


FULL = {
    "CQL": CQLConfig(cql_alpha=0.05, target_update=250),
    "BCQ": BCQConfig(target_update=250),
    "IQL": IQLConfig(expectile=0.9, target_rate=0.02),
}


@pytest.mark.slow  # about 60 s each
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_at_full_size_careful_learners_find_the_good_replies(seed):
    options = {"hidden": (128, 128), "discount": DISCOUNT, "seed": seed}
    for shift in (0.0, -1.0):
        env = ToyDialogue(end_shift=shift)
        data = record(majority_bad(), 1500, shares=MAJORITY_BAD, env=env)
        for config in FULL.values():
            policy = configured(config, **options).create().fit(data, 2500)
            table = policy_table(policy.action_probs)
            assert MODEL.values(table)[START] > 0.55
            assert strange(table) == 0.0
        cloned = configured(BCConfig(), **options).create().fit(data, 1000)
        assert MODEL.values(policy_table(cloned.action_probs))[START] < -0.3


@pytest.mark.slow  # about 60 s
def test_at_full_size_iql_finds_the_expectiles():
    model = toy_model(turn_cost=0.02)
    behavior = uniform()
    data = record(behavior, 4000, env=ToyDialogue(turn_cost=0.02))
    for expectile in (0.5, 0.8, 0.95):
        truth, _ = model.fixed_point(lambda q, t=expectile: expectiles(q, behavior, t), 0.99)
        config = IQLConfig(expectile=expectile, discount=0.99, hidden=(128, 128), critics=1)
        learner = config.create()
        learner.fit(data, 4000, shapes=Shapes(384, ACTS, True))
        found = learner.algorithm.value(torch.from_numpy(embedding(384)[[START]])).item()
        assert found == pytest.approx(truth[START], abs=0.1)
