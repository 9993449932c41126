"""The options of `convgym calibrate`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class FitBy(StrEnum):
    """What a calibration goes by."""

    auto = "auto"
    counts = "counts"
    text = "text"


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
