"""What a reply asks of the customer: a slot, the matter, anything else, a yes.

    "Could I have your e-mail?"            email
    "I still need the postcode."           postcode: a request without a question mark
    "Is it the lamp or the kettle?"        order
    "- Damaged  - Wrong item"              nothing: reasons to choose from, below the question
    "A return, or something else?"         the matter
    "Shall I cancel it?" "Yes or no?"      a yes, to the write named here or before
"""

from __future__ import annotations

from convgym.domains.customer_service.changes import changes_named
from convgym.domains.customer_service.details import (
    asks_cause,
    asks_defect,
    asks_record,
    asks_variant,
    kind_in_sight,
)
from convgym.domains.customer_service.intentions import promises, waits
from convgym.domains.customer_service.matters import ABOUT, about, in_play, is_about_any
from convgym.domains.customer_service.refusals import comes_later
from convgym.domains.customer_service.reports import place_named, reported
from convgym.language.moods import Around
from convgym.language.understanding import Sentence

_IN_PASSING = frozenset("an a by via confirmation".split())
_SETTLED = frozenset("matches match matched found works noted heres received".split())
_MENTIONS = frozenset("thanks thank for this with".split())
_PERFECT = frozenset("has have been was were ive weve will".split())
_SLOT_CUES = ("email", "postcode", "order_slot", "reason", "new_address", "address", "name_noun")
_IMPERATIVES = frozenset(
    "cancel return change update send redirect move switch refund set create book open start "
    "process register go proceed submit ready exchange swap end stop terminate unlock unblock "
    "issue reissue resend pay credit reverse file close".split()
)
_LEADING = frozenset("really so then just ok okay right and well now actually confirming ,".split())
_NOTED = frozenset("noted entered down".split())
"""Taken down, not yet done, where a question follows."""
_NO_PROPOSAL = frozenset("did have has was were had will what which why where who how when".split())
"""First words of a question that proposes nothing."""


def orders_named(s: Sentence) -> list[tuple[int, str]]:
    """(place, order number) of each order that is named."""
    return [
        (place, token.upper())
        for place, token in enumerate(s.tokens)
        if len(token) == 6 and token[0] == "w" and token[1:].isdigit()
    ]


def order_named(s: Sentence) -> str:
    """The first order number in a sentence; "" where there is none."""
    named = orders_named(s)
    return named[0][1] if named else ""


def short(s: Sentence) -> bool:
    """Four words at most."""
    return len(s.tokens) <= 4


_FIRST_PERSON = frozenset("i id im ill we wed were well".split())
_WONDERING = frozenset("how what whats which tell describe let whatever hear".split())


def asks_intent(s: Sentence, asked: list[str]) -> bool:
    """Whether it asks what the matter is: "how can I help?", unless it asks for something else."""
    if "ask_intent" in s.places and "unable" not in s.places:
        wonders = not _WONDERING.isdisjoint(s.words)
        wonders = wonders and not (s.has("credit", "pickup", "return") or waits(s))
        if asked and not {",", "and"}.intersection(s.words):
            return False  # "which order do you need help with?"
        calls = "request" in s.places and s.tokens[0] not in _FIRST_PERSON
        return s.question or (not asked and (calls or wonders))
    return requests(s) and "matter" in s.places and not (asked or "sorry" in s.places)


_IF_MORE = frozenset("if feel hesitate should whenever in".split())

_GRANTING = frozenset("given considering see".split())
_GRASPING = frozenset("understand appreciate".split())
_SPEAKER = frozenset(("i", "we"))


def asks_more(s: Sentence) -> bool:
    """Whether it asks for anything further: "anything else?"."""
    if s.tokens == ["else"]:
        return True
    if "other" not in s.places or s.has("unable", "reason"):
        return False
    if "negation" in s.places and not (s.question or s.has("condition", "request")):
        return False
    place = s.at("other")[0]
    if requests(s) or short(s) or place <= 2 or s.tokens[place - 1] == ",":
        return True
    return not _IF_MORE.isdisjoint(s.words)


def asks_name(s: Sentence) -> bool:
    """"May I have your full name?", but not the name of an item."""
    if not requests(s) or s.has("order_noun", "order_slot", "email", "unable", "return"):
        return False
    places = [at for at, token in enumerate(s.tokens) if token in ("name", "names")]
    return any(s.word_before(_YOURS, place, 4) for place in places) or (
        s.question and "whom" in s.words
    )


_YOURS = frozenset(("your", "the"))


