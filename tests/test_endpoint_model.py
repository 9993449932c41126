"""An endpoint as a chat model, against a server that can be slow, dripping or rude."""

import copy
import multiprocessing
import pickle
import shutil
import socket
import ssl
import subprocess
import threading
import time

import gymnasium as gym
import pytest
from rude_server import BODIES, KEY, PATIENCE, RAW, Server, reply

from convgym.errors import InvalidConfiguration
from convgym.language.breaker import CircuitBreaker
from convgym.language.endpoint import EndpointModel
from convgym.language.models import ChatMessage, Completion


def prompt(text):
    return (ChatMessage("system", "You are a customer."), ChatMessage("user", text))


@pytest.fixture
def server():
    with Server() as running:
        yield running


@pytest.fixture
def endpoint(server):
    """Makes models of the server, and closes them."""
    made = []

    def make(**settings):
        made.append(EndpointModel(**{"url": server.url, "model": "tiny", **settings}))
        return made[-1]

    yield make
    for model in made:
        model.close()


def ask(model, *texts):
    return model.complete([prompt(text) for text in texts], range(len(texts)))


def error_of(model):
    """The reason why one call failed; within a generous time, and without a text."""
    start = time.monotonic()
    (result,) = ask(model, "hello")
    assert time.monotonic() - start < PATIENCE
    assert result.text == ""
    return result.error


# An endpoint that works


def test_results_come_in_the_order_of_the_prompts(server, endpoint):
    texts = [f"prompt {number}" for number in range(40)]
    assert ask(endpoint(), *texts) == [Completion(f"{text}!") for text in texts]


def test_the_request_is_what_such_servers_read(server, endpoint):
    model = endpoint(api_key=KEY, temperature=0.2, max_tokens=9, extra={"top_p": 0.5})
    model.complete([prompt("hello")], [2**31 + 5])
    path, headers, request = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"
    assert request == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "You are a customer."},
            {"role": "user", "content": "hello"},
        ],
        "seed": 5,
        "stream": False,
        "temperature": 0.2,
        "max_tokens": 9,
        "top_p": 0.5,
    }


def test_seeds_go_with_their_prompts(server, endpoint):
    endpoint().complete([prompt(str(seed)) for seed in range(20)], range(20))
    requests = [request for _, _, request in server.requests]
    assert {r["seed"] for r in requests} == set(range(20))
    assert all(r["messages"][-1]["content"] == str(r["seed"]) for r in requests)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/openai/v1/", "/openai/v1/chat/completions"),
        ("/x/chat/completions", "/x/chat/completions"),
        ("/x?version=2", "/x/chat/completions?version=2"),
    ],
)
def test_a_url_may_or_may_not_hold_the_whole_path(server, endpoint, given, path):
    model = endpoint(url=f"http://localhost:{server.server_port}{given}")
    assert ask(model, "hello") == [Completion("hello!")]
    assert server.requests[0][0] == path


def test_calls_run_side_by_side_up_to_the_bound(server, endpoint):
    server.mood = "slow"
    results = ask(endpoint(concurrency=5), *map(str, range(20)))
    assert [result.text for result in results] == [f"{number}!" for number in range(20)]
    assert 1 < server.most <= 5


