"""Every split of a domain: different tasks, the scripted ladder, the null policies' floors.

    python scripts/survey_tasks.py [--domain customer-service] [--tasks 1000] [--splits test …]

Exits with an error where the oracle fails a task, the ladder is out of order, or the upper end of
a null policy's 95 % interval lies above 0.02: none of 189 tasks is the least that can show it.
"""

from __future__ import annotations

import argparse
import sys

from convgym.domains.catalogue import DOMAINS, domain_called
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.survey import HEAD, Survey, survey

LIMIT = 0.02


def main() -> None:
    """Print a table for each domain."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--domain", nargs="*", default=list(DOMAINS), help="names or folders")
    parser.add_argument("--tasks", type=int, default=1000, help="of each split")
    parser.add_argument(
        "--splits", nargs="*", default=[], help="all that a domain has, unless told"
    )
    given = parser.parse_args()
    if given.tasks < 1:
        parser.error(f"--tasks {given.tasks}: it must be 1 or more")
    faults = []
    try:
        splits = {name: _splits(name, given.splits) for name in given.domain}
        for domain, chosen in splits.items():
            print(f"{domain}, {given.tasks} tasks a split\n\n{HEAD}")
            for split in chosen:
                found = survey(domain, split, given.tasks)
                print(found.row(), flush=True)
                faults += [f"{domain} {split}: {fault}" for fault in faults_of(found)]
            print()
    except ConvGymError as error:
        sys.exit(f"survey_tasks: {error}")
    if faults:
        sys.exit("; ".join(faults))


def _splits(domain: str, chosen: list[str]) -> list[str]:
    """The chosen splits, or all; raises InvalidConfiguration for one that the domain has not."""
    there = domain_called(domain).splits
    for split in chosen:
        if split not in there:
            raise InvalidConfiguration(
                f"{domain} has no split {split!r}; it has {', '.join(there)}"
            )
    return chosen or list(there)


def faults_of(found: Survey) -> list[str]:
    """What must not be, a few words each."""
    faults = []
    if found.ladder[-1].successes < found.tasks:
        faults.append("the oracle fails")
    if not found.ordered:
        faults.append("the ladder is out of order")
    floor = found.highest_floor
    if floor.upper > LIMIT and floor.successes:
        faults.append(f"{floor.agent} is above {LIMIT}")
    elif floor.upper > LIMIT:
        faults.append(
            f"{found.tasks} tasks are too few to show that null policies stay below {LIMIT}"
        )
    return faults


if __name__ == "__main__":
    main()
