"""Compare every converter's transitions with a plain loop over installed Minari datasets.

    python scripts/check_alignment.py [dataset ids]

Without ids, all datasets in Minari's local root. A cell says how many transitions were compared
and how many of them differ or are missing; "-" stands for a dataset that the converter does not
take, such as texts for d3rlpy, or one whose package is not installed. Exit status 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import sys

import minari

from convgym.errors import ConvGymError
from trainers.alignment import CONVERTERS, Held, mismatches


def main() -> int:
    """Compare, print a table and why cells are empty."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset_ids", nargs="*", help="all that are installed, if none is given")
    ids = parser.parse_args().dataset_ids or sorted(minari.list_local_datasets())
    if not ids:
        print("no Minari dataset is installed; convgym data build makes one")
        return 1
    wide = max(map(len, CONVERTERS))
    wrong, reasons = 0, []
    for dataset_id in ids:
        dataset = Held(minari.load_dataset(dataset_id))
        print(f"{dataset_id}: {dataset.total_episodes} episodes, {dataset.total_steps} turns")
        for name, convert in CONVERTERS.items():
            try:
                compared, differ = mismatches(dataset, convert)
            except ConvGymError as error:
                print(f"  {name:<{wide}}  {'-':>9}")
                reasons.append(f"{name}, {dataset_id}: {error}")
                continue
            wrong += differ
            print(f"  {name:<{wide}}  {compared:>9,} compared  {differ:>6,} mismatches", flush=True)
    print(*reasons, sep="\n", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
