"""Messages and replies as vectors: what is seen, what an action means, alone and in a batch."""

import copy
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from driven import NEEDED, bare, every_id, make
from embedded import BOTH, DESK, LIBRARY_ID, Letters
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from test_batched_env import _MODES, IDS, assert_same_infos

from convgym.envs.autoreset import DISABLED, NEXT_STEP, AutoresetMode
from convgym.envs.batched import BatchedVectorEnv
from convgym.envs.rows import reset_rows
from convgym.envs.text_vectors import TextVectors
from convgym.errors import InvalidConfiguration
from convgym.language.encoders import HashedEncoder

# What a step does


@every_id
@pytest.mark.parametrize("observation", ["features", "transcript", "embedding"])
def test_a_vector_does_what_its_act_does(environment_id, observation):
    by_number = make(environment_id, observation=observation, action="act")
    by_vector = make(environment_id, observation=observation, action="embedding")
    rng = np.random.default_rng(0)
    for seed in range(6):
        seen, info = by_number.reset(seed=seed)
        other, also = by_vector.reset(seed=seed)
        assert also.pop("candidate") == -1
        over = False
        while not over:
            assert np.array_equal(seen, other)
            assert list(info) == list(also)
            assert all(np.array_equal(info[key], also[key]) for key in info)
            act = int(rng.choice(np.flatnonzero(info["action_mask"])))
            seen, reward, terminated, truncated, info = by_number.step(act)
            vector = by_vector.unwrapped.candidate_vectors[act]
            other, *outcome, also = by_vector.step(vector)
            assert outcome == [reward, terminated, truncated]
            assert also.pop("candidate") == act
            over = terminated or truncated


def expected(env, messages, encoder):
    """The obvious second version: the newest lines of what was said, encoded one by one."""
    seen = []
    for who, text in reversed(env.unwrapped.said()):
        reply = env.unwrapped.candidates[int(text)] if who == "Act" else text
        seen.append(encoder.encode([reply])[0])
    seen = [*seen[:messages], *[np.zeros(encoder.dim, np.float32)] * messages][:messages]
    return np.concatenate(seen)


@every_id
@pytest.mark.parametrize("action", ["act", "text", "embedding"])
@pytest.mark.parametrize(("messages", "dim"), [(4, 256), (1, 256), (7, 64)])
def test_what_is_seen_is_the_newest_messages(environment_id, action, messages, dim):
    env = make(
        environment_id, observation="embedding", action=action, messages=messages,
        encoder=f"hashed:{dim}",
    )  # fmt: skip
    assert env.observation_space.shape == (messages * dim,)
    encoder, kinds = HashedEncoder(dim), set()
    env.action_space.seed(1)
    for seed in range(3):
        seen, info = env.reset(seed=seed)
        assert np.count_nonzero(seen[dim:]) == 0, "the opening stands alone"
        over = False
        while not over:
            assert seen in env.observation_space and seen.dtype == np.float32
            assert np.array_equal(seen, expected(env, messages, encoder))
            legal = np.flatnonzero(info["action_mask"])
            chosen = int(legal[(seed + 7 * info["turn"]) % len(legal)])
            sent = env.action_space.sample() if action != "act" else chosen
            seen, _, terminated, truncated, info = env.step(sent)
            over = terminated or truncated
        kinds |= {who for who, _ in env.unwrapped.said()}
    assert {"Customer", "Tool"} <= kinds


def test_scenarios_show_vectors_and_take_words():
    env = make("ConvGym/Scenarios-v0", observation="embedding", messages=3)
    seen, _ = env.reset(seed=2)
    for step in range(6):
        assert seen in env.observation_space
        assert np.array_equal(seen, expected(env, 3, HashedEncoder()))
        sent = env.action_space.utterances[step]
        seen, _, terminated, truncated, _ = env.step(sent)
        if terminated or truncated:
            break
    assert step > 1
    with pytest.raises(InvalidConfiguration, match="no numbered acts, and so no candidate"):
        make("ConvGym/Scenarios-v0", action="embedding")


