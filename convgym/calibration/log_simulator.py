"""A user counted from logs, who talks: open loop, or answering recorded agent turns.

    a real user ─► agenda ─► last turn? acts, slots ─► phrase ─► values ─► Message
      kind, style               ▲ last acts, agent's acts, place, slots told  │
                                └─────────────────────────────────────────────┘

P(turn | history) = P(last | history) · P(acts | last, history) · P(slots | acts, history): whether
a turn is the last comes before what it does, so that people say good-bye when they go. The latter
two are `Backoff` tables, P(last | history) is `Termination`; which histories,
`convgym.calibration.histories` says. What is said next is chosen by them from the turns that a real
user of the log said, and seldom beside those (`convgym.calibration.goals`): what a conversation is
about is real, in which order and in which words is simulated.

Conversation i of a seed draws the same numbers among 10 or 10,000, all from
`convgym.engine.keys`. What couples conversations is that a run does not repeat itself, neither in
users nor in phrases; the first 10 of 10,000 are the 10 of a run of 10. Knows nothing of
environments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from convgym.calibration.goals import OFF_AGENDA, Agenda, Cast, Goals, OpenTurn, answers
from convgym.calibration.histories import (
    ACTS,
    ACTS_AFTER,
    ANSWER_AFTER,
    END_AFTER,
    ENDS,
    PHRASE_AFTER,
    SLOTS_AFTER,
    Histories,
    Progress,
    Row,
    rows_of,
)
from convgym.calibration.phrase_bank import PhraseBank, Reading, filled
from convgym.calibration.signatures import (
    ASKED,
    NOTHING,
    ActsOf,
    Gap,
    Heard,
    LoggedUser,
    Signature,
    agent_messages,
    heard_in,
    kind_of,
    logged_users,
    speaks,
)
from convgym.calibration.speaker import Drawn, Said, Speaker, Words
from convgym.calibration.style_bins import style_bins
from convgym.calibration.termination import Termination
from convgym.calibration.transitions import Backoff
from convgym.calibration.turns import act_name, slot_name
from convgym.calibration.values import Told, Wanted
from convgym.conversation import Conversation, Message
from convgym.engine.keys import MASK, USER, children, draw, mix
from convgym.errors import InvalidConfiguration

Labels = Literal["intents", "acts", "none"]
LONGEST = 64
"""User turns of a generated conversation at most."""
_CHOOSES, _LEAVES, _DOES, _TELLS = range(4)
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
        asked = [(row, turn) for row, turn in zip(rows, turns, strict=True) if turn.heard.asked]
        self._answer_after = Histories(ANSWER_AFTER, [row for row, _ in asked] or rows)
        self.answers = Backoff(
            [(self._answer_after.of(row), answers(turn, turn.heard.asked)) for row, turn in asked]
        )
        self.bank = PhraseBank(
            [
                (turn.signature, self._phrase_after.of(row), turn.pieces)
                for row, turn in zip(rows, turns, strict=True)
            ]
        )
        self._told = Told(self.log)
        self.goals = Goals(self.log)

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
            there the agent's words end. What it wants is drawn given what the agent does in the
            whole conversation; what the recorded user said decides nothing.

        Raises InvalidConfiguration for an n below 0, or agent turns to which no user has answered.
        """
        if agent_turns is not None:
            agent_turns = [c for c in agent_turns if any(map(speaks, c.messages))]
        if n < 0 or agent_turns == []:
            raise InvalidConfiguration(
                f"n={n} came, and agent_turns in which {'no' if agent_turns == [] else 'a'} user "
                "speaks; give a number from 0, and conversations with user turns, or None"
            )
        reading, cast, made = Reading(self.bank, seed), Cast(self.goals, seed), []
        for number, key in enumerate(_keys(seed, n)):
            name = f"simulated-{seed}-{number}"
            if agent_turns:
                recorded = agent_turns[number % len(agent_turns)]
                kind, spoken = kind_of(recorded), agent_messages(recorded)
                heard = [heard_in(messages) for messages in spoken[:-1]]
                speaker = self.speaker(cast.whom_they_tell(kind, heard, _uniform(key, 0, 0)), key)
                speaker.progress.kind = kind
                said = self._answers(speaker, heard, reading)
                messages = [
                    message
                    for before, answer in zip(spoken, said, strict=False)
                    for message in (*before, answer)
                ] + spoken[-1]
            else:
                speaker = self.speaker(cast.anyone(number), key)
                kind = speaker.progress.kind
                messages = list(self._answers(speaker, None, reading))
            about = {"domain": kind} if kind else {}
            made.append(Conversation(name, tuple(messages), metadata=about))
        return made

    def reword(
        self, conversations: Sequence[Conversation], seed: int, acts_of: ActsOf | None = None
    ) -> list[Conversation]:
        """The same conversations with the user's turns in other words: acts and values stay.

        What no turn of the library does alone is said by several, one after another; where there is
        nothing at all, the recorded words stay.
        """
        reading, made = Reading(self.bank, seed), []
        users = logged_users(conversations, acts_of)
        for conversation, user, key in zip(
            conversations, users, _keys(seed, len(users)), strict=True
        ):
            replies = self._reworded(user, self._bin(_uniform(key, 0, 0)), key, reading)
            messages = tuple(
                replace(message, content=next(replies)) if speaks(message) else message
                for message in conversation.messages
            )
            made.append(replace(conversation, messages=messages))
        return made

    def log_prob(self, conversations: Sequence[Conversation]) -> list[float]:
        """Of each labelled conversation the log-likelihood of its acts, slots and end, in nats.

        Of the tables, that is: of somebody whose agenda nobody knows. The mean over style bins
        where there are several; −∞ for a signature never seen.
        """
        return [self._log_prob(user) for user in logged_users(conversations)]

    def _bin(self, uniform: float) -> int:
        return int(self.styles.bins[int(uniform * len(self.log))])

    def speaker(
        self, user: int, key: int, *, style: int | None = None, hurry: float = 0.0
    ) -> Speaker:
        """Somebody with the agenda of a user of the log, about to speak; `say` lets it.

        key: of all its chance. style: its bin; that user's unless told. hurry: added to the logit
        of leaving.
        """
        bin_ = int(self.styles.bins[user]) if style is None else style
        kind = self.log[user].kind
        return Speaker(key, Agenda(self.log[user]), Progress(kind, bin_), hurry)

    def say(
        self,
        speaker: Speaker,
        heard: Heard,
        ends: bool | None = None,
        *,
        words: Words | None = None,
        likeliest: bool = False,
        weighed: bool = True,
    ) -> Said:
        """What somebody says to an agent; the speaker remembers it.

        ends: whether it is the last turn, where that is known. words: where they come from; drawn
            by the speaker's key unless told. likeliest: does what is most probable of all that is
            on its agenda. weighed: whether `log_prob` is wanted, else NaN; it takes its time.
        """
        place = speaker.progress.place
        words = words or Drawn(self.bank, speaker.key, place)
        row = speaker.progress.row(heard)
        # What its own agent asked just then, it answers as it did.
        asked = () if heard == speaker.agenda.heard else heard.asked
        row[ENDS], signature, log_prob = self._chosen(
            speaker, row, asked, ends, likeliest, weighed
        )
        row[ACTS] = signature[0]
        wanted = Wanted(self._told, speaker.progress.kind, speaker.key, speaker.wanted)
        pieces = words.take(self.bank.shelf(signature, self._phrase_after.of(row)))
        text = filled(pieces, wanted, heard.values)
        told = {p.slot: wanted[p.slot] for p in pieces if isinstance(p, Gap)}
        speaker.progress.say(signature)
        return Said(text, signature, told, bool(row[ENDS]), log_prob)

    def _answers(
        self,
        speaker: Speaker,
        heard: Sequence[Heard] | None,
        words: Words,
    ) -> Iterator[Message]:
        """What a speaker says to what recorded agents say; None: to what its agenda heard."""
        for place in range(LONGEST if heard is None else len(heard)):
            now = speaker.agenda.heard if heard is None else heard[place]
            ends = None if heard is None else place == len(heard) - 1
            said = self.say(speaker, now, ends, words=words, weighed=False)
            yield self._message(said.text, said.signature, said.values)
            if said.ends:
                return

    def _chosen(
        self,
        speaker: Speaker,
        row: Row,
        asked: Sequence[str],
        ends: bool | None,
        likeliest: bool,
        weighed: bool,
    ) -> tuple[bool, Signature, float]:
        """Whether the user goes with this turn, what the turn does, and the log of P(both)."""
        key, turn = speaker.key, speaker.progress.place + 1
        leaves = self._leaves(row, speaker.hurry) if ends is None else float(ends)
        open_turns = speaker.agenda.next(ends, asked)
        weights = self._weights(open_turns, row, leaves)
        if asked and not likeliest:
            weights = self._answering(speaker, row, asked, open_turns, weights)
        total = OFF_AGENDA + sum(weights)
        reached = _uniform(key, turn, _CHOOSES) * total - OFF_AGENDA
        if likeliest and open_turns:
            reached = sum(weights[: weights.index(max(weights))])
        for (open_, _), weight in zip(open_turns, weights, strict=True):
            if 0 <= reached < weight:
                goes, does = open_.ends, open_.turn.signature
                speaker.agenda.said(open_)
                if likeliest:
                    return goes, does, 0.0
                break
            reached -= weight
        else:
            row[ENDS] = goes = _uniform(key, turn, _LEAVES) < leaves
            row[ACTS] = self.acts.draw(self._acts_after.of(row), _uniform(key, turn, _DOES))
            does = self.signatures.draw(self._slots_after.of(row), _uniform(key, turn, _TELLS))
        if not weighed:
            return goes, does, math.nan
        same = sum(
            weight
            for (open_, _), weight in zip(open_turns, weights, strict=True)
            if (open_.ends, open_.turn.signature) == (goes, does)
        )
        same += OFF_AGENDA * self._likelihood(row, leaves, goes, does)
        return goes, does, math.log(same / total)

    def _answering(
        self,
        speaker: Speaker,
        row: Row,
        asked: Sequence[str],
        open_turns: Sequence[tuple[OpenTurn, float]],
        weights: list[float],
    ) -> list[float]:
        """The weights with as much on turns that answer as questions are answered."""
        if not speaker.agenda.tells(asked):
            # What people say to a question that is none of theirs, the tables know best.
            return [0.0] * len(weights)
        tells = [answers(open_.turn, asked) for open_, _ in open_turns]
        told = sum(weight for weight, it_tells in zip(weights, tells, strict=True) if it_tells)
        share = self.answers.probability(self._answer_after.of(row), True)
        if not told or not 0 < share < 1:
            return weights
        factor = share / (1 - share) * (OFF_AGENDA + sum(weights) - told) / told
        return [
            weight * (factor if it_tells else 1)
            for weight, it_tells in zip(weights, tells, strict=True)
        ]

    def _leaves(self, row: Row, hurry: float = 0.0) -> float:
        leaves = self.end.probability(self._end_after.of(row))
        if not hurry:
            return leaves
        odds = leaves * math.exp(hurry)
        return odds / (odds + 1 - leaves)

    def _likelihood(self, row: Row, leaves: float, ends: bool, signature: Signature) -> float:
        """P(ends, signature | history); writes both into the row."""
        row[ENDS], row[ACTS] = ends, signature[0]
        found = leaves if ends else 1 - leaves
        found *= self.acts.probability(self._acts_after.of(row), signature[0])
        return found * self.signatures.probability(self._slots_after.of(row), signature)

    def _weights(
        self, open_turns: Sequence[tuple[OpenTurn, float]], row: Row, leaves: float
    ) -> list[float]:
        """Of each open turn how ready it is · P(last, acts, slots | history); writes in the row."""
        acts: dict[bool, Callable[[tuple[str, ...]], float]] = {}
        signatures: dict[tuple[str, ...], Callable[[Signature], float]] = {}
        weights = []
        for (turn, last, _), ready in open_turns:
            row[ENDS], row[ACTS] = last, turn.acts
            if last not in acts:
                acts[last] = self.acts.given(self._acts_after.of(row))
            if turn.acts not in signatures:
                signatures[turn.acts] = self.signatures.given(self._slots_after.of(row))
            found = acts[last](turn.acts) * signatures[turn.acts](turn.signature)
            weights.append(ready * found * (leaves if last else 1 - leaves))
        return weights

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
        named = {act_name(act) for act in told}
        bare = [
            (*act.split("-", 1), "none", "none") if "-" in act else (act,)
            for act in acts
            if act not in named
        ]
        return Message("user", text, acts=(*told, *(bare if acts != NOTHING else ())))

    def _reworded(
        self, user: LoggedUser, style: int, key: int, reading: Reading
    ) -> Iterator[str]:
        values: dict[str, str] = {}
        wanted = Wanted(self._told, user.kind, key, values)
        for turn, row in zip(user.turns, rows_of(user, style), strict=True):
            described = self._phrase_after.of(row)
            values.update(turn.values)
            told = [(slot_name(slot), value) for slot, value in turn.values.items()]
            words = [
                filled(reading.take(self.bank.shelf(part, described)), wanted, told)
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


def _keys(seed: int, n: int) -> list[int]:
    """Of each conversation the key of all its chance."""
    return [int(key) for key in children(mix(seed & MASK), n)]


def _uniform(key: int, turn: int, choice: int) -> float:
    """A number in [0, 1); turn 0 is the conversation's own."""
    return draw(key, USER, turn, choice) / 2**32
