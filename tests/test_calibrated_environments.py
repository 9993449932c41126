"""A saved calibration as the user of an environment: its probabilities, its words, nothing else."""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from driven import NEEDED
from gymnasium.vector import SyncVectorEnv
from recorded import talk
from test_batched_env import assert_same_infos
from twin_user import drawn_truth, twin_log

import convgym  # noqa: F401
from convgym.calibration.agenda_user import agenda_user, base_for, population_rate
from convgym.calibration.calibration import calibrate
from convgym.calibration.parameters import fit_parameters
from convgym.calibration.signatures import logged_users
from convgym.envs.autoreset import NEXT_STEP, AutoresetMode
from convgym.envs.registration import ENVIRONMENTS, VECTOR_ENVIRONMENTS
from convgym.errors import InvalidConfiguration
from convgym.language.harvested_words import Hand, HarvestedWords, spread
from convgym.language.phrases import PhraseBank
from convgym.users.decisions import NUMBER, POINTS, DecisionModel
from convgym.users.fitted_user import FittedUser

SHOP = "ConvGym/CustomerService-v0"
DESKS = [name for name in VECTOR_ENVIRONMENTS if name != "ConvGym/OwnDomain-v0"]


@pytest.fixture(scope="module")
def calibration():
    return calibrate(twin_log(drawn_truth(2), 200, 2), seed=1, budget_s=0)


