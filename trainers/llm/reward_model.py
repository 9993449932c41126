"""A language model that scores conversations as people do who preferred one of two.

    messages ─► chat template ─► tokens ─► backbone ─► hidden vector of the last ─► head ─► reward
    pairs    ─► reward of both ─► −log σ(r_chosen − r_rejected) ─► step

What a newcomer would get wrong: pairs tell differences only, so that the zero of a reward means
nothing; here it is put where the mean of the training conversations is. One unit is a log-odds: a
conversation that scores 1 more is preferred in 73 of 100. Whether that is so on new pairs tells
`calibration`. And a reward model sees words, no success: watch both while a policy learns from it.

Knows nothing of environments; `RewardModel` is a reward function for the loop, which hands it
messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra, told
from convgym.evaluation.intervals import wilson
from trainers.archive import new_folder
from trainers.llm.checkpoints import (
    put_weights,
    read_checkpoint,
    restore,
    weights_of,
    write_checkpoint,
)
from trainers.llm.conversations import Message
from trainers.llm.language_model import LanguageModel
from trainers.llm.preference_losses import bradley_terry_losses
from trainers.llm.preference_steps import Columns, PairSteps, means, pieces, take_step
from trainers.llm.preferences import Preference
from trainers.llm.rollouts import Rows
from trainers.llm.sft import Report
from trainers.llm.token_batches import padded

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

_FORM, _FOLDER = "convgym reward learner 1", "convgym reward model 1"
_BACKBONE, _HEAD, _ABOUT = "backbone", "head.safetensors", "about.json"
_BINS = 5


# -- how good it is --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a reward model is worth on pairs that it has not learnt from."""

    pairs: int
    accuracy: float
    """Share of pairs whose chosen side scores higher; a tie is a miss."""
    interval: tuple[float, float]
    """Of the accuracy, 95 % (Wilson)."""
    margin: float
    """Mean difference of the rewards."""
    log_loss: float
    """Mean −log σ(difference); log 2 = 0.693 knows nothing."""
    error: float
    """Expected calibration error: how far the claimed odds are from the accuracy, on average."""
    bins: tuple[tuple[float, float, int], ...]
    """(claimed probability of being right, share right, pairs), from the least sure on."""


def calibration(differences: NDArray[np.float64]) -> Calibration:
    """Of r_chosen − r_rejected of held-out pairs, at least one.  (N,)

    A difference d claims to be right with probability σ(|d|); bins are of equal width in it.
    """
    if not len(differences):
        raise InvalidConfiguration("there are no held-out preferences to measure a reward model on")
    right = differences > 0
    claimed = 1.0 / (1.0 + np.exp(-np.abs(differences)))
    places = np.minimum(((claimed - 0.5) * 2 * _BINS).astype(int), _BINS - 1)
    bins = tuple(
        (float(claimed[places == b].mean()), float(right[places == b].mean()),
         int((places == b).sum()))
        for b in np.unique(places)
    )  # fmt: skip
    return Calibration(
        pairs=len(differences),
        accuracy=float(right.mean()),
        interval=wilson(int(right.sum()), len(differences)),
        margin=float(differences.mean()),
        log_loss=float(np.logaddexp(0.0, -differences).mean()),
        error=sum(abs(claim - share) * count for claim, share, count in bins) / len(differences),
        bins=bins,
    )


# -- the model -------------------------------------------------------------------------------------


