"""A sale played up to a point by the oracle, with a buyer of few words, and then by the test."""

import dataclasses

from sales_driven import DESK, act_of, begin

from convgym.domains.sales import rules, tasks
from convgym.domains.sales.tasks import draw_task
from convgym.domains.sales.vocabulary import ACTIONS, CREATE_QUOTE, LAYOUT, VIEW
from convgym.domains.sales.world import world
from convgym.engine.acts import AgentTurn, Call
from convgym.engine.rules import ALLOW
from convgym.policies.sales import OraclePolicy
from convgym.users.decisions import NUMBER, DecisionModel
from convgym.users.persona import Persona

SHOP = world()
PATIENT = Persona(patience=1.0, accuracy=1.0, scepticism=0.0, curiosity=0.0, expertise=1.0)


class Plain(DecisionModel):
    """A buyer without talk of its own; it haggles only where it would not pay."""

    NEVER = ("greet_only", "front_load", "volunteer", "misremember", "ask_why", "ask_meaning",
             "doubt", "ask_next", "push_again", "tangent", "haggle", "object", "leave")  # fmt: skip

    def choice(self, point, persona, situation=0):
        if point in {NUMBER[name] for name in self.NEVER}:
            return (0, 0, 0)
        return super().choice(point, persona, situation)


BUYER = DESK.make_user(Plain())


def sale(switches=(), **wanted):
    """The first train task that can be sold, with these fields and just these switches on."""
    task = next(
        task
        for task in (draw_task("train", number) for number in range(6000))
        if task.branch == tasks.SELL
        and task.decision.effect == ALLOW
        and all(getattr(task, name) == value for name, value in wanted.items())
        and len(task.best) == len(task.eligible)
        and not any(SHOP.clearance[task.week][p] for p in task.eligible)
    )
    return dataclasses.replace(task, switches=rules.switch_bits(*switches), knowledge=0)


def until(episode, engine, start):
    """Let the oracle act until its next act begins so; returns the pointer."""
    for _ in range(60):
        name = ACTIONS.names[act_of(OraclePolicy(), episode)]
        if name.startswith(start):
            return int(name[-1]) if name[-1].isdigit() else -1
        engine.apply(episode, DESK.turn(episode, ACTIONS[name]))
    raise AssertionError(start)


def do(episode, engine, *names):
    for name in names:
        engine.apply(episode, DESK.turn(episode, ACTIONS[name]))


def broken(episode):
    return {name for bit, name in enumerate(rules.VIOLATIONS) if episode.violations >> bit & 1}


def at(start, task=None, **wanted):
    """Episode, engine and pointer just before the oracle's act that begins so."""
    episode, engine = begin(task or sale(**wanted), 5, BUYER, PATIENT)
    return episode, engine, until(episode, engine, start)


def objected():
    """Just after the buyer has objected to the list price; authority 20 %, steps of 5 %."""
    task = next(
        task
        for task in (draw_task("train", number) for number in range(20000))
        if task.branch == tasks.SELL
        and task.parameters[:2] == (200, 50)
        and task.objection < 0
        and not task.pays(0)
        and task.pays(200)
        and not task.pays(150)
    )
    task = dataclasses.replace(task, switches=0, knowledge=0)
    episode, engine, k = at("lower_quote", task)
    assert not broken(episode)
    return episode, engine, k


def requote(episode, engine, k, discount):
    call = Call(CREATE_QUOTE, episode.task.quantity, k, discount)
    engine.apply(episode, AgentTurn(calls=(call,)))


def quoted(episode):
    return next(k for k in VIEW if episode.belief[LAYOUT[f"told_price_{k}"]])
