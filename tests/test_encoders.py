"""Texts as vectors: the same bytes everywhere, and what is said alike lies close together."""

import hashlib
import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import customer_turns

from convgym.errors import InvalidConfiguration
from convgym.language import encoders
from convgym.language.encoders import HashedEncoder

ENCODER = HashedEncoder()
TEXTS = ("I want to cancel my order!", "", "Where is my parcel?", "…", "Ça va, straße?", "\ud800 x")
GOLDEN = "d2517f9a78b9fccf5ce166648d8b74136177a97e4e0959d1cc3f85c8dce6173d"
"""SHA-256 of the vectors of `TEXTS`."""


def digest(encoder):
    return hashlib.sha256(encoder.encode(TEXTS).tobytes()).hexdigest()


def slowly(text, encoder):
    """The same from its definition, feature by feature in whole numbers."""
    words = encoders._WORD.findall(text.lower())
    weights = [(word, 1 if word in encoders._PLAIN_WORDS else 2) for word in words]
    weights += [(f"{one} {two}", 2) for one, two in itertools.pairwise(words)]
    for word in words:
        bounded = f"<{word}>"
        weights += [(bounded[at : at + 3], 1) for at in range(len(bounded) - 2)]
    total = np.zeros(encoder.dim, dtype=np.int64)
    for feature, weight in weights:
        total += weight * encoder._signs[encoders._row(feature)].astype(np.int64)
    length = np.sqrt(float((total**2).sum())) or 1.0
    return (total / length).astype(np.float32)


# -- what a vector is ------------------------------------------------------------------------------


@given(st.text())
def test_a_vector_is_the_sum_of_its_features(text):
    assert ENCODER.encode([text])[0].tobytes() == slowly(text, ENCODER).tobytes()


@given(st.lists(st.text(alphabet="ab ?é'", max_size=12), max_size=8), st.integers(4, 40))
def test_neighbours_and_forgotten_words_change_nothing(texts, most):
    alone = [ENCODER.encode([text])[0] for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "MOST_WORDS", most)
        together = HashedEncoder().encode(texts)
    assert together.shape == (len(texts), 256)
    assert together.dtype == np.float32
    assert [row.tobytes() for row in together] == [row.tobytes() for row in alone]


def test_vectors_have_length_one_or_say_nothing():
    lengths = np.linalg.norm(ENCODER.encode(TEXTS), axis=1)
    assert lengths == pytest.approx([1, 0, 1, 0, 1, 1], abs=1e-6)


def test_other_processes_get_the_same_bytes():
    assert digest(ENCODER) == digest(HashedEncoder()) == GOLDEN
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_encoders as t; "
        "print(t.digest(t.HashedEncoder()))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert out.stdout.strip() == GOLDEN


def test_encoders_of_a_kind_share_one_table_that_none_can_change():
    assert HashedEncoder(64, 3)._signs is HashedEncoder(64, 3)._signs
    assert not np.array_equal(HashedEncoder(64, 3)._signs, HashedEncoder(64, 4)._signs)
    with pytest.raises(ValueError, match="read-only"):
        HashedEncoder(64, 3)._signs[0] = 0


def test_seeds_and_dimensions_are_told_apart():
    assert ENCODER.name == "hashed-256-0"
    other = HashedEncoder(dim=256, seed=1)
    assert other.name == "hashed-256-1"
    assert np.abs(other.encode(TEXTS[:1]) @ ENCODER.encode(TEXTS[:1]).T) < 0.3
    assert HashedEncoder(dim=64).encode(TEXTS).shape == (6, 64)


@pytest.mark.parametrize("given", [{"dim": 100}, {"dim": 0}, {"dim": 2.5}, {"seed": -1}])
def test_what_is_not_allowed_is_refused(given):
    with pytest.raises(InvalidConfiguration, match=f"{next(iter(given))}="):
        HashedEncoder(**given)


def test_one_text_is_no_list_of_texts():
    with pytest.raises(InvalidConfiguration, match="takes a list"):
        ENCODER.encode("hello")


# -- what lies close -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("I want to cancel my order", "please cancel the order", "where is my parcel?"),
        ("refund", "refnd", "phone"),
        ("the dog bites the man", "the man bites the dog", "a cat sleeps on the sofa"),
    ],
)
def test_what_is_said_alike_lies_closer(text, near, far):
    one, two, three = ENCODER.encode([text, near, far])
    assert one @ two > one @ three + 0.1


def test_the_nearest_turn_of_a_customer_has_its_intent():
    known, names = customer_turns("train", 5000)
    asked, wanted = customer_turns("dev", 1000)
    nearest = (ENCODER.encode(asked) @ ENCODER.encode(known).T).argmax(axis=1)
    assert np.mean([names[n] == intent for n, intent in zip(nearest, wanted, strict=True)]) > 0.75
