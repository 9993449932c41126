"""What a service desk deals in, as plain values: records, details, facts, terms, workflows, rules.

    account ── key, secret                       who is speaking, and how that is proved
       └── kind × each                           the records that belong to an account
              └── workflow                       what can be asked for on such a record
                     ├── details                 what the customer has to say for it
                     ├── rules                   allow, refuse (reason, alternative), transfer
                     ├── terms                   what has to be told before the yes
                     ├── facts                   what has to be told, where nothing is changed
                     └── tool                    the change

Cells, acts, tools, tasks, hearing and grading follow from it (`convgym.desk.vocabulary` on).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from convgym.engine.rules import REFUSE, Rule, RuleSet

WORDS = "text"
"""A detail that is a text of the customer's own instead of a word of a list."""
ACCOUNT = ""
"""The kind of what concerns the account itself."""
ORDER = "- Of the rules below that fit a request, the first decides what becomes of it and why."
"""What every policy document says of its own order, without which a reason would be a guess."""


@dataclass(frozen=True, slots=True)
class Account:
    """How whoever speaks is identified."""

    name: str
    key: str
    """Field that the account is found by."""
    secret: str
    """Field that proves it is theirs."""
    find: str = "find_customer"
    verify: str = "verify_customer"
    """Names of the two tools."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record; `each` of them belong to one account, newest first."""

    name: str
    each: int
    label: str
    """Field by which somebody describes it who does not know its number; may fit two."""
    date: str
    """Field that settles which of two it is."""
    vague: str = ""
    """Field that a vague memory begins with; empty: nobody remembers vaguely."""
    listed: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Fields that a list and a reading show."""
    plural: str = ""

    @property
    def many(self) -> str:
        """The word for several."""
        return self.plural or f"{self.name}s"


@dataclass(frozen=True, slots=True)
class Workflow:
    """Something that can be asked for."""

    name: str
    kind: str = ACCOUNT
    details: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    """Told, they content the customer; a workflow has facts or a tool."""
    tool: str = ""
    says: str = ""
    """Key of the tool's answer."""
    weight: int = 10
    """Share of first requests, in parts of the sum of weights."""
    factors: int = 1
    """How many factors it needs whatever the policy's `auth_level`."""
    held_out: bool = False
    """It is asked for in the split `test_primitive` only."""


@dataclass(frozen=True)
class Declaration:
    """A desk's schema and rules. `check` says what is wrong with one."""

    name: str
    role: str
    """First sentence of the policy document."""
    account: Account
    kinds: tuple[Kind, ...]
    details: Mapping[str, tuple[str, ...]]
    """Words that a detail may be; empty: a text of the customer's own."""
    facts: Mapping[str, str]
    """Kind of record by fact."""
    terms: Mapping[str, tuple[str, str]]
    """Names of a term's two values: where its rule gives 0, and where it gives more."""
    workflows: tuple[Workflow, ...]
    parameters: Mapping[str, tuple[int, ...]]
    wordings: Mapping[str, tuple[str, ...]]
    """How each value of a parameter is written."""
    rules: RuleSet
    impostors: int = 3
    """Percent of tasks whose customer is somebody else."""
    doc: str = field(default="", compare=False)

    @cached_property
    def kind(self) -> dict[str, Kind]:
        """Kinds by name."""
        return {kind.name: kind for kind in self.kinds}

    @cached_property
    def workflow(self) -> dict[str, Workflow]:
        """Workflows by name."""
        return {workflow.name: workflow for workflow in self.workflows}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the workflows, in order."""
        return tuple(workflow.name for workflow in self.workflows)

    @cached_property
    def writes(self) -> tuple[Workflow, ...]:
        """Workflows that change something."""
        return tuple(workflow for workflow in self.workflows if workflow.tool)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """What a customer can be asked for: key, secret, each kind of record, each detail."""
        kinds = (kind.name for kind in self.kinds)
        return (self.account.key, self.account.secret, *kinds, *self.details)

    @cached_property
    def refusals(self) -> tuple[Rule, ...]:
        """The rules that refuse."""
        return tuple(rule for rule in self.rules.rules if rule.effect == REFUSE)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Everything that can be a reason of a refusal, in the order of the rules."""
        return tuple(dict.fromkeys(rule.decision.reason for rule in self.refusals))

    @cached_property
    def offers(self) -> tuple[str, ...]:
        """Everything that can be offered instead."""
        alternatives = (rule.alternative for rule in self.refusals)
        return tuple(dict.fromkeys(name for name in alternatives if name))

    @cached_property
    def violations(self) -> tuple[str, ...]:
        """Codes of the obligations, in order; bit b of an episode's violations is the b-th."""
        return tuple(rule.code for rule in self.rules.rules if rule.effect == "oblige")

    def rules_for(self, split: str) -> RuleSet:
        """The rules that hold in a split."""
        return self.rules if split == "test_policy" else self.rules.common

    def workflows_for(self, split: str) -> tuple[Workflow, ...]:
        """What can be asked for in a split."""
        if split == "test_primitive":
            return self.workflows
        return tuple(workflow for workflow in self.workflows if not workflow.held_out)

    def document(self, split: str, parameters: Mapping[str, int]) -> str:
        """The policy as the agent reads it in a task of this split."""
        wording = {
            name: self.wordings[name][self.parameters[name].index(value)]
            for name, value in parameters.items()
        }
        absent = {w.name for w in self.workflows} - {w.name for w in self.workflows_for(split)}
        absent |= {term for w in self.workflows if w.name in absent for term in w.terms}
        rules = (rule for rule in self.rules_for(split).rules if rule.on not in absent)
        return f"{self.role}\n{ORDER}\n{RuleSet(tuple(rules)).document(wording)}"
