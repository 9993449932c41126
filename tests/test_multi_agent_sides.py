"""What each side may do and see: the floor, tools that only one side has, rewards, one sync."""

import json

import numpy as np
import pytest
from two_sided import (
    AGENT,
    USER,
    act,
    aec,
    anything,
    every_id,
    number,
    sayable,
    stated,
    talk,
    task_where,
    to_the_end,
)

from convgym.engine.keys import POLICY, below, draw
from convgym.envs.two_sided import MOST_TOOL_STEPS
from convgym.envs.user_side import PlainSide, known_acts, load
from convgym.errors import InvalidConfiguration
from convgym.multi_agent import BoundUser, OneSide
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder, null_policies
from convgym.policies.scripted import OraclePolicy

SHOP = "ConvGym/CustomerService-v0"
ACTS = {"action": "act", "user_action": "act"}
MAILBOX = '<tool_call>{"name": "search_mailbox", "arguments": {}}</tool_call>'




def looks_up(env):
    return env.conversation.episode.user.knowledge.must_look_up and "inform_order" in sayable(env)


LOOKS_UP = task_where(SHOP, looks_up)
"""A task whose customer has to look the order number up."""


# The floor


def test_a_call_keeps_the_floor_and_speech_passes_it():
    env = talk(aec(SHOP, **ACTS))
    for action, then in (
        (act(env, "search_mailbox()"), USER),
        (act(env, "greet"), AGENT),
        (number(env, "list_orders"), AGENT),  # an error, for no account is open
        (number(env, "greet"), USER),
        (act(env, "search_mailbox()", "acknowledge"), AGENT),
    ):
        env.step(action)
        assert env.agent_selection == then


def test_the_same_in_words():
    env = talk(aec(SHOP))
    for action, then in (
        (MAILBOX, USER),
        ("Hello, I need help.", AGENT),
        ('<tool_call>{"name": "list_orders", "arguments": {}}</tool_call>', AGENT),
        ("How can I help you?", USER),
        (f"I have looked it up. {MAILBOX}", AGENT),
        ("", USER),
        ("", AGENT),
    ):
        env.step(action)
        assert env.agent_selection == then


@every_id
def test_nobody_keeps_the_floor_for_ever_with_tools(environment_id):
    call = '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'
    env = talk(aec(environment_id))
    for _ in range(MOST_TOOL_STEPS - 1):
        env.step(call)
        assert env.agent_selection == USER and "error" in env.observe(USER)["tool_results"]
    env.step(call)
    assert env.agent_selection == AGENT and env.infos[AGENT]["user_acts"] == "[]"


def test_a_malformed_call_of_the_user_is_an_error_for_it_alone():
    env = talk(aec(SHOP), '<tool_call>{"name": }</tool_call>')
    assert env.agent_selection == USER and "could not be read" in env.observe(USER)["tool_results"]
    env.step("Hello.")
    assert "could not be read" not in str(env.observe(AGENT)) + str(env.infos[AGENT])
    assert env.infos[AGENT]["errors"] == 0


def test_calls_with_arguments_that_no_tool_has_are_refused_in_words():
    call = '<tool_call>{"name": "search_mailbox", "arguments": {"for": "all"}}</tool_call>'
    assert "no argument 'for'" in talk(aec(SHOP), call).observe(USER)["tool_results"]


@every_id
def test_the_agent_that_hangs_up_while_it_speaks_is_answered_first(environment_id):
    """As in the Gymnasium environment: what is said with the ending is heard."""
    farewell = 'Goodbye. <tool_call>{"name": "end_conversation", "arguments": {}}</tool_call>'
    env = talk(aec(environment_id), "Hello.", farewell)
    assert env.agent_selection == USER and not any(env.terminations.values())
    env.step("Wait, please.")
    assert all(env.terminations.values())
    assert env.infos[AGENT]["failure_reason"] == "agent_ended"


@every_id
def test_cut_off_by_cycles_nobody_answers_but_the_ending_of_the_agent_counts(environment_id):
    farewell = 'Goodbye. <tool_call>{"name": "end_conversation", "arguments": {}}</tool_call>'
    env = talk(aec(environment_id, max_cycles=1), "Hello.", farewell)
    assert all(env.terminations.values())
    env = talk(aec(environment_id, max_cycles=1), "Hello.", "Hello.")
    assert all(env.truncations.values()) and not any(env.terminations.values())
    assert env.infos[USER]["failure_reason"] == "cycle_cap"
    env.step(None)
    env.step(None)
    assert env.agents == []


