"""The policy of technical support: document, decision and checker come from the same rules."""

import re

import pytest

from convgym.domains.technical_support import rules
from convgym.domains.technical_support.facts import (
    EVENTS,
    EVIDENCE,
    FACT_SOURCES,
    OFFERS,
    PARAMETERS,
    RECORD_FACTS,
)
from convgym.domains.technical_support.goals import facts_of
from convgym.domains.technical_support.tasks import RULE_OF, draw_task
from convgym.domains.technical_support.vocabulary import (
    FIRST_WRITE,
    OPERATION,
    ORDER_REPLACEMENT,
)
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER, Decision
from convgym.engine.tasks import SPLITS

every_split = pytest.mark.parametrize("split", SPLITS)


def test_there_are_enough_rules_and_each_is_known():
    assert len(rules.RULES.rules) >= 12
    held_out = [rule.code for rule in rules.OPTIONAL if rule.held_out]
    assert len(held_out) >= 3 and sum(rules.BIT[code] for code in held_out) == rules.HELD_OUT
    assert rules.RULES.common == rules.rule_set(rules.COMMON)
    assert set(RULE_OF.values()) <= {*rules.OPTIONAL_CODES}
    assert set(OFFERS) == {rule.alternative for rule in rules.RULES.rules} - {""}
    assert set(rules.DECIDING) == {*rules.REFUSALS, *rules.TRANSFERS} - {"unverified"}
    assert set(FACT_SOURCES) == set(RECORD_FACTS) and set(RECORD_FACTS).isdisjoint(EVIDENCE)
    assert {*RECORD_FACTS, *EVIDENCE}.isdisjoint(PARAMETERS)
    fields = {
        condition.field for rule in rules.RULES.rules for condition in (*rule.when, *rule.requires)
    }
    assert fields <= {*RECORD_FACTS, *EVIDENCE, "technician_due"}
    events = {event for row in EVENTS.values() for event in row}
    ons = {rule.on for rule in rules.RULES.rules}
    assert ons <= events | {"support", "disclose", "unverified", "solved", "technician_due"}


@every_split
def test_the_document_says_the_active_rules_and_no_other(split):
    for task in (draw_task(split, number) for number in range(300)):
        parameters = rules.parameter_dict(task.parameters)
        text = rules.document(task.active, parameters)
        assert "{" not in text and "\n- \n" not in text
        for rule in rules.OPTIONAL:
            sentence = max(re.split(r"{\w+}", rule.text), key=len)
            assert (sentence in text) == bool(task.active & rules.BIT[rule.code])
        assert f"first {parameters['warranty']} months" in text
        assert f"More data costs ${parameters['limit_fee']}" in text


def test_a_decision_by_hand():
    parameters = {name: values[0] for name, values in PARAMETERS.items()}
    facts = facts_of(draw_task("test", 0)) | dict.fromkeys(EVIDENCE, 0)
    facts |= {"third_party": 0, "outage": 0, "wet": 0, "months": 13, "kind": 5}
    assert rules.decide(0, -1, facts, parameters) == Decision(ALLOW)
    refused = rules.decide(0, ORDER_REPLACEMENT, facts, parameters)
    assert refused == Decision(REFUSE, "out_of_warranty", "paid_repair")
    facts["months"] = 12
    assert rules.decide(0, ORDER_REPLACEMENT, facts, parameters) == Decision(ALLOW)
    broken = rules.breaches(0, ORDER_REPLACEMENT, facts, parameters)
    assert {code for code, breach in broken.items() if breach} == {
        "wrote_before_authentication",
        "wrote_without_confirmation",
        "replaced_without_asking_for_damage",
        "replaced_without_restart",
    }
    facts["wet"] = 1
    assert rules.decide(0, -1, facts, parameters) == Decision(TRANSFER, "water_damage")


UNMET = {
    "restart": {"worked_without_looking_up_the_area", "damage_unasked"},
    "swap_cable": {"worked_without_looking_up_the_area", "damage_unasked", "unplugging_untold"},
    "factory_reset": {
        "worked_without_looking_up_the_area",
        "damage_unasked",
        "reset_without_warning",
        "reset_without_consent",
        "reset_without_update",
    },
    "reset_port": {"port_reset_without_line_test", "interruption_untold"},
    "push_config": {"configured_without_reading_the_plan", "interruption_untold"},
    "unlock_sim": {"unlocked_without_pin", "interruption_untold"},
    "raise_limit": {"limit_fee_untold"},
    "order_replacement": {
        "replaced_without_asking_for_damage",
        "replaced_without_restart",
        "delivery_untold",
    },
    "book_technician": {
        "technician_without_line_test",
        "technician_without_cable_check",
        "technician_fee_untold",
    },
}
OF_EVERY_WRITE = {
    "wrote_before_authentication",
    "wrote_without_confirmation",
    "wrote_without_looking_up_the_area",
}


@pytest.mark.parametrize("name", UNMET)
def test_what_has_to_come_first(name):
    """All rules on, nothing done yet: what an operation on a router would break."""
    parameters = {name: values[0] for name, values in PARAMETERS.items()}
    facts = dict.fromkeys(EVIDENCE, 0) | {"kind": 0, "technician_due": 20}
    everything = rules.COMMON | rules.HELD_OUT
    broken = rules.breaches(everything, OPERATION[name], facts, parameters)
    expected = UNMET[name] | (OF_EVERY_WRITE if OPERATION[name] >= FIRST_WRITE else set())
    assert {code for code, breach in broken.items() if breach} == expected
    met = dict.fromkeys(EVIDENCE, 1) | {"kind": 0, "technician_due": 20, "factors": 2}
    assert not any(rules.breaches(everything, OPERATION[name], met, parameters).values())
    facts |= {"kind": 5, "technician_due": 0}  # a camera needs no line, a free technician no price
    broken = rules.breaches(everything, OPERATION[name], facts, parameters)
    spared = {"worked_without_looking_up_the_area", "wrote_without_looking_up_the_area"}
    assert {code for code, breach in broken.items() if breach} == expected - spared - {
        "technician_fee_untold"
    }


def test_every_obligation_belongs_to_something():
    broken = set().union(*UNMET.values(), OF_EVERY_WRITE)
    elsewhere = {"disclosed_before_authentication", "closed_without_restart"}
    assert broken | elsewhere == set(rules.VIOLATIONS)


def test_a_technician_costs_the_plus_plan_nothing_where_the_policy_says_so():
    parameters = {name: values[-1] for name, values in PARAMETERS.items()}
    free = rules.BIT["technician_free"]
    for plan_held in range(3):
        facts = {"plan": plan_held}
        assert rules.technician_due(0, facts, parameters) == 60
        assert rules.technician_due(free, facts, parameters) == (0 if plan_held == 1 else 60)
