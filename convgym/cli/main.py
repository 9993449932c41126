"""The commands of `convgym`: their options stand in a file each, and what they do in another.

Exit codes: 0 done, 1 failed, 2 a mistake in what was asked for, said in one sentence; --debug
behind any command shows the traceback (`convgym.cli.mistakes`).
"""

from __future__ import annotations

from typing import Annotated

import typer

from convgym.cli import (
    calibrate_options,
    catalogue_options,
    data_options,
    doctor_options,
    domain_options,
    evaluate_options,
    monitor_options,
    play_options,
    serve_options,
    train_options,
    tune_options,
)
from convgym.cli.mistakes import ends_cleanly, show_tracebacks

app = typer.Typer(
    help="Conversations as reinforcement-learning environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def commands(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of what fails.")
    ] = False,
) -> None:
    """Conversations as reinforcement-learning environments."""
    show_tracebacks(debug)


for command in (
    doctor_options.version,
    doctor_options.doctor,
    catalogue_options.list_,
    catalogue_options.show,
    play_options.play,
    train_options.init,
    train_options.train,
    tune_options.tune,
    evaluate_options.evaluate,
    calibrate_options.calibrate,
    monitor_options.monitor,
    serve_options.serve,
):
    app.command(command.__name__.rstrip("_"))(ends_cleanly(command))
app.add_typer(data_options.data, name="data")
app.add_typer(domain_options.domains, name="domain")
