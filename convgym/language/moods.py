"""In what mood something is said: done, planned, awaited, or announced by the desk itself.

    "until it has been delivered"    awaited
    "it will be delivered"           planned
    "I'll cancel it", "cancelling"   announced
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from convgym.language.understanding import Sentence

Around = Sequence[Sentence]

AWAITING = frozenset(
    "once when while until till before after unless upon soon moment minute if".split()
)

# The words between a subject and its participle, and those that make a plan of it.
_GROUP = frozenset(
    "been being have has had is are was were am now just already also all successfully "
    "officially fully safely currently still got get gotten its thats theyre".split()
)
_PLANNED = frozenset(
    "shouldve wouldve couldve mightve be will would shall should can could may might must to "
    "ill well id wed youll youd itll theyll cannot cant wont lets let ask after before by".split()
)
_OBJECTS = frozenset("it them this that".split())
_WANTING = frozenset("want wanted wants like likes need needs prefer wish".split())


def is_planned(s: Sentence, place: int) -> bool:
    """The participle at `place` is willed or expected: "will be", "to have been", "want it"."""
    at = place - 1
    if at > 0 and s.tokens[at] in _OBJECTS and s.tokens[at - 1] in ("have", "get", "getting"):
        return True  # "I can have it delivered to …"
    while at >= 0 and s.tokens[at] in _GROUP:
        at -= 1
    if at >= 0 and s.tokens[at] in _PLANNED:
        return True
    return at == place - 1 and s.word_before(_WANTING, place, 6)


_SUBJECTS = frozenset("order it your the its there we i my our".split())


def _is_denied(s: Sentence, place: int) -> bool:
    """"I'm not convinced that …": a "not" of a clause that what is said hangs on."""
    if "negation" not in s.places or "that" not in s.tokens:
        return False
    for at in range(1, min(place, len(s.tokens) - 1)):
        if s.tokens[at] == "that":
            follows = s.tokens[at + 1]
            named = any(character.isdigit() for character in follows)  # an order number
            if (named or follows in _SUBJECTS) and s.near("negation", at, 4):
                return True
    return False


def taken_back(s: Sentence, place: int, *marks: str) -> bool:
    """What is said at `place` stands under doubt, hearsay, a wish: "I doubt that it is …".

    `marks`: "governor", and "unsaid" too for what is told and not refused.
    """
    if "unsaid" in marks and _is_denied(s, place):
        return True
    stands = s.at(*marks)
    return bool(stands) and ("condition" in s.places or any(at <= place for at in stands))


def awaited(s: Sentence, place: int) -> bool:
    """What stands at `place` is yet to come: "until it has been delivered"."""
    return s.word_before(AWAITING, place, 6)


# -- what the desk announces ---------------------------------------------------------------------

CLAUSE = 12
"""Words before a deed that can say who wills it."""
_JOINTS = frozenset((",", "because", "although", "though", "since", "which"))
_CONDITIONS = frozenset(
    "if once when whenever until till before after unless while whether".split()
)
_OPENERS = _JOINTS | _CONDITIONS
WILL = frozenset("ill will shall lets gonna well".split())
_WILL_PAIRS = frozenset(
    (("let", "me"), ("let", "us"), ("going", "to"), ("about", "to"), ("go", "ahead"))
)
_WILLING = WILL | {first for first, _ in _WILL_PAIRS}
_HAVING = frozenset("have know hear see".split())
_BE = frozenset("im am are were is being be now currently busy".split())
_ENDS = frozenset(("you", "youll", "youd", "they", "theyll", "courier", "carrier", "driver"))
"""Who wills it, where it is not the desk."""
_OPEN = frozenset(
    "can could may might would id need needs needed require required want wants like happy "
    "glad gladly able unable try trying check whether how possible must should cannot cant "
    "wont ready before asked wanted request requested requesting help".split()
)
"""Words that leave open whether it is done."""
_FILLERS = frozenset(
    "ok okay sure alright right great perfect thanks thank you good then well now so and done "
    "yes yep noted understood got it fine certainly absolutely still just processing lovely on "
    "also next for meanwhile currently today".split()
)
DOERS = frozenset(
    "set create start process arrange book register open initiate submit log file raise issue "
    "generate put get proceed proceeding handle do doing begin organise organize schedule "
    "prepare authorise approve activate take make sort setting creating starting processing "
    "arranging booking registering opening initiating submitting logging filing raising "
    "issuing generating putting getting handling beginning organising organizing scheduling "
    "preparing authorising approving activating taking making sorting go going ahead enter "
    "entering add adding pop popping save saving run running push pushing move moving launch "
    "launching lodge lodging kick see have having complete completing action actioning place "
    "placing".split()
)


def clause(s: Sentence, place: int) -> tuple[list[str], str]:
    """The words before `place` in its clause, and the word that joins the clause on."""
    tokens = s.tokens
    begin = max(0, place - CLAUSE)
    for at in range(place - 1, begin - 1, -1):
        if tokens[at] in _OPENERS:
            return tokens[at + 1 : place], tokens[at]
    return tokens[begin:place], ""


def announced(s: Sentence, place: int, *, governed: bool = False) -> bool:
    """The deed at `place` is willed or under way: "I'll cancel", "cancelling", "will be …"."""
    if "negation" in s.places and s.near("negation", place, 6):
        return False
    if "unable" in s.places and s.near("unable", place, 8):
        return False
    left, joint = clause(s, place)
    if not governed:
        if joint in _CONDITIONS or not _OPEN.isdisjoint(left) or awaits(s, place):
            return False
        after = s.places.get("unable")
        if after and any(at > place and "," not in s.tokens[place:at] for at in after):
            return False  # "cancelling isn't possible"
    if not _WILLING.isdisjoint(left):
        pairs = list(pairwise(left))
        if ("let", "me") in pairs and not _HAVING.isdisjoint(left):
            return False  # "let me have the address that we should ship to"
        willing = [at for at, token in enumerate(left) if token in WILL]
        willing += [at for at, pair in enumerate(pairs) if pair in _WILL_PAIRS]
        if willing:
            passive = "be" in left[-3:]
            ends = _ENDS.isdisjoint(left) or not any(at and left[at - 1] in _ENDS for at in willing)
            return passive or (ends and "youll" not in left)
    if left[-1:] in (["i"], ["we"]) and "now" in s.tokens:
        return True  # "I cancel it now"
    here = s.tokens[place]
    if here.endswith("ing"):
        return _ENDS.isdisjoint(left) and (
            _FILLERS.issuperset(left) or not _BE.isdisjoint(left[-4:])
        )
    if left[-1:] in (["being"], ["gets"], ["get"]):
        return True
    if DOERS.isdisjoint(left):
        return False
    for at, token in enumerate(left):
        if token.endswith("ing") and token in DOERS:
            front = left[:at]
            return _ENDS.isdisjoint(front) and (
                _FILLERS.issuperset(front) or not _BE.isdisjoint(front)
            )
    return False


def awaits(s: Sentence, place: int) -> bool:
    """What follows makes it wait: "once you confirm", "as soon as I have it", "if you like"."""
    if _CONDITIONS.isdisjoint(s.words) and "soon" not in s.words:
        return False
    for at in range(place + 1, len(s.tokens)):
        token = s.tokens[at]
        if token in (",", "and"):
            return False
        if token in _CONDITIONS and token != "while":
            return True
        if token == "soon" and s.tokens[at - 1] == "as" and s.tokens[at + 1 : at + 2] == ["as"]:
            return s.tokens[at + 2 : at + 3] != ["possible"]
    return False
