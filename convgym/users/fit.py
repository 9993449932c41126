"""What was counted from logs, as a user in an environment loads it: `user="path"`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from convgym.errors import InvalidConfiguration
from convgym.users.decisions import POINTS

FORMAT = "convgym.user_fit/1"


@dataclass(frozen=True)
class LoadedUser:
    """Base probabilities of decision points and the customers' own small talk."""

    probabilities: dict[str, float]
    phrases: dict[str, list[str]]


def load_user(path: str) -> LoadedUser:
    """Read a fit; raises InvalidConfiguration for a file that is not one."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise ValueError(f"its format is {record['format']!r}")
        known = {point.name for point in POINTS}
        return LoadedUser(
            {
                name: float(fitted["value"])
                for name, fitted in record["probabilities"].items()
                if name in known
            },
            {
                act: [str(phrase) for phrase, _ in counted]
                for act, counted in record["phrases"].items()
                if counted
            },
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidConfiguration(
            f"user={path!r} is not a fitted user ({type(error).__name__}: {error}); make one with "
            "UserFit.from_conversations(...).to_json(path)"
        ) from error
