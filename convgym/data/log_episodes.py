"""Logs as Minari episodes: what the agent had read, what it answered, what that earned.

    form         observation t                                    action t
    features     vectors of the newest messages, turn number      act (`convgym.data.agent_acts`)
    message      the words read since the last reply              the reply's words
    transcript   all words so far, who said them                  the reply's words

What an agent turn is, and whose reward is whose, is said in `convgym.data.exchanges`. A log that
just ends has terminated; one whose metadata say `"truncated": true` was cut off. Each episode has
its `conversation_id` among its options, and these infos, of T + 1 entries:

    propensity   NaN throughout: nobody knows how likely the agent was to say what it said
    text         features only: the words read before turn t, at t
    reply        features only: the words of action t, at t + 1, as the propensity stands

All words pass through `sanitize`; where that or the length cost some, it is counted.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from convgym.conversation import Conversation, Message
from convgym.data.agent_acts import AgentActs
from convgym.data.exchanges import REWARDS, Exchanges, exchanges, written
from convgym.data.local_root import minari_module
from convgym.data.packed_files import whole_file
from convgym.envs.shared_text import SharedText
from convgym.envs.transcript import AGENT, CUSTOMER, TOOL
from convgym.errors import DatasetError, InvalidConfiguration, InvalidLog, told
from convgym.language.encoders import Encoder, HashedEncoder, Vectors
from convgym.rewards.outcome import is_number
from convgym.spaces import sanitize

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

_MISFIT = (ValueError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError)
"""What values of another type than a form's make it raise."""
FORMS = ("features", "message", "transcript")
_SPEAKERS = {"user": CUSTOMER, "assistant": AGENT, "tool": TOOL, "system": "System"}
_HALFWAY = 10
"""The turn number t enters as t / (t + 10): 0 at first, 1 never."""


@dataclass(frozen=True, kw_only=True)
class LogForm:
    """How conversations become episodes."""

    observation: str = "features"
    """`features` (then actions are acts), `message` or `transcript` (then they are words)."""
    messages: int = 2
    """Of features: how many of the newest messages there are, what was just read first."""
    reward: str = "auto"
    """`auto`, `turns`, `conversation`, or `metadata.NAME`: see `convgym.data.exchanges`."""
    default_reward: float | None = None
    """Of a conversation without one, at its last reply; None leaves such conversations out."""
    observation_length: int = 8192
    """Characters of an observation; the newest are kept."""
    action_length: int = 4096
    """Characters of a reply; the first are kept."""

    def __post_init__(self) -> None:
        if self.observation not in FORMS:
            raise InvalidConfiguration(
                f"observation={self.observation!r}; it must be one of {', '.join(FORMS)}"
            )
        if not re.fullmatch(r"auto|turns|conversation|metadata\..+", self.reward):
            raise InvalidConfiguration(f"reward={self.reward!r}; it must be {REWARDS}")
        if min(self.messages, self.observation_length, self.action_length) < 1:
            raise InvalidConfiguration(
                f"messages={self.messages}, observation_length={self.observation_length}, "
                f"action_length={self.action_length}; each must be 1 or more"
            )
        if self.default_reward is not None and not is_number(self.default_reward):
            raise InvalidConfiguration(
                f"default_reward={self.default_reward!r:.60}; it must be a finite number"
            )


