"""The same two models, a local one and an endpoint, as writer, as the whole user and as judge."""

import pytest
from chat_server import ChatServer
from driven import IDS, bare, every_id, make, talked
from tiny_model import templated_model

from convgym.conversation import Conversation, Message
from convgym.envs.conversation_env import ConversationEnv
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
    env = make(environment_id, realism=1.0, writer=writer)
    said, infos = talked(env, ["May I have your email?", "Which order is it?"])
    drafted, _ = talked(make(environment_id, realism=0.5), ["May I have your email?",
                                                                "Which order is it?"])
    assert said == drafted
    assert {info["wording"] for info in infos} == {"fallback"}
    assert not any(info["failure_reason"] for info in infos)


every_role = pytest.mark.parametrize(
    "environment_id",
    [one for one in IDS if type(bare(one)).make_role != ConversationEnv.make_role],
)
"""The ids whose user can be played by a model: the others describe it to nobody."""


@every_role
def test_a_local_user_repeats_itself_from_a_seed(environment_id, network):
    def conversation():
        model = LocalModel(*network, max_tokens=16, temperature=1.0)
        return talked(make(environment_id, user=model, max_turns=3), ["Hello!", "Yes?"])

    (one, infos), (two, _) = conversation(), conversation()
    assert one == two
    assert {info["wording"] for info in infos} == {"model"}


@every_role
def test_an_endpoint_user_that_fails_ends_its_episode(environment_id):
    with ChatServer("broken") as server:
        user = EndpointModel(server.url, "m", retries=0)
        _, infos = talked(make(environment_id, user=user), ["Hello!"])
        user.close()
    assert infos[-1]["failure_reason"] == "user_failed: http 500"


@every_id
def test_a_model_without_a_role_to_play_is_one_sentence(environment_id, network):
    if environment_id in every_role.args[1]:
        pytest.skip("its user can be played")
    with pytest.raises(InvalidConfiguration, match="no model can play the user"):
        make(environment_id, user=LocalModel(*network))


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