# Tools of one's own


def play(env, key, touch):
    """An oracle of words against the simulated user; `touch` sees every step."""
    agent = RenderedPolicy(OraclePolicy(0.15))
    user = BoundUser(env)
    env.reset(seed=key)
    agent.reset(key)
    for side in env.agent_iter():
        observation, _, terminated, truncated, info = env.last()
        touch(side, observation, info)
        if terminated or truncated:
            env.step(None)
        elif side == USER:
            looks = below(draw(key, POLICY, info["turn"], 3), 3) == 0 and not observation[
                "tool_results"
            ]
            env.step(MAILBOX if looks else user.predict(observation)[0])
        else:
            env.step(agent.predict(env.gymnasium_observation(observation))[0])


def test_each_side_reads_its_own_tools_results_and_no_others():
    """Whole results, and the one token that nothing but a result has."""
    env = aec(SHOP, observation="dict")
    results = {AGENT: set(), USER: set()}
    seen = {AGENT: [], USER: []}

    def touch(side, observation, info):
        results[side] |= {line for line in info["tool_results"].split("\n") if line}
        seen[side].append(str(observation) + str(info))

    for key in range(25):
        play(env, key, touch)
    assert len(results[AGENT]) > 60 and len(results[USER]) > 10
    for side, other in ((AGENT, USER), (USER, AGENT)):
        everything = "\n".join(seen[other])
        assert not [result for result in results[side] if result in everything]
    assert '"needs_verification"' in "".join(seen[AGENT])
    assert '"needs_verification"' not in "".join(seen[USER])
    assert '"mails"' in "".join(seen[USER]) and '"mails"' not in "".join(seen[AGENT])


def test_the_user_does_not_read_the_agents_calls_or_thoughts():
    said = '<think>secret plan</think>Hello! <tool_call>{"name": "list_orders"}</tool_call>'
    env = talk(aec(SHOP), "Hello.", "<think>secret plan</think>Hello, what can I do?")
    assert env.observe(USER)["message"] == "Hello, what can I do?"
    env = talk(aec(SHOP), "Hello.", said)
    assert "secret" not in str(env.observe(USER)) and "list_orders" not in str(env.observe(USER))


def test_in_acts_the_user_reads_the_agents_words_all_the_same():
    env = aec(SHOP, **ACTS)
    talk(env, act(env, "greet"), number(env, "ask_email"))
    assert "mail" in env.observe(USER)["message"]
    asked = env.user_layout.index("heard_ask_email")
    assert env.observe(USER)["features"][asked] == 1
    assert env.observe(USER)["features"][env.user_layout.index("heard_ask_postcode")] == 0


def test_a_number_that_has_to_be_looked_up_stands_in_the_mailbox_alone():
    env = aec(SHOP, **ACTS)
    env.reset(options=LOOKS_UP)
    order = stated(env, "inform_order")
    can_say = env.user_layout.index("can_inform_order")
    before = env.observe(USER)
    assert order not in str(before) and "mailbox" in before["role"]
    assert before["features"][can_say] == 0
    assert not before["action_mask"][0][env.user_names.index("inform_order")]
    env.step(act(env, "search_mailbox()"))
    after = env.observe(USER)
    assert order in after["tool_results"] and order in env.infos[USER]["tool_results"]
    assert after["features"][can_say] == 1
    assert after["action_mask"][0][env.user_names.index("inform_order")]


def test_what_was_not_looked_up_is_not_taken_up():
    env = aec(SHOP, **ACTS)
    talk(env, act(env, "inform_order"), options=LOOKS_UP)
    assert env.infos[AGENT]["user_acts"] == "[]" and env.infos[USER]["ignored"] == "inform_order"
    talk(env, act(env, "search_mailbox()", "inform_order"), options=LOOKS_UP)
    assert "inform_order" in env.infos[AGENT]["user_acts"] and not env.infos[USER]["ignored"]


