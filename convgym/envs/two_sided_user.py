"""What user_0 sends and sees: its actions as acts, words and calls, its observation and features.

    act     MultiDiscrete([1 + acts + calls] * acts_per_turn)   0 says nothing
    text    an utterance, with tool calls in the agent's format
                └─► Intent(calls, acts or words, errors)

The user sees what the agent says, what its own tools returned, who it is and what it knows; never
what the agent's tools returned, nor whether a claim of the agent's is true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.engine import acts
from convgym.engine.actions import ActionTable
from convgym.engine.acts import FIRST_TOOL, Heard
from convgym.envs.shared_text import SharedText
from convgym.envs.two_sided_outside import Offered
from convgym.envs.user_side import Known, UserSide
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.language.tool_calls import RawCall, parse_reply
from convgym.spaces import UtteranceSpace, sanitize

MESSAGE_LENGTH = 4096
ROLE_LENGTH = 8192
TOOLS_LENGTH = 16384
UTTERANCE_LENGTH = 1024
ACTION_MODES = ("text", "act")
OBSERVATIONS = ("dict", "features", "message")
_VERDICTS = acts.WRONG + 1
_JUDGED = (acts.CONFIRM, acts.PROMISE)
"""Speech that the user can judge by what it wants itself."""


class Utterances(UtteranceSpace):
    """Utterances whose `sample` takes a mask that forbids nothing, as a text action's is."""

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """One of the utterances; raises InvalidConfiguration for any other mask."""
        if mask is not None and not np.all(mask):
            raise InvalidConfiguration("a mask came that forbids something; any utterance is legal")
        return super().sample(probability=probability)


def talk(utterances: Sequence[str]) -> tuple[str, ...]:
    """Those without a tool call: samples of both sides take turns, and none hangs up."""
    return tuple(text for text in utterances if not parse_reply(text).calls)


class Intent(NamedTuple):
    """An action of the user's, read."""

    calls: tuple[RawCall, ...]
    errors: tuple[str, ...]
    offered: Offered
    speaks: bool
    """Whether the floor passes: something is said, or nothing at all is done."""


class Memory:
    """What the user has heard, said and looked at in one episode."""

    def __init__(self, numbers: int, columns: int) -> None:
        self.said = np.zeros((2, numbers), dtype=np.float32)  # in the newest turn; ever
        self.heard = np.zeros((2, columns), dtype=np.float32)
        self.judged = np.zeros((len(_JUDGED), _VERDICTS), dtype=np.float32)
        self.message = ""
        self.results: list[str] = []
        self.turns = 0
        self.in_a_row = 0  # steps of tools alone since the floor came


