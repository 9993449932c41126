"""The sales desk on rows equals the plain one: in acts, in turns that no act can make, in tasks."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from twins import assert_same, at_random, play_beside, rows_of

from convgym.domains.sales.batch import GIVEN, BatchedSales
from convgym.domains.sales.vocabulary import (
    ACTIONS,
    ADD_ADDON,
    BOOK_ORDER,
    CREATE_QUOTE,
    DENIALS,
    END_CONVERSATION,
    FACTS,
    GET_PRODUCT,
    OBJECTIONS,
    OFFERS,
    PROMISES,
    SEARCH_CATALOGUE,
    SLOTS,
    TRANSFER_TO_HUMAN,
)
from convgym.domains.sales.world import CATEGORIES, FEATURES_EACH
from convgym.engine import acts
from convgym.engine.acts import FIRST_TOOL, AgentTurn, Call, Said
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.policies.sales import (
    FirmOraclePolicy,
    KeywordPolicy,
    OraclePolicy,
    PlannerPolicy,
    SlotFillingPolicy,
)

SALES = "ConvGym/Sales-v0"
POLICIES = (KeywordPolicy, SlotFillingPolicy, PlannerPolicy, OraclePolicy, FirmOraclePolicy)
CONDITIONS = (
    *({"split": split} for split in SPLITS),
    *({"persona": p} for p in ("patient_expert", "frustrated_novice", "skeptical_critic")),
    *({"difficulty": d} for d in (0.0, 1.0)),
    {"max_turns": 12},
)
_LEAVES = ("close", "transfer_to_human", "end_conversation")
STAYS = np.array([name not in _LEAVES for name in ACTIONS.names])
SPEAKS = np.array([action.kind < FIRST_TOOL for action in ACTIONS.actions])


def batched(env):
    return BatchedSales(env.domain, env._engine.user.model, env._engine.max_turns)


def among(kept, env, rng):
    """A legal act that is kept."""
    return int(rng.choice(np.flatnonzero(env.action_masks() * kept)))


class Scripted:
    """A policy in each environment, with noise; from some turn on `then` chooses, if given."""

    def __init__(self, policy, noise=0.0, then=None):
        self.policy, self.noise, self.then, self.made = policy, noise, then, {}

    def __call__(self, env, rng):
        if id(env) not in self.made:
            self.made[id(env)] = self.policy(self.noise), int(rng.integers(4, 18))
        policy, turns = self.made[id(env)]
        if env._episode.turn == 0:
            policy.reset(int(rng.integers(1 << 60)))
        if self.then and env._episode.turn >= turns:
            return self.then(env, rng)
        row = env._features()
        return policy.predict(row, action_masks=env.action_masks())[0]


def agents():
    """Ways to play that between them come to all branches."""
    yield at_random
    yield partial(among, STAYS)
    for policy in POLICIES:
        yield Scripted(policy)
    yield Scripted(OraclePolicy, noise=0.15)
    yield Scripted(OraclePolicy, then=partial(among, STAYS))
    yield Scripted(PlannerPolicy, then=partial(among, STAYS & SPEAKS))


# -- acts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keywords", CONDITIONS, ids=lambda k: "-".join(map(str, *k.items())))
def test_rows_equal_single_episodes(keywords):
    for seed, choose in enumerate(agents()):
        assert play_beside(batched, SALES, choose, 2, seed=seed, **keywords) > 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(list(agents()))))
def test_rows_equal_single_episodes_for_long(number):
    steps = 0
    for seed in range(1000):
        choose = list(agents())[number]
        split = list(SPLITS)[seed % len(SPLITS)]
        steps += play_beside(batched, SALES, choose, 40, seed=seed, split=split)
        if steps >= 10_000:
            return
    raise AssertionError(f"{steps} steps only")


# -- turns that no act can make --------------------------------------------------------------------


def some_said(rng):
    """A piece of speech of any sort, true or not, of any product or none."""
    kinds = {
        acts.CHAT: 1, acts.ASK_INTENT: 1, acts.ASK: len(SLOTS), acts.ASK_MORE: 1,
        acts.TELL: len(FACTS), acts.CONFIRM: 1, acts.DENY: len(DENIALS), acts.OFFER: len(OFFERS),
        acts.REPORT_DONE: 1, acts.APOLOGISE: 1, acts.CLOSE: 1, acts.UNCLEAR: 1,
        acts.EXPLAIN: 1 + len(OBJECTIONS), acts.PROMISE: len(PROMISES), acts.JARGON: 1,
        acts.RECOMMEND: 1, acts.QUOTE: 2,
    }  # fmt: skip
    often = (acts.ASK, acts.TELL, acts.CONFIRM, acts.RECOMMEND, acts.QUOTE, acts.EXPLAIN)
    kind = int(rng.choice(often if rng.random() < 0.6 else list(kinds)))
    pointer = int(rng.choice([-1, 0, 0, 1, 2, 3, 99]))
    value = int(rng.integers(2 * FEATURES_EACH + 3)) if kind == acts.TELL else 0
    claim = int(rng.choice([acts.KNOWN, acts.TRUE, acts.TRUE, acts.FALSE, acts.UNSUPPORTED]))
    return Said(kind, int(rng.integers(kinds[kind])), pointer, value, claim)


def some_call(env, rng):
    """A call of any tool, with details that its buyer may not have asked for."""
    tools = (SEARCH_CATALOGUE, GET_PRODUCT, CREATE_QUOTE, ADD_ADDON, BOOK_ORDER)
    leaving = (TRANSFER_TO_HUMAN, END_CONVERSATION)
    tool = int(rng.choice(tools if rng.random() < 0.97 else leaving))
    task, pointer = env._episode.task, int(rng.choice([0, 0, 1, 2, 3, 99]))
    if tool == SEARCH_CATALOGUE:
        own = rng.random() < 0.8
        category = task.category if own else int(rng.integers(len(CATEGORIES)))
        masks = (0, task.must, task.must, 1 << int(rng.integers(FEATURES_EACH)))
        return Call(tool, category, detail=int(rng.choice(masks)))
    if tool == CREATE_QUOTE:
        quantity = task.quantity if rng.random() < 0.7 else int(rng.integers(1, 12))
        return Call(tool, quantity, pointer, int(rng.choice([0, 0, 25, 50, 100, 137, 900])))
    return Call(tool, 0, pointer)


def some_turn(env, rng):
    """Up to four pieces of speech and three calls; at times silence, at times a long reply."""
    said = tuple(some_said(rng) for _ in range(rng.integers(0, 5)))
    calls = tuple(some_call(env, rng) for _ in range(rng.integers(0, 4)))
    return AgentTurn(said, calls, text="x" * int(rng.choice([0, 10, 1200])))


def write_turn(row, turn):
    """The same turn into a row's record."""
    row["n_said"], row["n_calls"] = len(turn.said), len(turn.calls)
    for name in ("said", "calls"):
        for place, act in enumerate(getattr(turn, name)):
            row[name][place] = act
    if turn.speaks:
        row["reply_length"] = len(turn.text)


