"""Fit the decisions of an environment's user to logs of that very domain.

    log ─────────► rates r*     P(ask_why | ask), P(give_up | any), P(request | opening) …
    θ ─► simulated ─► rates r(θ), and ∂r/∂θ from the scores of the user's decisions
    θ ◄─ Gauss-Newton on  Σ (r* − r(θ))² / v + Σ (θ − θ0)² / τ²      θ: logits of the bases

    fit = fit_decisions(conversations, "ConvGym/CustomerService-v0")
    fit.posterior["ask_why"]                    base, low, high (95 %), identifiable
    save_user(fit.user(), "user.npz")           gym.make(..., user="user.npz")
    fit.draw(seed)                              another user the log allows: what to randomise over

Which rates tell of a decision nobody says: it is those that the simulation moves with it. What a
log says nothing of stays at the domain's own base θ0. From bare text both sides are read by the
same tagger, so both carry its errors: indirect inference (Gourieroux, Monfort & Renault, 1993).
Simulated users therefore speak partly in wordings that the tagger has not learned from, as many as
make it as unsure as the log does. Random decision points trained on logs are Keizer et al.'s
(SIGDIAL 2010).

What a newcomer would get wrong: users answer to agents, so those of the simulation should talk like
the log's. Hand in the agent that made the log, if there is one; else the domain's scripted agents
are mixed until they say what the log's says as often. Bases alone are fitted: how traits tilt them
is the environment's, and so is what users want.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.decision_traces import (
    Agent,
    Simulation,
    Trace,
    environment,
    scripted_agents,
)
from convgym.calibration.reactions import (
    Rate,
    Rates,
    Reader,
    Talk,
    common_rates,
    count_rates,
    labels_of,
)
from convgym.calibration.signatures import speaks
from convgym.conversation import Conversation
from convgym.envs.domain import Domain
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.language.archive import write_archive
from convgym.language.harvested_words import HarvestedWords
from convgym.users.decisions import POINTS, DecisionModel
from convgym.users.fitted_user import CALIBRATION, USER, FittedUser

Floats = NDArray[np.float64]

LEAST = 20
"""Conversations with user turns that a fit takes, and turns that a context takes to be counted."""
PRIOR_SD = 1.5
"""τ, in logits: how far users of a domain are from its own before any log."""
MODEL_ERROR = 0.03
"""Sd of a rate that no base explains, as a share of √(r (1 − r)): the model is not the world."""
MOST_WORDS = 1000
"""Turns of the log that are asked how sure they are read."""
STEPS = 6
FARTHEST = 1.5
"""Logits that one step moves a base at most."""
HUBER = 1.345
"""Standard errors from which on a difference of rates pulls no harder."""
TOLD = 3.0
"""Standard errors of a derivative below which it counts as noise."""
_NINETY_FIVE = 1.96


@dataclass(frozen=True, slots=True)
class DecisionPosterior:
    """What a log says of one decision point."""

    base: float
    """Posterior median of the base probability."""
    low: float
    high: float
    """The 95 % interval."""
    identifiable: float
    """Posterior sd / prior sd of the logit: near 0 the log tells, at 1 it says nothing."""


@dataclass(frozen=True, eq=False)
class DecisionFit:
    """A fitted user of one environment; a gap of 1 to 2 says that its rates are the log's."""

    env_id: str
    posterior: Mapping[str, DecisionPosterior]
    """Of each decision point that the environment's users pass."""
    logits: Floats  # (fitted points,) posterior means, in the order of `posterior`
    covariance: Floats  # (fitted points, fitted points)
    gap_before: float
    """Mean squared standardised difference of the rates under the domain's own bases."""
    gap_after: float
    """The same under the fitted ones."""

    def user(self, words: HarvestedWords | None = None) -> FittedUser:
        """What environments take of it; `words` may be those of `calibrate(...).user()`."""
        return FittedUser(
            {name: found.base for name, found in self.posterior.items()}, words or HarvestedWords()
        )

    def draw(self, seed: int, widen: float = 1.0) -> FittedUser:
        """A user drawn from the posterior, its standard deviations multiplied by `widen`."""
        noise = np.random.default_rng(seed).standard_normal(len(self.logits))
        drawn = self.logits + widen * np.linalg.cholesky(self.covariance) @ noise
        return FittedUser(dict(zip(self.posterior, _sigmoid(drawn).tolist(), strict=True)))


def save_user(user: FittedUser, path: str | os.PathLike[str]) -> None:
    """Write a user as environments load it by `user=path`, whole or not at all."""
    write_archive(path, {"format": CALIBRATION, USER: user.to_dict()}, {})


