"""What users and tools say in batched episodes, as texts: made for the rows that somebody reads.

    turn ─► results_text ─────────────────────────────┐
       └──► acts_of ─► BatchedVoice, in the row's style ─┴─► message
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.batched_domain import BatchedDomain
from convgym.engine.keys import WORDING
from convgym.engine.turn_words import acts_of, results_text
from convgym.envs.batched_episodes import SPLIT_NAMES, BatchedEpisodes, Rows
from convgym.envs.conditions import Conditions
from convgym.envs.episode_setup import EpisodeSetup
from convgym.envs.modes import MESSAGE_LENGTH
from convgym.language.style import Style
from convgym.language.voice import RETRIEVAL, SOURCE
from convgym.language.voice_batch import BatchedVoice, Writers
from convgym.users.persona import WRITING

Texts = list[str]


class BatchedWords:
    """Words of a batch of episodes; which wordings a split has, and whose style, is by row."""

    def __init__(
        self, episodes: BatchedEpisodes, batched: BatchedDomain, conditions: Conditions
    ) -> None:
        self._episodes, self._batched = episodes, batched
        self._words, domain = conditions.words, batched.words
        self._voices = {
            part: BatchedVoice(words.voice, domain.names, domain.act)
            for part, words in self._words.items()
        }
        count = len(episodes.records)
        self._is_held_out = np.zeros(count, dtype=bool)
        self._formality = np.zeros(count, dtype=np.int64)
        self._writers = Writers.none(count)

    def begin(self, rows: Rows, setup: EpisodeSetup) -> None:
        """New episodes in these rows; without a style a persona writes as it does."""
        most, records = self._words["train"].diversity, self._episodes.records
        given, own = setup.style, np.empty((3, len(rows)), dtype=np.int64)
        if given is not None:
            own[:] = [[given.formality], [given.verbosity], [given.typo_rate]]
            most = min(given.diversity, most)
        else:
            own[:] = records["persona"][rows].T[list(WRITING)]
        begun = Writers.of(
            records["wording_key"][rows], own[0], own[1], own[2], np.full(len(rows), most)
        )
        self._writers.put(rows, begun)
        self._formality[rows] = own[0]
        self._is_held_out[rows] = SPLIT_NAMES[self._episodes.splits[rows]] == "test_lexical"

    # -- texts of the newest step ------------------------------------------------------------------

    def messages(self, rows: Rows, quotes: Sequence[tuple[str, ...]] | None) -> Texts:
        """What came back from each row: the tools' words, then the user's."""
        turns = self._episodes.records
        answered = (turns["answered"][rows] != 0).tolist()
        both = zip(self.results(rows, quotes), self.said(rows), answered, strict=True)
        texts = [
            (f"{found}\n{said}" if found else said) if spoke else found
            for found, said, spoke in both
        ]
        return [text[:MESSAGE_LENGTH] for text in texts]

    def results(self, rows: Rows, quotes: Sequence[tuple[str, ...]] | None) -> Texts:
        """What the tools answered."""
        return results_text(self._batched.words, self._episodes.records, rows, quotes)

    def said(self, rows: Rows) -> Texts:
        """What the user said; empty where the agent has kept the floor."""
        held_out = self._is_held_out[rows]
        if not held_out.any():
            return self._said(rows, "train")
        texts = np.empty(len(rows), dtype=object)
        for part, chosen in (("train", ~held_out), ("held_out", held_out)):
            texts[chosen] = self._said(rows[chosen], part)
        made: Texts = texts.tolist()
        return made

    def _said(self, rows: Rows, part: str) -> Texts:
        """What users of rows with these wordings said."""
        records, domain = self._episodes.records, self._batched.words
        acts = acts_of(domain, records, self._episodes.tasks, rows, ordered=True)
        numbers = records["user_turn"][rows].astype(np.int64) - 1
        writers = self._writers.at(rows)
        texts = self._voices[part].turns(acts, writers, numbers)
        voice, ends = self._words[part].voice, np.cumsum(acts.counts).tolist()
        for place in self._retrieved(acts.counts, writers, numbers, voice.realism).tolist():
            own = acts.keys()[ends[place] - int(acts.counts[place]) : ends[place]]
            key, number = int(writers.keys[place]), int(numbers[place])
            texts[place] = voice.say(
                [domain.act(*one) for one in own], self._style(int(rows[place])), key, number,
                RETRIEVAL,
            )  # fmt: skip
        return texts

    @staticmethod
    def _retrieved(
        counts: NDArray[np.int64], writers: Writers, numbers: NDArray[np.int64], realism: int
    ) -> NDArray[np.intp]:
        """Rows whose turn is not made of phrases."""
        if not realism:
            return np.zeros(0, dtype=np.intp)
        drawn = keys.draw_batch(writers.keys, WORDING, numbers.astype(np.uint64), SOURCE)
        return np.flatnonzero((counts > 0) & (keys.below_batch(drawn, 50) < realism))

    def _style(self, row: int) -> Style:
        writers = self._writers
        return Style(
            int(self._formality[row]), int(writers.verbosity[row]), int(writers.typo_rate[row]),
            int(writers.diversity[row]),
        )  # fmt: skip
