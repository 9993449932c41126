"""Agents: asked in code, in an environment, with tools; training them in one call."""

import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from tiny_models import tiny_model, tiny_tokenizer

import convgym  # noqa: F401  registers the ids
from convgym.errors import InvalidConfiguration
from trainers.llm import presets
from trainers.llm.agent import CANNED, Agent, ToolAgent, load_agent_from_checkpoint
from trainers.llm.language_model import LanguageModel
from trainers.llm.objectives import PRESETS
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.profiles import PROFILES
from trainers.llm.prompts import PromptEnvironment
from trainers.llm.sampling import Sampling
from trainers.llm.training import train

HELLO = [{"role": "user", "content": "Hello"}]
SHORT = Sampling(max_tokens=6, max_context=512)


def tiny_agent(seed=0, **options):
    model = LanguageModel(tiny_model(seed=seed), tiny_tokenizer())
    return Agent(model, sampling=SHORT, **options)


def test_the_same_history_gets_the_same_reply():
    first, second = tiny_agent(), tiny_agent()
    assert first.generate_response(HELLO) == second.generate_response(HELLO)
    assert first.generate_response(HELLO) == first.generate_response(HELLO)
    other = tiny_agent()
    other.seed = 1
    assert other.generate_response(HELLO) != first.generate_response(HELLO)


def test_a_greedy_reply_is_the_argmax_of_each_place():
    agent = tiny_agent()
    messages = HELLO
    tokens = agent._format.opening(messages)
    for _ in range(SHORT.max_tokens):
        logits = agent.model.causal(input_ids=torch.tensor([tokens])).logits[0, -1]
        tokens.append(int(logits.argmax()))
        if tokens[-1] == agent._format.end:
            break
    said = tokens[len(agent._format.opening(messages)) :]
    expected = agent._format.decode(said)
    assert agent.generate_response(messages, deterministic=True) == expected


def test_context_is_told_in_the_system_message():
    agent = tiny_agent(system="Be kind.")
    opened = agent._opened(HELLO, {"plan": "ask first"})
    assert opened[0] == {"role": "system", "content": "Be kind.\nplan: ask first"}
    assert opened[1:] == HELLO
    given = [{"role": "system", "content": "Mine."}, *HELLO]
    assert agent._opened(given, None) == given


def test_a_stub_says_its_words_in_turn_and_needs_no_torch():
    agent = Agent("stub://one|two")
    policy_state = None
    said = []
    for _ in range(3):
        reply, policy_state = agent.predict("and?", policy_state)
        said.append(reply)
    assert said == ["one", "two", "one"]
    assert Agent("stub://").generate_response(HELLO) == CANNED[0]
    code = (
        "import sys; sys.modules['torch'] = None; from trainers.llm.agent import Agent; "
        "print(Agent('stub://hi').generate_response([{'role': 'user', 'content': 'x'}]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "hi", ran.stderr


def test_an_agent_plays_registered_environments():
    for observation in ("message", "dict"):
        env = gym.make("ConvGym/CustomerService-v0", observation=observation)
        shown, _ = env.reset(seed=3)
        state, agent = None, Agent("stub://What is your email?|Goodbye")
        for _ in range(3):
            reply, state = agent.predict(shown, state)
            shown, *_ = env.step(reply)
        assert [m["role"] for m in state[:2]] == ["user", "assistant"]


def test_saved_agents_reply_as_before(tmp_path):
    agent = tiny_agent(system="Be kind.")
    agent.save(tmp_path / "agent")
    loaded = load_agent_from_checkpoint(tmp_path / "agent")
    assert loaded.system == "Be kind." and loaded.sampling == SHORT
    assert loaded.generate_response(HELLO) == agent.generate_response(HELLO)
    Agent("stub://a|b").save(tmp_path / "stub")
    assert load_agent_from_checkpoint(tmp_path / "stub").stub == ("a", "b")


def test_an_empty_history_and_a_full_context_are_refused():
    with pytest.raises(InvalidConfiguration, match="empty"):
        Agent("stub://").generate_response([])
    with pytest.raises(InvalidConfiguration, match="max_context"):
        tiny_agent().generate_response([{"role": "user", "content": "long " * 500}])


@pytest.mark.parametrize(
    "history",
    [["Hello"], "Hello", [{"role": "user"}], [{"role": "boss", "content": "Do it."}],
     [{"role": "user", "content": None}], [{"role": ["user"], "content": "Hello"}]],
)  # fmt: skip
def test_a_history_that_is_no_list_of_messages_is_refused(history):
    with pytest.raises(InvalidConfiguration, match="a message is a dictionary"):
        Agent("stub://").generate_response(history)


def test_what_is_no_context_or_tool_is_refused():
    with pytest.raises(InvalidConfiguration, match="context"):
        Agent("stub://").generate_response(HELLO, "a customer")
    for tools in ([print], {"print": "print"}):
        with pytest.raises(InvalidConfiguration, match="functions by their names"):
            ToolAgent("stub://", tools)


# -- tools -----------------------------------------------------------------------------------------


def calling(*calls):
    return "".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls)


