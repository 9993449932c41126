"""Every exception of ConvGym, in one tree.

    ConvGymError
    ├── InvalidAction        an action no environment of this kind takes
    ├── InvalidConfiguration a keyword, option or file with a value that is not allowed
    │   └── UnknownRenderMode
    ├── InvalidLog           a log line that cannot become a conversation (only with strict=True)
    ├── DatasetError         a dataset that is missing, misaligned or not what its card says
    ├── JudgeFailed          a judge that failed, or whose answer cannot be read
    ├── WorkerLost           a worker process that died, and again wherever it was replaced
    └── MissingExtra         an optional dependency that is not installed

Each message is one sentence or two: what came, what is allowed, what to do.
"""

from __future__ import annotations


def told(error: BaseException) -> str:
    """What an exception of somebody else says, as a part of a sentence: one line, not too long.

    Parsers put what they could not read into what they say, however long it is.
    """
    said = " ".join(str(error).split())
    if len(said) > 500:
        said = f"{said[:500]} …"
    return said or type(error).__name__


class ConvGymError(Exception):
    """The root: `except ConvGymError` catches whatever ConvGym itself raises."""

    def __str__(self) -> str:
        """What was said; of a value that is very long, beginning and end."""
        said = super().__str__()
        return said if len(said) <= 3000 else f"{said[:2000]} … {said[-900:]}"


class InvalidAction(ConvGymError, ValueError):
    """An action outside the action space; odd *text* never raises, it is sanitised."""


class InvalidConfiguration(ConvGymError, ValueError):
    """A keyword, reset option or configuration file with a value that is not allowed."""


class UnknownRenderMode(InvalidConfiguration, TypeError):
    """A render mode that there is not; a TypeError, as wrappers that try one expect."""


class InvalidLog(ConvGymError, ValueError):
    """A log line that cannot become a conversation; raised only when `strict=True`."""


class DatasetError(ConvGymError):
    """A dataset that is missing, misaligned, or differs from what its card promises."""


class JudgeFailed(ConvGymError, RuntimeError):
    """A judge that failed, or whose answer cannot be read; it is no score, so nothing stands in."""


class WorkerLost(ConvGymError, RuntimeError):
    """A worker process that died; what it was doing is not known to have an error of its own."""


class MissingExtra(ConvGymError, ImportError):
    """An optional dependency that is not installed; the message names the extra."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package!r}, which is not installed. "
            f'Install it with: pip install "convgym[{extra}]"'
        )
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        """So that a worker process can raise it here."""
        return type(self), (self.package, self.extra)
