"""The newest messages of batched episodes as vectors: a memory that rolls by one with each message.

    replies ─┐                                     (rows, messages, dim)
    results ─┼─► TextVectors, one call ─► | newest | the one before | … | ─► what is seen
    words   ─┘
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convgym.envs.batched_episodes import BatchedEpisodes, Rows
from convgym.envs.batched_words import BatchedWords
from convgym.envs.text_vectors import NewestMessages, Vectors


class BatchedEmbeddings:
    """What `observation="embedding"` shows of a batch of episodes."""

    def __init__(
        self, episodes: BatchedEpisodes, words: BatchedWords, newest: NewestMessages
    ) -> None:
        self._episodes, self._words, self._vectors = episodes, words, newest.vectors
        shape = (len(episodes.records), newest.messages, newest.vectors.dim)
        self._newest: Vectors = np.zeros(shape, dtype=np.float32)

    def begin(self, rows: Rows) -> None:
        """New episodes in these rows, in which nothing was said."""
        self._newest[rows] = 0.0

    def hear(self, rows: Rows, replies: Sequence[str | None]) -> None:
        """What was said in the newest step of these rows: by the agent, by tools, by the user.

        `replies` are the agent's, one for each of them; None where the episode has just begun.
        """
        results = self._words.results(rows, self._episodes.quotes)
        answered = rows[self._episodes.records["answered"][rows] != 0]
        said = (
            _those(rows, replies),
            _those(rows, [result or None for result in results]),
            (answered, self._words.said(answered)),
        )
        vectors, end = self._vectors.of([text for _, texts in said for text in texts]), 0
        for who, texts in said:
            begin, end = end, end + len(texts)
            self._newest[who, 1:] = self._newest[who, :-1]
            self._newest[who, 0] = vectors[begin:end]

    def seen(self, rows: Rows) -> Vectors:
        """Observations of these rows.  # (n, messages · dim)"""
        count, messages, dim = self._newest.shape
        return self._newest.reshape(count, messages * dim)[rows]


def _those(rows: Rows, texts: Sequence[str | None]) -> tuple[Rows, list[str]]:
    """The rows with a text, and their texts."""
    there = np.array([text is not None for text in texts], dtype=bool)
    return rows[there], [text for text in texts if text is not None]
