"""The customer of a task, for whoever plays it: a language model or a person.

    describe   what the customer wants, knows and can see of the device now, and nothing that only
               the provider knows
    read       the customer's own words as acts
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.domains.technical_support.physics import CHECKS_OF, observe
from convgym.domains.technical_support.tasks import (
    KNOWS_SERIAL,
    MISTAKEN,
    TWO_OF_A_KIND,
    Task,
)
from convgym.domains.technical_support.view import SPOKEN_KINDS
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    SERVICE,
    VALUE_NAMES,
    VALUES,
    plain_words,
)
from convgym.domains.technical_support.world import world
from convgym.engine.episode import Episode

SEEN_HEAD = "What you see when you look at it now"
_DEVICE = {
    KNOWS_SERIAL: "Its serial number is {serial}.",
    TWO_OF_A_KIND: "You have two of them; when you are asked which, it is the one in the {room}.",
    MISTAKEN: (
        "You believe that its serial number is {wrong}. If the desk cannot find that, say that it "
        "is the {kind} in the {room}."
    ),
}


def describe(episode: Episode) -> str:
    """Who the customer of this episode is, what they want, know and see."""
    return f"{description(episode.task)}\n\n{seen(episode)}"


def description(task: Task) -> str:
    """Who the customer of a task is, what they want and know."""
    provider, impostor = world(), task.decision.reason == "unverified"
    name = provider.name(task.customer)
    who = (
        f"You write in the name of {name}, whom you know, as if you were this customer"
        if impostor
        else f"You are {name}, a customer"
    )
    pin = (
        f"You do not know the PIN; when you are asked for it, you say "
        f"{provider.wrong_pin(task.customer)}."
        if impostor
        else f"Your PIN is {provider.pin_text(task.customer)}."
    )
    device = _DEVICE.get(task.knowledge, "You do not know its serial number.").format(
        serial=provider.serial(task.device),
        wrong=provider.wrong_serial(task.device),
        room=provider.room_name(task.device),
        kind=SPOKEN_KINDS[task.kind],
    )
    return (
        f"{who} of an internet and phone provider, and chat with its technical support.\n\n"
        f"What you want\nYour {SPOKEN_KINDS[task.kind]} does not work: "
        f"{VALUES[VALUE_NAMES[task.symptom]]}. You want it to work again.\n\n"
        f"What you know\nThe phone number of the account is {provider.phone(task.customer)}. "
        f"{pin} {device} You do not know what the provider's records and rules say, nor what is "
        "wrong with the device."
    )


def seen(episode: Episode) -> str:
    """What the device shows now, for whoever looks."""
    kind = episode.task.kind
    lines = [SEEN_HEAD]
    for check in CHECKS_OF[kind]:
        value = VALUES[VALUE_NAMES[observe(kind, episode.desk.device, check)]]
        words = "it works" if check == SERVICE and value == VALUES["ok"] else value
        lines.append(f"- {plain_words(kind, CHECKS[check])}: {words}")
    lines.append(
        "Say what you see only of what you are asked about. When you are asked to do something "
        "with the device, say that you have done it, or that you have not."
    )
    return "\n".join(lines)


def read(episode: Episode, text: str) -> tuple[Sequence[int], str]:
    """The customer's words as act numbers, and what is odd about them, or ""."""
    from convgym.domains.technical_support.user_understanding import understand_user

    return understand_user(text, episode.task, episode.desk.asked)
