"""An environment and an algorithm by name: data, offline learning, going on online, one folder.

    trainer = OfflineRLTrainer("CartPole-v1", algorithm="cql", calibrated=True)
    trainer.prepare_dataset("cartpole/mixed-v0", best=0.5)
    trainer.train_offline(5000)
    trainer.finetune_online(3000, online_ratio=0.5)
    trainer.evaluate(100)
    trainer.save("cartpole")            OfflineRLTrainer.load("cartpole") goes on

Policies and learners are those of `trainers.offline`; this file only hands one to the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from convgym.data.transitions import EpisodeArrays
from convgym.errors import DatasetError, InvalidConfiguration, told
from convgym.evaluation.scores import Score
from convgym.policies.policy import Policy
from trainers.callbacks import Callback
from trainers.offline.batches import Transitions
from trainers.offline.config import checked
from trainers.offline.environments import Flat, make_env, shapes_of_env
from trainers.offline.episode_files import load_episodes, save_episodes
from trainers.offline.learner import Evaluator
from trainers.offline.online_tuning import OnlineTuner, TuningConfig
from trainers.offline.registry import config_of
from trainers.offline.sampling import Sampling
from trainers.offline.saved_policies import load_policy
from trainers.offline.scores import score
from trainers.offline.stored_data import Source, chosen, read_source, sampling_of
from trainers.offline.value_function import ValueFunction, value_function_of

_FORMAT = "convgym offline trainer 1"
_ABOUT = "trainer.json"


class OfflineRLTrainer:
    """Learns one policy for one environment, first from data, then in the environment.

    algorithm: a name of `trainers.offline.registry`; options are those of its config.
    env_keywords: for `gymnasium.make`; ConvGym's ids show features and take acts without any.

    Raises InvalidConfiguration for an unknown environment, algorithm or option.
    """

    def __init__(
        self,
        env_id: str,
        algorithm: str = "cql",
        *,
        env_keywords: Mapping[str, Any] | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> None:
        self.env_id, self.env_keywords = env_id, dict(env_keywords or {})
        self.algorithm = algorithm
        self.env = Flat(make_env(env_id, env_keywords))
        acts = isinstance(self.env.action_space, spaces.Discrete)
        self.config = checked(config_of(algorithm, discrete=acts), options)
        self.shapes = shapes_of_env(self.env)
        self.learner = self.config.create(device)
        self.online: list[EpisodeArrays] = []
        """Played by `finetune_online`."""
        self._turns: Transitions | None = None
        self._sampling: Sampling | None = None
        self._policy: Policy | None = None
        self._checkpoint: Path | None = None

    # -- data --------------------------------------------------------------------------------------

    def prepare_dataset(
        self,
        data: Source,
        *,
        best: float = 1.0,
        least_return: float | None = None,
        keep: Callable[[EpisodeArrays], bool] | None = None,
        balance: str | Callable[[EpisodeArrays], Any] | None = None,
        prioritise: str | None = None,
    ) -> list[EpisodeArrays]:
        """Read the data to learn from: a Minari dataset, its id or folder, or episodes.

        best: share of the episodes, by return, that is kept.
        least_return: episodes that earned less are left out.
        keep: so are those for which it is false.
        balance: every batch has as much of each kind of conversation: "success", "policy" (who
            played), "return" (four bands), or a function that names the kind.
        prioritise: "turn" or "conversation": what the learner was most wrong about comes more
            often, with importance weights.

        Gives the episodes. Raises DatasetError where nothing is left, or where the data do not fit
        the environment, InvalidConfiguration where both `balance` and `prioritise` are given.
        """
        episodes = chosen(
            read_source(data, self.config.discount),
            best=best, least_return=least_return, keep=keep,
        )  # fmt: skip
        self._check(episodes)
        built = self._turns is not None
        turns = self.learner.read(episodes) if built else self.learner.build(episodes, self.shapes)
        if self.config.items(turns) is not turns and (balance or prioritise):
            raise InvalidConfiguration(
                f"{self.algorithm} learns from stretches of conversations; balance and prioritise "
                "are of single turns"
            )
        self._turns, self._sampling = turns, sampling_of(episodes, balance, prioritise)
        if not built and self._checkpoint is not None:
            self.learner.load_checkpoint(self._checkpoint, self._sampling)
        return episodes

    def _check(self, episodes: Sequence[EpisodeArrays]) -> None:
        first, shapes = episodes[0], self.shapes
        size = np.asarray(first.observations).shape[1:]
        if size != (shapes.observation,):
            raise DatasetError(
                f"the data's observations have shape {size}, and {self.env_id} shows "
                f"({shapes.observation},); take data of this environment"
            )
        acts = first.actions.dtype.kind in "iu"
        fits = first.actions.ndim == 1 if acts else first.actions.shape[1:] == (shapes.actions,)
        if acts != shapes.discrete or not fits:
            raise DatasetError(
                f"the data's actions are {first.actions.dtype} of shape {first.actions.shape[1:]}, "
                f"and {self.env_id} takes {self.env.action_space}"
            )
        if acts and max(int(episode.actions.max()) for episode in episodes) >= shapes.actions:
            raise DatasetError(f"the data hold acts beyond the {shapes.actions} of {self.env_id}")

    @property
    def turns(self) -> Transitions:
        """The data as batches are drawn from them."""
        if self._turns is None:
            raise InvalidConfiguration("there are no data yet; call prepare_dataset first")
        return self._turns

    # -- learning ----------------------------------------------------------------------------------

    def train_offline(
        self,
        n_steps: int,
        evaluators: Mapping[str, Evaluator] | None = None,
        *,
        evaluate_every: int = 0,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1000,
    ) -> Policy:
        """Update until `n_steps` updates were made in all; gives the policy.

        `checkpoint` is a file that is gone on from where it exists.
        """
        self._policy = self.learner.fit(
            self.turns,
            n_steps,
            evaluators,
            evaluate_every=evaluate_every,
            callbacks=callbacks,
            sampling=self._sampling,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
        )
        return self._policy

    def finetune_online(
        self,
        n_turns: int,
        online_ratio: float = 0.5,
        evaluators: Mapping[str, Evaluator] | None = None,
        *,
        evaluate_every: int = 0,
        callbacks: Sequence[Callback] = (),
        **options: Any,
    ) -> Policy:
        """Play until `n_turns` turns were played in all, learning from old and new ones.

        `options` are those of `TuningConfig`; its seed is the learner's unless told otherwise.
        """
        named = {"seed": self.config.seed, **options, "online_ratio": online_ratio}
        tuner = OnlineTuner(
            self.learner, self.turns, self.env, checked(TuningConfig, named),
            sampling=self._sampling, episodes=self.online,
        )  # fmt: skip
        self.online = tuner.episodes
        self._policy = tuner.tune(
            n_turns, evaluators, evaluate_every=evaluate_every, callbacks=callbacks
        )
        return self._policy

    # -- what was learnt ---------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """What has been learnt so far."""
        if self._policy is None:
            raise InvalidConfiguration("nothing was learnt yet; call train_offline first")
        return self._policy

    def evaluate(
        self,
        n_episodes: int = 100,
        *,
        seed: int = 0,
        split: str = "test",
        deterministic: bool = True,
    ) -> Score:
        """What the policy earns in `n_episodes` episodes, with intervals."""
        return score(
            self.policy, self.env, n_episodes, seed=seed, split=split, deterministic=deterministic
        )

    def value_function(self) -> ValueFunction:
        """The critic's values of states."""
        return value_function_of(self.learner.algorithm, self.shapes.discrete)

    # -- files -------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the policy, the learner and what it has played into a folder.

        What `trainer.json` names is complete; it is written last, in one move.
        """
        place, step = Path(folder), f"{self.learner.step}-{len(self.online)}"
        place.mkdir(parents=True, exist_ok=True)
        about: dict[str, Any] = {
            "format": _FORMAT,
            "env_id": self.env_id,
            "env_keywords": self.env_keywords,
            "algorithm": self.algorithm,
            "options": asdict(self.config),
            "policy": f"policy-{step}.zip",
            "learner": f"learner-{step}.zip",
            "online": f"online-{step}.zip" if self.online else None,
        }
        self.policy.save(place / about["policy"])  # type: ignore[attr-defined]
        self.learner.save_checkpoint(place / about["learner"], self._sampling)
        if self.online:
            save_episodes(place / about["online"], self.online)
        temporary = place / f"{_ABOUT}.{os.getpid()}.part"
        temporary.write_text(json.dumps(about, indent=1) + "\n", "utf-8")
        os.replace(temporary, place / _ABOUT)
        kept = {about["policy"], about["learner"], about["online"]}
        for pattern in ("policy-*.zip", "learner-*.zip", "online-*.zip"):
            for old in place.glob(pattern):
                if old.name not in kept:
                    old.unlink()

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> OfflineRLTrainer:
        """A trainer that was saved; it acts at once, and learns on after `prepare_dataset`."""
        place = Path(folder)
        try:
            about = json.loads((place / _ABOUT).read_text("utf-8"))
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']}")
            trainer = cls(
                about["env_id"], about["algorithm"],
                env_keywords=about["env_keywords"], device=device, **about["options"],
            )  # fmt: skip
            trainer._policy = load_policy(place / about["policy"])
            trainer._checkpoint = place / about["learner"]
            if about["online"] is not None:
                trainer.online = load_episodes(place / about["online"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InvalidConfiguration(f"{folder} holds no whole trainer: {told(error)}") from error
        return trainer
