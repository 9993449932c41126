"""A conversation so small that every value is known exactly: what learners are tested on.

    state     3 facts known or not × patience 0 … 3     8 × 4 = 32 states
    acts      0 1 2   ask fact i       known with probability 0.85; asked again: patience − 1
              3       ask openly       each unknown fact is told with probability 0.25
              4       small talk       patience − 1 with probability 0.5
              5       recap            nothing happens
              6       close            the end: +1 where all facts are known, else −0.4
              7 … 15  blunders         patience − 1; no behaviour policy here ever does them
    patience below 0    the customer hangs up: the end, −0.4
    every turn          −`turn_cost`;  cut off after 20 turns

An observation is the state's own random unit vector with noise. Values come from the table of
transitions by dynamic programming, so that tests compare learners with numbers, not with rollouts.
Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays, returns_to_go

Floats = NDArray[np.float64]

FACTS, PATIENCE = 3, 4
STATES = 2**FACTS * PATIENCE
START = 2**FACTS * (PATIENCE - 1)
"""Nothing known, all patience."""
ACTS = 16
ASK_OPENLY, SMALL_TALK, RECAP, CLOSE, BLUNDERS = 3, 4, 5, 6, 7
"""The numbers of acts; `BLUNDERS` is the first of them."""
SUCCESS, FAILURE = 1.0, -0.4
HORIZON = 20
_TOLD, _TOLD_OPENLY, _TIRES = 0.85, 0.25, 0.5


@dataclass(frozen=True, eq=False)
class ToyModel:
    """The conversation as a table: what each act does in each state."""

    moves: Floats  # (states, acts, states) probabilities; what is missing to 1 is the end
    rewards: Floats  # (states, acts) expected, turn cost and endings included
    ends: Floats  # (states, acts) probability of the end
    end_rewards: Floats  # (states, acts) reward of an end, where there is one
    turn_cost: float

    def values(self, policy: Floats, discount: float = 1.0, turns: int = HORIZON) -> Floats:
        """Of a policy over `turns` turns; what is cut off counts 0.  (S, acts) → (S,)"""
        value = np.zeros(STATES)
        for _ in range(turns):
            value = (policy * self.action_values(value, discount)).sum(axis=1)
        return value

    def action_values(self, value: Floats, discount: float) -> Floats:
        """r + γ P v.  (states,) → (states, acts)"""
        found: Floats = self.rewards + discount * self.moves @ value
        return found

    def optimal(self, discount: float = 1.0) -> tuple[Floats, Floats]:
        """(state values, action values) of the best policy if nothing is cut off."""
        return self.fixed_point(lambda table: table.max(axis=1), discount)

    def fixed_point(
        self, summary: Callable[[Floats], Floats], discount: float
    ) -> tuple[Floats, Floats]:
        """v and q with v = summary(q) and q = r + γ P v: a maximum, a mean or an expectile."""
        value = np.zeros(STATES)
        for _ in range(5000):
            table = self.action_values(value, discount)
            found = summary(table)
            if np.abs(found - value).max() < 1e-12:
                break
            value = found
        return found, table


def toy_model(turn_cost: float = 0.06, end_shift: float = 0.0) -> ToyModel:
    """The table; `end_shift` is added to the reward of every end."""
    moves = np.zeros((STATES, ACTS, STATES))
    end_rewards = np.full((STATES, ACTS), FAILURE + end_shift)
    for state in range(STATES):
        known, patience = state % 2**FACTS, state // 2**FACTS
        for act in range(ACTS):
            for facts, tires, share in _outcomes(known, act):
                if tires <= patience:
                    moves[state, act, facts + 2**FACTS * (patience - tires)] += share
        if known == 2**FACTS - 1:
            end_rewards[state, CLOSE] = SUCCESS + end_shift
    ends = (1.0 - moves.sum(axis=2)).clip(0.0)
    return ToyModel(moves, ends * end_rewards - turn_cost, ends, end_rewards, turn_cost)


def _outcomes(known: int, act: int) -> list[tuple[int, int, float]]:
    """(facts known then, patience lost, probability); none where the act ends the conversation."""
    if act == CLOSE:
        return []
    if act < FACTS:
        told = known | 1 << act
        return [(known, 1, 1.0)] if told == known else [(told, 0, _TOLD), (known, 0, 1 - _TOLD)]
    if act == ASK_OPENLY:
        found = [(known, 1.0)]
        for fact in range(FACTS):
            if not known >> fact & 1:
                found = [(k, s * (1 - _TOLD_OPENLY)) for k, s in found] + [
                    (k | 1 << fact, s * _TOLD_OPENLY) for k, s in found
                ]
        return [(k, 0, s) for k, s in found]
    if act == SMALL_TALK:
        return [(known, 1, _TIRES), (known, 0, 1 - _TIRES)]
    return [(known, 0 if act == RECAP else 1, 1.0)]


# -- policies, as tables (states, acts) ------------------------------------------------------------


def script() -> Floats:
    """Asks for the first fact that is missing, then closes: the best there is."""
    table = np.zeros((STATES, ACTS))
    for state in range(STATES):
        missing = [fact for fact in range(FACTS) if not state >> fact & 1]
        table[state, missing[0] if missing else CLOSE] = 1.0
    return table


def always(act: int) -> Floats:
    """One act, whatever was said."""
    return np.tile(np.eye(ACTS)[act], (STATES, 1))


def uniform(acts: int = BLUNDERS) -> Floats:
    """Each of the first `acts` acts, alike."""
    return np.tile((np.arange(ACTS) < acts) / acts, (STATES, 1))


MAJORITY_BAD = (0.4, 0.25, 0.35)
"""Shares of conversations in data where most do badly: closed at once, script, `uniform()`."""


def majority_bad() -> list[Floats]:
    """The policies of `MAJORITY_BAD`; at the start, closing is what the data show most."""
    return [always(CLOSE), script(), uniform()]


def greedy(table: Floats, legal: Floats | None = None) -> Floats:
    """The best act of each row of action values."""
    shown = table if legal is None else np.where(legal > 0, table, -np.inf)
    return np.eye(table.shape[1])[shown.argmax(axis=1)]


# -- environment and data --------------------------------------------------------------------------


class ToyDialogue(gym.Env[NDArray[np.float32], np.int64]):
    """The conversation as an environment; `embedding` gives each state's vector.

    ## Observation
    Box (`size`,): the state's unit vector plus Gaussian noise of length about `noise`.
    ## Action
    Discrete (16).
    ## Reward
    −0.06 a turn; +1 for closing with all facts known, −0.4 for any other end.
    ## Episode end
    Terminated: closed, or the customer hung up. Truncated: 20 turns.
    ## Info
    `state`, `action_mask`; `success` at the end.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium's own form

    def __init__(
        self, size: int = 384, noise: float = 0.3, turn_cost: float = 0.06, end_shift: float = 0.0
    ) -> None:
        self.model = toy_model(turn_cost, end_shift)
        self.embedding = embedding(size)
        self.noise = noise
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Discrete(ACTS)
        self.state, self.turn = START, 0

    def action_masks(self) -> NDArray[np.int8]:
        """Every act is legal.  # (acts,)"""
        return np.ones(ACTS, dtype=np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin a conversation."""
        super().reset(seed=seed)
        self.state, self.turn = START, 0
        return self._seen(), self._info(False)

    def step(
        self, action: np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One act and what comes of it."""
        here, act = self.state, int(action)
        self.turn += 1
        following = self.np_random.random() - np.cumsum(self.model.moves[here, act])
        ended = bool(following[-1] >= 0.0)
        if not ended:
            self.state = int((following >= 0.0).sum())
        reward = -self.model.turn_cost + ended * float(self.model.end_rewards[here, act])
        success = ended and act == CLOSE and here % 2**FACTS == 2**FACTS - 1
        return self._seen(), reward, ended, self.turn >= HORIZON and not ended, self._info(success)

    def _seen(self) -> NDArray[np.float32]:
        return observe(self.embedding, np.array([self.state]), self.noise, self.np_random)[0]

    def _info(self, success: bool) -> dict[str, Any]:
        return {"state": self.state, "action_mask": self.action_masks(), "success": success}


def embedding(size: int) -> NDArray[np.float32]:
    """The unit vector of each state, the same in every process.  # (states, size)"""
    found = np.random.default_rng(2026).standard_normal((STATES, size))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def observe(
    vectors: NDArray[np.float32], states: NDArray[Any], noise: float, chance: np.random.Generator
) -> NDArray[np.float32]:
    """Vectors of these states with noise whose expected squared length is `noise`².  # (n, size)"""
    size = vectors.shape[1]
    found = vectors[states] + noise / np.sqrt(size) * chance.standard_normal((len(states), size))
    return found.astype(np.float32)


def record(
    behavior: Floats | Sequence[Floats],
    conversations: int,
    *,
    env: ToyDialogue | None = None,
    shares: Sequence[float] | None = None,
    discount: float = 1.0,
    seed: int = 0,
) -> list[EpisodeArrays]:
    """Conversations of a behaviour policy, with propensities, masks and discounted returns.

    Of several policies each conversation has one, drawn by `shares`; `policy` says which.
    """
    env = env or ToyDialogue()
    tables = [behavior] if isinstance(behavior, np.ndarray) else list(behavior)
    chance = np.random.default_rng([seed, 7])
    who = chance.choice(len(tables), size=conversations, p=shares)
    return [
        _recorded(env, tables[policy], int(policy), discount, chance, seed * 10_000_000 + number)
        for number, policy in enumerate(who)
    ]


def _recorded(
    env: ToyDialogue, table: Floats, policy: int, discount: float,
    chance: np.random.Generator, seed: int,
) -> EpisodeArrays:  # fmt: skip
    observation, info = env.reset(seed=seed)
    seen, acts, rewards, odds = [observation], [], [], []
    terminated = truncated = False
    while not (terminated or truncated):
        row = table[info["state"]]
        act = chance.choice(ACTS, p=row)
        observation, reward, terminated, truncated, info = env.step(np.int64(act))
        seen.append(observation)
        acts.append(int(act))
        rewards.append(reward)
        odds.append(row[act])
    earned = np.array(rewards)
    return EpisodeArrays(
        observations=np.array(seen),
        actions=np.array(acts, dtype=np.int64),
        rewards=earned,
        terminated=terminated,
        truncated=truncated,
        returns=returns_to_go(earned, discount),
        masks=np.ones((len(seen), ACTS), dtype=np.int8),
        propensities=np.array(odds),
        policy=policy,
        success=bool(info["success"]),
    )


def record_states(behavior: Floats, conversations: int, seed: int = 0) -> list[EpisodeArrays]:
    """Conversations of `behavior` side by side, observed as they are: numbers of states.

    For estimators that take thousands; without masks, and returns are undiscounted.
    """
    model, chance = toy_model(), np.random.default_rng([seed, 11])
    shape = conversations, HORIZON
    states = np.full((conversations, HORIZON + 1), START)
    acts, rewards = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    lengths, ended = np.zeros(conversations, dtype=np.int64), np.zeros(conversations, dtype=bool)
    cumulative, onwards = behavior.cumsum(axis=1), model.moves.cumsum(axis=2)
    going = np.arange(conversations)
    for turn in range(HORIZON):
        here = states[going, turn]
        drawn = chance.random((len(going), 1)) * cumulative[here, -1:]
        act = (cumulative[here] <= drawn).sum(axis=1)
        following = (onwards[here, act] <= chance.random((len(going), 1))).sum(axis=1)
        over = following == STATES
        acts[going, turn] = act
        rewards[going, turn] = over * model.end_rewards[here, act] - model.turn_cost
        states[going, turn + 1] = np.where(over, here, following)
        lengths[going] += 1
        ended[going] = over
        going = going[~over]
    odds = behavior[states[:, :-1], acts]
    to_go = rewards[:, ::-1].cumsum(axis=1)[:, ::-1]
    return [
        EpisodeArrays(
            observations=states[i, : length + 1],
            actions=acts[i, :length],
            rewards=rewards[i, :length],
            terminated=bool(ended[i]),
            truncated=not ended[i],
            returns=to_go[i, :length],
            propensities=odds[i, :length],
            policy=0,
        )
        for i, length in enumerate(lengths.tolist())
    ]


def policy_table(action_probs: Callable[[Any, Any], Floats], size: int = 384) -> Floats:
    """What a policy does at each state's own vector.  # (states, acts)

    `action_probs(observation, mask)` gives the probabilities of one observation.
    """
    mask = np.ones(ACTS, dtype=np.int8)
    return np.array([action_probs(row, mask) for row in embedding(size)])
