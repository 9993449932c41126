"""Minari conversations in words as chats: what the agent was shown, what it said, what it earned.

    Minari     o0    a0         o1    a1         o2      o_t: what was new before a_t was said
    chat       user  assistant  user  assistant  user
    loss       0     1          0     1          0
    turn 1     ├───── prompt ──────┤  completion         with r1 and the return-to-go from there

What an observation becomes, by the kind of observation that was recorded:

    message      one user message, what the newest step brought; the history is put together again
    transcript   the first page is a user message, then what each page adds to the one before
    dict         a system message (policy, tools), then tool results and user's words, if any

Knows nothing of models or tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.envs.conversation_env import ACTION_LENGTH
from convgym.envs.transcript import AGENT, AGENT_LINE
from convgym.errors import DatasetError
from convgym.spaces import sanitize

if TYPE_CHECKING:
    from minari import MinariDataset

Message = dict[str, str]
"""`role` and `content`, as chat templates take them."""

_PARTS = ("policy", "tools", "tool_results", "message")


@dataclass(frozen=True, eq=False)
class AgentTurn:
    """One reply of the agent, with all that stood before it."""

    prompt: tuple[Message, ...]
    completion: str
    reward: float
    return_to_go: float
    """Discounted sum of this reward and of those that followed."""


@dataclass(frozen=True, eq=False)
class Chat:
    """One conversation of T agent turns."""

    messages: tuple[Message, ...]
    """The last one may be what followed the last reply; nobody answers it."""
    rewards: NDArray[np.float64]  # (T,)
    returns: NDArray[np.float64]  # (T,) discounted sum of rewards from t on
    terminated: bool
    """False where the conversation was cut off."""

    @property
    def loss(self) -> list[bool]:
        """Whether there is something to learn from each message: the agent's replies."""
        return [message["role"] == "assistant" for message in self.messages]

    @property
    def replies(self) -> list[int]:
        """Places of the agent's replies among the messages.  # T"""
        return [place for place, learnt in enumerate(self.loss) if learnt]

    def turns(self) -> Iterator[AgentTurn]:
        """A prompt and its completion for every agent turn."""
        for place, reward, return_ in zip(self.replies, self.rewards, self.returns, strict=True):
            said = self.messages[place]["content"]
            yield AgentTurn(self.messages[:place], said, float(reward), float(return_))


def read_chats(dataset: MinariDataset, *, system: str = "", discount: float = 1.0) -> list[Chat]:
    """Every conversation of a Minari dataset of texts, in its order.

    `system` is what stands first; of Dict observations, else their policy and tools. Texts are
    transcripts if they go on where the ones before them ended, else messages. `discount` is that
    of the returns.

    Raises DatasetError for observations or actions that are no texts, and for transcripts that
    were clipped, for what is missing there cannot be told.
    """
    shown, acted = dataset.observation_space, dataset.action_space
    if not isinstance(shown, spaces.Text | spaces.Dict) or not isinstance(acted, spaces.Text):
        raise DatasetError(
            f"a chat is made of texts; this dataset has {type(shown).__name__} observations and "
            f'{type(acted).__name__} actions. Take one recorded with action="text"'
        )
    episodes = read_episodes(dataset, discount, _PARTS)
    if isinstance(shown, spaces.Dict):
        return [_of_parts(episode, system) for episode in episodes]
    pages = any(
        _added(e.observations[0], e.observations[1], e.actions[0]) is not None for e in episodes
    )
    return [_of_texts(episode, system, pages) for episode in episodes]


def _of_parts(episode: EpisodeArrays, system: str) -> Chat:
    seen = episode.observations
    shown = [
        _parts(results, said)
        for results, said in zip(seen["tool_results"], seen["message"], strict=True)
    ]
    return _chat(episode, system or f"{seen['policy'][0]}\n\nTools:\n{seen['tools'][0]}", shown)


def _of_texts(episode: EpisodeArrays, system: str, pages: bool) -> Chat:
    texts = list(_news(episode) if pages else episode.observations)
    return _chat(episode, system, [[_message("user", text)] for text in texts])


def _chat(episode: EpisodeArrays, system: str, shown: list[list[Message]]) -> Chat:
    """Messages from what was shown before each reply, and after the last."""
    messages = [_message("system", system)] if system else []
    for new, reply in zip(shown[:-1], episode.actions, strict=True):
        messages += [*new, _message("assistant", reply)]
    last = [message for message in shown[-1] if message["content"]]
    return Chat((*messages, *last), episode.rewards, episode.returns, episode.terminated)


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": str(content)}


def _parts(results: str, message: str) -> list[Message]:
    """Tool results and the user's words; an empty user message where there is neither."""
    if results and not message:
        return [_message("tool", results)]
    said = [_message("user", message)]
    return [_message("tool", results), *said] if results else said


def _news(episode: EpisodeArrays) -> Iterator[str]:
    """The first page, and what each page adds to the one before it and the agent's reply."""
    pages = episode.observations
    yield pages[0]
    for before, after, reply in zip(pages[:-1], pages[1:], episode.actions, strict=True):
        added = _added(before, after, reply)
        if added is None:
            raise DatasetError(
                "a transcript does not go on where the one before it ended; it was clipped. "
                'Take conversations recorded with observation="message" or "dict"'
            )
        yield added


def _added(before: str, after: str, reply: str) -> str | None:
    """What a page adds to the one before and to the reply, whole or shortened; None if it is none.

    Environments shorten a reply in their pages, logs do not.
    """
    said = sanitize(reply, ACTION_LENGTH)
    for shown in (said, said[:AGENT_LINE]):
        known = f"{before}\n{AGENT}: {shown}" if before else f"{AGENT}: {shown}"
        if f"{after}\n".startswith(f"{known}\n"):
            return after[len(known) + 1 :]
    return None