def test_nothing_that_is_hidden_can_be_seen():
    """Of two customers who said the same to the same acts, the same is seen."""
    env = make(DESK, **BOTH, privileged=True)
    seen = {}
    for seed in range(300):
        vectors, info = env.reset(seed=seed, options={"style": "terse"})
        said = tuple(env.unwrapped.said())
        assert seen.setdefault(said, vectors.tobytes()) == vectors.tobytes()
        assert info["privileged"]
    assert len(seen) < 290, "some of them say the same"


def test_conversations_for_two_show_vectors_and_take_none():
    multi_agent = pytest.importorskip("convgym.multi_agent")
    env = multi_agent.env(DESK, observation="embedding", action="act")
    assert env.observation_space("agent_0")["embedding"].shape == (1024,)
    with pytest.raises(InvalidConfiguration, match="action='embedding' is not one of text, act"):
        multi_agent.env(DESK, action="embedding")


# Encoders


def test_an_encoder_of_ones_own_is_taken_and_kept_within_the_box():
    env = make(DESK, **BOTH, encoder=Letters(), messages=2)
    seen, _ = env.reset(seed=0)
    assert seen.shape == (128,) and seen in env.observation_space
    assert np.linalg.norm(seen[:64]) == pytest.approx(1.0)
    assert np.linalg.norm(env.unwrapped.candidate_vectors, axis=1) == pytest.approx(1.0)
    envs = gym.make_vec(DESK, 2, **BOTH, encoder=Letters(), messages=2)
    assert np.array_equal(envs.reset(seed=0)[0][0], seen)


def test_copies_share_what_is_remembered():
    env = make(DESK, **BOTH)
    env.reset(seed=0)
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert other.unwrapped.embedding.vectors is env.unwrapped.embedding.vectors
    assert len(pickle.dumps(env)) < 2_000_000
    own = make(DESK, **BOTH, encoder=Letters())
    own.reset(seed=0)
    assert pickle.loads(pickle.dumps(own)).reset(seed=1)[0] in own.observation_space


def test_a_memory_that_is_full_forgets_and_says_the_same():
    encoder, calm = Letters(), TextVectors(Letters())
    small = TextVectors(encoder)
    small.most = 5
    rng, most = np.random.default_rng(0), 5
    words = [f"word {number}" for number in range(12)]
    for size in (1, 3, 5, 9, 2, 4, 4, 0):
        texts = [words[one] for one in rng.integers(12, size=size)]
        assert np.array_equal(small.of(texts), calm.of(texts))
        most = max(most, len(set(texts)))
        assert len(small._places) <= most
    asked = [text for call in encoder.calls for text in call]
    assert len(asked) > len(set(asked)), "some were forgotten"
    before = len(encoder.calls)
    small.of(texts), small.of(texts)
    assert len(encoder.calls) == before, "and what is known is not asked for again"