def fit_decisions(
    conversations: Iterable[Conversation],
    env_id: str,
    *,
    labelled: bool | None = None,
    agents: Sequence[Agent] | None = None,
    simulated: int = 1500,
    seed: int = 0,
    **keywords: Any,
) -> DecisionFit:
    """Base probabilities of an environment's user from conversations of its domain.

    labelled: users' acts are the log's, named as the environment names them; else they are read
        off the words. None: labelled where at least half of the user turns are.
    agents: makers of the agents that talked in the log, each as often; None mixes scripted ones.
    simulated: conversations per step. keywords: of the environment, as `gym.make` takes them.

    Raises InvalidConfiguration for an environment that there is not or whose users make no
    decisions, fewer than 20 conversations with user turns, labels that are missing or not the
    environment's, and fewer than 100 simulated ones; MissingExtra without scipy.
    """
    env = environment(env_id, **keywords)
    log = [talk for talk in conversations if any(map(speaks, talk.messages))]
    if len(log) < LEAST:
        raise InvalidConfiguration(
            f"{len(log)} conversations with user turns came; a fit takes {LEAST} or more, and is "
            "of use from a few hundred on"
        )
    if simulated < 100:
        raise InvalidConfiguration(f"simulated={simulated!r}; it takes 100 conversations or more")
    if labelled is None:
        turns = [message for talk in log for message in talk.said_by("user")]
        labelled = 2 * sum(bool(message.acts) for message in turns) >= len(turns)
    if labelled:
        _check_labels(log, env.domain)
    reader = Reader(env.domain, labelled)
    talks = [reader.talk(conversation) for conversation in log]
    simulation = Simulation(env, reader, agents or scripted_agents(env.domain))
    shares = None if agents else _shares(simulation, talks, seed)
    if not labelled:
        words = [m.content for c in log for m in c.said_by("user") if m.content.strip()]
        simulation.familiar = _familiar(simulation, reader.sureness(words[:MOST_WORDS]), seed)

    def play(logits: Floats) -> list[Trace]:
        bases = dict(zip((p.name for p in POINTS), _sigmoid(logits).tolist(), strict=True))
        return simulation.run(DecisionModel(bases), simulated, seed, shares)

    return _fit(env_id, talks, play)


def _fit(env_id: str, talks: Sequence[Talk], play: Any) -> DecisionFit:
    own = np.array([math.log(point.base / (1 - point.base)) for point in POINTS])
    logits, traces = own.copy(), play(own)
    rates = common_rates(talks, [trace.talk for trace in traces], LEAST)
    logged = count_rates(talks, rates)
    passed = np.array([trace.passed for trace in traces]).sum(axis=0) > 0
    gap_before = _Step.of(logged, traces, rates, passed).gap
    for _ in range(STEPS):
        step = _Step.of(logged, traces, rates, passed)
        moved = step.towards(logits[passed] - own[passed])
        logits[passed] += np.clip(moved, -FARTHEST, FARTHEST)
        traces = play(logits)
    step = _Step.of(logged, traces, rates, passed)
    covariance = step.covariance()
    names = [point.name for point, yes in zip(POINTS, passed, strict=True) if yes]
    found, sds = logits[passed], np.sqrt(np.diag(covariance))
    ends = [_sigmoid(found + sign * _NINETY_FIVE * sds) for sign in (0, -1, 1)]
    columns = [*(end.tolist() for end in ends), np.minimum(sds / PRIOR_SD, 1.0).tolist()]
    posterior = {n: DecisionPosterior(*row) for n, *row in zip(names, *columns, strict=True)}
    return DecisionFit(env_id, posterior, found, covariance, gap_before, step.gap)


