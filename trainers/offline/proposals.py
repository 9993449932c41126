"""Says the best of the replies that somebody proposes, such as a language model.

    observation ─► propose ─► K texts ─► their vectors ─► Q(s, e(a_k)) ─► the best text

K may differ from turn to turn, and the texts need not be in the data. Plays `action="text"`.
Knows nothing of who proposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.offline.candidate_policy import CandidatePolicy
from trainers.offline.codecs import Codec


class ProposalPolicy:
    """`learnt` by candidate_cql, from what `codec` read, chooses among `propose(observation)`."""

    def __init__(
        self, learnt: CandidatePolicy, codec: Codec, propose: Callable[[Any], Sequence[str]]
    ) -> None:
        self.learnt, self.codec, self.propose = learnt, codec, propose
        self.name = f"{learnt.name} of proposals"
        self._seen: list[Any] = []
        self._said: list[str] = []

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self._seen, self._said = [], []

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[str, Any]:
        """The text; raises InvalidConfiguration where nothing is proposed."""
        self._seen.append(observation)
        texts = list(self.propose(observation))
        if not texts:
            raise InvalidConfiguration("no reply was proposed; propose one or more")
        row = self.codec.observations.rows(self._seen, self._said)[-1]
        best = self.learnt.choose(row, self.codec.actions.replies.encode(texts))
        self._said.append(texts[best])
        return texts[best], state
