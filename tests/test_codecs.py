"""Codecs: data in words as learners take them, and learnt policies that play the environment."""

import gymnasium as gym
import numpy as np
import pytest

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")
torch = pytest.importorskip("torch", reason="torch is not installed")

import convgym  # noqa: E402
from convgym.data.embedding_cache import EmbeddingCache  # noqa: E402
from convgym.data.transitions import read_episodes  # noqa: E402
from convgym.errors import DatasetError, InvalidConfiguration  # noqa: E402
from convgym.evaluation.rollout import play  # noqa: E402
from convgym.language.encoders import HashedEncoder  # noqa: E402
from convgym.policies.rendered import RenderedPolicy  # noqa: E402
from trainers.offline.codecs import (  # noqa: E402
    Candidates,
    Codec,
    DiscreteActs,
    EmbeddingRetrieval,
    NearestReplies,
    Replies,
)
from trainers.offline.observation_codecs import (  # noqa: E402
    BoxObservations,
    Parts,
    TextObservations,
)
from trainers.offline.proposals import ProposalPolicy  # noqa: E402
from trainers.offline.registry import config_of  # noqa: E402

torch.set_num_threads(1)
DESK, TEXTS = "ConvGym/CustomerService-v0", "convgym/customer-service-text/sample-v0"
SMALL = {"hidden": (32,), "batch_size": 64}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The sample of conversations in words that ConvGym brings along: 100 of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        yield convgym.load_dataset(TEXTS, sources=["packaged"])


@pytest.fixture(scope="module")
def replies():
    """A candidate reply for each act of the desk."""
    return Replies(gym.make(DESK, action="embedding").unwrapped.candidates, "hashed:64")


def codec_of(replies, actions=DiscreteActs, **keywords):
    return Codec(TextObservations("hashed:64", messages=3), actions(replies), **keywords)


# Observations


def test_a_text_row_holds_the_newest_messages_of_both_sides():
    codec, encoder = TextObservations("hashed:64", messages=3), HashedEncoder(64)
    said = [encoder.encode([text])[0] for text in ("hello", "hi", "my order", "which?", "the red")]
    rows = codec.rows(["hello", "my order", "the red"], ["hi", "which?"])
    zero = np.zeros(64)
    expected = [[said[0], zero, zero], [said[2], said[1], said[0]], [said[4], said[3], said[2]]]
    assert np.allclose(rows, np.array(expected).reshape(3, -1), atol=1e-6)


def test_vectors_come_from_the_cache_and_are_the_same(tmp_path):
    class Counted(HashedEncoder):
        asked = 0

        def encode(self, texts):
            Counted.asked += len(texts)
            return super().encode(texts)

    seen, said = ["hello", "my order"], ["hi"]
    plain = TextObservations("hashed:64").rows(seen, said)
    for _ in range(2):
        cached = TextObservations(EmbeddingCache(tmp_path, Counted(64)))
        assert np.array_equal(cached.rows(seen, said), plain)
    assert Counted.asked == 3


def test_a_dict_is_read_as_the_messages_it_is_made_of():
    """`observation="message"` and "dict" show the same words, and so does every row."""
    words, parts = (gym.make(DESK, observation=kind, action="act") for kind in ("message", "dict"))
    codec = TextObservations("hashed:64", messages=2)
    for seed in range(4):
        seen = [[env.reset(seed=seed)[0]] for env in (words, parts)]
        rng = np.random.default_rng(seed)
        for _ in range(6):
            act = int(rng.choice(np.flatnonzero(words.unwrapped.action_masks())))
            steps = [env.step(act) for env in (words, parts)]
            for one, step in zip(seen, steps, strict=True):
                one.append(step[0])
            if steps[0][2] or steps[0][3]:
                break
        assert np.array_equal(codec.rows(seen[0], []), codec.rows(seen[1], []))


def test_parts_stand_side_by_side():
    codec = Parts(BoxObservations(2), TextObservations("hashed:64", messages=1))
    assert codec.size == 66 and codec.parts == ("features", "message", "tool_results")
    observation = {"features": np.float32([1, 2]), "message": "hello", "tool_results": ""}
    row = codec.rows([observation], [])[0]
    assert row[:2].tolist() == [1.0, 2.0]
    assert np.array_equal(row[2:], HashedEncoder(64).encode(["hello"])[0])
    assert BoxObservations(4).rows([np.eye(2)], []).tolist() == [[1.0, 0.0, 0.0, 1.0]]


