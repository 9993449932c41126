"""The options of `convgym serve`: a policy and environments behind HTTP, and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from convgym.cli.play_options import keyword
from convgym.errors import InvalidConfiguration

_OWN = ("observation", "action", "reward", "split")
"""Keywords of a run's environment that the service and its clients decide."""


def serve(
    policy: Annotated[
        str | None,
        typer.Option(
            help="What replies: a scripted agent or a null policy by name, a saved policy's path, "
            "or module:callable; none: only environments."
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="POLICY=SHARE",
            help="Another policy that answers this share of the conversations, as cql-0=0.2; "
            "`convgym monitor` compares them.",
        ),
    ] = None,
    split_key: Annotated[
        str,
        typer.Option(
            help="Decides with a conversation's name who answers it; secret where clients choose "
            "names, and another one draws anew."
        ),
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            help="What can be played; the first is the policy's. Left out: where a run learnt.",
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--with", help="What each environment is made with, as folder=my_domain."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help="One key a line; needed beyond this machine.")
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--privileged", help="Show sessions their own hidden state.")
    ] = False,
    browse: Annotated[
        bool | None,
        typer.Option("--datasets/--no-datasets", help="Show local datasets; else on loopback."),
    ] = None,
    reports: Annotated[Path | None, typer.Option(help="Folder of HTML reports to show.")] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log-conversations",
            help="Append them to this .jsonl file, or to files in this folder: one a day, and "
            "another beyond --log-megabytes.",
        ),
    ] = None,
    log_megabytes: Annotated[float, typer.Option(help="Of a file in that folder.")] = 64.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the policy's world.")] = 0,
    rate: Annotated[float, typer.Option(help="Requests a second, of one key.")] = 50.0,
    max_sessions: Annotated[int, typer.Option(help="Open at once, of all keys.")] = 1000,
    session_idle: Annotated[float, typer.Option(help="Seconds until one is closed.")] = 900.0,
    threads: Annotated[int, typer.Option(help="Steps and replies at once.")] = 8,
    openenv: Annotated[
        bool, typer.Option("--openenv", help="Serve environments to OpenEnv's clients as well.")
    ] = False,
) -> None:
    """Serve replies, environment sessions and a page over HTTP, until it is stopped."""
    from convgym.cli.policies import environment_of, run_called, saved_policy
    from convgym.service.json_log import JsonLog
    from convgym.service.keys import KeyRing
    from convgym.service.settings import DEFAULT_ENVIRONMENT, ServiceSettings
    from convgym.service.start import start

    learnt_in: str | None = None
    keywords: dict[str, Any] = {}
    run = None if policy is None else run_called(policy, Path("runs"))
    if run is not None and not env:
        learnt_in, keywords = environment_of(run)
        keywords = {name: value for name, value in keywords.items() if name not in _OWN}
    settings = ServiceSettings(
        environments=tuple(env or [learnt_in or DEFAULT_ENVIRONMENT]),
        keywords={**keywords, **dict(keyword(one) for one in more or ())},
        host=host,
        port=port,
        privileged=hidden,
        browse=browse,
        reports=reports,
        conversation_log=log,
        max_log_file_bytes=round(1e6 * log_megabytes),
        also=tuple(share_of(one) for one in also or ()),
        split_key=split_key,
        seed=seed,
        requests_per_s=rate,
        burst=max(20, round(2 * rate)),
        max_sessions=max_sessions,
        max_sessions_per_key=max_sessions,
        session_idle_s=session_idle,
        threads=threads,
        openenv=openenv,
    )
    keys = KeyRing() if api_key_file is None else KeyRing.read(api_key_file)
    start(settings, keys, policy, JsonLog(), saved_policy)


def share_of(given: str) -> tuple[str, float]:
    """`policy=share` as (policy, share); raises InvalidConfiguration for anything else."""
    policy, _, share = given.rpartition("=")
    try:
        found = float(share)
    except ValueError:
        found = 0.0
    if not (policy and 0 < found < 1):
        raise InvalidConfiguration(
            f"--also={given[:60]!r}; it takes a policy and a share between 0 and 1, as cql-0=0.2"
        )
    return policy, found
