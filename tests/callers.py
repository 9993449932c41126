"""Generated callers for tests of the gap: conversations with acts, and users gone wrong."""

from dataclasses import replace

import numpy as np

from convgym.conversation import Conversation, Message

ITEMS = ("kettle", "lamp", "chair", "router", "jacket", "phone")
FAULTS = ("is broken", "never came", "has the wrong colour", "does not start", "is too small")
OPENINGS = ("Hi there", "Hello", "Good morning", "Hey")
ENDINGS = ("Thanks a lot, bye", "Thank you, goodbye", "thanks, bye", "Great, thank you! Bye")
ASKING = ("What is your order number?", "Could you tell me the order number?")
TELLING = ("It is {}", "{}", "The number is {}", "sure, {} is the number")
WAITING = ("ok", "yes", "How long will it take?", "fine, I will wait", "no, that is too late")
NEWS = ("I have sent a new one.", "Sorry, I cannot send a new one today.")


def caller(number: int, seed: int = 0) -> Conversation:
    """One conversation; the same number and seed give the same."""
    chance = np.random.default_rng([seed, number])

    def one(of: tuple[str, ...]) -> str:
        return of[chance.integers(len(of))]

    said = [
        user(one(OPENINGS), "greet"),
        Message("assistant", "How can I help you?"),
        user(f"My {one(ITEMS)} {one(FAULTS)}", "inform", "problem"),
        Message("assistant", one(ASKING), acts=(("shop", "request", "order", "?"),)),
        user(one(TELLING).format(chance.integers(100, 999)), "inform", "order"),
    ]
    for _ in range(chance.integers(1, 5)):
        said += [Message("assistant", one(NEWS)), user(one(WAITING), "reply")]
    said += [Message("assistant", "Anything else?"), user(one(ENDINGS), "thank")]
    return Conversation(f"{seed}-{number}", tuple(said), reward=float(chance.random() < 0.6))


def callers(count: int, seed: int = 0) -> list[Conversation]:
    """`count` conversations."""
    return [caller(number, seed) for number in range(count)]


def user(text: str, act: str, slot: str = "none") -> Message:
    """A turn with one act, as MultiWOZ writes it."""
    return Message("user", text, acts=(("shop", act, slot, text),))


def with_turns(conversations: list[Conversation], change) -> list[Conversation]:
    """The same, each turn of the user's replaced by `change` of it."""
    return [
        replace(c, messages=tuple(change(m) if m.role == "user" else m for m in c.messages))
        for c in conversations
    ]


def bag(conversations: list[Conversation], seed: int = 0) -> list[Conversation]:
    """Real turns of the user's, each at a place drawn from all conversations'."""
    turns = [m for c in conversations for m in c.said_by("user")]
    drawn = iter(np.random.default_rng(seed).permutation(len(turns)))
    return with_turns(conversations, lambda _: turns[next(drawn)])


def scripted(conversations: list[Conversation]) -> list[Conversation]:
    """A user with one phrase for each act."""

    def phrase(turn: Message) -> Message:
        acts = sorted({act[1] for act in turn.acts} | set(turn.intents))
        return replace(turn, content=f"I {' and '.join(acts) or 'speak'}")

    return with_turns(conversations, phrase)
