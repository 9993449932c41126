"""The domains there are, by name; each is imported when it is first asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from convgym.desk.folder import FolderDesk
from convgym.errors import InvalidConfiguration

DOMAINS: dict[str, str] = {
    "customer-service": "convgym.domains.customer_service.desk:CustomerServiceDesk",
    "sales": "convgym.domains.sales.desk:SalesDesk",
    "technical-support": "convgym.domains.technical_support.desk:SupportDesk",
}
"""Class by name."""


@cache
def domain_called(name: str) -> Any:
    """The domain of this name, or of the folder at this path; all share it, it holds no episode.

    Raises InvalidConfiguration for a name that there is not, and for what is wrong with a folder.
    """
    if name in DOMAINS:
        module, _, kind = DOMAINS[name].partition(":")
        return getattr(import_module(module), kind)()
    if not Path(name).is_dir():
        if "/" in name or Path(name).exists():
            raise InvalidConfiguration(f"{name} is no folder; a domain of one's own is a folder")
        raise InvalidConfiguration(
            f"no domain is called {name!r}; there are {', '.join(DOMAINS)}, and folders of one's "
            "own by their path"
        )
    return FolderDesk(name)
