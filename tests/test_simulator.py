"""The simulator for people says what the environment says."""

from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import pytest
from driven import NEEDED, domain_of, every_id, make
from hypothesis import given, settings
from hypothesis import strategies as st
from staged_user import task_of
from twin_user import drawn_truth, twin_log

from convgym import ENVIRONMENTS
from convgym.calibration.calibration import Calibration
from convgym.conversation import Conversation, Message
from convgym.errors import InvalidConfiguration
from convgym.language.models import CallableModel
from convgym.policies.customer_service import NULL_POLICIES
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder
from convgym.policies.scripted import OraclePolicy
from convgym.randomization.scenarios import ScenarioGenerator
from convgym.simulator import (
    ConversationSimulator,
    SimulatorConfig,
    UserSimulator,
    scripted_agents,
)
from convgym.spaces import sanitize

ID = "ConvGym/CustomerService-v0"
SIMULATOR = ConversationSimulator(SimulatorConfig(max_turns=12))
REPLIES = (
    "Hello, may I have your e-mail address?",
    "And the order number?",
    '<tool_call>{"name": "list_orders", "arguments": {}}</tool_call>',
    "",
    "What a day.",
)


def words(conversation):
    """All but the policy and tools that come first."""
    assert conversation.messages[0].role == "system"
    return [(message.role, message.content) for message in conversation.messages[1:]]


def plainly(seed, policy, options=None, **keywords):
    """The slow way: `gym.make`, `reset`, `step`, and the words written down."""
    env = gym.make(ID, observation="dict", **keywords)
    observation, info = env.reset(seed=seed, options=options)
    policy.reset(seed)
    said, total, ended = [("user", observation["message"])], 0.0, False
    while not ended:
        action, _ = policy.predict(observation, action_masks=info["action_mask"])
        observation, reward, terminated, truncated, info = env.step(action)
        said.append(("assistant", action))
        said += [("tool", observation["tool_results"])] if observation["tool_results"] else []
        said += [("user", observation["message"])] if observation["message"] else []
        total, ended = total + reward, terminated or truncated
    return said, total, info


# -- whole conversations ---------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_seed_is_the_same_conversation_as_the_environments(seed):
    conversation = SIMULATOR.generate_conversation(seed=seed)
    said, total, info = plainly(seed, RenderedPolicy(OraclePolicy()), max_turns=12)
    assert words(conversation) == said
    assert conversation.reward == total
    assert conversation.metadata["success"] == info["success"]
    assert conversation.metadata["task_id"] == info["task_id"]


def test_a_conversation_is_a_value_with_what_it_was_worth():
    conversation = SIMULATOR.generate_conversation(seed=2, agent=OraclePolicy())
    assert isinstance(conversation, Conversation)
    data = conversation.metadata
    assert data["agent"] == "oracle in words" and data["seed"] == 2
    assert data["success"] is (conversation.reward == 1.0)
    assert data["user_log_prob"] < 0.0
    rewards = [message.reward for message in conversation.said_by("assistant")]
    assert sum(rewards) == conversation.reward and len(rewards) == data["turns"]
    assert all(message.acts for message in conversation.said_by("user"))


def test_without_seeds_the_conversations_follow_the_configurations():
    def some():
        simulator = ConversationSimulator(SimulatorConfig(seed=5, max_turns=8))
        return [words(each) for each in simulator.generate_conversations(3)]

    first = some()
    assert first == some()
    assert first == [words(SIMULATOR8.generate_conversation(seed=seed)) for seed in (5, 6, 7)]
    assert [words(c) for c in SIMULATOR8.generate_conversations(2, seed=6)] == first[1:]


SIMULATOR8 = ConversationSimulator(SimulatorConfig(max_turns=8))


def test_a_conversation_holds_all_that_the_customer_came_for():
    task = task_of(("return", "allow"), ("subscription", "allow"))
    conversation = ConversationSimulator().generate_conversation(task.task_id, seed=3)
    acts = [act[0] for message in conversation.said_by("user") for act in message.acts]
    asked = [act for act in dict.fromkeys(acts) if act.startswith("request_")]
    assert asked == ["request_return", "request_subscription"]
    assert conversation.metadata["success"] and conversation.reward == 1.0
    replies = " ".join(message.content for message in conversation.said_by("assistant"))
    assert "create_return" in replies and "end_subscription" in replies


@pytest.mark.parametrize("number", range(0, 200, 23))
def test_a_scenario_is_replayed_with_its_task_customer_and_first_words(number):
    scenario = ScenarioGenerator().record(f"train-{number}", "busy_professional", seed=number)
    played = [
        SIMULATOR.generate_conversation(scenario=given, seed=seed)
        for given, seed in ((scenario, 1), (scenario.to_dict(), 1), (scenario, 99))
    ]
    for conversation in played:
        assert conversation.metadata["task_id"] == f"train-{number}"
        assert conversation.messages[1].content == scenario.user_messages[0]
    assert words(played[0]) == words(played[1])


