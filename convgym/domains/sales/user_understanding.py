"""A buyer's free text as acts: what a person or a model says when it plays the buyer.

    "Hi, I'm looking for laptops with a touchscreen, my budget is $1,200"
        ├── wishes, questions, answers   the tagger      greet
        └── values                       the task        request_product, inform_needs, …

An act that states a value comes from the value, and from what this buyer wants: the feature it
has to have is `inform_needs`, the one it mixes up `inform_needs_wrong`. What the buyer of this
task would not say at all, another sum or another feature, is no act; the problem says so.

What a newcomer would get wrong: the tagger does not tell needs from questions by the feature, which
is the same word in both, but by what stands around it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

from convgym.domains.sales.descriptions import (
    PACKAGE,
    feature_patterns,
    features_named,
    features_placed,
)
from convgym.domains.sales.tasks import Task
from convgym.domains.sales.view import rough_budget
from convgym.domains.sales.vocabulary import SAID, U
from convgym.domains.sales.world import CATEGORIES, FEATURES, FEATURES_EACH, RIVALS
from convgym.language.phrases import packaged, read_tables
from convgym.language.tagging import ActTagger, off_topic
from convgym.language.understanding import Lexicon

NOTHING = "nothing in it that this shop understands"
MOST_CHARACTERS = 2000
"""How far a message is read."""
_MOST_FEATURES = 2560
"""Of the tagger: for this many acts; more take longer to fit, and read hardly more."""
_OWN_WORDS = 2
"""How often a message of `user_messages.toml` counts: it is what people write, not the buyer."""

_CATEGORY = {
    "laptops": r"laptops?|notebooks?",
    "phones": r"(?:smart|mobile |cell ?)?phones?|mobiles",
    "cameras": r"cameras?",
    "headphones": r"headphones?|headsets?",
    "office chairs": r"(?:office|desk) chairs?",
    "coffee machines": r"coffee (?:machines?|makers?)|espresso machines?",
}
_USES = tuple(use for features in FEATURES for _, use in features)
_MONEY = (
    r"[$€£] ?\d[\d,]*(?:\.\d\d?)?k?"
    r"|\b\d[\d,]*(?:\.\d\d?)? ?(?:dollars?|bucks|usd|euros?|eur|quid)\b"
)
_PERCENT = r"\b\d{1,2}(?:\.\d)? ?(?:%|percent\b|per cent\b|pct\b)"
_COUNTS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
}
_QUANTITY = r"(?<![\w.,$€£])\d{1,3}(?![\w%]|[.,]\d)"
_THINGS = (
    r"pieces?|units?|items?|laptops?|phones?|cameras?|(?:office |desk )?chairs?|headphones"
    r"|(?:coffee )?machines?|pairs?"
)
_COUNTED = re.compile(
    rf"\b({'|'.join(_COUNTS)})\b(?= (?:{_THINGS}|in (?:total|all))\b)"
    rf"|\b({'|'.join([*_COUNTS][1:])})(?= of (?:them|those|these)\b)"
    rf"|(?:^|\b(?:just|only|need|want|take|order)) ({'|'.join(_COUNTS)})(?=\W*(?:please|pls)?\W*$)",
    re.IGNORECASE,
)
_FEATURE = "|".join(f"(?:{pattern})" for _, pattern in feature_patterns())
_LIST = rf"(?:{_FEATURE})(?:(?:,| and| plus| as well as| or| &)+ (?:a |an |the )?(?:{_FEATURE}))*"
_VALUES = {
    "feature": rf"(?<![\w-])(?:{_LIST})(?![\w-])",
    "use": rf"\b(?:{'|'.join(map(re.escape, _USES))})\b",
    "category": rf"\b(?:{'|'.join(_CATEGORY.values())})\b",
    "rival": rf"\b(?:{'|'.join(RIVALS)})\b",
    "percent": _PERCENT,
    "budget": _MONEY,
    "quantity": _QUANTITY,
}
_SAME = {"{needs}": "{feature}", "{missing}": "{feature}"}
"""Placeholders that are one kind of value."""
_FEATURE_ACTS = ("inform_needs", "inform_need_part", "reject_product", "ask_feature")
_MONEY_ACTS = (
    "inform_budget", "inform_budget_rough", "accept_price", "object_price", "reject_dear",
)  # fmt: skip
_VALUED = frozenset(
    (*_FEATURE_ACTS, "request_product", "inform_use", "inform_budget", "inform_budget_rough",
     "inform_quantity", "counter_offer", "object_competitor")
)  # fmt: skip
_BESIDE = frozenset(
    "greet like_product thank bye tangent object_price object_delivery object_trust object_returns "
    "accept_price frustrated no_more take_addon decline_addon ask_price hold".split()
)
"""Acts that a sentence does beside the value it states; others are misread there."""
_SHORT_ANSWERS = {
    "affirm": "yes|yep|yeah|sure|sure thing|do it|please do|definitely|absolutely|correct",
    "negate": "no|nope|stop|dont|dont do it|please dont|no dont|not that|no stop|no thats wrong",
    "decline_offer": "no thanks|no thank you|not interested",
    "ask_back": "what|sorry|huh|pardon|what do you mean|hm|hmm|sorry what|pardon me|excuse me",
    "hold": "one moment|just a moment|wait|wait a moment|one second|one sec|a moment please",
    "dont_know": "i dont know|dont know|dunno|idk|no idea|no clue",
    "thank": "thanks|thank you|thx|ty|many thanks",
    "bye": "bye|goodbye|bye bye|cheerio|see you",
    "acknowledge": "ok|okay|great|cool|good|fine|ok then|okay then|i see|right|alright",
    "accept_price": "deal|its a deal|ok deal|sold|ill take it|ill buy it|agreed",
    "object_price": "too expensive|too much|too pricey|thats too much|still too expensive",
    "challenge": "thats wrong|thats not right|thats not true|not true|i doubt it",
    "no_more": "thats all|thats it|thats everything|nothing else|nothing more|im done",
    "ask_price": "how much|price|the price|and the price|how much is that",
    "like_product": "nice|perfect|lovely|looks good|sounds good|i like it",
}
"""Sentences that are too short for a tagger, and sure."""
_LEAST = 0.15
"""How likely it must be that a number in a sentence is a quantity, where it is not alone there."""
_BARE = re.compile(r"\W*(?:just |only |make it )?\w+\W*(?:please|pls)?\W*", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")
_LACKING = re.compile(
    r"\b(?:no|without|lacks?|lacking|missing|hasn'?t|doesn'?t (?:have|come|offer|include)"
    r"|does not (?:have|come|offer|include)|has not)\b",
    re.IGNORECASE,
)
_ROUGHLY = re.compile(
    r"\b(?:around|about|roughly|approximately|approx|circa|ish|or so|ballpark|somewhere|maybe"
    r"|perhaps|give or take|more or less|give|region|thereabouts|estimate|guess|vicinity)\b|ish\b",
    re.IGNORECASE,
)


# -- the tagger ------------------------------------------------------------------------------------


@cache
def user_tagger(part: str = "all") -> ActTagger:
    """What reads a buyer's words, fitted once in a process.

    `part` says to which wordings: `train` leaves those out that are kept for measuring.
    """
    nothing = off_topic(PACKAGE)
    cues = read_tables(packaged(PACKAGE, "user_cues.toml"))
    examples: list[tuple[str, Collection[str]]] = [
        (_one_kind(text), done) for text, done in user_examples(part)
    ]
    for acts, messages in read_tables(packaged(PACKAGE, "user_messages.toml"))["messages"].items():
        examples += [(text, acts.split("+")) for text in messages] * _OWN_WORDS
    examples += [(text, ()) for text in nothing]
    for act, ideas in cues.items():
        if act in SAID:
            examples += [(phrase, (act,)) for phrase in Lexicon(ideas).phrases()]
    ideas = {idea: phrases for table in cues.values() for idea, phrases in table.items()}
    return ActTagger(examples, ideas, _VALUES, _MOST_FEATURES)


def user_examples(part: str) -> list[tuple[str, frozenset[str]]]:
    """The buyer's wordings and turns with their acts: `train`, `held_out` or `all`."""
    examples = []
    for name in ("user_phrases.toml", "user_turns.toml"):
        for found, table in read_tables(packaged(PACKAGE, name)).items():
            if part in (found, "all"):
                for acts, by_register in table.items():
                    done = frozenset(acts.split("+"))
                    examples += [
                        (text, done) for wordings in by_register.values() for text in wordings
                    ]
    return examples


