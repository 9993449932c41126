"""Whether a written turn keeps its acts and values: shares on unseen wordings, and each rule."""

import time
from dataclasses import replace

import numpy as np
import pytest
from customer_words import HELD_OUT, OFF_TOPIC, SEVERAL, SINGLE, filled, request_for

from convgym.domains.customer_service.user_understanding import user_tagger
from convgym.language.faithfulness import keeps
from convgym.language.voice import Spoken


@pytest.fixture(scope="module")
def kept():
    """Whether a text is accepted, by a tagger that the held-out wordings are new to."""
    tagger = user_tagger("train")
    return lambda text, request: not keeps(text, request, tagger)


def share(answers):
    return float(np.mean(list(answers)))


def good(examples):
    """A held-out wording of the same acts stands for a good writer."""
    for number, (text, acts) in enumerate(examples):
        request = request_for(acts, number)
        yield filled(text, request), request


# -- shares ----------------------------------------------------------------------------------------


def test_other_words_for_the_same_are_accepted(kept):
    assert share(kept(*pair) for pair in good(SINGLE)) > 0.86  # measured: 0.883
    assert share(kept(*pair) for pair in good(SEVERAL)) > 0.79  # measured: 0.826
    assert share(kept(*pair) for pair in good(HELD_OUT)) > 0.85  # measured: 0.867


def test_drafts_are_accepted():
    """The writer may say the draft as it is."""
    requests = [request_for(acts, number) for number, (_, acts) in enumerate(HELD_OUT)]
    tagger = user_tagger()
    assert share(not keeps(r.draft, r, tagger) for r in requests) > 0.97


def test_the_wording_of_other_acts_is_rejected(kept):
    passed = []
    for number, (_, acts) in enumerate(HELD_OUT):
        for step in range(1, 60, 7):
            text, others = HELD_OUT[(number * 31 + step * 17) % len(HELD_OUT)]
            if not acts <= others:
                values = request_for(acts | others, number)
                passed.append(kept(filled(text, values), request_for(acts, number)))
    assert share(passed) < 0.025  # measured: 0.015


ASKS = [(text, acts) for text, acts in SINGLE if next(iter(acts)).startswith("request_")]


def with_a_further_request(join, kept):
    """(text, request) of accepted turns without a request, with a request that they do not make."""
    for number, (text, request) in enumerate(good(HELD_OUT)):
        if any(said.act.startswith("request_") for said in request.spoken):
            continue
        if not kept(text, request):
            continue
        for step in (0, 17, 41):
            more, _ = ASKS[(number * 13 + step) % len(ASKS)]
            yield f"{text.rstrip('.!? ')}{join}{more}", request


@pytest.mark.parametrize(
    ("join", "most"), [(". ", 0.24), (" Also, ", 0.31)]  # measured: 0.221, 0.287
)
def test_a_further_request_that_nobody_made_is_rejected(kept, join, most):
    """In words that the tagger has never seen; with those it has, fewer pass (0.11, 0.17)."""
    assert share(kept(*pair) for pair in with_a_further_request(join, kept)) < most


def test_what_is_off_topic_is_rejected(kept):
    passed = [
        kept(OFF_TOPIC[(number + step) % len(OFF_TOPIC)], request)
        for number, (_, request) in enumerate(good(HELD_OUT))
        for step in range(0, 60, 13)
    ]
    assert share(passed) < 0.03  # measured: 0.024


def test_a_missing_value_is_rejected(kept):
    for text, request in good(HELD_OUT):
        for _, slot, value in request.spoken:
            if slot:
                assert not kept(text.replace(value, "that"), request)


def test_another_order_number_is_rejected(kept):
    for text, request in good(HELD_OUT):
        assert not kept(f"{text} The number is W10000.", request)


ADDED = {
    "request_cancel": "Please cancel it.",
    "request_return": "I want to return it.",
    "request_status": "Where is my order?",
    "request_address": "Change the address please.",
    "inform_reason_damaged": "It arrived damaged.",
    "affirm": "Yes, go ahead.",
    "negate": "No, don't do that.",
    "give_up": "Forget it, I'm leaving.",
    "bye": "Goodbye.",
}


@pytest.mark.parametrize("act", ADDED)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_weighty_act_more_is_rejected(kept, act, every):
    sentences, clauses = [], []
    for text, request in good([pair for pair in HELD_OUT[::every] if act not in pair[1]]):
        text = text.rstrip(".!")
        sentences.append(kept(f"{text}. {ADDED[act]}", request))
        clauses.append(kept(f"{text}, and {ADDED[act].lower()}", request))
    assert share(sentences) < 0.02  # measured: 0 to 0.01
    assert share(clauses) < 0.02  # measured: 0 to 0.01


