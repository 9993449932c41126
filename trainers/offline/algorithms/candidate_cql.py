"""Conservative Q-learning over candidate replies, each known by its vector, not by its number.

    s, e(a₁) … e(a_K)  ─►  Q(s, e(a₁)) … Q(s, e(a_K))       K and the candidates may differ by turn

What is learnt of one reply is learnt of those that say the same, and a reply that was never in the
data has a value too. The maximum is taken over the candidates that there are, so that no reply is
valued that nobody could give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.offline.batches import Transitions
from trainers.offline.candidate_policy import CandidatePolicy
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.losses import conservative_gap, huber, legal_only, mean, td_target
from trainers.offline.networks import MLP, adam, follow, frozen
from trainers.offline.vector_networks import over_candidates


@dataclass(frozen=True, kw_only=True)
class CandidateCQLConfig(OfflineConfig):
    """Utterance-level conservative Q-learning, after CHAI (Verma et al., 2022, arXiv:2204.08426).

    L = E[ h(Q(s, e(a)) − r − γ Q'(s', e(a*))) ],  a* = argmax_k Q(s', e(a_k))     h: Huber's loss
      + α E[ T log Σ_k exp(Q(s, e(a_k)) / T) − Q(s, e(a)) ]        over the candidates of the turn

    Actions in the data are numbers of rows of `Shapes.candidates`; masks tell which of them are a
    turn's candidates. Without masks all are. (arXiv:2006.04779; double Q-learning.)
    """

    cql_alpha: float = 0.5
    """α. At 0 this is double Q-learning."""
    temperature: float = 1.0
    """T of the log-sum-exp."""
    critics: int = 1
    """Q-networks; of several the least value counts."""
    target_rate: float = 0.005
    """Share by which targets move to what they follow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "cql_alpha")
        at_least(self, 1, "critics")
        above(self, 0, "temperature", "target_rate")
        within(self, 0, 1, "target_rate")

    def build(self, shapes: Shapes, data: Transitions) -> CandidateCQL:
        """The algorithm, untrained; raises InvalidConfiguration where there are no candidates."""
        if shapes.candidates is None:
            raise InvalidConfiguration(
                "candidate_cql takes the vectors of the candidates; give shapes= with candidates, "
                "such as those of a codec in trainers.offline.codecs"
            )
        return CandidateCQL(self, shapes, np.asarray(shapes.candidates, dtype=np.float32))


class CandidateCQL:
    """Q-networks over pairs of observation and candidate, and their target."""

    name = "candidate CQL"

    def __init__(
        self, config: CandidateCQLConfig, shapes: Shapes, candidates: np.ndarray[Any, Any]
    ) -> None:
        self.config, size = config, shapes.observation + candidates.shape[1]
        self.critic = MLP([size, *config.hidden, 1], config.critics)
        self.target = frozen(self.critic)
        self.parts = nn.ModuleDict({"critic": self.critic, "target": self.target})
        self.parts.register_buffer("table", torch.as_tensor(candidates), persistent=False)
        self.optimizers: dict[str, Any] = {
            "critic": adam(self.critic.parameters(), config.learning_rate)
        }

    @property
    def table(self) -> Tensor:
        """Vectors of all candidates.  # (K, d)"""
        return self.parts.get_buffer("table")

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on Q."""
        config, weights = self.config, batch.get("weights")
        targets = self.targets(batch)
        numbers, there = candidates_of(batch.get("masks"), batch["actions"], len(self.table))
        found = self._values(self.critic, batch["observations"], numbers)  # (E, B, N)
        taken = (numbers == batch["actions"][:, None]).int().argmax(-1)
        done = found.gather(-1, taken.expand(found.shape[:-1])[..., None])[..., 0]
        td = mean(huber(done, targets), weights)
        gap = config.temperature * conservative_gap(found / config.temperature, taken, there)
        conservative = mean(gap, weights)
        loss = td + config.cql_alpha * conservative if config.cql_alpha else td
        self.optimizers["critic"].zero_grad()
        loss.backward()
        self.optimizers["critic"].step()
        follow(self.target.parameters(), self.critic.parameters(), config.target_rate)
        metrics = {"td_loss": td.detach(), "conservative_gap": conservative.detach()}
        return metrics, (done.detach().mean(0) - targets).abs()

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """r + γ Q'(s', e(a*)) of the candidate that Q likes best.  # (B,)"""
        following = batch["next_observations"]
        numbers, there = candidates_of(batch.get("next_masks"), batch["actions"], len(self.table))
        liked = legal_only(self._values(self.critic, following, numbers).amin(0), there)
        best = liked.argmax(-1, keepdim=True)
        then = self._values(self.target, following, numbers.gather(-1, best)).amin(0)[:, 0]
        return td_target(batch["rewards"], batch["discounts"], then)

    def _values(self, network: MLP, observations: Tensor, numbers: Tensor) -> Tensor:
        return over_candidates(network, observations, self.table, numbers)[..., 0].float()

    def policy(self) -> CandidatePolicy:
        """The best of the candidates that there are."""
        return CandidatePolicy(
            [self.critic.layers(e) for e in range(self.critic.count)],
            self.table.cpu().numpy().copy(),
            self.name,
        )


def candidates_of(masks: Tensor | None, actions: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Numbers of the candidates of each row, and which of them are there.  (B, N), (B, N)

    N is the most that a row of the batch has; a row with fewer is filled up with others, which are
    not there. Without masks all are.
    """
    if masks is None:
        numbers = torch.arange(count, device=actions.device).expand(len(actions), count)
        return numbers, torch.ones_like(numbers, dtype=torch.bool)
    most = int(masks.sum(-1).max())
    there, numbers = masks.int().sort(dim=-1, descending=True, stable=True)
    return numbers[:, :most], there[:, :most].bool()