@dataclass(frozen=True, eq=False)
class _Step:
    """Rates of the log and of a simulation, and how the latter move with K logits."""

    difference: Floats  # (M,) r* − r
    influences: tuple[Floats, Floats]  # (N, M) of the log's and of the simulated conversations
    variance: Floats  # (M,) of the difference
    moves: Floats  # (M, K) ∂r / ∂θ

    @classmethod
    def of(
        cls, logged: Rates, traces: Sequence[Trace], rates: Sequence[Rate], passed: Any
    ) -> _Step:
        counted = count_rates([trace.talk for trace in traces], rates)
        scores = np.array([trace.scores for trace in traces])[:, passed]
        n = len(traces)
        told = (counted.turns >= LEAST) & ~np.isnan(counted.values)
        influence = counted.influence[:, told]
        moves = influence.T @ scores / n
        noise = np.sqrt((influence**2).T @ scores**2) / n
        values, wanted = counted.values[told], logged.values[told]
        both = (influence, logged.influence[:, told])
        sampled = _chance(both)
        middle = ((values + wanted) / 2).clip(0.01, 0.99)
        return cls(
            wanted - values,
            both,
            sampled + MODEL_ERROR**2 * middle * (1 - middle),
            np.where(np.abs(moves) > TOLD * noise, moves, 0.0),
        )

    @property
    def gap(self) -> float:
        return float(np.mean(self.difference**2 / self.variance))

    def _gain(self) -> Floats:
        """What a difference of rates moves the logits by.  # (K, M)

        Differences that stand out weigh less (Huber, 1964): users may do what no base explains.
        """
        outlying = np.abs(self.difference) / np.sqrt(self.variance) / HUBER
        weighed = self.moves / (self.variance * np.maximum(outlying, 1.0))[:, None]
        curvature = weighed.T @ self.moves + np.eye(self.moves.shape[1]) / PRIOR_SD**2
        return np.asarray(np.linalg.solve(curvature, weighed.T), dtype=np.float64)

    def towards(self, off: Floats) -> Floats:
        """The Gauss-Newton step from logits that are `off` from the prior's."""
        gain = self._gain()
        moved: Floats = gain @ (self.difference + self.moves @ off) - off
        return moved

    def covariance(self) -> Floats:
        """Of the logits: chance of both samples, error of the model, and what the log leaves open.

        Rates hang together, so chance is taken conversation by conversation.
        """
        gain = self._gain()
        open_ = np.eye(len(gain)) - gain @ self.moves
        model = self.variance - _chance(self.influences)
        found: Floats = PRIOR_SD**2 * open_ @ open_.T + (gain * model) @ gain.T
        for influence in self.influences:
            each: Floats = influence @ gain.T
            found = found + each.T @ each / len(each) ** 2
        return found


def _chance(influences: tuple[Floats, Floats]) -> Floats:
    """Variance of a difference of rates by the chance of both samples.  # (M,)"""
    first, second = ((part**2).mean(axis=0) / len(part) for part in influences)
    found: Floats = first + second
    return found


def _familiar(simulation: Simulation, wanted: float, seed: int) -> float:
    """The share of familiar wordings with which the reader is as sure of its reading as `wanted`.

    What it has learned from it reads without fault, and strangers' words it does not: only as far
    as simulated words are as strange do both sides carry the same errors.
    """
    sure = []
    for simulation.familiar in (0.0, 1.0):
        traces = simulation.run(DecisionModel(), LEAST * 3, seed)
        sure.append(simulation.reader.sureness([text for t in traces for text in t.texts]))
    strange, familiar = sure
    if familiar <= strange:
        return 1.0
    return float(np.clip((wanted - strange) / (familiar - strange), 0.0, 1.0))


def _shares(simulation: Simulation, talks: Sequence[Talk], seed: int) -> Floats:
    """Of the scripted agents, such that together they say each thing as often as the log's."""
    try:
        from scipy.optimize import nnls
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error

    count = len(simulation.agents)
    each = [
        [trace.talk for trace in simulation.run(DecisionModel(), LEAST * 3, seed, one)]
        for one in np.eye(count)
    ]
    kinds = sorted({kind for part in (*each, talks) for talk in part for kind in talk.heard})

    def heard(part: Sequence[Talk]) -> list[float]:
        return [sum(talk.heard[kind] for talk in part) / len(part) for kind in kinds]

    # The last row makes the shares sum to about 1: as weighty as the commonest thing said.
    table, wanted = np.array([heard(part) for part in each]).T, np.array(heard(talks))
    scale = np.sqrt(wanted + table.mean(axis=1))
    most = float(wanted.max(initial=1.0))
    rows = np.vstack([table / scale[:, None], np.full(count, most)])
    found: Floats = nnls(rows, np.append(wanted / scale, most))[0]
    return found / found.sum()


def _check_labels(log: Sequence[Conversation], domain: Domain) -> None:
    known = {name.removesuffix("_wrong") for name in domain.vocabulary}
    acts = [name for c in log for m in c.said_by("user") for name, _ in labels_of(m)]
    strange = [act for act in acts if act not in known]
    if 2 * len(strange) >= len(acts):
        what = f"such as {strange[0]!r}" if strange else "at all"
        raise InvalidConfiguration(
            f"labelled=True came with {len(acts) - len(strange)} of {len(acts)} acts that users of "
            f"this environment do ({'others ' if strange else 'no labels '}{what}); name acts as "
            "its user_acts, or take labelled=False"
        )


def _sigmoid(logits: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-logits))
    return found
