"""Regrading: what a fresh rollout would score, and no score for another conversation."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from coins import ID as COINS
from coins import CoinEnv, CoinPolicy
from driven import IDS, NEEDED, player
from hypothesis import given
from hypothesis import strategies as st

from convgym.data.episodes import collect, content_hash, write_dataset
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.evaluation.regrade import regrade, rescored, rescored_buffers
from convgym.evaluation.rollout import play
from convgym.evaluation.stored import (
    StoredEpisode,
    fingerprint,
    from_record,
    read_stored,
    stored_buffers,
    stored_dataset,
    stored_rollout,
    write_stored,
)

MODES = [("features", "act"), ("dict", "act"), ("message", "text")]

every_id = pytest.mark.parametrize("environment_id", [one for one in IDS if one not in NEEDED])


def real(environment_id, observation="features", action="act", **keywords):
    return gym.make(
        environment_id,
        observation=observation,
        action=action,
        reward=keywords.pop("reward", "milestones"),
        disable_env_checker=True,
        **keywords,
    )


class Talker:
    """One of the space's utterances each turn, for text environments."""

    name = "talker"

    def __init__(self, utterances):
        self.utterances = utterances

    def reset(self, seed):
        self.place = seed

    def predict(self, observation, state=None, *rest, **named):
        self.place = self.place * 31 + 7
        return self.utterances[self.place % len(self.utterances)], state


def who(env, environment_id):
    space = env.action_space
    return Talker(space.utterances) if hasattr(space, "utterances") else player(environment_id, 0.2)


def recorded(env, policy, episodes=12, split="test"):
    """Rollouts with their stored form."""
    pairs = []
    for number in range(episodes):
        options = {"task_id": f"{split}-{number}", "user_seed": number}
        rollout = play(env, policy, seed=100 + number, options=options)
        pairs.append((rollout, stored_rollout(env, rollout, options)))
    return pairs


def regraded_by(monkeypatch, env, keep):
    """From now on the domain finds success only where `keep(turn)`: a changed grading."""
    domain = type(env.unwrapped._domain)
    old = domain.grade

    def grade(self, episode):
        found = old(self, episode)
        return found._replace(success=found.success and keep(episode.turn))

    monkeypatch.setattr(domain, "grade", grade)


# -- nothing has changed ---------------------------------------------------------------------------


@every_id
@pytest.mark.parametrize(("observation", "action"), MODES)
def test_without_a_change_every_score_stays(environment_id, observation, action):
    env = real(environment_id, observation, action)
    pairs = recorded(env, who(env, environment_id), episodes=6)
    found = regrade(stored for _, stored in pairs)
    assert found.changed == found.diverged == ()
    for (rollout, _), one in zip(pairs, found.episodes, strict=True):
        assert (one.new_success, one.old_success) == (rollout.final_info["success"],) * 2
        assert one.rewards == tuple(rollout.rewards) and one.checked
        assert one.task_id == rollout.final_info["task_id"]
    told = found.summary()
    assert told["success"][0] == told["success"][1] and told["return"][0] == told["return"][1]


@every_id
def test_the_json_lines_are_the_episodes(environment_id, tmp_path):
    env = real(environment_id)
    stored = [one for _, one in recorded(env, who(env, environment_id), episodes=4)]
    path = tmp_path / "episodes.jsonl"
    assert write_stored(path, stored) == 4
    again = list(read_stored(path))
    assert [one.to_record() for one in again] == [one.to_record() for one in stored]
    assert regrade(again) == regrade(stored)
    assert list(tmp_path.iterdir()) == [path]
    assert all(isinstance(action, int) for action in json.loads(path.read_text().split("\n")[0])[
        "actions"
    ])


# -- the grading has changed -----------------------------------------------------------------------


