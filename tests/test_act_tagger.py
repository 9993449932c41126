"""The act tagger against plain loops: rows, sums, reports; what it learns and how it keeps it."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import corpus

from convgym.data.agent_acts import OTHER, act_label, frequent_labels
from convgym.data.logs import read_log
from convgym.errors import InvalidConfiguration
from convgym.language.act_tagger import POSITIONS, ROWS, ActTagger
from convgym.language.archive import write_archive
from convgym.language.hashed_words import hashed_words

TEXTS = st.lists(st.text(alphabet="ab Z9_!?.,’éß\n\t—漢😀İ\0\ud800", max_size=12), max_size=6)
SAID = [
    ("hello there", "greet"), ("hi", "greet"), ("thanks a lot", "thank"), ("thank you", "thank"),
    ("i want a refund", "ask"), ("where is my parcel?", "ask"),
]  # fmt: skip


def small(**keywords) -> ActTagger:
    return ActTagger.fit([text for text, _ in SAID] * 8, [act for _, act in SAID] * 8, **keywords)


def rows_of(text: str, size: int) -> list[int]:
    """The rows of one text, spelt out."""

    def mixed(one: int, other: int) -> int:
        value = (one * 0x2C1B3C6D + other) % 2**32
        return (value ^ value >> 15) * 0x2C1B3C6D % 2**32

    hashes = []
    for word in re.findall(r"[a-z0-9_À-\u1fff\u2070-\U0010ffff]+|[?!]", text.lower()):
        value = 0x811C9DC5
        for letter in word:
            value = (value ^ ord(letter)) * 0x01000193 % 2**32
        hashes.append(value)
    pairs = zip([0, *hashes], [*hashes, 0], strict=True)
    words = [(value ^ value >> 15) % size for value in hashes]
    return sorted([*words, *((mixed(one, other) >> 5) % size for one, other in pairs)])


# Rows


@settings(deadline=None)  # the first call compiles
@given(TEXTS)
def test_rows_are_those_of_the_plain_loop(texts):
    rows, ends = hashed_words(texts, ROWS)
    parts = np.split(rows, ends[:-1]) if texts else []
    assert [sorted(part.tolist()) for part in parts] == [rows_of(text, ROWS) for text in texts]


def test_rows_are_the_same_for_ever():
    rows, ends = hashed_words(["No, thanks!", ""], ROWS)
    assert ends.tolist() == [7, 8]
    assert rows.tolist() == [43926, 33206, 15466, 50822, 50677, 6959, 124038, 0]


# Scores


@settings(deadline=None)  # the first call compiles
@given(TEXTS, st.integers(0, 30))
def test_probabilities_are_those_of_the_plain_loop(texts, position):
    tagger = small()
    found = tagger.probabilities(texts, [position] * len(texts))
    assert found.shape == (len(texts), 3)
    for text, row in zip(texts, found, strict=True):
        rows = [*rows_of(text, ROWS), ROWS + min(position, POSITIONS - 1)]
        scores = sum(tagger.weights[row].astype(float) for row in rows) / len(rows) ** 0.5
        weights = np.exp(scores - scores.max())
        assert row == pytest.approx(weights / weights.sum(), abs=1e-9)


def test_a_text_is_tagged_alike_alone_and_among_others():
    tagger = small()
    texts = [f"{text} {n}" for n in range(9000) for text, _ in SAID]  # more than go at once
    together = tagger.predict(texts)
    assert together[[0, 7, 40_000]].tolist() == [
        tagger.predict([texts[n]])[0] for n in (0, 7, 40_000)
    ]
    assert (together == tagger.probabilities(texts).argmax(axis=1)).all()


# Learning


def test_it_learns_acts_from_words():
    tagger = small()
    assert tagger.acts == ("ask", "greet", "thank")
    told = tagger.predict(["thank you so much", "hello!", "my parcel?"])
    assert [tagger.acts[act] for act in told] == ["thank", "greet", "ask"]


def test_it_learns_acts_from_positions():
    acts = ["yes", "offer", "offer"] * 30
    tagger = ActTagger.fit(["ok"] * 90, acts, [3, 0, 40] * 30)
    assert [tagger.acts[act] for act in tagger.predict(["ok"] * 4, [3, 0, 15, 99])] == [
        "yes", "offer", "offer", "offer",
    ]  # fmt: skip


def test_the_same_turns_give_the_same_bytes():
    assert small().identity == small().identity
    assert len({small().identity, small(seed=1).identity, small(epochs=3).identity}) == 3


def labelled(split: str) -> tuple[list[str], list[str], list[int]]:
    turns = [
        (message.content, act_label(message), place)
        for talk in read_log(corpus("multidogo", split))
        for place, message in enumerate(talk.messages)
    ]
    texts, acts, places = (list(column) for column in zip(*turns, strict=True))
    return texts, acts, places


def test_it_tells_nine_of_ten_acts_of_multidogo():
    (texts, acts, places), (new, truth, spots) = labelled("train"), labelled("dev")
    kept = frequent_labels(acts, 8)
    assert set(kept) == {
        "contentonly", "confirmation", "openinggreeting", "rejection", "thankyou", "outofdomain",
        "closinggreeting", OTHER,
    }  # fmt: skip
    acts, truth = ([act if act in kept else OTHER for act in some] for some in (acts, truth))
    report = ActTagger.fit(texts, acts, places).report(new, truth, spots)
    assert report.accuracy > 0.92 and report.macro_f1 > 0.89
    assert 0.33 < report.majority < 0.35


def test_it_is_as_good_as_an_exact_logistic_regression():
    sparse = pytest.importorskip("scipy.sparse")
    linear = pytest.importorskip("sklearn.linear_model")
    texts, acts, _ = (column[:5000] for column in labelled("train"))
    kept = frequent_labels(acts, 8)
    acts = np.array([act if act in kept else OTHER for act in acts])
    rows, ends = hashed_words(texts, ROWS)
    counts = np.diff(ends, prepend=0)
    scale = np.repeat(1 / np.sqrt(counts + 1), counts)
    matrix = sparse.csr_matrix((scale, rows, np.r_[0, ends]), shape=(5000, ROWS))
    matrix = matrix[:, np.unique(rows)]
    exact = linear.LogisticRegression(C=10, max_iter=300).fit(matrix[:3000], acts[:3000])
    tagger = ActTagger.fit(texts[:3000], acts[:3000])
    told = np.array(tagger.acts)[tagger.predict(texts[3000:])]
    theirs = exact.predict(matrix[3000:])
    assert (told == theirs).mean() > 0.95
    assert (told == acts[3000:]).mean() > (theirs == acts[3000:]).mean() - 0.02


# Reports


def test_a_report_is_as_counted_by_hand():
    tagger = small()
    texts = ["hello there", "hi", "thanks a lot", "hi"]
    report = tagger.report(texts, ["greet", "greet", "thank", "ask"])
    assert report.accuracy == 0.75 and report.majority == 0.5
    assert report.macro_f1 == pytest.approx((0.0 + 2 * 2 / 5 + 1.0) / 3)
    assert report.confusion.tolist() == [[0, 1, 0], [0, 2, 0], [0, 0, 1]]


def test_an_unknown_act_counts_as_missed():
    report = small().report(["hi", "hello there"], ["greet", "complain"])
    assert report.accuracy == 0.5 and report.confusion.shape == (4, 4)
    assert report.confusion[3].sum() == 1 and report.confusion[:, 3].sum() == 0


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.sampled_from([*SAID, ("hi", "ask"), ("", "thank")]), min_size=1))
def test_confusion_is_counted_turn_by_turn(turns):
    tagger, (texts, acts) = small(), map(list, zip(*turns, strict=True))
    report = tagger.report(texts, acts)
    pairs = Counter(zip(acts, (tagger.acts[act] for act in tagger.predict(texts)), strict=True))
    for (true, told), count in pairs.items():
        assert report.confusion[tagger.acts.index(true), tagger.acts.index(told)] == count
    assert report.confusion.sum() == len(turns)


# Files


def test_a_saved_tagger_is_the_same_one(tmp_path):
    tagger = small()
    for name in ("one.npz", "other.npz"):
        tagger.save(tmp_path / name)
    again = ActTagger.load(tmp_path / "one.npz")
    assert again.identity == tagger.identity and again.acts == tagger.acts
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.npz", "other.npz"]


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "tagger.npz"
    small().save(path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-100], b"PK" + whole[7:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidConfiguration, match="holds no 'convgym act tagger 1'"):
            ActTagger.load(path)


@pytest.mark.parametrize("place", [-1, float("nan")])
def test_what_is_no_place_in_a_conversation_is_refused(place):
    """A repaired bug: NaN was looked up beyond the table."""
    with pytest.raises(InvalidConfiguration, match="positions; give each text a whole number"):
        small().predict(["hi"], [place])


def test_bits_that_flipped_in_a_file_are_noticed(tmp_path):
    path = tmp_path / "tagger.npz"
    small().save(path)
    whole, chance = path.read_bytes(), np.random.default_rng(0)
    for place in chance.integers(len(whole), size=60).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            assert ActTagger.load(path).identity == small().identity
        except InvalidConfiguration as error:
            assert "holds no 'convgym act tagger 1'" in str(error)


def test_weights_of_another_shape_are_refused(tmp_path):
    about, arrays = small().content
    write_archive(tmp_path / "tagger.npz", about, {"weights": arrays["weights"][:10]})
    with pytest.raises(InvalidConfiguration, match=r"weights of shape \(10, .*a tagger has"):
        ActTagger.load(tmp_path / "tagger.npz")


def test_another_content_under_the_same_identity_is_refused(tmp_path, monkeypatch):
    tagger, other = small(), small(seed=1)
    monkeypatch.setattr("convgym.language.archive.identity_of", lambda *_: tagger.identity)
    write_archive(tmp_path / "tagger.npz", *other.content)
    monkeypatch.undo()
    with pytest.raises(InvalidConfiguration, match="not what its identity says"):
        ActTagger.load(tmp_path / "tagger.npz")


def test_what_is_no_tagger_is_refused(tmp_path):
    write_archive(tmp_path / "x.npz", {"format": "something else"}, {})
    for path in (tmp_path / "x.npz", tmp_path / "missing.npz", tmp_path):
        with pytest.raises(InvalidConfiguration, match="holds no 'convgym act tagger 1'"):
            ActTagger.load(path)


# Mistakes


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ActTagger.fit(["a", "b"], ["x"]), "2 texts came with 1 acts"),
        (lambda: ActTagger.fit(["a", "b"], ["x", "x"]), "two or more names"),
        (lambda: ActTagger.fit(["a", "b"], ["x", "y"], names=["x", "z"]), "each act among them"),
        (lambda: ActTagger.fit(["a", "b"], ["x", "y"], [0]), "2 texts came with 1 positions"),
        (lambda: small().predict(["a"], [-1]), "whole number from 0"),
        (lambda: small().predict("a text"), "takes a list of texts"),
        (lambda: small().report([], []), "a report takes one each"),
    ],
)
def test_mistakes_are_one_sentence(call, said):
    with pytest.raises(InvalidConfiguration, match=said):
        call()
