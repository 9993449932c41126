"""The monitor: how seldom it cries where nothing is amiss, and that it cries where something is."""

import math
from dataclasses import replace

import numpy as np
import pytest
from twin_user import drawn_truth, twin_log

from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.moments import moment_gap
from convgym.calibration.monitor import (
    HORIZON,
    Monitor,
    MonitorConfig,
    Window,
    arms_of,
    return_of,
    success_of,
)
from convgym.calibration.window_gap import (
    ROWS,
    Pairs,
    Profiles,
    WindowRow,
    measured,
    permutation_p,
)
from convgym.conversation import Conversation, Message
from convgym.data.growing_logs import logged_at
from convgym.errors import InvalidConfiguration

WINDOW = 50
GREETINGS = ("hello there", "hi", "good morning to you", "hey")
WISHES = ("my lamp does not work", "I want to return a chair", "the bill is wrong", "cancel it")
ANSWERS = ("it is 4711", "number 88123", "that would be 5", "I think 90210")
CLOSINGS = ("thanks a lot, bye", "thank you", "great, good bye", "bye now")
ASKS = ("What is your number?", "Could you tell me the number?")


def customers(n, seed):
    """People who greet, say what they want, answer a question as often as asked, and close."""
    chance, made = np.random.default_rng(seed), []
    for number in range(n):
        said = [Message("user", chance.choice(GREETINGS)), Message("assistant", "How can I help?")]
        said.append(Message("user", chance.choice(WISHES)))
        for _ in range(chance.integers(1, 4)):
            said.append(Message("assistant", chance.choice(ASKS)))
            said.append(Message("user", chance.choice(ANSWERS)))
        said += [Message("assistant", "Done."), Message("user", chance.choice(CLOSINGS))]
        made.append(Conversation(f"{seed}-{number}", tuple(said)))
    return made


USER = LogSimulator.of(customers(200, 5))


def served(conversations):
    """As a service logs them, one a minute."""
    return [
        replace(one, metadata={"logged_at": 60.0 * i}) for i, one in enumerate(conversations)
    ]


def people(n, seed):
    """Talks of those whom the calibrated user was counted from: nothing is amiss in them."""
    return served(customers(n, seed))


def shuffled(conversations, seed):
    """The same turns, each said in somebody else's place."""
    pool = [m for c in conversations for m in c.messages if m.role == "user"]
    order = iter(np.random.default_rng(seed).permutation(len(pool)).tolist())
    return [
        replace(c, messages=tuple(pool[next(order)] if m.role == "user" else m for m in c.messages))
        for c in conversations
    ]


# Permutation tests


def nothing_amiss(n, seed):
    """n pairs of which nobody could tell who is who."""
    chance = np.random.default_rng(seed)

    def side():
        profile = chance.poisson(2.0, (n, 5)).astype(np.uint16)
        return Profiles(chance.normal(size=(n, 4)), profile, profile[:, :3], profile[:, ::-1])

    return Pairs(side(), side())


@pytest.fixture(scope="module")
def null_windows():
    """p and p_rise of each row, in 240 windows of 30 series without a change.  (2, 240, rows)"""
    found = []
    for series in range(30):
        before = None
        for number in range(9):
            window = nothing_amiss(40, [series, number])
            rows = measured(window, before, 19, 1000 * series + number)
            if before is not None:
                found.append([[row.p, row.p_rise] for row in rows])
            before = window if before is None else before.and_(window)
    return np.array(found).transpose(2, 0, 1)


@pytest.mark.parametrize("level", [0.05, 0.1, 0.25, 0.5])
def test_without_a_change_p_is_as_seldom_small_as_it_says(null_windows, level):
    for kind in null_windows:
        for row, p in zip(ROWS, kind.T, strict=True):
            slack = 3.5 * (level * (1 - level) / len(p)) ** 0.5
            assert (p <= level).mean() <= level + slack, row
            assert (p <= level).mean() >= level - slack, f"{row}: a test that never finds anything"


