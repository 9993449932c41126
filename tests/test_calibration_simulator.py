"""A user counted from logs: the same seed, the same words; real agents; real corpora."""

from dataclasses import replace

import numpy as np
import pytest
from recorded import corpus, talk
from twin_user import drawn_truth, twin_log

from convgym.calibration.baselines import scripted, shuffled, template
from convgym.calibration.divergences import compute_js_divergence
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.parameters import fit_parameters
from convgym.calibration.signatures import heard_in, speaks
from convgym.calibration.turns import plain
from convgym.calibration.two_sample import classifier_two_sample_test
from convgym.conversation import Conversation, Message
from convgym.data.logs import read_log
from convgym.errors import InvalidConfiguration


@pytest.fixture(scope="module")
def log():
    return twin_log(drawn_truth(0), 150, 0)


@pytest.fixture(scope="module")
def simulator(log):
    return LogSimulator.of(log)


def test_the_same_seed_gives_the_same_conversations(log, simulator):
    again = LogSimulator.of(log)
    assert simulator.generate(40, 3) == again.generate(40, 3)
    assert simulator.generate(40, 3) != simulator.generate(40, 4)


def test_fewer_conversations_are_the_first_of_more(simulator):
    assert simulator.generate(10, 3) == simulator.generate(40, 3)[:10]


def test_the_agents_turns_stay_as_they_were_recorded(log, simulator):
    made = simulator.generate(30, 1, agent_turns=log[:20])
    for number, conversation in enumerate(made):
        recorded = log[number % 20]
        assert [m.role for m in conversation.messages] == [m.role for m in recorded.messages]
        assert list(conversation.said_by("assistant")) == list(recorded.said_by("assistant"))


def test_rewording_keeps_acts_and_values(log, simulator):
    made = simulator.reword(log[:30], 1)
    for before, after in zip(log[:30], made, strict=True):
        for one, other in zip(before.messages, after.messages, strict=True):
            assert (one.intents, one.slots, one.role) == (other.intents, other.slots, other.role)
    assert made != log[:30]


def test_only_what_the_log_does_is_done(log, simulator):
    known = {m.intents for c in log for m in c.said_by("user")}
    sorted_known = {tuple(sorted(set(intents))) for intents in known}
    assert {m.intents for c in simulator.generate(50, 0) for m in c.messages} <= sorted_known


def test_the_likelihood_prefers_the_order_in_which_things_were_said(log, simulator):
    backwards = [replace(c, messages=c.messages[::-1]) for c in log]
    forwards = simulator.log_prob(log)
    assert np.isfinite(forwards).all() and max(forwards) < 0
    assert np.mean(forwards) > np.mean(simulator.log_prob(backwards)) + 1


def test_acts_of_four_parts_come_back_as_they_went_in():
    acts = (("train", "inform", "day", "friday"), ("train", "request", "leave", "?"))
    bye = (("general", "bye", "none", "none"),)
    said = (Message("user", "friday, when?", acts=acts), Message("user", "bye", acts=bye))
    talks = [Conversation(f"c{i}", said) for i in range(8)]
    (made,) = LogSimulator.of(talks).generate(1, 0)
    assert made.messages[0].acts == acts and made.messages[1].acts == bye


def test_a_log_without_users_is_refused():
    with pytest.raises(InvalidConfiguration, match="no user says anything"):
        LogSimulator.of([Conversation("c", (Message("assistant", "hi"),))])


def test_agents_without_users_are_refused(simulator):
    alone = [Conversation("c", (Message("assistant", "hi"),))]
    with pytest.raises(InvalidConfiguration, match="no user speaks"):
        simulator.generate(3, 0, agent_turns=alone)


def test_shuffled_turns_are_found_out_and_simulated_ones_less(log, simulator):
    real = twin_log(drawn_truth(0), 150, 1)
    aucs = [
        classifier_two_sample_test(real, sim, "conversation").auc
        for sim in (simulator.generate(150, 1, agent_turns=real), scripted(log, 150))
    ]
    assert aucs[0] < aucs[1] - 0.05


def shares(real, sim, level):
    return classifier_two_sample_test(real, sim, level).auc


