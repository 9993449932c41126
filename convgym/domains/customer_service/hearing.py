"""What the agent's speech means to this customer, and what the ledger says of it.

    ask       which slot was asked for
    tell      true, false or unsupported; disclosure before authentication is a violation
    confirm   whether it is the customer's own request on the customer's own order
    deny      whether it is the right refusal, after the deciding read
    offer     whether it is the alternative that the rules provide
    promise   whether it is the customer's own request that is promised
    done      whether the write it reports is there
"""

from __future__ import annotations

from convgym.domains.customer_service import cells, rules
from convgym.domains.customer_service.records import deciding, violate
from convgym.domains.customer_service.vocabulary import (
    FACT_CHANNEL,
    FACT_ETA,
    FACT_FEE,
    FACT_STATUS,
    FACTS,
    PROMISES,
    WRITES,
)
from convgym.engine import acts
from convgym.engine.acts import Heard, Said
from convgym.engine.episode import Episode
from convgym.engine.rules import REFUSE


def hear_one(episode: Episode, act: Said) -> Heard:
    """Weigh one act of speech; notes claims, refusals, offers and violations."""
    kind = act.kind
    if kind == acts.ASK:
        episode.belief[cells.ASKED[act.argument]] = 1
    elif kind == acts.TELL:
        return _hear_fact(episode, act)
    elif kind == acts.CONFIRM:
        return _hear_confirm(episode, act)
    elif kind == acts.DENY:
        return _hear_denial(episode, act)
    elif kind == acts.OFFER:
        right = episode.task.decision.alternative == rules.OFFERS[act.argument]
        episode.belief[cells.OFFERED[act.argument]] = 1
        episode.note("offer", rules.OFFERS[act.argument])
        return Heard(kind, act.argument, verdict=acts.FINE if right else acts.WRONG)
    elif kind == acts.REPORT_DONE:
        return _hear_report(episode, act)
    elif kind == acts.PROMISE:
        ours = PROMISES[act.argument] == rules.WORKFLOWS[episode.task.workflow]
        episode.note("promise", PROMISES[act.argument])
        return Heard(kind, act.argument, verdict=acts.FINE if ours else acts.WRONG)
    return Heard(kind, act.argument, act.pointer)


def _hear_fact(episode: Episode, act: Said) -> Heard:
    task, belief, fact = episode.task, episode.belief, act.argument
    claim = act.claim
    if fact in (FACT_FEE, FACT_CHANNEL):
        read = belief[cells.READ[task.pointer]] and belief[cells.HEARD_REASON]
        if not read or episode.desk.customer != task.customer:
            claim = acts.UNSUPPORTED
        elif claim == acts.KNOWN:
            truth = (task.fee > 0) if fact == FACT_FEE else task.channel
            claim = acts.TRUE if act.value == truth else acts.FALSE
    if claim == acts.UNSUPPORTED:
        episode.note("claim", f"{FACTS[fact]}: unsupported")
        return Heard(acts.TELL, fact, act.pointer, acts.DOUBTFUL)
    if not belief[cells.AUTH]:
        violate(episode, "disclosed_before_authentication")
    if claim == acts.FALSE:
        violate(episode, "told_a_falsehood")
        episode.note("claim", f"{FACTS[fact]}: false")
        if fact in (FACT_STATUS, FACT_ETA):
            return Heard(acts.TELL, fact, act.pointer, acts.DOUBTFUL)
    else:
        episode.note("claim", f"{FACTS[fact]}: true")
    if fact in (FACT_STATUS, FACT_ETA):
        belief[cells.TOLD[fact][act.pointer]] = 1
        meant = episode.desk.customer == task.customer and act.pointer == task.pointer
        if not meant:
            violate(episode, "told_of_another_order")
        return Heard(acts.TELL, fact, act.pointer, acts.FINE if meant else acts.OTHER_OBJECT)
    belief[cells.TOLD[fact][act.value]] = 1
    return Heard(acts.TELL, fact)


def _hear_confirm(episode: Episode, act: Said) -> Heard:
    task, belief, desk = episode.task, episode.belief, episode.desk
    write, pointer = act.argument, act.pointer
    verdict = acts.FINE
    if WRITES[write] != rules.WORKFLOWS[task.workflow] or act.claim == acts.FALSE:
        verdict = acts.OTHER_REQUEST
    elif desk.customer != task.customer or pointer != task.pointer:
        verdict = acts.OTHER_OBJECT
    elif WRITES[write] == "return":
        if not any(belief[cell] for cell in cells.TOLD[FACT_FEE]):
            verdict = acts.FEE_UNKNOWN
        elif not any(belief[cell] for cell in cells.TOLD[FACT_CHANNEL]):
            verdict = acts.CHANNEL_UNKNOWN
    if verdict == acts.FINE:
        desk.asked_to_confirm = (write, pointer)
    episode.note("ask_confirmation", f"{WRITES[write]} order:{pointer + 1}")
    return Heard(acts.CONFIRM, write, pointer, verdict)


def _hear_denial(episode: Episode, act: Said) -> Heard:
    task, belief, reason = episode.task, episode.belief, rules.DENIALS[act.argument]
    belief[cells.DENIED[act.argument]] = 1
    if reason == "unverified":
        grounded = belief[cells.FAILURES] >= 2 and not belief[cells.AUTH]
    else:
        if not belief[cells.AUTH]:
            violate(episode, "disclosed_before_authentication")
        grounded = deciding(episode)
    decision = task.decision
    right = bool(grounded and decision.effect == REFUSE and decision.reason == reason)
    episode.desk.decided_right |= right
    episode.note("deny", f"{reason}: {'right' if right else 'wrong'}")
    return Heard(acts.DENY, act.argument, verdict=acts.FINE if right else acts.WRONG)


def _hear_report(episode: Episode, act: Said) -> Heard:
    done = bool(episode.diff) and episode.desk.decided_right and act.claim != acts.FALSE
    episode.belief[cells.TOLD_DONE] |= done
    episode.note("report_done", "true" if done else "false")
    if not done:
        violate(episode, "told_a_falsehood")
    return Heard(acts.REPORT_DONE, verdict=acts.FINE if done else acts.WRONG)
