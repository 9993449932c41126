"""The table that learns without torch: its arithmetic, that it learns, that it goes on exactly."""

from functools import partial
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from convgym.errors import InvalidConfiguration
from convgym.evaluation.intervals import mean_interval
from convgym.evaluation.rollout import play
from convgym.policies.policy import RandomPolicy
from trainers.tabular import Table, TabularConfig, TabularLearner, TabularPolicy, softmax

DESK = partial(
    gym.make, "ConvGym/CustomerService-v0", observation="features", action="act",
    disable_env_checker=True, topic="status", difficulty=0.0,
)  # fmt: skip


class Doors(gym.Env):
    """Two doors; of three legal acts the one that the cell names opens, a fourth is illegal."""

    observation_space = gym.spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(4)
    domain = SimpleNamespace(layout=("turn", "red", "green", "blue"))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.doors = 0
        return self._seen(), {"action_mask": np.array([1, 1, 1, 0], dtype=np.int8)}

    def _seen(self):
        self.colour = int(self.np_random.integers(3))
        return np.array([self.doors, *np.eye(3)[self.colour]], dtype=np.float32)

    def step(self, action):
        right = float(action == self.colour)
        self.doors += 1
        info = {"action_mask": np.array([1, 1, 1, 0], dtype=np.int8), "success": bool(right)}
        return self._seen(), right, self.doors == 2, False, info


def returns(policy, env, episodes, **options):
    return [play(env, policy, seed=s, options=options, keep=False).return_ for s in range(episodes)]


def test_it_learns_what_there_is_to_learn():
    learner = TabularConfig(seed=1).create()
    policy = learner.fit(Doors, 3_000, report_every=500)
    assert np.mean(returns(policy, Doors(), 200)) > 1.9  # 2/3 at random, 2 at most
    assert learner.history[0]["return"] < learner.history[-1]["return"]
    assert learner.history[-1]["situations"] == 3  # the clock tells none apart


def test_one_update_is_the_formula():
    config = TabularConfig(learning_rate=0.2, baseline_rate=0.5, scale_rate=0.1)
    learner, table = TabularLearner(config), Table(np.ones(2, dtype=bool), 2)
    for belief in ([1, 0], [0, 1]):
        table.place(np.array(belief, dtype=np.float32))
    half = np.array([0.5, 0.5])
    learner._learn(table, [(0, half, 1, 0.0)])
    assert not table.weights.any() and not table.values.any()  # nothing was earned yet
    learner._learn(table, [(1, half, 1, 0.5)])
    scale = 0.5
    assert table.values[1] == 0.25 and table.weights[1] == pytest.approx([-0.1, 0.1])
    learner._learn(table, [(0, half, 1, 0.25), (1, half, 0, 0.75)])
    scale += 0.1 * (1.0 - scale)
    assert table.values[:2] == pytest.approx([0.5, 0.5])
    first, second = 0.2 * 1.0 / scale, 0.2 * 0.5 / scale
    assert table.weights[0] == pytest.approx([-first / 2, first / 2])
    assert table.weights[1] == pytest.approx([second / 2 - 0.1, 0.1 - second / 2])


def test_gains_and_weights_are_kept_within_bounds():
    config = TabularConfig(learning_rate=4.0, most_gain=2.0, most_weight=5.0)
    learner, table = TabularLearner(config), Table(np.ones(1, dtype=bool), 2)
    table.place(np.array([1.0], dtype=np.float32))
    half = np.array([0.5, 0.5])
    learner._learn(table, [(0, half, 0, 0.1)])
    learner._learn(table, [(0, half, 0, 50.0)])  # 4 · 2, not 4 · 50 / 0.1
    assert table.weights[0] == pytest.approx([5.0, -5.0])
    table.weights[0] = 0.0
    learner._learn(table, [(0, half, 0, -50.0)])
    assert table.weights[0] == pytest.approx([-4.0, 4.0])


def test_softmax_is_the_plain_one_over_legal_acts():
    weights, legal = np.array([0.3, 700.0, -2.0, 1.0]), np.array([True, False, True, True])
    plain = np.exp(weights[legal]) / np.exp(weights[legal]).sum()
    assert softmax(weights, legal)[legal] == pytest.approx(plain)
    assert softmax(weights, legal)[1] == 0.0


