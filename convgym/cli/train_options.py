"""The options of `convgym train` and `convgym init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from convgym.errors import InvalidConfiguration

_Algorithm = Annotated[
    str | None, typer.Option(help="What learns; `convgym list learners` names them.")
]
_Env = Annotated[str | None, typer.Option(help="Environment to learn in, or to score in.")]
_Dataset = Annotated[str | None, typer.Option(help="Minari dataset to learn from.")]
_Profile = Annotated[
    str | None, typer.Option(help="conservative, balanced, aggressive or experimental.")
]
_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Such as learner.discount=0.98; wins over all."
    ),
]
_Seed = Annotated[int | None, typer.Option(min=0, help="Of all chance.")]


def train(
    config: Annotated[
        Path | None, typer.Option(help="A YAML file; `convgym init` writes one.")
    ] = None,
    algorithm: _Algorithm = None,
    env: _Env = None,
    dataset: _Dataset = None,
    profile: _Profile = None,
    steps: Annotated[int | None, typer.Option(min=1, help="How long, in all.")] = None,
    seed: _Seed = None,
    device: Annotated[str | None, typer.Option(help="cpu, or a GPU such as cuda.")] = None,
    name: Annotated[str | None, typer.Option(help="The run's folder in --runs.")] = None,
    settings: _Set = None,
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with --name, or the newest unfinished run.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything, say what would be done, learn nothing."),
    ] = False,
    stub: Annotated[
        bool, typer.Option("--stub", help="The whole loop in seconds: a table, without any extra.")
    ] = False,
) -> None:
    """Let a learner learn, by talking or from recorded conversations, in a folder of its own."""
    from convgym.cli.training import Asked
    from convgym.cli.training import train as run

    if stub:
        if algorithm not in (None, "stub"):
            raise InvalidConfiguration(f"--stub is --algorithm stub, not {algorithm}; give one")
        algorithm = "stub"
    given = together(
        config, settings,
        algorithm=algorithm, env=env, dataset=dataset, profile=profile, steps=steps, seed=seed,
        device=device, name=name,
    )  # fmt: skip
    run(Asked(given=given, root=runs, resume=resume, dry_run=dry_run), typer.echo, _tell)


def init(
    path: Annotated[Path, typer.Option(help="The file to write.")] = Path("config.yaml"),
    algorithm: _Algorithm = None,
    env: _Env = None,
    dataset: _Dataset = None,
    profile: _Profile = None,
    settings: _Set = None,
    force: Annotated[bool, typer.Option("--force", help="Over a file that is there.")] = False,
) -> None:
    """Write a configuration to start from, with every option and what it means."""
    from convgym.cli.starter import write_starter

    given = together(
        None, settings,
        algorithm=algorithm or "stub", env=env, dataset=dataset, profile=profile,
    )  # fmt: skip
    write_starter(path, given, force, typer.echo)


def together(config: Path | None, settings: list[str] | None, **options: Any) -> dict[str, Any]:
    """File, options and --set as one configuration, later ones over earlier ones."""
    from convgym.cli.run_config import assignments, merged
    from convgym.cli.yaml_text import read_yaml

    given = {} if config is None else read_yaml(config)
    given |= {name: value for name, value in options.items() if value is not None}
    return merged(given, assignments(settings or ()))


def _tell(line: str) -> None:
    typer.echo(line, err=True)
