"""Replies on rows of the support desk do what they do to the plain one: right, wrong or glued."""

import json
import re

import numpy as np
import pytest
from talkers import Listener, Talker, pick, singles, written
from twins import engine_of, results_in, rows_of

from convgym.desk.grounding import MOST_ACTS
from convgym.domains.technical_support import cells, grounding, rules
from convgym.domains.technical_support.batch_reading import NO_EPISODE, write_reading
from convgym.domains.technical_support.calls import TOOLS
from convgym.domains.technical_support.desk import SupportDesk
from convgym.domains.technical_support.dialogue import (
    ACTIONS,
    CHECK_NAMES,
    CONFIRMS,
    PROMISES,
    REASONS,
    SLOTS,
    STEP_NAMES,
    TELLS,
    WRITE_NAMES,
)
from convgym.domains.technical_support.facts import OFFERS
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    CHECKS,
    LINE_TEST,
    STEPS,
    VALUE_NAMES,
    plain_words,
)
from convgym.domains.technical_support.world import CUSTOMERS, PLUS, world
from convgym.engine import acts
from convgym.engine.batch import ENDS, MOST_CALLS, MOST_RESULTS, QUOTED
from convgym.engine.tasks import SPLITS
from convgym.envs.conversation_env import ACTION_LENGTH
from convgym.language import tool_calls
from convgym.language.speech import Claim
from convgym.policies.roster import ladder
from convgym.spaces import sanitize

SUPPORT = "ConvGym/TechnicalSupport-v0"
BANKS = SupportDesk().agent_banks()
LEAVING = ("close", "transfer_to_human", "end_conversation")
MALFORMED = (
    '<tool_call>{"name": "find_customer", "arguments": {"phone": </tool_call>',
    '<tool_call>{"arguments": {}}</tool_call>',
    '{"name": "list_devices"',
    '{"name": "get_device", "result": {"device": "D10000"}}',
    '{"name": "get_device", "arguments": "device:1"}',
    '{"tool_calls": [{"function": {"name": "list_devices", "arguments": "{}"}}, {"id": 1}, 3]}',
    '{"name": "open_door", "arguments": {}}',
    '{"name": "transfer_to_human", "arguments": {"to": "me"}}',
    '{"name": "end_conversation", "arguments": {"why": 1}} {"name": "end_conversation"}',
    '{"name": "list_devices", "arguments": {}} {"name": "list_devices", "arguments": {"a": 1}}' * 3,
    "<think>Hm.</think>", "", " ", "…",
)  # fmt: skip
SENTENCES = (
    "Shall I reset the port of {named}?", "Shall I send its settings to {named}?",
    "May I order a replacement for {named}?", "Shall I book a technician for {named}?",
    "May I lift the lock of the SIM?", "Shall I raise your limit?", "Shall I order a new one?",
    "Is it all right if we reset {named} to factory settings?",
    "I have reset the port of {named}.", "I have sent the settings to {named}.",
    "I have ordered a replacement for {named}.", "A technician has been booked.",
    "Your SIM has been unlocked.", "I have raised your limit.", "It is done.",
    "I will reset the port now.", "I will order you a new one.", "I will transfer you.",
    "The line test of {named} shows a port error.", "The line test of {named} is fine.",
    "The line of {named} gives no answer.", "Your line is fine.", "I have tested your line.",
    "The data of {named} is used up.", "{named} is not provisioned.", "Your plan is fine.",
    "Your SIM is locked.", "There is an outage in your area.", "There is no outage in your area.",
    "There is an outage in the area of {named}.", "There is no outage in the area of {named}.",
    "It is still under warranty.", "{named} is out of warranty.",
    "A technician costs ${fee}.", "The technician is free of charge.",
    "The technician costs nothing and then ${fee}.", "More data costs ${fee}.",
    "The line will be interrupted for {fee} minutes.", "It will arrive within {fee} days.",
    "All your settings will be lost.", "Please unplug it first, before I do that.",
    "Please power cycle it.", "Reseat the SFP.", "Check the SSID, please.", "Look at the LEDs.",
    "Check the default gateway and flush the DNS cache.", "Turn it off. Then turn it on again.",
    "Hello! Sorry about that. One moment please.", "The PSU is a transformer.",
    "The cable is the one with the little clip, it sits at the back.", "Thanks, goodbye!",
    "I cannot help, because {named} is not covered.", "I cannot, since the warranty is over.",
    "We can offer you a paid repair or a loan device.", "Our partner shop could help you.",
    "Is there anything else?", "What is your phone number, your PIN and your device?",
)  # fmt: skip

