"""Word tables: what a text's vector is, what a table learns, and what its files keep."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import corpus, customer_turns

from convgym.data.embedding_cache import EmbeddingCache
from convgym.data.logs import LogReader
from convgym.errors import InvalidConfiguration
from convgym.language import static_encoder
from convgym.language.encoders import Encoder, HashedEncoder, encoder_of
from convgym.language.static_encoder import StaticEncoder

WORDS = ("the", "refund", "é", "?")
VECTORS = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0], [0.0, -1.0]])
FREQUENCIES = np.array([0.04, 0.01, 0.0, 0.01])
TABLE = StaticEncoder(WORDS, VECTORS, FREQUENCIES)
ROOMS = ("kitchen", "garden", "cellar")
"""Rooms are painted and people are greeted: each side has a company of its own."""
PEOPLE = ("anna", "boris", "clara")
TALK = [
    *(f"we painted the {room} in {colour}" for room in ROOMS for colour in ("red", "blue")),
    *(f"good {time} dear {name}" for name in PEOPLE for time in ("morning", "evening")),
] * 3


def slowly(text):
    """The weighted sum of a text's words, by hand."""
    total = np.zeros(2)
    for word in static_encoder.words_in(text):
        if word in WORDS:
            place = WORDS.index(word)
            total += VECTORS[place] * 0.01 / (0.01 + FREQUENCIES[place])
    return total / (np.linalg.norm(total) or 1.0)


# -- what a vector is ------------------------------------------------------------------------------


@given(st.lists(st.lists(st.sampled_from([*WORDS, "The", "unknown", "!"])).map(" ".join)))
def test_a_vector_is_the_weighted_mean_of_its_words(texts):
    found = TABLE.encode(texts)
    assert (found.shape, found.dtype) == ((len(texts), 2), np.float32)
    for text, row in zip(texts, found, strict=True):
        assert row == pytest.approx(slowly(text), abs=1e-6)
        assert row.tobytes() == TABLE.encode([text])[0].tobytes()


def test_a_vector_worked_by_hand():
    # the: 3 · 0.01 / 0.05 = 0.6; refund: 4 · 0.01 / 0.02 = 2
    one, none = TABLE.encode(["The REFUND", "what"])
    assert one == pytest.approx(np.array([0.6, 2.0]) / math.hypot(0.6, 2.0))
    assert none.tolist() == [0, 0]


def test_tables_that_differ_have_names_that_differ():
    again = StaticEncoder(list(WORDS), VECTORS.astype(np.float32), FREQUENCIES)
    assert isinstance(again, Encoder) and (again.dim, len(again)) == (2, 4)
    others = [
        StaticEncoder(WORDS, VECTORS, FREQUENCIES + 0.01),
        StaticEncoder(WORDS, VECTORS + 1, FREQUENCIES),
        StaticEncoder([*WORDS[1:], "the"], VECTORS, FREQUENCIES),
    ]
    assert again.name == TABLE.name
    assert len({TABLE.name, *(other.name for other in others)}) == 4


@pytest.mark.parametrize(
    ("words", "vectors", "frequencies"),
    [
        (WORDS[1:], VECTORS, FREQUENCIES),
        (WORDS, VECTORS[:, 0], FREQUENCIES),
        ((), np.zeros((0, 2)), np.zeros(0)),
        (("the", "the", "é", "?"), VECTORS, FREQUENCIES),
        (WORDS, np.where(VECTORS == 4.0, np.inf, VECTORS), FREQUENCIES),
        (WORDS, VECTORS, FREQUENCIES - 1),
        (WORDS, VECTORS, FREQUENCIES + np.nan),
    ],
)
def test_a_table_that_is_none_is_refused(words, vectors, frequencies):
    with pytest.raises(InvalidConfiguration, match="a table"):
        StaticEncoder(words, vectors, frequencies)


def test_one_text_is_no_list_of_texts():
    with pytest.raises(InvalidConfiguration, match="takes a list"):
        TABLE.encode("hello")


# -- what a table learns ---------------------------------------------------------------------------


def slow_information(texts, words):
    """Positive pointwise mutual information, pair by pair."""
    counts = np.zeros((len(words), len(words)))
    for text in texts:
        known = [word for word in static_encoder.words_in(text) if word in words]
        for (i, one), (j, other) in itertools.permutations(enumerate(known), 2):
            if abs(i - j) <= static_encoder.WINDOW:
                counts[words.index(one), words.index(other)] += 1
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(counts / expected), 0.0)


def test_the_vectors_give_back_the_information_of_pairs():
    """With as many dimensions as words, V sign(λ) Vᵀ is the matrix itself."""
    texts = [*TALK, "a a a long text of a kind that the garden has not seen in the evening"] * 2
    words = sorted({word for text in texts for word in static_encoder.words_in(text)})
    encoder = StaticEncoder.fit(texts, dim=len(words))
    expected = slow_information(texts, list(encoder._places))
    signs = np.sign(np.diag(encoder._vectors.T @ expected @ encoder._vectors))
    assert (encoder._vectors * signs) @ encoder._vectors.T == pytest.approx(expected, abs=1e-4)
    running = [word for text in texts for word in static_encoder.words_in(text)]
    assert encoder._frequencies == pytest.approx(
        [running.count(word) / len(running) for word in encoder._places]
    )


def test_fewer_dimensions_keep_the_strongest():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    values = np.array([9.0, -8.0, 7.0, -6.0, *rng.uniform(-1, 1, 56)])
    matrix = (basis * values) @ basis.T
    found = static_encoder._strongest(matrix, 4, rng)
    slow = basis[:, :4] * np.sqrt(np.abs(values[:4]))
    assert np.abs(found) == pytest.approx(np.abs(slow), abs=1e-4)


