"""The agenda user on integer rows: `convgym.users.agenda`, reaction by reaction.

Every function stands under the name of the one it repeats and in its order; `e` is an episode's
record, `D` the tables of the decision model and of what users know. A domain writes its own
`answer` of these pieces, since it is there that single engines differ.
"""

from __future__ import annotations

from typing import Any

from convgym.engine import acts
from convgym.engine.kernel import kernel
from convgym.users import decisions
from convgym.users.agenda import LONG_REPLY, LONG_WAIT, MOST_DISPUTES, TERM
from convgym.users.decisions import GRACE, MOST_BOTHER
from convgym.users.user_batch import (
    ACCEPT_ALTERNATIVE,
    ACCEPT_REFUSAL,
    ACKNOWLEDGE,
    AFFIRM,
    ASK_ALTERNATIVE,
    ASK_BACK,
    ASK_MEANING,
    ASK_NEXT,
    ASK_SURE,
    ASK_WHY,
    BYE,
    CHALLENGE,
    CHALLENGE_DONE,
    DECLINE_OFFER,
    DONT_KNOW,
    FRUSTRATED,
    GIVE_UP,
    GREET,
    HOLD,
    IS_BREAKING,
    NEGATE,
    NO_LUCK,
    NO_MORE,
    PUSH_BACK,
    REMIND_PROMISE,
    TANGENT,
    THANK,
    any_heard,
    decide,
    drawn,
    end_turn,
    general,
    is_said,
    known,
    out,
)
from convgym.users.user_state import LOOKING, MEANING, NEXT, NOTHING, PRETENDING, SURE, WHY


@kernel
def open_user(D: Any, e: Any) -> None:
    """The opening: a bare greeting, or the request with whatever is volunteered."""
    if decide(D, e, decisions.GREET_ONLY, 0):
        general(D, e, GREET)
    else:
        if decide(D, e, decisions.GREET, 0):
            general(D, e, GREET)
        request(D, e)
        if decide(D, e, decisions.FRONT_LOAD, 0):
            volunteer(D, e)
            if decide(D, e, decisions.FRONT_LOAD, 1):
                out(e, rung(D, e, D.first_slot[known(e)]))
    end_turn(e)


# -- reactions -----------------------------------------------------------------------------------


@kernel
def react(D: Any, e: Any, kind: int, argument: int, pointer: int, verdict: int) -> None:
    """To one act, by its kind; idle talk asks for nothing. A domain puts its own ways before."""
    if kind == acts.ASK_INTENT:
        ask_intent(D, e)
    elif kind == acts.ASK:
        ask(D, e, argument)
    elif kind == acts.ASK_MORE:
        ask_more(D, e)
    elif kind == acts.TELL:
        tell(D, e, argument, pointer, verdict)
    elif kind == acts.CONFIRM:
        confirm(D, e, pointer, verdict)
    elif kind == acts.DENY:
        deny(e, verdict)
    elif kind == acts.OFFER:
        offer(D, e, verdict)
    elif kind == acts.REPORT_DONE:
        report_done(D, e, verdict)
    elif kind == acts.APOLOGISE:
        apologise(e)
    elif kind == acts.CLOSE:
        close(D, e)
    elif kind == acts.UNCLEAR:
        unclear(D, e)
    elif kind == acts.EXPLAIN:
        explain(D, e)
    elif kind == acts.PROMISE:
        promise(e, verdict)
    elif kind == acts.JARGON:
        jargon(D, e, argument)


@kernel
def wait(e: Any) -> None:
    """What it took to hear from the agent again: time, and words, perhaps for nothing."""
    idle = True
    for at in range(e.n_heard):
        kind = e.heard[at, 0]
        verdict = e.heard[at, 3]
        if kind == acts.APOLOGISE:
            is_idle = e.apologised != 0
        elif kind == acts.EXPLAIN:
            is_idle = e.question == NOTHING
        else:
            is_idle = kind == acts.CHAT or (kind == acts.PROMISE and verdict != acts.FINE)
        idle = idle and is_idle
    if idle and e.user_turn > 1 and not e.holding:
        e.bother += 1
    if e.turn - e.heard_turn > LONG_WAIT:
        e.bother += 1
    if e.reply_length > LONG_REPLY:
        e.bother += 1
    e.heard_turn = e.turn


@kernel
def come_back(D: Any, e: Any) -> None:
    """From looking something up, or from having said so."""
    slot = D.main_slot[known(e)]
    if e.holding > 0:
        e.slots_answered |= 1 << slot
    if e.holding == LOOKING:
        out(e, rung(D, e, slot))
    elif e.holding == PRETENDING:
        general(D, e, NO_LUCK)
        e.asked[slot] = 1
    e.holding = 0


