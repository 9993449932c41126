"""Elastic weight consolidation: weights that an earlier task needs are held where it left them.

    L = L_new + λ/2 Σ_k F_k (θ_k − θ*_k)²        F: diagonal Fisher information at θ*

(Kirkpatrick et al., 2017, arXiv:1612.00796, eq. 3; one running F and the newest θ* for all earlier
tasks: Schwarz et al., 2018, arXiv:1805.06370.) Knows nothing of tasks or environments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.rollouts import Rows

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

LogProbs = Callable[[Rows], Tensor]
"""Log-probabilities of the sampled tokens, 0 elsewhere.  # (B, T)"""


class ElasticWeights:
    """The penalty on a model's trainable weights; nothing until `consolidate` was called.

    `strength` is λ; `decay` multiplies the information of earlier tasks with each new one.
    """

    def __init__(self, model: nn.Module, strength: float = 100.0, decay: float = 1.0) -> None:
        if strength < 0 or not 0 <= decay <= 1:
            raise InvalidConfiguration(
                f"strength={strength}, decay={decay}; a strength is 0 or more and a decay lies in "
                "[0, 1]"
            )
        self.model, self.strength, self.decay = model, strength, decay
        self.information: dict[str, Tensor] = {}
        self.anchors: dict[str, Tensor] = {}

    def consolidate(self, log_probs: LogProbs, rows: Rows) -> None:
        """Hold the weights where they are, by what conversations of a finished task tell of them.

        F_k = mean over conversations of (∂ log π(conversation) / ∂θ_k)², the sampled tokens' sum;
        one backward pass for each conversation.
        """
        weights = self._weights()
        found = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        number = len(rows.tokens)
        for row in range(number):
            likelihood = log_probs(rows.at(torch.tensor([row]))).sum()
            slopes = torch.autograd.grad(likelihood, list(weights.values()), allow_unused=True)
            for name, slope in zip(weights, slopes, strict=True):
                if slope is not None:
                    found[name] += slope.detach().square() / number
        for name, weight in weights.items():
            earlier = self.information.get(name, torch.zeros_like(weight))
            self.information[name] = self.decay * earlier + found[name]
            self.anchors[name] = weight.detach().clone()

    def loss(self) -> Tensor:
        """The penalty; 0 before anything is held.  # ()"""
        terms = [
            (self.information[name] * (weight - self.anchors[name]).square()).sum()
            for name, weight in self._weights().items()
            if name in self.anchors
        ]
        return self.strength / 2 * torch.stack(terms).sum() if terms else torch.zeros(())

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        parts = {"information": self.information, "anchors": self.anchors}
        return {f"{part}.{name}": t for part, all_ in parts.items() for name, t in all_.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        self.information, self.anchors = {}, {}
        for key, tensor in state.items():
            part, _, name = key.partition(".")
            {"information": self.information, "anchors": self.anchors}[part][name] = tensor

    def _weights(self) -> dict[str, Tensor]:
        return {n: p for n, p in self.model.named_parameters() if p.requires_grad}