def test_the_bound_holds_for_all_threads_together(server, endpoint):
    server.mood, model = "slow", endpoint(concurrency=3)
    threads = [threading.Thread(target=ask, args=(model, "a", "b")) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 10 and server.most <= 3


def test_connections_are_kept_alive(server, endpoint):
    model = endpoint(concurrency=1)
    assert all(ask(model, "a", "b", "c")[2].text == "c!" for _ in range(3))
    assert server.connections == 1


def test_a_connection_that_ended_while_idle_is_no_failure(server, endpoint):
    server.mood, model = "hangs up later", endpoint(concurrency=1, retries=0)
    for _ in range(3):
        assert ask(model, "a")[0].text == "a"
        time.sleep(0.05)


def test_a_second_answer_is_not_taken_for_the_next_prompt(server, endpoint):
    server.mood, model = "answers twice", endpoint(concurrency=1)
    for text in "abc":
        assert ask(model, text)[0].text == text
        time.sleep(0.05)


def test_off_topic_chunked_and_mislabelled_replies_are_replies(server, endpoint):
    for mood, text in {"chunked": "hi", "mislabelled": "hello", "surrogate": "a?b"}.items():
        server.mood = mood
        assert ask(endpoint(), "hi") == [Completion(text)]


# An endpoint that does not


@pytest.mark.parametrize("mood", BODIES)
def test_a_body_of_another_shape_is_malformed(server, endpoint, mood):
    server.mood = mood
    assert error_of(endpoint()) == "malformed reply"
    assert len(server.requests) == 1


@pytest.mark.parametrize("mood", RAW)
def test_what_is_hardly_http_is_an_error(server, endpoint, mood):
    server.mood = mood
    assert error_of(endpoint()) in {"malformed reply", "connection closed"}


@pytest.mark.parametrize("mood", ["empty", "null"])
def test_an_empty_reply_is_an_error(server, endpoint, mood):
    server.mood = mood
    assert error_of(endpoint()) == "empty reply"


@pytest.mark.parametrize(
    ("status", "attempts"),
    [(500, 3), (503, 3), (429, 3), (400, 1), (401, 1), (404, 1), (204, 1), (302, 1)],
)
def test_only_what_may_pass_is_tried_again(server, endpoint, status, attempts):
    server.mood = f"status {status}"
    assert error_of(endpoint(retries=2)) == f"http {status}"
    assert len(server.requests) == attempts


def test_a_retry_may_succeed(server, endpoint):
    server.mood = "once 500"
    assert ask(endpoint(), "hello") == [Completion("hello!")]


def test_a_redirect_is_not_followed(server, endpoint):
    server.mood = "redirect"
    assert error_of(endpoint()) == "http 302"


def test_a_server_that_asks_for_an_hour_gets_no_retry(server, endpoint):
    server.mood = "wait an hour"
    assert error_of(endpoint(timeout=5.0)) == "http 429"
    assert len(server.requests) == 1


@pytest.mark.parametrize("mood", ["huge", "endless"])
def test_a_reply_has_a_bound(server, endpoint, mood):
    server.mood = mood
    assert error_of(endpoint(most_bytes=100_000)) == "reply too large"


def test_a_reply_as_long_as_the_bound_is_read(server, endpoint):
    size = len(reply("hello!"))
    assert ask(endpoint(most_bytes=size), "hello") == [Completion("hello!")]
    assert error_of(endpoint(most_bytes=size - 1)) == "reply too large"


@pytest.mark.parametrize(
    "mood", ["silent", "drips its head", "drips its body", "drips chunks", "goes on and on"]
)
def test_the_deadline_is_for_the_whole_call(server, endpoint, mood):
    server.mood = mood
    assert error_of(endpoint(timeout=0.5)) == "timeout"


def test_one_slow_prompt_spoils_no_other(server, endpoint):
    model = endpoint(timeout=0.5)
    assert ask(model, "a")[0].text == "a!"
    server.mood = "silent"
    assert ask(model, "b")[0].error == "timeout"
    server.mood = "normal"
    assert ask(model, "c", "d") == [Completion("c!"), Completion("d!")]


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_closed_port_refuses(endpoint):
    assert error_of(endpoint(url=f"http://127.0.0.1:{closed_port()}")) == "refused connection"


def test_a_name_that_nobody_has_is_unreachable(endpoint):
    assert error_of(endpoint(url="http://nobody.invalid")) == "unreachable"
    assert error_of(endpoint(url=f"http://{'x' * 80}.invalid")) == "unreachable"


def test_a_look_up_that_hangs_keeps_to_the_deadline(endpoint, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(PATIENCE))
    assert error_of(endpoint(timeout=0.2)) == "timeout"
    over.set()


# The circuit breaker


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_circuit_opens_and_closes_again(server, endpoint):
    clock = Clock()
    model = endpoint(
        concurrency=1, retries=0, breaker_failures=3, breaker_cooldown=30.0, clock=clock
    )
    server.mood = "status 500"
    errors = [result.error for result in ask(model, *"abcdef")]
    assert errors == ["http 500"] * 3 + ["circuit open"] * 3
    assert len(server.requests) == 3

    clock.now = 29.0
    assert error_of(model) == "circuit open"
    clock.now = 31.0
    assert [result.error for result in ask(model, "a", "b")] == ["http 500", "circuit open"]
    assert len(server.requests) == 4

    server.mood, clock.now = "normal", 62.0
    assert ask(model, "a", "b") == [Completion("a!"), Completion("b!")]


def test_an_open_circuit_is_quick(endpoint):
    model = endpoint(url=f"http://127.0.0.1:{closed_port()}", concurrency=2, breaker_failures=2)
    errors = [result.error for result in ask(model, *"x" * 500)]
    assert set(errors[:2]) == {"refused connection"} and set(errors[-400:]) == {"circuit open"}


@pytest.mark.parametrize("mood", ["status 429", "status 404", "list", "empty", "huge"])
def test_an_answer_of_any_kind_keeps_the_circuit_closed(server, endpoint, mood):
    server.mood = mood
    model = endpoint(retries=0, breaker_failures=2, concurrency=1)
    assert "circuit open" not in [result.error for result in ask(model, *"abcdef")]


def test_one_probe_at_a_time():
    clock = Clock()
    breaker = CircuitBreaker(1, 10.0, clock)
    late = breaker.admit()
    breaker.report(breaker.admit(), alive=False)
    assert breaker.admit() == ""
    clock.now = 10.0
    assert [breaker.admit() for _ in range(3)] == ["probe", "", ""]
    breaker.report(late, alive=False)  # a call from before; it is not the probe
    assert breaker.admit() == ""
    breaker.report("probe", alive=True)
    assert breaker.closed and breaker.admit() == "call"


def test_failures_count_only_in_a_row():
    breaker = CircuitBreaker(2, 10.0, Clock())
    for alive in (False, True, False, True, False):
        breaker.report(breaker.admit(), alive=alive)
    assert breaker.closed


# Copies, processes, keys


def test_a_used_model_survives_pickle_and_copy(server, endpoint):
    model = endpoint(api_key=KEY, extra={"top_p": 0.5})
    ask(model, "hello")
    for twin in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        with twin:
            assert twin == model and ask(twin, "again") == [Completion("again!")]
    assert ask(model, "still here") == [Completion("still here!")]


def test_an_environment_spec_may_hold_a_model(endpoint):
    model = endpoint()
    spec = copy.deepcopy(gym.spec("CartPole-v1"))  # not the registry's own
    spec.kwargs["writer"] = model
    again = pickle.loads(pickle.dumps(copy.deepcopy(spec)))
    assert again == spec and again.kwargs["writer"].timeout == 10.0


def forked(model, results):
    results.put(ask(model, "from a child"))
    model.close()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_used_model_survives_a_fork(server, endpoint):
    model = endpoint(concurrency=2)
    ask(model, "a", "b", "c")
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=forked, args=(model, results), daemon=True)
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0 and results.get() == [Completion("from a child!")]
    assert ask(model, "from the parent") == [Completion("from the parent!")]


