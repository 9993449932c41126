"""Episodes as arrays: read, refused, and put back as they were."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the environments
from convgym.data.episodes import collect, content_hash, write_dataset
from convgym.data.transitions import episode_buffers, read_episodes
from convgym.errors import DatasetError
from convgym.policies.policy import RandomPolicy
from convgym.policies.scripted import PlannerPolicy

minari = pytest.importorskip("minari")

FIELDS = ("action_mask", "propensity", "policy", "success")


def collected(**keywords):
    env = gym.make("ConvGym/CustomerService-v0", action="act", max_turns=6, **keywords)
    mixture = [(RandomPolicy(), 0.5), (PlannerPolicy(0.2), 0.5)]
    return env, collect(env, mixture, 20, seed=1, info_fields=FIELDS)


class Stored:
    """A dataset of one episode."""

    def __init__(self, episode):
        self._episode = episode

    def iterate_episodes(self):
        return iter([self._episode])


@pytest.fixture
def episode():
    """Two turns of vectors, cut off."""
    flags = np.array([False, True])
    return minari.dataset.minari_dataset.EpisodeData(
        7, np.arange(6.0).reshape(3, 2), np.array([0, 1]), np.ones(2), ~flags & False, flags, {}
    )


def test_arrays_come_back_as_the_episodes_that_were_read(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env, buffers = collected(observation="features")
    about = {"description": "A few.", "ref_min_score": 0.0, "ref_max_score": 1.0}
    dataset = write_dataset("read-v0", env, buffers, algorithm_name="mixture", **about)
    back = episode_buffers(read_episodes(dataset))
    bare = [replace(buffer, seed=None, options=None) for buffer in buffers]
    assert content_hash(back) == content_hash(bare)


def test_of_dict_observations_one_part_is_read_or_several():
    _, buffers = collected(observation="dict")
    stored = Stored(replace(buffers[0], id=0))
    (alone,) = read_episodes(stored)
    assert np.array_equal(alone.observations, buffers[0].observations["features"])
    (several,) = read_episodes(stored, part=("turn", "message"))
    assert list(several.observations) == ["turn", "message"]
    assert several.observations["message"].tolist() == buffers[0].observations["message"]
    for missing in ("moods", ("turn", "moods")):
        with pytest.raises(DatasetError, match="no part 'moods'; there are features"):
            read_episodes(stored, part=missing)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("observations", lambda o: o[:-1], "has 2 observations; it must have 3"),
        ("rewards", lambda r: r[:-1], "has 1 rewards; it must have 2"),
        ("truncations", lambda t: t[:-1], "flags of unlike length"),
        ("truncations", lambda t: ~t, "goes on after its end"),
        ("actions", lambda a: a[:-1], "has 3 observations; it must have 2"),
        ("infos", lambda _: {"policy": np.zeros(2)}, "has 2 infos of 'policy'; it must have 3"),
    ],
)
def test_lengths_that_do_not_fit_are_named(episode, column, change, message):
    with pytest.raises(DatasetError, match=message):
        read_episodes(Stored(replace(episode, **{column: change(getattr(episode, column))})))


def test_flags_shorter_than_the_episode_are_named(episode):
    short = replace(episode, terminations=np.array([True]), truncations=np.array([False]))
    with pytest.raises(DatasetError, match="has 1 flags; it must have 2"):
        read_episodes(Stored(short))
