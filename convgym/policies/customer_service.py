"""The ladder, the null policies and the by-the-book agents of customer service."""

from __future__ import annotations

from collections.abc import Callable

from convgym.domains.customer_service.world import STAGES, date_text
from convgym.policies.null import FixedReplies, fixed_replies
from convgym.policies.scripted import LADDER

__all__ = ["BY_THE_BOOK", "LADDER", "NULL_POLICIES"]

_REASONS = ("damaged", "wrong_item", "changed_mind", "too_late")

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
    "What you want is out of stock, so I cannot exchange it.",
    "I am sorry, no return of yours has reached us, so I cannot refund it.",
    "The subscription has not run for its minimum term yet, so it cannot be ended.",
    "I am afraid that the warranty has run out.",
    "The charge is valid, so I cannot credit it.",
)
_CONFIRMATIONS = (
    "Shall I cancel your order? Please answer yes or no.",
    "Do you want me to set up the return? Please confirm with yes.",
    "Shall I change the delivery address? Please confirm with yes.",
    "Shall I exchange the item for you? Please confirm with yes.",
    "Shall I issue the refund again? Please confirm with yes.",
    "Shall I end the subscription? Please confirm with yes.",
    "Shall I unlock your account? Please confirm with yes.",
)
_PROMISES = (
    "I will cancel your order for you right away.",
    "I am setting up the return for you now.",
    "I'll change the delivery address for you.",
    "I will transfer you to a colleague.",
    "I will issue the refund again.",
    "I will unlock your account now.",
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
    + [f"The reason is {reason}." for reason in _REASONS]
)


_IDENTIFIED = ("ask_intent", "ask_email", "find_customer", "ask_postcode", "verify_customer")
_BOOK = (
    *_IDENTIFIED,
    *("ask_order", "ask_order", "list_orders", "get_order_0", "get_order_1", "get_order_2"),
    *("ask_subscription", "list_subscriptions", "get_subscription_0", "get_subscription_1"),
)
_DENIED = (
    "not_cancellable", "outside_window", "final_sale", "not_delivered", "already_shipped",
    "out_of_stock", "no_return_received", "refund_pending", "minimum_term",
)  # fmt: skip
_END_WITH = ("end_conversation",)
_UNLOCK = ("confirm_access", "unlock_account", "report_done", "ask_more", "close")
_CANCEL = ("confirm_cancel_0", "cancel_order_0", "report_done", "close")
BY_THE_BOOK: dict[str, tuple[str, ...]] = {
    "book, end": _BOOK + _END_WITH,
    "book, transfer": (*_BOOK, "transfer_to_human"),
    "book, refuse for everything": _BOOK + tuple(f"deny_{one}" for one in _DENIED) + _END_WITH,
    "book, refuse as too old": (*_BOOK, "deny_outside_window", "offer_store_credit")
    + ("deny_outside_window",) * 3,
    "book, tell of order 1": (*_BOOK, "inform_status_0", "inform_eta_0", "close"),
    "book, cancel order 1": _BOOK + _CANCEL,
    "identify, unlock": _IDENTIFIED + _UNLOCK,
}
"""Acts of `OpenLoopPolicy` by name."""

NULL_POLICIES: dict[str, Callable[[], FixedReplies]] = fixed_replies({
    "refuse-always": _REFUSALS,
    "confirm-everything": _CONFIRMATIONS,
    "promise-everything": _PROMISES,
    "explain-always": _EXPLANATIONS,
    "ask-everything": _QUESTIONS,
    "say-every-value": (_EVERYTHING,),
})
"""Null policies in text, by name; `RandomToolPolicy` is the one in acts."""