def test_tools_run_until_the_agent_speaks():
    call = calling({"name": "add", "arguments": {"a": 2, "b": 3}})
    agent = ToolAgent(f"stub://{call}|It is 5.", {"add": lambda a, b: a + b})
    assert agent.generate_response(HELLO) == "It is 5."
    assert agent.called == [("add", {"a": 2, "b": 3}, "5")]


def test_what_goes_wrong_in_a_tool_is_told_to_the_model():
    calls = calling(
        {"name": "fail", "arguments": {}},
        {"name": "none", "arguments": {}},
    )

    def fail():
        raise ValueError("broken")

    agent = ToolAgent(f"stub://{calls}|Sorry.", {"fail": fail})
    assert agent.generate_response(HELLO) == "Sorry."
    assert ["ValueError: broken" in agent.called[0][2], "no tool none" in agent.called[1][2]] == [
        True,
        True,
    ]


def test_an_agent_that_only_calls_is_stopped():
    call = calling({"name": "x", "arguments": {}})
    agent = ToolAgent(f"stub://{call}", {"x": lambda: "ok"}, most_calls=2)
    assert agent.generate_response(HELLO) == call


# -- training --------------------------------------------------------------------------------------

FAST = {
    "seeds_per_iteration": 2, "group_size": 4, "learning_rate": 1e-3, "evaluation_episodes": 2,
}  # fmt: skip


def shortness(messages, info):
    return -len(messages[-1]["content"]) / 10


def test_prompts_are_conversations_of_one_turn(tmp_path):
    agent = tiny_agent()
    before = {n: p.detach().clone() for n, p in agent.model.trainable().items()}
    done = train(
        agent, ["Say a", "Say b"], shortness, num_episodes=17, config_overrides=FAST,
        save_path=tmp_path / "run",
    )  # fmt: skip
    assert len(done.rows) == done.config.iterations == 3
    assert done.rows[0]["turns_mean"] == 1
    assert any(not torch.equal(before[n], p) for n, p in agent.model.trainable().items())
    loaded = load_agent_from_checkpoint(tmp_path / "run")
    assert loaded.generate_response(HELLO) == agent.generate_response(HELLO)


def test_a_run_in_one_call_is_resumed_exactly(tmp_path):
    whole = train(tiny_agent(), ["Say a"], shortness, num_episodes=32, config_overrides=FAST)
    train(
        tiny_agent(), ["Say a"], shortness, num_episodes=16, config_overrides=FAST,
        save_path=tmp_path / "run",
    )  # fmt: skip
    rest = train(
        tiny_agent(), ["Say a"], shortness, num_episodes=32, config_overrides=FAST,
        resume_from_checkpoint=tmp_path / "run",
    )  # fmt: skip
    assert len(rest.rows) == 4
    for name, weight in whole.agent.model.trainable().items():
        assert torch.equal(weight, rest.agent.model.trainable()[name])


