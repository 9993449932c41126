"""Replies in free text to a service desk on rows do what they do to the plain one."""

import json
import re
from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from twins import engine_of, results_in, rows_of

from convgym.domains.catalogue import domain_called
from convgym.domains.customer_service.claims import STATUS
from convgym.domains.customer_service.world import COLOURS, SIZES, STREETS, TOWNS
from convgym.engine.batch import ENDS
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.envs.conversation_env import ACTION_LENGTH
from convgym.policies.roster import ladder
from convgym.spaces import sanitize

SHOP = "ConvGym/CustomerService-v0"
LIBRARY = str(Path(__file__).parent / "data" / "library_domain")
_DATA = Path(__file__).parent / "data"
_MALFORMED = (
    '<tool_call>{"name": "find_customer", "arguments": {"email": </tool_call>',
    '<tool_call>{"arguments": {}}</tool_call>',
    '{"name": "list_orders"',
    '{"name": "get_order", "result": {"order": "W10000"}}',
    '{"name": "get_order", "arguments": "order:1"}',
    '{"tool_calls": [{"function": {"name": "list_orders", "arguments": "{}"}}, {"id": 1}, 3]}',
    '{"name": "open_door", "arguments": {}}',
    '{"name": "transfer_to_human", "arguments": {"to": "me"}}',
    '{"name": "end_conversation", "arguments": {"why": 1}} {"name": "end_conversation"}',
    '{"name": "list_orders", "arguments": {}} {"name": "list_orders", "arguments": {"a": 1}}' * 3,
    "<think>Hm.</think>",
    "",
)
_TOO_LATE = (
    "It's too late now, I'm afraid.",
    "I can't cancel it, because it has already shipped.",
    "Sorry, {order} has shipped and can no longer be cancelled.",
    "I cannot change the address of {order}, since {other} has shipped already.",
    "Your order was shipped. Unfortunately it is too late to cancel it.",
)
"""What "it has shipped" is only the ground of."""


