"""What a sentence is about, where that is an exchange, a missing refund, a subscription, the access
to the account, a warranty or a charge; and the verbs in it that would settle such a matter.

    "Shall I end your coffee box?"       about subscription, deed "end"
    "It started on 3 May. I ended it."   the second sentence is about what the first is about

Both are noted in the sentence as concepts of their own: `about_subscription`, `do_subscription`
(what may be done: "end", "ending"), `did_subscription` ("ended"), `noun_subscription` ("the
termination"). Words that mean something else there lose their old concepts: who cancels a
subscription cancels no order, and "charge" is no fee where it is one on a statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from convgym.language.moods import taken_back
from convgym.language.understanding import Sentence

MATTERS = ("exchange", "refund", "subscription", "access", "warranty", "billing")
ABOUT = {matter: f"about_{matter}" for matter in MATTERS}
"""The concept that stands where a matter is named, or pointed at."""
_ABOUT_ANY = tuple(ABOUT.values())
ANY = "about"
"""The concept that stands wherever one of them does."""
IN_PLAY = "matters"
"""The concept of every sentence of a reply that may speak of them."""
HEAP = "heap"
"""The concept of a sentence that is about so much that it says nothing."""
_HEAP = 4
_NAMED_BY = {
    "swap": "exchange",
    "payback": "refund",
    "plan": "subscription",
    "lock": "access",
    "claim": "warranty",
    "charge": "billing",
}
_NAMING = tuple(_NAMED_BY)
_LETTERS = {"subscription": "s", "billing": "c"}
_RECORD = re.compile(r"\b[sc]\d{5}\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\d+\.\d\d")

# -- numbers of records ----------------------------------------------------------------------------


def numbers(s: Sentence, letter: str) -> list[str]:
    """Numbers that begin with `letter`, in their order: "W48213"."""
    return [
        token.upper()
        for token in s.tokens
        if len(token) == 6 and token[0] == letter and token[1:].isdigit()
    ]


def letter_of(matter: str) -> str:
    """What the numbers of a matter's records begin with; empty where it has none."""
    return "" if matter == "access" else _LETTERS.get(matter, "w")


def number_of(s: Sentence, matter: str, named: dict[str, str]) -> str:
    """The record of a matter that is named here, else a number of another kind, else before."""
    letter = letter_of(matter)
    if not letter:
        return ""
    for sign in (letter, *"wsc".replace(letter, "")):
        found = numbers(s, sign)
        if found:
            return found[0]
    return named.get(letter, "")


def is_sum(token: str) -> bool:
    """An amount of money: "24.90"; its sign is no word."""
    return _AMOUNT.fullmatch(token) is not None


# -- verbs -----------------------------------------------------------------------------------------


def _forms(matter: str, form: str, words: str) -> list[tuple[str, tuple[str, str]]]:
    return [(word, (matter, form)) for word in words.split()]


_DEEDS: dict[str, list[tuple[str, str]]] = {}
for _word, _deed in [
    *_forms("exchange", "do", "exchange exchanging swap swapping swop swopping trade trading"),
    *_forms("exchange", "do", "switch switching change changing send sending get getting"),
    *_forms("exchange", "do", "replace replacing"),
    *_forms("exchange", "did", "exchanged swapped swopped traded switched changed replaced"),
    *_forms("refund", "do", "try trying attempt attempting effect issue issuing reissue reissuing pay paying send sending resend"),
    *_forms("refund", "do", "resending release releasing process processing redo redoing repeat"),
    *_forms("refund", "do", "repeating trigger triggering repay repaying refund refunding start"),
    *_forms("refund", "do", "remit remitting make making transfer run running initiate initiating reimburse"),
    *_forms("refund", "did", "issued reissued paid sent resent released processed redone repeated"),
    *_forms("refund", "did", "triggered repaid refunded started made transferred initiated out"),
    *_forms("subscription", "do", "end ending cancel cancelling canceling stop stopping close"),
    *_forms("subscription", "do", "terminate terminating discontinue discontinuing unsubscribe"),
    *_forms("subscription", "do", "unsubscribing quit closing finish finishing drop"),
    *_forms("subscription", "did", "ended cancelled canceled stopped closed terminated"),
    *_forms("subscription", "did", "discontinued unsubscribed finished dropped taken took"),
    *_forms("access", "do", "unlock unlocking unblock unblocking reactivate reactivating reopen"),
    *_forms("access", "do", "reopening restore restoring reinstate reinstating lift lifting"),
    *_forms("access", "do", "remove removing take taking enable enabling activate free give giving"),
    *_forms("access", "did", "unlocked unblocked reactivated reopened restored reinstated lifted"),
    *_forms("access", "did", "removed taken took enabled activated freed gone given gave"),
    *_forms("warranty", "do", "open opening file filing submit submitting register registering"),
    *_forms("warranty", "do", "log logging lodge lodging raise raising start starting create"),
    *_forms("warranty", "do", "creating make making book booking enter entering put record set"),
    *_forms("warranty", "did", "opened filed submitted registered logged lodged raised started"),
    *_forms("warranty", "did", "created made booked entered put recorded set"),
    *_forms("billing", "do", "credit crediting refund refunding reverse reversing void voiding"),
    *_forms("billing", "do", "remove removing take taking cancel cancelling return returning"),
    *_forms("billing", "do", "repay repaying reimburse reimbursing give giving pay put"),
    *_forms("billing", "did", "credited refunded reversed voided removed taken took cancelled"),
    *_forms("billing", "did", "returned repaid reimbursed given paid put gone"),
]:
    _DEEDS.setdefault(_word, []).append(_deed)
