"""Environment sessions over HTTP: the same episodes as in this process, and nobody else's."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
from served import ENV, refused, service

import convgym  # noqa: F401
from convgym.data.logs import read_log
from convgym.service.plain_values import plain
from convgym.service.plays import UserPlay
from convgym.simulator import policy_of, scripted_agents

SPOKEN = {"observation": "dict", "action": "text"}
ACTED = {"observation": "features", "action": "act"}


def played(served, keywords, seed, choose, options=None, steps=60):
    """Trace of an episode over HTTP; `choose` takes observation and info."""
    answer = served.reset(keywords=keywords, seed=seed, options=options or {})
    trace = [answer]
    while not (trace[-1]["terminated"] or trace[-1]["truncated"]) and len(trace) <= steps:
        done = served.step(answer, choose(trace[-1]["observation"], trace[-1]["info"]))
        assert done.status_code == 200, done.text
        trace.append(done.json())
    served.post("/v1/env/close", {"session_id": answer["session_id"]})
    return [
        (one["observation"], one["reward"], one["terminated"], one["truncated"], one["info"])
        for one in trace
    ]


def in_process(keywords, seed, choose, options=None, steps=60):
    """The same with Gymnasium alone."""
    env = gym.make(ENV, disable_env_checker=True, **keywords)
    observation, info = env.reset(seed=seed, options=options)
    trace = [(observation, 0.0, False, False, info)]
    while not (trace[-1][2] or trace[-1][3]) and len(trace) <= steps:
        trace.append(env.step(choose(plain(trace[-1][0]), plain(trace[-1][4]))))
    return json.loads(json.dumps([list(map(plain, one)) for one in trace]))


def first_legal(observation, info):
    """The legal act with the highest number: a choice that anybody can make again."""
    return int(np.flatnonzero(info["action_mask"])[-1])


def small_talk(observation, info):
    return ["Hello!", "What is your phone number?", "<tool_call>{broken", "ok \u2026 \U0001f600"][
        info["turn"] % 4
    ]


@pytest.mark.parametrize(("keywords", "choose"), [(ACTED, first_legal), (SPOKEN, small_talk)],
                         ids=["act", "text"])  # fmt: skip
def test_an_episode_over_http_is_the_episode_in_process(keywords, choose):
    with service() as served:
        for seed in range(3):
            there = [list(one) for one in played(served, keywords, seed, choose)]
            assert there == in_process(keywords, seed, choose)


def test_the_scripted_planner_wins_over_http_as_it_does_here():
    keywords = {"observation": "dict", "action": "text", "split": "test"}
    env = gym.make(ENV, disable_env_checker=True, **keywords)

    def planner():
        policy = policy_of(scripted_agents(env)["oracle"](), env)
        policy.reset(3)

        def choose(observation, info):
            features = np.array(observation["features"], np.float32)
            return policy.predict({**observation, "features": features})[0]

        return choose

    with service() as served:
        there = [list(one) for one in played(served, keywords, 3, planner())]
    assert there == in_process(keywords, 3, planner())
    assert there[-1][4]["success"] is True


def test_vectors_and_messages_are_taken_too():
    with service() as served:
        session = served.reset(keywords={"observation": "message", "action": "embedding"}, seed=1)
        size = session["action_space"]["shape"][0]
        assert served.step(session, [0.1] * size).status_code == 200
        refused(served.step(session, [0.1] * (size - 1)), 422, "not_allowed")
        refused(served.step(session, ["x"] * size), 422, "not_allowed")


def test_what_a_session_begins_with():
    with service() as served:
        session = served.reset(keywords=ACTED, seed=5)
        space = session["action_space"]
        assert space["kind"] == "act" and len(space["names"]) == space["n"]
        assert session["seed"] == 5 and session["turn"] == 0 and session["env_id"] == ENV
        assert session["system_prompt"] and session["said"][0]["who"] == "customer"
        drawn = {served.reset()["seed"] for _ in range(3)}
        assert len(drawn) == 3


def test_a_session_can_be_reset_and_stays_the_same_session():
    with service() as served:
        first = served.reset(keywords=ACTED, seed=5)
        served.step(first, int(np.flatnonzero(first["info"]["action_mask"])[0]))
        again = served.reset(session_id=first["session_id"], seed=5)
        assert again == first
        other = {"session_id": first["session_id"], "keywords": SPOKEN}
        refused(served.post("/v1/env/reset", other), 422, "not_allowed")


def test_a_step_after_the_end_and_a_step_sent_twice_are_refused():
    with service() as served:
        session = served.reset(keywords={"max_turns": 2}, seed=1)
        assert served.step(session, "Hello", turn=0).json()["turn"] == 1
        refused(served.step(session, "Hello", turn=0), 409, "other_turn")
        assert served.step(session, "Hello", turn=1).json()["truncated"]
        refused(served.step(session, "Hello"), 409, "episode_over")


def test_a_closed_session_is_gone():
    with service() as served:
        session = served.reset()
        closing = {"session_id": session["session_id"]}
        assert served.post("/v1/env/close", closing).json() == {"closed": True}
        refused(served.post("/v1/env/close", closing), 404, "no_session")
        refused(served.step(session, "Hello"), 404, "no_session")


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"keywords": {"user": "/etc/passwd"}}, 422, "not_allowed"),
        ({"keywords": {"writer": {"kind": "endpoint"}}}, 422, "not_allowed"),
        ({"keywords": {"render_mode": "human"}}, 422, "not_allowed"),
        ({"keywords": {"observation": "everything"}}, 422, "not_allowed"),
        ({"keywords": {"max_turns": 10**9}}, 422, "not_allowed"),
        ({"keywords": {"persona": {"patience": "x"}}}, 422, "not_allowed"),
        ({"keywords": [1]}, 422, "not_allowed"),
        ({"options": {"colour": "red"}}, 422, "not_allowed"),
        ({"options": {"task_id": "train-x"}}, 422, "not_allowed"),
        ({"env_id": "CartPole-v1"}, 404, "no_environment"),
        ({"env_id": "os:system"}, 404, "no_environment"),
        ({"seed": -1}, 422, "not_allowed"),
        ({"seed": "7"}, 422, "not_allowed"),
        ({"seed": 1 << 63}, 422, "not_allowed"),
        ({"side": "both"}, 422, "not_allowed"),
        ({"nonsense": 1}, 422, "not_allowed"),
        ({"session_id": "x" * 32}, 404, "no_session"),
        ({"side": "user"}, 404, "no_policy"),
    ],
)  # fmt: skip
def test_a_reset_that_is_not_allowed(asked, status, code):
    with service() as served:
        refused(served.post("/v1/env/reset", asked), status, code)
        assert served.get("/metrics").text.count("convgym_sessions 0") == 1


# Whose session it is


def test_another_key_cannot_see_step_reset_or_close_a_session():
    with service(keyed=True) as served:
        mine = served.reset()
        name = {"session_id": mine["session_id"]}
        for path, body in (
            ("step", {**name, "action": "Hello"}), ("close", name), ("reset", name),
        ):  # fmt: skip
            refused(served.post(f"/v1/env/{path}", body, "yours"), 404, "no_session")
        assert served.step(mine, "Hello").status_code == 200


# What is hidden


def test_hidden_state_is_refused_unless_the_service_shows_it():
    with service() as served:
        refused(served.post("/v1/env/reset", {"keywords": {"privileged": True}}), 403, "hidden")
        session = served.reset(keywords=SPOKEN, seed=1)
        assert "privileged" not in session["info"] and "ledger" not in session
        assert served.get("/v1/service").json()["hidden_state"] is False
    with service(privileged=True) as served:
        session = served.reset(keywords={**SPOKEN, "privileged": True}, seed=1)
        assert json.loads(session["info"]["privileged"])
        assert served.step(session, "Hello").json()["ledger"] is not None
        assert "privileged" not in served.reset(keywords=SPOKEN, seed=1)["info"]


@pytest.mark.parametrize(
    "chosen", [{"seed": 7}, {"options": {"task_id": "train-7"}}, {"options": {"user_seed": 7}},
               {"options": {"wording_seed": 7}}, {"options": {"split": "test"}},
               {"options": {"topic": "router"}}], ids=str
)  # fmt: skip
def test_nobody_is_told_the_role_of_a_task_of_their_choice(chosen):
    """Else a client could ask as the user what it then does as the agent."""
    asked = {"side": "user", **chosen}
    with service("oracle") as served:
        refused(served.post("/v1/env/reset", asked), 403, "hidden")
        assert served.reset(side="user")["role"] != served.reset(side="user")["role"]
    with service("oracle", privileged=True) as served:
        assert served.reset(**asked)["role"]


def test_answers_hold_nothing_of_the_goal_that_was_not_said():
    """What stands in the privileged info of a session stands in nothing that others are sent."""
    with service(privileged=True) as served:
        hidden = served.reset(keywords={**SPOKEN, "privileged": True}, seed=11)
        goal = json.loads(hidden["info"]["privileged"])
        faults = [fault for fault in goal["faults"] if fault not in hidden["system_prompt"]]
        assert faults
    with service() as served:
        session = served.reset(keywords=SPOKEN, seed=11)
        sent = json.dumps([session, served.step(session, "Hello, how can I help?").json()])
        assert not [fault for fault in faults if fault in sent]


# As the user


def test_a_person_is_the_customer_of_a_policy():
    with service("oracle") as served:
        session = served.reset(side="user")
        assert "What you want" in session["role"] and session["policy"] == "oracle"
        assert "seed" not in session
        done = served.step(session, "Hello, my device does not work.").json()
        assert done["turn"] == 1 and (done["text"] or done["tool_calls"])
        refused(served.step(session, ""), 422, "not_allowed")
        refused(served.step(session, 5), 422, "not_allowed")
        over = served.step(session, "I give up, goodbye.").json()
        assert over["ended"] and over["reason"]
        refused(served.step(session, "Hello"), 409, "episode_over")
        again = served.reset(side="user", session_id=session["session_id"])
        assert again["role"] and again["turn"] == 0
        assert again["session_id"] == session["session_id"]


def test_a_session_with_a_turn_under_way_is_not_begun_again(monkeypatch):
    """A repaired bug: the turn was answered, and stood in no log."""
    entered, go_on = threading.Event(), threading.Event()
    inner = UserPlay.step

    def slow(self, *given):
        entered.set()
        assert go_on.wait(30)
        return inner(self, *given)

    monkeypatch.setattr(UserPlay, "step", slow)
    with service("oracle") as served, ThreadPoolExecutor(1) as other:
        session = served.reset(side="user")
        step = other.submit(served.step, session, "Hello, my device does not work.")
        assert entered.wait(30)
        asked = {"side": "user", "session_id": session["session_id"]}
        try:
            refused(served.post("/v1/env/reset", asked), 409, "session_busy")
        finally:
            go_on.set()
        assert step.result(30).status_code == 200
        assert served.post("/v1/env/reset", asked).status_code == 200


# Bounds


def test_sessions_are_bounded_and_idle_ones_make_room():
    with service(max_sessions_per_key=2, session_idle_s=0.2) as served:
        first = [served.reset(keywords=ACTED) for _ in range(2)]
        refused(served.post("/v1/env/reset", {}), 429, "too_many_sessions")
        time.sleep(0.3)
        served.reset(keywords=ACTED)
        refused(served.step(first[0], 0), 404, "no_session")


def test_a_session_takes_so_many_characters():
    with service(max_session_characters=50, max_message_characters=40) as served:
        session = served.reset()
        assert served.step(session, "x" * 30).status_code == 200
        refused(served.step(session, "x" * 30), 413, "session_full")
        refused(served.step(session, "x" * 41), 413, "too_large")
        served.reset(session_id=session["session_id"])
        assert served.step(session, "x" * 30).status_code == 200


# Logs


def test_a_reset_that_is_refused_logs_nothing_and_changes_nothing(tmp_path):
    """A repaired bug: each such reset wrote the conversation once more."""
    path = tmp_path / "talk.jsonl"
    with service(conversation_log=path) as served:
        session = served.reset(keywords=SPOKEN, seed=1)
        served.step(session, "Hello.")
        for _ in range(2):
            asked = {"session_id": session["session_id"], "options": {"topic": "nope"}}
            refused(served.post("/v1/env/reset", asked), 422, "not_allowed")
        assert served.step(session, "Hello.").json()["turn"] == 2
        served.post("/v1/env/close", {"session_id": session["session_id"]})
    (one,) = read_log(path)
    assert one.metadata["turns"] == 2


def test_sessions_are_logged_when_they_end(tmp_path):
    path = tmp_path / "talk.jsonl"
    with service("oracle", conversation_log=path) as served:
        session = served.reset(keywords={**SPOKEN, "max_turns": 2}, seed=1)
        for _ in range(2):
            served.step(session, "Hello.")
        served.post("/v1/env/close", {"session_id": session["session_id"]})
        acting = served.reset(keywords=ACTED, seed=1)
        served.step(acting, int(np.flatnonzero(acting["info"]["action_mask"])[0]))
        served.reset()  # nothing is said in it, so nothing is logged
        person = served.reset(side="user")
        served.step(person, "Hello.")
    reader = read_log(path)
    spoken, acted, user = sorted(reader, key=lambda one: one.metadata["source"] == "user session")
    assert reader.report.skipped == 0
    assert [m.role for m in spoken.messages[:3]] == ["system", "user", "assistant"]
    assert spoken.metadata["finished"] and spoken.metadata["key"] == "local"
    assert acted.messages[2].content in acting["action_space"]["names"]
    assert user.messages[0].content == "Hello." and user.metadata["policy"] == "oracle"