ABOUT = {
    "ask": (*SLOTS, "more"),
    "check": CHECK_NAMES,
    "instruct": STEP_NAMES,
    "inform": TELLS,
    "confirm": CONFIRMS,
    "deny": REASONS,
    "offer": OFFERS,
    "promise": PROMISES,
    "done": ("", *WRITE_NAMES),
}
"""What acts of speech are about."""
PLAIN = (*grounding._PLAIN, "who", "undone")


def in_calls(*made):
    """Calls by name with their arguments, as a reply writes them."""
    texts = [json.dumps({"name": name, "arguments": given}) for name, given in made]
    return "".join(f"<tool_call>{text}</tool_call>" for text in texts)


# -- replies ---------------------------------------------------------------------------------------


class Writer(Talker):
    """Writes replies into conversations: what is right there, and all that can go wrong."""

    banks, malformed = BANKS, MALFORMED

    def __init__(self, seed, right=0.4):
        super().__init__(seed, right, more=0.3 * (1 - right))

    def part(self, env, right):
        rng = self.rng
        if right:
            return self.planned(env)
        kinds = (self.phrase, self.phrase, self.sentence, self.sentence, self.call, self.call)
        odd = (self.elsewhere, self.by_others, self.sample, self.broken, self.long)
        made = pick(rng, (*kinds, self.look_at_all) if rng.random() < 0.8 else odd)(env)
        return self.altered(made) if rng.random() < 0.1 else made

    def planned(self, env):
        """The act of a policy in words; at times another one."""
        rng, domain, episode = self.rng, env.domain, env._episode
        mask = domain.actions.mask(np.frombuffer(episode.belief, np.uint8))
        if id(env) not in self.policies or not episode.turn:
            policy = ladder("technical-support")[pick(rng, ("oracle", "planner", "planner"))]()
            policy.reset(int(rng.integers(1 << 60)))
            self.policies[id(env)] = policy
        number = int(self.policies[id(env)].predict(env._features(), action_masks=mask)[0])
        early = ACTIONS.names[number] in LEAVING and rng.random() > self.right
        if early or rng.random() < 0.1 * (1 - self.right):
            number = int(rng.choice(np.flatnonzero(mask)[:-2]))
        bank = BANKS[pick(rng, ("train", "held_out"))]
        return domain.agent_reply(number, domain.view(episode), bank, int(rng.integers(1 << 32)))

    def sentence(self, env):
        """What may be said at any time, or what just this state of things calls for."""
        belief, desk = env._episode.belief, env._episode.desk
        apt = (
            ("outage", belief[cells.SHOWN_BY[AREA_STATUS]]),
            ("line", belief[cells.SHOWN_BY[LINE_TEST]]),
            ("warranty", desk.in_hand >= 0),
            ("$", desk.account >= 0),
            ("I have", desk.last_write >= 0),
        )
        word = next((word for word, holds in apt if holds and self.rng.random() < 0.3), "")
        return self.filled(env, pick(self.rng, [one for one in SENTENCES if word in one]))

    def by_others(self, env):
        return pick(self.rng, written("technical_support"))

    def long(self, env):
        return "We do appreciate your patience. " * 30

    def altered(self, text):
        """With a digit that is another."""
        digits = [found.start() for found in re.finditer(r"\d", text)]
        if not digits:
            return text
        at = pick(self.rng, digits)
        return f"{text[:at]}{self.rng.integers(10)}{text[at + 1 :]}"

    def value(self, env, name):
        """What stands in one pair of braces."""
        rng, kind = self.rng, env._episode.task.kind
        if name == "named":
            return self.device(env) if rng.random() < 0.8 else "it"
        if name == "thing":
            return plain_words(kind, CHECKS[rng.integers(len(CHECK_NAMES))])
        if name == "step":
            return plain_words(kind, STEPS[rng.integers(len(STEP_NAMES))])
        parameters = env._episode.desk.parameters
        if name == "fee":
            name = pick(rng, ("technician_fee", "limit_fee", "interruption", "delivery"))
        if name in parameters:
            return str(parameters[name] + int(rng.choice([0, 0, 0, 1, -parameters[name]])))
        return {"device": "device", "explanation": "It is the little box beside the wall."}[name]

    def device(self, env):
        """A serial or a handle of the account mostly, else one of anybody's or of nobody's."""
        rng, episode = self.rng, env._episode
        account = episode.desk.account if episode.desk.account >= 0 else episode.task.customer
        if rng.random() < 0.15:
            account = int(rng.integers(CUSTOMERS))
        row = 3 * account + (episode.task.pointer if rng.random() < 0.5 else int(rng.integers(3)))
        handle = f"device:{pick(rng, (1, 2, 3, 1, 2, 3, 0, 4, 'x', ''))}"
        serial = world().serial(row)
        return pick(rng, (serial, serial, handle, handle, world().wrong_serial(row)))

    def call(self, env):
        """A call of a tool, sound or not."""
        rng, task = self.rng, env._episode.task
        name = str(rng.choice(list(TOOLS)))
        if name in LEAVING and rng.random() < 0.7:
            name = "get_device"
        arguments = {}
        customer = task.customer if rng.random() < 0.8 else int(rng.integers(CUSTOMERS))
        for argument in TOOLS[name]["parameters"]["properties"]:
            if argument == "device":
                named = self.device(env)
                forms = (named, named, named.lower(), f" {named.title()} ", named.replace(":", " "))
            elif argument == "phone":
                own = world().phone(customer)
                forms = (own, own, f" {own[:5]} {own[5:]}", world().wrong_phone(customer), "")
            else:
                own, wrong = world().pin_text(customer), world().wrong_pin(customer)
                forms = (own, own, f" {own} ", wrong, wrong, own[:3], f"0{own}", "¹²³⁴", "")
            arguments[argument] = pick(rng, forms)
        if rng.random() < 0.1:
            arguments["more"] = 1
        elif rng.random() < 0.1 and arguments:
            arguments[next(iter(arguments))] = None
        made = json.dumps({"name": name, "arguments": arguments})
        return made if rng.random() < 0.1 else f"<tool_call>{made}</tool_call>"

    def turn(self, env):
        """Claims and calls beside each other, as no text need ever bring them."""
        rng = self.rng
        said = [self.claim(env) for _ in range(rng.integers(MOST_ACTS + 1))]
        text = "".join(self.some_call(env) for _ in range(rng.choice([0, 0, 1, 1, 2, 3])))
        found = env.domain.understand(NO_EPISODE, text)
        return found._replace(said=tuple(said), text="x" * int(rng.choice([0, 100, 1000])))

    def some_call(self, env):
        return self.look_at_all(env) if self.rng.random() < 0.3 else self.call(env)

    def claim(self, env):
        """Any claim, of what there is or not."""
        rng = self.rng
        if rng.random() < 0.2:
            return Claim(pick(rng, PLAIN), object=pick(rng, ("", self.device(env))))
        act = pick(rng, ("inform", "inform", "inform", "confirm", "done", *ABOUT))
        slot = pick(rng, ABOUT[act]) if rng.random() < 0.95 else "nothing"
        value = ""
        if act == "inform":
            fee = self.value(env, slot if slot in env._episode.desk.parameters else "fee")
            value = pick(rng, ("", "yes", "no", fee, fee, "2.50", pick(rng, VALUE_NAMES)))
        elif act in ("check", "instruct"):
            value = pick(rng, ("", "technical"))
        return Claim(act, slot, value, self.device(env) if rng.random() < 0.3 else "")

    def look_at_all(self, env):
        """Find the account, read the device that is meant, and test or mend it, in one reply."""
        rng, task = self.rng, env._episode.task
        pointer = f"device:{task.pointer + 1 if rng.random() < 0.9 else rng.integers(1, 4)}"
        tools = [name for name, body in TOOLS.items() if "device" in str(body["parameters"])]
        made = [
            ("find_customer", {"phone": world().phone(task.customer)}),
            ("list_devices", {}),
            ("get_device", {"device": pointer}),
            (pick(rng, tools), {"device": pointer}),
        ]
        if env._episode.desk.account >= 0:
            made = [made[int(rng.integers(1, 4))], ("get_device", {"device": pointer}), made[3]]
        return in_calls(*made)