_OWN = frozenset(
    "exchange exchanging exchanged swap swapping swapped swop swopping swopped trade trading traded "
    "unlock unlocking unlocked unblock unblocking unblocked unsubscribe unsubscribing unsubscribed "
    "reissue reissuing reissued".split()
)
"""Verbs that need no object to say what they are about."""
_LOCKS = frozenset("lock block".split())
_DOORS = frozenset("access account login profile accounts".split())
_SWAPPED = frozenset("size sizes black white blue red green colour color exchange variant".split())
_LIFTING = frozenset(
    "lift lifting lifted remove removing removed take taking taken took gone free freed".split()
)
_POINTING = frozenset("it this that them these those both one".split())
_BREAKS = frozenset((",", "because", "although", "but", "since"))
_NOUNS = {
    "exchange": frozenset("exchange swap swop trade switch".split()),
    "refund": frozenset("refund money reimbursement payout repayment".split()),
    "subscription": frozenset("termination cancellation ending".split()),
    "access": frozenset("unlock unlocking reactivation access lock".split()),
    "warranty": frozenset("claim claims case paperwork".split()),
    "billing": frozenset("credit reversal refund dispute".split()),
}
_DETERMINERS = frozenset(
    "the a an your this that my our its no any such another of for in warranty new and second , to"
    .split()
)
_ORDERED = frozenset("order orders purchase parcel package item".split())
_REACH = 7
"""Words between a verb and the object after it."""
_FAR = 14
"""Words between an object and the participle after it."""


def settle(sentences: Sequence[Sentence], text: str) -> None:
    """Note in each sentence what it is about and which deeds are named; see the module."""
    numbered = bool(_RECORD.search(text))
    if not (numbered or any(s.has_any(_TRIGGERS) for s in sentences)):
        return
    last = ""
    for s in sentences:
        s.places[IN_PLAY] = [0]
        _rename_once(s)
        signed = numbered or s.has(*_SIGNS)
        if signed:
            _name(s, numbered)
        ordered = (signed or last) and not _ORDERED.isdisjoint(s.tokens)
        if last and not s.has(*_ABOUT_ANY) and (not ordered or s.has("credited")):
            _point(s, last)
        if signed or last:
            last = _finish(s) or ("" if ordered or numbers(s, "w") else last)


def _rename_once(s: Sentence) -> None:
    """"Once more" is no condition, as "once it has arrived" is."""
    for at, token in enumerate(s.tokens[:-1]):
        if token == "once" and s.tokens[at + 1] in ("more", "again"):
            s.tokens[at] = "anew"


_SIGNS = (*_NAMING, "at_once", "paid_month", "credited", "postage", "repair", "at_ours", "no_trace", "come_back", "replace", "broken_down")
_TRIGGERS = frozenset(
    [*_SIGNS, "sold_out", "in_stock", "waitlist", "back_in", "new_label", "pause", "self_paid"]
    + ["invoice", "size_word", "size_name", "which_size", "instead_of_it", "like_to_have", "defect"]
    + ["cause_option", "repairing", "unserved", "cannot_reach", "too_many", "minimum_term", "prepaid", "covers"]
    + ["excluded", "to_end", "which_plan", "which_charge", "replace"]
)
"""Without one of these a reply says nothing of the six matters."""


def in_play(s: Sentence) -> bool:
    """Whether the reply has anything of the six matters in it: a quick look."""
    return IN_PLAY in s.places


def _name(s: Sentence, numbered: bool) -> None:
    """Note the matters that are named here."""
    for mark, matter in _NAMED_BY.items():
        if s.has(mark):
            _note(s, ABOUT[matter], s.at(mark))
    if numbered:
        _note_numbers(s)
    _unname(s)
    _note_running(s)
    if s.has("credited"):
        _note_credited(s)


