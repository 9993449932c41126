"""Who is let in, how much the service takes, and that nobody learns more than they should."""

import asyncio
import json
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import ENV, KEYS, refused, service

from convgym.errors import InvalidConfiguration
from convgym.service.application import create_app
from convgym.service.dialogue import Answer
from convgym.service.keys import KeyRing
from convgym.service.settings import ServiceSettings

PATHS = [
    ("POST", "/v1/reply"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"), ("POST", "/v1/outcome"),
    ("POST", "/v1/env/reset"), ("POST", "/v1/env/step"), ("POST", "/v1/env/close"),
    ("GET", "/v1/service"), ("GET", "/v1/datasets"), ("GET", "/v1/episodes"),
    ("GET", "/v1/episode"), ("GET", "/v1/reports"), ("GET", "/v1/report"), ("GET", "/metrics"),
    ("GET", "/openapi.json"), ("GET", "/nothing"),
]  # fmt: skip


def routes_of(app):
    """(method, path) of everything that the application answers."""
    pending, found = [app.app.router], set()
    schema = app.app.openapi()["paths"]
    for path, methods in schema.items():
        found |= {(method.upper(), path) for method in methods}
    assert pending
    return found


# Keys


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.com"])
def test_beyond_this_machine_it_refuses_to_be_without_keys(host):
    with pytest.raises(InvalidConfiguration, match="no API key was given"):
        create_app(ServiceSettings(host=host, environments=(ENV,)))
    create_app(ServiceSettings(host=host, environments=(ENV,)), KeyRing(KEYS.items()))


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_every_route_but_the_open_ones_needs_a_key(method, path):
    with service(keyed=True) as served:
        for header in ({}, {"Authorization": "Bearer wrong-key-of-some-length"},
                       {"Authorization": KEYS["mine"]}, {"X-API-Key": KEYS["mine"]}):  # fmt: skip
            refused(served.client.request(method, path, headers=header), 401, "no_key")


def test_no_route_is_missing_from_that_list():
    app = create_app(ServiceSettings(environments=(ENV,)))
    there = routes_of(app)
    assert there - set(PATHS) == {("GET", "/healthz"), ("GET", "/"), ("GET", "/page/{name}")}
    assert len(there) >= 14


def test_the_open_routes_need_none():
    with service(keyed=True) as served:
        assert served.client.get("/healthz").json() == {"status": "ok", "key_needed": True}
        for path in ("/", "/page/page.js", "/page/page.css", "/page/icon.svg"):
            answer = served.client.get(path)
            assert answer.status_code == 200
            assert "script-src 'self'" in answer.headers["content-security-policy"]
        for path in ("/page/settings.py", "/page/..%2fsettings.py", "/page/../settings.py"):
            refused(served.client.get(path, headers=served.headers()), 404, "no_route")


def test_a_key_is_never_logged_nor_shown():
    wrong = "a-wrong-key-of-some-length"
    with service("oracle", keyed=True) as served:
        served.get("/v1/service")
        served.client.get("/v1/service", headers={"Authorization": f"Bearer {wrong}"})
        served.client.get(f"/v1/service?key={KEYS['mine']}")
        served.post("/v1/reply", {"history": [{"role": "user", "content": KEYS["mine"]}]})
        served.post("/v1/env/step", {"session_id": KEYS["mine"], "action": 1})
        session = served.reset()
        metrics = served.get("/metrics").text
        log = served.log.getvalue()
        keys = {event.get("key") for event in served.events()}
    for secret in (*KEYS.values(), wrong, session["session_id"]):
        assert secret not in log and secret not in metrics
    assert keys == {None, "", "mine"}


def test_guessing_keys_is_slowed_down_and_good_keys_are_not():
    with service(keyed=True) as served:
        wrong = {"Authorization": "Bearer wrong-key-of-some-length"}
        told = [served.client.get("/v1/service", headers=wrong).status_code for _ in range(40)]
        assert told[0] == 401 and told[-1] == 429
        assert served.get("/v1/service").status_code == 200


def test_without_keys_it_answers_to_localhost_alone():
    """A page from elsewhere that makes its name point at this machine is not answered."""
    with service() as served:
        for host in ("evil.example.com", "localhost.evil.example.com", "8.8.8.8", ""):
            answer = served.client.get("/v1/service", headers={"host": host})
            refused(answer, 421, "wrong_host")
        for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "localhost", "LOCALHOST:80",
                     "[::1]"):  # fmt: skip
            assert served.client.get("/v1/service", headers={"host": host}).status_code == 200


