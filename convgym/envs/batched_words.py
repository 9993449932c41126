"""What users and tools say in batched episodes, as texts: made for the rows that somebody reads.

    turn ─► results_text ─┐
       └──► spoken ─► Voice.say, in the row's own style ─┴─► message
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from convgym.engine.batched_domain import BatchedDomain
from convgym.envs.batched_episodes import BatchedEpisodes, Rows
from convgym.envs.conditions import Conditions
from convgym.envs.conversation_env import MESSAGE_LENGTH
from convgym.envs.episode_setup import EpisodeSetup
from convgym.language.style import Style
from convgym.users.persona import own_style


class BatchedWords:
    """Words of a batch of episodes; which wordings a split has, and whose style, is by row."""

    def __init__(
        self, episodes: BatchedEpisodes, batched: BatchedDomain, conditions: Conditions
    ) -> None:
        self._episodes, self._batched = episodes, batched
        self._words = conditions.words
        self._styles = [Style()] * len(episodes.records)

    def begin(self, rows: Rows, setup: EpisodeSetup) -> None:
        """New episodes in these rows; without a style a persona writes as it does."""
        diversity = self._words["train"].diversity
        if setup.style is not None:
            style = replace(setup.style, diversity=min(setup.style.diversity, diversity))
            for row in rows.tolist():
                self._styles[row] = style
            return
        levels = self._episodes.records["persona"][rows].tolist()
        for row, own in zip(rows.tolist(), levels, strict=True):
            self._styles[row] = own_style(own, diversity)

    def messages(self, rows: Rows) -> list[str]:
        """What came back from the newest step of each row: the tools' words, then the user's."""
        episodes = self._episodes
        turns, tasks = episodes.records, episodes.tasks
        answered, count = turns["answered"][rows].tolist(), turns["n_results"][rows].tolist()
        messages = []
        for place, row in enumerate(rows.tolist()):
            turn, task = turns[row], tasks[row]
            lines = self._batched.results_text(turn, task) if count[place] else ()
            if answered[place]:
                lines = (*lines, self._said(row, turn, task))
            messages.append("\n".join(lines)[:MESSAGE_LENGTH])
        return messages

    def _said(self, row: int, turn: np.void, task: np.void) -> str:
        part = "held_out" if self._episodes.splits[row] == "test_lexical" else "train"
        words = self._words[part]
        key, index = int(turn["wording_key"]), int(turn["user_turn"]) - 1
        spoken = self._batched.spoken(turn, task)
        return words.voice.say(
            spoken, self._styles[row], key, index, words.voice.source(key, index)
        )


def as_objects(texts: list[str], rows: Rows, count: int) -> NDArray[np.object_]:
    """Texts of some rows among those of all, which have None."""
    spread = np.full(count, None, dtype=object)
    for row, text in zip(rows.tolist(), texts, strict=True):
        spread[row] = text
    return spread