def _finish(s: Sentence) -> str:
    """Note the deeds, clear what is no longer meant; the matter that goes on, if any."""
    found = [matter for matter in MATTERS if ABOUT[matter] in s.places]
    if len(found) >= _HEAP:
        for concept in _ABOUT_ANY:
            s.places.pop(concept, None)
        s.places[HEAP] = [0]
        return ""
    if found:
        s.places[ANY] = s.at(*_ABOUT_ANY)
        _note_deeds(s)
    if found or s.has("postage", "repair", "replace", "come_back", "broken_down"):
        _clear(s)
    return found[-1] if found else ""


_HOPES = frozenset("hope hoping wish almost nearly".split())
_WAS = frozenset(("was", "were"))
_THEN = frozenset("last yesterday formerly earlier".split())


def is_vouched(s: Sentence, place: int) -> bool:
    """What is said at `place` is meant: not doubted, hoped, heard or taken back."""
    if taken_back(s, place, "governor", "unsaid") or s.word_before(_HOPES, place, 8):
        return False
    return not (s.word_before(_WAS, place, 2) and not _THEN.isdisjoint(s.tokens))


def about(s: Sentence, matter: str) -> bool:
    """Whether the sentence is about a matter."""
    return ABOUT[matter] in s.places


def is_about_any(s: Sentence) -> bool:
    """Whether it is about any of the six matters."""
    return ANY in s.places


def runs_on(s: Sentence) -> bool:
    """It tells how long something runs, or when it ends."""
    return not _RUNNING.isdisjoint(s.tokens)


def _note(s: Sentence, concept: str, places: Sequence[int]) -> None:
    if places:
        s.places[concept] = sorted({*s.places.get(concept, ()), *places})


_REPLACING = frozenset("replace replacing replaced".split())
_STORE = frozenset("store shop voucher balance".split())
_RUNNING = frozenset(
    "ends end ending stops stop stopped runs run running stays stay remains remain continues "
    "continue carries keeps lasts last active until till over going served ended expires use goes "
    "terminates".split()
)
_RUNS = frozenset("ends stops runs continues stays remains end stop".split())


def _note_running(s: Sentence) -> None:
    """"It stops at once": what else could it be than a subscription."""
    if not s.has("at_once", "paid_month") or _RUNS.isdisjoint(s.tokens):
        return
    places = [at for at, token in enumerate(s.tokens) if token in _RUNS]
    willed = any(s.word_before(_WILLED - {"to"}, at, 1) for at in places)
    if not (willed or _ORDERED.intersection(s.tokens)):
        _note(s, ABOUT["subscription"], places[:1])


def _note_credited(s: Sentence) -> None:
    """"The $24.90 has been credited": that is a charge."""
    tokens = s.tokens
    sums = [at for at, t in enumerate(tokens) if _AMOUNT.fullmatch(t) and tokens[at - 1] == "the"]
    back = [at for at in s.at("return") if tokens[at] == "back"]
    if sums and _STORE.isdisjoint(tokens) and len(back) == len(s.at("return")):
        _note(s, ABOUT["billing"], sums)
        _drop(s, "return", back)


def _note_numbers(s: Sentence) -> None:
    for matter, letter in _LETTERS.items():
        places = [
            at
            for at, token in enumerate(s.tokens)
            if len(token) == 6 and token[0] == letter and token[1:].isdigit()
        ]
        _note(s, ABOUT[matter], places)


def _unname(s: Sentence) -> None:
    """Take away what only looks like a matter: "plan B", "free of charge", "the money you paid"."""
    for mark, matter, reach in (("no_plan", "subscription", 2), ("no_charge", "billing", 3)):
        for start in s.at(mark):
            places = s.places.get(ABOUT[matter], [])
            s.places[ABOUT[matter]] = [at for at in places if not start - 1 <= at <= start + reach]
            if not s.places[ABOUT[matter]]:
                del s.places[ABOUT[matter]]
    if s.has("replace", "size_word") and _REPLACING.intersection(s.tokens) and s.has("size_word"):
        _note(s, ABOUT["exchange"], [a for a, t in enumerate(s.tokens) if t in _REPLACING])
    if about(s, "exchange") and s.has("address", "new_address") and not s.has("size_word"):
        if "exchange" not in s.tokens:
            del s.places[ABOUT["exchange"]]  # "I'll swap the address"
    if about(s, "billing") and not (_FEES.isdisjoint(s.tokens) and _SHARES.isdisjoint(s.tokens)):
        del s.places[ABOUT["billing"]]
    if about(s, "billing") and about(s, "refund") and not s.has("again"):
        del s.places[ABOUT["refund"]]  # a charge is refunded: no refund is missing


