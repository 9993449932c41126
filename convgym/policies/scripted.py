"""The ladder of scripted agents at a desk: random < keyword < slot-filling < planner ≤ oracle.

Each is a function of what `reset` and `step` return, the belief and the mask, and of nothing
else. The ladder measures a task's difficulty and makes behaviour data; the oracle shows that every
task can be solved with what can be obtained. They work at every declared desk, since they read its
declaration: which rules decide a request, and which details and terms it has.
"""

from __future__ import annotations

from convgym.desk.declaration import Kind, Workflow
from convgym.desk.vocabulary import QUESTIONS, Vocabulary
from convgym.engine.rules import REFUSE
from convgym.policies.policy import RandomPolicy, Script, Sight


class DeskSight(Sight):
    """A belief row, read by the names of its cells, and by records of a kind."""

    __slots__ = ()

    def records(self, kind: Kind, what: str) -> list[int]:
        """Pointers k for which the cell `<kind>_<what>_k` is set."""
        cells = (self.layout[f"{kind.name}_{what}_{k}"] for k in range(kind.each))
        return [k for k, cell in enumerate(cells) if self.row[cell] > 0]


class ScriptedPolicy(Script):
    """A script of a declared desk, customer service's where no vocabulary is given."""

    sight = DeskSight

    def __init__(self, noise: float = 0.0, vocabulary: Vocabulary | None = None) -> None:
        super().__init__(noise)
        if vocabulary is None:
            from convgym.domains.customer_service.desk import vocabulary as customer_service

            vocabulary = customer_service()
        self.layout, self.actions = vocabulary.layout, vocabulary.actions
        self.d, self.failures = vocabulary.declaration, vocabulary.failures

    # -- what every script looks at ----------------------------------------------------------------

    def workflow(self, see: DeskSight) -> Workflow | None:
        """What the customer wants; None while it is unknown."""
        return next((w for w in self.d.workflows if see(f"wants_{w.name}")), None)

    def told_all(self, see: DeskSight, workflow: Workflow, end: str) -> str:
        """The next fact to tell, or the way to what comes after."""
        for fact in workflow.facts:
            if not see(f"{self._cell(workflow, f'told_{fact}', end)}"):
                return f"inform_{fact}{end}"
        return "ask_more"

    def carry_out(self, see: DeskSight, workflow: Workflow, end: str) -> str:
        """Confirm, write, report, for a request that may be granted."""
        if see(f"wrote_{workflow.name}{end}"):
            return "ask_more" if see("told_done") else "report_done"
        if see(f"confirmed_{workflow.name}{end}"):
            return f"{workflow.tool}{end}"
        return f"confirm_{workflow.name}{end}"

    @staticmethod
    def _cell(workflow: Workflow, what: str, end: str) -> str:
        return f"{workflow.kind}_{what}{end}" if workflow.kind else what


class KeywordPolicy(ScriptedPolicy):
    """Answers the newest words only: no plan, no second factor, no second record."""

    name = "keyword"

    def choose(self, see: DeskSight) -> str:
        """A reflex for what was said last."""
        workflow = self.workflow(see)
        if workflow is None:
            return "ask_intent"
        if not see("found"):
            key = self.d.account.key
            return self.d.account.find if see(f"said_inform_{key}") else f"ask_{key}"
        if not workflow.kind:
            return self._reflex(see, workflow, "")
        kind = self.d.kind[workflow.kind]
        read = see.records(kind, "read")
        if read:
            return self._reflex(see, workflow, f"_{read[0]}")
        heard = see(f"heard_{kind.name}")
        return f"get_stated_{kind.name}" if heard else f"ask_{kind.name}"

    def _reflex(self, see: DeskSight, workflow: Workflow, end: str) -> str:
        if workflow.facts:
            return self.told_all(see, workflow, end)
        if see("wrote"):
            return "report_done"
        if see("said_affirm"):
            return f"{workflow.tool}{end}"
        return f"confirm_{workflow.name}{end}"


