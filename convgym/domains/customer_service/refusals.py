"""Refusals and what is offered in their place, read from sentences of an agent's reply.

A refusal is an inability ("cannot", "no longer", "only before") with a topic (cancel, return,
address, identity) and often a ground (shipped, the window, final sale). Topic and ground may
stand in the sentences around, as in a bulleted reply. A rule of the shop refuses nothing by
itself ("shipped orders cannot be cancelled"), but beside a state that it rules out ("yours is
shipped") it does.
"""

from __future__ import annotations

from convgym.domains.customer_service.claims import LATE
from convgym.domains.customer_service.grounds import WHATEVER, ground, may_ground
from convgym.domains.customer_service.matters import about, is_about_any
from convgym.language.moods import AWAITING, Around, awaited, is_planned, taken_back
from convgym.language.understanding import MOST_TOKENS, Sentence

_GROUNDS = ("processing", "packed", "shipped", "delivered")
_NO_LONGER = frozenset(("longer", "nobody", "noone"))

# -- rules of the shop -----------------------------------------------------------------------------

_MANY = frozenset(
    "orders items returns goods purchases products parcels packages articles cancellations "
    "addresses refunds ones".split()
)
_ONE = frozenset("order item purchase parcel package product address".split())
_ANY = frozenset("a an any every no".split())
_SPECIFIC = frozenset(
    "your yours my our this that these those the both two three all his her their order no of "
    "youve youd".split()
)
_OWN = frozenset("your yours this these youve youd".split())
_IT = frozenset("it its them theyre".split())
_POINTING = _OWN | _IT | {"the", "that"}
_JOINTS = frozenset((",", "and", "but", "so", "because", "since", "as"))
_BREAKS = frozenset((",", "as", "because", "since"))
_DEEDS = frozenset("cancel return accept take change update".split())
_BEFORE = frozenset("before until till unless not yet ahead".split())


_SETTLED = frozenset("in done booked set created sorted through complete".split())


def _is_plural(s: Sentence, place: int) -> bool:
    """Orders as such: "delivered orders", but not "your orders" or "2 items"."""
    before = s.tokens[place - 1] if place else ""
    if s.tokens[place] == "returns" and not _SETTLED.isdisjoint(s.tokens[place + 1 : place + 2]):
        return False  # "the return's in"
    return s.tokens[place] in _MANY and not (before in _SPECIFIC or before.isdigit())


_THAT_ONE = frozenset("one ones order item parcel".split())


def _is_own(s: Sentence, place: int) -> bool:
    """The token points to the customer's order: "yours", "W48213", "it" outside a condition."""
    token = s.tokens[place]
    if token in _OWN:
        return s.tokens[place + 1 : place + 2] not in (["season"], ["email"], ["postcode"])
    if token == "the":
        return _is_definite(s, place)
    if token == "that":
        return not _THAT_ONE.isdisjoint(s.tokens[place + 1 : place + 2])
    if token in _IT:
        return not s.word_before(AWAITING, place, 1)
    return len(token) == 6 and token[0] == "w" and token[1:].isdigit()


def _is_definite(s: Sentence, place: int) -> bool:
    """"…, and the lamp is final sale", "we can no longer cancel the order"."""
    before = s.tokens[place - 1] if place else ""
    if before in _JOINTS:
        return True
    named = s.tokens[place + 1 : place + 2]
    if awaited(s, place) or not (before in _DEEDS or (named and named[0] in _ONE)):
        return False
    for ahead in range(place + 2, min(place + 6, len(s.tokens))):
        if s.tokens[ahead] in _BREAKS:
            break
        if _is_plural(s, ahead) and s.tokens[ahead - 1] not in _JOINTS:
            return False  # "the address of shipped orders"
    return True


def is_rule(s: Sentence) -> bool:
    """A rule of the shop in so many words: "where no other rule applies"."""
    return "rule" in s.places or (s.tokens[:2] == ["more", "than"] and not _has_own(s))