def test_a_task_a_scenarios_id_and_a_persona_can_be_given():
    def opening(**keywords):
        return SIMULATOR.generate_conversation(seed=3, **keywords)

    assert opening(scenario="test-17").metadata["task_id"] == "test-17"
    first = opening(scenario="train-4/9", persona="patient_expert")
    scenario = ScenarioGenerator().record("train-4", "patient_expert", seed=9)
    assert words(first) == words(opening(scenario=scenario))
    assert words(first) != words(opening(scenario=scenario, persona="frustrated_novice"))


def test_any_agent_can_play():
    seen = []

    def agent(messages):
        seen.append(messages)
        return REPLIES[len(seen) % 4]

    conversation = SIMULATOR8.generate_conversation(seed=4, agent=agent)
    assert conversation.metadata["agent"] == "agent"
    assert seen[0][0]["role"] == "system" and "find_customer" in seen[0][0]["content"]
    last = [(message["role"], message["content"]) for message in seen[-1][1:]]
    assert last == words(conversation)[: len(last)]
    silence = NULL_POLICIES["silence"]()
    assert words(SIMULATOR8.generate_conversation(seed=4, agent=silence))[1] == ("assistant", "")


def test_a_model_can_be_the_customer():
    model = CallableModel(lambda prompt: "Where is my order?")
    conversation = ConversationSimulator(
        SimulatorConfig(user=model, max_turns=4)
    ).generate_conversation(seed=1)
    assert {m.content for m in conversation.said_by("user")} == {"Where is my order?"}
    assert conversation.metadata["user_log_prob"] == 0.0


@pytest.mark.parametrize(
    "keywords",
    [
        {"scenario": 7},
        {"scenario": "train"},
        {"scenario": "train-1/x"},
        {"scenario": "train-1/²"},
        {"scenario": {"topic": "cancel"}},
        {"persona": "nobody"},
        {"agent": 7},
    ],
)
def test_what_cannot_be_simulated_is_one_sentence(keywords):
    with pytest.raises(InvalidConfiguration):
        SIMULATOR8.generate_conversation(**keywords)


@pytest.mark.parametrize(
    "keywords", [{"env_id": "Nope-v0"}, {"split": "x"}, {"realism": 2.0}, {"seed": -1}]
)
def test_a_bad_configuration_fails_where_it_is_used(keywords):
    with pytest.raises(InvalidConfiguration):
        ConversationSimulator(SimulatorConfig(**keywords))


# -- the other environments ------------------------------------------------------------------------


def config_of(environment_id, **given):
    return SimulatorConfig(
        env_id=environment_id, keywords=NEEDED.get(environment_id, {}), **given
    )


@every_id
def test_every_desk_has_its_own_oracle(environment_id):
    simulator = ConversationSimulator(config_of(environment_id))
    for seed in range(4):
        conversation = simulator.generate_conversation(seed=seed)
        assert conversation.metadata["success"], conversation.metadata["failure_reason"]
        assert conversation.metadata["agent"] == "oracle in words"
    assert list(scripted_agents(simulator.env)) == list(ladder(domain_of(environment_id)))


@pytest.mark.parametrize("environment_id", ENVIRONMENTS)
def test_every_environment_is_made_with_nothing_but_what_was_asked_for(environment_id):
    plain = config_of(environment_id).make().unwrapped
    theirs = make(environment_id, observation="dict").unwrapped
    observation, _ = plain.reset(seed=5)
    assert observation["message"] == theirs.reset(seed=5)[0]["message"]
    assert plain.spec.kwargs == {
        "observation": "dict", "action": "text", **NEEDED.get(environment_id, {}),
    }
    customer = UserSimulator(
        env_id=environment_id, keywords=NEEDED.get(environment_id, {}), seed=5
    )
    assert customer.open() == observation["message"]
    answered, *_ = theirs.step("How can I help you?")
    assert customer.respond(None, "How can I help you?") == answered["message"]


def test_a_field_that_was_set_is_handed_over_whatever_it_is():
    """Also one that has the value that many environments take by default."""
    for name, value in (("max_turns", 30), ("phrases", "train"), ("style", "terse")):
        assert SimulatorConfig(**{name: value}).make().spec.kwargs[name] == value
    assert {one.name for one in fields(SimulatorConfig)} >= {"split", "user", "randomizer"}


