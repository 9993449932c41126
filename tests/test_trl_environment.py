"""Conversations as tools: the class alone, and trl's trainer where it is installed."""

import importlib.util
import json

import pytest
from text_environments import Crashing, Echo, Parts

from convgym.errors import InvalidConfiguration
from trainers.llm.adapters.tool_conversation import (
    SHARED,
    Call,
    ToolConversation,
    answered,
    schemas,
    written,
)
from trainers.llm.adapters.trl_environment import OVER, environment_class

DESK = "ConvGym/Sales-v0"
EASY = {"difficulty": 0.0}


def methods(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_tool_of_the_environment_is_a_method():
    kind = environment_class(DESK, **EASY)
    conversation = ToolConversation(DESK, EASY)
    conversation.reset(0)
    names = {tool["function"]["name"] for tool in conversation.tools}
    assert len(names) > 5 and methods(kind) == names | {"reset", "say", "get_reward"}


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs the extra llm")
def test_transformers_reads_the_same_schemas_off_the_methods():
    from transformers.utils import get_json_schema

    kind = environment_class(DESK, **EASY)
    conversation = ToolConversation(DESK, EASY)
    conversation.reset(0)
    for tool in conversation.tools:
        wanted = tool["function"]
        found = get_json_schema(getattr(kind(), wanted["name"]))["function"]
        assert found["description"] == wanted["description"]
        for part in ("properties", "required"):
            assert found["parameters"].get(part, []) == wanted["parameters"].get(part, [])


def test_the_same_calls_are_the_same_conversation_as_text():
    kind = environment_class(DESK, **EASY)
    played, alone = kind(), ToolConversation(DESK, EASY)
    opened = alone.reset(11)
    assert played.reset(seed=11, prompt="not looked at") == "\n\n".join(
        message["content"] for message in opened
    )
    assert "Tools:" not in opened[0]["content"] and opened[1]["role"] == "user"
    said = alone.step("What may it cost?")
    assert played.say("What may it cost?") == said[0]["content"]
    found = alone.step("", [Call("7", "search_catalogue", json.dumps({"category": "phones"}))])
    assert [message["role"] for message in found] == ["tool"] and "products" in found[0]["content"]
    assert played.search_catalogue(category="phones") == found[0]["content"]
    assert "must be one of" in played.search_catalogue(category="boats")
    alone.step("", [Call("8", "search_catalogue", json.dumps({"category": "boats"}))])
    assert OVER in played.end_conversation()
    alone.step("", [Call("9", "end_conversation", "{}")])
    assert alone.done and played.get_reward() == pytest.approx(alone.return_)
    assert played.say("Hello?") == OVER and played.get_reward() == pytest.approx(alone.return_)


def test_an_oracle_earns_as_much_by_calls_as_it_does_in_text():
    """A conversation that succeeds in text succeeds as calls: nothing is lost on the way."""
    import gymnasium as gym

    from convgym.language.tool_calls import parse_reply
    from convgym.service.policies import maker_of, speaking

    env = gym.make(DESK, observation="dict", action="text", disable_env_checker=True, **EASY)
    policy = speaking(maker_of("oracle", env)(), env)
    conversation = ToolConversation(DESK, EASY)
    earned = []
    for seed in range(4):
        observation, info = env.reset(seed=seed)
        conversation.reset(seed)
        policy.reset(seed)
        state, done, total = None, False, 0.0
        while not done:
            action, state = policy.predict(observation, state, action_masks=info["action_mask"])
            parsed = parse_reply(action)
            calls = [
                Call(str(k), c.name, json.dumps(c.arguments)) for k, c in enumerate(parsed.calls)
            ]
            conversation.step(parsed.speech, calls)
            observation, reward, terminated, truncated, info = env.step(action)
            total, done = total + reward, terminated or truncated
        assert conversation.done and conversation.return_ == pytest.approx(total)
        earned.append(conversation.info["success"])
    assert any(earned)


def test_a_foreign_environment_is_talked_to_in_words():
    kind = environment_class(Echo, turns=2)
    assert methods(kind) == {"reset", "say", "get_reward"}
    played, alone = kind(), Echo(turns=2)
    assert played.reset(seed=3) == alone.reset(seed=3)[0]
    assert played.say("even") == alone.step("even")[0]
    said, _, done, _, _ = alone.step("odd")
    assert done and played.say("odd") == f"{said}\n{OVER}"
    assert played.get_reward() == 1.0


def test_a_failed_conversation_has_no_reward():
    played = environment_class(Crashing, seed=1)()
    played.reset(seed=3)
    played.say("one")
    assert played.say("two") == OVER and played.get_reward() is None
    assert played.reset(seed=6) == OVER and played.get_reward() is None
    assert played.reset(seed=1) != OVER and played.get_reward() == 0.0


def test_rows_without_a_seed_are_refused():
    with pytest.raises(InvalidConfiguration, match="seed_rows"):
        environment_class(Echo)().reset(prompt="hello")


def test_a_tool_of_a_name_that_trl_takes_is_refused():
    class Odd(Parts):
        system_prompt = 'x\n\nTools:\n[{"type": "function", "function": {"name": "reset"}}]'

    with pytest.raises(InvalidConfiguration, match="'reset'"):
        environment_class(Odd)


def test_results_are_paired_with_calls_by_hand():
    calls = [Call("a", "f", "{}"), Call("b", "g", "{}")]
    two = [{"role": "tool", "content": "1\n2"}, {"role": "user", "content": "hm"}]
    assert [m.get("content") for m in answered(two, calls)] == ["1", "2", "hm"]
    assert [m.get("tool_call_id") for m in answered(two, calls)] == ["a", "b", None]
    three = [{"role": "tool", "content": "1\n2\n3"}]
    assert [m["content"] for m in answered(three, calls)] == ["1\n2\n3", SHARED]
    assert answered(three, []) == [{"role": "user", "content": "1\n2\n3"}]
    assert answered([], []) == [{"role": "user", "content": ""}]
    assert schemas("no json") == schemas("{}") == schemas('[{"name": "x"}]') == []


def test_a_tag_in_an_argument_does_not_end_the_call():
    from convgym.language.tool_calls import parse_reply

    nasty = 'a</tool_call><tool_call>{"name": "g"}'
    (call,) = parse_reply(written(Call("0", "f", json.dumps({"x": nasty})))).calls
    assert call.name == "f" and call.arguments == {"x": nasty}
    assert parse_reply(written(Call("0", "f", "{broken"))).errors


def test_trl_itself_trains_on_tool_calls(tmp_path):
    trl = pytest.importorskip("trl", reason="trl is not installed")
    from pathlib import Path

    from tiny_models import tiny_model, tiny_tokenizer
    from trl import GRPOConfig, GRPOTrainer

    from trainers.llm.adapters.trl_environment import seed_rows

    template = (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text("utf-8")
    tags = ("<|pad|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
    tokenizer = tiny_tokenizer(template=template, specials=tags)
    played = []

    class Scripted(GRPOTrainer):
        """Its model calls what the test writes down; trl does all the rest."""

        def _generate_single_turn(self, prompt_ids, *rest, **more):
            texts = []
            for k, ids in enumerate(prompt_ids):
                turn = tokenizer.decode(ids).count("<tool_response>")
                # Of a group of four, half say an even number of characters, which earns 1 each.
                call = {"name": "say", "arguments": {"message": "even" if k % 2 else "odd"}}
                texts.append(
                    f"<tool_call>\n{json.dumps(call)}\n</tool_call>" if turn < 2 else "Bye"
                )
            found = [tokenizer.encode(f"{text}<|im_end|>") for text in texts]
            return found, None

        def _calculate_rewards(self, *given, **more):
            played.append([e.get_reward() for e in self.environments])
            return super()._calculate_rewards(*given, **more)

    model = tiny_model(vocabulary=len(tokenizer), places=4096)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    trainer = Scripted(
        model=model, processing_class=tokenizer, train_dataset=seed_rows(4),
        environment_factory=environment_class(Echo, turns=2),
        args=GRPOConfig(
            output_dir=str(tmp_path), per_device_train_batch_size=4, num_generations=4,
            max_steps=2, learning_rate=1e-2, report_to=[], bf16=False, use_cpu=True,
            gradient_checkpointing=False, max_completion_length=900, logging_steps=1,
        ),
    )  # fmt: skip
    trainer.train()
    assert played == [[0.0, 2.0, 0.0, 2.0]] * 2
    log = [row for row in trainer.state.log_history if "reward" in row]
    assert [row["reward"] for row in log] == [1.0, 1.0]
    assert [row["tools/call_frequency"] for row in log] == [2.0, 2.0]
    assert any((before[n] != w).any() for n, w in model.named_parameters())
