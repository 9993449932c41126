"""The toy dialogue in tokens: customer and agent say words of a vocabulary of 23.

    <start>  name? order? problem? calm   ask name <end>   name! order? problem? calm   close <end>
             └── customer: the state ───┘ └── agent: act ─┘ └── customer ──────────────┘ └─ agent ─┘
    turns    -1 …                          0   0    0       -1 …                          1     1

The customer's four tokens tell facts and patience, so that the exact values of `toy_dialogue` hold
here too. The agent says a verb, an object where the verb takes one, and <end>; whatever else it
says is not understood, which costs patience as a blunder does. Of a conversation that was cut off,
the customer's last tokens stand at the end: what followed there has a value. Knows nothing of
learners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import returns_to_go
from trainers.llm.tokens import TokenRow
from trainers.toy_dialogue import (
    ACTS,
    BLUNDERS,
    CLOSE,
    FACTS,
    HORIZON,
    START,
    STATES,
    Floats,
    ToyModel,
    always,
    script,
    uniform,
)

Tokens = NDArray[np.int64]
Agent = Callable[[Sequence[Tokens]], Sequence[Tokens]]
"""From all that was said in each of n conversations to n replies."""

_FACT_WORDS = ("name", "order", "problem")
_PATIENCE_WORDS = ("angry", "curt", "patient", "calm")
_UTTERANCES = (
    *(f"ask {fact}" for fact in _FACT_WORDS),
    "ask anything", "chat", "recap", "close",
    *(f"{verb} {fact}" for verb, fact in product(("blame", "rush", "doubt"), _FACT_WORDS)),
)  # fmt: skip
_AGENT_WORDS = tuple(dict.fromkeys(" ".join(_UTTERANCES).split()))
_FACTS_TOLD = tuple(fact + mark for fact, mark in product(_FACT_WORDS, "?!"))
WORDS = ("<start>", "<end>", *_FACTS_TOLD, *_PATIENCE_WORDS, *_AGENT_WORDS)
"""Each token's word; a token is a place in it."""
END = WORDS.index("<end>")
LONGEST = 3
"""Tokens of the longest act, <end> included."""


def tokens_of(text: str) -> Tokens:
    """Of words with blanks between them."""
    return np.array([WORDS.index(word) for word in text.split()], dtype=np.int64)


def text_of(tokens: Tokens) -> str:
    """The words."""
    return " ".join(WORDS[token] for token in tokens)


ACT_TOKENS = tuple(tokens_of(f"{said} <end>") for said in _UTTERANCES)
"""What the agent says for each of the 16 acts."""
STATE_TOKENS = np.array(
    [
        [WORDS.index(f"{fact}{'?!'[state >> i & 1]}") for i, fact in enumerate(_FACT_WORDS)]
        + [WORDS.index(_PATIENCE_WORDS[state // 2**FACTS])]
        for state in range(STATES)
    ]
)  # (states, 4)
"""What the customer says in each state."""

_ACTS = {tuple(tokens): act for act, tokens in enumerate(ACT_TOKENS)}
_STATES = {tuple(tokens): state for state, tokens in enumerate(STATE_TOKENS)}
assert len(ACT_TOKENS) == ACTS


def act_of(reply: Tokens) -> int:
    """The act that was said; what is no act counts as a blunder."""
    return _ACTS.get(tuple(reply), BLUNDERS)


def state_of(said: Tokens) -> int:
    """The state that the customer's last four tokens tell."""
    return _STATES[tuple(said[-STATE_TOKENS.shape[1] :])]


def scripted(policy: Floats, seed: int = 0) -> Agent:
    """An agent that acts by a table of probabilities.  (states, acts)"""
    chance = np.random.default_rng([seed, 11])
    upto = policy.cumsum(axis=1)

    def reply(said: Sequence[Tokens]) -> list[Tokens]:
        rows = upto[[state_of(tokens) for tokens in said]]
        acts = (chance.random((len(rows), 1)) * rows[:, -1:] >= rows).sum(axis=1)
        return [ACT_TOKENS[act] for act in acts]

    return reply


def converse(agent: Agent, conversations: int, model: ToyModel, *, seed: int = 0) -> list[TokenRow]:
    """Conversations of an agent, all at once; returns are not discounted."""
    chance = np.random.default_rng([seed, 13])
    opening = np.concatenate([tokens_of("<start>"), STATE_TOKENS[START]])
    said = [opening] * conversations
    turns = [np.full(len(opening), -1)] * conversations
    rewards: list[list[float]] = [[] for _ in said]
    states = np.full(conversations, START)
    live = np.arange(conversations)
    for turn in range(HORIZON):
        replies = agent([said[talk] for talk in live])
        acts = np.array([act_of(reply) for reply in replies])
        here = states[live]
        drawn = chance.random((len(live), 1)) >= model.moves[here, acts].cumsum(axis=1)
        ended = drawn[:, -1]
        earned = ended * model.end_rewards[here, acts] - model.turn_cost
        states[live] = np.where(ended, here, drawn.sum(axis=1))
        for talk, reply, reward, last in zip(live, replies, earned, ended, strict=True):
            answer = STATE_TOKENS[states[talk]][: 0 if last else None]
            said[talk] = np.concatenate([said[talk], reply, answer])
            owners = np.repeat([turn, -1], [len(reply), len(answer)])
            turns[talk] = np.concatenate([turns[talk], owners])
            rewards[talk].append(float(reward))
        live = live[~ended]
        if not len(live):
            break
    cut_off = set(live.tolist())
    return [
        TokenRow(
            said[talk], turns[talk], np.array(earned), returns_to_go(np.array(earned), 1.0),
            terminated=talk not in cut_off,
        )
        for talk, earned in enumerate(rewards)
    ]  # fmt: skip


def hasty_and_slow() -> list[Floats]:
    """Two ways to talk, each good in one half of a conversation; none is good in both.

    The hasty agent asks well and closes as soon as two facts are known, one too early. The slow
    one does anything but close until two facts are known, and from there all that is right.
    """
    nearly = np.array([(state % 2**FACTS).bit_count() >= FACTS - 1 for state in range(STATES)])
    whole = np.array([state % 2**FACTS == 2**FACTS - 1 for state in range(STATES)])
    hasty = np.where((nearly & ~whole)[:, None], always(CLOSE), script())
    slow = np.where(nearly[:, None], script(), uniform(CLOSE))
    return [hasty, slow]


def record_tokens(
    behavior: Sequence[Floats], conversations: int, model: ToyModel,
    *, shares: Sequence[float] | None = None, seed: int = 0,
) -> list[TokenRow]:  # fmt: skip
    """Conversations of agents that act by tables, one agent each, drawn by `shares`."""
    odds = shares or [1.0 / len(behavior)] * len(behavior)
    sizes = np.random.default_rng([seed, 17]).multinomial(conversations, odds)
    rows = []
    for number, (policy, size) in enumerate(zip(behavior, sizes.tolist(), strict=True)):
        own = len(behavior) * seed + number
        rows += converse(scripted(policy, own), size, model, seed=own) if size else []
    return rows


def best_return(model: ToyModel) -> float:
    """The most that any agent earns on average in `HORIZON` turns, by dynamic programming."""
    value = np.zeros(STATES)
    for _ in range(HORIZON):
        value = model.action_values(value, 1.0).max(axis=1)
    return float(value[START])


def mean_return(rows: Sequence[TokenRow]) -> tuple[float, float]:
    """Mean undiscounted return of conversations, and its standard error."""
    earned = np.array([row.rewards.sum() for row in rows])
    return float(earned.mean()), float(earned.std(ddof=1) / np.sqrt(len(earned)))
