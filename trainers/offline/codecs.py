"""From what an environment shows and takes to a learner's numbers, and back.

    Minari dataset                       EpisodeArrays, Shapes
    observations  text | dict | box  ─►  BoxObservations, TextObservations, Parts   rows (T + 1, o)
    actions       text | number |    ─►  DiscreteActs          numbers of acts      (T,)
                  vector                 Candidates            numbers of replies   (T,)
                                         EmbeddingRetrieval    vectors of replies   (T, d)

    learnt policy ─► Codec.policy ─► plays action="act" or "embedding"; `RenderedPolicy` words it

A reply is one of the codec's candidates: the one that info `act` names, or else the nearest to the
recorded text or vector. A learner over vectors is told of the candidates (`Shapes.candidates`), so
that it values, bootstraps from and does the reply that a vector is decoded to, and no point between
two replies. Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.envs.text_vectors import TextVectors
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.language.encoders import Encoder
from convgym.policies.policy import Policy
from trainers.offline.config import Shapes
from trainers.offline.observation_codecs import ObservationCodec, Rows

if TYPE_CHECKING:
    from minari import MinariDataset

# -- actions ---------------------------------------------------------------------------------------


class Replies:
    """The candidate replies: their texts, and their vectors of length 1."""

    def __init__(self, texts: Sequence[str], encoder: str | Encoder = "hashed") -> None:
        """Raises InvalidConfiguration for none, or for two with the same vector."""
        if not texts:
            raise InvalidConfiguration("there are no replies to choose from; give one or more")
        self.texts, self._encode = tuple(texts), TextVectors(encoder)
        self.vectors = self.encode(self.texts)  # (K, d)
        first: dict[bytes, int] = {}
        for number, vector in enumerate(self.vectors):
            other = first.setdefault(vector.tobytes(), number)
            if other != number:
                raise InvalidConfiguration(
                    f"the replies {texts[other][:40]!r} and {texts[number][:40]!r} have the same "
                    "vector; word them differently, or take another encoder"
                )

    def numbers(self, actions: Sequence[Any]) -> NDArray[np.int64]:
        """Of each recorded text or vector the nearest reply, by cosine.  # (T,)"""
        texts = isinstance(actions[0], str)
        vectors = self.encode(actions) if texts else np.asarray(actions)
        return (vectors @ self.vectors.T).argmax(axis=1)

    def encode(self, texts: Sequence[str]) -> Rows:
        """Vectors of length 1 of any texts.  (n,) → (n, d)"""
        return _unit_rows(self._encode.of(list(texts)))


