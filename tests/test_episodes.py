"""Minari episodes: alignment, propensities, equal bytes, nothing half-written."""

import hashlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from filelock import FileLock

import convgym  # noqa: F401  registers the environments
from convgym.data.episodes import collect, content_hash, write_dataset
from convgym.data.local_root import hidden_root
from convgym.data.mixture import BehaviorMixture
from convgym.data.transitions import count, read_episodes, returns_to_go
from convgym.domains.catalogue import domain_called
from convgym.errors import DatasetError, InvalidConfiguration, MissingExtra
from convgym.evaluation.rollout import play
from convgym.policies.policy import RandomPolicy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import KeywordPolicy, PlannerPolicy, SlotFillingPolicy

minari = pytest.importorskip("minari")

ROOT = Path(__file__).parents[1]
ACTIONS = domain_called("customer-service").actions
ID = "convgym/customer-service/tried-v0"


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def desk(**keywords) -> gym.Env:
    settings = {"observation": "features", "action": "act", "reward": "milestones"}
    return gym.make("ConvGym/CustomerService-v0", discount=0.98, **{**settings, **keywords})


def behaviour() -> list:
    return [
        (RandomPolicy(), 0.15),
        (KeywordPolicy(), 0.2),
        (SlotFillingPolicy(0.15), 0.35),
        (PlannerPolicy(0.2), 0.3),
    ]


def write(env, buffers, dataset_id=ID, **keywords):
    settings = {
        "description": "A few conversations.",
        "ref_min_score": 0.0,
        "ref_max_score": 1.0,
        "algorithm_name": "mixture",
    }
    return write_dataset(dataset_id, env, buffers, **{**settings, **keywords})


@pytest.fixture(scope="module")
def buffers() -> list:
    return collect(desk(), behaviour(), episodes=60, seed=7)


# Collecting


def test_episodes_hold_one_more_observation_than_actions(buffers):
    for buffer in buffers:
        turns = len(buffer)
        assert len(buffer.actions) == len(buffer.rewards) == turns >= 1
        assert len(buffer.observations) == turns + 1
        assert {len(column) for column in buffer.infos.values()} == {turns + 1}
        assert not buffer.terminations[:-1].any() and not buffer.truncations[:-1].any()
        assert buffer.terminations[-1] != buffer.truncations[-1]
    assert any(buffer.truncations[-1] for buffer in buffers)
    assert len({tuple(sorted(buffer.infos)) for buffer in buffers}) == 1


def test_every_act_was_legal(buffers):
    for buffer in buffers:
        mask = buffer.infos["action_mask"]
        assert mask.dtype == np.int8 and mask.shape == (len(buffer) + 1, len(ACTIONS))
        assert mask[np.arange(len(buffer)), buffer.actions].all()


def test_propensities_are_those_of_the_policy_that_played(buffers):
    policies = [policy for policy, _ in behaviour()]
    for buffer in buffers:
        policy = policies[buffer.infos["policy"][0]]
        assert np.isnan(buffer.infos["propensity"][0])
        for t, action in enumerate(buffer.actions):
            mask = buffer.infos["action_mask"][t]
            stored = buffer.infos["propensity"][t + 1]
            assert stored == policy.action_probs(buffer.observations[t], mask)[action] > 0


def test_an_episode_plays_again_from_its_seed_and_task(buffers):
    env, mixture = desk(), BehaviorMixture(behaviour())
    for buffer in buffers[:10]:
        again = play(env, mixture, seed=buffer.seed, options=buffer.options)
        assert again.actions == buffer.actions.tolist()
        assert again.rewards == buffer.rewards.tolist()
        assert mixture.index == buffer.infos["policy"][0]


def test_policies_and_tasks_are_drawn_by_weight_from_the_split():
    drawn = collect(desk(), behaviour(), episodes=400, seed=3, split="validation")
    shares = np.bincount([b.infos["policy"][0] for b in drawn], minlength=4) / len(drawn)
    assert shares == pytest.approx([0.15, 0.2, 0.35, 0.3], abs=0.06)
    tasks = {b.options["task_id"] for b in drawn}
    assert all(task.startswith("validation-") for task in tasks) and len(tasks) > 300


def test_a_missing_minari_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingExtra, match="minari"):
        collect(desk(), behaviour(), episodes=1, seed=0)


def test_another_seed_is_another_dataset(buffers):
    assert content_hash(collect(desk(), behaviour(), 60, seed=7)) == content_hash(buffers)
    assert content_hash(collect(desk(), behaviour(), 60, seed=8)) != content_hash(buffers)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.0, 0.0], [], [1.5, -0.5]])
def test_weights_must_be_a_distribution(weights):
    with pytest.raises(InvalidConfiguration, match="positive and sum to 1"):
        BehaviorMixture([(RandomPolicy(), weight) for weight in weights])


# Writing


def test_two_builds_are_equal_to_the_byte(buffers, minari_root):
    digests = []
    for name in ("first", "second"):
        again = collect(desk(), behaviour(), episodes=60, seed=7)
        os.environ["MINARI_DATASETS_PATH"] = str(minari_root / name)  # monkeypatch undoes it
        dataset = write(desk(), again)
        files = sorted(Path(dataset.storage.data_path).iterdir())
        digests.append([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])
    assert len(digests[0]) == 2 and digests[0] == digests[1]


