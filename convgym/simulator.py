"""The simulator for people: a whole conversation in one call, or a customer to talk to.

    SimulatorConfig ─► gym.make ─► environment ─┬─► ConversationSimulator: an agent plays it
                                                └─► UserSimulator: you are the agent

    simulator = ConversationSimulator(SimulatorConfig(persona="busy_professional"))
    for message in simulator.generate_conversation(seed=7).messages:
        print(message.role, message.content)

    simulator.calibrate(read_log("logs.jsonl.gz"))      from now on the customer is one of the logs'

Both are thin over the registered environment, which does every step: the same seed gives the
same words as `gym.make(...).reset(seed=seed)` and the same replies.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

import convgym.envs.registration as registration
from convgym.conversation import Conversation, Message
from convgym.desk.folder import FolderDesk
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import Rollout, play
from convgym.policies.policy import ActPolicy, Policy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder
from convgym.randomization.scenarios import Scenario
from convgym.users.persona import Persona

if TYPE_CHECKING:
    from convgym.calibration.calibration import Calibration

_SCENARIO_ID = re.compile(r"([a-z_]+-[0-9]+)/([0-9]+)")
_OWN = ("env_id", "keywords", "seed", "calibration_epochs")
"""Fields of SimulatorConfig that are no keywords of environments."""
Agent = Policy | Callable[[list[dict[str, str]]], str]
"""A policy; or a function from `[{"role", "content"}, …]`, policy and tools first, to a reply."""


@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """What is simulated; the fields from `split` to `max_turns` are the environment's keywords.

    Only what differs from its default is handed over, so that a field may stand here that an
    environment does not take. Bad values fail where the environment is made, with its sentence.
    """

    env_id: str = "ConvGym/CustomerService-v0"
    """The domain, as a registered environment."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """What else the environment takes: `{"folder": ...}` of a domain of your own."""
    split: str = "train"
    """`train`, `validation`, `test`, or what training never meets: `test_compositional`,
    `test_primitive`, `test_policy`, `test_persona`, `test_lexical`."""
    task_id: str | None = None
    """One task for every conversation; None draws them."""
    topic: str | None = None
    """What the customer wants first; None draws it."""
    difficulty: float | None = None
    """From 0 to 1; None draws from all tasks alike."""
    persona: Any = None
    """A Persona, a name, or a mapping of traits; None draws one."""
    style: Any = None
    """How the customer writes: a name or a mapping; None is as the persona does."""
    response_diversity: float = 1.0
    """How many of the fitting wordings are used."""
    randomizer: Any = None
    """Who calls and how hard it gets, drawn per conversation; a DomainRandomizer or a mapping."""
    realism: float | None = None
    """0 templates, 0.5 retrieved turns, above it a writer; None: 0, or 0.5 with a fitted user."""
    writer: Any = None
    """A callable that words the customer's turns, for realism above 0.5."""
    user: Any = None
    """A fitted user's path, or a language model that plays the customer whole."""
    phrases: str | None = None
    """The customer's wordings: `train` or `held_out`; None takes those of the split."""
    reward: str = "success"
    """`success`, `graded` or `milestones`."""
    max_turns: int | None = None
    """Agent turns after which a conversation is cut off; None leaves it to the environment."""
    seed: int = 0
    """Of the first conversation; the following ones take the numbers after it."""
    calibration_epochs: int = 0
    """How long `calibrate` polishes what it counted: `budget_s`, a nominal second an epoch, which
    is so many trials on any machine. 0: the counts alone."""

    def make(self) -> gym.Env[Any, Any]:
        """The environment, with `dict` observations and text actions."""
        registration.register_envs()
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise InvalidConfiguration(f"seed={self.seed!r}; it must be a whole number from 0")
        known = registration.ENVIRONMENTS
        if self.env_id not in gym.registry:
            raise InvalidConfiguration(
                f"no environment is called {self.env_id!r}; there are {', '.join(known)}"
            )
        given: dict[str, Any] = {"observation": "dict", "action": "text"}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in _OWN and value != one.default:
                given[one.name] = value
        given |= self.keywords
        try:
            return gym.make(self.env_id, disable_env_checker=True, **given)
        except TypeError as error:
            if isinstance(error, InvalidConfiguration):
                raise
            raise InvalidConfiguration(self._not_taken(given, error)) from error

    def _not_taken(self, given: Mapping[str, Any], error: TypeError) -> str:
        """What is wrong with what the environment's class was given."""
        known = registration.ENVIRONMENTS
        if self.env_id not in known:
            known_ids = ", ".join(known)
            return f"{self.env_id!r} is no environment of conversations; there are {known_ids}"
        made: Any = load_env_creator(known[self.env_id])
        named: set[str] = set()
        for kind in made.__mro__:
            named |= set(inspect.signature(kind.__init__).parameters)
        takes = sorted(named - {"self", "args", "kwargs", "keywords"})
        strange = [name for name in given if name not in takes]
        if not strange:
            return f"{self.env_id!r} could not be made: {error}"
        return f"{self.env_id!r} takes no {strange[0]!r}; it takes {', '.join(takes)}"


