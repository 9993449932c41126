"""Compare every converter's transitions with a plain loop over installed Minari datasets.

    python scripts/check_alignment.py [dataset ids]

Without ids, all datasets in Minari's local root. A cell says how many transitions were compared
and how many of them differ or are missing; "-" stands for a dataset that the converter does not
take, such as texts for d3rlpy, or one whose package is not installed. Where a recipe tells who
played acts, those policies are asked again: at every turn their probabilities must sum to 1 over
the legal acts and give the act taken what is stored. Exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys

import minari

from convgym.data.building import Recipe, read_recipe
from convgym.data.propensities import check_propensities
from convgym.data.recipes import recipe_ids
from convgym.errors import ConvGymError, DatasetError
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
        if dataset_id in recipe_ids() and not read_recipe(dataset_id).in_text:
            differ = propensities_that_differ(dataset, read_recipe(dataset_id))
            wrong += differ
            told = f"{dataset.total_steps:>9,} asked     {differ:>6,} mismatches"
            print(f"  {'propensities':<{wide}}  {told}", flush=True)
    print(*reasons, sep="\n", file=sys.stderr)
    return int(wrong > 0)


def propensities_that_differ(dataset: Held, recipe: Recipe) -> int:
    """1, and why, where a policy of the recipe says something else than what is stored."""
    try:
        check_propensities(dataset, recipe.policies().policies)  # type: ignore[arg-type]
    except DatasetError as error:
        print(f"  {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
