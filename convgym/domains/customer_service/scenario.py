"""A task in words for people: what the customer is in, and what would be right.

Names the hidden goal, so it is never shown to an agent.
"""

from __future__ import annotations

from convgym.domains.customer_service import rules
from convgym.domains.customer_service.tasks import IMPOSTOR, KNOWLEDGES, Task
from convgym.domains.customer_service.world import REASONS, STAGES, World, date_text
from convgym.engine.rules import ALLOW, REFUSE

_WANTS = (
    "wants to know where the order is",
    "wants to cancel the order",
    "wants to send the order back",
    "wants the order delivered to another address",
)
_KNOWS = {
    "number": "knows its number",
    "item": "does not know its number, but the item",
    "looks up": "has to look its number up",
    "vague": "remembers only what kind of goods it was, at first",
    "mistaken": "has its number wrong",
}
_RIGHT = (
    "The agent tells its status and its date.",
    "The agent asks for a yes, cancels it and says so.",
    "The agent names fee and refund, asks for a yes, creates the return and says so.",
    "The agent asks for a yes, changes the address and says so.",
)


def scenario(shop: World, task: Task) -> tuple[str, str]:
    """(context, expected resolution), some sentences each."""
    row = task.order
    order = (
        f"{shop.item_name(row)} ({shop.order_id(row)}, {STAGES[shop.stage[row]]}, "
        f"placed on {date_text(-shop.placed[row])})"
    )
    who = shop.name(task.customer)
    if task.branch == IMPOSTOR:
        who = f"Somebody who writes in the name of {who} and does not know the postcode"
    context = f"{who} {_WANTS[task.workflow]}: {order}, and {_KNOWS[KNOWLEDGES[task.knowledge]]}."
    if task.workflow == rules.RETURN:
        context += f" The reason is {REASONS[task.reason].replace('_', ' ')}."
    decision = task.decision
    if decision.effect == ALLOW:
        return context, _RIGHT[task.workflow]
    if decision.effect == REFUSE:
        instead = decision.alternative.replace("_", " ")
        offer = f" and offers {instead} instead" if instead else ""
        reason = decision.reason.replace("_", " ")
        return context, f"The agent refuses, because it is {reason}{offer}, and stands by it."
    return context, "The agent hands the customer over to a person."