# -- side by side ----------------------------------------------------------------------------------


def assert_same(engine, env, row, belief, task, quoted):
    """One row equals its twin."""
    episode = env._episode
    differ = np.frombuffer(episode.belief, np.uint8) != belief
    wrong = [env.domain.layout.names[i] for i in np.flatnonzero(differ)]
    assert not wrong, f"cells differ: {wrong[:8]}"
    assert results_in(engine, row, quoted) == "\n".join(episode.tool_results)
    assert row["turn"] == episode.turn and row["errors"] == episode.errors
    assert ENDS[row["end"]] == episode.end and bool(row["truncated"]) == episode.truncated
    assert row["violations"] == episode.violations
    turn = episode.user_turn
    assert bool(row["answered"]) == (turn is not None)
    if turn is not None:
        assert tuple(row["acts"][: row["n_acts"]]) == turn.acts
        assert row["log_prob"] * 1e-6 == turn.log_prob and row["about"] == turn.about
    assert row["bother"] == episode.user.bother
    assert tuple(row["device"]) == episode.desk.device
    grade = env.domain.grade(episode)
    assert row["graded"] == grade.graded and row["progress"] == grade.progress
    assert bool(row["success"]) == bool(grade.success)


def play(monkeypatch, episodes, seed, right=0.4, in_words=True, **keywords):
    """Give both the same turns, and compare after each; not `in_words` they are made of claims.

    Returns how many steps there were, (kind, claim) of all that was said in them, and the codes
    of what tools answered.
    """
    envs, writer = singles(SUPPORT, episodes, seed, **keywords), Writer(seed, right)
    engine, listener = engine_of(envs[0]), Listener(monkeypatch, grounding)
    assert engine.reads
    rows, belief, tasks = rows_of(engine, envs)
    engine.open_rows(np.arange(episodes, dtype=np.int32), rows, belief, tasks)
    pool = np.zeros(episodes, engine.reading)
    alive, steps, heard, results = list(range(episodes)), 0, set(), set()
    while alive:
        pool.view(np.uint8)[:] = 77  # what was read before does not show
        if in_words:
            texts = [sanitize(writer.reply(envs[i]), ACTION_LENGTH) for i in alive]
            turns = [envs[0].domain.understand(NO_EPISODE, text) for text in texts]
            quoted = [engine.read(text, into) for text, into in zip(texts, pool, strict=False)]
        else:
            turns = [writer.turn(envs[i]) for i in alive]
            quoted = [write_reading(*both) for both in zip(turns, pool, strict=False)]
        which = writer.rng.permutation(len(alive)).astype(np.int32)
        order = np.array([alive[at] for at in which], np.int32)
        engine.step_readings(order, which, pool, rows, belief, tasks, True)
        for i, turn, lines in zip(alive, turns, quoted, strict=True):
            row, listener.said = rows[i], None
            envs[i]._engine.apply(envs[i]._episode, turn)
            try:
                if listener.said is not None:
                    said = [tuple(one) for one in row["said"][: row["n_said"]].tolist()]
                    assert said == listener.said
                    heard |= {(one[0], one[4]) for one in said}
                assert_same(engine, envs[i], row, belief[i], tasks[i], lines)
            except AssertionError as error:
                raise AssertionError(f"after {turn!r}") from error
            results |= set(row["results"][: row["n_results"], 0].tolist())
        steps += len(alive)
        alive = [i for i in alive if not envs[i]._episode.end]
    return steps, heard, results


