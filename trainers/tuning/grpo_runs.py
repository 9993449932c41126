"""Trials of a language model that learns from its own conversations, scored on validation tasks.

    configuration + changes ─► PolicyOptimizer ─► rows with evaluation_success ─► score

The run is that of scripts/train_grpo.py; any objective of `trainers.llm.objectives` goes, as
`learner: {objective: gspo}`. Options within options have names with dots, such as
`learner.objective.clip.high`. Torch is loaded when a trial learns.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from convgym.cli.run_config import EvaluationConfig, merged
from convgym.cli.typed import record
from convgym.cli.yaml_text import plain
from convgym.errors import InvalidConfiguration
from convgym.evaluation.intervals import mean_interval, wilson
from trainers.tuning.subjects import Changes, Heard, Scored, nested

if TYPE_CHECKING:
    from trainers.llm.policy_config import PolicyOptimizerConfig

GRPO = "grpo"
_OF_RUN = {
    "iterations": "steps", "evaluate_every": "evaluation.every", "seed": "seed",
    "evaluation_episodes": "evaluation.episodes",
}  # fmt: skip
"""Options of the loop that the run itself says, and where."""


@dataclass(frozen=True, kw_only=True)
class GRPOConfig:
    """One run of a language model, as it is written down."""

    algorithm: str = GRPO
    env: str = "ConvGym/OneRequest-v0"
    """Any Gymnasium id, texts in and out."""
    env_keywords: dict[str, Any] = field(default_factory=dict)
    """What else the environment is made with."""
    validation_keywords: dict[str, Any] | None = None
    """What is changed of them to score; None: ConvGym's validation tasks, or held-out seeds."""
    model: str = "embedded"
    """A folder or name of transformers, or the one that comes with ConvGym."""
    lora: int = 0
    """Rank of adapters; 0: all weights learn."""
    steps: int = 120
    """Iterations of rollout and update."""
    seed: int = 0
    """Of all chance."""
    device: str = "cpu"
    """cpu, or a GPU such as cuda."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """When and on how many conversations the model is scored."""
    learner: dict[str, Any] = field(default_factory=dict)
    """Options of PolicyOptimizerConfig."""


@dataclass(frozen=True)
class GRPORuns:
    """Trials of one model in one environment."""

    given: Mapping[str, Any]
    metric: str = "success"
    base: GRPOConfig = field(init=False)

    def __post_init__(self) -> None:
        own = {name: one for name, one in self.given.items() if name not in ("name", "dataset")}
        config: GRPOConfig = record(GRPOConfig, own)
        if config.evaluation.episodes < 2:
            raise InvalidConfiguration(
                "evaluation.episodes=0 scores nothing, and a search goes by scores; take 2 or more"
            )
        object.__setattr__(self, "base", config)
        whole = asdict(config) | {"learner": _written(self._options(config.learner))}
        object.__setattr__(self, "base", record(GRPOConfig, whole))

    @property
    def algorithm(self) -> str:
        """The family has one."""
        return GRPO

    @property
    def family(self) -> str:
        """Of named spaces."""
        return GRPO

    @property
    def steps(self) -> int:
        """Iterations of a trial."""
        return self.base.steps

    def names(self) -> list[str]:
        """Options of the loop, those of its parts with dots."""
        return [name for name, _, _ in _walk(self._options(self.base.learner), "learner")]

    def hint(self, name: str) -> Any:
        """The type of the field."""
        walked = _walk(self._options(self.base.learner), "learner")
        return next(hint for one, hint, _ in walked if one == name)

    def default(self, name: str) -> Any:
        """As the configuration has it."""
        walked = _walk(self._options(self.base.learner), "learner")
        return next(value for one, _, value in walked if one == name)

    def check(self, changes: Changes) -> None:
        """By the loop's own configuration."""
        self._options(self._changed(changes))

    def configuration(self, changes: Changes) -> dict[str, Any]:
        """Plain values."""
        return dict(plain(asdict(self.base) | {"learner": self._changed(changes)}))

    def command(self, config: Path) -> str:
        """scripts/train_grpo.py with the configuration's values."""
        from convgym.cli.yaml_text import read_yaml

        run: GRPOConfig = record(GRPOConfig, read_yaml(config))
        anyway = GRPORuns({"algorithm": GRPO}).base.learner
        flags = ("sampling", "max_turns", "slots")
        sampling, turns, slots = (run.learner[name] for name in flags)
        settings = {
            name: one
            for name, one in run.learner.items()
            if one != anyway[name] and name not in flags
        }
        words = ["python", "scripts/train_grpo.py", run.env, "--model", run.model]
        for name, value in (
            ("seed", run.seed), ("device", run.device), ("lora", run.lora),
            ("slots", slots), ("max-tokens", sampling["max_tokens"]),
            ("max-context", sampling["max_context"]), ("temperature", sampling["temperature"]),
            ("max-turns", turns), ("keywords", json.dumps(run.env_keywords)),
            ("settings", json.dumps({"iterations": run.steps, **settings})),
        ):  # fmt: skip
            words += [f"--{name}", str(value)]
        return shlex.join(words)

    def rehearse(self) -> list[str]:
        """Makes the environments, and loads no model."""
        from trainers.llm.text_environment import TextEnvironment

        for keywords in (self.base.env_keywords, self._validation()):
            TextEnvironment(self.base.env, kwargs=keywords).close()
        options = self._options(self.base.learner)
        return [
            f"would play {options.seeds_per_iteration * options.group_size} conversations in "
            f"{self.base.env} for each iteration"
        ]

    def run(self, changes: Changes, folder: Path, heard: Heard) -> Scored:
        """Learn and score."""
        from trainers.devices import computing_on

        with computing_on(self.base.device, "llm"):
            return self._learnt(self._options(self._changed(changes)), folder, heard)

    def _learnt(self, config: PolicyOptimizerConfig, folder: Path, heard: Heard) -> Scored:
        from trainers.callbacks import CSVLog
        from trainers.llm.embedded.folder import embedded_folder
        from trainers.llm.language_model import LanguageModel, LoRA
        from trainers.llm.policy_engine import collector_of
        from trainers.llm.policy_optimizer import PolicyOptimizer
        from trainers.llm.text_environment import TextEnvironment

        base = self.base
        embedded, lora = base.model == "embedded", base.lora
        model = LanguageModel.load(
            embedded_folder() if embedded else base.model,
            device=base.device,
            lora=LoRA(rank=lora, alpha=2 * lora) if lora else None,
        )
        play, judge = (
            collector_of(
                TextEnvironment(base.env, system="" if embedded else None, kwargs=keywords),
                model,
                config,
            )
            for keywords in (base.env_keywords, self._validation())
        )

        def listens(row: Mapping[str, float]) -> bool:
            found = row.get(
                "evaluation_success" if self.metric == "success" else "evaluation_reward"
            )
            return found is not None and heard(int(row["step"]), found)

        log, checkpoint = CSVLog(folder / "metrics.csv"), folder / "checkpoint.safetensors"
        (folder / "metrics.csv").unlink(missing_ok=True)  # a run that goes on tells its rows again
        learner = PolicyOptimizer(model, play, config, [log, listens], evaluation=judge)
        if checkpoint.is_file():
            learner.restore(checkpoint)
        learner.train(checkpoint)
        return self._score(judge, config)

    def _score(self, judge: Any, config: PolicyOptimizerConfig) -> Scored:
        """On the seeds of every evaluation, sampled as in training."""
        played = judge.collect(range(config.evaluation_episodes), 1, rng_seed=config.seed)
        found = [rollout for rollout in played if rollout.valid]
        if len(found) < 2:
            raise InvalidConfiguration(
                f"{len(played) - len(found)} of {len(played)} validation conversations failed, the "
                f"first with: {next((one.error for one in played if one.error), 'nothing said')}"
            )
        if self.metric == "success":
            won = sum(bool(rollout.success) for rollout in found)
            return Scored(value=won / len(found), interval=wilson(won, len(found)))
        returns = [rollout.return_ for rollout in found]
        return Scored(value=math.fsum(returns) / len(returns), interval=mean_interval(returns))

    def _validation(self) -> dict[str, Any]:
        changed = self.base.validation_keywords
        if changed is None:
            changed = {"split": "validation"} if self.base.env.startswith("ConvGym/") else {}
        return {**self.base.env_keywords, **changed}

    def _changed(self, changes: Changes) -> dict[str, Any]:
        return merged(self.base.learner, nested(changes).get("learner", {}))

    def _options(self, learner: Mapping[str, Any]) -> PolicyOptimizerConfig:
        """The loop's configuration; raises InvalidConfiguration for what it has not."""
        from trainers.llm.embedded.tuned import TUNED
        from trainers.llm.objectives import PRESETS
        from trainers.llm.policy_config import PolicyOptimizerConfig

        for name, place in _OF_RUN.items():
            if name in learner:
                raise InvalidConfiguration(f"there is no 'learner.{name}'; did you mean {place}?")
        defaults = {
            **TUNED,
            "max_turns": 16,
            "sampling": {"kind": "Sampling", "max_tokens": 24, "max_context": 512},
        }
        base = self.base
        found = PolicyOptimizerConfig.from_dict(
            {
                **merged(defaults, learner),
                "iterations": base.steps,
                "seed": base.seed,
                "evaluate_every": base.evaluation.every,
                "evaluation_episodes": base.evaluation.episodes,
            }
        )
        # Written out, so that its parts can be changed one by one.
        named = isinstance(found.objective, str)
        return found.changed(objective=PRESETS[str(found.objective)]) if named else found


def _written(config: PolicyOptimizerConfig) -> dict[str, Any]:
    return {name: value for name, value in config.to_dict().items() if name not in _OF_RUN}


def _walk(value: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and value of each option, those of parts after the part itself."""
    hints = get_type_hints(type(value))
    for one in fields(value):
        if name == "learner" and one.name in _OF_RUN:
            continue
        inner = getattr(value, one.name)
        yield f"{name}.{one.name}", hints[one.name], inner
        if is_dataclass(inner):
            yield from _walk(inner, f"{name}.{one.name}")
