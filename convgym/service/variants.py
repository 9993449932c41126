"""Which of several policies answers a conversation: a keyed hash of the conversation's name.

    name ─► blake2b(key, owner, name) ─► a number in [0, 1) ─► │ B: 0.2 │ C: 0.1 │ the rest: A │

The same name has the same variant as long as key and shares stay, after a restart too; a variant
whose share grows keeps the conversations that it has. Nobody who does not know the key can choose
a name for its variant. Knows nothing of what is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from convgym.errors import InvalidConfiguration
from convgym.service.responders import Responder


@dataclass(frozen=True)
class Variant:
    """A policy, and what share of the conversations it answers."""

    name: str
    responder: Responder
    share: float


class Split:
    """All variants of a service; the first has what the others leave."""

    def __init__(
        self, first: Responder, others: Sequence[tuple[Responder, float]] = (), key: str = ""
    ) -> None:
        """Raises InvalidConfiguration for shares that leave nothing, and names that repeat."""
        shares = [share for _, share in others]
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            raise InvalidConfiguration(
                f"the shares {', '.join(f'{share:g}' for share in shares)} came; each lies between "
                "0 and 1, and together they leave some conversations to the first policy"
            )
        self.first = Variant(first.name, first, 1 - sum(shares))
        self._others = [Variant(one.name, one, share) for one, share in others]
        names = [variant.name for variant in self.variants]
        if len(set(names)) < len(names):
            raise InvalidConfiguration(
                f"the policies {', '.join(names)} cannot be told apart by name; name each once"
            )
        self._key = hashlib.blake2b(key.encode("utf-8", "replace")).digest()

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The first one first."""
        return (self.first, *self._others)

    def of(self, owner: str, name: str) -> Variant:
        """Who answers the conversation that `owner` calls `name`."""
        digest = hashlib.blake2b(key=self._key, digest_size=8)
        for part in (owner, name):
            raw = part.encode("utf-8", "replace")
            digest.update(b"%d:" % len(raw) + raw)
        place = int.from_bytes(digest.digest(), "big") / 2**64
        for variant in self._others:
            if place < variant.share:
                return variant
            place -= variant.share
        return self.first
