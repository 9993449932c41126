"""Replies on rows of the sales desk equal replies to the plain one: right, wrong, odd or glued."""

import json

import numpy as np
import pytest
from talkers import Listener, Talker, pick, singles, written
from twins import engine_of, results_in, rows_of

from convgym.domains.sales import cells, understanding
from convgym.domains.sales.batch import BatchedSales
from convgym.domains.sales.batch_reading import _MEANINGS, FAR, UNLIKE, VALUE, write_reading
from convgym.domains.sales.desk import SalesDesk
from convgym.domains.sales.records import allowed
from convgym.domains.sales.tools import order_id
from convgym.domains.sales.vocabulary import ACTIONS
from convgym.domains.sales.world import (
    ADDONS,
    CATEGORIES,
    EVERY_NAME,
    FEATURES,
    RIVALS,
    money_text,
    percent_text,
)
from convgym.engine.acts import AgentTurn
from convgym.engine.batch import ENDS, MOST_CALLS, MOST_RESULTS, MOST_SAID, QUOTED
from convgym.engine.tasks import SPLITS
from convgym.envs.conversation_env import ACTION_LENGTH
from convgym.language import tool_calls
from convgym.language.speech import Claim
from convgym.policies.sales import OraclePolicy, PlannerPolicy
from convgym.spaces import sanitize

SALES = "ConvGym/Sales-v0"
BANKS = SalesDesk().agent_banks()
CALL = '{"name": "get_product", "arguments": {}}'
CLAIMS = (
    *_MEANINGS, *_MEANINGS, ("greet", ""), ("jargon", ""), ("wait", ""), ("explain", ""),
    ("inform", "warranty"), ("ask", "colour"), ("done", "addon"), ("confirm", "lower"),
)  # fmt: skip
"""Act and slot of claims that a reader can make, and of some that mean nothing here."""
MOST_ANSWERED = (
    f"<tool_call>{CALL}</tool_call>" * 4
    + "<tool_call>1</tool_call>" * 4
    + '<tool_call>{"tool_calls": [1, 2, 3, 4, 5]}</tool_call> {"tool_calls": [1, 2, 3, 4, 5]}'
)
"""Four calls, and as many errors as a reply can have."""
MALFORMED = (
    '<tool_call>{"name": "get_product"</tool_call>',
    '<tool_call>{"arguments": {}}</tool_call>',
    '<tool_call>{"name": "get_product", "arguments": [1]}</tool_call>',
    "<tool_call>[]</tool_call> Let me look.",
    '<tool_call>{"name": "book_order", "result": "ok"}</tool_call>',
    '{"name": "end_conversation", "arguments": {"why": "bye"}}',
    '<tool_call>{"name": "transfer_to_human", "arguments": {"to": "them"}}</tool_call> Bye.',
    "<think>nothing</think>", "", " ", "…", "```json\n{}\n```", MOST_ANSWERED,
    "It is a pleasure to have you here with us. " * 25,
)  # fmt: skip
SENTENCES = (
    "The {product} has the {feature}.", "It does not have the {feature}.", "Yes, it does.",
    "No, it doesn't.", "The {product} comes with {needs}, but it lacks the {feature}.",
    "The {product} costs {price}.", "It is {price} each, {total} in total.",
    "The total is {total} for {pieces}.", "With {discount} off it is {price}.",
    "You save {saving}.", "You save {saving_of_all} in total.",
    "The list price of the {product} is {price}.",
    "The {addon} is {addon_price} extra.", "The most I may give is {discount} off.",
    "The {product} arrives in {days}.", "It will be delivered in {days}.",
    "We have {pieces} of the {product} in stock.", "It is in stock.", "It is sold out.",
    "The {product} is sold out.", "I recommend the {product}.", "How about {handle}?",
    "I would recommend {handle}.", "Shall I make you a quote for the {product}?",
    "I cannot go any lower.", "That is the lowest price I can offer.", "I stand by that price.",
    "I stand by {price} for the {product}.", "The nearest match is the {product}.",
    "Would the {nearest} or the {product} do? They come closest to what you need.",
    "May I offer you {handle} instead, which comes closest?",
    "Shall I book {pieces} of the {product} at {price} each, {total} in total?",
    "Shall I book it?", "Shall I place the order for {handle}?",
    "I have booked {pieces} of the {product} for {total}; your order number is {order}.",
    "Your order is placed.", "Order {order} is booked.", "I will book it for you.",
    "Would you like the {addon} for {addon_price}?", "We could put you on our waitlist.",
    "That is beyond my authority.", "It is being cleared, so I cannot lower the price.",
    "It is our last piece, so I cannot discount it.", "We do not carry anything with {feature}.",
    "It is out of stock.", "{price}?", "How about {price} for the {product}?",
    "{product}: {price}.", "All our products are genuine, with a full warranty.",
    "Unlike {rival}, we include repairs and service.", "You can send it back within 30 days.",
    "We ship today by express.", "What is your budget?", "How many pieces do you need?",
    "What should it be able to do?", "What are you looking for?", "Hello!", "Sorry about that.",
    "One moment please.", "Is there anything else?", "Thank you and goodbye.",
    "Let me explain why I ask: I would only be guessing otherwise.", "Its SKU is 12345.",
    "I will transfer you to a colleague.", "It costs $12345678901.", "It costs $22345678901.",
)  # fmt: skip


