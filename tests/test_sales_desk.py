"""The shop's desk: obligations one by one, the truth of claims, tools and their errors."""

import dataclasses
import json

import pytest
from sales_driven import DESK, begin, played
from sales_seller import BUYER, PATIENT, SHOP, at, broken, do, objected, quoted, requote, sale

from convgym.domains.sales import calls, rules, tasks
from convgym.domains.sales.tasks import draw_task
from convgym.domains.sales.vocabulary import (
    ACTIONS,
    CREATE_QUOTE,
    FACT_DELIVERY,
    FACT_FEATURE,
    LAYOUT,
    TOLD,
    VIEW,
)
from convgym.domains.sales.world import money_text
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.rules import ALLOW
from convgym.language.tool_calls import RawCall
from convgym.policies.sales import OraclePolicy

# -- obligations, one by one -----------------------------------------------------------------------


def test_the_oracle_breaks_none_of_them():
    for number in range(300):
        assert not broken(played(OraclePolicy(), draw_task("train", number), number))


def test_recommending_before_the_needs_are_known():
    episode, engine = begin(sale(objection=-1), 5, BUYER, PATIENT)
    do(episode, engine, "search_catalogue", "get_product_0", "recommend_0")
    assert broken(episode) == {"recommended_before_needs"}


def test_recommending_before_the_budget_is_known_exactly():
    task = dataclasses.replace(sale(["budget_first"]), budget_kind=1)
    episode, engine, _ = at("ask_budget", task)
    do(episode, engine, "ask_budget", "ask_quantity", "search_catalogue", "get_product_0")
    assert episode.belief[LAYOUT["heard_budget_rough"]]
    do(episode, engine, "recommend_0")
    assert broken(episode) == {"recommended_before_budget"}


