"""The two-sided form: `import convgym.multi_agent` registers every domain with PettingZoo.

    pettingzoo.make("aec", "ConvGym/CustomerService-v0", action="act", user_action="act")
    pettingzoo.make("parallel", "ConvGym/CustomerService-v0")

`env` and `parallel_env` make the same without the registry. What a new domain needs is one line in
`SIDES`: its id and where its user's side is, or "" where the user has no tools.
"""

from __future__ import annotations

from typing import Any

import pettingzoo  # type: ignore[import-untyped]

from convgym.envs.registration import ENVIRONMENTS
from convgym.envs.two_sided import AGENT, USER, USER_REWARDS, TwoSidedEnv
from convgym.envs.two_sided_gym import OneSide
from convgym.envs.two_sided_parallel import TwoSidedParallelEnv
from convgym.envs.two_sided_users import (
    BoundUser,
    ContraryUser,
    ErraticUser,
    RandomActsUser,
    TerseUser,
    UserPolicy,
)
from convgym.envs.user_side import UserSide
from convgym.errors import InvalidConfiguration

__all__ = [
    "AGENT",
    "SIDES",
    "USER",
    "USER_REWARDS",
    "BoundUser",
    "ContraryUser",
    "ErraticUser",
    "OneSide",
    "RandomActsUser",
    "TerseUser",
    "TwoSidedEnv",
    "TwoSidedParallelEnv",
    "UserPolicy",
    "UserSide",
    "env",
    "parallel_env",
    "register_envs",
]

SIDES: dict[str, str] = {
    "ConvGym/CustomerService-v0": "convgym.domains.customer_service.user_side:CustomerServiceSide",
    "ConvGym/OwnDomain-v0": "convgym.desk.user_side:DeskSide",
    "ConvGym/Sales-v0": "convgym.domains.sales.user_side:SalesSide",
    "ConvGym/TechnicalSupport-v0": "convgym.domains.technical_support.user_side:SupportSide",
}
"""The user's side of each id; a string, so that the import stays light.

A domain of one's own needs its `folder=`, and has no text mode for the user.
"""


def _entry(environment_id: str) -> dict[str, Any]:
    if environment_id not in SIDES:
        raise InvalidConfiguration(
            f"no two-sided environment is called {environment_id!r}; there are {', '.join(SIDES)}"
        )
    return {"environment": ENVIRONMENTS[environment_id], "side": SIDES[environment_id]}


def env(environment_id: str = "ConvGym/CustomerService-v0", **keywords: Any) -> TwoSidedEnv:
    """The AEC environment of an id; see `TwoSidedEnv` for the keywords."""
    return TwoSidedEnv(**(_entry(environment_id) | keywords))


def parallel_env(
    environment_id: str = "ConvGym/CustomerService-v0", **keywords: Any
) -> TwoSidedParallelEnv:
    """The parallel environment of an id; see `TwoSidedParallelEnv`."""
    return TwoSidedParallelEnv(**(_entry(environment_id) | keywords))


def register_envs() -> None:
    """Register what is not registered yet, in both registries; a second call does nothing."""
    for environment_id in SIDES:
        entry = _entry(environment_id)
        if environment_id not in pettingzoo.aec_registry:
            pettingzoo.register(
                "aec", environment_id, "convgym.envs.two_sided:TwoSidedEnv", kwargs=entry
            )
        if environment_id not in pettingzoo.parallel_registry:
            pettingzoo.register(
                "parallel",
                environment_id,
                "convgym.envs.two_sided_parallel:TwoSidedParallelEnv",
                kwargs=entry,
            )


register_envs()
