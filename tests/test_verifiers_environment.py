"""verifiers itself over our environments, with a scripted model behind a server."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed")

import verifiers.v1 as vf
from scripted_model import ScriptedModel
from text_environments import Crashing, Echo, Parts

from convgym.errors import InvalidConfiguration
from trainers.llm.adapters.tool_conversation import ToolConversation
from trainers.llm.adapters.verifiers_environment import (
    PLUGIN,
    ConversationTaskset,
    load_environment,
    model_context,
)

DESK = "ConvGym/TechnicalSupport-v0"
EASY = {"difficulty": 0.0}
for kind in (Echo, Crashing, Parts):
    if f"Exchange{kind.__name__}-v0" not in gym.registry:
        gym.register(f"Exchange{kind.__name__}-v0", entry_point=kind)


def played(env, model, at_once=4):
    """Every task of `env`, `at_once` at a time."""

    async def run():
        gate = asyncio.Semaphore(at_once)
        async with env.serving():
            context = model_context("scripted", model.url)
            slots = [slot for task in env.taskset for slot in env.slots(task)]
            return await asyncio.gather(*(env.run_slot(slot, context, gate) for slot in slots))

    return asyncio.run(run())


def parrot(messages, tools):
    return f"I hear: {messages[-1]['content'][-20:]}"


def caller(messages, tools):
    """Calls two tools, says something, and hangs up."""
    turn = sum(message["role"] == "assistant" for message in messages)
    name = tools[0]["function"]["name"]
    if turn == 0:
        wanted = tools[0]["function"]["parameters"]["required"][0]
        return "One moment.", [(name, json.dumps({wanted: "</tool_call>"})), ("nothing", "{}")]
    if turn == 1:
        return "Please tell me more.", []
    return "", [("end_conversation", "{}")]


def test_a_foreign_environment_earns_what_it_earns_alone():
    env = load_environment("ExchangeEcho-v0", number=6, first_seed=30)
    with ScriptedModel(parrot) as model:
        episodes = played(env, model)
    assert [episode.ok for episode in episodes] == [True] * 6
    assert [episode.task.data.seed for episode in episodes] == list(range(30, 36))
    for episode in episodes:
        alone = Echo()
        said, _ = alone.reset(seed=episode.task.data.seed)
        talk, total, done = [("user", said)], 0.0, False
        while not done:
            reply = parrot([{"content": said}], [])
            said, reward, done, _, info = alone.step(reply)
            talk += [("assistant", reply), ("user", said)]
            total += reward
        trace = episode.traces[0]
        nodes = [(node.message.role, node.message.content) for node in trace.nodes]
        assert nodes == talk[:-1]  # nobody answers the last
        assert trace.reward == trace.rewards["episode_return"].score == total
        assert trace.metrics["success"] == info["success"]
        assert trace.metrics["agent_turns"] == 3 and trace.metrics["terminated"] == 1


def test_tools_are_functions_and_each_call_has_its_result():
    env = load_environment(DESK, number=2, keywords=EASY)
    with ScriptedModel(caller) as model:
        episodes = played(env, model)
        requests = model.requests
    assert all(episode.ok for episode in episodes)
    first = [asked for asked in requests if len(asked["messages"]) == 2]
    assert {m["role"] for m in first[0]["messages"]} == {"system", "user"}
    assert "Tools:" not in first[0]["messages"][0]["content"]
    assert "end_conversation" in [tool["function"]["name"] for tool in first[0]["tools"]]
    messages = episodes[0].traces[0].branches[-1].messages
    calls, results = messages[2].tool_calls, messages[3:5]
    assert [m.role for m in results] == ["tool", "tool"]
    assert [m.tool_call_id for m in results] == [call.id for call in calls]
    assert "nothing" in results[1].content and "nothing" not in results[0].content
    assert episodes[0].traces[0].metrics["agent_turns"] == 3


def test_the_same_replies_earn_the_same_without_verifiers():
    env = load_environment(DESK, number=2, keywords=EASY)
    with ScriptedModel(caller) as model:
        episodes = played(env, model)
    for episode in episodes:
        alone = ToolConversation(DESK, EASY)
        opened = alone.reset(episode.task.data.seed)
        messages = episode.traces[0].branches[-1].messages
        assert messages[1].content == opened[1]["content"]
        spoken = [message for message in messages if message.role == "assistant"]
        for message in spoken:
            alone.step(message.content or "", [
                type("C", (), {"name": c.name, "arguments": c.arguments, "id": c.id})
                for c in message.tool_calls or ()
            ])  # fmt: skip
        assert alone.done
        assert episode.traces[0].reward == pytest.approx(alone.return_)
        assert episode.traces[0].info["task_id"] == alone.info["task_id"]


def test_tools_in_text_need_no_functions():
    env = load_environment(DESK, number=1, keywords=EASY, tools_in_text=True)
    names = iter(["nothing", "end_conversation"])

    def in_text(messages, tools):
        return f'<tool_call>{{"name": "{next(names)}", "arguments": {{}}}}</tool_call>'

    with ScriptedModel(in_text) as model:
        (episode,) = played(env, model)
        requests = model.requests
    assert not any(asked.get("tools") for asked in requests)
    assert "Tools:\n[{" in requests[0]["messages"][0]["content"]
    assert requests[1]["messages"][-1]["role"] == "user"
    assert "there is no tool 'nothing'" in requests[1]["messages"][-1]["content"]
    assert episode.ok


def test_results_that_were_not_called_for_come_as_the_users():
    env = load_environment("ExchangeParts-v0", number=1)
    with ScriptedModel(parrot) as model:
        (episode,) = played(env, model)
    messages = episode.traces[0].branches[-1].messages
    assert messages[0].content == "You are a desk."
    assert messages[3].role == "user" and messages[3].content == "found 12"


def test_a_crashing_environment_costs_its_episode():
    env = load_environment("ExchangeCrashing-v0", number=7)
    with ScriptedModel(parrot) as model:
        episodes = played(env, model)
    assert [episode.ok for episode in episodes] == [s % 3 != 0 and s % 7 != 6 for s in range(7)]
    failed = episodes[3]
    assert "the desk is on fire" in failed.errors[0].message
    assert not failed.traces[0].rewards


def test_a_limit_of_turns_ends_the_conversation_with_what_was_earned():
    env = load_environment("ExchangeEcho-v0", number=2, agent={"max_turns": 2})
    with ScriptedModel(parrot) as model:
        episodes = played(env, model)
    for episode in episodes:
        trace = episode.traces[0]
        assert episode.ok and trace.stop_condition == "max_turns"
        assert trace.metrics["agent_turns"] == 2 and trace.metrics["terminated"] == 0
        assert trace.is_truncated


def test_a_model_that_is_away_is_an_error_of_the_episode():
    env = load_environment("ExchangeEcho-v0", number=1)

    async def run():
        async with env.serving():
            (task,) = env.taskset
            return await env.run_episode(task, model_context("m", "http://127.0.0.1:9/v1"))

    episode = asyncio.run(run())
    assert not episode.ok and episode.traces[0].errors


def test_verifiers_finds_it_by_its_name():
    load_environment("ExchangeEcho-v0")
    config = vf.resolve_env_config({"taskset": {"id": PLUGIN, "env_id": "ExchangeEcho-v0"}})
    assert type(vf.load_environment(config)).__name__ == "ConversationEnv"
    assert vf.import_taskset(PLUGIN) is sys.modules[PLUGIN]
    endless = ConversationTaskset(config.taskset)
    assert not endless.bounded
    assert [task.data.seed for task in endless.take(3)] == [0, 1, 2]
    assert [task.data.idx for task in endless.skip(4).take(1)] == [4]
    keys = [task.key for task in endless.take(3)]
    assert len(set(keys)) == 3 and keys == [task.key for task in endless.take(3)]


def test_a_file_of_that_name_is_all_that_other_processes_need(tmp_path):
    module = "trainers.llm.adapters.verifiers_environment"
    text = f"from {module} import *\nfrom {module} import __all__\n"
    (tmp_path / f"{PLUGIN}.py").write_text(text, "utf-8")
    code = (
        "import verifiers.v1 as vf\n"
        f"config = vf.resolve_env_config({{'taskset': {{'id': '{PLUGIN}', 'number': 2}}}})\n"
        "env = vf.load_environment(config)\n"
        "print(type(env).__name__, [task.data.seed for task in env.taskset])\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(tmp_path)])
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split("\n")[-2] == "ConversationEnv [0, 1]"


def test_what_is_no_environment_of_texts_is_refused():
    with pytest.raises(InvalidConfiguration, match="replies in texts"):
        load_environment("CartPole-v1")