def _point(s: Sentence, matter: str) -> None:
    """"Shall I end it?", of what the sentence before is about."""
    pointing = [at for at, token in enumerate(s.tokens) if token in _POINTING]
    verbs = [
        at
        for at, token in enumerate(s.tokens)
        for deed in _DEEDS.get(token, ())
        if deed[0] == matter and token not in ("get", "getting", "take", "let", "make", "out", "in")
    ]
    nouns = [at for at, token in enumerate(s.tokens) if token in _NOUNS[matter]]
    if nouns or (verbs and (pointing or len(s.tokens) <= 8)):
        _note(s, ABOUT[matter], (pointing or nouns or verbs)[:1])


# -- deeds -----------------------------------------------------------------------------------------


def _note_deeds(s: Sentence) -> None:
    for at, token in enumerate(s.tokens):
        for matter, words in _NOUNS.items():
            if token in words and about(s, matter) and _is_noun(s, at, matter):
                _note(s, f"noun_{matter}", [at])
        forms = _DEEDS.get(token)
        if not forms:
            continue
        linked = [(_distance(s, at, matter, token), matter, form) for matter, form in forms]
        nearest = min((d for d, _, _ in linked if d >= 0), default=-1)
        for distance, matter, form in linked:
            if distance == nearest >= 0:
                _note(s, f"{form}_{matter}", [at])


def _is_noun(s: Sentence, at: int, matter: str) -> bool:
    """"The exchange", not "to exchange"."""
    if matter in ("warranty", "refund") or s.tokens[at] not in _DEEDS:
        return True
    before = s.tokens[at - 1] if at else ","
    return before in _DETERMINERS - {"to", "and"} or (not at and not s.question)


def _distance(s: Sentence, at: int, matter: str, token: str) -> int:
    """How far the verb at `at` is from what it does that to; -1 where it is not."""
    if not about(s, matter) or not _is_whole(s, at, matter, token):
        return -1
    if token in _OWN:
        return 0
    if matter in ("access", "exchange"):
        needed = _SWAPPED if matter == "exchange" else _LOCKS if token in _LIFTING else _DOORS
        needed = frozenset(("access",)) if token in _GIVING else needed
        return _next(s, at, [a for a, t in enumerate(s.tokens) if t in needed])
    places = list(s.places[ABOUT[matter]])
    if matter == "billing":
        places += [a for a, t in enumerate(s.tokens) if _AMOUNT.fullmatch(t) or t == "amount"]
        if token in ("credit", "dispute") and _is_noun(s, at, matter):
            return -1
    if matter == "refund" and token in _REFUNDING:
        return 0 if token != "refund" or _is_verb(s, at) else -1
    return _next(s, at, [a for a in places if a != at])


_REFUNDING = frozenset("refund refunding refunded".split())
_TAKING = frozenset("take taking taken took".split())
_GIVING = frozenset("put give giving given gave pay paid return returning returned".split())


def _is_whole(s: Sentence, at: int, matter: str, token: str) -> bool:
    """The verb with the word that it needs: "gone out", "take … off", "pay … back"."""
    if matter == "refund" and token == "out":
        return s.tokens[at - 1 : at] in (["gone"], ["went"], ["go"])
    if matter in ("billing", "subscription") and token in _TAKING:
        return "off" in s.tokens[at : at + 9]
    if matter == "subscription" and token in ("end", "stop") and s.tokens[at - 1] in _OF_ITSELF:
        return any(p > at for p in s.places[ABOUT[matter]])  # not "it will end on its own"
    if matter == "billing" and token in _GIVING:
        return "back" in s.tokens[at : at + 9]
    return True


_OF_ITSELF = frozenset("will itll would itd".split())
_WILLED = frozenset("to i we ill well you and let me shall can now gladly id wed just".split())


def _is_verb(s: Sentence, at: int) -> bool:
    """"I'll refund it", not "the refund"."""
    return s.tokens[at - 1] in _WILLED if at else s.tokens[1:2] in (["it"], ["the"], ["this"])


def _next(s: Sentence, at: int, places: Sequence[int]) -> int:
    """Words to the nearest of `places`; those before the verb count as farther; -1 for none."""
    tokens = s.tokens
    after = [p - at for p in places if at < p <= at + _REACH and "," not in tokens[at:p]]
    before = [at - p + _REACH for p in places if at - _FAR <= p < at]
    if after or before:
        return min(after + before)
    return 2 * _FAR if places and tokens[at + 1 : at + 2] in (["it"], ["that"], ["this"]) else -1


