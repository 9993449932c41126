"""Scripted support agents: random < keyword < slot-filling < planner < oracle, and null policies.

Each is a function of what `reset` and `step` return, the belief and the mask, and of nothing
else. The ladder measures a task's difficulty and makes behaviour data; the oracle shows that
every task can be solved with what can be obtained.
"""

from __future__ import annotations

from convgym.domains.technical_support import diagnosis, rules
from convgym.domains.technical_support.diagnosis import Move
from convgym.domains.technical_support.dialogue import (
    ACTIONS,
    LAYOUT,
    QUESTIONS,
    VIEW,
    seen_name,
)
from convgym.domains.technical_support.facts import EVENTS, EVIDENCE, TOLD
from convgym.domains.technical_support.faults import FAULTS, OF_KIND
from convgym.domains.technical_support.goals import FOUND_BY_FAULT
from convgym.domains.technical_support.inference import FIRM, move_of, notes_of
from convgym.domains.technical_support.physics import has_side_effect
from convgym.domains.technical_support.planning import LOOK_FOR, MISSING, STEP_FOR
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    BOOKINGS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LOOK,
    LOOKS,
    OPERATIONS,
    RAISE_LIMIT,
    SERVICE,
    SYMPTOMS,
    UNLOCK_SIM,
    VALUE,
)
from convgym.engine.rules import REFUSE, Decision
from convgym.policies.policy import RandomPolicy, Script, Sight
from convgym.policies.technical_support_floors import BY_THE_BOOK, NULL_POLICIES

__all__ = ["BY_THE_BOOK", "LADDER", "NULL_POLICIES"]

_IRREVOCABLE = (*BOOKINGS, RAISE_LIMIT, UNLOCK_SIM)
_READS = {AREA_STATUS: "get_area_status", LOOK["line_test"]: "run_line_test",
          LOOK["plan_read"]: "get_plan"}  # fmt: skip
_EVIDENCE_CELLS = {
    "line_tested": "line_tested",
    "plan_read": "plan_was_read",
    "area_read": "area_read",
    "cable_checked": "cable_checked",
    "damage_checked": "damage_checked",
    "restarted": "age_restart",
    "updated": "age_update_software",
    "agreed_reset": "agreed_reset",
    **{f"told_{term}": f"told_{term}" for term in TOLD},
}
_REFLEXES = {
    "power_cable_loose": "replug_power",
    "data_cable_loose": "replug_cable",
    "software_old": "update_software",
    "storage_full": "free_storage",
}
"""What the keyword agent has done when it hears this."""
_CABLES = ("replug_power", "replug_cable")
"""Before these it has the device unplugged, whatever the rules say."""
_GLANCES = tuple(dict.fromkeys(LOOK[name.rpartition("_")[0]] for name in _REFLEXES))


class View(Sight):
    """A belief row, read by the names of its cells."""

    __slots__ = ()

    @property
    def kind(self) -> int:
        """The kind of device, -1 while it is unknown."""
        return next((n for n, name in enumerate(KINDS) if self(f"kind_{name}")), -1)

    @property
    def active(self) -> int:
        """Bits of the optional rules that the policy document states."""
        codes = rules.OPTIONAL_CODES
        return sum(rules.BIT[code] for code in codes if self(f"policy_{code}"))

    @property
    def works(self) -> bool:
        """It was tried since the last operation, and works."""
        return self.fresh(f"sees_{seen_name(SERVICE, VALUE['ok'])}")

    def fresh(self, cell: str) -> bool:
        """Whether a cell `sees_…` holds what was seen since the last operation."""
        return bool(self.row[self.layout[cell]] > 0.75)

    @property
    def symptom(self) -> str:
        """What was told or seen of it last, "" for nothing."""
        return next((s for s in SYMPTOMS if self(f"sees_service_{s}")), "")


class SupportScript(Script):
    """A script of this desk."""

    layout, actions, sight = LAYOUT, ACTIONS, View


class KeywordPolicy(SupportScript):
    """Answers the newest words: restarts it, has a few things looked at, does what they suggest."""

    name = "keyword"

    def choose(self, see: View) -> str:
        """A reflex for what was said last."""
        if not see("heard_request"):
            return "ask_intent"
        if not see("found"):
            return "find_customer" if see("said_inform_phone") else "ask_phone"
        if not see("in_hand"):
            return self._find(see)
        if see.works:
            return "close"
        if see("said_did_it"):
            return "check_service"
        if see("can_area_status") and not see("area_read"):
            return "get_area_status"
        for shows, step in _REFLEXES.items():
            if see.fresh(f"sees_{shows}"):
                careful = step in _CABLES and not see("told_unplug_first")
                return "inform_unplug_first" if careful else f"do_{step}"
        return self._look(see) if see("age_restart") else "do_restart"

    @staticmethod
    def _look(see: View) -> str:
        """The next thing of its list that was not looked at since anything was done."""
        for look in _GLANCES:
            name = LOOKS[look].name
            if see(f"can_{name}") and not see(f"looked_{name}"):
                return f"check_{name}"
        return "end_conversation"

    @staticmethod
    def _find(see: View) -> str:
        matching = [k for k in VIEW if see(f"kind_matches_{k}") or see(f"serial_matches_{k}")]
        if matching:
            return f"get_device_{matching[0]}"
        named = see("said_inform_kind") or see("said_inform_serial") or see("said_inform_room")
        return "list_devices" if named else "ask_device"


