"""What an agent wants of the user: an answer, a look at something, a step to take.

    "Could I have your card number?"            ask
    "Card number, please"                       ask      a bare name beside a request
    "Is the power light on?"                    check
    "Please restart the router."                instruct
    "Unplug it, wait a minute and restart it."  instruct, twice
    "Don't restart it." "If you restart it …" "I'll restart it." "Did you restart it?"   nothing
"""

from __future__ import annotations

from convgym.language.lines import Line, Lines, is_conditional, is_denied, is_hedged
from convgym.language.spans import Hit

# -- questions for a slot --------------------------------------------------------------------------

_PERFECT = frozenset("has have been was were ive weve will ill".split())
_THANKING = frozenset(("thanks", "thank"))
_MENTIONS = frozenset(("with", "found"))
_SETTLED = frozenset(
    "matches match matched found works noted received valid got correct recorded thanks".split()
)
_LISTED = 14
"""Words of an item of a list, at most."""


def requests(line: Line) -> bool:
    """A question, or a demand without a question mark."""
    return line.question or "request" in line.places


def asks(line: Line, before: Lines, after: Lines) -> list[Hit]:
    """The slots that are asked for, each once; one listed below a request is asked for too."""
    slots = line.of("ask")
    if not slots:
        return []
    requested = requests(line) or line.sentence.leads
    if not requested and len(line.tokens) <= _LISTED and _PERFECT.isdisjoint(line.tokens):
        requested = any(n.has("request") for n in (*before[-2:], *after[:1]))
    if not (requested or len(line.tokens) <= 4) or _begins_with_if(line):
        return []
    found = {}
    for hit in slots:
        if hit.name not in found and not _is_told_about(line, hit):
            found[hit.name] = hit
    return list(found.values())


def _is_told_about(line: Line, hit: Hit) -> bool:
    """A slot that is talked about, not asked for: "thanks for your card number"."""
    s = line.sentence
    if is_denied(line, hit.start) or (line.has("unable") and not requests(line)):
        return True
    if s.question:
        return False
    if s.word_before(_THANKING, hit.start, 8) or s.word_before(_MENTIONS, hit.start, 3):
        return True
    if line.has("purpose") and _DEMANDING.isdisjoint(line.tokens):
        return True
    if not line.has("request") and not _ENDING.issuperset(_after_last(line)):
        return True  # "order number: W48213"
    return not _SETTLED.isdisjoint(line.tokens) or _HAVE_IT.issuperset(line.tokens[:2])


def _after_last(line: Line) -> list[str]:
    """The words behind the last slot that is named."""
    return line.tokens[max(hit.end for hit in line.of("ask")) :]


_ENDING = frozenset("please pls too also and , thanks again now ok okay for me first then".split())
_DEMANDING = frozenset("need needed require required please kindly could may must provide".split())
_HAVE_IT = frozenset("i we have ive weve see".split())

# -- looking at something --------------------------------------------------------------------------

_LOOKERS = frozenset("look check see tell watch describe verify confirm find take have go".split())


def checks(line: Line, steps: list[Hit]) -> list[Hit]:
    """The components that the user is asked to look at, or what they show; each once."""
    parts = line.of("check")
    if not parts or line.staged or _begins_with_if(line):
        return []
    first = next((token for token in line.tokens if token not in _LEADS), "")
    if not (line.question or line.has("request") or first in _LOOKERS):
        if not any(hit.tag.name == "look" for hit in line.of("frame")):
            return []
    found = {}
    for hit in parts:
        inside = any(step.start <= hit.start < step.end for step in steps)
        if not (inside or hit.name in found or _unwanted(line, hit.start)):
            found[hit.name] = hit
    return list(found.values())


def _begins_with_if(line: Line) -> bool:
    """"If the light is red, …", but not "tell me whether the light is red"."""
    return "condition" in line.places and line.places["condition"][0] <= 1


def _unwanted(line: Line, place: int) -> bool:
    return not line.question and is_denied(line, place)


# -- steps -----------------------------------------------------------------------------------------

_REACH = 14
"""Words between what makes a command and the step."""
_STOPS = frozenset(
    "i ill ive im we well weve he she they it who how why what where whether which that if not "
    "dont never no without instead avoid did didnt has had was were because than rather cant "
    "cannot until unless while do when once before after upon whenever me us him her them nobody "
    "noone none will would may might must".split()
)
"""Words that end the reach of a command: "please wait until I restart it"."""
_LEADS = frozenset(
    "please kindly then now next first firstly second secondly third finally lastly so ok okay and "
    "also just simply again afterwards great alright right well yes good perfect , carefully "
    "quickly gently slowly thanks step 1 2 3 4 5 6 7 8 9 a b c sure cool fine lets once "
    "more".split()
)
_COMMANDS = frozenset(
    "wait go open press hold click type enter check look take find turn unplug plug switch select "
    "choose tap make keep leave give let use put connect disconnect count stay walk grab remove "
    "insert log sign close run start stop try set move pull push touch pick get head visit scroll "
    "launch navigate swipe read write note scan download install please have lift place clean "
    "drain fill empty screw loosen tighten lock unlock pour rinse wipe".split()
)
_CIRCUMSTANCES = frozenset("in on at for to from with under behind inside by after".split())
_GERUND_LEADS = frozenset(
    "try trying by mind about consider start begin worth recommend suggest advise and".split()
)