@kernel
def ask_intent(D: Any, e: Any) -> None:
    """Says what it wants; who has said it before is bothered."""
    if e.satisfied:
        return
    e.bother += e.intent_said
    request(D, e)


@kernel
def ask(D: Any, e: Any, slot: int) -> None:
    """To a question for a value: one question is answered, further ones perhaps."""
    knowledge = known(e)
    if e.slots_answered >> slot & 1:
        return
    if e.slots_answered and not decide(D, e, decisions.ANSWER_TOO, slot):
        return
    e.slots_answered |= 1 << slot
    rungs = D.rungs[knowledge, slot]
    if not rungs:
        e.bother += 1
        general(D, e, DONT_KNOW)
        return
    if questions_it(D, e, slot):
        e.owed = slot
        return
    if e.owed == slot:
        e.owed = -1
    if e.asked[slot] >= rungs + (e.slipped >> slot & 1):
        e.bother += 1
    give(D, e, slot)


@kernel
def ask_more(D: Any, e: Any) -> None:
    """To "anything else?" while the request is open: bothered, it insists."""
    if not (e.satisfied or e.waiting):
        e.bother += 1
        insist(D, e)


@kernel
def tell(D: Any, e: Any, argument: int, pointer: int, verdict: int) -> None:
    """To something told: noted, corrected where it is of another thing, doubted without a basis."""
    if verdict == acts.DOUBTFUL:
        e.bother += 2
        general(D, e, CHALLENGE)
    elif verdict == acts.OTHER_OBJECT:
        e.bother += 1
        out(e, D.correct[known(e)])
    else:
        e.told |= 1 << argument
        wanted = D.facts[known(e)]
        if wanted and e.told & wanted == wanted:
            believe(D, e)
        elif not e.question:
            ask_meaning(D, e, acts.TELL, argument)


@kernel
def confirm(D: Any, e: Any, pointer: int, verdict: int) -> None:
    """To a question for a yes: yes, a question about an unknown term, or a correction."""
    if verdict == acts.FINE:
        e.waiting = not e.satisfied
        e.denied = 0
        general(D, e, AFFIRM)
    elif verdict == acts.TERM_UNKNOWN:
        out(e, D.asks[known(e), pointer])
    elif verdict == acts.OTHER_OBJECT:
        e.bother += 1
        general(D, e, NEGATE)
        out(e, D.correct[known(e)])
    else:
        e.bother += 1
        general(D, e, NEGATE)
        request(D, e)


@kernel
def deny(e: Any, verdict: int) -> None:
    """To a refusal: whether it was for the right reason is remembered."""
    e.waiting = e.promised = 0
    e.denied = 1 if verdict == acts.FINE or e.denied == 1 else 2


@kernel
def offer(D: Any, e: Any, verdict: int) -> None:
    """To an offer: the right one after a right refusal is taken up, others are declined."""
    if verdict == acts.FINE and e.denied == 1:
        e.was_offered = 1
    elif e.denied != 2:
        e.bother += 1
        general(D, e, DECLINE_OFFER)


@kernel
def report_done(D: Any, e: Any, verdict: int) -> None:
    """To the report that it is done: believed where it is, else challenged."""
    if verdict == acts.FINE:
        e.waiting = e.promised = 0
        believe(D, e)
    else:
        e.bother += 2
        general(D, e, CHALLENGE_DONE)


@kernel
def apologise(e: Any) -> None:
    """To an apology: the first one soothes."""
    if not e.apologised and e.bother:
        e.bother -= 1
    e.apologised = 1


@kernel
def close(D: Any, e: Any) -> None:
    """To a farewell before the request is settled: protest, or leave."""
    if e.satisfied:
        return
    e.bother += 2
    if e.waiting:
        return
    if decide(D, e, decisions.PROTEST, 0):
        insist(D, e)
    else:
        general(D, e, BYE)
        e.closing = 1


@kernel
def unclear(D: Any, e: Any) -> None:
    """To words that it does not understand: ask back."""
    if e.satisfied:
        return
    e.bother += 1
    general(D, e, ASK_BACK)


@kernel
def explain(D: Any, e: Any) -> None:
    """Answers the open question, whatever it was."""
    e.explained = 1
    question = e.question
    e.question = NOTHING
    if question == SURE:
        be_content(e)
    slot = e.owed
    e.owed = -1
    if slot >= 0 and not e.slots_answered >> slot & 1:
        e.slots_answered |= 1 << slot
        give(D, e, slot)


@kernel
def promise(e: Any, verdict: int) -> None:
    """To a promise: it waits for the deed."""
    if verdict == acts.FINE:
        e.promised = not e.satisfied
        e.denied = 0


