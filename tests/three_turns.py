"""A conversation of at most three turns, small enough to write down all that can happen.

Two cells, two acts; after each turn it goes on with some chance, and after the third it is cut off.
An observation is (cell, turn). Expectations over `every_trajectory` are exact.
"""

from __future__ import annotations

import numpy as np

from convgym.data.transitions import EpisodeArrays, returns_to_go

CELLS, ACTS, TURNS = 2, 2, 3


class ThreeTurns:
    """Rewards, moves and two policies, drawn from a seed."""

    def __init__(self, seed=0, deterministic=False):
        chance = np.random.default_rng(seed)
        self.start = np.array([0.6, 0.4])
        self.rewards = chance.normal(size=(TURNS, CELLS, ACTS))
        # The last place is the end.
        self.moves = chance.dirichlet(np.ones(CELLS + 1), size=(TURNS, CELLS, ACTS))
        if deterministic:
            self.start = np.array([1.0, 0.0])
            self.moves = np.eye(CELLS + 1)[chance.integers(CELLS + 1, size=(TURNS, CELLS, ACTS))]
            self.moves[0] = np.eye(CELLS + 1)[1]  # nobody ends at once
        self.behavior = chance.dirichlet(2 * np.ones(ACTS), size=(TURNS, CELLS))
        self.policy = chance.dirichlet(np.ones(ACTS), size=(TURNS, CELLS))

    def action_values(self, policy, discount):
        """Exact q(turn, cell, act) of a policy (turn, cell, act)."""
        q = np.zeros((TURNS, CELLS, ACTS))
        value = np.zeros(CELLS)
        for turn in reversed(range(TURNS)):
            q[turn] = self.rewards[turn] + discount * self.moves[turn][..., :CELLS] @ value
            value = (policy[turn] * q[turn]).sum(axis=1)
        return q

    def value(self, policy, discount):
        q = self.action_values(policy, discount)
        return float(self.start @ (policy[0] * q[0]).sum(axis=1))

    def every_trajectory(self):
        """(probability under the behaviour, episode) of all that can happen."""
        for cell in range(CELLS):
            if self.start[cell]:
                yield from self._onwards(self.start[cell], [cell], [], [], [])

    def _onwards(self, odds, cells, acts, rewards, chances):
        turn, cell = len(acts), cells[-1]
        for act in range(ACTS):
            chosen = self.behavior[turn, cell, act]
            done = (
                [*acts, act],
                [*rewards, self.rewards[turn, cell, act]],
                [*chances, chosen],
            )
            for following, share in enumerate(self.moves[turn, cell, act]):
                if share == 0:
                    continue
                ended = following == CELLS
                probability = odds * chosen * share
                shown = [*cells, 0 if ended else following]
                if ended or turn + 1 == TURNS:
                    yield probability, episode(shown, *done, terminated=ended)
                else:
                    yield from self._onwards(probability, shown, *done)


def episode(cells, acts, rewards, chances, terminated=True):
    """Observations (cell, turn); every act is legal."""
    earned = np.array(rewards, dtype=np.float64)
    return EpisodeArrays(
        observations=np.array([(cell, turn) for turn, cell in enumerate(cells)]),
        actions=np.array(acts),
        rewards=earned,
        terminated=terminated,
        truncated=not terminated,
        returns=returns_to_go(earned, 1.0),
        masks=np.ones((len(cells), ACTS), dtype=np.int8),
        propensities=np.array(chances),
        policy=0,
    )


def asked(table):
    """A policy (turn, cell, act) as a callable over observations; past the last turn any act."""
    longer = np.concatenate([table, np.full((1, CELLS, ACTS), 1 / ACTS)])

    def policy(observations, masks):
        return longer[observations[:, 1], observations[:, 0]]

    return policy


def action_value_rows(q):
    """q (turn, cell, act) as a callable over observations; past the last turn 0."""
    longer = np.concatenate([q, np.zeros((1, CELLS, ACTS))])
    return lambda observations: longer[observations[:, 1], observations[:, 0]]


def cell_of(observations):
    """The cell of cells and turns, as one number."""
    return observations[:, 0] * (TURNS + 1) + observations[:, 1]