# -- what words no longer mean ---------------------------------------------------------------------

_FEES = frozenset("restocking restock fee fees".split())
_SENT_BACK = frozenset(("return", "returned"))
_MADE = frozenset("processed processing progress".split())
_BEING = frozenset("was has been is now just have were already".split())
_SHOP = frozenset("we weve have already".split())
_SHARES = frozenset(("%", "percent", "pct", "cent"))


def _clear(s: Sentence) -> None:
    """Take away concepts whose words belong to the matter here."""
    for matter, concept in (
        ("subscription", "cancel"), ("subscription", "cancelled"), ("billing", "cancel"),
        ("billing", "cancelled"), ("exchange", "cancelled"), ("warranty", "cancelled"),
        ("refund", "cancelled"),
    ):  # fmt: skip
        if about(s, matter) and s.has(concept):
            _drop(s, concept, [p for p in s.at(concept) if not _of_order(s, p)])
    plain = _FEES.isdisjoint(s.tokens)
    if about(s, "billing"):
        _drop(s, "credit", s.at("credit"))
        _drop(s, "original", s.at("original"))
        _drop(s, "ask_intent", s.at("ask_intent"))
        if plain:
            for concept in ("fee", "fee_verb", "no_fee", "refund"):
                _drop(s, concept, s.at(concept))
    if (about(s, "exchange") or about(s, "warranty") or s.has("postage", "repair")) and plain:
        for concept in ("fee", "fee_verb", "no_fee"):
            _drop(s, concept, s.at(concept))
    if about(s, "exchange") and not s.has("address", "new_address"):
        _drop(s, "changed", s.at("changed"))
        _drop(s, "delivered", [p for p in s.at("delivered") if s.tokens[p - 1 : p] == ["the"]])
    if s.has("processing") and s.has(*_ABOUT_ANY):
        first = min(s.at(*_ABOUT_ANY))
        made = [p for p in s.at("processing") if _MADE.intersection(s.tokens[p : p + 2])]
        _drop(s, "processing", [p for p in made if p > first])
    if s.has("replace") and not s.has("address", "new_address"):
        _drop(s, "changed", [p for p in s.at("changed") if s.tokens[p] in _REPLACING])
    if s.has("broken_down"):
        _drop(s, "cancelled", [p for p in s.at("cancelled") if s.tokens[p : p + 1] == ["stopped"]])
    if s.has("delivered"):
        _drop(s, "delivered", [p for p in s.at("delivered") if _is_receipt(s, p)])
    if s.has("come_back") and about(s, "refund"):
        ours = {"us", "we", "warehouse", "our", "here", "back", "in"}.intersection(s.tokens)
        if ours and "you" not in s.tokens[-2:]:
            _drop(s, "delivered", s.at("delivered"))
            _drop(s, "arrival", s.at("arrival"))
    if about(s, "refund") or about(s, "billing"):
        first = min(s.at(ABOUT["refund"], ABOUT["billing"]))
        _drop(s, "shipped", [p for p in s.at("shipped") if p > first])


def _is_receipt(s: Sentence, at: int) -> bool:
    """"We received your return", "your return was received": nothing was delivered."""
    if s.tokens[at - 1 : at] and s.tokens[at - 1] in _SHOP:
        return bool(_SENT_BACK.intersection(s.tokens[at + 1 : at + 4]))
    place = at - 1
    while place > 0 and s.tokens[place] in _BEING:
        place -= 1
    return place >= 0 and s.tokens[place] in _SENT_BACK


def _drop(s: Sentence, concept: str, places: Sequence[int]) -> None:
    if places:
        kept = [p for p in s.at(concept) if p not in places]
        if kept:
            s.places[concept] = kept
        else:
            del s.places[concept]


def _of_order(s: Sentence, at: int) -> bool:
    """What stands at `at` is done to an order: the first that is named after it, or before."""
    tokens = s.tokens
    orders = [
        a
        for a, t in enumerate(tokens)
        if t in _ORDERED or (len(t) == 6 and t[0] == "w" and t[1:].isdigit())
    ]
    if not orders:
        return False
    begin = max((a + 1 for a in range(at) if tokens[a] in (",", "and")), default=0)
    others = s.at(*_ABOUT_ANY)
    after = [min((p for p in both if at < p <= at + _REACH), default=99) for both in (orders, others)]
    before = [min((p for p in both if begin <= p < at), default=99) for both in (orders, others)]
    first, then = (before, after) if tokens[at].endswith("ed") else (after, before)
    return first[0] < first[1] if min(first) < 99 else then[0] < then[1]
