"""Episodes played side by side are those played one after another, in data and in evaluation."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv, VectorWrapper

import convgym  # noqa: F401  registers the environments
from convgym.data.collection import collect_episodes
from convgym.data.episodes import collect, content_hash, write_dataset
from convgym.data.hdf5_writing import write_episodes
from convgym.data.mixture import BatchMixture, BehaviorMixture
from convgym.envs.autoreset import DISABLED, SAME_STEP, AutoresetMode, gymnasium_mode
from convgym.envs.rows import reset_rows
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.evaluation.evaluate import evaluate, evaluate_side_by_side
from convgym.policies.batched import BatchRandomPolicy, RowPolicies
from convgym.policies.policy import RandomPolicy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import KeywordPolicy, PlannerPolicy

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")

ID = "ConvGym/CustomerService-v0"
DESK = {"observation": "features", "action": "act", "reward": "milestones"}
needs_modes = pytest.mark.skipif(AutoresetMode is None, reason="gymnasium 1.0 has one mode")


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def desk(**keywords):
    return gym.make(ID, **{**DESK, **keywords})


def rows(count, mode=None, **keywords):
    given = {} if mode is None else {"autoreset_mode": gymnasium_mode(mode)}
    return gym.make_vec(ID, num_envs=count, **{**DESK, **keywords}, **given)


def one_by_one():
    return [(RandomPolicy(), 0.3), (KeywordPolicy(), 0.3), (PlannerPolicy(0.2), 0.4)]


def side_by_side():
    planners = RowPolicies(lambda: PlannerPolicy(0.2))
    return BatchMixture(
        [(BatchRandomPolicy(), 0.3), (RowPolicies(KeywordPolicy), 0.3), (planners, 0.4)]
    )


@pytest.fixture(scope="module")
def buffers():
    return collect(desk(), one_by_one(), episodes=20, seed=7)


# Collecting


@pytest.mark.parametrize(("count", "mode"), [(1, None), (4, None), (30, None), (4, DISABLED)])
def test_the_data_is_the_same_with_any_number_of_rows(buffers, count, mode):
    if mode and AutoresetMode is None:
        pytest.skip("gymnasium 1.0 has one mode")
    heard = []
    collected = collect_episodes(rows(count, mode), side_by_side(), 20, 7, progress=heard.append)
    collected = list(collected)
    assert content_hash(collected) == content_hash(buffers)
    assert [list(episode.infos) for episode in collected] == [list(b.infos) for b in buffers]
    assert heard == list(range(1, 21))


@pytest.mark.parametrize("fields", ["all", ["action_mask", "propensity"], ["task_id"], []])
def test_few_fields_or_all(fields):
    alone = collect(desk(), one_by_one(), episodes=6, seed=1, info_fields=fields)
    together = list(collect_episodes(rows(3), side_by_side(), 6, 1, info_fields=fields))
    assert content_hash(together) == content_hash(alone)
    if fields == "all":
        _, info = desk().reset(seed=0)
        assert set(together[0].infos) == {*info, "policy", "propensity", "act"}
    else:
        assert list(together[0].infos) == fields


@pytest.mark.parametrize("fields", [["no_such_field"], "propensity"])
def test_a_field_that_there_is_not_is_named(fields):
    with pytest.raises(InvalidConfiguration, match=r"no field '.*give 'all' or a list of"):
        collect(desk(), one_by_one(), episodes=1, seed=0, info_fields=fields)
    with pytest.raises(InvalidConfiguration, match=r"no field '.*give 'all' or a list of"):
        next(collect_episodes(rows(1), side_by_side(), 1, 0, info_fields=fields))


@pytest.mark.parametrize("keywords", [{"topic": "cancel"}, {"randomizer": {"seed": 3}}])
def test_what_the_environment_fixes_decides_among_the_tasks(keywords):
    alone = collect(desk(**keywords), [(PlannerPolicy(), 1.0)], episodes=5, seed=2)
    planners = RowPolicies(PlannerPolicy)
    together = list(collect_episodes(rows(2, **keywords), planners, 5, 2))
    assert content_hash(together) == content_hash(alone)
    assert together[0].options == {"split": "train"}


def test_conversations_in_words_are_collected_too():
    words = {"observation": "dict", "action": "text"}
    policy = RenderedPolicy(PlannerPolicy(0.2))
    alone = collect(desk(**words), [(policy, 1.0)], episodes=4, seed=1)
    spoken = RowPolicies(lambda: RenderedPolicy(PlannerPolicy(0.2)))
    together = list(collect_episodes(rows(3, **words), spoken, 4, 1))
    assert content_hash(together) == content_hash(alone)


def test_a_curriculum_is_refused():
    envs = rows(2, randomizer={"curriculum": "linear"})
    with pytest.raises(InvalidConfiguration, match="one by one"):
        next(collect_episodes(envs, side_by_side(), 2, 0))


@needs_modes
def test_rows_that_begin_anew_by_themselves_are_refused():
    with pytest.raises(InvalidConfiguration, match="DISABLED"):
        next(collect_episodes(rows(2, SAME_STEP), side_by_side(), 2, 0))


# Writing


def test_an_iterator_is_written_as_it_comes(buffers):
    settings = {"ref_min_score": 0.0, "ref_max_score": 1.0, "algorithm_name": "mixture"}
    collected = collect_episodes(rows(4), side_by_side(), 20, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        dataset = write_dataset("convgym/a-v0", desk(), collected, description="a", **settings)
    assert content_hash(dataset) == content_hash(buffers)
    assert dataset.total_episodes == 20 and dataset.total_steps == sum(map(len, buffers))
    with pytest.raises(DatasetError, match="no episodes"):
        write_dataset("convgym/b-v0", desk(), iter([]), description="b", **settings)


def test_the_file_holds_what_minari_would_have_written(tmp_path):
    words = {"observation": "dict", "action": "text"}
    spoken = RenderedPolicy(PlannerPolicy(0.2))
    drawn = collect(desk(**words), [(spoken, 1.0)], episodes=11, seed=1, info_fields="all")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = minari.create_dataset_from_buffers("convgym/c-v0", drawn, env=desk(**words))
    count, steps = write_episodes(tmp_path / "ours.hdf5", drawn)
    assert (count, steps) == (11, theirs.total_steps)
    with (
        h5py.File(theirs.storage.data_path / "main_data.hdf5") as expected,
        h5py.File(tmp_path / "ours.hdf5") as came,
    ):
        assert list(expected) == list(came)
        assert content(expected) == content(came)


def content(group):
    """Names, attributes, types, shapes and values of all there is in an HDF5 file."""
    about = {key: (type(value), value) for key, value in group.attrs.items()}
    if isinstance(group, h5py.Group):
        return about, {key: content(group[key]) for key in group}
    kind = group.dtype, h5py.check_string_dtype(group.dtype), group.shape
    return about, kind, repr(group[()].tolist())


# Rows


@pytest.fixture
def shown():
    envs = SyncVectorEnv([desk] * 3)
    envs.reset(seed=0)
    return reset_rows(envs, [2, 0], [5, 6], [{"task_id": "test-1"}, {"task_id": "test-2"}])


@needs_modes
def test_rows_are_reset_by_mask_where_they_are_no_objects(shown):
    envs = VectorWrapper(SyncVectorEnv([desk] * 3))
    before, _ = envs.reset(seed=0)
    again = reset_rows(envs, [2, 0], [5, 6], [{"task_id": "test-1"}, {"task_id": "test-2"}])
    for (observation, info), (expected, about) in zip(again, shown, strict=True):
        assert np.array_equal(observation, expected)
        assert np.array_equal(info["action_mask"], about["action_mask"])
    mask = np.array([False, True, False])
    assert np.array_equal(envs.reset(seed=[0, 1, 2], options={"reset_mask": mask})[0][1], before[1])


def test_a_vector_environment_may_do_it_in_its_own_way(shown):
    class Own(SyncVectorEnv):
        def reset_rows(self, rows, seeds, options, fields):
            return [(rows, seeds, options, fields)]

    asked = reset_rows(Own([desk] * 3), [2], [5], [{"split": "test"}], ["success"])
    assert asked == [([2], [5], [{"split": "test"}], ["success"])]


def test_gymnasium_1_0_says_what_it_cannot_reset(monkeypatch):
    monkeypatch.setattr("convgym.envs.rows.AutoresetMode", None)
    envs = VectorWrapper(SyncVectorEnv([desk] * 2))
    envs.metadata = {}
    with pytest.raises(InvalidConfiguration, match=r"gymnasium>=1\.1"):
        reset_rows(envs, [0])


# Policies and evaluation


def test_a_mixture_draws_as_the_single_one_does():
    single, batched = BehaviorMixture(one_by_one()), side_by_side()
    seeds = list(range(50))
    batched.begin(np.arange(50), seeds)
    legal = np.ones((50, 125), dtype=np.int8)
    batched.actions(np.zeros((50, 385), dtype=np.float32), legal, np.arange(50))
    for seed in seeds:
        single.reset(seed)
        assert single.index == batched.indices[seed]
    assert single.name == batched.name


@pytest.mark.parametrize("deterministic", [False, True])
def test_evaluation_side_by_side_is_evaluation(deterministic):
    settings = {"episodes": 16, "seed": 3, "deterministic": deterministic}
    for alone, together in (
        (RandomPolicy(), BatchRandomPolicy()),
        (PlannerPolicy(0.3), RowPolicies(lambda: PlannerPolicy(0.3))),
    ):
        heard = []
        expected = evaluate(alone, desk(), **settings)
        for count in (1, 5):
            came = evaluate_side_by_side(
                together, rows(count), progress=heard.append, **settings
            )
            assert came == expected and list(came.failures) == list(expected.failures)
        assert heard == [*range(1, 17)] * 2


def test_evaluation_side_by_side_takes_options_and_draws():
    settings = {"episodes": 8, "options": {"persona": "busy_professional"}}
    planners = RowPolicies(PlannerPolicy)
    for keywords in ({}, {"topic": "refund"}):
        expected = evaluate(PlannerPolicy(), desk(**keywords), **settings)
        assert evaluate_side_by_side(planners, rows(3, **keywords), **settings) == expected
    with pytest.raises(InvalidConfiguration, match="2 to"):
        evaluate_side_by_side(planners, rows(3), episodes=1)
