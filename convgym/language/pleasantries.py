"""What is said in every domain: greetings, farewells, "one moment", apologies, questions for the
matter or for anything else, explanations, and handing over to a person.
"""

from __future__ import annotations

from convgym.language.lines import Line, Lines, is_conditional, is_hedged
from convgym.language.moods import announced, awaited, awaits, clause

_TIMES_OF_DAY = frozenset(("morning", "afternoon", "evening"))


def is_short(line: Line) -> bool:
    """Four words at most."""
    return len(line.tokens) <= 4


def greets(line: Line, before: Lines) -> bool:
    """"Hello", "good morning", "you've reached …"; not where it says goodbye."""
    tokens = line.tokens
    if "hello" in line.places:
        joined = bool(before) and before[-1].sentence.joined
        return not (closes(line) or tokens[0] == "but" or joined)
    return tokens[0] in _TIMES_OF_DAY and (is_short(line) or "here" in tokens[:6])


def closes(line: Line) -> bool:
    """"Goodbye", "have a lovely day"."""
    s = line.sentence
    if "bye" in line.places and any(not awaited(s, place) for place in s.at("bye")):
        return True
    return _wishes_well(line)


def _wishes_well(line: Line) -> bool:
    s, tokens = line.sentence, line.tokens
    if tokens[0] == "enjoy" and len(tokens) <= 6:
        return True
    if "wish" not in line.places and "pleasant_time" not in line.places:
        return False
    if "enjoy" in tokens and tokens[-1] != "enjoy":
        at = tokens.index("enjoy")
        if at and tokens[at - 1] == "," and len(tokens) - at <= 5:
            return True
    wished = [w for w in s.at("wish") if not (s.near("negation", w, 3) or awaited(s, w))]
    return any(0 < place - w <= 6 for place in s.at("pleasant_time") for w in wished)


def waits(line: Line) -> bool:
    """It asks for a moment, or says that it is looking."""
    s = line.sentence
    for place in line.places.get("wait", ()):
        if s.near("negation", place, 2) or s.near("thanks_for", place, 4):
            continue
        if s.tokens[place] in _LOOKING and (s.question or not announced(s, place)):
            continue
        return True
    return False


def is_told_to_wait(line: Line, around: Lines) -> bool:
    """"2. Wait a minute", among steps that the user is to take."""
    return line.tokens[0] in ("wait", "then", "now") and any(n.of("step") for n in around)


_LOOKING = frozenset(("looking", "checking", "searching"))


def apologises(line: Line, after: Lines, refusing: bool) -> bool:
    """A "sorry" that leads into no refusal and into no "I didn't catch that"."""
    if "sorry" not in line.places or refusing:
        return False
    s = line.sentence
    if s.near("negation", s.places["sorry"][0], 3):
        return False
    place = s.places["sorry"][0]
    if line.tokens[place + 1 : place + 3] in (["to", "say"], ["to", "tell"], ["i", "can"]):
        return False
    leads = (line, *after[:1]) if s.joined else (line,)
    return not any(n.has("unable", "lost") for n in leads)


# -- questions that every domain knows -------------------------------------------------------------

_FIRST_PERSON = frozenset("i id im ill we wed were well".split())
_WONDERING = frozenset("how what whats which tell describe let whatever hear".split())
_IF_MORE = frozenset("if feel hesitate should whenever in".split())


def asks_intent(line: Line, asked: bool) -> bool:
    """"How can I help?"; `asked`: the sentence asks for a slot as well."""
    if "ask_intent" not in line.places or "unable" in line.places:
        return False
    if asked and not {",", "and"}.intersection(line.tokens):
        return False  # "which order do you need help with?"
    calls = line.has("request") and line.tokens[0] not in _FIRST_PERSON
    wonders = not _WONDERING.isdisjoint(line.tokens) and not waits(line)
    return line.question or (not asked and (calls or wonders))


def asks_more(line: Line) -> bool:
    """"Anything else?" """
    tokens = line.tokens
    if tokens == ["else"]:
        return True
    if "other" not in line.places or "unable" in line.places:
        return False
    requested = line.question or line.has("request")
    if line.has("negation") and not (requested or line.has("condition")):
        return False
    place = line.sentence.at("other")[0]
    if requested or is_short(line) or place <= 2 or tokens[place - 1] == ",":
        return True
    return not _IF_MORE.isdisjoint(tokens)


# -- explanations ----------------------------------------------------------------------------------

_DEMANDING = frozenset(
    "please could can may need require kindly provide share tell give enter confirm whats what "
    "which where id".split()
)
_TERM = 6


