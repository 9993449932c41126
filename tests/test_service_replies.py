"""Replies: `/v1/reply`, OpenAI's chat completions, and which policies can give them."""

import json
import shutil

import gymnasium as gym
import numpy as np
import pytest
from served import ENV, refused, service

import convgym  # noqa: F401
from convgym.cli.policies import saved_policy
from convgym.data.logs import read_log
from convgym.errors import InvalidConfiguration
from convgym.language.models import CallableModel
from convgym.service.dialogue import Dialogue
from convgym.service.environments import Environments
from convgym.service.policies import speaking
from convgym.service.responders import ModelResponder, Said
from convgym.service.settings import ServiceSettings
from convgym.service.start import responder_of
from convgym.simulator import scripted_agents

SETTINGS = ServiceSettings(environments=(ENV,))
OPENING = "Hello, my internet does not work."


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def talk(reply, words, seed):
    """A whole conversation: what `reply` says to each of `words`, with the history grown."""
    history, answers = [], []
    for one in words:
        history.append(user(one))
        answers.append(reply(history, seed))
        history.append(assistant(answers[-1][0]))
    return answers


# What is replied


def dialogue(seed, policy="oracle"):
    environments = Environments(SETTINGS)
    return Dialogue(
        lambda person: environments.in_words(user=person),
        lambda env: speaking(scripted_agents(env)[policy](), env),
        seed,
    )


def role_words(seed):
    """What a person would say who has that role."""
    role = dialogue(seed).role()
    wish = role.partition("What you want\n")[2].partition(" You want")[0].replace("Your", "My")
    phone = role.partition("phone number of the account is ")[2].partition(".")[0]
    pin = role.partition("PIN is ")[2].partition(".")[0]
    return [wish, f"My phone number is {phone}.", f"My PIN is {pin}.", "Yes, please."]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_history_gone_through_again_is_the_live_conversation(seed):
    """The service keeps nothing, and yet answers as one who was there all the time."""
    words = role_words(seed)
    live = dialogue(seed)
    expected = [live.hear(one) for one in words]
    with service("oracle") as served:

        def reply(history, seed):
            told = served.post("/v1/reply", {"history": history, "seed": seed}).json()
            return told["reply"], told["tool_calls"], told["tool_results"], told["ended"]

        there = talk(reply, words, seed)
    assert there == [
        (one.text, [{"name": c.name, "arguments": dict(c.arguments)} for c in one.calls],
         list(one.results), one.ended)
        for one in expected
    ]  # fmt: skip
    assert any(one.calls for one in expected), "the policy looked something up"


def test_other_words_of_the_agent_count_where_they_were_said():
    """A client that edits what the policy said is answered by what the customer then read."""
    said = []

    class Recorder:
        name = "recorder"

        def reset(self, seed):
            said.clear()

        def predict(self, observation, *_, **__):
            said.append(observation["message"])
            return f"reply {len(said)}", None

    environments, actions = Environments(SETTINGS), []
    made = Dialogue(lambda person: environments.in_words(user=person), lambda env: Recorder(), 0)
    step = made.env.step
    made.env.step = lambda action: (actions.append(action), step(action))[1]
    made.hear("one")
    made.said_instead("reply 1")
    made.hear("two")
    made.said_instead("something else")
    made.hear("three")
    assert actions == ["reply 1", "something else"] and said == ["one", "two", "three"]


def test_the_conversation_can_end_and_says_why():
    with service("oracle") as served:
        history = [user(OPENING), assistant("Yes?"), user("I give up, goodbye.")]
        told = served.post("/v1/reply", {"history": history}).json()
        assert told["ended"] and told["reason"] == "user_closed" and told["reply"] == ""
        assert not told["success"]


def test_null_policies_reply_too():
    with service("greet-only") as served:
        told = served.post("/v1/reply", {"history": [user(OPENING)]}).json()
        assert told["reply"] == "Hello, how can I help you today?"


def test_reset_options_choose_the_world():
    with service("oracle") as served:
        body = {"history": [user(OPENING)], "options": {"persona": "patient_expert"}}
        assert served.post("/v1/reply", body).status_code == 200
        refused(served.post("/v1/reply", {**body, "options": {"x": 1}}), 422, "not_allowed")


