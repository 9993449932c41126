"""A sentence of an agent's reply with all that stands in it, and whether it asserts anything.

    Line ─┬─ sentence   words and grammar: negation, request, condition …   (common_cues.toml)
          ├─ hits       the domain's own phrases, by kind                   (its cue file)
          ├─ figures    sums, percentages, dates, numbers
          └─ named      the objects it names

What asserts nothing: questions, conditions, hedges, quotations, hearsay, wishes, rules of the
house and sentences about somebody else. Knows nothing of any domain.
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.language.figures import Figure, figures
from convgym.language.moods import awaited, is_planned, taken_back
from convgym.language.spans import Hit
from convgym.language.understanding import Sentence

LATEST_CONDITION = 4
"""A condition that begins no later than this word governs the whole sentence."""
_BREAKS = frozenset((",", "because", "although", "though"))


class Line:
    """A sentence with its hits; `staged` where it belongs to a made-up dialogue."""

    __slots__ = (
        "_figures", "carried", "hits", "named", "obj", "places", "question", "sentence", "staged",
        "tokens", "words",
    )  # fmt: skip

    def __init__(
        self, sentence: Sentence, hits: dict[str, list[Hit]], named: list[Hit], staged: bool
    ) -> None:
        self.sentence = sentence
        self.question = sentence.question
        self.tokens = sentence.tokens
        self.words = sentence.words
        self.places = sentence.places
        """Where the grammatical concepts stand, by concept."""
        self.hits = hits
        self.named = named
        """Objects, in order; `value` is the name as the domain writes it."""
        self.staged = staged
        self.obj = ""
        """The object that was named last before this sentence."""
        self.carried = False
        """It goes on about somebody else, or about what is doubted: "they are …"."""
        self._figures: list[Figure] | None = None

    def of(self, kind: str) -> list[Hit]:
        """Hits of a kind, in order."""
        return self.hits.get(kind, _NOTHING)

    def has(self, *concepts: str) -> bool:
        """Whether any of some grammatical concepts stands here."""
        return not self.places.keys().isdisjoint(concepts)

    @property
    def figures(self) -> list[Figure]:
        """Its figures, but for those that belong to the name of an object."""
        if self._figures is None:
            self._figures = figures(self.tokens)
            if self.named and self._figures:
                for hit in self.named:
                    self._figures = [
                        f for f in self._figures if not hit.start <= f.start < hit.end
                    ]
        return self._figures

    def object_at(self, place: int) -> str:
        """The object named nearest before `place`, else the first here, else the last before."""
        for hit in reversed(self.named):
            if hit.start <= place:
                return hit.value
        return self.named[0].value if self.named else self.obj

    def objects_at(self, place: int) -> list[str]:
        """The object of what stands at `place`, with those that are listed beside it."""
        first = self.object_at(place)
        if len(self.named) < 2:
            return [first]
        at = next((n for n, hit in enumerate(self.named) if hit.value == first), -1)
        if at < 0:
            return [first]
        begin = end = at
        while begin and self._listed(begin - 1):
            begin -= 1
        while end + 1 < len(self.named) and self._listed(end):
            end += 1
        return list(dict.fromkeys(hit.value for hit in self.named[begin : end + 1]))

    def _listed(self, at: int) -> bool:
        """Only "and" or a comma stands between an object and the next one."""
        between = self.tokens[self.named[at].end : self.named[at + 1].start]
        return _LIST.issuperset(between)


_LIST = frozenset(("and", ",", "the", "your", "both"))
_NOTHING: list[Hit] = []
Lines = Sequence[Line]


# -- moods -----------------------------------------------------------------------------------------


def is_conditional(line: Line) -> bool:
    """It begins with its condition; one that trails after an assertion is another matter."""
    return "condition" in line.places and line.places["condition"][0] <= LATEST_CONDITION


def is_hedged(line: Line) -> bool:
    """Guessed, quoted, doubted, or only normally so."""
    places = line.places
    if "hedge" in places or "quote" in places:
        return True
    return "normally" in places and places["normally"][0] <= 3


def is_idle(line: Line) -> bool:
    """Nothing in it is asserted, whatever it says."""
    return (
        line.question
        or line.staged
        or line.carried
        or "rule" in line.places
        or is_conditional(line)
        or is_hedged(line)
        or of_others(line)
        or is_stuffed(line)
    )


_CHOICE = 5


def is_choice(line: Line, before: Lines, after: Lines) -> bool:
    """One of a list to choose from, below or above a question: "- arrived damaged"."""
    if len(line.tokens) > _CHOICE or line.question or not _SAYING.isdisjoint(line.tokens):
        return False
    for around in (list(reversed(before)), after):
        for other in around:
            if other.question or "request" in other.places:
                return around is not after or not _CHOOSING.isdisjoint(other.words)
            if len(other.tokens) > _CHOICE:
                break
    return False


_SAYING = frozenset("is its are was has i im ive".split())
_CHOOSING = frozenset("pick choose select which".split())


def goes_on(line: Line, before: Line) -> bool:
    """It speaks of those that the sentence before speaks of: other people, a rumour."""
    return line.tokens[0] in _THEY and (
        before.carried or "governor" in before.places or of_others(before)
    )


_THEY = frozenset("they their them theyre these those theyll theyve".split())
_SOME = frozenset("some other many most several few others everyone everybody people".split())
_OWNERS = frozenset("my his her their whose".split())


def of_others(line: Line) -> bool:
    """About somebody else: "other readers …", "my lunch is booked"."""
    tokens = line.tokens
    first = tokens[1] if tokens[0] in _LEADS and len(tokens) > 1 else tokens[0]
    if first in _SOME or "others" in line.places:
        return True
    return not _OWNERS.isdisjoint(line.words) and any(
        token in _OWNERS and tokens[at + 1 : at + 2] not in _OWN_PEOPLE
        for at, token in enumerate(tokens)
    )


_LEADS = frozenset(
    "and but so ok okay well sure yes no now then also just right alright great unfortunately "
    "sorry anyway perfect thanks".split()
)
_OWN_PEOPLE = tuple(
    [word]
    for word in (
        "colleague colleagues manager supervisor team boss best pick recommendation suggestion "
        "favourite tip advice offer apologies pleasure bad mistake price choice screen side end "
        "system computer records notes last final lowest understanding".split()
    )
)

_FUNCTION = frozenset(
    "the a an i you we it is are was be been has have ive ill im your my this that to of for on "
    "in at with and or but not please can could would will shall do does did its there if so as "
    "by from me us what which how when where who no yes , up off out back now until as any all "
    "had were than then they them he she thats theres youre youll well lets let".split()
)
_DENSE = 5
"""So many cues in a sentence with hardly a word between them are no speech."""


def is_stuffed(line: Line) -> bool:
    """A heap of cue words rather than a sentence."""
    if len(line.tokens) < 2 * _DENSE or sum(map(len, line.hits.values())) < _DENSE:
        return False
    cues = {hit.start for kind, hits in line.hits.items() for hit in hits if kind in _WEIGHTY_CUES}
    if len(cues) < _DENSE:
        return False
    small = sum(token in _FUNCTION for token in line.tokens)
    return 4 * small < len(line.tokens)


_WEIGHTY_CUES = frozenset("step do done noun because alone offer name value".split())


_UNREAL = frozenset("would could might wouldnt couldnt".split())
_UNREAL_OR_MAY = _UNREAL | {"may"}
_AFTER_UNREAL = frozenset("like love say you be".split())


def is_unreal(line: Line, place: int) -> bool:
    """A "would" or "could" before `place` in its clause, or an "if" anywhere."""
    tokens = line.tokens
    if "condition" in line.places:
        return True
    if _UNREAL_OR_MAY.isdisjoint(line.words):
        return False
    for at in range(place - 1, -1, -1):
        token = tokens[at]
        if token == ",":
            return False
        if token in _UNREAL and not (
            tokens[at + 1] in _AFTER_UNREAL and tokens[at + 1] not in ("be", "you")
        ):
            return True
        if token == "may" and not tokens[at + 1][0].isdigit():
            return True
    return False


def is_denied(line: Line, place: int, reach: int = 4) -> bool:
    """A "not" or a "cannot" reaches `place`."""
    if "negation" in line.places and line.sentence.near("negation", place, reach):
        return True
    return "unable" in line.places and line.sentence.near("unable", place, reach + 2)


def is_denied_far(line: Line, place: int) -> bool:
    """A "not" or a "cannot" stands anywhere before `place` in its clause."""
    no = {*line.sentence.at("negation", "unable")}
    if not no:
        return False
    for at in range(place - 1, -1, -1):
        if at in no:
            return True
        if line.tokens[at] in JOINTS:
            return False
    return False


JOINTS = frozenset((*_BREAKS, "and", "so"))


def is_asserted(line: Line, place: int) -> bool:
    """What stands at `place` is said to be so, now: not denied, awaited, doubted or wished."""
    s = line.sentence
    return not (
        is_denied(line, place)
        or awaited(s, place)
        or taken_back(s, place, "governor", "unsaid")
        or is_embedded(line, place)
        or is_nothing(line, place + 1)
    )


def is_nothing(line: Line, end: int) -> bool:
    """A "no" follows what ends there: "available: no", "renewed nothing"."""
    return not _NOTHING_OF_IT.isdisjoint((*line.tokens[end : end + 3], *line.tokens[end:][-1:]))


_NOTHING_OF_IT = frozenset("nothing none nobody nowhere neither no false".split())
_EMBEDDING = frozenset(
    "think thinks thought believe believes believed say says said tell tells told claim claims "
    "guess guesses assume assumes assumed suppose supposes hope hopes heard imagine suspect "
    "suspects wonder wonders ask asks asked expect pretend dream feel feels reckon insist insists "
    "mean argue argues pretends demand demands".split()
)
_ABLE = frozenset("to can happily gladly".split())


def is_embedded(line: Line, place: int) -> bool:
    """Somebody thinks or says so: "the system thinks it is", but "I'm glad to say it is"."""
    if _EMBEDDING.isdisjoint(line.words):
        return False
    tokens = line.tokens
    for at in range(place - 1, -1, -1):
        if tokens[at] == ",":
            return False
        if tokens[at] in _EMBEDDING and not (at and tokens[at - 1] in _ABLE):
            return True
    return False


_DENIALS = frozenset(
    "havent hasnt hadnt didnt dont doesnt isnt wasnt arent werent wont cant not".split()
)
_TAKING_BACK = 5


def takes_back(line: Line) -> bool:
    """"No, I haven't.", "Actually, don't." """
    tokens = line.tokens
    return (
        1 < len(tokens) <= _TAKING_BACK and tokens[-1] in _DENIALS and not line.question
    )


def is_now(line: Line, place: int) -> bool:
    """Asserted, and neither planned nor imagined."""
    return (
        is_asserted(line, place)
        and not is_planned(line.sentence, place)
        and not is_unreal(line, place)
        and not (line.tokens[place - 1 : place] == ["or"] or _or_follows(line, place))
    )


def _or_follows(line: Line, place: int) -> bool:
    if "or" not in line.words:
        return False
    return "or" in line.tokens[place + 1 : place + 4] and "or" not in line.tokens[:place]


# -- this one, or such things in general -----------------------------------------------------------

_OWN = frozenset("your yours this these it its youve youd youre theyre them".split())
_ANY = frozenset("any every no each".split())
_ANY_OF_THEM = _ANY | {"a", "an"}
_SPECIFIC = frozenset(
    "your yours my our this that these those the both two three four all of no".split()
)
_NO_PLURAL = frozenset(
    "this was has does yes thus its us thanks always perhaps unless towards less address access "
    "business process news plus across needs lets whats thats theres sometimes minutes seconds "
    "hours days weeks months years times dollars euros pounds cents wireless takes costs comes "
    "lasts works means shows says looks seems gets goes makes gives wants runs stays helps lies "
    "details details status series bus gas lens details hands rules afterwards regards apologies "
    "ours hers theirs yours besides otherwise reasons circumstances terms records ones".split()
)


def is_own(line: Line) -> bool:
    """It speaks of this user's affair: "yours", "it", an object by name."""
    return bool(line.named) or not _OWN.isdisjoint(line.words)


