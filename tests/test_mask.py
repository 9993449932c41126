"""Mask, belief and observations come from what the agent has seen, and from nothing else.

Many tasks are played with the same acts. Wherever two of them have looked the same so far,
in what was said, tool results and policy document, their belief rows and masks must be the same,
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
from desk_driven import ACTIONS, DESK, RECORDS, SCALE, D, Talk, facts_of, names_of, task_like

from convgym.desk.tasks import KNOWLEDGES
from convgym.desk.vocabulary import GET, GET_STATED, LIST, WRITE
from convgym.domains.customer_service.world import MONTHS
from convgym.engine.acts import DENY, OFFER
from convgym.engine.rules import REFUSE, TRANSFER
from convgym.envs.conversation_env import ACTION_MODES, OBSERVATIONS
from convgym.evaluation.evaluate import evaluate
from convgym.policies.policy import RandomPolicy
from convgym.policies.scripted import OraclePolicy
from convgym.users.agenda import AgendaUser

ID = "ConvGym/CustomerService-v0"
USER = AgendaUser(DESK.vocabulary)
ALIASED = {
    "customer", "order", "subscription", "charge", "item", "plan", "placed", "started", "charged",
    "bought", "town", "category",
}  # fmt: skip
"""Fields whose text names something: it matters what is the same, and not what it is."""
WEIGHED = {
    "amount": "amount", "days": "days", "category": "category", "returned": "received",
    "months": "months", "paid": "yearly", "purpose": "valid", "town": "town",
    "returns": "returns", "hold": "hold", "state": "state", "status": "stage",
}  # fmt: skip
"""Which column a field shows."""
DATE = re.compile(rf"\d+ (?:{'|'.join(MONTHS)})")
NUMBER = re.compile(r"[WSC]\d{5}")

# -- equal histories, equal masks ------------------------------------------------------------------


def under(task, values):
    """`task` under another policy, with what is right under it; None where that is no task."""
    parameters = dict(zip(D.parameters, values, strict=True))
    requests = []
    for name, request in zip(names_of(task), task.requests, strict=True):
        facts = facts_of(task, request) | parameters
        decision = D.rules_for(task.split).decide(name, facts, parameters)
        terms = tuple(D.rules.term(term, facts, parameters) for term in D.workflow[name].terms)
        if task.impostor:
            decision = request.decision
        requests.append(dataclasses.replace(request, decision=decision, terms=terms))
    if any(request.decision.effect == TRANSFER for request in requests[:-1]):
        return None
    return dataclasses.replace(task, parameters=values, requests=tuple(requests))


class Seen:
    """The visible history of one episode, names written as `<1>`, `<2>` in order of coming.

    Numbers are kept as far as this policy's rules tell them apart.
    """

    def __init__(self, task):
        self.names, self.parameters = {}, DESK.parameters(task)
        self.history = [DESK.policy_document(task)]
        self.conditions = defaultdict(list)
        for rule in D.rules_for(task.split).rules:
            for one in rule.when:
                self.conditions[one.field].append(one)

    def add(self, action, episode):
        self.history.append(f"agent {action}")
        turn = episode.user_turn
        for said in DESK.spoken(episode, turn) if turn else ():
            self.history.append(f"{said.act} {self.named(said.value)}")
        for result in episode.tool_results:
            self.history.append(str(self.plain(json.loads(result), episode)))

    def __str__(self):
        return "\n".join(self.history)

    def alias(self, text):
        return f"<{self.names.setdefault(text, len(self.names))}>"

    def plain(self, body, episode):
        """A tool's answer without what only a name or a number of no consequence tells."""
        if isinstance(body, list):
            return [self.plain(one, episode) for one in body]
        if not isinstance(body, dict):
            return body
        kind = next((kind.name for kind in D.kinds if kind.name in body), "")
        row = RECORDS.find(kind, body[kind]) if kind else episode.desk.account
        columns, kept = RECORDS.columns[kind], {}
        for field, value in body.items():
            if field in WEIGHED and WEIGHED[field] in columns:
                column = WEIGHED[field]
                known = {column: int(columns[column][row])}
                classes = [one.holds(known, self.parameters) for one in self.conditions[column]]
                kept[f"{field} is"] = "".join("+" if one else "-" for one in classes)
            if field in ALIASED or (kind == "charge" and field == "amount"):
                kept[field] = self.alias(value)
            elif field in ("delivery", "purpose", "stock"):
                kept[field] = self.named(value)
            elif field in ("status", "state", "hold", "paid") or field not in WEIGHED:
                kept[field] = self.plain(value, episode)
        return kept

    def named(self, text):
        """A text with the names in it written as others are: "size M: in stock", "5 May"."""
        parts = []
        for part in text.split(", ") if text else ():
            name, colon, state = part.partition(": ")
            whole = DATE.sub("", NUMBER.sub("", part)).strip() in ("", part)
            if colon or whole:
                parts.append(f"{self.alias(name)}{colon}{state}")
                continue
            for pattern in (DATE, NUMBER):
                part = pattern.sub(lambda match: self.alias(match[0]), part)
            parts.append(part)
        return ", ".join(parts)