def test_neighbouring_windows_are_small_together_as_seldom_as_independent_ones(null_windows):
    for kind in null_windows:
        small = kind.reshape(30, 8, len(ROWS)) <= 0.3
        both = (small[:, 1:] & small[:, :-1]).mean(axis=(0, 1))
        assert (both <= 0.09 + 3.5 * (0.09 * 0.91 / 210) ** 0.5).all()


def test_a_p_by_hand():
    drawn = np.array([1.0, 2.0, 3.0, 4.0])
    assert permutation_p(5.0, drawn) == 1 / 5
    assert permutation_p(3.0, drawn) == 3 / 5
    assert permutation_p(0.0, np.zeros(4)) == 1.0, "a row that never varies is never amiss"


def test_rows_are_what_calibration_measures():
    logged, simulated = people(60, 1), USER.generate(60, 2)
    rows = {row.metric: row for row in measured(Pairs.of(logged, simulated), None, 19, 0)}
    one, other = Profiles.of(logged), Profiles.of(simulated)
    assert rows["moments"].value == moment_gap(one.moments, other.moments)
    assert tuple(rows) == ROWS and all(row.p_rise is None for row in rows.values())


# Alerts


def uniform_window(number, chance):
    """As bad as nothing-amiss can be: every p uniform, every row beyond its floor."""
    rows = tuple(WindowRow(name, 9.0, 1.0, 1.0, *chance.random(2).tolist()) for name in ROWS)
    return Window(number, WINDOW, None, None, rows, 0, None, None)


@pytest.mark.parametrize(("patience", "false_alarms"), [(2, 0.5), (3, 0.5), (3, 0.2)])
def test_alerts_are_as_seldom_as_stated_where_nothing_is_amiss(patience, false_alarms):
    config = MonitorConfig(window=WINDOW, patience=patience, false_alarms=false_alarms)
    chance, alarms, runs = np.random.default_rng(patience), 0, 300
    for _ in range(runs):
        monitor = Monitor(USER, config)
        for number in range(1, HORIZON + 1):
            monitor._judge(uniform_window(number, chance))
        alarms += bool(monitor.alerts)
    stated = 2 / 3 * false_alarms  # gap and rise; the rest is for returns
    assert alarms / runs <= stated + 3 * (stated * (1 - stated) / runs) ** 0.5
    assert alarms / runs >= stated / 3, "and not far more seldom: that would cost power"


def test_a_return_as_promised_is_called_amiss_as_seldom_as_stated():
    """At the end of the estimate's interval, where a false alarm is likeliest."""
    config = MonitorConfig(window=40, false_alarms=0.5)
    said = (Message("user", "x"), Message("assistant", "y"))
    alarms, runs = 0, 40
    for seed in range(runs):
        monitor = Monitor(USER, config, (0.6, 0.8))
        wins = np.random.default_rng(seed).random(1_200) < 0.6
        for number in range(30):
            some = [Conversation("", said, float(won)) for won in wins[40 * number :][:40]]
            _returns_alone(monitor, some)
        alarms += bool(monitor.alerts)
    stated = 0.5 / 3
    assert alarms / runs <= stated + 3 * (stated * (1 - stated) / runs) ** 0.5