# -- whole conversations ---------------------------------------------------------------------------


class ConversationSimulator:
    """Lets an agent talk with simulated customers; each conversation is one seeded episode."""

    def __init__(self, config: SimulatorConfig | None = None) -> None:
        self.config = config or SimulatorConfig()
        self.env = self.config.make()
        self._next = self.config.seed
        self._kept = ExitStack()

    def calibrate(
        self,
        conversations: Iterable[Conversation],
        path: str | os.PathLike[str] | None = None,
        **given: Any,
    ) -> Calibration:
        """Fit a user to recorded conversations; from then on it is whom the agent talks with.

        `path`: where the fitted user is saved, for `user=path` of any environment; without one it
        is kept until `close`. `given`: what `convgym.calibration.calibrate` takes, over the
        configuration's `seed` and `calibration_epochs`.

        Raises what that raises, and InvalidConfiguration where the environment takes no fitted
        user; then the simulator stays as it was.
        """
        from convgym.calibration.calibration import calibrate

        settings = {"seed": self.config.seed, "budget_s": self.config.calibration_epochs} | given
        found = calibrate(conversations, **settings)
        with ExitStack() as undone:
            if path is None:
                folder = undone.enter_context(TemporaryDirectory(prefix="convgym-"))
                path = os.path.join(folder, "user.npz")
            found.save(path)
            config = replace(self.config, user=os.fspath(path))
            env = config.make()
            self.close()
            self.config, self.env, self._kept = config, env, undone.pop_all()
        return found

    def generate_conversation(
        self,
        scenario: Scenario | Mapping[str, Any] | str | None = None,
        persona: Any = None,
        agent: Agent | None = None,
        seed: int | None = None,
    ) -> Conversation:
        """One conversation; what is not given is drawn from the seed.

        `scenario`: a Scenario or its dict, replayed with its task, customer and first words; a
        scenario's id `"train-17/3"`, which leaves the persona open; or a task's, `"train-17"`.
        `persona` overrides that of the scenario and of the configuration. `agent`: a policy, or a
        function from messages to a reply; without one the domain's scripted oracle, which speaks.
        `seed`: without one, the configuration's for the first conversation and one more for each
        after it.

        Raises InvalidConfiguration for a scenario or a persona that there is not, and where no
        agent was given and the environment has no scripted ones.
        """
        if seed is None:
            seed = self._next
            self._next += 1
        options = scenario_options(scenario)
        if persona is not None:
            options["persona"] = persona
        policy = policy_of(agent, self.env)
        return conversation_of(play(self.env, policy, seed=seed, options=options), policy.name)

    def generate_conversations(
        self, n: int, seed: int | None = None, **given: Any
    ) -> Iterator[Conversation]:
        """`n` conversations, one after the other; `given` as for `generate_conversation`."""
        for index in range(n):
            yield self.generate_conversation(seed=None if seed is None else seed + index, **given)

    def close(self) -> None:
        """Close the environment, and forget a fitted user that was saved nowhere else."""
        self.env.close()
        self._kept.close()


