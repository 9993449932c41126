"""A task in words for people: what the buyer is after, and what would be right.

Names the hidden goal, so it is never shown to an agent.
"""

from __future__ import annotations

from convgym.domains.sales import rules
from convgym.domains.sales.tasks import Task
from convgym.domains.sales.view import needs_text
from convgym.domains.sales.vocabulary import KNOWLEDGES, OBJECTIONS
from convgym.domains.sales.world import CATEGORIES, World, money_text, percent_text
from convgym.engine.rules import ALLOW, REFUSE

_KNOWS = {
    "clear": "says what it must have when asked",
    "partial": "thinks of one of the two things it must have first",
    "vague": "says at first only what it is for",
    "looks up": "has to check what it must have",
    "mistaken": "mixes up what it must have, at first",
}
_OBJECTS = {
    "delivery": "needs it soon",
    "trust": "does not know whether to trust the shop",
    "competitor": "has seen it at another shop",
    "returns": "wonders what happens if it does not please",
}


def scenario(shop: World, task: Task) -> tuple[str, str]:
    """(context, expected resolution), some sentences each."""
    pieces = "one" if task.quantity == 1 else str(task.quantity)
    context = (
        f"A buyer looks for {CATEGORIES[task.category]} with "
        f"{needs_text(task.category, task.must)}, {pieces} in number, for about "
        f"{money_text(task.budget)} each, and {_KNOWS[KNOWLEDGES[task.knowledge]]}. It hopes for "
        f"{percent_text(1000 - task.target)} off the list price, and pays at most "
        f"{percent_text(task.walk // 1000)} of it."
    )
    if task.objection >= 0:
        context += f" It {_OBJECTS[OBJECTIONS[task.objection]]}."
    return context, _right(shop, task)


def _right(shop: World, task: Task) -> str:
    decision = task.decision
    if decision.effect == ALLOW:
        names = " or ".join(shop.name(product) for product in task.eligible)
        return (
            f"The agent finds out what is needed, sells the {names} at not less than "
            f"{percent_text(1000 - task.allowed)} of the list price, going down step by step and "
            "only when the price is objected to, asks for a yes, books it and says so."
        )
    if decision.effect == REFUSE:
        reason = decision.reason.replace("_", " ")
        if decision.alternative:
            return (
                f"The agent refuses, because it is {reason}, and offers the "
                f"{decision.alternative} instead."
            )
        return (
            f"The agent goes down to the lowest price, {percent_text(1000 - task.allowed)} of the "
            f"list price, refuses to go lower, reason {reason}, and lets the buyer go."
        )
    limit = rules.parameter_dict(task.parameters)
    many = decision.reason == "bulk"
    what = f"more than {limit['bulk_above']} pieces" if many else "so large an order"
    return f"The agent hands the buyer over to a person, as it is {what}."