class LogEpisodes:
    """Turns conversations into episodes of one form, all with the same acts and encoder."""

    def __init__(
        self, form: LogForm, acts: AgentActs | None = None, encoder: Encoder | None = None
    ) -> None:
        """`acts` are needed for features, and only for them."""
        if (acts is not None) != (form.observation == "features"):
            raise InvalidConfiguration(
                f"observation={form.observation!r} came {'with' if acts else 'without'} acts; "
                "features take those of fit_agent_acts, words take none"
            )
        self.form, self.acts, self.encoder = form, acts, encoder or HashedEncoder()
        self.skipped: Counter[str] = Counter()
        """How many conversations became no episode, by reason."""
        self.shortened = 0
        """Texts that lost characters on the way."""
        self.observation_space: spaces.Space[Any]
        self.action_space: spaces.Space[Any]
        if acts is None:
            self.observation_space = SharedText(form.observation_length)
            self.action_space = SharedText(form.action_length)
        else:
            size = form.messages * self.encoder.dim + 1
            self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
            self.action_space = spaces.Discrete(len(acts.names))

    def buffers(self, conversations: Iterable[Conversation]) -> Iterator[EpisodeBuffer]:
        """An episode of each conversation that can be one; the others are counted.

        Raises DatasetError at the end where there was none.
        """
        made = 0
        for conversation in conversations:
            try:
                yield self.buffer(conversation)
                made += 1
            except InvalidLog as reason:
                self.skipped[str(reason)] += 1
        if not made:
            reasons = "; ".join(f"{count} because {why}" for why, count in self.skipped.items())
            raise DatasetError(f"no conversation can be an episode: {reasons or 'there is none'}")

    def buffer(self, conversation: Conversation) -> EpisodeBuffer:
        """One conversation as an episode; raises InvalidLog where it cannot be one."""
        minari_module()
        from minari.data_collector import EpisodeBuffer

        parts = exchanges(conversation, self.form.reward)
        rewards = parts.rewards
        if rewards is None:
            if self.form.default_reward is None:
                raise InvalidLog(f"it has no reward (reward={self.form.reward!r})")
            rewards = np.zeros(len(parts))
            rewards[-1] = self.form.default_reward
        if "\0" in conversation.conversation_id:
            raise InvalidLog("its conversation_id holds the character NUL")
        ends = np.arange(1, len(parts) + 1) == len(parts)
        cut = conversation.metadata.get("truncated") is True
        read, replies = self._words(parts)
        infos: dict[str, Any] = {"propensity": np.full(len(read), np.nan)}
        actions: Any = replies
        if self.acts is not None:
            infos |= {"text": read, "reply": ["", *replies]}
            actions = self.acts.numbers(parts.replies)
        return EpisodeBuffer(
            options={"conversation_id": conversation.conversation_id},
            observations=self._observations(parts, read, replies),
            actions=actions,
            rewards=rewards,  # type: ignore[arg-type]
            terminations=ends & (not cut),
            truncations=ends & cut,
            infos=infos,
        )

    def observe(self, conversation: Conversation) -> Any:
        """What the agent observes after all that was said.

        An agent that spoke last has read nothing since, and observes what it did before that.
        """
        said = Conversation(
            conversation.conversation_id, (*conversation.messages, Message("assistant", ""))
        )
        parts = exchanges(said)
        return self._observations(parts, *self._words(parts))[len(parts) - 1]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `log_form.json`, and `agent_acts.npz` where there are acts, into `folder`."""
        about = {**asdict(self.form), "encoder": self.encoder.name}
        if self.acts is not None:
            self.acts.save(Path(folder) / "agent_acts.npz")
        with whole_file(Path(folder) / "log_form.json") as file:
            file.write(json.dumps(about, indent=1).encode() + b"\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], encoder: Encoder | None = None) -> LogEpisodes:
        """Read what `save` has written; an encoder other than hashed ones must be handed in.

        Raises InvalidConfiguration where the encoder is another one, DatasetError where there is
        nothing to read.
        """
        try:
            about = json.loads((Path(folder) / "log_form.json").read_text(encoding="utf-8"))
            name = str(about.pop("encoder"))
            form = LogForm(**about)
            spaces.Text(form.observation_length), spaces.Text(form.action_length)
        except (OSError, LookupError, *_MISFIT) as error:
            raise DatasetError(f"{folder} holds no form of a log: {told(error)}") from error
        encoder = encoder or _hashed(name)
        if encoder is None or encoder.name != name:
            raise InvalidConfiguration(
                f"{folder} was made with the encoder {name!r:.300}; pass that one as encoder"
            )
        path = Path(folder) / "agent_acts.npz"
        acts = AgentActs.load(path, encoder) if form.observation == "features" else None
        return cls(form, acts, encoder)

    # -- observations ------------------------------------------------------------------------------

    def _words(self, parts: Exchanges) -> tuple[list[str], list[str]]:
        """What was read and what was answered, as words of the alphabet.  (T + 1,), (T,)"""
        form = self.form
        read = [
            self._clean("\n".join(written(m) for m in some if m.content), form.observation_length)
            for some in parts.read
        ]
        return read, [self._clean(written(reply), form.action_length) for reply in parts.replies]

    def _clean(self, text: str, length: int) -> str:
        kept = sanitize(text, length)
        self.shortened += kept != text
        return kept

    def _observations(self, parts: Exchanges, read: list[str], replies: list[str]) -> Any:
        if self.form.observation == "message":
            return read
        if self.form.observation == "transcript":
            return list(self._transcripts(parts, replies))
        said = [text for pair in zip(read, [*replies, ""], strict=True) for text in pair][:-1]
        return self._features(self.encoder.encode(said))

    def _features(self, vectors: Vectors) -> Vectors:
        """The newest messages before each turn, newest first.  (2 T + 1, dim) → (T + 1, size)"""
        newest, turns = self.form.messages, np.arange(len(vectors) // 2 + 1)
        before = np.zeros((newest - 1, vectors.shape[1]), dtype=np.float32)
        padded = np.concatenate([before, vectors])
        columns = [padded[newest - 1 - back :: 2][: len(turns)] for back in range(newest)]
        number = (turns / (turns + _HALFWAY)).astype(np.float32)[:, None]
        return np.concatenate([*columns, number], axis=1)

    def _transcripts(self, parts: Exchanges, replies: list[str]) -> Iterator[str]:
        """The newest of all that was said before each turn."""
        page, length = "", self.form.observation_length
        for turn, some in enumerate(parts.read):
            lines = [f"{_SPEAKERS[m.role]}: {sanitize(written(m), length)}" for m in some]
            if turn:
                lines.insert(0, f"{AGENT}: {replies[turn - 1]}")
            page = "\n".join([*([page] if page else []), *lines])[-length:]
            yield page


def _hashed(name: str) -> HashedEncoder | None:
    """The hashed encoder of this name."""
    match = re.fullmatch(r"hashed-(\d+)-(\d+)", name)
    return HashedEncoder(int(match[1]), int(match[2])) if match else None
