"""Texts as observations for learners that read numbers."""

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the environments
from convgym.data.embedding_cache import EmbeddingCache
from convgym.errors import InvalidConfiguration
from convgym.language.encoders import HashedEncoder

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from online_tasks import Question, QuestionOfParts, mean_return
from small_learners import learner

from trainers.online.encoded_text import EncodedText

torch.set_num_threads(1)


def test_a_text_is_its_encoders_vector():
    env = EncodedText(Question(), HashedEncoder(64))
    seen, _ = env.reset(seed=0)
    text, _ = Question().reset(seed=0)
    assert env.observation_space.contains(seen)
    assert np.array_equal(seen, HashedEncoder(64).encode([text])[0])


def test_parts_of_a_dict_are_encoded_kept_or_left_away():
    env = EncodedText(QuestionOfParts(), "hashed:64", parts=("message", "turn"))
    seen, _ = env.reset(seed=0)
    assert list(env.observation_space) == ["message", "turn"] and env.observation_space.contains(
        seen
    )
    assert EncodedText(QuestionOfParts()).observation_space["policy"].shape == (256,)


def test_a_cache_on_disk_is_an_encoder(tmp_path):
    env = EncodedText(Question(), EmbeddingCache(tmp_path, HashedEncoder(64)))
    seen, _ = env.reset(seed=0)
    assert seen.shape == (64,) and list(tmp_path.glob("*.vectors"))


@pytest.mark.parametrize("name", ["ppo", "qr_dqn"])
@pytest.mark.parametrize("env", [Question, QuestionOfParts])
def test_answers_to_texts_are_learnt(name, env):
    settings = {"n_step_td": 1} if name == "qr_dqn" else {}
    policy = learner(name, **settings).fit(lambda: EncodedText(env(), "hashed:64"), 1_500)
    assert mean_return(policy, EncodedText(env(), "hashed:64"), deterministic=True) > 0.95


def test_returns_over_several_steps_are_refused_where_parts_have_no_masks():
    with pytest.raises(InvalidConfiguration, match="n_step_td=1"):
        learner("dqn").fit(lambda: EncodedText(QuestionOfParts(), "hashed:64"), 100)


def test_the_desk_is_learnt_from_messages_with_its_masks():
    def make():
        env = gym.make("ConvGym/CustomerService-v0", observation="message", action="act")
        return EncodedText(env)

    policy = learner("maskable_ppo", n_envs=2).fit(make, 128)
    assert policy.model.observation_space.shape == (256,)
    mean_return(policy, make(), 2)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: EncodedText(gym.make("CartPole-v1")), "neither a text"),
        (lambda: EncodedText(Question(), parts=("message",)), "neither a text"),
        (lambda: EncodedText(QuestionOfParts(), parts=("mood",)), "have message, policy, turn"),
        (lambda: EncodedText(Question(), "no such encoder"), "encoder="),
    ],
    ids=["numbers", "one text", "no such part", "no such encoder"],
)
def test_what_cannot_be_encoded_is_refused(made, says):
    with pytest.raises(InvalidConfiguration, match=says):
        made()