@pytest.mark.parametrize(
    "body",
    [{}, {"history": []}, {"history": [assistant("Hi")]}, {"history": "x"}, {"history": [user("")]},
     {"history": [user(" \n ")]}, {"history": [user("<think>x</think>")]},
     {"history": [user("x" * 20_000)]}, {"history": [user("x")] * 201},
     {"history": [user("x")], "a": 1}],
    ids=lambda body: str(body)[:40],
)  # fmt: skip
def test_a_history_that_is_not_allowed(body):
    with service("oracle") as served:
        refused(served.post("/v1/reply", body), 422, "not_allowed")


def test_without_a_policy_there_are_no_replies():
    with service() as served:
        refused(served.post("/v1/reply", {"history": [user("x")]}), 404, "no_policy")
        refused(served.post("/v1/chat/completions", {"messages": [user("x")]}), 404, "no_policy")
        assert served.get("/v1/models").json()["data"] == []


# As OpenAI has it


def test_a_chat_completion():
    with service("oracle") as served:
        body = {"model": "any", "messages": [user(OPENING)], "seed": 3, "temperature": 0.2}
        told = served.post("/v1/chat/completions", body).json()
        plain = served.post("/v1/reply", {"history": [user(OPENING)], "seed": 3}).json()
        (choice,) = told["choices"]
        assert choice["message"] == {"role": "assistant", "content": plain["reply"]}
        assert (told["object"], told["model"]) == ("chat.completion", "oracle")
        assert choice["finish_reason"] == "stop"
        assert told["convgym"]["tool_calls"] == plain["tool_calls"]
        assert served.get("/v1/models").json()["data"][0]["id"] == "oracle"


def test_a_streamed_completion_is_the_whole_one():
    with service("oracle") as served:
        body = {"messages": [user(OPENING)], "seed": 3}
        whole = served.post("/v1/chat/completions", body).json()
        answer = served.post("/v1/chat/completions", {**body, "stream": True})
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [part.removeprefix("data: ") for part in answer.text.split("\n\n") if part]
        assert events.pop() == "[DONE]"
        chunks = [json.loads(event) for event in events]
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas[0]["role"] == "assistant"
        text = "".join(delta.get("content", "") for delta in deltas)
        assert text == whole["choices"][0]["message"]["content"] and len(chunks) > 4
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert chunks[-1]["convgym"] == whole["convgym"]


