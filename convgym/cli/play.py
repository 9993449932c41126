"""A conversation in the terminal: a person is the agent, or the customer.

    as agent   simulated customer ─► screen ─► what you type ─► env.step
    as user    scripted agent ─► env.step ─► Person, who answers where a model would ─► screen

A line is a message; a line that begins with / is a command. The end of the input leaves.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TextIO

import gymnasium as gym

from convgym.engine.tasks import parse_task_id
from convgym.envs.conversation_env import ConversationEnv
from convgym.errors import InvalidConfiguration
from convgym.language.models import ChatMessage, Completion
from convgym.policies.policy import Policy
from convgym.simulator import SimulatorConfig, policy_of, scripted_agents
from convgym.users.generative import RULES

_AGENT_HELP = """\
  /policy            the rules you have to keep
  /tools             the tools, as JSON schemas
  /call NAME a=b …   call a tool; or write <tool_call>{"name": …, "arguments": {…}}</tool_call>
  /view              all that you have in sight
  /quit              leave
Anything else is said to the customer."""
_USER_HELP = """\
  /role              who you are, what you want and know
  /why               what was understood of your newest message
  /quit              leave
Anything else is said to the agent."""


class Screen:
    """Lines out and in; a line that was piped in is shown, as if it had been typed."""

    def __init__(self, source: TextIO | None = None) -> None:
        self._in = source or sys.stdin
        for stream in (self._in, sys.stdout):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")

    def say(self, text: str) -> None:
        """Print some lines."""
        print(text, flush=True)

    def ask(self, prompt: str) -> str | None:
        """The next line; None at the end of the input."""
        typed = self._in.isatty()
        if typed:
            print(prompt, end="", flush=True)
        try:
            line = self._in.readline()
        except KeyboardInterrupt:
            line = ""
        if not line:
            print()
            return None
        line = line.strip()
        if not typed:
            self.say(prompt + line)
        return line


# -- as the agent ----------------------------------------------------------------------------------


def as_agent(config: SimulatorConfig, screen: Screen) -> None:
    """A person answers one simulated customer."""
    env = made(config)
    observation, info = env.reset(seed=config.seed)
    screen.say("You are the agent. /help says what you can do; /policy first.\n")
    screen.say(f"Customer: {observation['message']}")
    ended = False
    while not ended:
        line = screen.ask("agent> ")
        if line is None or line == "/quit":
            break
        if line.startswith("/"):
            reply = _command(line, observation, screen)
            if reply is None:
                continue
            line = reply
        observation, _, terminated, truncated, info = env.step(line)
        ended = terminated or truncated
        if observation["tool_results"]:
            screen.say(f"Tool: {observation['tool_results']}")
        if observation["message"]:
            screen.say(f"Customer: {observation['message']}")
    screen.say(_ending(env, info, ended))


def _command(line: str, observation: Any, screen: Screen) -> str | None:
    """Do what a command says; a reply where it stands for one."""
    name, _, rest = line.partition(" ")
    if name == "/call":
        call = _tool_call(rest)
        if call is None:
            screen.say(f"That is no call; one is: /call {_example(observation['tools'])}")
        return call
    shown: dict[str, Callable[[], str]] = {
        "/policy": lambda: str(observation["policy"]),
        "/tools": lambda: json.dumps(json.loads(observation["tools"]), indent=1),
        "/view": lambda: json.dumps(json.loads(observation["view"]), indent=1),
        "/help": lambda: _AGENT_HELP,
    }
    screen.say(shown[name]() if name in shown else f"There is no {name}.\n{_AGENT_HELP}")
    return None


def _tool_call(words: str) -> str | None:
    """`name key=value …` as a tool call; None where it is none."""
    try:
        name, *pairs = shlex.split(words)
    except ValueError:
        return None
    if not all("=" in pair for pair in pairs):
        return None
    call = {"name": name, "arguments": dict(pair.split("=", 1) for pair in pairs)}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def _example(tools: str) -> str:
    """The first tool of the schemas with what it takes."""
    tool = json.loads(tools)[0]["function"]
    return " ".join([tool["name"], *(f"{name}=…" for name in tool["parameters"]["properties"])])


# -- as the user -----------------------------------------------------------------------------------


class Person:
    """A person in a language model's place: reads the role, answers the agent."""

    def __init__(self, screen: Screen) -> None:
        self.left = False
        self.understood: Callable[[], str] = lambda: "You have not said anything yet."
        self._screen, self._briefed = screen, False

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """What the person types; an error where they have left."""
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Sequence[ChatMessage]) -> Completion:
        role = prompt[0].content.partition(RULES)[0]
        if self._briefed:
            self._screen.say(f"Agent: {prompt[-1].content}")
        else:
            self._briefed = True
            self._screen.say(f"{role}\n\n{_USER_HELP}\n")
        while not self.left:
            line = self._screen.ask("you> ")
            if line is None or line == "/quit":
                self.left = True
            elif line == "/role":
                self._screen.say(role)
            elif line == "/why":
                self._screen.say(self.understood())
            elif line and not line.startswith("/"):
                return Completion(line)
            else:
                self._screen.say(_USER_HELP)
        return Completion("", "the person left")


