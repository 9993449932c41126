"""Support conversations driven without words: the engine, the customer, and policies over acts."""

import json
from collections import Counter

import numpy as np

from convgym.domains.technical_support import view as views
from convgym.domains.technical_support.desk import SupportDesk
from convgym.domains.technical_support.dialogue import ACTIONS, LAYOUT, SCALES, USER_ACTS
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import child
from convgym.users.decisions import NUMBER, POINTS, DecisionModel
from convgym.users.persona import Persona, drawn_levels

DESK = SupportDesk()
USER = DESK.make_user(DecisionModel())
MAX_TURNS = 70
SCALE = np.array([SCALES.get(name, 1.0) for name in LAYOUT], dtype=np.float32)
ABLE = Persona(
    patience=1, expertise=1, cooperativeness=1, accuracy=1, compliance=1, assertiveness=0,
    scepticism=0, curiosity=0,
)  # fmt: skip


class Certain(DecisionModel):
    """Chooses what it is told: yes at the points named, no elsewhere."""

    def __init__(self, *yes):
        super().__init__()
        self.yes = {NUMBER[name] for name in yes}
        self.made = []

    def choice(self, point, persona, situation=0):
        self.made.append(POINTS[point].name)
        return (2**32 if point in self.yes else 0), -1, -1


def begin(task, key=1, user=USER, persona=None, max_turns=MAX_TURNS):
    """A fresh episode whose customer has spoken, and its engine."""
    episode, engine = Episode(task, key, key, LAYOUT.row()), Engine(DESK, user, max_turns)
    DESK.open(episode, persona.levels if persona else drawn_levels(key, task.split))
    engine.open(episode)
    return episode, engine


def said(episode):
    """Names of the customer's newest acts; empty where it had not the floor."""
    return [USER_ACTS[act] for act in episode.user_turn.acts] if episode.user_turn else []


def result(episode):
    """The newest tool result."""
    return json.loads(episode.tool_results[-1])


def do(episode, engine, *names):
    """Make legal acts one after another; the customer's answer to the last."""
    for name in names:
        number = ACTIONS[name]
        assert ACTIONS.is_legal(episode.belief, number), name
        engine.apply(episode, DESK.turn(episode, number))
    return said(episode)


def on(episode, *names):
    """Values of cells."""
    return [episode.belief[LAYOUT[name]] for name in names]


def belief(episode):
    return np.frombuffer(bytes(episode.belief), np.uint8)


def act_of(policy, episode):
    """Number of the policy's next act."""
    row = belief(episode)
    return policy.predict(row * SCALE, action_masks=ACTIONS.mask(row))[0]


def visible(episode):
    """What the agent saw of the newest step."""
    turn = episode.user_turn
    heard = views.acts_json(episode.task, turn.acts) if turn else ""
    return heard, episode.tool_results


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

    def __init__(self, policy, split, episodes, seed=0, persona=None):
        self.successes, self.turns, self.ends, self.failed = 0, 0, Counter(), []
        for number in range(episodes):
            task = DESK.task(split, number)
            episode = played(policy, task, child(seed, number), persona=persona)
            won = succeeded(episode)
            self.successes += won
            self.turns += episode.turn
            if not won:
                self.ends["violation" if episode.violations else episode.end] += 1
                self.failed.append(task.task_id)
        self.success = self.successes / episodes
