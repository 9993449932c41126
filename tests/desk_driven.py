"""The support desk driven act by act, with nothing of Gymnasium around it."""

import json

import numpy as np

from convgym.domains.catalogue import domain_called
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.tasks import SPLITS
from convgym.policies.scripted import OraclePolicy
from convgym.users import decisions
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import DecisionModel
from convgym.users.persona import Persona, drawn_levels

DESK = domain_called("customer-service")
V, D, RECORDS = DESK.v, DESK.declaration, DESK.records
ACTIONS, CELL = DESK.actions, DESK.layout
SCALE = np.array([DESK.scales.get(name, 1.0) for name in DESK.layout], dtype=np.float32)
MOST_TURNS = 60
CALM = Persona(patience=1.0, assertiveness=0.0, accuracy=1.0).levels


class Fixed(DecisionModel):
    """These choices always turn out the same way; the others are the user's."""

    def __init__(self, **wanted):
        super().__init__()
        self.wanted = {decisions.NUMBER[name]: value for name, value in wanted.items()}

    def choice(self, point, persona, situation=0):
        if point in self.wanted:
            return (2**32 if self.wanted[point] else 0, 0, 0)
        return super().choice(point, persona, situation)


SILENT = {"greet_only": 0, "front_load": 0, "volunteer": 0}
UNQUESTIONING = {"ask_why": 0, "ask_meaning": 0, "doubt": 0, "ask_next": 0}
SURE = {"misremember": 0, "look_up": 1, "push_again": 0, "accept": 1, "close_now": 1}
PLAIN = {**SILENT, **UNQUESTIONING, **SURE, "raise_next": 1, "leave": 0, "tangent": 0}
"""Answers what it is asked and no more, disputes nothing, and goes on or leaves at once."""


def user(**wanted):
    """A customer some of whose choices are settled."""
    return AgendaUser(DESK.vocabulary, Fixed(**wanted))


class Talk:
    """One conversation under way, with a name for everything that is looked at."""

    def __init__(self, task, key=1, customer=None, levels=None, turns=MOST_TURNS):
        self.task = task
        self.episode = Episode(task, key, key, DESK.layout.row())
        DESK.open(self.episode, drawn_levels(key, task.split) if levels is None else levels)
        self.engine = Engine(DESK, customer or AgendaUser(DESK.vocabulary), turns)
        self.engine.open(self.episode)
        self.oracle = OraclePolicy()

    def act(self, *names):
        """Do these acts in turn, which the episode has to outlast."""
        for name in names:
            assert not self.episode.end, f"{self.episode.end} before {name}"
            self.engine.apply(self.episode, DESK.turn(self.episode, ACTIONS[name]))
        return self

    def apply(self, turn):
        """Take an agent turn that no single act stands for."""
        self.engine.apply(self.episode, turn)
        return self

    def wanted(self):
        """What the oracle would do now."""
        row = np.frombuffer(bytes(self.episode.belief), np.uint8)
        number, _ = self.oracle.predict(
            row * SCALE, deterministic=True, action_masks=ACTIONS.mask(row)
        )
        return ACTIONS.names[number]

    def until(self, stop):
        """Let the oracle act until `stop()` holds or the conversation is over."""
        while not (self.episode.end or stop()):
            self.act(self.wanted())
        return self

    def served(self):
        """Let the oracle act to the end."""
        return self.until(lambda: False)

    def next_act(self, *beginnings):
        """Let the oracle act until it would do something that begins so."""
        return self.until(lambda: self.wanted().startswith(beginnings))

    def at_request(self, place):
        """Let the oracle act until the customer is at its `place`-th request."""
        return self.until(lambda: self.episode.desk.at == place)

    @property
    def grade(self):
        return DESK.grade(self.episode)

    @property
    def said(self):
        """The customer's newest acts by name; empty where the agent kept the floor."""
        turn = self.episode.user_turn
        return [V.user_acts[act] for act in turn.acts] if turn else []

    @property
    def results(self):
        return [json.loads(result) for result in self.episode.tool_results]

    @property
    def violations(self):
        held = self.episode.violations
        return {code for bit, code in enumerate(DESK.violations) if held >> bit & 1}

    def cell(self, name):
        return self.episode.belief[CELL[name]]


def facts_of(task, request):
    """What the rules ask of a request, gathered field by field."""
    workflow = D.workflows[request.workflow]
    facts = {"always": 1}
    for field, column in RECORDS.columns[""].items():
        facts[field] = int(column[task.account])
    if workflow.kind:
        for field, column in RECORDS.columns[workflow.kind].items():
            facts[field] = int(column[request.row])
    for name in workflow.details:
        facts[name] = request.detail
    return facts


def names_of(task):
    """Names of the workflows that a task asks for, in order."""
    return [D.names[request.workflow] for request in task.requests]


def outcome(request):
    """What becomes of a request, comparable: effect, reason, alternative."""
    return (request.decision.effect, request.decision.reason, request.decision.alternative)


def shape(task):
    """(workflow, effect, reason) of each request."""
    return [
        (D.names[r.workflow], r.decision.effect, r.decision.reason) for r in task.requests
    ]


def task_like(fits, split="validation", count=2000):
    """The first task of a split that `fits`."""
    for number in range(count):
        task = DESK.task(split, number)
        if fits(task):
            return task
    raise AssertionError("no such task")


def tasks_like(fits, most, splits=("validation", "test"), count=2000):
    """The first tasks that fit, at most so many of each split."""
    for split in splits:
        found = 0
        for number in range(min(count, SPLITS[split])):
            task = DESK.task(split, number)
            if found < most and fits(task):
                found += 1
                yield task
