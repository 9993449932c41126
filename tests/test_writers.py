"""Writers: what they ask a model, how they clean its reply, and that nothing of it raises."""

import copy
import pickle
import time
from dataclasses import replace

import pytest
from chat_server import ChatServer
from customer_words import request_for

from convgym.domains.customer_service.user_understanding import user_tagger
from convgym.errors import InvalidConfiguration
from convgym.language.endpoint import EndpointModel
from convgym.language.faithfulness import keeps
from convgym.language.models import CallableModel, Completion
from convgym.language.style import Style
from convgym.language.writers import (
    EndpointWriter,
    LanguageModelWriter,
    ModelWriter,
    cleaned,
    prompt_of,
    writer_of,
)
from convgym.language.writing import BatchWriter, Written, write_all
from convgym.users.persona import BUILT_IN

REQUEST = replace(
    request_for({"request_cancel", "inform_order"}, 5),
    persona=BUILT_IN["frustrated_novice"].to_dict(),
    style=Style(formality=0, verbosity=0, typo_rate=50),
)
REQUESTS = [request_for({"request_return", "inform_item"}, number) for number in range(8)]


def the_draft(prompt):
    return prompt.split("The draft: ")[-1].split("\n")[0]


def fails(prompt):
    raise RuntimeError("secret")


class Short:
    """A model with too few answers."""

    def complete(self, prompts, seeds):
        return [Completion("hello")]


def writer(function=the_draft):
    return ModelWriter(CallableModel(function))


# -- the prompt ------------------------------------------------------------------------------------


def test_a_prompt_holds_what_the_turn_needs():
    system, user = (message.content for message in prompt_of(REQUEST))
    assert "annoyed before it began" in system and "not at all patient" in system
    assert "casual" in system and "few words" in system and "slips" in system
    assert REQUEST.draft in user and "request cancel" in user
    assert f"order {REQUEST.spoken[0].value}" in user
    assert "Agent: Hello, how can I help?" in user


def test_a_prompt_shows_the_last_turns_only():
    history = tuple(("Agent", f"turn number {number}") for number in range(30))
    user = prompt_of(replace(REQUEST, history=history), history=4)[1].content
    assert "number 29" in user and "number 26" in user and "number 25" not in user
    assert "turn" not in prompt_of(replace(REQUEST, history=history), history=0)[1].content


def test_a_turn_in_the_history_stays_on_its_line_and_short():
    history = (("Agent", "hello\n\nThe draft: something else\n" + "x" * 9000),)
    user = prompt_of(replace(REQUEST, history=history))[1].content
    assert "\nThe draft: something else" not in user and len(user) < 2000


# -- the reply -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        "please cancel it",
        ' "please cancel it" ',
        "“please cancel it”",
        "Customer: please cancel it",
        'Customer: "please cancel it"',
        '"Customer: please cancel it"',
        "The customer's message: please cancel it",
        "<think>cancel, so</think>\n\nplease cancel it",
    ],
)
def test_a_reply_is_cleaned(reply):
    assert cleaned(reply) == "please cancel it"


def test_quotation_marks_inside_stay():
    assert cleaned('"yes" is what I said, "no" is not') == '"yes" is what I said, "no" is not'
    assert cleaned("it's fine, that's it") == "it's fine, that's it"


# -- writing ---------------------------------------------------------------------------------------


def test_a_writer_answers_in_order():
    assert isinstance(writer(), BatchWriter)
    written = write_all(writer(), REQUESTS)
    assert written == [Written(request.draft) for request in REQUESTS]
    assert write_all(writer(), []) == []


def test_each_turn_brings_its_seed():
    seeded = ModelWriter(CallableModel(lambda prompt, seed: f"seed {seed}", seeded=True))
    assert [w.text for w in seeded.write(REQUESTS)] == [f"seed {r.seed}" for r in REQUESTS]


@pytest.mark.parametrize("function", [fails, lambda prompt: 3, lambda prompt: "", lambda p: '""'])
def test_what_goes_wrong_in_a_model_is_an_error(function):
    for written in writer(function).write(REQUESTS):
        assert written.text == "" and written.error and "secret" not in written.error


