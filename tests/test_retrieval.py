"""Whole turns by what they do: the index, its parts, and how values become slots."""


import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from convgym.language.retrieval import (
    OPENING,
    WITHIN,
    Turn,
    TurnIndex,
    delexicalise,
    read_index,
)
from convgym.language.style import Style

quick = settings(max_examples=80, deadline=None, derandomize=True)
def slots_of(text):
    return sorted(re.findall(r"\{(\w*)\}", text))


# -- the index -------------------------------------------------------------------------------------

NAMES = "abcde"
SIGNATURES = st.frozensets(st.sampled_from(NAMES), min_size=1)


@quick
@given(st.lists(SIGNATURES, max_size=8), SIGNATURES)
def test_the_largest_part_that_there_is_is_taken(signatures, wanted):
    index = TurnIndex((signature, Turn("x", -1)) for signature in signatures)
    part = index.part(wanted)
    parts = [signature for signature in signatures if signature <= wanted]
    assert len(part) == max(map(len, parts), default=0)
    assert not part or (part in parts and part in index)
    assert index.part(wanted) == part
    assert set(index.signatures()) == set(signatures)


def test_a_turn_is_taken_by_register_and_position_where_there_are_any():
    turns = [
        Turn("casual", 0),
        Turn("formal opening", 2, OPENING),
        Turn("formal within", 2, WITHIN),
        Turn("any", -1, WITHIN),
    ]
    index = TurnIndex((("a", "b"), turn) for turn in turns)
    ab = frozenset("ab")

    def texts(register, position):
        return {turn.text for turn in index.turns(ab, register, position)}

    assert texts(0, WITHIN) == {"casual", "any"}
    assert texts(0, OPENING) == {"casual"}
    assert texts(1, OPENING) == {"any"}, "a turn of another place is better than none"
    assert texts(2, OPENING) == {"formal opening"}
    assert texts(2, WITHIN) == {"formal within", "any"}
    assert len(index) == 4 and not index.turns(frozenset("c"), 0, 0)
    assert index.styled(ab, Style(100), 2**31, 0, 0) == "formal opening"
    assert index.styled(ab, Style(100, 100, 0, 0), 2**31, 0, 5) == "formal within"
    lone = TurnIndex([(("a",), Turn("formal", 2))])
    assert lone.styled(frozenset("a"), Style(0), 0, 0, 0) == "formal"


def test_an_extended_index_has_the_new_turns_instead():
    index = TurnIndex([("a", Turn("one", -1)), ("b", Turn("two", -1))])
    more = index.extended([("a", Turn("three", -1)), ("ab", Turn("four", -1))])
    texts = {
        "+".join(sorted(s)): [turn.text for turn in more.turns(s, 1, WITHIN)]
        for s in more.signatures()
    }
    assert texts == {"a": ["three"], "b": ["two"], "a+b": ["four"]}
    assert index.turns(frozenset("a"), 1, WITHIN)[0].text == "one"
    assert more.part(frozenset("ab")) == frozenset("ab")


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=20)


@quick
@given(st.lists(WORDS, min_size=4, max_size=4), st.permutations(["order", "email", "item"]))
def test_delexicalising_can_be_undone(words, order):
    values = {"order": "W48213", "email": "o@example.com", "item": "wool sweater"}
    text = "".join(w + " " + values[s] + " " for w, s in zip(words, order, strict=False))
    text += words[-1]
    abstract = delexicalise(text, values)
    assert set(slots_of(abstract)) == set(values)
    for slot, value in values.items():
        assert value.lower() not in abstract.lower()
        abstract = abstract.replace("{" + slot + "}", value)
    assert abstract.lower() == text.lower()


def test_delexicalising_leaves_nothing_behind():
    assert delexicalise("w48213, yes W48213", {"order": "W48213"}) == "{order}, yes {order}"
    found = delexicalise("coat, rain coat", {"item": "rain coat", "category": "coat"})
    assert found == "{category}, {item}"
    assert delexicalise("mail me at a@b.c", {"email": "a@b.c", "way": "mail"}) == (
        "{way} me at {email}"
    )
    assert delexicalise("c. is not abc", {"x": "c."}) == "{x} is not abc"


@pytest.mark.parametrize(
    ("text", "values", "named"),
    [
        ("hi", {"order": "W1"}, "W1"),
        ("hi", {"order": ""}, "order"),
        ("hi {there}", {}, "braces"),
        ("W1", {"order": "W1", "other": "W1"}, "other"),
    ],
)
def test_what_cannot_be_delexicalised_is_refused(text, values, named):
    with pytest.raises(InvalidConfiguration, match=named):
        delexicalise(text, values)


def test_an_index_is_read_from_lines(tmp_path):
    path = tmp_path / "turns.jsonl"
    rows = [
        {"acts": ["greet"], "text": "hi\u2028there"},
        {"acts": ["bye", "thank"], "text": "ta, bye", "register": "casual", "position": "within"},
        {"acts": ["greet"], "text": "Good day.", "register": "formal", "position": "opening"},
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    index = read_index(path)
    assert set(index.signatures()) == {frozenset({"greet"}), frozenset({"bye", "thank"})}
    assert index.turns(frozenset({"greet"}), 2, OPENING) == (
        Turn("Good day.", 2, OPENING),
        Turn("hi\u2028there", -1),
    )
    assert index.turns(frozenset({"bye", "thank"}), 0, WITHIN) == (Turn("ta, bye", 0, WITHIN),)


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "[1]",
        "3",
        "null",
        '{"acts": ["greet"]}',
        '{"text": "hi"}',
        '{"acts": [], "text": "hi"}',
        '{"acts": "greet", "text": "hi"}',
        '{"acts": [1], "text": "hi"}',
        '{"acts": ["greet"], "text": 3}',
        '{"acts": ["greet"], "text": ""}',
        '{"acts": ["greet"], "text": "hi", "register": "posh"}',
        '{"acts": ["greet"], "text": "hi", "position": "last"}',
    ],
)
def test_a_bad_line_of_an_index_is_named(tmp_path, line):
    path = tmp_path / "turns.jsonl"
    path.write_text(f'{{"acts": ["greet"], "text": "hi"}}\n\n{line}\n', encoding="utf-8")
    with pytest.raises(InvalidConfiguration, match=r"line 3 of .*turns\.jsonl"):
        read_index(path)


def test_an_index_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidConfiguration, match=r"nothing\.jsonl"):
        read_index(tmp_path / "nothing.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"acts": ["greet"], "text": "\xe9"}')
    with pytest.raises(InvalidConfiguration, match=r"latin\.jsonl"):
        read_index(tmp_path / "latin.jsonl")
