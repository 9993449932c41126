"""The wheel holds every file that the packages need, and no other; scripts/check_wheel.py."""

import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_BYTES = 4_000_000
"""Of the embedded model, and of the whole wheel."""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / "scripts/check_wheel.py")
    module = sys.modules["check_wheel"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(script, tmp_path_factory):
    setuptools = pytest.importorskip("setuptools", reason="no build backend is installed")
    if int(setuptools.__version__.partition(".")[0]) < 77:
        pytest.skip(f"the build takes setuptools 77, here is {setuptools.__version__}")
    return script.build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_what_is_in_the_checkout(script, wheel):
    assert script.differences(ROOT, wheel) == []


def test_what_is_needed_at_run_time_is_in_it(script, wheel):
    names = script.contents(wheel)
    assert {
        "convgym/py.typed",
        "trainers/py.typed",
        "convgym/domains/customer_service/user_phrases.toml",
        "convgym/domains/customer_service/rules.toml",
        "convgym/service/page/index.html",
        "convgym/envs/scenarios.md",
        "convgym/desk/README.md",
        "trainers/llm/embedded/model/model.safetensors",
        "trainers/tuning/spaces.toml",
        "share/convgym/datasets/customer-service/expert-v0.toml",
        "share/convgym/datasets/samples/support_sample.jsonl",
    } <= names
    assert not [name for name in names if name.startswith(("tests", "scripts", "build"))]
    assert not [name for name in names if name.endswith(".pyc") or "__pycache__" in name]


def test_it_is_small(wheel):
    model = "trainers/llm/embedded/model/"
    with zipfile.ZipFile(wheel) as packed:
        sizes = {info.filename: info.file_size for info in packed.infolist()}
    assert sum(size for name, size in sizes.items() if name.startswith(model)) < MOST_BYTES
    assert wheel.stat().st_size < MOST_BYTES


def test_its_metadata_say_what_pyproject_says(wheel):
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (n for n in packed.namelist() if n.endswith("METADATA"))
        metadata = packed.read(name).decode()
        (points,) = (n for n in packed.namelist() if n.endswith("entry_points.txt"))
        entries = packed.read(points).decode()
    assert "Name: convgym\n" in metadata and "License-Expression: MIT" in metadata
    assert all(f"Provides-Extra: {extra}\n" in metadata for extra in ("sb3", "llm", "serve"))
    assert "convgym = convgym.cli.main:app" in entries and "[convgym.learners]" in entries


def test_a_file_that_is_missing_or_too_many_is_told(script, wheel, tmp_path):
    other = tmp_path / "other-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(other, "w") as changed:
        for name in packed.namelist():
            if name != "convgym/spaces.py":
                changed.writestr(name, packed.read(name))
        changed.writestr("tests/test_x.py", "")
    assert script.differences(ROOT, other) == [
        "convgym/spaces.py is not in the wheel",
        "tests/test_x.py does not belong there",
    ]
