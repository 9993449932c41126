"""How much memory this process has in use."""

from __future__ import annotations

import os


def resident_bytes() -> int:
    """Resident bytes now where Linux tells them; 0 elsewhere."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0
