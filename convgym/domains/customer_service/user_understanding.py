"""A customer's free text as acts: what a person or a model says when it plays the customer.

    "Hi, I want to cancel W48213, my mail is dana@example.com"
        ├── wishes, questions, answers   the tagger      greet, request_cancel
        └── values                       who and wants   inform_order, inform_email

An act that states a value comes from the value alone, and from what the customer knows: the
account's own e-mail address is `inform_email`, any other one `inform_email_wrong`. What the
customer does not have at all, such as an item of somebody else's order, is no act; the problem
says so.

What a newcomer would get wrong: `wants` are the requests that may be spoken of now, the one that
is being settled first. A value that any of them has is right, whichever it was said for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache

from convgym.domains.customer_service.customer import DATES, DETAILS, LABELS, Want, Who
from convgym.domains.customer_service.world import CATEGORIES, COLOURS, ITEMS, PLANS
from convgym.language.figures import dates, written_out
from convgym.language.phrases import packaged, read_tables
from convgym.language.tagging import ActTagger, off_topic
from convgym.language.understanding import Lexicon

_PACKAGE = "convgym.domains.customer_service"
NOTHING = "nothing in it that this desk understands"
MOST_CHARACTERS = 2000
"""How far a message is read."""
_MOST_FEATURES = 1536
"""For this many acts; more take longer to fit, and read new wordings no better."""

_KINDS = {
    CATEGORIES[0]: r"clothing|clothes|apparel|garments?",
    CATEGORIES[1]: r"electronics?|gadgets?|electronic (?:device|item|thing)s?",
    CATEGORIES[2]: r"home goods|household (?:goods|items?|things?)|homeware|furnishings?",
    CATEGORIES[3]: r"beauty(?: products?| items?)?|cosmetics?",
}
"""What customers call a category."""
_VARIANT = (
    r"\bsize (?:xx?s|s|m|l|xx?l|small|medium|large|extra large)\b"
    rf"|(?<!out of the )\b(?:{'|'.join(COLOURS)})\b(?! light| card)"
)
_AMOUNT = (
    r"[$€£] ?\d+(?:[.,]\d\d)?\b|\b\d+(?:[.,]\d\d)? ?(?:dollars?|bucks|usd)\b"
    r"|(?<![\w.,-])\d+[.,]\d\d\b(?![.,/-]?\d)"
)
_VALUES = {
    "order": r"\bw\d{5}\b",
    "subscription": r"\bs\d{5}\b",
    "charge": r"\bc\d{5}\b",
    "item": rf"\b(?:{'|'.join(item for item, _, _ in ITEMS)})\b",
    "plan": rf"\b(?:{'|'.join(plan for plan, _ in PLANS)})(?:es)?\b",
    "category": rf"\b(?:{'|'.join(CATEGORIES)})\b",
    "address": r"\b\d{1,4} (?:[a-z]+ ){1,2}(?:street|avenue|road|lane|view|close)\b(?:, ?[a-z]+)?",
    "amount": _AMOUNT,
    "variant": _VARIANT,
}
_LABELLED = (
    ("order", "item", tuple(item for item, _, _ in ITEMS)),
    ("subscription", "plan", tuple(plan for plan, _ in PLANS)),
)
_SHORT_ANSWERS = {
    "affirm": "sure|sure thing|do it|please do|definitely|absolutely|of course|correct|agreed",
    "negate": "stop|dont|dont do it|dont do that|please dont|no dont|not that|no stop",
    "decline_offer": "no thanks|no thank you|not interested",
    "ask_back": "what|sorry|huh|pardon|what do you mean|hm|hmm",
    "acknowledge": "great|perfect|cool|nice|good|fine|ok then|okay then|i see|right|alright",
    "challenge": "thats wrong|thats not right|thats not true|not true|i doubt it",
    "no_luck": "i cant find it|cant find it|i dont see it|nothing there",
    "no_more": "thats all|thats it|thats everything|nothing else|nothing more|im done",
}
"""Sentences that are too short for a tagger, and sure."""
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_LETTERS = {"w": "order", "s": "subscription", "c": "charge"}
_NUMBER = re.compile(
    r"(?<!['’])\b([wsc])[\s#-]?(\d{5})\b"
    r"|\b(order|subscription|membership|plan|charge|payment|debit|number|no\.?|nr\.?|ref|reference)"
    r"(?: (?:is|number|no\.?|reference))?[\s:#]*(\d{5})\b",
    re.IGNORECASE,
)
_CALLED = {"membership": "subscription", "plan": "subscription"} | dict.fromkeys(
    ("payment", "debit"), "charge"
)
"""Other words for the kinds of record; "number" and the like leave the kind open."""
_POSTCODE = re.compile(r"(?<![\w@.#-])\d{5}(?!\d|[\w@])")
_ADDRESS = re.compile(
    r"\b(\d{1,4}),? ((?:[a-z]+ ){1,2}?"
    r"(?:street|st|avenue|ave|road|rd|lane|ln|view|close|drive|way|square|court))\b",
    re.IGNORECASE,
)
_SHORT = {"st": "street", "ave": "avenue", "rd": "road", "ln": "lane"}
_SIZES = {"small": "s", "medium": "m", "large": "l", "extra large": "xl"}
_WORD = re.compile(r"[a-z0-9]+")
_DATE = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE)


@cache
def user_tagger(part: str = "all") -> ActTagger:
    """What reads a customer's words, fitted once in a process.

    `part` says to which wordings: `train` leaves those out that are kept for measuring.
    """
    return tagger_of(user_examples(part))


def tagger_of(wordings: Iterable[tuple[str, Collection[str]]]) -> ActTagger:
    """A tagger fitted to some wordings, to the phrases of `user_cues.toml` and to what is none."""
    nothing = off_topic(_PACKAGE)
    cues = read_tables(packaged(_PACKAGE, "user_cues.toml"))
    examples: list[tuple[str, Collection[str]]] = [*wordings]
    examples += [(text, ()) for text in nothing]
    for act, ideas in cues.items():
        if act in _acts():
            examples += [(phrase, (act,)) for phrase in Lexicon(ideas).phrases()]
        if act.startswith("request_"):
            examples += [(f"do not {phrase}", ()) for phrase in Lexicon(ideas).phrases()]
    ideas = {idea: phrases for table in cues.values() for idea, phrases in table.items()}
    return ActTagger(examples, ideas, _VALUES, _MOST_FEATURES)


def user_examples(part: str) -> list[tuple[str, frozenset[str]]]:
    """The customer's wordings and turns with their acts: `train`, `held_out` or `all`."""
    examples = []
    for name in ("user_phrases.toml", "user_turns.toml"):
        for found, table in read_tables(packaged(_PACKAGE, name)).items():
            if part in (found, "all"):
                for acts, by_register in table.items():
                    lists = by_register.values() if isinstance(by_register, dict) else [by_register]
                    done = frozenset(acts.split("+"))
                    examples += [(text, done) for wordings in lists for text in wordings]
    return examples