def requests(s: Sentence) -> bool:
    """Whether it is a question, or asks for something without a question mark."""
    return s.question or "request" in s.places


# -- slots -----------------------------------------------------------------------------------------


_TOPICS = (
    "cancel",
    "return",
    "address",
    "new_address",
    "redirect",
    "track",
    "change_it",
    "something_else",
)


_SETTLING = ("confirm", "averted", "which_plan", "which_charge", "why_word", "cause_option")


def asks_which_matter(s: Sentence) -> bool:
    """"Is it about a return, a cancellation or something else?" """
    if not s.question or "or" not in s.words or "keep" in s.words:
        return False
    if s.has("reason", "email", "postcode", "pickup", "credit", "confirm_yes"):
        return False
    named = {t.replace("cancelled", "cancel") for t in (*_TOPICS, "cancelled") if s.has(t)}
    if is_about_any(s) and not s.has(*_SETTLING):
        named |= {matter for matter in ABOUT if about(s, matter)}
    named = {"address" if t in ("redirect", "new_address") else t for t in named}
    return len(named - {"change_it"} if "address" in named else named) >= 2


_WH = frozenset("which what where whats".split())
_STREET = frozenset("street town city house".split())


def asks(s: Sentence, before: Around, after: Around) -> list[str]:
    """Requests for a slot; one listed under or above a request is requested too."""
    wonders = s.leads and not _WH.isdisjoint(s.words)
    requested = requests(s) or wonders or (s.leads and not after[0].has(*_SLOT_CUES))
    if not requested and len(s.tokens) <= 14 and _PERFECT.isdisjoint(s.words):
        requested = any("request" in n.places for n in (*before[-2:], *after[:2]))
    if not requested and len(s.tokens) <= 12 and not _MISSING.isdisjoint(s.words):
        requested = _PERFECT.isdisjoint(s.words) and s.has("email", "postcode", "new_address")
    again = any("retry" in n.places and requests(n) for n in after[:1])
    if not (requested or again or short(s)):
        return []
    details = _asks_details(s, before, after, requested)
    mismatch = s.has("verify", "claimed", "postcode") and s.has("failed", "unable")
    if mismatch and not (s.question or again):
        return details
    slots = [
        slot
        for slot in ("email", "postcode")
        if s.has(slot) and (again or not _told_about(s, slot))
    ]
    if details and not {"variant", "defect", "cause"}.isdisjoint(details):
        return [*slots, *details]
    if requested and "unable" not in s.places and _asks_reason(s):
        slots.append("reason")
    elif _asks_address(s, requested, before):
        slots = [*(slot for slot in slots if slot != "postcode"), "address"]
    if "postcode" in slots and not _STREET.isdisjoint(s.words):
        slots = [*(slot for slot in slots if slot not in ("postcode", "address")), "address"]
    if "order_slot" in s.places or "address" not in slots:
        if not (details or _is_of_parcel(s) or about(s, "access")) and _asks_order(s, requested):
            slots.append(kind_in_sight(s, before) or "order")
    slots += details
    if not slots and _asks_for_it(s, before):
        slots = [slot for slot in ("email", "postcode") if any(n.has(slot) for n in before[-1:])]
    if not slots and s.question and "retry" in s.places:
        lost = any("not_found" in n.places and n.has("address", "email") for n in before[-1:])
        slots = ["email"] * lost
    return slots


def _is_of_parcel(s: Sentence) -> bool:
    """"Until we get the item back, no refund can be made." """
    return s.has("at_ours", "come_back") and about(s, "refund") and not s.question


def _asks_details(s: Sentence, before: Around, after: Around, requested: bool) -> list[str]:
    """What the six other matters need: subscription, charge, variant, defect, cause."""
    if not in_play(s):
        return []
    reason = requested and "unable" not in s.places and _asks_reason(s)
    if asks_cause(s, before, reason):
        return ["cause"]
    if _is_of_parcel(s):
        return []
    if asks_variant(s, before, requested):
        return ["variant"]
    if requested and asks_defect(s, [*before[-2:], *after[:2]], reason):
        return ["defect"]
    record = asks_record(s, requested or short(s))
    return [record] if record else []


_MISSING = frozenset("just left missing remaining lacking need next".split())
_GIVE = frozenset("share give provide send tell type spell".split())


_MISSING_IT = frozenset("need with without require required missing".split())


