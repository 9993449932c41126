"""Agents that trade off: the oracle with knobs, whose replies do one act or several.

    "May I have your email? I ask so that nobody else …"     ask_email + explain     0.09
                                                             (a reply 0.04, an act 0.025)

What pays hangs on the users: to explain ahead costs words in every conversation, and saves a reply
where they would have asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convgym.desk.declaration import Workflow
from convgym.desk.vocabulary import QUESTIONS
from convgym.engine.acts import FIRST_TOOL
from convgym.policies.policy import belief_of
from convgym.policies.scripted import DeskSight, OraclePolicy

CHEAP, DEAR = (0.04, 0.025), (0.08, 0.025)
"""Costs of each reply that says something, and of each act, tools included.

`CHEAP`: every conversation pays, and agents differ in how. `DEAR`: it pays with the environment's
own users, and not with others, whom it is better to hand over early.
"""


@dataclass(frozen=True)
class Knobs:
    """How an agent talks; the defaults are the oracle's ways."""

    answers: bool = True
    """Explains what users ask."""
    explains_asking: bool = False
    """Explains what it asks for in the same reply."""
    explains_ending: bool = False
    """Explains what it tells or reports in the same reply: that it is certain, and what is next."""
    asks_ahead: bool = False
    """Asks for key, secret and record in one reply."""
    tells_ahead: bool = False
    """Tells all facts, or all terms with the question for a yes, in one reply."""
    offers: bool = True
    """Offers what there is instead of what it refuses."""
    offers_ahead: bool = False
    """Refuses and offers in one reply."""
    ends_ahead: bool = False
    """Asks with its report whether there is anything else."""
    apologises: bool = False
    """Says sorry, in the same reply, once users show that they mind."""
    chats: bool = False
    """Says something friendly in each reply."""
    retries: int = 9
    """Times that it asks for the same thing again before it hands over."""
    patience: int = 40
    """Steps after which it hands over."""


OPTIONS: dict[str, tuple[Any, ...]] = {
    **{name: (False, True) for name, kind in Knobs.__annotations__.items() if kind == "bool"},
    "patience": (1, 12, 18, 24, 40),
}
"""What a search sets."""


