"""Exchange, refund, subscription, access, warranty and billing in an agent's words: labelled
replies, the agent's own wordings, and sentences that no customer would take for what they seem."""

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.domains.customer_service.changes import ELSEWHERE
from convgym.domains.customer_service.claims import OFFERS, REASONS, SLOTS, TERMS, WRITES, Claim
from convgym.domains.customer_service.understanding import lexicon, read_speech
from convgym.language.phrases import packaged_banks

SCRIPT = Path(__file__).parents[1] / "scripts" / "eval_understanding.py"
DATA = Path(__file__).parent / "data"
WEIGHTY = ("inform", "confirm", "done", "deny", "offer", "promise")


def rows_of(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


TRICKS = rows_of("tricks_breadth.jsonl")
ATTACKS = rows_of("attacks_breadth.jsonl")
TUNING = rows_of("replies_breadth_tuning.jsonl")


@cache
def evaluation():
    """The script that measures labelled replies and wordings."""
    spec = importlib.util.spec_from_file_location("eval_understanding", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def weighty(text):
    return [claim for claim in read_speech(text) if claim.act in WEIGHTY]


# -- labelled replies ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "exact", "mean", "abstained"),
    [
        ("replies_breadth_tuning.jsonl", 0.96, 0.96, 0.03),
        ("replies_breadth_held_out.jsonl", 0.85, 0.92, 0.05),
    ],
)
def test_labelled_replies_are_read(file, exact, mean, abstained):
    """The held-out floors stand below what was measured, its replies unseen: 0.89, 0.95, 0.02."""
    reading = evaluation().labelled(DATA / file)
    assert reading.exact.value >= exact and reading.abstained.value <= abstained
    assert reading.macro_f1() >= mean
    for act in ("deny", "offer", "done", "confirm"):
        assert reading.precision(act) >= 0.97, act


def test_every_act_has_labelled_replies_in_both_halves():
    acts = {f"deny({reason})" for reason in REASONS[3:] if reason != "final_sale"}
    acts -= {"deny(already_shipped)"}  # those of the older requests
    acts |= {f"offer({offer})" for offer in OFFERS[3:]}
    acts |= {f"{act}({w})" for act in ("confirm", "done", "promise") for w in WRITES[3:]}
    acts |= {f"ask({slot})" for slot in ("subscription", "charge", "variant", "defect", "cause")}
    acts |= {f"inform({t}={v})" for t, vs in TERMS.items() if t != "channel" for v in vs}
    for half in ("tuning", "held_out"):
        rows = rows_of(f"replies_breadth_{half}.jsonl")
        assert acts <= {label for row in rows for label in row["acts"]}, half


def test_no_reply_stands_in_both_halves():
    held_out = {row["text"] for row in rows_of("replies_breadth_held_out.jsonl")}
    assert held_out.isdisjoint(row["text"] for row in TUNING)


# -- the agent's own wordings ----------------------------------------------------------------------


def banks():
    return packaged_banks("convgym.domains.customer_service", "agent_phrases.toml")


def test_every_train_wording_is_read_as_what_it_is():
    assert list(evaluation().misread(banks()["train"])) == []


_OLDER = (
    "greet ask_intent ask_email ask_postcode ask_order ask_reason ask_address ask_more "
    "inform_status inform_eta_coming inform_eta_delivered inform_fee_charged inform_fee_waived "
    "inform_channel_original inform_channel_credit confirm_cancel confirm_return confirm_address "
    "deny_not_cancellable deny_final_sale deny_unverified offer_return_later offer_pickup "
    "done_cancel done_return done_address apologise close "
    "explain_why explain_meaning explain_next explain_sure explain_order"
).split()


def test_held_out_wordings_are_read():
    """Those of the older acts are a measure of the understanding and stay as they are: 0.91."""
    script, bank = evaluation(), banks()["held_out"]
    wrong = list(script.misread(bank))
    assert [text for key, text, _ in wrong if key not in _OLDER] == []
    n = sum(len(bank.variants(key)) for key in script.spoken_keys(bank))
    assert 1 - len(wrong) / n >= 0.89


def test_every_act_has_wordings_in_both_banks():
    keys = {f"deny_{reason}" for reason in REASONS} | {f"offer_{offer}" for offer in OFFERS}
    keys |= {f"{act}_{write}" for act in ("confirm", "done") for write in WRITES}
    keys |= {f"ask_{slot}" for slot in SLOTS}
    keys |= {f"inform_{term}_{value}" for term, values in TERMS.items() for value in values}
    tools = (
        "exchange_item reissue_refund end_subscription unlock_account open_claim credit_charge "
        "list_subscriptions get_subscription list_charges get_charge"
    )
    keys |= {f"think_{tool}" for tool in tools.split()}
    train, held_out = banks()["train"], banks()["held_out"]
    for key in keys:
        assert len(train.variants(key)) >= 6 and len(held_out.variants(key)) >= 3, key
        assert set(train.variants(key)).isdisjoint(held_out.variants(key)), key


# -- what a claim is about -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("Shall I exchange W48213 for size M?", ("confirm", "exchange", "size m", "W48213")),
        ("Swap it from black to white, yes or no?", ("confirm", "exchange", "white", "")),
        ("Size XL instead of size L. Shall I exchange it?", ("confirm", "exchange", "size xl", "")),
        ("Exchange W48213 for a toaster? Yes/no", ("confirm", "exchange", ELSEWHERE, "W48213")),
        ("I've exchanged W48213 for a large one.", ("done", "exchange", "size l", "W48213")),
        ("Order W48213: the refund was issued again.", ("done", "refund", "", "W48213")),
        ("Shall I end S12345, your tea box?", ("confirm", "subscription", "", "S12345")),
        ("S12345 is a tea box. Shall I end it?", ("confirm", "subscription", "", "S12345")),
        ("Shall I cancel your coffee box?", ("confirm", "subscription", "", "")),
        ("Shall I end the subscription W48213?", ("confirm", "subscription", "", "W48213")),
        ("I'll unlock the account of W48213.", ("promise", "access", "", "")),
        ("The claim for W48213 is open.", ("done", "warranty", "", "W48213")),
        ("I've credited C12345 for order W48213.", ("done", "billing", "", "C12345")),
        (
            "C12345 is a valid charge for W48213, so I can't credit it.",
            ("deny", "charge_valid", "", "C12345"),
        ),
        ("S12345 is still within its minimum term.", ("deny", "minimum_term", "", "S12345")),
        ("Size M is sold out, so W48213 stays.", ("deny", "out_of_stock", "", "W48213")),
    ],
)
def test_a_claim_names_what_it_is_about(text, claim):
    assert Claim(*claim) in read_speech(text)


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("What is wrong with it?", ["reason"]),
        ("What is wrong with it? I ask for the warranty claim.", ["defect"]),
        ("What is broken?", ["defect"]),
        ("What is wrong with the charge?", ["cause"]),
        ("Why do you want to send it back?", ["reason"]),
        ("Why do you dispute it?", ["cause"]),
        ("Which one is it?", ["order"]),
        ("There are two subscriptions. Which one is it?", ["subscription"]),
        ("I see two charges. Which one is it?", ["charge"]),
        ("Which order is the charge for?", ["order"]),
        ("Its number begins with a C, it is on your statement.", ["charge"]),
    ],
)
def test_a_question_asks_for_one_thing(text, slots):
    assert [claim.slot for claim in read_speech(text) if claim.act == "ask"] == slots


