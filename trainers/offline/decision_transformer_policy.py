"""A Decision Transformer as a policy: it asks for a return and counts what came in.

    turn t    R_t ─► model over the last turns ─► action ─► reward r_t
              R_0 = target return,  R_{t+1} = (R_t − r_t) / γ

What a newcomer would get wrong: a `predict` is told no reward. Whoever plays a conversation says
it with `rewarded(reward)` after each step, as ConvGym's own loops do (`evaluation.rollout.play`,
`play_side_by_side`). Where nobody says it, every reward counts as 0; that is right where reward
comes only at the end, and elsewhere it asks for what it has got already.

What it does hangs on all that was said, so `action_probs` is that of one turn of the conversation
being played; of a recorded one, ask for `episode_probs`.

The state that `predict` hands out holds the conversation so far. The file is JSON beside
safetensors (`trainers.archive`): loading runs no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays
from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE
from convgym.policies.batched import BatchActPolicy, Masks, Rows
from convgym.policies.policy import ActPolicy, Probabilities, belief_of
from trainers.archive import read_archive, write_archive
from trainers.offline.past import Past, last_outputs
from trainers.offline.transformer import Architecture, DecisionTransformer

_FORMAT = "convgym decision transformer 1"
_ROW = np.zeros(1, dtype=np.intp)


class DecisionTransformerPolicy(ActPolicy):
    """Acts as the data did where they came to `target_return`; it may be set between episodes.

    Over acts, `temperature` 0 takes the best legal one, above 0 acts are sampled from
    softmax(logits / temperature); `deterministic=True` takes the best in any case. Over vectors it
    gives the model's, and its propensity is NaN.
    """

    def __init__(
        self,
        model: DecisionTransformer,
        target_return: float,
        discount: float = 1.0,
        temperature: float = 0.0,
        name: str = "decision transformer",
    ) -> None:
        super().__init__()
        if not temperature >= 0:
            raise InvalidConfiguration(f"temperature={temperature}; it must be 0 or more")
        if not 0.0 < discount <= 1.0:
            raise InvalidConfiguration(f"discount={discount} is outside (0, 1]")
        if not np.isfinite(target_return):
            raise InvalidConfiguration(f"target_return={target_return}; it must be finite")
        self.model, self.name = model, name
        self.target_return, self.discount, self.temperature = target_return, discount, temperature
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        super().reset(seed)
        self._past = self._begun()

    def rewarded(self, reward: float) -> None:
        """The reward of the newest action; the state that came with it remembers it."""
        self._past.rewarded(_ROW, reward)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """An action and the conversation with it; without a state, a conversation begins."""
        begins = state is None or np.any(episode_start)
        self._past = self._begun() if begins else deepcopy(state)
        action: Any
        if self.model.architecture.discrete:
            if action_masks is None:
                action_masks = np.ones(self.model.architecture.actions, dtype=np.int8)
            action, _ = super().predict(observation, None, None, deterministic, action_masks)
            self._past.see(_ROW, belief_of(observation)[None])
        else:
            self._past.see(_ROW, belief_of(observation)[None])
            action, self.propensity = self._past.outputs(self.model, _ROW)[0], float("nan")
        self._past.did(_ROW, action)
        return action, self._past

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """Of the turn that follows what `predict` has met since `reset`.  # (actions,)"""
        past = deepcopy(self._past)
        past.see(_ROW, belief_of(observation)[None])
        return self._chosen(past.outputs(self.model, _ROW), np.asarray(action_masks)[None])[0]

    def episode_probs(self, episode: EpisodeArrays) -> NDArray[np.float64]:
        """Of each turn of a recorded conversation over acts, given all before it.  # (T, actions)

        What is asked for is what the recorded rewards leave of `target_return`.
        """
        assert episode.masks is not None, "legal acts are needed"
        turns, discounts = np.arange(len(episode)), self.discount ** np.arange(len(episode))
        earned = np.cumsum(discounts * episode.rewards)
        asked = (self.target_return - np.concatenate([[0.0], earned[:-1]])) / discounts
        first = np.maximum(turns + 1 - self.model.architecture.context, 0)
        lengths = turns + 1 - first
        seen = np.minimum(first[:, None] + np.arange(lengths.max()), turns[:, None])  # (T, window)
        columns = (episode.observations, episode.actions, asked, turns)
        found = last_outputs(self.model, (column[seen] for column in columns), lengths)
        return self._chosen(found, episode.masks[:-1])

    def batched(self) -> BatchDecisionTransformerPolicy:
        """The same policy for many conversations at once."""
        return BatchDecisionTransformerPolicy(self)

    def save(self, path: str | Path) -> None:
        """Write one file; the same policy gives the same bytes."""
        about = {
            "format": _FORMAT,
            "name": self.name,
            "target_return": self.target_return,
            "discount": self.discount,
            "temperature": self.temperature,
            "architecture": self.model.architecture.to_dict(),
        }
        weights = self.model.state_dict()
        write_archive(path, about, {name: part.cpu().numpy() for name, part in weights.items()})

    @classmethod
    def load(cls, path: str | Path) -> DecisionTransformerPolicy:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        about, arrays = read_archive(path, _FORMAT)
        try:
            known = Architecture(**about["architecture"])
            blocks = len({name.split(".")[1] for name in arrays if name.startswith("blocks.")})
            if known.layers != blocks:
                raise ValueError(f"it promises {str(known.layers)[:40]} layers and holds {blocks}")
            with torch.device("meta"):  # no memory for what it only promises
                model = DecisionTransformer(known)
            weights = {name: torch.from_numpy(part) for name, part in arrays.items()}
            model.load_state_dict(weights, assign=True)
            return cls(
                model, about["target_return"], about["discount"], about["temperature"],
                about["name"],
            )  # fmt: skip
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is no whole Decision Transformer: {told(error)}"
            ) from error

    def _begun(self) -> Past:
        past = Past(self.model.architecture, self.discount, 1)
        past.begin(_ROW, self.target_return)
        return past

    def _chosen(self, logits: NDArray[np.float32], masks: Masks) -> NDArray[np.float64]:
        """Probabilities of acts.  (k, actions), (k, actions) → (k, actions)"""
        allowed = np.asarray(masks) > 0
        assert allowed.any(axis=-1).all(), "some act is always legal"
        logits = np.where(allowed, logits, -np.inf)
        if self.temperature == 0:
            return np.eye(logits.shape[-1])[logits.argmax(axis=-1)]
        weights = np.exp((logits - logits.max(axis=-1, keepdims=True)) / self.temperature)
        found: Probabilities = weights / weights.sum(axis=-1, keepdims=True)
        return found


