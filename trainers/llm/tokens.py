"""Chats as tokens: which of them the agent said, and what each of its turns earned.

    template   <|user|>Hello<|end|><|assistant|>  Hi there<|end|>  \\n<|user|>…<|assistant|>  …
    pieces     └──────────── prompt ───────────┘  └──── reply ───┘ └─── prompt ───────────┘
    turns       -1  -1   -1    -1     -1           0   0     0      -1   …                    1 …

The template is rendered up to every reply, with and without it; what a rendering adds to the one
before is a piece of its own, and pieces are tokenised each for itself, as they are when a model
is prompted and answers. So a token is wholly the agent's or wholly not, whatever the tokenizer
would merge across the border. For that the template must only ever append: some do not, such as
those that drop the reasoning of earlier replies, and are refused; `turn_rows` works with them too.

The tokenizer is that of transformers, or anything with `apply_chat_template`, `__call__`,
`decode` and `eos_token_id` as it has them. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import DatasetError
from trainers.llm.conversations import Chat, Message


@dataclass(frozen=True, eq=False)
class TokenRow:
    """L tokens, among them N agent turns to learn from."""

    input_ids: NDArray[np.int64]  # (L,)
    turns: NDArray[np.int64]  # (L,) which of the N turns a token belongs to; -1: none
    rewards: NDArray[np.float64]  # (N,)
    returns: NDArray[np.float64]  # (N,) return-to-go
    terminated: bool = True
    """False where more would have followed the last of the N turns: no end of a conversation."""

    @property
    def loss_mask(self) -> NDArray[np.int8]:
        """1 on the agent's tokens, the one that ends its turn included.  # (L,)"""
        return (self.turns >= 0).astype(np.int8)


def conversation_row(chat: Chat, tokenizer: Any, end_of_turn: int | None = None) -> TokenRow:
    """A whole conversation, up to its last reply, as one row of N = T agent turns.

    If it was cut off, what the customer said then stands at the end as the prompt of a next reply;
    where he said nothing, the row ends with the agent's last token.
    A reply's tokens go up to `end_of_turn`, the tokenizer's `eos_token_id` if None: what the
    template writes after it, a line break for one, the agent did not say. Without such a token
    all that the template writes with a reply is the agent's.

    Raises DatasetError for a conversation without a reply, where the template changes what it wrote
    before, or where the tokenizer adds something to a piece.
    """
    if not chat.replies:
        raise DatasetError("the conversation has no reply of the agent, so nothing to learn from")
    learnt, answered = list(range(len(chat.rewards))), chat.replies[-1] < len(chat.messages) - 1
    row = _row(chat, learnt, tokenizer, end_of_turn, answered and not chat.terminated)
    if chat.terminated or answered:
        return row
    upto = np.flatnonzero(row.turns >= 0)[-1] + 1
    return replace(row, input_ids=row.input_ids[:upto], turns=row.turns[:upto])


def turn_rows(chat: Chat, tokenizer: Any, end_of_turn: int | None = None) -> list[TokenRow]:
    """A row for every agent turn: its prompt and its completion, N = 1.

    Earlier replies are part of the prompt. Raises as `conversation_row` does, which a template
    that changes earlier replies does not make it do.
    """
    return [_row(chat, [turn], tokenizer, end_of_turn) for turn in range(len(chat.rewards))]


def _row(
    chat: Chat, learnt: list[int], tokenizer: Any, end_of_turn: int | None, goes_on: bool = False
) -> TokenRow:
    pieces = _pieces(chat, learnt, tokenizer, goes_on)
    tokens = [_tokens(tokenizer, piece) for piece in pieces]
    ids = [token for piece in tokens for token in piece]
    whole = _tokens(tokenizer, "".join(pieces))
    if ids != whole and tokenizer.decode(ids) != tokenizer.decode(whole):
        raise DatasetError(
            "this tokenizer adds something to every text it is given, so that a conversation "
            "cannot be put together from pieces; take its version without the added prefix"
        )
    end = tokenizer.eos_token_id if end_of_turn is None else end_of_turn
    turns = [turn for place, piece in enumerate(tokens) for turn in _owners(piece, place, end)]
    return TokenRow(
        np.array(ids, dtype=np.int64),
        np.array(turns),
        chat.rewards[learnt],
        chat.returns[learnt],
        chat.terminated and learnt[-1] == len(chat.rewards) - 1,
    )


def _pieces(chat: Chat, learnt: list[int], tokenizer: Any, goes_on: bool) -> list[str]:
    """Prompt, reply, prompt, reply, …: joined they are what the template writes.

    If the conversation `goes_on`, one more prompt.
    """

    def written(messages: Sequence[Message], asks: bool) -> str:
        text: str = tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=asks
        )
        return text

    places = [chat.replies[turn] for turn in learnt]
    cuts = [cut for place in places for cut in ((place, True), (place + 1, False))]
    if goes_on:
        cuts.append((len(chat.messages), True))
    pieces, before = [], ""
    for number, (upto, asks) in enumerate(cuts):
        text = written(chat.messages[:upto], asks)
        if not text.startswith(before):
            turn = learnt[min(number // 2, len(learnt) - 1)]
            raise DatasetError(
                f"the chat template writes what stands before agent turn {turn + 1} "
                "differently once that turn is there; take turn_rows, or another template"
            )
        pieces.append(text[len(before) :])
        before = text
    return pieces


def _tokens(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _owners(piece: list[int], place: int, end: int | None) -> list[int]:
    """The turn that each token of the piece at `place` belongs to; pieces of odd place are it."""
    if place % 2 == 0:
        return [-1] * len(piece)
    own = len(piece) - piece[::-1].index(end) if end in piece else len(piece)
    return [place // 2] * own + [-1] * (len(piece) - own)
