"""The same two models, a local one and an endpoint, as writer, as the whole user and as judge."""

import gymnasium as gym
import pytest
from chat_server import ChatServer
from driven import every_id, talked
from tiny_model import templated_model

from convgym.conversation import Conversation, Message
from convgym.errors import InvalidConfiguration
from convgym.language.endpoint import EndpointModel
from convgym.language.local_model import LocalModel
from convgym.language.writers import LanguageModelWriter
from convgym.rewards import Judge

TALK = Conversation("1", (Message("user", "Where is my order?"), Message("assistant", "Shipped.")))


@pytest.fixture(scope="module")
def network():
    return templated_model(8192)


@every_id
def test_a_local_writer_that_babbles_is_never_heard(environment_id, network):
    writer = LanguageModelWriter(*network, max_tokens=24)
    env = gym.make(environment_id, realism=1.0, writer=writer)
    said, infos = talked(env, ["May I have your email?", "Which order is it?"])
    drafted, _ = talked(gym.make(environment_id, realism=0.5), ["May I have your email?",
                                                                "Which order is it?"])
    assert said == drafted
    assert {info["wording"] for info in infos} == {"fallback"}
    assert not any(info["failure_reason"] for info in infos)


@every_id
def test_a_local_user_repeats_itself_from_a_seed(environment_id, network):
    def conversation():
        model = LocalModel(*network, max_tokens=16, temperature=1.0)
        return talked(gym.make(environment_id, user=model, max_turns=3), ["Hello!", "Yes?"])

    (one, infos), (two, _) = conversation(), conversation()
    assert one == two
    assert {info["wording"] for info in infos} == {"model"}


@every_id
def test_an_endpoint_user_that_fails_ends_its_episode(environment_id):
    with ChatServer("broken") as server:
        user = EndpointModel(server.url, "m", retries=0)
        _, infos = talked(gym.make(environment_id, user=user), ["Hello!"])
        user.close()
    assert infos[-1]["failure_reason"] == "user_failed: http 500"


def test_both_may_judge(network):
    local = Judge(model=LocalModel(*network, max_tokens=8))(TALK)
    assert 0.0 <= local.value <= 1.0
    assert local == Judge(model=LocalModel(*network, max_tokens=8))(TALK)
    with ChatServer("broken") as server, EndpointModel(server.url, "m", retries=0) as model:
        assert Judge(model=model)(TALK).breakdown == {"judge_failed": 1.0}
    with ChatServer("draft") as server, EndpointModel(server.url, "m", retries=0) as model:
        assert Judge(model=model)(TALK).breakdown["judge_failed"] in (0.0, 1.0)
    assert Judge(model=lambda prompt: "Score: 7")(TALK).value == 0.7


def test_what_is_no_model_is_refused():
    with pytest.raises(InvalidConfiguration, match="is no model"):
        Judge(model=object())
