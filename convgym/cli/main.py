"""The commands of `convgym` and their options; what they do stands in a file of its own each.

Exit codes: 0 done, 1 failed, 2 a mistake in what was asked for, said in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated, Any

import typer

import convgym.envs.registration as registration
from convgym.cli.serve import serve
from convgym.errors import ConvGymError, InvalidConfiguration

app = typer.Typer(
    help="Conversations as reinforcement-learning environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
BAD_USAGE = 2


class Side(StrEnum):
    """Whom a person plays."""

    agent = "agent"
    user = "user"


@app.callback()
def commands() -> None:
    """Conversations as reinforcement-learning environments."""


@app.command()
def version() -> None:
    """Print the version."""
    try:
        typer.echo(f"convgym {installed('convgym')}")
    except PackageNotFoundError:
        typer.echo("convgym (not installed; running from its source)")


@app.command()
def play(
    env_id: Annotated[
        str, typer.Argument(help="Which environment.")
    ] = next(iter(registration.ENVIRONMENTS)),
    side: Annotated[
        Side, typer.Option("--as", help="Whom you play.")
    ] = Side.agent,
    seed: Annotated[int, typer.Option(min=0, help="Of task, customer and wording.")] = 0,
    split: Annotated[
        str,
        typer.Option(
            help="train, validation, test, or test_ with compositional, primitive, policy, "
            "persona or lexical behind it."
        ),
    ] = "train",
    task_id: Annotated[str | None, typer.Option(help="One task, such as test-17.")] = None,
    topic: Annotated[str | None, typer.Option(help="What the customer wants first.")] = None,
    persona: Annotated[
        str | None, typer.Option(help="A built-in persona, or JSON of traits.")
    ] = None,
    difficulty: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Who answers you as a user: oracle, planner, slot-filling, keyword, random."
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--with", help="What else it takes: folder=my_domain, scenarios=mine.jsonl."),
    ] = None,
) -> None:
    """Talk with a simulated customer as the agent, or with a scripted agent as the customer."""
    from convgym.cli import play as playing  # what it needs takes a second to load
    from convgym.simulator import SimulatorConfig

    with _mistakes():
        given: dict[str, Any] = {
            "env_id": env_id,
            "split": split,
            "task_id": task_id,
            "topic": topic,
            "persona": _json_or_name(persona),
            "difficulty": difficulty,
            "seed": seed,
            "reward": "graded",
            "keywords": dict(_keyword(one) for one in more or ()),
        }
        config = SimulatorConfig(**given)
        if side is Side.agent:
            if agent is not None:
                raise InvalidConfiguration("--agent says who answers you, and needs --as user")
            playing.as_agent(config, playing.Screen())
        else:
            playing.as_user(config, playing.Screen(), agent or "oracle")


app.command()(serve)


class FitBy(StrEnum):
    """What a calibration goes by."""

    auto = "auto"
    counts = "counts"
    text = "text"


@app.command()
def calibrate(
    logs: Annotated[Path, typer.Option(help="Conversations, as .jsonl, .jsonl.gz or .jsonl.zst.")],
    out: Annotated[Path, typer.Option(help="Where the fitted user goes, such as user.npz.")],
    method: Annotated[
        FitBy, typer.Option(help="counts goes by the log's acts, text by its words.")
    ] = FitBy.auto,
    holdout: Annotated[float, typer.Option(help="Share that the gap is measured on.")] = 0.3,
    encoder: Annotated[
        str, typer.Option(help="For text: hash, hashed:512, or the path of an encoder.")
    ] = "hash",
    seed: Annotated[int, typer.Option(min=0, help="Of split and simulations.")] = 0,
    budget: Annotated[
        float, typer.Option(help="Nominal seconds for the polish; 0 for the counts alone.")
    ] = 0.0,
    report: Annotated[
        Path | None, typer.Option(help="A page about the gap, such as report.html.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="The same as Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say it as JSON.")] = False,
) -> None:
    """Fit a simulated user to recorded conversations, and say how far off it is."""
    from convgym.cli import calibrate as fitting

    with _mistakes():
        fitting.run(
            fitting.Files(logs=logs, out=out, html=report, markdown=markdown),
            method.value,
            holdout,
            encoder,
            seed,
            budget,
            as_json,
            typer.echo,
            lambda line: typer.echo(line, err=True),
        )


domains = typer.Typer(help="Domains of one's own.", no_args_is_help=True)
app.add_typer(domains, name="domain")


@domains.callback()
def domain_commands() -> None:
    """Domains of one's own."""


