"""Environments as OpenEnv's clients expect them: the contract by hand, and OpenEnv's own client."""

import asyncio
import importlib.util
import json

import gymnasium as gym
import pytest
from served import ENV, KEYS, refused, service
from service_process import KEY, ServiceProcess
from starlette.websockets import WebSocketDisconnect

from convgym.service.openenv_contract import action_of, envelope, schemas
from convgym.service.plain_values import plain
from convgym.service.problems import Problem

SOCKET = "ws://localhost/ws"
EASY = {"difficulty": 0.0}
SAID = ("Hello.", "Please tell me more.", '<tool_call>{"name": "end_conversation"}</tool_call>')
needs_sockets = pytest.mark.skipif(
    importlib.util.find_spec("websockets") is None, reason="web sockets need the extra openenv"
)


class Talk:
    """A web socket of the test client, message by message."""

    def __init__(self, socket):
        self.socket = socket

    def ask(self, kind, data=None):
        self.socket.send_text(
            json.dumps({"type": kind, **({} if data is None else {"data": data})})
        )
        return json.loads(self.socket.receive_text())

    def fails(self, kind, data=None, code="VALIDATION_ERROR"):
        answer = self.ask(kind, data)
        assert answer["type"] == "error" and answer["data"]["code"] == code, answer
        assert "Traceback" not in json.dumps(answer)
        return answer["data"]["message"]


def alone(seed, keywords=EASY):
    """What the environment itself shows and pays for `SAID`."""
    env = gym.make(ENV, disable_env_checker=True, **keywords)
    observation, _ = env.reset(seed=seed)
    found = [(plain(observation), None, False)]
    for words in SAID:
        observation, reward, terminated, truncated, _ = env.step(words)
        found.append((plain(observation), float(reward), terminated or truncated))
    return found


def seen(answer):
    data = answer.get("data", answer)
    return data["observation"]["message"], data["reward"], data["done"]


def test_a_socket_plays_what_the_environment_is():
    with service(openenv=True) as served, served.client.websocket_connect(SOCKET) as socket:
        talk = Talk(socket)
        assert talk.ask("state")["data"] == {"episode_id": None, "step_count": 0}
        for seed in (3, 4, 3):
            begun = talk.ask("reset", {"seed": seed, "episode_id": "mine", "keywords": EASY})
            assert begun["data"]["observation"]["system_prompt"]
            assert begun["data"]["metadata"]["seed"] == seed
            found = [seen(begun), *(seen(talk.ask("step", {"message": one})) for one in SAID)]
            assert found == alone(seed) and found[-1][2]
            state = talk.ask("state")["data"]
            assert state["episode_id"] == "mine" and state["step_count"] == 3 and state["done"]
        assert "over" in talk.fails("step", {"message": "more"}, "SESSION_ERROR")
        assert "convgym_sessions 1" in served.get("/metrics").text
        socket.send_text(json.dumps({"type": "close"}))
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()
        assert "convgym_sessions 0" in served.get("/metrics").text


def test_what_a_reset_does_not_name_are_reset_options():
    with service(openenv=True) as served, served.client.websocket_connect(SOCKET) as socket:
        talk = Talk(socket)
        talk.ask("reset", {"seed": 1})
        env = gym.make(ENV, disable_env_checker=True)
        shown, info = env.reset(seed=5, options=EASY)
        found = talk.ask("reset", {"seed": 5, **EASY})["data"]
        assert found["observation"]["message"] == plain(shown)
        assert found["metadata"]["info"]["task_id"] == info["task_id"]
        assert talk.fails("reset", {"seed": 5, "nonsense": 1})
        assert talk.fails("reset", {"seed": "five"}) and talk.fails("reset", {"seed": -1})
        assert talk.fails("reset", {"episode_id": 5})
        assert talk.fails("reset", {"env_id": "Other-v0"}, "SESSION_ERROR")
        assert talk.fails("reset", {"keywords": {"folder": "/etc"}})


def test_acts_are_numbers_where_the_environment_takes_them():
    acts = {"action": "act", "observation": "features"}
    with service(openenv=True, keywords=acts) as served:
        schema = served.get("/schema").json()
        assert schema["action"]["required"] == ["act"]
        assert schema["observation"]["properties"]["features"]["items"] == {"type": "number"}
        with served.client.websocket_connect(SOCKET) as socket:
            talk = Talk(socket)
            begun = talk.ask("reset", {"seed": 2})["data"]
            env = gym.make(ENV, disable_env_checker=True, **acts)
            shown, info = env.reset(seed=2)
            assert begun["observation"]["features"] == plain(shown)
            act = int(info["action_mask"].argmax())
            assert talk.ask("step", {"act": act})["data"]["reward"] == env.step(act)[1]
            assert "whole number" in talk.fails("step", {"message": "hello"})
            assert talk.fails("step", {"act": 10_000})


