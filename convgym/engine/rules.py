"""Executable policy: one rule set is the document, the decision and the checker.

    Rule("outside_window", on="return", when=(days > return_window,), effect=REFUSE, …)
       │                                                                     │
       ├─ RuleSet.document(parameters) ─► the text that the agent reads      │
       ├─ RuleSet.decide("return", facts, parameters) ─► Decision ◄──────────┘
       └─ RuleSet.breaches("write", facts, parameters) ─► which obligations it breaks

All values are integers, and conditions are comparisons, so the same rule runs on Python
ints and on numpy arrays. Knows nothing of any domain.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALLOW, REFUSE, TRANSFER = "allow", "refuse", "transfer"
OBLIGE, TERM = "oblige", "term"

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """`facts[field] (op) operand`, the operand being a constant or a parameter's name."""

    field: str
    op: str
    operand: int | str

    def holds(self, facts: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
        """True where it holds; element-wise on arrays."""
        operand = self.operand
        if isinstance(operand, str):
            operand = parameters[operand]
        return _OPERATORS[self.op](facts[self.field], operand)


Test = tuple[Callable[[Any, Any], Any], str, "int | str", bool]
"""A condition taken apart: how to compare, the fact, with what, and whether that is the name of a
parameter."""


def _tests(conditions: tuple[Condition, ...]) -> tuple[Test, ...]:
    return tuple(
        (_OPERATORS[one.op], one.field, one.operand, isinstance(one.operand, str))
        for one in conditions
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy says of one request."""

    effect: str
    reason: str = ""
    alternative: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence of the policy and what it does.

    A decision rule (`ALLOW`, `REFUSE`, `TRANSFER`) fires when all of `when` hold; an
    obligation (`OBLIGE`) is breached when `when` holds and one of `requires` does not; a
    `TERM` gives its `value` when `when` holds (the first that fires wins).
    """

    code: str
    on: str
    """The workflow, event or term it belongs to."""
    effect: str
    text: str
    """The sentence of the policy document; `{name}` is a parameter as the reader sees it."""
    when: tuple[Condition, ...] = ()
    requires: tuple[Condition, ...] = ()
    alternative: str = ""
    """What must be offered where this rule refuses; empty where nothing can be."""
    value: int | str = 0
    reason: str = ""
    """What has to be said where this rule refuses; empty is the rule's own code."""
    held_out: bool = False
    """It stands in no policy but those of the split `test_policy`."""
    when_tests: tuple[Test, ...] = field(init=False, repr=False, compare=False)
    requires_tests: tuple[Test, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "when_tests", _tests(self.when))
        object.__setattr__(self, "requires_tests", _tests(self.requires))

    @property
    def decides(self) -> bool:
        """Whether it says what becomes of a request."""
        return self.effect in (ALLOW, REFUSE, TRANSFER)

    @property
    def decision(self) -> Decision:
        """What the policy says of a request that this rule decides."""
        return Decision(self.effect, self.reason or self.code, self.alternative)


def _all(
    conditions: tuple[Condition, ...], facts: Mapping[str, Any], parameters: Mapping[str, Any]
) -> Any:
    held: Any = True
    for condition in conditions:
        held = held & condition.holds(facts, parameters)
    return held


def _each(
    tests: tuple[Test, ...], facts: Mapping[str, int], parameters: Mapping[str, int]
) -> bool:
    """`_all` of plain numbers, as far as the first that does not hold."""
    for compares, fact, operand, named in tests:
        if not compares(facts[fact], parameters[operand] if named else operand):  # type: ignore[index]
            return False
    return True


@dataclass(frozen=True)
class RuleSet:
    """Rules in order; for each request the first that fires decides."""

    rules: tuple[Rule, ...]

    @cached_property
    def common(self) -> RuleSet:
        """The rules without those that are held out."""
        return RuleSet(tuple(rule for rule in self.rules if not rule.held_out))

    @cached_property
    def _deciding(self) -> dict[str, tuple[Rule, ...]]:
        named = dict.fromkeys(rule.on for rule in self.rules if rule.decides)
        return {
            on: tuple(rule for rule in self.rules if rule.decides and rule.on == on)
            for on in named
        }

    @cached_property
    def _terms(self) -> dict[str, tuple[Rule, ...]]:
        rules = [rule for rule in self.rules if rule.effect == TERM]
        named = dict.fromkeys(rule.on for rule in rules)
        return {on: tuple(rule for rule in rules if rule.on == on) for on in named}

    @cached_property
    def _fields_of_terms(self) -> dict[str, frozenset[str]]:
        return {
            name: frozenset(one.field for rule in rules for one in rule.when)
            for name, rules in self._terms.items()
        }

    @cached_property
    def _obliging(self) -> dict[str, tuple[Rule, ...]]:
        rules = [rule for rule in self.rules if rule.effect == OBLIGE]
        named = dict.fromkeys(rule.on for rule in rules)
        return {on: tuple(rule for rule in rules if rule.on == on) for on in named}

    @cached_property
    def _by_code(self) -> dict[str, Rule]:
        return {rule.code: rule for rule in self.rules}

    def decide(
        self, workflow: str, facts: Mapping[str, int], parameters: Mapping[str, int]
    ) -> Decision:
        """The first decision rule of `workflow` whose conditions all hold; else allow."""
        for rule in self.deciding(workflow):
            if _each(rule.when_tests, facts, parameters):
                return rule.decision
        return Decision(ALLOW)

    def deciding(self, workflow: str) -> tuple[Rule, ...]:
        """The rules that say what becomes of a request for `workflow`, in order."""
        return self._deciding.get(workflow, ())

    def first(
        self, workflow: str, facts: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Which of `deciding(workflow)` decides, -1 where none does; facts are arrays."""
        decided: Any = np.array(-1)
        for number, rule in reversed(list(enumerate(self.deciding(workflow)))):
            decided = np.where(_all(rule.when, facts, parameters), number, decided)
        return np.asarray(decided, dtype=np.int64)

    def term(self, name: str, facts: Mapping[str, int], parameters: Mapping[str, int]) -> int:
        """The value of a term (a fee, a channel) for these facts."""
        for rule in self.of_term(name):
            if _each(rule.when_tests, facts, parameters):
                return parameters[rule.value] if isinstance(rule.value, str) else rule.value
        raise KeyError(f"no rule gives the term {name!r} for {dict(facts)}")

    def of_term(self, name: str) -> tuple[Rule, ...]:
        """The rules that give a term, in order."""
        return self._terms.get(name, ())

    def breaches(
        self, event: str, facts: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Whether `event` breaks each of its obligations, by code; element-wise on arrays."""
        return {
            rule.code: _all(rule.when, facts, parameters)
            & (_all(rule.requires, facts, parameters) ^ True)
            for rule in self._obliging.get(event, ())
        }

    def broken(
        self, event: str, facts: Mapping[str, int], parameters: Mapping[str, int]
    ) -> list[str]:
        """Codes of the obligations that `event` breaks, in order; facts are plain numbers."""
        return [
            rule.code
            for rule in self._obliging.get(event, ())
            if _each(rule.when_tests, facts, parameters)
            and not _each(rule.requires_tests, facts, parameters)
        ]

    def fires(
        self, code: str, facts: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> Any:
        """Whether all conditions of the rule called `code` hold; element-wise on arrays."""
        return _all(self._by_code[code].when, facts, parameters)

    def seen_to_fire(
        self, code: str, facts: Mapping[str, int], parameters: Mapping[str, int]
    ) -> bool:
        """Whether a rule of the set fires by the facts that are known, which are plain numbers."""
        rule = self._by_code.get(code)
        if rule is None:
            return False
        for condition in rule.when:
            if condition.field not in facts or not condition.holds(facts, parameters):
                return False
        return True

    def fields_of_term(self, name: str) -> frozenset[str]:
        """The facts that a term's value rests on."""
        return self._fields_of_terms.get(name, frozenset())

    def document(self, wording: Mapping[str, str]) -> str:
        """The policy as the agent reads it: one line a rule, parameters filled in."""
        return "\n".join(f"- {rule.text.format_map(wording)}" for rule in self.rules if rule.text)

    def __contains__(self, code: object) -> bool:
        return code in self._by_code
