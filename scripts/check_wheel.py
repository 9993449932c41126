"""What a newcomer does who has no checkout: install the wheel, and use all of it elsewhere.

    python scripts/check_wheel.py [--extras sb3,llm,serve] [--keep FOLDER] [--torch SPEC]

    clean copy ─► wheel ─► contents ─► empty environment ─► a folder far away ─► every step below
                            │ every file of convgym, trainers and datasets, and no other

Packages come from wherever pip finds them, with the versions of constraints.txt; after that
nothing is fetched: what tries to reach a network finds a closed door. Exit code 1 where a step
failed; what it said is printed. With --keep the environment stays, and is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "sb3,llm,serve,calibration,report"
TORCH = "torch==2.13.0"
_INSTALLED_DATA = "share/convgym/"
_NOT_OURS = {"__pycache__", ".DS_Store"}
_SHORT = "steps=2 checkpoint_every=1 learner.group_size=2 learner.seeds_per_iteration=1 "
_LIMIT = 300
"""Seconds of a step; ten times what one takes on a free core, for there are busy machines."""

MAKE_EVERY_ID = """
import sys, gymnasium as gym, convgym
assert "site-packages" in convgym.__file__, convgym.__file__
folder, user = sys.argv[1:]
needed = {"ConvGym/OwnDomain-v0": {"folder": folder}, "ConvGym/Recorded-v0": {"user": user}}
ids = [name for name in gym.registry if name.startswith("ConvGym/")]
for name in ids:
    env = gym.make(name, **needed.get(name, {}))
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.close()
import convgym.multi_agent
print(len(ids), "ids:", *ids)
"""
LOAD = """
import convgym
packaged = convgym.load_dataset("convgym/customer-service/sample-v0", sources=["packaged"])
built = convgym.load_dataset("convgym/customer-service/random-v0", sources=["recipe"])
print(packaged.total_episodes, "packaged and", built.total_episodes, "built episodes")
"""
GUIDES = """
from importlib import resources
from convgym.data.recipes import recipes_folder
named = {"convgym.envs": ("scenarios.md", "two_sided.md"), "convgym.desk": ("README.md",),
         "convgym": ("interchange.md", "contributing.md"), "trainers.llm": ("README.md",)}
for package, names in named.items():
    for name in names:
        assert len(resources.files(package).joinpath(name).read_text("utf-8")) > 1000, name
assert (recipes_folder() / "README.md").is_file()
print("all there")
"""


# -- the wheel -------------------------------------------------------------------------------------


def sources(root: Path) -> set[str]:
    """What belongs into the wheel, by the name that it has there."""
    packages = {
        path.relative_to(root).as_posix()
        for package in ("convgym", "trainers")
        for path in (root / package).rglob("*")
        if path.is_file() and not _NOT_OURS & set(path.parts) and path.suffix != ".pyc"
    }
    data = {
        _INSTALLED_DATA + path.relative_to(root).as_posix()
        for path in (root / "datasets").rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    return packages | data


def build_wheel(root: Path, place: Path) -> Path:
    """The wheel of `root`, built from a clean copy, without what earlier builds have left.

    Raises RuntimeError with what the build said where it fails.
    """
    copy = place / "source"
    for name in ("convgym", "trainers", "datasets"):
        shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns(*_NOT_OURS))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(root / name, copy)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the wheel cannot be built: {done.stderr[-2000:]}")
    return place / done.stdout.split()[-1]


def contents(wheel: Path) -> set[str]:
    """Files of a wheel by name, those of `share/` as they are installed; without its metadata."""
    with zipfile.ZipFile(wheel) as packed:
        names = [info.filename for info in packed.infolist() if not info.is_dir()]
    data = ".data/data/"
    return {
        name.partition(data)[2] if data in name else name
        for name in names
        if ".dist-info/" not in name
    }


def differences(root: Path, wheel: Path) -> list[str]:
    """A sentence for each file that is missing in a wheel, or does not belong there."""
    expected, there = sources(root), contents(wheel)
    missing = [f"{name} is not in the wheel" for name in sorted(expected - there)]
    return missing + [f"{name} does not belong there" for name in sorted(there - expected)]


# -- the environment -------------------------------------------------------------------------------


def environment(place: Path, wheel: Path, extras: str, torch: str) -> Path:
    """The Python of an environment that holds the wheel with its extras, and nothing of ours."""
    python = place / "bin" / "python"
    if not python.is_file():
        venv.create(place, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
    if torch:
        subprocess.run([*pip, torch], check=True)
    subprocess.run([*pip, f"{wheel}[{extras}]" if extras else str(wheel)], check=True)
    again = [*pip, "--force-reinstall", "--no-deps", str(wheel)]  # the same version, other files
    subprocess.run(again, check=True)
    return python


def alone(work: Path) -> dict[str, str]:
    """Variables of a process that must find everything by itself."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    closed = "http://127.0.0.1:9"
    return kept | {
        "HTTP_PROXY": closed, "HTTPS_PROXY": closed, "http_proxy": closed, "https_proxy": closed,
        "NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        "MINARI_DATASETS_PATH": str(work / "minari"), "COLUMNS": "100",
    }  # fmt: skip