def test_whatever_is_sent_is_answered():
    with (
        service(openenv=True, max_body_bytes=5000) as served,
        served.client.websocket_connect(SOCKET) as socket,
    ):
        talk = Talk(socket)
        for text, code in (
            ("no json", "INVALID_JSON"), ("[" * 4000, "INVALID_JSON"), ("[]", "UNKNOWN_TYPE"),
            ("{}", "UNKNOWN_TYPE"), ('{"type": "mcp"}', "UNKNOWN_TYPE"),
            ('{"type": ["reset"]}', "UNKNOWN_TYPE"), ("x" * 5001, "VALIDATION_ERROR"),
            ('{"type": "step", "data": []}', "VALIDATION_ERROR"),
            ('{"type": "step", "data": {"message": "hi"}}', "SESSION_ERROR"),
        ):  # fmt: skip
            socket.send_text(text)
            answer = json.loads(socket.receive_text())
            assert answer["type"] == "error" and answer["data"]["code"] == code, text[:40]
        socket.send_bytes(b"\x00")
        assert json.loads(socket.receive_text())["data"]["code"] == "INVALID_JSON"
        talk.ask("reset", {"seed": 1})
        for data in ({}, {"act": 1, "message": "hi"}, {"other": 1}, {"metadata": {}}):
            assert "one field" in talk.fails("step", data)
        for data in ({"message": None}, {"message": 5}, {"vector": [1]}):
            assert "is a text" in talk.fails("step", data)
        assert talk.ask("step", {"message": "Hello.", "metadata": {"a": 1}})["type"]


def test_a_connection_that_leaves_takes_its_session_along():
    with service(openenv=True, max_sessions_per_key=2) as served:
        for _ in range(3):
            with served.client.websocket_connect(SOCKET) as one:
                Talk(one).ask("reset", {"seed": 1})
                with served.client.websocket_connect(SOCKET) as two:
                    assert Talk(two).ask("reset", {"seed": 1})["type"] == "observation"
                    with served.client.websocket_connect(SOCKET) as three:
                        Talk(three).fails("reset", {"seed": 1}, "CAPACITY_REACHED")
        assert "convgym_sessions 0" in served.get("/metrics").text


def test_a_silent_connection_is_closed():
    with (
        service(openenv=True, session_idle_s=0.2) as served,
        served.client.websocket_connect(SOCKET) as socket,
        pytest.raises(WebSocketDisconnect),
    ):
        socket.receive_text()


def refuses(client, headers):
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(SOCKET, headers=headers):
        raise AssertionError("it was let in")


def test_sockets_need_the_key_and_no_foreign_page():
    with service(openenv=True, keyed=True) as served:
        mine = served.headers()
        for headers in ({}, {"Authorization": "Bearer wrong-key-of-some-length"},
                        {**mine, "Origin": "https://elsewhere.example"}):  # fmt: skip
            refuses(served.client, headers)
        with served.client.websocket_connect(SOCKET, headers=mine) as socket:
            assert Talk(socket).ask("state")["type"] == "state"
        with served.client.websocket_connect(
            SOCKET, headers={**mine, "Origin": "http://localhost", "Host": "localhost"}
        ) as socket:
            assert Talk(socket).ask("state")["type"] == "state"
        assert served.client.get("/health").json() == {"status": "healthy"}
        for path in ("/schema", "/metadata", "/state"):
            refused(served.client.get(path), 401, "no_key")
        assert KEYS["mine"] not in served.log.getvalue()
    with service() as served:  # not started so
        refuses(served.client, {})
        refused(served.get("/schema"), 404, "no_route")


def test_over_http_the_session_goes_from_answer_to_request():
    with service(openenv=True, keyed=True) as served:
        begun = served.post("/reset", {"seed": 3, "keywords": EASY, "episode_id": "e"}).json()
        session = begun["metadata"]["session_id"]
        found = [seen(begun)]
        for words in SAID:
            body = {"action": {"message": words}, "session_id": session, "timeout_s": 5.0}
            found.append(seen(served.post("/step", body).json()))
        assert found == alone(3)
        state = served.get(f"/state?session_id={session}").json()
        assert state["step_count"] == 3 and state["episode_id"] == "e"
        again = served.post("/reset", {"seed": 3, "session_id": session}).json()
        assert seen(again) == alone(3)[0] and again["metadata"]["session_id"] == session
        action = {"action": {"message": "Hello."}}
        refused(served.post("/step", {**action, "session_id": session}, "yours"), 404, "no_session")
        refused(served.post("/step", action), 409, "no_session")
        refused(served.post("/reset", {"seed": "x"}), 422, "not_allowed")
        refused(served.post("/reset", {"seed": 1, "episode_id": 1}), 422, "not_allowed")
        assert served.get("/state").json() == {"episode_id": None, "step_count": 0}
        assert served.post("/reset").json()["reward"] is None


