"""Candidate replies, one for each act, and the act that a vector stands for.

    act ─► its fixed wording, slots in words ─► vector of the candidate      (acts, dim)
    action (dim,) ─► cosine with the candidates that are legal now ─► the nearest one's act

A candidate says what an act says in every episode, not its values here: "Shall I cancel order order
with the item? … (2)" asks about the second order in sight, whichever that is. What a newcomer would
get wrong: cosines are sums of whole numbers, which float64 holds exactly, so that a row is decoded
alike alone and among thousands, on every machine.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from convgym.engine.acts import FIRST_TOOL
from convgym.engine.episode import Episode
from convgym.envs.domain import Domain
from convgym.envs.text_vectors import TextVectors
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.language.phrases import PhraseBank
from convgym.users.persona import drawn_levels

Vectors = NDArray[np.float32]

_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_SLOT = re.compile(r"\{(\w+)\}")
_OF_THE_ACT = ("step", "thing")
"""Slots that the act alone fills, whatever the episode."""
_GRID = 1 << 20
"""Parts of 1 that vectors are rounded to: products of 8,192 numbers stay exact."""


class Candidates:
    """The candidate replies of a domain's acts, as texts and as vectors."""

    def __init__(self, domain: Domain, encoder: TextVectors) -> None:
        self._names = domain.actions.names
        self.texts = candidate_texts(domain)
        """One for each act, by its number."""
        self.vectors: Vectors = encoder.of(self.texts)
        """The texts', of length 1 at most; not to be written to.  (acts, dim)"""
        self.vectors.flags.writeable = False
        lengths = np.sqrt(np.square(self.vectors, dtype=np.float64).sum(axis=1, keepdims=True))
        self._grid = np.rint(self.vectors / np.maximum(lengths, 1e-9) * _GRID)

    def space(self) -> CandidateSpace:
        """The actions of one environment.

        Raises InvalidConfiguration where two acts have the same vector.
        """
        first: dict[bytes, str] = {}
        for name, row in zip(self._names, self._grid, strict=True):
            other = first.setdefault(row.tobytes(), name)
            if other != name:
                raise InvalidConfiguration(
                    f"the candidate replies of the acts {other!r} and {name!r} have the same "
                    "vector; word them differently, or take another encoder"
                )
        return CandidateSpace(self.vectors)

    def nearest(self, actions: Any, masks: NDArray[np.int8]) -> NDArray[np.intp]:
        """The act of the nearest legal candidate of each row, by cosine.  (…, dim), (…, acts) → (…)

        Lengths do not count. Of candidates as near, to six digits, the first is taken; from a
        vector of zeros all are as near. Raises InvalidAction for what are no finite numbers.
        """
        numbers = self.checked(actions, masks.shape[:-1])
        largest = np.abs(numbers).max(axis=-1, keepdims=True)
        scaled = np.rint(numbers / np.where(largest > 0.0, largest, 1.0) * _GRID)
        cosines = scaled @ self._grid.T  # (…, acts)
        chosen: NDArray[np.intp] = np.where(masks != 0, cosines, -np.inf).argmax(axis=-1)
        return chosen

    def checked(self, actions: Any, rows: tuple[int, ...] = ()) -> NDArray[np.float64]:
        """The actions as numbers; raises InvalidAction for what are none.  # (*rows, dim)"""
        shape = (*rows, self.vectors.shape[1])
        try:
            given = np.asarray(actions)
        except (TypeError, ValueError):  # rows of unequal length
            given = np.empty(0)
        fits = given.shape == shape and given.dtype.kind in "fiu"
        numbers = given.astype(np.float64) if fits else np.full(1, np.nan)
        if not np.isfinite(numbers).all():
            came = " ".join(str(actions).split())
            raise InvalidAction(
                f"the action {came[:60]!r} is no array of finite numbers of shape {shape}; send "
                "the vector of a reply, such as one of candidate_vectors"
            )
        return numbers


def candidate_texts(domain: Domain) -> tuple[str, ...]:
    """For each act the first of its wordings in `train`, without thoughts, with slots in words.

    What is pointed at is named by its number, from 1: in a tool's call, or after the words.
    """
    bank = domain.agent_banks()["train"]
    worded = PhraseBank({name: [_in_words(bank.variants(name)[0])] for name in bank})
    episode = Episode(domain.task(domain.splits[0], 0), 0, 0, domain.layout.row())
    domain.open(episode, drawn_levels(0, domain.splits[0], -1))
    view, texts = domain.view(episode), []
    for number, act in enumerate(domain.actions.actions):
        reply = _THOUGHT.sub("", domain.agent_reply(number, view, worded, 0))
        text = _SLOT.sub(_name, reply)
        points = act.pointer >= 0 and act.kind < FIRST_TOOL
        texts.append(f"{text} ({act.pointer + 1})" if points else text)
    return tuple(texts)


def _in_words(wording: str) -> str:
    """A wording with the slots in words that an episode would fill."""
    return _SLOT.sub(lambda slot: slot[0] if slot[1] in _OF_THE_ACT else _name(slot), wording)


def _name(slot: re.Match[str]) -> str:
    return slot[1].replace("_", " ")


class CandidateSpace(spaces.Box):
    """`Box(-1, 1, (…, dim), float32)` whose samples are vectors of candidates, each equally likely.

    It holds, compares and stores exactly as that Box does; only `sample()` differs.
    """

    def __init__(
        self,
        vectors: Vectors,
        rows: tuple[int, ...] = (),
        *,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        """One action, or a batch of `rows`; `vectors` are those of the candidates.  (n, dim)"""
        super().__init__(-1.0, 1.0, (*rows, vectors.shape[1]), np.float32, seed=seed)
        self.vectors = vectors

    def sample(self, mask: Any = None, probability: Any = None) -> Vectors:
        """The vectors of candidates drawn anew; a Box takes no mask and no probability."""
        if mask is not None or probability is not None:
            raise InvalidConfiguration(
                "a CandidateSpace draws whole candidates and takes no mask or probability; "
                "choose among candidate_vectors by action_masks() instead"
            )
        drawn = self.np_random.integers(len(self.vectors), size=self.shape[:-1])
        found: Vectors = self.vectors[drawn]
        return found


@batch_space.register(CandidateSpace)
def _batch(space: CandidateSpace, n: int = 1) -> CandidateSpace:
    seed = deepcopy(space.np_random)
    return CandidateSpace(space.vectors, (n, *space.shape[:-1]), seed=seed)
