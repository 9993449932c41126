"""One rule set: the same on numbers and arrays, and the same as the document says."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.domains.customer_service import rules
from convgym.domains.customer_service.rules import NEVER, PARAMETERS, RULES
from convgym.domains.customer_service.world import CATEGORIES, REASONS, world
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


def decide_by_columns(rule_set, workflow, facts, parameters):
    """Index of the rule that decides each row, -1 for none: the first that fires."""
    decided = np.full(len(facts["a"]), -1)
    for index, rule in enumerate(rule_set.rules):
        if rule.on == workflow and rule.effect in (ALLOW, REFUSE, TRANSFER):
            fires = np.ones(len(decided), dtype=bool)
            for condition in rule.when:
                fires &= condition.holds(facts, parameters)
            decided[fires & (decided < 0)] = index
    return decided


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
        first = [Decision(rule.effect, rule.code, rule.alternative) for rule in firing[:1]]
        assert rule_set.decide("return", row, parameters) == (first or [Decision(ALLOW)])[0]


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

ALL_PARAMETERS = [
    rules.parameter_dict(values) for values in itertools.product(*PARAMETERS.values())
]


def found(pattern, document):
    match = re.search(pattern, document)
    return match[1] if match else None


def read_document(document):
    """The parameters as somebody who only reads would understand them."""
    stages = {"still being processed": 0, "being processed or packed": 1}
    above = found(r"above \$(\d+)", document)
    fee, credit = found(r"fee of (\d+)%", document), found(r"More than (\d+) days", document)
    return {
        "auth_level": 2 if "verify the postcode" in document else 1,
        "cancel_stage": stages[found(r"cancelled only while it is ([\w ]+)\.", document)],
        "address_stage": stages[found(r"changed only while the order is ([\w ]+)\.", document)],
        "return_window": int(found(r"up to (\d+) days after delivery", document)),
        "final_sale": CATEGORIES.index(found(r"all ([\w ]+) are final sale", document)),
        "transfer_above": int(above) * 100 if above else NEVER,
        "fee": int(fee) if fee else 0,
        "credit_after": int(credit) if credit else NEVER,
    }


def decide_by_the_book(workflow, facts, p):
    """The policy written a second time, as plain ifs, in the order of the document."""
    if workflow == rules.CANCEL and facts["stage"] > p["cancel_stage"]:
        return REFUSE, "not_cancellable", "return_later"
    if workflow == rules.ADDRESS and facts["stage"] > p["address_stage"]:
        return REFUSE, "already_shipped", "pickup"
    if workflow == rules.RETURN:
        if facts["stage"] != 3:
            return REFUSE, "not_delivered", ""
        if facts["category"] == p["final_sale"]:
            return REFUSE, "final_sale", ""
        if facts["days"] > p["return_window"]:
            return REFUSE, "outside_window", "store_credit"
        if facts["amount"] > p["transfer_above"]:
            return TRANSFER, "transfer_large", ""
    return ALLOW, "", ""


def test_every_policy_can_be_read_out_of_its_document():
    """So two policies never share a document, and the document leaves nothing out."""
    assert len(ALL_PARAMETERS) == 4608
    for parameters in ALL_PARAMETERS:
        assert read_document(rules.document(parameters)) == parameters


def test_whoever_follows_the_document_decides_as_the_rules_do():
    shop = world()
    for index, parameters in enumerate(ALL_PARAMETERS):
        understood = read_document(rules.document(parameters))
        for order in range(index % 7, len(shop.item), 701):
            facts = rules.order_facts(shop, order)
            for workflow in range(len(rules.WORKFLOWS)):
                expected = Decision(*decide_by_the_book(workflow, facts, understood))
                assert rules.decide(workflow, facts, parameters) == expected


@pytest.mark.parametrize("reason", range(len(REASONS)))
def test_fee_and_channel_are_as_the_document_says(reason):
    shop = world()
    for parameters in ALL_PARAMETERS[::13]:
        understood = read_document(rules.document(parameters))
        for order in range(0, len(shop.item), 101):
            facts = rules.order_facts(shop, order, reason)
            blameless = REASONS[reason] in ("damaged", "wrong_item")
            fee = 0 if blameless else understood["fee"]
            late = facts["days"] > understood["credit_after"]
            assert RULES.term("fee", facts, parameters) == fee
            assert RULES.term("channel", facts, parameters) == late


def test_what_a_read_shows_is_what_the_document_says():
    """The findings are functions of the order and the document; on arrays as on numbers."""
    shop = world()
    facts = {
        "stage": np.array(shop.stage),
        "category": np.array([shop.category(order) for order in range(len(shop.item))]),
        "days": np.array([shop.days_since_delivery(order) for order in range(len(shop.item))]),
        "amount": np.array(shop.amount),
        "reason": np.full(len(shop.item), -1),
    }
    for parameters in ALL_PARAMETERS[::7]:
        p = read_document(rules.document(parameters))
        expected = {
            "cancellable": facts["stage"] <= p["cancel_stage"],
            "address_open": facts["stage"] <= p["address_stage"],
            "in_window": (facts["stage"] == 3) & (facts["days"] <= p["return_window"]),
            "final_sale": facts["category"] == p["final_sale"],
            "large": facts["amount"] > p["transfer_above"],
            "credit_late": facts["days"] > p["credit_after"],
        }
        found_in = rules.findings(facts, parameters)
        assert set(found_in) == set(expected)
        assert all(np.array_equal(found_in[name], expected[name]) for name in expected)
        for order in range(0, len(shop.item), 211):
            one = rules.findings(rules.order_facts(shop, order), parameters)
            assert {k: bool(v) for k, v in one.items()} == {
                k: bool(v[order]) for k, v in expected.items()
            }


def test_the_document_names_every_reason_and_every_alternative():
    said_as = {
        "return_later": "a return after delivery",
        "store_credit": "store credit",
        "pickup": "a pickup point",
    }
    refusals = [rule for rule in RULES.rules if rule.effect == REFUSE]
    assert {rule.code for rule in refusals} == set(rules.DENIALS)
    assert {rule.alternative for rule in refusals} - {""} == set(said_as) == set(rules.OFFERS)
    for parameters in ALL_PARAMETERS[::97]:
        lines = rules.document(parameters).splitlines()
        for rule in refusals:
            line = next(line for line in lines if f"reason: {rule.code}" in line)
            assert not rule.alternative or f"offer {said_as[rule.alternative]}" in line.replace(
                "offer goodwill store credit", "offer store credit"
            )
        assert not any("{" in line or "}" in line for line in lines)


def test_every_obligation_that_is_checked_is_written_down():
    document = rules.document(ALL_PARAMETERS[0])
    assert "Authenticate the customer before you tell anything about an order" in document
    assert "Before any change ask the customer to confirm" in document
    assert "Read the order before you decide, refuse or transfer" in document
    obliged = {rule.code for rule in RULES.rules if rule.effect == OBLIGE}
    checked = {"disclosed_before_authentication", "wrote_before_authentication"}
    assert checked | {"wrote_without_confirmation"} <= obliged & set(rules.VIOLATIONS)