# -- replies ---------------------------------------------------------------------------------------


def near(rng, number):
    """A number, mostly that one."""
    return number + int(rng.choice([0, 0, 0, 0, -1, 1, 5]))


class Writer(Talker):
    """Writes replies into a conversation: what is right there, and all sorts of other things."""

    banks, malformed = BANKS, MALFORMED

    def part(self, env, right):
        rng = self.rng
        if right:
            return self.planned(env)
        kinds = (self.phrase, self.sentence, self.sentence, self.sentence, self.call, self.call)
        odd = (self.elsewhere, self.by_others, self.sample, self.broken)
        return pick(rng, kinds if rng.random() < 0.8 else odd)(env)

    def planned(self, env):
        """The act of a policy in words, or any legal one."""
        rng, domain, episode = self.rng, env.domain, env._episode
        mask = domain.actions.mask(np.frombuffer(episode.belief, np.uint8))
        if id(env) not in self.policies or not episode.turn:
            policy = pick(rng, (OraclePolicy, OraclePolicy, PlannerPolicy))(0.1)
            policy.reset(int(rng.integers(1 << 60)))
            self.policies[id(env)] = policy
        number = self.policies[id(env)].predict(env._features(), action_masks=mask)[0]
        leaves = ACTIONS.names[number] in ("close", "transfer_to_human", "end_conversation")
        if rng.random() < 0.1 or (leaves and rng.random() < 0.5):
            number = int(rng.choice(np.flatnonzero(mask)[:-2]))
        bank = BANKS[pick(rng, ("train", "held_out"))]
        return domain.agent_reply(number, domain.view(episode), bank, int(rng.integers(1 << 32)))

    def sentence(self, env):
        """What may be said at any time, or what just this state of things calls for."""
        belief, desk = env._episode.belief, env._episode.desk
        apt = (
            ("order", desk.booked >= 0),
            ("in {days}", belief[cells.PENDING[0]]),
            ("clos", belief[cells.NONE_FOUND]),
            ("feature", desk.feature >= 0),
            ("price", desk.priced >= 0),
        )
        word = next((word for word, holds in apt if holds and self.rng.random() < 0.4), "")
        return self.filled(env, pick(self.rng, [one for one in SENTENCES if word in one]))

    def by_others(self, env):
        return self.filled(env, pick(self.rng, written("sales")))

    def product(self, env):
        """One in view mostly, else one spoken of before or any other."""
        desk, rng = env._episode.desk, self.rng
        if desk.view and rng.random() < 0.8:
            return pick(rng, desk.view)
        return desk.named if desk.named >= 0 and rng.random() < 0.5 else int(rng.integers(72))

    def value(self, env, name):
        """What stands in one pair of braces."""
        rng, domain, task, desk = self.rng, env.domain, env._episode.task, env._episode.desk
        shop = domain.shop
        product = desk.priced if desk.priced >= 0 and rng.random() < 0.5 else self.product(env)
        quote, listed = desk.quotes.get(product), shop.price[task.week][product]
        addon, addon_price = ADDONS[task.category if rng.random() < 0.8 else int(rng.integers(6))]
        discount = quote.discount if quote else pick(rng, (0, 25, 50, 75))
        most = allowed(shop, env._episode, product, pick(rng, (1, task.quantity)))
        share = near(rng, pick(rng, (discount, desk.parameters["authority"], most)))
        price = -(-listed * (1000 - discount) // 1000)
        quantity = near(rng, quote.quantity if quote else pick(rng, (1, task.quantity)))
        feature = pick(rng, FEATURES[task.category if rng.random() < 0.8 else product // 12])[0]
        sums = (price, price, listed, price * quantity, price * quantity + addon_price)
        days = near(rng, shop.delivery[task.week][product])
        nearest = shop.name(shop.nearest(task.week, task.category, max(desk.searched, 0)))
        pieces = "1 piece" if quantity == 1 else f"{quantity} pieces"
        if name in ("product", "p", "other"):
            return shop.name(self.product(env))
        booked = near(rng, desk.booked) if desk.booked >= 0 else product
        return {
            "handle": f"product:{near(rng, 2)}",
            "price": money_text(pick(rng, sums)),
            "wrong": money_text(near(rng, price)),
            "dollars": money_text(pick(rng, sums))[1:],
            "total": money_text(near(rng, pick(rng, sums[2:]))),
            "saving": money_text(near(rng, (listed - price) // 100 * 100)),
            "saving_of_all": money_text((listed - price) * quantity),
            "discount": percent_text(share),
            "n": str(quantity), "m": str(quantity + 1), "pieces": pieces,
            "feature": feature, "f": feature, "needs": feature,
            "truth": pick(rng, ("has", "does not have")),
            "days": f"{days} working days", "wrongdays": str(days + 2),
            "nearest": nearest, "rival": pick(rng, RIVALS),
            "addon": addon, "addon_price": money_text(near(rng, addon_price)),
            "addonprice": money_text(addon_price), "order": order_id(task.week, booked),
        }[name]  # fmt: skip

    def claims(self, env):
        """Claims as no reader would put them together; those of the nearest name the same."""
        names = (pick(self.rng, ("product", "nearest", "handle")) for _ in range(3))
        named = "; ".join([self.value(env, name) for name in names][: int(self.rng.integers(4))])
        made = [self.claim(env) for _ in range(int(self.rng.integers(1, 6)))]
        return tuple(one._replace(value=named) if one.slot == "nearest" else one for one in made)

    def claim(self, env):
        rng, shop, desk = self.rng, env.domain.shop, env._episode.desk
        act, slot = pick(rng, CLAIMS)
        plain = lambda name: self.value(env, name).strip("$%").replace(",", "")  # noqa: E731
        value = ""
        if slot in ("discount", "authority"):
            value = plain("discount")
        elif slot in ("list_price", "total", "saving", "addon_price") or act == "quote":
            value = plain(pick(rng, ("price", "price", "total", "saving", "addon_price")))
        elif slot in ("has", "lacks"):
            value = pick(rng, ("asked", plain("feature"), plain("feature")))
        elif slot in ("delivery", "stock"):
            own = (shop.delivery, shop.stock)[slot == "stock"][env._episode.task.week]
            number = str(near(rng, own[self.product(env)]))
            value = pick(rng, (number, number, f"{number}.5", "yes", "no"))
        elif act in ("confirm", "done"):
            terms = [f"pieces {plain('n')}", f"sum {plain('price')}", f"sum {plain('total')}"]
            terms += [f"sum {plain('addonprice')}", f"order {plain('order')}", "order X123456"]
            kept = [term for term in terms if rng.random() < 0.25]
            if rng.random() < 0.1:
                kept += [f"sum {20 + k}" for k in range(int(rng.integers(8)))] + ["pieces 2"]
            value = "; ".join(kept)
        own = [shop.name(product) for product in desk.quotes] or [plain("product")]
        return Claim(act, slot, value, pick(rng, ("", "", plain("product"), plain("handle"), *own)))

    def call(self, env):
        """A call of a tool, sound or not."""
        rng, task = self.rng, env._episode.task
        name = pick(rng, (
            "search_catalogue", "search_catalogue", "get_product", "get_product", "create_quote",
            "create_quote", "add_addon", "book_order", "end_conversation", "fly_to_the_moon",
        ))  # fmt: skip
        if name == "end_conversation" and rng.random() < 0.8:
            name = "transfer_to_human" if rng.random() < 0.1 else "get_product"
        arguments = {}
        if name == "search_catalogue":
            category = task.category if rng.random() < 0.8 else int(rng.integers(6))
            arguments["category"] = CATEGORIES[category] if rng.random() < 0.95 else "cars"
            names = [f for k, (f, _) in enumerate(FEATURES[category]) if task.must >> k & 1]
            if rng.random() < 0.3:
                names.append(pick(rng, FEATURES[task.category])[0])
            arguments["features"] = ", ".join(names if rng.random() < 0.8 else names[:1])
        elif name in ("get_product", "create_quote", "add_addon", "book_order"):
            handle = f"product:{pick(rng, (1, 1, 2, 3, 4, 5, 0, 12, 'x'))}"
            named = env.domain.shop.name(self.product(env))
            arguments["product"] = pick(rng, (handle, named, named, f" {named.upper()} ", ""))
        if name == "create_quote":
            arguments["quantity"] = pick(rng, (str(task.quantity), "1", "2", "0", "many", "1000"))
            arguments["discount"] = pick(rng, ("0", "0", "5", "7.5%", "12.5", "95", "a lot", "-5"))
        if rng.random() < 0.05:
            arguments[pick(rng, ("product", "quantity", "because"))] = pick(rng, (1, "2", None))
        if arguments and rng.random() < 0.05:
            arguments.popitem()
        call = json.dumps({"name": name, "arguments": arguments})
        return call if rng.random() < 0.1 else f"<tool_call>{call}</tool_call>"


# -- side by side ----------------------------------------------------------------------------------


def assert_same(engine, domain, episode, row, belief, quoted):
    """One row equals its twin."""
    differ = np.frombuffer(episode.belief, np.uint8) != belief
    names = [domain.layout.names[i] for i in np.flatnonzero(differ)]
    assert not names, f"cells differ: {names[:8]}"
    assert row["turn"] == episode.turn and row["errors"] == episode.errors
    assert ENDS[row["end"]] == episode.end and bool(row["truncated"]) == episode.truncated
    assert row["violations"] == episode.violations
    turn = episode.user_turn
    assert bool(row["answered"]) == (turn is not None)
    if turn is not None:
        assert tuple(row["acts"][: row["n_acts"]]) == turn.acts
        assert row["log_prob"] * 1e-6 == turn.log_prob
    assert results_in(engine, row, quoted) == "\n".join(episode.tool_results)
    grade = domain.grade(episode)
    assert row["graded"] == grade.graded and row["progress"] == grade.progress
    assert bool(row["success"]) == bool(grade.success)


def told_apart(said):
    """Acts of speech, sums beyond any price by their number among those."""
    far = {}
    value = lambda sum_: sum_ if sum_ < FAR else FAR + far.setdefault(sum_, len(far))  # noqa: E731
    return [(*one[:3], value(one[3]), one[4]) for one in said]


class SalesListener(Listener):
    """Holds a row's acts of speech against what the plain desk made of the same reply."""

    def assert_said(self, row, reply):
        """The row says the same, if the plain desk was asked; (kind, claim) of all that is said."""
        plain, self.said = self.said or (), None
        said = told_apart(row["said"][: row["n_said"]].tolist()) if plain else []
        assert said == told_apart(plain), reply
        return {(one[0], one[4]) for one in said}


def play(monkeypatch, episodes, seed, right=0.4, alike=False, **keywords):
    """Give both the same replies, and compare after each; `alike`: all rows take one reply.

    Returns how many steps there were, and (kind, claim) of all that was said in them.
    """
    envs, writer = singles(SALES, episodes, seed, **keywords), Writer(seed, right)
    listener, engine = SalesListener(monkeypatch, understanding), engine_of(envs[0])
    records, belief, tasks = rows_of(engine, envs)
    engine.open_rows(np.arange(episodes, dtype=np.int32), records, belief, tasks)
    readings = np.zeros(episodes, engine.reading)
    alive, steps, heard = list(range(episodes)), 0, set()
    while alive:
        readings.view(np.uint8)[:] = 77  # what was read before does not show
        texts = [writer.reply(envs[i]) for i in (alive[:1] if alive and alike else alive)]
        quoted = [
            engine.read(sanitize(text, ACTION_LENGTH), readings[place])
            for place, text in enumerate(texts)
        ]
        which = [0 if alike else place for place in range(len(alive))]
        engine.step_readings(
            np.array(alive, np.int32), np.array(which, np.int32), readings,
            records, belief, tasks, True,
        )  # fmt: skip
        for i, place in zip(alive, which, strict=True):
            envs[i].step(texts[place])
            heard |= listener.assert_said(records[i], texts[place])
            twin = envs[i].domain, envs[i]._episode
            assert_same(engine, *twin, records[i], belief[i], quoted[place])
        steps += len(alive)
        alive = [i for i in alive if not envs[i]._episode.end]
    return steps, heard


def try_out(monkeypatch, seed, tries, **keywords):
    """Go through a fair conversation, and try many replies and claims at each point of it.

    Returns how many were tried, and (kind, claim) of all that was said in them.
    """
    (env,), writer = singles(SALES, 1, seed, **keywords), Writer(seed)
    listener, engine = SalesListener(monkeypatch, understanding), engine_of(env)
    records, belief, tasks = (np.repeat(some, 1 + tries, axis=0) for some in rows_of(engine, [env]))
    every, steps, heard = np.arange(1 + tries, dtype=np.int32), 0, set()
    engine.open_rows(every, records, belief, tasks)
    readings = np.zeros(1 + tries, engine.reading)
    while not env._episode.end:
        records[1:], belief[1:], before = records[0], belief[0], env._episode.snapshot()
        readings.view(np.uint8)[:] = 77
        strays = before.desk.priced >= 0 and writer.rng.random() < 0.15
        beside = writer.filled(env, "I recommend the {product}.") if strays else ""
        turns = [env.domain.understand(before, beside or writer.planned(env))]
        for number in range(tries):
            text = writer.reply(env) if number % 2 else writer.call(env)
            turn = env.domain.understand(before, sanitize(text, ACTION_LENGTH))
            turns.append(turn if number % 4 else turn._replace(said=writer.claims(env)))
        quoted = [write_reading(*one) for one in zip(turns, readings, strict=True)]
        engine.step_readings(every, every, readings, records, belief, tasks, True)
        for place, turn in enumerate(turns):
            episode = before.snapshot() if place else env._episode
            env._engine.apply(episode, turn)
            heard |= listener.assert_said(records[place], turn)
            twin = env.domain, episode
            assert_same(engine, *twin, records[place], belief[place], quoted[place])
        steps += 1 + tries
    return steps, heard


@pytest.mark.parametrize("split", SPLITS)
def test_whatever_is_said_at_any_point_is_taken_alike(monkeypatch, split):
    steps, heard = try_out(monkeypatch, 1, 40, split=split)
    assert steps > 100 and len(heard) > 10


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_much_of_what_can_be_said_at_any_point_is_taken_alike(monkeypatch, split):
    steps, all_heard = 0, set()
    for seed in range(100, 120):
        with monkeypatch.context() as patched:
            tried, heard = try_out(patched, seed, 60, split=split)
        steps, all_heard = steps + tried, all_heard | heard
    assert steps > 8_000 and len(all_heard) > 20


@pytest.mark.parametrize("right", [0.15, 0.5, 0.85])
@pytest.mark.parametrize("split", ["train", "test_primitive", "test_policy"])
def test_replies_are_taken_alike(monkeypatch, split, right):
    steps, heard = play(monkeypatch, 24, 1, right, split=split)
    assert steps > 100 and len(heard) > 15


@pytest.mark.parametrize("split", ["train", "test"])
def test_one_reading_serves_all_states(monkeypatch, split):
    assert play(monkeypatch, 24, 2, 0.6, alike=True, split=split)[0] > 60


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_many_replies_are_taken_alike(monkeypatch, split):
    steps = 0
    for seed in range(30):
        with monkeypatch.context() as patched:
            steps += play(patched, 24, seed, (0.15, 0.4, 0.7, 0.85)[seed % 4], split=split)[0]
    assert steps > 4000


# -- limits ----------------------------------------------------------------------------------------


def taken(text, before=()):
    """A row that has taken `before` and then this reply, and the sentences of that."""
    (env,) = singles(SALES, 1, 3)
    engine = engine_of(env)
    records, belief, tasks = rows_of(engine, [env])
    first, readings = np.zeros(1, np.int32), np.zeros(1, engine.reading)
    engine.open_rows(first, records, belief, tasks)
    for part in (*before, text):
        quoted = engine.read(part, readings[0])
        engine.step_readings(first, first, readings, records, belief, tasks, False)
    return records[0], quoted


def test_a_turn_holds_all_that_a_reply_can_say_and_call():
    assert understanding.MOST_ACTS <= MOST_SAID and tool_calls.MOST_CALLS <= MOST_CALLS
    row, quoted = taken(MOST_ANSWERED)
    assert row["n_results"] == MOST_RESULTS and row["errors"] == MOST_RESULTS
    assert row["results"][:, 0].tolist() == [QUOTED] * MOST_RESULTS and len(quoted) == MOST_RESULTS


def test_no_more_than_that_can_be_wrong_with_a_reply():
    several = ((CALL, "1", CALL), [CALL] * 5, "11111")
    three, five, errors = (f'{{"tool_calls": [{", ".join(some)}]}}' for some in several)
    pieces = (
        CALL, '{"name": 1}', three, five, errors, "Hello.",
        *(f"<tool_call>{body}</tool_call>" for body in (CALL, "1", three, five, errors)),
    )  # fmt: skip
    rng = np.random.default_rng(4)
    for _ in range(2000):
        parsed = tool_calls.parse_reply(" ".join(rng.choice(pieces, rng.integers(1, 16))))
        assert len(parsed.errors) + len(parsed.calls) <= MOST_RESULTS


def test_all_that_is_read_of_a_reply_is_heard():
    prices = [f"The {name} costs ${20 + k}." for k, name in enumerate(EVERY_NAME[:18])]
    assert taken(" ".join(prices))[0]["n_said"] == understanding.MOST_ACTS


def test_sums_beyond_any_price_are_told_from_each_other():
    far, farther = "It costs $12345678901.", "It costs $12345678902."
    assert taken(far)[0]["n_said"] == taken(f"{far} {far}")[0]["n_said"] == 1
    assert taken(f"{far} {farther}")[0]["n_said"] == 2


@pytest.mark.parametrize(
    ("terms", "pieces"),
    [("", 0), ("sum 1249", 0), ("pieces 3; sum 1249", 3), ("pieces 1; pieces 2", UNLIKE)],
)
def test_pieces_that_differ_agree_with_no_order(terms, pieces):
    reading = np.zeros(1, BatchedSales.reading)
    write_reading(AgentTurn((Claim("done", "book", terms),)), reading[0])
    assert reading[0]["claims"][0, VALUE] == pieces


def test_a_call_for_what_is_not_in_view_is_quoted():
    call = '{"name": "get_product", "arguments": {"product": "X1"}}'
    row, quoted = taken(f"<tool_call>{call}</tool_call>")
    code, place = row["results"][0, :2]
    assert code == QUOTED and "no product 'X1' is in view" in quoted[place]
