"""The domains there are, by name; each is imported when it is first asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from convgym.errors import InvalidConfiguration

DOMAINS: dict[str, str] = {
    "customer-service": "convgym.domains.customer_service.desk:CustomerServiceDesk",
}
"""Class by name."""


@cache
def domain_called(name: str) -> Any:
    """The domain of this name; it holds no episode's state, and all share it.

    Raises InvalidConfiguration for a name that there is not.
    """
    if name not in DOMAINS:
        raise InvalidConfiguration(f"no domain is called {name!r}; there are {', '.join(DOMAINS)}")
    module, _, kind = DOMAINS[name].partition(":")
    return getattr(import_module(module), kind)()
