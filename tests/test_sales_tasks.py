"""Sales tasks are right by construction: shelves, splits, walk-away prices, decisions, lengths."""

import itertools
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sales_driven import DESK, begin, played, succeeded

from convgym.domains.sales import rules, shelves, tasks, world
from convgym.domains.sales.scenario import _OBJECTS
from convgym.domains.sales.tasks import (
    _draw_task,
    draw_task,
    held_out_objection,
    walk_position,
)
from convgym.domains.sales.vocabulary import (
    DENIALS,
    KNOWLEDGES,
    MISTAKEN,
    OBJECTIONS,
    PARTIAL,
    SWITCHES,
    U,
)
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER
from convgym.engine.tasks import SPLITS, parse_task_id
from convgym.policies.sales import OraclePolicy
from convgym.users import decisions
from convgym.users.decisions import DecisionModel
from convgym.users.persona import Persona

SHOP = world.world()
every_split = pytest.mark.parametrize("split", SPLITS)
USUAL = ("train", "validation", "test", "test_persona", "test_lexical")


@cache  # and not at import, where every process would draw them
def sample(split):
    """2,000 tasks from all over a split."""
    return [draw_task(split, number * (SPLITS[split] // 2000)) for number in range(2000)]



# -- the catalogue ---------------------------------------------------------------------------------


def test_names_are_of_one_product_and_features_of_one_category():
    names = [name.lower() for names in world.NAMES for name in names]
    assert len(set(names)) == len(names) == world.PRODUCTS == 72
    features = [name for row in world.FEATURES for name, _ in row]
    uses = [use for row in world.FEATURES for _, use in row]
    assert len(set(features)) == len(set(uses)) == 48
    assert not any(name in use.lower() for name in features for use in uses)
    for product in range(world.PRODUCTS):
        assert world.product_by_name(SHOP.name(product).upper()) == product
        named = SHOP.feature_names(product)
        assert world.mask_of(product // world.EACH, named) == SHOP.features[product]


@given(
    st.integers(0, 63), st.integers(0, 5), st.integers(0, 40), st.integers(1000, 9_000_000),
    st.sampled_from((0, 50, 100, rules.OWN_STRETCH)), st.booleans(),
)  # fmt: skip
def test_what_is_on_sale_is_in_stock_and_not_too_dear(
    week, category, quantity, budget, stretch, borderline
):
    products = range(category * 12, category * 12 + 12)
    if borderline:  # the price of one of them is just what may be paid
        budget = -(-SHOP.price[week][products[budget % 12]] * 1000 // (1000 + stretch))
    sold = shelves.on_sale(SHOP, week, category, quantity, budget, stretch)
    for place, product in enumerate(products):
        dear = rules.excess(SHOP.price[week][product], budget) > stretch
        assert sold >> place & 1 == (SHOP.stock[week][product] >= quantity and not dear)


def test_a_search_shows_the_cheapest_of_what_fits():
    for week, category, must in itertools.product((0, 33, 63), range(6), shelves.NEEDS):
        slow = [
            product
            for product in range(72)
            if product // 12 == category
            and all(SHOP.features[product] >> f & 1 for f in range(8) if must >> f & 1)
        ]
        assert SHOP.matching(category, must) == slow
        slow.sort(key=lambda product: (SHOP.price[week][product], product))
        assert list(shelves.fitting(week, category, must)) == slow[:4]
        if not slow:
            near = SHOP.nearest(week, category, must)
            assert SHOP.stock[week][near] > 0
            assert near // 12 == category


def test_money_is_written_one_way():
    assert world.money_text(124900) == "$1,249"
    assert world.money_text(118655) == "$1,186.55"
    assert world.money_text(1900) == "$19"
    assert [world.percent_text(p) for p in (0, 25, 50, 125)] == ["0%", "2.5%", "5%", "12.5%"]


# -- the walk-away price ---------------------------------------------------------------------------

REAL = {0: "0.96", 250: "0.94", 500: "0.89", 750: "0.82", 1000: "0.66"}


def test_the_walk_away_price_survives_as_real_buyers_do():
    """All 10,000 draws, counted; between the five points the function is a straight line."""
    positions = [walk_position(drawn) for drawn in range(10_000)]
    for x, share in REAL.items():
        assert Fraction(sum(position >= x for position in positions), 10_000) == Fraction(share)
    for low in (0, 250, 500, 750):
        ends = float(REAL[low]), float(REAL[low + 250])
        for part in (0.2, 0.5, 0.8):
            share = sum(position >= low + 250 * part for position in positions) / 10_000
            assert share == pytest.approx(ends[0] + part * (ends[1] - ends[0]), abs=0.002)
    assert min(positions) == -400
    assert max(positions) < 1300


@pytest.mark.parametrize("split", USUAL)
def test_tasks_draw_it_so(split):
    sold = [task for task in sample(split) if task.branch == tasks.SELL]
    for x, share in REAL.items():
        paid = sum(
            task.walk >= task.target * 1000 + x * (1000 - task.target) for task in sold
        )
        assert paid / len(sold) == pytest.approx(float(share), abs=0.04)


# -- decisions, by a slow second way ---------------------------------------------------------------


def slow_authority(task, product):
    """Per mille off a product, read off the document's sentences."""
    on = {name for bit, name in enumerate(SWITCHES) if task.switches >> bit & 1}
    parameters = dict(zip(rules.PARAMETERS, task.parameters, strict=True))
    if "clearance_firm" in on and SHOP.clearance[task.week][product]:
        return 0, "clearance_firm"
    if "last_piece" in on and SHOP.stock[task.week][product] == task.quantity:
        return 0, "last_piece"
    if "quantity_discount" in on and task.quantity >= parameters["many_from"]:
        return parameters["authority"] + 50, "beyond_authority"
    return parameters["authority"], "beyond_authority"


def slow_decision(task):
    """(effect, reason, products to sell) from the catalogue, the wish and the policy."""
    on = {name for bit, name in enumerate(SWITCHES) if task.switches >> bit & 1}
    parameters = dict(zip(rules.PARAMETERS, task.parameters, strict=True))
    fits = SHOP.matching(task.category, task.must)
    if task.quantity > parameters["bulk_above"]:
        return TRANSFER, "bulk", None
    if not fits:
        return REFUSE, "not_carried", ()
    stretch = parameters["stretch"] if "within_budget" in on else 250
    sold = [
        product
        for product in fits
        if SHOP.stock[task.week][product] >= task.quantity
        and SHOP.price[task.week][product] * 1000 <= task.budget * (1000 + stretch)
    ]
    if not sold:
        return REFUSE, "out_of_stock", ()
    dearest = parameters["large_above"]
    if "large_total" in on:
        assert all(SHOP.price[task.week][p] * task.quantity > dearest for p in sold)
        return TRANSFER, "large_total", sold
    most, reason = max(slow_authority(task, product) for product in sold)
    if task.walk >= 1000 * (1000 - most):
        return ALLOW, "", sold
    return REFUSE, reason, sold


@every_split
def test_the_decision_follows_from_the_catalogue_and_the_rules(split):
    for task in sample(split):
        effect, reason, sold = slow_decision(task)
        assert (task.decision.effect, task.decision.reason) == (effect, reason), task
        if sold is not None:
            assert sorted(task.eligible) == sorted(sold)
        alternatives = {"not_carried": "nearest", "out_of_stock": "waitlist"}
        assert task.decision.alternative == alternatives.get(reason, "")
        if sold:
            most = max(slow_authority(task, product)[0] for product in sold)
            assert task.allowed == most
            assert set(task.best) == {p for p in sold if slow_authority(task, p)[0] == most}


@every_split
def test_numbers_are_those_of_the_rules(split):
    for task in sample(split):
        parameters = dict(zip(rules.PARAMETERS, task.parameters, strict=True))
        for name, value in parameters.items():
            assert value in (*rules.PARAMETERS[name], 0)
        steps = parameters["authority"] / parameters["step"]
        assert 1 <= steps <= rules.MOST_STEPS
        assert 1 <= task.must.bit_count() <= 2
        assert task.must >> task.first & 1
        assert task.nice < 0 or not task.must >> task.nice & 1
        if task.knowledge == PARTIAL:
            assert task.must == 1 << task.first | 1 << task.second
        assert len(SHOP.matching(task.category, task.must)) <= world.IN_VIEW
        assert task.week in tasks.weeks_of(split)


@every_split
def test_what_is_mixed_up_comes_out(split):
    """There is something to sell for the wrong need, and none of it would do."""
    mixed = [task for task in sample(split) if task.wrong >= 0]
    assert len(mixed) > 1000
    for task in mixed:
        within = rules.is_on(task.switches, "within_budget")
        stretch = rules.parameter_dict(task.parameters)["stretch"] if within else 250
        sold = [
            product
            for product in shelves.fitting(task.week, task.category, 1 << task.wrong)
            if SHOP.stock[task.week][product] >= task.quantity
            and SHOP.price[task.week][product] * 1000 <= task.budget * (1000 + stretch)
        ]
        assert sold
        assert all(SHOP.features[product] & task.must != task.must for product in sold)
    assert all(task.wrong >= 0 for task in sample(split) if task.knowledge == MISTAKEN)


# -- splits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", USUAL)
def test_usual_splits_hold_nothing_that_is_held_out(split):
    for task in sample(split):
        assert task.category != tasks.HELD_OUT_CATEGORY
        assert task.objection != tasks.HELD_OUT_OBJECTION
        assert task.objection != held_out_objection(task.category)
        assert not any(rules.is_on(task.switches, name) for name in rules.HELD_OUT)
        document = DESK.policy_document(task)
        for rule in rules.RULES.rules:
            if rule.held_out and rule.text:
                assert rule.text.split("{")[0] not in document


def test_the_compositional_split_has_only_pairs_that_training_lacks():
    pairs = {(task.category, task.objection) for task in sample("test_compositional")}
    assert pairs == {(c, held_out_objection(c)) for c in range(5)}
    trained = {(task.category, task.objection) for task in sample("train")}
    assert not pairs & trained
    for category, objection in pairs:  # both of each are met singly
        assert category in {one for one, _ in trained}
        assert objection in {other for _, other in trained}


def test_the_primitive_split_is_of_the_new_category_and_half_of_a_new_objection():
    drawn = sample("test_primitive")
    assert {task.category for task in drawn} == {tasks.HELD_OUT_CATEGORY}
    objecting = [task.objection for task in drawn if task.objection >= 0]
    share = objecting.count(tasks.HELD_OUT_OBJECTION) / len(objecting)
    assert share == pytest.approx(0.5, abs=0.05)


def test_a_held_out_rule_decides_each_task_of_the_policy_split():
    """Without it the same task would end another way, or what is right would be a breach."""
    counted = Counter()
    for task in sample("test_policy"):
        on = [name for name in rules.HELD_OUT if rules.is_on(task.switches, name)]
        assert len(on) == 1
        counted[on[0]] += 1
        parameters = rules.parameter_dict(task.parameters)
        if on[0] == "quantity_discount":
            assert task.decision.effect == ALLOW
            assert not task.pays(parameters["authority"])  # no deal without it
            assert task.pays(parameters["authority"] + 50)
        elif on[0] == "last_piece":
            assert (task.decision.effect, task.decision.reason) == (REFUSE, "last_piece")
            assert task.pays(parameters["authority"])  # a deal without it
        elif on[0] == "large_total":
            assert task.decision.effect == TRANSFER
        else:
            assert task.decision.effect == ALLOW
            assert not rules.is_on(task.switches, "addon_first")
    assert set(counted) == set(rules.HELD_OUT)
    assert min(counted.values()) > 150


@every_split
def test_at_most_a_quarter_are_refused_or_transferred(split):
    ends = Counter((task.decision.effect, task.decision.reason) for task in sample(split))
    other = sum(count for (effect, _), count in ends.items() if effect != ALLOW)
    assert other <= 0.25 * 2000
    assert max(count for (effect, _), count in ends.items() if effect != ALLOW) < 0.15 * 2000
    reasons = {reason for effect, reason in ends if effect == REFUSE}
    if split in USUAL:
        assert reasons == set(DENIALS) - {"last_piece"}


def test_tasks_differ_in_substance_and_splits_share_none():
    signatures = {split: {DESK.signature(task) for task in sample(split)} for split in SPLITS}
    for split, distinct in signatures.items():
        print(f"{split}: {len(distinct)} distinct of {len(sample(split))}")
        assert len(distinct) > 1950
    for one, other in itertools.combinations(("train", "validation", "test"), 2):
        assert not signatures[one] & signatures[other]
        assert not set(tasks.weeks_of(one)) & set(tasks.weeks_of(other))


@every_split
def test_the_table_says_of_all_tasks_what_each_says_of_itself(split):
    table = DESK.table(split)
    assert len(table.topic) == SPLITS[split]
    step = SPLITS[split] // 2000
    for place, task in enumerate(sample(split)):
        assert table.topic[place * step] == task.category
    assert (table.hardness >= 0).all()
    assert len(np.unique(table.hardness)) > 4


@every_split
def test_a_task_is_rebuilt_from_its_name(split):
    for task in sample(split)[::20]:
        name, number = parse_task_id(task.task_id)
        assert _draw_task(name, number) == task


# -- nothing for free ------------------------------------------------------------------------------


@every_split
def test_the_goal_does_not_hold_at_the_start(split):
    for number, task in enumerate(sample(split)[:500]):
        graded = DESK.grade(begin(task, number)[0])
        assert not graded.success
        assert graded.graded == graded.progress == 0.0


class Fixed(DecisionModel):
    """These choices always turn out the same way; the others are the buyer's."""

    def __init__(self, **wanted):
        super().__init__()
        self.wanted = {decisions.NUMBER[name]: value for name, value in wanted.items()}

    def choice(self, point, persona, situation=0):
        if point in self.wanted:
            return (2**32 if self.wanted[point] else 0, 0, 0)
        return super().choice(point, persona, situation)


SILENT = {"greet_only": 0, "front_load": 0, "volunteer": 0}
UNQUESTIONING = {"ask_why": 0, "ask_meaning": 0, "doubt": 0, "ask_next": 0}
EASY = {"misremember": 0, "look_up": 1, "push_again": 0, "accept": 1, "close_now": 1,
        "haggle": 0, "object": 0, "take_extra": 1}  # fmt: skip


@every_split
def test_the_oracle_length_is_exact_for_a_buyer_who_answers_and_no_more(split):
    user, known = DESK.make_user(Fixed(**SILENT, **UNQUESTIONING, **EASY)), Counter()
    for number, task in enumerate(sample(split)[::4]):
        episode = played(OraclePolicy(), task, number, user, Persona())
        assert (episode.turn, succeeded(episode)) == (task.oracle_length, True), task
        known[task.knowledge] += 1
    assert len(known) == len(KNOWLEDGES)


@every_split
def test_talk_and_slips_only_ever_take_longer(split):
    user = DESK.make_user(Fixed(**SILENT, haggle=0, look_up=1, take_extra=1))
    for number, task in enumerate(sample(split)[:300]):
        episode = played(OraclePolicy(), task, number, user)
        assert succeeded(episode)
        assert episode.turn >= task.oracle_length


# -- the document ----------------------------------------------------------------------------------


@every_split
def test_a_document_is_its_policy_and_nothing_else(split):
    by_document = {}
    for task in sample(split):
        document = DESK.policy_document(task)
        policy = (task.switches, task.parameters)
        assert by_document.setdefault(document, policy) == policy
        assert len(document) < 3000
        assert not any(SHOP.name(product) in document for product in range(72))
    assert len(by_document) > 100


def test_every_switch_changes_the_document():
    parameters = rules.parameter_dict((100, 50, 5, 100, 3, 100000))
    plain = rules.document(0, parameters)
    assert plain.count("\n- ") >= 10
    documents = {rules.document(rules.switch_bits(name), parameters) for name in SWITCHES}
    assert len(documents | {plain}) == len(SWITCHES) + 1
    held = {rule.code for rule in rules.RULES.rules if rule.held_out}
    assert {rules._SWITCH_OF[code] for code in held} == set(rules.HELD_OUT)


@every_split
def test_a_buyer_can_say_what_the_task_needs(split):
    for task in sample(split):
        episode, _ = begin(task, 1)
        need, budget, quantity = episode.user.knowledge.ladders
        assert need[-1] == U["inform_needs"]
        assert budget[-1] == U["inform_budget"]
        assert quantity == (U["inform_quantity"],)
        context, right = DESK.scenario(task)
        assert world.CATEGORIES[task.category] in context
        assert right.startswith("The agent ")
        if task.objection >= 0:
            assert _OBJECTS[OBJECTIONS[task.objection]] in context
