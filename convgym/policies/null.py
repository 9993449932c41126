"""Null policies: what must score about nothing in a sound environment.

They speak or call without listening. All but `random-tool` are text; in act mode each has
an act form where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.customer_service.vocabulary import ACTIONS
from convgym.domains.customer_service.world import REASONS, STAGES, date_text
from convgym.engine.acts import FIRST_TOOL
from convgym.policies.policy import ActPolicy, Probabilities

_END = '<tool_call>{"name": "end_conversation", "arguments": {}}</tool_call>'
_TRANSFER = '<tool_call>{"name": "transfer_to_human", "arguments": {}}</tool_call>'

_REFUSALS = (
    "I am sorry, but I cannot cancel the order, as it is already shipped.",
    "I am sorry, the return window is over, so I cannot accept a return.",
    "Unfortunately the item was a final sale and cannot be returned.",
    "The order has not been delivered yet, so it cannot be returned.",
    "I am afraid the address can no longer be changed, since the parcel has shipped.",
    "I could not verify your identity, so I cannot go on.",
    "Instead you can return it once it has arrived.",
    "I can offer you store credit as a goodwill gesture.",
    "The parcel can be held at a pickup point for you.",
)
_CONFIRMATIONS = (
    "Shall I cancel your order? Please answer yes or no.",
    "Do you want me to set up the return? Please confirm with yes.",
    "Shall I change the delivery address? Please confirm with yes.",
)
_PROMISES = (
    "I will cancel your order for you right away.",
    "I am setting up the return for you now.",
    "I'll change the delivery address for you.",
    "I will transfer you to a colleague.",
)
_EXPLANATIONS = (
    "I ask for this to protect your account.",
    "That means that a part of the price is kept when something comes back.",
    "Yes, I have just looked it up, and it is correct.",
    "You will get a mail with everything that happens next.",
)
_QUESTIONS = (
    "Could you tell me your email address, your postcode, your order number, the reason and the "
    "new address?",
)
_EVERYTHING = " ".join(
    [f"Your order is {stage}." for stage in STAGES]
    + [f"The delivery date is {date_text(day)}." for day in range(-20, 10)]
    + [f"A restocking fee of {fee}% applies." for fee in (0, 10, 15, 20)]
    + ["The refund goes to the original payment method.", "The refund is paid as store credit."]
    + ["I have cancelled the order.", "The return has been created.", "The address was changed."]
    + [f"The reason is {reason}." for reason in REASONS]
)


class FixedReplies:
    """Says its replies in turn, whatever comes back."""

    def __init__(self, name: str, replies: tuple[str, ...]) -> None:
        self.name = name
        self.propensity = 1.0
        self._replies, self._step = replies, 0

    def reset(self, seed: int) -> None:
        """Begin again with the first reply."""
        self._step = 0

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[str, Any]:
        """The next reply of the round."""
        reply = self._replies[self._step % len(self._replies)]
        self._step += 1
        return reply, state


class RandomToolPolicy(ActPolicy):
    """A uniformly random legal tool call each step; never says a word."""

    name = "random-tool"
    _tools = np.array([action.kind >= FIRST_TOOL for action in ACTIONS.actions])

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """Uniform over the legal tools."""
        legal = (action_masks * self._tools).astype(np.float64)
        return legal / legal.sum()


class OpenLoopPolicy(ActPolicy):
    """Does its acts in turn, leaving out what is not legal, and reads nothing else.

    These are no null policies: they authenticate by the book. What they score is what a constant
    behaviour is worth once that is done.
    """

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        super().__init__()
        self.name = name
        self._acts, self._at = [ACTIONS[one] for one in names], 0

    def reset(self, seed: int) -> None:
        """Begin again with the first act."""
        super().reset(seed)
        self._at = 0

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """1 on the next legal act; the last one is repeated."""
        while self._at < len(self._acts) - 1 and not action_masks[self._acts[self._at]]:
            self._at += 1
        act = self._acts[self._at]
        self._at = min(self._at + 1, len(self._acts) - 1)
        probabilities = np.zeros(len(action_masks))
        probabilities[act] = 1.0
        return probabilities


_BOOK = (
    "ask_intent", "ask_email", "find_customer", "ask_postcode", "verify_customer", "ask_order",
    "ask_order", "list_orders", "get_order_0", "get_order_1", "get_order_2",
)  # fmt: skip
_DENIED = ("not_cancellable", "outside_window", "final_sale", "not_delivered", "already_shipped")
_END_WITH = ("end_conversation",)
_CANCEL = ("confirm_cancel_0", "cancel_order_0", "report_done", "close")
BY_THE_BOOK: dict[str, tuple[str, ...]] = {
    "book, end": _BOOK + _END_WITH,
    "book, transfer": (*_BOOK, "transfer_to_human"),
    "book, refuse for everything": _BOOK + tuple(f"deny_{one}" for one in _DENIED) + _END_WITH,
    "book, refuse as too old": (*_BOOK, "deny_outside_window", "offer_store_credit")
    + ("deny_outside_window",) * 3,
    "book, tell of order 1": (*_BOOK, "inform_status_0", "inform_eta_0", "close"),
    "book, cancel order 1": _BOOK + _CANCEL,
}
"""Acts of `OpenLoopPolicy` by name."""

NULL_POLICIES: dict[str, Callable[[], FixedReplies]] = {
    "done": lambda: FixedReplies("done", (_END,)),
    "silence": lambda: FixedReplies("silence", ("",)),
    "greet-only": lambda: FixedReplies("greet-only", ("Hello, how can I help you today?",)),
    "transfer-always": lambda: FixedReplies("transfer-always", (_TRANSFER,)),
    "refuse-always": lambda: FixedReplies("refuse-always", _REFUSALS),
    "confirm-everything": lambda: FixedReplies("confirm-everything", _CONFIRMATIONS),
    "promise-everything": lambda: FixedReplies("promise-everything", _PROMISES),
    "explain-always": lambda: FixedReplies("explain-always", _EXPLANATIONS),
    "ask-everything": lambda: FixedReplies("ask-everything", _QUESTIONS),
    "say-every-value": lambda: FixedReplies("say-every-value", (_EVERYTHING,)),
}
"""Null policies in text, by name; `RandomToolPolicy` is the one in acts."""
