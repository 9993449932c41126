"""Where the recipes of the Minari datasets lie, in a checkout and after installation.

    id                 convgym/customer-service/expert-v0
    checkout                 datasets/customer-service/expert-v0.toml
    installed   share/convgym/datasets/customer-service/expert-v0.toml

`datasets/` is not a package, since that name belongs to Hugging Face, so `importlib.resources`
cannot see it: recipes are installed as data files and looked up in the installer's own record.
Knows nothing of what a recipe says.
"""

from __future__ import annotations

import sysconfig
from importlib import metadata
from pathlib import Path

from convgym.errors import DatasetError

NAMESPACE = "convgym/"
_INSTALLED = "share/convgym/datasets"


def recipe_path(dataset_id: str) -> Path:
    """The TOML file that says how the dataset `dataset_id` is built."""
    known = recipe_ids()
    if dataset_id not in known:
        listed = ", ".join(known) or "none"
        raise DatasetError(f"there is no recipe for {dataset_id!r}; the known ids are: {listed}.")
    return recipes_folder() / f"{dataset_id.removeprefix(NAMESPACE)}.toml"


def recipe_ids() -> list[str]:
    """The ids of all datasets that have a recipe, sorted."""
    folder = recipes_folder()
    names = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.toml"))
    return sorted(NAMESPACE + name.as_posix() for name in names)


def recipes_folder() -> Path:
    """The folder that holds the recipes, their cards and the samples."""
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():  # in site-packages, datasets/ is somebody else's
        return checkout / "datasets"
    return _installed_folder()


def _installed_folder() -> Path:
    """The installed folder, wherever `pip install --user`, `--prefix` or `--target` put it."""
    try:
        files = metadata.files("convgym") or []
    except metadata.PackageNotFoundError:
        files = []
    recorded = [Path(str(f.locate())).resolve() for f in files if _INSTALLED in f.as_posix()]
    places = [Path(path.as_posix().rpartition(_INSTALLED)[0]) for path in recorded]
    # --target moves the files beside the package, yet records their old place.
    for place in (*places, Path(sysconfig.get_path("data")), Path(__file__).parents[2]):
        if (place / _INSTALLED).is_dir():
            return place / _INSTALLED
    raise DatasetError("the recipes of ConvGym's datasets are missing; reinstall convgym.")