def _one_kind(text: str) -> str:
    for slot, other in _SAME.items():
        text = text.replace(slot, other)
    return text


# -- reading ---------------------------------------------------------------------------------------


def understand_user(text: str, task: Task) -> tuple[tuple[int, ...], str]:
    """(act numbers in the order of the text, what of it could not be taken up).

    Both are empty for an empty text.
    """
    text = text[:MOST_CHARACTERS].replace("’", "'")
    if not text.strip():
        return (), ""
    reading = _Reading(text, task)
    acts = tuple(dict.fromkeys(U[act] for _, _, act in sorted(reading.found)))
    problems = "; ".join(dict.fromkeys(reading.problems))
    return acts, problems or ("" if acts else NOTHING)


class _Reading:
    """One message of the buyer of one task."""

    def __init__(self, text: str, task: Task) -> None:
        self.task = task
        self.found: list[tuple[int, int, str]] = []  # sentence, order in it, act
        self.problems: list[str] = []
        self.needs: set[int] = set()  # features stated as needs, and where the first one stands
        self.needs_at = -1
        tagger = user_tagger()
        sentences = tagger.sentences(text)
        short = {
            at: act
            for at, said in enumerate(sentences)
            if (act := _short_answers().get(_plain(said)))
        }
        told = [(act, at) for act, at in tagger.spot(text) if at not in short]
        self.told = {act for act, _ in told}
        parts = tagger.part_scores(text)
        scores = parts[1:] if len(parts) > 1 else parts
        for at, said in enumerate(sentences):
            by_act = scores[at] if at < len(scores) else scores[-1]
            self._values(at, said, by_act, set(short) == {at} or at in short)
        self._state_needs()
        stating = {at for at, _, _ in self.found}
        self.found += [(at, 0, act) for at, act in short.items()]
        for act, at in told:
            if act not in _VALUED and (at not in stating or act in _BESIDE):
                self.found.append((at, -1 if act == "greet" else 5, act))

    def _values(self, at: int, said: str, scores: Mapping[str, float], short: bool) -> None:
        """What a sentence states."""
        task = self.task
        self._category(at, said)
        self._features(at, said, scores)
        for use in _USES:
            named = re.search(rf"\b{re.escape(use)}\b", said, re.IGNORECASE)
            if named and not features_named(said):
                own = use == FEATURES[task.category][task.first][1]
                self._state(at, "inform_use", own, "a use that is not this buyer's")
        for rival in RIVALS:
            if rival.lower() in said.lower():
                self._state(at, "object_competitor", rival == RIVALS[task.rival],
                            "a shop that this buyer has not been to")  # fmt: skip
        for share in re.finditer(_PERCENT, said):
            own = _per_mille(share.group()) == 1000 - task.target
            self._state(at, "counter_offer", own, "a discount that this buyer does not ask for")
        self._money(at, said, scores)
        if not short:
            self._quantity(at, said, scores)

    def _state(self, at: int, act: str, own: bool, problem: str) -> None:
        if own:
            self.found.append((at, 1, act))
        else:
            self.problems.append(problem)

    def _category(self, at: int, said: str) -> None:
        for number, name in enumerate(CATEGORIES):
            named = re.search(rf"\b(?:{_CATEGORY[name]})\b", said, re.IGNORECASE)
            if named and (self.told <= _VALUED or "request_product" in self.told):
                if number == self.task.category:
                    self.found.append((at, 0, "request_product"))
                elif "request_product" in self.told:
                    self.problems.append("a kind of product that this buyer does not want")

    def _features(self, at: int, said: str, scores: Mapping[str, float]) -> None:
        """Needs, what is missing, or what is asked about."""
        task = self.task
        about = _about_features(said, scores)
        for feature, place in features_placed(said):
            f = feature - task.category * FEATURES_EACH
            act = _of_place(said, place, about)
            if not 0 <= f < FEATURES_EACH:
                self.problems.append("a feature of another kind of product")
            elif act == "ask_feature":
                self._state(at, act, f == task.nice, "a feature that this buyer does not ask about")
            elif act == "reject_product":
                lacks = {task.first: "reject_first", task.second: "reject_second"}
                self._state(at, lacks.get(f, ""), f in lacks,
                            "a feature that this buyer can do without")  # fmt: skip
            else:
                self.needs.add(f)
                self.needs_at = at if self.needs_at < 0 else self.needs_at

    def _state_needs(self) -> None:
        """All features that were stated as needs, taken together."""
        task, needs = self.task, sum(1 << f for f in self.needs)
        if not needs:
            return
        acts = {1 << task.first: "inform_need_part", task.must: "inform_needs"}
        if task.wrong >= 0:
            acts.setdefault(1 << task.wrong, "inform_needs_wrong")
        act = acts.get(needs, "")
        self._state(self.needs_at, act, bool(act), "a need that is not this buyer's")

    def _money(self, at: int, said: str, scores: Mapping[str, float]) -> None:
        for money in re.finditer(_MONEY, said, re.IGNORECASE):
            act = max(_MONEY_ACTS, key=lambda name: scores.get(name, 0.0))
            spoken, task = _cents(money.group()), self.task
            if not act.startswith("inform_") and scores[act] >= _LEAST:
                continue  # a price that is spoken of
            exact, rough = spoken == task.budget, spoken == rough_budget(task.budget)
            if exact and rough:
                exact = not _ROUGHLY.search(said)
            name = "inform_budget" if exact else "inform_budget_rough"
            self._state(at, name, exact or rough, "a sum that is not this buyer's budget")

    def _quantity(self, at: int, said: str, scores: Mapping[str, float]) -> None:
        rest = re.sub(f"{_MONEY}|{_PERCENT}", " ", said, flags=re.IGNORECASE)
        if scores.get("inform_quantity", 0.0) < _LEAST and not _BARE.fullmatch(rest):
            return
        for number in _numbers(rest):
            own = number == self.task.quantity
            self._state(at, "inform_quantity", own, "a quantity that is not this buyer's")


