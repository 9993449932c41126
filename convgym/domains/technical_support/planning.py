"""The plan of a flawless agent for one case, from nothing but what it can look at.

    Case (hidden) ─► plan() ─► acts: ask, check, read, step, tell, agree, confirm, write,
                               report, refuse, offer, transfer
                     │  what is known      convgym.domains.technical_support.diagnosis
                     │  what is allowed    rules.decide on the facts seen so far
                     └─ what comes first   rules.breaches: each missing fact has an act for it

The hidden state is asked only through `observe` and `do`, and the records only after the act that
reads them. The plan supposes a customer who is able, does as asked and sees right; it begins
after authentication, with the account's and the device's record read and the symptom told.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from convgym.domains.technical_support import diagnosis, rules
from convgym.domains.technical_support.diagnosis import (
    BOOKING,
    DOING,
    DONE,
    LOOKING,
    OUT,
    WATER,
    next_move,
    nothing_known,
    saw,
)
from convgym.domains.technical_support.facts import EVENTS, EVIDENCE
from convgym.domains.technical_support.faults import State, break_device
from convgym.domains.technical_support.physics import do, observe, settled
from convgym.domains.technical_support.rules import Parameters
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    BOOKINGS,
    FIRST_READ,
    FIRST_WRITE,
    LINE_TEST,
    LOOK,
    LOOKS,
    OPERATION,
    OPERATIONS,
    PLAN_READ,
    RESTART,
    SERVICE,
    VALUE,
)
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER, Decision

ASK, CHECK, READ, STEP, TELL, AGREE, CONFIRM, WRITE, REPORT, GIVE_REASON, OFFER, HAND_OVER = (
    "ask",
    "check",
    "read",
    "step",
    "tell",
    "agree",
    "confirm",
    "write",
    "report",
    "refuse",
    "offer",
    "transfer",
)
MOST_ACTS = 100


class Act(NamedTuple):
    """One thing the agent does; `name` is a look, an operation, a term, a reason or an offer."""

    kind: str
    name: str


class Case(NamedTuple):
    """What a plan is made for, hidden from the agent but for what it reads."""

    kind: int
    faults: tuple[int, ...]
    facts: tuple[tuple[str, int], ...]
    """Of the records (`facts.RECORD_FACTS`), but `wet`."""
    parameters: tuple[int, ...]
    active: int


class Plan(NamedTuple):
    """What the agent does, and what has become of the device."""

    acts: tuple[Act, ...]
    decision: Decision
    state: State
    written: int
    """Bits of the writes made."""
    expertise: int
    """Highest level of a check or step in it."""
    events: frozenset[str] = frozenset()
    """Events at which the rules were asked what has to come first."""

    def settled(self, kind: int) -> bool:
        """Whether the customer is left with nothing to mend."""
        return settled(kind, self.state, self.written)


class _Desk:
    """One walk through a case: what was done, and what is known."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.kind = case.kind
        self.parameters: Parameters = rules.parameter_dict(case.parameters)
        self.state = break_device(case.faults)
        self.acts: list[Act] = []
        self.known = nothing_known(case.kind)
        self.written = 0
        self.events: set[str] = set()
        hidden = dict(case.facts)
        self.hidden = {name: hidden.pop(name) for name in ("outage", "raised")}
        # Neutral until they are read; the rest stands in the records.
        self.facts = {**hidden, "outage": 0, "raised": 0, "wet": 0}
        self.facts |= dict.fromkeys(EVIDENCE, 0)
        self.facts["factors"] = self.parameters["auth_level"]
        self.facts["technician_due"] = rules.technician_due(
            case.active, self.facts, self.parameters
        )

    def look(self, look: int) -> None:
        """Make a check or a read."""
        value = observe(self.kind, self.state, look)
        if look == SERVICE and not self.acts:  # the customer has said so
            self.known = saw(self.kind, self.known, look, value)
            return
        self.acts.append(Act(READ if look >= FIRST_READ else CHECK, LOOKS[look].name))
        self.known = saw(self.kind, self.known, look, value)
        if look in _SHOWN_BY:
            self.facts[_SHOWN_BY[look]] = 1
        if look == AREA_STATUS:
            self.facts["outage"] = self.hidden["outage"]
        if look == PLAN_READ:
            self.facts["raised"] = self.hidden["raised"]
        if look == LOOK["damage"]:
            self.facts["wet"] = int(value == VALUE["wet"])

    def operate(self, operation: int) -> None:
        """Have a step done, or make a write, with what has to come first."""
        self.oblige(operation)
        if self.decided(-1).reason:  # what came first has settled the case
            return
        name = OPERATIONS[operation].name
        if operation < FIRST_WRITE:
            self.acts.append(Act(STEP, name))
        else:
            self.acts += Act(CONFIRM, name), Act(WRITE, name), Act(REPORT, name)
            self.written |= 1 << operation
        self.state = do(self.kind, self.state, operation)
        self.known = diagnosis.did(self.kind, self.known, operation)
        self.facts["restarted"] |= operation == RESTART
        self.facts["restarted_last"] = int(operation == RESTART)
        self.facts["updated"] |= operation == OPERATION["update_software"]

    def oblige(self, operation: int) -> None:
        """Do what the rules ask for before `operation`."""
        for event in EVENTS[operation]:
            self.oblige_event(event)

    def oblige_event(self, event: str) -> None:
        """Do what the rules ask for before `event`; the yes to a write comes with the write."""
        self.events.add(event)
        policy = rules.rule_set(self.case.active)
        facts = {**self.facts, "confirmed": 1}
        for code, broken in policy.breaches(event, facts, self.parameters).items():
            if broken and not self.decided(-1).reason:
                self.provide(code)

    def provide(self, code: str) -> None:
        """The act that makes up for a missing obligation."""
        field = MISSING[code]
        if field in LOOK_FOR:
            self.look(LOOK_FOR[field])
        elif field in STEP_FOR:
            self.operate(STEP_FOR[field])
        elif field == "agreed_reset":
            self.acts.append(Act(AGREE, "factory_reset"))
            self.facts[field] = 1
        elif field == "factors":
            self.acts += Act(ASK, "pin"), Act(READ, "verify")
            self.facts[field] = 2
        else:
            self.acts.append(Act(TELL, field.removeprefix("told_")))
            self.facts[field] = 1

    def decided(self, operation: int) -> Decision:
        """What the policy says, on the facts seen so far."""
        return rules.decide(self.case.active, operation, self.facts, self.parameters)

    def finish(self, decision: Decision) -> Plan:
        """Refuse, transfer, or leave it at that."""
        if decision.effect == REFUSE:
            self.acts.append(Act(GIVE_REASON, decision.reason))
            if decision.alternative:
                self.acts.append(Act(OFFER, decision.alternative))
        elif decision.effect == TRANSFER:
            self.acts.append(Act(HAND_OVER, decision.reason))
        levels = [_LEVEL[act.name] for act in self.acts if act.kind in (CHECK, STEP)]
        return Plan(
            acts=tuple(self.acts),
            decision=decision,
            state=self.state,
            written=self.written,
            expertise=max(levels, default=0),
            events=frozenset(self.events),
        )


