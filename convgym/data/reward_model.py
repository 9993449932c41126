"""Can the last reply predict the reward? A linear model, judged on held-out conversations.

    last assistant turn + its tool call ─► hashed 1-2-grams ─┐
    the user turn before it             ─► hashed 1-2-grams ─┴─► logistic (rewards 0 and 1)
                                                                 or ridge (any other rewards)

Prefixes of one conversation must not stand on both sides of the split, or the model is
tested on what it has seen: the side is a hash of `metadata["first_user"]`, else of the id,
and the interval resamples such groups, not single conversations.
Needs scikit-learn (the extra "calibration"). Knows nothing of training agents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation
from convgym.data.statistics import average_ranks, spearman
from convgym.errors import DatasetError, InvalidConfiguration, MissingExtra

MIN_CONVERSATIONS = 100
BOOTSTRAPS = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RewardModelReport:
    """How well the model ranks conversations that it has not seen."""

    metric: str
    """"auc" where every reward is 0 or 1, else "r2"."""
    value: float
    """Held-out; chance is 0.5 for auc, 0 for r2 (below 0: worse than the mean)."""
    interval: tuple[float, float]
    """95 %, bootstrap over held-out groups."""
    baseline: float
    """The same metric for each domain's mean training reward: what needs no reply to know."""
    spearman: float | None
    """Held-out rank correlation of prediction and reward."""
    n_train: int
    n_test: int
    test_groups: int
    """Groups of conversations that share a first user turn."""
    mean_reward: float
    model: tuple[Any, Any] = field(repr=False, compare=False)
    """(vectorizer, fitted scikit-learn model)."""

    def predict(self, conversations: Iterable[Conversation]) -> list[float]:
        """Predicted reward of each conversation; a probability where the metric is auc."""
        vectorizer, model = self.model
        examples = list(conversations)
        if not examples:
            return []
        return [float(value) for value in _predict(model, _features(vectorizer, examples))]


def fit_reward_model(
    conversations: Iterable[Conversation], seed: int = 0, holdout: float = 0.3
) -> RewardModelReport:
    """Fits on `1 - holdout` of the groups and reports on the rest; same seed, same report.

    Only conversations with a reward and an assistant turn count; under 100 it refuses.
    """
    if not 0.0 < holdout < 1.0:
        raise InvalidConfiguration(f"holdout is {holdout}; it must lie between 0 and 1.")
    examples = [c for c in conversations if c.reward is not None and any(c.said_by("assistant"))]
    if len(examples) < MIN_CONVERSATIONS:
        raise DatasetError(
            f"a reward model needs {MIN_CONVERSATIONS} conversations with a reward and an "
            f"assistant turn, here are {len(examples)}; collect more."
        )
    groups = [_group(conversation) for conversation in examples]
    held = np.array([_fraction(group, seed) < holdout for group in groups])  # (N,)
    rewards = np.array([c.reward for c in examples], dtype=np.float64)  # (N,)
    binary = bool(np.isin(rewards, (0.0, 1.0)).all())
    _check_sides(rewards, held)
    vectorizer, model = _new_model(binary, seed)
    features = _features(vectorizer, examples)
    model.fit(features[~held], rewards[~held])
    predicted = _predict(model, features[held])
    metric = auc if binary else r_squared
    names = [group for group, out in zip(groups, held, strict=True) if out]
    return RewardModelReport(
        metric="auc" if binary else "r2",
        value=metric(rewards[held], predicted),
        interval=_bootstrap(metric, rewards[held], predicted, names, seed),
        baseline=metric(rewards[held], _domain_means(examples, rewards, held)),
        spearman=spearman(predicted, rewards[held]),
        n_train=int((~held).sum()),
        n_test=int(held.sum()),
        test_groups=len(set(names)),
        mean_reward=float(rewards.mean()),
        model=(vectorizer, model),
    )


def auc(rewards: Floats, predicted: Floats) -> float:
    """P(a positive is ranked above a negative), ties counting half."""
    positive = rewards > 0.5
    n, m = int(positive.sum()), int((~positive).sum())
    return float((average_ranks(predicted)[positive].sum() - n * (n + 1) / 2) / (n * m))


