"""Stable-Baselines3's algorithms by name, and which of them has written an archive.

    policy.zip ─► `data`, a page of JSON ─► "algorithm", which learners here note
                                       └─► else the class of its policy, else its settings

An archive does not say what wrote it, yet only that class can read it. What a newcomer would get
wrong: Stable-Baselines3 unpickles what it reads, so that a file runs code; load what you trust.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra, told
from convgym.language.archive import DAMAGE

PACKAGES = {
    **dict.fromkeys(("PPO", "A2C", "DQN", "SAC", "TD3"), "stable_baselines3"),
    **dict.fromkeys(
        ("MaskablePPO", "RecurrentPPO", "TRPO", "QRDQN", "TQC", "CrossQ"), "sb3_contrib"
    ),
}
"""The package of each algorithm that can be read."""
_TELLING = (
    ("sb3_contrib.common.maskable.policies", "MaskablePPO"),
    ("sb3_contrib.common.recurrent.policies", "RecurrentPPO"),
    ("sb3_contrib.qrdqn.policies", "QRDQN"),
    ("sb3_contrib.tqc.policies", "TQC"),
    ("sb3_contrib.crossq.policies", "CrossQ"),
    ("stable_baselines3.dqn.policies", "DQN"),
    ("stable_baselines3.sac.policies", "SAC"),
    ("stable_baselines3.td3.policies", "TD3"),  # and DDPG, which is a TD3 with one critic
    ("cg_max_steps", "TRPO"),
    ("n_epochs", "PPO"),
    ("gae_lambda", "A2C"),
)
"""Where a policy is defined, or a setting, and the first algorithm that it speaks for."""


def sb3_class(algorithm: str) -> Any:
    """The class of an algorithm; raises MissingExtra where its package is not installed."""
    try:
        return getattr(importlib.import_module(PACKAGES[algorithm]), algorithm)
    except ImportError as error:
        raise MissingExtra(error.name or PACKAGES[algorithm], "sb3") from error


def read_model(path: str | os.PathLike[str], device: str = "cpu") -> Any:
    """The model in an archive, without an environment, and so fit to act but not to learn.

    Raises InvalidConfiguration for a file that is not there or that no known algorithm wrote.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            page = dict(json.loads(archive.read("data")))
    except DAMAGE as error:
        raise InvalidConfiguration(
            f"{os.fspath(path)} is no archive of Stable-Baselines3 ({told(error)}); give the path "
            "of a zip that a learner's or a policy's save has written"
        ) from error
    # To act needs no replay buffer, and a million rows would be set aside for it.
    small = {"buffer_size": 1, "replay_buffer_class": None} if "buffer_size" in page else {}
    algorithm = sb3_class(algorithm_of(page))
    try:
        return algorithm.load(Path(path), device=device, **small)
    except Exception as error:  # whatever damaged pickles and weights make it raise
        raise InvalidConfiguration(
            f"{os.fspath(path)} is a damaged archive of {algorithm.__name__} "
            f"({type(error).__name__}: {told(error)}); save it again"
        ) from error


def algorithm_of(page: dict[str, Any]) -> str:
    """The algorithm whose settings these are."""
    found = page.get("algorithm")
    if found is None:
        policy = (page.get("policy_class") or {}).get("__module__")
        telling = {*page, policy}
        found = next((name for sign, name in _TELLING if sign in telling), None)
    if found not in PACKAGES:
        raise InvalidConfiguration(
            f"the archive is of an algorithm that is not known here ({found or policy}); "
            f"those known are {', '.join(PACKAGES)}"
        )
    return str(found)


def archived(model: Any) -> bytes:
    """The model as Stable-Baselines3's own archive."""
    content = io.BytesIO()
    model.save(content)
    return content.getvalue()


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that is there wholly or not at all."""
    aside = Path(f"{os.fspath(path)}.{os.getpid()}.part")
    try:
        aside.write_bytes(content)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