def as_user(config: SimulatorConfig, screen: Screen, agent: str | Policy) -> None:
    """A person is the customer of one task; a scripted agent, or any policy, answers in words."""
    spoken = playable(config)
    if isinstance(agent, str):
        agents = scripted_agents(spoken)
        if agent not in agents:
            known = ", ".join(agents)
            raise InvalidConfiguration(f"no agent is called {agent!r}; there are {known}")
        agent = agents[agent]()
    person = Person(screen)
    env = made(replace(config, user=person))
    policy = policy_of(agent, env)
    observation, info = env.reset(seed=config.seed)
    policy.reset(config.seed)
    ended, newest = False, info
    person.understood = lambda: _understood(newest)
    while not (ended or person.left):
        action, _ = policy.predict(observation)
        observation, _, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        if observation["message"]:
            newest = info
    if ended and not (person.left or observation["message"]):
        screen.say(f"The agent ended it: {observation['tool_results']}")
    screen.say(_ending(env, info, ended and not person.left))


def playable(config: SimulatorConfig) -> gym.Env[Any, Any]:
    """The environment with its own customer; raises where nobody can take the customer's place."""
    env = config.make()
    made = type(env.unwrapped)
    roles = issubclass(made, ConversationEnv) and made.make_role != ConversationEnv.make_role
    if not roles:
        raise InvalidConfiguration(
            f"the user of {config.env_id} cannot be played: nothing describes its role to a "
            "person; play the agent, without --as user"
        )
    return env


def made(config: SimulatorConfig) -> gym.Env[Any, Any]:
    """The environment, which tells what was hidden for the end."""
    return replace(config, keywords={**config.keywords, "privileged": True}).make()


def _understood(info: dict[str, Any]) -> str:
    acts = json.loads(info["user_acts"])
    if not acts:
        return "Nothing was understood."
    return "Understood: " + ", ".join(" ".join(act.values()) for act in acts)


# -- the end ---------------------------------------------------------------------------------------


def _ending(env: gym.Env[Any, Any], info: dict[str, Any], ended: bool) -> str:
    """How it went, what it was worth, and what the customer wanted."""
    if not ended:
        verdict = "unfinished"
    else:
        verdict = "success" if info["success"] else f"no success ({info['failure_reason']})"
    lines = [f"\n-- The end: {verdict} --"]
    terms = json.loads(info["reward_terms"])
    if terms:
        lines.append("Reward terms: " + ", ".join(f"{name} {x:g}" for name, x in terms.items()))
    if info["violations"]:
        lines.append(f"Broken obligations: {info['violations']}")
    turns = f"Agent turns: {info['turn']}"
    if info["oracle_length"]:
        turns += f"; the shortest way takes about {info['oracle_length']}"
    lines += [f"{turns}; errors: {info['errors']}"]
    return "\n".join([*lines, *_purpose(env, info)])


def _purpose(env: gym.Env[Any, Any], info: dict[str, Any]) -> list[str]:
    """What it was about, and what would have been right."""
    domain = getattr(env.unwrapped, "domain", None)
    if domain is not None:
        situation, right = domain.scenario(domain.task(*parse_task_id(info["task_id"])))
        return [f"Task {info['task_id']}: {situation}", f"Right would be: {right}"]
    hidden = json.loads(info["privileged"])
    told = [f"  {name}: {value}" for name, value in hidden.items() if value not in ("", [], {})]
    return [f"Task {info['task_id']}:", *told]
