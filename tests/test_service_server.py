"""The real server: sockets, clients that dawdle, signals; and `convgym serve`."""

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")

from service_process import KEY, ROOT, ServiceProcess
from typer.testing import CliRunner

from convgym.cli.main import app
from convgym.data.logs import read_log
from convgym.errors import InvalidConfiguration
from convgym.service.server import bound


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    settings = {"header_timeout_s": 0.5, "body_timeout_s": 0.5, "max_body_bytes": 10_000}
    with ServiceProcess(tmp_path_factory.mktemp("served"), **settings) as process:
        yield process


def raw(served, sent, wait=5.0):
    """What comes back on a plain socket, and after how long it is closed."""
    begun, received = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", served.port), timeout=wait) as plain:
        plain.sendall(sent)
        try:
            while part := plain.recv(65536):
                received += part
        except ConnectionError:
            pass
    return received, time.monotonic() - begun


def test_a_conversation_over_real_sockets(served):
    with_one = served.connect()
    status, session = served.ask("POST", "/v1/env/reset", {"seed": 3}, connection=with_one)
    assert status == 200
    step = {"session_id": session["session_id"], "action": "Hello."}
    assert served.ask("POST", "/v1/env/step", step, connection=with_one)[1]["turn"] == 1
    history = {"history": [{"role": "user", "content": "Hello."}]}
    assert served.ask("POST", "/v1/reply", history)[1]["reply"].startswith("Hello")
    assert served.ask("GET", "/healthz", key="")[0] == 200
    assert served.ask("GET", "/v1/service", key="")[0] == 401
    assert b"convgym_sessions 1" in served.ask("GET", "/metrics")[1]


def test_half_a_header_is_not_waited_for(served):
    received, seconds = raw(served, b"POST /v1/reply HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    assert received == b"" and seconds < 3.0


def test_nothing_at_all_is_not_waited_for(served):
    assert raw(served, b"")[1] < 3.0


def test_half_a_body_is_not_waited_for(served):
    head = (
        f"POST /v1/reply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    received, seconds = raw(served, head.encode())
    assert b" 408 " in received and seconds < 3.0


def test_a_second_request_on_a_connection_must_be_in_time_too(served):
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", served.port), timeout=5.0) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while not received.endswith(b"}"):
            received += plain.recv(65536)
        plain.sendall(b"GET /heal")
        assert plain.recv(65536) == b""
    assert time.monotonic() - begun < 3.0


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"\x16\x03\x01\x02\x00\x01", b" 400 "), (b"GET / HTTP/9\r\n\r\n", b" 400 "),
     (b"GET /" + b"x" * 200_000, b" 400 ")],
    ids=["tls", "another version", "endless path"],
)  # fmt: skip
def test_what_is_no_http_is_answered_and_forgotten(served, sent, status):
    received, _ = raw(served, sent)
    assert status in received or received == b""
    assert served.ask("GET", "/healthz", key="")[0] == 200


def test_slow_clients_do_not_hold_the_others(served):
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
    for one in slow:
        one.sendall(b"POST /v1/reply HTTP/1.1\r\nHost: x\r\n")
    begun = time.monotonic()
    assert served.ask("GET", "/v1/service")[0] == 200
    assert time.monotonic() - begun < 2.0
    for one in slow:
        one.close()


def test_requests_under_way_are_answered_before_it_stops(tmp_path):
    """And what was said is in the log, and the key is not in what the process wrote."""
    (tmp_path / "slow_to_serve.py").write_text(
        "import time\n"
        "def make():\n"
        "    def reply(messages):\n"
        "        time.sleep(1.0 if messages[-1]['content'] == 'slowly' else 0.0)\n"
        "        return 'Done.'\n"
        "    return reply\n"
    )
    path = tmp_path / "talk.jsonl"
    process = ServiceProcess(tmp_path, "slow_to_serve:make", conversation_log=path)
    answers = []
    with process as served:
        session = served.ask("POST", "/v1/env/reset", {})[1]
        step = {"session_id": session["session_id"], "action": "Hello."}
        assert served.ask("POST", "/v1/env/step", step)[0] == 200
        body = {"history": [{"role": "user", "content": "slowly"}]}
        asking = threading.Thread(
            target=lambda: answers.append(served.ask("POST", "/v1/reply", body))
        )
        asking.start()
        time.sleep(0.4)
        assert served.stop() == 0
        asking.join()
    assert answers[0][0] == 200 and answers[0][1]["reply"] == "Done."
    assert [event["event"] for event in process.events][-1] == "stopped"
    assert not any(KEY in str(event) for event in process.events)
    assert not [event for event in process.events if event["event"] in ("noise", "raised")]
    sources = sorted(one.metadata["source"] for one in read_log(path))
    assert sources == ["chat", "environment session"]


def test_an_address_that_is_taken_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidConfiguration, match="cannot be bound"):
            bound("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(InvalidConfiguration, match="is no address"):
        bound("no.such.host.invalid", 0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--host", "0.0.0.0"], "no API key was given"),
        (["--api-key-file", "/nowhere/keys.txt"], "cannot be read"),
        (["--env", "CartPole-v9"], "no environment is called"),
        (["--env", "ConvGym/TechnicalSupport-v0", "--policy", "nobody"], "no policy is called"),
        (["--env", "ConvGym/OwnDomain-v0"], "folder"),
        (["--with", "novalue"], "no name=value"),
        (["--reports", "/nowhere"], "is no folder"),
        (["--port", "99999"], "port=99999"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_one_sentence(given, told):
    done = CliRunner().invoke(app, ["serve", *given])
    assert done.exit_code == 2 and told in done.output and "Traceback" not in done.output


def test_without_the_extra_it_says_what_to_install(tmp_path):
    code = (
        "import sys\nsys.modules['fastapi'] = None\nfrom convgym.cli.main import app\n"
        "app(['serve', '--env', 'ConvGym/TechnicalSupport-v0'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1 and 'pip install "convgym[serve]"' in done.stderr
    assert "Traceback" not in done.stderr