def test_the_simulated_user_looks_up_what_it_says():
    env, searched = aec(SHOP, observation="features", **ACTS), 0
    user, agent = BoundUser(env), OraclePolicy()
    for key in range(40):
        env.reset(seed=key, options=LOOKS_UP)
        for side in env.agent_iter():
            observation, _, terminated, truncated, info = env.last()
            action = None
            if side == USER and not (terminated or truncated):
                action = user.predict(observation)[0]
                searched += action[0] == env.user_names.index("search_mailbox()")
            elif not (terminated or truncated):
                seen = env.gymnasium_observation(observation)
                action = agent.predict(seen, action_masks=info["action_mask"])[0]
            env.step(action)
    assert searched >= 20


def test_papers_say_what_the_customer_can_say_and_no_more():
    env, call = aec(SHOP), '<tool_call>{"name": "look_at_papers", "arguments": {}}</tool_call>'
    for index in range(60):
        env.reset(options={"task_id": f"test-{index}"})
        env.step(call)
        papers = json.loads(env.observe(USER)["tool_results"])
        own = "inform_postcode" in sayable(env)  # else somebody in another one's name
        said = "inform_postcode" if own else "inform_postcode_wrong"
        assert papers == {"email": stated(env, "inform_email"), "postcode": stated(env, said)}


# One sync after every write


def test_a_change_that_was_made_comes_as_a_mail_and_a_claimed_one_does_not():
    env = aec(SHOP, observation="features", **ACTS)
    user, found = BoundUser(env), 0
    for index in range(60):
        env.reset(seed=index, options={"task_id": f"test-{index}"})
        agent = OraclePolicy()
        for _ in env.agent_iter():
            observation, _, terminated, truncated, info = env.last()
            changed = bool(env.conversation.episode.diff)
            if terminated or truncated:
                env.step(None)
            elif env.agent_selection == AGENT:
                seen = env.gymnasium_observation(observation)
                env.step(agent.predict(seen, action_masks=info["action_mask"])[0])
            else:
                env.step(act(env, "search_mailbox()"))
                mails = json.loads(env.observe(USER)["tool_results"])["mails"]
                of_changes = [mail for mail in mails if not mail.startswith("Your order: ")
                              and not mail.startswith(("Your charge: ", "Your subscription: "))]
                assert bool(of_changes) == changed
                assert len(of_changes) == len(env.conversation.episode.diff)
                found += changed
                env.step(user.predict(None)[0])
    assert found > 10


def test_sync_done_twice_changes_nothing():
    env = aec(SHOP, **ACTS)
    env.reset(seed=1)
    make = load("convgym.domains.customer_service.user_side:CustomerServiceSide")
    side, episode = make(env.conversation.domain), env.conversation.episode
    own = side.open(episode)
    episode.diff["order", 3, "cancel"] = 1
    side.sync(episode, own)
    mails = list(own.mails)
    side.sync(episode, own)
    assert own.mails == mails and len(mails) == 1 and "cancelled" in mails[0]
    copy = own.copy()
    episode.diff["account", 4, "access"] = 1
    side.sync(episode, copy)
    assert len(own.mails) == 1 and len(copy.mails) == 2 and "unlocked" in copy.mails[1]


# What the user can truthfully do


@every_id
def test_the_simulated_user_never_does_what_the_mask_forbids(environment_id):
    env = aec(environment_id, observation="features", user_observation="features", **ACTS)
    user, told = BoundUser(env), 0
    agents = [make() for make in ladder(env.conversation.domain.domain).values()]
    for key in range(100):
        agent = agents[key % len(agents)]
        env.reset(seed=key)
        agent.reset(key)
        for side in env.agent_iter():
            observation, _, terminated, truncated, info = env.last()
            action = None
            if side == USER and not (terminated or truncated):
                action = user.predict(observation)[0]
                assert all(mask[n] for mask, n in zip(info["action_mask"], action, strict=True))
                told += np.count_nonzero(action)
            elif not (terminated or truncated):
                seen = env.gymnasium_observation(observation)
                action = agent.predict(seen, action_masks=info["action_mask"])[0]
            env.step(action)
    assert told > 500


@every_id
def test_a_side_without_tools_is_the_plain_one(environment_id):
    env = aec(environment_id, side="", user_action="act")
    env.reset(seed=1)
    assert len(env.user_names) == 1 + len(env.conversation.domain.vocabulary)
    assert env.observe(USER)["tools"] == "[]"
    episode, domain = env.conversation.episode, env.conversation.domain
    side, known = PlainSide(domain), known_acts(episode.user, domain.vocabulary)
    side.sync(episode, side.open(episode))
    assert side.rests_on(episode, None, (1, 2)) == ()
    assert side.truthful(episode, None, known) is known


