"""One rule set: the same on numbers and arrays, and the same as the document says."""

import re

import numpy as np
import pytest
from desk_driven import RECORDS, D
from hypothesis import given
from hypothesis import strategies as st

from convgym.domains.customer_service.world import CATEGORIES, REASONS, TOWNS
from convgym.engine.keys import TASK, below, draw
from convgym.engine.rules import (
    ALLOW,
    OBLIGE,
    REFUSE,
    TERM,
    TRANSFER,
    Condition,
    Decision,
    Rule,
    RuleSet,
)

NUMBER = st.integers(-5, 5)
OPERATORS = (">", "<", "==", "!=", ">=", "<=")
CONDITION = st.builds(
    Condition,
    field=st.sampled_from("abc"),
    op=st.sampled_from(OPERATORS),
    operand=st.one_of(NUMBER, st.sampled_from(["p", "q"])),
)
RULE = st.builds(
    Rule,
    code=st.sampled_from(["one", "two", "three", "four", "five", "six"]),
    on=st.sampled_from(["cancel", "return"]),
    effect=st.sampled_from([ALLOW, REFUSE, TRANSFER, OBLIGE, TERM]),
    text=st.just(""),
    when=st.lists(CONDITION, max_size=3).map(tuple),
    reason=st.sampled_from(["", "why"]),
    held_out=st.booleans(),
    requires=st.lists(CONDITION, max_size=2).map(tuple),
    value=st.one_of(NUMBER, st.sampled_from(["p", "q"])),
)
RULES_DRAWN = st.lists(RULE, max_size=6, unique_by=lambda rule: rule.code).map(tuple)
DECIDING = (ALLOW, REFUSE, TRANSFER)
FACTS = st.lists(st.fixed_dictionaries(dict.fromkeys("abc", NUMBER)), min_size=1, max_size=20)
CHOSEN = st.fixed_dictionaries(dict.fromkeys("pq", NUMBER))


def columns(rows):
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


# -- numbers and arrays ----------------------------------------------------------------------------


@given(CONDITION, FACTS, CHOSEN)
def test_a_condition_holds_on_arrays_as_on_numbers(condition, rows, parameters):
    one_by_one = [condition.holds(row, parameters) for row in rows]
    assert condition.holds(columns(rows), parameters).tolist() == one_by_one


@given(CONDITION, st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=20))
def test_parameters_may_be_arrays_too(condition, pairs):
    rows = [({"a": x, "b": x, "c": x}, {"p": y, "q": -y}) for x, y in pairs]
    together = condition.holds(columns([f for f, _ in rows]), columns([p for _, p in rows]))
    assert together.tolist() == [condition.holds(facts, chosen) for facts, chosen in rows]


@given(RULES_DRAWN, FACTS, CHOSEN)
def test_the_first_rule_that_fires_decides(rule_list, rows, parameters):
    rule_set = RuleSet(rule_list)
    together = {
        rule.code: np.broadcast_to(rule_set.fires(rule.code, columns(rows), parameters), len(rows))
        for rule in rule_list
    }
    for place, row in enumerate(rows):
        deciding = [rule for rule in rule_list if rule.on == "return" and rule.effect in DECIDING]
        firing = [rule for rule in deciding if together[rule.code][place]]
        first = [
            Decision(rule.effect, rule.reason or rule.code, rule.alternative) for rule in firing[:1]
        ]
        assert rule_set.decide("return", row, parameters) == (first or [Decision(ALLOW)])[0]


@given(RULES_DRAWN, FACTS, CHOSEN)
def test_which_rule_decides_is_the_same_for_all_rows_at_once(rule_list, rows, parameters):
    rule_set = RuleSet(rule_list)
    deciding = [rule for rule in rule_list if rule.on == "cancel" and rule.effect in DECIDING]
    assert list(rule_set.deciding("cancel")) == deciding
    together = np.broadcast_to(rule_set.first("cancel", columns(rows), parameters), len(rows))
    for number, row in zip(together.tolist(), rows, strict=True):
        decision = deciding[number].decision if number >= 0 else Decision(ALLOW)
        assert rule_set.decide("cancel", row, parameters) == decision
        for before in deciding[: number if number >= 0 else None]:
            assert not all(one.holds(row, parameters) for one in before.when)


