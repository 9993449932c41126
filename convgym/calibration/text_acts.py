"""Acts of turns that no log labels: small talk by its cues, all else by what it is like.

    "ok thanks"                       thank          (`convgym.data.cues`)
    "where is my parcel?"             7: where is my order?          nearest of some clusters

Clusters of turns' vectors stand in for act labels (k-means, `convgym.data.reply_clusters`), asked
and told apart first. Knows nothing of probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.conversation import Message
from convgym.data import cues
from convgym.data.reply_clusters import ReplyClusters
from convgym.language.encoders import Encoder

TURNS_A_CLUSTER = 150
"""Turns beyond small talk that pay for one cluster more."""
MOST_CLUSTERS = 32
MOST_FITTED = 20_000
ASKS = "asks"


class TextActs:
    """Names the acts of turns from their words; an `ActsOf`."""

    def __init__(self, texts: Sequence[str], encoder: Encoder, seed: int = 0) -> None:
        """Learn clusters from the user turns of a log."""
        told = [text for text in texts if _small_talk(text) is None]
        told = told[:: -(-len(told) // MOST_FITTED) or 1]
        wanted = min(MOST_CLUSTERS, len(told) // TURNS_A_CLUSTER)
        alike = len(set(told)) < 2 or wanted < 2
        self._clusters = None if alike else ReplyClusters.fit(told, encoder, wanted, seed)

    def __call__(self, texts: Sequence[Sequence[str]]) -> list[list[tuple[str, ...]]]:
        """Of each conversation, of each text, its acts."""
        flat = iter(self._acts([text for said in texts for text in said]))
        return [[next(flat) for _ in said] for said in texts]

    def _acts(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        talk = [_small_talk(text) for text in texts]
        rest = [text for text, act in zip(texts, talk, strict=True) if act is None]
        names = iter(self._topics(rest))
        return [
            (act,) if act is not None else (*([ASKS] if "?" in text else []), next(names))
            for text, act in zip(texts, talk, strict=True)
        ]

    def _topics(self, texts: Sequence[str]) -> list[str]:
        if self._clusters is None or not texts:
            return ["tells"] * len(texts)
        return [self._clusters.acts[cluster] for cluster in self._clusters.predict(texts)]


def _small_talk(text: str) -> str | None:
    return cues.small_talk_act(Message("user", text))
