"""Calibration on a parametric twin whose numbers are known; saving; refusals."""

import numpy as np
import pytest
from recorded import talk
from twin_user import drawn_truth, twin_log

from convgym.calibration.calibration import Calibration, calibrate
from convgym.calibration.moments import moment_floor, moment_gap, moments
from convgym.calibration.parameters import PARAMETERS, fit_parameters
from convgym.calibration.signatures import logged_users
from convgym.conversation import Conversation
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


def test_without_failures_affect_is_the_prior():
    log = [talk(f"c{i}", "hello", "a:Where is it?", "in the hall", "thanks") for i in range(30)]
    found = fit_parameters(logged_users(log))
    assert found["fr_gain_fail"].identifiable == 1.0
    assert found["answer"].mean > 0.9


def test_one_probability_by_hand():
    log = [talk(f"c{i}", "hello" if i < 3 else "my parcel", "bye") for i in range(10)]
    greet = fit_parameters(logged_users(log))["greet_only"]
    assert greet.mean == pytest.approx((4 * 0.25 + 3) / (4 + 10), abs=0.01)


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
    assert moment_floor(chance.normal(size=(200, 40))) == pytest.approx(1.0, abs=0.15)


def test_moments_by_hand():
    spoken = talk("c", "hello", "where?", "a:I am sorry", "ok")
    found = moments([spoken, Conversation("silent", ())])
    assert found.shape[0] == 1
    assert found[0, :3].tolist() == [3.0, 9.0, 3.0 / 3.0]


@pytest.mark.slow
@pytest.mark.parametrize(("labelled", "bound"), [(True, 0.10), (False, 0.15)])
def test_parameters_come_back_over_many_twins(labelled, bound):
    errors, covered = [], []
    for seed in range(12):
        truth = drawn_truth(seed)
        found = calibrate(twin_log(truth, 1000, seed, labelled), holdout=0.5, budget_s=0)
        errors.append(error(found.params, truth))
        covered += [low <= truth[name] <= high for name, (low, high) in found.ci.items()]
        assert found.gap_after < (4 if labelled else 30) * found.floor
    assert np.mean(errors) <= bound
    assert not labelled or np.mean(covered) >= 0.85
