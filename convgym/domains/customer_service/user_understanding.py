"""A customer's free text as acts: what a person or a model says when it plays the customer.

    "Hi, I want to cancel W48213, my mail is dana@example.com"
        ├── wishes, questions, answers   the tagger    greet, request_cancel
        └── values                       this task     inform_order, inform_email

An act that states a value comes from the value alone, and from the task: the account's own
e-mail address is `inform_email`, any other one `inform_email_wrong`. What the task does not have
at all, such as an item of somebody else's order, is no act; the problem says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache

from convgym.domains.customer_service.figures import dates, written_out
from convgym.domains.customer_service.tasks import Task
from convgym.domains.customer_service.vocabulary import U
from convgym.domains.customer_service.world import (
    CATEGORIES,
    ITEMS,
    MONTHS,
    REASONS,
    World,
    date_text,
)
from convgym.language.phrases import packaged, read_tables
from convgym.language.tagging import ActTagger
from convgym.language.understanding import Lexicon

_PACKAGE = "convgym.domains.customer_service"
NOTHING = "nothing in it that this desk understands"
MOST_CHARACTERS = 2000
"""How far a message is read."""

_KINDS = {
    CATEGORIES[0]: r"clothing|clothes|apparel|garments?",
    CATEGORIES[1]: r"electronics?|gadgets?|electronic (?:device|item|thing)s?",
    CATEGORIES[2]: r"home goods|household (?:goods|items?|things?)|homeware|furnishings?",
    CATEGORIES[3]: r"beauty(?: products?| items?)?|cosmetics?",
}
"""What customers call a category."""
_VALUES = {
    "item": rf"\b(?:{'|'.join(item for item, _, _ in ITEMS)})\b",
    "category": rf"\b(?:{'|'.join(CATEGORIES)})\b",
    "address": r"\b\d{1,4} (?:[a-z]+ ){1,2}(?:street|avenue|road|lane|view|close)\b(?:, ?[a-z]+)?",
}
_SHORT_ANSWERS = {
    "affirm": "sure|sure thing|do it|please do|definitely|absolutely|of course|correct|agreed",
    "negate": "stop|dont|dont do it|dont do that|please dont|no dont|not that|no stop",
    "decline_offer": "no thanks|no thank you|not interested",
    "ask_back": "what|sorry|huh|pardon|what do you mean|hm|hmm",
    "acknowledge": "great|perfect|cool|nice|good|fine|ok then|okay then|i see|right|alright",
    "challenge": "thats wrong|thats not right|thats not true|not true|i doubt it",
    "no_luck": "i cant find it|cant find it|i dont see it|nothing there",
}
"""Sentences that are too short for a tagger, and sure."""
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ORDER = re.compile(
    r"\bw[\s#-]?(\d{5})\b"
    r"|\b(?:order|number|no\.?|nr\.?)(?: (?:is|number|no\.?))?[\s:#]*(\d{5})\b",
    re.IGNORECASE,
)
_POSTCODE = re.compile(r"(?<![\w@.#-])\d{5}(?!\d|[\w@])")
_ADDRESS = re.compile(
    r"\b(\d{1,4}),? ((?:[a-z]+ ){1,2}?"
    r"(?:street|st|avenue|ave|road|rd|lane|ln|view|close|drive|way|square|court))\b",
    re.IGNORECASE,
)
_SHORT = {"st": "street", "ave": "avenue", "rd": "road", "ln": "lane"}
_WORD = re.compile(r"[a-z0-9]+")
_DATE = re.compile(rf"\b(?:{'|'.join(month[:3] for month in MONTHS)})", re.IGNORECASE)


@cache
def user_tagger(part: str = "all") -> ActTagger:
    """What reads a customer's words, fitted once in a process.

    `part` says to which wordings: `train` leaves those out that are kept for measuring.
    """
    return tagger_of(user_examples(part))


def tagger_of(wordings: Iterable[tuple[str, Collection[str]]]) -> ActTagger:
    """A tagger fitted to some wordings, to the phrases of `user_cues.toml` and to what is none."""
    nothing = read_tables(packaged(_PACKAGE, "user_background.toml"))["background"]
    cues = read_tables(packaged(_PACKAGE, "user_cues.toml"))
    examples: list[tuple[str, Collection[str]]] = [*wordings]
    examples += [(text, ()) for text in nothing]
    for act, ideas in cues.items():
        if act in U:
            examples += [(phrase, (act,)) for phrase in Lexicon(ideas).phrases()]
        if act.startswith("request_"):
            examples += [(f"do not {phrase}", ()) for phrase in Lexicon(ideas).phrases()]
    ideas = {idea: phrases for table in cues.values() for idea, phrases in table.items()}
    return ActTagger(examples, ideas, _VALUES)


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


def understand_user(text: str, shop: World, task: Task) -> tuple[tuple[int, ...], str]:
    """(numbers of the acts in the order of the text, what of it could not be taken up).

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
        for place, act in _stated(sentence, shop, task):
            if act in U:
                found.append((number, place, act))
            else:
                problems.append(act)
    found += [(number, 0, act) for number, act in short.items()]
    for act, number in tagger.spot(text):
        if number in short:
            continue
        reason = act.removeprefix("inform_reason_")
        if reason in REASONS and reason != REASONS[task.reason]:
            problems.append("a reason that is not this customer's")
        elif act not in tagger.value_acts:
            found.append((number, -1, act))
    acts = tuple(dict.fromkeys(U[act] for _, _, act in sorted(found, key=lambda at: at[:2])))
    if not acts and not problems:
        return (), NOTHING
    return acts, "; ".join(dict.fromkeys(problems))


