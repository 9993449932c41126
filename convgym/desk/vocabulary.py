"""The numbers of a desk: belief cells, the agent's actions, the customer's acts.

All three follow from the declaration, in its order, and are frozen with it: data sets and
policies depend on them. `order_read_0` is a cell of the first order in view, `get_order_0` the
act that reads it.
"""

from __future__ import annotations

from typing import Any

from convgym.desk.declaration import ACCOUNT, Declaration, Kind, Workflow
from convgym.engine import acts
from convgym.engine.actions import Action, ActionTable
from convgym.engine.belief import BeliefLayout

# Tools: kinds of action from FIRST_TOOL on.
(
    FIND,
    VERIFY,
    LIST,
    GET_STATED,
    GET,
    WRITE,
    TRANSFER_TO_HUMAN,
    END_CONVERSATION,
) = range(acts.FIRST_TOOL, acts.FIRST_TOOL + 8)

KEY, SECRET = 0, 1
"""Slots of the account; then comes one for each kind of record, then the details."""
QUESTIONS = ("ask_why", "ask_meaning", "ask_sure", "ask_next")
"""What a customer may ask that an explanation answers."""
_MANNERS = (
    "affirm",
    "negate",
    "hold",
    "dont_know",
    "ask_back",
    "challenge",
    "challenge_done",
    "ask_alternative",
    "push_back",
    "accept_alternative",
    "decline_offer",
    "accept_refusal",
    "frustrated",
    "give_up",
    "thank",
    "bye",
    "no_more",
    "acknowledge",
    "no_luck",
    *QUESTIONS,
    "remind_promise",
    "tangent",
)


