"""Results of many long runs in one file, a line of JSON each: what is finished is not done again.

results.jsonl   {"part": "memory", "seed": 0, "with": 0.9, …}
                …                                             whole after every run, killed or not
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from convgym.data.packed_files import whole_file
from convgym.errors import InvalidConfiguration, told


class ResultLines:
    """The finished runs of one file, which need not be there yet.

    Raises InvalidConfiguration for a file whose lines are no results.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        try:
            self.rows: list[dict[str, Any]] = [dict(json.loads(line)) for line in lines]
        except (ValueError, TypeError) as error:
            raise InvalidConfiguration(
                f"{path} holds no results, a line of JSON each ({told(error)}); give another file"
            ) from None

    def has(self, **wanted: Any) -> bool:
        """Whether a run with these values is finished."""
        return any(
            all(row.get(name) == value for name, value in wanted.items()) for row in self.rows
        )

    def add(self, **row: Any) -> dict[str, Any]:
        """Keep a finished run, whole or not at all; gives it back."""
        self.rows.append(row)
        with whole_file(self._path) as file:
            file.write("".join(f"{json.dumps(one)}\n" for one in self.rows).encode())
        return row
