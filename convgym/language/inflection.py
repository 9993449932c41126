"""Forms of an English verb phrase: "set up a visit" ─► "setting up a visit", "set up a visit".

Where the spelling may or may not double a letter both forms are given: a form that nobody writes
does no harm in a list of phrases to look for.
"""

from __future__ import annotations

_IRREGULAR = {
    word.split("/")[0]: tuple(word.split("/")[1:])
    for word in (
        "begin/began/begun bend/bent bind/bound break/broke/broken bring/brought build/built "
        "buy/bought catch/caught choose/chose/chosen come/came cut/cut deal/dealt do/did/done "
        "draw/drew/drawn drive/drove/driven eat/ate/eaten feed/fed fetch/fetched fill/filled "
        "find/found fix/fixed fly/flew/flown forget/forgot/forgotten freeze/froze/frozen "
        "get/got/gotten give/gave/given go/went/gone hang/hung hear/heard hide/hid/hidden "
        "hit/hit hold/held keep/kept know/knew/known lay/laid lead/led leave/left lend/lent "
        "let/let lose/lost make/made mean/meant meet/met pay/paid put/put read/read "
        "rebuild/rebuilt redo/redid/redone rerun/rerun reset/reset resend/resent run/ran/run "
        "say/said see/saw/seen sell/sold send/sent set/set shake/shook/shaken show/showed/shown "
        "shut/shut sing/sang/sung speak/spoke/spoken spend/spent split/split stand/stood "
        "stick/stuck swap/swapped sweep/swept take/took/taken teach/taught tell/told "
        "think/thought throw/threw/thrown undo/undid/undone understand/understood "
        "wake/woke/woken wear/wore/worn wind/wound withdraw/withdrew/withdrawn write/wrote/written"
    ).split()
}
_VOWELS = frozenset("aeiou")


def gerunds(verb: str) -> tuple[str, ...]:
    """What "cancel" becomes in "I am …": cancelling, canceling."""
    if verb.endswith("ie"):
        return (verb[:-2] + "ying",)
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return (verb[:-1] + "ing",)
    return (verb + "ing", verb + verb[-1] + "ing") if _may_double(verb) else (verb + "ing",)


def participles(verb: str) -> tuple[str, ...]:
    """What it becomes in "I …" and "I have …": took, taken."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("e"):
        return (verb + "d",)
    if len(verb) > 1 and verb.endswith("y") and verb[-2] not in _VOWELS:
        return (verb[:-1] + "ied",)
    return (verb + "ed", verb + verb[-1] + "ed") if _may_double(verb) else (verb + "ed",)


def _may_double(verb: str) -> bool:
    """One vowel before one last consonant: stop, cancel; not look, fix, play."""
    return (
        len(verb) > 2
        and verb[-1] not in _VOWELS
        and verb[-1] not in "wxy"
        and verb[-2] in _VOWELS
        and verb[-3] not in _VOWELS
    )


def inflected(phrase: str, form: str) -> str:
    """`phrase` with its first word, or each of its choices, as "doing" or "done"."""
    first, _, rest = phrase.partition(" ")
    inflect = gerunds if form == "doing" else participles
    heads = dict.fromkeys(
        changed for word in first.split("/") for changed in (inflect(word) if word != "-" else "-")
    )
    return f"{'/'.join(heads)} {rest}".strip()


_ARTICLES = frozenset("the a an your .. -/the the/your -".split())
_PARTICLES = frozenset(
    "on in off out up down over back away to for from with at into onto through of it".split()
)


def turned(phrase: str) -> str:
    """"remove the fine" as "fine has been removed", any few words between; "" where it has no
    object of its own."""
    verb, *rest = phrase.split()
    while rest and rest[0] in _ARTICLES:
        rest = rest[1:]
    words = {word for part in rest for word in part.split("/")}
    if not rest or ".." in rest or not words.isdisjoint(_PARTICLES) or "-" in words:
        return ""
    return f"{' '.join(rest)} .. {inflected(verb, 'done')}"