class Vocabulary:
    """Cells, actions and user acts of one declaration, with their indices looked up once.

    A tuple of cells holds one index per member in the declaration's order; a dictionary of them
    has a key for each kind of record, with one index per pointer.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = d = declaration
        self.slots = d.slots
        self.told = (*d.facts, *d.terms)
        """What can be told: `argument` of TELL; facts first."""
        self.writes = tuple(workflow.name for workflow in d.writes)
        self.promises = (*self.writes, "transfer")
        self.user_acts = tuple(self._user_acts())
        self.u = {name: number for number, name in enumerate(self.user_acts)}
        # The agent cannot hear that a memory is wrong: both variants raise the same cell.
        self.heard_as = tuple(name.removesuffix("_wrong") for name in self.user_acts)
        self.layout = BeliefLayout(list(self._cells()))
        self.actions = ActionTable(list(self._actions()), self.layout)
        self._look_up()

    # -- the customer's acts -----------------------------------------------------------------------

    def _user_acts(self) -> list[str]:
        d = self.declaration
        names = ["greet", *(f"request_{name}" for name in d.names)]
        for field in (d.account.key, d.account.secret):
            names += [f"inform_{field}", f"inform_{field}_wrong"]
        for kind in d.kinds:
            names += [f"inform_{kind.name}", f"inform_{kind.name}_wrong"]
            names += [f"inform_{field}" for field in described_by(kind)]
        for detail, words in d.details.items():
            names += [f"inform_{detail}_{word}" for word in words] or [f"inform_{detail}"]
        names += [f"correct_{kind.name}" for kind in d.kinds]
        names += [f"ask_{term}" for term in d.terms]
        return [*names, *_MANNERS]

    # -- cells -------------------------------------------------------------------------------------

    def _cells(self) -> list[str]:
        d = self.declaration
        cells = ["always", "turn", "errors", "requests", "tool_failed"]
        cells += [f"wants_{name}" for name in d.names]
        cells += [f"handled_{name}" for name in d.names]
        cells += ["two_factors", "found", "verified", "authenticated", "failures"]
        for field in (d.account.key, d.account.secret):
            cells += [f"heard_{field}", f"{field}_rejected"]
        for detail, words in d.details.items():
            cells += [f"heard_{detail}", *(f"{detail}_{word}" for word in words)]
        cells += self._cells_of(ACCOUNT, "", "")
        for kind in d.kinds:
            cells += [f"heard_{kind.name}", f"{kind.name}_rejected", f"listed_{kind.name}"]
            cells += [f"heard_{field}" for field in described_by(kind)]
            cells += [f"read_any_{kind.name}"]
            for k in range(kind.each):
                cells += [f"{kind.name}_{what}_{k}" for what in ("seen", "read", "id_matches")]
                cells += [f"{kind.name}_{what}_matches_{k}" for what in ("label", "date")]
                cells += self._cells_of(kind.name, f"{kind.name}_", f"_{k}")
        for term, values in d.terms.items():
            cells += [f"told_{term}_{value}" for value in values]
        cells += ["wrote", "told_done"]
        cells += [f"can_deny_{reason}" for reason in d.reasons]
        cells += [f"denied_{reason}" for reason in d.reasons]
        cells += [f"can_offer_{offer}" for offer in d.offers]
        cells += [f"offered_{offer}" for offer in d.offers]
        cells += [f"asked_{slot}" for slot in d.slots]
        cells += [f"said_{act}" for act in dict.fromkeys(self.heard_as)]
        return cells

    def _cells_of(self, kind: str, before: str, after: str) -> list[str]:
        """What a reading shows of one record as the policy weighs it, and what was done with it."""
        d = self.declaration
        cells: list[str] = []
        for workflow in self.of_kind(kind):
            cells += [f"{before}{r.code}{after}" for r in d.rules.deciding(workflow.name)]
            cells += [f"{before}{term}_due{after}" for term in workflow.terms]
            cells += [f"{before}told_{fact}{after}" for fact in workflow.facts]
            if workflow.tool:
                cells += [f"confirmed_{workflow.name}{after}", f"wrote_{workflow.name}{after}"]
        return list(dict.fromkeys(cells))

    def of_kind(self, kind: str) -> list[Workflow]:
        """The workflows on a kind of record."""
        return [workflow for workflow in self.declaration.workflows if workflow.kind == kind]

    def pointers(self, kind: str) -> list[tuple[str, int]]:
        """(ending of an act's or cell's name, pointer) of each record in view."""
        if kind == ACCOUNT:
            return [("", -1)]
        return [(f"_{k}", k) for k in range(self.declaration.kind[kind].each)]

    # -- actions -----------------------------------------------------------------------------------

    def _actions(self) -> list[Action]:
        d = self.declaration
        actions = [Action("greet", acts.CHAT), Action("ask_intent", acts.ASK_INTENT)]
        actions += [Action(f"ask_{slot}", acts.ASK, i) for i, slot in enumerate(d.slots)]
        actions += [Action("ask_more", acts.ASK_MORE)]
        for i, (fact, kind) in enumerate(d.facts.items()):
            wanted = next((w.name for w in d.workflows if fact in w.facts), "")
            actions += [
                Action(
                    f"inform_{fact}{end}",
                    acts.TELL,
                    i,
                    k,
                    needs=(*self._read(kind, end), *([f"wants_{wanted}"] if wanted else [])),
                )
                for end, k in self.pointers(kind)
            ]
        for i, (term, values) in enumerate(d.terms.items(), start=len(d.facts)):
            workflow = next((w for w in d.workflows if term in w.terms), None)
            needs = self._wanted(workflow) if workflow else ()
            read = f"read_any_{workflow.kind}" if workflow and workflow.kind else "found"
            actions += [
                Action(f"inform_{term}_{name}", acts.TELL, i, value=v, needs=(*needs, read))
                for v, name in enumerate(values)
            ]
        actions += self._changes("confirm", acts.CONFIRM)
        actions += [
            Action(f"deny_{reason}", acts.DENY, i, needs=(f"can_deny_{reason}",))
            for i, reason in enumerate(d.reasons)
        ]
        actions += [
            Action(f"offer_{offer}", acts.OFFER, i, needs=(f"can_offer_{offer}",))
            for i, offer in enumerate(d.offers)
        ]
        actions += [
            Action("report_done", acts.REPORT_DONE, needs=("wrote",)),
            Action("apologise", acts.APOLOGISE),
            Action("explain", acts.EXPLAIN),
            Action("close", acts.CLOSE),
            Action(d.account.find, FIND, needs=(f"heard_{d.account.key}",)),
            Action(d.account.verify, VERIFY, needs=("found", f"heard_{d.account.secret}")),
        ]
        for i, record in enumerate(d.kinds):
            name = record.name
            actions += [
                Action(f"list_{record.many}", LIST, i, needs=("found",)),
                Action(f"get_stated_{name}", GET_STATED, i, needs=("found", f"heard_{name}")),
            ]
            actions += [
                Action(f"get_{name}_{k}", GET, i, k, needs=(f"{name}_seen_{k}",))
                for k in range(record.each)
            ]
        actions += self._changes("", WRITE)
        actions += [
            Action("transfer_to_human", TRANSFER_TO_HUMAN),
            Action("end_conversation", END_CONVERSATION),
        ]
        return actions

    def _changes(self, prefix: str, kind: int) -> list[Action]:
        """One act for each change on each record in view."""
        actions: list[Action] = []
        for i, workflow in enumerate(self.declaration.writes):
            name = f"{prefix}_{workflow.name}" if prefix else workflow.tool
            for end, k in self.pointers(workflow.kind):
                seen = (f"{workflow.kind}_seen{end}",) if workflow.kind else ("found",)
                needs = (*seen, *self._wanted(workflow))
                actions.append(Action(f"{name}{end}", kind, i, k, needs=needs))
        return actions

    @staticmethod
    def _wanted(workflow: Workflow) -> tuple[str, ...]:
        """That it was asked for, with all that has to be said for it."""
        return (f"wants_{workflow.name}", *(f"heard_{detail}" for detail in workflow.details))

    @staticmethod
    def _read(kind: str, end: str) -> tuple[str, ...]:
        return (f"{kind}_read{end}",) if kind else ("found",)

    # -- indices -----------------------------------------------------------------------------------

    def _look_up(self) -> None:
        d, cell = self.declaration, self.layout
        key, secret = d.account.key, d.account.secret
        self.always, self.requests = cell["always"], cell["requests"]
        self.tool_failed, self.two_factors = cell["tool_failed"], cell["two_factors"]
        self.found, self.verified = cell["found"], cell["verified"]
        self.authenticated, self.failures = cell["authenticated"], cell["failures"]
        self.wrote, self.told_done = cell["wrote"], cell["told_done"]
        self.wants = cell.block("wants_{}", d.names)
        self.handled = cell.block("handled_{}", d.names)
        self.denied = cell.block("denied_{}", d.reasons)
        self.offered = cell.block("offered_{}", d.offers)
        self.can_deny = cell.block("can_deny_{}", d.reasons)
        self.can_offer = cell.block("can_offer_{}", d.offers)
        self.asked = cell.block("asked_{}", d.slots)
        self.said = tuple(cell[f"said_{name}"] for name in self.heard_as)
        self.first_said = min(self.said)
        self.told_term = {t: cell.block(f"told_{t}_{{}}", values) for t, values in d.terms.items()}
        self.heard_detail = {detail: cell[f"heard_{detail}"] for detail in d.details}
        self.rejected = {
            KEY: cell[f"{key}_rejected"],
            SECRET: cell[f"{secret}_rejected"],
            **{2 + i: cell[f"{kind.name}_rejected"] for i, kind in enumerate(d.kinds)},
        }
        self.of: dict[str, KindCells] = {kind.name: KindCells(self, kind) for kind in d.kinds}
        self.findings = {w.name: self._findings(w) for w in d.workflows}
        self.due = {w.name: self._due(w) for w in d.workflows}
        self.told_fact = {
            fact: tuple(cell[f"{kind}_told_{fact}{end}"] for end, _ in self.pointers(kind))
            for fact, kind in d.facts.items()
        }
        self.confirmed = tuple(self._written("confirmed", w) for w in d.writes)
        self.written = tuple(self._written("wrote", w) for w in d.writes)
        self.request_acts = tuple(self.u[f"request_{name}"] for name in d.names)
        self.unsaid = bytes(len(cell) - self.first_said)
        """All cells of what the customer has just said, when it has said nothing."""
        self.questions = tuple((name, cell[f"said_{name}"]) for name in QUESTIONS)
        self.slot_of = {kind.name: self.slots.index(kind.name) for kind in d.kinds}
        self.places = {
            kind: tuple(pointer for _, pointer in self.pointers(kind))
            for kind in (ACCOUNT, *self.of)
        }
        """The pointers of each kind of record; -1 for the account itself."""
        self.reason_number = {reason: i for i, reason in enumerate(d.reasons)}
        self.raises, self.variants = self._hearing()
        self.of_request = self._request_cells()
        self.of_account = self._account_cells()

    def _name(self, kind: str, what: str, end: str) -> int:
        return self.layout[f"{kind}_{what}{end}" if kind else what]

    def _findings(self, workflow: Workflow) -> tuple[tuple[int, ...], ...]:
        """Cells of the rules that decide it, for each pointer.  (pointer, rule)"""
        rules = self.declaration.rules.deciding(workflow.name)
        return tuple(
            tuple(self._name(workflow.kind, rule.code, end) for rule in rules)
            for end, _ in self.pointers(workflow.kind)
        )

    def _due(self, workflow: Workflow) -> tuple[tuple[int, ...], ...]:
        """Cells of its terms' right values, for each pointer.  (pointer, term)"""
        return tuple(
            tuple(self._name(workflow.kind, f"{term}_due", end) for term in workflow.terms)
            for end, _ in self.pointers(workflow.kind)
        )

    def _written(self, what: str, workflow: Workflow) -> tuple[int, ...]:
        ends = self.pointers(workflow.kind)
        return tuple(self.layout[f"{what}_{workflow.name}{end}"] for end, _ in ends)

    def _hearing(self) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, int]]]:
        """Cells that an act of the customer raises; (slot, 1 right or 2 wrong) that it states."""
        d, cell, u = self.declaration, self.layout, self.u
        raises: dict[int, tuple[int, ...]] = {}
        variants: dict[int, tuple[int, int]] = {}
        stated = (d.account.key, d.account.secret, *(kind.name for kind in d.kinds))
        for slot, name in enumerate(stated):
            for variant, ending in ((1, ""), (2, "_wrong")):
                act = u[f"inform_{name}{ending}"]
                raises[act] = (cell[f"heard_{name}"],)
                variants[act] = (slot, variant)
        for kind in d.kinds:
            for field in described_by(kind):
                raises[u[f"inform_{field}"]] = (cell[f"heard_{field}"],)
        for detail, words in d.details.items():
            for word in words:
                raises[u[f"inform_{detail}_{word}"]] = (
                    cell[f"heard_{detail}"],
                    cell[f"{detail}_{word}"],
                )
            if not words:
                raises[u[f"inform_{detail}"]] = (cell[f"heard_{detail}"],)
        return raises, variants

    def _request_cells(self) -> tuple[int, ...]:
        """What belongs to one request and is gone with the next."""
        d, cell = self.declaration, self.layout
        names = [f"wants_{name}" for name in d.names]
        for kind in d.kinds:
            names += [f"heard_{kind.name}", f"{kind.name}_rejected"]
            names += [f"heard_{field}" for field in described_by(kind)]
            for k in range(kind.each):
                names += [f"{kind.name}_{what}_matches_{k}" for what in ("id", "label", "date")]
        for detail, words in d.details.items():
            names += [f"heard_{detail}", *(f"{detail}_{word}" for word in words)]
        # What was told on the way to another end has to be told again to whom asks for it.
        names += [f"{k}_told_{f}{end}" for f, k in d.facts.items() for end, _ in self.pointers(k)]
        names += [f"told_{term}_{value}" for term, vs in d.terms.items() for value in vs]
        names += ["wrote", "told_done"]
        for block, members in (("deny", d.reasons), ("offer", d.offers)):
            names += [f"can_{block}_{member}" for member in members]
        names += [f"denied_{reason}" for reason in d.reasons]
        names += [f"offered_{offer}" for offer in d.offers]
        names += [f"asked_{slot}" for slot in d.slots[2:]]
        return tuple(cell[name] for name in names)

    def _account_cells(self) -> tuple[int, ...]:
        """What was seen of one account and is out of view once another is opened."""
        d, cell = self.declaration, self.layout
        names = ["verified", "authenticated", *self._cells_of(ACCOUNT, "", "")]
        for kind in d.kinds:
            names += [f"listed_{kind.name}", f"read_any_{kind.name}"]
            for k in range(kind.each):
                names += [f"{kind.name}_{what}_{k}" for what in ("seen", "read", "id_matches")]
                names += [f"{kind.name}_{what}_matches_{k}" for what in ("label", "date")]
                names += self._cells_of(kind.name, f"{kind.name}_", f"_{k}")
        return tuple(cell[name] for name in names)


class KindCells:
    """Cells of one kind of record; tuples are by pointer."""

    __slots__ = (
        "date_heard",
        "date_matches",
        "id_matches",
        "label_heard",
        "label_matches",
        "listed",
        "read",
        "read_any",
        "seen",
    )

    def __init__(self, vocabulary: Any, kind: Kind) -> None:
        cell, name, pointers = vocabulary.layout, kind.name, range(kind.each)
        self.label_heard = cell[f"heard_{kind.label}"]
        self.date_heard = cell[f"heard_{kind.date}"]
        self.listed, self.read_any = cell[f"listed_{name}"], cell[f"read_any_{name}"]
        self.seen = cell.block(f"{name}_seen_{{}}", pointers)
        self.read = cell.block(f"{name}_read_{{}}", pointers)
        self.id_matches = cell.block(f"{name}_id_matches_{{}}", pointers)
        self.label_matches = cell.block(f"{name}_label_matches_{{}}", pointers)
        self.date_matches = cell.block(f"{name}_date_matches_{{}}", pointers)


def described_by(kind: Kind) -> list[str]:
    """Fields by which a record is described where its number is not known."""
    return [kind.label, kind.date, *([kind.vague] if kind.vague else [])]