@given(RULES_DRAWN)
def test_what_is_common_is_what_is_not_held_out(rule_list):
    rule_set = RuleSet(rule_list)
    assert list(rule_set.common.rules) == [rule for rule in rule_list if not rule.held_out]
    for rule in rule_list:
        assert rule.code in rule_set
        assert (rule.code in rule_set.common) == (not rule.held_out)


@given(RULES_DRAWN, FACTS, CHOSEN)
def test_an_obligation_is_broken_when_it_applies_and_is_not_met(rule_list, rows, parameters):
    def counted(conditions, facts):
        return sum(not condition.holds(facts, parameters) for condition in conditions)

    together = RuleSet(rule_list).breaches("return", columns(rows), parameters)
    for place, facts in enumerate(rows):
        expected = {
            rule.code: counted(rule.when, facts) == 0 and counted(rule.requires, facts) > 0
            for rule in rule_list
            if rule.effect == OBLIGE and rule.on == "return"
        }
        assert RuleSet(rule_list).breaches("return", facts, parameters) == expected
        by_column = {c: np.broadcast_to(v, len(rows))[place] for c, v in together.items()}
        assert by_column == expected


@given(RULES_DRAWN, FACTS, CHOSEN)
def test_the_first_term_that_fires_gives_the_value(rule_list, rows, parameters):
    for facts in rows:
        values = [
            parameters.get(rule.value, rule.value)
            for rule in rule_list
            if rule.effect == TERM and rule.on == "return"
            if all(condition.holds(facts, parameters) for condition in rule.when)
        ]
        if values:
            assert RuleSet(rule_list).term("return", facts, parameters) == values[0]
        else:
            with pytest.raises(KeyError, match="return"):
                RuleSet(rule_list).term("return", facts, parameters)


# -- the document ----------------------------------------------------------------------------------

NEVER = 1_000_000_000
NEW_WORKFLOWS = ("warranty", "billing")
SHOWN_IN = {
    "train": set(D.parameters)
    - {"warranty_days", "replace_days", "dispute_days", "dispute_above", "return_limit",
       "not_served"},
    "test_policy": set(D.parameters)
    - {"warranty_days", "replace_days", "dispute_days", "dispute_above"},
    "test_primitive": set(D.parameters) - {"return_limit", "not_served"},
}  # fmt: skip
"""Parameters that the document of a split tells of."""
every_document = pytest.mark.parametrize("split", SHOWN_IN)


def drawn(number):
    """A policy of its own for each number."""
    return {
        name: values[below(draw(number, TASK, 9, place), len(values))]
        for place, (name, values) in enumerate(D.parameters.items())
    }


def varied(policy):
    """The policies that differ from this one in one parameter."""
    for name, values in D.parameters.items():
        for value in values:
            if value != policy[name]:
                yield {**policy, name: value}


POLICIES = [drawn(number) for number in range(600)]
POLICIES += [other for policy in POLICIES[:6] for other in varied(policy)]

STAGES = {"still being processed": 0, "being processed or packed": 1}
READ = {
    "auth_level": (r"find the account by e-mail address(, then verify the postcode)?\.",
                   lambda found: 2 if found else 1),
    "cancel_stage": (r"cancelled only while it is ([\w ]+)\.", STAGES.get),
    "address_stage": (r"changed only while the order is ([\w ]+)\.", STAGES.get),
    "return_window": (r"Returns are accepted up to (\d+) days", int),
    "final_sale": (r"all ([\w ]+) are final sale", CATEGORIES.index),
    "transfer_above": (r"any return of an order above \$(\d+)|Returns of any amount",
                       lambda found: int(found) * 100 if found else NEVER),
    "fee": (r"fee of (\d+)%|There is no restocking fee", lambda found: int(found or 0)),
    "credit_after": (r"More than (\d+) days after delivery|never paid as store credit",
                     lambda found: int(found) if found else NEVER),
    "exchange_window": (r"Exchanges are accepted up to (\d+) days", int),
    "free_postage": (r"free for orders of \$(\d+) and more", lambda found: int(found) * 100),
    "refund_days": (r"A refund takes up to (\d+) days", int),
    "minimum_term": (r"runs for at least (\d+) months", int),
    "ends_at_once": (r"that is ended (stops at once)?", lambda found: int(found is not None)),
    "warranty_days": (r"The warranty lasts (\d+) days", int),
    "replace_days": (r"Up to (\d+) days after delivery what is under warranty is replaced", int),
    "dispute_days": (r"disputed for (\d+) days", int),
    "dispute_above": (r"any dispute about more than \$(\d+)|Disputes of any amount",
                      lambda found: int(found) * 100 if found else NEVER),
    "return_limit": (r"with more than (\d+) returns this year", int),
    "not_served": (r"do not deliver to (\w+) this month", TOWNS.index),
}  # fmt: skip