def test_more_situations_than_a_new_table_has_room_for():
    table = Table(np.ones(12, dtype=bool), 2)
    rows = [np.array([int(bit) for bit in f"{n:012b}"], dtype=np.float32) for n in range(3000)]
    assert [table.place(row) for row in rows] == list(range(3000))
    table.weights[2999] = 7.0
    again = Table.of(table.arrays())
    assert again.places == table.places
    assert again.weights[again.place(rows[2999])].tolist() == [7.0, 7.0]


class Killed(Exception):
    pass


def test_killed_and_taken_up_again_it_ends_with_the_same_table(tmp_path):
    whole = TabularConfig(seed=4).create()
    expected = whole.fit(DESK, 3_000, report_every=500, checkpoint=tmp_path / "whole.zip")
    given = {"report_every": 500, "checkpoint": tmp_path / "run.zip", "checkpoint_every": 700}

    def kill(row):
        if row["step"] > 1_600:
            raise Killed

    with pytest.raises(Killed):
        TabularConfig(seed=4).create().fit(DESK, 3_000, callbacks=[kill], **given)
    again, heard = TabularConfig(seed=4).create(), []
    found = again.fit(DESK, 3_000, callbacks=[heard.append], **given)
    for name, array in expected.table.arrays().items():
        np.testing.assert_array_equal(array, found.table.arrays()[name])
    assert again.history == whole.history == heard


def test_the_file_is_the_policy(tmp_path):
    policy = TabularConfig(seed=2).create().fit(DESK, 1_500)
    policy.save(tmp_path / "policy.zip")
    read = TabularPolicy.load(tmp_path / "policy.zip")
    env = DESK(reward="graded")
    assert returns(policy, env, 30) == returns(read, env, 30)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"learning_rate": 0}, "above 0"),
        ({"baseline_rate": 1.5}, r"outside \(0, 1\]"),
        ({"scale_rate": 0}, r"outside \(0, 1\]"),
    ],
)
def test_bad_options_fail_at_once(given, says):
    with pytest.raises(InvalidConfiguration, match=says):
        TabularConfig(**given)


def test_what_shows_no_named_cells_is_refused():
    with pytest.raises(InvalidConfiguration, match="named cells"):
        TabularConfig().create().fit(partial(gym.make, "CartPole-v1"), 10)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    TabularConfig().create().fit(Doors, 100, checkpoint=tmp_path / "run.zip")
    with pytest.raises(InvalidConfiguration, match="another learning_rate"):
        TabularConfig(learning_rate=0.1).create().fit(Doors, 200, checkpoint=tmp_path / "run.zip")


def learnt_against_random(steps, seed, episodes):
    policy = TabularConfig(seed=seed).create().fit(partial(DESK, reward="graded"), steps)
    env = DESK(reward="graded", split="test")
    earned = (returns(one, env, episodes) for one in (RandomPolicy(), policy))
    return [mean_interval(each) for each in earned]


def test_at_the_desk_its_reward_rises():
    (_, random_high), (low, _) = learnt_against_random(16_000, 3, 300)
    assert random_high < 0.01 and low > 0.03


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_at_the_desk_its_reward_rises_from_every_seed(seed):
    (_, random_high), (low, _) = learnt_against_random(40_000, seed, 600)
    assert random_high < 0.01 and low > 0.05


def test_scores_come_as_often_as_asked_and_change_nothing(tmp_path):
    def worth(policy):
        return float(np.mean(returns(policy, Doors(), 5)))

    def rows_of(steps, **more):
        rows = []
        learner = TabularConfig(seed=2).create()
        learner.fit(Doors, steps, report_every=50, callbacks=[rows.append], **more)
        return rows

    scored = {"evaluators": {"validation": worth}, "evaluate_every": 120}
    rows, plain = rows_of(400, **scored), rows_of(400)
    at = [row["step"] for row in rows if "validation" in row]
    assert at == [150, 300, 400]  # the first report after 120 turns more, and the last
    assert [{k: v for k, v in row.items() if k != "validation"} for row in rows] == plain
    kept = {**scored, "checkpoint": tmp_path / "run.zip", "checkpoint_every": 1}
    rows_of(250, **kept)
    again = rows_of(400, **kept)
    assert [row["step"] for row in again if "validation" in row] == [150, 250, 400]
