"""Texts that an environment shows, as vectors that networks read.

    "Where is my parcel?"  ─► encoder ─► (256,)
    Dict(message, view, turn)  ─► Dict(message (256,), view (256,), turn)   `parts` leaves some away

For environments that have no `observation="embedding"`, which shows several messages and encodes
those of all conversations in one call: where there is one, it is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from convgym.envs.text_vectors import TextVectors, text_vectors
from convgym.errors import InvalidConfiguration
from convgym.language.encoders import Encoder


class EncodedText(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """An environment whose texts are vectors; what is no text stays as it is.

    `encoder` is a name or an `Encoder`, such as an `EmbeddingCache` of one. Of a Dict observation
    `parts` are kept, or all. A text that came before comes from memory.

    Raises InvalidConfiguration where the environment shows no text, or has no such part.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        encoder: str | Encoder = "hashed",
        parts: Sequence[str] | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, encoder=encoder, parts=parts)
        gym.ObservationWrapper.__init__(self, env)
        self._vectors = text_vectors(encoder)
        shown = env.observation_space
        if not isinstance(shown, spaces.Dict):
            if parts is not None or not isinstance(shown, spaces.Text):
                raise InvalidConfiguration(
                    f"the observations are {shown}, neither a text nor, if parts are named, a Dict "
                    "with texts; learn from them as they are"
                )
            self.observation_space = _encoded(shown, self._vectors)
            return
        kept = list(shown) if parts is None else list(parts)
        missing = sorted(set(kept) - set(shown))
        if missing or not kept:
            raise InvalidConfiguration(
                f"parts={kept!r}; the observations have {', '.join(shown)}; name some of these"
            )
        self.observation_space = spaces.Dict(
            {name: _encoded(shown[name], self._vectors) for name in kept}
        )

    def observation(self, observation: Any) -> Any:
        """The texts' vectors, and what else is kept."""
        if isinstance(observation, str):
            return self._vectors.of([observation])[0]
        seen: Any = self.observation_space
        return {
            name: self._vectors.of([part])[0] if isinstance(part, str) else part
            for name, part in observation.items()
            if name in seen.spaces
        }


def _encoded(space: spaces.Space[Any], vectors: TextVectors) -> spaces.Space[Any]:
    if isinstance(space, spaces.Text):
        return spaces.Box(-1.0, 1.0, (vectors.dim,), dtype=np.float32)
    return space