def is_general(s: Sentence, end: int = MOST_TOKENS) -> bool:
    """About orders as such and none in particular: "orders can only be cancelled while …".

    What makes it so stands before `end`.
    """
    if is_rule(s):
        return True
    if (_MANY.isdisjoint(s.words) and _ANY.isdisjoint(s.words)) or _has_own(s):
        return False
    tokens = s.tokens[:end]
    return any(_is_plural(s, place) for place in range(len(tokens))) or any(
        token in _ANY and not _ONE.isdisjoint(tokens[place + 1 : place + 3])
        for place, token in enumerate(tokens)
    )


def _has_own(s: Sentence) -> bool:
    return any(
        _is_own(s, place)
        for place, token in enumerate(s.tokens)
        if token in _POINTING or token[0] == "w"
    )


def is_ruled(s: Sentence, place: int) -> bool:
    """The stage at `place` belongs to a rule: "delivered items", "orders that are shipped"."""
    for ahead in range(place + 1, min(place + 4, len(s.tokens))):
        if _is_plural(s, ahead) or s.tokens[ahead] in _MANY:
            return place == 0 or s.tokens[place - 1] not in _SPECIFIC - {"of"}
        if s.tokens[ahead] not in ("or", "and", *_GROUNDS):
            break
    for back in range(place - 1, max(-1, place - 9), -1):
        if s.tokens[back] == "," or _is_own(s, back):
            return False
        if _is_plural(s, back):
            return True
        if s.tokens[back] in _ONE and back and s.tokens[back - 1] in _ANY:
            return True
    return False


def asserts_stage(s: Sentence, place: int, depth: int = 3) -> bool:
    """Whether the stage at `place` is said of an order, now: not willed, denied or a rule."""
    if s.near("negation", place, 4) or s.near("unable", place, 2):
        return False
    if taken_back(s, place, "governor", "unsaid"):
        return False
    if s.word_before(_NO_LONGER, place, 5) or s.tokens[place + 1 :] == ["no"]:
        return False
    if is_planned(s, place) or awaited(s, place) or is_ruled(s, place):
        return False
    if s.tokens[place] == "with" and not s.word_before(_BEING, place, 3):
        return False
    if s.tokens[place] == "ready" and not s.word_before(_PARCEL, place, 8):
        return False
    if s.tokens[place + 1 : place + 2] == ["or"] and any(
        place + 2 <= at <= place + 4 for at in s.at(*_GROUNDS)
    ):
        return False  # "packed or shipped"
    if _is_not_yet(s, place) or s.word_before(_OF_MONEY, place, 6):
        return False
    if depth and place > 1 and s.tokens[place - 1] in ("or", "and"):  # "will be packed and shipped"
        earlier = [at for at in s.at(*_GROUNDS) if place - 4 <= at < place - 1]
        return all(asserts_stage(s, at, depth - 1) for at in earlier)
    return True


_BEING = frozenset(
    "is its are now already currently still been thats was parcel order "
    "sits rests lies remains stays out off safely".split()
)
_PARCEL = frozenset("order parcel package it its packed boxed items status w up".split())
_OF_MONEY = frozenset("money refund email mail label confirmation replacement voucher".split())


def _is_not_yet(s: Sentence, place: int) -> bool:
    """"It doesn't look like you have received it yet"."""
    if "yet" not in s.tokens[place + 1 : place + 4]:
        return False
    return any(place - 9 <= at < place for at in s.at("negation"))


def is_hedged(s: Sentence) -> bool:
    """Guessed, quoted, doubted, or only normally so."""
    return s.has("hedge", "quote") or any(place <= 3 for place in s.at("normally"))


def own_stages(s: Sentence) -> list[tuple[int, int]]:
    """(place, number) of each stage that is said of an order here."""
    if s.question or not s.has(*_GROUNDS) or is_hedged(s) or is_general(s):
        return []
    told = [
        (place, number)
        for number, stage in enumerate(_GROUNDS)
        for place in s.places.get(stage, ())
        if asserts_stage(s, place)
    ]
    if not told and _is_unpacked(s):
        told.append((s.at("packed")[0], 0))
    return told


