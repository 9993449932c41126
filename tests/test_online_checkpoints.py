"""Online runs that are broken off and taken up again end as if they had not been."""

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from convgym.errors import InvalidConfiguration

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from online_tasks import Doors, DoorsOfParts, mean_return
from small_learners import NAMES, learner, weights

from trainers.callbacks import EarlyStopping

torch.set_num_threads(1)


class Broken(Exception):
    """The run is broken off here."""


def breaks_at(step):
    def breaks(done, metrics):
        if done >= step:
            raise Broken

    return breaks


def run(name, place, env=Doors, callback=None, **settings):
    fitted = learner(name, **settings)
    policy = fitted.fit(
        env,
        2_000,
        {"wins": lambda policy: mean_return(policy, env(), 5)},
        800,
        callback,
        checkpoint=place,
        checkpoint_every=600,
    )
    return policy, fitted.history


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_broken_off_ends_with_the_same_weights(name, tmp_path):
    whole, history = run(name, tmp_path / "whole.zip")
    with pytest.raises(Broken):  # between two checkpoints: what came after the last is done again
        run(name, tmp_path / "broken.zip", callback=breaks_at(1_600))
    broken, retold = run(name, tmp_path / "broken.zip")
    pairs = list(zip(weights(whole), weights(broken), strict=True))
    assert len(pairs) > 4 and all(np.array_equal(one, two) for one, two in pairs)
    assert retold == history and len(history) >= 2
    assert whole.model.num_timesteps == broken.model.num_timesteps
    if "dqn" in name:
        one, two = (policy.model.replay_buffer for policy in (whole, broken))
        assert one.pos == two.pos and np.array_equal(one.observations, two.observations)
        assert np.array_equal(one.timeouts, two.timeouts) and np.array_equal(one.dones, two.dones)


def test_a_replay_buffer_of_parts_and_one_that_is_full_are_kept(tmp_path):
    settings = {"n_step_td": 1, "buffer_size": 640}
    whole, _ = run("dqn", tmp_path / "whole.zip", DoorsOfParts, **settings)
    with pytest.raises(Broken):
        run("dqn", tmp_path / "broken.zip", DoorsOfParts, breaks_at(1_600), **settings)
    broken, _ = run("dqn", tmp_path / "broken.zip", DoorsOfParts, **settings)
    pairs = zip(weights(whole), weights(broken), strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs)


def test_what_was_cut_off_at_a_checkpoint_still_bootstraps(tmp_path):
    policy, _ = run("dqn", tmp_path / "run.zip")
    buffer = policy.model.replay_buffer
    cut = (buffer.dones > 0) & (buffer.timeouts > 0)
    rows = np.flatnonzero(cut.any(axis=1))
    assert (rows + 1).tolist() == [75, 150, 225]  # 600 turns of 8 rows; nothing else is cut off


def test_a_finished_run_is_not_run_again(tmp_path):
    first, history = run("ppo", tmp_path / "run.zip")
    again, retold = run("ppo", tmp_path / "run.zip", callback=breaks_at(0))
    assert again.model.num_timesteps == first.model.num_timesteps and retold == history


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    place = tmp_path / "run.zip"
    run("ppo", place)
    with pytest.raises(InvalidConfiguration, match=r"run\.zip has seed=0, and this one seed=1"):
        run("ppo", place, seed=1)
    with pytest.raises(InvalidConfiguration, match="algorithm='PPO'"):
        run("a2c", place)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("run.json", json.dumps({"format": "another"}))
    with pytest.raises(InvalidConfiguration, match="no checkpoint of an online run"):
        run("ppo", place)
    assert [path.name for path in tmp_path.iterdir()] == ["run.zip"]


SCRIPT = """
import sys
sys.path.insert(0, "tests")
from test_online_checkpoints import run
run(sys.argv[1], sys.argv[2])
"""


class Fragile(Doors):
    """Doors that break the run off at the step that is set."""

    left = 0

    def step(self, action):
        Fragile.left -= 1
        if Fragile.left == 0:
            raise Broken
        return super().step(action)


@pytest.mark.parametrize("name", ["dqn", pytest.param("ppo", marks=pytest.mark.slow)])
def test_a_run_that_was_broken_off_at_twenty_random_steps_ends_with_the_same_weights(
    name, tmp_path
):
    whole, history = run(name, tmp_path / "whole.zip")
    place, chance, broken = tmp_path / "broken.zip", np.random.default_rng(1), 0
    while broken < 20:
        Fragile.left = int(chance.integers(1, 900))
        try:
            run(name, place, Fragile)
            place.unlink()  # it came through: again from the beginning
        except Broken:
            broken += 1
    Fragile.left = 0
    ended, retold = run(name, place, Fragile)
    pairs = zip(weights(whole), weights(ended), strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs) and retold == history


@pytest.mark.slow
def test_a_run_that_is_killed_ends_with_the_same_weights(tmp_path):
    """A minute or more: four processes, each killed after it has kept a checkpoint."""
    whole, _ = run("qr_dqn", tmp_path / "whole.zip")
    root, chance = Path(__file__).parents[1], np.random.default_rng(0)
    place = tmp_path / "killed.zip"
    command = [sys.executable, "-c", SCRIPT, "qr_dqn", str(place)]
    killed = 0
    while True:
        before = place.stat().st_mtime_ns if place.exists() else 0
        started = subprocess.Popen(command, cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"})
        while started.poll() is None:
            if place.exists() and place.stat().st_mtime_ns > before:
                time.sleep(chance.uniform(0.0, 0.3))
                started.kill()
                started.wait()
            time.sleep(0.01)
        if started.returncode == 0:
            break
        killed += 1
        assert killed < 10
    ended, _ = run("qr_dqn", place)
    pairs = zip(weights(whole), weights(ended), strict=True)
    assert killed >= 1 and all(np.array_equal(one, two) for one, two in pairs)


# -- callbacks -------------------------------------------------------------------------------------


def test_early_stopping_ends_a_run_and_remembers_when_it_is_taken_up_again(tmp_path):
    def fit(callback):
        fitted = learner("ppo")
        fitted.fit(
            Doors, 50_000, {"wins": lambda policy: 1.0}, 300, callbacks=[callback],
            checkpoint=tmp_path / "run.zip", checkpoint_every=300,
        )  # fmt: skip
        return fitted.history

    history = fit(EarlyStopping("wins", patience=3))
    assert 4 <= len(history) <= 5
    assert len(fit(EarlyStopping("wins", patience=3))) <= len(history) + 1