@pytest.fixture(scope="module")
def path(calibration, tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "user.npz"
    calibration.save(path)
    return str(path)


def messages(env, seed, steps=12):
    """What the users of an episode say, whatever the agent does by seeded chance."""
    chance = np.random.default_rng(seed)
    seen, _ = env.reset(seed=seed)
    said = [seen]
    for _ in range(steps):
        mask = env.get_wrapper_attr("action_masks")()
        seen, _, terminated, truncated, _ = env.step(int(chance.choice(np.flatnonzero(mask))))
        said.append(seen)
        if terminated or truncated:
            break
    return said


@pytest.mark.parametrize("environment_id", ENVIRONMENTS)
def test_every_environment_takes_it(environment_id, path):
    needed = NEEDED.get(environment_id, {}) | {"user": path}
    env = gym.make(environment_id, **needed)
    first, _ = env.reset(seed=3)
    env.step(env.action_space.sample())
    assert gym.make(environment_id, **needed).reset(seed=3)[0] == first


@pytest.mark.parametrize("environment_id", DESKS)
@pytest.mark.parametrize("realism", [None, 0.2])
def test_batched_users_say_what_single_ones_say(environment_id, realism, path):
    keywords = {"action": "act", "observation": "message", "user": path, "realism": realism}
    more = {} if AutoresetMode is None else {"autoreset_mode": AutoresetMode[NEXT_STEP]}
    ours = gym.make_vec(environment_id, 6, **keywords, **more)
    theirs = SyncVectorEnv([lambda: gym.make(environment_id, **keywords)] * 6, **more)
    chance = np.random.default_rng(0)
    seen, infos = ours.reset(seed=5)
    expected, expected_infos = theirs.reset(seed=5)
    assert tuple(seen) == tuple(expected)
    for _ in range(25):
        masks = np.stack(infos["action_mask"])
        actions = (masks * chance.random(masks.shape)).argmax(axis=1)
        seen, *rest, infos = ours.step(actions)
        expected, *expected_rest, expected_infos = theirs.step(actions)
        assert tuple(seen) == tuple(expected)
        assert all(np.array_equal(a, b) for a, b in zip(rest, expected_rest, strict=True))
        assert_same_infos(infos, expected_infos)


def test_without_realism_the_user_is_the_domains_own(path):
    own, scripted = (gym.make(SHOP, action="act", **k) for k in ({}, {"user": path, "realism": 0}))
    assert all(messages(own, seed) == messages(scripted, seed) for seed in range(5))
    fitted = gym.make(SHOP, action="act", user=path)
    assert any(messages(own, seed) != messages(fitted, seed) for seed in range(5))


def test_realism_goes_from_the_domains_probabilities_to_the_logs():
    user = FittedUser({"thank": 0.95})
    base = POINTS[NUMBER["thank"]].base
    rates = [user.model(level / 20).probability("thank", (50,) * 11) for level in range(11)]
    assert rates[0] == DecisionModel().probability("thank", (50,) * 11)
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(0.95, abs=0.002)
    assert user.model(1.0).base == user.model(0.5).base
    middle = np.log([base / (1 - base), 0.95 / 0.05]).mean()
    assert rates[5] == pytest.approx(1 / (1 + np.exp(-middle)), abs=0.002)


def test_a_shop_full_of_log_users_greets_as_often_as_the_log(path, calibration):
    env = gym.make_vec(SHOP, 2000, action="act", observation="features", user=path)
    _, infos = env.reset(seed=0)
    greets = [
        [act["act"] for act in json.loads(acts)] == ["greet"] for acts in infos["user_acts"]
    ]
    told = calibration.identifiable["greet_only"]
    rate = calibration.params["greet_only"]
    assert told < 0.5
    assert np.mean(greets) == pytest.approx(rate, abs=0.08)


@pytest.mark.parametrize("name", ["greet_only", "thank", "misremember", "tangent"])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_a_base_gives_a_population_the_rate(name, rate):
    point = POINTS[NUMBER[name]]
    base = base_for(point, rate)
    assert population_rate(point, base) == pytest.approx(rate, abs=1e-6)
    model, chance = DecisionModel({name: base}), np.random.default_rng(0)
    people = chance.integers(0, 101, (4000, 11))
    drawn = np.mean([model.probability(name, tuple(levels)) for levels in people.tolist()])
    assert drawn == pytest.approx(rate, abs=0.02)


def test_a_log_that_says_nothing_leaves_the_domain_as_it_is():
    log = logged_users([talk(f"c{i}", "where is my parcel", "a:Here.", "good") for i in range(3)])
    found = agenda_user(log, fit_parameters(log)).bases
    for name, base in found.items():
        if name in ("volunteer", "leave", "show_frustration", "cannot_tell"):
            assert base == pytest.approx(POINTS[NUMBER[name]].base, abs=0.03)


def test_words_of_a_log_by_hand():
    log = logged_users(
        [
            talk(f"c{i}", "hi", "a:Name?", "its bob", "a:City?", "its rome", "thanks a lot")
            for i in range(30)
        ]
    )
    words = agenda_user(log, fit_parameters(log)).words
    assert set(words.small_talk) == {"greet", "thank"}
    assert words.carriers == ()  # nobody labelled a value
    assert words.hand.capital == 0.0 and words.hand.stop == 0.0 and words.hand.marks == ""
    assert set(words.hand.lengths) == {2}


def test_carriers_name_no_slot():
    from convgym.conversation import Conversation, Message

    def turn(text, slot, value):
        return Message("user", text, intents=("tell",), slots=((slot, value),))

    log = logged_users(
        [
            Conversation(
                f"c{i}",
                (
                    turn("its bob", "name", "bob"),
                    turn("its rome", "city", "rome"),
                    turn("my name is bob", "name", "bob"),
                ),
            )
            for i in range(4)
        ]
    )
    words = agenda_user(log, fit_parameters(log)).words
    assert set(words.carriers) == {"its {}"}
    assert words.carried == pytest.approx(2 / 3)


OWN = PhraseBank(
    {
        "greet": ["Hello."],
        "request_refund": ["I want a refund.", "I'd like my money back, please."],
        "inform_order": ["My order is {order}.", "It's {order}, I think."],
        "inform_placed": ["I ordered on {date}."],
        "inform_charged": ["I was charged on {date}."],
        "push_back": ["No, {order} is mine."],
    }
)


def test_an_act_keeps_its_meaning_and_its_slot():
    words = HarvestedWords(
        {"greet": ("hi", "hello", "hey", "hi there", "hiya")},
        ("its {}", "{}"),
        0.5,
        Hand(capital=0.0, stop=0.0, marks=""),
    )
    bank = words.bank(OWN)
    assert set(bank.variants("greet")) == {"hi", "hello", "hey", "hi there", "hiya"}
    assert set(bank.variants("request_refund")) == {
        "i want a refund", "id like my money back please"
    }  # fmt: skip
    assert set(bank.variants("inform_order")) == {"its {order}", "my order is {order}"}
    # Two acts state a date: a bare one would say which of them to nobody.
    assert set(bank.variants("inform_placed")) == {"i ordered on {date}"}
    assert set(bank.variants("push_back")) == {"no {order} is mine"}


def test_a_hand_writes_a_wording_always_alike_and_in_its_shares():
    wordings = [f"Wording {i}, is it?" for i in range(2000)]
    hand = Hand(capital=0.3, stop=0.8, marks=",?")
    written = [hand.write(w) for w in wordings]
    assert written == [hand.write(w) for w in wordings]
    assert np.mean([w[0].isupper() for w in written]) == pytest.approx(0.3, abs=0.04)
    assert np.mean([w[-1] == "?" for w in written]) == pytest.approx(0.8, abs=0.04)
    assert Hand(capital=0, stop=0, marks="").write("See {Order}, OK?") == "see {Order} ok"


def test_lengths_follow_the_hand_and_nothing_is_repeated_without_need():
    wordings = [" ".join(["w"] * n + [str(k)]) for n in range(1, 20) for k in range(3)]
    chosen = Hand(lengths=(4,) * 3 + (10,) * 3).fitting(wordings)
    assert [len(w.split()) for w in chosen] == [4] * 3 + [10] * 3
    assert len(set(chosen)) == 6
    assert Hand().fitting(wordings) == wordings


def test_spread_takes_evenly():
    assert spread("abcdef", 3) == ["a", "c", "e"]
    assert spread("ab", 4) == ["a", "a", "b", "b"]
    assert spread("ab", 0) == []


def test_it_survives_its_file(calibration, path):
    user = FittedUser.load(path)
    assert user == calibration.user()
    assert FittedUser.from_dict(json.loads(json.dumps(user.to_dict()))) == user


def test_what_is_no_user_is_refused_in_one_sentence(path, tmp_path):
    broken = tmp_path / "broken.npz"
    broken.write_bytes(Path(path).read_bytes()[:-40])
    for wrong in (str(broken), str(tmp_path), str(tmp_path / "none.npz")):
        with pytest.raises(InvalidConfiguration) as refusal:
            gym.make(SHOP, user=wrong)
        assert len(str(refusal.value).splitlines()) == 1
    with pytest.raises(InvalidConfiguration, match="no decision point"):
        FittedUser({"sneeze": 0.5})