@every_id
def test_a_changed_grading_gives_what_a_fresh_rollout_gives(environment_id, monkeypatch):
    env = real(environment_id)
    policy = who(env, environment_id)
    pairs = recorded(env, policy, episodes=30)
    regraded_by(monkeypatch, env, keep=lambda turn: turn % 2)
    found = regrade(stored for _, stored in pairs)
    assert not found.diverged
    fresh = recorded(env, policy, episodes=30)
    for (old, _), (new, _), one in zip(pairs, fresh, found.episodes, strict=True):
        assert new.actions == old.actions
        assert one.rewards == tuple(new.rewards)
        assert (one.old_success, one.new_success) == (
            old.final_info["success"],
            new.final_info["success"],
        )
        assert one.changed == (old.final_info["success"] != new.final_info["success"])
    told = found.summary()
    lost = sum(o.final_info["success"] > n.final_info["success"] for (o, _), (n, _)
               in zip(pairs, fresh, strict=True))
    assert told["changed"] == told["lost"] == lost and told["won"] == 0
    if lost:
        assert told["success"][0] - told["success"][1] == pytest.approx(lost / 30)
    new_scores = rescored([stored for _, stored in pairs], found)
    assert regrade(new_scores).changed == ()


def test_a_change_is_seen_in_a_domain_that_is_solved(monkeypatch):
    """The test above must not pass for want of successes."""
    pairs = recorded(gym.make(COINS), CoinPolicy(), episodes=200)
    monkeypatch.setattr(CoinEnv, "grade", lambda self, action: action and self.number % 4 == 1)
    found = regrade(stored for _, stored in pairs)
    lost = [r for r, _ in pairs if r.final_info["success"]
            and int(r.final_info["task_id"].split("-")[1]) % 4 != 1]
    assert 20 < len(found.changed) == len(lost) == found.summary()["lost"]
    before, after = found.summary()["return"]
    assert before - after == pytest.approx(len(lost) / 200)


def test_another_reward_of_the_same_conversations():
    stored = [one for _, one in recorded(gym.make(COINS), CoinPolicy(), episodes=20)]
    found = regrade(stored, keywords={"bonus": 3.0})
    assert [one.new_return for one in found.episodes] == [3 * one.old_return for one in
                                                          found.episodes]
    assert found.summary()["won"] == found.summary()["lost"] == 0
    with pytest.raises(InvalidConfiguration, match="env= is made already"):
        regrade(stored, env=gym.make(COINS), keywords={"bonus": 3.0})


# -- another conversation --------------------------------------------------------------------------


@every_id
def test_a_tampered_observation_is_reported_and_not_scored(environment_id):
    env = real(environment_id)
    stored = [one for _, one in recorded(env, who(env, environment_id), episodes=6)]
    at = len(stored[2].actions) // 2
    seen = list(stored[2].observations)
    seen[at] = fingerprint(np.zeros(3, dtype=np.float32))
    stored[2] = replace(stored[2], observations=tuple(seen))
    found = regrade(stored)
    (one,) = found.diverged
    assert (one.episode, one.diverged_at, one.reason) == (
        2, at, "another observation than the stored one",
    )  # fmt: skip
    assert one.new_success is None and one.new_return is None and one.rewards == ()
    assert not one.changed and one.old_return == pytest.approx(sum(stored[2].rewards))
    kept = [e.old_return for e in found.episodes if e.episode != 2]
    assert found.summary()["return"][0] == pytest.approx(np.mean(kept))
    assert len(rescored(stored, found)) == 5
    page = found.to_markdown()
    assert "| diverged | 1 |" in page and f"| 2 | test-2 | {at} | another observation" in page


def coin(**changes):
    ((_, stored),) = recorded(gym.make(COINS), CoinPolicy(), episodes=1)
    return replace(stored, **changes)


@pytest.mark.parametrize(
    ("changes", "at", "said"),
    [
        ({"seed": None}, 0, "no seed was stored"),
        ({"options": {"task_id": "test-99999"}}, 0, "does not exist"),
        ({"options": {"task_id": "test-1"}}, 0, "another observation"),
        ({"truncated": True, "terminated": False}, 2, "stored as truncated, the replay is termi"),
        ({"terminated": False}, 2, "stored as going on, the replay is terminated"),
    ],
    ids=str,
)
def test_every_way_to_diverge_is_named(changes, at, said):
    (one,) = regrade([coin(**changes)]).episodes
    assert one.diverged_at == at and said in one.reason and one.new_success is None


