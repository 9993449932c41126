"""The realistic reward: log-likelihood of a user's acts under the simulated user, checked by hand.

A second, slower version lists every sequence of choices by brute force.
"""

import itertools
import math

import pytest
from two_sided import USER, act, aec, number, script, talk

from convgym.domains.catalogue import domain_called
from convgym.engine.acts import ASK, ASK_MORE, Heard
from convgym.engine.episode import Episode
from convgym.envs.two_sided_likelihood import FLOOR, Forced, TurnLikelihood
from convgym.multi_agent import BoundUser, RandomActsUser
from convgym.policies.scripted import OraclePolicy, PlannerPolicy
from convgym.users.decisions import DecisionModel
from convgym.users.persona import TRAITS

SHOP = "ConvGym/CustomerService-v0"
REALISTIC = {
    "observation": "features", "action": "act", "user_action": "act", "user_reward": "realistic",
}  # fmt: skip
DESK = domain_called("customer-service")
MIDDLE = (50,) * len(TRAITS)
U = DESK.vocabulary


def fresh(number_, persona=MIDDLE, key=9):
    episode = Episode(DESK.task("train", number_), key, 0, DESK.layout.row())
    DESK.open(episode, persona)
    return episode


def p(name, **base):
    return DecisionModel(base).probability(name, MIDDLE)


def likelihood(model=None):
    return TurnLikelihood(DESK, model or DecisionModel())


def test_a_greeting_alone_by_hand():
    episode, model = fresh(1), likelihood()
    model.begin(episode.user)
    found = model.take(episode, None, (U["greet"],))
    assert found == pytest.approx(math.log(p("greet_only")), abs=1e-5)


def test_a_greeting_with_the_wish_by_hand():
    """Two choices made, and nothing volunteered."""
    episode, model = fresh(1), likelihood()
    model.begin(episode.user)
    acts = (U["greet"], episode.user.knowledge.request)
    expected = (1 - p("greet_only")) * p("greet") * (1 - p("front_load"))
    assert model.take(episode, None, acts) == pytest.approx(math.log(expected), abs=1e-5)


def test_the_order_of_acts_does_not_matter():
    episode, model = fresh(1), likelihood()
    acts = (U["greet"], episode.user.knowledge.request)
    both = []
    for said in (acts, acts[::-1]):
        model.begin(episode.user)
        both.append(model.take(episode, None, said))
    assert both[0] == both[1]


def test_other_base_probabilities_give_other_likelihoods():
    episode = fresh(1)
    found = {}
    for base in (0.1, 0.6):
        model = likelihood(DecisionModel({"greet_only": base}))
        model.begin(episode.user)
        found[base] = model.take(episode, None, (U["greet"],))
    assert found[0.1] == pytest.approx(math.log(p("greet_only", greet_only=0.1)), abs=1e-5)
    assert found[0.6] > found[0.1]


HEARD = (
    (),
    (Heard(ASK_MORE),),
    (Heard(ASK, 0),),
    (Heard(ASK, 0), Heard(ASK, 2)),
    tuple(Heard(ASK, slot) for slot in range(5)),
)


def brute_force(episode, state, heard):
    """Probability of every set of acts, by trying all scripts of so many choices."""
    forced = Forced(DecisionModel())
    user, sums, width = DESK.make_user(forced), {}, 0
    while True:
        sums, longest = {}, 0
        for script_ in itertools.product((False, True), repeat=width):
            forced.begin(script_)
            trial = episode.snapshot()
            trial.user = state.copy()
            turn = user.open(trial) if heard is None else user.answer(trial, heard)
            longest = max(longest, len(forced.made))
            probability = math.exp(turn.log_prob)
            # A script with choices to spare is met once for each way to make those.
            spare = max(0, width - len(forced.made))
            key = frozenset(turn.acts)
            sums[key] = sums.get(key, 0.0) + probability / 2**spare
        if longest <= width:
            return sums
        width = longest


@pytest.mark.parametrize("heard", [None, *HEARD[:4]], ids=range(5))
@pytest.mark.parametrize("task", [1, 4, 7])
def test_every_turn_has_the_probability_that_brute_force_gives_it(task, heard):
    episode = fresh(task)
    episode.user.intent_said = heard is not None
    slow = brute_force(episode, episode.user, heard)
    assert sum(slow.values()) == pytest.approx(1.0, abs=1e-4)
    for acts, probability in slow.items():
        model = likelihood()
        model.begin(episode.user)
        found = model.take(episode, heard, tuple(acts))
        assert found == pytest.approx(max(math.log(probability), FLOOR), abs=1e-2)


@pytest.mark.parametrize("heard", [None, *HEARD], ids=range(6))
def test_what_may_happen_sums_to_one(heard):
    for task in range(12):
        episode = fresh(task)
        outcomes = list(likelihood().outcomes(episode, episode.user, heard))
        assert sum(math.exp(o.log_prob) for o in outcomes) == pytest.approx(1.0, abs=1e-3)
        for outcome in outcomes:
            assert outcome.log_prob == pytest.approx(outcome.turn.log_prob, abs=1e-6)