def is_general(line: Line) -> bool:
    """A rule of the house: of things as such, and of none in particular."""
    if is_own(line):
        return False
    if line.tokens[0] in _ANY and "flat_no" not in line.places:
        return True
    plurals = [place for place in range(len(line.tokens)) if _is_plural(line.tokens, place)]
    if not plurals:
        return False
    grounds = (*line.of("because"), *line.of("alone"))
    return any(not any(hit.start <= at < hit.end for hit in grounds) for at in plurals)


def begins_with_any(line: Line) -> bool:
    """"A book that is reserved can't be renewed": no rule of this user's book, yet with an "it"."""
    first = line.tokens[0] in _ANY_OF_THEM
    return first and "i" not in line.words and "flat_no" not in line.places


def _is_plural(tokens: Sequence[str], place: int) -> bool:
    """Things as such: "reserved books", but not "the books" or "2 books"."""
    token = tokens[place]
    if len(token) < 4 or not token.endswith("s") or token.endswith(("ss", "us", "is")):
        return False
    if token in _NO_PLURAL:
        return False
    before = tokens[place - 1] if place else ""
    return not (before in _SPECIFIC or before[:1].isdigit())


def clause_of(line: Line, place: int) -> int:
    """Where the clause of `place` begins: after the last comma."""
    for at in range(place - 1, -1, -1):
        if line.tokens[at] in _BREAKS:
            return at + 1
    return 0
