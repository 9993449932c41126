"""The polish: what its knobs turn, that it is judged apart, and that the clock decides nothing."""

import math
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import corpus
from twin_user import drawn_truth, twin_log

from convgym.calibration import polish as polishing
from convgym.calibration.calibration import Calibration, calibrate
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.moments import moment_gap, moments
from convgym.calibration.polish import UNITS, WHERE_IT_ENDS, Polish, polish, simulated, turned
from convgym.calibration.transitions import Backoff
from convgym.conversation import Conversation
from convgym.data.logs import read_log
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.language.archive import read_archive, write_archive
from convgym.users.fitted_user import CALIBRATION

LOG = twin_log(drawn_truth(4), 120, 4)
ALONE = [Conversation(c.conversation_id, tuple(c.said_by("user"))) for c in LOG]


@pytest.fixture(scope="module")
def simulator():
    return LogSimulator.of(ALONE)


@pytest.fixture(scope="module")
def calibration():
    return calibrate(LOG, budget_s=1, seed=3)


# -- knobs -----------------------------------------------------------------------------------------


def test_knobs_at_0_change_nothing(simulator):
    same = turned(simulator, dict.fromkeys(UNITS, 0.0))
    assert same.generate(40, 1) == simulator.generate(40, 1)


def test_turning_leaves_the_counted_user_as_it_was(simulator):
    before = simulator.generate(40, 1)
    knobs = dict.fromkeys(UNITS, 0.7)
    assert turned(simulator, knobs).generate(40, 1) != before
    assert simulator.generate(40, 1) == before


def test_strengths_by_hand(simulator):
    made = turned(simulator, {"acts": math.log(2), "acts_by_length": math.log(3), "slots": 1.0})
    was, now = simulator.acts.strengths, made.acts.strengths
    assert now[0] == pytest.approx(was[0] * 2 / 3)
    assert now[-1] == pytest.approx(was[-1] * 2 * 3)
    slots = zip(simulator.signatures.strengths, made.signatures.strengths, strict=True)
    assert all(after == pytest.approx(before * math.e) for before, after in slots)


def test_other_strengths_give_other_shares_by_hand():
    table = Backoff([(["h"], "a"), (["h"], "a"), (["h"], "b"), (["g"], "c")])
    # Of three after "h", two different; a third each without a history.
    for strength in (0.5, 4.0):
        made = table.shrunk([strength])
        wanted = (2 + strength * 2 / 3) / (3 + strength * 2)
        assert made.probability(["h"], "a") == pytest.approx(wanted)
        drawn = [made.draw(["h"], (k + 0.5) / 9000) for k in range(9000)]
        assert drawn.count("a") / 9000 == pytest.approx(wanted, abs=0.001)
    assert made.probability(["g"], "c") != table.probability(["g"], "c")


@given(st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 20))
def test_a_tilted_hazard_is_the_platt_scaling_of_the_counted_one(simulator, shift, sharp, place):
    made = turned(simulator, {"leaving": shift, "leaving_sharpness": sharp})
    before, after = (s.end.probability([place]) for s in (simulator, made))
    logit = shift + math.exp(sharp) * math.log(before / (1 - before))
    assert after == pytest.approx(1 / (1 + math.exp(-logit)))


def test_who_leaves_sooner_says_less(simulator):
    turns = [
        np.mean([len(c.messages) for c in turned(simulator, {"leaving": shift}).generate(200, 0)])
        for shift in (-1.0, 0.0, 1.0)
    ]
    assert turns[0] > turns[1] > turns[2]


@pytest.mark.slow
def test_only_where_nobody_recorded_the_agent_is_leaving_turned(calibration):
    alone = calibrate(ALONE, budget_s=1)
    assert set(alone.polish.knobs) == set(UNITS)
    assert set(calibration.polish.knobs) == set(UNITS) - set(WHERE_IT_ENDS)


# -- the search ------------------------------------------------------------------------------------


def test_the_search_finds_the_bottom_of_a_bowl():
    bottom = np.array([0.5, -1.0, 0.25])
    heard = []

    def loss(units, generation):
        heard.append(generation)
        return float(np.square(units - bottom).sum())

    assert polishing._searched(loss, 3, 40, 0, None) == pytest.approx(bottom, abs=0.02)
    assert heard == np.repeat(np.arange(40), polishing.GENERATION).tolist()


def test_the_same_seed_gives_the_same_bytes_and_no_global_dice_are_thrown(calibration, tmp_path):
    state = np.random.get_state()[1].tolist()
    again = calibrate(LOG, budget_s=1, seed=3)
    assert np.random.get_state()[1].tolist() == state
    for name, found in (("one", calibration), ("other", again)):
        found.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert calibrate(LOG, budget_s=1, seed=4).polish != calibration.polish


@pytest.mark.slow
def test_a_budget_is_a_number_of_settings_that_hangs_on_the_log_alone():
    counted, heard = LogSimulator.of(LOG), []
    found = polish(counted, LOG, 0, 2.0, lambda *told: heard.append(told))
    turns = sum(len(user.turns) for user in counted.log)
    # Three of four conversations are simulated for each setting, or nearly so many.
    wanted = 2.0 * polishing.PACE / (0.75 * turns)
    assert wanted * 0.8 - 9 <= found.evaluations <= wanted * 1.2
    assert heard == [(done, found.evaluations) for done in range(9, found.evaluations + 1, 9)]


