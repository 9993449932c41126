"""The loop of transfer, and what it is worth on a hidden twin of a simulator.

The customer of these tests comes with a topic. Each question that it is asked makes it hang up with
probability `q`; an offer after k questions is accepted with probability `ACCEPTED[topic, k]`.
Simulators believe that it is patient. The twin is not; learners meet it in a few logged turns only.
"""

import numpy as np
import pytest

from convgym.errors import InvalidConfiguration
from convgym.evaluation.intervals import mean_interval
from trainers.transfer.gap_monitor import GapMonitor, GapMonitorConfig
from trainers.transfer.progressive import SimToRealConfig, SimToRealTransfer
from trainers.transfer.schedules import RatioSchedule

OFFER, ASK = 0, 1
TOPICS, QUESTIONS = 6, 5  # after so many questions, only an offer is left
NEED = np.linspace(0.2, 0.95, TOPICS)[:, None]  # of a topic: how much there is to ask
ACCEPTED = 1.0 - NEED * 0.5 ** np.arange(QUESTIONS + 1)  # (topics, questions + 1)
PATIENT, TWIN = 0.02, 0.25
LOGGED_TURNS = 60


class Customers:
    """Turns with customers whose `q` is drawn from a range, under an agent that acts by chance."""

    def __init__(self, low, high, seed):
        self.low, self.high, self.rng = low, high, np.random.default_rng(seed)

    def sample(self, batch_size):
        """(n, 5): topic, questions so far, action, reward, whether the conversation goes on."""
        topic = self.rng.integers(0, TOPICS, batch_size)
        asked = self.rng.integers(0, QUESTIONS + 1, batch_size)
        action = np.where(asked < QUESTIONS, self.rng.integers(0, 2, batch_size), OFFER)
        leaves = self.rng.random(batch_size) < self.rng.uniform(self.low, self.high, batch_size)
        accepts = self.rng.random(batch_size) < ACCEPTED[topic, asked]
        reward = np.where(action == OFFER, accepts, 0)
        return np.stack([topic, asked, action, reward, (action == ASK) & ~leaves], axis=1)


class Logged:
    """A few turns of real customers, again and again."""

    def __init__(self, turns, seed):
        self.turns, self.rng = turns, np.random.default_rng(seed)

    def sample(self, batch_size):
        return self.turns[self.rng.integers(0, len(self.turns), batch_size)]


def learn(values, batches, rate=0.1):
    """Q-learning in a table of (topic, questions, action)."""
    values = values.copy()
    for batch in batches:
        rows = np.concatenate([part for part in (batch.simulated, batch.real) if part is not None])
        for topic, asked, action, reward, goes_on in rows:
            ahead = values[topic, asked + 1].max() if goes_on else 0.0
            values[topic, asked, action] += rate * (reward + ahead - values[topic, asked, action])
    return values


def start():
    values = np.zeros((TOPICS, QUESTIONS + 1, 2))
    values[:, QUESTIONS, ASK] = -1.0  # never taken
    return values


def worth(values, q=TWIN):
    """The share of customers that accept, exactly, under the policy that is greedy in `values`."""
    asked = (values.argmax(axis=2) == OFFER).argmax(axis=1)  # questions before the first offer
    return float(((1 - q) ** asked * ACCEPTED[np.arange(TOPICS), asked]).mean())


def run(seed, *, initial=1.0, final=0.5, randomise=True, monitor=None, gap=None, train=learn):
    """Steps 0 to 99 simulator, to 199 randomised simulators, to 499 more and more real turns."""
    config = SimToRealConfig(
        schedule=RatioSchedule(total_steps=500, warmup_steps=200, initial=initial, final=final),
        randomised_from=100,
        batch_size=16,
        round_steps=100,
        seed=seed,
    )
    transfer = SimToRealTransfer(config, monitor)
    transfer.run(
        start(),
        train,
        worth,
        simulator=Customers(PATIENT, PATIENT, seed),
        randomised=Customers(0.0, 0.15, seed + 1_000) if randomise else None,
        real=Logged(Customers(TWIN, TWIN, seed + 2_000).sample(LOGGED_TURNS), seed),
        gap=gap,
    )
    return transfer.history


@pytest.mark.slow
def test_mixed_training_is_better_on_the_twin_than_any_part_of_it():
    """60 logged turns, 30 seeds. The best policy of all is worth 0.566."""
    arms = {
        "simulator": {"final": 1.0, "randomise": False},
        "randomised": {"final": 1.0},
        "real": {"initial": 0.0, "final": 0.0},
    }
    mixed = [run(seed)[-1].value for seed in range(30)]
    parts = {name: [run(seed, **arm)[-1].value for seed in range(30)] for name, arm in arms.items()}
    assert mean_interval(mixed)[0] > mean_interval(parts["simulator"])[1] + 0.1
    for values in parts.values():  # the same seeds have the same log
        assert mean_interval(np.subtract(mixed, values).tolist())[0] > 0.0


