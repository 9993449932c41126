"""What a sales conversation was worth: from the booked quote and the evidence, never from words.

    success = right booking (or refusal, or transfer) × told × obligations met         0 or 1
    graded  = weights of `convgym.engine.grading`; the closing weight of a sale is paid in
              proportion to where its price lies between the lowest allowed and the list price:

        lowest allowed price   0.75  ────────────────────►  1.00   list price

A sale at the lowest price that is allowed earns 0.75, one at the list price 1; where no discount
is allowed the two are one, and earn 1. A refusal or a transfer that is right earns 1.
"""

from __future__ import annotations

from convgym.domains.sales import cells, rules
from convgym.domains.sales.records import DeskState
from convgym.domains.sales.tasks import Task
from convgym.domains.sales.tools import difference
from convgym.domains.sales.vocabulary import PRICE_DENIALS
from convgym.domains.sales.world import world
from convgym.engine.episode import Episode
from convgym.engine.grading import CLOSING, Evidence, Grade, grade
from convgym.engine.rules import ALLOW, TRANSFER


def grade_of(episode: Episode) -> Grade:
    """The verdict on the episode as it stands."""
    task, desk = episode.task, episode.desk
    verdict = grade(_evidence(episode, task, desk))
    if verdict.success and task.decision.effect == ALLOW:
        lost = CLOSING * (1000 - _price_place(task, desk)) / 1000
        return verdict._replace(graded=verdict.graded - lost)
    return verdict


def _evidence(episode: Episode, task: Task, desk: DeskState) -> Evidence:
    belief, decision = episode.belief, task.decision
    # A sale shows by itself that the needs were understood; where nothing is sold, all of them
    # must have been heard.
    heard = belief[cells.HEARD_NEEDS] or belief[cells.HEARD_PART]
    understood = belief[cells.SEARCHED] and heard and belief[cells.HEARD_QUANTITY]
    told_of = [k for k, cell in enumerate(cells.DENIED) if belief[cell]]
    unavailable = any(k >= PRICE_DENIALS for k in told_of)
    offered = belief[cells.OFFERED[0]] + belief[cells.OFFERED[1]]
    read = any(desk.read >> product & 1 for product in task.eligible)
    goal: dict[tuple[str, int, str], int | str] = {}
    if decision.effect != ALLOW:
        understood = understood and desk.needs == task.must
    if decision.effect == ALLOW:
        told = bool(belief[cells.TOLD_DONE]) and not unavailable
        decided = desk.decided_right
        if desk.booked >= 0:
            quote = desk.quotes[desk.booked]
            price = world().price[task.week][desk.booked]
            goal = difference(desk.booked, quote, rules.quoted_price(price, quote.discount))
    elif decision.effect == TRANSFER:
        if decision.reason == "bulk":
            read = desk.searched == task.must
        decided, told = desk.transferred and desk.decided_right, not told_of
    else:
        # Naming every reason there is, the right one among them, is no reason; nor is offering
        # everything an offer.
        if decision.alternative:
            read = desk.searched == task.must
        decided = desk.decided_right and len(told_of) == 1
        told = bool(episode.user.resolved) and offered == bool(decision.alternative)
    clean = not episode.violations and episode.diff in (goal, {})
    return Evidence(bool(understood), bool(read), bool(decided), told, clean)


def _price_place(task: Task, desk: DeskState) -> int:
    """Where the booked price lies between the lowest allowed, 0, and the list price, 1000."""
    shop, product = world(), desk.booked
    quote = desk.quotes[product]
    lowest = rules.authority(
        task.switches,
        desk.parameters,
        shop.clearance[task.week][product],
        shop.stock[task.week][product],
        quote.quantity,
    )
    return (lowest - quote.discount) * 1000 // lowest if lowest else 1000
