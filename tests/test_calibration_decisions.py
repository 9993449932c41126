"""Decisions fitted to logs: rates by hand, derivatives from scores, recovery, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin_env import RepliesEnv, TwinEnv, record

from convgym.calibration.decision_fit import fit_decisions, save_user
from convgym.calibration.decision_traces import Simulation, environment
from convgym.calibration.reactions import Reader, Talk, count_rates
from convgym.conversation import Conversation, Message
from convgym.errors import InvalidConfiguration
from convgym.policies.scripted import OraclePolicy, PlannerPolicy
from convgym.users.decisions import NUMBER, DecisionModel
from convgym.users.fitted_user import FittedUser

ENV_ID = "ConvGym/CustomerService-v0"
AGENTS = [OraclePolicy, PlannerPolicy]
HIDDEN = FittedUser(
    {"ask_why": 0.5, "ask_meaning": 0.4, "greet_only": 0.7, "tangent": 0.3, "misremember": 0.3,
     "thank": 0.2, "doubt": 0.4, "volunteer": 0.7}
)  # fmt: skip


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A saved user whose bases are known."""
    place = tmp_path_factory.mktemp("hidden") / "user.npz"
    save_user(HIDDEN, place)
    return place


@pytest.fixture(scope="module")
def log(path):
    """What it said to two agents."""
    return record(RepliesEnv(user=path, observation="message"), [a() for a in AGENTS], 300, 1)


@pytest.fixture(scope="module")
def fit(log):
    return fit_decisions(log, ENV_ID, agents=AGENTS, simulated=400, seed=2)


# -- counting --------------------------------------------------------------------------------------


def test_a_conversation_is_counted_as_by_hand():
    conversation = Conversation("one", (
        Message("user", "Hello.", acts=(("greet",),)),
        Message("assistant", "May I have your email address, please?"),
        Message("user", "What for?", acts=(("ask_why",),)),
        Message("assistant", "Could you give me your email address, please?"),
        Message("user", "a@b.com, W10001.", acts=(("inform_email", "a@b.com"),
                                                 ("inform_order", "W10001"))),
        Message("tool", '{"error": "no account"}'),
        Message("assistant", "Could you give me your email address, please?"),
        Message("user", "c@d.com", acts=(("inform_email", "c@d.com"),)),
    ))  # fmt: skip
    talk = Reader(environment(ENV_ID).domain, labelled=True).talk(conversation)
    assert talk.turns["opening"] == 1 and talk.turns["any"] == 3
    assert talk.turns["ask"] == 3 and talk.turns["ask again"] == 2 and talk.turns["error"] == 1
    assert talk.turns["after greet"] == talk.turns["after ask_why"] == 1
    assert talk.events["opening", "greet"] == 1
    assert talk.events["ask", "ask_why"] == 1 and talk.events["ask again", "ask_why"] == 0
    assert talk.events["ask", "inform"] == 2 and talk.events["any", "inform more"] == 1
    assert talk.events["error", "inform otherwise"] == talk.events["any", "error"] == 1


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=2, max_size=8))
def test_a_rate_is_what_happened_over_what_could_and_influences_balance(told):
    talks = []
    for turns in told:
        talk = Talk()
        talk.user([])
        for asked in turns:
            talk.agent([("ask", "email")])
            talk.user([("ask_why", "")] if asked else [("affirm", "")])
        talks.append(talk)
    rates = count_rates(talks, [("ask", "ask_why")])
    every = [asked for turns in told for asked in turns]
    assert rates.values[0] == pytest.approx(sum(every) / len(every))
    assert rates.turns[0] == len(every)
    assert rates.influence.sum() == pytest.approx(0.0, abs=1e-9)


def test_a_rate_of_what_never_could_happen_is_no_number():
    rates = count_rates([Talk(), Talk()], [("ask", "ask_why")])
    assert np.isnan(rates.values[0]) and rates.turns[0] == 0


# -- derivatives -----------------------------------------------------------------------------------


def test_scores_give_the_derivative_that_two_simulations_give():
    env = environment(ENV_ID)
    simulation = Simulation(env, Reader(env.domain, labelled=True), AGENTS)
    point, step, event = "greet_only", 0.25, [("opening", "request")]

    def run(moved: float):
        base = 1 / (1 + math.exp(-logit(0.4) - moved))
        return simulation.run(DecisionModel({point: base}), 500, seed=3)

    low, middle, high = (run(moved) for moved in (-step, 0.0, step))
    rate = [count_rates([t.talk for t in side], event).values[0] for side in (low, high)]
    counted = count_rates([t.talk for t in middle], event)
    scores = np.array([t.scores[NUMBER[point]] for t in middle])
    each = counted.influence[:, 0] * scores
    derivative, error = each.mean(), each.std() / math.sqrt(len(each))
    assert derivative == pytest.approx((rate[1] - rate[0]) / (2 * step), abs=4 * error)
    assert abs(derivative) > 10 * error
    assert abs(scores.mean()) < 4 * scores.std() / math.sqrt(len(scores))


