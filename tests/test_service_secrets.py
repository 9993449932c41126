"""Nobody reaches another session's hidden state by any path, and no key is in any log."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import ENV, KEYS, service

from convgym.service.application import create_app
from convgym.service.keys import KeyRing
from convgym.service.settings import ServiceSettings

SPOKEN = {"observation": "dict", "action": "text"}
OPEN = {"/", "/healthz", "/health", "/page/{name}"}


def routes():
    """(method, path) of all that the service answers, OpenEnv's contract included."""
    given = ServiceSettings(environments=(ENV,), openenv=True)
    schema = create_app(given, KeyRing(KEYS.items())).app.openapi()["paths"]
    return sorted((method.upper(), path) for path, methods in schema.items() for method in methods)


ROUTES = [(method, path) for method, path in routes() if path not in OPEN]


class Mine:
    """A session of "mine" that is shown its own hidden state, and what in it tells the task."""

    def __init__(self, served):
        self.served = served
        self.begun = served.reset(keywords={**SPOKEN, "privileged": True}, seed=11)
        self.id = self.begun["session_id"]
        hidden = json.loads(self.begun["info"]["privileged"])
        # Its serial number and its fault: words such as the kind of device stand in manuals, too.
        told = [text for text in _texts(hidden) if not text.replace("_", "").isalpha()]
        self.secrets = [text for text in told if len(text) > 5 and text not in _public(self.begun)]
        self.secrets.append(json.dumps(hidden["persona"]))
        assert len(self.secrets) >= 3, "nothing hidden, nothing shown"

    def shown_in(self, text):
        """Which of its secrets, or its id, stand in what somebody was sent."""
        plain = text.replace('\\"', '"')
        return [secret for secret in (self.id, *self.secrets) if secret in plain]


def _texts(value):
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def _public(begun):
    """What any session of this environment is told, whatever its task."""
    return json.dumps([begun["system_prompt"], begun["observation"]])


@pytest.fixture(scope="module")
def two_keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    settings = {
        "keyed": True, "privileged": True, "openenv": True, "browse": True, "reports": folder,
        "conversation_log": folder / "talk.jsonl",
    }  # fmt: skip
    with service("oracle", **settings) as served:
        yield served, Mine(served), folder / "talk.jsonl"


def bodies(session_id):
    """What another key might send, wherever it fits."""
    user = [{"role": "user", "content": session_id}]
    return [
        {"session_id": session_id, "action": "Hello"}, {"session_id": session_id},
        {"session_id": session_id, "action": {"message": "Hello"}},
        {"history": user, "conversation_id": session_id}, {"messages": user},
        {"conversation_id": session_id, "success": True}, {"seed": 12}, {},
    ]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_tells_another_key_anything_of_a_session(two_keys, method, path):
    served, mine, _ = two_keys
    for body in bodies(mine.id):
        queries = ({}, {"session_id": mine.id}, {"name": mine.id, "dataset": mine.id, "index": 0})
        for query in queries:
            answer = served.client.request(
                method, path, params=query, headers=served.headers("yours"),
                **({"json": body} if method == "POST" else {}),
            )  # fmt: skip
            text = answer.text.replace(mine.id, "") if body.get("conversation_id") else answer.text
            assert not mine.shown_in(text), (path, body)
            assert answer.status_code != 500
    again = served.reset(session_id=mine.id, seed=11)
    assert mine.shown_in(json.dumps(again)), "it is still there, and its owner is shown it"


def test_its_owner_is_shown_it():
    """Else the test above could not fail."""
    with service("oracle", keyed=True, privileged=True) as served:
        mine = Mine(served)
        assert mine.shown_in(served.step(mine.begun, "Hello.").text)


def test_two_sessions_of_one_key_are_told_apart_too():
    with service("oracle", keyed=True, privileged=True) as served:
        mine, other = Mine(served), served.reset(keywords=SPOKEN, seed=12)
        for _ in range(3):
            assert not mine.shown_in(served.step(other, "Hello, how can I help?").text)


