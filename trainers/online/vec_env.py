"""A vector environment of conversations as the vectorised environment of Stable-Baselines3.

    gym.make_vec(id, num_envs=n, observation="features", action="act")
        │ step(actions)
        ▼
    ConversationVecEnv ─► observations, rewards, dones, [{}, {terminal_observation, …}, {}, …]

Stable-Baselines3 expects a finished row to begin anew within the step that finishes it:

    SAME_STEP             the vector environment does so; `final_obs` is the terminal observation
    NEXT_STEP, DISABLED   the adapter resets the finished rows before it returns

so each of the autoreset modes will do, and on gymnasium 1.0 every `SyncVectorEnv`.
What the vector environment must give: numbers as observations, actions that are discrete or
vectors, and infos with `action_mask` (n, actions) at every reset and step, which sb3-contrib's
MaskablePPO asks for.

Rows that go on have an empty info of their own; those of finished rows hold what learners read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.envs.autoreset import SAME_STEP, AutoresetMode, gymnasium_mode
from convgym.envs.rows import Envs, autoreset_mode, put_row, reset_rows, row_of
from convgym.errors import InvalidConfiguration, MissingExtra

try:
    from stable_baselines3.common.env_util import is_wrapped
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
except ImportError as error:
    raise MissingExtra(error.name or "stable_baselines3", "sb3") from error

Indices = int | Iterable[int] | None
"""Which rows; None is all of them."""

MASKS = "action_masks"
ENDING = ("success", "failure_reason", "action_mask")
"""What is kept of the last info of an episode."""
_SEEN = (spaces.Box, spaces.Discrete, spaces.MultiBinary)


class ConversationVecEnv(VecEnv):
    """`envs` for Stable-Baselines3; a row's seed is the first seed plus its number.

    `infos[i]` of a finished row holds `terminal_observation`, `TimeLimit.truncated`, `is_success`
    (which Stable-Baselines3 logs) and the `fields` of its last info.

    Raises InvalidConfiguration for spaces that Stable-Baselines3 cannot take.
    """

    def __init__(self, envs: Envs, fields: Sequence[str] = ENDING) -> None:
        self.envs, self.fields, self.spec = envs, tuple(fields), envs.spec
        check_spaces(envs.single_observation_space, envs.single_action_space)
        self._same_step = autoreset_mode(envs) == SAME_STEP
        self._masks: NDArray[np.int8] | None = None
        self._actions: Any = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    # -- reset and step ----------------------------------------------------------------------------

    def reset(self) -> Any:
        """Begin all episodes, with the seeds and options set before; they count once."""
        if any(options != self._options[0] for options in self._options):
            raise InvalidConfiguration(
                "a vector environment takes the same options for all rows; give set_options one "
                "dict"
            )
        seeds = None if self._seeds.count(None) == self.num_envs else list(self._seeds)
        observations, infos = self.envs.reset(seed=seeds, options=dict(self._options[0]) or None)  # type: ignore[arg-type]
        self._reset_seeds()
        self._reset_options()
        self._masks = self._mask_of(infos).copy()
        return observations

    def step_async(self, actions: Any) -> None:
        """Note what is done in each row.  # (n,) int or (n, dim)"""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """One step of every row; finished rows show their next episode's first observation."""
        observations, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        dones = np.logical_or(terminated, truncated)
        self._masks = self._mask_of(infos)
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        finished = np.flatnonzero(dones).tolist()
        if finished:
            last, endings = infos, observations
            if self._same_step:
                last, endings = infos["final_info"], infos["final_obs"]
            for row in finished:
                rows[row] = self._ending(last, row)
                rows[row]["TimeLimit.truncated"] = bool(truncated[row] and not terminated[row])
                rows[row]["terminal_observation"] = _kept(row_of(endings, row))
            if not self._same_step:
                self._begin(finished, observations)
        return observations, rewards.astype(np.float32), dones, rows

    def _ending(self, infos: dict[str, Any], row: int) -> dict[str, Any]:
        """What learners and monitors read of the last info of an episode."""
        info = {name: infos[name][row] for name in self.fields if name in infos}
        if "success" in info:
            info["is_success"] = bool(info["success"])
        return info

    def _begin(self, rows: list[int], observations: Any) -> None:
        """Reset finished rows and put what they show in place."""
        assert self._masks is not None
        self._masks = self._masks.copy()
        for row, (observation, info) in zip(rows, reset_rows(self.envs, rows), strict=True):
            self._masks[row] = info["action_mask"]
            put_row(observations, row, observation)

    def _mask_of(self, infos: dict[str, Any]) -> NDArray[np.int8]:
        if "action_mask" not in infos:
            raise InvalidConfiguration(
                "the infos of these environments hold no action_mask; learn with DummyVecEnv"
            )
        masks: NDArray[np.int8] = infos["action_mask"]
        return masks

    def action_masks(self) -> NDArray[np.int8]:
        """1 for each act that is legal now.  # (n, actions)"""
        if self._masks is None:
            raise gym.error.ResetNeeded("which acts are legal is known in an episode; reset first")
        return self._masks

    # -- the rows ----------------------------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of each row; AttributeError where rows have none of this name."""
        chosen = self._rows(indices)
        if attr_name == MASKS:
            return [self.action_masks] * len(chosen)
        if attr_name == "render_mode":
            return [self.envs.render_mode] * len(chosen)
        if hasattr(self.envs, "envs"):
            return [self.envs.envs[row].get_wrapper_attr(attr_name) for row in chosen]
        if not hasattr(self.envs, "get_attr"):
            raise AttributeError(
                f"{type(self.envs).__name__} has no {attr_name!r} to give: its rows are no objects"
            )
        values = self.envs.get_attr(attr_name)
        return [values[row] for row in chosen]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute in each row."""
        if indices is None and hasattr(self.envs, "set_attr"):
            self.envs.set_attr(attr_name, [value] * self.num_envs)
            return
        for row in self._objects(indices, f"set {attr_name!r} in"):
            row.set_wrapper_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> Any:
        """What a method returns in each row; `action_masks` is answered from the newest infos."""
        if method_name == MASKS:
            masks = self.action_masks()
            return masks if indices is None else masks[self._rows(indices)]
        if indices is None and hasattr(self.envs, "call"):
            return list(self.envs.call(method_name, *method_args, **method_kwargs))
        return [
            row.get_wrapper_attr(method_name)(*method_args, **method_kwargs)
            for row in self._objects(indices, f"call {method_name!r} in")
        ]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Whether rows are wrapped so; those that are no objects never are."""
        rows = getattr(self.envs, "envs", None)
        return [
            rows is not None and is_wrapped(rows[row], wrapper_class) for row in self._rows(indices)
        ]

    def _rows(self, indices: Indices) -> list[int]:
        return list(self._get_indices(indices))

    def _objects(self, indices: Indices, purpose: str) -> list[gym.Env[Any, Any]]:
        rows = getattr(self.envs, "envs", None)
        if rows is None:
            raise InvalidConfiguration(
                f"cannot {purpose} single rows of {type(self.envs).__name__}, which are no "
                'objects; make it with vectorization_mode="sync"'
            )
        return [rows[row] for row in self._rows(indices)]

    def close(self) -> None:
        """Close the vector environment."""
        self.envs.close()