def test_threads_begin_with_a_call_and_end_with_close(server, endpoint):
    def running():
        return [t for t in threading.enumerate() if t.name.startswith("convgym-endpoint")]

    before, model = len(running()), endpoint()
    assert len(running()) == before
    ask(model, "a", "b")
    assert len(running()) > before
    model.close()
    model.close()
    assert len(running()) == before
    assert ask(model, "again") == [Completion("again!")]


def test_closing_during_a_batch_raises_nothing(server, endpoint):
    server.mood, model, results = "slow", endpoint(concurrency=2), []
    thread = threading.Thread(target=lambda: results.extend(ask(model, *"abcdefgh")))
    thread.start()
    time.sleep(0.1)
    model.close()
    thread.join(PATIENCE)
    assert len(results) == 8
    pairs = zip(results, "abcdefgh", strict=True)
    assert all(
        result in (Completion(f"{text}!"), Completion("", "closed")) for result, text in pairs
    )
    assert results[-1].error == "closed"


@pytest.mark.parametrize(
    "mood", ["normal", "status 401", "status 500", "status 302", "page", "nonsense"]
)
def test_no_text_of_ours_holds_the_key(server, endpoint, mood):
    server.mood = mood
    model = endpoint(api_key=KEY, url=f"{server.url}?key={KEY}")
    (result,) = ask(model, "hello")
    assert KEY not in f"{model!r} {model} {result} {[model]}"


