"""Scenarios as records: what is read from them, what is refused, and how they are made."""

import json

import pytest

from convgym.conversation import Conversation, Message
from convgym.envs.criteria import criteria_of
from convgym.envs.reply import Reply
from convgym.envs.scenario_records import (
    KNOWN_METADATA,
    act_of,
    record_of,
    scenarios_of,
    write_scenarios,
)
from convgym.errors import InvalidConfiguration
from convgym.users.persona import BUILT_IN

PLAIN = {
    "id": "refund",
    "topic": "refunds",
    "context": "User wants a refund for a delayed order",
    "user_responses": ["My order is delayed.", "Can you refund me?", "Great, appreciate it."],
}


def problems_of(*records):
    with pytest.raises(InvalidConfiguration) as refused:
        scenarios_of(list(records))
    return str(refused.value)


def test_a_plain_record_is_enough():
    (record,) = scenarios_of([PLAIN])
    assert (record.id, record.topic, record.context) == ("refund", "refunds", PLAIN["context"])
    assert [r.texts for r in record.responses] == [(text,) for text in PLAIN["user_responses"]]
    assert [r.act for r in record.responses] == ["request", "question", "thanks"]
    assert record.ids == ("r1", "r2", "r3") and not record.criteria
    (least,) = scenarios_of([{"id": "a", "user_responses": ["Hello?"]}])
    assert least.topic == least.context == least.policy == ""


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("Hi there!", "greet"), ("Good morning", "greet"), ("It was on Monday.", "inform"),
        ("Can you do that?", "question"), ("Thanks, can you refund me?", "question"),
        ("Great, appreciate it.", "thanks"), ("No, that's all.", "thanks"), ("Bye!", "thanks"),
        ("But I never got it.", "objection"), ("That's too expensive.", "objection"),
        ("I don't want a voucher.", "objection"), ("Hi, it is about my order.", "inform"),
        ("I want to thank the driver who helped me carry it all the way up to the top floor.",
         "inform"),
    ],
)  # fmt: skip
def test_an_act_is_read_from_the_words(text, act):
    assert act_of(text, 2) == act
    assert act_of(text, 0) == ("greet" if act == "greet" else "request")


def test_what_is_known_may_stand_in_the_record_or_in_its_metadata():
    known = {
        "persona": "patient_expert", "difficulty": 0.25, "max_turns": 9, "split": "test",
        "style": "terse", "expected_resolution": "A refund.", "success": ["refund"],
    }  # fmt: skip
    assert set(known) == set(KNOWN_METADATA)
    beside, within = scenarios_of(
        [{**PLAIN, **known}, {**PLAIN, "id": "b", "metadata": {**known, "mine": [1, 2]}}]
    )
    for record in (beside, within):
        assert record.persona == BUILT_IN["patient_expert"] and record.difficulty == 25
        assert (record.max_turns, record.split) == (9, "test")
        assert record.criteria.wanted[0].phrases == ("refund",)
        assert record.expected_resolution == "A refund."
    assert within.metadata["mine"] == [1, 2]
    assert "give it once" in problems_of({**PLAIN, "split": "test", "metadata": {"split": "test"}})


