"""The one way in which every online configuration becomes a learner, and the learner a policy.

    make_env ─► n_envs side by side ─► masks? ─► the algorithm ─► Run between rollouts ─► SB3Policy
                (vec_env)              (legal_acts)                (run, checkpoints)

    environment       MaskablePPO        the others
    masks its acts    asks it            read the mask in the observation
    has no masks      refuses            as Stable-Baselines3 has them, archives included

The arithmetic is Stable-Baselines3's. What stands here is seeding, masks, reports and checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from convgym.errors import InvalidConfiguration, MissingExtra

try:
    from stable_baselines3.common.logger import Logger, configure
    from stable_baselines3.common.vec_env import VecEnv, VecMonitor
except ImportError as error:
    raise MissingExtra(error.name or "stable_baselines3", "sb3") from error

from trainers.callbacks import Callback, Row
from trainers.online import legal_acts
from trainers.online.checkpoints import History, read_checkpoint, write_checkpoint
from trainers.online.config import OnlineConfig
from trainers.online.run import Evaluator, Run
from trainers.online.sb3_archive import sb3_class
from trainers.online.sb3_policy import SB3Policy
from trainers.online.vec_env import MASKS, side_by_side

_LEGAL: dict[str, tuple[str, str]] = {
    "PPO": ("PPO", "LegalActorCritic"),
    "A2C": ("A2C", "LegalActorCritic"),
    "TRPO": ("TRPO", "LegalActorCritic"),
    "RecurrentPPO": ("RecurrentPPO", "LegalRecurrent"),
    "DQN": ("LegalDQN", "LegalDQNPolicy"),
    "QRDQN": ("LegalQRDQN", "LegalQRDQNPolicy"),
}
"""Of each algorithm that knows no masks the class and the policy that do."""
_ACTS_ALONE = ("DQN", "QRDQN", "MaskablePPO")


class SB3Learner:
    """Fits policies; `history` holds a row for each evaluation of the newest fit."""

    def __init__(self, config: OnlineConfig, device: str = "cpu") -> None:
        self.config = config
        self.device = device
        self.history: History = []

    def fit(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        n_steps: int,
        evaluators: Mapping[str, Evaluator] | None = None,
        evaluate_every: int = 0,
        progress: Callable[[int, Row], bool | None] | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 50_000,
        log: str | os.PathLike[str] | None = None,
        log_formats: Sequence[str] = ("csv",),
    ) -> SB3Policy:
        """Learn for about `n_steps` agent turns (rounded up to whole rollouts).

        `make_env` gives a new environment each time. Between rollouts `callbacks` hear the newest
        metrics, `step` among them, and one that returns True ends the run; `progress` hears the
        steps done and the metrics.
        Evaluators score the policy every `evaluate_every` steps (0: never), and at the end.

        Where there is a file at `checkpoint`, the run goes on from it; one is written there every
        `checkpoint_every` steps and at the end (`trainers.online.checkpoints` says what is exact).
        `log` is a folder for Stable-Baselines3's own metrics, as "csv" or "tensorboard".

        Same seed, same weights, on a CPU with one torch thread. Seeds Python's, numpy's and
        torch's global generators, because Stable-Baselines3 draws from them.

        Raises InvalidConfiguration for spaces that the algorithm does not take, for an environment
        without masks where it asks for them, and for a checkpoint of other settings.
        """
        environments = environments_for(self.config, make_env)
        place = None if checkpoint is None else Path(checkpoint)
        heard = [*callbacks]
        if progress is not None:
            heard.append(lambda row: progress(int(row["step"]), row))
        try:
            model, resumed = self._model(environments, place)
            model.set_logger(_logger(model, log, log_formats))
            policy = SB3Policy(model)
            run = Run(
                policy,
                self.history,
                evaluators or {},
                evaluate_every,
                heard,
                partial(write_checkpoint, place, model, self._settings(), self.history)
                if place
                else None,
                checkpoint_every,
            )
            if model.num_timesteps < n_steps or not resumed:
                model.learn(
                    n_steps - model.num_timesteps, callback=run, reset_num_timesteps=not resumed
                )
            model.logger.close()
        finally:
            environments.close()
        return policy

    def _model(self, environments: VecEnv, place: Path | None) -> tuple[Any, bool]:
        """The algorithm, new or as it was kept, and whether it goes on."""
        made, keywords = self._algorithm(environments)
        if place is not None and place.exists():
            model, self.history = read_checkpoint(
                place, self._settings(), made, env=environments, device=self.device
            )
            return model, True
        model, self.history = made(env=environments, **keywords), []
        model.algorithm = self.config.algorithm
        return model, False

    def _settings(self) -> dict[str, Any]:
        return {"algorithm": self.config.algorithm, **self.config.to_dict()}

    def _algorithm(self, environments: VecEnv) -> tuple[Any, dict[str, Any]]:
        """The class, and what it is made with."""
        config = self.config
        made, policy = sb3_class(config.algorithm), "MlpPolicy"
        keywords = config.keywords()
        if isinstance(environments, legal_acts.LegalRows):
            named, policy = _LEGAL[config.algorithm]
            made = getattr(legal_acts, named, made)
            policy = getattr(legal_acts, policy)
            keywords["policy_kwargs"] |= {
                "features_extractor_class": legal_acts.WithoutMask,
                "features_extractor_kwargs": {"seen": environments.seen},
            }
        else:
            parts = isinstance(environments.observation_space, spaces.Dict)
            if parts and "buffer_size" in keywords and keywords["n_steps"] > 1:
                raise InvalidConfiguration(
                    "Stable-Baselines3 sums no returns of several steps over observations of "
                    "several parts; take n_step_td=1, or an environment that shows one"
                )
            recurrent = "Lstm" if config.algorithm == "RecurrentPPO" else ""
            policy = f"{'MultiInput' if parts else 'Mlp'}{recurrent}Policy"
        return made, {"policy": policy, "seed": config.seed, "device": self.device, **keywords}


def _logger(model: Any, folder: str | os.PathLike[str] | None, formats: Sequence[str]) -> Logger:
    """Into `folder`; a run that goes on leaves alone what it has written before."""
    if folder is None:
        return Logger(None, [])
    return configure(str(Path(folder) / f"from-{model.num_timesteps}"), list(formats))


def environments_for(config: OnlineConfig, make_env: Callable[[], gym.Env[Any, Any]]) -> VecEnv:
    """The environments that this algorithm learns from, with its masks where it needs them.

    Raises InvalidConfiguration as `SB3Learner.fit` says.
    """
    environments: VecEnv = VecMonitor(side_by_side(make_env, config.n_envs))
    acts = isinstance(environments.action_space, spaces.Discrete)
    if config.algorithm in _ACTS_ALONE and not acts:
        raise InvalidConfiguration(
            f"{config.algorithm} chooses among acts, and these actions are vectors "
            f"({environments.action_space}); take PPO, A2C, TRPO or RecurrentPPO"
        )
    masked = acts and environments.has_attr(MASKS)
    if config.algorithm == "MaskablePPO":
        if not masked:
            raise InvalidConfiguration(
                "MaskablePPO asks which acts are legal, and this environment has no "
                "action_masks(); take PPO, or give the environment that method"
            )
        return environments
    return legal_acts.LegalRows(environments) if masked else environments
