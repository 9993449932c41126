"""Success of the scripted policies at each difficulty, and with each built-in persona.

    python scripts/difficulty_ladder.py [--env ConvGym/CustomerService-v0] [--episodes 400]
                                        [--split test] [--seed 0] [--report ladder.html]

Exit code 1 where the planner's success does not fall from each level to the next, or a policy
does better than the next one of the ladder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym

import convgym  # noqa: F401  registers the environments
from convgym.envs.registration import ENVIRONMENTS
from convgym.evaluation.evaluate import Evaluation, evaluate
from convgym.evaluation.report import (
    SCORE_HEADER,
    Section,
    ladder_svg,
    score_rows,
    scores_svg,
    table_html,
    write_report,
)
from convgym.policies.roster import ladder
from convgym.users.persona import BUILT_IN

ENVIRONMENT = "ConvGym/CustomerService-v0"
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
NAMES = ("random", "keyword", "slot-filling", "planner", "oracle")


def scores_of(
    environment: str, options: Mapping[str, Any], episodes: int, split: str, seed: int
) -> dict[str, Evaluation]:
    """Every scripted policy under the same reset options, by name."""
    env = gym.make(environment, observation="features", action="act", disable_env_checker=True)
    base: Any = env.unwrapped
    return {
        name: evaluate(make(), env, episodes=episodes, seed=seed, split=split, options=options)
        for name, make in ladder(base.make_domain().domain).items()
    }


def ordered(scores: Mapping[str, Evaluation]) -> bool:
    """Whether no policy does better than the next one."""
    successes = [scores[name].success for name in NAMES]
    return successes == sorted(successes)


def _row(title: str, scores: Mapping[str, Evaluation]) -> str:
    cells = []
    for name in NAMES:
        low, high = scores[name].success_interval
        cells.append(f"{scores[name].success:.3f} [{low:.3f}, {high:.3f}]")
    return f"| {title} | {' | '.join(cells)} |"


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(ENVIRONMENTS))
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="an HTML page with both as pictures")
    arguments = parser.parse_args()
    given = (arguments.episodes, arguments.split, arguments.seed)

    print(f"| difficulty | {' | '.join(NAMES)} |")
    print("|---" * (len(NAMES) + 1) + "|")
    by_level, by_persona, right = {}, {}, True
    for level in LEVELS:
        by_level[level] = scores_of(arguments.env, {"difficulty": level}, *given)
        print(_row(str(level), by_level[level]), flush=True)
        right &= ordered(by_level[level])
    planner = [scores["planner"].success for scores in by_level.values()]
    right &= all(easier > harder for easier, harder in pairwise(planner))
    print(f"\n| persona | {' | '.join(NAMES)} |")
    print("|---" * (len(NAMES) + 1) + "|")
    for persona in BUILT_IN:
        by_persona[persona] = scores_of(arguments.env, {"persona": persona}, *given)
        print(_row(persona, by_persona[persona]), flush=True)
        right &= ordered(by_persona[persona])
    if arguments.report:
        sections = [Section("Success by difficulty", ladder_svg(by_level))]
        for persona, scores in by_persona.items():
            met = list(scores.values())
            body = scores_svg(met) + table_html(SCORE_HEADER, score_rows(met))
            sections.append(Section(f"Success with {persona}", body))
        write_report(arguments.report, f"Difficulty in {arguments.env}", sections)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
