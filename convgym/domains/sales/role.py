"""The buyer of a task, for whoever plays it: a language model or a person.

    describe   what the buyer wants, knows and pays, and nothing that only the shop knows
    read       the buyer's own words as acts
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.domains.sales.tasks import Task
from convgym.domains.sales.view import act_value, needs_text
from convgym.domains.sales.vocabulary import (
    CLEAR,
    KNOWN,
    LOOKS_UP,
    MISTAKEN,
    OBJECTIONS,
    PARTIAL,
    ROUGH,
    VAGUE,
    WITHHELD,
)
from convgym.domains.sales.world import ADDONS, CATEGORIES, percent_text
from convgym.engine.episode import Episode

_NEEDS = {
    CLEAR: "It must have this: {needs}.",
    PARTIAL: (
        "When you are first asked what it must have, you say only this: {first}. When you are "
        "asked again, you say all: {needs}."
    ),
    VAGUE: (
        "When you are first asked what it must have, you say only what it is for: {use}. When you "
        "are asked again, you know it: {needs}."
    ),
    LOOKS_UP: (
        "When you are asked what it must have, say that you need a moment to check, and say it "
        "with your next message: {needs}."
    ),
    MISTAKEN: (
        "At first you believe that it must have this: {wrong}. If you are shown a product without "
        "what you really need, say that it lacks it, and say what you need: {needs}."
    ),
}
_BUDGET = {
    KNOWN: "Your budget is {budget} a piece.",
    ROUGH: "Your budget is roughly {rough} a piece; when you are asked again, it is {budget}.",
    WITHHELD: (
        "You would rather not name your budget; when you are asked again, it is {budget} a piece."
    ),
}
_OBJECTS = {
    "delivery": "Before you accept a price, say that you need it soon, and ask when it comes.",
    "trust": "Before you accept a price, say that you do not know whether to trust this shop.",
    "competitor": "Before you accept a price, say that you have seen the thing at {rival}.",
    "returns": "Before you accept a price, ask what happens if you do not like it.",
}


def describe(episode: Episode) -> str:
    """Who the buyer of this episode is, what they want, know and pay."""
    return description(episode.task)


def description(task: Task) -> str:
    """See `describe`."""
    values = {
        "category": CATEGORIES[task.category],
        "needs": needs_text(task.category, task.must),
        "first": act_value(task, "inform_need_part"),
        "use": act_value(task, "inform_use"),
        "wrong": act_value(task, "inform_needs_wrong"),
        "budget": act_value(task, "inform_budget"),
        "rough": act_value(task, "inform_budget_rough"),
        "quantity": act_value(task, "inform_quantity"),
        "nice": act_value(task, "ask_feature"),
        "wanted": act_value(task, "counter_offer"),
        "most": percent_text(max(1000 - task.walk // 1000, 0)),
        "rival": act_value(task, "object_competitor"),
        "addon": ADDONS[task.category][0],
    }
    parts = [
        "You are a buyer, and chat with a sales agent of an online shop.",
        "\n\nWhat you want\n",
        "You are looking for one of these: {category}. You need {quantity} of it. ",
        _NEEDS[task.knowledge],
        " Where the thing shown has all that, you are glad of it.",
    ]
    if task.nice >= 0:
        parts.append(" You would also like to know whether it has this: {nice}.")
    parts += ["\n\nWhat you pay\n", _BUDGET[task.budget_kind], " You ask for {wanted} off. "]
    if task.walk >= 1_000_000:
        parts.append("In the end you pay the list price if you must, but you may haggle first.")
    else:
        parts.append(
            "In the end you buy only if you get at least {most} off the list price; if you do not, "
            "and are told that there is no lower price, accept that and leave without buying."
        )
    if task.objection >= 0:
        parts += [" ", _OBJECTS[OBJECTIONS[task.objection]]]
    takes = "do" if task.wants_addon else "do not"
    parts.append(f" If you are offered the extra, the {{addon}}, you {takes} want it.")
    return "".join(parts).format(**values)


def read(episode: Episode, text: str) -> tuple[Sequence[int], str]:
    """The buyer's words as act numbers, and what is odd about them, or ""."""
    from convgym.domains.sales.user_understanding import understand_user

    return understand_user(text, episode.task)
