"""Candidate replies: each act has its own, and a vector stands for the nearest one."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from driven import LIBRARY, every_id, make
from embedded import BOTH, DESK, DOMAINS, Letters, candidates_of
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.domains.catalogue import domain_called
from convgym.engine.acts import FIRST_TOOL
from convgym.envs.candidates import Candidates, CandidateSpace
from convgym.envs.text_vectors import TextVectors
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.language.encoders import HashedEncoder

# Candidates


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_act_has_a_reply_of_its_own(domain):
    found, acts = candidates_of(domain), domain_called(domain).actions.actions
    assert len(found.texts) == len(acts) == len(set(found.texts))
    assert not [text for text in found.texts if "{" in text.split("<tool_call>")[0]]
    assert not [text for text in found.texts if "<think>" in text]
    for act, text in zip(acts, found.texts, strict=True):
        assert ("<tool_call>" in text) == (act.kind >= FIRST_TOOL)
        assert act.pointer < 0 or str(act.pointer + 1) in text
    assert len({vector.tobytes() for vector in found.vectors}) == len(acts)
    assert np.linalg.norm(found.vectors, axis=1) == pytest.approx(1.0)
    assert np.array_equal(found.vectors, HashedEncoder().encode(found.texts))


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_candidate_means_its_own_act_at_any_length(domain):
    found = candidates_of(domain)
    count = len(found.texts)
    for length in (1.0, 1e-30, 1e30):
        every = found.nearest(found.vectors.astype(float) * length, np.ones((count, count)))
        assert every.tolist() == list(range(count))


def test_candidates_are_the_same_for_every_split_and_task():
    first = make(DESK, **BOTH).unwrapped
    other = make(DESK, **BOTH, split="test_policy", persona="skeptical_critic").unwrapped
    other.reset(seed=3)
    assert first.candidates == other.candidates
    assert np.array_equal(first.candidate_vectors, other.candidate_vectors)
    with pytest.raises(ValueError, match="read-only"):
        first.candidate_vectors[0] = 0.0


def test_the_nearest_is_what_the_plain_loop_finds():
    found, rng = candidates_of("sales"), np.random.default_rng(0)
    for _ in range(60):
        action = rng.normal(size=256)
        mask = rng.integers(0, 2, len(found.texts))
        mask[rng.integers(len(mask))] = 1
        best, nearest = -2.0, -1
        for number, vector in enumerate(found.vectors):
            cosine = sum(a * b for a, b in zip(action.tolist(), vector.tolist(), strict=True))
            cosine /= np.linalg.norm(action)
            if mask[number] and cosine > best:
                best, nearest = cosine, number
        assert found.nearest(action, mask) == nearest


SPOILED = st.sampled_from(["own", "between", "zero", "noise", "halfway"])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(SPOILED, min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_a_row_is_decoded_alike_alone_and_among_others(kinds, seed):
    found, rng = candidates_of("customer-service"), np.random.default_rng(seed)
    vectors, count = found.vectors, len(found.texts)
    pairs = rng.integers(count, size=(len(kinds), 2))
    made = {
        "own": lambda one, other: vectors[one],
        "between": lambda one, other: vectors[one] + vectors[other],
        "zero": lambda one, other: np.zeros(256, np.float32),
        "noise": lambda one, other: rng.normal(size=256).astype(np.float32),
        "halfway": lambda one, other: vectors[one] * 0.5 + vectors[other] * 0.5,
    }
    actions = np.array([made[k](*pair) for k, pair in zip(kinds, pairs, strict=True)])
    masks = (rng.random((len(kinds), count)) < 0.3).astype(np.int8)
    masks[:, 0] = 1
    together = found.nearest(actions, masks)
    alone = [found.nearest(a, m) for a, m in zip(actions, masks, strict=True)]
    assert together.tolist() == alone
    assert masks[np.arange(len(kinds)), together].all()


def test_of_candidates_as_near_the_first_legal_one_is_taken():
    class OneHot(Letters):
        def encode(self, texts):
            return np.eye(len(texts), self.dim, dtype=np.float32)

    found = Candidates(domain_called(LIBRARY), TextVectors(OneHot()))
    mask = np.ones(len(found.texts), np.int8)
    mask[:3] = 0
    tie = np.zeros(64)
    tie[[2, 9, 5]] = 0.25
    assert found.nearest(tie, mask) == 5
    assert found.nearest(np.zeros(64), mask) == 3
    assert found.nearest(-tie, mask) == 3


def test_two_acts_with_one_vector_are_refused_where_it_matters():
    class Deaf(Letters):
        def encode(self, texts):
            return np.ones((len(texts), self.dim), dtype=np.float32)

    make(DESK, observation="embedding", action="act", encoder=Deaf()).reset(seed=0)
    with pytest.raises(InvalidConfiguration, match="'greet' and 'ask_intent' have the same"):
        make(DESK, action="embedding", encoder=Deaf())


# The space of actions


def test_the_space_is_a_box_whose_samples_are_candidates():
    env = make(DESK, **BOTH)
    space, plain = env.action_space, Box(-1.0, 1.0, (256,), np.float32)
    assert space == plain and plain == space
    space.seed(3)
    drawn = np.array([space.sample() for _ in range(2000)])
    assert all(one in plain for one in drawn)
    which = candidates_of("customer-service").nearest(drawn, np.ones((2000, 125)))
    counts = np.bincount(which, minlength=125)
    assert counts.min() > 0 and counts.max() < 40  # 16 each, on average
    drawn[0][:] = 7.0
    assert np.abs(env.unwrapped.candidate_vectors).max() <= 1.0
    for wrong in ({"mask": np.ones(125, np.int8)}, {"probability": np.ones(125)}):
        with pytest.raises(InvalidConfiguration, match="no mask or probability"):
            space.sample(**wrong)


def test_a_batch_of_the_space_draws_candidates_too():
    space = CandidateSpace(candidates_of("sales").vectors, seed=5)
    batched = batch_space(space, 3)
    assert batched == batch_space(Box(-1.0, 1.0, (256,), np.float32), 3)
    drawn = batched.sample()
    assert drawn in batched and drawn.dtype == np.float32
    known = {vector.tobytes() for vector in space.vectors}
    assert {row.tobytes() for row in drawn} <= known
    assert batch_space(batched, 2).sample().shape == (2, 3, 256)
    copies = copy.deepcopy(space), pickle.loads(pickle.dumps(space))
    following = space.sample()
    for copied in copies:
        assert copied == space and np.array_equal(copied.sample(), following)


BAD_ACTIONS = [
    None, "text", 3, [0.5], np.zeros(255), np.zeros((1, 256)), np.full(256, np.nan),
    np.r_[np.zeros(255), np.inf], ["a"] * 256, [[1.0], [1.0, 2.0]], np.zeros(256, complex),
    np.zeros(256, bool), {},
]  # fmt: skip


@every_id
@pytest.mark.parametrize("action", BAD_ACTIONS, ids=lambda action: str(action)[:12])
def test_what_is_no_vector_is_refused_and_changes_nothing(environment_id, action):
    env = make(environment_id, **BOTH)
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match=r"array of finite numbers of shape \(256,\)"):
        env.step(action)
    first = env.unwrapped.candidate_vectors[0]
    seen, *_, info = env.step(first)
    assert info["turn"] == 1 and info["candidate"] == 0
    env.reset(seed=1)
    assert np.array_equal(env.step(first)[0], seen)


def test_rows_of_wrong_actions_are_refused():
    envs = gym.make_vec(DESK, 2, **BOTH)
    envs.reset(seed=0)
    for actions in (np.zeros(256), np.zeros((3, 256)), np.full((2, 256), np.inf), ("a", "b"), 1):
        with pytest.raises(InvalidAction, match=r"of shape \(2, 256\)"):
            envs.step(actions)
    assert envs.step(np.zeros((2, 256)))[4]["turn"].tolist() == [1, 1]


@every_id
def test_numbers_of_any_kind_are_an_action(environment_id):
    env, taken = make(environment_id, **BOTH), set()
    vector = env.unwrapped.candidate_vectors[5] * 8
    for action in (vector, vector.astype(float), vector.tolist(), tuple(vector.tolist())):
        env.reset(seed=4)
        taken.add(env.step(action)[4]["candidate"])
    assert len(taken) == 1
    env.reset(seed=4)
    assert env.step([0] * 256)[4]["candidate"] == 0, "zeros are the first legal act"
