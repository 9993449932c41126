"""Offline values for an online language-model learner: what logs know, rollouts need not find out.

    logs ─► CQL / IQL ─► V(s) of a conversation before each reply ─┐
    rollouts of a group ───────────────────────────────────────────┴─► rewards for credit by turn

        δ_t = r_t + γ V(s_{t+1}) − V(s_t)       V = 0 after the last turn of a finished conversation

With γ and λ as credit's discount, the sum of δ from t on is the generalised advantage of turn t
(arXiv:1506.02438, eq. 16); at λ = 1 it is R_t − V(s_t), so that no critic, however wrong, moves
what is learnt: it is a baseline and lowers the variance alone. Below 1 its opinion counts.
(Shaping by a potential: Ng et al., 1999.)

The logs themselves are learnt from as well: with `online_ratio` ρ an optimiser step minimises

    ρ L_online + (1 − ρ) L_logs      L_logs = −Σ w_t ℓ_t / Σ w_t,   w = exp((R_t − V(s_t)) / β)

over recorded replies (advantage-weighted regression, arXiv:1910.00177), divided by ρ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.errors import DatasetError, InvalidConfiguration, MissingExtra
from convgym.language.encoders import Encoder
from trainers.llm.conversations import Chat, Message
from trainers.llm.language_model import LanguageModel
from trainers.llm.rollouts import Rollout, RolloutBatch, Segment
from trainers.llm.tokens import conversation_row
from trainers.offline.codecs import Codec, DiscreteActs, Replies
from trainers.offline.config import checked
from trainers.offline.observation_codecs import ObservationCodec, TextObservations
from trainers.offline.registry import config_of
from trainers.offline.value_function import ValueFunction, value_function_of
from trainers.option_kinds import check_kinds

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

if TYPE_CHECKING:
    from minari import MinariDataset

Critic = Callable[[Sequence[Message]], NDArray[np.float64]]
"""Of a conversation of N replies N + 1 values: before each, and after the last."""


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
    online_ratio: float = 1.0
    """ρ, in (0, 1]: at 1 recorded replies teach through the critic alone."""
    temperature: float = 0.5
    """β of recorded replies: small trusts only those that went better than expected."""
    replies: int = 256
    """Where recorded replies have no numbers: so many of the most frequent stand for all."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_kinds(self)
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
        if not (0 < self.online_ratio <= 1 and self.temperature > 0):
            raise InvalidConfiguration(
                f"online_ratio={self.online_ratio}, temperature={self.temperature}; the first is "
                "in (0, 1] and the second above 0"
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


def chat_of(rollout: Rollout, discount: float = 1.0) -> Chat:
    """A rollout as a recorded conversation."""
    returns = returns_to_go(rollout.rewards, discount)
    return Chat(rollout.messages, rollout.rewards, returns, rollout.terminated)


def pretrain_critic(
    logs: MinariDataset | Sequence[Chat],
    config: HybridConfig,
    *,
    replies: Sequence[str] | None = None,
    encoder: str | Encoder = "hashed",
    messages: int = 4,
) -> ConversationCritic:
    """Values from recorded conversations in words, of which the critic reads the newest messages.

    `replies` are the texts of the acts that info `act` numbers, where the data have it; else the
    most frequent ones stand for all. Raises DatasetError for a dataset without texts.
    """
    if replies is None:
        replies = _distinct(_frequent(logs), encoder)[: config.replies]
    codec = Codec(TextObservations(encoder, messages), DiscreteActs(Replies(replies, encoder)))
    options = {
        "discount": config.discount,
        "seed": config.seed,
        **(config.offline_options or {}),
    }
    kind = config_of(config.offline_algorithm, discrete=True)
    learner = checked(kind, options).create()
    if isinstance(logs, Sequence):
        episodes = [codec.encoded(_arrays(chat, config.discount), {}) for chat in logs]
    else:
        episodes = codec.episodes(logs, config.discount)
    learner.fit(episodes, config.offline_pretrain_steps, shapes=codec.shapes)
    return ConversationCritic(value_function_of(learner.algorithm, True), codec.observations)


class CriticShaping:
    """Rollouts with δ of each turn in place of its reward, for credit by turn.

    Credit: `GroupRelative(credit="turn", discount=γ λ)`.
    """

    def __init__(self, critic: Critic, *, discount: float = 1.0, lam: float = 1.0) -> None:
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


class RecordedReplies:
    """The loss of recorded replies, weighted by how much better than expected they went.

    A penalty of `PolicyOptimizer`, for `model` with its chat template; `conversations` a step,
    drawn by `seed`. Raises DatasetError for a template or tokenizer that `conversation_row`
    refuses.
    """

    def __init__(
        self,
        model: LanguageModel,
        chats: Sequence[Chat],
        critic: Critic,
        config: HybridConfig,
        *,
        conversations: int = 16,
    ) -> None:
        if not chats:
            raise InvalidConfiguration("no recorded conversations came; give one at least")
        self.model, self.config, self.conversations = model, config, conversations
        rows = [conversation_row(chat, model.tokenizer) for chat in chats]
        log_probs = [np.zeros(len(row.turns), dtype=np.float32) for row in rows]
        self._segments = [
            Segment(row.input_ids, row.turns, zeros)
            for row, zeros in zip(rows, log_probs, strict=True)
        ]
        self._weights = [self._weighted(chat, critic) for chat in chats]

    def __call__(self, step: int) -> Tensor:
        """(1 − ρ) / ρ times the loss of the few conversations of an optimiser step.  # ()"""
        number = min(self.conversations, len(self._segments))
        chance = np.random.default_rng((self.config.seed, step))
        drawn = chance.choice(len(self._segments), number, replace=False)
        rollouts = [
            Rollout(
                segments=(self._segments[place],),
                rewards=np.zeros(len(self._weights[place])),
                group=0,
                seed=0,
            )
            for place in drawn
        ]
        rows = RolloutBatch(rollouts).rows.to(self.model.device)
        weights = torch.zeros(rows.tokens.shape, device=rows.tokens.device)
        for row, place in enumerate(drawn):
            turns = rows.turns[row].clamp(min=0)
            values = torch.as_tensor(self._weights[place], dtype=weights.dtype).to(weights.device)
            weights[row] = values[turns].masked_fill(~rows.mask[row], 0.0)
        likelihood = self.model.score(rows).log_probs
        ratio = self.config.online_ratio
        loss: Tensor = -(weights * likelihood).sum() / weights.sum().clamp(min=1e-9)
        return (1 - ratio) / ratio * loss

    def _weighted(self, chat: Chat, critic: Critic) -> NDArray[np.float64]:
        """Of each reply, at most e³.  # (T,)"""
        advantages = chat.returns - np.asarray(critic(chat.messages))[: len(chat.returns)]
        weights: NDArray[np.float64] = np.exp(np.minimum(advantages / self.config.temperature, 3.0))
        return weights


def _arrays(chat: Chat, discount: float) -> EpisodeArrays:
    """A conversation as an episode of texts."""
    shown, replies = states_of(chat.messages)
    return EpisodeArrays(
        observations=np.array(shown, dtype=object),
        actions=np.array(replies, dtype=object),
        rewards=chat.rewards,
        terminated=chat.terminated,
        truncated=not chat.terminated,
        returns=returns_to_go(chat.rewards, discount),
    )


def _frequent(logs: MinariDataset | Sequence[Chat]) -> list[str]:
    """All replies, the commonest first; of equally common ones in alphabetical order."""
    counts: Counter[str] = Counter()
    if isinstance(logs, Sequence):
        counts.update(reply for chat in logs for reply in states_of(chat.messages)[1])
    else:
        for episode in logs.iterate_episodes():
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
