"""Which act an agent's reply is, where replies are words: the numbers that a learner chooses among.

    reply ─┬─ calls a tool ─────────────────────────► `call NAME`
           ├─ labelled, as most replies of the log ─► its label
           └─ else, by its words ─┬─ a tagger: of somebody's, or learnt from the labels
                                  └─ the nearest cluster of replies, where there is neither

A label is the reply's kinds of acts, sorted and joined: `inform+request`; kinds are the second part
of acts such as `["hotel", "inform", "area", "north"]`, else the intents. The most frequent labels
keep their names, and all the rest is `other`: eight acts of MultiDoGO's customers are seven intents
(contentonly, confirmation, openinggreeting, rejection, thankyou, outofdomain, closinggreeting) and
`other`, which is their requests. A cluster is called by its most central reply.

The acts are saved with what is made of them, so that a log of tomorrow means the same by them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation, Message
from convgym.data.exchanges import exchanges, written
from convgym.data.reply_clusters import ReplyClusters
from convgym.errors import DatasetError, InvalidConfiguration, InvalidLog
from convgym.language import act_tagger
from convgym.language.act_tagger import ActTagger
from convgym.language.archive import DAMAGE, identity_of, read_archive, write_archive
from convgym.language.encoders import Encoder

OTHER = "other"
MOST_FITTED = 50_000
"""Replies that acts are learnt from, drawn evenly from all of the log."""
_FORMAT = "convgym agent acts 1"


def act_label(message: Message) -> str | None:
    """What the log calls a message; None where it says nothing."""
    if message.tool_call:
        return f"call {'+'.join(sorted(message.tool_call))}"
    kinds = {act[1] if len(act) > 1 else act[0] for act in message.acts if act}
    return "+".join(sorted(kinds or set(message.intents))) or None


def frequent_labels(labels: Iterable[str], most: int) -> list[str]:
    """The most frequent labels; where there are more than `most`, the last one is `other`."""
    counted = sorted(Counter(labels).items(), key=lambda pair: (-pair[1], pair[0]))
    names = [label for label, _ in counted]
    return names if len(names) <= most else list(dict.fromkeys([*names[: most - 1], OTHER]))


class AgentActs:
    """Numbers the replies of an agent."""

    def __init__(
        self, labels: Sequence[str], speech: ActTagger | ReplyClusters, speech_labels: bool
    ) -> None:
        """Acts by label first, then those that only `speech` knows.

        speech_labels: the labels of replies that call no tool count too.
        """
        self.labels, self.speech, self.speech_labels = tuple(labels), speech, speech_labels
        self.names = tuple(dict.fromkeys([*labels, *speech.acts]))
        self._number = {name: index for index, name in enumerate(self.names)}
        self._of_speech = np.array([self._number[act] for act in speech.acts])

    def numbers(self, replies: Sequence[Message]) -> NDArray[np.int64]:
        """The acts of a conversation's replies, in their order.  (T,)"""
        texts, places = [written(reply) for reply in replies], range(len(replies))
        if isinstance(self.speech, ActTagger):
            found = self._of_speech[self.speech.predict(texts, places)]
        else:
            found = self._of_speech[self.speech.predict(texts)]
        for place, reply in enumerate(replies):
            label = act_label(reply) if reply.tool_call or self.speech_labels else None
            if label is not None:
                found[place] = self._number.get(label, self._number.get(OTHER, found[place]))
        return found

    @property
    def identity(self) -> str:
        """SHA-256 of what tells the acts apart."""
        return identity_of(*self._content())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one `.npz` file, whole or not."""
        write_archive(path, *self._content())

    @classmethod
    def load(cls, path: str | os.PathLike[str], encoder: Encoder) -> AgentActs:
        """Read what `save` has written; `encoder` is that of the clusters, where there are any.

        Raises InvalidConfiguration for another file or another encoder.
        """
        about, arrays = read_archive(path, _FORMAT)
        try:
            return cls._of(about, arrays, encoder, path)
        except InvalidConfiguration:
            raise
        except DAMAGE as error:
            raise InvalidConfiguration(f"{path} holds no whole acts: {error!r}") from error

    @classmethod
    def _of(
        cls, about: Mapping[str, Any], arrays: Mapping[str, Any], encoder: Encoder, path: Any
    ) -> AgentActs:
        spoken: dict[str, Any] = about["speech"]
        speech: ActTagger | ReplyClusters
        if spoken["format"] == act_tagger.FORMAT:
            speech = ActTagger.of_content(spoken, arrays)
        else:
            speech = ReplyClusters(spoken["acts"], arrays["centres"], encoder)
            if spoken["encoder"] != encoder.name:
                raise InvalidConfiguration(
                    f"{path} holds clusters by the encoder {spoken['encoder']!r}, and "
                    f"{encoder.name!r} came; pass the one that it was made with"
                )
        return cls(about["labels"], speech, about["speech_labels"])

    def _content(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
        speech, arrays = self.speech.content
        about = {"labels": list(self.labels), "speech_labels": self.speech_labels}
        return {"format": _FORMAT, **about, "speech": speech}, arrays


def fit_agent_acts(
    conversations: Iterable[Conversation],
    encoder: Encoder,
    *,
    most: int = 16,
    tagger: ActTagger | None = None,
    seed: int = 0,
) -> AgentActs:
    """Find the acts of a log's agent; the same log and seed give the same acts.

    most: so many labels at most, and so many clusters where replies have no labels.
    tagger: tells the acts of speech, whatever the log says of them.

    Raises DatasetError for a log without agent turns.
    """
    if most < 2:
        raise InvalidConfiguration(f"most={most}; there must be at least 2 acts to choose among")
    replies, places = _drawn(conversations, seed)
    if not replies:
        raise DatasetError(
            "no conversation has an agent turn; acts are those of turns with the role 'assistant'"
        )
    labels = [act_label(reply) for reply in replies]
    spoken = [index for index, reply in enumerate(replies) if not reply.tool_call]
    calls = [label for reply, label in zip(replies, labels, strict=True) if reply.tool_call]
    if tagger is not None:
        return AgentActs(frequent_labels(filter(None, calls), most), tagger, False)
    labelled = [index for index, label in enumerate(labels) if label is not None]
    there = [str(labels[index]) for index in labelled]
    kept = frequent_labels(there, most)
    if 2 * sum(labels[index] is not None for index in spoken) >= len(spoken) and len(kept) > 1:
        learnt = ActTagger.fit(
            [written(replies[index]) for index in labelled],
            [label if label in kept else OTHER for label in there],
            [places[index] for index in labelled],
            names=kept,
            seed=seed,
        )
        return AgentActs(kept, learnt, True)
    texts = [written(replies[index]) for index in spoken or range(len(replies))]
    clusters = ReplyClusters.fit(texts, encoder, most, seed)
    return AgentActs(frequent_labels(filter(None, calls), most), clusters, False)


def _drawn(conversations: Iterable[Conversation], seed: int) -> tuple[list[Message], list[int]]:
    """At most MOST_FITTED replies and their positions, each as likely (Vitter's algorithm R)."""
    chance, met = np.random.default_rng(seed), 0
    kept: list[tuple[Message, int]] = []
    for conversation in conversations:
        try:
            replies = exchanges(conversation).replies
        except InvalidLog:
            continue
        for place, reply in enumerate(replies):
            met += 1
            if len(kept) < MOST_FITTED:
                kept.append((reply, place))
            elif (slot := int(chance.integers(met))) < MOST_FITTED:
                kept[slot] = (reply, place)
    return [reply for reply, _ in kept], [place for _, place in kept]
