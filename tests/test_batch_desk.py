"""A service desk on rows equals the plain one: in acts, in turns that no act can make, in tasks."""

from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from twins import assert_same, at_random, play_beside, rows_of

from convgym.desk.batch import BatchedDesk
from convgym.desk.tools import RIGHT, STATED_WRONG, UNSTATED
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    FIND,
    GET,
    GET_STATED,
    LIST,
    TRANSFER_TO_HUMAN,
    VERIFY,
    WRITE,
)
from convgym.domains.catalogue import domain_called
from convgym.engine import acts
from convgym.engine.acts import FIRST_TOOL, AgentTurn, Call, Said
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.policies.roster import ladder

SHOP, OWN = "ConvGym/CustomerService-v0", "ConvGym/OwnDomain-v0"
LIBRARY = str(Path(__file__).parent / "data" / "library_domain")
CONDITIONS = (
    *({"split": split} for split in SPLITS),
    *({"persona": p} for p in ("patient_expert", "frustrated_novice", "skeptical_critic")),
    *({"difficulty": d} for d in (0.0, 1.0)),
    {"max_turns": 12},
)
_LEAVES = ("close", "transfer_to_human", "end_conversation")


def batched(env):
    return BatchedDesk(env.domain, env._engine.user.model, env._engine.max_turns)


def staying(env, rng, speech=False):
    """A legal act that does not leave; with `speech` nothing but that."""
    table = env.domain.actions
    kept = [
        number
        for number in np.flatnonzero(env.action_masks()).tolist()
        if table.names[number] not in _LEAVES
        and not (speech and table.actions[number].kind >= FIRST_TOOL)
    ]
    return int(rng.choice(kept))


class Scripted:
    """A policy in each environment; from some turn on `then` chooses, if given."""

    def __init__(self, policy, then=None):
        self.policy, self.then, self.made = policy, then, {}

    def __call__(self, env, rng):
        if id(env) not in self.made:
            self.made[id(env)] = self.policy(), int(rng.integers(4, 14))
        policy, turns = self.made[id(env)]
        if env._episode.turn == 0:
            policy.reset(int(rng.integers(1 << 60)))
        if self.then and env._episode.turn >= turns:
            return self.then(env, rng)
        return policy.predict(env._features(), action_masks=env.action_masks())[0]


def agents(domain="customer-service"):
    """Ways to play that between them come to all branches."""
    steps = ladder(domain)
    yield at_random
    yield staying
    for name in ("slot-filling", "planner", "oracle"):
        yield Scripted(steps[name])
    yield Scripted(steps["oracle"], then=staying)
    yield Scripted(steps["planner"], then=partial(staying, speech=True))


# -- acts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keywords", CONDITIONS, ids=lambda k: "-".join(map(str, *k.items())))
def test_rows_equal_single_episodes(keywords):
    for seed, choose in enumerate(agents()):
        assert play_beside(batched, SHOP, choose, 2, seed=seed, **keywords) > 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(list(agents()))))
def test_rows_equal_single_episodes_for_long(number):
    steps = 0
    for seed in range(1000):
        choose = list(agents())[number]
        split = list(SPLITS)[seed % len(SPLITS)]
        steps += play_beside(batched, SHOP, choose, 40, seed=seed, split=split)
        if steps >= 10_000:
            return
    raise AssertionError(f"{steps} steps only")


@pytest.mark.slow
def test_rows_of_a_domain_of_ones_own_equal_single_episodes():
    for seed, choose in enumerate(agents(LIBRARY)):
        assert play_beside(batched, OWN, choose, 12, seed=seed, folder=LIBRARY) > 12


# -- turns that no act can make --------------------------------------------------------------------


def wanted(env):
    """The workflow of the request that an episode is at, and that request."""
    episode = env._episode
    request = episode.task.requests[episode.desk.at]
    return env.domain.declaration.workflows[request.workflow], request


def some_record(env, kind, rng):
    """A pointer to a record of a kind, or to none."""
    return int(rng.integers(-1, env.domain.declaration.kind[kind].each)) if kind else -1


def some_change(env, rng):
    """The change that is asked for mostly, else any."""
    writes, own = env.domain.v.writes, wanted(env)[0]
    if own.tool and rng.random() < 0.6:
        return writes.index(own.name)
    return int(rng.integers(len(writes)))


def some_said(env, rng):
    """A piece of speech of any sort, true or not, of any record or none."""
    d, v = env.domain.declaration, env.domain.v
    counts = {
        acts.CHAT: 1, acts.ASK_INTENT: 1, acts.ASK: len(v.slots), acts.ASK_MORE: 1,
        acts.TELL: len(v.told), acts.CONFIRM: 1, acts.DENY: len(d.reasons),
        acts.OFFER: len(d.offers), acts.REPORT_DONE: 1, acts.APOLOGISE: 1, acts.CLOSE: 1,
        acts.UNCLEAR: 1, acts.EXPLAIN: 1, acts.PROMISE: len(v.promises), acts.JARGON: 1,
    }  # fmt: skip
    often = (acts.ASK, acts.TELL, acts.CONFIRM, acts.DENY, acts.EXPLAIN, acts.REPORT_DONE)
    kind = int(rng.choice(often if rng.random() < 0.6 else list(counts)))
    argument, pointer, value = int(rng.integers(counts[kind])), -1, 0
    claim = int(rng.choice([acts.KNOWN, acts.KNOWN, acts.TRUE, acts.FALSE, acts.UNSUPPORTED]))
    if kind == acts.TELL and argument < len(d.facts):
        pointer = some_record(env, d.facts[v.told[argument]], rng)
    elif kind == acts.TELL:
        value = int(rng.integers(2))
    elif kind == acts.CONFIRM:
        argument = some_change(env, rng)
        pointer = some_record(env, d.writes[argument].kind, rng)
    return Said(kind, argument, pointer, value, claim)


