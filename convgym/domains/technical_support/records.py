"""What the desk keeps of an episode beside the belief, and the one device that both sides act on.

    customer's steps ─► act_on(episode, step)  ─┐
                                                ├─► desk.device, the same for both sides
    agent's writes  ─► write_on(episode, write) ┘
    looks and reads ◄─ shown(episode, look)

What the agent sees of it stands in the belief: `note_look` and `note_operation` write there what
was said or read, not what is so; a step that the customer only claims ages what was seen, too.
"""

from __future__ import annotations

from convgym.domains.technical_support import cells, rules
from convgym.domains.technical_support.dialogue import (
    FRESH,
    MOST_COUNTED,
    SHOWN,
    STALE,
)
from convgym.domains.technical_support.facts import EVIDENCE, NEVER, RECORD_FACTS, TOLD
from convgym.domains.technical_support.faults import WORKING, State
from convgym.domains.technical_support.goals import facts_of
from convgym.domains.technical_support.physics import (
    HAS_LOOK_ROWS,
    HAS_OPERATION_ROWS,
    do,
    has_side_effect,
    observe,
)
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    BOOKINGS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LINE_TEST,
    LOOK,
    OPERATION,
    PLAN_READ,
    RESTART,
    VALUE,
)
from convgym.domains.technical_support.world import DEVICES_EACH, world
from convgym.engine.episode import Episode
from convgym.engine.rules import Decision

FALSEHOOD, AGAINST = "told_a_falsehood", "wrote_against_the_policy"
VIOLATIONS = (*rules.VIOLATIONS, FALSEHOOD, AGAINST)
"""Obligations in the order of their bits; the last two need no rule of their own."""
VIOLATION = {name: 1 << bit for bit, name in enumerate(VIOLATIONS)}
UPDATE, DAMAGE = OPERATION["update_software"], LOOK["damage"]
NOTHING = -1


class DeskState:
    """What the desk keeps of one episode beside the belief."""

    __slots__ = (
        "account",
        "applied",
        "asked",
        "asked_to_confirm",
        "decided_right",
        "device",
        "heard",
        "in_hand",
        "last_write",
        "parameters",
        "reported",
        "seen_working",
        "step",
        "transferred",
        "written",
    )

    def __init__(self, parameters: dict[str, int], device: State) -> None:
        self.parameters = parameters
        self.device = device  # the state of the device that the customer means
        self.account = NOTHING  # row of the account in view
        self.in_hand = NOTHING  # pointer of the device read last
        self.heard = [0, 0, 0]  # phone, PIN, serial: 0 nothing, 1 right, 2 wrong
        self.asked: tuple[str, ...] = ()  # names of what the agent asked for last
        self.step = NOTHING  # the step asked for last and not answered yet
        self.applied = False  # it was done already
        self.asked_to_confirm = NOTHING  # index in CONFIRMS
        self.last_write = NOTHING
        self.written = 0  # bits of the writes on the customer's device
        self.reported = 0  # bits of those that the customer was told of
        self.seen_working = False  # by the customer, since the last operation
        self.decided_right = False
        self.transferred = False

    def copy(self) -> DeskState:
        """An independent copy."""
        copy = DeskState(self.parameters, self.device)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(copy, name, list(value) if type(value) is list else value)
        return copy


def violate(episode: Episode, code: str) -> None:
    """Mark a broken obligation; the first time it goes into the ledger."""
    if not episode.violations & VIOLATION[code]:
        episode.violations |= VIOLATION[code]
        episode.note("violation", code)


# -- the one device --------------------------------------------------------------------------------


def shown(episode: Episode, look: int) -> int:
    """What a check or read shows of the device now; `NOT_THERE` without it."""
    return observe(episode.task.kind, episode.desk.device, look)


def act_on(episode: Episode, step: int) -> None:
    """The customer does a step on the device; what was asked for is done once, not twice."""
    desk = episode.desk
    if step == desk.step:
        if desk.applied:
            return
        desk.applied = True
    _change(episode, step)


def write_on(episode: Episode, write: int) -> None:
    """A write from the desk reaches the device."""
    episode.desk.written |= 1 << write
    _change(episode, write)


def _change(episode: Episode, operation: int) -> None:
    desk = episode.desk
    if operation not in BOOKINGS:
        desk.seen_working = False
    desk.device = do(episode.task.kind, desk.device, operation)


# -- what the agent has seen of it -----------------------------------------------------------------


def known_kind(belief: bytearray) -> int:
    """The kind of device that the conversation is about, as far as it was said or read; or -1."""
    at = belief.find(1, cells.KIND_ALL.start, cells.KIND_ALL.stop)
    return at - cells.KIND_ALL.start if at >= 0 else NOTHING


