"""The house rules: layout, directions of imports, packaging. They read files and run no model."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from convgym.data import recipes
from convgym.errors import DatasetError

ROOT = Path(__file__).parents[1]
MODULES = sorted([*ROOT.glob("convgym/**/*.py"), *ROOT.glob("trainers/**/*.py")])

# A part imports from its own layer and from those above it in this table, never from those below.
LAYERS = (
    {"errors"},
    {"conversation", "crew", "spaces"},
    {"engine"},
    {"users", "language"},
    {"desk"},
    {"domains"},
    {"envs", "rewards", "randomization"},
    {"policies"},
    {"data", "evaluation", "calibration"},
    {"simulator"},
    {"service"},
    {"cli", "__main__"},
    # The faces: they hand names to the outside, nobody inside imports them.
    {"", "minari_remotes", "multi_agent"},
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

SIBLINGS = {"online", "offline", "llm"}  # trainers that know nothing of each other

NEVER_AT_IMPORT = {
    "accelerate", "d3rlpy", "datasets", "h5py", "minari", "peft", "sb3_contrib", "sklearn",
    "stable_baselines3", "torch", "transformers", "trl", "vllm",
}  # fmt: skip
ABSENT_AFTER_IMPORT = {
    "h5py", "matplotlib", "minari", "pandas", "pettingzoo", "ray", "scipy", "sklearn", "torch",
}  # fmt: skip


def name_of(path: Path) -> str:
    """`convgym/engine/acts.py` → `convgym.engine.acts`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path) for path in MODULES}


def part_of(module: str) -> str:
    """The first name below the top: `convgym.engine.acts` → `engine`."""
    return module.partition(".")[2].partition(".")[0]


def imported(path: Path, *, inside_functions: bool = True) -> Iterator[str]:
    """Full names of the modules that `path` imports; what only type checkers see is left out."""
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, path)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield name if name in NAMES else base
        elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            todo.extend(ast.iter_child_nodes(node))


def absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
    return ".".join([*package, *filter(None, [node.module])])


@cache
def imports() -> dict[str, list[str]]:
    return {name_of(path): sorted(set(imported(path))) for path in MODULES}


def convgym_parts() -> Iterator[tuple[str, str, str]]:
    """(module, its part, the other part of ConvGym it imports)."""
    for module, targets in imports().items():
        for target in targets:
            if module.split(".")[0] == target.split(".")[0] == "convgym":
                yield module, part_of(module), part_of(target)


def run_python(code: str, cwd: Path, **environment: str) -> str:
    """What `code` prints in an interpreter of its own."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Names


def test_datasets_holds_no_python():
    assert not list((ROOT / "datasets").rglob("*.py"))


def test_the_name_datasets_is_never_ours(tmp_path):
    code = (
        "import importlib.util\n"
        "spec = importlib.util.find_spec('datasets')\n"
        "for place in (spec.submodule_search_locations or []) if spec else []: print(place)"
    )
    places = run_python(code, cwd=tmp_path).splitlines()
    assert ROOT / "datasets" not in [Path(place).resolve() for place in places]


def test_no_other_folder_is_called_datasets():
    folders = [*ROOT.glob("convgym/**/datasets"), *ROOT.glob("trainers/**/datasets")]
    assert not [*folders, *ROOT.glob("tests/**/datasets"), *ROOT.glob("scripts/**/datasets")]


def test_tests_are_no_package_and_nothing_is_called_utils():
    assert not list(ROOT.glob("tests/**/__init__.py"))
    places = ("convgym", "trainers", "scripts", "tests")
    assert not [path for place in places for path in (ROOT / place).rglob("utils.py")]


def test_no_module_is_longer_than_600_lines():
    lengths = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert not {name: length for name, length in lengths.items() if length > 600}


# Directions of imports


def test_every_part_of_convgym_has_a_layer():
    parts = {part_of(module) for module in imports() if module.split(".")[0] == "convgym"}
    assert parts <= set(LEVEL), "give the new part its place in LAYERS, at the top of this file"


def test_no_part_imports_from_a_later_layer():
    upward = [
        f"{module} imports {target or 'convgym itself'}"
        for module, part, target in convgym_parts()
        if LEVEL[target] > LEVEL[part]
    ]
    assert not upward


def test_no_two_parts_need_each_other():
    needs: dict[str, set[str]] = {}
    for _, part, target in convgym_parts():
        if part != target and part in set().union(*LAYERS[:-1]):
            needs.setdefault(part, set()).add(target)
    while free := {part for part, targets in needs.items() if not targets & set(needs)}:
        needs = {part: targets for part, targets in needs.items() if part not in free}
    assert not needs, "these parts import each other in a circle"


def test_convgym_imports_neither_trainers_nor_scripts():
    above = {"trainers", "scripts", "tests"}
    assert not [
        f"{module} imports {target}"
        for module, targets in imports().items()
        for target in targets
        if module.split(".")[0] == "convgym" and target.split(".")[0] in above
    ]


def test_online_offline_and_llm_know_nothing_of_each_other():
    assert not [
        f"{module} imports {target}"
        for module, targets in imports().items()
        for target in targets
        if module.split(".")[0] == target.split(".")[0] == "trainers"
        and part_of(module) in SIBLINGS
        and part_of(target) in (SIBLINGS | {"transfer"}) - {part_of(module)}
    ]


def test_trainers_functional_needs_no_other_trainer():
    targets = imports().get("trainers.functional", [])
    assert not [target for target in targets if target.split(".")[0] == "trainers"]


def test_convgym_imports_heavy_packages_only_inside_functions():
    assert not [
        f"{name_of(path)} imports {target}"
        for path in MODULES
        if path.is_relative_to(ROOT / "convgym")
        for target in imported(path, inside_functions=False)
        if target.split(".")[0] in NEVER_AT_IMPORT
    ]


@pytest.mark.skipif(not (ROOT / "convgym/__init__.py").exists(), reason="no convgym/__init__.py")
def test_import_convgym_needs_numpy_and_gymnasium_only(tmp_path):
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        f"blocked = {sorted(NEVER_AT_IMPORT | ABSENT_AFTER_IMPORT)}\n"
        "sys.modules.update(dict.fromkeys(blocked))\n"  # None makes an import of it fail
        "import convgym\n"
        "print(*(name for name in blocked if sys.modules.get(name)))"
    )
    assert run_python(code, cwd=tmp_path) == ""


@pytest.mark.skipif(not (ROOT / "convgym/__init__.py").exists(), reason="no convgym/__init__.py")
def test_import_convgym_loads_nothing_heavy(tmp_path):
    """Unlike the test above, nothing is blocked: a guarded import must not slip in either."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import convgym; print(*sys.modules)"
    loaded = set(run_python(code, cwd=tmp_path).split())
    assert not loaded & (NEVER_AT_IMPORT | ABSENT_AFTER_IMPORT)


