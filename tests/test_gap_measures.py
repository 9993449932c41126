"""What the gap report counts, its noise floors and classifiers, each against a plain version."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from callers import bag, callers, scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import corpus, talk

from convgym.calibration.divergences import (
    compute_distribution_divergence,
    compute_js_divergence,
    compute_wasserstein,
    similarities,
)
from convgym.calibration.floors import noise_floors
from convgym.calibration.rates import responses, statistics
from convgym.calibration.tallies import Tallies
from convgym.calibration.turns import MARKS, UserTurns, act_names
from convgym.calibration.two_sample import classifier_two_sample_test, weighted_auc
from convgym.conversation import Conversation, Message
from convgym.data.logs import read_log
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.language.act_tagger import ActTagger
from convgym.language.encoders import HashedEncoder


def tallied(conversations: list[Conversation]) -> Tallies:
    turns = UserTurns.of(conversations)
    return Tallies(turns, HashedEncoder().encode(turns.texts))


def halves(total: int, first: list[int], second: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.bincount(first, minlength=total), np.bincount(second, minlength=total)


def compared(one: str, other: str) -> dict[str, float]:
    """The rows of users who say nothing else."""
    said = [talk(str(n), text) for n, text in enumerate((one, one, other, other))]
    return tallied(said).measure(*halves(4, [0, 1], [2, 3]))


def counted_js(one: Counter, other: Counter) -> float:
    names = list(one | other)
    return compute_js_divergence([one[n] for n in names], [other[n] for n in names])


# Turns


def test_turns_by_hand():
    asked = Message("assistant", "Which area?", acts=(("hotel", "request", "area", "?"),))
    told = Message("user", "North, please", acts=(("hotel", "inform", "area", "north"),) * 2)
    silent = Message("user", "  ")
    again = Message("assistant", "Sorry, that failed.")
    off = Message("user", "ok thanks", intents=("thank",))
    one = Conversation("1", (Message("user", "Hi"), asked, told, silent, again, off))
    why = Message("user", "Why?", acts=(("general", "request", "", ""),))
    two = Conversation("2", (asked, why))
    turns = UserTurns.of([one, two])
    assert turns.owner.tolist() == [0, 0, 0, 1] and turns.place.tolist() == [0, 1, 2, 0]
    assert turns.prompts == ["", "Which area?", "Sorry, that failed.", "Which area?"]
    assert turns.acts == [("none",), ("hotel-inform",), ("thank",), ("general-request",)]
    assert turns.answered[1:4:2].tolist() == [1.0, 0.0] and np.isnan(turns.answered[[0, 2]]).all()
    assert turns.last.tolist() == [False, False, True, True]
    assert turns.failed.tolist() == [False, False, True, False]
    marked = [{name for name, mark in zip(MARKS, row, strict=True) if mark} for row in turns.marks]
    assert marked == [{"greeting", "backchannel"}, set(), {"thanks", "backchannel"}, {"question"}]


def test_acts_count_where_both_sides_have_them_and_else_the_taggers_do():
    labelled, plain = callers(4), [talk(str(n), "hi", "no, thanks") for n in range(4)]
    sides = np.repeat([0, 1], 4)
    turns = UserTurns.of([*labelled, *plain])
    assert set(turns.with_comparable_acts(sides, None).acts) == {("none",)}
    assert turns.with_comparable_acts(sides * 0, None).acts == turns.acts
    tagger = ActTagger.fit(["hi", "no, thanks"], ["greet", "refuse"])
    tagged = turns.with_comparable_acts(sides, tagger)
    assert tagged.acts[-2:] == [("greet",), ("refuse",)] and len(tagged.acts) == len(turns.acts)


# Counts


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=30, max_size=30))
def test_rows_match_plain_counts_of_the_conversations_themselves(side):
    """Each conversation stands in the first set, the second, or both of them at once."""
    conversations = callers(30)
    first = [n for n, where in enumerate(side) if where != 1]
    second = [n for n, where in enumerate(side) if where != 0]
    if len(first) < 2 or len(second) < 2:
        return
    rows = tallied(conversations).measure(*halves(30, first, second))
    sets = [[conversations[n] for n in members] for members in (first, second)]
    users = [[[m for m in c.messages if m.role == "user"] for c in some] for some in sets]
    words = [[len(m.content.split()) for talk in some for m in talk] for some in users]
    counts = [[len(talk) for talk in some] for some in users]
    acts = [Counter(act_names(m)[0] for talk in some for m in talk) for some in users]
    pairs = []
    for some in users:
        named = [["^", *(act_names(m)[0] for m in talk), "$"] for talk in some]
        pairs.append(Counter(pair for talk in named for pair in pairwise(talk)))
    for metric, method in (("length_kl", "kl"), ("length_js", "js")):
        assert rows[metric] == pytest.approx(compute_distribution_divergence(*words, method))
    assert rows["length_wasserstein"] == pytest.approx(compute_wasserstein(*words))
    means = [np.mean(some) for some in words]
    assert rows["length_gap"] == pytest.approx(abs(means[1] - means[0]) / means[0])
    assert rows["turn_js"] == pytest.approx(counted_js(*map(Counter, counts)))
    assert rows["act_js"] == pytest.approx(counted_js(*acts))
    assert rows["act_bigram_js"] == pytest.approx(counted_js(*pairs))


def test_mmd_leaves_out_pairs_within_a_conversation():
    conversations = callers(12)
    turns = UserTurns.of(conversations)
    vectors = HashedEncoder().encode(turns.texts)
    # Gaussian kernel of the median distance of all turns, as in Tallies
    apart = [float(np.linalg.norm(a - b)) for i, a in enumerate(vectors) for b in vectors[:i]]
    alike = similarities(vectors, vectors, "gaussian", float(np.median(apart)))
    first, second = [0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]

    def mean(one: list[int], other: list[int]) -> float:
        cells = [
            alike[i, j]
            for i, a in enumerate(turns.owner)
            for j, b in enumerate(turns.owner)
            if a in one and b in other and a != b
        ]
        return float(np.mean(cells))

    expected = mean(first, first) + mean(second, second) - 2 * mean(first, second)
    found = tallied(conversations).measure(*halves(12, first, second))["mmd"]
    assert found == pytest.approx(expected, abs=1e-5)


def test_words_tied_for_the_last_place_share_it():
    """1,000 words a side stand in the lists; 1,001 tied ones have 1000/1001 of a place each."""
    rows = compared(" ".join(f"w{n}" for n in range(1001)), " ".join(f"w{n}" for n in range(1001)))
    share = 1000 / 1001
    assert rows["vocab_overlap"] == pytest.approx(share**2 / (2 * share - share**2))
    assert compared("a b c", "b c d")["vocab_overlap"] == 0.5


def test_signs_count_as_words():
    rows = compared("really ?", "really.")
    assert rows["word_js"] == pytest.approx(0.5) and rows["length_js"] == 0.0


# Rates


def test_statistics_and_responses_by_hand():
    sorry, fine = "a:Sorry, no.", "a:Is it this one?"
    conversations = [
        talk("1", "Hello", sorry, "why?", sorry, "bye"),
        talk("2", "I need some help", fine, "yes", "thanks"),
    ]
    turns, both = UserTurns.of(conversations), np.ones(2)
    found = {rate.name: float(rate.of(both)) for rate in statistics(turns)}
    assert found["turns a conversation"] == 3.0 and found["words a turn"] == 9 / 6
    assert found["words, first turn"] == 2.5 and found["words, last turn"] == 1.0
    assert found["turns with question"] == 1 / 6 and found["last turns with thanks"] == 0.5
    assert found["first turns with greeting"] == 0.5
    after = {(r.name, r.condition): float(r.of(both)) for r in responses(turns)}
    assert after["ends", "turn 3"] == 1.0 and after["ends", "turn 2"] == 0.0
    assert after["ends", "1 failures so far"] == 0.0 and after["ends", "2 failures so far"] == 1.0
    assert after["asks back", "a question"] == 0.0 and after["asks back", "no question"] == 0.5
    assert after["says 3 words or fewer", "a failure"] == 1.0
    assert np.isnan(after["answers", "asked for a slot"])  # nobody's acts ask


# Floors


def test_floors_are_the_mean_and_95th_percentile_of_random_halves():
    seen = []

    def spread(one, other):
        seen.append((set(one.tolist()), set(other.tolist())))
        return {"value": float(len(seen))}

    floors = noise_floors(spread, np.arange(40), n=15, splits=20)
    assert floors["value"].mean == pytest.approx(10.5)
    assert floors["value"].p95 == pytest.approx(np.quantile(np.arange(1, 21), 0.95))
    assert floors["value"].n == floors["value"].halves == 15
    assert all(len(one) == len(other) == 15 and not one & other for one, other in seen)
    assert len({frozenset(one) for one, _ in seen}) > 15


@pytest.mark.parametrize("power", [1.0, 0.5, 0.3])
def test_floors_are_carried_on_to_n_by_the_power_they_fall_with(power):
    floors = noise_floors(
        lambda one, _: {"value": len(one) ** -power, "none": 0.0}, np.arange(64), n=100, splits=3
    )
    assert floors["value"].mean == pytest.approx(100**-power)
    assert floors["value"].halves == 32 and floors["none"].p95 == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multidogo", "multiwoz"])
def test_floors_agree_with_the_recorded_ones(name):
    path = corpus(name)
    recorded = json.loads((path.parents[1] / "noise_floor.json").read_text())[name]
    conversations = list(read_log(path, strict=True))
    if name == "multiwoz":
        conversations += read_log(corpus(name, "dev"), strict=True)
    drawn = np.random.default_rng(0).permutation(len(conversations))[:1250]
    conversations = [conversations[n] for n in drawn]
    tallies = tallied(conversations)

    def measure(one, other):
        return tallies.measure(*halves(len(conversations), one, other))

    for n in (250, 500):
        floors = noise_floors(measure, np.arange(len(conversations)), n, splits=30)
        for metric, key in {
            "length_js": "len_js", "length_kl": "len_kl", "length_wasserstein": "len_w1",
            "turn_js": "turns_js", "act_js": "act_js", "act_bigram_js": "actbi_js",
            "word_js": "uni_js", "vocab_overlap": "vocab_jac1000",
        }.items():  # fmt: skip
            mean, p95 = recorded[str(n)][key]
            # Of 30 splits, whose standard deviation is about the way from mean to p95 ÷ 1.6, the
            # means of two draws of splits are ± 4 standard errors apart at most.
            assert abs(floors[metric].mean - mean) < max(0.5 * abs(p95 - mean), 0.03 * mean), metric


@pytest.mark.slow
def test_floors_carried_on_come_near_those_measured_at_n():
    conversations = list(read_log(corpus("multidogo"), strict=True))
    drawn = np.random.default_rng(0).permutation(len(conversations))[:2000]
    conversations = [conversations[n] for n in drawn]  # the log is sorted by domain
    tallies = tallied(conversations)

    def measure(one, other):
        return tallies.measure(*halves(len(conversations), one, other))

    measured = noise_floors(measure, np.arange(2000), 500, splits=60)
    carried = noise_floors(measure, np.arange(500), 500, splits=60)
    for metric in ("length_js", "turn_js", "act_js", "act_bigram_js", "word_js", "length_kl"):
        assert carried[metric].mean == pytest.approx(measured[metric].mean, rel=0.3), metric


# Classifiers


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 3)), min_size=1))
def test_the_weighted_auc_is_that_of_all_pairs(examples):
    rank, label, weight = np.array(examples).T
    ones = [(r, w) for r, k, w in examples if k == 1]
    zeros = [(r, w) for r, k, w in examples if k == 0]
    pairs = sum(v * w for _, v in ones for _, w in zeros)
    found = weighted_auc(rank, label, weight.astype(float))
    if not pairs:
        assert np.isnan(found)
        return
    won = sum(v * w * ((r > s) + (r == s) / 2) for r, v in ones for s, w in zeros)
    assert found == pytest.approx(won / pairs)


def test_real_halves_cannot_be_told_apart_and_scripts_can():
    real, other = callers(100), callers(100, seed=1)
    for level in ("turn", "character", "context", "conversation"):
        same = classifier_two_sample_test(real, other, level)
        apart = classifier_two_sample_test(real, scripted(other), level)
        assert 0.4 < same.auc < 0.6 and same.low < 0.52 and same.high > 0.48, level
        assert apart.auc > 0.95 and apart.low > 0.9, level
        assert same.low <= same.auc <= same.high
        assert same.examples[0] == same.examples[1] or level != "conversation"


@pytest.mark.parametrize("level", ["turn", "character"])
def test_folds_hold_whole_conversations(level):
    """Were turns split, the word that each conversation keeps repeating would tell its side."""
    chance = np.random.default_rng(0)
    words = ["".join(chance.permutation(list("abcdefghijklmnop"))) for _ in range(120)]
    talks = [talk(word, *[f"{word} again"] * 6) for word in words]
    found = classifier_two_sample_test(talks[:60], talks[60:], level)
    assert 0.35 < found.auc < 0.65


def test_a_bag_of_real_turns_is_seen_by_context_and_conversation_alone():
    real, wrong = callers(100), bag(callers(100, seed=1))
    found = {
        level: classifier_two_sample_test(real, wrong, level)
        for level in ("turn", "character", "context", "conversation")
    }
    assert found["turn"].auc < 0.58 and found["character"].auc < 0.58
    assert found["context"].auc > 0.65 and found["conversation"].auc > 0.9
    assert any("first turn" in name for name in found["conversation"].more_real)


def test_the_same_seed_gives_the_same_result_and_another_gives_another():
    real, other = callers(40), bag(callers(40, seed=1))
    one, same, new = (
        classifier_two_sample_test(real, other, "context", seed=seed) for seed in (3, 3, 4)
    )
    assert one == same and one != new


def test_without_agent_turns_there_is_no_test_of_context():
    real = [talk(str(n), "hi", "my name is Ann", "bye") for n in range(20)]
    assert classifier_two_sample_test(real, real, "context") is None


def test_conversations_without_a_turn_of_the_users_are_left_out():
    silent = [talk(str(n), "a:Hello?", " ") for n in range(30)]
    alone = classifier_two_sample_test(callers(20), callers(20, seed=1))
    among = classifier_two_sample_test(callers(20), [*silent, *callers(20, seed=1)])
    assert among == alone and among.examples == (20, 20)
    assert classifier_two_sample_test(callers(20), silent) is None


def test_an_unknown_level_is_one_sentence():
    with pytest.raises(InvalidConfiguration, match="it takes one of turn, character"):
        classifier_two_sample_test(callers(10), callers(10), "word")


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    monkeypatch.setitem(__import__("sys").modules, "sklearn.linear_model", None)
    with pytest.raises(MissingExtra, match=r"convgym\[calibration\]"):
        classifier_two_sample_test(callers(20), callers(20, seed=1), "turn")
