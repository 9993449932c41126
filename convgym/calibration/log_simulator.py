"""A user counted from logs, who talks: open loop, or answering recorded agent turns.

    kind, style ─► the last turn? ─► acts ─► slots ─► phrase ─► values ─► Message
                    ▲ last acts, agent's acts, place, slots told            │
                    └───────────────────────────────────────────────────────┘

Whether a turn is the last is drawn before what it does, so that people say good-bye when they go.
P(acts | history) and P(slots | acts, history) are `Backoff` tables, P(last | history) is
`Termination`; which histories, `convgym.calibration.histories` says. All chance comes from
`convgym.engine.keys`: conversation i of a seed draws the same numbers among 10 or 10,000. What
couples conversations is the phrase bank alone, which does not repeat itself within a run; the first
10 of 10,000 are the 10 of a run of 10. Knows nothing of environments.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from convgym.calibration.histories import (
    ACTS,
    ACTS_AFTER,
    END_AFTER,
    ENDS,
    PHRASE_AFTER,
    SLOTS_AFTER,
    UNHEARD,
    Histories,
    Progress,
    rows_of,
)
from convgym.calibration.phrase_bank import PhraseBank, Reading, filled
from convgym.calibration.signatures import (
    ASKED,
    NOTHING,
    ActsOf,
    Gap,
    LoggedUser,
    Signature,
    agent_messages,
    heard_in,
    kind_of,
    logged_users,
    speaks,
)
from convgym.calibration.style_bins import style_bins
from convgym.calibration.termination import Termination
from convgym.calibration.transitions import Backoff
from convgym.conversation import Conversation, Message
from convgym.engine.keys import MASK, USER, WORDING, below, children, draw, draw_batch, mix
from convgym.errors import InvalidConfiguration

Labels = Literal["intents", "acts", "none"]
LONGEST = 64
"""User turns of a generated conversation at most."""
_AT_ONCE = 256
_LEAVES, _DOES, _TELLS = range(3)
"""Numbers of a turn's draws; those of the whole conversation stand in a turn of their own."""