# Datasets


@pytest.mark.parametrize("kind", [DiscreteActs, Candidates, EmbeddingRetrieval])
def test_a_dataset_of_words_becomes_rows_and_the_acts_that_infos_name(data, replies, kind):
    codec = codec_of(replies, kind)
    episodes, plain = codec.episodes(data, discount=0.9), read_episodes(data, 0.9)
    assert len(episodes) == len(plain) == 100
    for made, read, stored in zip(episodes, plain, data.iterate_episodes(), strict=True):
        acts = stored.infos["act"][1:]
        expected = replies.vectors[acts] if kind is EmbeddingRetrieval else acts
        assert np.array_equal(made.actions, expected)
        assert made.observations.shape == (len(read) + 1, 192)
        assert np.array_equal(made.returns, read.returns)
        assert np.array_equal(made.rewards, read.rewards)
        assert (made.terminated, made.truncated) == (read.terminated, read.truncated)
    last = codec.observations.rows(
        list(plain[3].observations),
        [replies.texts[n] for n in data[3].infos["act"][1:]],
    )
    assert np.array_equal(episodes[3].observations, last)
    shapes = codec.shapes
    assert shapes.observation == 192 and shapes.discrete == (kind is not EmbeddingRetrieval)
    assert (shapes.candidates is None) == (kind is DiscreteActs)


def test_a_reply_that_no_info_names_is_the_nearest_candidate(replies):
    numbers = replies.numbers([replies.texts[4], replies.texts[9] + " please"])
    assert numbers.tolist() == [4, 9]
    noise = np.random.default_rng(0).normal(0, 0.02, size=(3, 64))
    assert replies.numbers(list(5.0 * replies.vectors[[7, 1, 2]] + noise)).tolist() == [7, 1, 2]
    codec = codec_of(replies, EmbeddingRetrieval)
    assert [codec.actions.number(v) for v in 2.0 * replies.vectors[:5]] == [0, 1, 2, 3, 4]


def test_the_nearest_replies_are_what_the_plain_loop_finds(data, replies):
    episodes = codec_of(replies).episodes(data)[:12]
    nearest = NearestReplies(episodes[:8], len(replies.texts), 5)
    rows = episodes[9].observations
    rng = np.random.default_rng(0)
    legal = (rng.random((len(rows), len(replies.texts))) < 0.5).astype(np.int8)
    for masks in (None, legal):
        found = nearest.narrowed(rows, masks)
        for row, mask in zip(rows, found, strict=True):
            turns = [
                (float(row @ o / np.linalg.norm(o)), a)
                for e in episodes[:8]
                for o, a in zip(e.observations[:-1], e.actions, strict=True)
            ]
            expected = []
            for _, act in sorted(turns, key=lambda turn: -turn[0]):
                allowed = masks is None or legal[np.flatnonzero((rows == row).all(1))[0], act]
                if allowed and act not in expected and len(expected) < 5:
                    expected.append(int(act))
            assert len(expected) == 5
            assert set(np.flatnonzero(mask)) == set(expected)


def test_what_was_done_is_a_candidate_of_its_turn(data, replies):
    episodes = codec_of(replies).episodes(data)
    nearest = NearestReplies(episodes[:20], len(replies.texts), 4)
    for episode in codec_of(replies, Candidates, nearest=nearest).episodes(data)[:40]:
        assert episode.masks[np.arange(len(episode)), episode.actions].all()
        counts = episode.masks.sum(axis=1)
        assert ((counts == 4) | (counts == 5)).all()


def test_what_does_not_fit_is_refused(data, replies):
    few = Replies(replies.texts[:3], "hashed:64")
    with pytest.raises(DatasetError, match="the codec has 3 replies"):
        codec_of(few).episodes(data)
    with pytest.raises(InvalidConfiguration, match="have the same vector"):
        Replies(["hello", "hello"])
    with pytest.raises(InvalidConfiguration, match="no replies"):
        Replies([])
    with pytest.raises(InvalidConfiguration, match="count=0"):
        NearestReplies([], 3, 0)


# Policies