def test_following_outcomes_leaves_the_episode_as_it_was():
    episode = fresh(3)
    before = (bytes(episode.belief), len(episode.ledger), episode.user.turn, episode.user.bother)
    model = likelihood()
    model.begin(episode.user)
    model.take(episode, None, (U["greet"],))
    after = (bytes(episode.belief), len(episode.ledger), episode.user.turn, episode.user.bother)
    assert before == after


def test_what_the_model_cannot_do_gets_the_floor_and_the_next_turn_is_weighed_again():
    env = aec(SHOP, **REALISTIC)
    env.reset(seed=4)
    env.step(act(env, "challenge_done"))
    assert env.infos[USER]["log_likelihood"] == env.rewards[USER] == FLOOR
    env.step(number(env, "ask_intent"))
    env.step(env.own_action())
    assert FLOOR < env.rewards[USER] < 0


def test_hidden_states_that_say_the_same_go_on_side_by_side():
    """Who says `hold` looks the number up or pretends to; the next turn tells."""
    looks_up = next(
        n for n in range(500)
        if fresh(n).user.knowledge.must_look_up and fresh(n).user.knowledge.alternative is False
    )  # fmt: skip
    episode, model = fresh(looks_up), likelihood()
    knowledge = episode.user.knowledge
    model.begin(episode.user)
    model.take(episode, None, (knowledge.request,))
    asked = (Heard(ASK, knowledge.main_slot),)
    assert model.take(episode, asked, (U["hold"],)) < 0
    kinds = {state.holding for _, state in model._states}
    assert kinds == {1, 2}
    looked, pretended = (p("look_up"), (1 - p("look_up")) * p("false_claim"))
    number_of_it = knowledge.ladders[knowledge.main_slot][0]
    back = model.take(episode, (Heard(ASK_MORE),), (number_of_it, knowledge.request))
    expected = looked / (looked + pretended) * (1 - p("misremember")) * (1 - p("tangent"))
    assert back == pytest.approx(math.log(expected), abs=1e-5)
    assert {state.holding for _, state in model._states} == {0}


def play(env, user, agent, seed):
    """(log-likelihood paid, log-probability logged) of each turn of the user."""
    env.reset(seed=seed)
    agent.reset(seed)
    user.reset(seed)
    paid, logged = [], []
    for side in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        over = terminated or truncated
        if side == USER:
            if reward or env.infos[USER]["turn"]:
                paid.append(reward)
            env.step(None if over else user.predict(observation)[0])
        else:
            if info["user_acts"] != "[]" or info["turn"] == 0:
                logged.append(info["user_log_prob"])
            seen = env.gymnasium_observation(observation)
            env.step(None if over else agent.predict(seen, action_masks=info["action_mask"])[0])
    return paid, logged


def test_the_acts_are_never_less_likely_than_the_choices_behind_them():
    env, gained, equal = aec(SHOP, **REALISTIC), 0, 0
    user = BoundUser(env)
    for seed in range(60):
        paid, logged = play(env, user, (OraclePolicy(), PlannerPolicy(0.2))[seed % 2], seed)
        total, chosen = sum(paid), sum(logged)
        assert total >= chosen - 1e-3
        gained += total > chosen + 1e-3
        equal += abs(total - chosen) < 1e-3
    assert gained and equal


def test_the_simulated_user_is_likelier_than_a_random_one():
    env, agent = aec(SHOP, **REALISTIC), OraclePolicy()
    own, random = (
        [sum(play(env, user, agent, seed)[0]) for seed in range(15)]
        for user in (BoundUser(env), RandomActsUser(env))
    )
    assert min(own) > max(random)


def test_a_fitted_user_is_the_measure_where_there_is_one(tmp_path):
    from convgym.users import fit

    counted = {
        name: fit.FittedProbability(0.9 if name == "greet_only" else base, 90, 100)
        for name, base in fit.DEFAULTS.items()
    }
    phrases = dict.fromkeys(fit.SMALL_TALK, ())
    saved = fit.UserFit(100, counted, fit.WordLength(1.0, 1.0, 10), phrases)
    path = tmp_path / "fit.json"
    saved.to_json(path)
    found = []
    for user in (None, str(path)):
        env = aec(SHOP, **REALISTIC, user=user)
        talk(env, act(env, "greet"))
        found.append(env.infos[USER]["log_likelihood"])
    assert found[1] > found[0]


def test_cross_play_has_a_row_for_each_agent_and_a_column_for_each_user():
    cross_play = script("cross_play")
    cells = cross_play.matrix(SHOP, 6, "test", 0)
    assert len(cells) >= 4 and all(len(row) >= 4 for row in cells.values())
    assert cells["oracle"]["simulated"].successes == 6
    assert cells["random"]["contrary"].successes == 0
    page = cross_play.markdown(cells, 6)
    assert page.count("\n| ") >= len(cells) + len(cross_play.USERS)
    assert "1.00 [0.61, 1.00]" in page