def test_words_in_like_company_lie_close():
    encoder = StaticEncoder.fit(TALK, dim=4)
    near = encoder.encode([*ROOMS, *PEOPLE])
    likeness = near @ near.T
    assert likeness[:3, :3].min() > 0.9 and likeness[3:, 3:].min() > 0.9
    assert np.abs(likeness[:3, 3:]).max() < 0.3


def test_the_same_texts_and_seed_give_the_same_bytes_in_another_process():
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_static_encoder as t; "
        "print(t.StaticEncoder.fit(t.TALK, dim=6, seed=1).name)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert out.stdout.strip() == StaticEncoder.fit(iter(TALK), dim=6, seed=1).name


def test_the_most_frequent_words_are_learnt(monkeypatch):
    monkeypatch.setattr(static_encoder, "MOST", 3)
    encoder = StaticEncoder.fit(["b b a once", "a b c", "c d", "d d d d"], dim=2)
    assert list(encoder._places) == ["d", "b", "a"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dim": 0}, "dim=0"),
        ({"dim": 2.0}, "dim=2.0"),
        ({"seed": -1}, "seed=-1"),
        ({"dim": 99}, "smaller dim"),
        ({"texts": []}, "0 words"),
    ],
)
def test_what_cannot_be_learnt_is_refused(given, message):
    with pytest.raises(InvalidConfiguration, match=message):
        StaticEncoder.fit(**{"texts": TALK, "dim": 4, **given})


# -- files -----------------------------------------------------------------------------------------


def test_a_saved_table_is_the_same(tmp_path):
    encoder = StaticEncoder.fit(TALK, dim=5)
    encoder.save(tmp_path / "table.npz")
    encoder.save(tmp_path / "again.npz")
    loaded = encoder_of(str(tmp_path / "table.npz"))
    assert loaded.name == encoder.name
    assert loaded.encode(TALK).tobytes() == encoder.encode(TALK).tobytes()
    assert (tmp_path / "table.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


GLOVE = """the 3 0
, 1 2
refund 0 4
don't 5 5
Refund 7 7
. . . 8 8
É 1 1
"""


@pytest.mark.parametrize("head", ["", "7 2\n"])
def test_a_table_as_glove_and_word2vec_write_it(head, tmp_path):
    path = tmp_path / "glove.2d.txt"
    path.write_text(head + GLOVE.replace("4\n", "4 \n"), encoding="utf-8")
    encoder = encoder_of(path)
    lines = 7 + bool(head)
    ranks = [line + bool(head) for line in (1, 3, 7)]
    expected = StaticEncoder(
        ["the", "refund", "é"],
        [[3, 0], [0, 4], [1, 1]],
        1 / (np.array(ranks) * math.log(lines)),
    )
    assert encoder.name == expected.name
    # With p = 1 / (rank ln n), "the" weighs less than "refund".
    one, two = encoder.encode(["the refund"])[0]
    assert two / one > 4 / 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 3 0\nrefund 1\n", "line 2 has 1 numbers"),
        ("the 3 zero\n", "zero"),
        ("", "0 words"),
        ("the 3 nan\n", "not finite"),
    ],
)
def test_text_that_is_no_table_is_refused(text, message, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(text)
    with pytest.raises(InvalidConfiguration, match=message):
        StaticEncoder.load(path)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "table.npz"
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        StaticEncoder.load(path)
    np.savez(path, words=np.zeros(3))
    with pytest.raises(InvalidConfiguration, match="holds no 'convgym static vectors 1'"):
        StaticEncoder.load(path)
    TABLE.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidConfiguration, match=r"table.npz"):
        StaticEncoder.load(path)


# -- by name ---------------------------------------------------------------------------------------


def test_an_encoder_is_found_by_its_name():
    assert encoder_of().name == encoder_of("hashed").name == "hashed-256-0"
    assert encoder_of("hashed:512").name == encoder_of("hash:512").name == "hashed-512-0"
    assert encoder_of("hash").name == "hashed-256-0"
    assert encoder_of(TABLE) is TABLE


@pytest.mark.parametrize(
    "given", ["hashe", "hash:", "hashed:", "hashed:x", "nowhere/table.npz", 3, None]
)
def test_a_name_of_no_encoder_says_what_there_is(given):
    with pytest.raises(InvalidConfiguration, match="it takes 'hashed'"):
        encoder_of(given)


@pytest.mark.parametrize("encoder", [HashedEncoder(dim=64), TABLE], ids=["hashed", "static"])
def test_the_cache_keeps_vectors_of_any_encoder(encoder, tmp_path):
    texts = ["the refund", "é?", "", "nothing known", "\ud800 the"]
    assert EmbeddingCache(tmp_path, encoder).encode(texts).tobytes() == (
        encoder.encode(texts).tobytes()
    )
    again = EmbeddingCache(tmp_path, encoder)
    assert (again.path.name, len(again)) == (f"{encoder.name}.vectors", 5)
    assert again.encode(texts[::-1]).tobytes() == encoder.encode(texts[::-1]).tobytes()


# -- real talk -------------------------------------------------------------------------------------


def test_the_nearest_turn_of_a_customer_has_its_intent():
    """The measure of tests/test_encoders.py, on a table learnt from the training conversations."""
    known, names = customer_turns("train", 5000)
    asked, wanted = customer_turns("dev", 1000)
    train = LogReader(corpus("multidogo", "train"))
    encoder = StaticEncoder.fit(turn.content for talk in train for turn in talk.messages)
    nearest = (encoder.encode(asked) @ encoder.encode(known).T).argmax(axis=1)
    assert np.mean([names[n] == intent for n, intent in zip(nearest, wanted, strict=True)]) > 0.70