@pytest.mark.parametrize(
    "wrong",
    [{"messages": 0}, {"messages": 65}, {"messages": 2.5}, {"messages": True}, {"messages": "4"},
     {"encoder": "nonsense"}, {"encoder": 5}, {"encoder": None}, {"encoder": "hashed:100"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("environment_id", [DESK, "ConvGym/Scenarios-v0"])
def test_a_bad_keyword_is_refused_by_name(environment_id, wrong):
    with pytest.raises(InvalidConfiguration) as refused:
        bare(environment_id, observation="embedding", **wrong)
    assert str(next(iter(wrong.values()))).removeprefix("hashed:") in str(refused.value)


# Rows


def both(environment_id, count, mode=NEXT_STEP, **keywords):
    """The batched environment and the obvious second version."""
    keywords = {**NEEDED.get(environment_id, {}), **keywords}
    more = {} if AutoresetMode is None else {"autoreset_mode": AutoresetMode[mode]}

    def one():
        return gym.make(environment_id, disable_env_checker=True, **keywords)

    ours = gym.make_vec(environment_id, count, **keywords, **more)
    unread = environment_id == LIBRARY_ID and keywords["action"] == "text"
    assert isinstance(ours.unwrapped, BatchedVectorEnv) != unread
    return ours, SyncVectorEnv([one] * count, **more)


def chosen(env, infos, rng):
    """For each row a legal act mostly, as this environment takes it; an utterance in text mode."""
    space = env.single_action_space
    if isinstance(space, gym.spaces.Text):
        return tuple(str(rng.choice(space.utterances)) for _ in range(env.num_envs))
    masks = infos["action_mask"]
    acts = (rng.random(masks.shape) * (masks + (rng.random(masks.shape) < 0.01))).argmax(axis=1)
    if isinstance(space, gym.spaces.Discrete):
        return acts
    noise = rng.normal(scale=0.03, size=(env.num_envs, 256))
    return (env.unwrapped.candidate_vectors[acts] + noise).astype(np.float32)


def same(seen, other):
    if isinstance(other, np.ndarray):
        return np.array_equal(seen, other) and seen.dtype == other.dtype
    if isinstance(other, dict):
        return all(same(seen[key], part) for key, part in other.items())
    return seen == other


def play_both(environment_id, mode, count, steps, **keywords):
    """Step both; returns how many episodes ended."""
    ours, theirs = both(environment_id, count, mode, **keywords)
    rng, ended = np.random.default_rng(1), 0
    seen, infos = ours.reset(seed=5)
    other, their_infos = theirs.reset(seed=5)
    assert same(seen, other)
    assert_same_infos(infos, their_infos)
    for step in range(steps):
        actions = chosen(ours, their_infos, rng)
        seen, *outcome, infos = ours.step(actions)
        other, *expected, their_infos = theirs.step(actions)
        assert same(seen, other)
        assert seen in ours.observation_space or isinstance(seen, tuple | dict)
        for one, two in zip(outcome, expected, strict=True):
            assert np.array_equal(one, two) and one.dtype == two.dtype
        if step % 3:
            assert_same_infos(infos, their_infos)
        over = outcome[1] | outcome[2]
        ended += int(over.sum())
        if mode == DISABLED and over.any():
            mask = {"reset_mask": over}
            seen, infos = ours.reset(options=dict(mask))
            other, their_infos = theirs.reset(options=dict(mask))
            assert same(seen, other)
            assert_same_infos(infos, their_infos)
            # The infos of a reset tell of the rows that were reset alone.
            their_infos = {"action_mask": np.stack(theirs.call("action_masks"))}
    return ended


PAIRS = [
    ("embedding", "embedding"), ("embedding", "act"), ("embedding", "text"),
    ("features", "embedding"), ("message", "embedding"),
]  # fmt: skip
ALL_IDS = (*IDS, LIBRARY_ID)
every_pair = pytest.mark.parametrize(("observation", "action"), PAIRS)


@every_pair
@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("environment_id", ALL_IDS)
def test_rows_are_what_single_environments_are(environment_id, mode, observation, action):
    keywords = {"observation": observation, "action": action}
    assert play_both(environment_id, mode, 6, 22, **keywords) > 0


@pytest.mark.slow
@every_pair
@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("environment_id", ALL_IDS)
def test_ten_thousand_steps_are_the_same(environment_id, mode, observation, action):
    keywords = {"observation": observation, "action": action}
    assert play_both(environment_id, mode, 64, 160, **keywords) > 200


KEYWORDS = [
    {"reward": "milestones", "messages": 1, "style": "sloppy"},
    {"split": "test_lexical", "realism": 0.4, "encoder": "hashed:64"},
    {"persona": "skeptical_critic", "messages": 9, "max_turns": 8},
]


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda keywords: "-".join(keywords))
@pytest.mark.parametrize("environment_id", IDS)
def test_keywords_mean_the_same(environment_id, keywords):
    for action in ("act", "text"):
        play_both(environment_id, NEXT_STEP, 4, 12, observation="embedding", action=action,
                  **keywords)  # fmt: skip


@pytest.mark.parametrize("action", ["embedding", "act", "text"])
def test_a_row_is_the_same_whatever_stands_beside_it(action):
    few, many = (gym.make_vec(DESK, n, observation="embedding", action=action) for n in (1, 200))
    seen, infos = few.reset(seed=9)
    wide, _ = many.reset(seed=9)
    rng = np.random.default_rng(3)
    for _ in range(12):
        assert np.array_equal(seen, wide[:1])
        actions = chosen(few, infos, rng)
        others = [actions[0]] * 200
        wide, _, _, _, many_infos = many.step(others if action == "text" else np.array(others))
        seen, _, _, _, infos = few.step(actions)
        if action == "embedding":
            assert infos["candidate"][0] == many_infos["candidate"][0]


def test_the_words_of_a_step_are_encoded_in_one_call():
    encoder = Letters()
    envs = gym.make_vec(DESK, 30, observation="embedding", action="act", encoder=encoder)
    _, infos = envs.reset(seed=0)
    assert len(envs.unwrapped.candidates) == 125
    rng, ended = np.random.default_rng(0), 0
    for _ in range(12):
        before = len(encoder.calls)
        _, _, terminated, truncated, infos = envs.step(chosen(envs, infos, rng))
        assert len(encoder.calls) <= before + 1
        ended += int((terminated | truncated).sum())
    asked = [text for call in encoder.calls for text in call]
    assert len(asked) == len(set(asked)) > 100 and ended


def test_rows_that_are_not_reset_keep_what_they_remember():
    envs = gym.make_vec(DESK, 4, **BOTH)
    seen, infos = envs.reset(seed=1)
    for _ in range(2):
        vectors = envs.unwrapped.candidate_vectors[[0, 1, 12, 80]]
        seen, _, _, _, infos = envs.step(vectors)
    assert infos["candidate"].tolist() == [0, 1, 12, 80]
    mask = np.array([False, True, False, False])
    again, infos = envs.reset(options={"reset_mask": mask})
    assert np.array_equal(again[~mask], seen[~mask])
    assert np.count_nonzero(again[1, 256:]) == 0 and np.count_nonzero(seen[1, 256:]) > 0
    assert infos["candidate"][1] == -1 and infos["_candidate"].tolist() == mask.tolist()
    (observation, info), = reset_rows(envs, [2], [7], [{"task_id": "test-3"}], ["candidate"])
    alone, _ = make(DESK, **BOTH).reset(seed=7, options={"task_id": "test-3"})
    assert np.array_equal(observation, alone) and info["candidate"] == -1


def test_what_is_returned_is_not_written_to_again():
    envs = gym.make_vec(DESK, 3, **BOTH)
    seen, infos = envs.reset(seed=0)
    before, kept = seen.copy(), [infos]
    for number in (3, 4, 12):
        kept.append(envs.step(envs.unwrapped.candidate_vectors[[number] * 3])[4])
    assert np.array_equal(seen, before)
    assert [infos["candidate"].tolist() for infos in kept] == [[n] * 3 for n in (-1, 3, 4, 12)]
    seen[:] = 7.0
    assert np.abs(envs.step(np.zeros((3, 256)))[0]).max() <= 1.0


def test_every_vector_environment_names_its_candidates():
    for keywords in (BOTH, {"observation": "transcript", "action": "embedding"}):
        envs = gym.make_vec(DESK, 2, **keywords).unwrapped
        assert envs.candidates == make(DESK, **keywords).unwrapped.candidates
        assert envs.candidate_vectors.shape == (125, 256)
        envs.action_space.seed(0)
        envs.reset(seed=0)
        assert envs.step(envs.action_space.sample())[4]["candidate"].shape == (2,)


def test_a_writer_words_the_rows_of_vectors_together():
    class Writer:
        name = "plain"

        def __init__(self):
            self.sizes = []

        def write(self, requests):
            self.sizes.append(len(requests))
            from convgym.language.writing import Written

            return [Written(request.draft) for request in requests]

    writer = Writer()
    envs = gym.make_vec(DESK, 3, **BOTH, realism=1.0, writer=writer)
    seen, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(4):
        assert seen in envs.observation_space
        seen = envs.step(envs.action_space.sample())[0]
    assert max(writer.sizes) > 1


@pytest.mark.parametrize("shared", [True, False])
def test_processes_of_their_own_show_the_same(shared):
    keywords = {"vectorization_mode": "async", "vector_kwargs": {"shared_memory": shared}}
    envs = gym.make_vec(DESK, 2, **BOTH, **keywords)
    here = gym.make_vec(DESK, 2, **BOTH)
    try:
        assert np.array_equal(envs.reset(seed=1)[0], here.reset(seed=1)[0])
        here.action_space.seed(0)
        for _ in range(3):
            actions = here.action_space.sample()
            assert np.array_equal(envs.step(actions)[0], here.step(actions)[0])
    finally:
        envs.close()


# Data


class Replies:
    """A random policy whose acts are sent as the vectors of their candidates."""

    name = "vectors"

    def __init__(self, vectors):
        from convgym.policies.policy import RandomPolicy

        self.policy, self.vectors = RandomPolicy(), vectors

    def reset(self, seed):
        self.policy.reset(seed)

    def predict(self, observation, state=None, start=None, deterministic=False, action_masks=None):
        number, state = self.policy.predict(
            observation, state, start, deterministic, action_masks=action_masks
        )
        return self.vectors[number], state


def test_vectors_are_collected_stored_and_played_again(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    from convgym.data.collection import collect_episodes
    from convgym.data.episodes import collect, content_hash, write_dataset
    from convgym.policies.batched import RowPolicies

    env = make(DESK, **BOTH, messages=2, encoder="hashed:64", max_turns=12)
    vectors, fields = env.unwrapped.candidate_vectors, ["candidate", "success"]
    alone = collect(env, [(Replies(vectors), 1.0)], 9, 4, info_fields=fields)
    envs = gym.make_vec(env.spec.id, 4, **env.spec.kwargs)
    batched = RowPolicies(lambda: Replies(vectors))
    together = list(collect_episodes(envs, batched, 9, 4, info_fields=fields))
    assert content_hash(together) == content_hash(alone)
    write_dataset(
        "test/vectors-v0", env, together, description="vectors", ref_min_score=0.0,
        ref_max_score=1.0, algorithm_name="vectors",
    )  # fmt: skip
    data = minari.load_dataset("test/vectors-v0")
    assert type(data.action_space) is Box and data.action_space == env.action_space
    assert data.observation_space == env.observation_space
    again = data.recover_environment()
    assert again.unwrapped.candidates == env.unwrapped.candidates
    for place, episode in enumerate(data.iterate_episodes()):
        options = alone[place].options
        seen, _ = again.reset(seed=alone[place].seed, options=options)
        assert np.array_equal(episode.observations[0], seen)
        for step, action in enumerate(episode.actions):
            seen, reward, *_, info = again.step(action)
            assert np.array_equal(episode.observations[step + 1], seen)
            assert episode.rewards[step] == reward
            assert episode.infos["candidate"][step + 1] == info["candidate"]


# Learners


def test_stable_baselines_takes_vectors_both_ways():
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    from stable_baselines3 import PPO

    from trainers.online.vec_env import ConversationVecEnv, side_by_side

    def one():
        return make(DESK, **BOTH, reward="milestones", max_turns=9)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(one())
        check_env(one().unwrapped)
    envs = side_by_side(one, 4)
    assert isinstance(envs, ConversationVecEnv)
    envs.seed(0)
    model = PPO("MlpPolicy", envs, n_steps=32, batch_size=64, n_epochs=1, seed=0)
    model.learn(256)
    seen = envs.reset()
    assert model.predict(seen)[0].shape == (4, 256)
    with pytest.raises(InvalidConfiguration, match='action="act" or "embedding"'):
        ConversationVecEnv(gym.make_vec(DESK, 2, observation="embedding", action="text"))


@pytest.mark.slow
def test_acts_are_learnt_from_what_is_said():
    pytest.importorskip("sb3_contrib")
    from convgym.evaluation.evaluate import evaluate
    from convgym.policies.policy import RandomPolicy
    from trainers.online.maskable_ppo import MaskablePPOConfig

    def one(**keywords):
        return make(LIBRARY_ID, observation="embedding", action="act", **keywords)

    learner = MaskablePPOConfig(n_steps=32, hidden=(64,), seed=2).create()
    learnt = evaluate(learner.fit(lambda: one(reward="graded"), 120_000), one(), episodes=400)
    chance = evaluate(RandomPolicy(), one(), episodes=400)
    assert learnt.success_interval[0] > 2 * chance.success_interval[1]
