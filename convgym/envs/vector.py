"""Many conversations stepped together, with their words written at once.

    actions ─► prepare each row ─► requests ─► writer, one call ─► supply ─► step each row

What it returns is what `gymnasium.vector.SyncVectorEnv` returns for the same seeds; only a writer
is asked for all rows of a step in one call, so that rows wait for an endpoint together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from convgym.envs.autoreset import AutoresetMode, mode_named
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.rows import reset_asked
from convgym.errors import InvalidAction
from convgym.language.writing import WriteRequest

if TYPE_CHECKING:
    from convgym.engine.batched_domain import BatchedDomain

MOST_WITHOUT_WRITER = 50
"""Realism, in hundredths, up to which no writer words a turn."""


class ConversationVectorEnv(SyncVectorEnv):
    """`SyncVectorEnv` over conversations. In same-step autoreset, openings are written singly."""

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes, or those of `options["reset_mask"]`; openings are written at once."""
        seeds, mask, rest = reset_asked(self.num_envs, seed, options)
        requests = [
            env.prepare_reset(seed=one, options=rest or None)
            if mask is None or mask[row]
            else None
            for row, (env, one) in enumerate(zip(self._rows(), seeds, strict=True))
        ]
        self._write(requests)
        # As a list: of single numbers Gymnasium takes Python's own only.
        return super().reset(seed=list(seeds), options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of every row; the words of all rows are written at once.

        Raises InvalidAction before any row has stepped.
        """
        each = self._checked(actions)
        requests = [
            env.prepare_reset() if self._begins(row) else env.prepare(action)
            for row, (env, action) in enumerate(zip(self._rows(), each, strict=True))
        ]
        self._write(requests)
        return super().step(each if isinstance(actions, tuple) else actions)

    def _checked(self, actions: Any) -> tuple[Any, ...]:
        """An action for each row; of rows that are due for a reset nobody looks at it."""
        try:
            each = tuple(iterate(self.action_space, actions))
        except (TypeError, ValueError, gym.error.CustomSpaceError):
            each = ()
        if len(each) != self.num_envs or isinstance(actions, str):
            raise InvalidAction(
                f"{actions!r:.60} came for {self.num_envs} environments; give an action for each"
            )
        for row, (env, action) in enumerate(zip(self._rows(), each, strict=True)):
            if not self._begins(row):
                env.check_action(action)
        return each

    @property
    def candidates(self) -> tuple[str, ...]:
        """The reply that stands for each act, by its number."""
        return self._rows()[0].candidates

    @property
    def candidate_vectors(self) -> NDArray[np.float32]:
        """The candidates' vectors, not to be written to.  # (actions, dim)"""
        return self._rows()[0].candidate_vectors

    def _begins(self, row: int) -> bool:
        """Whether this row is reset instead of stepped, as next-step autoreset does."""
        mode = getattr(self, "autoreset_mode", None)  # gymnasium 1.0 knows next-step only
        return bool(self._autoreset_envs[row]) and (mode is None or mode.name == "NEXT_STEP")

    def _rows(self) -> list[ConversationEnv]:
        rows = [env.unwrapped for env in self.envs]
        assert all(isinstance(row, ConversationEnv) for row in rows)
        return rows  # type: ignore[return-value]

    def _write(self, requests: Sequence[WriteRequest | None]) -> None:
        rows = self._rows()
        asked = [row for row, request in enumerate(requests) if request is not None]
        if not asked:
            return
        wanted = [request for request in requests if request is not None]
        for row, written in zip(asked, rows[0].write(wanted), strict=True):
            rows[row].supply(written)


def customer_service(num_envs: int = 1, **keywords: Any) -> VectorEnv[Any, Any, Any]:
    """The vector entry point of `ConvGym/CustomerService-v0`; keywords are the environment's.

    `autoreset_mode` goes to the vector environment, where gymnasium knows it.
    """
    from convgym.envs.customer_service import CustomerServiceEnv

    return _vector_of(CustomerServiceEnv, num_envs, keywords)


def sales(num_envs: int = 1, **keywords: Any) -> VectorEnv[Any, Any, Any]:
    """The vector entry point of `ConvGym/Sales-v0`; see `customer_service`."""
    from convgym.envs.sales import SalesEnv

    return _vector_of(SalesEnv, num_envs, keywords)


def technical_support(num_envs: int = 1, **keywords: Any) -> VectorEnv[Any, Any, Any]:
    """The vector entry point of `ConvGym/TechnicalSupport-v0`; see `customer_service`."""
    from convgym.envs.technical_support import TechnicalSupportEnv

    return _vector_of(TechnicalSupportEnv, num_envs, keywords)


def own_domain(num_envs: int = 1, **keywords: Any) -> VectorEnv[Any, Any, Any]:
    """The vector entry point of `ConvGym/OwnDomain-v0`; see `customer_service`."""
    from convgym.envs.own_domain import OwnDomainEnv

    return _vector_of(OwnDomainEnv, num_envs, keywords)


def _vector_of(
    kind: type[ConversationEnv], num_envs: int, keywords: dict[str, Any]
) -> VectorEnv[Any, Any, Any]:
    """The batched engine where it knows these keywords, else the synchronous environment."""
    vector = {key: keywords.pop(key) for key in ("autoreset_mode",) if key in keywords}
    single = kind(**keywords)
    batched = _batched(single)
    if batched is not None:
        from convgym.envs.batched import BatchedVectorEnv  # compiled code is made by whom it serves

        return BatchedVectorEnv(single, batched, num_envs, **vector)

    def make() -> gym.Env[Any, Any]:
        return kind(**keywords)

    makers: list[Callable[[], gym.Env[Any, Any]]] = [make] * num_envs
    if AutoresetMode is None and vector:  # its vector environment has no such keyword
        mode_named(vector.pop("autoreset_mode"))
    return ConversationVectorEnv(makers, **vector)


def _batched(single: ConversationEnv) -> BatchedDomain | None:
    """Its domain on rows of integers; None where its keywords ask for what these do not have."""
    conditions, domain = single.conditions, single.domain
    worded = conditions.words["train"].voice.realism > MOST_WITHOUT_WRITER
    asks = conditions.privileged or single.render_mode or worded or single.randomizer is not None
    seen = conditions.observation != "transcript"
    if conditions.model is None or asks or not seen or not hasattr(domain, "batched"):
        return None
    batched: BatchedDomain = domain.batched(conditions.model, conditions.max_turns)
    return batched if conditions.action != "text" or batched.reads else None