@cache
def labelled():
    """Replies that people and models wrote."""
    names = ("replies_tuning", "replies_breadth_tuning", "replies_third_author", "attacks")
    lines = (
        line for name in names for line in (_DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    )
    return [json.loads(line)["text"] for line in lines]


class Agent:
    """Writes replies to one conversation: mostly good ones, then all that can go wrong.

    `others` holds what was written to any conversation.
    """

    def __init__(self, env, rng, others, slips=0.5):
        self.env, self.rng, self.others, self.slips = env, rng, others, slips
        self.own, self.thorough = [], rng.random() < 0.3
        self.policy = ladder("customer-service")[str(rng.choice(["planner", "oracle"]))]()
        self.policy.reset(int(rng.integers(1 << 60)))
        self.bank = env.domain.agent_banks()[str(rng.choice(["train", "held_out"]))]

    def __call__(self):
        cells = np.frombuffer(self.env._episode.belief, np.uint8)
        mask = self.env.domain.actions.mask(cells)
        good = self.in_words(self.policy.predict(self.env._features(), action_masks=mask)[0])
        text = good if self.rng.random() > self.slips else self.slip(good)
        self.others.append(text)
        self.own.append(text)
        return text

    def in_words(self, number):
        drawn = int(self.rng.integers(1 << 32))
        domain, episode = self.env.domain, self.env._episode
        return domain.agent_reply(int(number), domain.view(episode), self.bank, drawn)

    def slip(self, good):
        rng = self.rng
        ways = (
            lambda: self.some_act(),
            lambda: self.some_act(),
            lambda: self.too_late(),
            lambda: str(rng.choice(self.own or [good])),
            lambda: str(rng.choice(labelled())),
            lambda: str(rng.choice(self.others[-200:] or [good])),
            lambda: self.env.action_space.sample(),
            lambda: "We do appreciate your patience. " * 30,
            lambda: self.some_call(),
            lambda: self.look_at_all(),
            lambda: self.asks_for_another(),
            lambda: str(rng.choice(_MALFORMED)),
            lambda: self.altered(good),
            lambda: self.altered(self.some_act()),
        )
        if self.thorough and rng.random() < 0.7:
            ways = (self.look_at_all, self.asks_for_another)
        parts = [ways[int(rng.integers(len(ways)))]() for _ in range(rng.choice([1, 1, 2, 3]))]
        if rng.random() < 0.4:
            parts.insert(int(rng.integers(len(parts) + 1)), good)
        return " ".join(parts)

    def some_act(self):
        """Any act in words, legal or not; one that speaks mostly."""
        names = self.env.domain.actions.names
        number = int(self.rng.integers(len(names)))
        if names[number] in ("close", "transfer_to_human", "end_conversation", "report_done"):
            number = 0
        return self.in_words(number)

    def too_late(self):
        """A refusal because of what is on its way, which may have arrived."""
        domain, account = self.env.domain, self.env._episode.task.account
        order, other = (
            domain.records.text("order", account * 3 + int(self.rng.integers(3)), "order")
            for _ in range(2)
        )
        return str(self.rng.choice(_TOO_LATE)).format(order=order, other=other)

    def look_at_all(self):
        """Find the account, list a kind of record and read two of them, in one reply."""
        domain, account = self.env.domain, self.env._episode.task.account
        email = domain.records.text("", account, "email")
        kind = domain.declaration.kinds[int(self.rng.integers(3))]
        two = self.rng.permutation(kind.each)[:2] + 1
        calls = [
            ("find_customer", {"email": email}),
            (f"list_{kind.many}", {}),
            *((f"get_{kind.name}", {kind.name: f"{kind.name}:{k}"}) for k in two),
        ]
        if self.env._episode.belief[domain.v.found]:
            calls = calls[1:]
        made = [json.dumps({"name": name, "arguments": given}) for name, given in calls]
        return "".join(f"<tool_call>{call}</tool_call>" for call in made)

    def asks_for_another(self):
        """A question for a yes, or a report, of what is asked for, in other words than its own."""
        rng, task = self.rng, self.env._episode.task
        request = task.requests[self.env._episode.desk.at]
        text = self.env.domain.records.text
        place = text("order", request.row % 18000, "address")
        sent = str(rng.choice([*SIZES, *COLOURS, text("order", request.row % 18000, "variant")]))
        street = place.split(", ")[0]
        where = str(rng.choice([place, street, f"{street}, {rng.choice(TOWNS)}", "7 Oak Avenue"]))
        fee = int(rng.choice([0, 10, 15, 20]))
        ways = (
            f"Shall I swap it for {sent}?",
            f"Shall I change the address to {where}?",
            f"Shall I set up the return with a fee of {fee}%?",
            f"A fee of {fee}% applies.",
            f"The address has been changed to {where}.",
            f"The exchange for {sent} has been arranged.",
            f"Your order is {rng.choice(STATUS)}.",
            f"Your order will arrive on {text('order', request.row % 18000, 'eta')}.",
            "Shall I cancel the order?",
            "Which order is it, and when did you place it?",
        )
        return str(rng.choice(ways))

    def altered(self, text):
        """With a number, a place, a day or another word that is a little wrong."""
        rng = self.rng
        if rng.random() < 0.5:
            digits = [m.start() for m in re.finditer(r"\d", text)]
            if digits:
                at = int(rng.choice(digits))
                text = text[:at] + str(int(rng.integers(10))) + text[at + 1 :]
            return text
        for words in (TOWNS, STREETS, COLOURS, SIZES, ("W1", "W2"), ("size", "colour")):
            for word in words:
                if rng.random() < 0.5:
                    text = text.replace(word, str(rng.choice(words)))
        return text

    def some_call(self):
        """A call of any tool with what is right, of somebody else, a handle, or no text at all."""
        rng, domain, episode = self.rng, self.env.domain, self.env._episode
        task = episode.task
        rows = [task.account, int(rng.integers(domain.records.accounts))]
        account = rows[int(rng.random() < 0.2)]
        name = str(rng.choice(list(domain.schemas)))
        arguments = {}
        for argument in domain.schemas[name]["parameters"]["properties"]:
            request = task.requests[episode.desk.at]
            if argument in domain.declaration.kind:
                each = domain.declaration.kind[argument].each
                k = int(rng.integers(each))
                number = domain.records.text(argument, account * each + k, argument)
                handle = f"{argument}:{rng.integers(each + 2)}"
                kinds = (number, number.lower(), handle, f" {handle.title()} ", "it", "order:x")
                arguments[argument] = str(rng.choice(kinds))
            elif argument in ("email", "postcode"):
                own = domain.records.text("", account, argument)
                wrong = domain.records.wrong("", account, argument)
                arguments[argument] = str(rng.choice([own, own, f" {own.upper()} ", wrong, ""]))
            elif words := domain.declaration.details[argument]:
                arguments[argument] = str(rng.choice([*words, "other"]))
            else:
                own = domain.records.text("order", request.row % 18000, argument)
                forms = (own, own.upper(), own.split()[0], own.split()[-1], f"{own} please", "")
                arguments[argument] = str(rng.choice(forms))
        if rng.random() < 0.1:
            arguments["more"] = 1
        elif rng.random() < 0.1 and arguments:
            arguments[next(iter(arguments))] = None
        return f'<tool_call>{json.dumps({"name": name, "arguments": arguments})}</tool_call>'


def assert_same(engine, env, row, belief, task, quoted):
    """One row equals its twin."""
    single = env._episode
    cells = np.frombuffer(single.belief, np.uint8)
    wrong = [env.domain.layout.names[i] for i in np.flatnonzero(cells != belief)]
    assert not wrong, f"cells differ: {wrong[:8]}"
    assert results_in(engine, row, quoted) == "\n".join(single.tool_results)
    assert row["turn"] == single.turn and row["errors"] == single.errors
    assert ENDS[row["end"]] == single.end and bool(row["truncated"]) == single.truncated
    assert row["violations"] == single.violations
    turn = single.user_turn
    assert bool(row["answered"]) == (turn is not None)
    if turn is not None:
        assert tuple(row["acts"][: row["n_acts"]]) == turn.acts
        assert row["log_prob"] * 1e-6 == turn.log_prob and row["about"] == turn.about
    grade = env.domain.grade(single)
    assert row["graded"] == grade.graded and row["progress"] == grade.progress
    assert bool(row["success"]) == bool(grade.success)


def play_texts(episodes, seed, slips=0.5, **keywords):
    """Give both engines the same replies, and compare after each; returns the steps."""
    envs = [
        gym.make(SHOP, observation="features", action="text", **keywords).unwrapped
        for _ in range(episodes)
    ]
    rng, others, steps = np.random.default_rng(seed), [], 0
    for i, env in enumerate(envs):
        env.reset(seed=child(seed, i))
    engine = engine_of(envs[0])
    assert engine.reads
    rows, belief, tasks = rows_of(engine, envs)
    engine.open_rows(np.arange(episodes, dtype=np.int32), rows, belief, tasks)
    agents = [Agent(env, rng, others, slips) for env in envs]
    alive = list(range(episodes))
    while alive:
        texts = [sanitize(agents[i](), ACTION_LENGTH) for i in alive]
        pool = np.zeros(len(texts), engine.reading)
        quoted = [engine.read(text, into) for text, into in zip(texts, pool, strict=True)]
        which = rng.permutation(len(alive)).astype(np.int32)
        order = [alive[at] for at in which]
        engine.step_readings(np.array(order, np.int32), which, pool, rows, belief, tasks, True)
        for i, text, lines in zip(alive, texts, quoted, strict=True):
            env, episode = envs[i], envs[i]._episode
            env._engine.apply(episode, env.domain.understand(episode, text))
            try:
                assert_same(engine, env, rows[i], belief[i], tasks[i], lines)
            except AssertionError as error:
                raise AssertionError(f"after {text!r}") from error
        steps += len(alive)
        alive = [i for i in alive if not envs[i]._episode.end]
    return steps


@pytest.mark.parametrize("split", ["train", "test_primitive", "test_compositional", "test_policy"])
def test_replies_are_taken_alike(split):
    assert play_texts(40, 1, split=split) > 100


def test_good_replies_are_taken_alike():
    assert play_texts(20, 2, slips=0.0, split="test_primitive") > 150


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_many_replies_are_taken_alike(split):
    slips = (0.1, 0.2, 0.3, 0.5, 0.8)
    steps = sum(play_texts(100, seed, part, split=split) for seed, part in enumerate(slips))
    assert steps > 4000


def test_a_desk_that_reads_what_is_in_view_takes_acts_alone():
    """A reply to a desk of one's own may call records by their labels, which are the state's."""
    desk = domain_called(LIBRARY)
    engine = desk.batched(desk.make_user(None).model, 50)
    assert not engine.reads