def some_call(env, rng):
    """A call of any tool, with details that its customer may not have asked for."""
    d, task, own = env.domain.declaration, env._episode.task, wanted(env)[1]
    tools = (FIND, FIND, VERIFY, LIST, GET, GET, GET_STATED, WRITE, WRITE)
    leaving = (TRANSFER_TO_HUMAN, END_CONVERSATION)
    tool = int(rng.choice(tools if rng.random() < 0.96 else leaving))
    if tool == FIND:
        anybody = int(rng.integers(env.domain.records.accounts))
        return Call(tool, detail=int(rng.choice([task.account, task.account, -1, anybody])))
    if tool == VERIFY:
        return Call(tool, detail=int(rng.choice([RIGHT, STATED_WRONG, UNSTATED])))
    if tool == WRITE:
        change = some_change(env, rng)
        detail = own.detail if rng.random() < 0.7 else int(rng.integers(4))
        pointer = own.pointer if rng.random() < 0.5 else -1
        kind = d.writes[change].kind
        if not kind or pointer >= d.kind[kind].each or pointer < 0:
            pointer = some_record(env, kind, rng)
        return Call(tool, change, pointer, detail)
    if tool in (LIST, GET, GET_STATED):
        kind = int(rng.integers(len(d.kinds)))
        pointer = -1 if tool == LIST else some_record(env, d.kinds[kind].name, rng)
        return Call(tool, kind, pointer)
    return Call(tool)


def some_turn(env, rng):
    """Up to four pieces of speech and three calls; at times silence, at times a long reply."""
    said = tuple(some_said(env, rng) for _ in range(rng.integers(0, 5)))
    calls = tuple(some_call(env, rng) for _ in range(rng.integers(0, 4)))
    return AgentTurn(said, calls, text="x" * int(rng.choice([10, 10, 1200])) if said else "")


class OracleTurns:
    """The oracle's acts as turns, at times with something else said or called beside."""

    def __init__(self, domain="customer-service"):
        self.acts = Scripted(ladder(domain)["oracle"])

    def __call__(self, env, rng):
        turn = env.domain.turn(env._episode, self.acts(env, rng))
        if rng.random() < 0.75:
            return turn
        if rng.random() < 0.5:
            return turn._replace(said=(*turn.said, some_said(env, rng)))
        return turn._replace(calls=(some_call(env, rng), *turn.calls))


def write_turns(engine, turns):
    """Turns as records of the engine's."""
    records = np.zeros(len(turns), engine.turn)
    for record, turn in zip(records, turns, strict=True):
        record["n_said"], record["n_calls"] = len(turn.said), len(turn.calls)
        record["reply_length"] = len(turn.text)
        for name in ("said", "calls"):
            for place, act in enumerate(getattr(turn, name)):
                record[name][place] = act
    return records


def play_turns(episodes, seed, turn_of, env_id=SHOP, **keywords):
    """Give both engines the same turns, and compare verdicts, too, after each."""
    envs = [
        gym.make(env_id, observation="features", action="act", **keywords).unwrapped
        for _ in range(episodes)
    ]
    rng, steps = np.random.default_rng(seed), 0
    infos = [env.reset(seed=child(seed, i))[1] for i, env in enumerate(envs)]
    engine = batched(envs[0])
    rows, belief, tasks = rows_of(engine, envs)
    engine.open_rows(np.arange(episodes, dtype=np.int32), rows, belief, tasks)
    alive = list(range(episodes))
    while alive:
        turns = [turn_of(envs[i], rng) for i in alive]
        for i, turn in zip(alive, turns, strict=True):
            envs[i]._engine.apply(envs[i]._episode, turn)
        engine.step_turns(
            np.array(alive, np.int32), write_turns(engine, turns), rows, belief, tasks, True
        )
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


@pytest.mark.parametrize("split", ["train", "test_compositional", "test_policy"])
def test_good_turns_with_slips_are_taken_alike(split):
    assert play_turns(8, 6, OracleTurns(), split=split) > 20


@pytest.mark.slow
def test_many_turns_are_taken_alike():
    for seed, split in enumerate(SPLITS):
        play_turns(300, seed, some_turn, split=split)
        play_turns(120, seed, OracleTurns(), split=split)


# -- tasks -----------------------------------------------------------------------------------------


def assert_drawn_alike(desk, split, numbers):
    engine = BatchedDesk(desk, desk.make_user(None).model, 50)
    plain, drawn = np.zeros(len(numbers), engine.task), np.zeros(len(numbers), engine.task)
    drawn.view(np.uint8)[:] = 77  # what was there before does not show
    for row, number in enumerate(numbers.tolist()):
        engine.compile(split, number, plain[row])
    engine.draw(split, numbers, drawn)
    for name in engine.task.names:
        assert np.array_equal(plain[name], drawn[name]), f"{name} of {split}"


@pytest.mark.parametrize("split", SPLITS)
def test_drawn_tasks_are_the_compiled_ones(split):
    assert_drawn_alike(domain_called("customer-service"), split, np.arange(120))


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["customer-service", LIBRARY])
def test_many_drawn_tasks_are_the_compiled_ones(domain):
    desk = domain_called(domain)
    for split in desk.splits:
        numbers = np.random.default_rng(0).permutation(SPLITS[split])[:3000]
        assert_drawn_alike(desk, split, numbers.astype(np.int64))
