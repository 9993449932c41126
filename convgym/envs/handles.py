"""Short handles in place of the values that an agent would have to copy letter by letter.

    environment   "find me by freya.usher3622@example.com, it is W37523"
    agent reads   "find me by email:1, it is number:1"
    agent writes  {"name": "find_customer", "arguments": {"email": "email:1"}}
    environment   {"name": "find_customer", "arguments": {"email": "freya.usher3622@example.com"}}

A small language model learns whom to ask and what to do long before it learns to copy an
arbitrary string; with handles, pointing is one token. A value gets the next number of its kind
where it first appears in what the agent reads, and keeps it to the end of the episode; values are
told apart by every character. Nothing is told that was not seen: the table is made of the texts
alone, and a handle that stands for nothing yet is written out as one that no record has.

The law: `expand(shorten(text)) == text`, for every text and at any time. What looks like a handle
in a text already is a value as well, of the kind `word`, and so comes back as it was. The tools'
own handles (`order:2`, `device:1`, `product:3`) are other names and pass as they are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from convgym.errors import InvalidConfiguration

READ_TEXTS = ("tool_results", "message", "transcript")
"""Parts of a Dict observation that are shortened, in the order in which they are read."""

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_PATTERNS = {
    "email": r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
    "date": rf"[0-9]{{1,2}} (?i:{_MONTHS})",
    "address": r"[0-9]{1,4}(?: [A-Z][a-z]+){1,3}, [A-Z][a-z]+",
    "phone": r"0[0-9]{9}",
    "number": r"[A-Za-z][0-9]{5}",
    "postcode": r"[0-9]{5}",
    "pin": r"[0-9]{4}",
    "amount": r"\$[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?",
}
KINDS = (*_PATTERNS, "word")
"""Kinds of values: one regular expression each, tried in this order at each place of a text."""
UNKNOWN = "unknown"
"""What stands in the place of the number of a handle that was never given."""

Known = tuple[tuple[str, tuple[str, ...]], ...]
"""Further kinds, each with its values."""

# A handle stands between characters that cannot be part of it, and so must what it replaces: else
# `a$5` became `aamount:1`, in which no handle is seen.
_FREE, _ENDS = r"(?<!\w)", r"(?!\w)"


@lru_cache(maxsize=64)
def _expressions(known: Known) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What is written as a handle, and what is a value."""
    handle = rf"(?:{'|'.join([*(kind for kind, _ in known), *KINDS])}):[0-9]+"
    named = [
        f"(?P<{kind}>{'|'.join(re.escape(v) for v in sorted(values, key=len, reverse=True))})"
        for kind, values in known
    ]
    kinds = [*named, *(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items())]
    values = "|".join([f"(?P<word>{handle})", *kinds])
    return re.compile(f"{_FREE}{handle}{_ENDS}"), re.compile(f"{_FREE}(?:{values}){_ENDS}")


class Handles:
    """The table of one episode: which handle stands for which value.

    `known` are further kinds, whose values are told by their words: `(("item", ("face cream",)),)`.
    """

    def __init__(self, known: Known = ()) -> None:
        self._handles, self._values = _expressions(known)
        self._handle: dict[tuple[str, str], str] = {}
        self._value: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    @property
    def values(self) -> Mapping[str, str]:
        """The value of every handle so far, in the order in which they were given."""
        return dict(self._value)

    def shorten(self, text: str) -> str:
        """`text` with a handle for every value; values that are new get new handles."""
        return self._values.sub(self._shortened, text)

    def expand(self, text: str) -> str:
        """`text` with the value of every handle, and no handle that was never given."""
        return self._handles.sub(self._expanded, text)

    def _shortened(self, found: re.Match[str]) -> str:
        kind, value = str(found.lastgroup), found[0]
        if (kind, value) not in self._handle:
            self._count[kind] += 1
            handle = f"{kind}:{self._count[kind]}"
            self._handle[kind, value], self._value[handle] = handle, value
        return self._handle[kind, value]

    def _expanded(self, found: re.Match[str]) -> str:
        known = self._value.get(found[0])
        return f"{found[0].partition(':')[0]}:{UNKNOWN}" if known is None else known