def read_document(document):
    """The parameters as somebody who only reads would understand them; those it tells of."""
    matches = {name: re.search(pattern, document) for name, (pattern, _) in READ.items()}
    return {name: READ[name][1](match[1]) for name, match in matches.items() if match}


@every_document
def test_every_policy_can_be_read_out_of_its_document(split):
    """So two policies never share a document, and the document leaves nothing out."""
    for policy in POLICIES:
        understood = read_document(D.document(split, policy))
        assert understood == {name: policy[name] for name in SHOWN_IN[split]}


def refused(reason, offer=""):
    return REFUSE, reason, offer


def by_the_book(workflow, facts, p):
    """The policy written a second time, as plain ifs, in the order of the document.

    `p` holds what the document tells; a rule of which it tells nothing does not hold.
    """
    if workflow == "cancel" and facts["stage"] > p["cancel_stage"]:
        return refused("not_cancellable", "return_later")
    if workflow == "return":
        if facts["stage"] < 3:
            return refused("not_delivered")
        if facts["returns"] > p.get("return_limit", 99):
            return refused("too_many_returns", "store_credit")
        if facts["category"] == p["final_sale"]:
            return refused("final_sale")
        if facts["days"] > p["return_window"]:
            return refused("outside_window", "store_credit")
        if facts["amount"] > p["transfer_above"]:
            return TRANSFER, "transfer_large", ""
    if workflow == "address":
        if facts["stage"] > p["address_stage"]:
            return refused("already_shipped", "pickup")
        if facts["town"] == p.get("not_served"):
            return refused("not_served", "pickup")
    if workflow == "exchange":
        if facts["stage"] < 3:
            return refused("not_delivered")
        if facts["days"] > p["exchange_window"]:
            return refused("outside_window", "store_credit")
        if facts["stock"] == 0:
            return refused("out_of_stock", "waitlist")
    if workflow == "refund":
        if facts["received"] < 0:
            return refused("no_return_received", "new_label")
        if facts["received"] <= p["refund_days"]:
            return refused("refund_pending")
    if workflow == "subscription":
        if "return_limit" in p and facts["yearly"]:
            return refused("prepaid", "pause")
        if facts["months"] < p["minimum_term"]:
            return refused("minimum_term", "pause")
    if workflow == "access" and facts["hold"]:
        return TRANSFER, "security_hold", ""
    if workflow == "warranty":
        if facts["stage"] < 3:
            return refused("not_delivered")
        if facts["defect"] in (2, 3):  # cracked, wet
            return refused("not_covered", "paid_repair")
        if facts["days"] > p["warranty_days"]:
            return refused("out_of_warranty", "paid_repair")
    if workflow == "billing":
        if facts["state"] == 0:
            return refused("charge_pending")
        if facts["days"] > p["dispute_days"]:
            return refused("dispute_late")
        if facts["valid"]:
            return refused("charge_valid", "send_invoice")
        if facts["amount"] > p["dispute_above"]:
            return TRANSFER, "transfer_dispute", ""
    return ALLOW, "", ""