class UserCodec:
    """The spaces of user_0, its actions read and its observations made."""

    def __init__(
        self,
        side: UserSide,
        vocabulary: Mapping[str, int],
        table: ActionTable,
        *,
        action: str,
        observation: str,
        acts_per_turn: int,
        most_turns: int,
    ) -> None:
        self.side = side
        self.action, self.observation, self.width = action, observation, acts_per_turn
        self.acts = max(vocabulary.values()) + 1
        self.names: tuple[str, ...] = self._names(vocabulary)
        """What each number of act mode means: nothing, the acts, the calls."""
        self._columns = _speech_columns(table)
        self.layout = self._layout(table)
        """The name of each feature."""
        self._most_turns = most_turns
        self.features_space = spaces.Box(0.0, 1.0, (len(self.layout),), dtype=np.float32)
        self.action_space: spaces.Space[Any]
        if action == "act":
            self.action_space = spaces.MultiDiscrete([len(self.names)] * acts_per_turn)
        else:
            self.action_space = Utterances(UTTERANCE_LENGTH, talk(side.utterances))

    def _names(self, vocabulary: Mapping[str, int]) -> tuple[str, ...]:
        named = {number: name for name, number in vocabulary.items()}
        said = [named.get(number, "") for number in range(self.acts)]
        made = [f"{call.name}({', '.join(map(str, call.arguments.values()))})"
                for call in self.side.calls]  # fmt: skip
        return ("nothing", *said, *made)

    def _layout(self, table: ActionTable) -> tuple[str, ...]:
        numbers = self.names[1:]
        first: dict[Column, str] = {(a.kind, a.argument): a.name for a in reversed(table.actions)}
        heard = [f"kind_{pair[0]}" if pair[1] is None else first[pair] for pair in self._columns]
        judged = [f"{kind}_{verdict}" for kind in ("confirm", "promise")
                  for verdict in range(_VERDICTS)]  # fmt: skip
        return (
            *(f"can_{name}" for name in numbers),
            *(f"said_{name}" for name in numbers),
            *(f"has_said_{name}" for name in numbers),
            *(f"heard_{name}" for name in heard),
            *(f"has_heard_{name}" for name in heard),
            *judged,
            "turn",
        )

    # -- actions ---------------------------------------------------------------------------------

    def mask(self, known: Known) -> NDArray[np.int8]:
        """1 for each number that is legal now: nothing, true acts, all calls.  # (numbers,)"""
        calls = np.ones(len(self.side.calls), dtype=np.int8)
        return np.concatenate((np.ones(1, dtype=np.int8), known, calls))

    def idle(self) -> NDArray[np.int8]:
        """The mask of a user without the floor: only to say nothing.  # (numbers,)"""
        mask = np.zeros(len(self.names), dtype=np.int8)
        mask[0] = 1
        return mask

    def encoded(self, numbers: Sequence[int], words: str) -> Any:
        """Acts, or in text mode their words, as an action; as many acts as fit."""
        if self.action == "text":
            return words
        action = np.zeros(self.width, dtype=np.int64)
        fitting = [number + 1 for number in numbers[: self.width]]
        action[: len(fitting)] = fitting
        return action

    def encoded_calls(self, calls: Sequence[int]) -> Any:
        """Calls by their places in the side's `calls`, as an action."""
        if self.action == "act":
            return self.encoded([self.acts + call for call in calls], "")
        made = (self.side.calls[call] for call in calls)
        return "".join(call_text(call) for call in made)

    def read(self, action: Any) -> Intent:
        """The action as calls and speech; raises InvalidAction for one outside the space."""
        if self.action == "text":
            return self._read_text(action)
        numbers = self._numbers(action)
        said = tuple(dict.fromkeys(n - 1 for n in numbers if 0 < n <= self.acts))
        calls = tuple(self.side.calls[n - 1 - self.acts] for n in numbers if n > self.acts)
        return Intent(calls, (), Offered(said), bool(said) or not calls)

    def _numbers(self, action: Any) -> list[int]:
        try:
            array = np.asarray(action) if isinstance(action, np.ndarray | list | tuple) else None
        except ValueError:  # rows of unequal length
            array = None
        fits = array is not None and array.shape == (self.width,) and array.dtype.kind in "iu"
        if array is None or not fits or (array < 0).any() or (array >= len(self.names)).any():
            raise InvalidAction(
                f"the user's action {str(action)[:40]!r} is not {self.width} whole numbers from "
                f"0 to {len(self.names) - 1}; 0 says nothing"
            )
        return [int(number) for number in array]

    def _read_text(self, action: Any) -> Intent:
        parsed = parse_reply(sanitize(action, UTTERANCE_LENGTH))
        quiet = not (parsed.calls or parsed.errors)
        offered = Offered(words=parsed.speech)
        return Intent(parsed.calls, parsed.errors, offered, bool(parsed.speech) or quiet)

    # -- observations ------------------------------------------------------------------------------

    def make_space(self) -> spaces.Dict:
        """The observation space; act mode adds the mask."""

        parts: dict[str, spaces.Space[Any]] = {
            "message": SharedText(MESSAGE_LENGTH),
            "features": self.features_space,
            "role": SharedText(ROLE_LENGTH),
            "tool_results": SharedText(MESSAGE_LENGTH),
            "tools": SharedText(TOOLS_LENGTH),
            "turn": spaces.Box(0, self._most_turns, (1,), dtype=np.int64),
        }
        if self.observation != "dict":
            parts = {self.observation: parts[self.observation]}
        if self.action == "act":
            one = spaces.MultiBinary(len(self.names))
            parts["action_mask"] = spaces.Tuple([one] * self.width)
        return spaces.Dict(parts)

    def memory(self) -> Memory:
        """A fresh one."""
        return Memory(len(self.names) - 1, len(self._columns))

    def observe(
        self, memory: Memory, known: Known, mask: NDArray[np.int8], role: str
    ) -> dict[str, Any]:
        """What the user sees now."""
        seen: dict[str, Any] = {}
        if self.observation != "features":
            seen["message"] = memory.message[:MESSAGE_LENGTH]
        if self.observation != "message":
            seen["features"] = self.features(memory, known)
        if self.observation == "dict":
            seen |= {
                "role": sanitize(role, ROLE_LENGTH),
                "tool_results": sanitize("\n".join(memory.results), MESSAGE_LENGTH),
                "tools": sanitize(self.side.tools, TOOLS_LENGTH),
                "turn": np.array([min(memory.turns, self._most_turns)], dtype=np.int64),
            }
        if self.action == "act":
            seen["action_mask"] = self.masks(mask)
        return seen

    def masks(self, mask: NDArray[np.int8]) -> tuple[NDArray[np.int8], ...]:
        """The same mask for each act of a turn, as `MultiDiscrete.sample` takes it."""
        return tuple(mask.copy() for _ in range(self.width))

    def features(self, memory: Memory, known: Known) -> NDArray[np.float32]:
        """Everything of it that is a number, in [0, 1].  # (features,)"""
        calls = np.ones(len(self.side.calls), dtype=np.float32)
        turn = np.array([min(memory.turns / self._most_turns, 1.0)], dtype=np.float32)
        parts = (known, calls, memory.said.ravel(), memory.heard.ravel(), memory.judged.ravel())
        return np.concatenate((*parts, turn)).astype(np.float32)

    # -- memory ------------------------------------------------------------------------------------

    def hear(self, memory: Memory, heard: Sequence[Heard], words: str) -> None:
        """The agent has spoken, and the user has the floor."""
        memory.heard[0] = 0
        memory.judged[:] = 0
        for act in heard:
            for column in ((act.kind, None), (act.kind, act.argument)):
                if column in self._columns:
                    memory.heard[:, self._columns[column]] = 1
            if act.kind in _JUDGED:
                memory.judged[_JUDGED.index(act.kind), act.verdict] = 1
        memory.message, memory.results, memory.in_a_row = words, [], 0

    def note_calls(self, memory: Memory, calls: Sequence[RawCall]) -> None:
        """The user has called its tools."""
        for call in calls:
            if call in self.side.calls:
                memory.said[:, self.acts + self.side.calls.index(call)] = 1

    def note_turn(self, memory: Memory, done: Sequence[int]) -> None:
        """The user has spoken, and given the floor away."""
        memory.said[0] = 0
        memory.said[:, list(done)] = 1
        memory.turns += 1


Column = tuple[int, int | None]


def _speech_columns(table: ActionTable) -> dict[Column, int]:
    """Column of each sort of speech, and of each sort with what it concerns."""
    pairs: list[Column] = [(kind, None) for kind in range(FIRST_TOOL)]
    pairs += sorted({(a.kind, a.argument) for a in table.actions if a.kind < FIRST_TOOL})
    return {pair: column for column, pair in enumerate(pairs)}


def call_text(call: RawCall) -> str:
    """A call as it is written in text mode."""
    body = json.dumps({"name": call.name, "arguments": dict(call.arguments)})
    return f"<tool_call>{body}</tool_call>"
