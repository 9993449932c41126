"""A desk's declaration from its folder of TOML files.

    schema.toml      domain, account, kind, detail, fact, term
    workflows.toml   workflow
    rules.toml       parameter, rule

Everything that is wrong with a folder is said at once, each thing in a sentence with its place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.resources.abc import Traversable
from string import Formatter
from typing import Any

from convgym.desk import shapes
from convgym.desk.declaration import WORDS, Account, Declaration, Kind, Workflow
from convgym.engine.rules import (
    ALLOW,
    OBLIGE,
    REFUSE,
    TERM,
    TRANSFER,
    Condition,
    Rule,
    RuleSet,
)
from convgym.errors import InvalidConfiguration, told

OBLIGATIONS = (
    "disclosed_before_authentication",
    "wrote_before_authentication",
    "wrote_without_confirmation",
    "told_a_falsehood",
    "wrote_what_was_not_asked",
    "told_of_another_record",
)
"""What every desk's agent has to keep; a folder may give them a text of its own."""
_STANDARD = {
    "disclosed_before_authentication": (
        "disclose",
        ("factors >= auth_level",),
        "Authenticate the {account} before you tell or change anything: {{auth_level}}",
    ),
    "wrote_before_authentication": ("write", ("factors >= auth_level",), ""),
    "wrote_without_confirmation": (
        "write",
        ("confirmed == 1",),
        "Before any change ask for a yes to that change, and wait for it. Say when it is done.",
    ),
    "told_a_falsehood": ("tell", (), ""),
    "wrote_what_was_not_asked": ("write", (), ""),
    "told_of_another_record": (
        "tell",
        (),
        "Read the record before you decide, refuse or transfer, and tell only of the one that is "
        "meant; ask where it could be two.",
    ),
}
_UNVERIFIED = "After two failed verifications refuse the request, reason: unverified."
_AUTH_LEVEL = "auth_level"
_EFFECTS = (ALLOW, REFUSE, TRANSFER, OBLIGE, TERM)


class _Faults:
    """What is wrong with a folder, collected."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.said.append(sentence)

    def known(self, place: str, given: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
        """Complain of keys that there are not."""
        for key in given:
            if key not in allowed:
                self(f"{place}: {key!r} is not one of {', '.join(allowed)}")


def read_toml(path: Traversable) -> dict[str, Any]:
    """A TOML file's content; raises InvalidConfiguration with its name."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidConfiguration(
            f"{path} cannot be read as TOML ({told(error)}); a domain's folder needs it"
        ) from None


FILES = ("schema.toml", "workflows.toml", "rules.toml")


def declaration_of(folder: Traversable) -> tuple[Declaration, dict[str, Any]]:
    """(declaration, schema) of a folder; raises InvalidConfiguration for what is wrong with it."""
    schema, workflows, rules = (read_toml(folder.joinpath(name)) for name in FILES)
    return declare(schema, workflows, rules, str(folder)), schema


def declare(
    schema: Mapping[str, Any], workflows: Mapping[str, Any], rules: Mapping[str, Any], place: str
) -> Declaration:
    """A declaration from the contents of a folder's three files.

    Raises InvalidConfiguration that names every fault; `place` is where they were read.
    """
    faults = _Faults()
    faults.known(
        "schema.toml", schema, ("domain", "account", "kind", "detail", "fact", "term")
    )
    faults.known("workflows.toml", workflows, ("workflow",))
    faults.known("rules.toml", rules, ("parameter", "rule"))
    schema = shapes.fitted(schema, shapes.SCHEMA, faults)
    workflows = shapes.fitted(workflows, shapes.WORKFLOWS, faults)
    rules = shapes.fitted(rules, shapes.RULES, faults)
    domain = dict(schema.get("domain", {}))
    faults.known("[domain]", domain, ("name", "role", "impostors"))
    parameters, wordings = _parameters(rules.get("parameter", {}), faults)
    account = _account(schema.get("account", {}), faults)
    declaration = Declaration(
        name=str(domain.get("name", "")),
        role=str(domain.get("role", "")),
        account=account,
        kinds=tuple(_kinds(schema.get("kind", {}), faults)),
        details={
            name: () if words == WORDS else tuple(words)
            for name, words in schema.get("detail", {}).items()
        },
        facts=dict(schema.get("fact", {})),
        terms={name: (str(v[0]), str(v[-1])) for name, v in schema.get("term", {}).items()},
        workflows=tuple(_workflows(workflows.get("workflow", {}), faults)),
        parameters=parameters,
        wordings=wordings,
        rules=RuleSet(tuple(_rules(rules.get("rule", []), account, faults))),
        impostors=int(domain.get("impostors", 3)),
    )
    _check(declaration, faults)
    if faults.said:
        raise InvalidConfiguration(
            f"the domain in {place} has {len(faults.said)} fault(s): " + "; ".join(faults.said)
        )
    return declaration