def play_turns(episodes, seed, turn_of, **keywords):
    """Give both engines the same turns, and compare verdicts, too, after each."""
    envs = [
        gym.make(SALES, observation="features", action="act", **keywords).unwrapped
        for _ in range(episodes)
    ]
    rng, steps = np.random.default_rng(seed), 0
    infos = [env.reset(seed=child(seed, i))[1] for i, env in enumerate(envs)]
    engine = batched(envs[0])
    rows, belief, tasks = rows_of(engine, envs)
    engine.open_rows(np.arange(episodes, dtype=np.int32), rows, belief, tasks)
    alive = list(range(episodes))
    while alive:
        for i in alive:
            turn = turn_of(envs[i], rng)
            write_turn(rows[i], turn)
            envs[i]._engine.apply(envs[i]._episode, turn)
        given = np.full(len(alive), GIVEN, np.int32)
        engine.step_rows(np.array(alive, np.int32), given, rows, belief, tasks, True)
        for i in alive:
            assert_same(engine, envs[i], rows[i], belief[i], tasks[i], infos[i])
            grade = envs[i].domain.grade(envs[i]._episode)
            assert rows[i]["graded"] == grade.graded and rows[i]["progress"] == grade.progress
            assert bool(rows[i]["success"]) == bool(grade.success)
        steps += len(alive)
        alive = [i for i in alive if not envs[i]._episode.end]
    return steps


@pytest.mark.parametrize("split", ["train", "test_primitive", "test_policy"])
def test_any_turn_is_taken_alike(split):
    assert play_turns(12, 5, some_turn, split=split) > 20


class OracleTurns:
    """The oracle's acts as turns, at times with something else said or called beside."""

    def __init__(self):
        self.acts = Scripted(OraclePolicy)

    def __call__(self, env, rng):
        turn = env.domain.turn(env._episode, self.acts(env, rng))
        if rng.random() < 0.75:
            return turn
        if rng.random() < 0.5:
            return turn._replace(said=(*turn.said, some_said(rng)))
        return turn._replace(calls=(some_call(env, rng), *turn.calls))


@pytest.mark.parametrize("split", ["train", "test_compositional", "test_policy"])
def test_good_turns_with_slips_are_taken_alike(split):
    assert play_turns(8, 6, OracleTurns(), split=split) > 20


@pytest.mark.slow
def test_many_turns_are_taken_alike():
    for seed, split in enumerate(SPLITS):
        play_turns(300, seed, some_turn, split=split)
        play_turns(120, seed, OracleTurns(), split=split)


# -- tasks -----------------------------------------------------------------------------------------


def assert_drawn_alike(split, numbers):
    engine = batched(gym.make(SALES, observation="features", action="act").unwrapped)
    plain, drawn = np.zeros(len(numbers), engine.task), np.zeros(len(numbers), engine.task)
    drawn.view(np.uint8)[:] = 77  # what was there before does not show
    for row, number in enumerate(numbers.tolist()):
        engine.compile(split, number, plain[row])
    engine.draw(split, numbers, drawn)
    for name in engine.task.names:
        assert np.array_equal(plain[name], drawn[name]), f"{name} of {split}"


@pytest.mark.parametrize("split", SPLITS)
def test_drawn_tasks_are_the_compiled_ones(split):
    assert_drawn_alike(split, np.arange(120))


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_all_drawn_tasks_are_the_compiled_ones(split):
    rng = np.random.default_rng(0)
    assert_drawn_alike(split, rng.permutation(SPLITS[split])[:3000].astype(np.int64))
