"""`convgym list` and `convgym show`: what there is, and what is known of one of them.

Everything is asked of what defines it: registrations, recipes, classes, entry points, folders.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

from gymnasium.envs.registration import load_env_creator

import convgym.envs.registration as registration
from convgym.cli.learners import PROFILES, entries, learner_called
from convgym.cli.run_folder import RunFolder, read_metrics
from convgym.cli.typed import default_of, documented, inner_options, options_of
from convgym.data.loading import packaged_ids
from convgym.data.local_root import local_path
from convgym.data.recipes import recipe_ids, recipe_path
from convgym.domains.catalogue import DOMAINS, domain_called
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.policies.roster import ladder, null_policies
from convgym.users.persona import BUILT_IN, TRAITS

Listing = dict[str, dict[str, str]]


def listed(what: str | None, runs: Path) -> Listing:
    """Name and one line of each thing, by kind; raises InvalidConfiguration for no such kind."""
    if what is None:
        return {kind: look(runs) for kind, look in _KINDS.items()}
    if what not in _KINDS:
        raise InvalidConfiguration(f"there are no {what!r}; there are {', '.join(_KINDS)}")
    return {what: _KINDS[what](runs)}


def page(listing: Listing) -> str:
    """The listing as aligned lines."""
    blocks = []
    for kind, found in listing.items():
        width = max(map(len, found), default=0)
        lines = [f"  {name:<{width}}  {line}".rstrip() for name, line in found.items()]
        blocks.append("\n".join([kind, *(lines or ["  none"])]))
    return "\n\n".join(blocks)


def shown(name: str, runs: Path) -> str:
    """What is known of one thing; raises InvalidConfiguration where nothing is called so."""
    shows: dict[str, Callable[[str, Path], str]] = {
        "environments": _environment, "datasets": _dataset, "domains": _domain,
        "personas": _persona, "learners": _learner, "policies": _policy, "runs": _run,
    }  # fmt: skip
    listing = listed(None, runs)
    told = [shows[kind](name, runs) for kind, found in listing.items() if name in found]
    if not told:
        known = [one for found in listing.values() for one in found]
        meant = get_close_matches(name, known, 1)
        hint = f"did you mean {meant[0]}?" if meant else "`convgym list` says what there is"
        raise InvalidConfiguration(f"nothing is called {name!r}; {hint}")
    return "\n\n".join(told)


# -- what there is ---------------------------------------------------------------------------------


def _environments(runs: Path) -> dict[str, str]:
    return {name: _first_line(_class(name)) for name in registration.ENVIRONMENTS}


def _datasets(runs: Path) -> dict[str, str]:
    packaged = packaged_ids()
    found = {}
    for name in recipe_ids():
        here = (local_path(name) / "data").exists()
        where = "local" if here else "packaged" if name in packaged else "from its recipe"
        found[name] = where
    return found


def _domains(runs: Path) -> dict[str, str]:
    desks = {name: domain_called(name) for name in DOMAINS}
    return {
        name: f"{len(desk.actions)} acts, {len(desk.layout)} cells" for name, desk in desks.items()
    }


def _personas(runs: Path) -> dict[str, str]:
    return {name: ", ".join(persona.traits) for name, persona in BUILT_IN.items()}


def _learners(runs: Path) -> dict[str, str]:
    found = {}
    for name in entries():
        learner = learner_called(name)
        needs = f" [{learner.extra}]" if learner.extra else ""
        found[name] = f"{learner.summary}{needs}"
    return found


def _policies(runs: Path) -> dict[str, str]:
    scripted = dict.fromkeys(ladder(), "scripted")
    return scripted | {name: "null" for name in null_policies() if name not in scripted}


def _runs(runs: Path) -> dict[str, str]:
    return {run.name: _standing(run) for run in RunFolder.all_in(runs)}


_KINDS: dict[str, Callable[[Path], dict[str, str]]] = {
    "environments": _environments,
    "datasets": _datasets,
    "domains": _domains,
    "personas": _personas,
    "learners": _learners,
    "policies": _policies,
    "runs": _runs,
}


def _standing(run: RunFolder) -> str:
    rows = read_metrics(run.metrics)
    done = f"{rows[-1]['step']:,.0f} steps" if rows else "not begun"
    return f"{'finished' if run.finished else 'unfinished'}, {done}"


def _class(env_id: str) -> Any:
    return load_env_creator(registration.ENVIRONMENTS[env_id])


def _first_line(kind: Any) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


# -- what is known of one --------------------------------------------------------------------------


def _environment(name: str, runs: Path) -> str:
    return f"{name}\n\n{inspect.getdoc(_class(name))}"


def _dataset(name: str, runs: Path) -> str:
    card = recipe_path(name).with_suffix(".md")
    recipe = recipe_path(name).read_text("utf-8")
    return card.read_text("utf-8").rstrip() if card.is_file() else recipe.rstrip()


def _domain(name: str, runs: Path) -> str:
    desk = domain_called(name)
    acts = ", ".join(desk.actions.names)
    document = desk.policy_document(desk.task("train", 0))
    return f"{name}: {_domains(runs)[name]}\n\n{document}\n\nActs: {acts}"


def _persona(name: str, runs: Path) -> str:
    persona = BUILT_IN[name]
    lines = [f"{name}: {', '.join(persona.traits)}"]
    return "\n".join(lines + [f"  {trait:<16} {getattr(persona, trait):.2f}" for trait in TRAITS])


def _learner(name: str, runs: Path) -> str:
    learner = learner_called(name)
    source = "recorded conversations" if learner.source == "dataset" else "talking"
    lines = [f"{name}: {learner.summary}", f"learns from {source}; a step is one of the "
             f"{learner.unit}"]  # fmt: skip
    lines += [f"{one}: {learner.profiles.get(one) or 'as below'}" for one in PROFILES]
    try:
        kind = learner.options()
    except MissingExtra as error:
        return "\n".join([*lines, "", str(error)])
    tuned = learner.defaults(None, {}).get("learner", {})
    lines += ["", inspect.getdoc(kind) or "", "", *_options(kind, tuned, "learner")]
    return "\n".join(lines)


def _options(kind: type[Any], tuned: Mapping[str, Any], where: str) -> Iterator[str]:
    """Each option of a dataclass with its type, its default and what it means."""
    hints, said, inner = get_type_hints(kind), documented(kind), inner_options(kind)
    for option in options_of(kind):
        own = tuned.get(option, {})
        default = (
            default_of(kind, option)
            if option in inner
            else tuned.get(option, default_of(kind, option))
        )
        if option in inner and default is not None:
            value = ""
        else:
            value = "" if default is MISSING else f" = {default!r}"
        hint = getattr(hints[option], "__name__", "") if isinstance(hints[option], type) else ""
        yield f"{where}.{option}: {hint or hints[option]}{value}"
        if said[option]:
            yield f"    {said[option]}"
        if option in inner:
            yield from _options(inner[option], own or {}, f"{where}.{option}")


def _policy(name: str, runs: Path) -> str:
    kind = "scripted agent" if name in ladder() else "null policy, which must score about 0"
    where = [domain for domain in DOMAINS if name in {**ladder(domain), **null_policies(domain)}]
    return f"{name}: {kind} of {', '.join(where)}; convgym evaluate --policy {name}"


def _run(name: str, runs: Path) -> str:
    run = RunFolder(runs / name)
    lines = [f"{run.path}: {_standing(run)}", "", run.config.read_text("utf-8").rstrip()]
    rows = read_metrics(run.metrics)
    if rows:
        lines += ["", f"newest: {json.dumps(rows[-1])}"]
    if run.finished:
        lines += ["", run.report.read_text("utf-8").rstrip()]
    return "\n".join(lines)