def scenario_options(scenario: Scenario | Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The reset options that play a scenario; raises InvalidConfiguration where there are none."""
    if scenario is None:
        return {}
    if isinstance(scenario, Scenario):
        return scenario.options()
    persona: Any = None
    if isinstance(scenario, Mapping):
        persona, scenario = scenario.get("persona"), scenario.get("id", scenario.get("task_id"))
    if not (isinstance(scenario, str) and scenario):
        raise InvalidConfiguration(
            f"scenario={str(scenario)[:40]!r} is no scenario; give a Scenario, its dict, its id "
            "such as 'train-17/3', or a task's id such as 'train-17'"
        )
    named = _SCENARIO_ID.fullmatch(scenario)
    if named is None:
        options: dict[str, Any] = {"task_id": scenario}
    else:
        seed = int(named[2])
        options = {"task_id": named[1], "user_seed": seed, "wording_seed": seed}
    return options | ({"persona": dict(persona)} if persona else {})


def conversation_of(rollout: Rollout, agent: str = "") -> Conversation:
    """A kept rollout on `dict` observations as messages.

    In one step come the agent's reply, with the step's reward, what its tool calls returned, and
    the customer's answer, with its acts as (act, value).
    """
    first = rollout.observations[0]
    messages = [Message("system", f"{first['policy']}\n\nTools:\n{first['tools']}")]
    rewards = [None, *rollout.rewards]
    actions = [None, *rollout.actions]
    steps = zip(rollout.observations, rollout.infos, actions, rewards, strict=True)
    for observation, info, action, reward in steps:
        if action is not None:
            messages.append(Message("assistant", str(action), reward))
        if observation["tool_results"]:
            messages.append(Message("tool", observation["tool_results"]))
        if observation["message"]:
            acts = json.loads(info["user_acts"])
            said = tuple(tuple(str(part) for part in act.values()) for act in acts)
            messages.append(Message("user", observation["message"], acts=said))
    info = rollout.final_info
    metadata = {
        "task_id": info["task_id"],
        "split": info["split"],
        "seed": rollout.seed,
        "agent": agent,
        "turns": info["turn"],
        "success": info["success"],
        "failure_reason": info["failure_reason"],
        "terminated": rollout.terminated,
        "truncated": rollout.truncated,
        "violations": info["violations"],
        "errors": info["errors"],
        "reward_terms": json.loads(info["reward_terms"]),
        "user_log_prob": sum(each["user_log_prob"] for each in rollout.infos),
        "oracle_length": info["oracle_length"],
    }
    name = f"{info['task_id']}#{rollout.seed}"
    return Conversation(name, tuple(messages), rollout.return_, metadata)


# -- agents ----------------------------------------------------------------------------------------


def scripted_agents(env: gym.Env[Any, Any]) -> dict[str, Callable[[], ActPolicy]]:
    """Makers of an environment's scripted agents, by name: random up to oracle.

    Raises InvalidConfiguration for an environment without any: they belong to a service desk.
    """
    return ladder(domain_name(env))


def domain_name(env: gym.Env[Any, Any]) -> str:
    """The name, or the folder, under which an environment's domain is found."""
    base: Any = env.unwrapped
    domain = getattr(base, "domain", None)
    if domain is None:
        name = env.spec.id if env.spec else type(base).__name__
        raise InvalidConfiguration(
            f"{name} has no scripted agents; give agent=, a function from messages to a reply or "
            "a policy that speaks"
        )
    return str(domain.made_from[0]) if isinstance(domain, FolderDesk) else str(domain.domain)


def policy_of(agent: Agent | None, env: gym.Env[Any, Any]) -> Policy:
    """Any agent as a policy that answers `dict` observations of `env` in text."""
    if agent is None:
        agent = scripted_agents(env)["oracle"]()
    if isinstance(agent, ActPolicy):
        return RenderedPolicy(agent, domain=domain_name(env))
    if hasattr(agent, "predict"):
        return cast(Policy, agent)
    if callable(agent):
        return _Function(agent, lambda: str(env.get_wrapper_attr("system_prompt")))
    raise InvalidConfiguration(
        f"agent={agent!r} is neither a policy nor a function from messages to a reply"
    )


class _Function:
    """A function from messages to a reply as a policy that remembers the conversation."""

    def __init__(
        self, function: Callable[[list[dict[str, str]]], str], system: Callable[[], str]
    ) -> None:
        self.name = str(getattr(function, "__name__", "function"))
        self._function, self._system = function, system
        self._messages: list[dict[str, str]] = []

    def reset(self, seed: int) -> None:
        """A new conversation."""
        self._messages = [{"role": "system", "content": self._system()}]

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[str, Any]:
        """What the function replies to all that was said."""
        for role, key in (("tool", "tool_results"), ("user", "message")):
            if observation[key]:
                self._messages.append({"role": role, "content": observation[key]})
        reply = self._function([dict(message) for message in self._messages])
        self._messages.append({"role": "assistant", "content": reply})
        return reply, state


# -- a customer to talk to -------------------------------------------------------------------------


class UserSimulator:
    """A simulated customer who answers the agent's messages, one at a time.

        customer = UserSimulator(persona="frustrated_novice", topic="cancel", seed=7)
        print(customer.open())
        print(customer.respond(None, "Hello, may I have your e-mail address?"))

    The customer keeps what was said; `settings` are further fields of SimulatorConfig.
    """

    def __init__(
        self,
        persona: Persona | str | Mapping[str, Any] | None = None,
        topic: str | None = None,
        style: Any = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        unknown = set(settings) - {field.name for field in fields(SimulatorConfig)}
        if unknown:
            raise InvalidConfiguration(
                f"UserSimulator has no {min(unknown)!r}; it takes the fields of SimulatorConfig"
            )
        given = {"persona": persona, "topic": topic, "style": style, "seed": seed}
        self.config = SimulatorConfig(**given, **settings)
        self.env = self.config.make()
        self.info: dict[str, Any] = {}
        """The environment's info of the newest message."""
        self.reward = 0.0
        """The sum of the rewards so far."""
        self.done = False
        """Whether the conversation has ended."""
        self._seed = self.config.seed
        self._said: list[tuple[str, str]] = []

    def reset(self, seed: int | None = None) -> None:
        """Forget the conversation; the next `open` begins that of `seed`, or the same again."""
        if seed is not None:
            self._seed = seed
        self._said, self.info, self.done, self.reward = [], {}, False, 0.0

    def open(self) -> str:
        """The customer's first message; asked twice, the same."""
        if not self._said:
            observation, self.info = self.env.reset(seed=self._seed)
            self._said = [("user", observation["message"])]
        return self._said[0][1]

    def respond(self, history: Sequence[Any] | None = None, agent_message: str = "") -> str:
        """What the customer answers to `agent_message`.

        `history` is not needed and may be None: what was said so far, oldest first, as texts,
        (role, text), `{"role", "content"}` or Message, with or without tool results. It is
        compared with what was really said, because nobody can be made to have said something else.

        A message of tool calls alone keeps the floor: the answer is "", and what the tools
        returned is `info["tool_results"]`.

        Raises InvalidConfiguration for another history, and once the conversation has ended.
        """
        self.open()
        if self.done:
            raise InvalidConfiguration("this conversation has ended; call reset, then open")
        if history is not None:
            self._agrees(history)
        observation, reward, terminated, truncated, self.info = self.env.step(agent_message)
        self.done, self.reward = terminated or truncated, self.reward + float(reward)
        answer = str(observation["message"])
        self._said += [("assistant", agent_message), ("user", answer)]
        return answer

    def _agrees(self, history: Sequence[Any]) -> None:
        given = [said for said in map(_said, history) if said[0] not in ("tool", "system")]
        given = [said for said in given if said[1]]
        real = [said for said in self._said if said[1]]
        for place, (was, claimed) in enumerate(zip(real, given, strict=False)):
            if claimed[1] != was[1] or claimed[0] not in ("", was[0]):
                raise InvalidConfiguration(
                    f"the history's message {place} is {claimed[1][:40]!r}, but {was[1][:40]!r} "
                    f"was said by the {was[0]}; pass None, or what was said"
                )
        if len(given) != len(real):
            raise InvalidConfiguration(
                f"the history has {len(given)} messages, but {len(real)} were said; pass None, or "
                "what was said before this reply"
            )


def _said(message: Any) -> tuple[str, str]:
    """(role, text) of a message in any of the usual forms; role "" where it names none."""
    if isinstance(message, str):
        return "", message
    if isinstance(message, Message):
        return message.role, message.content
    if isinstance(message, Mapping):
        return str(message.get("role", "")), str(message.get("content", ""))
    if isinstance(message, Sequence) and len(message) == 2:
        return str(message[0]), str(message[1])
    raise InvalidConfiguration(
        f"the history has {str(message)[:40]!r}; a message is a text, (role, text), "
        '{"role", "content"} or a Message'
    )
