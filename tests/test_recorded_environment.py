"""Talking with the users of a log: agendas, chances, words, the agent that answers as recorded."""

import copy
import json
import math
import pickle
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from recorded import talk
from recorded_user import RECORDED

import convgym  # noqa: F401
from convgym.calibration.agent_reader import AgentReader
from convgym.calibration.calibration import Calibration
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.recorded_agent import LISTENING, RecordedAgent
from convgym.calibration.signatures import SILENCE, heard_in, logged_users
from convgym.conversation import Conversation, Message
from convgym.data.user_fit import fit_user
from convgym.errors import InvalidConfiguration

ID = "ConvGym/Recorded-v0"
REPLIES = ("Which order is it about?", "Noted. Where do you live?", "Sorry, that has failed.")


@pytest.fixture(scope="module")
def simulator():
    return Calibration.load(RECORDED).simulator()


def make(**keywords):
    return gym.make(ID, user=RECORDED, disable_env_checker=True, **keywords)


def played(env, seed, replies=REPLIES):
    """The user's turns of one episode, and the last step."""
    first, _ = env.reset(seed=seed)
    said = [first]
    for turn in range(99):
        seen, reward, terminated, truncated, info = env.step(replies[turn % len(replies)])
        said.append(seen)
        if terminated or truncated:
            return said, reward, info
    raise AssertionError("the episode never ended")


def test_splits_share_no_agenda():
    env = make(privileged=True)
    users = {}
    for split in ("train", "validation", "test"):
        tasks = [env.reset(seed=s, options={"split": split})[1] for s in range(40)]
        users[split] = {json.loads(info["privileged"])["task"]["user"] for info in tasks}
    assert not users["train"] & users["test"]
    assert not users["train"] & users["validation"]
    assert not users["validation"] & users["test"]


def test_the_reward_is_that_all_was_said(simulator):
    env, seen = make(privileged=True), Counter()
    for seed in range(60):
        _, reward, info = played(env, seed, ("Noted. I am on it.",))
        left = json.loads(info["privileged"])["open"]
        assert reward == float(not left) == float(info["success"])
        task = json.loads(info["privileged"])["task"]
        count = len(simulator.log[task["user"]].turns)
        assert info["milestones"] == pytest.approx(0.75 * (1 - len(left) / count))
        seen[reward] += 1
    assert min(seen[0.0], seen[1.0]) > 0


def test_a_turn_is_as_likely_as_its_log_prob_says(simulator):
    start = simulator.speaker(user=3, key=0)
    simulator.say(start, SILENCE, ends=False)
    heard = heard_in([Message("assistant", REPLIES[0])])
    drawn, told = Counter(), {}
    for key in range(4000):
        speaker = copy.deepcopy(start)
        speaker.key = key
        said = simulator.say(speaker, heard)
        drawn[said.signature, said.ends] += 1
        told[said.signature, said.ends] = said.log_prob
    common = [does for does, n in drawn.items() if n > 200]
    assert common
    for does in common:
        assert drawn[does] / 4000 == pytest.approx(math.exp(told[does]), abs=0.03)
    assert sum(map(math.exp, told.values())) <= 1 + 1e-9


def test_a_speaker_that_was_saved_goes_on_as_it_would_have(simulator):
    speaker = simulator.speaker(user=1, key=7)
    simulator.say(speaker, SILENCE, ends=False)
    again = pickle.loads(pickle.dumps(speaker))
    for reply in REPLIES:
        heard = heard_in([Message("assistant", reply)])
        assert simulator.say(speaker, heard) == simulator.say(again, heard)


def test_patience_decides_how_soon_people_leave():
    lengths = {}
    for patience in (0.0, 0.5, 1.0):
        env = make(persona={"patience": patience, "verbosity": 0.5})
        lengths[patience] = np.mean([len(played(env, seed)[0]) for seed in range(150)])
    assert lengths[0.0] < lengths[0.5] < lengths[1.0]


def test_without_realism_a_user_does_what_is_likeliest_in_the_commonest_words(simulator):
    env = make(realism=0.0, task_id="train-3", privileged=True)
    acts = []
    for seed in range(6):
        _, info = env.reset(seed=seed)
        acts.append([info["user_acts"]])
        assert info["user_log_prob"] == 0.0
        for reply in REPLIES:
            _, _, terminated, _, info = env.step(reply)
            acts[-1].append(info["user_acts"])
            if terminated:
                break
    names = [[[act["act"] for act in json.loads(turn)] for turn in said] for said in acts]
    assert all(said == names[0] for said in names)
    free = make(task_id="train-3")
    assert len({tuple(played(free, seed)[0]) for seed in range(6)}) > 1


def test_in_turn_what_the_agent_asks_decides_what_is_said():
    def asked(reply):
        env = make()
        slots = Counter()
        for seed in range(200):
            env.reset(seed=seed)
            info = env.step(reply)[-1]
            slots.update(act["act"] for act in json.loads(info["user_acts"]))
        return slots

    order, city = asked(REPLIES[0]), asked("Where do you live?")
    assert order["order"] > city["order"] and city["city"] > order["city"]


