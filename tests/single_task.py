"""Customer service with the first request of each task alone, and names for what tests look at."""

from dataclasses import replace

from convgym.desk.tasks import KNOWS_ID, LOOKS_UP
from convgym.domains.customer_service.desk import CustomerServiceDesk

DESK = CustomerServiceDesk()
V, D, ACTIONS, U = DESK.v, DESK.declaration, DESK.actions, DESK.vocabulary
USER_ACTS, HEARD_AS, OFFERS = V.user_acts, V.heard_as, D.offers
EMAIL, POSTCODE, ORDER, ADDRESS = map(
    V.slots.index, ("email", "postcode", "order", "address")
)
FACT_FEE, FACT_CHANNEL = (V.told.index(name) for name in ("fee", "channel"))

__all__ = ["KNOWS_ID", "LOOKS_UP"]


def draw_task(split, number):
    """The task with its first request alone, and with tools that do not fail."""
    task = DESK.task(split, number)
    return replace(task, requests=task.requests[:1], faulty=-1, faults=0)


def request(task):
    return task.requests[0]


def decision(task):
    return task.requests[0].decision


def workflow(task):
    return D.names[task.requests[0].workflow]


def knowledge(task):
    return DESK._knowledge(task, task.requests[0])


def first(where, split="train", most=5000):
    """The number of the first task for which `where` holds."""
    return next(n for n in range(most) if where(draw_task(split, n)))