def test_nothing_is_said_to_other_origins():
    with service() as served:
        answer = served.client.options(
            "/v1/env/reset",
            headers={"Origin": "https://evil.example.com", "Access-Control-Request-Method": "POST"},
        )
        assert "access-control-allow-origin" not in answer.headers
        body = json.dumps({"seed": 1})
        simple = served.client.post(
            "/v1/env/reset", content=body, headers={"Content-Type": "text/plain"}
        )
        told = refused(simple, 415, "not_json")  # a form of another site cannot reset anything
        assert "Content-Type: application/json" in told


# How much


def test_requests_of_a_key_are_limited_and_another_keys_are_not():
    with service(keyed=True, requests_per_s=1.0, burst=3) as served:
        told = [served.get("/v1/service").status_code for _ in range(5)]
        assert told == [200, 200, 200, 429, 429]
        answer = served.get("/v1/service")
        refused(answer, 429, "rate_limit")
        assert int(answer.headers["retry-after"]) >= 1
        assert served.get("/v1/service", as_="yours").status_code == 200


def test_a_body_is_limited_whatever_it_says_of_its_length():
    with service(max_body_bytes=1000) as served:
        refused(served.post("/v1/reply", content=b"x" * 1001), 413, "too_large")
        chunked = served.post("/v1/reply", content=iter([b"x" * 600, b"x" * 600]))
        refused(chunked, 413, "too_large")
        json_ = {"Content-Type": "application/json"}
        full = served.post("/v1/reply", content=b"{}" + b" " * 998, headers=json_)
        refused(full, 422, "not_allowed")


def asgi(app, scope, messages, pause=0.0):
    """What the application sends to a client that sends these messages, `pause` s apart."""

    async def run():
        pending, sent = list(messages), []

        async def receive():
            await asyncio.sleep(pause)
            if not pending:
                await asyncio.sleep(3600)
            return pending.pop(0)

        async def send(message):
            sent.append(message)

        await asyncio.wait_for(app(scope, receive, send), 5.0)
        return sent

    return asyncio.run(run())


def scope(path="/v1/reply", method="POST", **headers):
    given = {"host": "localhost", "content-type": "application/json", **headers}
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8000),
    }  # fmt: skip


def test_a_body_that_never_ends_is_not_waited_for():
    app = create_app(ServiceSettings(environments=(ENV,), body_timeout_s=0.2))
    drips = [{"type": "http.request", "body": b" ", "more_body": True}] * 100
    begun = time.monotonic()
    sent = asgi(app, scope(), drips, pause=0.05)
    assert sent[0]["status"] == 408 and time.monotonic() - begun < 2.0


