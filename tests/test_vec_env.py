"""The Stable-Baselines3 adapter gives what `DummyVecEnv` gives, in every autoreset mode."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import convgym  # noqa: F401  registers the environments
from convgym.envs.autoreset import MODES, SAME_STEP, AutoresetMode, gymnasium_mode
from convgym.errors import InvalidConfiguration

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from trainers.online.vec_env import ConversationVecEnv, side_by_side

ID = "ConvGym/CustomerService-v0"
ROWS = 5
KNOWN = MODES if AutoresetMode is not None else MODES[:1]
BEST = SAME_STEP if AutoresetMode is not None else MODES[0]


def desk(**keywords):
    settings = {"observation": "features", "action": "act", "reward": "milestones", "max_turns": 9}
    return gym.make(ID, **{**settings, **keywords})


def adapted(mode, **keywords):
    settings = dict(desk(**keywords).spec.kwargs)
    if AutoresetMode is not None:
        settings["autoreset_mode"] = gymnasium_mode(mode)
    return ConversationVecEnv(gym.make_vec(ID, num_envs=ROWS, **settings))


@pytest.fixture
def envs():
    return adapted(BEST)


@pytest.mark.parametrize("mode", KNOWN)
def test_it_is_dummy_vec_env_over_the_same_rows(mode):
    pair = DummyVecEnv([desk] * ROWS), adapted(mode)
    chance = np.random.default_rng(0)
    for one in pair:
        one.seed(11)
    observations = [one.reset() for one in pair]
    ended = {"terminated": 0, "truncated": 0}
    for _ in range(300):
        assert observations[0].dtype == observations[1].dtype
        assert np.array_equal(*observations)
        masks = [get_action_masks(one) for one in pair]
        assert masks[0].dtype == masks[1].dtype and np.array_equal(*masks)
        actions = np.array([chance.choice(np.flatnonzero(mask)) for mask in masks[0]])
        (a, rewards, dones, plain), (b, ours, ends, infos) = [one.step(actions) for one in pair]
        observations = [a, b]
        assert rewards.dtype == ours.dtype and np.array_equal(rewards, ours)
        assert dones.dtype == ends.dtype and np.array_equal(dones, ends)
        for done, expected, info in zip(dones, plain, infos, strict=True):
            if not done:
                assert info == {}
                continue
            cut = expected["TimeLimit.truncated"]
            ended["truncated" if cut else "terminated"] += 1
            assert info["TimeLimit.truncated"] is bool(cut)
            assert np.array_equal(info["terminal_observation"], expected["terminal_observation"])
            assert info["success"] == info["is_success"] == expected["success"]
            assert info["failure_reason"] == expected["failure_reason"]
    assert min(ended.values()) > 5


def test_a_terminal_observation_is_not_overwritten(envs):
    envs.seed(0)
    envs.reset()
    while True:
        mask = envs.action_masks()
        before, _, dones, infos = envs.step(mask.argmax(axis=1))
        if dones.any():
            row = int(dones.argmax())
            assert not np.array_equal(before[row], infos[row]["terminal_observation"])
            return


def test_infos_are_each_rows_own(envs):
    envs.reset()
    _, _, _, infos = envs.step(np.zeros(ROWS, dtype=np.int64))
    infos[0]["mine"] = 1
    assert "mine" not in infos[1]
    assert "mine" not in envs.step(np.zeros(ROWS, dtype=np.int64))[3][0]


def test_a_monitor_counts_episodes_as_it_does_over_dummy_vec_env():
    counted = []
    for one in (DummyVecEnv([desk] * ROWS), adapted(BEST)):
        watched, seen = VecMonitor(one, info_keywords=("failure_reason",)), []
        watched.seed(3)
        watched.reset()
        for _ in range(60):
            masks = get_action_masks(watched)
            for info in watched.step(masks.shape[1] - 1 - masks[:, ::-1].argmax(axis=1))[3]:
                if "episode" in info:
                    episode = info["episode"]
                    seen.append((episode["r"], episode["l"], episode["failure_reason"]))
        counted.append(seen)
    assert counted[0] == counted[1] and len(counted[0]) > ROWS


def test_rows_are_reached_by_name():
    envs = ConversationVecEnv(SyncVectorEnv([desk] * ROWS))
    assert is_masking_supported(envs) and not envs.has_attr("no_such_thing")
    with pytest.raises(gym.error.ResetNeeded, match="reset first"):
        envs.env_method("action_masks")
    envs.reset()
    assert np.array_equal(envs.env_method("action_masks", indices=[3]), envs.action_masks()[3:4])
    assert envs.get_attr("render_mode") == [None] * ROWS
    assert envs.env_is_wrapped(Monitor) == [False] * ROWS
    prompts = envs.env_method("said")
    assert len(prompts) == ROWS and envs.env_method("said", indices=2) == [prompts[2]]
    envs.set_attr("note", [1, 2], indices=[0, 4])
    assert envs.get_attr("note", indices=[0, 4]) == [[1, 2]] * 2
    envs.set_attr("note", 7)
    assert envs.get_attr("note") == [7] * ROWS


def test_options_and_seeds_count_once(envs):
    envs.seed(1)
    envs.set_options({"task_id": "train-3"})
    first = envs.reset()
    assert not np.array_equal(first, envs.reset())
    envs.seed(1)
    envs.set_options({"task_id": "train-3"})
    assert np.array_equal(first, envs.reset())
    envs.set_options([{}] * (ROWS - 1) + [{"task_id": "train-3"}])
    with pytest.raises(InvalidConfiguration, match="same options for all rows"):
        envs.reset()


@pytest.mark.parametrize(
    ("keywords", "says"),
    [({"observation": "dict"}, "hold text"), ({"action": "text"}, "no actions from Utterance")],
)
def test_what_stable_baselines3_cannot_take_is_refused(keywords, says):
    with pytest.raises(InvalidConfiguration, match=says):
        adapted(BEST, **keywords)


def test_environments_without_masks_are_refused():
    envs = ConversationVecEnv(SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2))
    with pytest.raises(InvalidConfiguration, match="no action_mask"):
        envs.reset()


def test_the_vector_entry_point_is_taken_where_it_makes_the_same():
    made = []

    def wrapped():
        made.append(1)
        return gym.wrappers.TimeLimit(desk(), 3)

    assert isinstance(side_by_side(desk, 2), ConversationVecEnv)
    assert isinstance(side_by_side(wrapped, 2), DummyVecEnv) and len(made) == 2
    assert isinstance(side_by_side(lambda: desk(randomizer={}), 2), DummyVecEnv)