def r_squared(rewards: Floats, predicted: Floats) -> float:
    """1 - squared error of the model / squared error of the held-out mean."""
    spread = float(((rewards - rewards.mean()) ** 2).sum())
    return 1.0 - float(((rewards - predicted) ** 2).sum()) / spread


def _group(conversation: Conversation) -> str:
    first = conversation.metadata.get("first_user")
    return first if isinstance(first, str) and first else conversation.conversation_id


def _fraction(group: str, seed: int) -> float:
    """A number in [0, 1) that depends on the group and the seed only."""
    digest = sha256(f"{seed}:{group}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def _domain_means(
    examples: Sequence[Conversation], rewards: Floats, held: NDArray[np.bool_]
) -> Floats:
    """For each held-out conversation the mean training reward of its metadata domain."""
    domains = np.array([str(c.metadata.get("domain")) for c in examples])
    known = {d: rewards[~held & (domains == d)].mean() for d in np.unique(domains[~held])}
    overall = rewards[~held].mean()
    return np.array([known.get(domain, overall) for domain in domains[held]])


def _check_sides(rewards: Floats, held: NDArray[np.bool_]) -> None:
    for name, side in (("training", rewards[~held]), ("held-out", rewards[held])):
        if len(side) < 10 or np.ptp(side) == 0.0:
            raise DatasetError(
                f"the {name} part holds {len(side)} conversations and "
                f"{len(set(side.tolist()))} different rewards; a reward model needs at least 10 "
                f"and 2. Collect rewards that vary, or from more different conversations."
            )


def _new_model(binary: bool, seed: int) -> tuple[Any, Any]:
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
    except ImportError:
        raise MissingExtra("scikit-learn", "calibration") from None
    vectorizer = HashingVectorizer(
        n_features=2**18, ngram_range=(1, 2), alternate_sign=False, token_pattern=r"\w+|\?"
    )
    if binary:
        return vectorizer, LogisticRegression(C=3.0, solver="liblinear", random_state=seed)
    return vectorizer, Ridge(alpha=10.0, solver="sparse_cg", random_state=seed)


def _features(vectorizer: Any, conversations: Sequence[Conversation]) -> Any:
    """(N, 2^19) sparse: the reply's n-grams beside those of the user turn before it."""
    from scipy.sparse import hstack

    replies, before = zip(*map(_reply_and_context, conversations), strict=True)
    parts = [vectorizer.transform(replies), vectorizer.transform(before)]
    return hstack(parts, format="csr")


def _reply_and_context(conversation: Conversation) -> tuple[str, str]:
    messages = conversation.messages
    places = [place for place, message in enumerate(messages) if message.role == "assistant"]
    if not places:
        return "", ""
    last = messages[places[-1]]
    call = "" if last.tool_call is None else json.dumps(last.tool_call, sort_keys=True)
    before = (m.content for m in reversed(messages[: places[-1]]) if m.role == "user")
    return f"{last.content} {call}".strip(), next(before, "")


def _predict(model: Any, features: Any) -> Floats:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(features)[:, 1], dtype=np.float64)
    return np.asarray(model.predict(features), dtype=np.float64)


def _bootstrap(
    metric: Callable[[Floats, Floats], float],
    rewards: Floats,
    predicted: Floats,
    groups: Sequence[str],
    seed: int,
) -> tuple[float, float]:
    """Percentiles over resampled groups; draws with a single reward value are drawn again."""
    chance = np.random.default_rng(seed)
    members: dict[str, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    rows_of = [np.array(rows) for rows in members.values()]
    values: list[float] = []
    for _ in range(10 * BOOTSTRAPS):
        rows = np.concatenate(
            [rows_of[g] for g in chance.integers(len(rows_of), size=len(rows_of))]
        )
        if np.ptp(rewards[rows]) > 0.0:
            values.append(metric(rewards[rows], predicted[rows]))
        if len(values) == BOOTSTRAPS:
            break
    low, high = np.percentile(values, (2.5, 97.5)) if values else (np.nan, np.nan)
    return float(low), float(high)
