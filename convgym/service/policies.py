"""Which policy a service speaks with, by a name that a person types.

oracle, planner, keyword, …       the environment's own scripted agents
greet-only, silence, done, …      its null policies
runs/cql-0, policy.zip            saved: read by `saved`, which the command line brings
my_module:make                    what the callable makes: a policy, a function from messages
                                  to a reply, or a ChatModel; made anew for each conversation
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.policies.policy import ActPolicy, Policy
from convgym.policies.roster import null_policies
from convgym.simulator import domain_name, policy_of, scripted_agents

Maker = Callable[[], Any]
Saved = Callable[[str], Policy | None]
"""The policy that is saved under a name or a path; None where there is none."""


def maker_of(named: str, env: gym.Env[Any, Any], saved: Saved | None = None) -> Maker:
    """What makes the policy, function or model that is `named`.

    Raises InvalidConfiguration where nothing is.
    """
    if getattr(env.unwrapped, "domain", None) is not None:
        known = {**null_policies(domain_name(env)), **scripted_agents(env)}
        if named in known:
            return known[named]
    else:
        known = {}
    module, colon, maker = named.partition(":")
    policy = saved(named) if saved is not None else None
    if policy is not None:
        return lambda: copy.copy(policy)  # its weights are shared, its episode is not
    if colon:
        try:
            made: Maker = getattr(importlib.import_module(module), maker)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidConfiguration(f"nothing can be loaded from {named!r} ({error})") from None
        return made
    raise InvalidConfiguration(
        f"no policy is called {named!r}; there are {', '.join(known) or 'none here'}; or give the "
        "path of a saved one, or module:callable"
    )


class _Shown(ActPolicy):
    """A policy over features that cannot read them out of a dict itself."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self._policy, self.name = policy, policy.name

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self._policy.reset(seed)

    def predict(self, observation: Any, *given: Any, **named: Any) -> tuple[Any, Any]:
        """As the policy does."""
        return self._policy.predict(observation["features"], *given, **named)  # type: ignore[no-any-return]


def speaking(policy: Any, env: gym.Env[Any, Any]) -> Policy:
    """A policy, or function, as one that answers `dict` observations of `env` in text."""
    if isinstance(policy, ActPolicy) and isinstance(
        getattr(getattr(policy, "model", None), "observation_space", None), gym.spaces.Box
    ):
        policy = _Shown(policy)
    return policy_of(policy, env)


def check_speaks(make: Maker, env: gym.Env[Any, Any]) -> None:
    """Raises InvalidConfiguration where the policy cannot answer a first message in `env`."""
    try:
        policy = speaking(make(), env)
        observation, info = env.reset(seed=0)
        policy.reset(0)
        action, _ = policy.predict(observation, action_masks=info["action_mask"])
    except ConvGymError:
        raise
    except Exception as error:  # whatever shapes do not fit
        raise InvalidConfiguration(
            f"the policy cannot answer in this environment: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(action, str):
        kind = "a vector" if np.ndim(action) else "a number"
        raise InvalidConfiguration(
            f"the policy answers with {kind}; the service takes policies that speak, or that "
            "choose among numbered acts by features"
        )
