"""Build a dataset from its recipe, into Minari's local root.

    python scripts/build_dataset.py convgym/customer-service/mixed-v0
    python scripts/build_dataset.py --list

Afterwards `minari.load_dataset(id)` finds it. The content hash must be the recipe's.
"""

from __future__ import annotations

import argparse
import sys

from convgym.data.building import build_dataset, read_recipe
from convgym.data.episodes import content_hash
from convgym.data.recipes import recipe_ids
from convgym.errors import ConvGymError


def main() -> int:
    """Read the arguments, build, print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset_id", nargs="?", help="such as convgym/customer-service/mixed-v0")
    parser.add_argument("--list", action="store_true", help="print the known ids and stop")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    parser.add_argument("--any-hash", action="store_true", help="accept and print another content")
    arguments = parser.parse_args()
    if arguments.list or arguments.dataset_id is None:
        print(*recipe_ids(), sep="\n")
        return 0
    try:
        total = read_recipe(arguments.dataset_id).episodes
        dataset = build_dataset(
            arguments.dataset_id,
            overwrite=arguments.overwrite,
            check=not arguments.any_hash,
            progress=lambda done: done % 500 or print(f"{done} of {total} episodes", flush=True),
        )
    except ConvGymError as error:
        print(error, file=sys.stderr)
        return 1
    print(
        f"{dataset.id}: {dataset.total_episodes} episodes, {dataset.total_steps} turns\n"
        f"content {content_hash(dataset)}\n{dataset.storage.data_path}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
