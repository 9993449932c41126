"""A table of what to do in which situation, learnt by policy gradient: numpy alone, no network.

    belief ─► which cells are filled ─► situation ─► row of the table ─► softmax over legal acts
    end of the conversation ─► its return ─► rows of the situations it went through

It is there so that the whole loop can be tried in seconds, on a real environment and without torch.
What a newcomer would get wrong: a situation that never came up has an empty row, so that the policy
is random there; nothing is learnt of one situation from another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.engine.keys import child
from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE
from convgym.policies.policy import ActPolicy, Policy, Probabilities, belief_of
from trainers.archive import read_archive, write_archive
from trainers.callbacks import Callback

_POLICY, _RUN = "convgym tabular policy 1", "convgym tabular run 1"
_ROWS = 1024
"""Situations that a new table has room for."""


@dataclass(frozen=True, kw_only=True)
class TabularConfig:
    """REINFORCE with a baseline for each situation (Williams, 1992, Machine Learning 8).

    θ(s, ·) += η · clip((G − V(s)) / m, ±c) · (1[a] − π(· | s)), kept in ±w;  V(s) += κ · (G − V(s))

    G is what the conversation earned from s on, m the running mean of |return| where it is not 0,
    begun at the first: most conversations earn nothing, and the few that do must move the table
    however little they earn. With c and w no act is ever ruled out by a few unlucky conversations;
    without them some seeds stop learning at a third of the return (tried, 40,000 turns, six seeds).
    """

    learning_rate: float = 1.0
    """η."""
    most_gain: float = 3.0
    """c."""
    most_weight: float = 5.0
    """w; a legal act keeps a probability of about exp(−2w) at least."""
    baseline_rate: float = 0.1
    """κ, in (0, 1]."""
    scale_rate: float = 0.003
    """How fast m follows, in (0, 1]."""
    left_out: tuple[str, ...] = ("always", "turn", "errors", "requests", "tool_failed", "said_")
    """Cells whose names begin so tell no situations apart: clocks, counts and the newest words."""
    seed: int = 0
    """Of conversations and exploration."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "left_out", tuple(self.left_out))
        for name in ("learning_rate", "most_gain", "most_weight"):
            if not getattr(self, name) > 0:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it must be above 0")
        for name in ("baseline_rate", "scale_rate"):
            if not 0 < getattr(self, name) <= 1:
                raise InvalidConfiguration(f"{name}={getattr(self, name)} is outside (0, 1]")

    def create(self) -> TabularLearner:
        """The learner."""
        return TabularLearner(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "left_out": list(self.left_out)}