@kernel
def jargon(D: Any, e: Any, argument: int) -> None:
    """To a term of the trade: perhaps ask what it means."""
    if not e.question:
        ask_meaning(D, e, acts.JARGON, argument)


# -- the user's own business -----------------------------------------------------------------------


@kernel
def questions_it(D: Any, e: Any, slot: int) -> bool:
    """Instead of an answer to a question: what for? or, what is that?"""
    if e.question or e.explained:
        return False
    if D.personal[known(e)] >> slot & 1 and not e.puzzled & 1:
        if decide(D, e, decisions.ASK_WHY, slot):
            e.puzzled |= 1
            put(D, e, WHY, D.acts[ASK_WHY])
            return True
    return ask_meaning(D, e, acts.ASK, slot)


@kernel
def ask_meaning(D: Any, e: Any, kind: int, argument: int) -> bool:
    """Whether it asks what a term means instead of going on."""
    if kind == acts.JARGON:
        term, which = True, TERM + argument
    elif kind == acts.ASK:
        term, which = D.terms_asked[known(e)] >> argument & 1 == 1, argument
    else:
        term, which = D.terms_told[known(e)] >> argument & 1 == 1, TERM + 1 + argument
    if not term or e.puzzled & 2 or e.explained:
        return False
    if not decide(D, e, decisions.ASK_MEANING, which):
        return False
    e.puzzled |= 2
    put(D, e, MEANING, D.acts[ASK_MEANING])
    return True


@kernel
def put(D: Any, e: Any, question: int, act: int) -> None:
    """Put a question of its own, which is open until it is met."""
    e.question = question
    e.fresh = 1
    out(e, act)


@kernel
def mind_question(e: Any, question: int) -> None:
    """A question that was passed over bothers; only doubt stays until it is met."""
    if question == SURE:
        met = e.satisfied != 0
    else:
        met = any_heard(e, acts.EXPLAIN)
    if not met:
        e.bother += 1
    if not e.fresh and (met or question != SURE):
        e.question = NOTHING
    if not met:
        e.owed = -1


@kernel
def remind(D: Any, e: Any, waited: int, promised: int) -> None:
    """An agent that owes something and talks of other things is reminded."""
    owed = (waited and e.waiting) or (promised and e.promised)
    if owed and not e.closing:
        for at in range(e.n_heard):
            if IS_BREAKING[e.heard[at, 0]]:
                e.bother += 1
                general(D, e, REMIND_PROMISE)
                return


@kernel
def believe(D: Any, e: Any) -> None:
    """All that was wanted is said to be there: content, or not yet sure."""
    if not (e.doubted or e.satisfied or e.explained):
        e.doubted = 1
        if decide(D, e, decisions.DOUBT, 0):
            put(D, e, SURE, D.acts[ASK_SURE])
            return
    be_content(e)


@kernel
def be_content(e: Any) -> None:
    """Nothing is owed any more."""
    e.satisfied = 1
    e.waiting = e.promised = 0


@kernel
def face_refusal(D: Any, e: Any) -> None:
    """After a refusal: dispute it, ask why or for another way, accept it, or give up."""
    if e.denied == 2:
        if e.disputes > MOST_DISPUTES:
            general(D, e, GIVE_UP)
            e.closing = 1
            return
        e.disputes += 1
        e.bother += 1
        general(D, e, PUSH_BACK)
        return
    disputes = e.disputes < MOST_DISPUTES
    alternative = D.alternative[known(e)] != 0
    if disputes and decide(D, e, decisions.PUSH_AGAIN, 0):
        e.disputes += 1
        general(D, e, PUSH_BACK)
    elif alternative and not e.was_offered:
        general(D, e, ASK_ALTERNATIVE)
    elif disputes and e.was_offered and not decide(D, e, decisions.ACCEPT, 0):
        e.disputes += 1
        general(D, e, PUSH_BACK)
    else:
        e.resolved = 1
        e.taken |= 1 << e.at
        general(D, e, ACCEPT_ALTERNATIVE if alternative else ACCEPT_REFUSAL)
        if has_more(e):
            raise_next(D, e)
        else:
            general(D, e, BYE)
            e.closing = 1


@kernel
def part(D: Any, e: Any, was_content: bool) -> None:
    """End the conversation, or raise the next request where there is one."""
    if has_more(e):
        if was_content or decide(D, e, decisions.RAISE_NEXT, 0):
            raise_next(D, e)
        else:
            general(D, e, THANK)
        return
    if was_content:
        general(D, e, NO_MORE)
        say_bye(D, e)
        return
    if decide(D, e, decisions.ASK_NEXT, 0):
        put(D, e, NEXT, D.acts[ASK_NEXT])
        return
    if decide(D, e, decisions.THANK, 0):
        general(D, e, THANK)
    if decide(D, e, decisions.CLOSE_NOW, 0):
        say_bye(D, e)


