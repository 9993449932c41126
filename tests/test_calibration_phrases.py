"""Signatures of turns, their words without values, and words put together again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.calibration.phrase_bank import PhraseBank, Reading, filled
from convgym.calibration.signatures import Gap, delexicalised, logged_users
from convgym.calibration.style_bins import style_bins
from convgym.conversation import Conversation, Message


def test_a_turn_of_intents_is_cut_where_its_values_stand():
    slots = (("n", "7 y 6"), ("name", "aaron"))
    message = Message("user", "aaron number 7 y 6", intents=("content",), slots=slots)
    (user,) = logged_users([Conversation("c", (message,), metadata={"domain": "air"})])
    (turn,) = user.turns
    assert turn.signature == (("content",), ("n", "name"))
    assert turn.pieces == (Gap("name", "aaron", False), " number ", Gap("n", "7 y 6", False))
    assert (user.kind, turn.text) == ("air", message.content)


def test_a_turn_of_acts_knows_what_it_tells_and_what_it_asks():
    acts = (("train", "inform", "day", "friday"), ("train", "request", "leave", "?"))
    agent = Message("assistant", "Friday?", acts=(("train", "request", "day", "?"),))
    message = Message("user", "Friday, when?", acts=acts)
    (user,) = logged_users([Conversation("c", (agent, message))])
    (turn,) = user.turns
    assert turn.acts == ("train-inform", "train-request")
    assert turn.slots == ("train-inform-day", "train-request-leave?")
    assert turn.heard.asked == ("day",)
    assert turn.pieces[0] == Gap("train-inform-day", "Friday", heard=True)


@given(st.text("ab c1", max_size=30), st.lists(st.sampled_from(["a", "b c", "1"]), max_size=3))
def test_pieces_put_together_are_the_text(text, values):
    pieces = delexicalised(text, [(f"s{i}", value) for i, value in enumerate(values)])
    assert "".join(p.value if isinstance(p, Gap) else p for p in pieces) == text


def test_values_come_from_the_agent_where_they_were_heard_and_else_from_the_goal():
    pieces = ("book ", Gap("h-i-name", "Ashley", True), " for ", Gap("h-i-people", "two", False))
    values = {"h-i-name": "Acorn", "h-i-people": "six"}
    assert filled(pieces, values, [("name", "Bridge")]) == "book Bridge for six"
    assert filled(pieces, values, []) == "book Acorn for six"


@pytest.mark.parametrize(("value", "said"), [("inn", "an inn"), ("hotel", "a hotel")])
def test_the_article_fits_the_value(value, said):
    assert filled(("a ", Gap("s", "pub", False)), {"s": value}, []) == said


def bank():
    one, both = (("a",), ()), (("a", "b"), ("s",))
    turns = [(one, [("early",)], (f"one {i}",)) for i in range(5)]
    turns += [(one, [("late",)], ("late",)), (both, [("early",)], ("both",))]
    return PhraseBank(turns)


def test_a_shelf_is_read_to_its_end_before_a_turn_comes_again():
    shelves = bank()
    reading = Reading(shelves, 0)
    shelf = shelves.shelf((("a",), ()), [("early",)])
    taken = [reading.take(shelf)[0] for _ in range(10)]
    assert sorted(taken[:5]) == sorted(taken[5:]) == [f"one {i}" for i in range(5)]


def test_a_small_shelf_gives_way_to_a_wider_one():
    shelves = bank()
    assert len(shelves.shelf((("a",), ()), [("late",)])) == 6


def test_a_signature_nobody_had_is_said_in_parts():
    wanted = (("a", "b", "c"), ("s",))
    assert bank().parts(wanted) == ((("a", "b"), ("s",)),)
    assert bank().parts((("z",), ())) == ()


def writers(lengths):
    return logged_users(
        [
            Conversation(str(i), tuple(Message("user", "w " * n, intents=("x",)) for n in words))
            for i, words in enumerate(lengths)
        ]
    )


def test_terse_and_wordy_people_come_into_different_bins():
    styles = style_bins(writers([[2, 2, 3]] * 300 + [[20, 22, 21]] * 300))
    assert styles.count == 2
    assert set(styles.bins[:300]) == {0} and set(styles.bins[300:]) == {1}


def test_there_is_one_bin_where_everybody_writes_alike():
    assert style_bins(writers([[2, 9, 20], [20, 2, 9]] * 300)).count == 1