@cache
def _acts() -> frozenset[str]:
    """Every act that a customer has words for."""
    return frozenset(read_tables(packaged(_PACKAGE, "user_phrases.toml"))["train"])


def understand(text: str, who: Who, wants: Sequence[Want]) -> tuple[tuple[str, ...], str]:
    """(acts by name in the order of the text, what of it could not be taken up).

    Both are empty for an empty text.
    """
    text = text[:MOST_CHARACTERS]
    if not text.strip():
        return (), ""
    tagger = user_tagger()
    sentences = tagger.sentences(text)
    short = {
        number: act
        for number, sentence in enumerate(sentences)
        if (act := _short_answers().get(_plain(sentence)))
    }
    found: list[tuple[int, int, str]] = []  # sentence, place in it, act
    problems: list[str] = []
    for number, sentence in enumerate(sentences):
        for place, act in _stated(sentence, who, wants):
            if act.startswith("inform_"):
                found.append((number, place, act))
            else:
                problems.append(act)
    found += [(number, 0, act) for number, act in short.items()]
    told = [(_meant(act, wants), at) for act, at in tagger.spot(text) if at not in short]
    details, foreign = _details([act for act, _ in told], wants)
    problems += foreign
    for act, number in told:
        if act not in tagger.value_acts and (_detail(act) == ("", "") or act in details):
            found.append((number, -1, act))
    acts = tuple(dict.fromkeys(act for _, _, act in sorted(found, key=lambda at: at[:2])))
    if not acts and not problems:
        return (), NOTHING
    return acts, "; ".join(dict.fromkeys(problems))


@cache
def _short_answers() -> dict[str, str]:
    return {words: act for act, them in _SHORT_ANSWERS.items() for words in them.split("|")}


def _plain(sentence: str) -> str:
    return " ".join(_WORD.findall(sentence.lower().replace("'", "").replace("’", "")))


def _meant(act: str, wants: Sequence[Want]) -> str:
    """What this customer means by words that another one would mean `act` by."""
    workflows = {want["workflow"] for want in wants}
    if act == "request_cancel" and "subscription" in workflows and "cancel" not in workflows:
        return "request_subscription"
    terms = {term for want in wants for term in want["terms"]}
    if act == "ask_fee" and "postage" in terms and "fee" not in terms:
        return "ask_postage"
    kinds = [want["kind"] for want in wants if want["kind"]]
    if act.startswith("correct_") and kinds and act.removeprefix("correct_") not in kinds:
        return f"correct_{kinds[0]}"
    return act


# -- details ---------------------------------------------------------------------------------------


def _detail(act: str) -> tuple[str, str]:
    """("reason", "damaged") of inform_reason_damaged; two empty texts where it is no such act."""
    detail, _, word = act.removeprefix("inform_").partition("_")
    plain = detail in DETAILS.values() and act.startswith("inform_")
    return (detail, word) if word and plain else ("", "")


