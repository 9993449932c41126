"""`convgym evaluate`: what a policy scores, or what it says.

nothing more, on a terminal   a person is the customer           play
--message, --input            what it replies                     replies
else                          seeded episodes: success, pass^k, slices by persona
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

import convgym.envs.registration as registration
from convgym.cli import play as playing
from convgym.cli.policies import (
    environment_of,
    fits,
    keywords_for,
    made_env,
    manner_of,
    policy_called,
    run_called,
    saved_policy,
)
from convgym.cli.progress import Bar
from convgym.cli.replies import replies_to, replies_to_file, speaking
from convgym.cli.run_folder import read_metrics
from convgym.crew.crew import Backend, Crew
from convgym.errors import InvalidConfiguration
from convgym.evaluation.assessment import assessment_of, check_personas, play_personas
from convgym.evaluation.assessment_page import write_assessment
from convgym.evaluation.repeated import (
    Plan,
    RepeatedEvaluation,
    crew_for,
    evaluate_repeatedly,
)
from convgym.evaluation.report import new_figure
from convgym.evaluation.scores import score
from convgym.evaluation.shares import Source
from convgym.policies.null import FixedReplies
from convgym.policies.policy import Policy
from convgym.simulator import SimulatorConfig
from convgym.users.persona import BUILT_IN

Say = Callable[[str], None]
_DEFAULT = "ConvGym/CustomerService-v0"
_READING = {"observation": "message", "action": "text"}
_MANNERS = ("observation", "action")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Which policy, where."""

    policy: str
    env: str | None
    keywords: dict[str, Any]
    """Of the environment, over those of the run."""
    root: Path
    seed: int = 0

    def place(self, scored: bool = False) -> tuple[str, dict[str, Any]]:
        """Id and keywords: those asked for, else the run's own, to be `scored` or to talk in."""
        run = run_called(self.policy, self.root)
        env, keywords = environment_of(run, scored) if run is not None else (_DEFAULT, {})
        if self.env is not None and self.env != env:
            env, keywords = self.env, {}  # keywords of another environment mean nothing here
        if env is None:
            raise InvalidConfiguration(
                f"nothing says where {self.policy} is to play; give --env, such as {_DEFAULT}"
            )
        return env, {**keywords, **self.keywords}

    def source(self, size: Size) -> Source | None:
        """How other processes get the policy: by its name or path; None where there are none."""
        if size.workers == 1 and size.backend == "local":
            return None
        name = str(Path(self.policy).resolve()) if Path(self.policy).exists() else self.policy
        return partial(policy_called, name, root=self.root.resolve())

    def simulated(self) -> tuple[SimulatorConfig, Policy]:
        """The environment in words, and the policy as it speaks there."""
        env_id, keywords = self.place()
        kept = {name: value for name, value in keywords.items() if name not in _MANNERS}
        config = SimulatorConfig(env_id=env_id, keywords=kept, seed=self.seed)
        return config, speaking(policy_called(self.policy, config.make(), self.root))


def talk(judged: Judged) -> None:
    """A person is the customer, the policy answers."""
    config, policy = judged.simulated()
    playing.as_user(config, playing.Screen(), policy)


def reply(judged: Judged, message: str, as_json: bool, say: Say) -> None:
    """What the policy replies to one message."""
    config, policy = judged.simulated()
    found = replies_to([message], policy, config)
    if as_json:
        say(json.dumps(found, ensure_ascii=False))
    else:
        say("\n".join(found["replies"]) or f"(it says nothing; {found['ended']})")


