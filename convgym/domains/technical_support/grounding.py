"""Claims of free text held against what the desk has read: (act, slot, value, object) ─► Said.

A claim is what a sentence asserts, asks or offers, and of which device by its serial or handle;
whoever reads the speech makes them (`understanding.read_speech`). What a claim does not name is
meant of the device in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from convgym.domains.technical_support import cells, rules
from convgym.domains.technical_support.calls import pointer_of
from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    CONFIRMS,
    FACTS,
    PHONE,
    PROMISES,
    REASONS,
    SLOTS,
    STEP_NAMES,
    TELLS,
    WARRANTY,
    WRITE_NAMES,
)
from convgym.domains.technical_support.facts import OFFERS, TOLD
from convgym.domains.technical_support.hearing import PLAIN, TECHNICAL
from convgym.domains.technical_support.records import known_facts
from convgym.domains.technical_support.vocabulary import (
    LOOK,
    VALUE,
)
from convgym.engine import acts
from convgym.engine.acts import Said
from convgym.engine.episode import Episode

_PLAIN = {
    "greet": acts.CHAT,
    "wait": acts.CHAT,
    "chat": acts.CHAT,
    "explain": acts.EXPLAIN,
    "locate": acts.EXPLAIN,
    "jargon": acts.JARGON,
    "ask_intent": acts.ASK_INTENT,
    "apologise": acts.APOLOGISE,
    "close": acts.CLOSE,
}
_NUMBERED = ("limit_fee", "technician_fee", "interruption", "delivery")


def ground_speech(episode: Episode, said: Sequence[Any]) -> list[Said]:
    """Acts of speech with their claims held against what the desk has read by now."""
    grounded = [act if isinstance(act, Said) else _ground(episode, *act) for act in said]
    heard = list(dict.fromkeys(act for act in grounded if act is not None))
    return heard or [Said(acts.UNCLEAR)] * bool(said)


def _ground(episode: Episode, act: str, slot: str, value: str, named: str) -> Said | None:
    if act in _PLAIN:
        return Said(_PLAIN[act])
    if act == "who":
        return Said(acts.ASK, PHONE)  # customers say who they are by their account
    if act == "ask" and slot == "more":
        return Said(acts.ASK_MORE)
    ground = _GROUNDS.get(act)
    return ground(episode, slot, value, named) if ground else None


def _ask(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    return Said(acts.ASK, SLOTS.index(slot)) if slot in SLOTS else None


def _check(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    words = TECHNICAL if value == "technical" else PLAIN
    return Said(acts.CHECK, CHECK_NAMES.index(slot), value=words) if slot in CHECK_NAMES else None


def _instruct(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    words = TECHNICAL if value == "technical" else PLAIN
    if slot not in STEP_NAMES:
        return None
    return Said(acts.INSTRUCT, STEP_NAMES.index(slot), value=words)


def _of_another(episode: Episode, named: str) -> bool:
    """Whether a device is named that is not the one in hand."""
    return bool(named) and pointer_of(episode, named) != episode.desk.in_hand


# -- what is told ----------------------------------------------------------------------------------


def _inform(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    if slot not in TELLS:
        return None
    told = TELLS.index(slot)
    if slot in TOLD:
        return Said(acts.TELL, told, claim=_term(episode, slot, value))
    if slot == WARRANTY:
        return Said(acts.TELL, told, claim=_warranty(episode, value))
    return Said(acts.TELL, told, claim=_fact(episode, slot, value, named))


def _term(episode: Episode, term: str, value: str) -> int:
    """KNOWN where it is what the policy says: whether there is a basis for it is found later."""
    if term not in _NUMBERED or not value:
        return acts.KNOWN
    right = {episode.desk.parameters[term]}
    if term == "technician_fee":
        facts = known_facts(episode)
        if "plan" not in facts:
            return acts.UNSUPPORTED
        due = rules.technician_due(episode.task.active, facts, episode.desk.parameters)
        right = {due}
    return acts.KNOWN if value.isdigit() and int(value) in right else acts.FALSE


def _fact(episode: Episode, fact: str, value: str, named: str) -> int:
    look = LOOK[fact]
    if not episode.belief[cells.SHOWN_BY[look]]:
        return acts.UNSUPPORTED
    if fact != FACTS[-1] and _of_another(episode, named):
        return acts.UNSUPPORTED
    if not value:
        return acts.TRUE
    cell = cells.SEES.get((look, VALUE.get(value, -1)))
    return acts.TRUE if cell is not None and episode.belief[cell] else acts.FALSE


def _warranty(episode: Episode, value: str) -> int:
    """Whether a replacement would still be free, by the record of the device in hand."""
    facts = known_facts(episode)
    if "months" not in facts or value not in ("yes", "no"):
        return acts.UNSUPPORTED
    free = facts["months"] <= episode.desk.parameters["warranty"]
    return acts.TRUE if free == (value == "yes") else acts.FALSE


# -- what is asked, refused, promised, reported ----------------------------------------------------


def _confirm(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    if slot not in CONFIRMS:
        return None
    claim = acts.FALSE if _of_another(episode, named) else acts.KNOWN
    return Said(acts.CONFIRM, CONFIRMS.index(slot), claim=claim)


def _deny(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    return Said(acts.DENY, REASONS.index(slot)) if slot in REASONS else None


def _offer(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    return Said(acts.OFFER, OFFERS.index(slot)) if slot in OFFERS else None


def _promise(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    return Said(acts.PROMISE, PROMISES.index(slot)) if slot in PROMISES else None


def _done(episode: Episode, slot: str, value: str, named: str) -> Said | None:
    """1 + the write, 0 for the one made last."""
    if slot and slot not in WRITE_NAMES:
        return None
    claim = acts.FALSE if _of_another(episode, named) else acts.KNOWN
    return Said(acts.REPORT_DONE, 1 + WRITE_NAMES.index(slot) if slot else 0, claim=claim)


_GROUNDS: dict[str, Callable[[Episode, str, str, str], Said | None]] = {
    "ask": _ask,
    "check": _check,
    "instruct": _instruct,
    "inform": _inform,
    "confirm": _confirm,
    "deny": _deny,
    "offer": _offer,
    "promise": _promise,
    "done": _done,
}