def acts_of(leader, key, noise, most=18):
    """The acts of a noisy oracle with one customer, which others are then treated to."""
    talk, policy, acts = Talk(leader, key, USER), OraclePolicy(noise=noise), []
    policy.reset(key)
    while not talk.episode.end and len(acts) < most:
        row = np.frombuffer(bytes(talk.episode.belief), np.uint8)
        number, _ = policy.predict(row * SCALE, action_masks=ACTIONS.mask(row))
        acts.append(ACTIONS.names[number])
        talk.act(acts[-1])
    return acts


def hidden(task):
    """What the agent wants to know and must not be told."""
    return (task.requests, task.account, task.impostor)


def histories(split, leads, followers):
    """(belief, goal, depth) of all that looks the same, by what was seen so far."""
    groups = defaultdict(list)
    for lead in range(leads):
        leader = DESK.task(split, lead)
        acts = acts_of(leader, lead, noise=(0.0, 0.15, 0.4)[lead % 3])
        others = (DESK.task(split, number) for number in range(100, 2000))
        first = leader.requests[0].workflow
        alike = (t for t in others if t.requests[0].workflow == first or lead % 3 == 2)
        for task in (leader, *itertools.islice(alike, followers)):
            task = under(task, leader.parameters)
            if task is None:
                continue
            for key in (lead, lead + 1000):
                talk, seen = Talk(task, key, USER), Seen(task)
                seen.add("", talk.episode)
                for depth, act in enumerate([*acts, None]):
                    groups[str(seen)].append((bytes(talk.episode.belief), hidden(task), depth))
                    if act is None or talk.episode.end:
                        break
                    talk.act(act)
                    seen.add(act, talk.episode)
    return groups


@pytest.mark.parametrize("split", ["test", "test_policy", "test_primitive"])
def test_equal_histories_have_equal_masks(split):
    pairs = deep = read = second = 0
    for history, group in histories(split, leads=24, followers=60).items():
        rows = {belief for belief, _, _ in group}
        assert len(rows) == 1, "two conversations that look the same have different beliefs"
        masks = {ACTIONS.mask(np.frombuffer(row, np.uint8)).tobytes() for row in rows}
        assert len(masks) == 1
        goals = {goal for _, goal, _ in group}
        found = len(goals) * (len(goals) - 1) // 2
        pairs += found
        deep += found if group[0][2] >= 4 else 0
        read += found if " is': " in history.partition("agent")[2] else 0
        second += found if history.count("request_") > 1 else 0
    print(f"{pairs:,} pairs of different goals: {deep:,} from turn 4, {read:,} with a record read, "
          f"{second:,} at a second request")
    assert pairs > 100_000
    assert deep > 20_000
    assert read > 20_000
    assert second > 4_000


def test_the_comparison_of_histories_would_notice_a_leak():
    """The same check fails when a belief cell is made to tell the outcome."""
    rows = defaultdict(set)
    for number in range(100):
        task = under(DESK.task("test", number), DESK.task("test", 0).parameters)
        if task is not None:
            talk, seen = Talk(task, 5, USER), Seen(task)
            seen.add("", talk.episode)
            talk.episode.belief[-1] = task.requests[0].decision.effect == REFUSE
            rows[str(seen)].add(bytes(talk.episode.belief))
    assert max(map(len, rows.values())) > 1


def test_the_mask_is_a_function_of_the_belief_alone():
    episode = Talk(DESK.task("test", 1)).act("ask_email", "find_customer").episode
    row = np.frombuffer(bytes(episode.belief), np.uint8)
    mask = ACTIONS.mask(row)
    assert [ACTIONS.is_legal(episode.belief, a) for a in range(len(ACTIONS))] == mask.tolist()
    batch = np.stack([row, np.ones_like(row), np.zeros_like(row)])
    assert ACTIONS.mask(batch).tolist() == [ACTIONS.mask(r).tolist() for r in batch]
    assert ACTIONS.mask(batch)[1].all()