def sample(name, part, n, seed=0):
    talks = list(read_log(corpus(name, part)))
    return [talks[i] for i in np.random.default_rng(seed).permutation(len(talks))[:n]]


def said_nowhere(talks, logs):
    """The conversations without the user turns that stand in the logs."""
    known = {plain(m.content) for c in logs for m in c.said_by("user")}
    return [
        replace(c, messages=tuple(
            m for m in c.messages if not (speaks(m) and plain(m.content) in known)
        ))
        for c in talks
    ]  # fmt: skip


def turn_js(real, sim):
    counts = [[sum(map(speaks, c.messages)) for c in some] for some in (real, sim)]
    longest = max(map(max, counts)) + 1
    return compute_js_divergence(*(np.bincount(some, minlength=longest) for some in counts))


@pytest.mark.slow
def test_a_user_counted_from_1000_logs_of_multidogo_is_hard_to_tell():
    logs, held_out = sample("multidogo", "train", 1000), sample("multidogo", "dev", 500)
    made = LogSimulator.of(logs).generate(500, 1)
    new = [said_nowhere(some, logs) for some in (held_out, made)]
    for real, sim in ((held_out, made), new):
        assert shares(real, sim, "turn") <= 0.60
        assert shares(real, sim, "character") <= 0.70
    assert shares(held_out, made, "conversation") <= 0.67
    assert turn_js(held_out, made) <= 2 * 0.0215
    assert shares(held_out, shuffled(logs, 500, 0), "conversation") > 0.9
    assert shares(held_out, template(logs, made), "character") > 0.8


@pytest.mark.slow
def test_a_user_of_multiwoz_answers_what_the_agent_said():
    logs, held_out = sample("multiwoz", "train", 999), sample("multiwoz", "dev", 312)
    simulator = LogSimulator.of(logs)
    for made in (simulator.generate(312, 1, held_out), simulator.reword(held_out, 1)):
        new = [said_nowhere(some, logs) for some in (held_out, made)]
        for real, sim in ((held_out, made), new):
            assert shares(real, sim, "context") <= 0.62
            assert shares(real, sim, "turn") <= 0.60
            assert shares(real, sim, "character") <= 0.70
        assert shares(held_out, made, "conversation") <= 0.72
        assert all(any(map(speaks, c.messages)) for c in made)


@pytest.mark.slow
def test_a_user_of_multiwoz_whose_agent_nobody_hears_behaves_as_if_one_spoke():
    logs, held_out = sample("multiwoz", "train", 999), sample("multiwoz", "dev", 312)
    made = LogSimulator.of(logs).generate(312, 1)
    assert turn_js(held_out, made) <= 2 * 0.0281
    assert shares(held_out, made, "conversation") <= 0.72


def test_names_with_hyphens_and_acts_of_our_own_logs_stay_what_they_are():
    asked = Message("assistant", "when?", acts=(("car-hire", "request", "book-day", "?"),))
    told = (("car-hire", "inform", "book-day", "three"), ("inform_order", "A12"), ("greet",))
    said = Message("user", "hi, on day three it is A12", acts=told)
    log = [Conversation(f"c{i}", (Message("user", "hello"), asked, said)) for i in range(30)]
    simulator = LogSimulator.of(log)
    turn = simulator.log[0].turns[1]
    assert turn.acts == ("car_hire-inform", "greet", "inform_order")
    assert turn.values == {"car_hire-inform-book-day": "three", "inform_order": "A12"}
    again = simulator.generate(1, 0, agent_turns=log)[0].messages[-1]
    named = {tuple(part.replace("-", "_") for part in act) for act in told}
    assert {tuple(part.replace("-", "_") for part in act) for act in again.acts} == named
    assert fit_parameters(simulator.log)["answer"].mean > 0.9


def test_recorded_conversations_are_answered_to_their_end():
    said = [text for i in range(80) for text in (f"it is {i}", "a:And then?")]
    log = [talk(f"c{i}", *said) for i in range(3)]
    made = LogSimulator.of(log).generate(3, 0, agent_turns=log)
    assert [sum(1 for _ in one.said_by("user")) for one in made] == [80] * 3


def test_a_turn_of_the_agent_without_words_says_nothing():
    assert heard_in([Message("assistant", " ")]).acts == ()