class SlotFillingPolicy(ScriptedPolicy):
    """Collects what a form needs, then does what was asked; never refuses anything."""

    name = "slot-filling"

    def choose(self, see: DeskSight) -> str:
        """The first empty slot, else the deed."""
        d, workflow = self.d, self.workflow(see)
        if workflow is None:
            return "ask_intent"
        if not see("found"):
            return d.account.find if see(f"heard_{d.account.key}") else f"ask_{d.account.key}"
        if see("two_factors") and not see("verified"):
            secret = d.account.secret
            return d.account.verify if see(f"heard_{secret}") else f"ask_{secret}"
        end = ""
        if workflow.kind:
            kind = d.kind[workflow.kind]
            if not (see(f"heard_{kind.name}") or see(f"heard_{kind.label}")):
                return f"ask_{kind.name}"
            if not see(f"listed_{kind.name}"):
                return f"list_{kind.many}"
            matches = see.records(kind, "id_matches") or see.records(kind, "label_matches")
            if not matches:
                return f"ask_{kind.name}"
            end = f"_{matches[0]}"
            if not see(f"{kind.name}_read{end}"):
                return f"get_{kind.name}{end}"
        if workflow.facts:
            return self.told_all(see, workflow, end)
        for detail in workflow.details:
            if not see(f"heard_{detail}"):
                return f"ask_{detail}"
        for term in workflow.terms:
            if see(f"said_ask_{term}"):
                return f"inform_{term}_{d.terms[term][0]}"
        return self.carry_out(see, workflow, end)


class OraclePolicy(ScriptedPolicy):
    """Follows the policy document to the letter and recovers from every slip."""

    name = "oracle"
    recovers = True

    def choose(self, see: DeskSight) -> str:
        """Identify, locate, read, then what the rules say."""
        if self.recovers and any(see(f"said_{question}") for question in QUESTIONS):
            return "explain"
        workflow = self.workflow(see)
        if workflow is None:
            return "ask_intent"
        step = self.identify(see)
        if step:
            return step
        if not workflow.kind:
            return self.serve(see, workflow, "")
        kind = self.d.kind[workflow.kind]
        located = self.locate(see, kind)
        if isinstance(located, str):
            return located
        if not see(f"{kind.name}_read_{located}"):
            return f"get_{kind.name}_{located}"
        return self.serve(see, workflow, f"_{located}")

    def identify(self, see: DeskSight) -> str:
        """What is missing to know who is speaking; empty once that is known."""
        account = self.d.account
        if not see("found"):
            stale = see(f"{account.key}_rejected") and self.recovers
            usable = see(f"heard_{account.key}") and not stale
            return account.find if usable else f"ask_{account.key}"
        if see("two_factors") and not see("verified"):
            if see.row[self.failures] >= 1.0:
                return "deny_unverified"
            rejected = see(f"{account.secret}_rejected")
            usable = see(f"heard_{account.secret}") and not rejected
            return account.verify if usable else f"ask_{account.secret}"
        return ""

    def locate(self, see: DeskSight, kind: Kind) -> int | str:
        """Which record is meant, or what is missing to know it."""
        by_id = see.records(kind, "id_matches")
        if by_id:
            return by_id[0]
        if see(f"heard_{kind.name}") and not see(f"{kind.name}_rejected"):
            return f"get_stated_{kind.name}"
        if not see(f"heard_{kind.label}"):
            return f"ask_{kind.name}"
        if not see(f"listed_{kind.name}"):
            return f"list_{kind.many}"
        matches = see.records(kind, "label_matches")
        if len(matches) > 1 and self.recovers:
            exact = see.records(kind, "date_matches")
            return exact[0] if exact else f"ask_{kind.name}"
        return matches[0] if matches else f"ask_{kind.name}"

    def serve(self, see: DeskSight, workflow: Workflow, end: str) -> str:
        """What the rules say of a request on a record that has been read."""
        rules = self.d.rules.deciding(workflow.name)
        asked = {one.field for rule in rules for one in rule.when}
        missing = [detail for detail in workflow.details if not see(f"heard_{detail}")]
        if missing and asked.intersection(workflow.details):
            return f"ask_{missing[0]}"
        for rule in rules:
            if see(self._cell(workflow, rule.code, end)):
                if rule.effect == REFUSE:
                    return self.refuse(see, rule.decision.reason, rule.alternative)
                return "transfer_to_human"
        if workflow.facts:
            return self.told_all(see, workflow, end)
        if missing:
            return f"ask_{missing[0]}"
        for term in workflow.terms:
            values = self.d.terms[term]
            if not any(see(f"told_{term}_{value}") for value in values):
                due = see(self._cell(workflow, f"{term}_due", end))
                return f"inform_{term}_{values[int(due)]}"
        return self.carry_out(see, workflow, end)

    def refuse(self, see: DeskSight, reason: str, offer: str) -> str:
        """Refuse, offer what there is, and stand by it when the customer disputes it."""
        if not see(f"denied_{reason}"):
            return f"deny_{reason}"
        if offer and (self.recovers or see("said_ask_alternative")):
            return f"offer_{offer}"
        return f"deny_{reason}" if self.recovers else "apologise"


class PlannerPolicy(OraclePolicy):
    """The oracle's plan without its recoveries: one try, the first match, no persistence."""

    name = "planner"
    recovers = False


LADDER = (RandomPolicy, KeywordPolicy, SlotFillingPolicy, PlannerPolicy, OraclePolicy)
