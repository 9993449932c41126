"""Infos whose values are made when they are read."""

import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from driven import choose, plain

import convgym  # noqa: F401
from convgym.envs.late_infos import NOT_MADE, LateInfos

IDS = ("ConvGym/CustomerService-v0", "ConvGym/TechnicalSupport-v0", "ConvGym/Sales-v0")


def played(environment_id, action, read):
    """The infos of three episodes; with `read` each is read as soon as it is there."""
    env = gym.make(environment_id, observation="features", action=action)
    infos = []
    for episode in range(3):
        _, info = env.reset(seed=episode)
        step, over = 0, False
        while not over:
            infos.append(plain(info) if read else info)
            _, _, terminated, truncated, info = env.step(choose(env, info, episode, step))
            over, step = terminated or truncated, step + 1
        infos.append(plain(info) if read else info)
    return infos


@pytest.mark.parametrize("action", ["act", "text"])
@pytest.mark.parametrize("environment_id", IDS)
def test_an_info_is_the_same_read_late(environment_id, action):
    at_once = played(environment_id, action, read=True)
    late = played(environment_id, action, read=False)
    assert [plain(info) for info in late] == at_once
    assert len(at_once) > 12


def made(key):
    return key.upper()


@pytest.mark.parametrize(
    "copied",
    [
        dict,
        copy.copy,
        copy.deepcopy,
        lambda info: {**info},
        lambda info: pickle.loads(pickle.dumps(info)),
        lambda info: json.loads(json.dumps(info)),
        lambda info: dict(info.items()),
        lambda info: dict(zip(info.keys(), info.values(), strict=True)),
        lambda info: {} | info,
    ],
)
def test_copies_hold_every_value(copied):
    info = LateInfos({"one": 1, "two": NOT_MADE}, made)
    assert copied(info) == {"one": 1, "two": "TWO"} == info


def test_a_value_is_made_once():
    asked = []
    info = LateInfos({"mask": NOT_MADE}, lambda key: asked.append(key) or np.ones(2))
    assert "mask" in info and len(info) == 1 and not asked
    assert info["mask"] is info["mask"] is info.get("mask")
    assert asked == ["mask"]
