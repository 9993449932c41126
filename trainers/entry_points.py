"""What the command line finds: one learner for each name in the group `convgym.learners`.

    pyproject.toml      cql = "trainers.entry_points:cql"
                        here: a light object, whose methods load what they need

`dqn` is Stable-Baselines3's, which learns while talking; from recorded conversations it is
`offline_dqn`. Of language models, PPO, A2C and TRPO are `llm_ppo`, `llm_a2c` and `llm_trpo`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

import convgym
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.policies.policy import Policy
from trainers import profiles
from trainers.llm.entry import LanguageEntry
from trainers.llm.supervised_entry import DPOEntry, SFTEntry
from trainers.offline.entry import OfflineEntry
from trainers.online.entry import OnlineEntry

if TYPE_CHECKING:
    from convgym.cli.learners import Job

_ACTING = {"observation": "features", "action": "act"}


def make_env(job: Job) -> gym.Env[Any, Any]:
    """The job's environment; ConvGym's show features and take acts unless told otherwise.

    Raises InvalidConfiguration where Gymnasium cannot make it.
    """
    assert job.env is not None
    keywords = dict(job.env_keywords)
    if job.env in convgym.ENVIRONMENTS and not _ACTING.keys() & keywords.keys():
        keywords = _ACTING | keywords
    try:
        return gym.make(job.env, disable_env_checker=True, **keywords)
    except ConvGymError:
        raise
    except (gym.error.Error, ImportError, TypeError) as error:
        what = str(error).partition(" was raised from")[0].rstrip(".")
        raise InvalidConfiguration(
            f"{job.env!r} cannot be made with {keywords} ({what}); ConvGym has "
            f"{', '.join(convgym.ENVIRONMENTS)}"
        ) from None


class TabularEntry:
    """The table that needs no torch."""

    name, extra, unit = "stub", "", "agent turns"
    source: Literal["env", "dataset"] = "env"
    summary = "a table of situations: the whole loop in seconds, with numpy alone"
    profiles = profiles.tabular()

    def options(self) -> type[Any]:
        """The dataclass of its options."""
        from trainers.tabular import TabularConfig

        return TabularConfig

    def defaults(self, env: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Easy conversations about one thing, so that seconds are enough."""
        keywords: dict[str, Any] = {}
        if env is None or env in convgym.ENVIRONMENTS:
            keywords = {"reward": "graded", "difficulty": 0.0}
        if env in (None, "ConvGym/CustomerService-v0"):
            keywords["topic"] = "status"
        return {"steps": 40_000, "checkpoint_every": 5_000, "env_keywords": keywords}

    def check(self, job: Job) -> list[str]:
        """Sentences about what `train` would do; raises what it would."""
        from trainers.tabular import situation_cells

        if job.device != "cpu":
            raise InvalidConfiguration(f"device={job.device!r}; a table is learnt on the cpu")
        cells, acts = situation_cells(make_env(job), job.options.left_out)
        return [
            f"would talk in {job.env}: {int(cells.sum())} of {len(cells)} cells tell situations "
            f"apart, {acts} acts"
        ]

    def environment(self, job: Job) -> gym.Env[Any, Any]:
        """One that it learns in."""
        return make_env(job)

    def train(self, job: Job) -> Any:
        """Learn, from the checkpoint on where there is one."""
        return job.options.create().fit(
            lambda: make_env(job),
            job.steps,
            job.evaluators,
            job.evaluate_every,
            report_every=max(1, job.steps // 20),
            callbacks=job.callbacks,
            checkpoint=os.fspath(job.checkpoint),
            checkpoint_every=job.checkpoint_every,
        )

    def reads(self, path: Path) -> bool:
        """Whether a file is a table."""
        try:
            self.load(path)
        except ConvGymError:
            return False
        return True

    def load(self, path: Path) -> Policy:
        """The policy in a file."""
        from trainers.tabular import TabularPolicy

        return TabularPolicy.load(path)


stub = TabularEntry()

bc = OfflineEntry("bc")
bcq = OfflineEntry("bcq")
bear = OfflineEntry("bear")
cql = OfflineEntry("cql")
candidate_cql = OfflineEntry("candidate_cql")
decision_transformer = OfflineEntry("decision_transformer")
offline_dqn = OfflineEntry("dqn", "offline_dqn")
iql = OfflineEntry("iql")
mc = OfflineEntry("mc")

ppo = OnlineEntry("ppo", make_env)
maskable_ppo = OnlineEntry("maskable_ppo", make_env)
recurrent_ppo = OnlineEntry("recurrent_ppo", make_env)
dqn = OnlineEntry("dqn", make_env)
qr_dqn = OnlineEntry("qr_dqn", make_env)
a2c = OnlineEntry("a2c", make_env)
trpo = OnlineEntry("trpo", make_env)

grpo = LanguageEntry("grpo")
bnpo = LanguageEntry("bnpo")
dapo = LanguageEntry("dapo")
dr_grpo = LanguageEntry("dr_grpo")
gspo = LanguageEntry("gspo")
gspo_token = LanguageEntry("gspo_token")
gepo = LanguageEntry("gepo")
cispo = LanguageEntry("cispo")
rloo = LanguageEntry("rloo")
reinforce_pp = LanguageEntry("reinforce++", "reinforce_pp")
vapo = LanguageEntry("vapo")
llm_ppo = LanguageEntry("ppo", "llm_ppo")
llm_a2c = LanguageEntry("a2c", "llm_a2c")
llm_trpo = LanguageEntry("trpo", "llm_trpo")
sft = SFTEntry()
dpo = DPOEntry()
