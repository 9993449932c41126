"""Turns spliced from two, and values crossed: new ones that are made of old ones."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.paraphrase import RUNS, Splices
from convgym.calibration.signatures import Gap
from convgym.calibration.values import SlotValues
from convgym.conversation import Conversation, Message

KEYS = range(60)
GAPS = st.sampled_from([Gap("s", "v", False), Gap("t", "v", False)])
TURNS = st.lists(
    st.tuples(
        st.sampled_from("gh"),
        st.lists(st.one_of(st.sampled_from([" a", " b", " c", " d"]), GAPS), min_size=1, max_size=7)
        .map(tuple),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def words_of(pieces):
    words = []
    for piece in pieces:
        words += [piece.slot.upper()] if isinstance(piece, Gap) else piece.split()
    return tuple(words)


def test_two_turns_are_spliced_where_they_run_through_the_same_words():
    name = Gap("name", "Bob", False)
    turns = [
        ("g", ("yes please book me a table for ", name)),
        ("g", ("can you book me a room under ", name, " please")),
        ("other", ("never book me a thing for ", name)),
    ]
    splices = Splices(turns)
    made = {words_of(splices.reworded(0, key)) for key in KEYS}
    assert made == {("yes", "please", "book", "me", "a", "room", "under", "NAME", "please")}


def test_gaps_that_would_be_lost_or_doubled_forbid_a_splice():
    name = Gap("name", "Bob", False)
    turns = [("g", ("we are ", name, " here")), ("g", (name, " and i are friends"))]
    splices = Splices(turns)
    for number, (_, pieces) in enumerate(turns):
        assert {splices.reworded(number, key) for key in KEYS} == {pieces}


def test_what_two_users_said_alike_is_left_alone():
    turns = [("g", ("no thank you",)), ("g", ("No  thank you",)), ("g", ("oh thank you so much",))]
    splices = Splices(turns)
    assert {splices.reworded(0, key) for key in KEYS} == {("no thank you",)}


@settings(deadline=None, max_examples=80)
@given(TURNS, st.integers(0, 2**32))
def test_a_splice_is_new_has_the_same_gaps_and_no_pair_of_words_that_nobody_said(turns, key):
    splices = Splices(turns)
    said = [words_of(pieces) for _, pieces in turns]
    for number, (group, _) in enumerate(turns):
        made = words_of(splices.reworded(number, key))
        if made == said[number]:
            continue
        assert made not in said and said.count(said[number]) == 1
        assert sorted(w for w in made if w.isupper()) == sorted(
            w for w in said[number] if w.isupper()
        )
        pairs = {p for (g, _), w in zip(turns, said, strict=True) if g == group
                 for p in pairwise(w)}  # fmt: skip
        assert set(pairwise(made)) <= pairs


@settings(deadline=None, max_examples=80)
@given(TURNS)
def test_where_no_splice_comes_out_none_would_do(turns):
    """The slow way: every cut of every pair of turns."""
    splices = Splices(turns)
    said = [words_of(pieces) for _, pieces in turns]
    for number, (group, _) in enumerate(turns):
        one = said[number]
        possible = set()
        for (other_group, _), other in zip(turns, said, strict=True):
            for run in RUNS:
                for at in range(run, len(one)):
                    for place in range(run, len(other)):
                        made = one[:at] + other[place:]
                        pairs = list(pairwise(made))
                        if (
                            group == other_group
                            and one[at - run : at] == other[place - run : place]
                            and sorted(filter(str.isupper, one[at:]))
                            == sorted(filter(str.isupper, other[place:]))
                            and abs(len(made) - len(one)) <= 1 + len(one) * 0.2
                            and made not in said
                            and len(set(pairs)) == len(pairs)
                        ):
                            possible.add(made)
        made = {words_of(splices.reworded(number, key)) for key in range(20)} - {one}
        assert made <= (possible if said.count(one) == 1 else set())


def test_values_seen_once_are_crossed_with_others_of_their_shape_if_they_have_digits():
    values = SlotValues(["12:30", "09:45", "9:15"])
    made = {values.varied("12:30", key, 1) for key in range(400)}
    assert made == {"09:45", "19:45", "12:45", "12:35", "12:30"}
    assert {values.varied("9:15", key, 1) for key in range(20)} == {"9:15"}


def test_values_that_users_share_and_names_stay_what_they_are():
    values = ["4 gb", "4 gb", "9 gb", "9 gb", "ann lee", "bob roy"]
    for value in values:
        assert {SlotValues(values).varied(value, key, 1) for key in range(50)} == {value}


def test_who_is_terse_stays_terse_and_who_is_wordy_wordy():
    def talk(number, size):
        words = [f"{chr(97 + (number + i) % 9)} " * 2 + f"w{(number * i) % 23}" for i in range(9)]
        said = tuple(Message("user", " ".join(words[:size]), intents=("x",)) for _ in range(4))
        return Conversation(str(number), said)

    log = [talk(number, size) for number in range(300) for size in (1, 9)]
    for conversation in LogSimulator.of(log).generate(100, 1):
        lengths = [len(m.content.split()) for m in conversation.messages]
        assert max(lengths) <= 5 or min(lengths) >= 18


def test_values_that_one_user_told_together_are_wanted_together():
    def trip(number, start, end):
        slots = (("from", start), ("to", end))
        said = Message("user", f"from {start} to {end}", intents=("travel",), slots=slots)
        return Conversation(f"c{number}", (said,))

    towns = ("ely", "york", "leeds")
    log = [trip(i, towns[i % 3], towns[(i + 1) % 3]) for i in range(30)]
    made = {c.messages[0].slots for c in LogSimulator.of(log).generate(40, 0)}
    assert made == {(("from", towns[i]), ("to", towns[(i + 1) % 3])) for i in range(3)}
