"""Calibration on a parametric twin whose numbers are known; saving; refusals."""

import numpy as np
import pytest
from recorded import talk
from twin_user import drawn_truth, twin_log

from convgym.calibration.calibration import Calibration, calibrate
from convgym.calibration.laplace import laplace
from convgym.calibration.lengths import length_posterior
from convgym.calibration.misreading import FALSE_ALARMS, SENSITIVITY, rate_posterior
from convgym.calibration.moments import moment_floor, moment_gap, moments
from convgym.calibration.parameters import PARAMETER, PARAMETERS, fit_parameters
from convgym.calibration.signatures import logged_users
from convgym.conversation import Conversation, Message
from convgym.errors import InvalidConfiguration


@pytest.fixture(scope="module")
def calibration():
    return calibrate(twin_log(drawn_truth(2), 300, 2), seed=1, budget_s=0)


def error(params, truth):
    return np.mean([abs(params[p.name] - truth[p.name]) / (p.high - p.low) for p in PARAMETERS])


def test_there_are_36_parameters_in_six_blocks():
    assert len({p.name for p in PARAMETERS}) == 36
    assert len({p.block for p in PARAMETERS}) == 6
    assert all(p.low <= p.mean <= p.high for p in PARAMETERS)


def test_acts_give_the_parameters_back(calibration):
    truth = drawn_truth(2)
    assert calibration.method == "counts"
    assert error(calibration.params, truth) <= 0.10


def test_text_gives_the_parameters_back_less_well():
    found = calibrate(twin_log(drawn_truth(2), 300, 2, labelled=False), seed=1, budget_s=0)
    assert found.method == "text"
    assert error(found.params, drawn_truth(2)) <= 0.15


def test_calibrated_is_much_nearer_than_a_script(calibration):
    assert calibration.gap_after < calibration.gap_before / 10
    assert calibration.floor == pytest.approx(1.0, abs=0.5)
    assert 0.8 < calibration.length_match <= 1.0


def test_what_no_log_tells_stays_at_its_prior(calibration):
    assert calibration.identifiable["typo"] == pytest.approx(1.0)
    assert calibration.identifiable["question"] < 0.3


def test_without_failures_affect_and_without_slots_answers_are_the_prior():
    log = [talk(f"c{i}", "hello", "a:Where is it?", "in the hall", "thanks") for i in range(30)]
    found = fit_parameters(logged_users(log))
    for name in ("fr_gain_fail", "answer", "extra_slot"):
        assert found[name].identifiable == pytest.approx(1.0)
        assert found[name].mean == pytest.approx(PARAMETER[name].mean)


def test_one_probability_by_hand():
    said = [(("hello", "greet") if i < 3 else ("my parcel", "inform")) for i in range(10)]
    log = [
        Conversation(f"c{i}", (Message("user", text, intents=(act,)), Message("user", "well")))
        for i, (text, act) in enumerate(said)
    ]
    greet = fit_parameters(logged_users(log))["greet_only"]
    assert greet.mean == pytest.approx((4 * 0.25 + 3) / (4 + 10))


@pytest.mark.parametrize(("happened", "n", "unread"), [(30, 400, 0.0), (0, 50, 0.3), (0, 0, 0.3)])
def test_a_misread_rate_is_what_people_drawn_by_chance_have(happened, n, unread):
    chance, draws = np.random.default_rng(0), 200_000
    p = chance.beta(1.0, 3.0, draws)
    s, f = (1 / (1 + np.exp(-chance.normal(*of, draws))) for of in (SENSITIVITY, FALSE_ALARMS))
    s[chance.random(draws) < unread] = 0.0
    q = np.clip(f + (s - f) * p, 1e-12, 1 - 1e-12)
    weight = np.exp(happened * np.log(q / 0.075) + (n - happened) * np.log((1 - q) / 0.925))
    by_chance = np.average(p, weights=weight)
    mean, sd, low, high = rate_posterior((1.0, 3.0), happened, n, unread)
    assert mean == pytest.approx(by_chance, abs=0.02)
    assert sd == pytest.approx(np.average((p - by_chance) ** 2, weights=weight) ** 0.5, abs=0.02)
    assert np.average((p > low) & (p < high), weights=weight) == pytest.approx(0.95, abs=0.02)


def test_words_never_make_sure_what_labels_do():
    labelled, read = (
        fit_parameters(logged_users(twin_log(drawn_truth(1), 100, 1, with_acts)))
        for with_acts in (True, False)
    )
    for name in ("question", "ack", "reject_offer"):
        assert read[name].sd > 2 * labelled[name].sd


def test_laplace_gives_back_a_normal_posterior():
    seen = np.random.default_rng(0).normal(1.5, 2.0, 400)
    mode, sd = laplace(lambda free: -((seen - free[0]) ** 2) / 8, np.zeros(1), np.ones(1) * 0.5)
    precision = 400 / 4 + 4
    assert mode[0] == pytest.approx(seen.sum() / 4 / precision, rel=1e-3)
    assert sd[0] == pytest.approx(precision**-0.5, rel=0.1)


