"""Whatever can act, as our `Policy`: so that it can be recorded and scored.

    our Policy                          as it is
    Stable-Baselines3, over acts        probabilities of the model, sampled from the episode's seed
    Stable-Baselines3, else             its own `predict`; vectors, recurrent models
    callable(observation) -> action     as it is

Stable-Baselines3 is told by what its models have, and never imported. What a policy draws from
global generators is drawn from the episode's seed. Observations go in as the environment shows
them: a model that learnt from normalised ones takes a callable that normalises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import POLICY, draw
from convgym.errors import InvalidConfiguration
from convgym.policies.policy import ActPolicy, Policy, Probabilities

_UNKNOWN = float("nan")


def as_policy(player: Any, space: gym.Space[Any], deterministic: bool = False) -> Policy:
    """Anything that acts in `space` as our `Policy`, without its chance where `deterministic`;
    a callable does as it does.

    Raises InvalidConfiguration for what is neither a policy nor a model nor callable, or whose
    acts are not those of `space`.
    """
    if hasattr(player, "predict") and hasattr(player, "observation_space"):
        found = _stable_baselines(player, space)
    elif hasattr(player, "predict") and hasattr(player, "reset"):
        found = player
    elif callable(player):
        return CallablePolicy(player)
    else:
        raise InvalidConfiguration(
            f"a {type(player).__name__} cannot play; hand in a policy, a model of "
            "Stable-Baselines3, or a callable that gives an action for an observation"
        )
    return Certain(found, isinstance(space, gym.spaces.Discrete)) if deterministic else found


class Certain:
    """A policy that is asked for its best action always; over acts, its propensity is 1."""

    def __init__(self, policy: Policy, acts: bool) -> None:
        self.policy, self.name = policy, policy.name
        self.propensity = 1.0 if acts else _UNKNOWN
        if hasattr(policy, "rewarded"):  # loops ask whether it is there
            self.rewarded = policy.rewarded

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self.policy.reset(seed)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """The best action."""
        return self.policy.predict(
            observation, state, episode_start, True, action_masks=action_masks
        )


class CallablePolicy:
    """A function of the observation; what it would do otherwise is unknown."""

    propensity = _UNKNOWN

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self._key, self._step = 0, 0

    def reset(self, seed: int) -> None:
        """Begin an episode; global generators are drawn from `seed`."""
        self._key, self._step = seed, 0

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """What the function gives."""
        self._step += 1
        return _seeded(self._key, self._step, lambda: self.function(observation)), state


# -- Stable-Baselines3 -----------------------------------------------------------------------------


def _stable_baselines(model: Any, space: gym.Space[Any]) -> Policy:
    theirs = model.action_space
    same = theirs == space if isinstance(space, gym.spaces.Discrete) else (
        theirs.shape == space.shape
    )  # fmt: skip
    if not same:
        raise InvalidConfiguration(
            f"the model's actions are {theirs}, and the environment takes {space}"
        )
    network = getattr(model, "policy", model)
    recurrent = hasattr(network, "lstm_actor")
    known = any(hasattr(network, part) for part in ("get_distribution", "q_net", "quantile_net"))
    if isinstance(space, gym.spaces.Discrete) and known and not recurrent:
        return StableBaselinesActs(model)
    return StableBaselinesModel(model)


class StableBaselinesActs(ActPolicy):
    """A model over acts: its distribution, or ε-greedy by its values, over the legal acts."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.name = type(model).__name__
        self.network = getattr(model, "policy", model)
        self.epsilon = float(getattr(model, "exploration_rate", 0.0))

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """Of the legal acts.  # (actions,)"""
        import torch

        legal = (np.asarray(action_masks) > 0).astype(np.float64)
        self.network.set_training_mode(False)
        with torch.no_grad():
            rows, _ = self.network.obs_to_tensor(observation)
            if hasattr(self.network, "get_distribution"):
                distribution = self.network.get_distribution(rows).distribution
                logits = distribution.logits[0].cpu().numpy().astype(np.float64)
                weights = legal * np.exp(logits - logits[legal > 0].max())
                return np.asarray(weights / weights.sum())
            if hasattr(self.network, "q_net"):
                values = self.network.q_net(rows)[0]
            else:
                values = self.network.quantile_net(rows)[0].mean(dim=0)
        best = np.where(legal > 0, values.cpu().numpy(), -np.inf).argmax()
        chosen = np.eye(len(legal))[best]
        return np.asarray((1.0 - self.epsilon) * chosen + self.epsilon * legal / legal.sum())


class StableBaselinesModel:
    """A model that answers by itself: vectors, or with a memory of its own."""

    propensity = _UNKNOWN

    def __init__(self, model: Any) -> None:
        self.model, self.name = model, type(model).__name__
        self._masked = "action_masks" in inspect.signature(model.predict).parameters
        self._key, self._step = 0, 0

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        self._key, self._step = seed, 0

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """What the model does."""
        keywords = {"action_masks": action_masks} if self._masked else {}
        start = None if episode_start is None else np.array([episode_start])
        self._step += 1
        action, state = _seeded(
            self._key,
            self._step,
            lambda: self.model.predict(observation, state, start, deterministic, **keywords),
        )
        return action, state


def _seeded(key: int, step: int, act: Callable[[], Any]) -> Any:
    """What `act` gives with numpy's and torch's global generators drawn from (key, step)."""
    import torch

    seed = draw(key & 0xFFFFFFFFFFFFFFFF, POLICY, step, 0)
    before = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            return act()
        finally:
            np.random.set_state(before)