BROKEN = [
    ({"id": 3}, "id is 3; it takes a text"),
    ({"id": "  "}, "id is missing or empty"),
    ({"topic": ["a"]}, "topic is ['a']; it takes a text"),
    ({"titel": "x"}, "'titel' is no field; there are id, topic"),
    ({"context": "x" * 5000}, "context has 5000 characters; it takes at most 4000"),
    ({"user_responses": []}, "user_responses is []; it takes a list of 1 to 40"),
    ({"user_responses": "Hello?"}, "user_responses is 'Hello?'; it takes a list"),
    ({"user_responses": None}, "user_responses is missing"),
    ({"user_responses": ["Hello?", ""]}, "user_responses[1].text is missing or empty"),
    ({"user_responses": ["Hello?", 7]}, "user_responses[1] is 7; it takes a text or a mapping"),
    ({"user_responses": ["a", {"text": []}]}, "user_responses[1].text is []"),
    ({"user_responses": ["a", {"text": "b", "act": "sing"}]}, "act is 'sing'; it takes one of"),
    ({"user_responses": ["a", {"text": "b", "wenn": "c"}]}, "has 'wenn'; it takes text, id"),
    ({"user_responses": ["a", {"text": "b", "when": 3}]}, "user_responses[1].when is 3"),
    ({"user_responses": ["a", {"text": "b", "when": ["?!"]}]}, "no word to look for"),
    ({"user_responses": ["a", {"text": "b", "needs": ["r9"]}]}, "needs has 'r9'; it takes ids"),
    ({"user_responses": ["a", {"text": "b", "needs": ["r2"]}]}, "'r2' can never be said"),
    ({"user_responses": [{"text": "a", "when": "b"}]}, "opens the conversation; it takes no when"),
    ({"user_responses": ["a", {"text": "b", "id": "r1"}]}, "id is 'r1', which an earlier one has"),
    ({"user_responses": ["a", {"text": "b", "id": 4}]}, "user_responses[1].id is 4"),
    ({"user_responses": ["a", {"text": "b", "optional": 1}]}, "optional is 1; it takes true"),
    ({"metadata": 3}, "metadata is 3; it takes a mapping"),
    ({"metadata": {"difficulty": 2}}, "difficulty is 2; it takes a number from 0 to 1"),
    ({"metadata": {"difficulty": True}}, "difficulty is True"),
    ({"metadata": {"max_turns": 1}}, "max_turns is 1; it takes 2 to 200"),
    ({"metadata": {"split": "holdout"}}, "split is 'holdout'; it takes one of train"),
    ({"metadata": {"persona": "nobody"}}, "persona: no persona is called 'nobody'"),
    ({"metadata": {"style": "odd"}}, "style: style='odd'"),
    ({"metadata": {"success": 3}}, "success is 3; it takes a mapping of must_mention"),
    ({"metadata": {"success": {"must": ["a"]}}}, "success has 'must'; it takes must_mention"),
    ({"metadata": {"success": {"must_ask": [3]}}}, "success.must_ask is 3; it takes a phrase"),
    ({"metadata": {"success": {"must_ask": ["!"]}}}, "in which there is no word"),
    ({"metadata": {"success": {"must_ask": ["a"], "after": {"b": "r1"}}}}, "after names 'b'"),
    ({"metadata": {"success": {"must_ask": ["a"], "after": {"a": "r9"}}}}, "ids of responses"),
    ({"metadata": {"success": {"must_ask": ["a"], "after": 3}}}, "success.after is 3"),
    (
        {"metadata": {"success": {"must_mention": ["Refund"], "must_not_mention": ["refunds"]}}},
        "both have 'Refund'",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), BROKEN, ids=lambda value: str(value)[:50])
def test_what_is_wrong_is_said_with_its_place(change, sentence):
    told = problems_of({"id": "fine", "user_responses": ["Hi?"]}, {**PLAIN, **change})
    assert sentence in told
    assert told.startswith("scenarios= has 1 problem:\n  scenario 1")


