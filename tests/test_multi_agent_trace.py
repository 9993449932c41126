"""AEC with the environment's own user on the other side gives exactly the Gymnasium trace."""

import gymnasium as gym
import pytest
from two_sided import AGENT, aec, every_id, script

from convgym.language.models import Completion
from convgym.multi_agent import BoundUser, OneSide
from convgym.policies.policy import RandomPolicy

trace = script("two_sided_trace")
every_variant = pytest.mark.parametrize(
    "variant", trace.VARIANTS, ids=lambda v: f"{v['action']}-{v['observation']}"
)


@every_id
@pytest.mark.parametrize("user_action", ["act", "text"])
@every_variant
@pytest.mark.parametrize("episodes", [30, pytest.param(70, marks=pytest.mark.slow)])
def test_bound_user_gives_the_gymnasium_trace(environment_id, variant, user_action, episodes):
    """Of each of ten variants, with three agents and more."""
    assert not trace.compare(environment_id, episodes, 5, **variant, user_action=user_action)


@every_id
def test_a_reward_of_the_user_or_few_acts_a_turn_change_nothing_for_the_agent(environment_id):
    for extra in ({"user_reward": "realistic"}, {"acts_per_turn": 1}, {"max_cycles": 1000}):
        keywords = {"observation": "features", "action": "act", "user_action": "act", **extra}
        assert not trace.compare(environment_id, 25, 6, **keywords)


def test_a_difference_would_be_seen():
    assert list(trace.differences({"a": (1, 2.0)}, {"a": (1, 2)})) == ["/a/1: 2.0 and 2"]
    assert list(trace.differences([1], [1, 2]))
    keywords = {"observation": "features", "action": "act"}
    two_sided = aec("ConvGym/CustomerService-v0", **keywords, user_action="act")
    single = gym.make("ConvGym/CustomerService-v0", disable_env_checker=True, **keywords)
    agent, user = RandomPolicy(), BoundUser(two_sided)
    first = trace.two_sided_trace(two_sided, agent, user, seed=1)
    assert not list(trace.differences(first, trace.gymnasium_trace(single, agent, seed=1)))
    assert list(trace.differences(first, trace.gymnasium_trace(single, agent, seed=2)))


class Shouting:
    """A writer that changes every draft and fails now and then."""

    def __call__(self, request):
        if request.seed % 23 == 0:
            raise RuntimeError("no words")
        return request.draft + "!"


def test_with_a_writer():
    keywords = {"observation": "message", "action": "text", "realism": 0.9, "writer": Shouting()}
    for user_action in ("act", "text"):
        found = trace.compare(
            "ConvGym/CustomerService-v0", 40, 7, **keywords, user_action=user_action
        )
        assert not found


class Talkative:
    """A model of the customer whose words depend on what was said, and that fails at times."""

    def complete(self, prompts, seeds):
        said = ("I want to cancel my order.", "Yes, please.", "I accept that.", "Goodbye.", "")
        return [Completion(said[seed % 5]) if seed % 31 else Completion("", "timeout")
                for seed in seeds]  # fmt: skip


def test_with_a_model_as_the_customer():
    keywords = {"observation": "dict", "action": "text", "user": Talkative()}
    for user_action in ("act", "text"):
        found = trace.compare(
            "ConvGym/CustomerService-v0", 40, 8, **keywords, user_action=user_action
        )
        assert not found


@every_id
@every_variant
def test_one_side_with_the_own_user_is_the_gymnasium_environment(environment_id, variant):
    two_sided = aec(environment_id, **variant)
    single = gym.make(environment_id, disable_env_checker=True, **variant)
    side = OneSide(two_sided)
    assert side.observation_space == single.observation_space
    for seed in range(12):
        playing = trace.agents(two_sided)
        agent = playing[seed % len(playing)]
        first = trace.gymnasium_trace(side, agent, seed=seed)
        assert not list(
            trace.differences(first, trace.gymnasium_trace(single, agent, seed=seed))
        )
        assert two_sided.terminations[AGENT] or two_sided.truncations[AGENT]