@kernel
def has_more(e: Any) -> bool:
    """Whether it came for something else as well."""
    return e.at + 1 < e.requests


@kernel
def raise_next(D: Any, e: Any) -> None:
    """Begin the next request: what was asked and told of the last one is put down."""
    e.at += 1
    knowledge = known(e)
    for slot in range(D.rungs.shape[1]):
        if not D.personal[knowledge] >> slot & 1:
            e.asked[slot] = 0
            e.slipped &= ~(1 << slot)
    e.told = e.denied = e.disputes = e.holding = 0
    e.question = NOTHING
    e.owed = -1
    e.doubted = e.waiting = e.promised = e.satisfied = 0
    e.was_offered = e.resolved = 0
    request(D, e)


@kernel
def say_bye(D: Any, e: Any) -> None:
    """Nobody leaves without a word that says so."""
    kind = is_said(e, D.acts[THANK]) or is_said(e, D.acts[NO_MORE])
    if decide(D, e, decisions.BYE, 0) or not kind:
        general(D, e, BYE)
    e.closing = 1


@kernel
def lose_patience(D: Any, e: Any) -> None:
    """Leave, or show frustration, by how much has bothered it."""
    bother = min(e.bother, MOST_BOTHER)
    if bother >= GRACE:
        situation = D.bother_tilt[decisions.LEAVE] * (bother - GRACE)
        if drawn(D, e, decisions.LEAVE, decisions.LEAVE, situation):
            e.n_acts = 0
            general(D, e, GIVE_UP)
            e.closing = 1
            return
    if bother >= 2 and decide(D, e, decisions.SHOW_FRUSTRATION, 0):
        general(D, e, FRUSTRATED)


@kernel
def request(D: Any, e: Any) -> None:
    """Says what it wants."""
    e.intent_said = 1
    out(e, D.request[known(e)])


@kernel
def insist(D: Any, e: Any) -> None:
    """What is still open: the doubt about what was said, else the request itself."""
    if e.question == SURE:
        general(D, e, ASK_SURE)
    else:
        request(D, e)


@kernel
def give(D: Any, e: Any, slot: int) -> None:
    """Answer for a slot: at once, after a look, or around it; perhaps with more unasked."""
    knowledge = known(e)
    main = D.main_slot[knowledge]
    if slot == main and D.looks_up[knowledge] and not e.asked[slot]:
        if decide(D, e, decisions.LOOK_UP, 0):
            e.holding = LOOKING
        elif decide(D, e, decisions.FALSE_CLAIM, 0):
            e.holding = PRETENDING
        if e.holding:
            general(D, e, HOLD)
            return
        e.asked[slot] = 1
    out(e, rung(D, e, slot))
    if slot != main and decide(D, e, decisions.VOLUNTEER, slot):
        volunteer(D, e)


@kernel
def rung(D: Any, e: Any, slot: int) -> int:
    """What is said when `slot` is asked for now: the next rung, or the last again."""
    knowledge = known(e)
    slip = D.slips[knowledge, slot]
    asked = e.asked[slot]
    e.asked[slot] = asked + 1
    if asked == 0 and slip >= 0:
        if decide(D, e, decisions.MISREMEMBER, 1 + slot):
            e.slipped |= 1 << slot
            return slip
    if slot != D.main_slot[knowledge]:
        asked -= e.slipped >> slot & 1
    return D.ladders[knowledge, slot, min(asked, D.rungs[knowledge, slot] - 1)]


@kernel
def volunteer(D: Any, e: Any) -> None:
    """Say the main thing unasked, unless it would have to look it up."""
    knowledge = known(e)
    slot = D.main_slot[knowledge]
    if not e.asked[slot] and not D.looks_up[knowledge]:
        out(e, rung(D, e, slot))


@kernel
def conclude(D: Any, e: Any, bother_before: int, at_before: int) -> None:
    """What comes last in every answer, whatever was heard."""
    if not e.intent_said and not e.closing:
        request(D, e)
    # Who has just got what it wanted, and goes on to the next thing, does not leave over it.
    bothered = e.bother > bother_before and e.at == at_before
    if bothered and not (e.closing or e.satisfied or e.waiting):
        lose_patience(D, e)
    if e.n_acts == 0:
        general(D, e, ACKNOWLEDGE)
    if not e.closing and decide(D, e, decisions.TANGENT, 0):
        general(D, e, TANGENT)
    end_turn(e)
