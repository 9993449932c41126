"""What the agent's speech means to this customer, and what the ledger says of it.

    ask       which slot was asked for
    tell      true, false or unsupported; disclosure before authentication is a violation
    confirm   whether it is the customer's own request on the customer's own record
    deny      whether it is the right refusal, after the deciding read
    offer     whether it is the alternative that the rules provide
    promise   whether it is the customer's own request that is promised
    done      whether the change it reports is there
"""

from __future__ import annotations

from convgym.desk.declaration import ACCOUNT
from convgym.desk.state import Case
from convgym.engine import acts
from convgym.engine.acts import Heard, Said
from convgym.engine.rules import REFUSE


def hear_one(case: Case, act: Said) -> Heard:
    """Weigh one act of speech; notes claims, refusals, offers and violations."""
    kind, v, episode = act.kind, case.v, case.episode
    if kind == acts.ASK:
        case.belief[v.asked[act.argument]] = 1
    elif kind == acts.TELL:
        facts = v.declaration.facts
        return (_hear_fact if act.argument < len(facts) else _hear_term)(case, act)
    elif kind == acts.CONFIRM:
        return _hear_confirm(case, act)
    elif kind == acts.DENY:
        return _hear_denial(case, act)
    elif kind == acts.OFFER:
        offer = v.declaration.offers[act.argument]
        right = case.request.decision.alternative == offer
        case.belief[v.offered[act.argument]] = 1
        episode.note("offer", offer)
        return Heard(kind, act.argument, verdict=acts.FINE if right else acts.WRONG)
    elif kind == acts.REPORT_DONE:
        return _hear_report(case, act)
    elif kind == acts.PROMISE:
        ours = v.promises[act.argument] == case.workflow.name
        episode.note("promise", v.promises[act.argument])
        return Heard(kind, act.argument, verdict=acts.FINE if ours else acts.WRONG)
    return Heard(kind, act.argument, act.pointer)


def _weigh_claim(case: Case, name: str, claim: int) -> bool:
    """Note a claim; whether the customer takes it, true or false, as told."""
    if claim == acts.UNSUPPORTED:
        case.episode.note("claim", f"{name}: unsupported")
        return False
    if not case.belief[case.v.authenticated]:
        case.violate("disclosed_before_authentication")
    if claim == acts.FALSE:
        case.violate("told_a_falsehood")
    case.episode.note("claim", f"{name}: {'false' if claim == acts.FALSE else 'true'}")
    return True


def _hear_fact(case: Case, act: Said) -> Heard:
    name = case.v.told[act.argument]
    if not _weigh_claim(case, name, act.claim) or act.claim == acts.FALSE:
        return Heard(acts.TELL, act.argument, act.pointer, acts.DOUBTFUL)
    case.belief[case.v.told_fact[name][max(act.pointer, 0)]] = 1
    kind = case.v.declaration.facts[name]
    if case.is_meant(kind, act.pointer):
        case.desk.told |= 1 << act.argument
        return Heard(acts.TELL, act.argument, act.pointer)
    if name not in case.workflow.facts and case.was_meant(kind, act.pointer):
        return Heard(acts.CHAT)  # told once more, of what the customer came for before
    case.violate("told_of_another_record")
    return Heard(acts.TELL, act.argument, act.pointer, acts.OTHER_OBJECT)


def _hear_term(case: Case, act: Said) -> Heard:
    name, claim = case.v.told[act.argument], act.claim
    if name not in case.workflow.terms or not (case.read and case.heard_for(name)):
        claim = acts.UNSUPPORTED
    elif claim == acts.KNOWN:
        due = case.request.terms[case.workflow.terms.index(name)] > 0 if case.request.terms else 0
        claim = acts.TRUE if act.value == due else acts.FALSE
    if not _weigh_claim(case, name, claim):
        return Heard(acts.TELL, act.argument, act.pointer, acts.DOUBTFUL)
    case.belief[case.v.told_term[name][act.value]] = 1
    return Heard(acts.TELL, act.argument)


def _hear_confirm(case: Case, act: Said) -> Heard:
    v, workflow, pointer = case.v, case.v.declaration.writes[act.argument], act.pointer
    verdict, about = acts.FINE, pointer
    if workflow.name != case.workflow.name or act.claim == acts.FALSE:
        verdict = acts.OTHER_REQUEST
    elif not case.own_account or pointer != case.request.pointer:
        verdict = acts.OTHER_OBJECT if workflow.kind != ACCOUNT else acts.OTHER_REQUEST
    else:
        for term in workflow.terms:
            if not any(case.belief[cell] for cell in v.told_term[term]):
                verdict, about = acts.TERM_UNKNOWN, v.told.index(term)
                break
    if verdict == acts.FINE:
        case.desk.asked_to_confirm = (act.argument, pointer)
    on = f" {workflow.kind}:{pointer + 1}" if workflow.kind else ""
    case.episode.note("ask_confirmation", f"{workflow.name}{on}")
    return Heard(acts.CONFIRM, act.argument, about, verdict)


def _hear_denial(case: Case, act: Said) -> Heard:
    v, reason = case.v, case.v.declaration.reasons[act.argument]
    case.belief[v.denied[act.argument]] = 1
    if reason == "unverified":
        grounded = case.belief[v.failures] >= 2 and not case.belief[v.authenticated]
    else:
        if not case.belief[v.authenticated]:
            case.violate("disclosed_before_authentication")
        grounded = case.deciding
    decision = case.request.decision
    right = bool(grounded and decision.effect == REFUSE and decision.reason == reason)
    case.desk.decided_right |= right
    case.episode.note("deny", f"{reason}: {'right' if right else 'wrong'}")
    return Heard(acts.DENY, act.argument, verdict=acts.FINE if right else acts.WRONG)


def _hear_report(case: Case, act: Said) -> Heard:
    done = bool(
        case.belief[case.v.wrote] and case.desk.decided_right and act.claim != acts.FALSE
    )
    case.belief[case.v.told_done] |= done
    case.episode.note("report_done", "true" if done else "false")
    if not done:
        case.violate("told_a_falsehood")
    return Heard(acts.REPORT_DONE, verdict=acts.FINE if done else acts.WRONG)
