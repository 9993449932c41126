"""What becomes of an episode that has ended, in a vector environment, by the names of its modes.

    NEXT_STEP   the next step of its row begins a new one, whatever the action
    SAME_STEP   a new one begins at once; what was seen last stands in `infos["final_obs"]`
    DISABLED    its row waits for a reset with `options["reset_mask"]`

gymnasium 1.0 knows the first alone, and has no type for modes.
"""

from __future__ import annotations

from typing import Any

from convgym.errors import InvalidConfiguration

try:
    from gymnasium.vector import AutoresetMode
except ImportError:
    AutoresetMode = None  # type: ignore[assignment,misc]

NEXT_STEP, SAME_STEP, DISABLED = MODES = ("NEXT_STEP", "SAME_STEP", "DISABLED")


def mode_named(given: Any) -> str:
    """The name of a mode, given as gymnasium's type or value, or by name.

    Raises InvalidConfiguration for anything that is none, and on gymnasium 1.0 for all but
    next-step.
    """
    name = getattr(given, "name", given)
    if AutoresetMode is not None and name not in MODES:
        name = {mode.value: mode.name for mode in AutoresetMode}.get(name, name)
    allowed = MODES if AutoresetMode is not None else MODES[:1]
    if name not in allowed:
        raise InvalidConfiguration(
            f"autoreset_mode={given!r} is none of {', '.join(allowed)}"
            + ("" if AutoresetMode is not None else "; gymnasium 1.0 knows no other")
        )
    return str(name)


def gymnasium_mode(name: str) -> Any:
    """The mode as gymnasium's metadata has it; its name on gymnasium 1.0, which has no type."""
    return AutoresetMode[name] if AutoresetMode is not None else name