def test_environments_have_as_many_turns_as_they_have():
    done = train(
        tiny_agent(system="Be kind."),
        lambda: gym.make("ConvGym/CustomerService-v0", max_turns=3),
        num_episodes=2,
        config_overrides={**FAST, "seeds_per_iteration": 1, "group_size": 2},
    )
    assert done.rows[0]["turns_mean"] > 1


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_makes_a_run(name):
    done = train(
        tiny_agent(), ["Say a"], shortness, num_episodes=8, profile=name,
        config_overrides={k: FAST[k] for k in ("seeds_per_iteration", "group_size")},
    )  # fmt: skip
    assert len(done.rows) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"agent_or_model": Agent("stub://")}, "stub"),
        ({"profile": "wild"}, "profile"),
        ({"num_episodes": 0}, "num_episodes"),
        ({"reward_fn": None}, "reward_fn"),
        ({"config_overrides": {"lerning_rate": 1}}, "learning_rate"),
        ({"config_overrides": {"sampling": {"max_token": 5}}}, "did you mean max_tokens"),
        ({"num_episodes": 8.5}, "num_episodes"),
        ({"environment": PromptEnvironment(["a"])}, "pass an id or a callable"),
        ({"environment": None}, "environment is a NoneType"),
        ({"save_path": __file__}, "is no folder"),
    ],
)
def test_what_cannot_be_trained_is_refused(change, reason):
    given = {"agent_or_model": tiny_agent(), "environment": ["x"], "reward_fn": shortness}
    with pytest.raises(InvalidConfiguration, match=reason):
        train(**{**given, **change})


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", '{"sampling": 3}', '{"zzz": 1}',
                                  '{"sampling": {"temprature": 1}}', '{"stub": 3}',
                                  '{"stub": [1]}', '{"seed": "x", "stub": ["a"]}'])  # fmt: skip
def test_an_agent_that_cannot_be_read_is_a_sentence(text, tmp_path):
    Agent("stub://a|b").save(tmp_path / "agent")
    (tmp_path / "agent" / "agent.json").write_text(text)
    with pytest.raises(InvalidConfiguration, match="is no agent's"):
        load_agent_from_checkpoint(tmp_path / "agent")


def test_prompts_are_drawn_by_the_seed():
    env = PromptEnvironment(["a", "b", "c"])
    drawn = [env.reset(seed=seed)[0] for seed in range(30)]
    assert drawn == [env.reset(seed=seed)[0] for seed in range(30)]
    assert sorted(np.unique(drawn)) == ["a", "b", "c"]
    with pytest.raises(InvalidConfiguration):
        PromptEnvironment([])


# -- names -----------------------------------------------------------------------------------------


def test_every_preset_has_its_configuration():
    made = [
        value for name, value in sorted(vars(presets).items()) if name.endswith("Config")
        and isinstance(value, presets.PresetConfig)
    ]  # fmt: skip
    assert {one.objective for one in made} == set(PRESETS)
    for one in made:
        assert one(iterations=3).iterations == 3


def test_a_preset_takes_the_numbers_of_another_configuration():
    other = PolicyOptimizerConfig(learning_rate=3e-4, group_size=4)
    made = presets.GSPOConfig.from_training_config(other, iterations=7)
    assert (made.objective, made.learning_rate, made.group_size, made.iterations) == (
        "gspo", 3e-4, 4, 7,
    )  # fmt: skip
    stored = presets.GSPOConfig.from_training_config({"iterations": 9})
    assert stored == presets.GSPOConfig(iterations=9)
    with pytest.raises(InvalidConfiguration):
        presets.GSPOConfig(beta=1)
    fresh = presets.A2CConfig.from_training_config(presets.GRPOConfig(minibatches=2))
    assert fresh.minibatches == 1
