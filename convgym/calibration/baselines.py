"""What a calibrated user is compared with: a script, templates, and real turns out of order.

    scripted   every conversation the same: at each turn what most users do there, one phrase
               for it, as many turns as the median
    template   a calibrated user's acts, one phrase for each signature
    shuffled   real turns, drawn one by one, whatever came before, as many as in real conversations

Knows nothing of measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from convgym.calibration.signatures import (
    LoggedTurn,
    Signature,
    agent_messages,
    logged_users,
    speaks,
)
from convgym.conversation import Conversation, Message

Name = TypeVar("Name", bound=Hashable)


def scripted(
    real: Sequence[Conversation], n: int, agent_turns: Sequence[Conversation] | None = None
) -> list[Conversation]:
    """n conversations of one script, which is read off `real`; answering agents where given."""
    said = [[m for m in c.messages if speaks(m)] for c in real]
    said = [messages for messages in said if messages]
    typical = int(np.median([len(messages) for messages in said]))
    script = [
        _commonest(messages[place] for messages in said if place < len(messages))
        for place in range(typical)
    ]
    made = []
    for number in range(n):
        agents = agent_messages(agent_turns[number % len(agent_turns)]) if agent_turns else []
        messages = [
            message
            for place, turn in enumerate(script)
            for message in (*(agents[place] if place < len(agents) else ()), turn)
        ]
        made.append(Conversation(f"scripted-{number}", tuple(messages)))
    return made


def template(
    real: Sequence[Conversation], simulated: Sequence[Conversation]
) -> list[Conversation]:
    """`simulated` with the commonest real wording of each signature, values and all."""
    wordings: dict[Signature, Counter[str]] = {}
    for signature, message in _signed(real):
        wordings.setdefault(signature, Counter())[message.content] += 1
    phrases = {signature: _first(counted) for signature, counted in wordings.items()}
    signed = _signed(simulated)
    made = []
    for conversation in simulated:
        messages = []
        for message in conversation.messages:
            if speaks(message):
                signature, _ = next(signed)
                message = replace(message, content=phrases.get(signature, message.content))
            messages.append(message)
        made.append(replace(conversation, messages=tuple(messages)))
    return made


def shuffled(real: Sequence[Conversation], n: int, seed: int) -> list[Conversation]:
    """n conversations of real turns in no order, with real numbers of turns."""
    bag = [m for c in real for m in c.messages if speaks(m)]
    sizes = [sum(map(speaks, c.messages)) for c in real]
    chance = np.random.default_rng(seed)
    return [
        Conversation(
            f"shuffled-{number}",
            tuple(bag[i] for i in chance.integers(len(bag), size=int(chance.choice(sizes)))),
        )
        for number in range(n)
    ]


def _signed(conversations: Sequence[Conversation]) -> Iterator[tuple[Signature, Message]]:
    """Every user turn with its signature, in order."""
    users = logged_users(conversations)
    turns: Iterable[LoggedTurn] = (turn for user in users for turn in user.turns)
    messages = (m for c in conversations for m in c.messages if speaks(m))
    return ((turn.signature, m) for turn, m in zip(turns, messages, strict=True))


def _commonest(messages: Iterable[Message]) -> Message:
    """The first turn that says what is said most often among those of the commonest label."""
    found = list(messages)
    label = _first(Counter((m.intents, tuple(act[:2] for act in m.acts)) for m in found))
    same = [m for m in found if (m.intents, tuple(act[:2] for act in m.acts)) == label]
    text = _first(Counter(m.content for m in same))
    return next(m for m in same if m.content == text)


def _first(counted: Counter[Name]) -> Name:
    return min(counted, key=lambda name: (-counted[name], repr(name)))
