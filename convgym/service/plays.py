"""What a session plays: an environment with its client as the agent, or a dialogue as the user.

    AgentPlay   action ─► env.step ─► observation, reward, info
    UserPlay    words ─► policy, in the world of a task ─► its speech, calls and what they returned

Both answer in plain JSON values. What is hidden stands in a record only where the session was made
to show it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from convgym.conversation import Conversation, Message
from convgym.engine.episode import Entry
from convgym.envs.transcript import ACT
from convgym.language.tool_calls import RawCall, parse_reply
from convgym.service.dialogue import Answer, Dialogue
from convgym.service.plain_values import action_of, plain, space_record
from convgym.service.problems import Problem

_ROLES = {"agent": "assistant", "act": "assistant", "tool": "tool"}


class AgentPlay:
    """A client is the agent of one environment, for any number of episodes."""

    side = "agent"

    def __init__(self, env: gym.Env[Any, Any], env_id: str, keep: bool = False) -> None:
        """`keep`: what is said is kept, for `conversation`."""
        self.env, self.env_id, self._keep = env, env_id, keep
        self._lines: list[Message] = []
        self._return, self._turn, self._over = 0.0, 0, True
        self._seed, self._info, self._seen = 0, dict[str, Any](), 0

    def reset(self, seed: int, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=dict(options) if options else None)
        self._lines, self._return, self._turn, self._over = [], 0.0, 0, False
        self._seed, self._seen = seed, 0
        prompt = str(getattr(self.env.unwrapped, "system_prompt", ""))
        if prompt and self._keep:
            self._lines.append(Message("system", prompt))
        return {
            "env_id": self.env_id,
            "seed": seed,
            "system_prompt": plain(prompt),
            "action_space": space_record(self.env),
            **self._record(observation, 0.0, False, False, info, None),
        }

    def step(self, action: Any, turn: int | None) -> dict[str, Any]:
        """One turn; `turn`, where given, is how many there must have been before it."""
        if turn is not None and turn != self._turn:
            raise Problem(409, "other_turn", f"this session has had {self._turn} steps, not {turn}")
        taken = action_of(self.env, action)
        observation, reward, terminated, truncated, info = self.env.step(taken)
        self._turn += 1
        self._return += float(reward)
        return self._record(observation, float(reward), terminated, truncated, info, taken)

    def standing(self) -> dict[str, Any]:
        """How far the episode is."""
        return {"step_count": self._turn, "env_id": self.env_id, "return": plain(self._return),
                "done": self._over}  # fmt: skip

    def conversation(self) -> Conversation | None:
        """What has been said, for the log; None where nothing has, or nothing was kept."""
        if self._turn == 0 or not self._keep:
            return None
        about = {
            "source": "environment session", "env_id": self.env_id, "seed": self._seed,
            "task_id": self._info.get("task_id", ""), "turns": self._turn,
            "finished": self._over, "success": bool(self._info.get("success", False)),
            "failure_reason": self._info.get("failure_reason", ""),
        }  # fmt: skip
        return Conversation("", tuple(self._lines), self._return, plain(about))

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _record(
        self,
        observation: Any,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any],
        action: Any,
    ) -> dict[str, Any]:
        self._info, self._over = dict(info), terminated or truncated
        new = self._new_lines()
        for who, text in new if self._keep else ():
            role = _ROLES.get(who, "user")
            self._lines.append(Message(role, text, reward if role == "assistant" else None))
        record = {
            "observation": plain(observation),
            "reward": plain(reward),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "info": plain(info),
            "turn": self._turn,
            "return": plain(self._return),
            "said": [{"who": who, "text": text} for who, text in new],
            "calls": _called(action),
        }
        if "privileged" in info:
            record["ledger"] = ledger(self.env)
        return record

    def _new_lines(self) -> list[tuple[str, str]]:
        """(who, text) of what this step brought: agent, act (by its name), tool, customer, user."""
        said = getattr(self.env.unwrapped, "said", None)
        if said is None:
            return []
        lines = said(self._seen)
        self._seen += len(lines)
        domain = getattr(self.env.unwrapped, "domain", None)
        return [
            (who.lower(), domain.actions.names[int(text)] if who == ACT and domain else plain(text))
            for who, text in lines
        ]


class UserPlay:
    """A client is the customer of one task; a policy answers."""

    side = "user"

    def __init__(self, dialogue: Dialogue, env_id: str, policy: str) -> None:
        self.env_id, self.policy, self._dialogue = env_id, policy, dialogue
        self._lines: list[Message] = []
        self._answer = Answer("")
        self._turn = 0

    def reset(self) -> dict[str, Any]:
        """Whom the client plays."""
        return {"env_id": self.env_id, "policy": self.policy, "role": plain(self._dialogue.role()),
                "turn": 0}  # fmt: skip

    def step(self, words: Any, turn: int | None) -> dict[str, Any]:
        """One message and what the policy makes of it."""
        if turn is not None and turn != self._turn:
            raise Problem(409, "other_turn", f"this session has had {self._turn} steps, not {turn}")
        if not isinstance(words, str):
            raise Problem(422, "not_allowed", "the action of this session is a text")
        if self._answer.ended:
            raise Problem(409, "episode_over", "the conversation is over; reset the session")
        answer = self._answer = self._dialogue.hear(words)
        self._turn += 1
        self._lines += [Message("user", plain(words)), *messages_of(answer)]
        return {**answer_record(answer), "turn": self._turn}

    def conversation(self) -> Conversation | None:
        """What has been said, for the log."""
        if not self._lines:
            return None
        answer = self._answer
        about = {
            "source": "user session", "env_id": self.env_id, "policy": self.policy,
            "turns": self._turn, "finished": answer.ended, "success": answer.success,
            "failure_reason": answer.reason,
        }  # fmt: skip
        return Conversation("", tuple(self._lines), None, about)

    def close(self) -> None:
        """Close the environment."""
        self._dialogue.close()


def answer_record(answer: Answer) -> dict[str, Any]:
    """A policy's answer as plain JSON values."""
    return {
        "text": plain(answer.text),
        "tool_calls": [call_record(call) for call in answer.calls],
        "tool_results": [plain(result) for result in answer.results],
        "ended": answer.ended,
        "reason": answer.reason,
        "reward_terms": answer.reward_terms,
        "success": answer.success,
    }