class LogSimulator:
    """Users like those of a log.

        simulator = LogSimulator.of(conversations)
        simulator.generate(1_000, seed=0)                         open loop
        simulator.generate(300, seed=0, agent_turns=recorded)     answering what agents said
        simulator.reword(recorded, seed=0)                        the same acts in other words
    """

    def __init__(self, log: Sequence[LoggedUser], labels: Labels) -> None:
        """Count users; `labels`: what generated messages carry, as the log's do.

        Raises InvalidConfiguration where no user says anything.
        """
        self.log = [user for user in log if user.turns]
        self.labels = labels
        if not self.log:
            raise InvalidConfiguration(
                f"{len(log)} conversations came in which no user says anything; a user is counted "
                "from turns of the role 'user' that have words"
            )
        self.styles = style_bins(self.log)
        told = [
            list(rows_of(user, style))
            for user, style in zip(self.log, self.styles.bins.tolist(), strict=True)
        ]
        rows = [row for rows in told for row in rows]
        turns = [turn for user in self.log for turn in user.turns]
        self._end_after, self._acts_after = Histories(END_AFTER, rows), Histories(ACTS_AFTER, rows)
        self._slots_after = Histories(SLOTS_AFTER, rows)
        self._phrase_after = Histories(PHRASE_AFTER, rows)
        self.end = Termination(
            [self._end_after.of(row) for row in rows], [bool(row[ENDS]) for row in rows]
        )
        self.acts = Backoff(
            [(self._acts_after.of(row), turn.acts) for row, turn in zip(rows, turns, strict=True)]
        )
        self.signatures = Backoff(
            [
                (self._slots_after.of(row), turn.signature)
                for row, turn in zip(rows, turns, strict=True)
            ]
        )
        self.bank = PhraseBank(
            [
                (turn.signature, self._phrase_after.of(row), turn.pieces)
                for row, turn in zip(rows, turns, strict=True)
            ]
        )
        self._values: dict[tuple[str, str], list[str]] = defaultdict(list)
        for user in self.log:
            for turn in user.turns:
                for slot, value in turn.values.items():
                    self._values[user.kind, slot].append(value)
                    self._values["", slot].append(value)

    @classmethod
    def of(
        cls, conversations: Sequence[Conversation], acts_of: ActsOf | None = None
    ) -> LogSimulator:
        """Count conversations, labelled by themselves or by `acts_of`."""
        if acts_of is not None:
            labels: Labels = "none"
        else:
            intents = any(m.intents for c in conversations for m in c.said_by("user"))
            labels = "intents" if intents else "acts"
        return cls(logged_users(conversations, acts_of), labels)

    def generate(
        self, n: int, seed: int, agent_turns: Sequence[Conversation] | None = None
    ) -> list[Conversation]:
        """n conversations, the same for the same seed.

        agent_turns: recorded conversations to take the agent's turns from, over and over where
            they are fewer than n. The user answers each and leaves where the recorded one left, for
            there the agent's words end; what the recorded user said decides nothing.

        Raises InvalidConfiguration for an n below 0, or agent turns to which no user has answered.
        """
        if agent_turns is not None:
            agent_turns = [c for c in agent_turns if any(map(speaks, c.messages))]
        if n < 0 or agent_turns == []:
            raise InvalidConfiguration(
                f"n={n} came, and agent_turns in which {'no' if agent_turns == [] else 'a'} user "
                "speaks; give a number from 0, and conversations with user turns, or None"
            )
        reading = Reading(self.bank, seed)
        return [
            self._converse(
                f"simulated-{seed}-{number}",
                key,
                uniforms,
                agent_turns[number % len(agent_turns)] if agent_turns else None,
                reading,
            )
            for number, (key, uniforms) in enumerate(_chance(seed, n))
        ]

    def reword(
        self, conversations: Sequence[Conversation], seed: int, acts_of: ActsOf | None = None
    ) -> list[Conversation]:
        """The same conversations with the user's turns in other words: acts and values stay.

        What no turn of the library does alone is said by several, one after another; where there is
        nothing at all, the recorded words stay.
        """
        reading, made = Reading(self.bank, seed), []
        users = logged_users(conversations, acts_of)
        for conversation, user, (key, uniforms) in zip(
            conversations, users, _chance(seed, len(users)), strict=True
        ):
            replies = self._reworded(user, self._bin(uniforms[0][0]), key, reading)
            messages = tuple(
                replace(message, content=next(replies)) if speaks(message) else message
                for message in conversation.messages
            )
            made.append(replace(conversation, messages=messages))
        return made

    def log_prob(self, conversations: Sequence[Conversation]) -> list[float]:
        """Of each labelled conversation the log-likelihood of its acts, slots and end, in nats.

        The mean over style bins where there are several; −∞ for a signature never seen.
        """
        return [self._log_prob(user) for user in logged_users(conversations)]

    def _bin(self, uniform: float) -> int:
        return int(self.styles.bins[int(uniform * len(self.log))])

    def _converse(
        self,
        name: str,
        key: int,
        uniforms: Sequence[Sequence[float]],
        recorded: Conversation | None,
        reading: Reading,
    ) -> Conversation:
        drawn = int(uniforms[0][0] * len(self.log))
        kind = self.log[drawn].kind if recorded is None else kind_of(recorded)
        spoken = None if recorded is None else agent_messages(recorded)
        progress = Progress(kind, int(self.styles.bins[drawn]))
        goal = _Goal(self._values, kind, key)
        messages: list[Message] = []
        for place, turn in enumerate(uniforms[1:]):
            heard = UNHEARD
            if spoken is not None:
                messages += spoken[place]
                heard = heard_in(spoken[place])
            row = progress.row(heard)
            if spoken is not None:
                row[ENDS] = place == len(spoken) - 2
            else:
                row[ENDS] = turn[_LEAVES] < self.end.probability(self._end_after.of(row))
            row[ACTS] = self.acts.draw(self._acts_after.of(row), turn[_DOES])
            signature = self.signatures.draw(self._slots_after.of(row), turn[_TELLS])
            shelf = self.bank.shelf(signature, self._phrase_after.of(row))
            pieces = reading.take(shelf)
            text = filled(pieces, goal, heard.values)
            told = [piece.slot for piece in pieces if isinstance(piece, Gap)]
            messages.append(self._message(text, signature, {slot: goal[slot] for slot in told}))
            progress.say(signature)
            if row[ENDS]:
                break
        messages += spoken[-1] if spoken else ()
        return Conversation(name, tuple(messages), metadata={"domain": kind} if kind else {})

    def _message(self, text: str, signature: Signature, values: Mapping[str, str]) -> Message:
        """A turn, labelled as the log labels its own."""
        if self.labels == "none":
            return Message("user", text)
        acts, slots = signature
        if self.labels == "intents":
            pairs = tuple((slot, values.get(slot, "")) for slot in slots)
            return Message("user", text, intents=() if acts == NOTHING else acts, slots=pairs)
        told = [
            (*slot[:-1].split("-", 2), ASKED)
            if slot.endswith(ASKED)
            else (*slot.split("-", 2), values.get(slot, "none"))
            for slot in slots
        ]
        named = {"-".join(act[:2]) for act in told}
        bare = [(*act.split("-", 1), "none", "none") for act in acts if act not in named]
        return Message("user", text, acts=(*told, *(bare if acts != NOTHING else ())))

    def _reworded(
        self, user: LoggedUser, style: int, key: int, reading: Reading
    ) -> Iterator[str]:
        goal = _Goal(self._values, user.kind, key)
        for turn, row in zip(user.turns, rows_of(user, style), strict=True):
            described = self._phrase_after.of(row)
            goal.update(turn.values)
            told = [(slot.rpartition("-")[2], value) for slot, value in turn.values.items()]
            words = [
                filled(reading.take(self.bank.shelf(part, described)), goal, told)
                for part in self.bank.parts(turn.signature)
            ]
            yield " ".join(words) or turn.text

    def _log_prob(self, user: LoggedUser) -> float:
        bins, counts = np.unique(self.styles.bins, return_counts=True)
        totals = [
            math.log(count / len(self.log)) + self._log_prob_in(user, style)
            for style, count in zip(bins.tolist(), counts.tolist(), strict=True)
        ]
        return float(np.logaddexp.reduce(totals))

    def _log_prob_in(self, user: LoggedUser, style: int) -> float:
        total = 0.0
        for row, turn in zip(rows_of(user, style), user.turns, strict=True):
            leaves = self.end.probability(self._end_after.of(row))
            total += math.log(leaves if row[ENDS] else 1 - leaves)
            total += self.acts.log_prob(self._acts_after.of(row), turn.acts)
            total += self.signatures.log_prob(self._slots_after.of(row), turn.signature)
        return total


class _Goal(dict[str, str]):
    """The values of one conversation: drawn from the log's when first told, and kept."""

    def __init__(self, values: Mapping[tuple[str, str], list[str]], kind: str, key: int) -> None:
        super().__init__()
        self._values, self._kind, self._key = values, kind, key

    def __missing__(self, slot: str) -> str:
        known = self._values.get((self._kind, slot)) or self._values["", slot]
        value = self[slot] = known[below(draw(self._key, WORDING, 0, len(self)), len(known))]
        return value


def _chance(seed: int, n: int) -> Iterator[tuple[int, list[list[float]]]]:
    """Of each conversation its key and its uniform numbers.  (1 + LONGEST, 3)"""
    keys = children(mix(seed & MASK), n)
    places, choices = (np.arange(size, dtype=np.uint64) for size in (LONGEST + 1, 3))
    for start in range(0, n, _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        drawn = draw_batch(some[:, None, None], USER, places[:, None], choices) / 2.0**32
        yield from zip(some.tolist(), drawn.tolist(), strict=True)
