"""Can a classifier tell simulated users from real ones? The AUC of one that tries.

    level          an example is        told by                                     classifier
    turn           a turn               its vector                                  logistic
    character      a turn               its runs of 2 to 4 characters               logistic
    context        a turn after one     its vector × that of the agent's turn       logistic
                   of the agent's       before it, and how alike they are
    conversation   a conversation       turns, lengths, shares of marks and acts,   boosted trees
                                        and those of the first and last turn

Classifier two-sample tests (Lopez-Paz & Oquab, 2017, arXiv:1610.06545): ½ where nothing tells the
two apart, 1 where everything does. Conversations, never turns, are split into five folds; each is
scored by what was learnt of the other four, and the AUC is the mean of the folds'. Under equal
distributions it tends to lie a little below ½, because what one fold has too many of, the others
lack.

What a newcomer would get wrong: a user whose every turn is real, but answers something else, is
unseen by the first two levels and seen by the last two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.turns import MARKS, NO_ACT, Floats, Ints, UserTurns
from convgym.conversation import Conversation
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.evaluation.bootstrap import TaskBootstrap
from convgym.language.encoders import Encoder, HashedEncoder

Level = Literal["turn", "character", "context", "conversation"]
LEVELS: tuple[Level, ...] = get_args(Level)

FOLDS = 5
FEWEST = 2 * FOLDS
"""Conversations of a side with an example."""
RESAMPLES = 200
COMPONENTS = 12
"""Principal components of the user's and of the agent's vectors, each times each."""
MOST_ACTS = 16
SHOWN = 5
"""So many features, or turns, are named for each side."""
REAL, SIM = 0, 1
"""Sides of a comparison; -1 is neither."""


@dataclass(frozen=True, eq=False)
class Examples:
    """What a classifier sees of some conversations; the same for whichever it compares."""

    features: Any
    """A matrix, dense or sparse.  (E, d)"""
    owner: Ints
    """The conversation of each example.  (E,)"""
    names: Sequence[str] | None
    """Of the features; None where they mean nothing by themselves."""
    texts: Sequence[str]
    """What to show of each example where features have no names.  (E,)"""
    learner: Callable[[], Any]

    def without(self, dropped: NDArray[np.bool_]) -> Examples:
        """Those turns that are not `dropped`.  (E,)"""
        kept = np.flatnonzero(~dropped)
        texts = [self.texts[at] for at in kept.tolist()]
        return Examples(self.features[kept], self.owner[kept], self.names, texts, self.learner)


@dataclass(frozen=True)
class TwoSampleResult:
    """What one classifier made of it."""

    level: Level
    auc: float
    low: float
    high: float
    """95 %, by drawing conversations again; the classifiers stay."""
    more_simulated: tuple[str, ...]
    """Features that are larger among the simulated, or turns that look most simulated."""
    more_real: tuple[str, ...]
    examples: tuple[int, int]
    """Real and simulated ones."""


def classifier_two_sample_test(
    real: Sequence[Conversation],
    sim: Sequence[Conversation],
    level: Level = "conversation",
    *,
    encoder: Encoder | None = None,
    seed: int = 0,
) -> TwoSampleResult | None:
    """Try to tell simulated conversations from real ones at one level; see the module.

    Best with as many of each; conversations in which the user says nothing are left out. None where
    fewer than ten of a side have an example, as at the context level of logs without agent turns.

    Raises InvalidConfiguration for another level, MissingExtra without scikit-learn.
    """
    if level not in LEVELS:
        raise InvalidConfiguration(f"level={level!r}; it takes one of {', '.join(LEVELS)}")
    encoder = encoder or HashedEncoder()
    sides = [
        [c for c in some if any(m.content.strip() for m in c.said_by("user"))]
        for some in (real, sim)
    ]
    if min(map(len, sides)) < FEWEST:
        return None
    side = np.repeat([REAL, SIM], [len(some) for some in sides])
    turns = UserTurns.of([*sides[REAL], *sides[SIM]]).with_comparable_acts(side, None)
    examples = examples_of(level, turns, encoder.encode(turns.texts), encoder)
    return run_test(level, examples, side, seed)


def examples_of(
    level: Level, turns: UserTurns, vectors: NDArray[Any], encoder: Encoder
) -> Examples:
    """The examples of a level, one or none a turn or one a conversation.

    vectors: of the turns, by the encoder.  (T, d)
    """
    if level == "conversation":
        return _conversation_examples(turns)
    if level == "character":
        return _character_examples(turns)
    if level == "turn":
        return Examples(vectors, turns.owner, None, turns.texts, _logistic)
    return _context_examples(turns, vectors, encoder)


def run_test(level: Level, examples: Examples, side: Ints, seed: int) -> TwoSampleResult | None:
    """`classifier_two_sample_test` of conversations that are real, 0, simulated, 1, or neither, -1.

    side: (conversations,)
    """
    scored = held_out_scores(examples, side, seed)
    if scored is None:
        return None
    redraws = np.ones((RESAMPLES, len(side)))
    for which in (REAL, SIM):
        members = np.flatnonzero(side == which)
        redraws[:, members] = TaskBootstrap(len(members), 2 * seed + which).counts(0, RESAMPLES)
    value = scored.auc(np.ones(len(side)))
    moved = np.array([scored.auc(weights) for weights in redraws])
    low, high = np.clip(value + np.nanquantile(moved - np.nanmean(moved), (0.025, 0.975)), 0, 1)
    simulated, real = _telling(examples, scored)
    count = int((scored.label == REAL).sum()), int((scored.label == SIM).sum())
    return TwoSampleResult(level, value, float(low), float(high), simulated, real, count)


@dataclass(frozen=True, eq=False)
class Scores:
    """How simulated each example looks to classifiers that have not seen its conversation."""

    at: Ints
    """Which example; all below are in the same order.  (S,)"""
    label: Ints
    fold: Ints
    owner: Ints
    rank: Ints
    """Of the score within its fold; equal for equal scores."""
    score: Floats

    def auc(self, weights: Floats) -> float:
        """Mean over folds, with a weight for each conversation; a fold without a side is left out.

        weights: (conversations,)
        """
        weight = weights[self.owner]
        found = [
            weighted_auc(self.rank[part], self.label[part], weight[part])
            for part in (self.fold == fold for fold in range(FOLDS))
        ]
        return float(np.nanmean(found))


def held_out_scores(examples: Examples, side: Ints, seed: int) -> Scores | None:
    """Score each example of the two sides; None where a side has too few for five folds."""
    label = side[examples.owner]
    fold_of = np.full(len(side), -1)
    chance = np.random.default_rng(seed)
    for which in (REAL, SIM):
        members = np.unique(examples.owner[label == which])
        if len(members) < FEWEST:
            return None
        fold_of[chance.permutation(members)] = np.arange(len(members)) % FOLDS
    at = np.flatnonzero(label >= 0)
    features, label, owner = examples.features[at], label[at], examples.owner[at]
    fold, score, rank = fold_of[owner], np.empty(len(at)), np.empty(len(at), dtype=np.int64)
    for number in range(FOLDS):
        learner, held = examples.learner(), fold == number
        learner.fit(features[np.flatnonzero(~held)], label[~held])
        score[held] = learner.decision_function(features[np.flatnonzero(held)])
        rank[held] = np.unique(score[held], return_inverse=True)[1]
    return Scores(at, label, fold, owner, rank, score)


def weighted_auc(rank: Ints, label: Ints, weight: Floats) -> float:
    """P(score of a 1 > that of a 0) + ½ P(equal), of weighted examples; NaN without both.

    `rank` are the scores as numbers from 0.  all (n,)
    """
    kinds = int(rank.max()) + 1
    ones = np.bincount(rank, weight * (label == 1), kinds)
    zeros = np.bincount(rank, weight * (label == 0), kinds)
    pairs = ones.sum() * zeros.sum()
    return float(ones @ (np.cumsum(zeros) - zeros / 2) / pairs) if pairs else np.nan


def _telling(examples: Examples, scored: Scores) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What tells the simulated, and what the real: named features, else turns."""
    if examples.names is None:
        order = np.argsort(scored.score, kind="stable")
        texts = [examples.texts[scored.at[place]] for place in order]
        return tuple(dict.fromkeys(texts[::-1]))[:SHOWN], tuple(dict.fromkeys(texts))[:SHOWN]
    features = examples.features[scored.at]
    strengths = _own_aucs if isinstance(features, np.ndarray) else _differences
    strength = strengths(features, scored.label)
    order = np.argsort(strength, kind="stable")
    above = [f"{examples.names[i]} ({strength[i]:+.2f})" for i in order[::-1] if strength[i] > 0]
    below = [f"{examples.names[i]} ({strength[i]:+.2f})" for i in order if strength[i] < 0]
    return tuple(above[:SHOWN]), tuple(below[:SHOWN])