def _account(given: Mapping[str, Any], faults: _Faults) -> Account:
    faults.known("[account]", given, ("name", "key", "secret", "find", "verify", "rows", "fields"))
    for key in ("key", "secret"):
        if not given.get(key):
            faults(f"[account]: {key} is missing; it names the field that identifies an account")
    name = str(given.get("name", "customer"))
    return Account(
        name=name,
        key=str(given.get("key", "key")),
        secret=str(given.get("secret", "secret")),
        find=str(given.get("find", f"find_{name}")),
        verify=str(given.get("verify", f"verify_{name}")),
    )


def _kinds(given: Mapping[str, Any], faults: _Faults) -> Iterator[Kind]:
    for name, body in given.items():
        allowed = tuple(f.name for f in fields(Kind))[1:]
        faults.known(f"[kind.{name}]", body, (*allowed, "fields"))
        missing = [key for key in ("each", "label", "date") if key not in body]
        if missing:
            faults(f"[kind.{name}]: {', '.join(missing)} missing")
            continue
        known = {k: _frozen(v) for k, v in body.items() if k in allowed}
        yield Kind(name, **known)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _workflows(given: Mapping[str, Any], faults: _Faults) -> Iterator[Workflow]:
    allowed = tuple(f.name for f in fields(Workflow) if f.name != "name")
    for name, body in given.items():
        faults.known(f"[workflow.{name}]", body, allowed)
        known = {k: _frozen(v) for k, v in body.items() if k in allowed}
        if bool(known.get("tool")) == bool(known.get("facts")):
            faults(f"[workflow.{name}]: it has to have either facts to tell or a tool that changes")
        yield Workflow(name, **known)


def _parameters(
    given: Mapping[str, Any], faults: _Faults
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, ...]]]:
    values: dict[str, tuple[int, ...]] = {_AUTH_LEVEL: (1, 2)}
    wordings: dict[str, tuple[str, ...]] = {
        _AUTH_LEVEL: ("find the account.", "find the account, then verify it.")
    }
    for name, body in given.items():
        faults.known(f"[parameter.{name}]", body, ("values", "text"))
        values[name] = tuple(int(value) for value in body.get("values", ()))
        wordings[name] = tuple(body.get("text", (str(value) for value in values[name])))
        if not values[name] or len(wordings[name]) != len(values[name]):
            faults(f"[parameter.{name}]: it needs values, and with text one text for each value")
    return values, wordings


def _rules(given: list[dict[str, Any]], account: Account, faults: _Faults) -> Iterator[Rule]:
    codes = {body.get("code") for body in given}
    for code in OBLIGATIONS:
        if code not in codes:
            on, requires, text = _STANDARD[code]
            yield Rule(
                code,
                on,
                OBLIGE,
                text.format(account=account.name),
                requires=tuple(condition(one) for one in requires),
            )
    if "unverified" not in codes:
        yield Rule(
            "unverified", "unverified", REFUSE, _UNVERIFIED, (Condition("failures", ">=", 2),)
        )
    allowed = tuple(f.name for f in fields(Rule))
    for number, body in enumerate(given):
        place = f"rule {body.get('code', number + 1)!r}"
        faults.known(place, body, allowed)
        if not body.get("code") or not body.get("on") or body.get("effect") not in _EFFECTS:
            faults(f"{place}: it needs code, on, and an effect among {', '.join(_EFFECTS)}")
            continue
        known = {key: value for key, value in body.items() if key in allowed}
        for key in ("when", "requires"):
            try:
                known[key] = tuple(condition(one) for one in known.get(key, ()))
            except InvalidConfiguration as error:
                faults(f"{place}: {told(error)}")
                known[key] = ()
        yield Rule(**{"text": "", **known})


def condition(text: str) -> Condition:
    """`"days > return_window"` as a condition; raises InvalidConfiguration for anything else."""
    parts = text.split() if isinstance(text, str) else []
    if len(parts) != 3 or parts[1] not in (">", "<", "==", "!=", ">=", "<="):
        raise InvalidConfiguration(
            f"{text!r} is no condition; write a field, one of > < == != >= <=, and a whole number "
            "or a parameter, with spaces between"
        )
    field, op, operand = parts
    whole = operand.lstrip("-").isdigit()
    return Condition(field, op, int(operand) if whole else operand)


