"""Sales won without the work, or lost by words that were not said: each way is shut."""

import re

import pytest
from sales_driven import ACTIONS, DESK, Score
from sales_seller import at, broken, do, sale

from convgym.domains.sales import rules
from convgym.domains.sales.descriptions import PACKAGE
from convgym.domains.sales.labels import labels
from convgym.domains.sales.world import EVERY_NAME
from convgym.language.phrases import packaged, read_tables
from convgym.policies.null import OpenLoopPolicy
from convgym.policies.sales import BY_THE_BOOK, OraclePolicy

NAMING = ("quote", "confirm")
every_naming = pytest.mark.parametrize("naming", NAMING)


class Unrecommending(OraclePolicy):
    """Asks for no budget and recommends nothing: it names prices until one is taken."""

    name = "never recommends"

    def _qualify(self, see):
        if not see("heard_needs"):
            return "ask_need"
        return "" if see("heard_quantity") else "ask_quantity"

    def _sell(self, see, k):
        name = super()._sell(see, k)
        if not name.startswith("recommend"):
            return name
        for cell, act in (("quoted", "create_quote"), ("told_price", "quote")):
            if not see(f"{cell}_{k}"):
                return f"{act}_{k}"
        if see("price_accepted"):
            return self._close_deal(see, k)
        if see(f"at_floor_{k}"):
            return self._refuse(see, self._firm(see, k) or "beyond_authority", "")
        return self._give_way(see, k) if see("price_objected") else f"hold_price_{k}"


def test_who_never_recommends_is_not_spared_the_questions():
    """A repaired bug: it won every task, since the rules spoke of recommending alone."""
    score = Score(Unrecommending(), "test", 300)
    assert score.success < 0.75
    assert score.ends["violation"] > 0.8 * (300 - score.successes)
    for task, episode in score.failed:
        if episode.violations:
            assert rules.is_on(task.switches, "budget_first")


@every_naming
def test_a_price_before_the_budget_where_that_is_asked_first(naming):
    episode, engine, _ = at("ask_budget", sale(("budget_first",), budget_kind=1))
    do(episode, engine, "ask_need", "ask_quantity", "search_catalogue")
    do(episode, engine, "get_product_0", "create_quote_0")
    assert not broken(episode)
    do(episode, engine, f"{naming}_0")
    assert broken(episode) == {"recommended_before_budget"}


@every_naming
def test_a_price_of_what_was_not_read(naming):
    episode, engine, k = at("get_product", sale())
    do(episode, engine, f"create_quote_{k}")
    assert not broken(episode)
    do(episode, engine, f"{naming}_{k}")
    assert broken(episode) == {"recommended_unread"}


@every_naming
def test_a_price_after_the_questions_breaks_nothing(naming):
    episode, engine, k = at("recommend", sale(("budget_first", "within_budget")))
    do(episode, engine, f"create_quote_{k}", f"{naming}_{k}")
    assert not broken(episode)


def test_the_document_says_that_a_price_recommends():
    assert "names the price of a quote recommends" in DESK.policy_document(sale())


def test_selling_the_first_product_at_its_list_price_wins_what_such_buyers_are():
    """The best constant behaviour that was found: qualified by the book, every objection answered,
    the cheapest that fits at its list price. Less than a fifth of the tasks ask for no more."""
    answers = tuple(name for name in ACTIONS.names if name.startswith("answer_"))
    script = (
        *BY_THE_BOOK["book, end"][:-1],
        "recommend_0", "inform_feature_0", "create_quote_0", "confirm_0", *answers, "offer_addon",
        "confirm_0", "confirm_0", "book_order_0", "report_done", "end_conversation",
    )  # fmt: skip
    score = Score(OpenLoopPolicy("list price", script, ACTIONS), "test", 400)
    assert score.success < 0.2 and score.mean_graded < 0.3


# -- what was not said -----------------------------------------------------------------------------

FILLED = {
    "feature": "touchscreen", "needs": "touchscreen and matte display", "price": "$950.50",
    "total": "$1,901", "pieces": "2 pieces", "discount": "5%", "addon": "floor mat",
    "addon_price": "$49", "days": "3 working days", "order": "S15012", "rival": "Kastell Direct",
}  # fmt: skip
"""Values of placeholders, but for the product's name."""


