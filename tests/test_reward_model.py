"""The linear reward model: it learns, it repeats, and it is judged on unseen talks only."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import numpy as np
import pytest
from recorded import corpus, talk

from convgym.conversation import Conversation
from convgym.data import reward_model
from convgym.data.logs import read_log
from convgym.data.reward_model import fit_reward_model
from convgym.errors import DatasetError, InvalidConfiguration, MissingExtra


def labelled(count: int, binary: bool = True, seed: int = 0) -> list[Conversation]:
    """The reply tells the reward, mostly; three prefixes share each first user turn."""
    chance, made = random.Random(seed), []
    for number in range(count):
        good = chance.random() < 0.5
        reply = "your order is refunded" if good != (chance.random() < 0.1) else "please wait"
        reward = float(good) if binary else good + chance.gauss(0, 0.3)
        first = f"question {number // 3}"
        turns = (f"{first} {number}", f"a:{reply} {number}", "ok")
        made.append(talk(str(number), *turns, reward=reward, metadata={"first_user": first}))
    return made


def test_reward_model_learns_and_repeats():
    pytest.importorskip("sklearn")
    report = fit_reward_model(labelled(600), seed=1)
    assert report.metric == "auc"
    assert 0.8 < report.interval[0] <= report.value <= report.interval[1] <= 1.0
    assert report.baseline == pytest.approx(0.5)
    assert report == fit_reward_model(labelled(600), seed=1)
    assert report.n_train + report.n_test == 600
    good, bad = report.predict([talk("a", "x", "a:refunded"), talk("b", "x", "a:please wait")])
    assert good > 0.5 > bad and report.predict([]) == []
    continuous = fit_reward_model(labelled(600, binary=False))
    assert continuous.metric == "r2" and continuous.value > 0.2 and continuous.spearman > 0.5


def test_prefixes_of_one_conversation_stay_on_one_side():
    conversations = labelled(300)
    sides: dict[str, set[bool]] = {}
    for conversation in conversations:
        group = reward_model._group(conversation)
        sides.setdefault(group, set()).add(reward_model._fraction(group, 0) < 0.3)
    assert len(sides) == 100 and all(len(side) == 1 for side in sides.values())
    share = sum(side == {True} for side in sides.values()) / 100
    assert 0.15 < share < 0.45


def test_auc_and_r_squared_by_hand():
    rewards, predicted = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.9, 0.5, 0.5, 0.1])
    pairs = [(p, n) for p in (0.9, 0.5) for n in (0.5, 0.1)]
    wins = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p, n in pairs)
    assert reward_model.auc(rewards, predicted) == wins / 4
    assert reward_model.r_squared(rewards, predicted) == pytest.approx(1 - 0.52 / 1.0)


@pytest.mark.parametrize(
    ("conversations", "sentence"),
    [
        (labelled(99), "needs 100 conversations"),
        ([replace(c, reward=None) for c in labelled(200)], "here are 0"),
        ([replace(c, reward=1.0) for c in labelled(200)], "1 different rewards"),
        ([talk(str(i), "hi", reward=0.5) for i in range(200)], "here are 0"),
    ],
)
def test_reward_model_refuses_what_it_cannot_judge(conversations, sentence):
    with pytest.raises(DatasetError, match=sentence):
        fit_reward_model(conversations)


def test_reward_model_names_its_extra_and_its_keyword(monkeypatch):
    with pytest.raises(InvalidConfiguration, match="holdout"):
        fit_reward_model(labelled(200), holdout=1.0)
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtra, match=r"convgym\[calibration\]"):
        fit_reward_model(labelled(200))


def test_the_reward_model_beats_the_domain_on_taskmaster():
    pytest.importorskip("sklearn")
    report = fit_reward_model(read_log(corpus("taskmaster_steps")))
    assert report.metric == "auc" and report.interval[0] > 0.8
    assert report.value > report.baseline
