"""The watch for hacked rewards: silent where a reward is honest, one sentence where it is not."""

import random

import pytest

from convgym.errors import InvalidConfiguration
from trainers.reward_watch import RewardWatch


def run(rows, **options):
    """What was told, and the rows that others heard."""
    told, heard = [], []
    watch = RewardWatch([heard.append], tell=told.append, **options)
    for row in rows:
        watch(row)
    return told, heard


def rows(count, reward, every=5, noise=0.05, seed=0, **others):
    """`reward` and others are functions of the share of the run that is done, with noise."""
    drawn = random.Random(seed)
    for step in range(1, count + 1):
        done = step / count
        row = {"step": float(step), "return": reward(done) + drawn.gauss(0, noise),
               "return_std": 0.4}  # fmt: skip
        for name, value in others.items():
            if name != "validation" or step % every == 0 or step == 1:
                row[name] = value(done) + drawn.gauss(0, noise * 0.2)
        yield row


def test_a_reward_that_rises_alone_is_named_with_its_numbers():
    told, heard = run(rows(60, lambda t: 0.1 + 0.9 * t, validation=lambda t: 0.2))
    assert len(told) == 1 and "\n" not in told[0]
    assert "standard deviations" in told[0] and "held-out success went from 0.19 to 0.21" in told[0]
    last = heard[-1]
    # (mean of the newest 8 − mean of the first 8) / 0.4, from rewards 0.1 + 0.9 t
    assert last["watch_reward_rise"] == pytest.approx(0.9 * (52 / 60) / 0.4, abs=0.15)
    assert abs(last["watch_truth_rise"]) < 0.1 and last["watch_alert"] == 1.0
    assert heard[0] == {**heard[0], "step": 1.0} and "watch_alert" not in heard[0]


@pytest.mark.parametrize("seed", range(5))
def test_an_honest_reward_is_left_alone(seed):
    told, heard = run(
        rows(80, lambda t: 0.1 + 0.8 * t, validation=lambda t: 0.2 + 0.7 * t, seed=seed)
    )
    assert told == [] and all(row.get("watch_alert", 0.0) == 0.0 for row in heard)
    assert heard[-1]["watch_truth_rise"] > 1.0


@pytest.mark.parametrize("seed", range(5))
def test_a_run_in_which_nothing_happens_is_left_alone(seed):
    told, _ = run(rows(80, lambda t: 0.3, noise=0.1, validation=lambda t: 0.2, seed=seed))
    assert told == []


def test_a_truth_that_falls_from_its_best_is_told_with_how_far():
    def truth(done):
        return 0.2 + 1.2 * done if done < 0.5 else 0.8 - 1.0 * (done - 0.5)

    told, heard = run(rows(100, lambda t: 0.1 + 0.4 * t, validation=truth))
    assert len(told) == 1 and "has fallen from 0.7" in told[0] and "while the reward" in told[0]
    assert heard[-1]["watch_alert"] == 1.0
    fell = [row["step"] for row in heard if row.get("watch_alert")]
    assert min(fell) > 55


def test_it_is_told_again_only_when_it_parts_again():
    def truth(done):  # flat, then caught up, then gone
        return 0.2 if done < 0.5 else 0.9 if done < 0.75 else 0.2

    told, _ = run(rows(120, lambda t: 0.1 + 1.5 * t, validation=truth))
    assert len(told) == 2


def test_looks_are_told_beside_it():
    told, _ = run(
        rows(
            60, lambda t: 0.1 + 0.9 * t, validation=lambda t: 0.2,
            reply_tokens=lambda t: 5 + 40 * t, repeated_words=lambda t: 0.1 + 0.8 * t,
            tool_calls=lambda t: 2.0, refusals=lambda t: 0.0,
        )
    )  # fmt: skip
    assert "tokens of a reply went from" in told[0] and "repeated words went from" in told[0]
    assert "tool calls" not in told[0] and "refusals" not in told[0]


def test_looks_alone_are_enough_where_nothing_else_is_known():
    told, _ = run(rows(60, lambda t: 0.1 + 0.9 * t, tool_calls=lambda t: 2 + 20 * t))
    assert len(told) == 1 and "tool calls of a conversation went from" in told[0]
    assert run(rows(60, lambda t: 0.1 + 0.9 * t, tool_calls=lambda t: 2.0))[0] == []
    assert run(rows(60, lambda t: 0.1, tool_calls=lambda t: 2 + 20 * t))[0] == []


def test_rows_without_rewards_pass_as_they_are():
    told, heard = run([{"step": float(s), "loss": 1.0, "validation": 0.1} for s in range(40)])
    assert told == [] and heard[-1] == {"step": 39.0, "loss": 1.0, "validation": 0.1}


def test_a_run_that_tells_its_history_again_is_judged_alike():
    whole = list(rows(60, lambda t: 0.1 + 0.9 * t, validation=lambda t: 0.2))
    assert run(whole)[1][30:] == run(whole[:30] + whole[30:])[1][30:]


def test_others_may_still_stop_the_run():
    assert RewardWatch([lambda row: None, lambda row: True])({"step": 1.0}) is True
    assert RewardWatch([lambda row: None])({"step": 1.0}) is False


def test_without_a_listener_it_warns():
    watch = RewardWatch()
    with pytest.warns(RuntimeWarning, match="had without doing the work"):
        for row in rows(60, lambda t: 0.1 + 0.9 * t, validation=lambda t: 0.2):
            watch(row)


@pytest.mark.parametrize("given", [{"window": 0}, {"least_rise": 0}])
def test_what_cannot_be_watched_is_refused(given):
    with pytest.raises(InvalidConfiguration, match="counts from 1"):
        RewardWatch(**given)
