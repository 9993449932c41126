"""The options of `convgym monitor`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from convgym.cli.mistakes import FAILED
from convgym.errors import InvalidConfiguration


def monitor(
    logs: Annotated[
        Path, typer.Option(help="What the service has logged: a .jsonl file, or its folder.")
    ],
    user: Annotated[Path, typer.Option(help="The calibrated user, as `calibrate` has saved it.")],
    window: Annotated[int, typer.Option(help="Conversations that are looked at together.")] = 200,
    policy: Annotated[
        str | None,
        typer.Option(help="Whose conversations, as the service calls it; everybody's if left out."),
    ] = None,
    estimate: Annotated[
        Path | None,
        typer.Option(help="The off-policy report from before deployment, as JSON."),
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="Whose interval in it: WDR, WIS, …; the first that has one.")
    ] = None,
    bounds: Annotated[
        str, typer.Option("--return-range", help="Least and greatest return that there can be.")
    ] = "0,1",
    patience: Annotated[int, typer.Option(help="Windows in a row until an alert.")] = 3,
    false_alarms: Annotated[
        float,
        typer.Option(help="Probability of any alert in 100 windows where nothing is amiss."),
    ] = 0.05,
    above: Annotated[float, typer.Option(help="Times its floor that a row has to lie.")] = 1.25,
    tell: Annotated[
        float, typer.Option(help="Difference between policies that is to be told from none.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Of simulated users and permutations.")] = 0,
    follow: Annotated[
        float | None,
        typer.Option(help="Look for more every so many seconds, until it is interrupted."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="A page, such as monitor.html.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say it as JSON.")] = False,
    fail_on_alert: Annotated[
        bool, typer.Option("--fail-on-alert", help="End with 1 where there is an alert.")
    ] = False,
) -> None:
    """Hold what a service has logged against the calibrated user and what was promised."""
    from convgym.calibration.monitor import MonitorConfig
    from convgym.cli import monitor as monitoring

    if follow is not None and not follow > 0:
        raise InvalidConfiguration(f"--follow={follow:g}; it takes seconds above 0")
    watched = monitoring.Watched(
        logs=logs, user=user, policy=policy, estimate=estimate, estimator=estimator, delta=tell
    )
    config = MonitorConfig(
        window=window,
        patience=patience,
        false_alarms=false_alarms,
        above=above,
        bounds=two_numbers(bounds),
        seed=seed,
    )
    shown = monitoring.Shown(report, as_json, typer.echo, lambda line: typer.echo(line, err=True))
    alerts = monitoring.run(watched, config, shown, follow)
    if alerts and fail_on_alert:
        raise typer.Exit(FAILED)


def two_numbers(given: str) -> tuple[float, float]:
    """`low,high`; raises InvalidConfiguration for anything else."""
    try:
        low, high = map(float, given.split(","))
    except ValueError:
        low = high = 0.0
    if not -math.inf < low < high < math.inf:
        raise InvalidConfiguration(
            f"--return-range={given[:40]!r}; it takes two numbers, the lower first, as 0,1"
        )
    return low, high
