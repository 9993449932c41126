"""A domain's declaration: what it comes to, and every fault of a broken one, said at once."""

import copy
import re
import tomllib
from pathlib import Path

import pytest
from desk_driven import D, V

from convgym.desk.declaration import Declaration
from convgym.desk.loading import OBLIGATIONS, condition, declare
from convgym.desk.records import DeclaredRecords
from convgym.desk.tasks import Tasks
from convgym.desk.vocabulary import Vocabulary
from convgym.engine.rules import Condition
from convgym.errors import InvalidConfiguration

HERE = Path(__file__).parent
SHOP = HERE.parent / "convgym" / "domains" / "customer_service"
LIBRARY = HERE / "data" / "library_domain"
FILES = ("schema.toml", "workflows.toml", "rules.toml")


def contents(folder):
    return [tomllib.loads((folder / name).read_text("utf-8")) for name in FILES]


def faults_of(schema, workflows, rules):
    """The sentences, one for each fault."""
    with pytest.raises(InvalidConfiguration) as refused:
        declare(schema, workflows, rules, "here")
    said = str(refused.value)
    match = re.fullmatch(r"the domain in here has (\d+) fault\(s\): (.*)", said, re.DOTALL)
    assert match, said
    sentences = match[2].split("; ")
    assert int(match[1]) <= len(sentences)
    return int(match[1]), match[2]


# -- what it comes to ------------------------------------------------------------------------------


def test_the_shop_is_declared_by_its_files():
    assert declare(*contents(SHOP), "here") == D
    assert D.names == (
        "status", "cancel", "return", "address", "exchange", "refund", "subscription", "access",
        "warranty", "billing",
    )  # fmt: skip
    assert D.violations == OBLIGATIONS
    assert D.slots == (
        "email", "postcode", "order", "subscription", "charge", "reason", "address", "variant",
        "defect", "cause",
    )  # fmt: skip
    assert [workflow.name for workflow in D.writes] == [
        workflow.name for workflow in D.workflows if workflow.name != "status"
    ]
    assert set(D.reasons) == {rule.decision.reason for rule in D.refusals}
    assert {"unverified", "not_delivered"} <= set(D.reasons)
    assert all(reason in D.reasons for reason in ("outside_window", "charge_valid"))


def test_numbers_follow_the_declaration_alone():
    again = Vocabulary(declare(*contents(SHOP), "here"))
    assert again.layout.names == V.layout.names and again.actions.names == V.actions.names
    assert again.user_acts == V.user_acts
    assert len(set(V.layout.names)) == len(V.layout.names)
    for action in V.actions.actions:
        assert all(need in V.layout.names for need in action.needs)


def test_what_a_folder_leaves_out_is_filled_in():
    """The obligations, `auth_level` and the refusal of who is not verified stand in every desk."""
    schema, workflows, rules = contents(LIBRARY)
    declared = declare(schema, workflows, rules, "here")
    assert not {rule["code"] for rule in rules["rule"]} & set(OBLIGATIONS)
    assert declared.violations == OBLIGATIONS
    assert declared.parameters["auth_level"] == (1, 2)
    assert declared.reasons[0] == "unverified"
    document = declared.document("train", {n: v[0] for n, v in declared.parameters.items()})
    assert "Authenticate the reader" in document and "{" not in document


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("days > return_window", Condition("days", ">", "return_window")),
        ("stage < 3", Condition("stage", "<", 3)),
        ("received <= -1", Condition("received", "<=", -1)),
        ("town == not_served", Condition("town", "==", "not_served")),
        ("a != 0", Condition("a", "!=", 0)),
    ],
)
def test_a_condition_is_a_field_a_comparison_and_a_number(text, meant):
    assert condition(text) == meant


@pytest.mark.parametrize("text", ["", "days", "days >", "days>3", "days = 3", "3 < x < 5", None, 3])
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(InvalidConfiguration, match="no condition"):
        condition(text)


# -- one fault at a time ---------------------------------------------------------------------------


def put(path, value):
    """A change of one entry; `None` leaves it out."""

    def change(three):
        node = three
        for key in path[:-1]:
            node = node[key]
        if value is None:
            del node[path[-1]]
        else:
            node[path[-1]] = value

    return change