def _is_unpacked(s: Sentence) -> bool:
    """"It has not been packed yet": it is still being processed."""
    if s.word_before(_NO_LONGER - {"longer"}, s.at("packed")[0] if "packed" in s.places else 0, 3):
        return True  # "nobody has boxed it"
    return any(
        s.near("negation", place, 4)
        and not (awaited(s, place) or is_ruled(s, place))
        and (not {"yet", "far"}.isdisjoint(s.words) or s.word_before(_STILL_NOT, place, 3))
        for place in s.at("packed")
    )


_STILL_NOT = frozenset("hasnt havent isnt nothing".split())


def _ruled_out(rule: Sentence, stage: int) -> bool:
    """A rule in `rule` rules out what is at `stage`: "only orders being processed …"."""
    named = {
        number
        for number, name in enumerate(_GROUNDS)
        for place in [*rule.at(name), *(rule.at("arrival") if number == 3 else ())]
        if is_ruled(rule, place) or awaited(rule, place)
        for earlier in (rule.word_before(_BEFORE, place, 3),)
        for number in (range(number) if earlier and "only" in rule.words else (number,))
    }
    if not named:
        return False
    if "only" in rule.words:
        return stage not in named
    return stage in named and "unable" in rule.places


def _by_rule(s: Sentence, around: Around) -> str:
    """A rule and the state of this order that it rules out, one of them in this sentence."""
    if not any(n.has("only", "unable") or "only" in n.words for n in (s, *around[:2])):
        return ""
    own = {number for _, number in own_stages(s)}
    pairs = [(s, number) for number in own]
    if own:
        pairs += [(n, number) for n in around[:2] if is_general(n) for number in own]
    elif is_general(s):
        theirs = {number for n in around[:2] for _, number in own_stages(n)}
        pairs += [(s, number) for number in theirs]
    for rule, stage in pairs:
        if _ruled_out(rule, stage):
            if rule.has("cancel", "cancelled"):
                return "not_cancellable"
            if "return" in rule.places or about(rule, "exchange") or about(rule, "warranty"):
                return "not_delivered" if stage < 3 else ""
            if rule.has("address", "changed"):
                return "already_shipped"
    return ""


_REFUSING = (
    "unable", "shut", "only", "over", "exceeding", "final_sale", "verify", "claimed", "failed",
    "long_ago", "undelivered",
)  # fmt: skip
"""Without one of these nothing is refused."""


def refusal(s: Sentence, around: Around) -> str:
    """Why something is refused in this sentence; empty where nothing is."""
    if "rule" in s.places or (not _has_own(s) and any("rules_head" in n.places for n in around)):
        return ""
    if may_ground(s) and "not_now" not in s.places:
        reason = ground(s, around)
        if reason:
            return "" if reason == WHATEVER else reason
    inability = max(s.at("unable", "over", "final_sale", "shut", "only"), default=MOST_TOKENS)
    if taken_back(s, inability, "governor") or "not_now" in s.places:
        return ""
    if taken_back(s, inability - 1, "unsaid") and "verify" not in s.places:
        return ""  # "I can't confirm that it cannot be cancelled"
    ruled = _by_rule(s, around)
    if ruled or not (s.has(*_REFUSING) or {"only", "final"}.intersection(s.words)):
        return ruled
    if "unable" in s.places and s.has("email", "postcode", "order_slot") and "request" in s.places:
        return ""  # "I can't … without your e-mail" asks for it
    if _lacks(s):
        return ""
    if (
        is_general(s)
        and not _concludes(s)
        and not any(_is_undelivered(n) or _is_over(n, True) for n in around if not is_general(n))
    ):
        return ""
    blocked = _blocked(s, around)
    anywhere = blocked or any(_blocked(n, ()) for n in around)
    if _is_unverified(s, blocked, anywhere):
        return "unverified"
    other = _is_of_another(s)
    if not other and _is_over(s, anywhere):
        return "outside_window"
    if _is_final_sale(s):
        return "final_sale"
    if blocked and other:
        return "not_delivered" if _is_early(s, around) else ""
    return _by_topic(s, around) if blocked else ""


def _is_of_another(s: Sentence) -> bool:
    """About a matter of which nothing is refused for a window of days, and none for a stage."""
    return any(about(s, matter) for matter in ("subscription", "access", "warranty", "billing"))


