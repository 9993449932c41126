"""What judges have answered, in one file that several processes read and write at once.

A reply is found again by the model's name, the prompt and the seed. The file is an SQLite database:
a process that is killed leaves it whole. Knows nothing of what is asked.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

from convgym.errors import InvalidConfiguration, told

Question = tuple[str, int]
"""A prompt and a seed."""
_PATIENCE = 30.0
"""Seconds to wait for another process that writes."""


class ReplyCache:
    """Replies of one model; `name` tells it from others whose replies lie in the same file.

    Raises InvalidConfiguration for a file that is no database, and for an empty name.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        if not name:
            raise InvalidConfiguration(
                "a cache of replies needs the name of the model that they are of, for another "
                "model answers otherwise; give name="
            )
        self.path, self.name = Path(path), name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._asked() as file, file:
            file.execute(
                "CREATE TABLE IF NOT EXISTS replies (question BLOB PRIMARY KEY, reply TEXT)"
            )

    def get(self, questions: Sequence[Question]) -> dict[Question, str]:
        """The replies that are there."""
        found = {}
        with self._asked() as file:
            for question in questions:
                row = file.execute(
                    "SELECT reply FROM replies WHERE question = ?", (self._digest(question),)
                ).fetchone()
                if row is not None and isinstance(row[0], str):  # else it was damaged
                    found[question] = row[0]
        return found

    def put(self, replies: Mapping[Question, str]) -> None:
        """Add replies, all or none; one that is there already stays."""
        rows = [(self._digest(question), reply) for question, reply in replies.items()]
        if rows:
            with self._asked() as file, file:
                file.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?)", rows)

    @contextmanager
    def _asked(self) -> Iterator[sqlite3.Connection]:
        """The file, open; raises InvalidConfiguration for one that is no database, or damaged."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as file:
                yield file
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter of its words
            raise InvalidConfiguration(
                f"{self.path} is no cache of replies: {told(error)}; move it away"
            ) from error

    def _digest(self, question: Question) -> bytes:
        prompt, seed = question
        text = f"{len(self.name)} {self.name}{seed} {prompt}"
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