def test_the_twin_is_worth_what_playing_it_says():
    """`worth` of two questions and an offer against 20,000 customers, one after the other."""
    rng, accepted, learnt = np.random.default_rng(0), 0, start()
    learnt[:, 0, ASK], learnt[:, 1, ASK], learnt[:, 2, OFFER] = 1.0, 1.0, 1.0
    for customer in range(20_000):
        topic = customer % TOPICS
        stays = rng.random() >= TWIN and rng.random() >= TWIN
        accepted += stays and rng.random() < ACCEPTED[topic, 2]
    assert worth(learnt) == pytest.approx(accepted / 20_000, abs=0.015)


def test_a_second_run_begins_an_empty_history():
    config = SimToRealConfig(schedule=RatioSchedule(total_steps=4), round_steps=2)
    transfer, source = SimToRealTransfer(config), Named("any")
    for _ in range(2):
        transfer.run(0, lambda _, batches: len(list(batches)), float, simulator=source, real=source)
        assert [row.step for row in transfer.history] == [2, 4]


def test_the_same_seeds_give_the_same_history():
    assert run(3) == run(3) != run(4)


class Named:
    """Batches that say where they come from."""

    def __init__(self, name):
        self.name = name

    def sample(self, batch_size):
        return [self.name] * batch_size


def told(steps=10, **given):
    """What each step's batch was made of, and the transfer."""
    schedule = RatioSchedule(total_steps=steps, warmup_steps=4)
    config = SimToRealConfig(schedule=schedule, randomised_from=2, batch_size=3, round_steps=4)
    transfer, met = SimToRealTransfer(config, given.pop("monitor", None)), []

    def train(policy, batches):
        for batch in batches:
            met.append((batch.simulated or []) + (batch.real or []))
            policy += 1
        return policy

    sources = {"simulator": Named("s"), "randomised": Named("x"), "real": Named("r")}
    sources |= {name: given.pop(name) for name in list(given) if name in sources}
    policy = transfer.run(0, train, lambda policy: policy / 100, **sources, **given)
    assert policy == steps
    return met, transfer


def test_a_policy_meets_the_simulator_then_many_then_real_data():
    met, transfer = told()
    assert met[:5] == [["s"] * 3, ["s"] * 3, ["x"] * 3, ["x"] * 3, ["x"] * 3]
    assert all("s" not in batch and len(batch) == 3 for batch in met[5:])
    reals = [batch.count("r") for batch in met]
    due = [3 * (1 - transfer.get_sim_ratio(step)) for step in range(10)]
    assert max(abs(count - share) for count, share in zip(reals, due, strict=True)) < 1
    assert sum(reals) == pytest.approx(sum(3 * (k / 6) for k in range(6)), abs=1)


def test_the_history_has_a_row_for_each_round_the_last_one_may_be_shorter():
    met, transfer = told()
    assert [row.step for row in transfer.history] == [4, 8, 10]
    assert [row.value for row in transfer.history] == [0.04, 0.08, 0.10]
    assert [row.sim_ratio for row in transfer.history] == pytest.approx([1.0, 0.5, 1 / 6])
    drawn = [sum(counts) for counts in zip(*(row.drawn for row in transfer.history), strict=True)]
    assert drawn == [sum(len(b) - b.count("r") for b in met), sum(b.count("r") for b in met)]
    assert transfer.history[0].to_dict() == {
        "step": 4, "sim_ratio": 1.0, "drawn": (12, 0), "value": 0.04, "alerts": (),
    }  # fmt: skip


def test_without_randomised_simulators_the_simulator_stays():
    met, _ = told(randomised=None)
    assert {name for batch in met for name in batch} == {"s", "r"}


def test_while_an_alert_stands_there_is_no_more_simulated_data_than_at_the_end():
    ratios = iter([1.0, 9.0, 1.0])  # before the rounds at the steps 0, 4 and 8

    def gap(policy):
        ratio = next(ratios)
        return [{"metric": "length_js", "value": 0.1, "floor": 0.1 / ratio, "ratio": ratio}]

    monitor = GapMonitor(GapMonitorConfig())
    met, transfer = told(gap=gap, monitor=monitor)
    assert [row.alerts for row in transfer.history] == [(), ("length_js",), ()]
    assert [row.sim_ratio for row in transfer.history] == pytest.approx([1.0, 0.0, 1 / 6])
    assert met[4:8] == [["r"] * 3] * 4 and met[3] == ["x"] * 3
    assert [reading.step for reading in monitor.history] == [0, 4, 8]


def test_an_alert_never_raises_the_share_of_a_schedule_that_rises():
    monitor = GapMonitor()
    monitor.observe(0, [{"metric": "m", "value": 1.0, "floor": 0.1, "ratio": 10.0}])
    schedule = RatioSchedule(initial=0.2, final=0.9, total_steps=10)
    transfer = SimToRealTransfer(SimToRealConfig(schedule=schedule), monitor)
    assert transfer.get_sim_ratio(0) == 0.2


def test_a_learner_that_leaves_batches_is_told():
    with pytest.raises(InvalidConfiguration, match="train took 1 of the 100 batches"):
        run(0, train=lambda policy, batches: next(batches) and policy)


@pytest.mark.parametrize("wrong", [{"randomised_from": -1}, {"batch_size": 0}, {"round_steps": 0}])
def test_a_value_that_is_not_allowed_is_one_sentence(wrong):
    with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
        SimToRealConfig(**wrong)
