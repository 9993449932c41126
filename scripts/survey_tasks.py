"""Every split of a domain: different tasks, the scripted ladder, the null policies' floors.

    python scripts/survey_tasks.py [--domain customer-service] [--tasks 1000] [--splits test …]

Exits with an error where the oracle fails a task, the ladder is out of order, or the upper end of
a null policy's 95 % interval lies above 0.02.
"""

from __future__ import annotations

import argparse
import sys

from convgym.domains.catalogue import DOMAINS, domain_called
from convgym.evaluation.survey import HEAD, survey

LIMIT = 0.02


def main() -> None:
    """Print a table for each domain."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--domain", nargs="*", default=list(DOMAINS), help="names or folders")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--splits", nargs="*", default=[])
    given = parser.parse_args()
    faults = []
    for domain in given.domain:
        print(f"{domain}, {given.tasks} tasks a split\n\n{HEAD}")
        for split in given.splits or domain_called(domain).splits:
            found = survey(domain, split, given.tasks)
            print(found.row(), flush=True)
            if found.ladder[-1].successes < found.tasks:
                faults.append(f"{domain} {split}: the oracle fails")
            if not found.ordered:
                faults.append(f"{domain} {split}: the ladder is out of order")
            if found.highest_floor.upper > LIMIT:
                faults.append(f"{domain} {split}: {found.highest_floor.agent} is above {LIMIT}")
        print()
    if faults:
        sys.exit("; ".join(faults))


if __name__ == "__main__":
    main()
