"""The options of `convgym doctor` and `convgym version`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Annotated

import typer


def version() -> None:
    """Print the version."""
    try:
        typer.echo(f"convgym {installed('convgym')}")
    except PackageNotFoundError:
        typer.echo("convgym (not installed; running from its source)")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Say it as JSON.")] = False,
) -> None:
    """Say what is installed, what is missing and how to get it, and whether it works."""
    from convgym.cli.doctor import examine, page, record

    findings = examine()
    typer.echo(record(findings) if as_json else page(findings))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)
