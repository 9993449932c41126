"""An agent's words made plain before they are read: what only this shop's grammar needs.

    "I think it's well worth it"     no guess               "it's well worth it"
    "my authority ends here"         nobody else's          "our authority ends here"
    "If I were you, I'd take …"      no condition           "I'd take …"
    "the Aster has a touch screen"   whole names, one word  "the Qnaax Qmaax has a qf0"

What a newcomer would get wrong: nothing here changes what is said. Each pattern turns an idiom of
sellers into the plain words for it, where the common grammar would take it for something else.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from convgym.domains.sales.descriptions import marked, may_name_features
from convgym.domains.sales.world import EVERY_NAME
from convgym.language.rewriting import Rewriting, words_in

_THING = r"(?:laptop|phone|camera|chair|machine|product|model)"
_OTHERS = (
    "own|lunch|dinner|breakfast|friends?|family|wife|husband|partner|mother|father|son|daughter"
    "|cat|dog|car|flat|house|home"
)
_REFUSABLE = "discount|give|go|reduce|lower|offer|sell|take|grant"
_IS_OK = (
    r"you agree|you['’]re (?:okay|ok|fine) with (?:that|it)"
    r"|that(?:['’]s| is) (?:ok|okay|all right|alright|fine)(?: (?:with|by|for) you)?"
)
_OPINION = (
    r"(?:you(?:['’]ll| will|['’]d| would)|it(?:['’]s| is) (?:well |really )?(?:worth|a)\b"
    r"|(?:that|this)(?:['’]s| is) a"
    r"|(?:that|this|the) [\w ]{0,24}(?:suit|great|perfect|ideal|best|right|what you))"
)
_PATTERNS: tuple[tuple[str, str, str], ...] = (  # in this order; small and capital letters alike
    (
        "before",
        r"(?-i:\bBefore) (?:I|we) (?:book|place|order|confirm|finali[sz]e)[^,.:;!?\n]{0,30}[,:]",
        " ",
    ),
    ("office desk coffee", r"\b(?:office|desk|coffee)(?= (?:chairs?|machines?)\b)", ""),
    (
        "based from given",
        r"\b(?:based on|from|given) what you(?:['’]ve| have)? (?:told me|said|described|shared"
        r"|mentioned)[^,.!?\n]{0,40},",
        "",
    ),
    ("right", r"\b(that|this|it) be all right\b", r"\1 be okay"),
    (
        "policy policies rules guidelines",
        r"\b(?:as per|per|according to|due to|under|in line with|because of|based on) "
        r"(?:our|company|the company|the company's) (?:policy|policies|rules|guidelines),?"
        r"(?= (?:I|we)\b)",
        "",
    ),
    (
        "policy policies",
        r"\b(?:our|the|company) polic(?:y|ies) (?:does not|doesn['’]t|do not|don['’]t) "
        r"(?:allow|permit) (?:me|us) to\b",
        "I am not allowed to",
    ),
    (
        "policy policies",
        r"\b(?:our|the|company) polic(?:y|ies) (?:does not|doesn['’]t|do not|don['’]t) "
        r"(?:allow|permit) (?:any )?(?:further )?(?=discounts? on\b)",
        "I cannot offer ",
    ),
    (
        "day moment",
        r"\b(?:from|after|on) the (?:day|moment)(?: on which| that| when)?"
        r"(?= (?:the|your) order (?:is|was|has)\b)",
        "once",
    ),
    ("far", r"\bas far as (?:I|we) (?:may|can|could) go\b", "the limit of what I am allowed"),
    (
        "were was had",
        r"\b(?:if I (?:were|was|had)|were I) (?:you|to (?:choose|pick|decide)"
        r"|in your (?:shoes|place))[^,.!?\n]{0,30},",
        "",
    ),
    ("might may", r"\byou (?:might|may)(?= (?:like|love|enjoy|want|be interested))", "you would"),
    ("their", r"\btheir(?= prices?\b)", "the"),
    (":", r"(?-i:(?<=\w \w)(\w*):[ ]+(?=[a-z]))", r"\1, "),
    (
        "let",
        r"\blet(?:['’]s| us) (?:say|make it|call it|settle (?:on|at|for)|agree on)(?= (?:\$|\d))",
        "I offer",
    ),
    ("why", r"\bwhy (?:not|don['’]t you) (?:go for|take|choose|pick|try)\b", "how about"),
    ("ago", r"\b(?:just )?a (?:moment|minute|second) ago\b", "just"),
    ("if", rf",? if (?:{_IS_OK})[.!]?[ ]*$", ". Is that okay?"),
    ("may", rf"\b(I|we) may not(?= (?:{_REFUSABLE})\b)", r"\1 am not allowed to"),
    (
        "simply basically just",
        r"\b(is|are) (?:simply|basically|just)(?= (?:no|nothing|not)\b)",
        r"\1",
    ),
    ("think say", r"\bwhat (?:do|would) you (?:think of|think about|say to)\b", "how about"),
    (
        "no",
        r"(^|[.!?:]\s+)(?-i:No)(?= (?:stock|pieces|room|more|lower|further|such|product|model)\b)",
        r"\1there is no",
    ),
    (
        "range catalogue assortment carry sell",
        rf"\ban?(?= {_THING}\b[^.!?\n]{{0,60}}\b(?:range|catalogue|assortment|carry|sell)\b)",
        "the",
    ),
    (
        "perhaps maybe",
        r"\b(?:perhaps|maybe)(?= (?:you['’]?d|you would|i can|i could|we can)\b)",
        "",
    ),
    ("hey…", r"\bhey+(?!\w)", "hey"),
    ("these those", r"\b(?:these|those)(?= are\b)", "they"),
    ("sets makes distinguishes", r"\bwhat(?= (?:sets|makes|distinguishes) (?:us|our)\b)", "it"),
    ("not", r"\b(do|does|did|is|are|was|were|has|have|had|would|could|should|wo) not\b", r"\1n't"),
    (
        "asked requested wanted wished said told",
        r"\b(?:just )?as you(?:['’]ve| have)? (?:asked|requested|wanted|wished|said|told me)"
        r"(?: for)?(?: it| that)?\b",
        "",
    ),
    (
        "doesn doesnt hasn hasnt",
        r"\bit (?:doesn['’]?t|hasn['’]?t)(?= *(?:[.,!;:]|$))",
        "it lacks that",
    ),
    ("should", r"\b(what|which features|how) should it\b", r"\1 must it"),
    ("my…", rf"\bmy(?! (?:{_OTHERS})\b)", "our"),
    (
        "think believe feel reckon",
        rf"\bI(?: (?:really|honestly|do|truly))? (?:think|believe|feel|reckon)(?: that)?"
        rf"(?= {_OPINION})",
        "",
    ),
    ("working business work", r"\b(?:one|a single|a)(?= (?:working|business|work) day\b)", "1"),
    (
        "laptops phones cameras chairs machines products models items",
        r"\b((?:matching|suitable|fitting|such|single|any|no)(?: of)?(?: (?:the|our))? +)"
        rf"({_THING}|item)s\b",
        r"\1\2",
    ),
    ("interest", r"\b(?:can|could|may|might) I interest you in\b", "would you be interested in"),
    (
        "quoted agreed discussed described planned mentioned",
        r"\bas (?:quoted|agreed|discussed|described|planned|mentioned)\b",
        "",
    ),
    (
        "from far",
        r"\b(?:from what|as far as) I can (?:see|tell|judge)[^,.;!?\n]{0,60},"
        r"(?=[^.!?\n]{0,200}\b(?:recommend|suggest|suit|go for|pick)\b)",
        "",
    ),
)
_IDIOMS = Rewriting(_PATTERNS)
_SECONDS = "|".join(dict.fromkeys(name.split()[1] for name in EVERY_NAME))
assert all(len(name.split()) == 2 for name in EVERY_NAME)


def _own_words(number: int) -> str:
    """Two words of one form, so that nothing hangs on how a product is called."""
    letters = "".join(chr(ord("a") + part) for part in divmod(number, 26))
    return f"Qn{letters}x Qm{letters}x"


_OWN = {name.lower(): _own_words(number) for number, name in enumerate(EVERY_NAME)}
NAMED = {_OWN[name.lower()]: name for name in EVERY_NAME}
"""Names of products by the words that stand for them: who reads of the Granite Book or the Kestrel
Max is neither to book anything nor told a maximum."""


class _Name(NamedTuple):
    """How a product is found in a text, and what stands for it."""

    first: str
    short: re.Pattern[str]
    """"the Aster", of which the name is left unfinished."""
    called: re.Pattern[str]
    own: str
    full: str


def _name(full: str) -> _Name:
    first = full.split()[0]
    begun = f"he {first}"  # it comes first in the pattern: that is quickly looked for
    short = re.compile(rf"{begun}(?<=\b[Tt]{begun})(?! (?:{_SECONDS})\b)(?![\w-])")
    words = full.replace(" ", "[ -]+")
    called = re.compile(rf"(?<![\w-])({words})(?:['’]?s)?(?![\w-])", re.IGNORECASE)
    return _Name(first, short, called, _OWN[full.lower()], f"he {full}")


_NAMES = {full.split()[0].lower(): _name(full) for full in EVERY_NAME}
"""The products by their first words in small letters; they may be looked for in any order."""
assert len(_NAMES) == len(EVERY_NAME)
assert _NAMES.keys().isdisjoint(_SECONDS.lower().split("|"))


_TAKEN = re.compile(r"\b(go ahead|proceed|move forward) with(?= (?:the )?Q[a-z]+ Q[a-z]+)", re.I)
"""A deal goes ahead with a product: what is meant is the order of it."""
_AHEAD, _ORDER = frozenset(("ahead", "proceed", "forward")), r"\1 with the order of"


def plain(text: str) -> str:
    """`text` in plain words: own words for features and products, no idioms of sellers."""
    if not text.isascii():
        text = _IDIOMS(marked(text))
        for name in _NAMES.values():
            text = _with_name(text, name)
        return _TAKEN.sub(_ORDER, text)
    words = frozenset(words_in(text))
    if may_name_features(words):
        text = marked(text, words)
    text = _IDIOMS(text, words)
    for first in _NAMES.keys() & words:
        text = _with_name(text, _NAMES[first])
    return text if _AHEAD.isdisjoint(words) else _TAKEN.sub(_ORDER, text)


def _with_name(text: str, name: _Name) -> str:
    """Own words for one product; letters that are only like its own stay as they are."""
    if name.first in text:
        text = name.short.sub(name.full, text)
    return name.called.sub(name.own if text.isascii() else _own_words_of, text)


def _own_words_of(called: re.Match[str]) -> str:
    return _OWN.get(" ".join(called[1].lower().replace("-", " ").split()), called[1])