def _own_aucs(features: Floats, label: Ints) -> Floats:
    """Of each feature alone: its AUC − ½, above 0 where it is larger among the simulated.  (d,)"""
    ones = np.ones(len(label))
    ranks = [np.unique(column, return_inverse=True)[1] for column in features.T]
    return np.array([weighted_auc(rank, label, ones) - 0.5 for rank in ranks])


def _differences(features: Any, label: Ints) -> Floats:
    """Of each feature: its mean among the simulated − that among the real, in sd.  (d,)"""
    means = [np.asarray(features[np.flatnonzero(label == k)].mean(axis=0))[0] for k in (0, 1)]
    mean, square = (np.asarray(m.mean(axis=0))[0] for m in (features, features.multiply(features)))
    return (means[1] - means[0]) / np.sqrt(np.maximum(square - mean**2, 1e-12))


def _character_examples(turns: UserTurns) -> Examples:
    text = _sklearn("feature_extraction.text")
    counter = text.TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), lowercase=False, min_df=3, sublinear_tf=True
    )
    features = counter.fit_transform(turns.texts).tocsr()
    names = [repr(run) for run in counter.get_feature_names_out()]
    return Examples(features, turns.owner, names, turns.texts, _logistic)


def _context_examples(turns: UserTurns, vectors: NDArray[Any], encoder: Encoder) -> Examples:
    """The agent's own features are left out: what tells agents apart tells nothing of the user."""
    after = turns.prompted
    said = vectors[after]
    heard = encoder.encode([prompt for prompt in turns.prompts if prompt])
    if not len(said):
        return Examples(np.empty((0, 1)), turns.owner[after], None, [], _logistic)
    one, other = _components(said), _components(heard)
    products = (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
    alike = 10 * (said * heard).sum(axis=1, keepdims=True)
    exchanges = zip(turns.prompts, turns.texts, strict=True)
    shown = [f"{prompt} → {text}" for prompt, text in exchanges if prompt]
    features = np.hstack([one, products, alike])
    return Examples(features, turns.owner[after], None, shown, _weak_logistic)


def _components(vectors: NDArray[Any]) -> Floats:
    """Principal components, each of mean 0 and variance 1.  (n, d) → (n, COMPONENTS)"""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    values, axes = values[::-1][:COMPONENTS], axes[:, ::-1][:, :COMPONENTS]
    return centred @ axes / np.sqrt(np.maximum(values, 1e-9))


def _conversation_examples(turns: UserTurns) -> Examples:
    named = sorted({act for acts in turns.acts for act in acts} - {NO_ACT})
    count = {name: sum(name in acts for acts in turns.acts) for name in named}
    named = sorted(named, key=lambda name: (-count[name], name))[:MOST_ACTS]
    borne = np.array([[name in acts for name in named] for acts in turns.acts], dtype=np.bool_)
    marks = np.hstack([turns.marks, borne.reshape(len(turns.texts), len(named))])  # (T, m)
    words, logs = turns.lengths, np.log1p(turns.lengths)
    first, last = turns.place == 0, turns.last

    def mean(values: NDArray[Any]) -> Floats:
        return np.bincount(turns.owner, values, turns.conversations) / turns.counts

    spread = np.sqrt(np.maximum(mean(logs**2) - mean(logs) ** 2, 0))
    longest = np.zeros(turns.conversations)
    np.maximum.at(longest, turns.owner, words)
    columns = {
        "turns": turns.counts,
        "words, mean": mean(words),
        "log words, mean": mean(logs),
        "log words, sd": spread,
        "words, longest turn": longest,
        "words, first turn": words[first],
        "words, last turn": words[last],
        "different turns, share": _distinct(turns) / turns.counts,
    }
    for mark, name in zip(marks.T, [*MARKS, *named], strict=True):
        columns[f"{name}, share"] = mean(mark)
        columns[f"{name}, first turn"] = mark[first]
        columns[f"{name}, last turn"] = mark[last]
    features = np.column_stack(list(columns.values())).astype(np.float64)
    owner = np.arange(turns.conversations)
    return Examples(features, owner, list(columns), [], _boosted_trees)


def _distinct(turns: UserTurns) -> Floats:
    """Different texts of each conversation.  (conversations,)"""
    said = dict.fromkeys(zip(turns.owner.tolist(), turns.texts, strict=True))
    owners = [owner for owner, _ in said]
    return np.bincount(owners, minlength=turns.conversations).astype(np.float64)


def _sklearn(part: str) -> Any:
    try:
        from importlib import import_module

        return import_module(f"sklearn.{part}")
    except ImportError as error:
        raise MissingExtra("scikit-learn", "calibration") from error


def _logistic() -> Any:
    return _sklearn("linear_model").LogisticRegression(C=1.0, max_iter=300)


def _weak_logistic() -> Any:
    """More strongly held back: the products of components are many and of variance 1."""
    return _sklearn("linear_model").LogisticRegression(C=0.01, max_iter=300)


def _boosted_trees() -> Any:
    """Of few, coarse trees: on 300 to 1,000 conversations more of them find nothing more."""
    return _sklearn("ensemble").HistGradientBoostingClassifier(
        max_iter=50,
        learning_rate=0.15,
        max_leaf_nodes=8,
        max_bins=31,
        early_stopping=False,
        random_state=0,
    )
