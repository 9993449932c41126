"""A real side to transfer to: the environment with a hidden user, whose numbers nobody is told.

    hidden users(seed)   bases     logit 1.5 ± 0.7 towards trouble (`TROUBLE`), other points ± 0.8
                         tilts     each × e^(± 0.3)
                         words     those held out from training
                         a break   once, from its third turn on with nothing achieved yet, with
                                   probability 0.1 a turn: "one moment", whatever was said

No agenda user can be all of this: it has other tilts, other words and takes no breaks. Every twin
of a seed is drawn from this one distribution; none is picked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from convgym.calibration.decision_traces import reply_of
from convgym.conversation import Conversation, Message
from convgym.engine.acts import UserTurn
from convgym.engine.keys import USER, child, draw, mix
from convgym.envs.customer_service import CustomerServiceEnv
from convgym.envs.transcript import AGENT, CUSTOMER, TOOL
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import POINTS, STRIDE, DecisionModel

TROUBLE = {
    "greet_only": 1, "misremember": 1, "ask_why": 1, "ask_meaning": 1, "doubt": 1, "ask_next": 1,
    "push_again": 1, "show_frustration": 1, "leave": 1, "tangent": 1,
    "front_load": -1, "volunteer": -1, "answer_too": -1, "look_up": -1,
}  # fmt: skip
"""Which way is trouble: who asks, doubts, errs, leaves, and who says little at a time."""
SHIFT, SPREAD, OTHER_SPREAD, TILT_SPREAD = 1.5, 0.7, 0.8, 0.3
BREAK_FROM, BREAK = 2, 0.1
"""Turns of the user before its break, and the probability of it from then on."""
_PAUSE = STRIDE * 60
"""Number of the draw of a break; no decision of the agenda has it."""


class RepliesEnv(CustomerServiceEnv):
    """The environment for agents whose replies do several acts: an action is a tuple of acts.

    The same as the acts in words, one after the other, without words being read.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{"observation": "features", "action": "act", **keywords})

    def _agent_turn(self, episode: Any, action: Any) -> Any:
        if self._observation != "features":
            texts = [self.domain.agent_text(episode, number) for number in np.atleast_1d(action)]
            self._transcript.add(AGENT, " ".join(texts))
        return reply_of(self.domain, episode, action), 0


class HiddenDecisions(DecisionModel):
    """Other bases and other tilts, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        chance = np.random.default_rng([seed, 2026])
        bases = {}
        for point in POINTS:
            way = TROUBLE.get(point.name, 0)
            moved = chance.normal(SHIFT * way, SPREAD if way else OTHER_SPREAD)
            logit = math.log(point.base / (1 - point.base)) + moved
            bases[point.name] = 1 / (1 + math.exp(-logit))
        super().__init__(bases)
        self.bases = bases
        self.tilts = tuple(
            tuple((trait, round(b * math.exp(chance.normal(0, TILT_SPREAD)))) for trait, b in tilts)
            for tilts in self.tilts
        )


class HiddenUser(AgendaUser):
    """The agenda, with a break in it."""

    def answer(self, episode: Any, heard: Any) -> UserTurn:
        state = episode.user
        drawn = draw(episode.user_key, USER, state.turn, _PAUSE) / 2**32
        stuck = state.turn >= BREAK_FROM and not (state.satisfied or state.waiting or state.at)
        taken = any(
            draw(episode.user_key, USER, turn, _PAUSE) / 2**32 < BREAK
            for turn in range(BREAK_FROM, state.turn)
        )
        if stuck and drawn < BREAK and not taken:
            state.heard_turn = episode.turn
            return self._turn(state, [self.u["hold"]])
        return super().answer(episode, heard)


class TwinEnv(RepliesEnv):
    """The real side of a seed."""

    def __init__(self, seed: int, **keywords: Any) -> None:
        self.hidden = HiddenDecisions(seed)
        super().__init__(**{"phrases": "held_out", **keywords})

    def make_domain(self) -> Any:
        domain: Any = super().make_domain()
        domain.make_user = lambda model: HiddenUser(domain.vocabulary, self.hidden)
        return domain


def record(env: Any, agents: Sequence[Any], n: int, seed: int) -> list[Conversation]:
    """n conversations of agents, drawn alike, with an environment that observes messages."""
    chance = np.random.default_rng(seed)
    return [
        _recorded(env, agents[int(chance.integers(len(agents)))], child(mix(seed), number) >> 33)
        for number in range(n)
    ]


def _recorded(env: Any, agent: Any, seed: int) -> Conversation:
    info = env.reset(seed=seed)[1]
    agent.reset(seed)
    messages: list[Message] = []
    read, done, reward = 0, False, 0.0
    while True:
        for who, text in env.said(read):
            read += 1
            if who == CUSTOMER:
                acts = [tuple(act.values()) for act in json.loads(info["user_acts"])]
                messages.append(Message("user", text, acts=tuple(acts)))
            else:
                messages.append(Message({AGENT: "assistant", TOOL: "tool"}[who], text))
        if done:
            return Conversation(f"{info['task_id']}#{seed}", tuple(messages), reward)
        seen = env._features()
        action, _ = agent.predict(seen, action_masks=env.action_masks())
        _, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
