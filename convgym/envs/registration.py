"""The Gymnasium ids of ConvGym. `import convgym` registers them."""

from __future__ import annotations

import gymnasium as gym

ENVIRONMENTS: dict[str, str] = {
    "ConvGym/CustomerService-v0": "convgym.envs.customer_service:CustomerServiceEnv",
    "ConvGym/OwnDomain-v0": "convgym.envs.own_domain:OwnDomainEnv",
    "ConvGym/Recorded-v0": "convgym.calibration.recorded_env:RecordedEnv",
    "ConvGym/Sales-v0": "convgym.envs.sales:SalesEnv",
    "ConvGym/Scenarios-v0": "convgym.envs.scenarios:ScenariosEnv",
    "ConvGym/TechnicalSupport-v0": "convgym.envs.technical_support:TechnicalSupportEnv",
}
"""Entry point by id; strings, so that the import stays light and specs travel as JSON."""
VECTOR_ENVIRONMENTS: dict[str, str] = {
    "ConvGym/CustomerService-v0": "convgym.envs.vector:customer_service",
    "ConvGym/OwnDomain-v0": "convgym.envs.vector:own_domain",
    "ConvGym/Sales-v0": "convgym.envs.vector:sales",
    "ConvGym/TechnicalSupport-v0": "convgym.envs.vector:technical_support",
}
"""The same for `gymnasium.make_vec`; ids that are not here get the synchronous one."""

WRAPPED_ENVIRONMENTS: dict[str, str] = {
    "ConvGym/OneRequest-v0": "convgym.envs.one_request:one_request",
}
"""Ids of the environments above inside wrappers, for learners that need something smaller."""


def register_envs() -> None:
    """Register what is not registered yet; a second call does nothing."""
    for environment_id, entry_point in (ENVIRONMENTS | WRAPPED_ENVIRONMENTS).items():
        if environment_id not in gym.registry:
            gym.register(
                environment_id,
                entry_point=entry_point,
                vector_entry_point=VECTOR_ENVIRONMENTS.get(environment_id),
            )