class RewardModel:
    """A scalar for a conversation: hidden vector of its last token, times a learnt one.

        reward = RewardModel.load("reward")
        reward(messages, info)               as `reward_fn` of the loop
        reward.score([messages, …])          many at once  # (N,)

    `model` is a LanguageModel; its head over words is not used. `max_tokens`: of a longer
    conversation the end is read. `seed`: of the first weights of the head.
    """

    def __init__(
        self, model: LanguageModel, *, max_tokens: int = 1024, batch_size: int = 32, seed: int = 0
    ) -> None:
        if max_tokens < 1 or batch_size < 1:
            raise InvalidConfiguration(
                f"max_tokens={max_tokens}, batch_size={batch_size}; both are 1 or more"
            )
        self.model, self.max_tokens, self.batch_size = model, max_tokens, batch_size
        self.centre = 0.0
        """What is taken off, so that the mean over the training conversations is 0."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = nn.Linear(model.width, 1, bias=False)
            nn.init.normal_(self.head.weight, std=(model.width + 1) ** -0.5)  # arXiv:2009.01325
        self.head.to(model.device)

    def trainable(self) -> dict[str, Tensor]:
        """What learns, by name, always in the same order."""
        inner = {f"backbone.{name}": weights for name, weights in self.model.trainable().items()}
        return inner | {"head": self.head.weight}

    def raw(self, conversations: Sequence[Sequence[Message]]) -> Tensor:
        """Rewards before they are centred, with their gradients.  # (N,)"""
        tokens, attention = padded([self._tokens(one) for one in conversations])
        nobody = torch.full_like(tokens, -1)
        rows = Rows(tokens, attention, nobody, torch.zeros(tokens.shape), torch.arange(len(tokens)))
        hidden = self.model.score(rows, hidden=True).hidden
        assert hidden is not None
        last = hidden[torch.arange(len(tokens)), attention.sum(-1) - 1]
        found: Tensor = self.head(last.float())[:, 0]
        return found

    @torch.no_grad()
    def score(self, conversations: Sequence[Sequence[Message]]) -> NDArray[np.float64]:
        """Centred rewards.  # (N,)

        Raises InvalidConfiguration for a conversation without messages, and where a reward is
        not finite.
        """
        found = np.zeros(len(conversations))
        lengths = [sum(len(message["content"]) for message in one) for one in conversations]
        order = np.argsort(lengths, kind="stable")  # neighbours of a length need little padding
        for first in range(0, len(order), self.batch_size):
            some = order[first : first + self.batch_size]
            found[some] = self.raw([conversations[place] for place in some]).double().cpu().numpy()
        if not np.isfinite(found).all():
            raise InvalidConfiguration(
                "a reward is not finite; the reward model has diverged, so train it anew with a "
                "lower learning rate"
            )
        return found - self.centre

    def __call__(self, messages: Sequence[Message], info: Mapping[str, Any] | None = None) -> float:
        """The reward of one conversation; `info` is not looked at."""
        return float(self.score([messages])[0])

    def differences(self, preferences: Sequence[Preference]) -> NDArray[np.float64]:
        """r_chosen − r_rejected.  # (N,)"""
        _in_words(preferences)
        sides = [side for pair in preferences for side in pair.conversations]
        rewards = self.score(sides).reshape(-1, 2)
        found: NDArray[np.float64] = rewards[:, 0] - rewards[:, 1]
        return found

    def calibration(self, preferences: Sequence[Preference]) -> Calibration:
        """How good it is on these pairs, which it should not have learnt from."""
        return calibration(self.differences(preferences))

    def _tokens(self, messages: Sequence[Message]) -> NDArray[np.int64]:
        if not messages:
            raise InvalidConfiguration("a conversation without messages has no reward")
        text = self.model.tokenizer.apply_chat_template(list(messages), tokenize=False)
        ids = self.model.tokenizer(text, add_special_tokens=False)["input_ids"]
        return np.array(ids[-self.max_tokens :], dtype=np.int64)

    # -- files -------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write backbone, head and tokenizer; the folder takes its place whole or not at all."""
        about = {"format": _FOLDER, "centre": self.centre, "max_tokens": self.max_tokens}
        with new_folder(folder) as written:
            self.model.save(written / _BACKBONE)
            save_file({"head": self.head.weight.detach().cpu().contiguous()}, written / _HEAD)
            (written / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], **options: Any) -> RewardModel:
        """What `save` wrote; `options` go to `LanguageModel.load`.

        Raises InvalidConfiguration for a folder that holds no reward model.
        """
        try:
            about = json.loads((Path(folder) / _ABOUT).read_text(encoding="utf-8"))
            if about["format"] != _FOLDER:
                raise ValueError(f"it says {about['format']!r}")
            head = load_file(Path(folder) / _HEAD)["head"]
            longest, centre = int(about["max_tokens"]), float(about["centre"])
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise InvalidConfiguration(f"{folder} holds no {_FOLDER}: {told(error)}") from error
        model = LanguageModel.load(Path(folder) / _BACKBONE, **options)
        found = cls(model, max_tokens=longest)
        found.centre = centre
        with torch.no_grad():
            found.head.weight.copy_(head)
        return found