@cache
def _short_answers() -> dict[str, str]:
    return {words: act for act, them in _SHORT_ANSWERS.items() for words in them.split("|")}


def _plain(sentence: str) -> str:
    return " ".join(_WORD.findall(sentence.lower().replace("'", "").replace("’", "")))


def _stated(sentence: str, shop: World, task: Task) -> Iterator[tuple[int, str]]:
    """(place, act) of each value; a problem in words where the task has no such value."""
    own_order, own_code = shop.order_id(task.order), shop.postcode_text(task.customer)
    taken: list[tuple[int, int]] = []
    for email in _EMAIL.finditer(sentence):
        taken.append(email.span())
        right = email.group().lower().rstrip(".") == shop.email(task.customer)
        yield email.start(), "inform_email" if right else "inform_email_wrong"
    for order in _ORDER.finditer(sentence):
        digits = order.group(1) or order.group(2)
        if not order.group(1) and digits == own_code:
            continue
        taken.append(order.span())
        right = f"W{digits}" == own_order
        yield order.start(), "inform_order" if right else "inform_order_wrong"
    for code in _POSTCODE.finditer(sentence):
        if any(start <= code.start() < end for start, end in taken):
            continue
        if code.group() == own_order[1:] != own_code:
            yield code.start(), "inform_order"
        else:
            right = code.group() == own_code
            yield code.start(), "inform_postcode" if right else "inform_postcode_wrong"
    yield from _described(sentence, shop, task)


def _described(sentence: str, shop: World, task: Task) -> Iterator[tuple[int, str]]:
    lowered = sentence.lower()
    own_item = shop.item_name(task.order)
    for item, _, _ in ITEMS:
        place = lowered.find(item)
        if place >= 0:
            yield place, "inform_item" if item == own_item else "an item that is not in this order"
    own_kind = CATEGORIES[shop.category(task.order)]
    for kind, words in _KINDS.items():
        found = re.search(rf"\b(?:{words})\b", lowered)
        if found:
            right = kind == own_kind
            yield found.start(), "inform_category" if right else "goods that are not in this order"
    number, street = shop.address(task.customer).lower().split(",")[0].split(" ", 1)
    for address in _ADDRESS.finditer(sentence):
        *first, last = address.group(2).lower().split()
        right = (address.group(1), " ".join((*first, _SHORT.get(last, last)))) == (number, street)
        yield address.start(), "inform_address" if right else "an address that is not this task's"
    month = _DATE.search(sentence)
    placed = date_text(-shop.placed[task.order])
    for _, day in dates(_WORD.findall(written_out(sentence).lower())):
        right = day == placed
        place = month.start() if month else 0
        yield place, "inform_placed" if right else "a date that is not this order's"
