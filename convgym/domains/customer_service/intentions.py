"""What an agent says it will do, and what it explains: promises, waiting, explanations, jargon.

    "I'll cancel it now."               promise: a will, and a deed within its reach
    "I'll cancel it once you confirm."  none: it waits for something
    "I can cancel it."                  none: a possibility
    "One moment."                       wait
    "It protects your account."         explain: why something is asked for,
    "Packed means it is in its box."             what a word means,
    "Yes, I checked it twice."                   that it is so,
    "You'll get a label by e-mail."              or how things go on
"""

from __future__ import annotations

from convgym.domains.customer_service.refusals import Around, is_general
from convgym.domains.customer_service.reports import place_named, street_named
from convgym.language.understanding import Sentence

CLAUSE = 12
"""Words before a deed that can say who wills it."""
_JOINTS = frozenset((",", "because", "although", "though", "since", "as", "which"))
_CONDITIONS = frozenset("if once when whenever until till before after unless while whether".split())
_WILL = frozenset("ill will shall lets gonna well".split())
_WILL_PAIRS = frozenset(
    (("let", "me"), ("let", "us"), ("going", "to"), ("about", "to"), ("go", "ahead"))
)
_BE = frozenset("im am are were is being be now currently busy be".split())
_ENDS = frozenset(("you", "youll", "youd", "they", "theyll", "courier", "carrier", "driver"))
"""Who wills it, where it is not the desk."""
_OPEN = frozenset(
    "can could may might would id need needs needed require required want wants like happy glad "
    "gladly able unable try trying check see whether how possible must should cannot cant wont "
    "ready before asked wanted request requested requesting help".split()
)
"""Words that leave open whether it is done."""
_FILLERS = frozenset(
    "ok okay sure alright right great perfect thanks thank you good then well now so and done "
    "yes yep noted understood got it fine certainly absolutely still just processing lovely "
    "great on also next for meanwhile currently today".split()
)
_DOERS = frozenset(
    "set create start process arrange book register open initiate submit log file raise issue "
    "generate put get proceed proceeding handle do doing begin organise organize schedule prepare "
    "authorise approve activate take make sort setting creating starting processing arranging "
    "booking registering opening initiating submitting logging filing raising issuing generating "
    "putting getting handling beginning organising organizing scheduling preparing authorising "
    "approving activating taking making sorting go going ahead enter entering add adding pop "
    "popping save saving run running push pushing move moving launch launching lodge lodging "
    "kick see have having complete completing action actioning place placing".split()
)
_IT = frozenset("it this that so".split())
_SENDING = frozenset(
    "send sending ship shipping deliver delivering goes go going sent delivered shipped".split()
)
_PUTTING = frozenset(
    "put putting pop popping enter entering add adding save saving set setting apply applying "
    "switch switching move moving use using input write writing register get getting have".split()
)

# -- promises --------------------------------------------------------------------------------------


def promises(s: Sentence, before: Around) -> list[str]:
    """What is promised in a sentence: cancel, return, address, transfer."""
    if s.question or not _may_promise(s):
        return []
    found = ["transfer"] if _transfers(s) else []
    if s.has("rule", "quote", "confirm_first"):
        return found
    if any(announced(s, place) for place in s.at("cancel", "cancelled")):
        found.append("cancel")
    if _returns(s):
        found.append("return")
    if "return" not in found and _readdresses(s):
        found.append("address")
    if not found and not s.has("cancel", "cancelled", "return", "address", "new_address"):
        found += _resumed(s, before)
    return found


_SIGNS = _WILL | frozenset(("let", "going", "about", "being", "gets"))


def _may_promise(s: Sentence) -> bool:
    return any(token in _SIGNS or token.endswith("ing") for token in s.tokens) or s.has(
        "transfer", "people"
    )