def test_what_is_legal_is_what_was_said_and_seen():
    """Each act's needs, by hand, for one workflow on each kind of record."""
    needs = {action.name: set(action.needs) for action in ACTIONS.actions}
    assert needs["confirm_cancel_1"] == {"order_seen_1", "wants_cancel"}
    assert needs["create_return_2"] == {"order_seen_2", "wants_return", "heard_reason"}
    assert needs["end_subscription_0"] == {"subscription_seen_0", "wants_subscription"}
    assert needs["unlock_account"] == {"found", "wants_access"}
    assert needs["credit_charge_0"] == {"charge_seen_0", "wants_billing", "heard_cause"}
    assert needs["inform_status_0"] == {"order_read_0", "wants_status"}
    assert needs["inform_remedy_repair"] == {"wants_warranty", "heard_defect", "read_any_order"}
    assert needs["deny_prepaid"] == {"can_deny_prepaid"}
    assert needs["get_charge_1"] == {"charge_seen_1"} and needs["list_charges"] == {"found"}
    for free in ("greet", "ask_intent", "ask_email", "apologise", "explain", "close", "ask_more",
                 "transfer_to_human", "end_conversation"):  # fmt: skip
        assert needs[free] == set()
    assert all(needs[f"ask_{slot}"] == set() for slot in D.slots)


def test_the_mask_alone_is_not_worth_anything():
    env = gym.make(ID, observation="features", action="act")
    assert evaluate(RandomPolicy(), env, episodes=500, split="test").success <= 0.02


# -- nothing hidden is shown -----------------------------------------------------------------------

READS = (LIST, GET, GET_STATED, WRITE)


def secrets(task):
    """Every value that this customer can state, right or wrong; and who it is."""
    found = set(DESK.goal_values(task).values()) | {RECORDS.text("", task.account, "name")}
    for field in (D.account.key, D.account.secret):
        found.add(RECORDS.wrong("", task.account, field))
    return {value for value in found if value}


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
@pytest.mark.parametrize("split", ["test", "test_primitive"])
@pytest.mark.parametrize("tasks", [30, pytest.param(60, marks=pytest.mark.slow)])
def test_no_goal_is_shown_before_it_is_uttered(observation, action, split, tasks):
    """Uttered: the customer has said it, or a tool that reads or changes records has."""
    env = gym.make(ID, observation=observation, action=action).unwrapped
    looked = 0
    for number in range(tasks):
        task, told, refused = DESK.task(split, number), set(), False
        values = secrets(task)
        policy = OraclePolicy(noise=0.2 * (number % 2))
        policy.reset(number)
        observed, info = env.reset(seed=number, options={"task_id": task.task_id})
        ended = False
        while True:
            episode = env._episode
            said = {act.get("value", "") for act in json.loads(info["user_acts"])}
            values -= said
            if told:
                values = {value for value in values if not holds(info["tool_results"], value)}
            if RECORDS.text("", task.account, "email") in said:
                values.discard(RECORDS.text("", task.account, "name"))
            text = shown(observed, info, env.system_prompt)
            for value in values:
                assert not holds(text, value), f"{value} of {task.task_id}"
            looked += len(values)
            request = task.requests[episode.desk.at]
            if request.decision.effect == REFUSE and not refused:
                assert not holds(text, request.decision.reason)
            assert "privileged" not in info
            assert info["oracle_length"] == 0 or ended
            if ended:
                break
            belief = np.frombuffer(bytes(episode.belief), np.uint8)
            act, _ = policy.predict(belief * SCALE, action_masks=ACTIONS.mask(belief))
            kind = ACTIONS.actions[act].kind
            told = {"read"} if kind in READS else set()
            refused |= kind in (DENY, OFFER)
            sent = DESK.agent_text(episode, act) if action == "text" else act
            sent = env.candidate_vectors[act] if action == "embedding" else sent
            observed, _, terminated, truncated, info = env.step(sent)
            ended = terminated or truncated
    assert looked > 2000


def test_the_privileged_goal_is_complete_where_it_is_asked_for():
    task = task_like(lambda task: len(task.requests) == 3, "test")
    env = gym.make(ID, privileged=True)
    _, info = env.reset(seed=1, options={"task_id": task.task_id})
    told = json.loads(info["privileged"])
    assert told["at"] == 0 and told["impostor"] is False and len(told["requests"]) == 3
    for request, row in zip(task.requests, told["requests"], strict=True):
        workflow = D.workflows[request.workflow]
        field = workflow.kind or "email"
        assert row["workflow"] == workflow.name
        assert row["record"] == RECORDS.text(workflow.kind, request.row, field)
        assert row["decision"] == [request.decision.effect, request.decision.reason]
        assert row["alternative"] == request.decision.alternative
        assert row["terms"] == dict(zip(workflow.terms, request.terms, strict=False))
        assert row["knowledge"] == KNOWLEDGES[request.knowledge]
