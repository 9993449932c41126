"""Pairs of conversations of which one is preferred: from rollouts, from files, as words and tokens.

    prompt       system, user                     both begin so
    chosen       assistant, user, assistant       what was said after it in the better one
    rejected     assistant                        and in the worse one; the lengths may differ

What a newcomer would get wrong: what the user answers belongs to a conversation too, and it is
read but not learnt. Pairs made of rollouts keep the tokens that were sampled; pairs that came as
words are turned into tokens once, by `in_tokens`, and are never encoded again.

Knows nothing of models or of losses.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from convgym.errors import InvalidConfiguration, InvalidLog, told
from convgym.language.archive import DAMAGE
from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversations import Message
from trainers.llm.rollouts import Rollout, Segment

Segments = tuple[Segment, ...]
Messages = tuple[Message, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Preference:
    """A better and a worse way on from one prompt; as words, as tokens, or both.

    Raises InvalidConfiguration where a side has neither, says nothing, or is equal to the other.
    """

    prompt: Messages = ()
    """What both begin with; replies in it are read, not learnt."""
    chosen: Messages = ()
    """What follows the prompt in the better one."""
    rejected: Messages = ()
    """What follows it in the worse one."""
    chosen_segments: Segments = ()
    """The whole better conversation as tokens, the prompt included."""
    rejected_segments: Segments = ()
    """The whole worse one."""
    margin: float = 0.0
    """By how much the one was better, where that is known: the difference of returns."""

    def __post_init__(self) -> None:
        for side in ("chosen", "rejected"):
            words, segments = getattr(self, side), getattr(self, f"{side}_segments")
            said = any(message["role"] == "assistant" for message in words)
            if (words and not said) or not (words or segments):
                raise InvalidConfiguration(
                    f"the {side} side of a preference says nothing; give it a message of the "
                    "role assistant, or segments with sampled tokens"
                )
            if segments and not sum(int(segment.loss_mask.sum()) for segment in segments):
                raise InvalidConfiguration(
                    f"the {side} side of a preference has no sampled token; turns are −1 where "
                    "the agent did not speak, and 0, 1, … where it did"
                )
        if bool(self.chosen_segments) != bool(self.rejected_segments):
            raise InvalidConfiguration(
                "a preference has tokens of one side only; give both, or none"
            )
        if self.chosen_segments:
            same = _same(self.chosen_segments, self.rejected_segments)
        else:
            same = self.chosen == self.rejected
        if same:
            raise InvalidConfiguration("both sides of a preference are the same; leave it out")

    @property
    def conversations(self) -> tuple[Messages, Messages]:
        """Both in words, from their first message on: chosen, rejected."""
        return (*self.prompt, *self.chosen), (*self.prompt, *self.rejected)

    @property
    def flipped(self) -> Preference:
        """The other one preferred."""
        return Preference(
            prompt=self.prompt,
            chosen=self.rejected,
            rejected=self.chosen,
            chosen_segments=self.rejected_segments,
            rejected_segments=self.chosen_segments,
            margin=-self.margin,
        )


# -- from rollouts ---------------------------------------------------------------------------------


def preference_of(chosen: Rollout, rejected: Rollout) -> Preference:
    """Two rollouts of one group as a pair, with the tokens that were sampled."""
    prompt = _prompt(chosen.messages, rejected.messages)
    return Preference(
        prompt=prompt,
        chosen=chosen.messages[len(prompt) :],
        rejected=rejected.messages[len(prompt) :],
        chosen_segments=chosen.segments,
        rejected_segments=rejected.segments,
        margin=chosen.return_ - rejected.return_,
    )


def candidate_pairs(rollouts: Sequence[Rollout]) -> Iterator[tuple[Rollout, Rollout]]:
    """Every two valid rollouts of one group that did not say the same; groups in their order."""
    groups: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        if rollout.valid:
            groups.setdefault(rollout.group, []).append(rollout)
    for members in groups.values():
        for one, other in combinations(members, 2):
            if not _same(one.segments, other.segments):
                yield one, other


def preferences_of(
    rollouts: Sequence[Rollout], *, most_per_group: int | None = 1, least_margin: float = 0.0
) -> list[Preference]:
    """Pairs of one group, the higher return preferred; failed rollouts are in none.

    `most_per_group`: the widest margins first, so that 1 is the best against the worst; None: all.
    `least_margin`: returns that differ by no more than this make no pair; equal ones never do.

    Raises InvalidConfiguration for values below 1 and 0.
    """
    if (most_per_group is not None and most_per_group < 1) or not least_margin >= 0:
        raise InvalidConfiguration(
            f"most_per_group={most_per_group}, least_margin={least_margin}; they are 1 or more "
            "(or None), and 0 or more"
        )
    groups: dict[int, list[Preference]] = {}
    for one, other in candidate_pairs(rollouts):
        if abs(one.return_ - other.return_) > least_margin:
            better, worse = (one, other) if one.return_ > other.return_ else (other, one)
            groups.setdefault(one.group, []).append(preference_of(better, worse))
    return [
        pair
        for pairs in groups.values()
        for pair in sorted(pairs, key=lambda pair: -pair.margin)[:most_per_group]
    ]


def _prompt(one: Messages, other: Messages) -> Messages:
    """What both begin with, up to the first reply."""
    shared = 0
    for first, second in zip(one, other, strict=False):
        if first != second or first["role"] == "assistant":
            break
        shared += 1
    return one[:shared]


def _same(one: Segments, other: Segments) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a.tokens, b.tokens) and np.array_equal(a.turns, b.turns)
        for a, b in zip(one, other, strict=True)
    )


# -- as tokens -------------------------------------------------------------------------------------


def in_tokens(preferences: Iterable[Preference], chat_format: ChatFormat) -> list[Preference]:
    """Pairs with tokens; those that have them keep theirs, and words are encoded piece by piece.

    The pieces are those that a model is prompted with and answers, so that pairs of both kinds go
    together. What follows the last reply is left out.
    """
    return [
        pair
        if pair.chosen_segments
        else replace(
            pair,
            chosen_segments=(_segment(pair.prompt, pair.chosen, chat_format),),
            rejected_segments=(_segment(pair.prompt, pair.rejected, chat_format),),
        )
        for pair in preferences
    ]


def _segment(prompt: Messages, said: Messages, chat_format: ChatFormat) -> Segment:
    """The whole conversation; turns count from the first reply after the prompt."""
    messages = (*prompt, *said)
    places = [place for place, one in enumerate(messages) if one["role"] == "assistant"]
    tokens = chat_format.opening(messages[: places[0]])
    turns, turn = [-1] * len(tokens), 0
    for place, following in zip(places, [*places[1:], None], strict=True):
        reply = chat_format.reply(messages[place]["content"])
        learnt = place >= len(prompt)
        turns += [turn if learnt else -1] * len(reply)
        turn += learnt
        read = chat_format.continuation(messages[place + 1 : following]) if following else []
        turns += [-1] * len(read)
        tokens += [*reply, *read]
    return Segment(
        np.array(tokens, dtype=np.int64), np.array(turns), np.zeros(len(turns), dtype=np.float32)
    )


# -- in files --------------------------------------------------------------------------------------


def write_preferences(path: str | os.PathLike[str], preferences: Iterable[Preference]) -> None:
    """One pair a line, as JSON, tokens too; the file is written whole or not at all."""
    temporary = Path(f"{os.fspath(path)}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            for pair in preferences:
                file.write(json.dumps(_record(pair), ensure_ascii=False) + "\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_preferences(path: str | os.PathLike[str]) -> list[Preference]:
    """Pairs of a file of JSON lines, as `write_preferences` writes them and as others do.

        {"prompt": "Well?", "chosen": "Yes", "rejected": "No"}
        {"prompt": [message, …], "chosen": [message, …], "rejected": [message, …], "margin": 0.5}
        {"chosen": [message, …], "rejected": [message, …]}       the prompt is what both begin with

    Raises InvalidLog, with the line's number, for one that is no pair.
    """
    pairs = []
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidLog(f"{os.fspath(path)} cannot be read: {error.strerror}") from error
    with io.BytesIO(content) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    pairs.append(_pair(json.loads(line)))
                except DAMAGE as error:
                    raise InvalidLog(
                        f"{os.fspath(path)}, line {number}, is no preference: {told(error)}. It "
                        "takes chosen and rejected, a text or a list of messages each, and a prompt"
                    ) from error
    return pairs


def _record(pair: Preference) -> dict[str, Any]:
    found: dict[str, Any] = {
        "prompt": list(pair.prompt),
        "chosen": list(pair.chosen),
        "rejected": list(pair.rejected),
        "margin": pair.margin,
    }
    for side in ("chosen_segments", "rejected_segments"):
        if getattr(pair, side):
            found[side] = [
                {
                    "tokens": segment.tokens.tolist(),
                    "turns": segment.turns.tolist(),
                    "log_probs": segment.log_probs.tolist(),
                }
                for segment in getattr(pair, side)
            ]
    return found


def _pair(record: Mapping[str, Any]) -> Preference:
    prompt = _messages(record.get("prompt", ()), "user")
    chosen, rejected = (_messages(record[side], "assistant") for side in ("chosen", "rejected"))
    if not prompt:
        shared = 0
        while shared < min(len(chosen), len(rejected)) and chosen[shared] == rejected[shared]:
            shared += 1
        prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
    return Preference(
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        chosen_segments=_segments(record.get("chosen_segments", ())),
        rejected_segments=_segments(record.get("rejected_segments", ())),
        margin=float(record.get("margin", 0.0)),
    )


def _messages(given: Any, role: str) -> Messages:
    if isinstance(given, str):
        return ({"role": role, "content": given},) if given or role == "assistant" else ()
    found = tuple({"role": one["role"], "content": one["content"]} for one in given)
    if not all(isinstance(text, str) for message in found for text in message.values()):
        raise ValueError("role and content of a message are texts")
    return found


def _segments(given: Iterable[Mapping[str, Sequence[float]]]) -> Segments:
    return tuple(
        Segment(
            np.array(one["tokens"], dtype=np.int64),
            np.array(one["turns"], dtype=np.int64),
            np.array(one["log_probs"], dtype=np.float32),
        )
        for one in given
    )
