"""Search spaces: the named ones, one's own, and the check that a learner has what they name.

    offline, online, grpo     what is worth trying of the family that a learner belongs to
    full                      … and the shape of its networks
    conservative              half as wide about what the run has anyway, without what is structure
    aggressive                wider, up to what is hardly sensible
    customer_service, technical_support, sales
                              discount and n_step as long as that domain's conversations are
    space.toml, space.yaml    one's own, as {"learning_rate": {"range": [1e-4, 1e-2], "log": true}}

The tables are in spaces.toml. Each end of each range is tried on the learner's own options before
the first trial, so that a range it would refuse is one sentence and not a failed night.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from convgym.cli.yaml_text import read_yaml
from convgym.errors import InvalidConfiguration, told
from trainers.tuning.ranges import Range
from trainers.tuning.subjects import Subject, full_name

Space = dict[str, Range]
"""Ranges by the full name of the option."""
FAMILIES = ("grpo", "offline", "online")
NAMED = (
    *FAMILIES, "full", "conservative", "aggressive",
    "customer_service", "technical_support", "sales",
)  # fmt: skip
_FIRST, _ALL = 0.5, 0.98
"""Share of a reward at the end that reaches the first turn: with the least and most discount."""


def space_for(given: str | Path | Mapping[str, Any] | None, subject: Subject) -> Space:
    """A named space, one in a file, or one that is given; None: the family's.

    Raises InvalidConfiguration for a name, an option or a value that there is not.
    """
    if given is None:
        given = subject.family
    if isinstance(given, Mapping):
        return _own(given, subject)
    if not isinstance(given, str | Path):
        raise InvalidConfiguration(
            f"space is a {type(given).__name__}; it is a name, a file, or options with their ranges"
        )
    name = str(given).replace("-", "_")
    if name in NAMED:
        return _named(name, subject)
    path = Path(given)
    if path.suffix in (".toml", ".yaml", ".yml", ".json"):
        return _own(_read(path), subject)
    near = get_close_matches(name, NAMED, 1)
    hint = f"did you mean {near[0]}? There" if near else "there"
    raise InvalidConfiguration(
        f"no search space is called {str(given)[:60]!r}; {hint} are {', '.join(NAMED)}, and files "
        "such as space.toml"
    )


def turns_of(domain: str) -> int:
    """Agent turns of an expert's conversation in a domain."""
    return int(_tables()["turns"][domain])


# -- one's own -------------------------------------------------------------------------------------


def _own(given: Mapping[str, Any], subject: Subject) -> Space:
    if not given:
        raise InvalidConfiguration("the search space is empty; name an option and its range")
    names, space = subject.names(), {}
    for name, values in given.items():
        full = full_name(str(name), names)
        if full in space:
            raise InvalidConfiguration(f"the search space has {full} twice; leave one out")
        space[full] = Range.of(values, subject.hint(full), full)
    for name in space:
        if within := [one for one in space if one.startswith(f"{name}.")]:
            raise InvalidConfiguration(f"{within[0]} is a part of {name}; search one of the two")
    return checked(space, subject)


def checked(space: Space, subject: Subject) -> Space:
    """The space; raises InvalidConfiguration where the learner refuses an end of a range."""
    for name, values in space.items():
        for value in values.extremes():
            try:
                subject.check({name: value})
            except InvalidConfiguration as error:
                raise InvalidConfiguration(
                    f"the search space goes to {name}={value!r}: {told(error)}"
                ) from None
    return space


def _read(path: Path) -> dict[str, Any]:
    if path.suffix != ".toml":
        return read_yaml(path)
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{path} is no TOML: {told(error)}") from None


# -- named -----------------------------------------------------------------------------------------


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("spaces.toml").read_text("utf-8"))


def _named(name: str, subject: Subject) -> Space:
    if name in FAMILIES and name != subject.family:
        raise InvalidConfiguration(
            f"the search space {name!r} is for other learners than {subject.algorithm}; take "
            f"{', '.join(one for one in NAMED if one not in FAMILIES or one == subject.family)}"
        )
    table = _tables()[subject.family]
    entries = _entries(table, subject, with_shape=name == "full")
    if not entries:
        raise InvalidConfiguration(
            f"nothing is known of what to search for {subject.algorithm}; give a space of your "
            "own, as {learning_rate: {range: [1e-4, 1e-2], log: true}}"
        )
    wide = name == "aggressive"
    space = {full: _range(one, subject.hint(full), full, wide) for full, one in entries.items()}
    if name == "conservative":
        near = {full: one.narrowed(subject.default(full)) for full, one in space.items()}
        space = {full: one for full, one in near.items() if one is not None}
    elif name in _tables()["turns"]:
        space |= _as_long(turns_of(name), space, subject)
    return checked(space, subject)


def _entries(table: Mapping[str, Any], subject: Subject, with_shape: bool) -> dict[str, Any]:
    """What is written of the options that this learner has, by their full names."""
    own = dict(table.get("own", {}).get(subject.algorithm, {}))
    shared = table["options"]
    wanted = {name: shared[name] for name in own.pop("reads", shared)}
    shape = own.pop("full", table["full"])
    if with_shape:
        wanted |= shape
    found, names = {}, subject.names()
    for name, entry in (wanted | own).items():
        full = next((one for one in (f"learner.{name}", name) if one in names), None)
        if full is not None:
            found[full] = entry
    return found


def _range(entry: Mapping[str, Any], hint: Any, name: str, wide: bool) -> Range:
    written = {key: value for key, value in entry.items() if key != "wide"}
    if wide and "wide" in entry:
        written["range"] = entry["wide"]
    return Range.of(written, hint, name)


def _as_long(turns: int, space: Space, subject: Subject) -> Space:
    """Discounts and steps of returns for conversations of so many turns."""
    reach = tuple(float(f"{share ** (1 / turns):.4g}") for share in (_FIRST, _ALL))
    steps = Range(choices=(1, turns // 2, turns, 2 * turns))
    found = {
        "learner.discount": Range(ends=(reach[0], reach[1])),
        "learner.n_step": steps,
        "learner.n_step_td": steps,
    }
    return {name: one for name, one in found.items() if name in space}