def _details(acts: Iterable[str], wants: Sequence[Want]) -> tuple[set[str], list[str]]:
    """(acts that tell a detail of the wants, problems with those that tell another one).

    A customer with a defect who calls it damage as well has told the defect.
    """
    own = {(DETAILS.get(want["workflow"], ""), want["detail"]) for want in wants}
    told = {act: _detail(act) for act in acts if _detail(act) != ("", "")}
    right = {act for act, detail in told.items() if detail in own}
    names = dict.fromkeys(detail for detail, _ in told.values())
    return right, [] if right else [f"a {name} that is not this customer's" for name in names]


# -- values ----------------------------------------------------------------------------------------


def _stated(sentence: str, who: Who, wants: Sequence[Want]) -> Iterator[tuple[int, str]]:
    """(place, act) of each value; a problem in words where the customer has no such value."""
    taken: list[tuple[int, int]] = []
    for email in _EMAIL.finditer(sentence):
        taken.append(email.span())
        right = email.group().lower().rstrip(".") == who["email"].lower()
        yield email.start(), "inform_email" if right else "inform_email_wrong"
    for number in _NUMBER.finditer(sentence):
        digits = number.group(2) or number.group(4)
        if not number.group(1) and digits == who["postcode"]:
            continue
        taken.append(number.span())
        yield number.start(), _numbered(number, digits, wants)
    for code in _POSTCODE.finditer(sentence):
        if any(start <= code.start() < end for start, end in taken):
            continue
        kind = next((w["kind"] for w in wants if w["id"][1:] == code.group()), "")
        if kind and code.group() != who["postcode"]:
            yield code.start(), f"inform_{kind}"
        else:
            right = code.group() == who["postcode"]
            yield code.start(), "inform_postcode" if right else "inform_postcode_wrong"
    yield from _described(sentence, wants)
    yield from _in_own_words(sentence, wants)


def _numbered(number: re.Match[str], digits: str, wants: Sequence[Want]) -> str:
    """The act of stating a record's number; its letter or the word before it tells the kind."""
    letter, word = (number.group(1) or "").lower(), (number.group(3) or "").lower()
    kinds = [want["kind"] for want in wants if want["kind"]]
    named = _LETTERS.get(letter) or _CALLED.get(word, word)
    kind = named if named in LABELS else next(iter(kinds), "order")
    if kind not in kinds:
        return f"{'an' if kind == 'order' else 'a'} {kind} that is not this customer's concern"
    own = {want["id"][1:] for want in wants if want["kind"] == kind}
    return f"inform_{kind}" if digits in own else f"inform_{kind}_wrong"


def _described(sentence: str, wants: Sequence[Want]) -> Iterator[tuple[int, str]]:
    """Labels and dates of records, and what they are of."""
    lowered = sentence.lower()
    for kind, what, names in _LABELLED:
        own = {want["label"] for want in wants if want["kind"] == kind}
        for name in names:
            place = lowered.find(name)
            if place >= 0:
                yield place, f"inform_{what}" if name in own else f"the {what} of another {kind}"
    sums = {_cents(want["label"]) for want in wants if want["kind"] == "charge"}
    for amount in re.finditer(_AMOUNT, lowered) if sums else ():
        right = _cents(amount.group()) in sums
        yield amount.start(), "inform_amount" if right else "an amount that is not this charge's"
    orders = [want for want in wants if want["kind"] == "order"]
    for category, words in _KINDS.items() if orders else ():
        found = re.search(rf"\b(?:{words})\b", lowered)
        if found:
            right = any(want["vague"] == category for want in orders)
            problem = "goods that are not in this order"
            yield found.start(), "inform_category" if right else problem
    month = _DATE.search(sentence)
    for _, day in dates(_WORD.findall(written_out(sentence).lower())):
        place = month.start() if month else 0
        acts = [f"inform_{DATES[w['kind']]}" for w in wants if w["kind"] and w["date"] == day]
        kind = next((want["kind"] for want in wants if want["kind"]), "order")
        yield place, acts[0] if acts else f"a date that is not this {kind}'s"


def _cents(amount: str) -> int:
    """24.90, $24,90 and 24.9 dollars as 2490."""
    whole, _, rest = re.sub(r"[^\d.,]", "", amount).rstrip(".,").replace(",", ".").partition(".")
    return int(whole or "0") * 100 + int(f"{rest:0<2}"[:2])


def _in_own_words(sentence: str, wants: Sequence[Want]) -> Iterator[tuple[int, str]]:
    """Details that are texts of the customer's own: a new address, another variant."""
    details = {want["workflow"]: want["detail"].lower() for want in wants}
    street = details.get("address", "").split(",")[0]
    for address in _ADDRESS.finditer(sentence):
        *first, last = address.group(2).lower().split()
        said = " ".join((address.group(1), *first, _SHORT.get(last, last)))
        problem = "an address that is not this task's"
        yield address.start(), "inform_address" if said == street else problem
    if "exchange" in details:
        for variant in re.finditer(_VARIANT, sentence, re.IGNORECASE):
            name, _, size = variant.group().lower().partition(" ")
            said = f"{name} {_SIZES.get(size, size)}".strip()
            problem = "a variant that is not this customer's"
            yield variant.start(), "inform_variant" if said == details["exchange"] else problem
