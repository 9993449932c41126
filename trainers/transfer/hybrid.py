"""Offline values for an online language-model learner: what logs know, rollouts need not find out.

    logs ─► CQL / IQL ─► V(s) of a conversation before each reply ─┐
    rollouts of a group ───────────────────────────────────────────┴─► rewards for credit by turn

        δ_t = r_t + γ V(s_{t+1}) − V(s_t)       V = 0 after the last turn of a finished conversation

With γ and λ as credit's discount, the sum of δ from t on is the generalised advantage of turn t
(arXiv:1506.02438, eq. 16); at λ = 1 it is R_t − V(s_t), so that no critic, however wrong, moves
what is learnt: it is a baseline and lowers the variance alone. Below 1 its opinion counts.
(Shaping by a potential: Ng et al., 1999.)

    online_ratio    1: rollouts alone; below: the rest of each batch's groups are recorded

Knows nothing of how a language model is trained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import DatasetError, InvalidConfiguration
from convgym.language.encoders import Encoder
from trainers.llm.conversations import Message
from trainers.llm.rollouts import Rollout
from trainers.offline.codecs import Codec, DiscreteActs, Replies
from trainers.offline.config import checked
from trainers.offline.observation_codecs import ObservationCodec, TextObservations
from trainers.offline.registry import config_of
from trainers.offline.value_function import ValueFunction, value_function_of

if TYPE_CHECKING:
    from minari import MinariDataset


@dataclass(frozen=True, kw_only=True)
class HybridConfig:
    """Offline pre-training of values, and how an online learner uses them."""

    offline_algorithm: str = "iql"
    """What fits the critic: "iql", "cql" or "mc"."""
    offline_pretrain_steps: int = 2000
    """Updates of the critic."""
    offline_options: Mapping[str, Any] | None = None
    """Options of its config."""
    discount: float = 1.0
    """γ per agent turn."""
    lam: float = 1.0
    """λ: at 1 the critic is a baseline only, at 0 it replaces what follows the next turn."""
    replies: int = 256
    """Where recorded replies have no numbers: so many of the most frequent stand for all."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.offline_algorithm not in ("iql", "cql", "mc"):
            raise InvalidConfiguration(
                f"offline_algorithm={self.offline_algorithm!r}; values of states come from iql, "
                "cql or mc"
            )
        if self.offline_pretrain_steps < 1 or self.replies < 1:
            raise InvalidConfiguration(
                f"offline_pretrain_steps={self.offline_pretrain_steps}, replies={self.replies}; "
                "both count from 1"
            )
        if not (0 <= self.discount <= 1 and 0 <= self.lam <= 1):
            raise InvalidConfiguration(
                f"discount={self.discount}, lam={self.lam}; both lie in [0, 1]"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "offline_options": dict(self.offline_options or {})}


class ConversationCritic:
    """V of a conversation of texts before each reply."""

    def __init__(self, value: ValueFunction, observations: ObservationCodec) -> None:
        self.value, self._observations = value, observations

    def __call__(self, messages: Sequence[Message]) -> NDArray[np.float64]:
        """Of N replies N + 1 values: before each, and after the last.  # (N + 1,)"""
        shown, replies = states_of(messages)
        return self.value(self._observations.rows(shown, replies))


def states_of(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    """(what was read before each reply and after the last, the replies).

    What stands between two replies is one text, a line for each message; the system's is left out,
    as recorded observations have none.
    """
    shown: list[list[str]] = [[]]
    replies: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            replies.append(message["content"])
            shown.append([])
        elif message["role"] != "system" and message["content"]:
            shown[-1].append(message["content"])
    return ["\n".join(texts) for texts in shown], replies


def pretrain_critic(
    dataset: MinariDataset,
    config: HybridConfig,
    *,
    replies: Sequence[str] | None = None,
    encoder: str | Encoder = "hashed",
) -> ConversationCritic:
    """Values from recorded conversations in words.

    `replies` are the texts of the acts that info `act` numbers, where the data have it; else the
    most frequent ones stand for all. Raises DatasetError for a dataset without texts.
    """
    if replies is None:
        replies = _distinct(_frequent(dataset), encoder)[: config.replies]
    codec = Codec(TextObservations(encoder), DiscreteActs(Replies(replies, encoder)))
    options = {
        "discount": config.discount,
        "seed": config.seed,
        **(config.offline_options or {}),
    }
    kind = config_of(config.offline_algorithm, discrete=True)
    learner = checked(kind, options).create()
    episodes = codec.episodes(dataset, config.discount)
    learner.fit(episodes, config.offline_pretrain_steps, shapes=codec.shapes)
    return ConversationCritic(value_function_of(learner.algorithm, True), codec.observations)


class CriticShaping:
    """Rollouts with δ of each turn in place of its reward, for credit by turn.

    Credit: `GroupRelative(credit="turn", discount=γ λ)`, as `credit` gives it.
    """

    def __init__(self, critic: Any, *, discount: float = 1.0, lam: float = 1.0) -> None:
        """`critic` gives N + 1 values of the messages of a conversation of N replies."""
        self.critic, self.discount, self.lam = critic, discount, lam

    def __call__(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """The same rollouts, rewards shaped; failed ones as they are."""
        return [self._shaped(r) if r.valid else r for r in rollouts]

    def _shaped(self, rollout: Rollout) -> Rollout:
        values = np.array(self.critic(rollout.messages), dtype=np.float64)
        turns = len(rollout.rewards)
        if len(values) < turns + 1:
            raise InvalidConfiguration(
                f"the critic gave {len(values)} values of a conversation of {turns} replies; it "
                "must give one before each reply and one after the last"
            )
        values = values[: turns + 1]
        if rollout.terminated:
            values[-1] = 0.0
        shaped = rollout.rewards + self.discount * values[1:] - values[:-1]
        return replace(rollout, rewards=shaped)


def _frequent(dataset: MinariDataset) -> list[str]:
    """All replies, the commonest first; of equally common ones in alphabetical order."""
    counts: Counter[str] = Counter()
    for episode in dataset.iterate_episodes():
        if not isinstance(episode.actions[0], str):
            raise DatasetError(
                f"actions are {type(episode.actions[0]).__name__}, not texts; give a dataset "
                'recorded with action="text"'
            )
        counts.update(episode.actions)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [text for text, _ in ordered]


def _distinct(texts: Sequence[str], encoder: str | Encoder) -> list[str]:
    """Of texts that the encoder takes for the same only the first."""
    vectors = Replies(["-"], encoder).encode(texts)
    return list(
        {v.tobytes(): text for v, text in zip(vectors[::-1], texts[::-1], strict=True)}.values()
    )[::-1]
