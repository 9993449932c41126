"""Every domain's scripted agents by name: its ladder, its null policies, its agents by the book."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from convgym.domains.catalogue import domain_called
from convgym.errors import InvalidConfiguration
from convgym.policies.null import OpenLoopPolicy, RandomToolPolicy
from convgym.policies.policy import ActPolicy, Policy

_MODULES = {
    "customer-service": "convgym.policies.customer_service",
}
"""Where a domain's scripts stand: `LADDER`, `NULL_POLICIES`, `BY_THE_BOOK`."""


def _scripts(domain: str) -> ModuleType:
    if domain not in _MODULES:
        raise InvalidConfiguration(
            f"no scripted agents are known for the domain {domain!r}; there are some for "
            f"{', '.join(_MODULES)}"
        )
    return import_module(_MODULES[domain])


def ladder(domain: str = "customer-service") -> dict[str, Callable[[], ActPolicy]]:
    """Makers of random, keyword, slot-filling, planner and oracle, in this order."""
    return {kind.name: kind for kind in _scripts(domain).LADDER}


def null_policies(domain: str = "customer-service") -> dict[str, Callable[[], Policy]]:
    """Makers of the null policies; all but `random-tool` speak text."""
    actions = domain_called(domain).actions
    return {**_scripts(domain).NULL_POLICIES, "random-tool": lambda: RandomToolPolicy(actions)}


def by_the_book(domain: str = "customer-service") -> dict[str, Callable[[], ActPolicy]]:
    """Makers of agents that identify by the book and then do one constant thing."""
    actions = domain_called(domain).actions

    def maker(name: str, acts: tuple[str, ...]) -> Callable[[], ActPolicy]:
        return lambda: OpenLoopPolicy(name, acts, actions)

    return {name: maker(name, acts) for name, acts in _scripts(domain).BY_THE_BOOK.items()}
