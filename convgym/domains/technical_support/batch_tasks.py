"""Tasks of the support desk as records: the fields of `batch_tables.TASK`."""

from __future__ import annotations

from typing import Any

from convgym.domains.technical_support.batch_tables import EFFECTS, FACT, REASONS, RECORD_FACTS
from convgym.domains.technical_support.batch_user import known_row
from convgym.domains.technical_support.facts import OFFERS
from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.goals import facts_of, goal
from convgym.domains.technical_support.tasks import Task


def compile_task(task: Task, into: Any) -> None:
    """Write a task into a record of `TASK`."""
    wanted, decision, facts = goal(task), task.decision, facts_of(task)
    for name in _SAME:
        into[name] = getattr(task, name)
    into["known"] = known_row(task)
    into["fault"] = FAULTS[task.faults[-1]].component
    into["effect"] = EFFECTS.index(decision.effect)
    into["reason"] = REASONS.index(decision.reason) if decision.reason else -1
    into["alternative"] = OFFERS.index(decision.alternative) if decision.alternative else -1
    into["required"], into["allowed"] = wanted.required, wanted.allowed
    into["faults"] = [*task.faults, -1, -1][:3]
    into["facts"] = [facts[name] for name in FACT._fields[:RECORD_FACTS]]


_SAME = (
    "branch",
    "kind",
    "customer",
    "device",
    "pointer",
    "knowledge",
    "symptom",
    "outages",
    "overdue",
    "raised",
    "replaced",
    "active",
    "expertise",
    "oracle_length",
    "parameters",
    "state",
)
"""Fields that a record has of its task as they are."""
