"""Sales conversations driven without words: the engine, the buyer, and policies over acts."""

from collections import Counter

import numpy as np

from convgym.domains.sales.desk import SalesDesk
from convgym.domains.sales.vocabulary import ACTIONS, LAYOUT
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import child
from convgym.users.decisions import DecisionModel
from convgym.users.persona import drawn_levels

DESK = SalesDesk()
USER = DESK.make_user(DecisionModel())
MAX_TURNS = 50


def begin(task, key, user=USER, persona=None, max_turns=MAX_TURNS):
    """A fresh episode whose buyer has spoken, and its engine."""
    episode, engine = Episode(task, key, key, LAYOUT.row()), Engine(DESK, user, max_turns)
    DESK.open(episode, persona.levels if persona else drawn_levels(key, task.split))
    engine.open(episode)
    return episode, engine


def belief(episode):
    return np.frombuffer(bytes(episode.belief), np.uint8)


def act_of(policy, episode):
    """Number of the policy's next act."""
    row = belief(episode)
    return policy.predict(row.astype(np.float32), action_masks=ACTIONS.mask(row))[0]


def played(policy, task, key, user=USER, persona=None, log=None):
    """The ended episode of one conversation."""
    episode, engine = begin(task, key, user, persona)
    policy.reset(key)
    while not episode.end:
        number = act_of(policy, episode)
        engine.apply(episode, DESK.turn(episode, number))
        if log is not None:
            log(number, episode)
    return episode


def succeeded(episode):
    return not episode.truncated and DESK.grade(episode).success


class Score:
    """What a policy made of the first tasks of a split."""

    def __init__(self, policy, split, episodes, seed=0, user=USER, persona=None):
        self.successes, self.graded, self.turns = 0, 0.0, 0
        self.ends, self.failed = Counter(), []
        for number in range(episodes):
            task = DESK.task(split, number)
            episode = played(policy, task, child(seed, number), user, persona)
            won = succeeded(episode)
            self.successes += won
            self.graded += 0.0 if episode.truncated else DESK.grade(episode).graded
            self.turns += episode.turn
            if not won:
                self.ends["violation" if episode.violations else episode.end] += 1
                self.failed.append((task, episode))
        self.episodes = episodes

    @property
    def success(self):
        return self.successes / self.episodes

    @property
    def mean_graded(self):
        return self.graded / self.episodes
