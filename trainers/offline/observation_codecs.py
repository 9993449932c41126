"""What an environment shows, as rows of numbers for a learner.

    conversation   o0  a0  o1  a1  o2        observations and the replies between them
    rows           x0      x1      x2        (n, size)

A row may tell of all that was seen and said before it, and is the same whether a recorded
conversation is read or one is being played. Knows nothing of what replies mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import Parts as PartNames
from convgym.envs.text_vectors import NewestMessages, TextVectors
from convgym.language.encoders import Encoder

Rows = NDArray[np.float32]


class ObservationCodec(Protocol):
    """A conversation's observations as rows of numbers."""

    size: int
    """Numbers of a row."""
    parts: PartNames
    """What is read of Dict observations."""

    def rows(self, observations: Sequence[Any], replies: Sequence[str]) -> Rows:
        """A row for each observation; reply t was given to observation t.  # (n, size)"""


class BoxObservations:
    """Numbers, as they are."""

    def __init__(self, size: int, part: str = "features") -> None:
        """`part`: which of a dict's; of observations that are arrays it is not looked at."""
        self.size, self.parts = size, part

    def rows(self, observations: Sequence[Any], replies: Sequence[str]) -> Rows:
        """Flat rows."""
        shown = [o[self.parts] if isinstance(o, Mapping) else o for o in observations]
        return np.asarray(shown, dtype=np.float32).reshape(len(shown), self.size)


class TextObservations:
    """The newest messages, the customer's and the agent's, the newest first.

    `encoder` names one or is one; an `EmbeddingCache` computes each text once for ever. Of dicts,
    what tools answered and the customer then said is read, as `observation="message"` shows it.
    """

    parts: PartNames = ("message", "tool_results")

    def __init__(self, encoder: str | Encoder = "hashed", messages: int = 4) -> None:
        self._newest = NewestMessages(TextVectors(encoder), messages)
        self.size = int(self._newest.space.shape[0])

    def rows(self, observations: Sequence[Any], replies: Sequence[str]) -> Rows:
        """What a conversation shows after each of the customer's messages."""
        said: list[str] = []
        found = []
        for turn, observation in enumerate(observations):
            said.append(_message(observation))
            found.append(self._newest.of(said))
            said += replies[turn : turn + 1]
        return np.array(found, dtype=np.float32)


def _message(observation: Any) -> str:
    if not isinstance(observation, Mapping):
        return str(observation)
    newest = [observation["tool_results"], observation["message"]]
    return "\n".join(text for text in newest if text)


class Parts:
    """Several codecs' rows of the same observations, side by side."""

    def __init__(self, *codecs: ObservationCodec) -> None:
        self.codecs = codecs
        self.size = sum(codec.size for codec in codecs)
        named = [[c.parts] if isinstance(c.parts, str) else c.parts for c in codecs]
        self.parts = tuple(dict.fromkeys(part for parts in named for part in parts))

    def rows(self, observations: Sequence[Any], replies: Sequence[str]) -> Rows:
        """One row after the other."""
        return np.concatenate([codec.rows(observations, replies) for codec in self.codecs], axis=1)