def announced(s: Sentence, place: int, *, governed: bool = False) -> bool:
    """The deed at `place` is willed or under way: "I'll cancel", "cancelling", "will be …"."""
    tokens = s.tokens
    if s.near("negation", place, 6) or s.near("unable", place, 8):
        return False
    begin = max(0, place - CLAUSE)
    for at in range(place - 1, begin - 1, -1):
        if tokens[at] in _JOINTS or tokens[at] in _CONDITIONS:
            if tokens[at] in _CONDITIONS and not governed:
                return False
            begin = at + 1
            break
    left = tokens[begin:place]
    if not governed and (not _OPEN.isdisjoint(left) or _is_awaiting(s, place)):
        return False
    pairs = list(zip(left, left[1:], strict=False))
    willing = [at for at, token in enumerate(left) if token in _WILL]
    willing += [at for at, pair in enumerate(pairs) if pair in _WILL_PAIRS]
    if willing:
        return not any(at and left[at - 1] in _ENDS for at in willing) and "youll" not in left
    here = tokens[place]
    if here.endswith("ing"):
        return _ENDS.isdisjoint(left) and (
            _FILLERS.issuperset(left) or not _BE.isdisjoint(left[-4:])
        )
    if left[-1:] in (["being"], ["gets"], ["get"]):
        return True
    for at, token in enumerate(left):
        if token.endswith("ing") and token in _DOERS:
            front = left[:at]
            return _ENDS.isdisjoint(front) and (
                _FILLERS.issuperset(front) or not _BE.isdisjoint(front)
            )
    return False


def _is_awaiting(s: Sentence, place: int) -> bool:
    """What follows makes it wait: "once you confirm", "as soon as I have it", "if you like"."""
    for at in range(place + 1, len(s.tokens)):
        token = s.tokens[at]
        if token in (",", "and"):
            return False
        if token in _CONDITIONS and token != "while":
            return True
        if token == "soon" and s.tokens[at - 1] == "as" and s.tokens[at + 1 : at + 2] == ["as"]:
            return s.tokens[at + 2 : at + 3] != ["possible"]
    return False


def _returns(s: Sentence) -> bool:
    for place in s.at("return"):
        left = s.tokens[max(0, place - CLAUSE) : place]
        if announced(s, place) and not _DOERS.isdisjoint(left):
            return True
    return False


def _readdresses(s: Sentence) -> bool:
    street = place_named(s) or street_named(s)
    topic = s.has("address", "new_address", "routed")
    if topic or street:
        places = [*s.at("changed", "stored"), *s.at("redirect")]
        if topic:
            places += [at for at, token in enumerate(s.tokens) if token in _PUTTING]
        if any(announced(s, place) for place in places):
            return True
    if not (street or s.has("new_address") or "instead" in s.tokens or s.has("new_place")):
        return False
    if s.has("return", "refund", "email"):
        return False
    sent = [at for at, token in enumerate(s.tokens) if token in _SENDING]
    return any(announced(s, place) for place in [*sent, *s.at("redirect")])


def _resumed(s: Sentence, before: Around) -> list[str]:
    """"I'm doing it right now", of the write that was named last."""
    tokens = s.tokens
    for place, token in enumerate(tokens):
        if token in _DOERS and not _IT.isdisjoint(tokens[place + 1 : place + 4]):
            if token in ("see", "have", "get", "go", "going", "ahead", "take", "make"):
                continue
            willed = _is_willed_do(s, place)
            if willed and len(tokens) <= 12:
                for earlier in reversed(before[-2:]):
                    for write in ("cancel", "return", "address"):
                        if earlier.has(write) and not earlier.has("unable", "negation"):
                            return [write]
    return []


def _is_willed_do(s: Sentence, place: int) -> bool:
    return announced(s, place) and (s.tokens[place].endswith("ing") or len(s.tokens) <= 8)


# -- handing over to a person ----------------------------------------------------------------------

_HANDING = frozenset(
    "connect connecting connected put putting pass passing passed hand handing handed forward "
    "forwarding forwarded refer referring referred route routing routed switch switching get "
    "getting bring bringing send sending sent raise raising loop looping have having link linking "
    "patch patching bump move moving turn turning direct directing give giving assign assigning "
    "assigned call calling involve involving pull pulling leave leaving".split()
)
_STRONG = frozenset(
    "transfer transferring transferred escalate escalating escalated".split()
)
_WHOM = frozenset("you your this it case matter things chat conversation request ticket".split())
_MONEY = frozenset("money refund amount payment credit balance funds".split())
_TAKING = frozenset(
    "take takes taking contact call help assist be look get continue reach pick handle follow "
    "jump join phone ring write speak talk deal".split()
)


