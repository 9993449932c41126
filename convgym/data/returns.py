"""What each turn of the assistant earned, and what was still to come.

    turn        user   assistant   tool   user   assistant
    reward             -0.1        0.2           1.0         rewards     (0.1, 1.0)
                                                 discount ½  return_to_go (0.6, 1.0)

Where turns carry rewards, the assistant's turn t earns all that stand on it and on what follows,
up to its next turn; one before its first turn was earned by nobody and counts for none. Where no
turn carries one, the conversation's reward is earned by the assistant's last turn.

    return_to_go[t] = reward[t] + discount · return_to_go[t + 1]

The discount counts the assistant's turns, not messages. Knows nothing of files.
"""

from __future__ import annotations

import numpy as np

from convgym.conversation import Conversation
from convgym.data.transitions import returns_to_go as discounted


def turn_rewards(conversation: Conversation) -> list[float] | None:
    """(T,) of the assistant's T turns; None where nobody measured anything."""
    rewards: list[float] = []
    if any(message.reward is not None for message in conversation.messages):
        for message in conversation.messages:
            if message.role == "assistant":
                rewards.append(0.0)
            if rewards:
                rewards[-1] += message.reward or 0.0
        return rewards
    if conversation.reward is None:
        return None
    rewards = [0.0 for _ in conversation.said_by("assistant")]
    if rewards:
        rewards[-1] = conversation.reward
    return rewards


def returns_to_go(conversation: Conversation, discount: float) -> list[float] | None:
    """(T,) discounted sums from each of the assistant's T turns; None as `turn_rewards`."""
    rewards = turn_rewards(conversation)
    if rewards is None:
        return None
    returns: list[float] = discounted(np.array(rewards), discount).tolist()
    return returns
