"""The toy dialogue in tokens: the same conversations as the table, said in words."""

import numpy as np
import pytest

from trainers.toy_dialogue import (
    ACTS,
    BLUNDERS,
    HORIZON,
    MAJORITY_BAD,
    RECAP,
    START,
    STATES,
    always,
    majority_bad,
    script,
    toy_model,
    uniform,
)  # fmt: skip
from trainers.toy_tokens import (
    ACT_TOKENS,
    END,
    LONGEST,
    STATE_TOKENS,
    WORDS,
    act_of,
    best_return,
    converse,
    hasty_and_slow,
    mean_return,
    record_tokens,
    scripted,
    state_of,
    text_of,
    tokens_of,
)  # fmt: skip

MODEL = toy_model(0.02)


def same(first, second):
    return all(
        np.array_equal(one.input_ids, other.input_ids) and one.terminated == other.terminated
        for one, other in zip(first, second, strict=True)
    )


def test_every_act_and_every_state_is_read_as_it_was_said():
    assert [act_of(tokens) for tokens in ACT_TOKENS] == list(range(ACTS))
    assert [state_of(tokens) for tokens in STATE_TOKENS] == list(range(STATES))
    assert len(set(WORDS)) == len(WORDS) == 23
    assert max(len(tokens) for tokens in ACT_TOKENS) == LONGEST
    assert all((tokens == END).sum() == 1 and tokens[-1] == END for tokens in ACT_TOKENS)


def test_words_and_tokens_are_each_others_inverse():
    text = "ask name <end> name! order? problem? curt"
    assert text_of(tokens_of(text)) == text


@pytest.mark.parametrize("said", ["name <end>", "ask close <end>", "ask name", "<end>"])
def test_what_is_no_act_is_a_blunder(said):
    assert act_of(tokens_of(said)) == BLUNDERS
    rows = converse(lambda shown: [tokens_of(said) for _ in shown], 3, MODEL)
    assert all(row.terminated for row in rows)
    assert [row.rewards.tolist() for row in rows] == [[-0.02] * 3 + [pytest.approx(-0.42)]] * 3


@pytest.mark.parametrize("policy", [script(), uniform(), *hasty_and_slow()])
def test_returns_are_those_of_the_table(policy):
    mean, error = mean_return(converse(scripted(policy), 4000, MODEL, seed=1))
    assert mean == pytest.approx(MODEL.values(policy)[START], abs=4 * error + 1e-9)


def test_a_row_tells_who_said_what():
    (row,) = converse(scripted(script()), 1, MODEL, seed=3)
    assert text_of(row.input_ids[:8]) == "<start> name? order? problem? calm ask name <end>"
    assert row.turns[:9].tolist() == [-1] * 5 + [0] * 3 + [-1]
    assert text_of(row.input_ids[row.turns == len(row.rewards) - 1]) == "close <end>"
    assert row.rewards[-1] == pytest.approx(0.98) and row.returns[0] == row.rewards.sum()


def test_a_conversation_that_was_cut_off_ends_with_the_customer():
    (row,) = converse(scripted(always(RECAP)), 1, MODEL)
    assert not row.terminated and len(row.rewards) == HORIZON
    assert row.turns[-4:].tolist() == [-1] * 4 and state_of(row.input_ids) == START


def test_nobody_beats_the_best_return():
    best = best_return(MODEL)
    assert best == pytest.approx(MODEL.values(script())[START], abs=1e-9)
    assert best == pytest.approx(MODEL.optimal()[0][START], abs=1e-3)
    assert all(MODEL.values(policy)[START] < best for policy in [*hasty_and_slow(), uniform()])


def test_neither_agent_of_the_data_is_good_throughout():
    hasty, slow = hasty_and_slow()
    opening, ending = START, START + 0b011
    right = script()
    assert (hasty[opening] == right[opening]).all() and (hasty[ending] != right[ending]).any()
    assert (slow[opening] != right[opening]).any() and (slow[ending] == right[ending]).all()


def test_the_same_seed_records_the_same_conversations():
    first, second = (
        record_tokens(majority_bad(), 50, MODEL, shares=MAJORITY_BAD, seed=4) for _ in range(2)
    )
    other = record_tokens(majority_bad(), 50, MODEL, shares=MAJORITY_BAD, seed=5)
    assert len(first) == 50 and same(first, second) and not same(first, other)
