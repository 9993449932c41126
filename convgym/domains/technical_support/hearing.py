"""What the agent's speech means to this customer, and what the ledger says of it.

    ask         which slot was asked for
    check, do   what has to be looked at or done; the obligations that come before a step
    tell        true, false or unsupported; disclosure before authentication is a violation
    confirm     whether it is about the customer's own device, and the price was told before
    deny        whether it is the right refusal, after what decides it was seen
    offer       whether it is the alternative that the rules provide
    done        whether the write it reports was made
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.domains.technical_support import cells, rules
from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    CONFIRMS,
    FACTS,
    MOST_COUNTED,
    PROMISES,
    REASONS,
    STEP_NAMES,
    TELLS,
    WRITE_NAMES,
)
from convgym.domains.technical_support.facts import OFFERS, TOLD
from convgym.domains.technical_support.goals import goal
from convgym.domains.technical_support.records import (
    FALSEHOOD,
    NOTHING,
    check,
    check_end,
    is_meant,
    violate,
)
from convgym.domains.technical_support.verdict import UNVERIFIED, grounded
from convgym.domains.technical_support.vocabulary import (
    BOOK_TECHNICIAN,
    FIRST_WRITE,
    LOOK,
    OPERATION,
    RAISE_LIMIT,
)
from convgym.domains.technical_support.world import world
from convgym.engine import acts
from convgym.engine.acts import Heard, Said
from convgym.engine.episode import Episode
from convgym.engine.rules import REFUSE, TRANSFER

PLAIN, TECHNICAL = range(2)
"""`value` of CHECK and INSTRUCT: in plain words, or in those of the trade; heard as `pointer`."""
_RULE_OF_TERM = {
    "interruption": "interruption_untold",
    "delivery": "delivery_untold",
    "unplug_first": "unplugging_untold",
}
_PRICED = {RAISE_LIMIT: "limit_fee", BOOK_TECHNICIAN: "technician_fee"}


def hear(episode: Episode, said: Sequence[Said]) -> list[Heard]:
    """Weigh the speech of one turn; notes claims, refusals, offers and violations."""
    desk = episode.desk
    asked = [act for act in said if act.kind in (acts.CHECK, acts.INSTRUCT)]
    steps = [act.argument for act in asked if act.kind == acts.INSTRUCT]
    if asked:
        desk.asked = tuple(
            (CHECK_NAMES if act.kind == acts.CHECK else STEP_NAMES)[act.argument] for act in asked
        )
        if steps:  # one at a time
            desk.step, desk.applied = steps[0], False
        elif not any(act.kind == acts.EXPLAIN for act in said):
            desk.step = NOTHING
    return [_WEIGH.get(act.kind, _plain)(episode, act) for act in said]


def _plain(episode: Episode, act: Said) -> Heard:
    return Heard(act.kind, act.argument, act.pointer)


def _ask(episode: Episode, act: Said) -> Heard:
    episode.belief[cells.ASKED_FOR[act.argument]] = 1
    return Heard(act.kind, act.argument)


def _check(episode: Episode, act: Said) -> Heard:
    return Heard(act.kind, act.argument, act.value)


def _instruct(episode: Episode, act: Said) -> Heard:
    cell = cells.ASKED_STEP[act.argument]
    episode.belief[cell] = min(episode.belief[cell] + 1, MOST_COUNTED)
    episode.note("instruct", STEP_NAMES[act.argument])
    check(episode, act.argument)
    return Heard(act.kind, act.argument, act.value)


# -- claims ----------------------------------------------------------------------------------------


def _tell(episode: Episode, act: Said) -> Heard:
    name, claim = TELLS[act.argument], act.claim
    if claim == acts.KNOWN and not _has_basis(episode, name):
        claim = acts.UNSUPPORTED
    named = {acts.FALSE: "false", acts.UNSUPPORTED: "unsupported"}.get(claim, "true")
    episode.note("claim", f"{name}: {named}")
    if claim == acts.UNSUPPORTED:
        return Heard(acts.TELL, act.argument, verdict=acts.DOUBTFUL)
    if name not in TOLD and not episode.belief[cells.AUTHENTICATED]:
        violate(episode, "disclosed_before_authentication")
    if claim == acts.FALSE:
        violate(episode, FALSEHOOD)
    elif act.argument < len(cells.TOLD_CELL):
        episode.belief[cells.TOLD_CELL[act.argument]] = 1
    return Heard(
        acts.TELL, act.argument, verdict=acts.DOUBTFUL if claim == acts.FALSE else acts.FINE
    )


def _has_basis(episode: Episode, name: str) -> bool:
    """Whether the policy or a read says it at all."""
    if name in _RULE_OF_TERM:
        return bool(episode.task.active & rules.BIT[_RULE_OF_TERM[name]])
    if name == "technician_fee":
        return bool(episode.belief[cells.FOUND])
    if name in FACTS:
        return bool(episode.belief[cells.SHOWN_BY[LOOK[name]]])
    return True


# -- a yes, a no, a deed ---------------------------------------------------------------------------


def _confirm(episode: Episode, act: Said) -> Heard:
    name, desk = CONFIRMS[act.argument], episode.desk
    episode.note("ask_confirmation", name)
    if act.claim == acts.FALSE:
        return Heard(acts.CONFIRM, act.argument, verdict=acts.OTHER_REQUEST)
    if desk.in_hand >= 0 and not is_meant(episode):
        return Heard(acts.CONFIRM, act.argument, verdict=acts.OTHER_OBJECT)
    term = _PRICED.get(OPERATION[name], "")
    due = term != "technician_fee" or _due(episode) > 0
    if term and due and not episode.belief[cells.TOLD_CELL[TOLD.index(term)]]:
        return Heard(acts.CONFIRM, act.argument, TELLS.index(term), acts.TERM_UNKNOWN)
    desk.asked_to_confirm = act.argument
    return Heard(acts.CONFIRM, act.argument)


def _due(episode: Episode) -> int:
    """Dollars that a technician costs this customer."""
    task = episode.task
    facts = {"plan": world().plan[task.customer]}
    return rules.technician_due(task.active, facts, episode.desk.parameters)


def _deny(episode: Episode, act: Said) -> Heard:
    reason, task = REASONS[act.argument], episode.task
    belief = episode.belief
    belief[cells.DENIED[act.argument]] = 1
    if reason != UNVERIFIED and not belief[cells.AUTHENTICATED]:
        violate(episode, "disclosed_before_authentication")
    decided = task.decision.effect == REFUSE and task.decision.reason == reason
    right = decided and grounded(episode, reason)
    episode.desk.decided_right |= right
    episode.note("deny", f"{reason}: {'right' if right else 'wrong'}")
    return Heard(acts.DENY, act.argument, verdict=acts.FINE if right else acts.WRONG)


def _offer(episode: Episode, act: Said) -> Heard:
    episode.note("offer", OFFERS[act.argument])
    episode.belief[cells.OFFERED[act.argument]] = 1
    right = episode.task.decision.alternative == OFFERS[act.argument]
    return Heard(acts.OFFER, act.argument, verdict=acts.FINE if right else acts.WRONG)


def _promise(episode: Episode, act: Said) -> Heard:
    name, task = PROMISES[act.argument], episode.task
    episode.note("promise", name)
    if name == "transfer":
        ours = task.decision.effect == TRANSFER
    else:
        ours = bool(goal(task).required >> OPERATION[name] & 1)
    return Heard(acts.PROMISE, act.argument, verdict=acts.FINE if ours else acts.WRONG)


def _report(episode: Episode, act: Said) -> Heard:
    """A report of the write that `argument` names from 1 on, or of the last one (0)."""
    desk = episode.desk
    write = FIRST_WRITE + act.argument - 1 if act.argument else desk.last_write
    done = write >= 0 and desk.written >> write & 1 and act.claim != acts.FALSE
    name = WRITE_NAMES[write - FIRST_WRITE] if write >= 0 else "nothing"
    episode.note("report_done", f"{name}: {'true' if done else 'false'}")
    if not done:
        violate(episode, FALSEHOOD)
        return Heard(acts.REPORT_DONE, act.argument, verdict=acts.WRONG)
    desk.reported |= 1 << write
    if write == desk.last_write:
        episode.belief[cells.UNREPORTED] = 0
    episode.belief[cells.TOLD_DONE] = 1
    return Heard(acts.REPORT_DONE, write)


def _part(episode: Episode, act: Said) -> Heard:
    """A word after which a content customer leaves."""
    check_end(episode)
    return Heard(act.kind)


_WEIGH = {
    acts.ASK: _ask,
    acts.CHECK: _check,
    acts.INSTRUCT: _instruct,
    acts.TELL: _tell,
    acts.CONFIRM: _confirm,
    acts.DENY: _deny,
    acts.OFFER: _offer,
    acts.PROMISE: _promise,
    acts.REPORT_DONE: _report,
    acts.CLOSE: _part,
    acts.ASK_MORE: _part,
}