def _is_early(s: Sentence, around: Around) -> bool:
    """An exchange or a claim before the delivery."""
    near = (s, *around[:2])
    if not any(about(n, "exchange") or about(n, "warranty") for n in near):
        return False
    stages = [stage for n in near for _, stage in own_stages(n)]
    if s.has("only", "unable") and any(stage < _DELIVERED for stage in stages):
        return True
    return any(_is_undelivered(n) for n in near)


_DELIVERED = 3
_WITHOUT = frozenset("before until till unless without".split())
_KNOWING = frozenset("i ive we weve your youve knowing you".split())


def _lacks(s: Sentence) -> bool:
    """Something is needed first: "I can't cancel it before I know which order it is"."""
    if s.has("delivered", "arrival", *_GROUNDS):
        return False
    return any(
        token in _WITHOUT
        and s.tokens[at + 1 : at + 2]
        and s.tokens[at + 1] in _KNOWING
        and (any(place < at for place in s.at("unable")) or at < 1)
        for at, token in enumerate(s.tokens)
    ) and s.has("email", "postcode", "order_slot", "request", "verify", "order_noun")


def _concludes(s: Sentence) -> bool:
    """A rule and what follows from it here: "…, so I'm not able to set one up"."""
    for place in s.at("unable"):
        if s.word_before(_SELF, place, 4) and "so" in s.tokens[max(0, place - 5) : place]:
            return True
    return "undelivered" in s.places and "still" in s.words


_SELF = frozenset("i im we were so".split())


def _blocked(s: Sentence, around: Around) -> bool:
    """It says that something cannot be, or only under what is not so."""
    if (
        "over" in s.places
        and s.has("cancel", "address")
        and not s.has("created", "changed", "stored")
    ):
        return True
    if "unable" in s.places or (
        "shut" in s.places and s.has("address", "changed", "cancel", "return")
    ):
        return True
    return "only" in s.places and (
        "negation" in s.places or any(n.has(*_GROUNDS) or _is_undelivered(n) for n in (s, *around))
    )


def _by_topic(s: Sentence, around: Around) -> str:
    if about(s, "exchange") or (is_about_any(s) and not s.has("cancel", "address", "return")):
        return "not_delivered" if _is_early(s, around) else ""
    if "not_found" in s.places and "address" in s.places and not s.has("changed", "redirect"):
        return ""  # "I can't find your address"
    if "cancel" in s.places or any(s.near("unable", place, 8) for place in s.at("cancelled")):
        return "not_cancellable"
    if "cancelled" in s.places:
        return ""  # "it is cancelled and will no longer be sent"
    if s.has("address", "new_address", "routed") or (
        "changed" in s.places and "return" not in s.places
    ):
        return "already_shipped"
    near = (s, *around)
    if any("return" in n.places for n in near):
        if any(_is_undelivered(n) for n in near):
            return "not_delivered"
        if "days" in s.places or any(_is_over(n, True) for n in near):
            return "outside_window"
        if "return" in s.places:
            shown = any(n.has("processing", "packed", "shipped") for n in near)
            return "not_delivered" if shown else ""
    if any("cancel" in n.places for n in around):
        return "not_cancellable"
    if any("address" in n.places for n in around):
        return "already_shipped"
    if s.has("delivered", "arrival") and _OURS.isdisjoint(s.words) and _is_undelivered(s):
        return "not_delivered"  # of whatever needs the delivery first
    late = {"too", "late"} <= set(s.tokens) and not s.has("window", "days", "return")
    return LATE if late or s.has(*_GROUNDS) or any(n.has(*_GROUNDS) for n in around[:1]) else ""


_OURS = frozenset("us back".split())


def _is_unverified(s: Sentence, blocked: bool, anywhere: bool) -> bool:
    places = s.at("verify")
    if any(awaited(s, place) for place in places):
        return False
    if places:
        return blocked or "failed" in s.places or any(s.near("negation", p, 4) for p in places)
    return s.has("claimed", "postcode") and "failed" in s.places and anywhere


def _is_final_sale(s: Sentence) -> bool:
    if "final_sale" in s.places:
        return not s.near("negation", s.at("final_sale")[0], 3)
    return "final" in s.words and ("sale" in s.words or "sales" in s.words)