def check_spaces(observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
    """Raises InvalidConfiguration for spaces that Stable-Baselines3 cannot take."""
    parts = observation.values() if isinstance(observation, spaces.Dict) else [observation]
    if any(isinstance(part, spaces.Text) for part in parts):
        raise InvalidConfiguration(
            "Stable-Baselines3 takes numbers, and these observations hold text; make the "
            'environments with observation="features" or "embedding", or wrap them in EncodedText '
            "(trainers.online.encoded_text)"
        )
    strange = [part for part in parts if not isinstance(part, _SEEN)]
    if strange:
        raise InvalidConfiguration(
            f"these learners take observations from Box, Discrete, MultiBinary or a Dict of them; "
            f"{strange[0]} is another"
        )
    numbered = isinstance(action, spaces.Discrete) and action.start == 0
    if not (numbered or (isinstance(action, spaces.Box) and action.is_bounded())):
        raise InvalidConfiguration(
            f"Stable-Baselines3 takes no actions from {type(action).__name__} such as this, only "
            "from Discrete that counts from 0 and from Box with bounds; make ConvGym's "
            'environments with action="act" or "embedding"'
        )


def _kept(observation: Any) -> Any:
    """A copy, which a later write into the batch leaves alone."""
    if isinstance(observation, dict):
        return {name: np.array(part) for name, part in observation.items()}
    return np.array(observation)


def side_by_side(make_env: Callable[[], gym.Env[Any, Any]], num_envs: int) -> VecEnv:
    """`num_envs` of the environment that `make_env` makes, the fastest way there is.

    What `gymnasium.make` made with plain keywords is made by its vector entry point, if it has
    one and nothing was wrapped around it; all else is stepped one by one. Both ways give the same
    for the same seed.

    Raises InvalidConfiguration for spaces that Stable-Baselines3 cannot take.
    """
    first = make_env()
    check_spaces(first.observation_space, first.action_space)
    if first.spec is None or not _is_plain(first.spec):
        return DummyVecEnv([lambda: first, *[make_env] * (num_envs - 1)])
    first.close()
    keywords = dict(first.spec.kwargs)
    if AutoresetMode is not None:
        keywords["autoreset_mode"] = gymnasium_mode(SAME_STEP)
    return ConversationVecEnv(gym.make_vec(first.spec.id, num_envs=num_envs, **keywords))


def _is_plain(spec: gym.envs.registration.EnvSpec) -> bool:
    """Whether the vector entry point makes just what this spec describes."""
    plain = all(isinstance(value, str | int | float | None) for value in spec.kwargs.values())
    wrapped = spec.additional_wrappers or spec.max_episode_steps is not None
    return spec.vector_entry_point is not None and plain and not wrapped
