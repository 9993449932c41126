"""Belief, mask and view come from what the agent has seen, and from nothing else.

Many buyers are treated to the same acts. Wherever two of them have looked the same so far, in what
they said, in tool results and in the policy document, their belief rows, masks and views must be
the same, however different their wishes, their walk-away prices and what is right for them.
"""

import dataclasses
import json
from collections import defaultdict

import numpy as np
from sales_driven import DESK, act_of, begin, belief

from convgym.domains.sales import rules, shelves, tasks
from convgym.domains.sales.tasks import draw_task
from convgym.domains.sales.vocabulary import ACTIONS, LAYOUT
from convgym.domains.sales.world import EACH, money_text, world
from convgym.engine.keys import TASK, below, draw
from convgym.policies.sales import OraclePolicy

SHOP = world()


def varied(task, number):
    """The same task with other hidden fields, and with what is right for them."""

    def pick(index, options):
        options = list(options)
        return options[below(draw(number, TASK, 9, index), len(options))]

    must = task.must
    if pick(0, range(4)) == 0:
        must = pick(1, shelves.NEEDS)
    musts = [f for f in range(8) if must >> f & 1]
    quantity = pick(2, (task.quantity, task.quantity, 1, 2, 3, 9, 14))
    knowledge = pick(3, (0, task.knowledge))
    fits = shelves.fitting(task.week, task.category, must)
    values = rules.parameter_dict(task.parameters)
    within = rules.is_on(task.switches, "within_budget")
    stretch = values["stretch"] if within else rules.OWN_STRETCH
    sold = shelves.on_sale(SHOP, task.week, task.category, quantity, task.budget, stretch)
    eligible = tuple(product for product in fits if sold >> product % EACH & 1)
    allowed, best = tasks._lowest(SHOP, task.week, task.switches, values, eligible, quantity)
    walk = pick(4, (800_000, 890_000, 930_000, 960_000, 1_000_000, 1_200_000))
    branch = tasks.SELL if eligible else tasks.SOLD_OUT if fits else tasks.NOT_CARRIED
    branch = tasks.BULK if quantity > values["bulk_above"] else branch
    return dataclasses.replace(
        task,
        must=must,
        first=pick(5, musts),
        nice=pick(6, (-1, task.nice, pick(7, range(8)))),
        quantity=quantity,
        knowledge=knowledge if len(musts) == 2 or knowledge != 1 else 0,
        objection=pick(8, (-1, 0, 1, 2, 3)),
        wants_addon=pick(9, (False, True)),
        target=pick(10, (task.target, *tasks.TARGETS)),
        walk=walk,
        budget_kind=pick(11, (0, task.budget_kind)),
        rival=pick(12, range(4)),
        eligible=eligible,
        allowed=allowed,
        best=best,
        branch=branch,
        decision=tasks._decision(
            SHOP, branch, task.week, task.switches, allowed, best, quantity, walk
        ),
    )


def hidden(task):
    """What the agent wants to know and must not be told."""
    return (task.walk, task.objection, task.wants_addon, task.must, task.quantity, task.nice)


class Seen:
    """The visible history of one episode."""

    def __init__(self, task):
        self.text = DESK.policy_document(task)

    def add(self, action, episode):
        said = DESK.acts_json(episode, episode.user_turn) if episode.user_turn else "-"
        self.text += f"\nagent {action}\nbuyer {said}\n" + "\n".join(episode.tool_results)


def acts_of(leader, key, noise):
    """The acts of a noisy oracle with one buyer, which others are then treated to."""
    episode, engine = begin(leader, key)
    policy, chosen = OraclePolicy(noise=noise), []
    policy.reset(key)
    while not episode.end and len(chosen) < 26:
        number = act_of(policy, episode)
        chosen.append(number)
        engine.apply(episode, DESK.turn(episode, number))
    return chosen


