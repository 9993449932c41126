"""From offline to online: a fitted learner plays, and learns from old and new turns mixed.

    offline data ──────────────────────────────┐ 1 − ratio
                                               ├─► batch ─► learner.update
    policy + exploration ─► episode ─► Replay ─┘ ratio            │
      ▲                                                           │
      └────────────────────── new weights ◄───────────────────────┘

An episode is learnt from when it has ended, because only then are its returns known (Cal-QL floors
values by them). After T turns come T × `updates_per_turn` updates. Chance of episode i is a keyed
draw from (seed, i), so tuning that goes on with the episodes played so far plays what it would
have played. Knows nothing of algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.engine.keys import child
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import Rollout, play
from convgym.policies.policy import ActPolicy, Policy
from trainers.callbacks import Callback
from trainers.offline.batches import Transitions
from trainers.offline.config import above, at_least, within
from trainers.offline.exploration import EpsilonGreedy, Noisy
from trainers.offline.learner import Evaluator, OfflineLearner
from trainers.offline.replay import Mixed, Replay
from trainers.offline.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """How a fitted learner goes on in the environment.

    Half of each batch from either side is RLPD's (Ball et al., 2023, arXiv:2302.02948); pair it
    with `calibrated` conservative values (Cal-QL, Nakamoto et al., 2023, arXiv:2303.05479).
    """

    online_ratio: float = 0.5
    """Share of a batch that comes from new turns; 0 only looks, 1 forgets the data."""
    updates_per_turn: float = 1.0
    capacity: int = 100_000
    """Turns that are kept, the newest."""
    warm_up: int = 300
    """New turns before the first update, so that no batch holds the same few over and over."""
    learning_rate: float | None = None
    """Of all networks from here on; None keeps the learner's. Smaller steps, fewer dips."""
    epsilon: float = 0.1
    """Over acts: share of turns with a random legal act."""
    noise: float = 0.1
    """Over vectors: standard deviation, as a share of half the space's width."""
    seed: int = 0
    """Of episodes and exploration; batches are drawn from the learner's generator."""

    def __post_init__(self) -> None:
        within(self, 0, 1, "online_ratio", "epsilon")
        above(self, 0, "updates_per_turn")
        if self.learning_rate is not None:
            above(self, 0, "learning_rate")
        at_least(self, 0, "warm_up", "noise", "seed")
        at_least(self, 1, "capacity")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


class OnlineTuner:
    """Lets a fitted learner go on; `episodes` are those played, `history` has the reports."""

    def __init__(
        self,
        learner: OfflineLearner,
        data: Sequence[EpisodeArrays] | Transitions,
        env: gym.Env[Any, Any],
        config: TuningConfig | None = None,
        *,
        sampling: Sampling | None = None,
        episodes: Sequence[EpisodeArrays] = (),
    ) -> None:
        """`env` shows flat observations and `action_mask` (`trainers.offline.environments`).

        `episodes` are those that an earlier tuner has played. Raises InvalidConfiguration where
        nothing was fitted yet, or for an algorithm that does not learn from single turns.
        """
        self.learner, self.env = learner, env
        self.config = config or TuningConfig()
        algorithm = learner.algorithm
        if self.config.learning_rate is not None:
            for optimizer in algorithm.optimizers.values():
                for group in optimizer.param_groups:
                    group["lr"] = self.config.learning_rate
        offline, options = learner.read(data), learner.config
        if options.items(offline) is not offline:
            raise InvalidConfiguration(
                f"{algorithm.name} learns from stretches of conversations and cannot go on online "
                "here; take one that learns from single turns"
            )
        self._masked = offline.has("masks")
        self.online = Replay(
            self.config.capacity,
            discount=options.discount,
            n_step=options.n_step,
            device=str(learner.device),
        )
        self.batches = Mixed(offline, self.online, self.config.online_ratio, sampling)
        self.episodes: list[EpisodeArrays] = []
        self.history: list[dict[str, float]] = []
        for episode in episodes:
            self._keep(episode)

    def tune(
        self,
        n_turns: int,
        evaluators: Mapping[str, Evaluator] | None = None,
        *,
        evaluate_every: int = 0,
        callbacks: Sequence[Callback] = (),
    ) -> Policy:
        """Play whole episodes until `n_turns` turns were played in all; gives the policy.

        Evaluators score the policy without exploration before the first new turn, every
        `evaluate_every` turns (at the next end of an episode) and at the end.
        """
        if n_turns < 1:
            raise InvalidConfiguration(f"n_turns={n_turns}; it must be 1 or more")
        evaluators = evaluators or {}
        if evaluators:
            self._report(evaluators, callbacks)
        stops = False
        while self.online.added < n_turns and not stops:
            before = self.online.added
            self._keep(self._played())
            if self.online.added >= self.config.warm_up:
                self._learn(self._due(self.online.added) - self._due(before))
            crossed = evaluate_every and before // evaluate_every != (
                self.online.added // evaluate_every
            )
            if crossed or self.online.added >= n_turns:
                stops = self._report(evaluators, callbacks)
        return self.learner.algorithm.policy()

    # -- one episode -------------------------------------------------------------------------------

    def _played(self) -> EpisodeArrays:
        key = child(self.config.seed, len(self.episodes))
        rollout = play(self.env, self._explorer(), seed=key)
        return arrays_of(rollout, self.learner.config.discount)

    def _explorer(self) -> Policy:
        policy = self.learner.algorithm.policy()
        if isinstance(policy, ActPolicy):
            return EpsilonGreedy(policy, self.config.epsilon)
        space = self.env.action_space
        assert isinstance(space, gym.spaces.Box), "the learner's actions are this environment's"
        return Noisy(policy, space, self.config.noise)

    def _keep(self, episode: EpisodeArrays) -> None:
        self.episodes.append(episode)
        # Where the data have no masks, the algorithm does without.
        self.online.add(episode if self._masked else replace(episode, masks=None))

    def _due(self, turns: int) -> int:
        """Updates by the time that so many turns were played."""
        return math.floor(turns * self.config.updates_per_turn)

    def _learn(self, updates: int) -> None:
        for _ in range(updates):
            indices, weights = self.batches.draw(
                self.learner.config.batch_size, self.learner.generator
            )
            batch = self.batches[indices]
            if weights is not None:
                batch["weights"] = weights
            errors = self.learner.update(batch)
            if errors is not None:
                self.batches.heard(indices, errors)

    def _report(self, evaluators: Mapping[str, Evaluator], callbacks: Sequence[Callback]) -> bool:
        """Add a row; whether a callback says to stop."""
        row = {**self.learner.report(evaluators), "turns": float(self.online.added)}
        recent = self.episodes[-20:]
        if recent:
            row["played_return"] = float(np.mean([e.rewards.sum() for e in recent]))
        self.history.append(row)
        return any([bool(callback(row)) for callback in callbacks])


def arrays_of(rollout: Rollout, discount: float) -> EpisodeArrays:
    """A played episode as learners read it; its propensities where the policy told them."""
    masks = [info["action_mask"] for info in rollout.infos]
    rewards = np.array(rollout.rewards, dtype=np.float64)
    acts = masks[0] is not None
    return EpisodeArrays(
        observations=np.array(rollout.observations, dtype=np.float32),
        actions=np.array(rollout.actions, dtype=np.int64 if acts else np.float32),
        rewards=rewards,
        terminated=rollout.terminated,
        truncated=not rollout.terminated,
        returns=returns_to_go(rewards, discount),
        masks=np.array(masks, dtype=np.int8) if acts else None,
        propensities=np.array(rollout.propensities) if acts else None,
    )
