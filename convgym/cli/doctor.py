"""`convgym doctor`: what is installed, what is not and how to get it, and whether it works.

    fine      as it should be
    missing   an extra that is not installed; it says which command installs it
    warning   works, but something is worth knowing
    broken    what every command needs does not work: exit code 1

Extras are read from the package's own metadata, so that a new one shows up by being declared. torch
is asked in a process of its own: an installation that crashes must not take the doctor with it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from convgym.cli.requirements import needs, within

State = Literal["fine", "missing", "warning", "broken"]
_MARK: dict[State, str] = {"fine": "ok", "missing": "--", "warning": "!!", "broken": "XX"}
_PYTHON = (3, 11)
_LITTLE_MEMORY, _LITTLE_SPACE = 2.0, 1.0  # GiB
_ASK_TORCH = """
import json, torch
found = {"version": torch.__version__, "threads": torch.get_num_threads(), "gpus": []}
if torch.cuda.is_available():
    for i in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(i)
        found["gpus"].append([about.name, round(about.total_memory / 2**30, 1)])
print(json.dumps(found))
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    about: str
    state: State
    found: str
    cure: str = ""
    """What to do; "" where nothing is."""


def examine() -> list[Finding]:
    """Everything, in the order in which it is told; never raises."""
    found: list[Finding] = []
    for look in (_python, _core, _extras, _gpu, _memory, _minari, _learners, _conversation):
        try:
            found += look()
        except Exception as error:  # whatever a broken installation does
            name = look.__name__.strip("_")
            found.append(Finding(about=name, state="broken", found=_one_line(error),
                                 cure="reinstall convgym"))  # fmt: skip
    return found


def page(findings: list[Finding]) -> str:
    """One line for each, its cure below it."""
    lines = []
    for one in findings:
        lines.append(f"{_MARK[one.state]}  {one.about:<14} {one.found}")
        if one.cure:
            lines.append(f"    {'':<14} {one.cure}")
    broken = sum(one.state == "broken" for one in findings)
    lines.append(
        "\nEverything that is installed works."
        if not broken
        else f"\n{broken} broken; what stands below each mends it."
    )
    return "\n".join(lines)


def record(findings: list[Finding]) -> str:
    """The same as JSON."""
    sound = not any(one.state == "broken" for one in findings)
    return json.dumps({"sound": sound, "findings": [asdict(one) for one in findings]}, indent=1)


# -- what is looked at -----------------------------------------------------------------------------


def _python() -> Iterator[Finding]:
    new = sys.version_info[:2] >= _PYTHON
    yield Finding(
        about="python",
        state="fine" if new else "broken",
        found=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        cure="" if new else f"install Python {_PYTHON[0]}.{_PYTHON[1]} or later",
    )


def _core() -> Iterator[Finding]:
    for name, bounds in needs().get("", {}).items():
        yield _package(name, bounds, "broken", "pip install --upgrade convgym")


def _extras() -> Iterator[Finding]:
    declared = needs()
    for extra in sorted(declared.keys() - {"", "all", "test", "lint"}):
        wanted = declared[extra]
        cure = f'pip install "convgym[{extra}]"'
        each = [_package(name, bounds, "missing", cure) for name, bounds in wanted.items()]
        amiss = [one for one in each if one.state != "fine"]
        yield Finding(
            about=f"[{extra}]",
            state="missing" if amiss else "fine",
            found=", ".join(f"{one.about} {one.found}" for one in amiss or each),
            cure=cure if amiss else "",
        )


def _gpu() -> Iterator[Finding]:
    told = asked_torch()
    if told is None:
        smi = shutil.which("nvidia-smi") is not None
        yield Finding(
            about="gpu",
            state="missing" if smi else "fine",
            found="there is a driver, but no torch to use it" if smi else "none, and no torch",
            cure='pip install "convgym[llm]"' if smi else "",
        )
    elif "error" in told:
        yield Finding(about="torch", state="broken", found=told["error"],
                      cure="reinstall torch, as its installation page says")  # fmt: skip
    else:
        gpus = ", ".join(f"{name} ({size} GiB)" for name, size in told["gpus"])
        yield Finding(about="gpu", state="fine",
                      found=f"{gpus or 'none; torch computes on the CPU'}; torch "
                      f"{told['version']}, {told['threads']} threads")  # fmt: skip


def asked_torch(python: str = sys.executable) -> dict[str, Any] | None:
    """What torch says of itself and its GPUs; None where it is not installed."""
    try:
        metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
    try:
        done = subprocess.run(
            [python, "-c", _ASK_TORCH], capture_output=True, text=True, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": f"import torch does not end: {_one_line(error)}"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"error": f"import torch fails: {last[:200]}"}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _memory() -> Iterator[Finding]:
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError, AttributeError):  # not on this system
        yield Finding(about="memory", state="fine", found="this system does not tell")
        return
    free = _available()
    little = (free if free is not None else total) < _LITTLE_MEMORY
    said = f", {free:.1f} free" if free is not None else ""
    yield Finding(
        about="memory",
        state="warning" if little else "fine",
        found=f"{total:.1f} GiB{said}; {os.cpu_count()} cores",
        cure="close other programs before training" if little else "",
    )


def _available(path: Path = Path("/proc/meminfo")) -> float | None:
    """GiB that a new process could have, where the system tells."""
    try:
        lines = path.read_text("ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 2**20
    return None


def _minari() -> Iterator[Finding]:
    from convgym.data.local_root import minari_module

    minari_module()
    from minari.storage import get_dataset_path

    try:
        root = Path(get_dataset_path())
        writable, space = os.access(root, os.W_OK), shutil.disk_usage(root).free / 2**30
    except OSError as error:
        writable, space, root = False, 0.0, Path(_one_line(error))
    state: State = "fine" if writable and space >= _LITTLE_SPACE else "warning"
    yield Finding(
        about="minari root",
        state=state,
        found=f"{root}, {'writable' if writable else 'not writable'}, {space:.0f} GiB free",
        cure="" if state == "fine" else "set MINARI_DATASETS_PATH to a folder with room",
    )


def _learners() -> Iterator[Finding]:
    from convgym.cli.learners import entries, learner_called

    broken = []
    for name in entries():
        try:
            learner_called(name)
        except Exception as error:
            broken.append(f"{name} ({_one_line(error)})")
    yield Finding(
        about="learners",
        state="broken" if broken or not entries() else "fine",
        found=f"cannot be loaded: {', '.join(broken)}" if broken else f"{len(entries())} by name",
        cure="" if entries() and not broken else "reinstall convgym: pip install --force-reinstall",
    )


def _conversation() -> Iterator[Finding]:
    import gymnasium as gym

    from convgym.evaluation.rollout import play
    from convgym.policies.scripted import OraclePolicy

    env = gym.make("ConvGym/CustomerService-v0", observation="features", action="act")
    rollout = play(env, OraclePolicy(), seed=0, options={"task_id": "test-0"}, keep=False)
    well = bool(rollout.final_info["success"])
    yield Finding(
        about="conversation",
        state="fine" if well else "broken",
        found=f"test-0 in {rollout.length} turns, {'solved' if well else 'not solved'}",
        cure="" if well else "reinstall convgym: its files were changed",
    )


def _package(name: str, bounds: str, without: State, cure: str) -> Finding:
    """Whether a package is there in a version within its bounds."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(about=name, state=without, found="is not installed", cure=cure)
    if not within(version, bounds):
        return Finding(about=name, state=without, found=f"{version}, not {bounds}", cure=cure)
    return Finding(about=name, state="fine", found=version)


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