def test_recommending_what_is_above_the_budget():
    task = sale(["budget_first", "within_budget"])
    parameters = tuple(
        100 if name == "stretch" else value
        for name, value in zip(rules.PARAMETERS, task.parameters, strict=True)
    )
    dear = max(SHOP.price[task.week][p] for p in task.eligible)
    for budget, breaks in ((dear * 10 // 12, True), (dear * 10 // 11 + 1, False)):
        poor = dataclasses.replace(task, budget=budget, parameters=parameters)
        episode, engine = begin(poor, 5, BUYER, PATIENT)
        do(episode, engine, "ask_need", "ask_need", "ask_budget", "ask_budget", "ask_quantity",
           "search_catalogue")  # fmt: skip
        k = next(
            k for k in VIEW
            if k < len(episode.desk.view)
            and SHOP.price[task.week][episode.desk.view[k]] == dear
        )  # fmt: skip
        do(episode, engine, f"get_product_{k}")
        assert episode.belief[LAYOUT[f"over_budget_{k}"]] == breaks
        do(episode, engine, f"recommend_{k}")
        assert broken(episode) == ({"recommended_over_budget"} if breaks else set())


def test_recommending_what_was_not_read():
    episode, engine, _ = at("get_product")
    do(episode, engine, "recommend_0")
    assert broken(episode) == {"recommended_unread"}
    assert episode.user_turn.acts[0] == DESK.vocabulary["challenge"]


@pytest.mark.parametrize("discount", [1, 25, 100])
def test_a_first_quote_below_the_list_price(discount):
    episode, engine, k = at("create_quote")
    quantity = episode.task.quantity
    engine.apply(episode, AgentTurn(calls=(Call(CREATE_QUOTE, quantity, k, discount),)))
    assert "first_quote_below_list" in broken(episode)


@pytest.mark.parametrize(
    ("discount", "breaks"),
    [
        (25, set()),
        (50, set()),
        (51, {"discounted_too_fast"}),
        (200, {"discounted_too_fast"}),
        (201, {"discounted_too_fast", "discount_beyond_authority"}),
        (0, set()),
    ],
)
def test_going_down_by_one_step_and_within_authority(discount, breaks):
    episode, engine, k = objected()
    requote(episode, engine, k, discount)
    assert broken(episode) == breaks


def test_going_down_unasked():
    episode, engine, k = objected()
    do(episode, engine, f"lower_quote_{k}")
    assert not broken(episode)
    do(episode, engine, f"lower_quote_{k}")  # the buyer has not even heard the one before
    assert broken(episode) == {"discounted_unasked"}


def test_an_objection_to_one_price_is_none_to_another_product():
    for number in range(4000):
        task = draw_task("train", number)
        if task.branch == tasks.SELL and len(task.eligible) > 1 and not task.pays(0):
            break
    task = dataclasses.replace(task, switches=0, knowledge=0, objection=-1)
    episode, engine, k = at("lower_quote", task)
    other = next(
        j for j in VIEW
        if j < len(episode.desk.view) and j != k and episode.desk.view[j] in task.eligible
    )  # fmt: skip
    do(episode, engine, f"create_quote_{other}", f"lower_quote_{other}")
    assert broken(episode) == {"discounted_unasked"}


def test_lowering_beyond_the_lowest_price():
    episode, engine, k = objected()
    for _ in range(4):
        do(episode, engine, f"lower_quote_{k}", f"quote_{k}")
    assert episode.belief[LAYOUT[f"at_floor_{k}"]]
    assert not broken(episode)
    do(episode, engine, f"lower_quote_{k}")
    assert "discount_beyond_authority" in broken(episode)


def test_no_discount_on_clearance_goods_where_that_rule_is_in_force():
    task = next(
        task
        for task in (draw_task("train", number) for number in range(6000))
        if task.branch == tasks.SELL and task.decision.reason == "clearance_firm"
    )
    for switches, breaks in (
        (("clearance_firm",), {"discount_beyond_authority"}),
        ((), set()),
    ):
        changed = dataclasses.replace(task, switches=rules.switch_bits(*switches), objection=-1)
        episode, engine, k = at("quote", changed)
        do(episode, engine, f"quote_{k}")
        assert episode.desk.objected
        do(episode, engine, f"lower_quote_{k}")
        assert broken(episode) == breaks


def test_a_quote_for_last_pieces_and_for_many_pieces():
    """The two held-out rules on prices, by hand."""
    parameters = rules.parameter_dict((100, 50, 5, 0, 3, 0))
    last, many = rules.switch_bits("last_piece"), rules.switch_bits("quantity_discount")
    assert rules.authority(0, parameters, 1, 4, 4) == 100
    assert rules.authority(last, parameters, 0, 4, 4) == 0
    assert rules.authority(last, parameters, 0, 5, 4) == 100
    assert rules.authority(many, parameters, 0, 9, 2) == 100
    assert rules.authority(many, parameters, 0, 9, 3) == 150
    assert rules.price_refusal(last, 0, 0, 4, 4, 0).reason == "last_piece"
    assert rules.price_refusal(last, 100, 0, 5, 4, 100).reason == "beyond_authority"
    assert rules.price_refusal(last, 100, 0, 5, 4, 50).effect == ALLOW


def test_booking_without_a_yes_and_what_was_not_asked():
    episode, engine, k = at("confirm")
    do(episode, engine, f"book_order_{k}")
    assert broken(episode) == {"booked_without_confirmation"}
    episode, engine, k = at("book_order")
    do(episode, engine, f"add_addon_{k}", f"book_order_{k}")
    wants = episode.desk.addon == 1
    assert not wants
    assert broken(episode) == {"booked_without_confirmation", "booked_what_was_not_asked"}


def test_the_addon_before_booking_once_and_not_where_none_are_sold():
    episode, engine, _ = at("offer_addon", sale(["addon_first"]))
    k = quoted(episode)
    do(episode, engine, f"confirm_{k}", f"book_order_{k}")
    assert broken(episode) == {"booked_before_addon"}
    episode, engine, _ = at("confirm")
    do(episode, engine, "offer_addon")
    assert not broken(episode)
    do(episode, engine, "offer_addon")
    assert broken(episode) == {"offered_addon_again"}
    episode, engine, _ = at("confirm", sale(["addon_never"]))
    do(episode, engine, "offer_addon")
    assert broken(episode) == {"offered_addon_against_rules"}


# -- claims ----------------------------------------------------------------------------------------


def test_a_price_that_is_not_the_quotes_is_a_falsehood_and_disbelieved():
    episode, engine, k = at("quote")
    engine.apply(episode, AgentTurn((Said(acts.QUOTE, TOLD, k, 1, acts.FALSE),)))
    assert broken(episode) == {"told_a_falsehood"}
    assert DESK.vocabulary["challenge"] in episode.user_turn.acts
    assert not episode.belief[LAYOUT[f"told_price_{k}"]]


@pytest.mark.parametrize("reason", ["beyond_authority", "clearance_firm", "last_piece"])
def test_no_lower_price_is_a_falsehood_while_one_is(reason):
    episode, engine, k = objected()
    do(episode, engine, f"deny_{reason}")
    assert broken(episode) == {"told_a_falsehood"}
    episode, engine, k = objected()
    for _ in range(3):
        do(episode, engine, f"lower_quote_{k}", f"quote_{k}")
    do(episode, engine, f"deny_{reason}")
    assert broken(episode) == {"told_a_falsehood"}


def test_facts_of_products_that_were_read_and_of_others():
    task = sale(objection=-1)
    task = dataclasses.replace(task, nice=0 if not task.must & 1 else 7)
    episode, engine, k = at("inform_feature", task)
    product = episode.desk.view[k]
    assert DESK.view(episode)["heard"]["feature"]
    has = SHOP.features[product] >> task.nice & 1
    assert DESK.view(episode)["products"][str(k)]["has_asked"] == bool(has)
    saved = episode.snapshot()
    do(episode, engine, f"inform_feature_{k}")
    assert episode.desk.feature < 0
    assert not episode.user.curious
    lie = Said(acts.TELL, FACT_FEATURE, k, 1 + 2 * task.nice + (1 - has), acts.FALSE)
    engine.apply(saved, AgentTurn((lie,)))
    assert broken(saved) == {"told_a_falsehood"}
    episode, engine, _ = at("get_product")
    engine.apply(episode, AgentTurn((Said(acts.TELL, FACT_DELIVERY, 0),)))
    assert not broken(episode)  # a guess is no lie, but nobody believes it
    assert DESK.vocabulary["challenge"] in episode.user_turn.acts


# -- tools -----------------------------------------------------------------------------------------


def called(episode, name, **arguments):
    return json.loads(DESK.call(episode, RawCall(name, arguments)))


def test_calls_from_text_do_what_acts_do():
    episode, _, k = at("create_quote")
    by_act = episode.snapshot()
    answer = DESK.call(by_act, DESK.turn(by_act, ACTIONS[f"create_quote_{k}"]).calls[0])
    product = SHOP.name(episode.desk.view[k])
    for named in (product, product.upper(), f"product:{k + 1}"):
        copy = episode.snapshot()
        said = {"product": named, "quantity": str(episode.task.quantity), "discount": "0%"}
        assert called(copy, "create_quote", **said) == json.loads(answer)
        assert bytes(copy.belief) == bytes(by_act.belief)
    price = SHOP.price[episode.task.week][episode.desk.view[k]]
    assert json.loads(answer)["price"] == money_text(price)
    assert json.loads(answer)["total"] == money_text(price * episode.task.quantity)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_prduct", {}),
        ("get_product", {"product": "product:5"}),
        ("get_product", {"product": "Aroma Bar Deluxe"}),
        ("get_product", {}),
        ("create_quote", {"product": "product:1", "quantity": "0", "discount": "0"}),
        ("create_quote", {"product": "product:1", "quantity": "1", "discount": "-5"}),
        ("create_quote", {"product": "product:1", "quantity": "1", "discount": "2.55"}),
        ("create_quote", {"product": "product:1", "quantity": "1", "discount": "95"}),
        ("create_quote", {"product": "product:1", "quantity": "900", "discount": "0"}),
        ("book_order", {"product": "product:1"}),
        ("add_addon", {"product": "product:1"}),
        ("search_catalogue", {"category": "boats"}),
        ("search_catalogue", {"category": "laptops", "features": "flux drive"}),
    ],
)
def test_a_call_that_cannot_be_run_is_one_sentence_and_costs_an_error(name, arguments):
    episode, _, _ = at("get_product")
    answer = called(episode, name, **arguments)
    assert list(answer) == ["error"]
    assert episode.errors == 1
    assert not episode.violations


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("5", 50), ("7.5", 75), ("7.50 %", 75), ("12%", 120), ("", -1), ("x", -1),
     ("7.55", -1), ("٣", -1), ("-1", -1), ("1e2", -1), (".5", -1), ("1000", -1), ("5.", 50)],
)  # fmt: skip
def test_percentages_are_read_to_a_tenth(text, value):
    assert calls.per_mille(text) == value


def test_a_search_in_another_category_finds_nothing_that_fits():
    episode, _, _ = at("search_catalogue")
    other = "phones" if episode.task.category != 1 else "laptops"
    found = called(episode, "search_catalogue", category=other)
    assert len(found["products"]) == 4
    called(episode, "get_product", product="product:1")
    assert not episode.belief[LAYOUT["fits_0"]]
    assert not episode.belief[LAYOUT["none_found"]]
    assert episode.belief[LAYOUT["search_old"]]