def test_plain_minari_loads_what_was_written(buffers):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        write(desk(), buffers)
    dataset = minari.load_dataset(ID)
    assert (dataset.total_episodes, dataset.id) == (60, ID)
    assert content_hash(dataset) == content_hash(buffers)
    metadata = dataset.storage.metadata
    assert (metadata["ref_min_score"], metadata["ref_max_score"]) == (0.0, 1.0)
    assert metadata["requirements"] == ["convgym>=0.1"]
    for buffer, episode in zip(buffers, dataset.iterate_episodes(), strict=True):
        assert np.array_equal(episode.observations, buffer.observations)
        assert np.array_equal(episode.actions, buffer.actions)
        assert np.array_equal(episode.infos["action_mask"], buffer.infos["action_mask"])
    assert ID in minari.list_local_datasets()


def test_the_hash_sees_every_change(buffers):
    whole = content_hash(buffers)
    assert content_hash(buffers[:-1]) != whole
    assert content_hash([buffers[1], buffers[0], *buffers[2:]]) != whole
    before, buffers[5].actions[0] = buffers[5].actions[0], buffers[5].actions[0] + 1
    changed = content_hash(buffers)
    buffers[5].actions[0] = before
    assert changed != whole == content_hash(buffers)


def test_a_fresh_process_recovers_the_environment(buffers, minari_root):
    write(desk(), buffers)
    code = (
        "import minari, sys\n"
        f"dataset = minari.load_dataset({ID!r})\n"
        "assert 'convgym' not in sys.modules\n"
        "env, test = dataset.recover_environment(), dataset.recover_environment(eval_env=True)\n"
        "assert env.observation_space == dataset.observation_space\n"
        "assert test.spec.kwargs == {**env.spec.kwargs, 'split': 'test'}\n"
        "print(env.reset(seed=1)[1]['split'], test.reset(seed=1)[1]['split'])"
    )
    environment = {
        **os.environ,
        "MINARI_DATASETS_PATH": str(minari_root),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["train", "test"]


def test_a_taken_id_is_refused_in_one_sentence(buffers):
    write(desk(), buffers)
    with pytest.raises(DatasetError, match=r"exists already, .*overwrite=True"):
        write(desk(), buffers[:2])
    assert minari.load_dataset(ID).total_episodes == 60
    assert write(desk(), buffers[:2], overwrite=True).total_episodes == 2
    with pytest.raises(DatasetError, match="no episodes"):
        write(desk(), [], "convgym/none-v0")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failure_leaves_nothing_half_written(buffers, minari_root, overwrite):
    if overwrite:
        write(desk(), buffers[:3])
    before = sorted(minari_root.rglob("*"))
    bad = collect(desk(), behaviour(), episodes=2, seed=0)
    bad[1].infos["note"] = ["\0"] * (len(bad[1]) + 1)  # HDF5 takes no NUL
    with pytest.raises(ValueError, match="NULL"):
        write(desk(), bad, overwrite=overwrite)
    assert sorted(minari_root.rglob("*")) == before
    assert os.environ["MINARI_DATASETS_PATH"] == str(minari_root)
    assert list(minari.list_local_datasets()) == [ID] * overwrite


def test_conversations_in_words_are_stored_too():
    env = desk(observation="dict", action="text")
    drawn = collect(env, [(RenderedPolicy(PlannerPolicy(0.2)), 1.0)], episodes=4, seed=1)
    dataset = write(env, drawn, "convgym/customer-service-text/tried-v0")
    assert content_hash(dataset) == content_hash(drawn)
    for buffer, episode in zip(drawn, dataset.iterate_episodes(), strict=True):
        assert list(episode.actions) == buffer.actions
        assert list(episode.observations["message"]) == buffer.observations["message"]
        acts = [raw.decode() for raw in episode.infos["user_acts"]]  # Minari gives bytes back
        assert acts == buffer.infos["user_acts"]
        assert "action_mask" not in episode.infos


# Reading


def test_arrays_match_a_plain_loop(buffers):
    dataset = write(desk(), buffers)
    episodes = read_episodes(dataset, discount=0.9)
    assert count(episodes)["transitions"] == dataset.total_steps
    for buffer, arrays in zip(buffers, episodes, strict=True):
        assert len(arrays) == len(buffer)
        assert arrays.terminated == bool(buffer.terminations[-1]) != arrays.truncated
        assert arrays.success == bool(buffer.infos["success"][-1])
        assert arrays.policy == buffer.infos["policy"][0]
        assert arrays.masks is not None and arrays.propensities is not None
        for t in range(len(buffer)):
            assert np.array_equal(arrays.observations[t], buffer.observations[t])
            assert arrays.actions[t] == buffer.actions[t]
            assert arrays.rewards[t] == buffer.rewards[t]
            assert np.array_equal(arrays.masks[t], buffer.infos["action_mask"][t])
            assert arrays.propensities[t] == buffer.infos["propensity"][t + 1]
            later = (0.9**k * r for k, r in enumerate(buffer.rewards[t:]))
            assert arrays.returns[t] == pytest.approx(sum(later))
        assert np.array_equal(arrays.observations[-1], buffer.observations[-1])


def test_return_to_go_by_hand():
    assert returns_to_go(np.array([1.0, 0.0, 2.0]), 0.5).tolist() == [1.5, 1.0, 2.0]


def test_what_a_killed_process_has_left_is_swept_and_what_a_living_one_writes_is_not(minari_root):
    for name in (".writing-dead", ".writing-alive", ".writing-begun"):
        (minari_root / name / "convgym").mkdir(parents=True)
        (minari_root / name / ".lock").touch()
    for name in (".writing-dead", ".writing-alive"):
        os.utime(minari_root / name, (0, 0))
    with FileLock(minari_root / ".writing-alive/.lock"), hidden_root() as aside:
        assert aside.parent == minari_root
        assert sorted(path.name for path in minari_root.glob(".writing-*")) == sorted(
            [".writing-alive", ".writing-begun", aside.name]
        )
    assert not aside.exists()
