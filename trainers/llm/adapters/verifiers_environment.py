"""Any environment of texts as an environment of `verifiers`: seeds as tasks, its return as reward.

    ConversationTaskset   task k = seed first_seed + k of one environment, without end by default
    ConversationEnv       the environment is the user: it opens, answers, and ends the exchange
    ChatHarness           one request to the model for every turn, in this process
    trace.rewards         episode_return, the undiscounted sum
    trace.metrics         success, agent_turns, terminated, and the newest reward terms

    from trainers.llm.adapters.verifiers_environment import load_environment, model_context

    env = load_environment("ConvGym/CustomerService-v0", number=100, keywords={"difficulty": 0.2})
    async with env.serving():
        for task in env.taskset:
            episode = await env.run_episode(task, model_context("my-model", "http://…/v1"))

Tools of the environment are offered to the model as functions; every call of it is answered by a
message of role `tool` with the call's id. With `tools_in_text` they stand in the system prompt,
the model writes `<tool_call>…</tool_call>`, and what tools return comes as the user's message, for
a message of role `tool` must answer a call.

`verifiers` finds what it runs by the name of a module, without dots. `load_environment` gives this
one such a name for the running process; its command line and its workers need a file of that name:

    # convgym_conversations.py, anywhere on the path
    from trainers.llm.adapters.verifiers_environment import *
    from trainers.llm.adapters.verifiers_environment import __all__

Written for verifiers 0.4, whose environments are those of `verifiers.v1`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from convgym.errors import ConvGymError, MissingExtra

try:
    import httpx
    import openai
    import verifiers.v1 as vf
    from verifiers.v1.dialects.chat import message_to_wire
except ImportError as error:
    raise MissingExtra(error.name or "verifiers", "verifiers") from error

from trainers.llm.adapters.tool_conversation import Call, ToolConversation

__all__ = ["ChatHarness", "ConversationEnv", "ConversationTaskset"]

PLUGIN = "convgym_conversations"
"""The name that `verifiers` knows these classes by."""


class ConversationConfig(vf.TasksetConfig):
    """Which conversations."""

    id: vf.ID = PLUGIN
    env_id: str = "ConvGym/CustomerService-v0"
    """Any Gymnasium id of texts, `module:id` too."""
    keywords: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    """Of the environment."""
    first_seed: int = 0
    number: int | None = None
    """How many seeds; None: no end."""
    tools_in_text: bool = False


class ConversationData(vf.TaskData):
    """One conversation: all that it takes to play it again."""

    env_id: str
    keywords: dict[str, Any]
    seed: int
    tools_in_text: bool = False
    tools: list[dict[str, Any]] = []  # noqa: RUF012 - as above
    """Function schemas that the model is offered; known when the episode has begun."""


class ConversationTask(vf.Task[ConversationData, vf.State, vf.TaskConfig]):
    """A seed; the reward is the environment's, which `ConversationEnv` records."""


class ConversationTaskset(vf.Taskset[ConversationTask, ConversationConfig]):
    """Seeds of one environment."""

    INFINITE = True

    def __init__(self, config: ConversationConfig) -> None:
        super().__init__(config)
        self._bounded = config.number is not None

    def load(self) -> Iterator[ConversationTask]:
        """One task a seed."""
        it = self.config
        numbers = itertools.count() if it.number is None else range(it.number)
        for seed in (it.first_seed + k for k in numbers):
            data = ConversationData(
                name=f"{it.env_id}#{seed}",
                env_id=it.env_id,
                keywords=it.keywords,
                seed=seed,
                tools_in_text=it.tools_in_text,
            )
            yield ConversationTask(data, it.task)


class ChatHarnessConfig(vf.HarnessConfig):
    """Nothing to choose."""

    id: vf.ID = PLUGIN