# Packaging


def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def test_every_constraint_is_pinned():
    pinned = re.compile(r"[\w.-]+==[\w.+!]+( ; .+)?")
    assert not [line for line in pins() if not pinned.fullmatch(line)]


def test_constraints_fetch_no_cuda_build():
    cuda = re.compile(r"^(nvidia|cuda|triton|jax|tensorflow)", re.IGNORECASE)
    assert not [line for line in pins() if cuda.match(line)]
    torch = {line for line in pins() if line.startswith("torch==")}
    assert torch == {
        'torch==2.13.0+cpu ; platform_system == "Linux"',
        'torch==2.13.0 ; platform_system != "Linux"',
    }


def test_every_extra_that_an_error_names_exists():
    named = {
        call.args[1].value
        for path in MODULES
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).endswith("MissingExtra")
        and len(call.args) == 2
        and isinstance(call.args[1], ast.Constant)
    }
    assert named <= set(pyproject()["project"]["optional-dependencies"])


def test_every_file_of_datasets_is_installed():
    """A new folder under `datasets/` needs a line in `[tool.setuptools.data-files]`."""
    data_files = pyproject()["tool"]["setuptools"]["data-files"]
    covered = {}
    for target, patterns in data_files.items():
        for pattern in patterns:
            assert Path(target).name == Path(pattern).parent.name
            covered.update({path: target for path in ROOT.glob(pattern)})
    there = {path for path in (ROOT / "datasets").rglob("*") if path.is_file()}
    assert {path for path in there if not path.name.startswith(".")} <= set(covered)


def test_recipes_are_found_by_their_ids():
    for dataset_id in recipes.recipe_ids():
        path = recipes.recipe_path(dataset_id)
        assert path.is_file() and path.is_relative_to(recipes.recipes_folder())


@pytest.mark.parametrize("dataset_id", ["convgym/nothing-v0", "", "../pyproject", "/etc/passwd"])
def test_an_unknown_recipe_is_one_sentence(dataset_id):
    with pytest.raises(DatasetError, match="there is no recipe for"):
        recipes.recipe_path(dataset_id)


def test_installed_recipes_are_found_where_the_installer_put_them(tmp_path):
    """A stand-in for `site-packages` after `pip install --prefix`."""
    site = tmp_path / "lib/python/site-packages"
    folder = tmp_path / "share/convgym/datasets/sales"
    record = "../../../share/convgym/datasets/sales/expert-v0.toml,,\n"
    for path, text in {
        site / "convgym/__init__.py": "",
        site / "convgym/data/__init__.py": "",
        site / "convgym/data/recipes.py": (ROOT / "convgym/data/recipes.py").read_text("utf-8"),
        site / "convgym/errors.py": (ROOT / "convgym/errors.py").read_text("utf-8"),
        site / "convgym-0.1.0.dist-info/METADATA": "Name: convgym\nVersion: 0.1.0\n",
        site / "convgym-0.1.0.dist-info/RECORD": record,
        site / "datasets/somebody_elses.toml": "",
        folder / "expert-v0.toml": "",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from convgym.data.recipes import recipe_ids, recipe_path\n"
        "print(*recipe_ids(), recipe_path('convgym/sales/expert-v0'))"
    )
    expected = f"convgym/sales/expert-v0 {(folder / 'expert-v0.toml').resolve()}"
    assert run_python(code, cwd=tmp_path) == expected


def test_the_two_commands_and_the_ci_script_are_there():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    commands = ("demo", "test", "test-all", "test-gymnasium-1.0", "lint", "docs", "bench", "clean")
    assert not [name for name in commands if f"\n{name}:" not in makefile]
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_the_package_under_test_is_this_checkout():
    spec = importlib.util.find_spec("convgym.data.recipes")
    assert spec is not None and Path(spec.origin or "").is_relative_to(ROOT)
