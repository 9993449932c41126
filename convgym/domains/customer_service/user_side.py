"""The customer's side of the shop: mailbox and papers, and what a random customer says."""

from __future__ import annotations

from convgym.desk.user_side import DeskSide


class CustomerServiceSide(DeskSide):
    """The tools of `user_0` in `ConvGym/CustomerService-v0`."""

    utterances = (
        "Hello, I need help with an order.",
        "I want to cancel my order.",
        "I want to send something back.",
        "Yes, please.",
        "No, that is not what I want.",
        "One moment, I have to look that up.",
        "I do not know.",
        "Why do you need that?",
        "Are you sure?",
        "That cannot be right.",
        '<tool_call>{"name": "search_mailbox", "arguments": {}}</tool_call>',
    )
    """Nothing of it ends a conversation."""
