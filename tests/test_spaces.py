"""The alphabet, `sanitize` and the space of utterances."""

import copy
import pickle
import unicodedata

import pytest
from gymnasium.spaces import Dict, Text
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from convgym import spaces
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.spaces import CHARSET, UtteranceSpace, sanitize

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
MESSY_TEXT = st.lists(
    st.one_of(
        ANY_TEXT,
        st.text(CHARSET),
        st.text("e\u0301\u0323\u0334\u0f73\uff9e", min_size=5, max_size=40),
        st.sampled_from(["\r\n", "\r", "\ufdfa", "ﬁ", "½", "…", "\u00b4", "각", "Ａ"]),
    ),
    max_size=6,
).map("".join)

HOSTILE = {
    "empty": "",
    "one megabyte": "a" * 2**20,
    "one megabyte of NUL": "\0" * 2**20,
    "lone surrogates": "\ud800\udfff" * 1000,
    "64,000 combining marks": "e" + "\u0301\u0323" * 32_000,
    "64,000 marks in disguise": "\uff9e\u0334" * 32_000,
    "64,000 Tibetan vowel signs": "\u0f73" * 64_000,
    "ligatures that grow eighteenfold": "\ufdfa" * 1000,
    "emoji": "👨‍👩‍👧👍🏽" * 1000,
}


def slow_sanitize(text: str, max_length: int) -> str:
    """The same five steps, one character at a time."""
    kept, run = [], 0
    for char in text[:max_length]:
        run = run + 1 if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) else 0
        if run <= 8:
            kept.append(char)
    normal = unicodedata.normalize("NFKC", "".join(kept))
    known = "".join(char for char in normal if ord(char) in spaces._PLAIN_FORMS)
    plain = (spaces._PLAIN_FORMS[ord(char)] or "" for char in known.replace("\r\n", "\n"))
    return "".join(plain)[:max_length]


@given(MESSY_TEXT, st.integers(0, 60))
def test_sanitized_text_is_in_the_charset_and_short_enough(text, max_length):
    result = sanitize(text, max_length)
    assert len(result) <= max_length
    assert set(result) <= set(CHARSET)


@given(MESSY_TEXT, st.integers(0, 60))
def test_sanitizing_twice_changes_nothing_more(text, max_length):
    once = sanitize(text, max_length)
    assert sanitize(once, max_length) == once


@given(MESSY_TEXT, st.integers(0, 60))
def test_sanitize_equals_its_slow_twin(text, max_length):
    assert sanitize(text, max_length) == slow_sanitize(text, max_length)


@given(st.text(CHARSET.replace("…", "")))
def test_text_of_the_charset_stays_as_it_is(text):
    assert sanitize(text, len(text)) == text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("max_length", [0, 1024, 2**20])
def test_hostile_text_never_raises(text, max_length):
    result = sanitize(text, max_length)
    assert result in UtteranceSpace(max_length, [""])


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Hello,\tthere\n", "Hello,\tthere\n"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("“It’s 5 €” – café…", "“It’s 5 €” – café..."),
        ("cafe\u0301", "café"),
        ("Wałęsa, Đoković, Nguyễn", "Walesa, Dokovic, Nguyen"),
        ("no\u00a0break\u3000space\u200b", "no break space"),
        ("ｆｕｌｌ ﬁt ½ ™ −3 5µg", "full fit 1/2 TM -3 5ug"),
        ("bell\x07 漢字 😀", "bell  "),
    ],
)
def test_sanitize_by_example(text, plain):
    assert sanitize(text, 100) == plain


def test_the_text_is_clipped_before_and_after():
    assert sanitize("abc…", 3) == "abc"
    assert sanitize("…abc", 4) == "...a"


def test_eight_marks_in_a_row_survive_until_nfkc_and_the_ninth_does_not():
    run = spaces._LONG_RUN.sub(spaces._thin_out, "e" + "\u0334" * 20 + "o" + "\u0334" * 8)
    assert run == "e" + "\u0334" * 8 + "o" + "\u0334" * 8


def test_every_character_that_nfkc_turns_into_a_mark_counts_as_one():
    disguised = {
        char
        for char in map(chr, range(0x110000))
        if not unicodedata.combining(char)
        and unicodedata.combining(unicodedata.normalize("NFKD", char)[0])
    }
    assert disguised <= spaces._MARKS_IN_DISGUISE


@pytest.mark.parametrize("value", [None, 3, b"hello", ["hello"]])
def test_only_str_is_text(value):
    with pytest.raises(InvalidAction, match=f"but {type(value).__name__} came"):
        sanitize(value, 10)


def test_negative_length_is_refused():
    with pytest.raises(InvalidConfiguration, match="0 or more"):
        sanitize("hello", -1)


def test_the_charset_of_version_1():
    """A changed charset moves scores: raise `CHARSET_VERSION` and the environments' versions."""
    assert spaces.CHARSET_VERSION == 1
    assert len(CHARSET) == len(set(CHARSET)) == 202
    assert list(CHARSET) == sorted(CHARSET)
    assert set(map(chr, range(32, 127))) | set("\n\t‘’“”–—…€éß") <= set(CHARSET)
    plain = {form for form in spaces._PLAIN_FORMS.values() if form is not None}
    assert plain == set(CHARSET)


UTTERANCES = ("", "Hello, how can I help?", "That’s “fine” – 5 €.")


@pytest.fixture
def space():
    return UtteranceSpace(100, UTTERANCES, seed=7)


def test_utterance_space_equals_the_plain_text_space_both_ways(space):
    plain = Text(100, min_length=0, charset=CHARSET)
    assert space == plain and plain == space
    assert repr(space) == repr(plain)
    assert space != Text(99, min_length=0, charset=CHARSET)
    assert Dict(message=space) == Dict(message=plain)


def test_samples_are_utterances_and_follow_the_seed(space):
    samples = [space.sample() for _ in range(50)]
    assert set(samples) == set(UTTERANCES)
    again = UtteranceSpace(100, UTTERANCES, seed=7)
    assert [again.sample() for _ in range(50)] == samples
    space.seed(7)
    assert [space.sample() for _ in range(50)] == samples


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_goes_on_where_the_original_was(space, twin):
    space.sample()
    other = twin(space)
    assert type(other) is UtteranceSpace and other == space
    assert [other.sample() for _ in range(20)] == [space.sample() for _ in range(20)]


def test_batched_space_samples_one_utterance_per_environment(space):
    batched = batch_space(space, 3)
    sample = batched.sample()
    assert len(sample) == 3 and set(sample) <= set(UTTERANCES)
    assert sample in batched


def test_a_space_of_spaces_samples_utterances(space):
    assert Dict(message=space).sample()["message"] in UTTERANCES


@pytest.mark.parametrize("argument", ["mask", "probability"])
def test_masks_over_characters_are_refused(space, argument):
    with pytest.raises(InvalidConfiguration, match="whole utterances"):
        space.sample(**{argument: (3, None)})


def test_utterances_must_be_in_the_space():
    with pytest.raises(InvalidConfiguration, match="sanitize"):
        UtteranceSpace(3, ["hello"])
    with pytest.raises(InvalidConfiguration, match="at least one"):
        UtteranceSpace(3, [])