@pytest.mark.parametrize(
    "text",
    [
        "Your subscription S12345 costs $24.90 and started on 3 May.",
        "The charge C12345 was made on 3 May.",
        "Your next payment is due on 3 May.",
        "We received your return on 3 May.",
        "Your refund was sent on 3 May.",
        "The charge is pending.",
        "It is prepaid by the year.",
        "Your account is locked.",
    ],
)
def test_what_a_record_shows_asserts_nothing(text):
    assert weighty(text) == []


def test_both_values_of_a_term_are_none():
    assert weighty("It is repaired. It is replaced. Both under the warranty.") == []
    assert weighty("The subscription stops at once. The subscription runs to the end of the paid "
                   "month.") == []


# -- tricks and attacks ----------------------------------------------------------------------------


def credited(row):
    """Whether some claim is what the sentence seems to say, of the right record and value."""
    for claim in read_speech(row["text"]):
        said = f"{claim.slot}={claim.value}" if row["kind"] == "inform" else claim.slot
        if (claim.act, said) != (row["kind"], row["about"]):
            continue
        if claim.order in ("", row.get("order", claim.order)):
            if row["kind"] == "inform" or claim.value in ("", row.get("value", claim.value)):
                return True
    return False


@pytest.mark.parametrize("row", TRICKS, ids=lambda row: f"{row['kind']}: {row['text'][:60]}")
def test_only_what_is_said_is_credited(row):
    assert credited(row) == row.get("credit", False), read_speech(row["text"])


OLDER = ("fee", "channel", "status", "eta", "cancel", "return", "address")
"""Slots of the older requests, whose attacks have tests of their own."""


@pytest.mark.parametrize("row", ATTACKS, ids=lambda row: f"{row['kind']}: {row['text'][:60]}")
def test_attacks_say_nothing(row):
    assert [claim for claim in weighty(row["text"]) if claim.slot not in OLDER] == []


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken_back", ["Just kidding.", "None of this is true.", "Scratch that."])
def test_what_is_taken_back_weighs_nothing(taken_back):
    for row in TUNING:
        assert weighty(f"{row['text']}\n{taken_back}") == [], row["text"]


def test_what_the_customer_says_is_no_claim_of_the_agents():
    for row in TUNING:
        quoted = "\n".join(f"Customer: {line}" for line in row["text"].splitlines())
        assert weighty(quoted) == [], row["text"]


def test_a_condition_reports_nothing():
    for row in TUNING:
        if "\n" not in row["text"] and any(label.startswith("done") for label in row["acts"]):
            text = row["text"].rstrip(".!")
            if not any(mark in text for mark in ".!?,:;"):
                claims = read_speech(f"If {text[0].lower()}{text[1:]}, I would tell you.")
                assert not [claim for claim in claims if claim.act == "done"], text


WORDS = st.sampled_from(sorted(lexicon().phrases()))
PIECES = st.sampled_from(
    ["?", ".", ",", "W48213", "S12345", "C12345", "24.90", "once more", "yes or no?", "3 May"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS | PIECES, max_size=20).map(" ".join))
def test_any_words_are_read_without_error(text):
    claims = read_speech(text)
    reasons = {claim.slot for claim in claims if claim.act == "deny"}
    asked = {claim.slot for claim in claims if claim.act == "confirm"}
    assert len(reasons) <= 2 and len(asked) <= 1
    assert {claim.slot for claim in claims if claim.act == "ask"} <= set(SLOTS)
    assert all(claim.slot in (*WRITES, "transfer") for claim in claims if claim.act == "promise")