def _check(d: Declaration, faults: _Faults) -> None:
    """Names that are used stand somewhere, and stand for one thing."""
    if not d.name or not d.role:
        faults("[domain]: name and role are needed")
    if not d.workflows:
        faults("workflows.toml: there is no [workflow.…]; a desk needs one thing to ask for")
    kinds = {kind.name for kind in d.kinds}
    for workflow in d.workflows:
        place = f"[workflow.{workflow.name}]"
        if workflow.kind and workflow.kind not in kinds:
            faults(f"{place}: kind {workflow.kind!r} is not one of {', '.join(kinds) or 'none'}")
        for plural, names, known in (
            ("details", workflow.details, d.details),
            ("terms", workflow.terms, d.terms),
            ("facts", workflow.facts, d.facts),
        ):
            for name in names:
                if name not in known:
                    faults(f"{place}: {name!r} of {plural} is not declared in [{plural[:-1]}]")
        for fact in workflow.facts:
            if d.facts.get(fact) in kinds - {workflow.kind}:
                faults(f"{place}: {fact!r} is a fact of another kind, {d.facts[fact]!r}")
        if len(workflow.details) > 1:
            faults(f"{place}: it has {len(workflow.details)} details; a workflow has one at most")
    _check_names(d, faults)
    events = {"disclose", "write", "tell", "unverified", *d.terms, *d.names}
    owners: dict[str, set[str]] = {}
    for rule in d.rules.rules:
        if rule.on not in events:
            faults(f"rule {rule.code!r}: on {rule.on!r} is neither a workflow nor a term")
        for one in (*rule.when, *rule.requires):
            if isinstance(one.operand, str):
                if one.operand not in d.parameters:
                    faults(f"rule {rule.code!r}: {one.operand!r} is no parameter")
                elif rule.decides:
                    owners.setdefault(one.operand, set()).add(rule.on)
        if isinstance(rule.value, str) and rule.value not in d.parameters:
            faults(f"rule {rule.code!r}: value {rule.value!r} is no parameter")
        for name in _unknown_names(rule.text, d):
            faults(f"rule {rule.code!r}: its text has {name}, which is no parameter")
    for parameter, workflows in owners.items():
        if len(workflows) > 1:
            faults(
                f"[parameter.{parameter}]: it decides {' and '.join(sorted(workflows))}; give each "
                "workflow a parameter of its own, so that any two can meet in one task"
            )
    codes = [rule.code for rule in d.rules.rules]
    for code in dict.fromkeys(code for code in codes if codes.count(code) > 1):
        faults(f"rule {code!r}: it stands twice")
    for term in d.terms:
        closing = [r for r in d.rules.rules if r.on == term and r.effect == TERM]
        if not closing or closing[-1].when not in ((), (Condition("always", "==", 1),)):
            faults(f"[term] {term}: its last rule (effect = \"term\") must hold always")


def _unknown_names(text: str, d: Declaration) -> list[str]:
    """What stands in braces in a rule's text and is no parameter."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return ["a brace that is not closed"]
    named = [name for _, name, *_ in parts if name is not None]
    return [f"{{{name}}}" for name in dict.fromkeys(named) if name not in d.parameters]


def _check_names(d: Declaration, faults: _Faults) -> None:
    """One name stands for one thing; what belongs to one workflow belongs to no other."""
    kinds = tuple(kind.name for kind in d.kinds)
    for fact, kind in d.facts.items():
        if kind and kind not in kinds:
            known = ", ".join(kinds) or "none"
            faults(f"[fact]: {fact} is of the kind {kind!r}, which is not one of {known}")
    said = [d.account.key, d.account.secret, *kinds, *d.details]
    said += [name for kind in d.kinds for name in (kind.label, kind.date, kind.vague) if name]
    for name in dict.fromkeys(name for name in said if said.count(name) > 1):
        faults(
            f"{name!r} is two of the things that are said: key, secret, kinds, their labels and "
            "dates, details; give each a name of its own"
        )
    told = [*d.facts, *d.terms]
    for name in dict.fromkeys(name for name in told if told.count(name) > 1):
        faults(f"{name!r} is both a fact and a term; give each a name of its own")
    for name in dict.fromkeys(told):
        owners = [w.name for w in d.workflows if name in (*w.facts, *w.terms)]
        if len(owners) != 1:
            whom = " and ".join(owners) or "no workflow"
            faults(f"{name!r} is told for {whom}; a fact or a term belongs to one workflow")
    tools = [d.account.find, d.account.verify, "transfer_to_human", "end_conversation"]
    tools += [f"list_{kind.many}" for kind in d.kinds] + [f"get_{name}" for name in kinds]
    tools += [workflow.tool for workflow in d.writes]
    for name in dict.fromkeys(name for name in tools if tools.count(name) > 1):
        faults(f"two tools are called {name!r}; give each a name of its own")