class BatchDecisionTransformerPolicy(BatchActPolicy):
    """`DecisionTransformerPolicy` for many conversations, in one pass through the model a turn."""

    def __init__(self, policy: DecisionTransformerPolicy) -> None:
        super().__init__()
        self.policy, self.name = policy, policy.name
        self._past = Past(policy.model.architecture, policy.discount, 0)
        self._rows: Rows = _ROW

    def begin(self, rows: Rows, seeds: Sequence[int]) -> None:
        """Begin an episode in each of `rows`."""
        super().begin(rows, seeds)
        self._past.make_room(int(np.max(rows, initial=-1)) + 1)
        self._past.begin(rows, self.policy.target_return)

    def rewarded(self, rows: Rows, rewards: NDArray[np.float64]) -> None:
        """The rewards of the newest actions in these rows.  (k,), (k,)"""
        self._past.rewarded(rows, rewards)

    def actions(
        self, observations: Any, masks: Masks, rows: Rows, deterministic: bool = False
    ) -> Any:
        """An action for each row.  # (k,) acts, or (k, actions) float32"""
        self._past.see(rows, belief_of(observations))
        self._rows = rows
        chosen: Any
        if self.policy.model.architecture.discrete:
            chosen = super().actions(observations, masks, rows, deterministic)
        else:
            chosen = self._past.outputs(self.policy.model, rows)
            self.propensities = np.full(len(rows), np.nan)
            self.indices = np.zeros(len(rows), dtype=np.intp)
            self.acts = np.full(len(rows), -1)
        self._past.did(rows, chosen)
        return chosen

    def action_probs(self, observations: Any, masks: Masks) -> NDArray[np.float64]:
        """Of the rows that `actions` was asked for, which hold these observations.

        # (k, actions)
        """
        return self.policy._chosen(self._past.outputs(self.policy.model, self._rows), masks)

    def episode_probs(self, episode: EpisodeArrays) -> NDArray[np.float64]:
        """Of each turn of a recorded conversation, given all before it.  # (T, actions)"""
        return self.policy.episode_probs(episode)