class Table:
    """Numbers for each act in each situation that came up."""

    def __init__(self, kept: NDArray[np.bool_], actions: int) -> None:
        self.kept = kept  # (cells,)
        self.places: dict[bytes, int] = {}
        self.weights = np.zeros((_ROWS, actions))  # (room, actions)
        self.values = np.zeros(_ROWS)  # (room,)

    def situation(self, belief: NDArray[np.float32]) -> bytes:
        """Which of the cells that count are filled."""
        return np.packbits((belief > 0) & self.kept).tobytes()

    def place(self, belief: NDArray[np.float32]) -> int:
        """The situation's row; a new one is added."""
        found = self.places.setdefault(self.situation(belief), len(self.places))
        if found == len(self.weights):
            self.weights = np.concatenate([self.weights, np.zeros_like(self.weights)])
            self.values = np.concatenate([self.values, np.zeros_like(self.values)])
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, rows in the order in which they came up."""
        n, width = len(self.places), (len(self.kept) + 7) // 8
        keys = np.frombuffer(b"".join(self.places), dtype=np.uint8).reshape(n, width)
        return {
            "kept": self.kept, "keys": keys,
            "weights": self.weights[:n], "values": self.values[:n],
        }  # fmt: skip

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> Table:
        """The table that `arrays` described."""
        n, actions = arrays["weights"].shape
        table = cls(arrays["kept"], actions)
        table.places = {key.tobytes(): row for row, key in enumerate(arrays["keys"])}
        room = max(_ROWS, n)
        table.weights, table.values = np.zeros((room, actions)), np.zeros(room)
        table.weights[:n], table.values[:n] = arrays["weights"], arrays["values"]
        return table


class TabularPolicy(ActPolicy):
    """Acts as a table says; where a situation never came up, at random among the legal acts."""

    name = "tabular"

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table, self.cells = table, len(table.kept)

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """Softmax of the situation's row over the legal acts.  # (actions,)"""
        row = self.table.places.get(self.table.situation(belief_of(observation)))
        legal = np.asarray(action_masks) > 0
        return softmax(np.zeros(len(legal)) if row is None else self.table.weights[row], legal)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file; the same policy gives the same bytes."""
        write_archive(path, {"format": _POLICY}, self.table.arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TabularPolicy:
        """Read what `save` has written; raises InvalidConfiguration for any other file."""
        _, arrays = read_archive(path, _POLICY)
        try:
            return cls(Table.of(arrays))
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is no whole tabular policy: {told(error)}"
            ) from error


def softmax(weights: NDArray[np.float64], legal: NDArray[np.bool_]) -> Probabilities:
    """Probabilities over the legal acts, 0 elsewhere.  (actions,), (actions,) → (actions,)"""
    scores = np.where(legal, weights, -np.inf)
    raised = np.exp(scores - scores.max())
    found: Probabilities = raised / raised.sum()
    return found


class TabularLearner:
    """Fits a table; `history` has a row for each report."""

    def __init__(self, config: TabularConfig) -> None:
        self.config = config
        self.history: list[dict[str, float]] = []
        self.step = self.episodes = 0
        self._scale = 0.0
        self._heard = [0.0, 0.0, 0.0]
        """Conversations, returns and successes since the newest report."""

    def fit(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        n_steps: int,
        evaluators: Mapping[str, Callable[[Policy], float]] | None = None,
        evaluate_every: int = 0,
        *,
        report_every: int = 2_000,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 5_000,
    ) -> TabularPolicy:
        """Talk for `n_steps` agent turns, rounded up to whole conversations.

        `evaluators` are scores of the policy by name, in the first report after `evaluate_every`
        turns and in the last one. Where there is a file at `checkpoint` the run goes on from it, to
        the same table as if it had never stopped. Raises InvalidConfiguration for an environment
        that does not show features and take acts, and for a checkpoint of other settings.
        """
        env = make_env()
        table, policy = self._begun(env, checkpoint)
        stop = any([callback(row) is True for row in self.history for callback in callbacks])
        reported, kept = self.step, self.step
        named = set(evaluators or ())
        scored = max([row["step"] for row in self.history if named & row.keys()], default=0.0)
        while self.step < n_steps and not stop:
            self._converse(env, policy, table)
            last = self.step >= n_steps
            if last or self.step - reported >= report_every:
                reported = self.step
                row = self._report(table)
                if evaluators and (last or 0 < evaluate_every <= self.step - scored):
                    scored = self.step
                    row |= {name: float(of(policy)) for name, of in evaluators.items()}
                stop = any([callback(row) is True for callback in callbacks])
                due = last or stop or self.step - kept >= checkpoint_every
                if checkpoint is not None and due:
                    kept = self.step
                    self._save(checkpoint, table)
        env.close()
        return policy

    def _begun(
        self, env: gym.Env[Any, Any], checkpoint: str | os.PathLike[str] | None
    ) -> tuple[Table, TabularPolicy]:
        kept, actions = situation_cells(env, self.config.left_out)
        table = Table(kept, actions)
        if checkpoint is not None and Path(checkpoint).exists():
            table = self._load(checkpoint)
            if table.kept.shape != kept.shape or table.weights.shape[1] != actions:
                raise InvalidConfiguration(
                    f"{checkpoint} is of another environment; name another run"
                )
        return table, TabularPolicy(table)

    def _converse(self, env: gym.Env[Any, Any], policy: TabularPolicy, table: Table) -> None:
        """One conversation, and what it teaches."""
        seed = child(self.config.seed, self.episodes)
        belief, info = env.reset(seed=seed & 0x7FFFFFFF)
        policy.reset(seed)
        turns: list[tuple[int, Probabilities, int, float]] = []
        ended = False
        while not ended:
            row = table.place(belief)
            probabilities = softmax(table.weights[row], info["action_mask"] > 0)
            act = policy.drawn(probabilities, False)
            belief, reward, terminated, truncated, info = env.step(act)
            turns.append((row, probabilities, act, float(reward)))
            ended = terminated or truncated
        self._learn(table, turns)
        self.episodes += 1
        self.step += len(turns)
        self._heard[0] += 1
        self._heard[1] += sum(turn[3] for turn in turns)
        self._heard[2] += bool(info.get("success", False))

    def _learn(self, table: Table, turns: Sequence[tuple[int, Probabilities, int, float]]) -> None:
        config, return_ = self.config, sum(turn[3] for turn in turns)
        if return_ and self._scale:
            self._scale += config.scale_rate * (abs(return_) - self._scale)
        elif return_:
            self._scale = abs(return_)
        if not self._scale:
            return  # nothing was ever earned: there is nothing to learn
        for row, probabilities, act, reward in turns:
            gain = return_ - table.values[row]
            table.values[row] += config.baseline_rate * gain
            cut = min(config.most_gain, max(-config.most_gain, gain / self._scale))
            step = config.learning_rate * cut
            weights = table.weights[row]
            weights -= step * probabilities
            weights[act] += step
            np.clip(weights, -config.most_weight, config.most_weight, out=weights)
            return_ -= reward

    def _report(self, table: Table) -> dict[str, float]:
        count, returns, successes = self._heard
        row = {
            "step": float(self.step), "return": returns / count, "success": successes / count,
            "conversations": float(self.episodes), "situations": float(len(table.places)),
        }  # fmt: skip
        self._heard = [0.0, 0.0, 0.0]
        self.history.append(row)
        return row

    # Written right after a report, so that nothing heard is waiting to be reported.

    def _save(self, path: str | os.PathLike[str], table: Table) -> None:
        about = {
            "format": _RUN, "config": self.config.to_dict(), "step": self.step,
            "episodes": self.episodes, "scale": self._scale, "history": self.history,
        }  # fmt: skip
        write_archive(path, about, table.arrays())

    def _load(self, path: str | os.PathLike[str]) -> Table:
        about, arrays = read_archive(path, _RUN)
        config = json.loads(json.dumps(self.config.to_dict()))
        if about["config"] != config:
            other = sorted(name for name in config if about["config"].get(name) != config[name])
            raise InvalidConfiguration(
                f"{path} was written with another {', '.join(other)}; take another file, or the "
                "options it was made with"
            )
        self.step, self.episodes = about["step"], about["episodes"]
        self._scale, self.history = about["scale"], about["history"]
        return Table.of(arrays)


def situation_cells(
    env: gym.Env[Any, Any], left_out: Sequence[str]
) -> tuple[NDArray[np.bool_], int]:
    """Which cells of the belief tell situations apart, and how many acts there are.  (cells,)

    Raises InvalidConfiguration where the environment shows no named cells or takes no acts.
    """
    layout = getattr(getattr(env.unwrapped, "domain", None), "layout", None)
    seen, taken = env.observation_space, env.action_space
    if layout is None or seen.shape != (len(layout),) or not isinstance(taken, spaces.Discrete):
        raise InvalidConfiguration(
            'the tabular learner takes environments with observation="features" and action="act" '
            f"of a domain with named cells; this one shows {seen} and takes {taken}"
        )
    kept = np.array([not name.startswith(tuple(left_out)) for name in layout])
    return kept, int(taken.n)