CLAIMS = {
    *((acts.TELL, claim) for claim in range(4)),
    *((kind, claim) for kind in (acts.CONFIRM, acts.REPORT_DONE) for claim in (0, acts.FALSE)),
}
"""All that a claim can come to."""


@pytest.mark.parametrize("split", ["train", "test_primitive", "test_compositional", "test_policy"])
def test_replies_are_taken_alike(monkeypatch, split):
    steps, heard, results = play(monkeypatch, 80, 1, 0.6, split=split)
    assert steps > 800 and len(heard) > 15 and len(results) > 12


def test_good_replies_are_taken_alike(monkeypatch):
    assert play(monkeypatch, 10, 2, right=1.0, split="test_primitive")[0] > 100


@pytest.mark.parametrize("split", ["train", "test_policy"])
def test_claims_are_taken_alike(monkeypatch, split):
    steps, heard, _ = play(monkeypatch, 500, 3, in_words=False, split=split)
    assert steps > 1500 and heard >= CLAIMS


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_many_replies_are_taken_alike(monkeypatch, split):
    steps, heard = 0, set()
    for seed, right in enumerate((0.2, 0.4, 0.6, 0.8, 0.9)):
        with monkeypatch.context() as patched:
            played, said, _ = play(patched, 100, seed, right, split=split)
        steps, heard = steps + played, heard | said
    assert steps > 4000 and heard >= CLAIMS