MISSING = {rule.code: rule.requires[0].field for rule in rules.RULES.rules if rule.requires}
"""The fact of the conversation that each obligation asks for."""
LOOK_FOR = {
    "line_tested": LINE_TEST,
    "plan_read": PLAN_READ,
    "area_read": AREA_STATUS,
    "cable_checked": LOOK["data_cable"],
    "damage_checked": LOOK["damage"],
}
"""The look that makes each fact of the conversation true."""
STEP_FOR = {
    "restarted": RESTART,
    "restarted_last": RESTART,
    "updated": OPERATION["update_software"],
}
_SHOWN_BY = {look: field for field, look in LOOK_FOR.items()}
_LEVEL = {word.name: word.level for word in (*LOOKS, *OPERATIONS)}


@lru_cache(maxsize=1 << 14)
def plan(case: Case) -> Plan:
    """What a flawless agent does.

    Raises RuntimeError for a case that cannot be brought to an end; no task has one (tested).
    """
    desk = _Desk(case)
    if (decision := desk.decided(-1)).reason:
        return desk.finish(decision)
    desk.look(SERVICE)
    while len(desk.acts) < MOST_ACTS:
        move = next_move(case.kind, desk.known)
        if move.kind == LOOKING:
            desk.look(move.number)
        elif move.kind in (DOING, BOOKING):
            if move.kind == BOOKING:
                desk.oblige(move.number)
            if (decision := desk.decided(move.number)).reason:
                return desk.finish(decision)
            if next_move(case.kind, desk.known) == move or move.kind == DOING:
                desk.operate(move.number)
                if move.number in BOOKINGS and desk.written >> move.number & 1:
                    return desk.finish(Decision(ALLOW))
        elif move.kind == DONE:
            before = len(desk.acts)
            desk.oblige_event("solved")
            if len(desk.acts) == before:
                return desk.finish(Decision(ALLOW))
        else:
            assert move.kind in (WATER, OUT)
            desk.look(LOOK["damage"] if move.kind == WATER else AREA_STATUS)
        if (decision := desk.decided(-1)).reason:
            return desk.finish(decision)
    raise RuntimeError(f"no plan ends for {case}")