def without(results: str, dropped: Collection[str]) -> str:
    """Tool results, one JSON a line, without these keys at any depth; other lines as they are."""
    if not dropped:
        return results
    lines = []
    for line in results.split("\n"):
        try:
            answer = json.loads(line)
        except ValueError:
            lines.append(line)
            continue
        # What was escaped stays so: it may be of no alphabet that a text here is written in.
        escaped = "\\u" in line
        lines.append(json.dumps(_pruned(answer, dropped), ensure_ascii=escaped))
    return "\n".join(lines)


def _pruned(answer: Any, dropped: Collection[str]) -> Any:
    if isinstance(answer, dict):
        return {k: _pruned(part, dropped) for k, part in answer.items() if k not in dropped}
    if isinstance(answer, list):
        return [_pruned(part, dropped) for part in answer]
    return answer


class ToolHandles(gym.Wrapper[Any, str, Any, str], gym.utils.RecordConstructorArgs):
    """Handles in what the agent reads, values in what the environment hears.

        env = ToolHandles(gym.make("ConvGym/CustomerService-v0", observation="dict"))

    For environments from Text to Text, and for those whose observation is a Dict: of it the parts
    `tool_results`, `message` and `transcript` are shortened, where they are there; `policy`,
    `tools`, `features` and the `view` for scripted agents stay as they are. Spaces stay the same;
    a text that handles made longer than its space allows is cut.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `known` | {} | further kinds of values with their words, `{"item": ["face cream", …]}`, for \
names that no pattern tells, such as those of a shop's goods |
    | `dropped` | () | keys left out of the JSON of tool results, at any depth, to save tokens; \
what stands under them gets no handle. Of Dict observations only |
    """

    def __init__(
        self,
        env: gym.Env[Any, str],
        dropped: Collection[str] = (),
        known: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        if isinstance(dropped, str) or not all(isinstance(key, str) for key in dropped):
            raise InvalidConfiguration(
                f"dropped={dropped!r}; give a list of keys of the tools' results, such as "
                '["stock", "category"]'
            )
        known = known or {}
        for kind, values in known.items():
            if kind in KINDS or not re.fullmatch("[a-z]+", kind) or isinstance(values, str):
                raise InvalidConfiguration(
                    f"known has {kind!r}: {values!r}; a kind is a word of small letters that is "
                    f"none of {', '.join(KINDS)}, and its values are a list"
                )
        self._known = tuple((kind, tuple(values)) for kind, values in known.items() if values)
        gym.utils.RecordConstructorArgs.__init__(self, dropped=dropped, known=known)
        gym.Wrapper.__init__(self, env)
        shown = env.observation_space
        parts = shown.spaces if isinstance(shown, spaces.Dict) else {"": shown}
        self._lengths = {
            name: space.max_length
            for name, space in parts.items()
            if isinstance(space, spaces.Text) and (not name or name in READ_TEXTS)
        }
        if not (self._lengths and isinstance(env.action_space, spaces.Text)):
            raise InvalidConfiguration(
                f"the environment goes from {type(shown).__name__} to "
                f"{type(env.action_space).__name__}; handles need texts: "
                'take observation="message", "transcript" or "dict", and action="text"'
            )
        self._longest = env.action_space.max_length
        self._dropped = frozenset(dropped)
        self.handles = Handles(self._known)
        """The table of this episode."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with an empty table."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.handles = Handles(self._known)
        return self._shown(observation), info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Write the handles of a reply out, and shorten what it brings."""
        written = action
        if isinstance(action, str):  # what is no text is for the environment to refuse
            written = self.handles.expand(action)[: self._longest]
        observation, reward, terminated, truncated, info = self.env.step(written)
        return self._shown(observation), reward, terminated, truncated, info

    def _shown(self, observation: Any) -> Any:
        if isinstance(observation, str):
            return self.handles.shorten(observation)[: self._lengths[""]]
        shown = dict(observation)
        for name in READ_TEXTS:
            if name in self._lengths:
                text = shown[name]
                if name == "tool_results":
                    text = without(text, self._dropped)
                shown[name] = self.handles.shorten(text)[: self._lengths[name]]
        return shown
