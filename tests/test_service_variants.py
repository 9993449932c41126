"""Several policies behind one service: who answers whom, and that it stays so."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import KEYS, refused, service
from typer.testing import CliRunner

from convgym.cli.main import app
from convgym.cli.serve_options import share_of
from convgym.data.growing_logs import GrowingLog
from convgym.errors import InvalidConfiguration
from convgym.service.application import create_app
from convgym.service.dialogue import Answer
from convgym.service.json_log import JsonLog
from convgym.service.keys import KeyRing
from convgym.service.settings import ServiceSettings
from convgym.service.variants import Split


class Says:
    """Replies with its own name."""

    def __init__(self, name):
        self.name = name

    def reply(self, history, seed, options):
        return Answer(f"{self.name} {len(history)}", ended=history[-1].content == "bye")


A, B, C = map(Says, "ABC")
NAMES = [f"conversation-{number}" for number in range(4_000)]


# The split


def shares_of(split, owner="me"):
    found = [split.of(owner, name).name for name in NAMES]
    return {name: found.count(name) / len(found) for name in set(found)}


def test_shares_are_those_asked_for():
    shares = shares_of(Split(A, [(B, 0.2), (C, 0.1)]))
    for name, share in {"A": 0.7, "B": 0.2, "C": 0.1}.items():
        assert abs(shares[name] - share) < 4 * (share * (1 - share) / len(NAMES)) ** 0.5
    assert shares_of(Split(A)) == {"A": 1.0}


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_name_has_its_variant_for_ever(key, owner, name):
    first, again = (Split(A, [(B, 0.5)], key).of(owner, name).name for _ in range(2))
    assert first == again


def test_another_key_draws_anew_and_a_share_that_grows_keeps_what_it_has():
    small, large, other = (
        [Split(A, [(B, share)], key).of("me", name).name for name in NAMES]
        for share, key in ((0.2, "x"), (0.5, "x"), (0.2, "y"))
    )
    assert all(more == "B" for less, more in zip(small, large, strict=True) if less == "B")
    both = sum(one == two == "B" for one, two in zip(small, other, strict=True)) / len(NAMES)
    assert 0.02 < both < 0.06, "two keys are independent: .2 of .2"


@pytest.mark.parametrize(
    "others", [[(B, 0.0)], [(B, 1.0)], [(B, 0.6), (C, 0.4)], [(B, -0.1)], [(Says("A"), 0.5)]]
)
def test_shares_and_names_that_are_not_allowed(others):
    with pytest.raises(InvalidConfiguration):
        Split(A, others)


# On the command line


@pytest.mark.parametrize(
    ("given", "found"),
    [("B=0.2", ("B", 0.2)), ("m:make=.5", ("m:make", 0.5)), ("runs/a=b/p.zip=0.1",
                                                             ("runs/a=b/p.zip", 0.1))],
)  # fmt: skip
def test_a_policy_and_its_share(given, found):
    assert share_of(given) == found


@pytest.mark.parametrize("given", ["B", "B=", "=0.2", "B=2", "B=0", "B=nan", "B:0.2"])
def test_what_is_no_policy_and_share_is_one_sentence(given):
    done = CliRunner().invoke(app, ["serve", "--policy", "oracle", "--also", given])
    assert done.exit_code == 2 and "as cql-0=0.2" in done.output


def test_another_policy_needs_a_first_one():
    env = ["--env", "ConvGym/TechnicalSupport-v0"]
    done = CliRunner().invoke(app, ["serve", *env, "--also", "oracle=0.2"])
    assert done.exit_code == 2 and "without --policy" in done.output


# Over HTTP


class Both:
    """A service of A and B, half and half."""

    def __init__(self, served):
        self.served = served

    def say(self, history, name=None, as_="mine"):
        body = {"history": history} | ({"conversation_id": name} if name else {})
        answer = self.served.post("/v1/reply", body, as_)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def both(tmp_path, monkeypatch):
    made = create_app

    def with_b(settings, keys, responder, log):
        return made(settings, keys, responder, log, [(B, 0.5)])

    monkeypatch.setattr("served.create_app", with_b)
    with service(responder=A, keyed=True, conversation_log=tmp_path / "talk.jsonl") as served:
        yield Both(served)


def user(text):
    return {"role": "user", "content": text}


def test_a_conversation_is_answered_by_one_policy_from_its_beginning_to_its_end(both, tmp_path):
    answered = {}
    for number in range(40):
        named = f"c-{number}" if number % 2 else None
        history = []
        for text in (f"{number}", "and?", "bye"):
            history.append(user(text))
            told = both.say(history, named)
            history.append({"role": "assistant", "content": told["reply"]})
            answered.setdefault(told["conversation_id"], set()).add(told["policy"])
            assert told["reply"].split()[0] == told["policy"]
    assert len(answered) == 40 and all(len(policies) == 1 for policies in answered.values())
    assert set.union(*answered.values()) == {"A", "B"}
    logged = GrowingLog(tmp_path / "talk.jsonl").read()
    assert {one.metadata["conversation"]: {one.metadata["policy"]} for one in logged} == answered
    assert {one.metadata["share"] for one in logged} == {0.5}
    assert not any(one.metadata["resumed"] for one in logged)


def test_chat_completions_say_who_answered(both):
    told = both.served.post("/v1/chat/completions", {"messages": [user("Hi")]}).json()
    name = told["convgym"]["conversation_id"]
    again = both.served.post(
        "/v1/chat/completions", {"messages": [user("Hi")], "conversation_id": name, "stream": True}
    ).text
    assert f'"model": "{told["model"]}"' in again and name in again
    models = both.served.get("/v1/models").json()["data"]
    assert [one["id"] for one in models] == ["A", "B"]


def test_replies_are_counted_by_policy(both):
    for number in range(20):
        both.say([user("Hi")], f"c-{number}")
    metrics = both.served.get("/metrics").text
    counts = [line for line in metrics.splitlines() if line.startswith("convgym_replies_total{")]
    assert len(counts) == 2 and sum(int(line.split()[-1]) for line in counts) == 20


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "ü", "a\n", 5, ["x"]])
def test_names_that_are_not_allowed(both, name):
    body = {"history": [user("Hi")], "conversation_id": name}
    refused(both.served.post("/v1/reply", body), 422, "not_allowed")


# Outcomes over HTTP


def test_an_outcome_is_noted_whoever_asks_and_told_to_nobody(both, tmp_path):
    both.say([user("Hi")], "x")
    told = []
    for name, owner in (("x", "yours"), ("never-heard-of", "yours"), ("x", "mine")):
        body = {"conversation_id": name, "reward": 0.5}
        answer = both.served.post("/v1/outcome", body, owner)
        assert answer.status_code == 200
        told.append({**answer.json(), "conversation_id": ""})
    assert told[0] == told[1] == told[2], "nobody learns which conversations there are"
    log = GrowingLog(tmp_path / "talk.jsonl")
    assert [one.reward for one in log.read()] == [0.5]
    assert set(log.outcomes) == {("yours", "x"), ("yours", "never-heard-of")}


@pytest.mark.parametrize(
    "body",
    [{}, {"conversation_id": "x"}, {"conversation_id": "x", "reward": "1"},
     {"conversation_id": "x", "success": 1}, {"reward": 1.0},
     {"conversation_id": "x", "reward": 1.0, "note": "hello"}],
)  # fmt: skip
def test_outcomes_that_are_not_allowed(both, body):
    refused(both.served.post("/v1/outcome", body), 422, "not_allowed")


def test_an_outcome_that_is_no_number_is_not_allowed(both):
    raw = b'{"conversation_id": "x", "reward": 1e999}'
    answer = both.served.post(
        "/v1/outcome", content=raw, headers={"Content-Type": "application/json"}
    )
    refused(answer, 422, "not_allowed")


def test_without_a_log_there_is_nowhere_to_note_it():
    with service(responder=A) as served:
        body = {"conversation_id": "x", "success": True}
        refused(served.post("/v1/outcome", body), 404, "no_log")
        assert served.post("/v1/reply", {"history": [user("Hi")]}).json()["policy"] == "A"


def test_policies_of_the_same_file_name_are_called_as_they_were_typed(tmp_path, monkeypatch):
    from convgym.service import start as starting

    for folder in ("one", "two"):
        (tmp_path / f"{folder}_to_serve.py").write_text(
            f"def make():\n    return lambda messages: {folder!r}\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    made = []
    monkeypatch.setattr(starting, "responder_of", lambda name, *_: Says("policy"))
    monkeypatch.setattr("convgym.service.server.serve", lambda app, *_: made.append(app))
    settings = ServiceSettings(
        environments=("ConvGym/TechnicalSupport-v0",), also=(("b/policy.zip", 0.3),)
    )
    stream = io.StringIO()
    starting.start(settings, KeyRing(KEYS.items()), "a/policy.zip", JsonLog(stream))
    from starlette.testclient import TestClient

    with TestClient(made[0], base_url="http://localhost"):
        pass
    started = json.loads(stream.getvalue().splitlines()[0])
    assert started["policies"] == {"a/policy.zip": 0.7, "b/policy.zip": 0.3}
