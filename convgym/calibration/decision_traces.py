"""Simulated conversations of an environment's user, with what its decisions weigh.

    decision model ─► user ─┐
    agents ─► acts ─────────┴─► Trace: what was done after what, and per decision point
                                score = Σ (yes − p)  =  ∂ log-likelihood / ∂ logit of the base

The scores are why conversations are played here and not by `gym.make`: how a rate moves with a
base is its covariance with that base's score (Glynn, 1990), so one simulation gives all
derivatives. Tasks, personas and words are those of the environment's keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import convgym.envs.registration as registration
from convgym.calibration.reactions import Reader, Talk, acts_of
from convgym.desk.folder import FolderDesk
from convgym.engine.acts import AgentTurn
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import POLICY, child, draw, mix
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.domain import Domain
from convgym.errors import InvalidConfiguration
from convgym.policies.roster import ladder
from convgym.users.decisions import POINTS, DecisionModel

Floats = NDArray[np.float64]
Agent = Callable[[], Any]
"""Makes an agent: `reset(seed)`, and `predict(features, action_masks=…)` gives one act number, or
several, which are said in one reply."""
SLIPS = 0.15
"""Share of random acts of the sloppier half of the scripted agents."""
_MOST_TURNS = 50
_WHO, _WORDS = 50, 51
"""Numbers of the draws of who talks, and of whose words the user has."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One simulated conversation."""

    talk: Talk
    scores: Floats  # (points,)
    passed: NDArray[np.int64]  # (points,) decisions made at each point
    texts: list[str]
    """The user's words, where acts are read off them."""


def environment(env_id: str, **keywords: Any) -> ConversationEnv:
    """The environment whose users decide at decision points.

    Raises InvalidConfiguration where there is none of this name, or its users do not decide so.
    """
    registration.register_envs()
    if env_id not in gym.registry:
        known = ", ".join(registration.ENVIRONMENTS)
        raise InvalidConfiguration(f"no environment is called {env_id!r}; there are {known}")
    made = gym.make(env_id, disable_env_checker=True, **keywords).unwrapped
    if not isinstance(made, ConversationEnv) or made.conditions.model is None:
        raise InvalidConfiguration(
            f"the users of {env_id} make no decisions that could be fitted; take an environment of "
            "a service desk, with its own user"
        )
    return made


def scripted_agents(domain: Domain) -> list[Agent]:
    """The domain's scripted agents, each without and with slips."""
    made_from = domain.made_from[0] if isinstance(domain, FolderDesk) else domain.domain
    kinds: dict[str, Any] = dict(ladder(str(made_from)))
    del kinds["random"]
    return [*kinds.values(), *(partial(kind, noise=SLIPS) for kind in kinds.values())]


def reply_of(domain: Domain, episode: Episode, numbers: int | Sequence[int]) -> AgentTurn:
    """One reply that does several acts."""
    if isinstance(numbers, int | np.integer):
        return domain.turn(episode, int(numbers))
    turns = [domain.turn(episode, number) for number in numbers]
    said, calls, errors = (
        sum((getattr(turn, part) for turn in turns), ()) for part in ("said", "calls", "errors")
    )
    return AgentTurn(said, calls, errors)


class Simulation:
    """Plays conversations of one environment; the same number and seed give the same people."""

    def __init__(self, env: ConversationEnv, reader: Reader, agents: Sequence[Agent]) -> None:
        self.domain, self.conditions, self.reader = env.domain, env.conditions, reader
        self.agents = [make() for make in agents]
        self.familiar = 1.0
        """Share of users who speak in the wordings that the reader has learned from; the others
        have those held out from it."""

    def run(
        self, model: DecisionModel, n: int, seed: int, weights: Floats | None = None
    ) -> list[Trace]:
        """n conversations; `weights` are the shares of the agents, alike without them."""
        shares = np.ones(len(self.agents)) if weights is None else weights
        bounds = np.cumsum(shares) / np.sum(shares)
        engine = Engine(self.domain, self.domain.make_user(model), _MOST_TURNS)
        traces = []
        for number in range(n):
            key = child(mix(seed), number)
            drawn = draw(key, POLICY, 0, _WHO) / 2**32
            who = min(int(np.searchsorted(bounds, drawn, side="right")), len(bounds) - 1)
            traces.append(self._play(engine, model, self.agents[who], key))
        return traces

    def _play(self, engine: Engine, model: DecisionModel, agent: Any, key: int) -> Trace:
        setup, domain = self.conditions.setup, self.domain
        task = domain.task(*setup.task(key, domain.table))
        persona: Any = setup.drawn_persona(child(key, 1), task.split)
        levels = getattr(persona, "levels", persona)
        episode = Episode(task, child(key, 1), child(key, 2), domain.layout.row())
        domain.open(episode, levels)
        engine.open(episode)
        agent.reset(key)
        familiar = draw(key, POLICY, 0, _WORDS) / 2**32 < self.familiar
        words = self.conditions.words["train" if familiar else "held_out"]
        words.begin(persona, levels, setup.style, child(key, 2))
        trace = Trace(Talk(), np.zeros(len(POINTS)), np.zeros(len(POINTS), dtype=np.int64), [])
        turns = 0
        while True:
            if episode.user_turn is not None:
                self._note(trace, model, levels, episode, words, turns)
                turns += 1
            if episode.end:
                return trace
            belief = np.frombuffer(episode.belief, dtype=np.uint8)
            features = belief * self.conditions.scale
            numbers, _ = agent.predict(features, action_masks=domain.actions.mask(belief))
            for number in np.atleast_1d(numbers).tolist():
                trace.talk.agent(self.reader.of_act(number))
            engine.apply(episode, reply_of(domain, episode, numbers))
            if episode.tool_results:
                trace.talk.tools("\n".join(episode.tool_results))

    def _note(
        self, trace: Trace, model: DecisionModel, levels: Any, episode: Episode, words: Any,
        index: int,
    ) -> None:  # fmt: skip
        turn = episode.user_turn
        assert turn is not None
        for point, situation, yes in turn.decisions:
            trace.scores[point] += yes - model.choice(point, levels, situation)[0] / 2**32
            trace.passed[point] += 1
        if self.reader.labelled:
            trace.talk.user(acts_of(self.domain, episode, turn))
        else:
            text = words.say(index, self.domain.spoken(episode, turn))
            trace.texts.append(text)
            trace.talk.user(self.reader.tagged(text))