_CLOSERS = (["they"], ["theyve"], ["you"], ["youve"])
"""Who closes a window of another kind: "right after they've closed the window"."""


def _is_over(s: Sentence, blocked: bool) -> bool:
    """The time for returns is over; "more than 30 days" says so only beside an inability."""
    places = s.at("over") if s.has("window", "days") else []
    if "return" in s.places:
        places += s.at("long_ago")
    if "window" in s.places or ("days" in s.places and (blocked or about(s, "exchange"))):
        places += s.at("exceeding")
    shut = {place for place in places if s.tokens[place - 1 : place] in _CLOSERS}
    return any(not s.near("negation", place, 3) for place in places if place not in shut)


def _is_undelivered(s: Sentence) -> bool:
    """Not arrived yet, or to be awaited: "until it has been delivered"."""
    if "only" in s.places and "negation" in s.places and s.has("delivered", "arrival"):
        return True
    if "undelivered" in s.places:
        return s.has("delivered", "arrival") or "undelivered" in s.words
    if "not_got" in s.places or ("before_that" in s.places and s.has("arrival", "delivered")):
        return True
    if any(is_planned(s, place) for place in s.at("delivered")):
        return True
    return any(
        s.near("negation", place, 5) or awaited(s, place) or s.tokens[place + 1 :] == ["no"]
        for place in s.at("delivered", "arrival")
    )


def offers(s: Sentence, before: Around, reason: str, conditional: bool) -> list[str]:
    """What is offered here; `reason` is what the same sentence refuses."""
    if "rule" in s.places or any("rules_head" in n.places for n in before):
        return []
    found = []
    for concept, offer in (("pickup", "pickup"), ("credit", "store_credit")):
        if s.has(concept) and (concept == "pickup" or offers_credit(s, before)):
            place = s.at(concept)[0]
            fetched = s.tokens[place] in _FETCHING and s.word_before(
                _COURIERS, place, 3
            )  # "a courier will collect it"
            denied = s.near("negation", place, 3) or s.near("unable", place, 6)
            denied = denied or taken_back(s, place, "governor")
            if concept == "pickup":
                denied = denied or "closed" in s.words or (len(s.tokens) < 3 and not before)
                denied = denied or s.near("negation", place, 5)
            if not (denied or fetched):
                found.append(offer)
    if comes_later(s, before) and reason in ("", "not_cancellable", LATE) and not conditional:
        found.append("return_later")
    elif (
        "return" in s.places and "offer" in s.places and not s.has("unable", "condition", "confirm")
    ):
        if any("unable" in n.places and "cancel" in n.places for n in before[-2:]):
            found.append("return_later")  # in place of what was just refused
    return found


_FETCHING = frozenset(("collect", "pick", "fetch"))
_COURIERS = frozenset("courier driver carrier postman".split())


def offers_credit(s: Sentence, before: Around) -> bool:
    """Goodwill, or offered without a word of the refund; "rather than your card" is no offer."""
    if "goodwill" in s.places or ("offer" in s.places and not s.has("refund", "original", "fee")):
        return True
    return len(s.tokens) <= 5 and any("goodwill" in n.places for n in before[-2:])


def comes_later(s: Sentence, before: Around) -> bool:
    """A return after the arrival: "once it is there", "let it come, and then …"."""
    last = before[-1:]
    if not s.has("return", "later"):
        return False
    if (
        s.has("window", "days", "over")
        or "only" in s.words
        or any(taken_back(s, p, "governor") for p in s.at("return", "later"))
        or any(s.near("unable", p, 6) or s.near("negation", p, 2) for p in s.at("return"))
    ):
        return False
    if "return" not in s.places:
        return "later" in s.places and any(
            "return" in n.places and "offer" in n.places for n in last
        )
    arrives = s.at("arrival", "delivered")
    if "later" in s.places or any(awaited(s, place) for place in arrives):
        return True
    follows = "sequence" in s.places or any("offer" in n.places for n in before[:-1])
    arrives += s.at("take_in")
    return follows and bool(arrives or any(n.has("arrival", "delivered", "take_in") for n in last))
