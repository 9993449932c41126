"""Tool calls in an agent's text: three formats, what is speech, and what is malformed."""

import json

import pytest
from driven import desk_of, every_id
from hypothesis import given
from hypothesis import strategies as st
from single_task import DESK

from convgym.language.tool_calls import MOST_CALLS, check_arguments, parse_reply

CALL = {"name": "get_order", "arguments": {"order": "W48213"}}
FORMATS = {
    "hermes": f"<tool_call>{json.dumps(CALL)}</tool_call>",
    "hermes, not closed": f"<tool_call>{json.dumps(CALL)}",
    "bare": json.dumps(CALL),
    "bare, arguments as text": json.dumps({**CALL, "arguments": json.dumps(CALL["arguments"])}),
    "bare, named parameters": json.dumps({"name": "get_order", "parameters": CALL["arguments"]}),
    "in a code block": f"```json\n{json.dumps(CALL, indent=2)}\n```",
    "function object": json.dumps({"type": "function", "function": CALL}),
    "tool_calls": json.dumps({"tool_calls": [{"id": "1", "function": CALL}]}),
}


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
def test_every_format_gives_the_call_and_leaves_the_speech(text):
    parsed = parse_reply(f"One moment.\n{text}")
    assert parsed.calls == ((CALL["name"], CALL["arguments"]),)
    assert parsed.speech == "One moment."
    assert parsed.errors == ()


def test_calls_keep_their_order():
    names = ["list_orders", "get_order", "transfer_to_human"]
    texts = [json.dumps({"name": name, "arguments": {}}) for name in names]
    tagged = "".join(f"<tool_call>{text}</tool_call>" for text in texts)
    together = json.dumps({"tool_calls": [{"function": json.loads(text)} for text in texts]})
    for text in (tagged, " ".join(texts), together):
        assert [call.name for call in parse_reply(text).calls] == names


MALFORMED = (
    '{"name": "cancel_order", "arguments": {"order": "W48',
    '<tool_call>{"name": "cancel_order", "argum',
    '<tool_call>{"name": "cancel_order", "arguments": }</tool_call>',
    '<tool_call>{"arguments": {}}</tool_call>',
    '<tool_call>["cancel_order"]</tool_call>',
    "<tool_call></tool_call>",
    '{"name": "cancel_order", "arguments": "{broken"}',
    '{"name": "cancel_order", "arguments": [1]}',
    '{"tool_calls": [{"function": {"arguments": {}}}]}',
    '{"tool_calls": [{"function": {"name": "x", "arg',
    '{"name": "x", "arguments": ' + '{"a": ' * 5000,
)


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_call_is_an_error_and_never_speech(text):
    parsed = parse_reply(f"I am on it. {text}")
    assert parsed.calls == ()
    assert len(parsed.errors) == 1 and "could not be read" in json.loads(parsed.errors[0])["error"]
    assert parsed.speech == "I am on it."


def test_thoughts_and_control_tokens_are_not_speech():
    text = "<think>Shall I cancel?</think>Hello.<|im_end|><|im_start|>user [INST]Yes</s>"
    parsed = parse_reply(text)
    assert parsed.speech.split() == ["Hello.", "user", "Yes"]
    assert parse_reply("<think>never closed, and a {\"name\": \"x\"}").speech == ""
    assert parse_reply(f"<think>{FORMATS['hermes']}</think>").calls == ()


def test_too_many_calls_are_cut_and_charged():
    parsed = parse_reply(FORMATS["hermes"] * 20)
    assert len(parsed.calls) == MOST_CALLS and len(parsed.errors) == 1
    parsed = parse_reply("<tool_call>{}</tool_call>" * 1000)
    assert parsed.calls == () and len(parsed.errors) <= MOST_CALLS + 2


def test_json_that_is_no_call_stays_speech():
    for text in ('{"success": true}', "[1, 2]", "a < b and {c}", "price: {fee}%"):
        assert parse_reply(text) == (text, (), ())


@given(st.text("<>{}[]\"':, ntool_callname\\", max_size=80))
def test_no_text_makes_it_raise(text):
    parse_reply(text)


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("get_order", {}, "is missing"),
        ("get_order", {"order": 48213}, "must be a string"),
        ("get_order", {"order": "W48213", "force": "yes"}, "there is no argument"),
        ("create_return", {"order": "W48213", "reason": "bored"}, "must be one of"),
        ("create_return", {"order": "W48213", "reason": "damaged"}, ""),
        ("list_orders", {}, ""),
        ("exchange_item", {"order": "W48213"}, "is missing"),
        ("exchange_item", {"order": "W48213", "variant": "size M"}, ""),
        ("open_claim", {"order": "W48213", "defect": "ugly"}, "must be one of"),
        ("open_claim", {"order": "W48213", "defect": "cracked"}, ""),
        ("credit_charge", {"charge": "C48213", "cause": "unknown"}, ""),
        ("credit_charge", {"charge": "C48213", "defect": "dead"}, "argument"),
        ("unlock_account", {}, ""),
        ("unlock_account", {"email": "a@example.com"}, "there is no argument"),
    ],
)
def test_arguments_are_checked(name, arguments, complaint):
    problem = check_arguments(DESK.schemas[name]["parameters"], arguments)
    assert complaint in problem and bool(complaint) == bool(problem)


def test_the_shop_has_these_tools():
    kinds = ("order", "subscription", "charge")
    assert set(DESK.schemas) == {
        "find_customer", "verify_customer", "transfer_to_human", "end_conversation",
        *(f"list_{kind}s" for kind in kinds), *(f"get_{kind}" for kind in kinds),
        "cancel_order", "create_return", "update_address", "exchange_item", "reissue_refund",
        "end_subscription", "unlock_account", "open_claim", "credit_charge",
    }  # fmt: skip


@every_id
def test_the_schemas_are_json_in_the_openai_form(environment_id):
    desk = desk_of(environment_id)
    tools = json.loads(desk.tools)
    names = [tool["function"]["name"] for tool in tools]
    assert len(set(names)) == len(names) and {"transfer_to_human", "end_conversation"} <= set(names)
    for tool in tools:
        body = tool["function"]
        parameters = body["parameters"]
        assert tool["type"] == "function" and body["description"]
        assert set(parameters["required"]) <= set(parameters["properties"])
        filled = {
            name: about.get("enum", ["x"])[0] for name, about in parameters["properties"].items()
        }
        assert check_arguments(parameters, filled) == ""
        assert not filled or check_arguments(parameters, {})
