"""A training run as it is written down, and what stands in it where nobody says.

    RunConfig's defaults ◄ the learner's own ◄ profile ◄ file ◄ options ◄ --set      later ones win

    resolved({"algorithm": "cql", "learner": {"cql_alpha": 0.2}})      every option has a value
    get_config_for_task("sales", "iql", profile="conservative")

The resolved configuration is itself one that can be given: with the same package it makes the same
run. Which option a learner has, of which type and in which range, its own dataclass says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from convgym.cli.learners import PROFILES, Learner, learner_called
from convgym.cli.named_folder import check_name
from convgym.cli.typed import (
    check_known,
    default_of,
    dotted_options,
    options_of,
    record,
    typed,
)
from convgym.cli.yaml_text import parsed, plain
from convgym.engine.tasks import SPLITS
from convgym.errors import InvalidConfiguration

TASKS: dict[str, tuple[str, str]] = {
    "customer_service": ("ConvGym/CustomerService-v0", "convgym/customer-service/mixed-v0"),
    "technical_support": ("ConvGym/TechnicalSupport-v0", "convgym/technical-support/mixed-v0"),
    "sales": ("ConvGym/Sales-v0", "convgym/sales/mixed-v0"),
}
"""Of each domain its environment and its recorded conversations."""
_SECTIONS = ("learner", "evaluation", "env_keywords")
"""What holds names and values, and none where nothing stands under it."""


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """When and on what the policy is scored."""

    every: int = 0
    """Steps between two scores on the validation split while it learns; 0: at the end only."""
    episodes: int = 200
    """Conversations of a score; 0 scores nothing."""
    split: str = "test"
    """Whose tasks the policy is scored on at the end, where the environment has splits."""
    keywords: dict[str, Any] = field(default_factory=dict)
    """What else the environment is made with when the policy is scored, over env_keywords."""

    def __post_init__(self) -> None:
        if self.every < 0 or self.episodes < 0 or self.episodes == 1:
            raise InvalidConfiguration(
                f"evaluation.every={self.every}, evaluation.episodes={self.episodes}; neither is "
                "below 0, and an interval takes 2 conversations or more"
            )
        if self.split not in SPLITS:
            raise InvalidConfiguration(
                f"evaluation.split={self.split[:60]!r}; it is one of {', '.join(SPLITS)}"
            )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run of `convgym train`."""

    algorithm: str
    """What learns; `convgym list learners` names them."""
    profile: str = "balanced"
    """conservative, balanced, aggressive or experimental: a set of changes, those below win."""
    name: str | None = None
    """The run's folder is runs/<name>; made from algorithm, data and seed if it is not given."""
    env: str | None = None
    """Id of the environment to learn in, or to score in what was learnt from a dataset."""
    env_keywords: dict[str, Any] = field(default_factory=dict)
    """What else the environment is made with."""
    dataset: str | None = None
    """Id or folder of the Minari dataset to learn from; built or fetched where it is not there."""
    best: float = 1.0
    """Share of the recorded conversations, by return, that is learnt from."""
    steps: int
    """How long it learns in all."""
    seed: int = 0
    """Of all chance."""
    device: str = "cpu"
    """cpu, or a GPU such as cuda."""
    checkpoint_every: int
    """Steps between two checkpoints; a run that was killed goes on from the newest."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """When and on what the policy is scored."""
    learner: dict[str, Any] = field(default_factory=dict)
    """The algorithm's own options."""

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise InvalidConfiguration(
                f"profile={self.profile[:60]!r}; it is one of {', '.join(PROFILES)}"
            )
        for name, least in (("steps", 1), ("checkpoint_every", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InvalidConfiguration(
                    f"{name}={getattr(self, name)}; it must be {least} or more"
                )
        if not 0 < self.best <= 1:
            raise InvalidConfiguration(f"best={self.best}; it is a share above 0, at most 1")
        if self.name is not None:
            check_name(self.name, "run")

    def options(self) -> Any:
        """The learner's options as its own dataclass."""
        kind = learner_called(self.algorithm).options()
        given = {**self.learner, **({"seed": self.seed} if "seed" in options_of(kind) else {})}
        return record(kind, given, "learner")

    def to_dict(self) -> dict[str, Any]:
        """Plain values in the order of the fields."""
        return dict(plain(asdict(self)))


def resolved(given: Mapping[str, Any]) -> RunConfig:
    """The whole configuration of what is given; raises InvalidConfiguration, or MissingExtra."""
    if not isinstance(given.get("algorithm"), str):
        raise InvalidConfiguration(
            "nothing says what is to learn; give --algorithm or --config, such as "
            "--algorithm cql, or --algorithm stub to see it work without any extra"
        )
    given = {name: one for name, one in given.items() if one is not None or name not in _SECTIONS}
    learner = learner_called(given["algorithm"])
    check_known(given, options_of(RunConfig), more=_dotted(learner))
    profile = typed(given.get("profile", "balanced"), str, "profile")
    env = typed(given.get("env"), str | None, "env")
    options = typed(given.get("learner") or {}, dict, "learner")
    layers = [learner.defaults(env, options), learner.profiles.get(profile, {}), given]
    whole: dict[str, Any] = {}
    for layer in layers:
        whole = merged(whole, layer)
    _check_learner(whole.get("learner"), learner)
    config: RunConfig = record(RunConfig, _with_place(whole, learner))
    made = config.options()
    filled = {
        name: getattr(made, name) for name in options_of(learner.options()) if name != "seed"
    }
    return record(RunConfig, {**config.to_dict(), "learner": plain(filled)})


def get_config_for_task(
    task: str, algorithm: str = "cql", profile: str = "balanced", **given: Any
) -> RunConfig:
    """What is known to work for a domain: its environment, its data and the learner's options.

    `task`: "customer_service", "technical_support" or "sales". `given` changes single values. The
    learner's options are one set for all three domains: sets of their own were not found to be
    worth it (`trainers.offline.tuned`). Language models learn customer service where the embedded
    one speaks, in `ConvGym/OneRequest-v0`.

    Raises InvalidConfiguration for a task, an algorithm, a profile or an option there is not, and
    for an environment of another domain.
    """
    name = task.replace("-", "_") if isinstance(task, str) else None
    if name not in TASKS:
        raise InvalidConfiguration(f"no task is called {task!r}; there are {', '.join(TASKS)}")
    env, dataset = TASKS[name]
    if given.get("env", env) in [other for other, _ in TASKS.values() if other != env]:
        raise InvalidConfiguration(
            f"the task {task!r} is of {env}, and env is {given['env']!r}; leave env out, or name "
            "that one's task"
        )
    learner = learner_called(algorithm)
    places = {"env": env}
    if learner.source == "dataset":
        places["dataset"] = dataset
    elif env == TASKS["customer_service"][0]:
        places = {}  # the learner knows best where in this domain it begins
    return resolved({**places, "algorithm": algorithm, "profile": profile, **given})


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, mapping by mapping."""
    found = dict(below)
    for name, value in above.items():
        under = found.get(name)
        both = isinstance(under, Mapping) and isinstance(value, Mapping)
        found[name] = merged(under, value) if both else value  # type: ignore[arg-type]
    return found


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """`learner.cql_alpha=0.2` and the like as nested mappings; values are YAML.

    Raises InvalidConfiguration for a text that is none.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        names = key.strip().split(".")
        if not (equals and all(name.isidentifier() for name in names)):
            raise InvalidConfiguration(
                f"--set {text[:60]!r} is no key=value; write it as learner.discount=0.98"
            )
        tree: Any = parsed(value, f"--set {key}")
        for name in reversed(names):
            tree = {name: tree}
        found = merged(found, tree)
    return found


def _with_place(whole: dict[str, Any], learner: Learner) -> dict[str, Any]:
    """The environment or the dataset that goes without saying."""
    if learner.source == "env":
        if whole.get("dataset"):
            raise InvalidConfiguration(
                f"{learner.name} learns by talking and takes no dataset; give env, or take a "
                "learner from recorded conversations, such as cql"
            )
        if whole.get("best", 1) != 1:
            raise InvalidConfiguration(
                f"best={whole['best']!r} is a share of recorded conversations, and {learner.name} "
                "learns by talking; leave it out"
            )
        return whole | {"env": whole.get("env") or TASKS["customer_service"][0]}
    if whole.get("dataset"):
        return whole
    of_env = {env: dataset for env, dataset in TASKS.values()}
    env = whole.get("env")
    if env is not None and env not in of_env:
        raise InvalidConfiguration(
            f"{learner.name} learns from recorded conversations, and none are known of {env!r}; "
            "give dataset"
        )
    return whole | {"dataset": of_env[env or TASKS["customer_service"][0]]}


def _check_learner(given: Any, learner: Learner) -> None:
    given = typed(given or {}, dict, "learner")
    known = [name for name in options_of(learner.options()) if name != "seed"]
    if "seed" in given:
        raise InvalidConfiguration("there is no 'learner.seed'; did you mean seed?")
    deeper = [one for one in _dotted(learner) if one.count(".") > 1]
    check_known(given, known, "learner", [*options_of(RunConfig), *deeper])


def _dotted(learner: Learner) -> list[str]:
    """The full names of what stands deeper."""
    own = dotted_options(learner.options(), "learner")
    return [name for name in own if name != "learner.seed"] + [
        f"evaluation.{one.name}" for one in fields(EvaluationConfig)
    ]


def is_required(name: str) -> bool:
    """Whether a run has no value of this name unless its learner says one."""
    return default_of(RunConfig, name) is MISSING