def note_look(episode: Episode, look: int, value: int) -> None:
    """A check was answered, or a read made."""
    belief = episode.belief
    if value not in SHOWN[look]:
        return
    for cell in cells.SEES_OF[look]:
        belief[cell] = 0
    belief[cells.SEES[look, value]] = FRESH
    if look in cells.SHOWN_BY:
        belief[cells.SHOWN_BY[look]] = 1
    if look < FIRST_READ:
        belief[cells.LOOKED[look]] = min(belief[cells.LOOKED[look]] + 1, MOST_COUNTED)
    if look == DAMAGE or look >= FIRST_READ:
        weigh(episode)


_OLDER = bytes((0, *range(2, 256), 255))
"""What becomes of each age."""
_OLD, _GONE = bytes((0, *[STALE] * 255)), bytes(256)
"""What becomes of each sight: it is of before, or it says nothing any more."""


def note_operation(episode: Episode, operation: int) -> None:
    """A step was reported as done, or a write made: what was seen before it is old now."""
    if operation in BOOKINGS:
        episode.belief[cells.AGE[operation]] = 1
        return
    belief = episode.belief
    belief[cells.AGE_OF_DEEDS] = belief[cells.AGE_OF_DEEDS].translate(_OLDER)
    belief[cells.AGE[operation]] = 1
    kind, damage = known_kind(belief), belief[cells.SEES_DAMAGE]
    # After a reset much is otherwise than it was: what was seen says nothing any more.
    gone = kind < 0 or has_side_effect(kind, operation)
    belief[cells.SEES_ALL] = belief[cells.SEES_ALL].translate(_GONE if gone else _OLD)
    belief[cells.SEES_DAMAGE] = damage.translate(_OLD)
    belief[cells.LOOKED_ALL] = bytes(FIRST_READ)


def hold_device(episode: Episode, pointer: int) -> None:
    """A device of the account in view was read: from now on it is the one in hand."""
    belief, desk = episode.belief, episode.desk
    if desk.in_hand != pointer:
        for cell in (*cells.OF_DEVICE, *cells.IN_HAND_OF, *cells.CONFIRMED):
            belief[cell] = 0
        desk.asked_to_confirm = NOTHING
    desk.in_hand = pointer
    belief[cells.SEEN_DEVICE[pointer]] = belief[cells.READ_DEVICE[pointer]] = 1
    belief[cells.IN_HAND_OF[pointer]] = belief[cells.IN_HAND] = 1
    note_kind(episode, world().kind[desk.account * DEVICES_EACH + pointer])


_IS_KIND = tuple(bytes(other == kind for other in range(len(KINDS))) for kind in range(len(KINDS)))
_CAN = tuple(
    bytes((*looks, *operations))
    for looks, operations in zip(HAS_LOOK_ROWS, HAS_OPERATION_ROWS, strict=True)
)


def note_kind(episode: Episode, kind: int) -> None:
    """The kind of device is known: what it has can be asked for."""
    episode.belief[cells.KIND_ALL] = _IS_KIND[kind]
    episode.belief[cells.CAN_ALL] = _CAN[kind]


def match(episode: Episode) -> None:
    """Which of the devices in view fit what the customer said of the one that is meant."""
    belief, desk, task = episode.belief, episode.desk, episode.task
    if desk.account != task.customer:
        return
    kinds, first = world().kind, task.customer * DEVICES_EACH
    told = belief[cells.HEARD_KIND] or belief[cells.HEARD_ROOM]
    for k, cell in enumerate(cells.SEEN_DEVICE):
        if belief[cell]:
            meant, same = k == task.pointer, kinds[first + k] == task.kind
            belief[cells.SERIAL_MATCHES[k]] = meant and desk.heard[2] == 1
            belief[cells.KIND_MATCHES[k]] = bool(told and same)
            belief[cells.ROOM_MATCHES[k]] = bool(meant and belief[cells.HEARD_ROOM])


# -- what the rules make of it ---------------------------------------------------------------------

_FINDINGS = tuple(
    (code, cell, rules.BIT.get(code, 0)) for code, cell in cells.FINDING.items()
)
"""Code, cell and, where it is optional, bit of each rule that decides."""
_RECORD_FACTS, _EVIDENCE = frozenset(RECORD_FACTS), frozenset(EVIDENCE)
_TOLD = tuple((f"told_{term}", cell) for term, cell in zip(TOLD, cells.TOLD_CELL, strict=False))


