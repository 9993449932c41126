"""Runs of the command line that learn from conversations that are there: SFT, and DPO.

    sft    Minari dataset of texts ─► token rows ─┐
    dpo    the model's own conversations ─► pairs ┴─► steps ─► rows, checkpoint ─► LanguagePolicy

The pairs of DPO are the model's as it began, so that a run that goes on makes the same ones again;
the reference's numbers are in the checkpoint. Knows nothing of losses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from convgym.data.loading import load_dataset
from convgym.data.local_root import minari_module
from convgym.errors import DatasetError, InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.command import loaded, policy_of, text_environment
from trainers.llm.conversations import read_chats
from trainers.llm.dpo import DPO
from trainers.llm.language_model import LanguageModel
from trainers.llm.language_policy import LanguagePolicy
from trainers.llm.policy_config import FIRST_TRAINING_SEED
from trainers.llm.preferences import Preference, preferences_of
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sft import SFT
from trainers.llm.tokens import TokenRow, conversation_row
from trainers.llm.transformers_sampler import TransformersSampler

if TYPE_CHECKING:
    from minari import MinariDataset

    from convgym.cli.learners import Job

_REPORTS = 50
"""Rows of a run, about."""


# -- SFT -------------------------------------------------------------------------------------------


def open_texts(source: str) -> MinariDataset:
    """The dataset of an id or a folder; raises DatasetError where it is none of texts."""
    folder = Path(source) / "data"
    found = minari_module().MinariDataset(folder) if folder.is_dir() else load_dataset(source)
    if not isinstance(found.action_space, spaces.Text):
        kind = type(found.action_space).__name__
        raise DatasetError(
            f"a language model learns from texts, and {source} has {kind} actions; take a dataset "
            "of texts, such as convgym/customer-service-text/expert-v0"
        )
    return found


def token_rows(dataset: MinariDataset, tokenizer: Any, job: Job) -> list[TokenRow]:
    """Its conversations as tokens, but for those that are too long.

    Raises DatasetError where none is left.
    """
    options = job.options
    chats = read_chats(dataset, system=options.system or "")
    rows = [conversation_row(chat, tokenizer) for chat in chats]
    kept = [row for row in rows if len(row.input_ids) <= options.sampling.max_context]
    if not kept:
        shortest = min(len(row.input_ids) for row in rows)
        raise DatasetError(
            f"none of {len(rows)} conversations fits into max_context="
            f"{options.sampling.max_context}, the shortest has {shortest} tokens; raise "
            "learner.sampling.max_context"
        )
    return kept


def imitate(job: Job) -> LanguagePolicy:
    """SFT on a dataset of texts, from the checkpoint on where there is one."""
    assert job.dataset is not None
    dataset, model = open_texts(job.dataset), loaded(job.options, job.device)
    rows = token_rows(dataset, model.tokenizer, job)
    learner = SFT(job.options.config(job.best), model)
    if job.checkpoint.is_file():
        learner = SFT.load(job.checkpoint, model)
    shows_rules = isinstance(dataset.observation_space, spaces.Dict)
    system = job.options.system if shows_rules else job.options.system or ""
    policy = LanguagePolicy(model, job.options.sampling, system=system, origin=job.options.model)
    _steps(job, learner, lambda number, report: learner.fit(rows, number, report), policy)
    return policy


# -- DPO -------------------------------------------------------------------------------------------


def own_pairs(model: LanguageModel, job: Job) -> list[Preference]:
    """Pairs of conversations that the model has as it is.

    Raises InvalidConfiguration where no two of a task earned differently.
    """
    options = job.options
    engine = RolloutEngine(
        text_environment(job), TransformersSampler(model.causal), ChatFormat(model.tokenizer),
        options.sampling, slots=options.slots, max_turns=options.max_turns,
    )  # fmt: skip
    first = FIRST_TRAINING_SEED + options.seed * 1_000_003 % 2**30
    seeds = range(first, first + options.tasks)
    played = engine.collect(seeds, options.group_size, rng_seed=options.seed)
    engine.close()
    failed = sorted({rollout.error for rollout in played if rollout.error})
    if len(failed) and not any(rollout.valid for rollout in played):
        raise InvalidConfiguration(f"all {len(played)} conversations failed: {failed[0][:300]}")
    pairs = preferences_of(
        played, most_per_group=options.pairs_per_task, least_margin=options.least_margin
    )
    if not pairs:
        raise InvalidConfiguration(
            f"in {options.tasks} tasks no two conversations of one earned differently, so there "
            "are no pairs; raise learner.tasks, or take a reward that tells more apart"
        )
    return pairs


def prefer(job: Job) -> LanguagePolicy:
    """DPO on the model's own conversations, from the checkpoint on where there is one."""
    model = loaded(job.options, job.device)
    pairs = own_pairs(model, job)
    learner = DPO(job.options.config(), model).remember(pairs)
    if job.checkpoint.is_file():
        learner = DPO.load(job.checkpoint, model)
    policy = policy_of(model, job, text_environment(job))
    _steps(job, learner, lambda number, report: learner.fit(pairs, number, report), policy)
    return policy


# -- both ------------------------------------------------------------------------------------------

Fit = Callable[[int, Callable[[int, dict[str, float]], None]], Any]
"""So many steps more, each reported."""


def _into(told: list[dict[str, float]]) -> Callable[[int, dict[str, float]], None]:
    """A callback that keeps what was measured."""
    return lambda _, measured: told.append(measured)


def _steps(job: Job, learner: Any, fit: Fit, policy: LanguagePolicy) -> None:
    """Learn up to the last step; report, score and keep where they are due."""
    report_every = max(1, job.steps // _REPORTS)
    dues = [n for n in (report_every, job.checkpoint_every, job.evaluate_every) if n]
    stop = False
    while learner.step < job.steps and not stop:
        upto = min(job.steps, *((learner.step // n + 1) * n for n in dues))
        told: list[dict[str, float]] = []
        fit(upto - learner.step, _into(told))
        row = {"step": float(upto)}
        row |= {name: float(np.mean([one[name] for one in told])) for name in told[0]}
        if job.evaluate_every and upto % job.evaluate_every == 0:
            scores = job.evaluators or {}
            row |= {name: float(score(policy)) for name, score in scores.items()}
        stop = any([callback(row) is True for callback in job.callbacks])
        if stop or upto == job.steps or upto % job.checkpoint_every == 0:
            learner.save(job.checkpoint)