def test_a_replay_that_ends_early_or_goes_on_has_diverged():
    whole = coin()
    long = replace(whole, actions=(*whole.actions, 1), observations=(), rewards=None)
    short = replace(whole, actions=whole.actions[:1], observations=(), rewards=None)
    first, second = regrade([long, short]).episodes
    assert (first.diverged_at, first.reason) == (3, "the replay ended after 2 of 3 actions")
    assert (second.diverged_at, second.reason) == (
        1, "stored as terminated, the replay is going on",
    )  # fmt: skip
    cut = replace(short, terminated=False, truncated=False)
    (partial,) = regrade([cut]).episodes
    assert not partial.diverged and partial.new_success is False


@every_id
def test_an_action_that_is_none_any_more_has_diverged(environment_id):
    env = real(environment_id)
    ((_, stored),) = recorded(env, who(env, environment_id), episodes=1)
    actions = (stored.actions[0], 10_000, *stored.actions[2:])
    (one,) = regrade([replace(stored, actions=actions)]).episodes
    assert one.diverged_at == 2 and "10000" in one.reason


def test_without_observations_it_is_said_that_nobody_checked():
    found = regrade([coin(), coin(observations=()), coin(observations=(), rewards=None)])
    told = found.summary()
    assert (told["episodes"], told["unchecked"], told["diverged"]) == (3, 2, 0)
    assert [one.checked for one in found.episodes] == [True, False, False]
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["results"][2]["changed"] is False


# -- Minari ----------------------------------------------------------------------------------------


@pytest.fixture
def minari_root(tmp_path, monkeypatch) -> Path:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def written(env, buffers, name="convgym/regraded/tried-v0"):
    about = {"description": "A few.", "algorithm_name": "any"}
    return write_dataset(name, env, buffers, ref_min_score=0.0, ref_max_score=1.0, **about)


@every_id
@pytest.mark.parametrize(("observation", "action"), MODES)
def test_minaris_episodes_are_regraded(
    environment_id, observation, action, minari_root, monkeypatch
):
    env = real(environment_id, observation, action)
    buffers = collect(env, [(who(env, environment_id), 1.0)], episodes=8, seed=3)
    dataset = written(env, buffers)
    from_buffers = stored_buffers(env, buffers)
    assert list(stored_dataset(dataset)) == from_buffers
    assert regrade(from_buffers).changed == regrade(stored_dataset(dataset)).diverged == ()
    regraded_by(monkeypatch, env, keep=lambda turn: False)
    found = regrade(stored_dataset(dataset))
    wins = [bool(buffer.infos["success"][-1]) for buffer in buffers]
    assert [one.old_success for one in found.episodes] == wins
    assert not any(one.new_success for one in found.episodes) and not found.diverged
    assert found.summary()["lost"] == sum(wins)
    new = rescored_buffers(buffers, found)
    fresh = collect(env, [(who(env, environment_id), 1.0)], episodes=8, seed=3)
    assert content_hash(new) == content_hash(fresh)
    again = written(env, new, "convgym/regraded/again-v0")
    assert regrade(stored_dataset(again)).changed == ()


@every_id
def test_a_tampered_dataset_is_reported(environment_id, minari_root):
    env = real(environment_id)
    buffers = collect(env, [(who(env, environment_id), 1.0)], episodes=4, seed=5)
    buffers[1].observations[1][0] += 1
    (one,) = regrade(stored_dataset(written(env, buffers))).diverged
    assert (one.episode, one.diverged_at) == (1, 1)


def test_wrappers_of_a_stored_environment_are_put_on_again(tmp_path):
    """Their rewards are part of the score; a JSON record could not hold them."""

    env = gym.wrappers.RescaleObservation(gym.make(COINS), np.float64(-1), np.float64(1))
    ((_, stored),) = recorded(env, CoinPolicy(), episodes=1)
    assert not regrade([stored]).diverged
    with pytest.raises(InvalidConfiguration, match="wrappers"):
        write_stored(tmp_path / "none.jsonl", [stored])
    assert not (tmp_path / "none.jsonl").exists()