def instructs(line: Line) -> list[Hit]:
    """The steps that the user is told to take, in order."""
    steps, doings = line.of("step"), line.of("stepping")
    if not (steps or doings) or line.staged or is_conditional(line) or is_hedged(line):
        return []
    if line.has("rule", "governor", "unsaid", "condition") or _either(line):
        return []
    found: list[Hit] = []
    for hit in sorted((*steps, *doings), key=lambda hit: hit.start):
        if is_denied(line, hit.start, 5) or _hangs(line, hit):
            continue
        told = _is_command(line, hit, found)
        if told and not any(h.name == hit.name and h.start <= hit.start < h.end for h in found):
            found.append(hit)
    return found


_HINGES = frozenset("when once unless whenever after only".split())
_SUBJECT_OF = frozenset("is was means would did has isnt wasnt will".split())


def _hangs(line: Line, hit: Hit) -> bool:
    """It is to be done only later: "restart it once I tell you"."""
    if not _SUBJECT_OF.isdisjoint(line.tokens[hit.end : hit.end + 1]):
        return True  # "restart it is what they did"
    if _HINGES.isdisjoint(line.words):
        return False
    for token in line.tokens[hit.end :]:
        if token in (",", "and", "then"):
            return False
        if token in _HINGES:
            return True
    return False


def forbids(line: Line) -> list[str]:
    """The steps that the user is told not to take."""
    if "negation" not in line.places:
        return []
    return [
        hit.name
        for kind in ("step", "stepping")
        for hit in line.of(kind)
        if line.sentence.near("negation", hit.start, 5)
    ]


def _either(line: Line) -> bool:
    """"Restart it or reset it": which of them? "Delete films or delete apps" is one step."""
    steps = line.of("step")
    if "or" not in line.words or len({hit.name for hit in steps}) < 2:
        return False
    places = [hit.start for hit in steps]
    return any(
        token == "or" and any(p > at for p in places) and any(p < at for p in places)
        for at, token in enumerate(line.tokens)
    )


def _is_command(line: Line, hit: Hit, found: list[Hit]) -> bool:
    place, tokens = hit.start, line.tokens
    gerund = hit.tag.kind == "stepping"
    frames = [
        frame
        for frame in (*line.of("frame"), *line.of("asked"))
        if frame.end <= place <= frame.end + _REACH and frame.start < place
    ]
    if line.question and not line.of("asked") and not _asks_please(line):
        return False
    for frame in frames:
        between = tokens[frame.end : place]
        if not (_STOPS.isdisjoint(between) or _chained(found, frame.end, place)):
            continue
        if gerund:
            near = tokens[max(0, place - 2) : place]
            fits = not _GERUND_LEADS.isdisjoint(near) or frame.end == place
        else:
            fits = tokens[place - 1] != "to" or frame.end == place
        if fits:
            return True
    if line.question:
        return False
    if gerund:
        return tokens[place - 1 : place] in (["try"], ["by"])
    return _begins_command(line, place, found)


def _asks_please(line: Line) -> bool:
    if _PLEASE.isdisjoint(line.words):
        return False
    return any(line.tokens[frame.start] in _PLEASE for frame in line.of("frame"))


_PLEASE = frozenset("please kindly pls plz".split())


def _chained(found: list[Hit], begin: int, place: int) -> bool:
    """An earlier step of the same command stands between."""
    return any(begin <= hit.start < place for hit in found)


def _begins_command(line: Line, place: int, found: list[Hit]) -> bool:
    """The step opens a sentence, or goes on with one that opens with a command."""
    tokens = line.tokens
    begin = place
    while begin and tokens[begin - 1] in _LEADS:
        begin -= 1
    if not begin or (begin == 2 and tokens[0] == "after" and tokens[1] in ("that", "this")):
        return True
    if begin == place:
        return False  # "technicians restart it": something else than a lead stands before
    if not {"and", ",", "then", "now", "please"}.intersection(tokens[begin:place]):
        return False
    if found:
        return _STOPS.isdisjoint(tokens[found[-1].end : place])
    opening = next((token for token in tokens if token not in _LEADS), "")
    return (opening in _COMMANDS or opening in _CIRCUMSTANCES) and _STOPS.isdisjoint(
        tokens[:place]
    )