@domains.command()
def check(
    folder: Annotated[str, typer.Argument(help="The folder of TOML files.")],
    tasks: Annotated[int, typer.Option(min=20, help="Tasks of each split to play.")] = 200,
) -> None:
    """Say what is wrong with a domain's folder, and what agents score in it."""
    from convgym.cli import domain as checking

    with _mistakes():
        if not checking.check(folder, tasks, typer.echo):
            raise typer.Exit(1)


data = typer.Typer(help="Minari datasets: build, fetch, check, publish.", no_args_is_help=True)
app.add_typer(data, name="data")
_Ids = Annotated[list[str], typer.Argument(help="Such as convgym/sales/mixed-v0.")]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


@data.callback()
def data_commands() -> None:
    """Minari datasets: build, fetch, check, publish."""


@data.command("build")
def build_data(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Such as convgym/sales/mixed-v0.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that have a recipe.")] = False,
    overwrite: _Overwrite = False,
) -> None:
    """Build datasets from their recipes, where minari.load_dataset finds them."""
    from convgym.cli import data as datasets

    with _mistakes():
        datasets.build(ids or [], every, overwrite, typer.echo)


@data.command("list")
def list_data(
    remote: Annotated[
        str | None, typer.Option("--from", help="A remote to ask too, as https://….")
    ] = None,
) -> None:
    """Say which datasets there are, and where they can be had."""
    from convgym.cli import data as datasets

    with _mistakes():
        datasets.listing(remote, typer.echo)


@data.command("check")
def check_data(
    ids: Annotated[
        list[str] | None, typer.Argument(help="All local ones where none is named.")
    ] = None,
) -> None:
    """Say whether local datasets are what their recipes promise."""
    from convgym.cli import data as datasets

    with _mistakes():
        if not datasets.check(ids or [], typer.echo):
            raise typer.Exit(1)


@data.command("download")
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

    with _mistakes():
        datasets.download(ids, remote, overwrite, typer.echo)


@data.command("publish")
def publish_data(
    ids: _Ids,
    remote: Annotated[str, typer.Option("--to", help="A folder, or hf://organisation.")],
    token: Annotated[str | None, typer.Option(envvar="HF_TOKEN", help="Of Hugging Face.")] = None,
    overwrite: _Overwrite = False,
) -> None:
    """Put datasets into a folder for a web server, or onto Hugging Face."""
    from convgym.cli import data as datasets

    with _mistakes():
        datasets.publish(ids, remote, token, overwrite, typer.echo)


def _keyword(given: str) -> tuple[str, Any]:
    """`name=value` as a keyword; the value may be JSON."""
    name, equals, value = given.partition("=")
    if not (equals and name.isidentifier()):
        raise InvalidConfiguration(f"--with={given[:40]!r} is no name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _json_or_name(persona: str | None) -> Any:
    if persona is None or not persona.lstrip().startswith("{"):
        return persona
    try:
        return json.loads(persona)
    except ValueError:
        raise InvalidConfiguration(
            f"--persona={persona[:40]!r} is no JSON; write traits as '{{\"patience\": 0.9}}'"
        ) from None


@contextmanager
def _mistakes() -> Iterator[None]:
    """One sentence and exit code 2 for what ConvGym refuses."""
    try:
        yield
    except (ConvGymError, OSError) as error:
        typer.echo(f"convgym: {error}", err=True)
        raise typer.Exit(BAD_USAGE) from None