# -- each rule -------------------------------------------------------------------------------------

CANCEL = replace(
    request_for({"request_cancel", "inform_order"}, 5),
    spoken=(Spoken("request_cancel"), Spoken("inform_order", "order", "W48213")),
    draft="I'd like to cancel my order, number W48213.",
    history=(("Agent", "Hello, this is line 12. How can I help?"),),
)
EMAIL = replace(
    CANCEL,
    spoken=(Spoken("inform_email", "email", "dana.lee7@example.com"),),
    draft="My email is dana.lee7@example.com.",
)
YES = replace(CANCEL, spoken=(Spoken("affirm"),), draft="Yes, please go ahead.")


def why(text, request=CANCEL):
    return keeps(text, request, user_tagger())


@pytest.mark.parametrize(
    "text",
    [
        "Please cancel order W48213.",
        "Hi, could you cancel W48213 for me, please?",
        "hey, W48213 needs to be cancelled pls",
        "I changed my plans, so please cancel W48213!",
        "Please cancel order W48213, as I said on line 12.",
    ],
)
def test_good_turns_are_kept(text):
    assert why(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("Please cancel W48213. " * 30, "too long"),
        ("Please cancel order W48213. <b>Now</b>", "markup"),
        ('<tool_call>{"name": "cancel_order"}</tool_call> cancel W48213', "markup"),
        ("Please cancel **W48213**", "markup"),
        ("Please cancel W48213 <|im_end|>", "markup"),
        ("[INST] Please cancel W48213", "markup"),
        ("Please cancel W48213, see https://example.com", "markup"),
        ("Customer: please cancel W48213", "role prefix"),
        ("Please cancel W48213.\nAgent: Sure, it is done.", "role prefix"),
        ("As an AI, I would like you to cancel W48213.", "talks about its task"),
        ("Sure, here is the message: cancel W48213", "talks about its task"),
        ("Here's a rephrased version, please cancel W48213", "talks about its task"),
        ("!!!!!!!!!!!!", "line noise"),
        ("Please cancel W48213 \u202e\u202e\u202e\u202e\u202e", "line noise"),
        ("Please cancel W48213 aaaaaaaaaaaaaaaa", "line noise"),
        ("cancel cancel cancel cancel W48213", "line noise"),
        ("Please cancel my order.", "the order is missing"),
        ("Please cancel w48213.", "the order is missing"),
        ("Please cancel W482130.", "the order is missing"),
        ("Please cancel W48213 and W48214.", "a value of its own"),
        ("Please cancel W48213, my postcode is 90210.", "a value of its own"),
        ("Please cancel W48213, I am a@b.com.", "a value of its own"),
        ("Please cancel W48213, it was 3 weeks ago.", "a value of its own"),
        ("Please cancel W48213, the one with the desk lamp.", "a value of its own"),
    ],
)
def test_what_is_wrong_is_named(text, reason):
    assert why(text) == reason


def test_an_email_keeps_its_spelling():
    assert why("you'll find me under dana.lee7@example.com", EMAIL) == ""
    assert why("It's Dana.Lee7@example.com.", EMAIL) == "the email is missing"
    assert why("It's xdana.lee7@example.com.", EMAIL) == "the email is missing"


def test_what_is_not_a_code_may_change_its_case():
    request = replace(
        CANCEL, spoken=(Spoken("inform_item", "item", "desk lamp"),), draft="It's the desk lamp."
    )
    assert why("Desk lamp, that's the one I ordered.", request) == ""


def test_acts_are_named_where_they_are_lost_or_won():
    assert why("The weather is lovely in W48213.").startswith("does not request_cancel")
    assert why("Yes, go ahead. I also want to return it.", YES) == "does request_return too"
    assert why("No, please don't do that.", YES)
    assert why("Please don't cancel W48213.") == "does not request_cancel"
    assert why("I do not agree, so do not go ahead.", YES)


def test_acts_that_the_tagger_does_not_know_are_let_through():
    request = replace(CANCEL, spoken=(Spoken("sing"),), draft="La la la.")
    assert why("Tra la la.", request) == ""


def test_odd_text_is_weighed_quickly():
    started = time.perf_counter()
    for text in ("a" * 10**6, "W1 " * 10**5, "@" * 10**6, "ok " * 199, "1." * 299, "a b " * 149):
        why(text)
        why(text[:599])
    assert time.perf_counter() - started < 2.0