def test_a_web_socket_has_a_session_of_its_own(two_keys):
    served, mine, _ = two_keys
    pytest.importorskip("websockets", reason="OpenEnv's clients need the extra openenv")
    with served.client.websocket_connect("/ws", headers=served.headers("yours")) as socket:
        for body in (
            {"type": "state", "data": {"session_id": mine.id}},
            {"type": "reset", "data": {"session_id": mine.id}},
            {"type": "step", "data": {"session_id": mine.id, "message": "Hello"}},
        ):
            socket.send_text(json.dumps(body))
            assert not mine.shown_in(socket.receive_text())


def test_the_service_never_logs_what_is_hidden(tmp_path):
    """A session's line holds what was said in it; of its task only what its seed gives."""
    path = tmp_path / "talk.jsonl"
    with service("oracle", keyed=True, privileged=True, conversation_log=path) as served:
        mine = Mine(served)
        said = served.step(mine.begun, "Hello.").text
        served.post("/v1/env/close", {"session_id": mine.id})
        log = served.log.getvalue()
    line = path.read_text("utf-8")
    lines = json.loads(line)["turns"]
    heard = json.dumps([lines, json.loads(said)["said"]])
    assert mine.id not in line and not mine.shown_in(log)
    assert not [secret for secret in mine.secrets if secret in line and secret not in heard]
    assert "privileged" not in line and "ledger" not in line


TEXTS = st.sampled_from([*KEYS.values(), "Bearer " + KEYS["mine"], "wrong-key-of-some-length"])
PATHS = st.sampled_from([path for _, path in ROUTES] + ["/nothing", "/"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=PATHS, key=TEXTS, where=st.integers(0, 5), method=st.sampled_from(["GET", "POST"]))
def test_wherever_a_key_is_sent_it_is_in_no_log(two_keys, path, key, where, method):
    served, _, talk = two_keys
    headers = served.headers()
    sent = {
        0: {"params": {"key": key}},
        1: {"headers": {**headers, "X-API-Key": key, "Cookie": key, "User-Agent": key}},
        2: {"headers": {"Authorization": f"Bearer {key}"}},
        3: {"json": {"history": [{"role": "user", "content": f"hello {key}."}]}},
        4: {"json": {"messages": [{"role": "user", "content": f"hello '{key}'"}], "model": key}},
        5: {"content": key.encode()},
    }[where]
    served.client.request(method, path, **{"headers": headers, **sent})
    for one in KEYS.values():
        assert one not in served.log.getvalue() and one not in served.get("/metrics").text
        assert one not in talk.read_text("utf-8")


def test_what_was_still_under_way_holds_no_key_either(tmp_path):
    path = tmp_path / "talk.jsonl"
    with service("oracle", keyed=True, conversation_log=path) as served:
        for key in KEYS.values():
            body = {"history": [{"role": "user", "content": f"My key is {key}"}],
                    "conversation_id": "x"}  # fmt: skip
            assert served.post("/v1/reply", body).status_code == 200
        acting = served.reset(keywords={"observation": "dict", "action": "text"}, seed=1)
        served.step(acting, f"Your key is {KEYS['yours']}")
        served.post("/v1/outcome", {"conversation_id": KEYS["mine"], "reward": 1.0})
    written = "".join(one.read_text("utf-8") for one in tmp_path.iterdir())
    assert written.count("[key]") >= 3 and len(list(tmp_path.iterdir())) == 2
    assert not [key for key in KEYS.values() if key in written]


def test_answers_hold_no_key():
    with service("oracle", keyed=True) as served:
        for path in ("/v1/service", "/v1/models", "/metrics", "/openapi.json", "/"):
            text = served.get(path).text
            assert not [key for key in KEYS.values() if key in text]


def test_a_ring_blots_keys_out_of_any_place_of_a_line():
    ring, key = KeyRing(KEYS.items()), KEYS["mine"].encode()
    chance = np.random.default_rng(0)
    for _ in range(50):
        around = [chance.bytes(int(chance.integers(0, 30))) for _ in range(3)]
        line = around[0] + key + around[1] + key + around[2]
        assert ring.blotted(line) == around[0] + b"[key]" + around[1] + b"[key]" + around[2]
