"""What a model's replies look like, as numbers a person would be alarmed by before any score is.

    reply_tokens       tokens of a reply
    repeated_replies   share of replies that said what the same conversation had heard already
    repeated_words     share of the words of a reply that stood in it before
    tool_calls         tools called in a conversation, malformed calls too
    refusals           share of replies that decline to help

All are means over valid rollouts. A reward that can be had without doing the work shows here
first: `trainers.reward_watch` listens. Knows nothing of rewards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from convgym.language.tool_calls import parse_reply
from trainers.llm.rollouts import Rollout

_WORD = re.compile(r"\w+")
_REFUSAL = re.compile(
    r"\b(?:can['’]?t|cannot|can not|won['’]t|will not|unable to|not able to|not allowed to)\b"
    r"[^.!?]{0,20}\b(?:help|assist|do|discuss|answer|provide|comply|continue|fulfil|process)\b"
    r"|\bas an ai\b",
    re.IGNORECASE,
)
"""Declining in general; that something was not found, or somebody not verified, is none."""


def reply_statistics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Numbers of a row; none where no rollout has both tokens and words."""
    told = [_of_one(rollout) for rollout in rollouts if rollout.valid and _replies(rollout)]
    if not told:
        return {}
    return {name: float(np.mean([one[name] for one in told])) for name in told[0]}


def is_refusal(reply: str) -> bool:
    """Whether a reply declines to help."""
    return bool(_REFUSAL.search(reply))


def repeated_words(reply: str) -> float:
    """Share of the words that stood in the reply before, in [0, 1)."""
    words = _WORD.findall(reply.lower())
    return 1 - len(set(words)) / len(words) if words else 0.0


def _replies(rollout: Rollout) -> list[str]:
    return [one["content"] for one in rollout.messages if one["role"] == "assistant"]


def _of_one(rollout: Rollout) -> dict[str, float]:
    replies = _replies(rollout)
    plain = [" ".join(reply.lower().split()) for reply in replies]
    parsed = [parse_reply(reply) for reply in replies]
    return {
        "reply_tokens": rollout.sampled / len(replies),
        "repeated_replies": 1 - len(set(plain)) / len(plain),
        "repeated_words": float(np.mean([repeated_words(one.speech) for one in parsed])),
        "tool_calls": float(sum(len(one.calls) + len(one.errors) for one in parsed)),
        "refusals": float(np.mean([is_refusal(one.speech) for one in parsed])),
    }
