"""The options of `convgym evaluate`."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from convgym.errors import InvalidConfiguration


class Where(Enum):
    """Where workers are."""

    local = "local"
    ray = "ray"


def evaluate(
    policy: Annotated[
        str,
        typer.Option(
            help="A scripted agent (planner), a run, its policy.zip, or module:callable. Load what "
            "you trust: an archive of Stable-Baselines3 can run code."
        ),
    ],
    env: Annotated[str | None, typer.Option(help="Where; the run's own if it is left out.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Of the environment, such as topic=return."
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=2, help="Tasks to play, 200 if nothing is said.")
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Customers for each task: pass^k.")] = 4,
    agents: Annotated[int, typer.Option(min=1, help="Times it meets each customer.")] = 1,
    split: Annotated[str, typer.Option(help="Whose tasks.")] = "test",
    personas: Annotated[str, typer.Option(help="Slices: all, none, or NAME,NAME.")] = "all",
    seed: Annotated[int, typer.Option(min=0, help="Of customers, wording and policy.")] = 0,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Its likeliest act always.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the result is the same.")] = 1,
    backend: Annotated[
        Where, typer.Option(help="Of workers: this machine, or a Ray cluster.")
    ] = Where.local,
    message: Annotated[
        str | None, typer.Option(help="What a customer says; prints the reply.")
    ] = None,
    input_: Annotated[
        Path | None,
        typer.Option(
            "--input", help="A message a line, or .jsonl; prints a line of JSON for each."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say it as JSON.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="An HTML page of it, with pictures, beside what is said.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
) -> None:
    """Score a policy in seeded episodes, ask it for replies, or, on a terminal, talk with it."""
    from convgym.cli import evaluation as judging
    from convgym.cli.run_config import assignments

    if (message is not None) + (input_ is not None) + (episodes is not None) > 1:
        raise InvalidConfiguration(
            "--episodes, --message and --input are different things; give one"
        )
    if report is not None and (message is not None or input_ is not None):
        raise InvalidConfiguration(
            "--report is a page of scores, and --message and --input score nothing; leave one out"
        )
    judged = judging.Judged(
        policy=policy, env=env, keywords=assignments(settings or ()), root=runs, seed=seed
    )
    if message is not None:
        judging.reply(judged, message, as_json, typer.echo)
    elif input_ is not None:
        if not judging.reply_to_all(judged, input_, typer.echo):
            raise typer.Exit(1)
    elif episodes is None and not (as_json or report) and _is_watched():
        judging.talk(judged)
    else:
        size = judging.Size(
            episodes=200 if episodes is None else episodes,
            users=users, agents=agents, split=split, personas=personas,
            deterministic=deterministic, workers=workers,
            backend="ray" if backend is Where.ray else "local",
        )  # fmt: skip
        judging.measure(judged, size, as_json, typer.echo, _tell, report)


def _is_watched() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _tell(line: str) -> None:
    typer.echo(line, err=True)
