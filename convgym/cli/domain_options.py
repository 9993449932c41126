"""The options of `convgym domain`."""

from __future__ import annotations

from typing import Annotated

import typer

from convgym.cli.mistakes import ends_cleanly

domains = typer.Typer(help="Domains of one's own.", no_args_is_help=True)


@domains.callback()
def domain_commands() -> None:
    """Domains of one's own."""


@domains.command()
@ends_cleanly
def check(
    folder: Annotated[str, typer.Argument(help="The folder of TOML files.")],
    tasks: Annotated[int, typer.Option(min=20, help="Tasks of each split to play.")] = 200,
) -> None:
    """Say what is wrong with a domain's folder, and what agents score in it."""
    from convgym.cli import domain as checking

    if not checking.check(folder, tasks, typer.echo):
        raise typer.Exit(1)
