"""A service in this process for tests: its client, and what it logged."""

import io
import json
from contextlib import contextmanager

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")
pytest.importorskip("httpx2", reason="its test client needs httpx2")

from starlette.testclient import TestClient

from convgym.service.application import create_app
from convgym.service.json_log import JsonLog
from convgym.service.keys import KeyRing
from convgym.service.settings import ServiceSettings
from convgym.service.start import responder_of

ENV = "ConvGym/TechnicalSupport-v0"
"""The one whose user's words are read without a model that takes seconds to fit."""
KEYS = {"mine": "the-key-that-is-mine-123", "yours": "the-key-that-is-yours-45"}


class Served:
    """`post` and `get` as "mine"; `as_` for another key, or none."""

    def __init__(self, client, log, keyed):
        self.client, self.log, self._keyed = client, log, keyed

    def headers(self, name="mine"):
        return {"Authorization": f"Bearer {KEYS[name]}"} if self._keyed and name else {}

    def post(self, path, body=None, as_="mine", **given):
        if body is not None:
            given["json"] = body
        headers = {**self.headers(as_), **given.pop("headers", {})}
        return self.client.post(path, headers=headers, **given)

    def get(self, path, as_="mine", **given):
        return self.client.get(path, headers=self.headers(as_), **given)

    def reset(self, as_="mine", **asked):
        answer = self.post("/v1/env/reset", asked, as_)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def step(self, session, action, as_="mine", **more):
        body = {"session_id": session["session_id"], "action": action, **more}
        return self.post("/v1/env/step", body, as_)

    def events(self):
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@contextmanager
def service(policy=None, keyed=False, responder=None, **settings):
    """A running service."""
    settings = ServiceSettings(**{"environments": (ENV,), "requests_per_s": 1e6, **settings})
    if policy is not None:
        responder = responder_of(policy, settings)
    log = io.StringIO()
    keys = KeyRing(KEYS.items()) if keyed else KeyRing()
    app = create_app(settings, keys, responder, JsonLog(log))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=True) as client:
        yield Served(client, log, keyed)


def refused(answer, status, code):
    """Whether it is refused so, in one sentence of JSON and nothing of a traceback."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code and error["message"]
    assert "Traceback" not in answer.text and ".py" not in answer.text
    return error["message"]