class SlotFillingPolicy(SupportScript):
    """Identifies by the form, then goes through a fixed list of what mends such a symptom.

    Its form asks for the area and for water; beyond that it looks at nothing and knows no rule.
    """

    name = "slot-filling"

    def choose(self, see: View) -> str:
        """The first empty slot, else the next step of the list."""
        step = _identify(see, recovers=False) or _locate(see, recovers=False)
        if step:
            return step
        if see("can_area_status") and not see("area_read"):
            return "get_area_status"
        if not see("damage_checked"):
            return "check_damage"
        if see("unreported"):
            return "report_done"
        if see.works:
            return "close"
        if not any(see.fresh(f"sees_service_{symptom}") for symptom in SYMPTOMS):
            return "check_service"
        return self._next(see)

    def _next(self, see: View) -> str:
        for operation in self._list(see):
            name = OPERATIONS[operation].name
            if see(f"age_{name}"):
                continue
            if operation < FIRST_WRITE:
                return f"do_{name}"
            return name if see(f"confirmed_{name}") else f"confirm_{name}"
        return "end_conversation"

    @staticmethod
    def _list(see: View) -> list[int]:
        """What mends a symptom, in causal order."""
        symptom = VALUE.get(see.symptom, -1)
        faults = [FAULTS[number] for number in OF_KIND[see.kind]]
        fixes = [f.fixes[0] if f.fixes else f.remedy for f in faults if f.symptom == symptom]
        return [operation for operation in dict.fromkeys(fixes) if operation >= 0]


def _identify(see: View, *, recovers: bool) -> str:
    """What is missing to know who is speaking; empty once that is known."""
    if not see("heard_request"):
        return "ask_intent"
    if not see("found"):
        stale = see("phone_rejected") and recovers
        return "find_customer" if see("heard_phone") and not stale else "ask_phone"
    if see("two_factors") and not see("verified"):
        return _verify(see)
    return ""


def _verify(see: View) -> str:
    if see.row[LAYOUT["failures"]] >= 1.0:
        return "deny_unverified"
    return "verify_pin" if see("heard_pin") and not see("pin_rejected") else "ask_pin"


def _locate(see: View, *, recovers: bool) -> str:
    """What is missing to have the right device in hand; empty once it is."""

    def places(what: str) -> list[int]:
        return [k for k in VIEW if see(f"{what}_{k}")]

    exact = places("serial_matches") or places("room_matches")
    in_hand = places("in_hand")
    if in_hand and (in_hand == exact or not recovers):
        return ""
    if exact:
        return f"get_device_{exact[0]}"
    if see("heard_serial") and not see("serial_rejected"):
        return "get_stated_device"
    if not (see("heard_kind") or see("heard_room")):
        return "ask_device"
    if not see("listed"):
        return "list_devices"
    matching = places("kind_matches")
    if in_hand and in_hand[0] in matching and len(matching) == 1:
        return ""
    if len(matching) == 1 or (matching and not recovers):
        return f"get_device_{matching[0]}"
    return "ask_device"


