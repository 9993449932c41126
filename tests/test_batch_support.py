"""The support desk on rows: what the single engine does, bit for bit."""

import gymnasium as gym
import numpy as np
import pytest
from twins import assert_same, at_random, play_beside, rows_of

from convgym.desk.tools import RIGHT, STATED_WRONG, UNSTATED
from convgym.domains.technical_support.batch import BatchedSupport
from convgym.domains.technical_support.dialogue import (
    ACTIONS,
    CHECK_NAMES,
    CONFIRMS,
    END_CONVERSATION,
    FIND_CUSTOMER,
    GET_DEVICE,
    LIST_DEVICES,
    PROMISES,
    READ,
    REASONS,
    SLOTS,
    STEP_NAMES,
    TELLS,
    TRANSFER_TO_HUMAN,
    VERIFY_PIN,
    WRITE,
    WRITE_NAMES,
)  # fmt: skip
from convgym.domains.technical_support.facts import OFFERS
from convgym.domains.technical_support.vocabulary import FIRST_READ, FIRST_WRITE
from convgym.domains.technical_support.world import CUSTOMERS
from convgym.engine import acts, batch
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.keys import child
from convgym.policies.roster import ladder

ENV = "ConvGym/TechnicalSupport-v0"
PLAYED = 40


def batched_of(env):
    return BatchedSupport(env.domain, env._engine.user.model, env._engine.max_turns)


# -- choosing acts ---------------------------------------------------------------------------------

IS_SPEECH = np.array([action.kind < acts.FIRST_TOOL for action in ACTIONS.actions])
LEAVING = [ACTIONS[name] for name in ("transfer_to_human", "end_conversation", "close")]


def by_speech(env, rng):
    """Speech mostly."""
    mask = env.action_masks()
    return int(rng.choice(np.flatnonzero(mask & IS_SPEECH if rng.random() < 0.9 else mask)))


def staying(env, rng):
    """Anything legal that does not end the conversation."""
    mask = env.action_masks()
    mask[LEAVING] = 0
    return int(rng.choice(np.flatnonzero(mask)))


def by(name, until=1000, then=staying):
    """A scripted policy's acts, and after so many turns another's."""
    policies = {}

    def choose(env, rng):
        if env._episode.turn == 0:
            policies[id(env)] = policy = ladder("technical-support")[name]()
            policy.reset(int(rng.integers(2**31)))
        if env._episode.turn >= until:
            return then(env, rng)
        policy = policies[id(env)]
        return policy.predict(env._observe(), action_masks=env.action_masks())[0]

    return choose


CHOICES = {
    "random": at_random,
    "speech": by_speech,
    "staying": staying,
    "planner": by("planner"),
    "slot-filling": by("slot-filling"),
    "oracle": by("oracle"),
    "planner, then random": by("planner", 12),
    "planner, then speech": by("planner", 20, by_speech),
}


# -- rows beside single episodes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "keywords"),
    [
        ("random", {}),
        ("random", {"split": "test_policy", "persona": "skeptical_critic"}),
        ("speech", {"split": "test_persona"}),
        ("planner, then random", {"split": "test_compositional", "persona": "frustrated_novice"}),
        ("planner, then speech", {"split": "test_primitive", "difficulty": 1.0}),
        ("planner", {"difficulty": 0.5, "persona": "patient_expert"}),
        ("slot-filling", {"split": "test_policy"}),
        ("oracle", {"split": "validation", "persona": "skeptical_critic"}),
    ],
)
def test_rows_equal_single_episodes(choice, keywords):
    steps = play_beside(batched_of, ENV, CHOICES[choice], PLAYED, seed=11, **keywords)
    assert steps > PLAYED


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "test_policy", "test_persona", "test_compositional"])
@pytest.mark.parametrize("choice", CHOICES)
def test_rows_equal_single_episodes_for_long(choice, split):
    steps = seed = 0
    while steps < 2_500:
        steps, seed = steps + play_beside(
            batched_of, ENV, CHOICES[choice], 200, seed=seed, split=split
        ), seed + 1  # fmt: skip


def test_a_row_is_truncated_at_the_cap_as_a_single_episode_is():
    steps = play_beside(batched_of, ENV, by("planner"), 10, seed=3, max_turns=4)
    assert steps == 40


def test_progress_of_every_step_is_that_of_the_single_engine():
    single = gym.make(ENV, observation="features", action="act").unwrapped
    single.reset(seed=5)
    batched = batched_of(single)
    rows, belief, tasks = rows_of(batched, [single])
    row = np.zeros(1, np.int32)
    batched.open_rows(row, rows, belief, tasks)
    planner, seen = ladder("technical-support")["planner"](), set()
    planner.reset(0)
    while not single._episode.end:
        action = planner.predict(single._observe(), action_masks=single.action_masks())[0]
        single.step(action)
        batched.step_rows(row, np.array([action], np.int32), rows, belief, tasks, True)
        assert rows[0]["progress"] == single.domain.grade(single._episode).progress
        seen.add(float(rows[0]["progress"]))
    assert len(seen) > 1


# -- turns that no act stands for ------------------------------------------------------------------


