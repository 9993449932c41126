"""Build datasets anew and write what came out into their recipes and cards.

    python scripts/write_cards.py [id …]

For whoever changed a recipe, or what the environments play, and means it: the content hash in
`datasets/….toml` and the page `datasets/….md` are replaced. Nothing is written into Minari's root.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

from convgym.data.building import collect_recipe, read_recipe
from convgym.data.cards import card
from convgym.data.episodes import content_hash
from convgym.data.recipes import recipe_ids, recipe_path


def main() -> None:
    """Every dataset, or those that were named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", help="datasets; all where none is named")
    for dataset_id in parser.parse_args().ids or recipe_ids():
        recipe, path = read_recipe(dataset_id), recipe_path(dataset_id)
        episodes = collect_recipe(recipe)
        came = content_hash(episodes)
        edited = re.sub(r'(?m)^sha256 = ".*"$', f'sha256 = "{came}"', path.read_text("utf-8"))
        put(path, edited)
        put(path.with_suffix(".md"), card(replace(recipe, sha256=came), episodes))
        turns, same = sum(map(len, episodes)), "as before" if came == recipe.sha256 else "new"
        print(f"{dataset_id}: {len(episodes):,} episodes, {turns:,} turns, {came[:12]} ({same})")


def put(path: Path, text: str) -> None:
    """The whole text or what was there."""
    aside = path.with_suffix(".part")
    aside.write_text(text, encoding="utf-8", newline="\n")
    aside.replace(path)


if __name__ == "__main__":
    main()