def test_own_scenarios_are_played_by_an_agent_of_ones_own():
    scenarios = [
        {"id": "a/1", "user_responses": ["My light is broken.", "It is in the hall."]},
        {"id": "b", "user_responses": ["I need a new key."]},
    ]
    config = SimulatorConfig(
        env_id="ConvGym/Scenarios-v0", keywords={"scenarios": scenarios}, max_turns=5
    )
    simulator = ConversationSimulator(config)
    conversation = simulator.generate_conversation(
        "a/1", agent=lambda messages: "Where is it?", seed=1
    )
    assert conversation.metadata["task_id"] == "a/1"
    assert "light" in next(iter(conversation.said_by("user"))).content
    for agent in (None, OraclePolicy()):
        with pytest.raises(InvalidConfiguration, match="Scenarios-v0 has no scripted agents"):
            simulator.generate_conversation("a/1", agent=agent)


def test_what_an_environment_does_not_take_is_named():
    with pytest.raises(InvalidConfiguration, match=r"takes no 'realism'; it takes .*scenarios"):
        SimulatorConfig(env_id="ConvGym/Scenarios-v0", realism=0.5).make()


# -- a customer to talk to -------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(REPLIES) | st.text(), max_size=6))
def test_the_customer_says_what_the_environment_says(seed, replies):
    customer, env = UserSimulator(topic="cancel", seed=seed), gym.make(
        ID, observation="dict", topic="cancel"
    )
    observation, _ = env.reset(seed=seed)
    assert customer.open() == observation["message"]
    for reply in replies:
        if customer.done:
            break
        observation, _, terminated, truncated, info = env.step(reply)
        assert customer.respond(None, reply) == observation["message"]
        assert customer.done == (terminated or truncated)
        assert customer.info["tool_results"] == info["tool_results"]


def test_the_history_must_be_what_was_said():
    customer = UserSimulator(persona="patient_expert", seed=7)
    opening = customer.open()
    answer = customer.respond([opening], REPLIES[0])
    real = [("user", opening), ("assistant", REPLIES[0]), ("user", answer)]
    for history in (
        [text for _, text in real],
        [{"role": role, "content": text} for role, text in real],
        [Message(role, text) for role, text in real],
        [("system", "You are an agent."), *real],
        None,
    ):
        customer.reset(seed=7)
        assert customer.open() == opening
        assert customer.respond(None, REPLIES[0]) == answer
        customer.respond(history, "One moment.")
    for wrong in ([], real[:2], [*real, ("user", "more")], [("user", "no"), *real[1:]], [7],
                  [("assistant", opening), *real[1:]]):
        customer.reset(seed=7)
        customer.respond(None, REPLIES[0])
        with pytest.raises(InvalidConfiguration, match="history"):
            customer.respond(wrong, "One moment.")


def test_an_ended_conversation_says_so_and_begins_again():
    customer = UserSimulator(seed=1, max_turns=2)
    first = customer.open()
    customer.respond(None, "")
    customer.respond(None, "")
    assert customer.done and customer.info["turn"] == 2
    with pytest.raises(InvalidConfiguration, match="has ended"):
        customer.respond(None, "Hello?")
    customer.reset()
    assert customer.open() == first and not customer.done
    customer.reset(seed=2)
    assert customer.open() != first
    assert sanitize(first, 9999) == first


def test_unknown_settings_are_refused():
    with pytest.raises(InvalidConfiguration, match="no 'mood'"):
        UserSimulator(mood="good")


# -- calibration -----------------------------------------------------------------------------------


def test_the_configuration_keeps_how_long_it_polishes_to_itself():
    assert SimulatorConfig(calibration_epochs=7).make().spec.kwargs.keys() == (
        SimulatorConfig().make().spec.kwargs.keys()
    )


def test_a_log_that_cannot_be_fitted_leaves_the_simulator_as_it_was():
    simulator = ConversationSimulator(SimulatorConfig(max_turns=6))
    before = words(simulator.generate_conversation(seed=3))
    with pytest.raises(InvalidConfiguration, match="no user says anything"):
        simulator.calibrate([])
    assert simulator.config.user is None
    assert words(simulator.generate_conversation(seed=3)) == before


@pytest.mark.parametrize("given", [True, False])
def test_a_calibrated_simulator_talks_with_the_user_of_the_log(given, tmp_path):
    path = tmp_path / "user.npz" if given else None
    log = twin_log(drawn_truth(0), 150, 0)
    simulator = ConversationSimulator(SimulatorConfig(max_turns=6, calibration_epochs=0))
    found = simulator.calibrate(log, path)
    assert found.polish is None and found.kl_div >= 0 and found.length_match <= 1
    saved = simulator.config.user
    assert Calibration.load(saved).posterior == found.posterior
    env = gym.make(ID, observation="dict", action="text", max_turns=6, user=saved)
    observation, _ = env.reset(seed=3)
    said = words(simulator.generate_conversation(seed=3))
    assert said[0] == ("user", observation["message"])
    simulator.close()
    assert Path(saved).exists() == given


def test_an_environment_of_something_else_is_one_sentence():
    with pytest.raises(InvalidConfiguration, match="is no environment of conversations"):
        SimulatorConfig(env_id="CartPole-v1").make()
