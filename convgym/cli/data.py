"""`convgym data`: what is said while datasets are built, listed, checked, fetched and published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from convgym.data.building import build_dataset, read_recipe
from convgym.data.checking import check_content
from convgym.data.loading import download_dataset, packaged_ids, remote_ids
from convgym.data.local_root import local_path
from convgym.data.publishing import publish_dataset
from convgym.data.recipes import recipe_ids
from convgym.errors import ConvGymError, InvalidConfiguration

if TYPE_CHECKING:
    from minari import MinariDataset

Say = Callable[[str], None]
_STEP = 500
"""Episodes from one word about the progress to the next."""


def build(ids: Sequence[str], every: bool, overwrite: bool, say: Say) -> None:
    """Build datasets into Minari's local root; of `every` those that are there are left alone."""
    if every == bool(ids):
        raise InvalidConfiguration("name the datasets to build, or give --all")
    for dataset_id in ids or recipe_ids():
        if every and not overwrite and _is_local(dataset_id):
            say(f"{dataset_id} is there")
            continue
        total = read_recipe(dataset_id).episodes

        def heard(done: int, dataset_id: str = dataset_id, total: int = total) -> None:
            if done % _STEP == 0 and done < total:
                say(f"{dataset_id}: {done:,} of {total:,} conversations")

        _tell(build_dataset(dataset_id, overwrite=overwrite, progress=heard), say)


def listing(remote: str | None, say: Say) -> None:
    """Every id that is known, and where it can be had."""
    places = {
        "local": [one for one in recipe_ids() if _is_local(one)],
        "packaged": packaged_ids(),
        "recipe": recipe_ids(),
        "remote": remote_ids(remote) if remote else [],
    }
    for dataset_id in sorted({one for ids in places.values() for one in ids}):
        where = ", ".join(place for place, ids in places.items() if dataset_id in ids)
        say(f"{dataset_id:<44} {where}")


def check(ids: Sequence[str], say: Say) -> bool:
    """Whether these datasets, or all local ones that have a recipe, are what they should be."""
    sound = True
    chosen = ids or [one for one in recipe_ids() if _is_local(one)]
    if not chosen:
        say("no dataset of a recipe is in Minari's local root; `convgym data build` makes them")
    for dataset_id in chosen:
        try:
            if not _is_local(dataset_id):
                raise InvalidConfiguration("it is not in Minari's local root")
            dataset = check_content(dataset_id, local_path(dataset_id) / "data")
            for evaluating in (False, True):
                dataset.recover_environment(eval_env=evaluating).close()
        except ConvGymError as error:
            say(f"FAULT  {dataset_id}: {error}")
            sound = False
        else:
            promised = "as its recipe promises" if dataset_id in recipe_ids() else "without recipe"
            say(
                f"{dataset_id}: {dataset.total_episodes:,} conversations, "
                f"{dataset.total_steps:,} turns, {promised}"
            )
    return sound


def download(ids: Sequence[str], remote: str | None, overwrite: bool, say: Say) -> None:
    """Fetch datasets into Minari's local root."""
    for dataset_id in ids:
        _tell(download_dataset(dataset_id, remote, overwrite=overwrite), say)


def publish(ids: Sequence[str], remote: str, token: str | None, overwrite: bool, say: Say) -> None:
    """Put local datasets where others can download them."""
    for dataset_id in ids:
        publish_dataset(dataset_id, remote, token=token, overwrite=overwrite)
        say(f"{dataset_id} is published in {remote}")


def _is_local(dataset_id: str) -> bool:
    return (local_path(dataset_id) / "data").exists()


def _tell(dataset: MinariDataset, say: Say) -> None:
    say(
        f"{dataset.spec.dataset_id}: {dataset.total_episodes:,} conversations, "
        f"{dataset.total_steps:,} turns, in {dataset.storage.data_path}"
    )
