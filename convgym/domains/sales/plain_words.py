"""An agent's words made plain before they are read: what only this shop's grammar needs.

    "I think it's well worth it"     no guess               "it's well worth it"
    "my authority ends here"         nobody else's          "our authority ends here"
    "If I were you, I'd take …"      no condition           "I'd take …"
    "the Aster has a touch screen"   whole names, one word  "the Qaster Qslim has a qf0"

What a newcomer would get wrong: nothing here changes what is said. Each pattern turns an idiom of
sellers into the plain words for it, where the common grammar would take it for something else.
"""

from __future__ import annotations

import re

from convgym.domains.sales.descriptions import marked
from convgym.domains.sales.world import NAMES

PRODUCTS = tuple(name for names in NAMES for name in names)
"""Names of all products."""

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
_PATTERNS: tuple[tuple[str, str], ...] = (  # in this order; small and capital letters alike
    (r"(?-i:\bBefore) (?:I|we) (?:book|place|order|confirm|finali[sz]e)[^,.:;!?\n]{0,30}[,:]", " "),
    (r"\b(?:office|desk|coffee)(?= (?:chairs?|machines?)\b)", ""),
    (
        r"\b(?:based on|from|given) what you(?:['’]ve| have)? (?:told me|said|described|shared"
        r"|mentioned)[^,.!?\n]{0,40},",
        "",
    ),
    (r"\b(that|this|it) be all right\b", r"\1 be okay"),
    (
        r"\b(?:as per|per|according to|due to|under|in line with|because of|based on) "
        r"(?:our|company|the company|the company's) (?:policy|policies|rules|guidelines),?"
        r"(?= (?:I|we)\b)",
        "",
    ),
    (
        r"\b(?:our|the|company) polic(?:y|ies) (?:does not|doesn['’]t|do not|don['’]t) "
        r"(?:allow|permit) (?:me|us) to\b",
        "I am not allowed to",
    ),
    (
        r"\b(?:our|the|company) polic(?:y|ies) (?:does not|doesn['’]t|do not|don['’]t) "
        r"(?:allow|permit) (?:any )?(?:further )?(?=discounts? on\b)",
        "I cannot offer ",
    ),
    (
        r"\b(?:from|after|on) the (?:day|moment)(?: on which| that| when)?"
        r"(?= (?:the|your) order (?:is|was|has)\b)",
        "once",
    ),
    (r"\bas far as (?:I|we) (?:may|can|could) go\b", "the limit of what I am allowed"),
    (
        r"\b(?:if I (?:were|was|had)|were I) (?:you|to (?:choose|pick|decide)"
        r"|in your (?:shoes|place))[^,.!?\n]{0,30},",
        "",
    ),
    (r"\byou (?:might|may)(?= (?:like|love|enjoy|want|be interested))", "you would"),
    (r"\btheir(?= prices?\b)", "the"),
    (r"(?-i:(?<=\w \w)(\w*):[ ]+(?=[a-z]))", r"\1, "),
    (
        r"\blet(?:['’]s| us) (?:say|make it|call it|settle (?:on|at|for)|agree on)(?= (?:\$|\d))",
        "I offer",
    ),
    (r"\bwhy (?:not|don['’]t you) (?:go for|take|choose|pick|try)\b", "how about"),
    (r"\b(?:just )?a (?:moment|minute|second) ago\b", "just"),
    (rf",? if (?:{_IS_OK})[.!]?[ ]*$", ". Is that okay?"),
    (rf"\b(I|we) may not(?= (?:{_REFUSABLE})\b)", r"\1 am not allowed to"),
    (r"\b(is|are) (?:simply|basically|just)(?= (?:no|nothing|not)\b)", r"\1"),
    (r"\bwhat (?:do|would) you (?:think of|think about|say to)\b", "how about"),
    (
        r"(^|[.!?:]\s+)(?-i:No)(?= (?:stock|pieces|room|more|lower|further|such|product|model)\b)",
        r"\1there is no",
    ),
    (rf"\ban?(?= {_THING}\b[^.!?\n]{{0,60}}\b(?:range|catalogue|assortment|carry|sell)\b)", "the"),
    (r"\b(?:perhaps|maybe)(?= (?:you['’]?d|you would|i can|i could|we can)\b)", ""),
    (r"\bhey+(?!\w)", "hey"),
    (r"\b(?:these|those)(?= are\b)", "they"),
    (r"\bwhat(?= (?:sets|makes|distinguishes) (?:us|our)\b)", "it"),
    (r"\b(do|does|did|is|are|was|were|has|have|had|would|could|should|wo) not\b", r"\1n't"),
    (
        r"\b(?:just )?as you(?:['’]ve| have)? (?:asked|requested|wanted|wished|said|told me)"
        r"(?: for)?(?: it| that)?\b",
        "",
    ),
    (r"\bit (?:doesn['’]?t|hasn['’]?t)(?= *(?:[.,!;:]|$))", "it lacks that"),
    (r"\b(what|which features|how) should it\b", r"\1 must it"),
    (rf"\bmy(?! (?:{_OTHERS})\b)", "our"),
    (
        rf"\bI(?: (?:really|honestly|do|truly))? (?:think|believe|feel|reckon)(?: that)?"
        rf"(?= {_OPINION})",
        "",
    ),
    (r"\b(?:one|a single|a)(?= (?:working|business|work) day\b)", "1"),
    (
        r"\b((?:matching|suitable|fitting|such|single|any|no)(?: of)?(?: (?:the|our))? +)"
        rf"({_THING}|item)s\b",
        r"\1\2",
    ),
    (r"\b(?:can|could|may|might) I interest you in\b", "would you be interested in"),
    (r"\bas (?:quoted|agreed|discussed|described|planned|mentioned)\b", ""),
    (
        r"\b(?:from what|as far as) I can (?:see|tell|judge)[^,.;!?\n]{0,60},"
        r"(?=[^.!?\n]{0,200}\b(?:recommend|suggest|suit|go for|pick)\b)",
        "",
    ),
)
_COMPILED = tuple(
    (re.compile(pattern, re.IGNORECASE | re.MULTILINE), words) for pattern, words in _PATTERNS
)
_SECONDS = "|".join(dict.fromkeys(name.split()[1] for name in PRODUCTS))
_SHORT_NAME = re.compile(
    rf"\b([Tt]he )({'|'.join(name.split()[0] for name in PRODUCTS)})(?! (?:{_SECONDS})\b)(?![\w-])"
)
_FULL = {name.split()[0]: name for name in PRODUCTS}
assert len(_FULL) == len(PRODUCTS)


def _in_own_words(name: str) -> str:
    return " ".join(f"Q{word.lower()}" for word in name.replace("-", " ").split())


NAMED = {_in_own_words(name): name for name in PRODUCTS}
"""Names of products by the words that stand for them: who reads of the Granite Book or the Kestrel
Max is neither to book anything nor told a maximum."""
_NAME = re.compile(
    rf"(?<![\w-])({'|'.join(name.replace(' ', '[ -]+') for name in PRODUCTS)})(?:['’]?s)?(?![\w-])",
    re.IGNORECASE,
)


_TAKEN = re.compile(r"\b(go ahead|proceed|move forward) with(?= (?:the )?Q[a-z]+ Q[a-z]+)", re.I)
"""A deal goes ahead with a product: what is meant is the order of it."""


def plain(text: str) -> str:
    """`text` in plain words: own words for features and products, no idioms of sellers."""
    text = marked(text)
    for pattern, words in _COMPILED:
        text = pattern.sub(words, text)
    text = _SHORT_NAME.sub(lambda m: m[1] + _FULL[m[2]], text)
    text = _NAME.sub(lambda m: _in_own_words(m[1]), text)
    return _TAKEN.sub(r"\1 with the order of", text)
