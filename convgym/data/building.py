"""From recipe to Minari dataset: who plays where, how often, and what must come out.

    datasets/customer-service/mixed-v0.toml ─► Recipe ─► collect_recipe ─► hash as promised?
                                                                              └─► write_dataset

A recipe names everything that decides the content, so the same recipe gives the same content
anywhere. The hash is checked before anything is written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from convgym.data.collection import collect_episodes, parted
from convgym.data.episodes import content_hash, write_dataset
from convgym.data.local_root import check_free
from convgym.data.mixture import BatchMixture
from convgym.data.recipes import recipe_path
from convgym.envs.registration import register_envs
from convgym.errors import DatasetError, InvalidConfiguration, told
from convgym.policies.batched import BatchPolicy, BatchRandomPolicy, RowPolicies
from convgym.policies.policy import Policy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer

ROWS = 256
"""Conversations played side by side; the content does not depend on it."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a recipe file says."""

    dataset_id: str
    description: str
    environment: dict[str, Any]
    """`id` and the keywords of `gymnasium.make`."""
    behavior: tuple[dict[str, Any], ...]
    """Of each policy its name, its `weight`, and its `noise` if any."""
    infos: tuple[str, ...]
    """What is kept of the infos; `message` is what `observation="message"` shows."""
    episodes: int
    seed: int
    split: str
    ref_min_score: float
    ref_max_score: float
    sha256: str
    """`content_hash` of the dataset; empty while nobody has built it."""
    hard: tuple[str, ...] = ()
    """What the card warns learners of."""

    def make(self) -> gym.Env[Any, Any]:
        """The environment, as those see it who learn from the data."""
        register_envs()
        return gym.make(**self.environment)

    @property
    def domain(self) -> str:
        """The domain's name, under which its scripts are found."""
        base: Any = self.make().unwrapped
        name: str = base.domain.domain
        return name

    @property
    def in_text(self) -> bool:
        """Whether the agent speaks, instead of naming acts."""
        return bool(self.environment["action"] == "text")

    def policies(self) -> BatchMixture:
        """The behaviour, for `collect_episodes`."""
        domain = self.domain
        scripts = ladder(domain)
        return BatchMixture(
            [(self._policy(entry, scripts, domain), entry["weight"]) for entry in self.behavior]
        )

    def _policy(self, entry: dict[str, Any], scripts: dict[str, Any], domain: str) -> BatchPolicy:
        name, noise = entry["policy"], entry.get("noise", 0.0)
        if name not in scripts:
            raise InvalidConfiguration(
                f"no policy is called {name!r}; there are {', '.join(scripts)}"
            )
        script = scripts[name]
        if name == "random" and not self.in_text:
            return BatchRandomPolicy()

        def make() -> Policy:
            acting = script() if name == "random" else script(noise)
            return RenderedPolicy(acting, domain=domain) if self.in_text else acting

        return RowPolicies(make)


def read_recipe(dataset_id: str) -> Recipe:
    """The recipe of a known dataset; raises DatasetError for an unknown one."""
    return recipe_in(recipe_path(dataset_id), dataset_id)


def recipe_in(path: Path, dataset_id: str) -> Recipe:
    """The recipe in a file; raises InvalidConfiguration for one that is none."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for name in content.keys() & {"behavior", "infos", "hard"}:
            content[name] = tuple(content[name])
        return Recipe(dataset_id=dataset_id, **content)
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidConfiguration(
            f"the recipe of {dataset_id!r} is faulty: {told(error)}"
        ) from error


def collect_recipe(
    recipe: Recipe, progress: Callable[[int], None] | None = None, rows: int = ROWS
) -> list[EpisodeBuffer]:
    """The episodes that a recipe makes, in its order; `progress` hears how many are done."""
    register_envs()
    keywords = {**recipe.environment, "observation": "dict"}
    envs = gym.make_vec(keywords.pop("id"), num_envs=min(rows, recipe.episodes), **keywords)
    if not recipe.in_text and hasattr(envs.unwrapped, "leave_out"):  # who acts reads features
        envs.unwrapped.leave_out("policy", "tools", "view")
    noted = [name for name in recipe.infos if name == "message"]
    fields = [name for name in recipe.infos if name not in noted]
    played = collect_episodes(
        envs, recipe.policies(), recipe.episodes, recipe.seed, recipe.split, fields, progress
    )
    return list(parted(played, recipe.environment["observation"], noted))


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
    check_free(dataset_id, overwrite)
    buffers = collect_recipe(recipe, progress)
    came = content_hash(buffers)
    if check and came != recipe.sha256:
        raise DatasetError(
            f"{dataset_id!r} came out with the content hash {came}, but its recipe promises "
            f"{recipe.sha256 or 'none'}; this version of ConvGym plays differently"
        )
    behavior = ", ".join(f"{entry['policy']} {entry['weight']}" for entry in recipe.behavior)
    return write_dataset(
        dataset_id,
        recipe.make(),
        buffers,
        description=recipe.description.strip(),
        ref_min_score=recipe.ref_min_score,
        ref_max_score=recipe.ref_max_score,
        algorithm_name=behavior,
        overwrite=overwrite,
    )
