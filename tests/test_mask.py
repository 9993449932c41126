"""Mask, belief and observations come from what the agent has seen, and from nothing else.

Many tasks are played with the same acts. Wherever two of them have looked the same so far,
in words, tool results and policy document, their belief rows and masks must be the same,
however different the customers' goals are.
"""

import dataclasses
import itertools
import json
import re
from collections import defaultdict

import gymnasium as gym
import numpy as np
import pytest

from convgym.domains.customer_service import rules, tasks
from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.domains.customer_service.vocabulary import (
    ACTIONS,
    GET_ORDER,
    GET_STATED_ORDER,
    LIST_ORDERS,
    USER_ACTS,
    WRITE,
    U,
)
from convgym.domains.customer_service.world import ITEMS, MONTHS, world
from convgym.engine.acts import DENY, OFFER
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.rules import REFUSE, Decision
from convgym.envs.conversation_env import ACTION_MODES, OBSERVATIONS
from convgym.evaluation.evaluate import evaluate
from convgym.language.style import Style
from convgym.language.voice import TEMPLATE
from convgym.policies.scripted import OraclePolicy, RandomPolicy
from convgym.users.agenda import AgendaUser
from convgym.users.persona import draw_levels

ID = "ConvGym/CustomerService-v0"
DESK = CustomerServiceDesk()
SCALE = np.array([DESK.scales.get(name, 1.0) for name in DESK.layout], dtype=np.float32)
ENGINE = Engine(DESK, AgendaUser(U), 30)
SHOP = world()
VOICE = DESK.user_voices()["train"]

# -- equal histories, equal masks ------------------------------------------------------------------


def under(task, values):
    """`task` under another policy, with what is right under it."""
    parameters = rules.parameter_dict(values)
    facts = rules.order_facts(SHOP, task.order, task.reason)
    if task.branch == tasks.IMPOSTOR:
        decision = Decision(REFUSE, "unverified")
    else:
        decision = rules.decide(task.workflow, facts, parameters)
    return dataclasses.replace(
        task,
        parameters=values,
        decision=decision,
        fee=rules.RULES.term("fee", facts, parameters),
        channel=rules.RULES.term("channel", facts, parameters),
    )


def begin(task, key):
    episode = Episode(task, key, 0, DESK.layout.row())
    DESK.open(episode, draw_levels(key))
    ENGINE.open(episode)
    return episode


NAME = re.compile(
    r"[\w.]+@example\.(?:com|org)"
    r"|\bW?\d{5}\b"
    r"|\d+ [A-Z]\w+ [A-Z]\w+, [A-Z]\w+"
    r'|(?<="customer": ")[^"]+'
    rf"|\d+ (?:{'|'.join(MONTHS)})"
    rf"|{'|'.join(sorted((item[0] for item in ITEMS), key=len, reverse=True))}"
)
AMOUNT = re.compile(r'(?<="amount": )\d+\.\d+')
DAYS = re.compile(r'(?<="days_since_delivery": )\d+')


class Seen:
    """The visible history of one episode, names written as `<1>`, `<2>` in order of coming.

    Sums and days are kept as far as this policy's document tells them apart.
    """

    def __init__(self, task):
        self.names = {}
        parameters = rules.parameter_dict(task.parameters)
        self.sums = (parameters["transfer_above"],)
        self.days = (parameters["return_window"], parameters["credit_after"])
        self.history = DESK.policy_document(task)

    def add(self, action, episode):
        said = ""
        if episode.user_turn:
            # The same words for everybody: what differs is what is said.
            spoken = DESK.spoken(episode, episode.user_turn)
            said = VOICE.say(spoken, Style(), 0, episode.turn, TEMPLATE)
        self.history += f"\nagent {action}\n{self.plain(said)}"
        for result in episode.tool_results:
            result = AMOUNT.sub(lambda m: self.above(self.sums, float(m[0]) * 100), result)
            result = DAYS.sub(lambda m: self.above(self.days, int(m[0])), result)
            self.history += "\ntool " + self.plain(result)

    @staticmethod
    def above(limits, number):
        return "".join("+" if number > limit else "-" for limit in limits)

    def plain(self, text):
        return NAME.sub(lambda m: f"<{self.names.setdefault(m[0], len(self.names))}>", text)


def acts_of(leader, key, noise):
    """The acts of a noisy oracle with one customer, which others are then treated to."""
    episode, policy, acts = begin(leader, key), OraclePolicy(noise=noise), []
    policy.reset(key)
    while not episode.end and len(acts) < 14:
        row = np.frombuffer(bytes(episode.belief), np.uint8)
        number, _ = policy.predict(row * SCALE, action_masks=ACTIONS.mask(row))
        acts.append(number)
        ENGINE.apply(episode, DESK.turn(episode, number))
    return acts


def hidden(task):
    """What the agent wants to know and must not be told."""
    return (task.workflow, task.branch, task.order, task.reason, task.knowledge, task.customer)


