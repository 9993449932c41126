"""Many conversations stepped as rows of integers: the batched engine as a vector env.

    seeds ─► keys ─► tasks, personas ─► open_rows ─┐
    acts ────────────────────────────► step_rows ──┼─► features, masks, rewards, infos
    vectors ─► nearest candidates ───► step_rows ──┤
    replies ─► readings ─────────► step_readings ──┘

What it returns is what `gymnasium.vector.SyncVectorEnv` returns for the same seeds, keywords and
actions, in every autoreset mode. A text among the infos is made when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from convgym.engine import batch
from convgym.engine.batched_domain import BatchedDomain
from convgym.envs.autoreset import DISABLED, NEXT_STEP, SAME_STEP, gymnasium_mode, mode_named
from convgym.envs.batched_embeddings import BatchedEmbeddings
from convgym.envs.batched_episodes import BatchedEpisodes, Rows
from convgym.envs.batched_infos import BatchedInfos
from convgym.envs.batched_replies import BatchedReplies
from convgym.envs.batched_views import BatchedViews
from convgym.envs.batched_words import BatchedWords
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.modes import ACTION_LENGTH
from convgym.envs.rows import is_one_each, reset_asked, row_of
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.spaces import sanitize

Features = NDArray[np.float32]
Step = tuple[
    Features, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]


class BatchedVectorEnv(VectorEnv[Any, Any, Any]):
    """`num_envs` conversations in acts, vectors or words; all but transcripts is seen.

    `single` is one environment with the keywords of all of them; it is never stepped. `batched` is
    its domain on rows.
    """

    def __init__(
        self,
        single: ConversationEnv,
        batched: BatchedDomain,
        num_envs: int = 1,
        autoreset_mode: Any = NEXT_STEP,
    ) -> None:
        if num_envs < 1:
            raise InvalidConfiguration(f"num_envs={num_envs!r}; it takes 1 or more")
        self.num_envs = num_envs
        self.render_mode = None
        self.single_action_space = single.action_space
        self.action_space = batch_space(single.action_space, num_envs)
        self.single_observation_space = single.observation_space
        self.observation_space = batch_space(single.observation_space, num_envs)
        self._mode = mode_named(autoreset_mode)
        self.metadata = {**single.metadata, "autoreset_mode": gymnasium_mode(self._mode)}
        self._single, self._conditions = single, single.conditions
        domain = single.domain
        self._episodes = BatchedEpisodes(single, batched, num_envs)
        self._infos = BatchedInfos(
            self._episodes, batched, self._conditions, tuple(domain.violations)
        )
        words, seen = None, self._conditions.observation
        if seen != "features":
            words = BatchedWords(self._episodes, batched, self._conditions)
        self._words = words
        self._views = None
        if words is not None and seen == "dict":
            self._views = BatchedViews(self._episodes, batched, domain, words)
        self._embeddings = None
        if words is not None and seen == "embedding":
            newest = single.embedding.newest
            self._embeddings = BatchedEmbeddings(self._episodes, words, newest)
        in_text = self._conditions.action == "text"
        self._replies = BatchedReplies(batched, num_envs) if in_text else None
        self._needs = batch.action_needs(domain.actions, domain.layout["always"])
        self._every: Rows = np.arange(num_envs, dtype=np.int32)
        self._over = np.ones(num_envs, dtype=bool)
        """Rows without an episode under way."""
        self._was_reset = False

    # -- reset -----------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Features, dict[str, Any]]:
        """Begin all episodes, or those of `options["reset_mask"]`, a bool array of `num_envs`.

        The other options are those of a single environment's `reset`, for all of them. A seed is
        that of the first row, and each row after it has the next; or one for each row.
        """
        seeds, mask, rest = reset_asked(self.num_envs, seed, options)
        rows = self._every if mask is None else np.flatnonzero(mask).astype(np.int32)
        given = None if seed is None else [seeds[row] for row in rows.tolist()]
        self._begin(rows, given, rest)
        self._hear_openings(rows)
        self._episodes.look()
        some = None if mask is None else rows
        observations, masks = self._seen()
        return observations, self._infos.of(some, masks if some is None else masks[some])

    def reset_rows(
        self,
        rows: Sequence[int],
        seeds: Sequence[int | None],
        options: Sequence[Mapping[str, Any]],
        fields: Sequence[str],
    ) -> list[tuple[Any, dict[str, Any]]]:
        """Begin `rows`, each with its own seed and reset options (`convgym.envs.rows`).

        Gives the observation and the `fields` of the info of each, in their order. Rows whose
        options differ in the number of their task alone begin in one call.
        """
        alike: dict[str, list[int]] = {}
        for place, own in enumerate(options):
            rest = {**own, "task_id": str(own.get("task_id", "")).rpartition("-")[0]}
            alike.setdefault(repr(sorted(rest.items())), []).append(place)
        for places in alike.values():
            given = [str(options[place].get("task_id", "")) for place in places]
            self._begin(
                np.array([rows[place] for place in places], dtype=np.int32),
                [seeds[place] for place in places],
                dict(options[places[0]]),
                given if given[0] else None,
            )
        chosen = np.array(rows, dtype=np.int32)
        self._hear_openings(chosen)
        self._episodes.look()
        seen, masks = self._seen(chosen)
        infos = self._infos.of(chosen, masks)
        kept = {name: infos[name] for name in fields if name in infos}
        return [
            (row_of(seen, place), {name: values[row] for name, values in kept.items()})
            for place, row in enumerate(rows)
        ]

    def _begin(
        self,
        rows: Rows,
        seeds: list[int | None] | None,
        options: dict[str, Any],
        task_ids: list[str] | None = None,
    ) -> None:
        setup = self._conditions.setup
        if options:
            topics = self._single.domain.topics
            setup = setup.overridden(options, topics, "reset's options")
        self._episodes.begin(rows, seeds, setup, task_ids)
        if self._words is not None:
            self._words.begin(rows, setup)
        if self._views is not None:
            self._views.begin(rows)
        if self._embeddings is not None:
            self._embeddings.begin(rows)
        self._over[rows] = False
        self._was_reset = True

    def _hear_openings(self, rows: Rows) -> None:
        if self._embeddings is not None:
            self._embeddings.hear(rows, [None] * len(rows))

    # -- step --------------------------------------------------------------------------------------

    def step(self, actions: Any) -> Step:
        """One act in every row; what an episode's end brings depends on the autoreset mode."""
        numbers = self._decoded(actions)
        if not self._was_reset:
            raise gym.error.ResetNeeded("step came before the first reset; call reset first")
        over = self._over.copy() if self._mode == NEXT_STEP else None
        if over is None or not over.any():
            stepped, begun = self._every, None
            if self._over.any():
                raise gym.error.ResetNeeded(
                    f"{int(self._over.sum())} of {self.num_envs} episodes are over, and nothing "
                    'resets them; call reset with options={"reset_mask": …} first'
                )
        else:
            stepped = np.flatnonzero(~over).astype(np.int32)
            begun = np.flatnonzero(over).astype(np.int32)
        if len(stepped):
            self._take(stepped, numbers[stepped])
        if begun is not None:
            self._begin(begun, None, {})
        if self._embeddings is not None:
            self._embeddings.hear(self._every, self._spoken(actions, numbers, begun))
        episodes = self._episodes
        episodes.look()
        rewards, shaping = episodes.rewards()
        ended, truncated = episodes.ended, episodes.truncated
        final: dict[str, Any] = {}
        if self._mode == SAME_STEP and ended.any():
            final = self._finish(np.flatnonzero(ended).astype(np.int32), shaping)
        else:
            self._over = ended.copy()
        observations, masks = self._seen()
        infos = self._infos.of(None, masks, shaping)
        for key, value in final.items():
            infos[key] = value
        return observations, rewards, ended & ~truncated, truncated, infos

    def _take(self, rows: Rows, numbers: Rows) -> None:
        if self._replies is None:
            self._episodes.step(rows, numbers)
        else:
            self._episodes.step_replies(rows, self._replies, numbers)

    def _finish(self, rows: Rows, shaping: NDArray[np.float64] | None) -> dict[str, Any]:
        """The last observations and infos of episodes that end, and the next ones begun."""
        observations = np.full(self.num_envs, None, dtype=object)
        seen, masks = self._seen(rows)
        for place, row in enumerate(rows.tolist()):
            observations[row] = row_of(seen, place)
        infos = self._infos.of(rows, masks, shaping)
        standing = np.zeros(self.num_envs, dtype=bool)
        standing[rows] = True
        self._begin(rows, None, {})
        self._hear_openings(rows)
        self._episodes.look()
        return {
            "final_obs": observations,
            "_final_obs": standing,
            "final_info": infos,
            "_final_info": standing.copy(),
        }

    def _spoken(self, actions: Any, numbers: Rows, begun: Rows | None) -> list[str | None]:
        """The agent's reply in each row, an act's candidate; None in rows that have begun."""
        replies: list[str | None]
        if self._replies is None:
            replies = [self.candidates[number] for number in numbers.tolist()]
        else:
            replies = [sanitize(text, ACTION_LENGTH) for text in actions]
        for row in () if begun is None else begun.tolist():
            replies[row] = None
        return replies

    def _decoded(self, actions: Any) -> Rows:
        """Actions as numbers: of acts, or the places of replies; raises InvalidAction."""
        if self._replies is not None:
            return self._read(actions)
        if self._conditions.action == "embedding":
            candidates = self._single.embedding.candidates
            return candidates.nearest(actions, self.action_masks()).astype(np.int32)
        return self._checked(actions)

    def _checked(self, actions: Any) -> Rows:
        """Actions as act numbers; raises InvalidAction for anything else."""
        try:
            numbers = np.asarray(actions)
        except ValueError:  # rows of unequal length
            numbers = np.array(str(actions))
        most = len(self._needs)
        whole = numbers.shape == (self.num_envs,) and numbers.dtype.kind in "iu"
        if not whole or numbers.min() < 0 or numbers.max() >= most:
            raise InvalidAction(
                f"the actions {np.array2string(numbers, threshold=4)[:60]} are not "
                f"{self.num_envs} whole numbers from 0 to {most - 1}"
            )
        return numbers.astype(np.int32)

    def _read(self, actions: Any) -> Rows:
        """Replies as their places among those read; raises InvalidAction for anything else."""
        assert self._replies is not None
        if not is_one_each(actions, self.num_envs):
            raise InvalidAction(
                f"{actions!r:.60} came for {self.num_envs} environments; give a list of texts, one "
                "for each"
            )
        return self._replies.places(actions)

    # -- what is seen ----------------------------------------------------------------------------

    def _seen(self, rows: Rows | None = None) -> tuple[Any, NDArray[np.int8]]:
        """Observations of all rows or some, and their masks.

        Observations are an array, a tuple of messages, or a dictionary of arrays and tuples.
        """
        in_words = self._words is not None
        features, masks = self._numbers(rows, not in_words or self._views is not None)
        if self._words is None:
            return features, masks
        rows = self._every if rows is None else rows
        if self._views is not None:
            return self._views.observed(rows, features), masks
        if self._embeddings is not None:
            return self._embeddings.seen(rows), masks
        return tuple(self._words.messages(rows, self._episodes.quotes)), masks

    def _numbers(
        self, rows: Rows | None, has_features: bool
    ) -> tuple[Features, NDArray[np.int8]]:
        """Features, if they are seen, and masks of all rows or some."""
        belief = self._episodes.belief if rows is None else self._episodes.belief[rows]
        count, cells = belief.shape
        features = np.empty((count if has_features else 0, cells), dtype=np.float32)
        masks = np.empty((count, len(self._needs)), dtype=np.int8)
        told = masks
        if self._replies is not None:  # whoever speaks in words may say anything
            masks[:], told = 1, masks[:0]
        batch.see(self._needs, self._conditions.scale, belief, told, features)
        return features, masks

    def leave_out(self, *names: str) -> None:
        """Show these parts of `observation="dict"` no longer, from the next reset on.

        For who plays many conversations and looks at the rest alone: a `view` takes longer to make
        than all else of a step. Raises InvalidConfiguration for a part that is not shown.
        """
        shown = self.single_observation_space
        parts = dict(shown.items()) if isinstance(shown, spaces.Dict) else {}
        if self._views is None or not set(names) <= parts.keys():
            raise InvalidConfiguration(
                f"{', '.join(names)} cannot be left out of what is shown; it is "
                f"{', '.join(parts) or 'no Dict'}, so name parts of it"
            )
        self._views.left_out |= set(names)
        kept = {name: part for name, part in parts.items() if name not in names}
        self.single_observation_space = spaces.Dict(kept)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    # -- what single environments are asked for ---------------------------------------------------

    @property
    def candidates(self) -> tuple[str, ...]:
        """The reply that stands for each act, by its number."""
        return self._single.candidates

    @property
    def candidate_vectors(self) -> NDArray[np.float32]:
        """The candidates' vectors, not to be written to.  # (actions, dim)"""
        return self._single.candidate_vectors

    def action_masks(self) -> NDArray[np.int8]:
        """1 for each act that is legal now.  # (num_envs, actions)"""
        return self._numbers(None, has_features=False)[1]

    def system_prompts(self) -> tuple[str, ...]:
        """Policy document and tool schemas of each running episode."""
        domain, ids = self._single.domain, self._episodes.task_ids()
        prompts = []
        for task_id in ids:
            split, number = task_id.rsplit("-", 1)
            document = domain.policy_document(domain.task(split, int(number)))
            prompts.append(f"{document}\n\nTools:\n{domain.tools}")
        return tuple(prompts)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """`name` of every environment: `action_masks` or `system_prompt`."""
        if name == "action_masks" and not (args or kwargs):
            return tuple(self.action_masks())
        values = self.get_attr(name)
        if args or kwargs or callable(values[0]):
            raise AttributeError(
                f"rows have no method {name!r} to call; there are action_masks and the attributes "
                "of a single environment"
            )
        return values

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute `name` of every environment; raises AttributeError where there is none.

        Rows have no environment of their own: what differs between them is `system_prompt`; all
        else is the attribute of one environment with the same keywords.
        """
        if name == "system_prompt":
            return self.system_prompts()
        return (getattr(self._single, name),) * self.num_envs

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed that each row was reset with last."""
        return tuple(-1 if seed is None else seed for seed in self._episodes.seeds)


__all__ = ["DISABLED", "NEXT_STEP", "SAME_STEP", "BatchedVectorEnv"]