class KnobAgent(OraclePolicy):
    """Plays what its knobs say; `noise` is the share of replies that are one act at random."""

    def __init__(self, knobs: Knobs, noise: float = 0.0) -> None:
        super().__init__(noise)
        self.knobs = knobs
        self._chance = np.random.default_rng(0)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self._chance = np.random.default_rng(seed & (2**63 - 1))
        self._steps, self._times = 0, {}

    def predict(
        self, observation: Any, state: Any = None, start: Any = None, deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[tuple[int, ...], Any]:  # fmt: skip
        self._steps += 1
        if self.noise and self._chance.random() < self.noise:
            return (int(self._chance.choice(np.flatnonzero(action_masks))),), state
        see = DeskSight(belief_of(observation), self.layout)
        numbers = dict.fromkeys(self.actions[name] for name in self._reply(see))
        legal = tuple(number for number in numbers if action_masks[number])
        return legal or (self.actions["transfer_to_human"],), state

    def _reply(self, see: DeskSight) -> list[str]:
        knobs = self.knobs
        self._with: list[str] = []
        main = self.choose(see)
        self._times[main] = self._times.get(main, 0) + 1
        asks = main.startswith("ask_") and main not in ("ask_intent", "ask_more")
        if self._steps > knobs.patience or (asks and self._times[main] > 1 + knobs.retries):
            return ["transfer_to_human"]
        if self.actions.actions[self.actions[main]].kind >= FIRST_TOOL:
            return [main]
        reply = [main, *self._with]
        if asks and knobs.asks_ahead:
            reply += self._asks_ahead(see)
        if asks and knobs.explains_asking and self._times[main] == 1:
            reply.append("explain")
        ends = main == "report_done" or (main.startswith("inform_") and not self._term)
        if ends and knobs.explains_ending:
            reply.append("explain")
        if ends and knobs.ends_ahead:
            reply.append("ask_more")
        minds = ("frustrated", "challenge", "challenge_done", "remind_promise", "push_back")
        if knobs.apologises and any(see(f"said_{act}") for act in minds):
            reply.insert(0, "apologise")
        if knobs.chats:
            reply.append("greet")
        return reply

    def choose(self, see: DeskSight) -> str:
        self._term = False
        if not self.knobs.answers:
            row = see.row.copy()
            row[[self.layout[f"said_{question}"] for question in QUESTIONS]] = 0
            see = DeskSight(row, self.layout)
        return super().choose(see)

    def _asks_ahead(self, see: DeskSight) -> list[str]:
        workflow = self.workflow(see)
        slots = [self.d.account.key, *([self.d.account.secret] if see("two_factors") else [])]
        if workflow is not None and workflow.kind:
            slots.append(workflow.kind)
        return [f"ask_{slot}" for slot in slots if not see(f"heard_{slot}")]

    def told_all(self, see: DeskSight, workflow: Workflow, end: str) -> str:
        if self.knobs.tells_ahead:
            self._with += [f"inform_{fact}{end}" for fact in workflow.facts]
        return super().told_all(see, workflow, end)

    def serve(self, see: DeskSight, workflow: Workflow, end: str) -> str:
        main = super().serve(see, workflow, end)
        self._term = main.startswith("inform_") and not workflow.facts
        if self._term and self.knobs.tells_ahead:
            for term in workflow.terms:
                due = see(self._cell(workflow, f"{term}_due", end))
                self._with.append(f"inform_{term}_{self.d.terms[term][int(due)]}")
            self._with.append(f"confirm_{workflow.name}{end}")
        return main

    def refuse(self, see: DeskSight, reason: str, offer: str) -> str:
        offer = offer if self.knobs.offers else ""
        if offer and self.knobs.offers_ahead:
            self._with.append(f"offer_{offer}")
            return f"deny_{reason}"
        return super().refuse(see, reason, offer)


def cost(agent: KnobAgent, numbers: tuple[int, ...], costs: tuple[float, float]) -> float:
    """Of one step."""
    speaks = any(agent.actions.actions[number].kind < FIRST_TOOL for number in numbers)
    return costs[0] * speaks + costs[1] * len(numbers)


def returns(env: Any, agent: KnobAgent, seeds: Any, costs: tuple[float, float]) -> np.ndarray:
    """Success less costs of the episodes of these seeds.  # (seeds,)"""
    return np.array([_return(env, agent, int(seed), costs) for seed in seeds])


def _return(env: Any, agent: KnobAgent, seed: int, costs: tuple[float, float]) -> float:
    seen, _ = env.reset(seed=seed)
    agent.reset(seed)
    total, done = 0.0, False
    while not done:
        numbers, _ = agent.predict(seen, action_masks=env.action_masks())
        seen, reward, terminated, truncated, _ = env.step(numbers)
        total += reward - cost(agent, numbers, costs)
        done = terminated or truncated
    return total


_BRIEF = Knobs(tells_ahead=True, offers_ahead=True)
AGENTS: dict[str, Knobs] = {
    "oracle": Knobs(),
    "brief": _BRIEF,
    "asks all": replace(_BRIEF, asks_ahead=True),
    "explains": replace(_BRIEF, explains_asking=True),
    "assures": replace(_BRIEF, explains_ending=True),
    "asks all, explains": replace(_BRIEF, asks_ahead=True, explains_asking=True),
    "asks all, assures": replace(_BRIEF, asks_ahead=True, explains_ending=True),
    "explains, assures": replace(_BRIEF, explains_asking=True, explains_ending=True),
    "all three": replace(_BRIEF, asks_ahead=True, explains_asking=True, explains_ending=True),
    "deaf": replace(_BRIEF, answers=False),
    "deaf, asks all": replace(_BRIEF, answers=False, asks_ahead=True),
    "deaf, apologises": replace(_BRIEF, answers=False, apologises=True),
    "offers when asked": Knobs(tells_ahead=True),
    "chats": replace(_BRIEF, chats=True),
    "ends ahead": replace(_BRIEF, ends_ahead=True),
    "hands over": replace(_BRIEF, patience=16),
}
"""Those whose ranks are compared."""