def named_by_agents():
    """Wordings of the agent that name a product."""
    tables = read_tables(packaged(PACKAGE, "agent_phrases.toml"))
    texts = [text for by_act in tables.values() for them in by_act.values() for text in them]
    return [text for text in texts if "{product}" in text or "{nearest}" in text]


def read_with(name, text):
    """Labels of a wording about this product, with `P` for its name."""
    slots = FILLED | {"product": name, "nearest": name}
    text = re.sub(r"\{(\w+)\}", lambda m: slots[m[1]], text)
    return {label.replace(name, "P") for label in labels(text)}


def test_no_name_of_a_product_changes_what_is_said_of_it():
    """A repaired bug: the Granite Book was booked by naming it, the Kestrel Max had no price."""
    texts = named_by_agents()
    assert len(texts) > 80
    for text in texts:
        usual = read_with("Aster Slim", text)
        readings = {frozenset(read_with(name, text)) for name in EVERY_NAME}
        assert readings == {frozenset(usual)}, text


@pytest.mark.parametrize("name", ["Granite Book is", "granite book is", "Granite-Book costs",
                                  "Granite  Book is", "Granite Book's price is"])  # fmt: skip
def test_a_name_is_known_however_it_is_written(name):
    assert labels(f"The {name} $950 per piece.") == {"quote(Granite Book=950)"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Would you like to have a look at the Granite Book instead? It is the nearest product "
         "that we have.", {"offer(nearest)"}),
        ("Delivery takes 3 working days from the day the order is placed.",
         {"inform(delivery=3)"}),
        ("Please make sure that the order is placed.", set()),
        ("I've made sure that your order is placed.", {"done(book)"}),
        ("According to our policy, I can't discount clearance items.", {"deny(clearance_firm)"}),
        ("Per our policy we don't discount the last pieces.", {"deny(last_piece)"}),
        ("Our policy doesn't allow me to go lower than this.", {"deny(beyond_authority)"}),
        ("Our policy is friendly.", set()),
        ("That's the lowest price I'm able to offer you.", {"deny(floor)"}),
        ("Is this for a single unit, or would you need several?", {"ask(quantity)"}),
        ("What will you mainly be using it for?", {"ask(need)"}),
        ("Are you ready to place the order?", {"confirm(book)"}),
        ("Were you ready to place the order?", set()),
        ("Would you like to move forward with the Aster Slim at this price?", {"confirm(book)"}),
        ("I'd book the Aster Slim for you at $950. Would that be all right?",
         {"quote(Aster Slim=950)", "confirm(book)"}),
        ("I'd book the Aster Slim for you at $950. Would that be all?",
         {"quote(Aster Slim=950)", "ask(more)"}),
        ("Based on what you've told me so far, I'd recommend the Aster Slim.",
         {"recommend(Aster Slim)"}),
    ],
)  # fmt: skip
def test_what_sellers_say_in_many_words_is_heard(text, meant):
    assert labels(text) == meant


# -- the buyer's wordings --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["user_phrases.toml", "user_turns.toml"])
def test_no_sentence_begins_with_the_small_letter_of_a_value(name):
    """A repaired bug: "matte display would be essential." in neutral and formal words."""
    small = re.compile(r"(?:^|[.!?] )\{(?:needs|missing|feature|use|category)\}")
    tables = read_tables(packaged(PACKAGE, name))
    texts = [
        text
        for by_act in tables.values()
        for by_register in by_act.values()
        for register in ("neutral", "formal")
        for text in by_register[register]
    ]
    assert len(texts) > 150
    assert [text for text in texts if small.search(text)] == []


def test_two_needs_take_no_singular_verb():
    """A repaired bug: "dual SIM and telephoto lens is obligatory."."""
    whole = [
        text
        for table in read_tables(packaged(PACKAGE, "user_phrases.toml")).values()
        for text in (t for them in table["inform_needs"].values() for t in them)
    ]
    assert len(whole) > 20
    assert [text for text in whole if re.search(r"\{needs\} (?:is|has|was)\b", text)] == []
