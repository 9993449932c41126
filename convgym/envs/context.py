"""The conversation so far, cut to what an agent can read: three ways of forgetting.

said            A B C D E F G                    messages, the newest last
truncate                 …E F G                  as many of the newest as fit into `length`
sliding_window             E F G                 the newest `messages`
summary         [A–D: their values] E F G        what left the window, summarised
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import gymnasium as gym

from convgym.envs.said import Line, SaidWrapper, page, values_said
from convgym.errors import InvalidConfiguration

Strategy = Literal["truncate", "sliding_window", "summary"]
Summarize = Callable[[Sequence[Line]], str]


class ContextWindow(SaidWrapper):
    """Shows the conversation so far as one text, compressed.

        env = ContextWindow(gym.make("ConvGym/CustomerService-v0"), strategy="summary", messages=6)

    | argument | default | |
    |---|---|---|
    | `strategy` | `"truncate"` | `"truncate"`, `"sliding_window"`, `"summary"` |
    | `length` | 2048 | characters of an observation |
    | `messages` | 6 | messages in the window, the agent's own among them |
    | `summarize` | `values_said` | makes a text of the lines that left the window |

    Each observation is read anew, so that a language model's learner starts a new sequence with it
    (`history`). The same conversation gives the same texts.
    """

    history = "replace"
    """An observation stands for all before it."""

    def __init__(
        self,
        env: gym.Env[str, str],
        strategy: Strategy = "truncate",
        length: int = 2048,
        messages: int = 6,
        summarize: Summarize = values_said,
    ) -> None:
        if strategy not in get_args(Strategy):
            raise InvalidConfiguration(
                f"strategy={strategy!r}; it is one of {', '.join(get_args(Strategy))}"
            )
        if messages < 1:
            raise InvalidConfiguration(f"messages={messages}; a window holds 1 or more")
        super().__init__(env, length, strategy=strategy, messages=messages, summarize=summarize)
        self.strategy, self.messages, self.summarize = strategy, messages, summarize

    def read(self) -> str:
        """The compressed conversation."""
        if self.strategy == "truncate":
            return page(self.lines, self.length)
        window, left = self.lines[-self.messages :], self.lines[: -self.messages]
        summary = self.summarize(left) if self.strategy == "summary" and left else ""
        if not summary:
            return page(window, self.length)
        head = f"[Earlier: {summary}]"[: self.length // 2]
        return f"{head}\n{page(window, self.length - len(head) - 1)}"

    def compression(self) -> dict[str, Any]:
        """Characters said and shown, and their ratio."""
        said = sum(len(who) + len(text) + 3 for who, text in self.lines)
        shown = len(self.read())
        return {"said": said, "shown": shown, "ratio": shown / max(said, 1)}