def reply_to_all(judged: Judged, path: Path, say: Say) -> bool:
    """The same of each line of a file, as JSON lines; whether every line was one."""
    config, policy = judged.simulated()
    sound = True
    for found in replies_to_file(path, policy, config):
        sound &= "error" not in found
        say(json.dumps(found, ensure_ascii=False))
    return sound


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is played."""

    episodes: int
    """Tasks."""
    users: int
    agents: int
    split: str
    personas: str
    """all, none or names with commas between."""
    deterministic: bool
    workers: int
    backend: Backend


def measure(
    judged: Judged, size: Size, as_json: bool, say: Say, tell: Say, report: Path | None = None
) -> None:
    """Seeded episodes, and what they come to; as a page, too, where there is a `report`.

    Raises InvalidConfiguration and MissingExtra before anything is played.
    """
    env_id, given = judged.place(scored=True)
    if report is not None:
        _check_report(report, env_id)
    saved = saved_policy(judged.policy, judged.root)
    keywords = keywords_for(env_id, given, manner_of(saved))
    env = made_env(env_id, keywords)
    if saved is None:
        policy = policy_called(judged.policy, env, judged.root)
    else:
        policy = saved
        fits(policy, env)
    if isinstance(policy, FixedReplies):  # it speaks, whatever it sees
        keywords = {**keywords, **_READING}
        env = made_env(env_id, keywords)
    if env_id not in registration.ENVIRONMENTS:
        _measure_plainly(policy, env, judged, size, as_json, say)
        return
    names = _personas(size.personas) if "persona" not in keywords else ()
    plan = Plan(
        env_id=env_id,
        keywords=keywords,
        split=size.split,
        tasks=size.episodes,
        users=size.users,
        agents=size.agents,
        seed=judged.seed,
        deterministic=size.deterministic,
    )
    with crew_for(policy, size.workers, size.backend, judged.source(size)) as crew:
        found = assessment_of(*_played(policy, plan, names, crew, tell))
    say(json.dumps(found.to_dict(), indent=1) if as_json else found.to_markdown())
    if report is not None:
        learning, episodes = _learning(judged)
        write_assessment(found, report, learning, episodes)
        tell(f"written: {report}")


def _check_report(report: Path, env_id: str) -> None:
    """Raises InvalidConfiguration for a page that could not be written, or not about `env_id`."""
    if env_id not in registration.ENVIRONMENTS:
        raise InvalidConfiguration(
            f"--report is about people and tasks, and {env_id} tells of none; leave it out"
        )
    if report.is_dir() or not os.access(report.parent, os.W_OK | os.X_OK):
        raise InvalidConfiguration(
            f"{report} cannot be written; name a file in a folder that there is"
        )
    new_figure(1, 1)


def _learning(judged: Judged) -> tuple[list[tuple[float, float]], int]:
    """(step, validation success) of the run that is judged, and tasks of each; none without one."""
    run = run_called(judged.policy, judged.root)
    if run is None:
        return [], 0
    episodes = int(run.read_config().get("evaluation", {}).get("episodes", 0))
    rows = [row for row in read_metrics(run.metrics) if "validation" in row] if episodes else []
    return [(row["step"], row["validation"]) for row in rows], episodes


def _played(
    policy: Policy, plan: Plan, names: tuple[str, ...], crew: Crew, tell: Say
) -> tuple[RepeatedEvaluation, dict[str, RepeatedEvaluation]]:
    tasks = plan.tasks if isinstance(plan.tasks, int) else len(plan.tasks)
    bar = Bar(tasks * (1 + len(names)), tell)
    done = {"drawn": 0, **dict.fromkeys(names, 0)}

    def heard(name: str, number: int) -> None:
        done[name] = number
        bar.at(sum(done.values()), "tasks")

    played = evaluate_repeatedly(
        policy, plan, crew=crew, progress=lambda number: heard("drawn", number)
    )
    met = play_personas(policy, plan, names, crew=crew, progress=heard)
    bar.close()
    return played, met


def _measure_plainly(
    policy: Policy, env: gym.Env[Any, Any], judged: Judged, size: Size, as_json: bool, say: Say
) -> None:
    """Of any environment: return, and success where it tells."""
    if size.episodes < 2:
        raise InvalidConfiguration(f"episodes={size.episodes}; an interval takes 2 or more")
    found = score(
        policy, env, size.episodes, seed=judged.seed, split=size.split, workers=size.workers,
        backend=size.backend, source=judged.source(size),
    )  # fmt: skip
    say(json.dumps(found.to_dict(), indent=1) if as_json else str(found))


def _personas(text: str) -> tuple[str, ...]:
    if text == "all":
        return tuple(BUILT_IN)
    names = () if text == "none" else tuple(filter(None, text.split(",")))
    check_personas(names)
    return names