@pytest.mark.parametrize("wrong", [None, 3])
def test_no_user_no_environment(wrong):
    with pytest.raises(InvalidConfiguration, match=r"give the path of a saved calibration"):
        gym.make(ID, user=wrong)


def test_a_fit_that_is_no_calibration_is_refused(tmp_path):
    path = tmp_path / "fit.json"
    fit_user([]).to_json(path)
    with pytest.raises(InvalidConfiguration) as refusal:
        gym.make(ID, user=str(path))
    assert len(str(refusal.value).splitlines()) == 1


# -- the agent, and how agents are read ------------------------------------------------------------


def labelled_log():
    """Two kinds of agent turns, with acts as MultiWOZ writes them."""
    said = []
    for i in range(12):
        town = ("ely", "leeds", "york")[i % 3]
        ask = Message(
            "assistant", f"Where to, guest {i}?", acts=(("train", "request", "destination", "?"),)
        )
        tell = Message(
            "assistant", f"It goes to {town} at nine.",
            acts=(("train", "inform", "destination", town),),
        )  # fmt: skip
        users = [
            Message("user", text, acts=(("train", "inform", "none", "none"),))
            for text in ("a train please", f"to {town}", "fine thanks")
        ]
        said.append(Conversation(f"c{i}", (users[0], ask, users[1], tell, users[2])))
    return logged_users(said)


def test_a_recorded_turn_is_read_as_the_log_does():
    log = labelled_log()
    reader = AgentReader(log)
    for user in log:
        for turn in user.turns:
            if turn.heard.text and "ely" not in turn.heard.text:
                assert reader.read(turn.heard.text.upper()).acts == turn.heard.acts


def test_a_new_turn_is_read_by_its_words_and_values():
    reader = AgentReader(labelled_log())
    asked = reader.read("Where to, dear guest?")
    assert asked.acts == ("train-request",) and asked.asked == ("destination",)
    told = reader.read("It goes to York, at nine o'clock.")
    assert told.acts == ("train-inform",) and told.values == (("destination", "York"),)
    assert reader.read("  ") == SILENCE


def test_a_log_without_labels_is_read_by_cues_and_one_without_agents_not_at_all():
    spoken = logged_users([talk("c", "hi", "a:What is it?", "my lamp", "a:Sorry, no.", "oh")])
    assert AgentReader(spoken).read("Why, what happened?").acts == ("asked", "said")
    assert AgentReader(spoken).read("I am unable to.").acts == ("failed", "said")
    silent = logged_users([talk("c", "hi", "my lamp", "bye")])
    assert AgentReader(silent).read("What is it?") == SILENCE


def test_the_agent_answers_as_the_nearest_turn_was_answered():
    agent = RecordedAgent(labelled_log())
    agent.reset(0)
    assert agent.predict("to york", deterministic=True)[0] == "It goes to york at nine."
    agent.reset(0)
    first = agent.predict("a train please", deterministic=True)[0]
    guest = int(first.rpartition(" ")[2].rstrip("?"))
    town = ("ely", "leeds", "york")[guest % 3]
    # It stays with the conversation that it is in, where others fit as well.
    said = {"message": f"to {town}"}
    assert agent.predict(said, deterministic=True)[0] == f"It goes to {town} at nine."
    assert agent._last == 2 * guest + 1


def test_an_agent_of_a_log_without_agents_listens():
    agent = RecordedAgent(logged_users([talk("c", "hi", "my lamp")]))
    agent.reset(1)
    said = [agent.predict("hm")[0] for _ in range(9)]
    assert set(said) <= set(LISTENING) and len(set(said)) > 1
    agent.reset(1)
    assert said == [agent.predict("hm")[0] for _ in range(9)]


def test_a_log_of_single_turns_makes_no_environment(tmp_path, monkeypatch):
    from convgym.calibration import recorded_env

    single = LogSimulator.of([talk(f"c{i}", "hi") for i in range(3)])
    monkeypatch.setattr(recorded_env, "_users", lambda *_: (single, AgentReader(single.log)))
    with pytest.raises(InvalidConfiguration, match="says one thing and goes"):
        gym.make(ID, user=RECORDED)


def test_a_file_that_is_not_there_is_said_in_one_sentence():
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        gym.make(ID, user="nowhere.npz")


def test_labels_that_share_all_their_words_need_no_tagger():
    def turn(act, text):
        return Message("assistant", text, acts=((act, "x", "none", "none"),))

    said = [("Z", "ok"), ("X", "ok"), ("X", "ok"), ("W", "fine"), ("Y", "fine"), ("Y", "fine")]
    log = logged_users(
        [
            Conversation(f"c{i}", (Message("user", "hi"), turn(*one), Message("user", "bye")))
            for i, one in enumerate(said)
        ]
    )
    assert AgentReader(log).read("something else").text == "something else"
