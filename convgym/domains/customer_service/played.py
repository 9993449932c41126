"""The customer of an episode for whoever plays it: how it is described, how its words are read."""

from __future__ import annotations

from collections.abc import Sequence

from convgym.desk.declaration import ACCOUNT
from convgym.desk.tasks import KNOWLEDGES, Request, Task
from convgym.domains.customer_service.customer import Want, Who
from convgym.domains.customer_service.desk import vocabulary
from convgym.domains.customer_service.role import description
from convgym.domains.customer_service.user_understanding import understand
from convgym.domains.customer_service.world import world
from convgym.engine.episode import Episode


def describe(episode: Episode) -> str:
    """Who the customer of this episode is, what they want, and what they know."""
    task: Task = episode.task
    return description(who(task), [want(request) for request in task.requests])


def read(episode: Episode, text: str) -> tuple[Sequence[int], str]:
    """The customer's own words as act numbers, and what is odd about them, or "".

    They are about the request it is at, or about the next one, which they may raise.
    """
    task: Task = episode.task
    at = episode.user.at if episode.user is not None else 0
    open_requests = [want(request) for request in task.requests[at : at + 2]]
    acts, problem = understand(text, who(task), open_requests)
    numbers = vocabulary().u
    return tuple(numbers[act] for act in acts), problem


def who(task: Task) -> Who:
    """The customer of a task in plain words."""
    shop = world()
    return Who(
        name=shop.name(task.account),
        email=shop.email(task.account),
        postcode=shop.text(ACCOUNT, task.account, "postcode"),
        wrong_postcode=shop.wrong(ACCOUNT, task.account, "postcode"),
        impostor=task.impostor,
    )


def want(request: Request) -> Want:
    """A request in plain words."""
    shop, d = world(), vocabulary().declaration
    workflow = d.workflows[request.workflow]
    detail = ""
    for name in workflow.details:
        words = d.details[name]
        detail = words[request.detail] if words else shop.text(workflow.kind, request.row, name)
    texts = dict.fromkeys(("id", "wrong_id", "label", "date", "vague"), "")
    if workflow.kind:
        kind = d.kind[workflow.kind]
        fields = {"id": kind.name, "label": kind.label, "date": kind.date, "vague": kind.vague}
        texts |= {
            name: shop.text(kind.name, request.row, field)
            for name, field in fields.items()
            if field
        }
        texts["wrong_id"] = shop.wrong(kind.name, request.row, kind.name)
    return Want(
        workflow=workflow.name,
        kind=workflow.kind,
        knowledge=KNOWLEDGES[request.knowledge],
        id=texts["id"],
        wrong_id=texts["wrong_id"],
        label=texts["label"],
        date=texts["date"],
        vague=texts["vague"],
        detail=detail,
        terms=workflow.terms,
    )