@pytest.mark.slow
def test_many_claims_are_taken_alike(monkeypatch):
    assert play(monkeypatch, 3000, 4, in_words=False, split="validation")[0] > 9_000


# -- limits ----------------------------------------------------------------------------------------


FIRST = np.zeros(1, np.int32)


def opened(is_fit=lambda task: True):
    """An environment with such a task, its engine, and a row for it."""
    env = next(env for env in singles(SUPPORT, 30, 3) if is_fit(env._episode.task))
    engine = engine_of(env)
    rows = rows_of(engine, [env])
    engine.open_rows(FIRST, *rows)
    return env, engine, rows


def take_both(env, engine, rows, text):
    """Give a reply to the row and to its twin, and compare them."""
    env.step(text)
    quoted = take(engine, rows, text)
    assert_same(engine, env, *(column[0] for column in rows), quoted)


def take(engine, rows, text):
    """Give a reply to the row; returns the sentences that it is answered with."""
    pool = np.zeros(1, engine.reading)
    quoted = engine.read(text, pool[0])
    engine.step_readings(FIRST, FIRST, pool, *rows, True)
    return quoted


def test_a_turn_holds_all_that_a_reply_can_call():
    assert tool_calls.MOST_CALLS <= MOST_CALLS
    call = '<tool_call>{"name": "get_device", "arguments": {}}</tool_call>'
    lists = '{"tool_calls": [1, 2, 3, 4, 5]}'
    _, engine, rows = opened()
    quoted = take(
        engine, rows,
        call * 4 + "<tool_call>1</tool_call>" * 4 + f"<tool_call>{lists}</tool_call> {lists}",
    )  # fmt: skip
    row = rows[0][0]
    assert row["n_results"] == len(quoted) == row["errors"] == MOST_RESULTS
    assert row["results"][:, 0].tolist() == [QUOTED] * MOST_RESULTS


def test_an_act_after_a_long_reply_is_a_short_one():
    _, engine, rows = opened()
    take(engine, rows, "Hello. " * 100)
    assert rows[0][0]["reply_length"] > 500
    engine.step_rows(FIRST, FIRST, *rows, False)
    assert rows[0][0]["reply_length"] == 0


def test_what_is_done_to_many_devices_is_not_done_again():
    env, engine, rows = opened()
    customers = np.random.default_rng(0).permutation(CUSTOMERS)[:45].tolist()
    for customer in [*customers, *customers[-10:]]:
        device = {"device": world().serial(3 * customer)}
        text = in_calls(
            ("find_customer", {"phone": world().phone(customer)}),
            ("get_device", device),
            ("unlock_sim", device),
        )
        take_both(env, engine, rows, text)
        if env._episode.end:
            break
    assert env._episode.end == "error_budget_spent"


@pytest.mark.parametrize("fee", ["costs $20", "costs $40", "costs $60", "is free of charge"])
def test_a_technician_costs_what_the_open_account_says(fee):
    free = rules.BIT["technician_free"]
    env, engine, rows = opened(lambda task: task.active & free)
    plans = world().plan
    has_plus = plans[env._episode.task.customer] == PLUS
    other = next(row for row, plan in enumerate(plans) if (plan == PLUS) != has_plus)
    find = in_calls(("find_customer", {"phone": world().phone(other)}))
    for text in (find, "Please restart it now.", f"The technician {fee}."):
        take_both(env, engine, rows, text)
