"""Replies that differ in products, features and figures only: read once, and read right."""

import re
from functools import cache

import gymnasium as gym
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sales_worded import rows

from convgym.domains.sales import understanding
from convgym.domains.sales.delexicalisation import delexicalised, sentences_of
from convgym.domains.sales.descriptions import feature_name
from convgym.domains.sales.plain_words import NAMED
from convgym.domains.sales.understanding import SalesReader
from convgym.domains.sales.world import EVERY_NAME
from convgym.evaluation.rollout import play
from convgym.language import speech
from convgym.language.tool_calls import parse_reply
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.sales import PlannerPolicy

READER = SalesReader(understanding._reader().cues)


def remembered(text):
    return READER._read(text, ())


def directly(text, monkeypatch):
    """As it is read where no sentence is remembered."""
    with monkeypatch.context() as patch:
        patch.setattr(speech, "LONGEST_CACHED", -1)
        return READER._read(text, ())


@cache
def spoken():
    """What planners say in a few sales, each reply once."""
    env = gym.make("ConvGym/Sales-v0", action="text", observation="dict")
    policy = RenderedPolicy(PlannerPolicy(), domain=env.unwrapped.domain.domain)
    replies = [text for seed in range(60) for text in play(env, policy, seed=seed).actions]
    return tuple(sorted({said for text in replies if (said := parse_reply(text).speech)}))


FIGURES = (
    "$300", "$2,050", "$20", "$1,186.55", "$99.90", "$949.00", "1249 dollars", "1249", "$10,000",
    "$2000", "$150 per month", "15%", "7.5 percent", "$14 March", "14 March 2,050 dollars",
    "quantity $300", "the product $300", "product:2", "S27054", "s12345", "AB1234", "$1.234,50",
    "$1,249 or $1,300", "€ 300", "$901", "901", "$9,101", "$9,501.11", "$9501.11 each", "0949",
    "qf07", "qf7", "qf99", "Qnaax Qmaax", "Qnzzx Qmzzx", "qnaax",
)  # fmt: skip
WORDS = (
    *FIGURES, *EVERY_NAME[::7], *map(feature_name, range(0, 48, 5)), "the Aster", "not", "if",
    "I", "you", "no", "or", "Is that okay?", "Shall I book it?", "Yes, it has that.", "but", "?",
)  # fmt: skip


# -- the same meaning ------------------------------------------------------------------------------


def test_all_known_replies_mean_what_they_mean_alone(monkeypatch):
    labelled = [
        row["text"]
        for name in ("replies_sales_tuning", "replies_sales_held_out", "tricks_sales")
        for row in rows(f"{name}.jsonl")
    ]
    assert len(labelled) > 500 and len(spoken()) > 300
    for text in (*spoken(), *labelled):
        assert remembered(text) == directly(text, monkeypatch), text


@st.composite
def garbled(draw):
    """Planner's replies with figures, names and small words put in anywhere."""
    words = " ".join(draw(st.lists(st.sampled_from(spoken()), min_size=1, max_size=3))).split()
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(words)))
        words[place : place + draw(st.integers(0, 1))] = [draw(st.sampled_from(WORDS))]
    return " ".join(words)


@given(garbled())
@example("The Aster Slim is $901, the Birch Pro is 901 each and $950 in total.")
@example("It has qf7 and no qf07. The Aster Slim is $949.00, or $949.")
@settings(max_examples=400, deadline=None)
def test_garbled_replies_mean_what_they_mean_alone(text):
    with pytest.MonkeyPatch.context() as patch:
        assert remembered(text) == directly(text, patch)


def test_no_cue_holds_what_is_set_aside():
    def words_below(node):
        for word, child in node.items():
            yield word
            yield from words_below(child)

    own = {word for name in NAMED for word in name.lower().split()}
    held = set(words_below(READER._spans._trie)) - own
    assert own and len(held) > 1000
    for word in held:
        assert not re.match(r"q[fnm]|s\d", word), word
        assert not (word[0].isdigit() and len(word) > 2), word
    # What stands in the words of a text or a date is not looked for in a claim.
    assert {fact.kind for fact in READER.cues.facts.values()} <= {"number", "word"}
    assert not READER.cues.ids
    names = {*map(feature_name, range(48)), *EVERY_NAME}
    assert len(names) == 48 + 72


# -- read once -------------------------------------------------------------------------------------


def test_one_reading_serves_all_that_are_alike(monkeypatch):
    reader, read = SalesReader(READER.cues), []
    once = reader._meaning
    monkeypatch.setattr(reader, "_meaning", lambda *given: read.append(1) or once(*given))
    for number, name in enumerate(EVERY_NAME[1:60]):
        feature, price = feature_name(number % 48), f"{1100 + number}.{11 + number}"
        claims = reader._read(f"The {name} has {feature} and costs ${price}, order S{12345}.", ())
        assert {(c.act, c.value, c.object) for c in claims} == {
            ("inform", feature, name), ("quote", price, name),
        }  # fmt: skip
    assert len(read) == 1


def test_long_replies_are_not_kept():
    reader = SalesReader(READER.cues)
    claims = reader._read("The Aster Slim costs $1,186.55. " + "It is a good one. " * 130, ())
    assert [claim.act for claim in claims] == ["quote"]
    assert not reader._alike.cache_info().currsize


def test_which_are_the_same_is_part_of_what_they_mean():
    same, other = (
        remembered(f"The Aster Slim costs $1,186.55. The Aster Slim costs ${price}.")
        for price in ("1,186.55", "1,249.15")
    )
    assert [claim.value for claim in same] == ["1186.55"]
    assert [claim.value for claim in other] == ["1186.55", "1249.15"]


@pytest.mark.parametrize(
    "text",
    [
        "The Aster Slim costs $1,186.55, and 1186.55 is a good price.",
        "The Aster Slim costs $949.00, and the Birch Pro costs $949.",
        "It costs " + ", ".join(f"${number}.11" for number in range(100, 150)),
        "It has qf07 and costs $300.",
    ],
)
def test_what_may_be_equal_to_something_else_is_read_as_it_is(text):
    assert delexicalised(READER._sentences(text, (), {})) is None


def test_sentences_come_back_as_they_were():
    text = "But is it the Aster Slim? So, I'd say. Great, and shall I book it, is that okay?"
    sentences = READER._sentences(text, (), {})
    words, values = delexicalised(sentences)
    assert values == {"Aster Slim": "Aster Slim"}
    assert sentences_of(words) == sentences


# -- repaired --------------------------------------------------------------------------------------


def test_a_sum_is_no_number_of_a_product():
    claims = remembered("Of the Aster Slim, a fine product, you get each product $300 cheaper.")
    assert {claim.object for claim in claims} <= {"", "Aster Slim"}
    (claim,) = remembered("The Aster Slim is a product: $300 altogether.")
    assert claim == ("inform", "total", "300", "Aster Slim")