def test_a_client_that_leaves_in_the_middle_is_no_error(capsys):
    app = create_app(ServiceSettings(environments=(ENV,)))
    half = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    assert asgi(app, scope(), half) == []
    (told,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert told["status"] == 499 and told["event"] == "request"


class Slow:
    """Replies when it is told to."""

    name = "slow"

    def __init__(self):
        self.go = threading.Event()

    def reply(self, history, seed, options):
        if history[-1].content == "wait":
            self.go.wait(20.0)
        return Answer("there you are")


def test_who_waits_too_long_is_told_so_and_others_are_answered_meanwhile():
    slow = Slow()
    with service(responder=slow, keyed=True, work_timeout_s=1.5, threads=4) as served:
        wait = {"history": [{"role": "user", "content": "wait"}]}
        quick = {"history": [{"role": "user", "content": "now"}]}
        with_thread = [
            threading.Thread(target=served.post, args=("/v1/reply", wait)) for _ in range(6)
        ]
        for one in with_thread:
            one.start()
        begun = time.monotonic()
        assert served.post("/v1/reply", quick, "yours").json()["reply"] == "there you are"
        session = served.reset(seed=1)
        assert served.step(session, "Hello").status_code == 200, "nor do replies hold steps up"
        assert time.monotonic() - begun < 1.0
        refused(served.post("/v1/reply", wait), 504, "too_slow")
        slow.go.set()
        for one in with_thread:
            one.join()
        assert served.post("/v1/reply", quick).status_code == 200


# What nobody had foreseen


class Broken:
    name = "broken"

    def reply(self, history, seed, options):
        raise RuntimeError(f"secret of the house: {history[-1].content}")


def test_an_error_of_ours_is_told_without_its_text_or_place():
    with service(responder=Broken()) as served:
        body = {"history": [{"role": "user", "content": "private words"}]}
        message = refused(served.post("/v1/reply", body), 500, "internal")
        assert "secret" not in message and "private" not in message
        (told,) = [event for event in served.events() if event["event"] == "raised"]
        assert told["error"] == "RuntimeError" and told["at"]
        assert "secret" not in served.log.getvalue() and "private" not in served.log.getvalue()
        assert 'convgym_errors_total{kind="RuntimeError"} 1' in served.get("/metrics").text
        assert served.get("/healthz").status_code == 200


def test_unknown_routes_and_methods_are_counted_together():
    with service() as served:
        for number in range(5):
            refused(served.get(f"/secret/{number}"), 404, "no_route")
        refused(served.get("/v1/reply"), 405, "no_method")
        assert served.client.request("BREW", "/v1/reply").status_code == 405
        text = served.get("/metrics").text
        assert 'route="other",status="404"} 5' in text and "secret" not in text


def test_every_answer_carries_an_id_and_is_not_kept_by_caches():
    with service() as served:
        answers = [served.get("/v1/service"), served.get("/none"), served.get("/")]
        assert len({answer.headers["x-request-id"] for answer in answers}) == 3
        assert all(answer.headers["x-content-type-options"] == "nosniff" for answer in answers)
        assert all(answer.headers["cache-control"] == "no-store" for answer in answers)


# Any body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner,
                                                               max_size=4),
    max_leaves=12,
)  # fmt: skip
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "king"]) | JSON
MESSAGES = st.lists(st.fixed_dictionaries({"role": ROLES, "content": st.text() | JSON}), max_size=4)
BODIES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "session_id": JSON, "side": st.sampled_from(["agent", "user"]) | JSON, "seed": JSON,
        "env_id": st.just(ENV) | JSON, "action": JSON, "turn": JSON, "history": MESSAGES,
        "messages": MESSAGES, "stream": JSON, "n": JSON,
        "keywords": st.dictionaries(
            st.sampled_from(["observation", "action", "persona", "max_turns", "style", "reward",
                             "difficulty", "topic", "split", "messages", "user"]), JSON,
            max_size=3),
        "options": st.dictionaries(
            st.sampled_from(["task_id", "user_seed", "persona", "topic", "style"]), JSON,
            max_size=3),
    },
)  # fmt: skip
POSTS = ("/v1/reply", "/v1/chat/completions", "/v1/outcome", "/v1/env/reset", "/v1/env/step",
         "/v1/env/close")  # fmt: skip


@pytest.fixture(scope="module")
def open_service():
    with service("greet-only", max_sessions=5000, max_sessions_per_key=5000) as served:
        yield served


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(POSTS), body=BODIES)
def test_no_body_of_json_is_answered_by_an_error_of_ours(open_service, path, body):
    told = open_service.post(
        path, content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert told.status_code in (200, 400, 403, 404, 413, 422, 503), (path, body, told.text)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(POSTS), body=st.binary(max_size=200))
def test_no_bytes_are_answered_by_an_error_of_ours(open_service, path, body):
    told = open_service.post(path, content=body, headers={"Content-Type": "application/json"})
    assert told.status_code in (400, 404, 422), (path, body, told.text)


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"history":' * 20_000 + b"1" + b"}" * 20_000, b'{"history": [1e999]}',
     b'{"history": NaN}', b'{"history": [{"role": "user", "content": "\\ud800"}]}',
     b'{"session_id": "\\u0000", "action": "\\u0000"}', b"\xef\xbb\xbf{}", b"9" * 100_000],
    ids=["deep", "nested", "infinite", "nan", "half a character", "nul", "mark", "digits"],
)  # fmt: skip
def test_odd_bodies(open_service, body):
    for path in POSTS:
        told = open_service.post(path, content=body, headers={"Content-Type": "application/json"})
        assert told.status_code in (200, 400, 404, 422), told.text


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(max_size=400))
def test_any_text_may_be_said(open_service, text):
    session = open_service.reset(keywords={"observation": "dict"}, seed=1)
    told = open_service.post(
        "/v1/env/step",
        content=json.dumps({"session_id": session["session_id"], "action": text}),
        headers={"Content-Type": "application/json"},
    )
    assert told.status_code == 200, told.text
    open_service.post("/v1/env/close", {"session_id": session["session_id"]})
