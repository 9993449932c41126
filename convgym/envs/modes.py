"""What a conversation shows and takes, by mode: names, lengths and spaces.

    observation   message | transcript | dict | features | embedding
    action        text | act | embedding
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from convgym.envs.domain import Domain
from convgym.envs.embedding import Embedding
from convgym.envs.shared_text import SharedText
from convgym.spaces import UtteranceSpace

OBSERVATIONS = ("message", "transcript", "dict", "features", "embedding")
ACTION_MODES = ("text", "act", "embedding")

ACTION_LENGTH = 4096
MESSAGE_LENGTH = 4096
POLICY_LENGTH = 4096
TOOLS_LENGTH = 8192
VIEW_LENGTH = 4096
TRANSCRIPT_LENGTH = 24576


def action_space(mode: str, domain: Domain, embedding: Embedding) -> spaces.Space[Any]:
    """What the agent may send."""
    if mode == "act":
        return spaces.Discrete(len(domain.actions))
    if mode == "embedding":
        return embedding.candidates.space()
    return UtteranceSpace(ACTION_LENGTH, domain.utterances)


def observation_space(
    mode: str, domain: Domain, embedding: Embedding, max_turns: int
) -> spaces.Space[Any]:
    """What the agent sees."""
    features = spaces.Box(0.0, 255.0, (len(domain.layout),), dtype=np.float32)
    if mode == "features":
        return features
    if mode == "embedding":
        return embedding.newest.space
    if mode == "message":
        return SharedText(MESSAGE_LENGTH)
    if mode == "transcript":
        return SharedText(TRANSCRIPT_LENGTH)
    return spaces.Dict(
        {
            "features": features,
            "message": SharedText(MESSAGE_LENGTH),
            "policy": SharedText(POLICY_LENGTH),
            "tool_results": SharedText(MESSAGE_LENGTH),
            "tools": SharedText(TOOLS_LENGTH),
            "turn": spaces.Box(0, max_turns, (1,), dtype=np.int64),
            "view": SharedText(VIEW_LENGTH),
        }
    )
