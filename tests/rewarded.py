"""Conversations to be scored, and every reward: what the tests of rewards share."""

import pytest

from convgym.conversation import Conversation, Message
from convgym.rewards import (
    Composite,
    Conciseness,
    Correctness,
    CustomerService,
    Engagement,
    Helpfulness,
    Judge,
    MultiObjective,
    Outcome,
    Safety,
    SalesAssistant,
    SimilarityAware,
    TaskCompletion,
    TechnicalSupport,
)

ID = "ConvGym/CustomerService-v0"
SINGLE = (
    TaskCompletion(),
    TaskCompletion(partial=1.0, name="graded"),
    Correctness(),
    Safety(),
    Helpfulness(),
    Engagement(),
    Conciseness(),
    SimilarityAware(),
)
DOMAINS = (CustomerService(), TechnicalSupport(), SalesAssistant())
EVERY = (
    *SINGLE,
    *DOMAINS,
    Composite(SINGLE),
    *(MultiObjective(SINGLE, method=method) for method in ("weighted_sum", "min", "product")),
    Judge(model=lambda prompt: f"Score: {len(prompt) % 11}"),
)

every_reward = pytest.mark.parametrize("reward", EVERY, ids=lambda r: f"{r.name}")


def talk(*turns, **metadata):
    """`"u: …"`, `"a: …"`, `"t: …"`, `"s: …"` as a conversation."""
    roles = {"u": "user", "a": "assistant", "t": "tool", "s": "system"}
    messages = tuple(Message(roles[turn[0]], turn[2:].strip()) for turn in turns)
    return Conversation("c", messages, metadata=metadata)


def over(*turns, **evidence):
    return Outcome(talk(*turns), ended=True, **evidence)


CALL = '<tool_call>{"name": "get_order", "arguments": {"order": "W1"}}</tool_call>'
SOLVED = {"success": True, "progress": 0.75}
GOOD = (
    "s: A fee of 15 % applies.",
    "u: I want to return order W1.",
    f"a: <think>I look it up.</think>{CALL}",
    't: {"order": "W1", "amount": 20}',
    "a: Shall I return order W1 for 15 % fee?",
    "u: yes",
    "a: Your return is made.",
    "u: thanks, bye",
)
