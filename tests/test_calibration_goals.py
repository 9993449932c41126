"""Whose turns are on the agenda, which of them comes next, and whom a recorded agent talks to."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from twin_user import drawn_truth, twin_log

from convgym.calibration.goals import (
    ALIKE,
    OFF_AGENDA,
    READY,
    WINDOW,
    Agenda,
    Cast,
    Goals,
    answers,
)
from convgym.calibration.histories import ACTS, ENDS, Progress
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.signatures import SILENCE, logged_users, speaks
from convgym.calibration.turns import slot_name
from convgym.conversation import Conversation, Message

TRIPS = {
    "train": ("When do you want to leave?", "Which station?", "Your seat is booked."),
    "hotel": ("For how many nights?", "Which area of town?", "Your room is booked."),
}


def trip(number, about, labelled=True):
    """One of two kinds of conversations, which neither metadata nor labels of its own tell."""
    messages = [Message("user", "hello", intents=("greet",))]
    for place, asks in enumerate(TRIPS[about]):
        acts = ((about, "request", f"{about}{place}", "?"),) if labelled else ()
        messages.append(Message("assistant", asks, acts=acts))
        messages.append(Message("user", f"{about} {number}", intents=(f"{about}-{place}",)))
    return Conversation(f"{about}-{number}", tuple(messages))


@pytest.fixture(scope="module")
def log():
    return twin_log(drawn_truth(0), 120, 0)


def test_what_was_said_is_off_the_agenda_and_the_last_turn_waits_for_the_end(log):
    (user,) = logged_users(log[:1])
    agenda = Agenda(user)
    assert agenda.heard == user.turns[0].heard
    first, second = (open_ for open_, _ in agenda.next(ends=False)[:2])
    assert (first.turn, second.turn) == user.turns[:2]
    agenda.said(second)
    assert second.turn is not agenda.next()[1][0].turn
    assert agenda.heard == user.turns[2].heard
    assert [open_.turn for open_, _ in agenda.next(ends=True)] == [user.turns[-1]]
    assert agenda.next(ends=True)[0][0].reply == SILENCE


def test_what_is_said_next_comes_as_often_as_the_formula_says(log):
    """Over many keys, the tables' own P for the weights."""
    simulator = LogSimulator.of(log)
    number = max(range(len(log)), key=lambda at: len(simulator.log[at].turns))
    user = simulator.log[number]
    row = Progress(user.kind, 0).row(user.turns[0].heard)
    expected = Counter()
    for place, turn in enumerate(user.turns[:WINDOW]):
        row[ENDS], row[ACTS] = False, turn.acts
        found = 1 - simulator.end.probability(simulator._end_after.of(row))
        found *= simulator.acts.probability(simulator._acts_after.of(row), turn.acts)
        found *= simulator.signatures.probability(simulator._slots_after.of(row), turn.signature)
        expected[turn.signature] += READY**place * found
    keys = 8000
    drawn = Counter()
    for key in range(keys):
        speaker = simulator.speaker(number, key)
        drawn[simulator._chosen(speaker, row, (), None, False, False)[1]] += 1
    total = OFF_AGENDA + sum(expected.values())
    for signature, weight in expected.items():
        assert drawn[signature] / keys == pytest.approx(weight / total, abs=0.02)


def test_questions_are_answered_as_often_as_in_the_log(log):
    """Whatever the open turns are, where one of them answers."""
    simulator = LogSimulator.of(log)
    heard = next(t.heard for u in simulator.log for t in u.turns[1:] if t.heard.asked)
    told, shares = [], []
    for number, user in enumerate(simulator.log):
        if not any(answers(turn, heard.asked) for turn in user.turns[1:]):
            continue
        for key in range(30):
            speaker = simulator.speaker(number, key)
            simulator.say(speaker, user.turns[0].heard, ends=False)
            if not speaker.agenda.tells(heard.asked) or speaker.agenda.heard == heard:
                continue
            row = speaker.progress.row(heard)
            shares.append(simulator.answers.probability(simulator._answer_after.of(row), True))
            said = simulator.say(speaker, heard)
            told.append(any(slot_name(slot) in heard.asked for slot in said.signature[1]))
    assert len(told) > 200
    assert np.mean(told) == pytest.approx(np.mean(shares), abs=0.06)


def test_likeness_is_what_the_plain_loop_says(log):
    users = logged_users(log)
    bags = []
    for user in users:
        bag = Counter()
        for turn in user.turns:
            bag.update([("does", act) for act in turn.heard.acts])
            bag.update([("asks", slot) for slot in turn.heard.asked])
            bag.update([("tells", slot) for slot, _ in turn.heard.values])
        bags.append(bag)
    among = Counter(item for bag in bags for item in bag)

    def weights(bag):
        told = {
            item: math.log1p(n) * math.log(len(users) / among[item])
            for item, n in bag.items()
            if 2 <= among[item] < len(users)
        }
        length = math.sqrt(sum(w * w for w in told.values())) or 1.0
        return {item: w / length for item, w in told.items()}

    one = weights(bags[0])
    alike = []
    for user, bag in zip(users, bags, strict=True):
        other = weights(bag)
        cosine = sum(w * other.get(item, 0.0) for item, w in one.items())
        apart = abs(math.log(len(user.turns)) - math.log(len(users[0].turns)))
        alike.append(cosine - apart / 2 - (user.kind != users[0].kind))
    found = Goals(users).like(users[0].kind, [turn.heard for turn in users[0].turns])
    assert len(set(found)) == ALIKE
    assert min(alike[at] for at in found) == pytest.approx(sorted(alike)[-ALIKE], abs=1e-5)


@pytest.mark.parametrize("labelled", [True, False])
def test_a_recorded_agent_talks_to_somebody_who_wants_what_it_serves(labelled):
    """By its acts, and where it has none by its words."""
    log = [trip(i, about, labelled) for i in range(30) for about in TRIPS]
    simulator = LogSimulator.of(log)
    for about in TRIPS:
        made = simulator.generate(20, 1, agent_turns=[trip(99, about, labelled)])
        intents = {i for c in made for m in c.said_by("user") for i in m.intents}
        assert intents <= {"greet", *(f"{about}-{place}" for place in range(3))}


def test_what_the_recorded_user_said_decides_nothing(log):
    simulator = LogSimulator.of(log)
    silenced = [
        replace(c, messages=tuple(
            Message("user", "x") if speaks(m) else m for m in c.messages
        ))
        for c in log[:20]
    ]  # fmt: skip
    assert simulator.generate(20, 2, log[:20]) == simulator.generate(20, 2, silenced)


def test_nobody_comes_again_before_all_others_have(log):
    users = logged_users(log)
    cast = Cast(Goals(users), 5)
    come = [cast.anyone(number) for number in range(2 * len(users))]
    assert sorted(come[: len(users)]) == sorted(come[len(users) :]) == list(range(len(users)))
    heard = [turn.heard for turn in users[0].turns]
    told = Counter(cast.whom_they_tell("", heard, 0.3) for _ in range(3 * ALIKE))
    assert set(told.values()) == {3} and len(told) == ALIKE


def test_open_loop_users_stay_about_as_long_as_real_ones(log):
    made = LogSimulator.of(log).generate(len(log), 1)
    real, sim = ([sum(map(speaks, c.messages)) for c in some] for some in (log, made))
    assert np.mean(sim) == pytest.approx(np.mean(real), rel=0.1)
    assert np.std(sim) == pytest.approx(np.std(real), rel=0.25)