# -- records that are wrong ------------------------------------------------------------------------

NAME = COINS.partition(":")[2]
RECORD = {"env_id": NAME, "actions": [0, 1], "seed": 1}


def test_the_least_record():
    stored = from_record(RECORD)
    assert (stored.seed, stored.actions, stored.options) == (1, (0, 1), {})
    (one,) = regrade([stored]).episodes
    assert (one.new_success, one.old_success, one.old_return) == (True, None, None)
    assert not one.changed


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([], "a JSON object, not list"),
        ({"actions": []}, "must have 'env_id'"),
        ({"env_id": NAME}, "must have 'actions'"),
        (RECORD | {"seed": "one"}, "'seed' is 'one'; it must be a int"),
        (RECORD | {"seed": True}, "'seed' is 'True'"),
        (RECORD | {"env_id": "ConvGym/Nowhere-v0"}, "there is no environment"),
        (RECORD | {"observations": ["a"]}, "1 observations and 2 actions"),
        (RECORD | {"rewards": [0.0]}, "1 rewards and 2 actions"),
        (RECORD | {"rewards": ["a", "b"]}, "'rewards' must be finite numbers"),
    ],
    ids=str,
)
def test_a_record_that_is_wrong_is_one_sentence(record, said, tmp_path):
    path = tmp_path / "wrong.jsonl"
    path.write_text(json.dumps(RECORD) + "\n" + json.dumps(record) + "\n")
    with pytest.raises(DatasetError, match=f"line 2 .*{said}"):
        list(read_stored(path))


def test_a_line_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "wrong.jsonl"
    path.write_text("{")
    with pytest.raises(DatasetError, match="line 1 of"):
        list(read_stored(path))


def test_a_rollout_without_its_steps_cannot_be_stored():
    env = gym.make(COINS)
    with pytest.raises(InvalidConfiguration, match="keep=False"):
        stored_rollout(env, play(env, CoinPolicy(), seed=0, keep=False))


# -- fingerprints ----------------------------------------------------------------------------------

values = st.one_of(
    st.text(max_size=4),
    st.lists(st.integers(-3, 3), max_size=3).map(lambda v: np.array(v, dtype=np.int64)),
    st.lists(st.integers(-3, 3), max_size=3).map(lambda v: np.array(v, dtype=np.float32)),
)


def shown(value):
    if isinstance(value, dict):
        return tuple((k, shown(v)) for k, v in sorted(value.items()))
    return value if isinstance(value, str) else (value.dtype.str, value.shape, value.tobytes())


@given(st.lists(values | st.dictionaries(st.sampled_from("ab"), values), min_size=2, max_size=6))
def test_equal_fingerprints_are_equal_observations(observations):
    prints = Counter(fingerprint(o) for o in observations)
    assert len(prints) == len({shown(o) for o in observations})


def test_a_fingerprint_by_hand():
    """SHA-256 of kind and size, then the bytes; other byte orders are the same observation."""
    import hashlib

    text = hashlib.sha256(b"s5:hello").hexdigest()[:16]
    assert fingerprint("hello") == text
    array = np.array([1.0, 2.0], dtype=np.float32)
    expected = hashlib.sha256(b"f4(2,)" + bytes.fromhex("0000803f00000040")).hexdigest()[:16]
    assert fingerprint(array) == fingerprint(array.astype(">f4")) == expected


def test_a_stored_episode_does_not_contradict_itself():
    spec = gym.spec(NAME)
    with pytest.raises(DatasetError, match="one more than actions"):
        StoredEpisode(spec, (0, 1), observations=("a", "b"))


def test_what_is_no_stored_episode_is_named():
    with pytest.raises(InvalidConfiguration, match="episode 0 is int; regrade takes StoredEpisode"):
        regrade([1])