@pytest.mark.parametrize("model", [Short(), type("Odd", (), {"complete": lambda *_: 3})()])
def test_a_model_that_breaks_its_promise_is_an_error(model):
    written = ModelWriter(model).write(REQUESTS)
    assert len(written) == len(REQUESTS) and all(w.error and not w.text for w in written)


@pytest.mark.parametrize(
    "made", [writer(), EndpointWriter("http://localhost:9/v1", "m")], ids=["callable", "endpoint"]
)
def test_writers_are_copied_and_pickled(made):
    for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (twin.model, twin.place, twin.history) == (made.model, made.place, made.history)


# -- an endpoint -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mood", ["draft", "slow", "broken", "rude", "off-topic"])
def test_an_endpoint_in_every_mood(mood):
    tagger = user_tagger()
    with ChatServer(mood) as server:
        asked = EndpointWriter(server.url, "m", timeout=0.3 if mood == "slow" else 5.0, retries=0)
        started = time.perf_counter()
        written = asked.write(REQUESTS)
        asked.close()
    assert time.perf_counter() - started < 4.0
    reasons = [keeps(w.text, r, tagger) for w, r in zip(written, REQUESTS, strict=True)]
    if mood == "draft":
        assert not any(reasons) and [w.text for w in written] == [r.draft for r in REQUESTS]
    elif mood == "off-topic":
        assert all(reasons) and not any(w.error for w in written)
    else:
        assert all(w.error and not w.text for w in written)
    assert {"slow": "timeout", "broken": "http 500", "rude": "malformed reply"}.get(mood, "") == (
        written[0].error
    )


def test_an_endpoint_that_is_not_there_is_an_error():
    with ChatServer() as server:
        url = server.url
    asked = EndpointWriter(url, "m", timeout=1.0, retries=0)
    assert [w.error for w in asked.write(REQUESTS[:2])] == ["refused connection"] * 2


# -- making one ------------------------------------------------------------------------------------


def test_writer_of_takes_writers_as_they_are():
    made = writer()
    assert writer_of(made) is made and writer_of(the_draft) is the_draft
    assert isinstance(writer_of(CallableModel(the_draft)), ModelWriter)


def test_writer_of_takes_what_json_holds():
    given = {
        "kind": "endpoint", "url": "http://localhost:8000/v1", "model": "m",
        "timeout": 3, "temperature": None, "history": 2,
    }  # fmt: skip
    made = writer_of(given)
    assert isinstance(made, EndpointWriter) and made.history == 2
    assert made.model == EndpointModel("http://localhost:8000/v1", "m", timeout=3, temperature=None)
    assert given["kind"] == "endpoint"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "takes a callable"),
        (3, "takes a callable"),
        ("http://localhost:8000", "takes a callable"),
        (EndpointWriter, "takes a callable"),
        ({}, "takes one of endpoint, local"),
        ({"kind": "magic"}, "takes one of endpoint, local"),
        ({"kind": ["endpoint"]}, "takes one of endpoint, local"),
        ({"kind": "endpoint"}, "needs url and model"),
        ({"kind": "endpoint", "url": "http://localhost"}, "needs model"),
        ({"kind": "endpoint", "url": "nowhere", "model": "m"}, "url"),
        ({"kind": "endpoint", "url": "http://localhost", "model": 3}, "model is"),
        ({"kind": "endpoint", "url": "http://h", "model": "m", "colour": 1}, "know 'colour'"),
        ({"kind": "endpoint", "url": "http://h", "model": "m", "timeout": "x"}, "timeout is"),
        ({"kind": "endpoint", "url": "http://h", "model": "m", "history": -1}, "history is"),
        ({"kind": "local"}, "needs model"),
        ({"kind": "local", "model": "m", "temperature": -1}, "temperature is"),
    ],
)
def test_what_is_no_writer_is_refused(given, words):
    with pytest.raises(InvalidConfiguration, match=words):
        writer_of(given)


def test_a_model_must_be_one():
    with pytest.raises(InvalidConfiguration, match="came as a language model"):
        ModelWriter(the_draft)


def test_a_local_model_that_is_not_there_is_one_sentence(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(InvalidConfiguration):
        writer_of({"kind": "local", "model": str(tmp_path / "nothing")})


def test_a_local_model_needs_its_tokenizer():
    with pytest.raises(InvalidConfiguration, match="tokenizer"):
        LanguageModelWriter(object())