class DiscreteActs:
    """A reply is its number: learners learn of each act alone."""

    def __init__(self, replies: Replies) -> None:
        self.replies = replies

    def encoded(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """As a learner takes them."""
        return numbers

    def shapes(self, observation: int) -> Shapes:
        """What networks must fit."""
        return Shapes(observation, len(self.replies.texts), True)

    def number(self, action: Any) -> int:
        """The reply that a learnt policy's action is."""
        return int(action)


class Candidates(DiscreteActs):
    """A reply is its number in a set, and known by its vector: for `candidate_cql`."""

    def shapes(self, observation: int) -> Shapes:
        """What networks must fit."""
        return replace(super().shapes(observation), candidates=self.replies.vectors)


class EmbeddingRetrieval:
    """A reply is its vector; a learnt vector is decoded to the nearest one."""

    def __init__(self, replies: Replies) -> None:
        self.replies = replies

    def encoded(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """As a learner takes them."""
        return self.replies.vectors[numbers]

    def shapes(self, observation: int) -> Shapes:
        """What networks must fit."""
        size = self.replies.vectors.shape[1]
        ones = np.ones(size, dtype=np.float32)
        return Shapes(observation, size, False, -ones, ones, self.replies.vectors)

    def number(self, action: Any) -> int:
        """The reply that a learnt policy's action is."""
        return int(self.replies.numbers([action])[0])


# -- both ------------------------------------------------------------------------------------------


class Codec:
    """Observations and actions of one environment."""

    def __init__(
        self,
        observations: ObservationCodec,
        actions: DiscreteActs | EmbeddingRetrieval,
        nearest: NearestReplies | None = None,
    ) -> None:
        """`nearest`: narrows each turn's candidates to those given in turns alike."""
        self.observations, self.actions, self.nearest = observations, actions, nearest

    @property
    def shapes(self) -> Shapes:
        """What networks must fit; `OfflineLearner.fit` takes it beside the episodes."""
        return self.actions.shapes(self.observations.size)

    def episodes(self, dataset: MinariDataset, discount: float = 1.0) -> list[EpisodeArrays]:
        """A dataset as learners take it.

        Raises DatasetError for acts that are none of the codec's replies.
        """
        read = read_episodes(dataset, discount, self.observations.parts)
        stored = dataset.iterate_episodes()
        return [self.encoded(e, s.infos or {}) for e, s in zip(read, stored, strict=True)]

    def encoded(self, episode: EpisodeArrays, infos: Mapping[str, Any]) -> EpisodeArrays:
        """One episode as learners take it; `infos` may number its acts."""
        replies, acts = self.actions.replies, infos.get("act")
        if acts is not None:
            numbers = np.asarray(acts, dtype=np.int64)[1:]
        elif episode.actions.dtype.kind in "iu":
            numbers = np.asarray(episode.actions, dtype=np.int64)
        else:
            numbers = replies.numbers(list(episode.actions))
        if not (numbers.min() >= 0 and numbers.max() < len(replies.texts)):
            raise DatasetError(
                f"acts go from {numbers.min()} to {numbers.max()}, and the codec has "
                f"{len(replies.texts)} replies; give it one for each act, in their order"
            )
        shown = episode.observations
        if isinstance(shown, Mapping):
            columns = shown
            shown = [
                {part: column[turn] for part, column in columns.items()}
                for turn in range(len(episode) + 1)
            ]
        rows = self.observations.rows(shown, [replies.texts[number] for number in numbers])
        masks = episode.masks
        if self.nearest is not None:
            masks = self.nearest.narrowed(rows, masks)
            masks[np.arange(len(numbers)), numbers] = 1  # what was done could be done
        return replace(
            episode, observations=rows, actions=self.actions.encoded(numbers), masks=masks
        )

    def policy(self, learnt: Policy, *, vectors: bool = False) -> CodecPolicy:
        """A learnt policy that plays the environment: act numbers, or the replies' vectors."""
        return CodecPolicy(learnt, self, vectors)


class NearestReplies:
    """The replies that were given in the recorded turns most alike, by cosine of observations."""

    def __init__(self, episodes: Sequence[EpisodeArrays], replies: int, count: int) -> None:
        """Of `replies` in all, `count` for each turn; `episodes` are a `Codec`'s, of act numbers.

        Raises InvalidConfiguration for a count below 1.
        """
        if count < 1:
            raise InvalidConfiguration(f"count={count}; a turn has 1 candidate or more")
        self.replies, self.count = replies, count
        self._rows = _unit_rows(np.concatenate([e.observations[:-1] for e in episodes]))
        self._numbers = np.concatenate([e.actions for e in episodes])

    def narrowed(self, rows: Rows, masks: NDArray[np.int8] | None) -> NDArray[np.int8]:
        """1 for the candidates of each row, of those that `masks` allow.  (n, o) → (n, replies)

        A turn whose mask allows none of those found keeps the whole mask.
        """
        found = np.zeros((len(rows), self.replies), dtype=np.int8)
        allowed = np.ones_like(found) if masks is None else np.asarray(masks)
        for row, cosines in enumerate(_unit_rows(rows) @ self._rows.T):
            near = self._numbers[np.argsort(-cosines, kind="stable")]
            near = near[allowed[row, near] > 0]
            first = np.unique(near, return_index=True)[1]
            found[row, near[np.sort(first)[: self.count]]] = 1
        return np.where(found.any(axis=1, keepdims=True), found, allowed).astype(np.int8)


def _unit_rows(rows: Rows) -> Rows:
    return np.asarray(
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), dtype=np.float32
    )


class CodecPolicy:
    """Reads an environment's observations for a learnt policy, and remembers the conversation."""

    def __init__(self, learnt: Policy, codec: Codec, vectors: bool) -> None:
        self.learnt, self.codec, self.vectors = learnt, codec, vectors
        self.name = learnt.name
        self._seen: list[Any] = []
        self._said: list[str] = []

    @property
    def propensity(self) -> float:
        """Probability of the newest action, where the learnt policy knows it; else NaN."""
        return float(getattr(self.learnt, "propensity", float("nan")))

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        self.learnt.reset(seed)
        self._seen, self._said = [], []

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """The number of the reply, or its vector."""
        codec, replies = self.codec, self.codec.actions.replies
        self._seen.append(observation)
        row = codec.observations.rows(self._seen, self._said)[-1]
        masks = np.ones(len(replies.texts), np.int8)
        if action_masks is not None:
            masks = np.asarray(action_masks)
        if codec.nearest is not None:
            masks = codec.nearest.narrowed(row[None], masks[None])[0]
        action, state = self.learnt.predict(
            row, state, episode_start, deterministic, action_masks=masks
        )
        number = codec.actions.number(action)
        self._said.append(replies.texts[number])
        return (replies.vectors[number] if self.vectors else number), state
