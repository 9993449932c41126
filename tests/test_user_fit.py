"""What a customer is fitted to: the acts of small talk, the counts, the file they live in."""

from __future__ import annotations

import json
import math
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from recorded import SAMPLE, corpus, talk

from convgym.conversation import Conversation, Message
from convgym.data import cues
from convgym.data.logs import read_log
from convgym.data.user_fit import fit_user
from convgym.errors import InvalidConfiguration
from convgym.users.fit import DEFAULTS, UserFit


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("Hi there!", "greet"),
        ("good morning sir", "greet"),
        ("yes please", "affirm"),
        ("nope", "negate"),
        ("Thank you so much", "thank"),
        ("ok thanks, bye", "bye"),
        ("no thanks, that's all", "no_more"),
        ("nothing else", "no_more"),
        ("sure, I will wait", "hold"),
        ("Great", "acknowledge"),
        ("hi, my order is late", None),
        ("thanks Charlie", None),
        ("no, the red lamp", None),
        ("", None),
    ],
)
def test_small_talk(text, act):
    assert cues.small_talk_act(Message("user", text)) == act


def test_a_label_that_disagrees_keeps_a_turn_out():
    assert cues.small_talk_act(Message("user", "no thanks", intents=("rejection",))) == "no_more"
    assert cues.small_talk_act(Message("user", "no thanks", intents=("openinggreeting",))) is None
    labelled = Message("user", "thank you", acts=(("general", "thank", "none", "none"),))
    assert cues.small_talk_act(labelled) == "thank"
    assert cues.is_bare_greeting(Message("user", "higud mrng", intents=("openinggreeting",)))
    assert not cues.is_bare_greeting(Message("user", "hi", intents=("bookflight",)))


def test_user_fit_worked_by_hand():
    conversations = [
        talk("1", "hi", "a:Hello?", "order 12 is late", "ok", "thanks, bye"),
        talk("2", "hi", "where is it", "ok"),
        talk("3", "thanks for nothing, lamp broke"),
        talk("4", "a:hello", "hi", "size please", "ok", "Thank you", "red"),
    ]
    fit = fit_user(conversations)
    got = fit.probabilities
    # (k + 4 · default) / (n + 4) with defaults .25, .7, .6, .4
    assert (got["greet_only"].count, got["greet_only"].n) == (3, 4)
    assert got["greet_only"].value == pytest.approx((3 + 1.0) / 8)
    assert (got["thank"].count, got["thank"].n) == (2, 3)  # the first turn of 3 does not count
    assert got["thank"].value == pytest.approx((2 + 2.8) / 7)
    assert (got["bye"].count, got["bye"].n) == (1, 3)
    assert got["bye"].value == pytest.approx((1 + 2.4) / 7)
    assert (got["front_load"].count, got["front_load"].n) == (1, 4)
    assert got["front_load"].value == pytest.approx((1 + 1.6) / 8)
    lengths = [1, 4, 1, 2, 1, 3, 1, 5, 1, 2, 1, 2, 1]
    assert fit.words.n == 13
    assert fit.words.log_mean == pytest.approx(np.log(lengths).mean())
    assert fit.words.log_sd == pytest.approx(np.log(lengths).std())
    assert fit.phrases["greet"] == (("hi", 3),)
    assert fit.phrases["acknowledge"] == (("ok", 3),)
    assert fit.phrases["thank"] == fit.phrases["bye"] == ()
    assert fit.reward_drivers == ()


def test_slots_and_informing_acts_front_load():
    slot = Conversation("1", (Message("user", "the red one", slots=(("color", "red"),)),))
    act = Conversation("2", (Message("user", "north", acts=(("hotel", "inform", "area", "n"),)),))
    ask = Conversation("3", (Message("user", "where", acts=(("hotel", "request", "area", "?"),)),))
    got = fit_user([slot, act, ask]).probabilities["front_load"]
    assert (got.count, got.n) == (2, 3)


def test_without_data_the_fit_keeps_its_defaults_and_says_so():
    fit = fit_user([])
    for name, probability in fit.probabilities.items():
        assert (probability.value, probability.n) == (DEFAULTS[name], 0)
        assert probability.note == "kept at the default"
    assert fit.words.note == "kept at the default" and fit.words.log_mean == math.log(8)


def test_phrases_are_short_clean_and_said_by_three():
    rare = [talk(f"r{i}", "hello there") for i in range(2)]
    same = [talk("one", *["good morning"] * 9)]
    odd = [
        talk(f"o{i}", "hi Charlie", "ok 5", "thanks ☺", "damn thanks", "ok " * 9, "thank\tyou")
        for i in range(5)
    ]
    fit = fit_user(rare + same + odd)
    assert {act: phrases for act, phrases in fit.phrases.items() if phrases} == {
        "thank": (("thank you", 5),)
    }
    opened = fit_user(odd, extra_words={"charlie", "damn"})
    assert ("damn thanks", 5) in opened.phrases["thank"]


