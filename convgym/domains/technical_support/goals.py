"""What would be right for a task: the facts, the flawless plan, the goal, and what sets it apart.

    Task ─► facts_of ─► rules        case_of ─► plan        goal: what must hold at the end
                                                            signature: the goal without names

`python -m convgym.domains.technical_support.goals` prints how many different goals each split has.
"""

from __future__ import annotations

from dataclasses import dataclass

from convgym.domains.technical_support import combinations as branches
from convgym.domains.technical_support import rules
from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.planning import (
    GIVE_REASON,
    TELL,
    Act,
    Case,
    Plan,
    plan,
)
from convgym.domains.technical_support.tasks import Task, draw_task, record_facts
from convgym.domains.technical_support.vocabulary import (
    FIRST_WRITE,
    PUSH_CONFIG,
    RESET_PORT,
)
from convgym.domains.technical_support.world import world
from convgym.engine.rules import ALLOW
from convgym.engine.tasks import SPLITS

FOUND_BY_FAULT = (
    "out_of_warranty",
    "replaced_recently",
    "limit_reached",
    "remote_area",
    "maintenance",
)
"""Reasons that hold only once the fault is found."""
_WET = frozenset(fault.number for fault in FAULTS if fault.name == "wet")
_HARMLESS = 1 << RESET_PORT | 1 << PUSH_CONFIG


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold at the end of the conversation."""

    mended: bool
    """Whether everything must work, but for what a required write takes care of."""
    required: int
    """Bits of the writes that must be made."""
    allowed: int
    """Bits of those that may be; any other forfeits success."""
    terms: tuple[tuple[str, int], ...]
    """What must be told, with its value (0 where it has none), on the shortest way."""


def facts_of(task: Task) -> dict[str, int]:
    """The facts of the records, for the rules (`facts.RECORD_FACTS`)."""
    return {
        **record_facts(world(), task.device),
        "overdue": task.overdue,
        "raised": task.raised,
        "replaced": task.replaced,
        "outage": task.outages >> world().area[task.customer] & 1,
        "wet": int(not _WET.isdisjoint(task.faults)),
    }


def case_of(task: Task) -> Case:
    """The case that the agent has to solve once it knows whom it speaks with about what."""
    facts = facts_of(task)
    facts.pop("wet")
    return Case(task.kind, task.faults, tuple(facts.items()), task.parameters, task.active)


def solve(task: Task) -> Plan:
    """What a flawless agent does after authentication, from nothing but what it can look at."""
    if task.branch == branches.IMPOSTOR:
        return Plan((Act(GIVE_REASON, "unverified"),), task.decision, task.state, 0, 0)
    return plan(case_of(task))


def only_write(fault: int) -> int:
    """The write without which a fault stays, -1 where the customer can mend it."""
    fixes = FAULTS[fault].fixes
    if not fixes:
        return FAULTS[fault].remedy
    return fixes[0] if len(fixes) == 1 and fixes[0] >= FIRST_WRITE else -1


def goal(task: Task) -> Goal:
    """What must hold at the end: the device, the writes, and what was told.

    A port reset or settings sent in search of a fault are allowed; what costs money, opens a lock
    or sends somebody is allowed only where it is needed.
    """
    solved = solve(task)
    parameters = rules.parameter_dict(task.parameters)
    terms = tuple(
        (act.name, parameters.get(act.name, 0)) for act in solved.acts if act.kind == TELL
    )
    needed = sum(1 << write for write in {only_write(fault) for fault in task.faults} - {-1})
    if task.decision.effect != ALLOW:
        return Goal(False, 0, solved.written | _HARMLESS, terms)
    return Goal(True, needed, needed | _HARMLESS, terms)


def signature(task: Task) -> tuple[object, ...]:
    """The goal in substance: kind of device, faults to be found, decision, writes, terms.

    Neither who calls nor how the device is named, nor any price or number of days.
    """
    wanted = goal(task)
    found = task.decision.effect == ALLOW or task.decision.reason in FOUND_BY_FAULT
    return (
        task.kind,
        task.faults if found else (),
        task.decision,
        wanted.required,
        tuple(sorted({name for name, _ in wanted.terms})),
    )


def main() -> None:
    """Print the number of different goals of each split, and of goals with their device."""
    print(f"{'split':20}{'tasks':>8}{'goals':>8}{'with device':>13}")
    for split, count in SPLITS.items():
        drawn = [draw_task(split, number) for number in range(count)]
        goals = {signature(task) for task in drawn}
        rows = {(task.device, signature(task)) for task in drawn}
        print(f"{split:20}{count:8}{len(goals):8}{len(rows):13}")


if __name__ == "__main__":
    main()
