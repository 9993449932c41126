"""A model of Stable-Baselines3 as our `Policy`, one conversation at a time or many.

    observation, mask, memory ─► model ─► scores ─► softmax, or the best ─► acts that are legal
                                                    (actor)    (DQN, QR-DQN)

Whatever the algorithm and whoever trained it: an act that the mask forbids is never chosen, and all
chance comes from the episode's seed. Models whose actions are vectors act too, but have no
`action_probs`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.engine.keys import POLICY, draw
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.policies.batched import BatchActPolicy, Masks, RowPolicies, Rows
from convgym.policies.policy import ActPolicy, Probabilities

try:
    import torch
except ImportError as error:
    raise MissingExtra(error.name or "torch", "sb3") from error

from trainers.online.legal_acts import batch_of_one, with_masks
from trainers.online.sb3_archive import archived, read_model, write_whole

Memory = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Hidden and cell state of a recurrent model.  2 x (layers, k, units)"""


class SB3Policy(ActPolicy):
    """Stable-Baselines3's `model`; `state` is the memory of a recurrent one, else None.

    Without `action_masks` every act is legal, as in environments that know none.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.name = str(getattr(model, "algorithm", type(model).__name__))
        self._reader = ActReader(model)

    def predict(
        self,
        observation: Any,
        state: Memory | None = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """An act, or a vector; `self.propensity` is the act's probability, NaN of a vector."""
        if not self._reader.acts:
            return self._vector(observation, state, episode_start, deterministic)
        begins = bool(np.any(episode_start))
        probabilities, state = self._reader(
            batch_of_one(observation), self._masks(action_masks), None if begins else state
        )
        return self.drawn(probabilities[0], deterministic), state

    def action_probs(
        self,
        observation: Any,
        action_masks: NDArray[np.int8] | None = None,
        state: Memory | None = None,
    ) -> Probabilities:
        """Of each act, 0 where the mask is 0; of a greedy model 1 for the best.  # (actions,)

        `state` is what a recurrent model remembers; None begins a conversation.

        Raises NotImplementedError where actions are vectors.
        """
        masks = self._masks(action_masks)
        return self._reader(batch_of_one(observation), masks, state)[0][0]

    def _masks(self, action_masks: NDArray[np.int8] | None) -> Masks:
        if action_masks is None:
            return np.ones((1, self._reader.acts), dtype=np.int8)
        return np.asarray(action_masks)[None]

    def _vector(
        self, observation: Any, state: Any, episode_start: Any, deterministic: bool
    ) -> tuple[Any, Any]:
        """As Stable-Baselines3 chooses it, by the episode's own chance."""
        start = None if episode_start is None else np.atleast_1d(episode_start)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw(self._key, POLICY, self._steps, 0))
            action, state = self.model.policy.predict(observation, state, start, deterministic)
        self._steps += 1
        self.propensity = float("nan")
        return action, state

    def batched(self) -> SB3BatchPolicy | RowPolicies:
        """The same model for many conversations at once; vectors are chosen one by one."""
        if not self._reader.acts:
            return RowPolicies(lambda: SB3Policy(self.model))
        return SB3BatchPolicy(self.model)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write Stable-Baselines3's own archive, wholly or not at all."""
        write_whole(path, archived(self.model))

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> SB3Policy:
        """Read what `save`, or any algorithm of Stable-Baselines3, has written.

        Loading runs code that is in the file. Raises InvalidConfiguration for another file.
        """
        return cls(read_model(path, device))