def some_speech(rng, most):
    """Speech as text can bring it: several acts, claims, words of the trade."""
    ranges = {
        acts.CHAT: 1, acts.ASK_INTENT: 1, acts.ASK: len(SLOTS), acts.ASK_MORE: 1,
        acts.TELL: len(TELLS), acts.CONFIRM: len(CONFIRMS), acts.DENY: len(REASONS),
        acts.OFFER: len(OFFERS), acts.REPORT_DONE: 1 + len(WRITE_NAMES), acts.APOLOGISE: 1,
        acts.CLOSE: 1, acts.UNCLEAR: 1, acts.EXPLAIN: 1, acts.PROMISE: len(PROMISES),
        acts.JARGON: 1, acts.CHECK: len(CHECK_NAMES), acts.INSTRUCT: len(STEP_NAMES),
    }  # fmt: skip
    kinds = [*ranges, acts.ASK, acts.CHECK, acts.CHECK, acts.INSTRUCT, acts.INSTRUCT, acts.TELL]
    said = []
    for _ in range(rng.integers(most + 1)):
        kind = kinds[rng.integers(len(kinds))]
        trade = int(rng.random() < 0.2) if kind in (acts.CHECK, acts.INSTRUCT) else 0
        claims = kind in (acts.TELL, acts.CONFIRM, acts.REPORT_DONE)
        claim = int(rng.integers(4)) if claims and rng.random() < 0.5 else acts.KNOWN
        said.append(Said(kind, int(rng.integers(ranges[kind])), -1, trade, claim))
    return said


def some_call(rng, episode):
    """A call with right, wrong and other customers' details."""
    own, pointer = episode.task.customer, int(rng.integers(-1, 3))
    if rng.random() < 0.5:
        pointer = episode.desk.in_hand
    tool = (
        FIND_CUSTOMER, VERIFY_PIN, LIST_DEVICES, GET_DEVICE, READ, WRITE, WRITE,
        TRANSFER_TO_HUMAN, END_CONVERSATION,
    )[rng.choice(9, p=(0.2, 0.1, 0.1, 0.2, 0.15, 0.1, 0.1, 0.02, 0.03))]  # fmt: skip
    if tool == FIND_CUSTOMER:
        return Call(tool, detail=int(rng.choice([own, own, own, -1, rng.integers(CUSTOMERS)])))
    if tool == VERIFY_PIN:
        return Call(tool, detail=int(rng.choice([RIGHT, STATED_WRONG, UNSTATED])))
    if tool == GET_DEVICE:
        return Call(tool, 0, pointer)
    if tool == READ:
        return Call(tool, FIRST_READ + int(rng.integers(3)), pointer)
    if tool == WRITE:
        return Call(tool, FIRST_WRITE + int(rng.integers(len(WRITE_NAMES))), pointer)
    return Call(tool)


def some_turn(rng, episode):
    said = some_speech(rng, 3) if rng.random() < 0.8 else some_speech(rng, batch.MOST_SAID)
    calls = [some_call(rng, episode) for _ in range(rng.integers(batch.MOST_CALLS + 1))]
    if rng.random() < 0.5:
        calls = calls[:1]
    text = "x" * (1000 if rng.random() < 0.1 else 10)
    return AgentTurn(tuple(said), tuple(calls), text=text)


def played_in_turns(episodes, seed, **keywords):
    """Both engines take the same turns; the steps, and the results that tools gave."""
    singles = [
        gym.make(ENV, observation="features", action="act", **keywords).unwrapped
        for _ in range(episodes)
    ]
    for number, env in enumerate(singles):
        env.reset(seed=child(seed, number))
    batched, rng = batched_of(singles[0]), np.random.default_rng(seed)
    rows, belief, tasks = rows_of(batched, singles)
    batched.open_rows(np.arange(episodes, dtype=np.int32), rows, belief, tasks)
    alive, steps, results = list(range(episodes)), 0, set()
    while alive:
        turns = [some_turn(rng, singles[i]._episode) for i in alive]
        said = np.full((len(alive), batch.MOST_SAID, batch.SAID_WIDTH), -1, np.int32)
        calls = np.full((len(alive), batch.MOST_CALLS, batch.CALL_WIDTH), -1, np.int32)
        for place, (i, turn) in enumerate(zip(alive, turns, strict=True)):
            for n, act in enumerate(turn.said):
                said[place, n] = act
            for n, call in enumerate(turn.calls):
                calls[place, n] = call
            rows[i]["reply_length"] = len(turn.text)
        batched.turn_rows(np.array(alive, np.int32), said, calls, rows, belief, tasks, False)
        for i, turn in zip(alive, turns, strict=True):
            env = singles[i]
            env._engine.apply(env._episode, turn)
            assert_same(batched, env, rows[i], belief[i], tasks[i], {})
            assert rows[i]["bother"] == env._episode.user.bother
            assert tuple(rows[i]["device"]) == env._episode.desk.device
            results |= set(rows[i]["results"][: rows[i]["n_results"], 0].tolist())
        steps += len(alive)
        alive = [i for i in alive if not singles[i]._episode.end]
    return steps, results


def test_whole_turns_equal_those_of_the_single_engine():
    _, results = played_in_turns(120, seed=2)
    assert len(results) > 12
    played_in_turns(60, seed=3, split="test_policy", persona="patient_expert")


@pytest.mark.slow
def test_whole_turns_equal_those_of_the_single_engine_for_long():
    steps = sum(played_in_turns(400, seed)[0] for seed in range(10, 20))
    assert steps > 10_000