def _about_features(said: str, scores: Mapping[str, float]) -> str:
    """Which act a sentence with a feature is, by what stands around it."""
    best = max(_FEATURE_ACTS, key=lambda name: scores.get(name, 0.0))
    if said.rstrip().endswith("?") and scores.get("ask_feature", 0.0) >= 0.05:
        return "ask_feature"
    if _LACKING.search(said) and scores.get("reject_product", 0.0) >= 0.1:
        return "reject_product"
    return best


_NEEDING = re.compile(
    r"\b(?:needs?|needed|must|gotta|has to|have to|requires?|requirement|want|said|after|it's"
    r"|give me|essential|obligatory|insist on|criterion is)\b",
    re.IGNORECASE,
)


def _of_place(said: str, place: int, act: str) -> str:
    """The act of one feature: "it has no footrest, I need a footrest" is of both kinds."""
    if act != "reject_product" and not (act != "ask_feature" and _LACKING.search(said)):
        return act
    lacking = max((m.start() for m in _LACKING.finditer(said, 0, place)), default=-1)
    needing = max((m.start() for m in _NEEDING.finditer(said, 0, place)), default=-1)
    if lacking < 0 and needing < 0:
        return act
    return "reject_product" if lacking > needing else "inform_needs"


def _numbers(said: str) -> Iterator[int]:
    for found in re.finditer(_QUANTITY, said):
        yield int(found.group())
    for word in _COUNTED.finditer(said):
        yield _COUNTS[next(filter(None, word.groups())).lower()]


def _cents(money: str) -> int:
    """`$1,200`, `1200 dollars` and `$1.2k` as 120000."""
    plain = re.sub(r"[^\d.k]", "", money.lower()).strip(".")
    scale = 1000 if plain.endswith("k") else 1
    whole, _, rest = plain.removesuffix("k").partition(".")
    return (int(whole or "0") * 100 + int(f"{rest:0<2}"[:2])) * scale


def _per_mille(share: str) -> int:
    whole, _, rest = re.sub(r"[^\d.]", "", share).strip(".").partition(".")
    return int(whole or "0") * 10 + int(rest[:1] or "0")


@cache
def _short_answers() -> dict[str, str]:
    return {words: act for act, them in _SHORT_ANSWERS.items() for words in them.split("|")}


def _plain(sentence: str) -> str:
    return " ".join(_WORD.findall(sentence.lower().replace("'", "")))


def acts_named(numbers: Iterable[int]) -> list[str]:
    """Names of acts, for those who look at them."""
    names = {number: name for name, number in U.items()}
    return [names[number] for number in numbers]