class Repeats:
    """Does what was recorded, and notes the rows it is shown."""

    name = "repeats"

    def __init__(self, actions):
        self.actions, self.rows = list(actions), []

    def reset(self, seed):
        self.left = list(self.actions)

    def predict(self, row, state=None, start=None, deterministic=False, action_masks=None):
        self.rows.append(row)
        return self.left.pop(0), state


@pytest.mark.parametrize("kind", [DiscreteActs, EmbeddingRetrieval])
def test_who_plays_is_shown_the_rows_that_were_learnt_from(data, replies, kind):
    codec = codec_of(replies, kind)
    for made, read in zip(codec.episodes(data)[:6], read_episodes(data)[:6], strict=True):
        repeats = Repeats(made.actions)
        policy = codec.policy(repeats)
        policy.reset(0)
        acts = [policy.predict(text)[0] for text in read.observations[:-1]]
        assert np.array_equal(repeats.rows, made.observations[:-1])
        numbers = [codec.actions.number(action) for action in made.actions]
        assert acts == numbers


KINDS = [
    ("bc", DiscreteActs),
    ("candidate_cql", Candidates),
    ("td3_bc", EmbeddingRetrieval),
    ("iql", EmbeddingRetrieval),
]


@pytest.mark.parametrize(("name", "kind"), KINDS, ids=[name for name, _ in KINDS])
def test_what_is_learnt_from_words_plays_in_acts_in_vectors_and_in_words(data, replies, name, kind):
    codec = codec_of(replies, kind)
    made = config_of(name, discrete=kind is not EmbeddingRetrieval)(**SMALL)
    learnt = made.create().fit(codec.episodes(data), 60, shapes=codec.shapes)
    numbers = play(
        gym.make(DESK, observation="message", action="act"), codec.policy(learnt), seed=3
    )
    vectors = play(
        gym.make(DESK, observation="message", action="embedding", encoder="hashed:64"),
        codec.policy(learnt, vectors=True),
        seed=3,
    )
    assert numbers.rewards == vectors.rewards and len(numbers.rewards) > 1
    decoded = [info["candidate"] for info in vectors.infos[1:]]
    assert decoded == numbers.actions
    for act, info in zip(numbers.actions, numbers.infos, strict=False):
        assert info["action_mask"][act], "only what is legal is said"
    spoken = play(
        gym.make(DESK, observation="dict", action="text"), RenderedPolicy(codec.policy(learnt)),
        seed=3,
    )  # fmt: skip
    assert spoken.acts == numbers.actions
    assert all(isinstance(text, str) for text in spoken.actions)


def test_the_best_of_what_is_proposed_is_said(data, replies):
    codec = codec_of(replies, Candidates)
    made = config_of("candidate_cql", discrete=True)(**SMALL)
    learnt = made.create().fit(codec.episodes(data), 60, shapes=codec.shapes)
    env, asked = gym.make(DESK, observation="message", action="text"), []

    def propose(observation):
        asked.append(observation)
        return env.action_space.utterances[len(asked) : 2 * len(asked) + 2]  # more each turn

    policy = ProposalPolicy(learnt, codec, propose)
    played = play(env, policy, seed=1)
    assert asked == played.observations[:-1] and played.length > 1
    rows = codec.observations.rows(played.observations, played.actions)
    for turn, (row, text) in enumerate(zip(rows, played.actions, strict=False), start=1):
        texts = env.action_space.utterances[turn : 2 * turn + 2]
        values = learnt.values(row, replies.encode(texts))
        assert text == texts[int(values.argmax())]
    with pytest.raises(InvalidConfiguration, match="no reply was proposed"):
        ProposalPolicy(learnt, codec, lambda observation: []).predict("hello")


@pytest.mark.slow
def test_a_clone_of_words_does_better_than_chance(data, replies):
    """Of the 100 conversations of the sample; about 15 CPU-seconds."""
    from convgym.policies.policy import RandomPolicy

    codec = codec_of(replies)
    made = config_of("bc", discrete=True)(hidden=(128,), batch_size=64)
    learnt = made.create().fit(codec.episodes(data), 600, shapes=codec.shapes)
    env = gym.make(DESK, observation="message", action="act", reward="milestones")
    clone, chance = (
        np.mean([play(env, policy, seed=s, keep=False).return_ for s in range(60)])
        for policy in (codec.policy(learnt), RandomPolicy())
    )
    assert clone > chance
