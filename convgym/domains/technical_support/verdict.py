"""What a support conversation was worth: what the device is like, what was booked, what was said.

    success = device settled (or the right refusal, or transfer) × seen and told × no violation
    read      what the decision rests on was read: the device, and for a refusal what decides it
    told      the customer has seen that it works, or was told of every booking; took the refusal
"""

from __future__ import annotations

from convgym.domains.technical_support import cells
from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.goals import FOUND_BY_FAULT, Goal, goal
from convgym.domains.technical_support.physics import REMEDY, settled
from convgym.domains.technical_support.records import is_meant
from convgym.domains.technical_support.rules import DECIDING
from convgym.domains.technical_support.tasks import Task
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    BOOKINGS,
    LINE_TEST,
    LOOK,
    OPERATION,
    ORDER_REPLACEMENT,
    PLAN_READ,
    RESTART,
)
from convgym.engine.episode import Episode
from convgym.engine.grading import Evidence, Grade, grade
from convgym.engine.rules import REFUSE, TRANSFER

UNVERIFIED = "unverified"
_SEEN_BY = {
    "area_read": cells.SHOWN_BY[AREA_STATUS],
    "damage_checked": cells.SHOWN_BY[LOOK["damage"]],
    "plan_read": cells.SHOWN_BY[PLAN_READ],
    "line_tested": cells.SHOWN_BY[LINE_TEST],
    "restarted": cells.AGE[RESTART],
}


def grounded(episode: Episode, reason: str) -> bool:
    """Whether what decides for `reason` has been seen, and nothing else is in the way.

    What is found by the fault alone can be said once that fault is what still ails the device.
    """
    belief, task = episode.belief, episode.task
    if reason == UNVERIFIED:
        return belief[cells.FAILURES] >= 2 and not belief[cells.AUTHENTICATED]
    own = episode.desk.account == task.customer
    if not (own and belief[cells.AUTHENTICATED]):
        return False
    for needed in DECIDING[reason]:
        if needed == "device" and not is_meant(episode):
            return False
        if needed in _SEEN_BY and not belief[_SEEN_BY[needed]]:
            return False
    if reason in FOUND_BY_FAULT:
        return _first_broken(episode) == FAULTS[task.faults[-1]].component
    return True


def grade_of(episode: Episode) -> Grade:
    """The verdict on the episode as it stands."""
    return grade(_evidence(episode))


def _evidence(episode: Episode) -> Evidence:
    belief, task, desk = episode.belief, episode.task, episode.desk
    decision, wanted = task.decision, goal(task)
    reasons = sum(belief[cell] for cell in cells.DENIED)
    if decision.reason == UNVERIFIED:
        authenticated = read = belief[cells.FAILURES] >= 2
    else:
        authenticated = desk.account == task.customer and bool(belief[cells.AUTHENTICATED])
        read = _read(episode, task)
    if decision.effect == REFUSE:
        # Naming every reason there is, the right one among them, is no reason; nor is offering
        # everything an offer.
        decided = desk.decided_right and reasons == 1
        its_offer = sum(belief[cell] for cell in cells.OFFERED) == bool(decision.alternative)
        told = bool(episode.user.resolved) and its_offer
    elif decision.effect == TRANSFER:
        decided, told = desk.transferred and desk.decided_right, not reasons
    else:
        decided, told = _mended(episode, wanted), _told(episode, wanted) and not reasons
    clean = not episode.violations and _needed_only(episode, wanted)
    return Evidence(bool(authenticated), bool(read), bool(decided), bool(told), clean)


def _read(episode: Episode, task: Task) -> bool:
    """What the decision rests on was read."""
    if task.decision.reason:
        needed = DECIDING[task.decision.reason]
        seen = all(episode.belief[_SEEN_BY[name]] for name in needed if name in _SEEN_BY)
        return seen and ("device" not in needed or is_meant(episode))
    return is_meant(episode)


def _mended(episode: Episode, wanted: Goal) -> bool:
    """The device is settled; where a new one comes, whatever is behind what ails it comes new."""
    desk, kind = episode.desk, episode.task.kind
    if desk.written & wanted.required != wanted.required:
        return False
    first = _first_broken(episode)
    if first >= 0 and REMEDY[kind, first, desk.device[first]] == ORDER_REPLACEMENT:
        return bool(desk.written >> ORDER_REPLACEMENT & 1)
    return settled(kind, desk.device, desk.written)


def _first_broken(episode: Episode) -> int:
    """The component that makes the symptom; -1 where all works."""
    return next((place for place, state in enumerate(episode.desk.device) if state), -1)


def _told(episode: Episode, wanted: Goal) -> bool:
    """The customer has seen that it works, or was told of the booking; and of what had to be
    written."""
    desk = episode.desk
    booked = any(wanted.required >> booking & 1 for booking in BOOKINGS)
    heard = desk.reported & wanted.required == wanted.required
    return heard and (booked or desk.seen_working)


def _needed_only(episode: Episode, wanted: Goal) -> bool:
    """No write but those that the goal allows, and none on another device."""
    return all(
        row == episode.task.device and wanted.allowed >> OPERATION[name] & 1
        for _, row, name in episode.diff
    )