def test_equal_histories_have_equal_masks():
    groups = defaultdict(list)
    for lead in range(60):
        leader = DESK.task("test", lead)
        acts = acts_of(leader, lead, noise=(0.0, 0.15, 0.4)[lead % 3])
        followers = (DESK.task("test", number) for number in range(100, 700))
        alike = [t for t in followers if t.workflow == leader.workflow or lead % 3 == 2]
        for task, extra in itertools.product([leader, *alike[:120]], (0, 1)):
            task = under(task, leader.parameters)
            episode, seen = begin(task, lead + 1000 * extra), Seen(task)
            seen.add("", episode)
            for depth, act in enumerate([*acts, None]):
                groups[seen.history].append((bytes(episode.belief), hidden(task), depth))
                if act is None or episode.end:
                    break
                ENGINE.apply(episode, DESK.turn(episode, act))
                seen.add(act, episode)
    pairs = deep = read = 0
    for history, group in groups.items():
        rows = {belief for belief, _, _ in group}
        assert len(rows) == 1, "two conversations that look the same have different beliefs"
        masks = {ACTIONS.mask(np.frombuffer(row, np.uint8)).tobytes() for row in rows}
        assert len(masks) == 1
        goals = {goal for _, goal, _ in group}
        found = len(goals) * (len(goals) - 1) // 2
        pairs += found
        deep += found if group[0][2] >= 4 else 0
        read += found if '"status": ' in history else 0
    print(f"{pairs:,} pairs of different goals: {deep:,} from turn 4, {read:,} with an order read")
    assert pairs > 100_000
    assert deep > 20_000
    assert read > 2_000


def test_the_comparison_of_histories_would_notice_a_leak():
    """The same check fails when a belief cell is made to tell the branch."""
    rows = defaultdict(set)
    for number in range(100):
        task = under(DESK.task("test", number), DESK.task("test", 0).parameters)
        episode, seen = begin(task, 5), Seen(task)
        seen.add("", episode)
        episode.belief[-1] = task.branch
        rows[seen.history].add(bytes(episode.belief))
    assert max(map(len, rows.values())) > 1


def test_the_mask_is_a_function_of_the_belief_alone():
    episode = begin(DESK.task("test", 1), 1)
    row = np.frombuffer(bytes(episode.belief), np.uint8)
    mask = ACTIONS.mask(row)
    assert [ACTIONS.is_legal(episode.belief, a) for a in range(len(ACTIONS))] == mask.tolist()
    batch = np.stack([row, np.ones_like(row), np.zeros_like(row)])
    assert ACTIONS.mask(batch).tolist() == [ACTIONS.mask(r).tolist() for r in batch]
    assert ACTIONS.mask(batch)[1].all()


def test_the_mask_alone_is_not_worth_anything():
    env = gym.make(ID, observation="features", action="act")
    assert evaluate(RandomPolicy(), env, episodes=500, split="test").success <= 0.05


# -- nothing hidden is shown -----------------------------------------------------------------------

READS = (LIST_ORDERS, GET_ORDER, GET_STATED_ORDER, WRITE)
SECRETS = {
    "email": lambda task: SHOP.email(task.customer),
    "email_wrong": lambda task: SHOP.wrong_email(task.customer),
    "postcode": lambda task: SHOP.postcode_text(task.customer),
    "postcode_wrong": lambda task: SHOP.wrong_postcode(task.customer),
    "order": lambda task: SHOP.order_id(task.order),
    "order_wrong": lambda task: SHOP.wrong_order_id(task.order),
    "item": lambda task: SHOP.item_name(task.order),
    "address": lambda task: SHOP.address(task.customer),
    "customer": lambda task: SHOP.name(task.customer),
}


def holds(text, value):
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


def shown(observation, info, prompt):
    """All that a learner can read, without the document that everybody may know."""
    parts = dict(observation) if isinstance(observation, dict) else {"observation": observation}
    for key in ("policy", "tools", "features"):
        parts.pop(key, None)
    words = [str(part) for part in parts.values() if not isinstance(part, np.ndarray)]
    words += [f"{value}" for key, value in info.items() if key != "failure_reason"]
    return "\n".join(words).replace(prompt, "")


@pytest.mark.parametrize("action", ACTION_MODES)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_no_goal_is_shown_before_it_is_uttered(observation, action):
    """Uttered: the customer has said it, or a tool that reads orders was asked for it."""
    env = gym.make(ID, observation=observation, action=action).unwrapped
    looked = 0
    for number in range(120):
        task, known, refused = DESK.task("test", number), set(), False
        policy = OraclePolicy(noise=0.2 * (number % 2))
        policy.reset(number)
        observed, info = env.reset(seed=number, options={"task_id": task.task_id})
        ended = False
        while True:
            episode = env._episode
            if episode.user_turn:
                known |= {USER_ACTS[act].removeprefix("inform_") for act in episode.user_turn.acts}
            if "email" in known:
                known.add("customer")
            text = shown(observed, info, env.system_prompt)
            for name, secret in SECRETS.items():
                if name not in known:
                    assert not holds(text, secret(task)), f"{name} of {task.task_id}"
                    looked += 1
            if task.decision.effect == REFUSE and not refused:
                assert task.decision.reason not in text
                assert not task.decision.alternative or task.decision.alternative not in text
            assert "privileged" not in info
            assert info["oracle_length"] == 0 or ended
            if ended:
                break
            belief = np.frombuffer(bytes(episode.belief), np.uint8)
            act, _ = policy.predict(belief * SCALE, action_masks=ACTIONS.mask(belief))
            kind = ACTIONS.actions[act].kind
            known |= {"order", "item"} if kind in READS else set()
            refused |= kind in (DENY, OFFER)
            sent = DESK.agent_text(episode, act) if action == "text" else act
            observed, _, terminated, truncated, info = env.step(sent)
            ended = terminated or truncated
    assert looked > 3000


def test_the_privileged_goal_is_complete_where_it_is_asked_for():
    env = gym.make(ID, privileged=True)
    _, info = env.reset(seed=1, options={"task_id": "test-5"})
    task, told = DESK.task("test", 5), json.loads(info["privileged"])
    assert told["order"] == SHOP.order_id(task.order)
    assert told["workflow"] == rules.WORKFLOWS[task.workflow]
    assert tuple(told["decision"]) == (task.decision.effect, task.decision.reason)