def explains(line: Line, told: bool) -> bool:
    """Why something is asked for, what a word means, or how things go on.

    `told`: the sentence says something else as well.
    """
    if line.question or line.has("unable", "hedge", "quote") or line.staged:
        return False
    places = line.places
    if defines(line):
        return True
    if "purpose" in places and _DEMANDING.isdisjoint(line.tokens[: places["purpose"][0]]):
        return True
    if "means" in places:
        return not (told or is_conditional(line))
    return "next_step" in places and not (told or is_conditional(line) or "negation" in places)


_NO_MEANING = frozenset("which , of same your this that it i you we".split())
_OWN = frozenset("it its this that your yours there what here one i we you he she they".split())
_ARTICLES = frozenset(("a", "an", "the", "our"))
_JUST = frozenset("simply just basically only essentially".split())
_WHICH = frozenset("that which where of for when who you".split())


def defines(line: Line) -> bool:
    """What a word means: "RAM is the memory that …", "on hold means …"; it tells nothing else."""
    if line.question or line.named:
        return False
    if not ("means" in line.places or "is" in line.words or "are" in line.words):
        return False
    if is_conditional(line):
        return False
    tokens = line.tokens
    for place in line.places.get("means", ()):
        if place and tokens[place - 1] not in _NO_MEANING and tokens[place + 1 :][:1] != ["to"]:
            return True
    for place, token in enumerate(tokens[1 : _TERM + 1], 1):
        if token in ("is", "are"):
            rest = tokens[place + 1 :]
            rest = rest[1:] if rest and rest[0] in _JUST else rest
            kind = bool(rest) and rest[0] in _ARTICLES and not _WHICH.isdisjoint(rest[1:6])
            return kind and _OWN.isdisjoint(tokens[:place])
        if token == "," or token in _OWN:
            return False
    return False

# -- handing over to a person ----------------------------------------------------------------------

_STRONG = frozenset("transfer transferring transferred escalate escalating escalated".split())
_HANDING = frozenset(
    "connect connecting connected put putting pass passing passed hand handing handed forward "
    "forwarding forwarded refer referring route routing routed switch switching get getting "
    "bring bringing loop looping have having link linking patch patching move moving direct "
    "directing assign assigning call calling involve involving pull fetch fetching find let "
    "grab".split()
)
_OVER = frozenset("through over across on".split())
_WHOM = frozenset("you your this it case matter things chat conversation request".split())
_MONEY = frozenset("money amount payment balance funds".split())
_WEAK = frozenset("can could may might cannot cant wont want wants asked whether".split())
_FETCHED = ("get", "bring", "have", "loop", "involve", "call", "fetch", "let", "grab")


def hands_over(line: Line) -> bool:
    """"I'll put you through to a colleague", "transferring you now"."""
    words = line.words
    if "people" not in line.places and _STRONG.isdisjoint(words):
        if _OVER.isdisjoint(words) or _HANDING.isdisjoint(words):
            return False
    if line.staged or line.question or is_hedged(line) or "condition" in line.places:
        return False
    tokens = line.tokens
    people = line.sentence.at("people")
    for place, token in enumerate(tokens):
        if token in _STRONG:
            if _MONEY.isdisjoint(tokens[place + 1 : place + 5]) and _is_handing(line, place):
                return True
        elif token in _HANDING:
            over = tokens[place + 1 : place + 2] == ["you"]
            over = over and not _OVER.isdisjoint(tokens[place + 2 : place + 4])
            near = any(place < at <= place + 9 for at in people)
            whom = not _WHOM.isdisjoint(tokens[max(0, place - 4) : place + 4])
            whom = whom or token.startswith(_FETCHED)
            if ((near and whom) or (over and not people)) and _is_handing(line, place):
                return True
    return _takes_over(line)


_TAKING = frozenset(
    "take takes taking contact call help assist be look get continue pick handle follow "
    "join".split()
)


def _takes_over(line: Line) -> bool:
    """"A colleague will be with you", "please hold while I transfer you"."""
    for place in line.sentence.at("people"):
        rest = line.tokens[place + 1 : place + 8]
        if "will" in rest and not _TAKING.isdisjoint(rest):
            return not line.sentence.near("negation", place, 6)
    return False


def _is_handing(line: Line, place: int) -> bool:
    s = line.sentence
    if s.near("negation", place, 6) or s.near("unable", place, 8) or awaits(s, place):
        return False
    left, joint = clause(s, place)
    if joint == "while" and left[:1] in (["i"], ["we"]):
        return True
    return _WEAK.isdisjoint(left) and announced(s, place, governed=True)