def _asks_for_it(s: Sentence, before: Around) -> bool:
    """"Could you share it with me?", of what the sentence before names."""
    if requests(s) and "yours" in s.words:
        return True
    if s.tokens in (["what", "is", "it"], ["whats", "it"]):
        return any(not _MISSING_IT.isdisjoint(n.words) for n in before[-1:])
    return not _GIVE.isdisjoint(s.words) and requests(s) and any(
        token in _GIVE and s.tokens[at + 1 : at + 2] in (["it"], ["them"], ["yours"], ["that"])
        for at, token in enumerate(s.tokens)
    )


def _told_about(s: Sentence, slot: str) -> bool:
    """A slot that is talked about, not asked for: "thanks for your email"."""
    if slot != "order_slot" and "next_paper" in s.places and not s.question:
        return True
    if requests(s):
        return False
    place = s.at(slot)[0]
    if s.word_before(_MENTIONS, place, 3):
        return True
    if s.word_before(_IN_PASSING, place, 1) and s.tokens[place + 1 : place + 2] != ["address"]:
        return True
    return not _SETTLED.isdisjoint(s.words)


def _asks_reason(s: Sentence) -> bool:
    if about(s, "access"):
        return False
    if any(not _is_granted(s, place) for place in s.at("reason")):
        return True
    return "fault" in s.places and ("or" in s.words or s.tokens[0] in ("did", "was", "is"))


def _is_granted(s: Sentence, place: int) -> bool:
    """The reason at `place` is known: "given your reason", "I can see why"."""
    if s.word_before(_GRANTING, place, 3):
        return True
    return s.word_before(_GRASPING, place, 2) and s.word_before(_SPEAKER, place, 4)


def _asks_address(s: Sentence, requested: bool, before: Around) -> bool:
    if place_named(s) or any(place_named(n) for n in before[-1:]):
        return False
    if s.has("confirm", "confirm_question") and "new_address" not in s.places:
        if s.has("cancel", "return", "changed", "stored", "redirect"):
            return False
    if (
        s.has("no_street", "pickup")
        or ("not_found" in s.places and not s.question)
        or "account" in s.words
    ):
        return False
    if not s.question and (
        ("new_place" in s.places and "love" in s.words)
        or not _SETTLED.isdisjoint(s.words)
        or promises(s, ())
    ):
        return False
    if "new_address" in s.places:
        return True
    return requested and "address" in s.places and not s.has("unable", "email", "postcode")


def _asks_order(s: Sentence, requested: bool) -> bool:
    named = len(orders_named(s))
    if named:
        either = named > 1 and s.question and "or" in s.words
        return either or (s.question and _means_which(s))
    if (
        s.question
        and "order_slot" not in s.places
        and (_means_which(s) or _asks_either(s) or _asks_which(s))
    ):
        return not s.has("reason", "fault", "email", "postcode")
    if "order_slot" in s.places:
        at = s.at("order_slot")
        if s.has("email", "postcode") and all(
            s.tokens[a : a + 2] == ["the", "one"] or s.tokens[a] in ("when", "did") for a in at
        ):
            return False
        if "ask_intent" in s.places and all(s.tokens[a] == "one" for a in at):
            return False  # "help with one of your orders"
        return not _told_about(s, "order_slot")
    return (
        requested
        and "order_noun" in s.places
        and "name_noun" in s.places
        and "reason" not in s.places
    )


_OTHER_KINDS = frozenset(
    "email e mail address postcode reason day date issue way matter street town city zip name "
    "country location place destination one option problem topic team mailbox account concern "
    "is was means i we you would will can of applies".split()
)
_BEFORE_WHICH = frozenset((",", "and", "so", "from", "about", "for", "in", "or", "ok", "okay"))


def _asks_which(s: Sentence) -> bool:
    """"Which lamp would you like to send back?" """
    for at, token in enumerate(s.tokens[:-1]):
        if token == "which" and s.tokens[at + 1] not in _OTHER_KINDS:
            if not at or s.tokens[at - 1] in _BEFORE_WHICH:
                return True
    return False


def _means_which(s: Sentence) -> bool:
    """"Did you mean the lamp?", "is it about your lamp?" """
    return any(
        s.tokens[at] != "is" or not at or s.tokens[at - 1] in _BEFORE_WHICH
        for at in s.at("meaning_which")
    )


def _asks_either(s: Sentence) -> bool:
    """"Is it the headphones or the kettle?" """
    head, rest = tuple(s.tokens[:2]), s.tokens[2:]
    if head not in (("is", "it"), ("was", "it"), ("is", "this"), ("is", "that")):
        return False
    ors = [at for at, token in enumerate(rest) if token == "or"]
    return bool(ors) and rest[0] in _THE and rest[ors[0] + 1 : ors[0] + 2] != ["not"]