class OraclePolicy(SupportScript):
    """Follows the policy document to the letter, diagnoses by what it sees, and looks twice.

    It takes no report for certain where a mistake could not be put right: before it books, sells,
    unlocks or refuses for what it has found, it goes by what cannot be a slip (`inference.FIRM`).
    """

    name = "oracle"
    recovers = True

    def choose(self, see: View) -> str:
        """Identify, locate, what the rules say at once; then diagnose."""
        if self.recovers and any(see(f"said_{question}") for question in QUESTIONS):
            return "explain"
        step = _identify(see, recovers=self.recovers) or _locate(see, recovers=self.recovers)
        if step:
            return step
        return self._settle(see) or self._work(see)

    # -- what the rules say --------------------------------------------------------------------

    def _settle(self, see: View) -> str:
        """What ends the case at once, or is owed from before."""
        decision = self._decided(see, ("support",))
        if decision.reason:
            return self._refuse_or_transfer(see, decision)
        return "report_done" if see("unreported") else ""

    @staticmethod
    def _decided(see: View, events: tuple[str, ...]) -> Decision:
        for event in events:
            for rule in rules.RULES.deciding(event):
                if rule.code in rules.DECIDING and see(f"finding_{rule.code}"):
                    return rule.decision
        return Decision("allow")

    def _refuse_or_transfer(self, see: View, decision: Decision) -> str:
        if decision.effect != REFUSE:
            return "transfer_to_human"
        if not see(f"denied_{decision.reason}"):
            return f"deny_{decision.reason}"
        offer = decision.alternative
        if offer and (self.recovers or see("said_ask_alternative")):
            return f"offer_{offer}"
        return f"deny_{decision.reason}" if self.recovers else "apologise"

    def _evidence(self, see: View) -> dict[str, int]:
        facts = dict.fromkeys(EVIDENCE, 0)
        facts |= {name: int(see(cell)) for name, cell in _EVIDENCE_CELLS.items()}
        facts["restarted_last"] = int(round(float(see.row[LAYOUT["age_restart"]]) * 10) == 1)
        facts["factors"] = int(see("found")) + int(see("verified"))
        facts["confirmed"] = 1  # asked for last, together with the write
        facts["kind"] = see.kind
        facts["technician_due"] = int(see("technician_due"))
        return facts

    def _missing(self, see: View, events: tuple[str, ...]) -> str:
        """The act that the rules ask for first; empty where there is none."""
        parameters = {"auth_level": 2 if see("two_factors") else 1}
        facts, policy = self._evidence(see), rules.rule_set(see.active)
        for event in events:
            for code, broken in policy.breaches(event, facts, parameters).items():
                if broken:
                    return self._provide(see, MISSING[code])
        return ""

    def _provide(self, see: View, field: str) -> str:
        if field in LOOK_FOR:
            return self._look(LOOK_FOR[field])
        if field in STEP_FOR:
            return self._operate(see, STEP_FOR[field])
        if field == "agreed_reset":
            return "confirm_factory_reset"
        if field == "factors":
            return _verify(see)
        return f"inform_{field.removeprefix('told_')}"

    # -- the device ----------------------------------------------------------------------------

    def _work(self, see: View) -> str:
        """The next look or operation, with what the rules ask for before it."""
        if any(see(f"age_{OPERATIONS[booking].name}") for booking in BOOKINGS):
            return "close"
        kind, notes = see.kind, notes_of(see.row)
        move = move_of(kind, notes, doubts=self.recovers)
        if self.recovers and self._is_final(see, move):
            move = move_of(kind, notes, FIRM)
        return self._make(see, move)

    def _is_final(self, see: View, move: Move) -> bool:
        """Whether a move could not be put right if it rests on a wrong report."""
        if move.kind in (diagnosis.BOOKING, diagnosis.LOST):
            return True
        if move.kind != diagnosis.DOING:
            return False
        reason = self._decided(see, EVENTS[move.number]).reason
        grave = move.number in _IRREVOCABLE or has_side_effect(see.kind, move.number)
        return grave or reason in FOUND_BY_FAULT

    def _make(self, see: View, move: Move) -> str:
        if move.kind == diagnosis.LOOKING:
            return self._look(move.number)
        if move.kind in (diagnosis.DOING, diagnosis.BOOKING):
            return self._operate(see, move.number)
        if move.kind == diagnosis.WATER:
            return self._look(LOOK["damage"])
        if move.kind == diagnosis.OUT:
            return self._look(AREA_STATUS)
        if move.kind == diagnosis.DONE:
            return self._missing(see, ("solved",)) or "close"
        return "check_service" if self.recovers else "end_conversation"

    @staticmethod
    def _look(look: int) -> str:
        return _READS[look] if look >= FIRST_READ else f"check_{LOOKS[look].name}"

    def _operate(self, see: View, operation: int) -> str:
        name, events = OPERATIONS[operation].name, EVENTS[operation]
        decision = self._decided(see, events)
        needed = rules.DECIDING.get(decision.reason, ())
        for field in needed:
            if field in _EVIDENCE_CELLS and not see(_EVIDENCE_CELLS[field]):
                return self._provide(see, field)
        if decision.reason:
            return self._refuse_or_transfer(see, decision)
        first = self._missing(see, events)
        if first:
            return first
        if operation < FIRST_WRITE:
            return f"do_{name}"
        return name if see(f"confirmed_{name}") else f"confirm_{name}"


class PlannerPolicy(OraclePolicy):
    """The oracle's plan without its recoveries: believes every report, one try, no persistence."""

    name = "planner"
    recovers = False


LADDER = (RandomPolicy, KeywordPolicy, SlotFillingPolicy, PlannerPolicy, OraclePolicy)
