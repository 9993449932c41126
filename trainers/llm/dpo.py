"""Direct preference optimisation: a language model moved towards what was preferred.

    pair ─► log π of what was sampled in chosen, in rejected ─┐
        └─► the same by the reference, computed once, kept ───┴─► dpo_losses ─► step

The log-probability of a conversation is the sum over the agent's tokens; what the user said has
the same probability under both policies and cancels (arXiv:2404.12358, section 4).

What a newcomer would get wrong: the reference is the model as it was when the learner was made,
not as it is when training goes on; so its log-probabilities are stored with the learner. And the
loss sees differences only: both replies may become less likely, to the gain of what no pair
mentions, unless `imitation` holds the preferred one. Knows nothing of environments.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.checkpoints import (
    put_weights,
    read_checkpoint,
    restore,
    weights_of,
    write_checkpoint,
)
from trainers.llm.preference_losses import dpo_losses, implied_rewards
from trainers.llm.preference_steps import PairSteps, means, pieces, take_step
from trainers.llm.preferences import Preference, Segments
from trainers.llm.rollouts import Rollout, RolloutBatch
from trainers.llm.sft import Report

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_FORM = "convgym dpo 1"
_DIGEST = 16
_KNOWN, _VALUES = "reference.digests", "reference.log_probs"


@dataclass(frozen=True, kw_only=True)
class DPOConfig(PairSteps):
    """Direct preference optimisation (Rafailov et al., 2023, arXiv:2305.18290).

    L = E[ (1 − ε) · −log σ(Δ) + ε · −log σ(−Δ) ] + α · −log π(chosen) / tokens
    Δ = β [(ℓ_chosen − ℓ_rejected) − (the same of the reference)]
    """

    beta: float = 0.1
    """β: how dear it is to leave the reference; above 0."""
    imitation: float = 0.0
    """α: weight of the chosen one's log-loss a token (arXiv:2404.19733, eq. 1)."""

    def __post_init__(self) -> None:
        if not 0.0 < self.beta < np.inf:
            raise InvalidConfiguration(f"beta={self.beta}; it must be above 0")
        super().__post_init__()
        if not 0.0 <= self.imitation < np.inf:
            raise InvalidConfiguration(f"imitation={self.imitation}; it must be 0 or more")

    def create(self, model: Any, reference: Any = None) -> DPO:
        """A learner that trains this `LanguageModel` in place; see `DPO`."""
        return DPO(self, model, reference)