def _transfers(s: Sentence) -> bool:
    tokens = s.tokens
    people = s.at("people")
    for place, token in enumerate(tokens):
        if token in _STRONG:
            following = tokens[place + 1 : place + 5]
            if _MONEY.isdisjoint(following) and _is_handing(s, place):
                return True
        elif token in _HANDING:
            over = tokens[place + 1 : place + 2] == ["you"] and not {
                "through", "over", "across", "on"
            }.isdisjoint(tokens[place + 2 : place + 4])  # fmt: skip
            if token.startswith(("put", "get", "hand", "pass", "connect")) and over:
                over = not people or any(at > place for at in people)
            near = any(place < at <= place + 9 for at in people)
            whom = not _WHOM.isdisjoint(tokens[max(0, place - 4) : place + 4])
            whom = whom or token.startswith(("get", "bring", "have", "loop", "involve", "call"))
            if ((near and whom) or over) and _is_handing(s, place):
                return True
    for place in people:
        rest = tokens[place + 1 : place + 8]
        if ("will" in rest or "ll" in rest) and not _TAKING.isdisjoint(rest):
            return not (s.has("condition") or s.near("negation", place, 6))
        if {"take", "over"} <= set(rest) and announced(s, place):
            return True
    return False


def _is_handing(s: Sentence, place: int) -> bool:
    tokens = s.tokens
    if s.near("negation", place, 6) or s.near("unable", place, 8):
        return False
    left = tokens[max(0, place - CLAUSE) : place]
    if not _WEAK.isdisjoint(left) or s.has("condition") or _is_awaiting(s, place):
        return False
    if announced(s, place, governed=True) or {"need", "have"} & set(left[-4:]) and "to" in left:
        return True
    past = tokens[place].endswith("ed") and not _HAVE.isdisjoint(left[-4:])
    wished = {"would", "id"} & set(left) and "like" in left and "you" not in left
    return past or bool(wished)


_WEAK = frozenset("can could may might cannot cant wont want wants asked whether you".split()) - {
    "you"
}
_HAVE = frozenset("ive have weve has been is now are just".split())


# -- waiting ---------------------------------------------------------------------------------------


def waits(s: Sentence) -> bool:
    """It asks for a moment, or says that it is looking."""
    places = s.at("wait")
    return any(
        not (s.near("negation", place, 2) or s.near("thanks", place, 4)) for place in places
    )


# -- explanations ----------------------------------------------------------------------------------

_DEMANDING = frozenset(
    "please could can may need require kindly provide share tell give enter like confirm "
    "whats what which where id".split()
)
_PAST_CHECK = frozenset(("yes", "yep", "yeah", "indeed"))


def explains_why(s: Sentence) -> bool:
    """Why something is asked for, or what a word means; such a sentence tells nothing else."""
    if s.question or s.has("unable"):
        return False
    if s.has("means") and not s.has("fee_value"):
        return True
    return s.has("purpose") and _DEMANDING.isdisjoint(s.tokens[: s.at("purpose")[0]])


def explains_on(s: Sentence, told: bool) -> bool:
    """That it is so, or how things go on; `told`: the sentence says something else as well."""
    if s.question or s.has("unable", "condition", "hedge", "quote"):
        return False
    if s.has("next_paper") and not s.has("order_slot"):
        return True
    if told or is_general(s):
        return False
    if s.has("assured", "next_step"):
        return True
    if s.has("checked"):
        return s.tokens[0] in _PAST_CHECK or len(s.tokens) <= 9
    lasts = s.has("takes") and s.has("period")
    return lasts or (s.tokens[0] in _ERRANDS and len(s.tokens) > 2)


_ERRANDS = frozenset("print pack wrap stick tape attach keep drop pop bring hand post affix".split())