@pytest.mark.parametrize("key", ["", f"{KEY}\r\nX-Evil: 1", f"{KEY} ", f"{KEY}é", 7])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key):
    with pytest.raises(InvalidConfiguration) as caught:
        EndpointModel("http://localhost", "tiny", key)
    assert KEY not in str(caught.value)


def test_a_key_may_stay_in_the_environment(server, endpoint, monkeypatch):
    with pytest.raises(InvalidConfiguration, match="api_key_variable") as caught:
        endpoint(api_key_variable=KEY)
    assert KEY not in str(caught.value)
    monkeypatch.setenv("CONVGYM_TEST_KEY", KEY)
    model = endpoint(api_key_variable="CONVGYM_TEST_KEY")
    assert ask(model, "hello") == [Completion("hello!")]
    assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in pickle.dumps(model)
    monkeypatch.delenv("CONVGYM_TEST_KEY")
    assert error_of(model) == "no api key"


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "localhost:8000"}, {"url": "ftp://localhost"}, {"url": "http://"}, {"url": None},
        {"url": "http://localhost:99999"}, {"url": "http://a b"}, {"url": "http://[::1"},
        {"url": "http://localhost/a\r\nb"}, {"url": f"http://me:{KEY}@localhost"},
        {"model": ""}, {"model": None}, {"timeout": 0}, {"timeout": float("nan")},
        {"timeout": "10"}, {"retries": -1}, {"retries": 1.5}, {"concurrency": 0},
        {"temperature": -1}, {"max_tokens": 0}, {"most_bytes": 0}, {"breaker_failures": 0},
        {"breaker_cooldown": -1.0}, {"clock": 3}, {"extra": {"seed": 3}}, {"extra": {"x": {1}}},
        {"api_key": KEY, "api_key_variable": "HOME"},
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_setting_fails_when_it_is_made(settings):
    with pytest.raises(InvalidConfiguration) as caught:
        EndpointModel(**{"url": "http://localhost", "model": "tiny", **settings})
    assert KEY not in str(caught.value)


# TLS


@pytest.fixture
def tls_server(server, tmp_path, monkeypatch):
    """The server behind a certificate of its own making."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl command to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    return f"https://localhost:{server.server_port}/v1", certificate


def test_tls_with_a_valid_certificate(tls_server, server, endpoint, monkeypatch):
    url, certificate = tls_server
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    model = endpoint(url=url, concurrency=1, timeout=5.0)
    assert ask(model, "a", "b", "c")[2] == Completion("c!")
    assert server.connections == 1
    for mood in ("drips its head", "drips its body"):
        server.mood = mood
        assert error_of(endpoint(url=url, timeout=0.8)) == "timeout"


def test_tls_with_an_unknown_certificate(tls_server, endpoint):
    assert error_of(endpoint(url=tls_server[0])) == "tls failure"


def test_tls_to_a_server_that_speaks_none(server, endpoint):
    model = endpoint(url=server.url.replace("http:", "https:"))
    assert error_of(model) in {"tls failure", "connection closed"}