def terms_by_the_book(facts, p):
    """What is right to tell, in the order of the declaration's terms of each workflow."""
    blameless = facts.get("reason") in (0, 1)  # damaged, the wrong item
    return {
        "return": (0 if blameless else p["fee"], int(facts.get("days", 0) > p["credit_after"])),
        "exchange": (int(facts.get("amount", 0) < p["free_postage"]),),
        "subscription": (1 - p["ends_at_once"],),
        "warranty": (int(facts.get("days", 0) <= p.get("replace_days", 0)),),
    }


def cases(workflow, number):
    """Facts of some records that a request may be about, in every way it may be made."""
    rows = RECORDS.accounts * (D.kind[workflow.kind].each if workflow.kind else 1)
    each = rows // RECORDS.accounts
    for row in range(number % 97, rows, 997):
        facts = {"always": 1}
        for kind, place in (("", row // each), (workflow.kind, row)):
            facts |= {field: int(c[place]) for field, c in RECORDS.columns[kind].items()}
        words = [D.details[detail] for detail in workflow.details]
        yield facts | {
            name: number % len(said) if said else 1
            for name, said in zip(workflow.details, words, strict=True)
        }


@every_document
def test_whoever_follows_the_document_decides_as_the_rules_do(split):
    rules, met = D.rules_for(split), set()
    for number, policy in enumerate(POLICIES):
        understood = read_document(D.document(split, policy))
        for workflow in D.workflows_for(split):
            for facts in cases(workflow, number):
                expected = by_the_book(workflow.name, facts, understood)
                assert rules.decide(workflow.name, facts, policy) == Decision(*expected)
                met.add((workflow.name, expected[1]))
    wanted = {(rule.on, rule.decision.reason) for rule in rules.rules if rule.decides}
    wanted = {one for one in wanted if one[0] in {w.name for w in D.workflows_for(split)}}
    assert met - {(name, "") for name in D.names} == wanted


@every_document
def test_terms_are_as_the_document_says(split):
    met = set()
    for number, policy in enumerate(POLICIES):
        understood = read_document(D.document(split, policy))
        for workflow in D.workflows_for(split):
            for facts in cases(workflow, number) if workflow.terms else ():
                right = terms_by_the_book(facts, understood)[workflow.name]
                told = tuple(D.rules.term(t, facts | policy, policy) for t in workflow.terms)
                assert told == right
                met |= {(t, bool(value)) for t, value in zip(workflow.terms, told, strict=True)}
    terms = {term for workflow in D.workflows_for(split) for term in workflow.terms}
    assert met == {(term, due) for term in terms for due in (False, True)}


OFFERED_AS = {
    "return_later": "a return after delivery",
    "store_credit": "goodwill store credit",
    "pickup": "a pickup point",
    "waitlist": "the waiting list",
    "new_label": "a new return label",
    "pause": "a pause",
    "paid_repair": "a paid repair",
    "send_invoice": "to send the invoice",
}


@every_document
def test_the_document_names_every_reason_and_every_alternative(split):
    assert set(OFFERED_AS) == set(D.offers)
    can = {"unverified", *(workflow.name for workflow in D.workflows_for(split))}
    rules = D.rules_for(split).rules
    refusals = [rule for rule in rules if rule.effect == REFUSE and rule.on in can]
    for policy in POLICIES[::97]:
        lines = D.document(split, policy).splitlines()
        for rule in refusals:
            reason = f"reason: {rule.decision.reason}"
            named = [line for line in lines if reason in line]
            assert named, rule.code
            if rule.alternative:
                assert any(OFFERED_AS[rule.alternative] in line for line in named), rule.code
        assert not any("{" in line or "}" in line for line in lines)
        assert len("\n".join(lines)) < 4000


def test_every_obligation_that_is_checked_is_written_down():
    document = D.document("train", POLICIES[0])
    assert "Authenticate the customer before you tell anything about an order" in document
    assert "Before any change ask the customer to confirm" in document
    assert "Read the record before you decide, refuse or transfer" in document
    obliged = {rule.code for rule in D.rules.rules if rule.effect == OBLIGE}
    assert obliged == set(D.violations) and len(obliged) == 6
    assert D.details["reason"] == REASONS, "the shop's words are the declaration's"
