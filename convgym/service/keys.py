"""API keys: kept as hashes, compared in constant time, never written anywhere.

    keys.txt      one key a line, or `name key`; # begins a comment, empty lines are nothing

A key is known by its name, "key-1", "key-2" … in the file's order, in logs and metrics.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from pathlib import Path

from convgym.errors import InvalidConfiguration

SHORTEST = 16
"""Characters of a key."""
LONGEST = 512


class KeyRing:
    """The keys that are let in; without any, everybody is "local"."""

    LOCAL = "local"

    def __init__(self, keys: Iterable[tuple[str, str]] = ()) -> None:
        """`keys`: (name, key). Raises InvalidConfiguration for short keys and names that repeat."""
        self._salt = secrets.token_bytes(32)
        self._hashes: list[tuple[str, bytes]] = []
        names, seen = set[str](), set[bytes]()
        for name, key in keys:
            if not SHORTEST <= len(key) <= LONGEST or not key.isascii() or not key.isprintable():
                raise InvalidConfiguration(
                    f"the key {name!r} has {len(key)} characters; a key is {SHORTEST} to {LONGEST} "
                    "printable ASCII characters, as `python -c 'import secrets; "
                    "print(secrets.token_urlsafe())'` makes one"
                )
            hashed = self._hash(key)
            if name in names or hashed in seen:
                raise InvalidConfiguration(f"the key {name!r} stands there twice; give each once")
            names.add(name)
            seen.add(hashed)
            self._hashes.append((name, hashed))

    @classmethod
    def read(cls, path: str | Path) -> KeyRing:
        """The keys of a file; raises InvalidConfiguration for a file without any."""
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise InvalidConfiguration(f"the key file {path} cannot be read: {why}") from None
        words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
        if not words:
            raise InvalidConfiguration(f"the key file {path} holds no key; write one a line")
        if any(len(line) > 2 for line in words):
            raise InvalidConfiguration(
                f"a line of the key file {path} has more than two words; write `key` or `name key`"
            )
        named = [
            (line[0] if len(line) == 2 else f"key-{number}", line[-1])
            for number, line in enumerate(words, 1)
        ]
        return cls(named)

    def __len__(self) -> int:
        return len(self._hashes)

    def owner(self, given: str | None) -> str | None:
        """Name of the key that was given; None where it is not let in.

        Takes as long for a wrong key as for a right one, whichever it is.
        """
        if not self._hashes:
            return self.LOCAL
        hashed, found = self._hash(given or ""), None
        for name, known in self._hashes:
            if hmac.compare_digest(hashed, known):
                found = name
        return found

    def _hash(self, key: str) -> bytes:
        return hashlib.blake2b(key.encode("utf-8", "replace"), key=self._salt).digest()


def bearer(authorization: str | None) -> str | None:
    """The key in an `Authorization: Bearer …` header."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None