@pytest.mark.parametrize("entry_point", ["nowhere", "convgym.nothing:Nothing", "convgym:None_", 7])
def test_a_side_that_is_not_there_is_one_sentence(entry_point):
    with pytest.raises(InvalidConfiguration, match="nothing can be loaded from"):
        load(entry_point)


# Rewards


@every_id
@pytest.mark.parametrize("reward", ["success", "graded", "milestones"])
@pytest.mark.parametrize("user_reward", ["cooperative", "adversarial"])
def test_the_user_is_paid_what_the_agent_is_or_minus_that(environment_id, reward, user_reward):
    keywords = {"observation": "features", **ACTS, "reward": reward, "user_reward": user_reward}
    env = aec(environment_id, **keywords)
    agent = ladder(env.conversation.domain.domain)["oracle"]()
    user, paid = BoundUser(env), 0.0
    for key in range(12):
        agent.reset(key)
        totals = dict.fromkeys((AGENT, USER), 0.0)

        def choose(side, last):
            if side == USER:
                return user.predict(last[0])[0]
            seen = env.gymnasium_observation(last[0])
            return agent.predict(seen, action_masks=last[4]["action_mask"])[0]

        for side, _, earned, *_ in to_the_end(env, choose, seed=key):
            totals[side] += earned
        sign = 1 if user_reward == "cooperative" else -1
        assert totals[USER] == pytest.approx(sign * totals[AGENT])
        paid += abs(totals[AGENT])
    assert paid > 1


# One side as a Gymnasium environment


@every_id
def test_the_user_can_be_played_as_a_gymnasium_environment(environment_id):
    env = aec(environment_id, observation="features", user_observation="features", **ACTS)
    side = OneSide(env, plays=USER, other=ladder(env.conversation.domain.domain)["oracle"]())
    assert side.action_space is env.action_space(USER)
    for seed in range(5):
        seen, info = side.reset(seed=seed)
        assert env.agent_selection == USER and seen in side.observation_space
        masks, step, over = side.action_masks(), 0, False
        assert masks.shape == (env.codec.width * len(env.user_names),)
        while not over:
            action = anything(side.action_space, seed, step)
            seen, reward, terminated, truncated, info = side.step(action)
            assert seen in side.observation_space
            over, step = terminated or truncated, step + 1
        assert reward == float(info["success"])


def test_an_env_of_one_side_passes_gymnasiums_checks():
    from gymnasium.utils.env_checker import check_env

    acting = {"observation": "features", "user_observation": "features", **ACTS}
    check_env(OneSide(aec(SHOP, **acting)), skip_render_check=True)
    user = OneSide(aec(SHOP, **acting), plays=USER, other=OraclePolicy())
    check_env(user, skip_render_check=True)


def test_what_one_side_needs_is_said():
    env = aec(SHOP)
    with pytest.raises(InvalidConfiguration, match="neither 'agent_0' nor 'user_0'"):
        OneSide(env, plays="nobody")
    with pytest.raises(InvalidConfiguration, match="needs an agent"):
        OneSide(env, plays=USER)
    env.reset(seed=1)
    side = OneSide(env)
    side.reset(seed=1)
    with pytest.raises(InvalidConfiguration, match="has no mask"):
        OneSide(env, plays=USER, other=null_policies()["silence"]()).action_masks()
    assert "Tools:" in side.system_prompt and not side.draws_tasks and not side.fixed


@every_id
def test_the_own_user_is_asked_only_when_it_has_the_floor(environment_id):
    env = talk(aec(environment_id), "Hello.")
    with pytest.raises(InvalidConfiguration, match="has not the floor"):
        env.own_action()
    with pytest.raises(InvalidConfiguration):
        aec(environment_id).own_action()


def test_maskable_ppo_takes_either_side():
    sb3 = pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
    acting = {"observation": "features", "user_observation": "features", **ACTS}
    for side in (
        OneSide(aec(SHOP, **acting)),
        OneSide(aec(SHOP, **acting, user_reward="realistic"), plays=USER, other=OraclePolicy()),
    ):
        learner = sb3.MaskablePPO("MlpPolicy", side, n_steps=16, batch_size=16, n_epochs=1, seed=1)
        assert learner.learn(32).num_timesteps == 32