def test_lengths_come_back_from_whole_words_and_habits():
    chance, turns = np.random.default_rng(0), []
    for user in range(400):
        own = chance.normal(2.0, 0.3)
        for place in range(6):
            slots, answers = int(chance.integers(3)), bool(place % 2)
            drawn = own + 0.1 * slots - 0.1 * place + chance.normal(0, 0.5)
            words = max(1, round(np.expm1(drawn)))
            if answers and chance.random() < 0.4:
                words = int(chance.integers(1, 3))
            turns.append((user, words, answers, slots, place))
    mean = np.array([2.1, 0.1, 0.0, np.log(0.6), np.log(0.3), -0.8])
    found, sd = length_posterior(turns, mean, np.array([0.7, 0.2, 0.15, 0.5, 0.5, 1.0]))
    true = np.array([2.0, 0.1, -0.1, np.log(0.5), np.log(0.3), np.log(0.4 / 0.6)])
    assert np.all(np.abs(found - true) < 3 * sd)
    assert np.all(sd < 0.15)


def test_what_is_saved_loads_as_it_was(calibration, tmp_path):
    calibration.save(tmp_path / "user.npz")
    loaded = Calibration.load(tmp_path / "user.npz")
    assert loaded.posterior == calibration.posterior
    assert loaded.gap_after == calibration.gap_after and loaded.held_out == calibration.held_out
    assert loaded.simulator().generate(30, 5) == calibration.simulator().generate(30, 5)
    loaded.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "user.npz").read_bytes()


def test_the_randomizer_widens_with_uncertainty(calibration):
    narrow, wide = calibration.domain_randomizer(0.0), calibration.domain_randomizer(2.0)
    assert narrow.persona_variation == 0.0 < wide.persona_variation <= 1.0


def test_nothing_that_was_held_out_is_fitted():
    log = twin_log(drawn_truth(2), 100, 2)
    found = calibrate(log, budget_s=0)
    assert len(found.held_out) + len(found.simulator().log) == 100
    fitted = [c for c in log if c.conversation_id not in found.held_out]
    assert logged_users(fitted) == found.simulator().log


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "magic"}, "it takes 'auto', 'counts' or 'text'"),
        ({"holdout": 1.0}, "above 0 and below 1"),
        ({"method": "counts"}, "mostly unlabelled"),
        ({"budget_s": -1}, "it takes seconds, from 0"),
        ({"budget_s": float("nan")}, "it takes seconds, from 0"),
        ({}, "20 or more of each"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(wrong, message):
    log = [talk(f"c{i}", f"hello {i}", "bye") for i in range(20)]
    with pytest.raises(InvalidConfiguration, match=message):
        calibrate(log, **{"budget_s": 0, **wrong})


def test_a_log_without_user_turns_is_refused_in_one_sentence():
    with pytest.raises(InvalidConfiguration, match="3 conversations came in which no user says"):
        calibrate(talk(f"c{i}", "a:Hello?") for i in range(3))


def test_two_samples_of_one_source_have_a_gap_of_about_one():
    chance = np.random.default_rng(0)
    pairs = [[chance.normal(size=(n, 40)) for n in (80, 90)] for _ in range(20)]
    gaps = [moment_gap(*pair) for pair in pairs]
    assert np.mean(gaps) == pytest.approx(1.0, abs=0.15)
    one, other = (chance.normal(size=(n, 400)) for n in (90, 200))
    assert moment_floor(one, other) == pytest.approx(1.0, abs=0.15)


def test_the_floor_is_higher_where_the_real_parts_happen_to_differ():
    one, other = (np.random.default_rng(0).normal(size=(n, 40)) for n in (90, 200))
    assert moment_floor(one + 0.3, other) > 2 * moment_floor(one, other)


def test_what_too_few_conversations_have_says_nothing():
    chance = np.random.default_rng(0)
    one, other = chance.normal(size=(2, 90, 2))
    one[19:, 1] = np.nan
    one[:19, 1] += 50
    alone = moment_gap(one[:, :1], other[:, :1])
    assert moment_gap(one, other) == pytest.approx(alone, rel=1e-12)  # sums in other order


def test_moments_by_hand():
    spoken = talk("c", "hello", "where?", "a:I am sorry", "ok")
    found = moments([spoken, Conversation("silent", ())])
    assert found.shape[0] == 1
    assert found[0, :3].tolist() == [3.0, 9.0, 3.0 / 3.0]


def recovered(seeds, logs, labelled):
    """Means over hidden twins of the gap in floors, the error and the share of intervals."""
    rows = []
    for seed in seeds:
        truth = drawn_truth(seed)
        found = calibrate(twin_log(truth, logs, seed, labelled))
        covered = [low <= truth[name] <= high for name, (low, high) in found.ci.items()]
        rows.append((found.gap_after / found.floor, error(found.params, truth), np.mean(covered)))
    return np.mean(rows, axis=0)


@pytest.mark.parametrize("labelled", [True, False], ids=["acts", "text"])
def test_a_few_small_twins_come_back(labelled):
    gap, off, covered = recovered(range(40, 42), 200, labelled)
    assert gap < 2
    assert off <= (0.10 if labelled else 0.15)
    assert covered >= 0.85


def test_logs_without_variation_or_ascii_words():
    chinese = [talk(f"c{i}", "你好", "a:您好", f"谢谢{'。' * (i % 3)}", "再见") for i in range(80)]
    found = calibrate(chinese)
    assert found.length_match == 1.0
    one, other = (
        moments([talk(f"c{i}", *said) for i in range(40)])
        for said in (["hi", "bye"], ["a b c"] * 9)
    )
    assert moment_gap(one, other) > 100
    assert moment_gap(one, one) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labelled", "most", "off_by"), [(True, 1.3, 0.10), (False, 1.6, 0.15)], ids=["acts", "text"]
)
def test_many_hidden_twins_come_back(labelled, most, off_by):
    gap, off, covered = recovered(range(100, 116), 1000, labelled)
    assert gap <= most
    assert off <= off_by
    assert 0.90 <= covered <= 0.99
