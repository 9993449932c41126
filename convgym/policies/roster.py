"""Every domain's scripted agents by name: its ladder, its null policies, its agents by the book."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from convgym.desk.folder import FolderDesk
from convgym.domains.catalogue import domain_called
from convgym.policies.null import GREETING, OpenLoopPolicy, RandomToolPolicy, fixed_replies
from convgym.policies.policy import ActPolicy, Policy
from convgym.policies.scripted import LADDER, ScriptedPolicy

_MODULES = {
    "customer-service": "convgym.policies.customer_service",
    "sales": "convgym.policies.sales",
    "technical-support": "convgym.policies.technical_support",
}
"""Where a domain's scripts stand: `LADDER`, `NULL_POLICIES`, `BY_THE_BOOK`."""


def _scripts(domain: str) -> Any:
    """The module of a domain's scripts, or those that work at every desk."""
    if domain in _MODULES:
        return import_module(_MODULES[domain])
    desk = domain_called(domain)
    assert isinstance(desk, FolderDesk), f"{domain} has no line in _MODULES"
    return FolderScripts(desk)


class FolderScripts:
    """The scripts of a domain of one's own: the general ladder, and null policies in its words."""

    def __init__(self, desk: FolderDesk) -> None:
        self.LADDER = tuple(self._at(kind, desk) for kind in LADDER)
        banks = desk.agent_banks()["train"]

        def all_of(start: str) -> tuple[str, ...]:
            words = tuple(w for key in banks if key.startswith(start) for w in banks.variants(key))
            return words or (GREETING,)

        self.NULL_POLICIES = fixed_replies(
            {
                "refuse-always": all_of("deny_"),
                "confirm-everything": all_of("confirm_"),
                "say-every-value": all_of("inform_"),
                "ask-everything": all_of("ask_"),
            }
        )
        self.BY_THE_BOOK: dict[str, tuple[str, ...]] = {}

    @staticmethod
    def _at(kind: Any, desk: FolderDesk) -> Any:
        """The policy class at this desk."""
        if not issubclass(kind, ScriptedPolicy):
            return kind
        return type(kind.__name__, (kind,), {
            "__init__": lambda self, noise=0.0: kind.__init__(self, noise, desk.v)
        })


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