def groups_of(leaders, followers, spoil=None):
    """Histories with the (belief, mask, view, hidden, depth) of all who share them."""
    groups = defaultdict(set)
    for lead in range(leaders):
        leader = draw_task("train", lead)
        script = acts_of(leader, lead, noise=(0.0, 0.1, 0.3)[lead % 3])
        buyers = [leader, *(varied(leader, 1000 * lead + one) for one in range(followers))]
        for task in buyers:
            episode, engine = begin(task, lead)
            seen = Seen(task)
            seen.add("", episode)
            for depth, act in enumerate([*script, None]):
                if spoil:
                    spoil(episode)
                row = belief(episode)
                mask = ACTIONS.mask(row).tobytes()
                view = json.dumps(DESK.view(episode), sort_keys=True)
                groups[seen.text].add((row.tobytes(), mask, view, hidden(task), depth))
                if act is None or episode.end:
                    break
                engine.apply(episode, DESK.turn(episode, act))
                seen.add(act, episode)
    return groups


def test_equal_histories_have_equal_beliefs_masks_and_views():
    pairs = deep = quoted = 0
    for history, group in groups_of(leaders=80, followers=60).items():
        for place, what in enumerate(("belief", "mask", "view")):
            kinds = {row[place] for row in group}
            assert len(kinds) == 1, f"two {what}s for one history:\n{history[-2000:]}\n{kinds}"
        goals = len({row[3] for row in group})
        found = goals * (goals - 1) // 2
        pairs += found
        deep += found if next(iter(group))[4] >= 6 else 0
        quoted += found if '"total"' in history else 0
    print(f"{pairs:,} pairs of different goals: {deep:,} from turn 6, {quoted:,} with a quote")
    assert pairs > 20_000
    assert deep > 2_000
    assert quoted > 500


def test_the_comparison_of_histories_would_notice_a_leak():
    """The same check fails when a belief cell is made to tell the walk-away price."""

    def tell(episode):
        episode.belief[LAYOUT["always"]] = episode.task.walk >= 1_000_000

    rows = groups_of(leaders=6, followers=30, spoil=tell).values()
    assert max(len({row[0] for row in group}) for group in rows) > 1


def test_the_mask_is_a_function_of_the_belief_alone():
    episode, engine = begin(draw_task("train", 1), 1)
    policy = OraclePolicy()
    for _ in range(8):
        row = belief(episode)
        mask = ACTIONS.mask(row)
        legal = [ACTIONS.is_legal(episode.belief, a) for a in range(len(ACTIONS))]
        assert legal == mask.tolist()
        engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
    everything = np.ones_like(row)
    assert ACTIONS.mask(everything).all()


def test_an_illegal_act_is_an_error_and_changes_nothing_else():
    episode, engine = begin(draw_task("train", 1), 1)
    illegal = np.flatnonzero(ACTIONS.mask(belief(episode)) == 0)
    assert len(illegal) > 30
    for number in illegal[:4]:
        before = bytes(episode.belief[3:])
        engine.apply(episode, DESK.turn(episode, int(number)))
        assert bytes(episode.belief[3:]) == before
        assert "refers to nothing seen so far" in episode.tool_results[0]
    assert episode.errors == 4
    assert not episode.end


def test_nothing_is_in_view_before_it_was_said_or_read():
    looked = 0
    for number in range(150):
        task = draw_task("test", number)
        episode, engine = begin(task, number)
        policy, said = OraclePolicy(noise=0.1), set()
        policy.reset(number)
        while True:
            turn = episode.user_turn
            if turn:
                said |= set(turn.acts)
            shown = json.dumps(DESK.view(episode)) + "".join(episode.tool_results)
            secrets = {
                "inform_budget": money_text(task.budget),
                "counter_offer": f'"percent": "{(1000 - task.target) // 10}%"',
                "object_competitor": '"rival"',
            }
            for act, secret in secrets.items():
                if DESK.vocabulary[act] not in said and act != "inform_budget":
                    assert secret not in shown
                    looked += 1
            if DESK.vocabulary["inform_budget"] not in said:
                assert '"budget"' not in shown
            for product, seen in enumerate(episode.desk.view):
                listed = DESK.view(episode)["products"][str(product)]
                assert ("stock" in listed) == bool(episode.desk.read >> seen & 1)
            if episode.end:
                break
            engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
    assert looked > 2000
