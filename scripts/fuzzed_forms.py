"""Every way to play every registered id: observation × action, single, in rows, from both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import convgym  # noqa: F401  registers the environments
from convgym.envs.autoreset import MODES, NEXT_STEP, AutoresetMode
from convgym.envs.conversation_env import REWARDS
from convgym.envs.modes import ACTION_MODES, OBSERVATIONS
from convgym.envs.registration import ENVIRONMENTS, WRAPPED_ENVIRONMENTS
from convgym.multi_agent import SIDES, USER_REWARDS

ROWS = 3
RESETS = MODES if AutoresetMode is not None else (NEXT_STEP,)
"""What becomes of rows that have ended; gymnasium 1.0 knows one way."""
DATA = Path(__file__).parents[1] / "tests" / "data"
OWN, RECORDED = "ConvGym/OwnDomain-v0", "ConvGym/Recorded-v0"
NEEDED: dict[str, dict[str, str]] = {
    OWN: {"folder": str(DATA / "library_domain")},
    RECORDED: {"user": str(DATA / "recorded_user.npz")},
}
TEXT_ONLY = ("ConvGym/Scenarios-v0", RECORDED)
GOOD_OPTIONS: Mapping[str, Sequence[Any]] = {
    "task_id": ("test-17", "train-3", "validation-1999"),
    "split": ("train", "validation", "test"),
    "user_seed": (0, 3, 2**31),
    "wording_seed": (0, 3, 2**31),
    "topic": ("return", "camera", "laptops"),
    "difficulty": (0, 0.3, 1.0),
    "persona": ("patient_expert", {"patience": 0.1}, {"base": "curious_learner"}),
    "style": ("terse", "chatty"),
}


# -- forms -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """One way to play an id."""

    kind: str
    """single, wrapped, vector, aec, parallel or one side."""
    environment_id: str
    keywords: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in self.keywords.items())
        return f"{self.kind} {self.environment_id.removeprefix('ConvGym/')} {told}"


def modes_of(environment_id: str) -> list[dict[str, str]]:
    """Every observation with every action that the id takes."""
    actions = ("text",) if environment_id in TEXT_ONLY else ACTION_MODES
    shown = [o for o in OBSERVATIONS if actions != ("text",) or o != "features"]
    return [{"observation": seen, "action": taken} for seen in shown for taken in actions]


@cache
def forms() -> tuple[Form, ...]:
    """All of them; of keywords that multiply, each value comes with each id."""
    found = []
    for number, one in enumerate(ENVIRONMENTS):
        for place, mode in enumerate(modes_of(one)):
            reward = REWARDS[(number + place) % len(REWARDS)]
            found.append(Form("single", one, {**mode, "reward": reward}))
            autoreset = RESETS[(number + place) % len(RESETS)]
            found.append(Form("vector", one, {**mode, "autoreset_mode": autoreset}))
    for one in WRAPPED_ENVIRONMENTS:
        for domain in ("customer-service", "technical-support", "sales"):
            for seen in ("dict", "message", "transcript"):
                found.append(Form("wrapped", one, {"domain": domain, "observation": seen}))
            keywords = {"domain": domain, "observation": "dict", "autoreset_mode": NEXT_STEP}
            found.append(Form("vector", one, keywords))
    for one in SIDES:
        spoken = ("act",) if one == OWN else ("text", "act")
        for place, seen in enumerate(OBSERVATIONS):
            for action in ("text", "act"):
                for said in spoken:
                    kind = ("aec", "parallel", "one side")[(place + len(found)) % 3]
                    found.append(Form(kind, one, {
                        "observation": seen, "action": action, "user_action": said,
                        "user_observation": ("dict", "features", "message")[place % 3],
                        "user_reward": USER_REWARDS[(place + len(action)) % 3],
                        **({"max_cycles": 40} if place % 2 else {}),
                    }))  # fmt: skip
    return tuple(found)