class DPO:
    """A language model, its optimiser, the steps done, and what the reference thought of the pairs.

    The reference is `model` as it is now, or `reference`, a frozen LanguageModel, if one is given;
    only then can pairs be added after the first step, such as those of a policy that has learnt.
    """

    def __init__(self, config: DPOConfig, model: Any, reference: Any = None) -> None:
        self.config, self.model, self.reference, self.step = config, model, reference, 0
        self._known: dict[bytes, float] = {}
        """The reference's log-probability of a conversation, by its digest."""
        self._optimizer = torch.optim.AdamW(
            model.trainable().values(), lr=config.learning_rate, weight_decay=config.weight_decay
        )

    def remember(self, preferences: Sequence[Preference]) -> DPO:
        """Compute and keep the reference's log-probabilities of pairs, those that are new.

        Held-out pairs too must be shown before the first step. Raises InvalidConfiguration for new
        pairs after it, where no reference was given, and for pairs that are words only.
        """
        new = {_digest(side): side for pair in preferences for side in _sides(pair)}
        new = {key: side for key, side in new.items() if key not in self._known}
        if new and self.step and self.reference is None:
            raise InvalidConfiguration(
                f"{len(new)} conversations are new to DPO after step {self.step}, when the model "
                "is the reference no longer; hand them to remember() before the first step, or "
                "give a frozen reference model"
            )
        size = 2 * (self.config.micro_batch_size or self.config.batch_size)
        keys = sorted(new, key=lambda key: sum(len(part.tokens) for part in new[key]))
        with torch.no_grad():
            for first in range(0, len(keys), size):
                some = keys[first : first + size]
                found, _ = _log_probs(self.reference or self.model, [new[key] for key in some])
                self._known |= dict(zip(some, found.tolist(), strict=True))
        return self

    def fit(
        self, preferences: Sequence[Preference], n_steps: int, report: Report | None = None
    ) -> DPO:
        """Go on for `n_steps`; after `load` as if there had been no break.

        `report` is told loss, accuracy (share of pairs whose chosen side has the higher implied
        reward), margin (of the implied rewards), both rewards and the gradient's norm.
        """
        self.remember(preferences)
        for _ in range(n_steps):
            measured = take_step(
                self.config, preferences, self._columns, self._optimizer, self.step
            )
            self.step += 1
            if report is not None:
                report(self.step, measured)
        return self

    @torch.no_grad()
    def measure(self, preferences: Sequence[Preference]) -> dict[str, float]:
        """Loss, accuracy, margin and rewards on pairs that `remember` has seen."""
        self.remember(preferences)
        return means(self._columns(piece) for piece in pieces(preferences, self.config))

    def _columns(self, pairs: Sequence[Preference]) -> dict[str, Tensor]:
        """A number for each pair.  each (B,)"""
        config, count = self.config, len(pairs)
        chosen, rejected = zip(*(_sides(pair) for pair in pairs), strict=True)
        log_probs, sampled = _log_probs(self.model, [*chosen, *rejected])
        known = [self._known[_digest(side)] for side in (*chosen, *rejected)]
        reference = log_probs.new_tensor(known)
        loss = dpo_losses(
            log_probs[:count], log_probs[count:], reference[:count], reference[count:],
            config.beta, config.label_smoothing,
        )  # fmt: skip
        if config.imitation:
            loss = loss - config.imitation * log_probs[:count] / sampled[:count]
        rewards = implied_rewards(log_probs, reference, config.beta).detach()
        margin = rewards[:count] - rewards[count:]
        return {
            "loss": loss,
            "accuracy": (margin > 0).double(),
            "margin": margin,
            "chosen_reward": rewards[:count],
            "rejected_reward": rewards[count:],
        }

    # -- file --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was trained, optimiser, step and the reference's log-probabilities."""
        digests = np.frombuffer(b"".join(self._known), dtype=np.uint8).copy()
        kept = weights_of(self.model.trainable()) | {
            _KNOWN: torch.from_numpy(digests),
            _VALUES: torch.tensor(list(self._known.values()), dtype=torch.float64),
        }
        write_checkpoint(
            path,
            _FORM,
            self.config,
            self.step,
            {},
            self._optimizer,
            kept | weights_of(self.model.trainable()),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any, reference: Any = None) -> DPO:
        """What `save` wrote; `model`, of the shape that was trained, takes its weights."""
        config, step, tensors = read_checkpoint(path, _FORM)
        found = cls(DPOConfig(**config), model, reference)
        put_weights(tensors, model.trainable())
        restore(tensors, {}, found._optimizer)
        digests = tensors[_KNOWN].numpy().tobytes()
        for place, value in enumerate(tensors[_VALUES].tolist()):
            found._known[digests[place * _DIGEST : (place + 1) * _DIGEST]] = value
        found.step = step
        return found


def _sides(pair: Preference) -> tuple[Segments, Segments]:
    if not pair.chosen_segments:
        raise InvalidConfiguration(
            "a preference has words only; hand the pairs to in_tokens(pairs, chat_format) first"
        )
    return pair.chosen_segments, pair.rejected_segments


def _digest(segments: Segments) -> bytes:
    """Equal for equal tokens of which the same were sampled."""
    found = blake2b(digest_size=_DIGEST)
    for segment in segments:
        found.update(len(segment.tokens).to_bytes(8, "little"))
        found.update(np.ascontiguousarray(segment.tokens, dtype="<i8").tobytes())
        found.update(np.ascontiguousarray(segment.loss_mask).tobytes())
    return found.digest()


def _log_probs(model: Any, conversations: Sequence[Segments]) -> tuple[Tensor, Tensor]:
    """Sums over the sampled tokens, and how many those are.  (N,) float64 each"""
    made = [Rollout(segments=c, rewards=np.zeros(1), group=0, seed=0) for c in conversations]
    rows = RolloutBatch(made).rows.to(model.device)
    scored = (model.score(rows).log_probs.double() * rows.mask).sum(-1)
    nothing = scored.new_zeros(len(conversations))
    counted = nothing.index_add(0, rows.rollouts, rows.mask.sum(-1).double())
    return nothing.index_add(0, rows.rollouts, scored), counted
