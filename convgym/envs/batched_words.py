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
from convgym.engine.turn_words import SpokenActs, acts_of, results_text
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
        self._harvested = {
            part: BatchedVoice(words.voice.harvested, domain.names, domain.act)
            for part, words in self._words.items()
            if words.voice.harvested is not None
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
        voice = self._words[part].voice
        if voice.harvested is None:
            return self._put_together(rows, part, voice.realism)
        texts = np.empty(len(rows), dtype=object)
        found = self._retrieved(rows, voice.realism)
        texts[~found] = self._worded(self._voices[part], rows[~found])[0]
        texts[found] = self._worded(self._harvested[part], rows[found])[0]
        made: Texts = texts.tolist()
        return made

    def _put_together(self, rows: Rows, part: str, realism: int) -> Texts:
        """Turns made of phrases, and a share found whole."""
        texts, acts = self._worded(self._voices[part], rows)
        if not realism:
            return texts
        voice, ends = self._words[part].voice, np.cumsum(acts.counts).tolist()
        said, numbers = acts.keys(), self._numbers(rows).tolist()
        whole = self._retrieved(rows, realism) & (acts.counts > 0)
        for place in np.flatnonzero(whole).tolist():
            own = said[ends[place] - int(acts.counts[place]) : ends[place]]
            row = int(rows[place])
            texts[place] = voice.say(
                [self._batched.words.act(*one) for one in own], self._style(row),
                int(self._writers.keys[row]), numbers[place], RETRIEVAL,
            )  # fmt: skip
        return texts

    def _worded(self, voice: BatchedVoice, rows: Rows) -> tuple[Texts, SpokenActs]:
        """What users said, of phrases alone, and its acts."""
        records, tasks = self._episodes.records, self._episodes.tasks
        acts = acts_of(self._batched.words, records, tasks, rows, ordered=True)
        return voice.turns(acts, self._writers.at(rows), self._numbers(rows)), acts

    def _numbers(self, rows: Rows) -> NDArray[np.int64]:
        """How many turns each user had said before this one."""
        before: NDArray[np.int64] = self._episodes.records["user_turn"][rows].astype(np.int64) - 1
        return before

    def _retrieved(self, rows: Rows, realism: int) -> NDArray[np.bool_]:
        """Rows whose turn is retrieved, as `Voice.source` has it."""
        keys_of, numbers = self._writers.keys[rows], self._numbers(rows).astype(np.uint64)
        drawn = keys.draw_batch(keys_of, WORDING, numbers, SOURCE)
        return keys.below_batch(drawn, 50) < realism

    def _style(self, row: int) -> Style:
        writers = self._writers
        return Style(
            int(self._formality[row]), int(writers.verbosity[row]), int(writers.typo_rate[row]),
            int(writers.diversity[row]),
        )  # fmt: skip
