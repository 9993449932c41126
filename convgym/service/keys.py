"""API keys: kept as hashes, compared in constant time, never written anywhere.

    keys.txt      one key a line, or `name key`; # begins a comment, empty lines are nothing

A key is known by its name, "key-1", "key-2" … in the file's order, in logs and metrics. Where a
line to be logged holds a key, because somebody has said it, it is blotted out.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration

SHORTEST = 16
"""Characters of a key."""
LONGEST = 512
BLOT = b"[key]"


class KeyRing:
    """The keys that are let in; without any, everybody is "local"."""

    LOCAL = "local"

    def __init__(self, keys: Iterable[tuple[str, str]] = ()) -> None:
        """`keys`: (name, key). Raises InvalidConfiguration for short keys and names that repeat."""
        self._salt = secrets.token_bytes(32)
        self._hashes: list[tuple[str, bytes]] = []
        self._written: dict[int, dict[int, bytes]] = {}
        """Of keys as JSON writes them: length ─► fingerprint ─► hash."""
        self._base = np.uint64(secrets.randbits(64) | 1)
        names, seen = set[str](), set[bytes]()
        for name, key in keys:
            _check_key(key, f"the key {name!r}")
            hashed = self._hash(key)
            if name in names or hashed in seen:
                raise InvalidConfiguration(f"the key {name!r} stands there twice; give each once")
            names.add(name)
            seen.add(hashed)
            self._hashes.append((name, hashed))
            written = json.dumps(key)[1:-1]
            of_length = self._written.setdefault(len(written), {})
            of_length[int(self._fingerprints(written.encode(), len(written))[0])] = self._hash(
                written
            )

    @classmethod
    def read(cls, path: str | Path) -> KeyRing:
        """The keys of a file; raises InvalidConfiguration for a file without any."""
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise InvalidConfiguration(f"the key file {path} cannot be read: {why}") from None
        words = {
            number: line.split()
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.lstrip().startswith("#")
        }
        if not words:
            raise InvalidConfiguration(f"the key file {path} holds no key; write one a line")
        for number, line in words.items():
            name = line[0] if len(line) > 1 else ""
            # A name as long as a key may be one, and names are logged.
            if len(line) > 2 or len(name) >= SHORTEST:
                raise InvalidConfiguration(
                    f"line {number} of the key file {path} is neither `key` nor `name key`, with a "
                    f"name of fewer than {SHORTEST} characters; write it so"
                )
            _check_key(line[-1], f"the key on line {number} of {path}")
        named = [
            (line[0] if len(line) == 2 else f"key-{number}", line[-1])
            for number, line in enumerate(words.values(), 1)
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

    def blotted(self, line: bytes) -> bytes:
        """A line of JSON without the keys that stand in it."""
        for length, known in self._written.items():
            if length > len(line):
                continue
            wanted = np.array(list(known), dtype=np.uint64)
            places = np.flatnonzero(np.isin(self._fingerprints(line, length), wanted))
            for place in places[::-1].tolist():
                found = line[place : place + length]
                if self._hash(found.decode("latin-1")) in known.values():
                    line = line[:place] + BLOT + line[place + length :]
        return line

    def _fingerprints(self, text: bytes, length: int) -> NDArray[np.uint64]:
        """Of each run of so many bytes a number that equal runs share: Σ byte · base^place.

        (len(text) − length + 1,)
        """
        powers = np.multiply.accumulate(np.full(len(text), self._base, dtype=np.uint64))
        sums = np.cumsum(np.frombuffer(text, dtype=np.uint8) * powers, dtype=np.uint64)
        runs = sums[length - 1 :].copy()
        runs[1:] -= sums[: len(text) - length]
        # base is odd, so that it has an inverse by which all runs are moved to the same place.
        inverse = np.uint64(pow(int(self._base), -1, 1 << 64))
        moved = np.multiply.accumulate(np.full(len(runs), inverse, dtype=np.uint64))
        return runs * moved

    def _hash(self, key: str) -> bytes:
        return hashlib.blake2b(key.encode("utf-8", "replace"), key=self._salt).digest()


def _check_key(key: str, which: str) -> None:
    """Raises InvalidConfiguration for what is too short, too long or not to be typed."""
    if not SHORTEST <= len(key) <= LONGEST or not key.isascii() or not key.isprintable():
        raise InvalidConfiguration(
            f"{which} has {len(key)} characters; a key is {SHORTEST} to {LONGEST} printable ASCII "
            "characters, as `python -c 'import secrets; print(secrets.token_urlsafe())'` makes one"
        )


def bearer(authorization: str | None) -> str | None:
    """The key in an `Authorization: Bearer …` header."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None