def added(rule):
    return lambda three: three[2]["rule"].append(rule)


SCHEMA, WORKFLOWS, RULES = 0, 1, 2
ONE_FAULT = {
    "a key there is not": (put((SCHEMA, "kind", "order", "colour"), "red"), "'colour' is not one"),
    "a section there is not": (put((WORKFLOWS, "workflows"), {}), "'workflows' is not one of"),
    "no name": (put((SCHEMA, "domain", "name"), None), "name and role are needed"),
    "no key": (put((SCHEMA, "account", "key"), None), "key is missing"),
    "no label": (put((SCHEMA, "kind", "charge", "label"), None), "[kind.charge]: label missing"),
    "neither facts nor tool": (
        put((WORKFLOWS, "workflow", "refund", "tool"), None), "either facts to tell or a tool",
    ),
    "an unknown kind": (
        put((WORKFLOWS, "workflow", "refund", "kind"), "parcel"), "kind 'parcel' is not one of",
    ),
    "an unknown detail": (
        put((WORKFLOWS, "workflow", "cancel", "details"), ["why"]),
        "[workflow.cancel]: 'why' of details is not declared in [detail]",
    ),
    "an unknown term": (
        put((WORKFLOWS, "workflow", "cancel", "terms"), ["price"]), "'price' of terms",
    ),
    "two details": (
        put((WORKFLOWS, "workflow", "return", "details"), ["reason", "cause"]), "one at most",
    ),
    "a fact of another kind": (
        put((SCHEMA, "fact", "eta"), "charge"), "'eta' is a fact of another kind, 'charge'",
    ),
    "a fact of no kind": (put((SCHEMA, "fact", "eta"), "parcel"), "eta is of the kind 'parcel'"),
    "a fact nobody tells": (
        put((WORKFLOWS, "workflow", "status", "facts"), ["status"]),
        "'eta' is told for no workflow",
    ),
    "a term of two workflows": (
        put((WORKFLOWS, "workflow", "exchange", "terms"), ["postage", "fee"]),
        "'fee' is told for return and exchange",
    ),
    "two things of one name": (
        put((SCHEMA, "kind", "charge", "label"), "item"), "'item' is two of the things",
    ),
    "two tools of one name": (
        put((WORKFLOWS, "workflow", "cancel", "tool"), "get_order"),
        "two tools are called 'get_order'",
    ),
    "a parameter without values": (
        put((RULES, "parameter", "fee", "values"), []), "[parameter.fee]: it needs values",
    ),
    "a text too few": (
        put((RULES, "parameter", "cancel_stage", "text"), ["x"]), "one text for each value",
    ),
    "no condition": (
        put((RULES, "rule", 7, "when"), ["stage"]),
        "rule 'not_cancellable': 'stage' is no condition",
    ),
    "an unknown parameter": (
        put((RULES, "rule", 7, "when"), ["stage > never"]), "'never' is no parameter",
    ),
    "an unknown event": (put((RULES, "rule", 7, "on"), "cancels"), "on 'cancels' is neither"),
    "an unknown effect": (put((RULES, "rule", 7, "effect"), "deny"), "an effect among allow"),
    "an unknown value": (
        added({"code": "x", "on": "fee", "effect": "term", "value": "dear", "text": ""}),
        "value 'dear' is no parameter",
    ),
    "a rule twice": (
        added({"code": "prepaid", "on": "subscription", "effect": "refuse"}),
        "rule 'prepaid': it stands twice",
    ),
    "a parameter of two workflows": (
        put((RULES, "rule", 7, "when"), ["stage > address_stage"]),
        "[parameter.address_stage]: it decides address and cancel",
    ),
    "a term without an end": (
        put((SCHEMA, "term", "mood"), ["good", "bad"]), "mood: its last rule",
    ),
    "a number for a name": (
        put((SCHEMA, "kind", "order", "label"), 3), "[kind.order]: label is 3; it has to be a name",
    ),
    "a word for a number": (
        put((SCHEMA, "kind", "order", "each"), "three"), "each is 'three'; it has to be a whole",
    ),
    "a word for a list": (
        put((WORKFLOWS, "workflow", "return", "details"), "reason"), "it has to be a list of names",
    ),
    "one value of a term": (put((SCHEMA, "term", "fee"), ["free"]), "[term]: fee is ['free']"),
    "a table for rules": (put((RULES, "rule"), {"code": "x"}), "write [[rule]] over each"),
    "a text for a workflow": (
        put((WORKFLOWS, "workflow", "access"), "unlock"), "[workflow.access]: it is 'unlock'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_FAULT)
def test_a_fault_is_said_with_its_place(name):
    change, said = ONE_FAULT[name]
    three = contents(SHOP)
    change(three)
    count, sentences = faults_of(*three)
    assert said in sentences
    assert count <= (6 if name == "a table for rules" else 3), sentences


# -- all at once -----------------------------------------------------------------------------------


TOGETHER = [
    "a key there is not", "a section there is not", "no name", "no key", "an unknown kind",
    "an unknown detail", "two details", "a fact nobody tells", "two things of one name",
    "two tools of one name", "a parameter without values", "no condition", "an unknown value",
    "a rule twice", "a term without an end", "a word for a number", "a text for a workflow",
]  # fmt: skip


def test_all_faults_are_said_at_once():
    """One of each sort that leaves the others standing, in one folder; none hides another."""
    three = contents(SHOP)
    for name in TOGETHER:
        ONE_FAULT[name][0](three)
    count, sentences = faults_of(*three)
    for name in TOGETHER:
        assert ONE_FAULT[name][1] in sentences, name
    assert count >= len(TOGETHER)


@pytest.mark.parametrize("first", range(len(TOGETHER)))
def test_any_two_faults_are_both_said(first):
    for second in TOGETHER[first + 1 :]:
        three = contents(SHOP)
        for name in (TOGETHER[first], second):
            ONE_FAULT[name][0](three)
        _, sentences = faults_of(*three)
        assert all(ONE_FAULT[name][1] in sentences for name in (TOGETHER[first], second))


def test_a_fault_has_one_order_in_every_process():
    three = contents(SHOP)
    for name in ("a rule twice", "two tools of one name", "an unknown kind"):
        ONE_FAULT[name][0](three)
    assert len({faults_of(*copy.deepcopy(three)) for _ in range(5)}) == 1


# -- whatever is put in ----------------------------------------------------------------------------


def places(node, at=()):
    """Every entry of nested tables and lists."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))


ANYTHING = (
    None, 3, -1, 100_000, 1.5, True, "", "x", "order", "status", "loan > 3", "Ω", [], [1, 2],
    [2, 1], ["x"], ["x", "x"], [[]], {}, {"x": 1}, {"words": 3}, {"range": [0]},
)  # fmt: skip


@pytest.mark.parametrize("folder", [SHOP, LIBRARY], ids=["shop", "library"])
@pytest.mark.parametrize("step", [6, pytest.param(3, marks=pytest.mark.slow)])
def test_whatever_stands_in_a_file_is_a_domain_or_a_sentence(folder, step):
    """Each entry in turn taken out, or replaced by some of `ANYTHING`."""
    original = contents(folder)
    every = [path for path in places(original) if len(path) > 1]
    declared = refused = 0
    for number, path in enumerate(every):
        for value in ANYTHING[number % step :: step]:
            three = copy.deepcopy(original)
            put(path, value)(three)
            try:
                made = declare(*three, "here")
                assert isinstance(made, Declaration) and Vocabulary(made)
                if folder == LIBRARY:
                    play(made, three[0])
                declared += 1
            except InvalidConfiguration as error:
                refused += 1
                assert "\n" not in str(error) and len(str(error)) < 4000
    assert declared > 50 and refused > 500


def play(declared, schema):
    """Records and tasks of it: these too are there or a sentence."""
    tasks = Tasks(declared, DeclaredRecords(declared, schema))
    for split in tasks.splits:
        assert tasks.draw(split, 3).split == split
        assert len(tasks.table(split).topic) > 0


def test_what_the_rules_weigh_has_to_be_there():
    schema, workflows, rules = contents(LIBRARY)
    place = next(n for n, rule in enumerate(rules["rule"]) if rule.get("when"))
    rules["rule"][place]["when"] = ["pages > 3"]
    declared = declare(schema, workflows, rules, "here")
    with pytest.raises(InvalidConfiguration, match="'pages' is nothing to weigh"):
        DeclaredRecords(declared, schema)
