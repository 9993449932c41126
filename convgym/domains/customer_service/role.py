"""The customer of a task in a few sentences, for whoever plays it: a language model or a person.

    who, wants ──► description   what the customer wants and knows, and nothing that only the
                                 shop knows: neither its rules nor what will become of a request

All texts stand in tables by workflow, detail, term and knowledge. Knows nothing of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.domains.customer_service.customer import Want, Who

_WANTS = {
    "status": (
        "You have ordered something, and want to know two things: where the order is, and when it "
        "will arrive, or when it arrived."
    ),
    "cancel": "You want an order of yours cancelled.",
    "return": "You want to send back something that you ordered, because {detail}.",
    "address": "You want an order of yours delivered to another address: {detail}.",
    "exchange": "You want something that you ordered exchanged for the same in {detail}.",
    "refund": (
        "You have sent back something that you ordered, and the refund has not come. You want it "
        "to be paid."
    ),
    "subscription": "You want to end a subscription of yours.",
    "access": "You are locked out of your account at the shop, and want it unlocked.",
    "warranty": (
        "Something that you ordered has a defect: {detail}. You want to make a claim under the "
        "warranty."
    ),
    "billing": (
        "You do not agree with a charge by the shop, because {detail}. You want the amount "
        "credited back."
    ),
}
_DETAIL = {
    "return": {
        "damaged": "it is damaged",
        "wrong_item": "it is the wrong item",
        "changed_mind": "you have changed your mind",
        "too_late": "it came too late",
    },
    "warranty": {
        "dead": "it does not turn on any more",
        "loose": "a part of it has come loose and rattles",
        "cracked": "it has had a crack since you dropped it",
        "wet": "water has got into it",
    },
    "billing": {
        "twice": "you were charged twice for the same thing",
        "unknown": "you do not recognise it",
        "too_much": "the amount is higher than the price that was agreed",
    },
}
"""In words; what does not stand here, such as an address, is said as it is."""
_TERMS = {
    "fee": "whether there is a fee",
    "channel": "how you get your money back",
    "postage": "who pays the postage",
    "remedy": "whether it is repaired or replaced",
    "ends": "whether it stops at once or runs on",
}
_NUMBER = {
    "order": "order number",
    "subscription": "number of the subscription",
    "charge": "number of the charge",
}
_RECORD = {
    "order": "the {label}, ordered on {date}",
    "subscription": "the {label}, started on {date}",
    "charge": "the charge of {label}, made on {date}",
}
_IT_IS = {"order": "It is for", "subscription": "It is for", "charge": "It is"}
_KNOWS = {
    "number": "The {number} is {id}. {it_is} {record}.",
    "item": "You do not have the {number}. {it_is} {record}.",
    "looks up": (
        "You do not have the {number} at hand. When you are asked for it, say that you need a "
        "moment to look it up, and give it with your next message: {id}. {it_is} {record}."
    ),
    "vague": (
        "You do not have the {number}. At first you remember only that it was one of the {vague}; "
        "when you are asked again, it comes back to you: {record}."
    ),
    "mistaken": (
        "You believe that the {number} is {wrong_id}. If the shop cannot find that, say what it "
        "was instead: {record}."
    ),
}
_SEVERAL = (
    "You have {count} requests. Raise them one after another, in this order: the next one only "
    "when you know what becomes of the one before."
)


def description(who: Who, wants: Sequence[Want]) -> str:
    """Who the customer is, what they want, and what they know."""
    unknown = "You do not know what the shop's records and rules say."
    return "\n\n".join(
        (
            f"{_role(who)} of an online shop, and chat with its support desk.",
            f"What you want\n{_listed([_wanted(want) for want in wants])}",
            f"What you know\n{_account(who)}{_known(wants)} {unknown}",
        )
    )


def _role(who: Who) -> str:
    if who["impostor"]:
        return (
            f"You write in the name of {who['name']}, whom you know, as if you were this customer"
        )
    return f"You are {who['name']}, a customer"


def _wanted(want: Want) -> str:
    detail = _DETAIL.get(want["workflow"], {}).get(want["detail"], want["detail"])
    told = [_TERMS[term] for term in want["terms"]]
    asked = f" Before you agree to it, you want to know {', and '.join(told)}." if told else ""
    return _WANTS[want["workflow"]].format(detail=detail) + asked


def _account(who: Who) -> str:
    postcode = f"Your postcode is {who['postcode']}."
    if who["impostor"]:
        postcode = (
            f"You do not know the postcode of {who['name']}; when you are asked for it, you say "
            f"{who['wrong_postcode']}."
        )
    return f"The e-mail address of the account is {who['email']}. {postcode}"


def _known(wants: Sequence[Want]) -> str:
    """What is known of the records; by the number of its request where there are several."""
    known = [(place, _record(want)) for place, want in enumerate(wants, start=1) if want["kind"]]
    several = len(wants) > 1
    return "".join(f" For request {at}: {text}" if several else f" {text}" for at, text in known)


def _record(want: Want) -> str:
    kind = want["kind"]
    return _KNOWS[want["knowledge"]].format(
        number=_NUMBER[kind],
        it_is=_IT_IS[kind],
        record=_RECORD[kind].format(label=want["label"], date=want["date"]),
        id=want["id"],
        wrong_id=want["wrong_id"],
        vague=want["vague"],
    )


def _listed(texts: Sequence[str]) -> str:
    """The requests, numbered where there are several."""
    if len(texts) == 1:
        return texts[0]
    lines = "\n".join(f"{place}. {text}" for place, text in enumerate(texts, start=1))
    return f"{_SEVERAL.format(count=len(texts))}\n{lines}"