# -- how it learns ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RewardModelConfig(PairSteps):
    """Bradley and Terry, 1952, over language models (arXiv:2203.02155, eq. 1).

    L = E[ (1 − ε) · −log σ(r_chosen − r_rejected) + ε · −log σ(r_rejected − r_chosen) ]
    """

    learning_rate: float = 1e-4
    """Of AdamW, after the warm-up."""

    def create(self, model: RewardModel) -> RewardLearner:
        """A learner that trains this reward model in place."""
        return RewardLearner(self, model)


class RewardLearner:
    """A reward model, its optimiser and the steps done."""

    def __init__(self, config: RewardModelConfig, model: RewardModel) -> None:
        self.config, self.model, self.step = config, model, 0
        self._optimizer = torch.optim.AdamW(
            model.trainable().values(), lr=config.learning_rate, weight_decay=config.weight_decay
        )

    def fit(
        self, preferences: Sequence[Preference], n_steps: int, report: Report | None = None
    ) -> RewardLearner:
        """Go on for `n_steps`; after `load` as if there had been no break. Centred at the end.

        `report` is told loss, accuracy, margin and the gradient's norm. Raises
        InvalidConfiguration for pairs without words.
        """
        _in_words(preferences)
        for _ in range(n_steps):
            measured = take_step(
                self.config, preferences, self._columns, self._optimizer, self.step
            )
            self.step += 1
            if report is not None:
                report(self.step, measured)
        self.model.centre = 0.0
        sides = [side for pair in preferences for side in pair.conversations]
        self.model.centre = float(self.model.score(sides).mean())
        return self

    @torch.no_grad()
    def measure(self, preferences: Sequence[Preference]) -> dict[str, float]:
        """Loss, accuracy and margin on other pairs."""
        _in_words(preferences)
        return means(self._columns(piece) for piece in pieces(preferences, self.config))

    def _columns(self, pairs: Sequence[Preference]) -> Columns:
        """A number for each pair.  each (B,)"""
        chosen, rejected = zip(*(pair.conversations for pair in pairs), strict=True)
        rewards = self.model.raw([*chosen, *rejected])
        better, worse = rewards[: len(pairs)], rewards[len(pairs) :]
        return {
            "loss": bradley_terry_losses(better, worse, self.config.label_smoothing),
            "accuracy": (better > worse).double(),
            "margin": (better - worse).detach(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was trained, optimiser, step and centre."""
        kept = weights_of(self.model.trainable()) | {
            "centre": torch.tensor(self.model.centre, dtype=torch.float64)
        }
        write_checkpoint(path, _FORM, self.config, self.step, {}, self._optimizer, kept)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: RewardModel) -> RewardLearner:
        """What `save` wrote; `model`, of the shape that was trained, takes its weights."""
        config, step, tensors = read_checkpoint(path, _FORM)
        found = cls(RewardModelConfig(**config), model)
        put_weights(tensors, model.trainable())
        restore(tensors, {}, found._optimizer)
        model.centre, found.step = float(tensors["centre"]), step
        return found


def _in_words(preferences: Sequence[Preference]) -> None:
    if any(not (pair.chosen and pair.rejected) for pair in preferences):
        raise InvalidConfiguration(
            "a reward model reads messages, and a preference has tokens only; make the pairs of "
            "rollouts that keep their messages"
        )
