"""What a desk asks of its records, whatever made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Records(Protocol):
    """Records as integer columns; text is made only where somebody reads it.

    Rows of a kind with `each` records belong to account `row // each`; the kind "" is the
    account itself.
    """

    accounts: int

    @property
    def columns(self) -> Mapping[str, Mapping[str, NDArray[np.int64]]]:
        """Whole numbers by kind and field, which the rules weigh.  (rows,) each"""

    def text(self, kind: str, row: int, field: str) -> str:
        """A field, or a detail of a request on the record, as it is written."""

    def wrong(self, kind: str, row: int, field: str) -> str:
        """A number, key or secret as a poor memory has it: it belongs to nobody."""

    def find(self, kind: str, text: str) -> int:
        """Row of the record with this number, or of the account with this key; -1 for none."""

    def agrees(self, kind: str, row: int, field: str, said: str) -> bool:
        """Whether what was said of a field is what stands there."""

    def same_label(self, kind: str, row: int, other: int) -> bool:
        """Whether two records would be described alike."""

    def today(self) -> str:
        """The day of every conversation, as it is written."""