def test_too_short_a_log_or_budget_tries_nothing():
    short = LOG[: polishing.FEWEST - 1]
    assert polish(LogSimulator.of(short), short, 0, 60) is None
    assert polish(LogSimulator.of(LOG), LOG, 0, 0.01) is None


def test_without_cma_the_counts_alone_can_be_had(monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(MissingExtra, match=r"'cma'.*calibration"):
        calibrate(LOG, budget_s=1)
    assert calibrate(LOG, budget_s=0).polished == {}


def test_what_is_held_out_is_not_seen(calibration):
    other = [
        replace(c, messages=tuple(replace(m, content=m.content + " indeed") for m in c.messages))
        if c.conversation_id in calibration.held_out
        else c
        for c in LOG
    ]
    found = calibrate(other, budget_s=1, seed=3)
    assert found.held_out == calibration.held_out
    assert found.polish == calibration.polish


@pytest.mark.slow
def test_it_is_judged_where_neither_counts_nor_search_have_looked():
    *folds, apart = polishing._inner_parts(LOG, 0)
    assert sorted(index for part in (*folds, apart) for index in part) == list(range(len(LOG)))
    found = polish(LogSimulator.of(LOG), LOG, 0, 2.0)
    gone = set(apart)
    counted = LogSimulator.of([c for index, c in enumerate(LOG) if index not in gone])
    judges = [LOG[index] for index in apart]
    turns = [len(user.turns) for user in LogSimulator.of(LOG).log]
    edges = np.unique(np.quantile(turns, np.arange(0.1, 1, 0.1)))

    def plainly(conversations):
        rows = []
        for row in moments(conversations):
            binned = sum(row[0] > edge for edge in edges)
            rows.append([*row, *(float(binned == k) for k in range(len(edges) + 1))])
        return np.array(rows)

    for knobs, gap in (({}, found.gap_before), (found.knobs, found.gap_after)):
        said = simulated(turned(counted, knobs), judges, 0, polishing.TIMES)
        assert moment_gap(plainly(judges), plainly(said)) == pytest.approx(gap)


# -- taken or not, saved and loaded ----------------------------------------------------------------

KNOBS = {"acts": -1.0, "slots": 0.5, "shelves": -0.5}


@pytest.mark.parametrize(("after", "taken"), [(1.9, True), (2.0, False), (3.0, False)])
def test_knobs_are_taken_where_they_helped_and_survive_a_file(calibration, after, taken, tmp_path):
    found = replace(calibration, polish=Polish(KNOBS, 2.0, after, 9))
    found.save(tmp_path / "user.npz")
    loaded = Calibration.load(tmp_path / "user.npz")
    assert loaded.polish == found.polish
    assert loaded.polished == (KNOBS if taken else {})
    counted = LogSimulator(calibration.simulator().log, calibration.simulator().labels)
    wanted = turned(counted, KNOBS) if taken else counted
    assert loaded.simulator().generate(30, 5) == wanted.generate(30, 5)


def test_what_is_no_saved_user_is_refused_in_one_sentence(calibration, tmp_path):
    whole, bad = tmp_path / "user.npz", tmp_path / "bad.npz"
    calibration.save(whole)
    about, arrays = read_archive(whole, CALIBRATION)
    write_archive(bad, {**about, "format": "convgym tagger 1"}, arrays)
    short = tmp_path / "short.npz"
    write_archive(short, {k: v for k, v in about.items() if k != "polish"}, arrays)
    half = tmp_path / "half.npz"
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    for path in (bad, short, half, tmp_path, tmp_path / "nowhere.npz"):
        with pytest.raises(InvalidConfiguration, match=f"{path} .*; give a file that") as refused:
            Calibration.load(path)
        assert "\n" not in str(refused.value)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_byte_is_refused_or_is_none_that_matters(saved, data):
    raw, found, path = saved
    at = data.draw(st.integers(0, len(raw) - 1))
    damaged = bytearray(raw)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(damaged)
    with suppress(InvalidConfiguration):
        assert Calibration.load(path).posterior == found.posterior


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    found = calibrate(LOG[:80], budget_s=0)
    found.save(folder / "user.npz")
    return (folder / "user.npz").read_bytes(), found, folder / "damaged.npz"


# -- real logs -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multidogo", "multiwoz"])
def test_on_real_logs_knobs_are_taken_where_they_help_with_conversations_nobody_has_seen(name):
    talks = list(read_log(corpus(name)))
    talks = [talks[i] for i in np.random.default_rng(0).permutation(len(talks))]
    logs, rest = talks[:1000], talks[1000:2000]
    found = calibrate(logs, budget_s=60)
    unseen = [c for c in logs if c.conversation_id in found.held_out] + rest
    counted, real = LogSimulator(found.simulator().log, found.simulator().labels), moments(unseen)
    gaps = [
        moment_gap(real, moments(simulated(turned(counted, knobs), unseen, 5)))
        for knobs in ({}, found.polish.knobs)
    ]
    assert found.polish.taken == (name == "multidogo")  # MultiWOZ is as near as knobs get
    assert gaps[1] < 0.9 * gaps[0] if found.polish.taken else gaps[1] > 0.95 * gaps[0]
