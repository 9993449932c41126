"""What settings of online learners may be; each refusal is one sentence."""

from __future__ import annotations

from typing import Any

from convgym.errors import InvalidConfiguration


def check_counts(config: Any, *names: str) -> None:
    """Raises InvalidConfiguration where one of them is no whole number from 1."""
    for name in names:
        value = getattr(config, name)
        if not (isinstance(value, int) and value >= 1):
            raise InvalidConfiguration(f"{name}={value!r}; it must be a whole number from 1")


def check_positive(config: Any, *names: str) -> None:
    """Raises InvalidConfiguration where one of them is not above 0."""
    for name in names:
        value = getattr(config, name)
        if not value > 0:
            raise InvalidConfiguration(f"{name}={value!r}; it must be above 0")


def check_not_negative(config: Any, *names: str) -> None:
    """Raises InvalidConfiguration where one of them is below 0."""
    for name in names:
        value = getattr(config, name)
        if not value >= 0:
            raise InvalidConfiguration(f"{name}={value!r}; it must be 0 or more")


def check_shares(config: Any, *names: str) -> None:
    """Raises InvalidConfiguration where one of them is outside (0, 1]."""
    for name in names:
        value = getattr(config, name)
        if not 0.0 < value <= 1.0:
            raise InvalidConfiguration(f"{name}={value!r} is outside (0, 1]")


def check_layers(config: Any) -> None:
    """Raises InvalidConfiguration where `hidden` has a layer without units."""
    if not all(isinstance(units, int) and units >= 1 for units in config.hidden):
        raise InvalidConfiguration(
            f"hidden={config.hidden!r}; it takes the units of each layer, such as (128, 128)"
        )