def call_record(call: RawCall) -> dict[str, Any]:
    """A tool call as plain JSON values."""
    return {"name": plain(call.name), "arguments": plain(dict(call.arguments))}


def messages_of(answer: Answer) -> list[Message]:
    """A policy's answer as messages of a log."""
    found = []
    if answer.calls:
        calls: dict[str, list[Any]] = {}
        for call in answer.calls:
            calls.setdefault(plain(call.name), []).append(plain(dict(call.arguments)))
        named = {name: given[0] if len(given) == 1 else given for name, given in calls.items()}
        found.append(Message("assistant", "", tool_call=named))
    found += [Message("tool", plain(result)) for result in answer.results]
    if answer.text:
        found.append(Message("assistant", plain(answer.text)))
    return found


def ledger(env: gym.Env[Any, Any]) -> list[str]:
    """The lines of the running episode's ledger, which tell what was right."""
    episode = getattr(env.unwrapped, "_episode", None)
    entries = getattr(episode, "ledger", ())
    return [
        plain(f"{e.turn:>3}  {e.event}: {e.detail}" if isinstance(e, Entry) else str(e))
        for e in entries
    ]


def _called(action: Any) -> list[dict[str, Any]]:
    return [call_record(c) for c in parse_reply(action).calls] if isinstance(action, str) else []


def size_of(action: Any) -> int:
    """Characters that an action counts as."""
    return len(action) if isinstance(action, str) else len(json.dumps(action, default=str))
