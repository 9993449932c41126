"""A chat template in pieces, so that what a model sampled is never encoded again.

    template   <|user|>Hello<|end|><|assistant|> Hi there<|end|>\\n<|user|>And?<|end|><|assistant|>
    pieces     └────────── opening ────────────┘ └─ sampled ──┘└────────── continuation ────────┘
                                                  as it came     no matter what was sampled

What follows a reply's end token is found once, by writing a conversation with a stand-in for the
reply, and does not depend on the reply. This holds for templates that only ever append; one that
writes earlier messages differently once others follow is refused when the format is made.

The tokenizer is that of transformers, or anything with `apply_chat_template`, `__call__`,
`decode` and `eos_token_id` as it has them. Knows nothing of models or environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.llm.conversations import Message

_REPLY = "Qzx"
"""Stands for a reply; no template writes it by itself."""
_REASONED = f"<think>\nhm\n</think>\n\n{_REPLY}"
_SAID: Message = {"role": "user", "content": "Hello."}
_SYSTEM: Message = {"role": "system", "content": "Be kind."}
_CACHED = 8192
"""Pieces that are remembered: the members of a group read the same, and users repeat themselves."""


class ChatFormat:
    """The pieces of a tokenizer's chat template as tokens.

    A reply ends with `end_of_turn`, the tokenizer's `eos_token_id` if None. Raises
    InvalidConfiguration for a tokenizer without a template, a template that does not end a reply
    with that token or that changes what it wrote before, and a tokenizer that adds something to
    every text.
    """

    def __init__(self, tokenizer: Any, end_of_turn: int | None = None) -> None:
        self.tokenizer = tokenizer
        end = tokenizer.eos_token_id if end_of_turn is None else end_of_turn
        if end is None:
            raise InvalidConfiguration(
                "this tokenizer has no eos_token_id; pass end_of_turn, the id of the token that "
                "ends a reply"
            )
        self.end = int(end)
        self._end_text: str = tokenizer.decode([self.end])
        self._opening = lru_cache(_CACHED)(self._encoded_opening)
        self._continuation = lru_cache(_CACHED)(self._encoded_continuation)
        self._check_appends()
        self._closed = self._written([_SAID, _assistant(_REPLY)], False)
        self._reply_ends = self._end_of_reply()
        asked = self._written([_SAID], True)
        self._lead = self._closed[len(asked) : self._closed.rindex(_REPLY)]
        self._check_pieces()

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """All that stands before the first reply, up to where the model goes on."""
        return list(self._opening(_key(messages)))

    def continuation(self, messages: Sequence[Message]) -> list[int]:
        """What stands between a reply's end token and the next reply.

        That is what the template writes after the end token, the new messages, and the line that
        asks for a reply.
        """
        return list(self._continuation(_key(messages)))

    def reply(self, text: str) -> list[int]:
        """A text that somebody else wrote, as the tokens of a reply, the end token included."""
        return [*self._tokens(self._lead + text), self.end]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a reply, without the end token and what the template writes before it."""
        kept = ids[:-1] if len(ids) and ids[-1] == self.end else ids
        text: str = self.tokenizer.decode(kept, skip_special_tokens=True)
        return text.removeprefix(self._lead)

    # -- pieces --------------------------------------------------------------------------------

    def _encoded_opening(self, key: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
        return tuple(self._tokens(self._written(_messages(key), True)))

    def _encoded_continuation(self, key: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
        said = [_SAID, _assistant(_REPLY), *_messages(key)]
        return tuple(self._tokens(self._written(said, True)[self._reply_ends :]))

    def _written(self, messages: Sequence[Message], asks: bool) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=asks
            )
        except Exception as error:  # a template may raise whatever it likes, jinja's error mostly
            roles = ", ".join(message["role"] for message in messages)
            raise InvalidConfiguration(
                f"the chat template cannot write messages of the roles {roles}: {error}. Set "
                "tokenizer.chat_template to one that can"
            ) from error
        return text

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    # -- what a template must be ---------------------------------------------------------------

    def _check_appends(self) -> None:
        """Refuse a template that writes a message differently once others follow."""
        try:
            self._written([_SYSTEM, _SAID], True)
            heads: list[list[Message]] = [[_SAID], [_SYSTEM, _SAID]]
        except InvalidConfiguration:  # Gemma's, for one, knows no system message
            heads = [[_SAID]]
        for head in heads:
            for reply in (_REPLY, _REASONED):
                said = [*head, _assistant(reply), _SAID, _assistant(_REPLY), _SAID]
                self._check_growth(said, len(head))

    def _check_growth(self, said: list[Message], first: int) -> None:
        before = ""
        for upto in range(first, len(said) + 1):
            asks = said[upto - 1]["role"] == "user"
            text = self._written(said[:upto], asks)
            if not text.startswith(before):
                raise InvalidConfiguration(
                    f"the chat template writes what came before message {upto} differently once "
                    "that message is there, so that what the model read and what it sampled could "
                    "not be kept; set tokenizer.chat_template to one that only appends"
                )
            before = text

    def _end_of_reply(self) -> int:
        """Where in the stand-in conversation the reply's end token ends."""
        after = self._closed.rindex(_REPLY) + len(_REPLY) if _REPLY in self._closed else -1
        found = self._closed.find(self._end_text, after) if after >= 0 else -1
        if found < 0:
            closing = self._closed[after:] if after >= 0 else self._closed
            raise InvalidConfiguration(
                f"the chat template writes {closing!r} after a reply, and {self._end_text!r}, "
                f"token {self.end}, is not in it; pass end_of_turn, the id of the token that ends "
                "a reply"
            )
        return found + len(self._end_text)

    def _check_pieces(self) -> None:
        """Refuse what writes a turn otherwise alone than among others: a tokenizer that adds a
        prefix to every piece, and a template that counts messages.
        """
        turn = [_assistant(_REPLY), _SAID]
        again = [*self.reply(_REPLY), *self.continuation([_SAID])]
        for turns, what, instead in (
            (1, "tokenizer adds something to every text it is given", "without the added prefix"),
            (3, "chat template writes later turns otherwise", "that counts no messages"),
        ):
            whole = self._written([_SAID, *turn * turns], True)
            joined = [*self.opening([_SAID]), *again * turns]
            if self.tokenizer.decode(joined) != self.tokenizer.decode(self._tokens(whole)):
                raise InvalidConfiguration(
                    f"this {what}, so that a conversation cannot be put together from pieces; "
                    f"take its version {instead}"
                )


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _key(messages: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    return tuple((message["role"], message["content"]) for message in messages)


def _messages(key: tuple[tuple[str, str], ...]) -> list[Message]:
    return [{"role": role, "content": content} for role, content in key]