def test_a_session_as_the_user_is_not_stepped_as_an_agents():
    with service("oracle", openenv=True) as served:
        session = served.reset(side="user")["session_id"]
        body = {"session_id": session, "action": {"message": "Hello."}}
        refused(served.post("/step", body), 422, "not_allowed")
        refused(served.get(f"/state?session_id={session}"), 422, "not_allowed")


def test_the_contract_by_hand():
    record = {"observation": "Hi", "reward": 0.5, "terminated": False, "truncated": True, "turn": 1,
              "system_prompt": "Be kind.", "other": 1}  # fmt: skip
    assert envelope(record, began=True) == {
        "observation": {"message": "Hi", "system_prompt": "Be kind."}, "reward": None, "done": True,
        "metadata": {"turn": 1, "terminated": False, "truncated": True},
    }  # fmt: skip
    assert envelope({**record, "observation": [1.0]}, began=False)["observation"]["features"] == [
        1.0
    ]
    assert action_of({"vector": [1], "metadata": {}}) == [1]
    with pytest.raises(Problem):
        action_of({})


@pytest.mark.parametrize("keywords", [{}, {"observation": "dict"},
                                      {"observation": "features", "action": "act"}])  # fmt: skip
def test_what_is_shown_is_as_the_schema_says(keywords):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    env = gym.make(ENV, disable_env_checker=True, **keywords)
    with service(openenv=True, keywords=keywords) as served:
        known = served.get("/schema").json()
        assert known == schemas(env)
        answer = served.post("/reset", {"seed": 1}).json()
        whole = {**answer["observation"], **{n: answer[n] for n in ("reward", "done", "metadata")}}
        strict = {**known["observation"], "additionalProperties": False}
        jsonschema.validate(whole, strict)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"reward": "much"}, strict)
        state = served.get(f"/state?session_id={answer['metadata']['session_id']}").json()
        jsonschema.validate(state, {**known["state"], "additionalProperties": False})


@needs_sockets
def test_openenvs_own_client_plays(tmp_path):
    openenv = pytest.importorskip("openenv", reason="openenv is not installed")

    async def episode(url, seed):
        headers = {"Authorization": f"Bearer {KEY}"}
        async with openenv.GenericEnvClient(base_url=url, headers=headers) as client:
            begun = await client.reset(seed=seed, keywords=EASY)
            found = [(begun.observation["message"], begun.reward, begun.done)]
            for words in SAID:
                result = await client.step({"message": words})
                found.append((result.observation["message"], result.reward, result.done))
            state = await client.state()
            return found, state["step_count"]

    async def several(url):
        return await asyncio.gather(*(episode(url, seed) for seed in (1, 2, 3, 1)))

    with ServiceProcess(tmp_path, openenv=True, header_timeout_s=1.0) as served:
        url = f"http://127.0.0.1:{served.port}"
        played = asyncio.run(several(url))
        assert played == [(alone(seed), 3) for seed in (1, 2, 3, 1)]

        async def waiting():  # longer than a request may take to arrive
            headers = {"Authorization": f"Bearer {KEY}"}
            async with openenv.GenericEnvClient(base_url=url, headers=headers) as client:
                await client.reset(seed=1)
                await asyncio.sleep(1.5)
                return (await client.step({"message": "Hello."})).done

        assert asyncio.run(waiting()) is False
        with pytest.raises(ConnectionError):
            asyncio.run(openenv.GenericEnvClient(base_url=url).connect())
        assert served.stop() == 0


@needs_sockets
def test_openenvs_own_validator_passes(tmp_path):
    pytest.importorskip("openenv", reason="openenv is not installed")
    from openenv.cli._validation import validate_running_environment

    with ServiceProcess(tmp_path, keyed=False, openenv=True) as served:
        report = validate_running_environment(f"http://127.0.0.1:{served.port}")
    assert report["passed"], report["summary"]
    assert report["mode"] == "simulation" and report["standard_profile"] == "openenv-http/1.x"
