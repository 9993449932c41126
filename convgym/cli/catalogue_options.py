"""The options of `convgym list` and `convgym show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

_Runs = Annotated[Path, typer.Option(help="Where runs are kept.")]


def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            help="environments, datasets, domains, personas, learners, policies or runs; all of "
            "them if it is left out."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say it as JSON.")] = False,
    runs: _Runs = Path("runs"),
) -> None:
    """Say what there is, by name."""
    from convgym.cli.catalogue import listed, page

    found = listed(what, runs)
    typer.echo(json.dumps(found, indent=1) if as_json else page(found))


def show(
    name: Annotated[str, typer.Argument(help="Of anything that `convgym list` names.")],
    runs: _Runs = Path("runs"),
) -> None:
    """Say what is known of one environment, dataset, domain, persona, learner, policy or run."""
    from convgym.cli.catalogue import shown

    typer.echo(shown(name, runs))