class ChatHarness(vf.Harness[ChatHarnessConfig]):
    """Asks the model once and hands its message over; nothing of it is run here."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """One request through the endpoint, which records it and stops where a limit is met."""
        messages = [message_to_wire(message) for message in data.prompt or ()]
        if data.system_prompt:
            messages.insert(0, {"role": "system", "content": data.system_prompt})
        offered = {"tools": data.tools} if getattr(data, "tools", None) else {}
        # Reading all certificates takes longer than a turn; the endpoint is this process's own.
        transport = httpx.AsyncClient(verify=not endpoint.startswith("http://"), timeout=None)
        client = openai.AsyncOpenAI(
            base_url=endpoint, api_key=secret, max_retries=0, http_client=transport
        )
        try:
            async with client:
                await client.chat.completions.create(model=ctx.model, messages=messages, **offered)
        except openai.APIError as error:  # the endpoint knows whether it was a limit or a failure
            return vf.ProgramResult(exit_code=1, stdout="", stderr=f"{error}")
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class ConversationEnvConfig(vf.EnvConfig):
    """Who plays the agent."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class ConversationEnv(vf.Env[ConversationEnvConfig]):
    """Plays the environment as the user of a model."""

    def __init__(self, config: ConversationEnvConfig) -> None:
        super().__init__(config)
        self._idle: dict[str, list[ToolConversation]] = {}

    async def run(self, task: ConversationTask, agents: vf.Agents) -> None:
        """One conversation; the environment steps in a thread, for it may take its time."""
        data = task.data
        idle = self._idle.setdefault(json.dumps([data.env_id, data.keywords]), [])
        if idle:
            conversation = idle.pop()
        else:
            conversation = await asyncio.to_thread(ToolConversation, data.env_id, data.keywords)
        try:
            await _play(conversation, task, agents.agent)
        except Exception:
            idle.append(conversation)
            raise
        idle.append(conversation)  # not where it was cancelled: a thread may still step it

    async def stop(self) -> None:
        """Close the environments."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()


async def _play(conversation: ToolConversation, task: ConversationTask, agent: vf.Agent) -> None:
    opened = await asyncio.to_thread(conversation.reset, task.data.seed)
    _check(conversation)
    system, opening = _parted(opened, conversation.tools if task.data.tools_in_text else [])
    update = {
        "prompt": None,  # the user opens
        "system_prompt": task.data.system_prompt or system,
        "tools": [] if task.data.tools_in_text else conversation.tools,
    }
    told = type(task)(task.data.model_copy(update=update), task.config)
    async with agent.interaction(told) as exchange:
        answer: list[dict[str, str]] = opening
        while answer:
            segment = await exchange.turn(answer)
            if segment.terminated:
                break
            words, calls = _said(segment)
            answer = await asyncio.to_thread(conversation.step, words, calls)
            _check(conversation)
            if conversation.done:
                break
    _record(exchange.trace, conversation)


def _check(conversation: ToolConversation) -> None:
    if conversation.error:
        raise ConvGymError(f"the environment failed: {conversation.error}")


def _parted(
    opened: list[dict[str, str]], in_text: list[dict[str, Any]]
) -> tuple[str | None, list[dict[str, str]]]:
    """The system prompt, with tools where they are to be called in text, and what is said first."""
    if opened[0]["role"] != "system":
        return None, opened
    system = opened[0]["content"]
    return f"{system}\n\nTools:\n{json.dumps(in_text)}" if in_text else system, opened[1:]


def _said(segment: vf.Segment) -> tuple[str, list[Call]]:
    """The model's newest message."""
    message = segment.messages[-1]
    calls = [Call(c.id, c.name, c.arguments) for c in message.tool_calls or ()]
    return message.content or "", calls


def _record(trace: vf.Trace, conversation: ToolConversation) -> None:
    info = conversation.info
    trace.record_reward("episode_return", conversation.return_)
    trace.record_metric("success", float(bool(info.get("success", False))))
    trace.record_metric("agent_turns", float(conversation.turns))
    trace.record_metric("terminated", float(conversation.terminated))
    trace.record_metrics({f"term_{name}": value for name, value in _terms(info).items()})
    trace.info["task_id"] = str(info.get("task_id", ""))


def _terms(info: Mapping[str, Any]) -> dict[str, float]:
    """The reward terms of the newest step."""
    terms = json.loads(info.get("reward_terms") or "{}")
    return {str(name): float(value) for name, value in terms.items()}


def load_environment(
    env_id: str,
    *,
    number: int | None = None,
    first_seed: int = 0,
    keywords: Mapping[str, Any] | None = None,
    tools_in_text: bool = False,
    **config: Any,
) -> ConversationEnv:
    """An environment of `verifiers` over a Gymnasium environment of texts.

    `config` is that of `ConversationEnv`: `agent` with its limits, `timeout`, `retries`, …

    Raises InvalidConfiguration where actions are no texts or observations cannot be shown.
    """
    sys.modules.setdefault(PLUGIN, sys.modules[__name__])
    ToolConversation(env_id, keywords).close()
    taskset = {
        "id": PLUGIN,
        "env_id": env_id,
        "keywords": dict(keywords or {}),
        "number": number,
        "first_seed": first_seed,
        "tools_in_text": tools_in_text,
    }
    return ConversationEnv(ConversationEnvConfig.model_validate({"taskset": taskset, **config}))


def model_context(model: str, base_url: str, **sampling: Any) -> vf.ModelContext:
    """A model behind an OpenAI-compatible server, to play with; `sampling` as temperature=…"""
    client = vf.EvalClientConfig(base_url=base_url)
    return vf.ModelContext(model=model, client=client, sampling=vf.SamplingConfig(**sampling))