def known_facts(episode: Episode) -> dict[str, int]:
    """The facts of the records as far as they were read; others are left out."""
    belief, desk, task, provider = episode.belief, episode.desk, episode.task, world()
    facts: dict[str, int] = {}
    if desk.account >= 0:
        facts |= {"plan": provider.plan[desk.account], "area": provider.area[desk.account]}
        facts["overdue"] = task.overdue if desk.account == task.customer else 0
    if desk.in_hand >= 0:
        row = desk.account * DEVICES_EACH + desk.in_hand
        facts |= {
            "kind": provider.kind[row],
            "model": provider.model[row],
            "third_party": int(provider.is_foreign(row)),
            "months": provider.months[row],
            "replaced": task.replaced if row == task.device else NEVER,
        }
    if belief[cells.SHOWN_BY[PLAN_READ]]:
        facts["raised"] = task.raised if is_meant(episode) else 0
    if belief[cells.SHOWN_BY[AREA_STATUS]]:
        facts["outage"] = int(belief[cells.SEES[AREA_STATUS, VALUE["outage"]]] > 0)
    if belief[cells.SHOWN_BY[DAMAGE]]:
        facts["wet"] = int(belief[cells.SEES[DAMAGE, VALUE["wet"]]] > 0)
    assert facts.keys() <= _RECORD_FACTS
    return facts


def is_meant(episode: Episode) -> bool:
    """Whether the device in hand is the one that the customer means."""
    desk, task = episode.desk, episode.task
    return bool(desk.account == task.customer and desk.in_hand == task.pointer)


def weigh(episode: Episode) -> None:
    """What the policy makes of what has been read."""
    belief, task, facts = episode.belief, episode.task, known_facts(episode)
    parameters = episode.desk.parameters
    for code, cell, bit in _FINDINGS:
        on = not bit or task.active & bit
        belief[cell] = bool(on) and rules.RULES.seen_to_fire(code, facts, parameters)
    if "plan" in facts:
        belief[cells.TECHNICIAN_DUE] = rules.technician_due(task.active, facts, parameters) > 0


def factors(belief: bytearray) -> int:
    """How many factors the customer has been identified by."""
    return belief[cells.FOUND] + belief[cells.VERIFIED]


def evidence(episode: Episode, write: int = NOTHING) -> dict[str, int]:
    """All facts for the rules: the records as they are, and what has passed in the conversation.

    `confirmed` belongs to `write`.
    """
    belief, task, desk = episode.belief, episode.task, episode.desk
    facts = facts_of(task)
    ages = cells.AGE
    facts |= {name: belief[cell] for name, cell in _TOLD}
    facts |= {
        "factors": factors(belief),
        "failures": belief[cells.FAILURES],
        "confirmed": belief[cells.CONFIRMED[write - FIRST_WRITE]] if write >= 0 else 0,
        "line_tested": belief[cells.SHOWN_BY[LINE_TEST]],
        "plan_read": belief[cells.SHOWN_BY[PLAN_READ]],
        "area_read": belief[cells.SHOWN_BY[AREA_STATUS]],
        "cable_checked": belief[cells.SHOWN_BY[LOOK["data_cable"]]],
        "damage_checked": belief[cells.SHOWN_BY[DAMAGE]],
        "restarted": int(belief[ages[RESTART]] > 0),
        "restarted_last": int(belief[ages[RESTART]] == 1),
        "updated": int(belief[ages[UPDATE]] > 0),
        "agreed_reset": belief[cells.AGREED_RESET],
    }
    assert facts.keys() >= _EVIDENCE
    facts["technician_due"] = rules.technician_due(task.active, facts, desk.parameters)
    return facts


def decided(episode: Episode, write: int) -> Decision:
    """What the policy says of a write on the customer's device.

    By what stands in the records, and what has been seen: nobody can know what nobody looked at.
    """
    facts = facts_of(episode.task) | {"outage": 0, "raised": 0, "wet": 0} | known_facts(episode)
    return rules.decide(episode.task.active, write, facts, episode.desk.parameters)


def check(episode: Episode, operation: int) -> None:
    """Mark all obligations that an operation breaks now."""
    facts = evidence(episode, operation if operation >= FIRST_WRITE else NOTHING)
    for code in rules.broken(episode.task.active, operation, facts, episode.desk.parameters):
        violate(episode, code)


def check_end(episode: Episode) -> None:
    """Mark what ought to have come before a mended case is closed."""
    task, desk = episode.task, episode.desk
    booked = any(desk.written >> booking & 1 for booking in BOOKINGS)
    if not desk.seen_working or booked:
        return
    facts = evidence(episode)
    for code in rules.rule_set(task.active).broken("solved", facts, desk.parameters):
        violate(episode, code)


def other_device_shows(kind: int, look: int) -> int:
    """What a read shows of a device that nothing is wrong with."""
    return observe(kind, WORKING, look)