_THE = frozenset(("the", "your", "about"))


# -- a yes -----------------------------------------------------------------------------------------


def confirms(s: Sentence, before: Around) -> list[str]:
    """The writes that the customer is asked to say yes to; more than one is a yes to none."""
    if not _proposes(s) or (not s.question and _goes_ahead(s)):
        return []
    if s.has("withheld", "governor", "averted") or _chooses(s):
        return []
    writes = _writes_named(s)
    for earlier in reversed(before):
        done = "passive" in earlier.places and _NOTED.isdisjoint(earlier.words)
        if writes or (done and reported(earlier, ())):
            break
        if earlier.has("withheld", "governor", "averted") or _chooses(earlier):
            break
        if earlier.question and not _proposes(earlier):
            break  # "Is the sky blue? Yes or no?"
        if not earlier.has("unable", "later", "reason", "pickup", "sequence"):
            writes = _writes_named(earlier) or promises(earlier, ())[:1]
            writes = [] if writes == ["transfer"] else writes
    return [] if writes == ["return"] and comes_later(s, before) else writes


_OR_NOT = frozenset("no not should shall would do is are did n".split())


def _chooses(s: Sentence) -> bool:
    """"Shall I cancel it or leave it?" leaves open what a yes is to."""
    ors = [at for at, token in enumerate(s.tokens) if token == "or"]
    if not ors or not s.question:
        return False
    return bool(s.tokens[ors[0] + 1 :]) and _OR_NOT.isdisjoint(s.tokens[ors[0] + 1 : ors[0] + 3])


def _goes_ahead(s: Sentence) -> bool:
    """"I'll go ahead with the return" asks for nothing."""
    ahead = all(s.tokens[at] == "go" for at in s.at("confirm"))
    return ahead and "yes" not in s.words and bool(promises(s, ()))


def _proposes(s: Sentence) -> bool:
    """It asks for a yes: in so many words, or by a question that names what would be done."""
    if s.has("reason", "email", "postcode", "pickup", "credit", "other", "hedge", "quote"):
        return False
    if "keep" in s.words:
        return False  # "keep it or cancel it" is no question for a yes
    if "unable" in s.places and not s.question:
        return False
    if "confirm" in s.places or ("yes" in s.words and (requests(s) or short(s))):
        return True
    if not s.question or s.tokens[0] in _NO_PROPOSAL:
        return False
    if "confirm_question" in s.places or place_named(s):
        return True
    first = next((token for token in s.tokens if token not in _LEADING), "")
    ordered = first in _IMPERATIVES and len(s.tokens) > 1 and "or" not in s.words
    return bool((ordered or order_named(s)) and _writes_named(s))


def _writes_named(s: Sentence) -> list[str]:
    """The changes of the six matters, with a cancellation beside them; else one of the older."""
    changes, older = changes_named(s), _write_named(s)
    if changes:
        return [*changes, older] if older == "cancel" else changes
    return [older] if older else []


def _write_named(s: Sentence) -> str:
    if any(not s.near("negation", place, 5) for place in s.at("cancel", "cancelled")):
        if "address" not in s.places:
            return "cancel"
    if place_named(s) or (s.has("address", "new_address") and s.has("changed", "stored")):
        return "address"
    if "redirect" in s.places and not any(s.near("negation", at, 4) for at in s.at("redirect")):
        return "address"
    return "return" if "return" in s.places else ""


def tells_where(s: Sentence) -> str:
    """The kind of record of which it tells where its number is found; empty where it does not.

    "It is in your confirmation mail, it begins with a W."
    """
    if s.question or s.has("unable", "sorry", "promise"):
        return ""
    if "email" in s.places and "number_place" not in s.places:
        return ""
    number = "order_slot" in s.places or "number" in s.words
    found = "number_place" in s.places
    for letter, kind in (("w", "order"), ("s", "subscription"), ("c", "charge")):
        if letter in s.tokens and (number or found):
            return kind
    if number and found and not requests(s):
        return kind_in_sight(s, ()) or "order"
    return ""


def is_listed(s: Sentence, before: Around) -> bool:
    """A reason to choose, below the question for it: "- Damaged"."""
    if len(s.tokens) > 5 or s.question or not s.has("fault", "other", "reason_option"):
        return False
    if any(n.has("fault", "reason_option") and len(n.tokens) <= 3 for n in before[-2:]):
        return True
    return any("reason" in n.places and (requests(n) or len(n.tokens) < 5) for n in before)
