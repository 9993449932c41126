"""From recipe to Minari dataset: who plays where, how often, and what must come out.

    datasets/customer-service/mixed-v0.toml ─► Recipe ─► collect ─► content hash as promised?
                                                                      └─► write_dataset

A recipe names everything that decides the content, so the same recipe gives the same content
anywhere. The hash is checked before anything is written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from convgym.data.episodes import collect, content_hash, write_dataset
from convgym.data.recipes import recipe_path
from convgym.envs.registration import register_envs
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.policies.policy import ActPolicy, Policy
from convgym.policies.scripted import LADDER, ScriptedPolicy

if TYPE_CHECKING:
    from minari import MinariDataset

_POLICIES: dict[str, type[ActPolicy]] = {policy.name: policy for policy in LADDER}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a recipe file says."""

    dataset_id: str
    description: str
    environment: dict[str, Any]
    """`id` and the keywords of `gymnasium.make`."""
    behavior: tuple[dict[str, Any], ...]
    """Of each policy its name, its `weight`, and its `noise` if any."""
    episodes: int
    seed: int
    split: str
    ref_min_score: float
    ref_max_score: float
    sha256: str
    """`content_hash` of the dataset; empty while nobody has built it."""

    def make(self) -> gym.Env[Any, Any]:
        """The environment."""
        register_envs()
        return gym.make(**self.environment)

    def policies(self) -> list[tuple[Policy, float]]:
        """The behaviour, for `collect`."""
        return [(_policy(entry), entry["weight"]) for entry in self.behavior]


def read_recipe(dataset_id: str) -> Recipe:
    """The recipe of a known dataset; raises DatasetError for an unknown one."""
    content = tomllib.loads(recipe_path(dataset_id).read_text(encoding="utf-8"))
    try:
        return Recipe(
            dataset_id=dataset_id, **{**content, "behavior": tuple(content.pop("behavior"))}
        )
    except (KeyError, TypeError) as error:
        raise InvalidConfiguration(f"the recipe of {dataset_id!r} is faulty: {error}") from error


def build_dataset(
    dataset_id: str,
    *,
    overwrite: bool = False,
    check: bool = True,
    progress: Callable[[int], None] | None = None,
) -> MinariDataset:
    """Build a dataset into Minari's local root, where `minari.load_dataset` finds it.

    Raises DatasetError if the content is not what the recipe promises (unless `check=False`),
    or if the dataset is there already (unless `overwrite`).
    """
    recipe = read_recipe(dataset_id)
    env, policies = recipe.make(), recipe.policies()
    buffers = collect(env, policies, recipe.episodes, recipe.seed, recipe.split, progress)
    came = content_hash(buffers)
    if check and came != recipe.sha256:
        raise DatasetError(
            f"{dataset_id!r} came out with the content hash {came}, but its recipe promises "
            f"{recipe.sha256 or 'none'}; this version of ConvGym plays differently"
        )
    return write_dataset(
        dataset_id,
        env,
        buffers,
        description=recipe.description.strip(),
        ref_min_score=recipe.ref_min_score,
        ref_max_score=recipe.ref_max_score,
        algorithm_name=", ".join(f"{policy.name} {weight}" for policy, weight in policies),
        overwrite=overwrite,
    )


def _policy(entry: dict[str, Any]) -> Policy:
    name = entry["policy"]
    if name not in _POLICIES:
        raise InvalidConfiguration(
            f"no policy is called {name!r}; there are {', '.join(_POLICIES)}"
        )
    kind = _POLICIES[name]
    if issubclass(kind, ScriptedPolicy):
        return kind(entry.get("noise", 0.0))
    return kind()
