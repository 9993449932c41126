"""How a command ends: 0 done, 1 failed, 2 a mistake in what was asked for, said in one sentence.

    @app.command()
    @ends_cleanly        adds --debug, which shows the traceback behind the sentence
    def train(…): …

`convgym --debug train …` and CONVGYM_DEBUG=1 do the same.
"""

from __future__ import annotations

import functools
import inspect
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from convgym.errors import ConvGymError, MissingExtra, told

FAILED, BAD_USAGE = 1, 2
DEBUG = "CONVGYM_DEBUG"
_THEIRS = (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError)
_ASKED = (
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""What the system says of a path that was named wrongly."""
_shown = False


def show_tracebacks(shown: bool) -> None:
    """Whether every failure of this command is shown with its traceback."""
    global _shown
    _shown = shown


@contextmanager
def mistakes(debug: bool = False) -> Iterator[None]:
    """One sentence and an exit code for whatever goes wrong inside."""
    try:
        yield
    except _THEIRS:
        raise
    except KeyboardInterrupt:
        _say("interrupted", None)
        raise typer.Exit(FAILED) from None
    except Exception as error:
        sentence, code = _told(error)
        _say(sentence, error if debug or _shown or _wanted() else None)
        raise typer.Exit(code) from None


def _told(error: Exception) -> tuple[str, int]:
    """What to say of an error, and how to end."""
    if isinstance(error, MissingExtra):
        return str(error), FAILED
    if isinstance(error, ConvGymError):
        return str(error), BAD_USAGE
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{str(error.filename)[:300]}: "
        sentence = f"{where}{error.strerror}" if error.strerror else str(error)
        return sentence, BAD_USAGE if isinstance(error, _ASKED) else FAILED
    what = told(error)
    return (
        f"{type(error).__name__}: {what or 'no more is known'}; this should not happen. Run it "
        "again with --debug to see where, and report it",
        FAILED,
    )


def _wanted() -> bool:
    return os.environ.get(DEBUG, "") not in ("", "0")


def _say(sentence: str, error: BaseException | None) -> None:
    """The sentence, after all that led to `error`, what was raised `from None` too."""
    chain: list[str] = []
    while error is not None:
        chain.insert(0, "".join(traceback.format_exception(error, chain=False)))
        error = error.__cause__ or error.__context__
    for block in chain:
        typer.echo(block, err=True)
    typer.echo(f"convgym: {sentence}", err=True)


def ends_cleanly(function: Callable[..., None]) -> Callable[..., None]:
    """The command with `--debug`, and its mistakes in one sentence."""
    option = typer.Option("--debug", help="Show the traceback of what fails.")
    debug = inspect.Parameter(
        "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )

    @functools.wraps(function)
    def run(*args: Any, debug: bool = False, **keywords: Any) -> None:
        with mistakes(debug):
            function(*args, **keywords)

    told = inspect.signature(function, eval_str=True)
    shown = told.replace(parameters=[*told.parameters.values(), debug])
    run.__signature__ = shown  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in shown.parameters.items()}
    return run