def _returns_alone(monitor, conversations):
    """Fill a window without measuring gaps, which take their time."""
    rows = tuple(WindowRow(name, 0.0, 1.0, 1.0, 1.0, 1.0) for name in ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("convgym.calibration.monitor.measured", lambda *_: rows)
        patch.setattr("convgym.calibration.monitor.simulated", lambda user, real, seed: real)
        patch.setattr("convgym.calibration.monitor.Pairs", _NoPairs)
        monitor.take(conversations)


class _NoPairs:
    @classmethod
    def of(cls, logged, simulated):
        return cls()

    def and_(self, other):
        return self

    def __len__(self):
        return 40


@pytest.fixture(scope="module")
def quiet():
    """Six windows of people like those it was calibrated on."""
    monitor = Monitor(USER, MonitorConfig(window=WINDOW, false_alarms=0.2))
    monitor.take(people(6 * WINDOW + 7, seed=11))
    return monitor


def test_people_like_those_it_was_calibrated_on_are_no_alert(quiet):
    assert len(quiet.windows) == 6 and quiet.pending == 7 and quiet.alerts == []
    assert quiet.windows[1].first == 60.0 * WINDOW


OTHERS = {
    "disorder": lambda: shuffled(people(3 * WINDOW, 12), 0),
    "another user": lambda: served(twin_log(drawn_truth(9), 3 * WINDOW, 9, labelled=False)),
}


@pytest.mark.parametrize("change", OTHERS)
def test_a_real_change_is_found_within_the_windows_that_it_takes(change):
    monitor = Monitor(USER, MonitorConfig(window=WINDOW, false_alarms=0.2))
    monitor.take(people(3 * WINDOW, seed=11))
    assert not monitor.alerts
    monitor.take(OTHERS[change]())
    found = {(alert.kind, alert.window) for alert in monitor.alerts}
    assert {("gap", 6), ("rise", 6)} <= found, monitor.windows[-1]
    assert "moments" in {alert.metric for alert in monitor.alerts}


def test_an_alert_that_goes_on_is_raised_once_and_again_only_after_it_has_ended():
    monitor, told = Monitor(USER, MonitorConfig(window=WINDOW)), []
    for number, amiss in enumerate([1, 1, 1, 1, 1, 0, 1, 1, 1], 1):
        row = WindowRow("moments", 9.0, 1.0, 1.0, 0.001 if amiss else 0.5, None)
        monitor._judge(Window(number, WINDOW, None, None, (row,), 0, None, None))
        told.append(len(monitor.alerts))
    assert told == [0, 0, 1, 1, 1, 1, 1, 1, 2]


def test_a_row_just_beyond_its_floor_is_no_alert():
    monitor = Monitor(USER, MonitorConfig(window=WINDOW))
    for number in range(1, 5):
        row = WindowRow("moments", 1.2, 1.0, 1.0, 0.001, None)
        monitor._judge(Window(number, WINDOW, None, None, (row,), 0, None, None))
    assert not monitor.alerts


@pytest.mark.parametrize(("won", "found"), [(0.3, {"below"}), (0.6, set()), (0.9, {"above"})])
def test_a_return_that_leaves_its_estimate_is_found(won, found):
    chance, said = np.random.default_rng(0), (Message("user", "x"), Message("assistant", "y"))
    monitor = Monitor(USER, MonitorConfig(window=200), (0.5, 0.7))
    for _ in range(4):
        wins = chance.random(200) < won
        _returns_alone(monitor, [Conversation("", said, float(one)) for one in wins])
    told = {alert.metric: alert.told for alert in monitor.alerts if alert.kind == "return"}
    assert {word for word in ("below", "above") if any(word in t for t in told.values())} == found
    assert set(told) == ({"window", "all"} if found else set())


def test_it_does_not_matter_in_which_pieces_conversations_come(quiet):
    other = Monitor(USER, quiet.config)
    talks = people(6 * WINDOW + 7, seed=11)
    for start in range(0, 2 * WINDOW, 33):
        other.take(talks[start : min(start + 33, 2 * WINDOW)])
    assert other.windows == quiet.windows[:2]


# What is counted


def talk(reward=None, **about):
    said = (Message("user", "Hi"), Message("assistant", "Yes?"), Message("assistant", "Bye"))
    return Conversation("x", said, reward, about)


@pytest.mark.parametrize(
    ("conversation", "success", "return_"),
    [
        (talk(0.5), None, 0.25),
        (talk(outcome={"success": True}, reward=1.0), True, 0.5),
        (talk(1.0, finished=True, success=False, outcome={"success": True}), True, 0.5),
        (talk(finished=True, success=True), True, 1.0),
        (talk(finished=False, success=False), None, None),
        (talk(), None, None),
    ],
)  # fmt: skip
def test_what_a_conversation_has_earned(conversation, success, return_):
    assert success_of(conversation) is success
    assert return_of(conversation, 0.5) == return_


def test_parts_of_other_conversations_and_silent_ones_are_left_out():
    monitor = Monitor(USER, MonitorConfig(window=WINDOW))
    monitor.take([talk(resumed=True), Conversation("y", (Message("user", " … "),)), talk()])
    assert (monitor.resumed, monitor.silent, monitor.pending) == (1, 1, 1)
    told = [talk(1.0, policy="B", share=0.2), talk(0.0, policy="A", share=0.8, resumed=True)]
    (arm,) = arms_of([*told, talk(1.0)])
    assert (arm.name, arm.conversations, arm.share, arm.returns) == ("B", 1, 0.2, (1.0,))


@pytest.mark.parametrize(
    "about",
    [{"policy": ["A"]}, {"share": [0.7]}, {"share": 10**400}, {"share": -1}, {"logged_at": 1e30},
     {"logged_at": 10**400}, {"logged_at": math.inf}, {"logged_at": "now"}, {"policy": 3}],
    ids=str,
)  # fmt: skip
def test_what_a_line_says_wrongly_is_as_if_it_said_nothing(about):
    """A repaired bug: one such line ended the watch."""
    one = talk(1.0, **{"policy": "A", "share": 0.5, **about})
    arms = arms_of([one, talk(0.0, policy="A", share=0.5)])
    assert [arm.name for arm in arms] == ["A"] and logged_at(one) is None
    assert arms[0].share in (None, 0.5)


def test_a_return_that_cannot_be_is_counted_and_many_are_refused(monkeypatch):
    """A repaired bug: one client's report of 1e308 ended every later watch."""
    monkeypatch.setattr("convgym.calibration.monitor.measured", lambda *_: ())
    monitor = Monitor(USER, MonitorConfig(window=WINDOW))
    monitor.take([*(talk(0.5, policy="A") for _ in range(WINDOW - 1)), talk(1e308)])
    assert (monitor.beyond, monitor.unanswered) == (1, 1)
    assert monitor.windows[0].return_mean == 0.5 and len(monitor.returns) == WINDOW - 1
    with pytest.raises(InvalidConfiguration, match="3 of 40 returns lie outside"):
        Monitor(USER, MonitorConfig(window=40)).take(
            [*(talk(0.5) for _ in range(37)), *(talk(2.0) for _ in range(3))]
        )


@pytest.mark.parametrize(
    "wrong",
    [{"window": 39}, {"patience": 1}, {"false_alarms": 0.0}, {"false_alarms": 0.6},
     {"above": 0.9}, {"above": math.nan}, {"above": math.inf},
     {"patience": 2, "false_alarms": 1e-6}],
)  # fmt: skip
def test_settings_that_are_not_allowed(wrong):
    with pytest.raises(InvalidConfiguration):
        MonitorConfig(**wrong)


def test_a_user_that_nobody_ever_asked_anything_answers_agents_that_ask():
    """A repaired bug: of a log without agents, questions have no table."""
    asking = Conversation("x", (
        Message("user", "Hi"), Message("assistant", "Which?", acts=(("a", "request", "id", "?"),)),
        Message("user", "7"),
    ))  # fmt: skip
    greeting = Message("user", "hello there", intents=("greet",), slots=(("id", "7"),))
    said = (greeting, Message("user", "bye", intents=("bye",)))
    alone = LogSimulator.of([Conversation(str(i), said) for i in range(20)])
    (made,) = alone.generate(1, 0, agent_turns=[asking])
    assert len(made.messages) == 3
