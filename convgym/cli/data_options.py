"""The options of `convgym data`."""

from __future__ import annotations

from typing import Annotated

import typer

from convgym.cli.mistakes import ends_cleanly

data = typer.Typer(help="Minari datasets: build, fetch, check, publish.", no_args_is_help=True)
_Ids = Annotated[list[str], typer.Argument(help="Such as convgym/sales/mixed-v0.")]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


@data.callback()
def data_commands() -> None:
    """Minari datasets: build, fetch, check, publish."""


@data.command("build")
@ends_cleanly
def build_data(
    ids: Annotated[list[str] | None, typer.Argument(help="Such as convgym/sales/mixed-v0.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that have a recipe.")] = False,
    overwrite: _Overwrite = False,
) -> None:
    """Build datasets from their recipes, where minari.load_dataset finds them."""
    from convgym.cli import data as datasets

    datasets.build(ids or [], every, overwrite, typer.echo)


@data.command("list")
@ends_cleanly
def list_data(
    remote: Annotated[
        str | None, typer.Option("--from", help="A remote to ask too, as https://….")
    ] = None,
) -> None:
    """Say which datasets there are, and where they can be had."""
    from convgym.cli import data as datasets

    datasets.listing(remote, typer.echo)


@data.command("check")
@ends_cleanly
def check_data(
    ids: Annotated[
        list[str] | None, typer.Argument(help="All local ones where none is named.")
    ] = None,
) -> None:
    """Say whether local datasets are what their recipes promise."""
    from convgym.cli import data as datasets

    if not datasets.check(ids or [], typer.echo):
        raise typer.Exit(1)


@data.command("download")
@ends_cleanly
def download_data(
    ids: _Ids,
    remote: Annotated[
        str | None,
        typer.Option("--from", help="file://, https:// or hf://; else MINARI_REMOTE says."),
    ] = None,
    overwrite: _Overwrite = False,
) -> None:
    """Fetch datasets from a remote, whole and unchanged, or not at all."""
    from convgym.cli import data as datasets

    datasets.download(ids, remote, overwrite, typer.echo)


@data.command("publish")
@ends_cleanly
def publish_data(
    ids: _Ids,
    remote: Annotated[str, typer.Option("--to", help="A folder, or hf://organisation.")],
    token: Annotated[str | None, typer.Option(envvar="HF_TOKEN", help="Of Hugging Face.")] = None,
    overwrite: _Overwrite = False,
) -> None:
    """Put datasets into a folder for a web server, or onto Hugging Face."""
    from convgym.cli import data as datasets

    datasets.publish(ids, remote, token, overwrite, typer.echo)
