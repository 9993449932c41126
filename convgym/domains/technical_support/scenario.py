"""A task in words for people: what ails the device, and what would be right.

Names the hidden goal, so it is never shown to an agent.
"""

from __future__ import annotations

from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.goals import goal
from convgym.domains.technical_support.tasks import KNOWLEDGES, Task
from convgym.domains.technical_support.view import SPOKEN_KINDS
from convgym.domains.technical_support.vocabulary import OPERATIONS, VALUE_NAMES, VALUES
from convgym.domains.technical_support.world import world
from convgym.engine.rules import REFUSE, TRANSFER

_KNOWS = {
    "serial": "has its serial number at hand",
    "kind": "names it by its kind",
    "two of a kind": "names it by its kind, of which there are two",
    "mistaken": "has its serial number wrong at first",
}


def scenario(task: Task) -> tuple[str, str]:
    """The situation, and what would be right."""
    kind, provider = SPOKEN_KINDS[task.kind], world()
    faults = ", then ".join(FAULTS[number].code.partition(".")[2] for number in task.faults)
    symptom = VALUES[VALUE_NAMES[task.symptom]]
    situation = (
        f"{provider.name(task.customer)} calls about the {kind} in the "
        f"{provider.room_name(task.device)} ({symptom}), and "
        f"{_KNOWS[KNOWLEDGES[task.knowledge]]}. What is wrong with it: {faults}."
    )
    return situation, _right(task)


def _right(task: Task) -> str:
    decision, wanted = task.decision, goal(task)
    if decision.effect == REFUSE:
        reason = decision.reason.replace("_", " ")
        offer = decision.alternative.replace("_", " ")
        return f"Refused, reason: {reason}{f'; offered: {offer}' if offer else ''}."
    if decision.effect == TRANSFER:
        return f"Transferred to a human: {decision.reason.replace('_', ' ')}."
    writes = [word.plain for n, word in enumerate(OPERATIONS) if wanted.required >> n & 1]
    needed = f" This takes, from the desk: {', '.join(writes)}." if writes else ""
    return f"Found out and mended, so that the customer sees it.{needed}"
