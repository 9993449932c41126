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

from convgym.domains.customer_service.changes import changes_promised
from convgym.domains.customer_service.refusals import is_general
from convgym.domains.customer_service.reports import place_named, street_named
from convgym.language.figures import dates
from convgym.language.moods import DOERS, WILL, Around, announced, awaits, clause
from convgym.language.understanding import Sentence

_IT = frozenset("it this that so thats its".split())
_SENDING = frozenset(
    "send sending ship shipping deliver delivering bring bringing goes go going sent delivered "
    "shipped".split()
)
_PUTTING = frozenset(
    "put putting pop popping enter entering add adding save saving set setting apply applying "
    "switch switching move moving use using input write writing register".split()
)

# -- promises --------------------------------------------------------------------------------------


def promises(s: Sentence, before: Around) -> list[str]:
    """What is promised in a sentence: a write, or to transfer."""
    if s.question or not _may_promise(s):
        return []
    found = ["transfer"] if _transfers(s) else []
    if s.has("rule", "quote", "confirm_first"):
        return found
    found += changes_promised(s)
    if any(announced(s, place) for place in s.at("cancel", "cancelled")):
        found.append("cancel")
    if _returns(s):
        found.append("return")
    if "return" not in found and _readdresses(s):
        found.append("address")
    if not (found or s.has("cancel", "cancelled", "return", "address", "new_address")):
        found += _resumed(s, before)
    return found


_SIGNS = WILL | frozenset(("let", "going", "about", "being", "gets", "while", "now"))


def _may_promise(s: Sentence) -> bool:
    """A quick look, whether there is anything to read at all."""
    if "people" in s.places or not _SIGNS.isdisjoint(s.words):
        return True
    return "ing " in " ".join((*s.tokens, ""))


def _returns(s: Sentence) -> bool:
    for place in s.at("return"):
        left, _ = clause(s, place)
        if announced(s, place) and not DOERS.isdisjoint(left):
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
    if not (street or "new_address" in s.places or "instead" in s.words or "new_place" in s.places):
        return False
    if s.has("return", "refund", "email"):
        return False
    sent = [at for at, token in enumerate(s.tokens) if token in _SENDING]
    return any(announced(s, place) for place in [*sent, *s.at("redirect")])


def _resumed(s: Sentence, before: Around) -> list[str]:
    """"I'm doing it right now", of the write that was named last."""
    tokens = s.tokens
    for place, token in enumerate(tokens):
        if token in DOERS and not _IT.isdisjoint(tokens[place + 1 : place + 4]):
            if token in ("see", "have", "get", "go", "going", "ahead", "take", "make"):
                continue
            willed = _is_willed_do(s, place)
            if willed and len(tokens) <= 12:
                for earlier in reversed(before[-2:]):
                    if place_named(earlier):
                        return ["address"]
                    for write in ("cancel", "return", "address"):
                        at = earlier.at(write)
                        denied = at and earlier.near("negation", at[0], 4)
                        if at and not (denied or "unable" in earlier.places):
                            return [write]
    return []


def _is_willed_do(s: Sentence, place: int) -> bool:
    return announced(s, place) and (s.tokens[place].endswith("ing") or len(s.tokens) <= 8)


# -- handing over to a person ----------------------------------------------------------------------

_HANDING = frozenset(
    "connect connecting connected put putting pass passing passed hand handing handed forward "
    "forwarding forwarded refer referring referred route routing routed switch switching get "
    "getting bring bringing send sending sent raise raising loop looping have having link "
    "linking patch patching bump move moving turn turning direct directing give giving assign "
    "assigning assigned call calling involve involving pull pulling leave leaving fetch "
    "fetching find finding let grab grabbing".split()
)
_STRONG = frozenset("transfer transferring transferred escalate escalating escalated".split())
_WHOM = frozenset("you your this it case matter things chat conversation request ticket".split())
_MONEY = frozenset("money refund amount payment credit balance funds".split())
_TAKING = frozenset(
    "take takes taking contact call help assist be look get continue reach pick handle follow "
    "jump join phone ring write speak talk deal".split()
)


_OVER = frozenset("through over across on".split())


def _transfers(s: Sentence) -> bool:
    tokens = s.tokens
    people = [] if "know" in tokens else s.at("people")
    if not people and _STRONG.isdisjoint(s.words):
        if _OVER.isdisjoint(s.words) or _HANDING.isdisjoint(s.words):
            return False
    for place, token in enumerate(tokens):
        if token in _STRONG:
            following = tokens[place + 1 : place + 5]
            if _MONEY.isdisjoint(following) and _is_handing(s, place):
                return True
        elif token in _HANDING:
            over = tokens[place + 1 : place + 2] == ["you"]
            over = over and not _OVER.isdisjoint(tokens[place + 2 : place + 4])
            if token.startswith(("put", "get", "hand", "pass", "connect")) and over:
                over = not people or any(at > place for at in people)
            near = any(place < at <= place + 9 for at in people)
            whom = not _WHOM.isdisjoint(tokens[max(0, place - 4) : place + 4])
            whom = whom or token.startswith(
                ("get", "bring", "have", "loop", "involve", "call", "fetch", "let", "grab")
            )
            if ((near and whom) or over) and _is_handing(s, place):
                return True
    for place in people:
        rest = tokens[place + 1 : place + 8]
        if not _CARRIERS.isdisjoint(rest[:4]):
            continue
        if not _TALKING.isdisjoint(tokens[max(0, place - 6) : place]) and "youll" in tokens[:place]:
            return True
        if ("will" in rest or "ll" in rest) and not _TAKING.isdisjoint(rest):
            return not ("condition" in s.places or s.near("negation", place, 6))
        if {"take", "over"} <= set(rest) and announced(s, place):
            return True
    return False