def test_all_problems_of_a_file_are_told_together(tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [
        json.dumps(PLAIN),
        "",
        '{"id": "b", "user_responses": ["x"}',
        json.dumps({**PLAIN, "topic": 3, "metadata": {"difficulty": 7}}),
        json.dumps([1]),
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(InvalidConfiguration) as refused:
        scenarios_of(path)
    told = str(refused.value).splitlines()
    assert told[0] == f"the scenario file {path} has 4 problems:"
    starts = ("  line 3: it is no JSON", "  line 4 ('refund'): topic", "  line 4 ('refund'): diff")
    assert all(any(line.startswith(start) for line in told) for start in starts)
    assert any(line.startswith("  line 5: it is a list") for line in told)
    path.write_text("\n".join(json.dumps({**PLAIN, "topic": 3}) for _ in range(30)))
    with pytest.raises(InvalidConfiguration, match="and 10 more"):
        scenarios_of(str(path))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_array_is_told_in_one_sentence(tmp_path, indent):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([PLAIN, {**PLAIN, "id": "b"}], indent=indent), encoding="utf-8")
    with pytest.raises(InvalidConfiguration, match="is one JSON array; write one record") as told:
        scenarios_of(path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("given", [3, {"id": "a"}, b"[]", [], "nowhere/none.jsonl"], ids=str)
def test_what_holds_no_scenarios_is_refused(given):
    with pytest.raises(InvalidConfiguration, match="scenario"):
        scenarios_of(given)


def test_the_same_id_twice_is_refused():
    assert "scenario 1 ('refund'): id is that of scenario 0" in problems_of(PLAIN, PLAIN)


def test_the_packaged_scenarios_are_sound():
    records = scenarios_of()
    assert 8 <= len(records) <= 12
    assert len({record.topic for record in records}) == len(records)
    assert sum(bool(record.criteria) for record in records) >= 5
    assert sum(not record.criteria for record in records) >= 2
    for record in records:
        assert record.context and 3 <= len(record.responses) <= 8
        assert set(record.metadata) <= set(KNOWN_METADATA)


# -- criteria --------------------------------------------------------------------------------------

CRITERIA = {
    "must_ask": ["order number"],
    "must_mention": ["refund", ["5 days", "a working week"]],
    "must_not_mention": ["store credit"],
    "after": {"refund": ["r2"]},
}


def read(*messages, said=()):
    """(bits that hold, whether something forbidden was said) after some messages."""
    problems = []
    criteria = criteria_of(CRITERIA, ["r1", "r2"], problems)
    assert not problems
    bits, broken = 0, False
    for message in messages:
        bits = criteria.done(Reply(message), said, bits)
        broken = broken or criteria.broken(Reply(message), said)
    return bits, broken, criteria.all_done(bits)


def test_criteria_hold_when_each_has_been_met():
    refund, days, asked = 1, 2, 4
    assert read("You get a refund.", said=["r1"])[0] == 0, "r2 is not out yet"
    assert read("You get a refund.", said=["r1", "r2"])[0] == refund
    assert read("It takes five days.")[0] == read("It takes a working week.")[0] == days
    assert read("What is your order number?")[0] == asked
    everything = ["Your order number?", "You get a refund in 5 days."]
    assert read(*everything, said=["r2"]) == (refund | days | asked, False, True)
    assert read("Would you like a refund in 5 days?", said=["r2"]) == (0, False, False)
    assert read("There is no refund within 5 days.", said=["r2"]) == (0, False, False)


def test_what_must_not_be_mentioned_counts_where_it_is_asserted():
    assert read("You get store credit.")[1]
    assert not read("You don't get store credit.")[1]
    assert not read("Would you like store credit?")[1]
    assert not read("If it were older, you would get store credit.")[1]


def test_a_list_of_phrases_means_that_each_must_be_mentioned():
    problems = []
    criteria = criteria_of(["refund", "5 days"], ["r1"], problems)
    assert [c.kind for c in criteria.wanted] == ["must_mention"] * 2 and not problems


# -- records from conversations --------------------------------------------------------------------


def test_a_conversation_becomes_a_scenario(tmp_path):
    turns = [
        ("system", "Policy."), ("user", "My parcel is late."), ("assistant", "Which order?"),
        ("user", "It's K4471."), ("tool", "{}"), ("user", "It's K4471."), ("user", "Thanks!"),
    ]  # fmt: skip
    conversation = Conversation("log-7", tuple(Message(role, text) for role, text in turns))
    record = record_of(conversation, topic="delivery")
    assert record["user_responses"] == ["My parcel is late.", "It's K4471.", "Thanks!"]
    assert record["id"] == "log-7" and record["topic"] == "delivery"
    generated = {
        "id": "train-3/9", "topic": "cancel", "context": "Wants to cancel.", "difficulty": 0.5,
        "persona": BUILT_IN["patient_expert"].to_dict(), "expected_resolution": "Cancelled.",
        "user_messages": ["hi"],
    }  # fmt: skip
    other = record_of(conversation, generated)
    assert (other["id"], other["context"]) == ("train-3/9", "Wants to cancel.")
    path = tmp_path / "made.jsonl"
    write_scenarios([record, other], path)
    first, second = scenarios_of(path)
    assert (first.id, second.persona) == ("log-7", BUILT_IN["patient_expert"])
    assert second.difficulty == 50 and second.expected_resolution == "Cancelled."
    with pytest.raises(InvalidConfiguration, match="user_responses"):
        write_scenarios([{"id": "a"}], path)
    assert len(scenarios_of(path)) == 2, "what was there stays"
