"""Networks of learners whose actions are vectors.

    VectorActions   data's actions ◄─► [−1, 1]; what a policy's action is decoded to
    values          Q(s, a) of every critic
    over_samples    a network on [s | x] for several x of each s
    VAE             what the data do at s: s, z ─► a
    descend         a step that touches its own parameters only

Inside learners, entries of actions lie in [−1, 1]. Knows nothing of losses that combine them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from convgym.errors import DatasetError, InvalidConfiguration
from trainers.offline.batches import Transitions
from trainers.offline.config import Shapes
from trainers.offline.networks import MLP
from trainers.offline.vector_losses import LEAST_LOG_STD, MOST_LOG_STD, normal_divergence
from trainers.offline.vector_policy import VectorSpace


class VectorActions(nn.Module):
    """The action space: bounds, and the candidates that actions are decoded to, if any."""

    center: Tensor  # (d,)
    reach: Tensor  # (d,)
    candidates: Tensor | None  # (K, d), of length 1

    def __init__(self, shapes: Shapes, data: Transitions) -> None:
        """Raises InvalidConfiguration for bounds that are none, DatasetError for actions beyond."""
        super().__init__()
        assert shapes.low is not None and shapes.high is not None, "shapes of vectors have bounds"
        low, high = (torch.as_tensor(b, dtype=torch.float32) for b in (shapes.low, shapes.high))
        if not (torch.isfinite(low) & torch.isfinite(high) & (low < high)).all():
            raise InvalidConfiguration(
                f"actions lie in [{shapes.low}, {shapes.high}]; these learners take finite bounds. "
                "Give shapes= with bounds that hold the data"
            )
        found = data.actions().cpu()
        slack = 1e-4 * (high - low)
        if not ((found >= low - slack) & (found <= high + slack)).all():
            raise DatasetError(
                f"actions in the data reach from {found.amin().item():.4g} to "
                f"{found.amax().item():.4g}, beyond [{low.min():.4g}, {high.max():.4g}]; give "
                "shapes= with the bounds of the action space"
            )
        self.register_buffer("center", (low + high) / 2, persistent=False)
        self.register_buffer("reach", (high - low) / 2, persistent=False)
        table = None
        if shapes.candidates is not None:
            given = torch.as_tensor(shapes.candidates, dtype=torch.float32)
            table = functional.normalize(given, dim=-1)
        self.register_buffer("candidates", table, persistent=False)

    @property
    def size(self) -> int:
        """d."""
        return len(self.center)

    def space(self) -> VectorSpace:
        """What a policy must know of it."""
        center, reach = self.center.cpu().numpy(), self.reach.cpu().numpy()
        table = None if self.candidates is None else self.candidates.cpu().numpy()
        return VectorSpace(center - reach, center + reach, table)

    def unit(self, actions: Tensor) -> Tensor:
        """Actions of the data, in [−1, 1].  (…, d)"""
        return (actions - self.center) / self.reach

    def decoded(self, actions: Tensor, masks: Tensor | None = None) -> Tensor:
        """What is really done: the candidate nearest by cosine; the action itself without any.

        The gradient goes straight through to the action. `masks` (…, K): candidates there are.
        """
        if self.candidates is None:
            return actions
        with torch.autocast(actions.device.type, enabled=False):
            cosines = (actions.detach().float() * self.reach + self.center) @ self.candidates.T
        if masks is not None:
            cosines = cosines.masked_fill(~masks, -torch.inf)
        nearest = self.unit(self.candidates[cosines.argmax(-1)])
        return actions + (nearest - actions).detach()


def values(critic: MLP, observations: Tensor, actions: Tensor) -> Tensor:
    """Q of each critic.  (B, o), (B, d) → (E, B), or (B, N, d) → (E, B, N)"""
    if actions.ndim == 3:
        return over_samples(critic, observations, actions)[..., 0].float()
    return critic(torch.cat([observations, actions], dim=-1))[..., 0].float()


def over_samples(network: MLP, rows: Tensor, samples: Tensor) -> Tensor:
    """A network on [row | sample] of each sample of a row.  (B, m), (B, N, k) → (E, B, N, out)

    The first layer's product with the row is made once a row, not once a sample.
    """
    split, wide = rows.shape[1], _first(network)
    of_rows = rows @ wide[:split] + network.biases[0].flatten()
    return _after_first(network, of_rows[:, None] + samples @ wide[split:])


def over_candidates(network: MLP, rows: Tensor, table: Tensor, numbers: Tensor) -> Tensor:
    """A network on [row | table[n]] of each n of a row.  (B, m), (K, k), (B, N) → (E, B, N, out)

    The first layer's product with a candidate is made once, however many rows have it.
    """
    split, wide = rows.shape[1], _first(network)
    of_rows = rows @ wide[:split] + network.biases[0].flatten()
    return _after_first(network, of_rows[:, None] + (table @ wide[split:])[numbers])


def _first(network: MLP) -> Tensor:
    """Weights of the first layers side by side.  (in, E · hidden)"""
    return network.weights[0].transpose(0, 1).flatten(1)


def _after_first(network: MLP, wide: Tensor) -> Tensor:
    """The layers after the first, whose sums are given.  (B, N, E · hidden) → (E, B, N, out)"""
    size, samples, _ = wide.shape
    x = wide.view(size * samples, network.count, -1).transpose(0, 1)
    for weight, bias in zip(network.weights[1:], network.biases[1:], strict=True):
        x = torch.baddbmm(bias, x.relu(), weight)
    return x.reshape(network.count, size, samples, network.sizes[-1])


class VAE(nn.Module):
    """A conditional variational autoencoder of the data's actions.

    (Kingma & Welling, 2014, arXiv:1312.6114; for this use Fujimoto et al., 2019, arXiv:1812.02900)
    """

    def __init__(self, observation: int, action: int, latent: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = MLP([observation + action, *hidden, 2 * latent])
        self.decoder = MLP([observation + latent, *hidden, action])

    def loss(self, observations: Tensor, actions: Tensor, noise: Tensor, weight: float) -> Tensor:
        """‖a − â‖² / d + weight · KL(z ‖ N(0, 1)), of each row.  (B,)"""
        heads = self.encoder(torch.cat([observations, actions], dim=-1))[0].float()
        means, log_std = heads.chunk(2, dim=-1)
        log_std = log_std.clamp(LEAST_LOG_STD, MOST_LOG_STD)
        rebuilt = self.decode(observations, (means + log_std.exp() * noise)[:, None])[:, 0]
        off = (rebuilt - actions).square().mean(-1)
        return off + weight * normal_divergence(means, log_std)

    def decode(self, observations: Tensor, latent: Tensor) -> Tensor:
        """Vectors for codes z at observations.  (B, o), (B, N, z) → (B, N, d) in [−1, 1]"""
        return over_samples(self.decoder, observations, latent)[0].float().tanh()

    def sample(self, observations: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Actions as the data have them, of latents within ±0.5.  (B, o) → (B, count, d)"""
        size = (len(observations), count, self.latent)
        return self.decode(observations, normal(size, generator).clamp(-0.5, 0.5))


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step of what the optimizer holds; the loss leaves no gradient in anything else."""
    optimizer.zero_grad()
    loss.backward(inputs=[p for group in optimizer.param_groups for p in group["params"]])
    optimizer.step()


def normal(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Independent N(0, 1)."""
    return torch.randn(size, generator=generator, device=generator.device)
