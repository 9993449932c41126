"""Conversations of one simulated user with scripts of acts and talk, its draws written down."""

from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from single_task import ACTIONS, DESK, U, V, draw_task

from convgym.engine import acts
from convgym.engine.acts import FIRST_TOOL, AgentTurn, Said, UserTurn
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.policies.scripted import OraclePolicy
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import STRIDE
from convgym.users.persona import draw_levels

SCALE = np.array([DESK.scales.get(name, 1.0) for name in DESK.layout], dtype=np.float32)
REFUSING = [n for n, a in enumerate(ACTIONS.actions) if a.kind in (acts.DENY, acts.OFFER)]


class Draw(NamedTuple):
    point: int
    which: int
    yes: bool
    log_prob: int
    bother: int


class Recorded(AgendaUser):
    """The same user, its draws written down."""

    def __init__(self, model=None):
        super().__init__(U, model)
        self.draws = []

    def _drawn(self, episode, state, point, index, situation):
        before = state.log_prob
        yes = super()._drawn(episode, state, point, index, situation)
        logged = state.log_prob - before
        assert index % STRIDE == point
        self.draws.append(Draw(point, index // STRIDE, yes, logged, state.bother))
        return yes


class Step(NamedTuple):
    """One agent turn with the user's answer."""

    before: Episode
    turn: AgentTurn
    after: Episode
    answer: UserTurn | None
    draws: list[Draw]


def begin(task, key, user, persona=None, max_turns=60):
    episode, engine = Episode(task, key, 0, DESK.layout.row()), Engine(DESK, user, max_turns)
    DESK.open(episode, persona.levels if persona else draw_levels(key))
    engine.open(episode)
    return episode, engine


def oracle_act(episode):
    row = np.frombuffer(bytes(episode.belief), np.uint8)
    mask = ACTIONS.mask(row)
    return OraclePolicy().predict(row * SCALE, deterministic=True, action_masks=mask)[0]


def speech(number):
    action = ACTIONS.actions[number]
    return Said(action.kind, action.argument, action.pointer, action.value)


def agent_turn(episode, drawn):
    """A turn that the drawn number stands for: sensible, random, several acts at once, a lie."""
    kind = drawn % 16
    legal = np.flatnonzero(ACTIONS.mask(np.frombuffer(bytes(episode.belief), np.uint8)))
    legal = [int(a) for a in legal if ACTIONS.names[a] not in ("end_conversation",)]
    if kind < 9:
        return DESK.turn(episode, oracle_act(episode))
    if kind < 12:
        return DESK.turn(episode, legal[(drawn >> 4) % len(legal)])
    if kind < 14:
        spoken = [a for a in legal if ACTIONS.actions[a].kind < FIRST_TOOL]
        chosen = {spoken[(drawn >> shift) % len(spoken)] for shift in (4, 12, 20)}
        return AgentTurn(tuple(speech(a) for a in sorted(chosen, key=lambda a: (a * drawn) % 101)))
    if kind == 14:
        untrue = Said(acts.REPORT_DONE, claim=acts.FALSE)
        promise = Said(acts.PROMISE, (drawn >> 6) % len(V.promises))
        other = (untrue, promise, Said(acts.JARGON), Said(acts.EXPLAIN))
        return AgentTurn((other[drawn >> 4 & 3],))
    return AgentTurn((speech(REFUSING[(drawn >> 4) % len(REFUSING)]),))


def conversation(number, key, script, user=None):
    """The opening turn and all steps of a conversation."""
    user = user or Recorded()
    user.draws = []
    episode, engine = begin(draw_task("train", number), key, user)
    begun = episode.snapshot()
    opening = Step(begun, AgentTurn(), begun, episode.user_turn, user.draws)
    steps = []
    for drawn in script:
        if episode.end:
            break
        before, user.draws = episode.snapshot(), []
        turn = agent_turn(episode, drawn)
        engine.apply(episode, turn)
        steps.append(Step(before, turn, episode.snapshot(), episode.user_turn, user.draws))
    return opening, steps


ANY_TALK = (
    st.integers(0, 20_000),
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=24),
)
thorough = settings(
    max_examples=400, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


def said_in(steps):
    return [act for step in steps if step.answer for act in step.answer.acts]
