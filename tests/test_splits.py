"""Splits: nothing leaks, shares are kept as nearly as groups allow, and order decides nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import corpus, talk

from convgym.conversation import Conversation, Message
from convgym.data.conversations import ConversationDataset
from convgym.data.logs import read_log
from convgym.data.splits import first_user_turn, leakage_groups, prefix_digests, split_indices
from convgym.errors import InvalidConfiguration

Texts = tuple[tuple[str, str, str], ...]


def said(conversation: Conversation) -> Texts:
    return tuple((m.role, m.content, repr(m.tool_call)) for m in conversation.messages)


def linked(one: Conversation, other: Conversation, key: str | None) -> bool:
    """The rule, as the module states it."""
    a, b = sorted((said(one), said(other)), key=len)
    value = one.metadata.get(key) if key else None
    return b[: len(a)] == a or (value is not None and other.metadata.get(key) == value)


def slow_groups(conversations: list[Conversation], key: str | None) -> set[frozenset[int]]:
    """Groups that are joined as long as two of them are linked."""
    groups = [{index} for index in range(len(conversations))]
    while True:
        for one, other in combinations(groups, 2):
            if any(linked(conversations[a], conversations[b], key) for a in one for b in other):
                groups = [group for group in groups if group not in (one, other)] + [one | other]
                break
        else:
            return {frozenset(group) for group in groups}


# Few texts, so that duplicates and prefixes are frequent.
logs = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["a", "b", "a:c"]), min_size=1, max_size=4),
        st.sampled_from([None, None, "x", "y", "z"]),
    ),
    min_size=1,
    max_size=9,
).map(
    lambda drawn: [
        talk(f"c{number}", *texts, metadata={} if owner is None else {"owner": owner})
        for number, (texts, owner) in enumerate(drawn)
    ]
)


@given(logs, st.sampled_from([None, "owner"]))
def test_groups_are_those_of_the_plain_rule(conversations, key):
    groups = leakage_groups(conversations, key)
    assert {frozenset(group) for group in groups} == slow_groups(conversations, key)


@settings(deadline=None)
@given(logs, st.sampled_from([None, "owner"]), st.integers(0, 99), st.randoms())
def test_parts_are_whole_disjoint_without_leaks_and_know_no_order(conversations, key, seed, chance):
    fractions = (0.6, 0.3, 0.1)
    parts = split_indices(conversations, fractions, seed, key)
    assert sorted(index for part in parts for index in part) == list(range(len(conversations)))
    assert all(part == sorted(part) for part in parts)
    for one, other in combinations(parts, 2):
        assert not any(linked(conversations[a], conversations[b], key) for a in one for b in other)
    largest = max(map(len, leakage_groups(conversations, key)))
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - fraction * len(conversations)) < 2 * largest
    shuffled = chance.sample(conversations, len(conversations))
    again = split_indices(shuffled, fractions, seed, key)
    assert [{shuffled[index].conversation_id for index in part} for part in again] == [
        {conversations[index].conversation_id for index in part} for part in parts
    ]


@given(st.integers(1, 300), st.integers(0, 5))
def test_without_groups_each_part_misses_its_share_by_less_than_one(count, seed):
    conversations = [talk(f"c{n}", f"text {n}") for n in range(count)]
    fractions = (0.7, 0.2, 0.1)
    parts = split_indices(conversations, fractions, seed)
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - fraction * count) < 1


def test_another_seed_gives_another_split_and_the_same_seed_the_same():
    conversations = [talk(f"c{n}", f"text {n}") for n in range(200)]
    splits = [split_indices(conversations, (0.5, 0.5), seed) for seed in (0, 0, 1)]
    assert splits[0] == splits[1] != splits[2]
    shared = len(set(splits[0][0]) & set(splits[2][0]))
    assert 30 < shared < 70  # 50 where the two are independent, standard deviation 3.5


def test_large_groups_do_not_all_go_to_the_largest_part():
    conversations = [talk(f"c{n}", f"text {n // 5}") for n in range(200)]
    sizes = Counter(len(split_indices(conversations, (0.8, 0.2), seed)[1]) for seed in range(20))
    assert sizes == {40: 20}
    firsts = [conversations[0] in ConversationDataset(conversations).split((0.8, 0.2), seed)[1]
              for seed in range(20)]  # fmt: skip
    assert 0 < sum(firsts) < 12  # expected 4


def test_a_tool_call_is_part_of_what_was_said():
    one = Conversation("1", (Message("assistant", "", tool_call={"find": {"n": 1}}),))
    other = Conversation("2", (Message("assistant", "", tool_call={"find": {"n": 2}}),))
    rewarded = replace(one, conversation_id="3", reward=1.0)
    assert leakage_groups([one, other, rewarded]) == [[0, 2], [1]]
    assert len(set(prefix_digests(talk("4", "a", "a", "a")))) == 3


def test_groups_by_a_function_and_by_lists():
    conversations = [
        talk("1", "hi", "a", metadata={"tags": ["x"]}),
        talk("2", "hi", "b", metadata={"tags": ["x"]}),
        talk("3", "ho", "c", metadata={"tags": ["x", "y"]}),
        talk("4", "a:hi"),
        talk("5", "a:ho"),
    ]
    assert leakage_groups(conversations, first_user_turn) == [[0, 1], [2], [3], [4]]
    assert leakage_groups(conversations, "tags") == [[0, 1], [2], [3], [4]]
    assert leakage_groups(conversations, "none") == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("fractions", [(), (0.5, 0.6), (1.0, 0.0), (1.5, -0.5), (float("nan"),)])
def test_fractions_that_are_none_are_refused(fractions):
    with pytest.raises(InvalidConfiguration, match="must be above 0 and sum to 1"):
        split_indices([], fractions, seed=0)


def test_nothing_splits_into_nothing():
    assert split_indices([], (0.5, 0.5), seed=0) == [[], []]


def test_real_steps_of_one_conversation_stay_together():
    dataset = ConversationDataset(read_log(corpus("taskmaster_steps")))
    parts = dataset.split((0.8, 0.1, 0.1), seed=3)
    assert sum(map(len, parts)) == len(dataset) == 4935
    assert [len(part) for part in parts] == pytest.approx([3948, 493.5, 493.5], abs=1)
    beginnings = [
        {said(c)[:length] for c in part for length in range(1, len(c) + 1)} for part in parts
    ]
    for one, other in combinations(range(3), 2):
        assert not {said(c) for c in parts[one]} & beginnings[other]
        assert not {said(c) for c in parts[other]} & beginnings[one]


def test_real_conversations_with_one_opening_stay_together_if_asked():
    dataset = ConversationDataset(read_log(corpus("taskmaster_steps")))
    parts = dataset.split((0.8, 0.2), seed=0, group_by="first_user")
    one, other = ({c.metadata["first_user"] for c in part} for part in parts)
    assert not one & other


def test_large_groups_go_to_any_part():
    """A group's draw is that of one member, not the smallest of all."""
    log = [talk(f"{g}-{i}", f"group {g}", *["more"] * i) for g in range(60) for i in range(10)]
    parts = split_indices(log, (0.5, 0.5), 0)
    assert abs(len(parts[0]) - len(parts[1])) <= 20
    mixed = [talk(f"g{i}", "hello", *["more"] * i) for i in range(30)]
    first = [0 in split_indices(mixed + log, (0.6, 0.4), seed)[0] for seed in range(40)]
    assert 10 <= sum(first) <= 38


def test_short_conversations_go_by_themselves_if_asked():
    log = [talk(f"c{i}", "hello") for i in range(40)] + [talk("long", "hello", "a:Yes?", "my lamp")]
    assert max(map(len, leakage_groups(log))) == 41
    assert max(map(len, leakage_groups(log, least_turns=2))) == 1