class SB3BatchPolicy(BatchActPolicy):
    """`SB3Policy` for a batch of conversations, in one pass through the network.

    A network rounds a batch otherwise than a single row, so that probabilities agree to about
    seven digits.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.name = str(getattr(model, "algorithm", type(model).__name__))
        self._reader = ActReader(model)
        self._memory: dict[int, Memory] = {}
        """Of each row of a recurrent model; none before its first act."""

    def begin(self, rows: Rows, seeds: Any) -> None:
        """Begin an episode in each of `rows`."""
        super().begin(rows, seeds)
        for row in np.asarray(rows).tolist():
            self._memory.pop(row, None)

    def action_probs(self, observations: Any, masks: Masks) -> NDArray[np.float64]:
        """Of each act; a recurrent model's where conversations begin.  # (k, actions)"""
        return self._reader(observations, masks, None)[0]

    def actions(
        self, observations: Any, masks: Masks, rows: Rows, deterministic: bool = False
    ) -> NDArray[np.int64]:
        """An act for each row.  # (k,)"""
        numbers = rows.tolist()
        probabilities, memory = self._reader(observations, masks, self._remembered(numbers))
        if memory is not None:
            for place, row in enumerate(numbers):
                self._memory[row] = (memory[0][:, [place]], memory[1][:, [place]])
        return self.drawn(probabilities, rows, deterministic)

    def _remembered(self, rows: list[int]) -> Memory | None:
        if self._reader.memory is None:
            return None
        kept = [self._memory.get(row, self._reader.memory) for row in rows]
        return tuple(np.concatenate(part, axis=1) for part in zip(*kept, strict=True))  # type: ignore[return-value]


class ActReader:
    """A model's probabilities of acts, as its kind of network has them."""

    def __init__(self, model: Any) -> None:
        """Raises InvalidConfiguration for masks over several acts at once."""
        self._policy = policy = model.policy
        space = model.action_space
        self.acts = int(space.n) if isinstance(space, spaces.Discrete) else 0
        """How many there are; 0 where actions are vectors."""
        if not self.acts and type(model).__name__ == "MaskablePPO":
            raise InvalidConfiguration(
                f"this {type(model).__name__} chooses from {space}; a policy over masked acts "
                "takes Discrete alone"
            )
        self._seen = policy.features_extractor_kwargs.get("seen")
        self.memory: Memory | None = None
        """An empty one of a single conversation, if the model is recurrent."""
        if hasattr(policy, "lstm_actor"):
            layers, _, units = policy.lstm_hidden_state_shape
            empty = np.zeros((layers, 1, units), dtype=np.float32)
            self.memory = (empty, empty)

    def __call__(
        self, observations: Any, masks: Masks, memory: Memory | None
    ) -> tuple[NDArray[np.float64], Memory | None]:
        """Probabilities over the legal acts, and the memory afterwards.  # (k, actions)"""
        if not self.acts:
            raise NotImplementedError("actions that are vectors have no probabilities of acts")
        legal = np.asarray(masks) > 0
        if self._seen is not None:
            observations = with_masks(self._seen, observations, legal)
        self._policy.set_training_mode(False)
        with torch.no_grad():
            tensor, _ = self._policy.obs_to_tensor(observations)
            found, memory, greedy = self._scores(tensor, memory, len(legal))
        scores = np.where(legal, found.cpu().numpy().astype(np.float64), -np.inf)
        if greedy:
            return np.eye(self.acts)[scores.argmax(axis=1)], memory
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True), memory

    def _scores(
        self, tensor: Any, memory: Memory | None, rows: int
    ) -> tuple[torch.Tensor, Memory | None, bool]:
        """A score for each act, the memory, and whether the best is taken.  # (k, actions)"""
        policy = self._policy
        if hasattr(policy, "q_net"):
            return policy.q_net(tensor), None, True
        if hasattr(policy, "quantile_net"):
            return policy.quantile_net(tensor).mean(dim=1), None, True
        if self.memory is None:
            return policy.get_distribution(tensor).distribution.logits, None, False
        given = memory or tuple(np.repeat(part, rows, axis=1) for part in self.memory)
        state = tuple(torch.as_tensor(part, device=policy.device) for part in given)
        goes_on = torch.zeros(rows, device=policy.device)
        distribution, state = policy.get_distribution(tensor, state, goes_on)
        kept = (state[0].cpu().numpy(), state[1].cpu().numpy())
        return distribution.distribution.logits, kept, False