_CARRIERS = frozenset("carrier courier driver depot post bank".split())
_TALKING = frozenset("speaking talking speak talk chat chatting".split())


def _is_handing(s: Sentence, place: int) -> bool:
    tokens = s.tokens
    if s.near("negation", place, 6) or s.near("unable", place, 8):
        return False
    left, joint = clause(s, place)
    if joint == "while" and left[:1] in (["i"], ["we"]):
        return True
    if not _WEAK.isdisjoint(left) or "condition" in s.places or awaits(s, place):
        return False
    if announced(s, place, governed=True) or ({"need", "have"} & set(left[-4:]) and "to" in left):
        return True
    past = tokens[place].endswith("ed") and not _HAVE.isdisjoint(left[-4:])
    wished = {"would", "id"} & set(left) and "like" in left and "you" not in left
    return past or bool(wished)


_WEAK = frozenset(
    "can could may might cannot cant wont want wants asked whether".split()
)
_HAVE = frozenset("ive have weve has been is now are just".split())


# -- waiting ---------------------------------------------------------------------------------------


_LOOKING = frozenset(("looking", "checking", "searching"))


def waits(s: Sentence) -> bool:
    """It asks for a moment, or says that it is looking."""
    for place in s.at("wait"):
        if s.near("negation", place, 2) or s.near("thanks", place, 4):
            continue
        if s.tokens[place] in _LOOKING and (s.question or not announced(s, place)):
            continue
        return True
    return False


# -- explanations ----------------------------------------------------------------------------------

_DEMANDING = frozenset(
    "please could can may need require kindly provide share tell give enter like confirm whats "
    "what which where id".split()
)
_PAST_CHECK = frozenset(("yes", "yep", "yeah", "indeed"))


def explains_why(s: Sentence) -> bool:
    """Why something is asked for, or what a word means; such a sentence tells nothing else."""
    if s.question or "unable" in s.places:
        return False
    return "purpose" in s.places and _DEMANDING.isdisjoint(s.tokens[: s.at("purpose")[0]])


def explains_word(s: Sentence) -> bool:
    """What a word of the shop means; the word itself then says nothing of the order."""
    if s.question or s.has("no_meaning", "window") or "%" in s.words or dates(s.tokens):
        return False
    if not any(not at or s.tokens[at - 1] not in _NOT_MEANING for at in s.at("means")):
        named = min(s.at(*_TERMS), default=9)
        if (
            "sort_of" not in s.places
            or (named > 2 and s.tokens[0] not in _IT)
            or "as" in s.tokens[:1]
            or "your" in s.tokens[:named]
        ):
            return False
    return "unable" not in s.places or s.tokens[0] in ("final", "clearance", "when", "by")


_NOT_MEANING = frozenset("which , of original payment same your this".split())
_TERMS = ("fee", "credit", "final_sale", "pickup", "original", "shipped", "packed", "processing")


def explains_on(s: Sentence, told: bool) -> bool:
    """That it is so, or how things go on; `told`: the sentence says something else as well."""
    if s.question or s.has("unable", "quote", "hedge") or 0 in s.at("normally"):
        return False
    if "condition" in s.places and "paper" not in s.places:
        return False
    if (
        "order_slot" in s.places
        or "w" in s.words
        or ("can" in s.tokens[:4] and "email" in s.places)
    ):
        return False  # where the order number is found; "can I get the e-mail"
    if "next_paper" in s.places or _mails(s):
        return True
    if told or is_general(s):
        return False
    if s.has("next_step", "sort_of") or (
        "assured" in s.places and (len(s.tokens) <= 10 or min(s.at("assured")) <= 4)
    ):
        return True
    if "checked" in s.places:
        return s.tokens[0] in _PAST_CHECK
    lasts = "takes" in s.places and "period" in s.places
    return lasts or (s.tokens[0] in _ERRANDS and len(s.tokens) > 2)


def _mails(s: Sentence) -> bool:
    """"You'll get a mail with the label", "we will send you a message"."""
    for place in s.at("paper"):
        for at in range(max(0, place - 8), place):
            token = s.tokens[at]
            if token in _GETTING and s.word_before(_YOU, at, 5) and not s.near("negation", at, 4):
                return True
            if token in _MAILING and s.word_before(_WE, at, 5) and not s.near("negation", at, 4):
                return not s.near("request", at, 3)
    return False


_GETTING = frozenset("get receive find see getting receiving have hear".split())
_MAILING = frozenset("send email mail text sending sends follow".split())
_YOU = frozenset("you youll youre".split())
_WE = frozenset("well ill we i were im will shall system".split())
_ERRANDS = frozenset(
    "print pack wrap stick tape attach keep drop pop bring hand post affix".split()
)