# -- fitting ---------------------------------------------------------------------------------------


def test_hidden_bases_are_found_from_acts(fit):
    told = {n: p for n, p in fit.posterior.items() if n in HIDDEN.bases}
    assert len(told) == len(HIDDEN.bases)
    for name, found in told.items():
        assert abs(logit(found.base) - logit(HIDDEN.bases[name])) < 0.7, name
        assert found.identifiable < 0.4, name
    held = [found.low <= HIDDEN.bases[name] <= found.high for name, found in told.items()]
    assert sum(held) >= len(held) - 2
    assert fit.gap_after < 2.5 < 4 * fit.gap_after < fit.gap_before


@pytest.mark.slow
def test_hidden_bases_are_found_from_bare_text(log):
    bare = [
        Conversation(c.conversation_id, tuple(Message(m.role, m.content) for m in c.messages))
        for c in log[:200]
    ]
    found = fit_decisions(bare, ENV_ID, agents=AGENTS, simulated=150, seed=4).posterior
    for name in ("ask_why", "greet_only", "tangent", "doubt"):
        own = DecisionModel().base[NUMBER[name]] / 10_000
        truth = logit(HIDDEN.bases[name])
        assert abs(logit(found[name].base) - truth) < abs(own - truth) / 2, name


def test_what_never_comes_up_stays_at_the_domains_own(fit):
    assert "haggle" not in fit.posterior and "skip_step" not in fit.posterior
    assert "answer_too" not in fit.posterior  # nobody asked for two things at once
    rare = fit.posterior["false_claim"]
    assert rare.identifiable > 0.6 and rare.low < 0.4 < rare.high


def test_the_same_seed_gives_the_same_fit(log):
    first, second = (
        fit_decisions(log[:40], ENV_ID, agents=AGENTS, simulated=100, seed=5) for _ in range(2)
    )
    assert first.posterior == second.posterior


def test_scripted_agents_are_mixed_until_they_talk_like_the_logs(log):
    found = fit_decisions(log[:100], ENV_ID, simulated=100, seed=6).posterior
    assert abs(logit(found["greet_only"].base) - logit(0.7)) < 0.7


def test_a_fitted_user_is_saved_and_played(fit, tmp_path):
    save_user(fit.user(), tmp_path / "user.npz")
    assert FittedUser.load(tmp_path / "user.npz") == fit.user()
    env = RepliesEnv(user=tmp_path / "user.npz")
    played = env.conditions.model.base[NUMBER["ask_why"]] / 10_000
    assert played == pytest.approx(logit(fit.posterior["ask_why"].base), abs=1e-3)


def test_users_are_drawn_from_the_posterior(fit):
    drawn = np.array([[*fit.draw(seed).bases.values()] for seed in range(400)])
    logits = np.log(drawn / (1 - drawn))
    sds = np.sqrt(np.diag(fit.covariance))
    assert logits.mean(axis=0) == pytest.approx(fit.logits, abs=0.4)
    assert logits.std(axis=0) == pytest.approx(sds, rel=0.2)
    assert fit.draw(1, widen=0.0).bases == pytest.approx(fit.user().bases)


# -- refusing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"env_id": "ConvGym/Nowhere-v0"}, "no environment is called"),
        ({"env_id": "CartPole-v1"}, "no decisions"),
        ({"simulated": 5}, "100 conversations or more"),
        ({"conversations": []}, "0 conversations with user turns"),
        ({"conversations": [Conversation("a", (Message("assistant", "hi"),))] * 50}, "0 conv"),
    ],
    ids=str,
)
def test_what_cannot_be_fitted_is_refused_in_one_sentence(log, change, told):
    given = {"conversations": log, "env_id": ENV_ID, **change}
    with pytest.raises(InvalidConfiguration, match=told):
        fit_decisions(**given)


def test_labels_of_another_domain_are_refused():
    turn = Message("user", "a flight to Rome", acts=(("flight", "inform", "city", "Rome"),))
    with pytest.raises(InvalidConfiguration, match=r"'flight'"):
        fit_decisions([Conversation("a", (turn,))] * 30, ENV_ID)
    bare = [Conversation("a", (Message("user", "hello"),))] * 30
    with pytest.raises(InvalidConfiguration, match="no labels"):
        fit_decisions(bare, ENV_ID, labelled=True)


# -- the twin --------------------------------------------------------------------------------------


def test_a_twin_is_the_same_for_a_seed_and_another_for_another():
    first, again, other = (TwinEnv(seed).hidden.bases for seed in (1, 1, 2))
    assert first == again != other


def test_a_twin_takes_a_break_once_at_most():
    env = TwinEnv(3, observation="message")
    talks = record(env, [OraclePolicy()], 40, 7)
    pauses = [
        sum(m.acts == (("hold",),) for m in talk.said_by("user")) for talk in talks
    ]  # one may be a look at the papers
    assert max(pauses) <= 3 and 2 < sum(map(bool, pauses)) < 40
