"""The options of `convgym play`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

import convgym.envs.registration as registration
from convgym.errors import InvalidConfiguration


class Side(StrEnum):
    """Whom a person plays."""

    agent = "agent"
    user = "user"


def play(
    env_id: Annotated[str, typer.Argument(help="Which environment.")] = next(
        iter(registration.ENVIRONMENTS)
    ),
    side: Annotated[Side, typer.Option("--as", help="Whom you play.")] = Side.agent,
    seed: Annotated[int, typer.Option(min=0, help="Of task, customer and wording.")] = 0,
    split: Annotated[
        str,
        typer.Option(
            help="train, validation, test, or test_ with compositional, primitive, policy, "
            "persona or lexical behind it."
        ),
    ] = "train",
    task_id: Annotated[str | None, typer.Option(help="One task, such as test-17.")] = None,
    topic: Annotated[str | None, typer.Option(help="What the customer wants first.")] = None,
    persona: Annotated[
        str | None, typer.Option(help="A built-in persona, or JSON of traits.")
    ] = None,
    difficulty: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Who answers you as a user: oracle, planner, slot-filling, keyword, random."
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--with", help="What else it takes: folder=my_domain, scenarios=mine.jsonl."),
    ] = None,
) -> None:
    """Talk with a simulated customer as the agent, or with a scripted agent as the customer."""
    from convgym.cli import play as playing  # what it needs takes a second to load
    from convgym.simulator import SimulatorConfig

    given: dict[str, Any] = {
        "env_id": env_id,
        "split": split,
        "task_id": task_id,
        "topic": topic,
        "persona": _json_or_name(persona),
        "difficulty": difficulty,
        "seed": seed,
        "reward": "graded",
        "keywords": dict(keyword(one) for one in more or ()),
    }
    config = SimulatorConfig(**given)
    if side is Side.agent:
        if agent is not None:
            raise InvalidConfiguration("--agent says who answers you, and needs --as user")
        playing.as_agent(config, playing.Screen())
    else:
        playing.as_user(config, playing.Screen(), agent or "oracle")


def keyword(given: str) -> tuple[str, Any]:
    """`name=value` as a keyword; the value may be JSON."""
    name, equals, value = given.partition("=")
    if not (equals and name.isidentifier()):
        raise InvalidConfiguration(f"--with={given[:40]!r} is no name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _json_or_name(persona: str | None) -> Any:
    if persona is None or not persona.lstrip().startswith("{"):
        return persona
    try:
        return json.loads(persona)
    except ValueError:
        raise InvalidConfiguration(
            f"--persona={persona[:40]!r} is no JSON; write traits as '{{\"patience\": 0.9}}'"
        ) from None
