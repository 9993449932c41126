"""The options of `convgym tune`; what searches is found by its name, as learners are."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from convgym.errors import InvalidConfiguration

_GROUP = "convgym.commands"


class Metric(StrEnum):
    """What is searched for."""

    success = "success"
    return_ = "return"


class Pruner(StrEnum):
    """When a trial is given up before its end."""

    median = "median"
    hyperband = "hyperband"
    none = "none"


class Sampler(StrEnum):
    """How options are drawn."""

    tpe = "tpe"
    random = "random"


class Backend(StrEnum):
    """What runs the trials."""

    optuna = "optuna"
    ray = "ray"


class Log(StrEnum):
    """Where trials are shown as well."""

    wandb = "wandb"


def tune(
    algorithm: Annotated[
        str | None, typer.Option(help="A learner of `convgym list learners`.")
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            help="offline, online, grpo (of language models that talk), full, conservative, "
            "aggressive, a domain such as sales, or a file such as space.toml; the learner's own "
            "family if it is not given."
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="In all, those before a --resume too; 20 if nobody ever said."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The search's folder in --folder.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file as `convgym train` takes it.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment to learn or to score in.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Minari dataset to learn from.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="conservative, balanced, aggressive or experimental.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of each trial.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of all chance.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, or a GPU such as cuda.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Such as learner.discount=0.98."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=2, help="Validation conversations of a score.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=0, help="Steps between two scores while a trial learns.")
    ] = None,
    metric: Annotated[Metric | None, typer.Option(help="What is searched for.")] = None,
    pruner: Annotated[Pruner | None, typer.Option(help="When a trial is given up.")] = None,
    sampler: Annotated[Sampler | None, typer.Option(help="How options are drawn.")] = None,
    backend: Annotated[
        Backend, typer.Option(help="optuna runs one trial after the other, ray several at a time.")
    ] = Backend.optuna,
    workers: Annotated[int, typer.Option(min=1, help="Trials at a time, on Ray.")] = 1,
    log: Annotated[Log | None, typer.Option(help="Show every trial in W&B as well.")] = None,
    folder: Annotated[Path, typer.Option(help="Where searches are kept.")] = Path("tuning"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with --name, or the newest unfinished search.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything, say what would be done, learn nothing."),
    ] = False,
) -> None:
    """Search for the options of a learner that score best on validation tasks."""
    from convgym.cli.learners import entries
    from convgym.cli.run_config import merged
    from convgym.cli.train_options import together

    given = together(
        config, settings,
        algorithm=algorithm, env=env, dataset=dataset, profile=profile, steps=steps, seed=seed,
        device=device,
    )  # fmt: skip
    scored = {"episodes": episodes, "every": every}
    evaluation = {one: value for one, value in scored.items() if value is not None}
    chosen: dict[str, Any] = {
        "metric": metric, "pruner": pruner, "sampler": sampler, "backend": backend, "log": log,
    }  # fmt: skip
    found = entries(_GROUP).get("tune")
    if found is None:
        raise InvalidConfiguration(
            "no installed package can search for options; install the package trainers, which "
            "comes with convgym"
        )
    found.load()(
        given=merged(given, {"evaluation": evaluation}) if evaluation else given,
        **{one: None if value is None else str(value) for one, value in chosen.items()},
        space=space, trials=trials, name=name, workers=workers, root=folder, resume=resume,
        dry_run=dry_run, say=typer.echo, tell=lambda line: typer.echo(line, err=True),
    )  # fmt: skip
