"""Sales won without the work: each way was tried, and is shut."""

import pytest
from sales_driven import ACTIONS, DESK, Score
from sales_seller import at, broken, do, sale

from convgym.domains.sales import rules
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