def test_at_most_forty_phrases_the_most_frequent_first():
    fills = sorted(cues.SMALL_TALK)[:50]
    said = [talk(f"{w}{i}", f"thanks {w} thanks") for w in fills for i in range(3)]
    phrases = fit_user(said).phrases
    assert all(len(found) <= 40 for found in phrases.values())
    assert len(phrases["thank"]) == 40


def test_reward_drivers_against_ranks_by_hand():
    said = ["a:why?", "a:one two three", "a:one two three four five", "a:one two"]
    rewards = [0.1, 0.5, 1.0, 0.2]
    conversations = [
        talk(str(i), "x", text, reward=r)
        for i, (text, r) in enumerate(zip(said, rewards, strict=True))
    ]
    conversations.append(talk("unrewarded", "x", "a:many words here"))
    drivers = {d.name: d for d in fit_user(conversations).reward_drivers}
    assert drivers["assistant_words_per_turn"].spearman == pytest.approx(1.0)
    # question shares 1 0 0 0 have ranks 4 2 2 2; reward ranks 1 3 4 2: -3/√(3·5)
    assert drivers["assistant_question_share"].spearman == pytest.approx(-3 / math.sqrt(15))
    assert drivers["user_turns"].spearman is None
    assert all(driver.n == 4 for driver in drivers.values())
    assert fit_user(conversations, reward_drivers=False).reward_drivers == ()
    unweighted = [replace(conversation, reward=None) for conversation in conversations]
    same = fit_user(unweighted)
    assert same == fit_user(conversations, reward_drivers=False)


def test_a_fit_round_trips_exactly(tmp_path):
    path = tmp_path / "fit.json"
    for log in ([], read_log(SAMPLE)):
        fit = fit_user(log)
        fit.to_json(path)
        assert UserFit.from_json(path) == fit
        assert pickle.loads(pickle.dumps(fit)) == fit
        assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_keeps_the_old_fit(tmp_path, monkeypatch):
    path, fit = tmp_path / "fit.json", fit_user([talk("1", "hi")])
    fit.to_json(path)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        fit_user([]).to_json(path)
    assert UserFit.from_json(path) == fit
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r.pop("words"),
        lambda r: r["probabilities"].pop("bye"),
        lambda r: r["probabilities"]["bye"].update(value=1.5),
        lambda r: r["probabilities"]["bye"].update(value=True),
        lambda r: r["probabilities"]["bye"].update(value=math.nan),
        lambda r: r["probabilities"]["bye"].update(count=9, n=3),
        lambda r: r["probabilities"]["bye"].update(extra=9),
        lambda r: r.update(probabilities=[]),
        lambda r: r.update(conversations="many"),
        lambda r: r["phrases"].update(greet=[["hi"]]),
        lambda r: r["phrases"].update(greet=[[1, 2]]),
        lambda r: r["words"].update(log_sd=-1.0),
        lambda r: r.update(reward_drivers=[{"name": "x"}]),
        lambda r: r.update(format="something else"),
    ],
)
def test_a_wrong_fit_file_is_refused(tmp_path, damage):
    path = tmp_path / "fit.json"
    fit_user([talk("1", "hi")]).to_json(path)
    record = json.loads(path.read_text())
    damage(record)
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidConfiguration, match="UserFit"):
        UserFit.from_json(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"7", b"[" * 100_000])
def test_a_file_that_is_no_fit_is_refused(tmp_path, content):
    path = tmp_path / "fit.json"
    path.write_bytes(content)
    with pytest.raises(InvalidConfiguration):
        UserFit.from_json(path)
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        UserFit.from_json(tmp_path / "missing.json")


def test_a_fit_to_multidogo_sounds_like_its_customers():
    fit = fit_user(read_log(corpus("multidogo")))
    assert fit.probabilities["greet_only"].value == pytest.approx(0.818, abs=0.002)
    assert math.exp(fit.words.log_mean) == pytest.approx(2.53, abs=0.05)
    first = {act: phrases[0][0] for act, phrases in fit.phrases.items()}
    assert first["greet"] == "hi" and first["thank"] == "thank you" and first["bye"] == "bye"
    assert first["no_more"] == "no thanks" and first["affirm"] == "yes"
    assert sum(len(phrases) for phrases in fit.phrases.values()) > 200