# -- the steps -------------------------------------------------------------------------------------


def steps(python: Path, work: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """What is done, in its order: a name, and a function that says what came of it."""
    convgym = python.with_name("convgym")

    def run(*command: object) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=work, env=alone(work), capture_output=True, text=True, timeout=_LIMIT,
        )  # fmt: skip
        if done.returncode:
            said = (done.stdout + done.stderr)[-1500:]
            raise RuntimeError(f"exit code {done.returncode}: {said}")
        return (done.stdout.strip().splitlines() or [""])[-1]

    def command(line: str) -> Callable[[], str]:
        return lambda: run(convgym, *line.split())

    def set_(given: str) -> str:
        return " ".join(f"--set {one}" for one in given.split())

    folder, user = work / "library", work / "user.npz"
    shutil.copytree(ROOT / "tests" / "data" / "library_domain", folder)
    log = work / "log.jsonl"
    shutil.copy(ROOT / "datasets" / "samples" / "support_sample.jsonl", log)
    yield "version", command("version")
    yield "doctor", command("doctor")
    yield "guides and cards", lambda: run(python, "-c", GUIDES)
    yield "calibrate", command(f"calibrate --logs {log} --out {user} --holdout 0.4")
    yield "make every id", lambda: run(python, "-c", MAKE_EVERY_ID, folder, user)
    yield "a domain of one's own", command(f"domain check {folder} --tasks 20")
    yield "datasets, packaged and built", lambda: run(python, "-c", LOAD)
    yield "train --stub", command("train --stub")
    yield "train cql", command(
        "train --algorithm cql --dataset convgym/customer-service/sample-v0 --steps 20 --name cql "
        + set_("evaluation.episodes=4")
    )
    yield "train maskable_ppo", command(
        "train --algorithm maskable_ppo --steps 64 --name ppo --env ConvGym/CustomerService-v0 "
        + set_("learner.n_envs=4 learner.n_steps=16 learner.batch_size=16 evaluation.episodes=4")
    )
    yield "train grpo", command(
        "train --algorithm grpo --name grpo "
        + set_(_SHORT.replace("steps=2", "steps=1") + "evaluation.episodes=2")
    )
    yield "evaluate", command("evaluate --policy cql --episodes 4 --personas none --json")
    yield "evaluate, a message", lambda: run(
        convgym, "evaluate", "--policy", "grpo", "--message", "Where is my order?"
    )
    yield "serve", lambda: served(convgym, work)


def served(convgym: Path, work: Path) -> str:
    """What the service answers to a chat, and how long its page is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(convgym), "serve", "--policy", "oracle", "--port", str(port)]
    service = subprocess.Popen(
        command, cwd=work, env=alone(work), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        page = _asked(f"http://127.0.0.1:{port}/", service)
        said = {"messages": [{"role": "user", "content": "I want to cancel my order"}]}
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        answer = json.loads(_asked(url, service, json.dumps(said).encode()))
        reply = answer["choices"][0]["message"]["content"]
        if not reply or b"<script" not in page:
            raise RuntimeError("the service answers, but with nothing")
        return f"{len(page):,} bytes of page; {reply[:60]!r}"
    finally:
        service.terminate()
        service.wait(timeout=30)


def _asked(url: str, service: subprocess.Popen[bytes], body: bytes | None = None) -> bytes:
    """One request, again until the service is up."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    head = {"Content-Type": "application/json"}
    for _ in range(2 * _LIMIT):
        try:
            with opener.open(urllib.request.Request(url, body, head), timeout=30) as answer:
                found: bytes = answer.read()
                return found
        except ConnectionError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
        if service.poll() is not None:
            assert service.stderr is not None
            raise RuntimeError(service.stderr.read().decode()[-1500:])
        time.sleep(0.5)
    raise RuntimeError(f"the service did not answer within {_LIMIT} s")


def main() -> int:
    """Build, install, try everything; prints a line for each step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extras", default=EXTRAS, help="of convgym, with commas between")
    parser.add_argument("--torch", default=TORCH, help='installed first; "" where there is none')
    parser.add_argument("--keep", type=Path, help="folder of the environment, used again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="convgym-wheel-") as folder:
        try:
            failed = check(Path(folder), asked.keep, asked.extras, asked.torch)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"check_wheel: {error}", file=sys.stderr)
            return 1
    return int(failed > 0)


def check(place: Path, keep: Path | None, extras: str, torch: str) -> int:
    """All of it, in a folder of its own; how many things were wrong.

    Raises RuntimeError or CalledProcessError where there is no wheel, or it cannot be installed.
    """
    wheel = build_wheel(ROOT, place)
    print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB, {len(contents(wheel))} files")
    wrong = differences(ROOT, wheel)
    print("\n".join(f"  {sentence}" for sentence in wrong), end="\n" if wrong else "")
    python = environment((keep or place / "environment").resolve(), wheel, extras, torch)
    work, failed = place / "far-away", len(wrong)
    work.mkdir()
    for name, step in steps(python, work):
        began = time.perf_counter()
        try:
            said = step()
        except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
            failed, said = failed + 1, f"FAILED: {error}"
        print(f"{name:<30} {time.perf_counter() - began:5.1f} s  {said[:1500]}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