@pytest.mark.parametrize(
    "body",
    [{"messages": []}, {"messages": [user("x")], "n": 2}, {"messages": [user("x")], "seed": 1.5},
     {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, {}],
)  # fmt: skip
def test_a_completion_that_is_not_allowed(body):
    with service("oracle") as served:
        refused(served.post("/v1/chat/completions", body), 422, "not_allowed")


# Language models


def parrot(messages):
    said = messages[-1].content
    if said == "fail":
        raise RuntimeError("with a secret in it")
    call = '<tool_call>{"name": "find", "arguments": {"x": 1}}</tool_call>'
    return f"{len(messages)} {said} {call}"


def test_a_language_model_replies_and_its_calls_are_handed_on():
    model = ModelResponder("parrot", CallableModel(parrot, takes="messages"))
    with service(responder=model) as served:
        history = [{"role": "system", "content": "s"}, user("a"), assistant("b"),
                   {"role": "tool", "content": "{}"}, user("c")]  # fmt: skip
        told = served.post("/v1/reply", {"history": history}).json()
        assert told["reply"] == "5 c"
        assert told["tool_calls"] == [{"name": "find", "arguments": {"x": 1}}]
        message = refused(served.post("/v1/reply", {"history": [user("fail")]}), 502, "no_answer")
        assert "secret" not in message
        refused(served.post("/v1/env/reset", {"side": "user"}), 404, "no_policy")


# Which policies


def test_a_function_from_messages_to_a_reply(tmp_path, monkeypatch):
    (tmp_path / "mine_to_serve.py").write_text(
        "def make():\n    return lambda messages: f'{len(messages)}: {messages[-1][\"content\"]}'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with service("mine_to_serve:make") as served:
        told = served.post("/v1/reply", {"history": [user("Hello.")]}).json()
        assert told["reply"] == "2: Hello."


def test_a_saved_policy_replies_as_it_acts(tmp_path):
    discrete = pytest.importorskip("trainers.offline.discrete_policy")
    env = gym.make(ENV, observation="features", action="act", disable_env_checker=True)
    rng = np.random.default_rng(0)
    cells, acts = env.observation_space.shape[0], int(env.action_space.n)
    layer = (rng.normal(size=(cells, acts)).astype(np.float32), np.zeros(acts, np.float32))
    policy = discrete.DiscretePolicy([[layer]], "linear")
    path = tmp_path / "linear.zip"
    policy.save(path)
    responder = responder_of(str(path), SETTINGS, saved_policy)
    answer = responder.reply([Said("user", OPENING)], 5, {})
    environments = Environments(SETTINGS)
    by_hand = Dialogue(
        lambda person: environments.in_words(user=person), lambda env: speaking(policy, env), 5
    ).hear(OPENING)
    assert answer == by_hand and responder.name == "linear"
    with pytest.raises(InvalidConfiguration, match="cannot answer in this environment"):
        responder_of(str(path), ServiceSettings(environments=("ConvGym/Sales-v0",)), saved_policy)


def test_a_model_of_stable_baselines3_replies(tmp_path):
    pytest.importorskip("stable_baselines3")
    from sb3_contrib import MaskablePPO

    env = gym.make(ENV, observation="features", action="act", disable_env_checker=True)
    model = MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=8, seed=0)
    model.save(tmp_path / "ppo.zip")
    responder = responder_of(str(tmp_path / "ppo.zip"), SETTINGS, saved_policy)
    first, second = (responder.reply([Said("user", OPENING)], 5, {}) for _ in range(2))
    assert first == second and (first.text or first.calls or first.ended)


@pytest.mark.parametrize(
    ("named", "told"),
    [("nobody", "no policy is called"), ("no_such_module:make", "nothing can be loaded"),
     ("math:sqrt", "cannot be called with nothing"), ("builtins:dict", "neither a policy nor")],
)  # fmt: skip
def test_a_policy_that_is_none_is_one_sentence(named, told):
    with pytest.raises(InvalidConfiguration, match=told):
        responder_of(named, SETTINGS)


def test_a_file_that_is_no_policy_is_one_sentence(tmp_path):
    path = tmp_path / "policy.zip"
    path.write_bytes(b"not a zip")
    with pytest.raises(InvalidConfiguration, match="is no policy of any learner"):
        responder_of(str(path), SETTINGS, saved_policy)
    shutil.make_archive(str(tmp_path / "empty"), "zip", tmp_path, "policy.zip")
    with pytest.raises(InvalidConfiguration, match="is no policy of any learner"):
        responder_of(str(tmp_path / "empty.zip"), SETTINGS, saved_policy)


def test_a_policy_over_vectors_is_turned_away(tmp_path, monkeypatch):
    (tmp_path / "vectors_to_serve.py").write_text(
        "import numpy as np\n"
        "class Vectors:\n"
        "    name = 'vectors'\n"
        "    def reset(self, seed): pass\n"
        "    def predict(self, *_, **__): return np.zeros(3), None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidConfiguration, match="answers with a vector"):
        responder_of("vectors_to_serve:Vectors", SETTINGS)


# Logs


def test_a_chat_is_logged_once_with_its_tools(tmp_path):
    path = tmp_path / "talk.jsonl"
    words = role_words(0)
    with service("oracle", conversation_log=path) as served:

        def reply(history, seed):
            told = served.post("/v1/chat/completions", {"messages": history, "seed": seed}).json()
            return told["choices"][0]["message"]["content"], told["convgym"]

        answers = talk(reply, words, 0)
    (logged,) = read_log(path)
    assert [m.content for m in logged.messages if m.role == "user"] == words
    spoken = [m.content for m in logged.messages if m.role == "assistant" and m.content]
    assert spoken == [text for text, _ in answers if text]
    assert sum(m.role == "tool" for m in logged.messages) == sum(
        len(more["tool_results"]) for _, more in answers
    )
    assert logged.metadata["source"] == "chat" and logged.metadata["policy"] == "oracle"
