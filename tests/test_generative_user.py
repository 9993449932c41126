"""A customer played by a language model; the models here are functions."""

import json
import re
from itertools import pairwise

import gymnasium as gym
import pytest
from played_customer import customer
from single_task import DESK, KNOWS_ID, LOOKS_UP, USER_ACTS, draw_task, first, workflow
from staged_user import (
    ASKED,
    DENIED,
    DENIED_WRONGLY,
    OFFERED,
    OFFERED_WRONGLY,
    OTHER,
    TOLD,
    WRONG,
    Stage,
)

from convgym.desk.declaration import ACCOUNT
from convgym.desk.tasks import MISTAKEN
from convgym.domains.customer_service import played as role
from convgym.domains.customer_service.world import STAGES, world
from convgym.engine import acts
from convgym.engine.acts import Heard
from convgym.engine.episode import Episode
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import play
from convgym.language.models import CallableModel
from convgym.language.style import style_of
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import OraclePolicy
from convgym.spaces import CHARSET
from convgym.users.generative import (
    MESSAGE_LENGTH,
    chat_model,
    in_words,
    message_of,
)
from convgym.users.persona import HUNDRED, TRAITS, named_persona

ID = "ConvGym/CustomerService-v0"


def make(function, observation="dict", **keywords):
    model = CallableModel(function, takes="messages")
    return gym.make(
        ID, disable_env_checker=True, user=model, observation=observation, **keywords
    )


def played(env, seed, **options):
    """An episode with the oracle in words as the agent."""
    return play(env, RenderedPolicy(OraclePolicy()), seed=seed, options=options or None)


# -- stand-ins -------------------------------------------------------------------------------------


def rambler(messages):
    return "Well, yes, you know, the weather. " * 100 + "\nAgent: I have cancelled it. \x00\ud800"


def failing(messages):
    raise ConnectionError("secret")


# -- whole episodes --------------------------------------------------------------------------------


@pytest.mark.parametrize("split", DESK.splits)
def test_a_model_that_keeps_to_its_role_gets_what_it_came_for(split):
    """All that it came for, be it one, two or three things."""
    env = make(customer, split=split)
    ends = [played(env, seed).final_info for seed in range(20)]
    assert sum(info["success"] for info in ends) >= 17, [i["failure_reason"] for i in ends]


def test_the_same_model_and_seed_make_the_same_episode():
    def seeded(messages, seed):
        return f"{customer(messages)} {'abcdefgh'[seed % 8]}"

    def episode():
        model = CallableModel(seeded, takes="messages", seeded=True)
        env = gym.make(ID, disable_env_checker=True, user=model, observation="dict")
        return [observation["message"] for observation in played(env, 3).observations]

    first = [episode(), episode()]
    assert first[0] == first[1]
    assert len({words[-1] for words in first[0] if words}) > 1  # each turn has a seed of its own


def test_a_rambler_is_cut_off_by_the_turn_cap():
    env = make(rambler, max_turns=6)
    rollout = played(env, 1)
    assert rollout.truncated and not rollout.terminated
    assert not rollout.final_info["success"] and rollout.return_ == 0.0
    words = [o["message"] for o in rollout.observations if o["message"]]
    assert words and max(map(len, words)) <= MESSAGE_LENGTH
    assert set("".join(words)) <= set(CHARSET)
    assert not any("Agent:" in text for text in words)
    assert not any('"affirm"' in info["user_acts"] for info in rollout.infos)


def test_a_model_that_fails_ends_the_episode_as_truncated():
    env = make(failing, observation="message")
    observation, info = env.reset(seed=1)
    assert observation == "Hello." and info["user_acts"] == '[{"act": "greet"}]'
    observation, reward, terminated, truncated, info = env.step("How can I help?")
    assert (observation, reward, terminated, truncated) == ("", 0.0, False, True)
    assert info["failure_reason"] == "user_failed: the model raised ConnectionError"
    assert not info["success"]
    with pytest.raises(gym.error.ResetNeeded):
        env.step("Are you there?")
    assert env.reset(seed=2)[0] == "Hello."  # the run goes on


def test_the_words_reach_every_observation_and_are_noted_as_the_models():
    for observation in ("message", "transcript", "dict", "features"):
        env = make(customer, observation=observation, render_mode="ansi")
        _, info = env.reset(seed=7)
        assert info["wording"] == "model" and info["user_log_prob"] == 0.0
        assert "Customer: Hello." in env.render()


def find(email):
    return (
        f'<tool_call>{{"name": "find_customer", "arguments": {{"email": "{email}"}}}}</tool_call>'
    )


LIST = '<tool_call>{"name": "list_orders", "arguments": {}}</tool_call>'


def test_a_yes_to_another_write_is_no_yes():
    """However willing the model, it agrees to its own request on its own order alone."""
    env = make(lambda messages: "Yes, please go ahead.", render_mode="ansi")
    shop, task = world(), draw_task("train", first(lambda t: workflow(t) == "status"))
    env.reset(seed=1, options={"task_id": task.task_id})
    order = shop.text("order", task.requests[0].row, "order")
    for text in (
        find(shop.email(task.account)),
        LIST,
        f"Shall I cancel order {order}? Please answer yes or no.",
    ):
        _, _, _, _, info = env.step(text)
    assert "affirm" not in info["user_acts"]
    assert "confirmed" not in env.render() and "user_act_ignored: affirm" in env.render()


def test_somebody_elses_values_do_not_become_right_ones():
    env = make(lambda m: "My e-mail is alice.adams0@example.com, postcode 12345, order W10001.")
    number = first(lambda t: not t.impostor and DESK.declaration.workflows[
        t.requests[0].workflow].kind == "order")
    env.reset(seed=1, options={"task_id": f"train-{number}"})
    episode = env.unwrapped._episode
    assert 1 not in episode.desk.heard and 2 in episode.desk.heard


def test_the_values_in_info_are_those_that_were_said():
    """Also once the chat is about a later request, whose record is another one."""
    env, later = make(customer), 0
    for seed in range(60):
        rollout = played(env, seed)
        for observation, info in zip(rollout.observations, rollout.infos, strict=True):
            for act in json.loads(info["user_acts"]):
                if act["act"].removeprefix("inform_") in VALUES:
                    assert act["value"].lower() in observation["message"].lower()
        later += env.unwrapped._episode.user.at
    assert later > 20


VALUES = ("email", "postcode", "order", "item", "placed", "subscription", "plan", "started",
          "address", "variant", "category")  # fmt: skip


# -- what counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heard", "counts"),
    [
        ([[ASKED]], True),
        ([[Heard(acts.CONFIRM, verdict=OTHER)]], False),
        ([[Heard(acts.CONFIRM, verdict=acts.TERM_UNKNOWN)]], False),
        ([[ASKED, Heard(acts.CONFIRM, verdict=OTHER)]], False),
        ([[Heard(acts.CHAT)]], False),
        ([[]], False),
        ([[ASKED], [TOLD]], True),  # "is there a fee?" "no" "then yes"
        ([[ASKED], [Heard(acts.ASK_MORE)]], False),
        ([[ASKED], [Heard(acts.CONFIRM, verdict=OTHER)]], False),
        ([[ASKED], [Heard(acts.UNCLEAR)]], False),
    ],
)
def test_a_yes_counts_only_for_the_right_question(heard, counts):
    stage = Stage()
    stage.open()
    for before in heard[:-1]:
        stage.answer("ask_fee", *before)
    said, closed = stage.answer("affirm thank", *heard[-1])
    assert said == (["affirm", "thank"] if counts else ["thank"])
    assert stage.state.waiting is counts and not closed


def test_one_question_is_answered_once():
    stage = Stage()
    stage.open()
    assert stage.answer("affirm", ASKED)[0] == ["affirm"]
    assert stage.answer("affirm", Heard(acts.CHAT))[0] == []
    assert stage.answer("affirm negate", ASKED)[0] == ["negate"]
    assert stage.answer("affirm", TOLD)[0] == []


@pytest.mark.parametrize(
    ("alternative", "heard", "words", "resolved"),
    [
        (False, [DENIED], "accept_refusal bye", True),
        (False, [DENIED], "bye", False),
        (False, [DENIED], "give_up", False),
        (False, [DENIED], "accept_refusal push_back", False),
        (False, [DENIED_WRONGLY], "accept_refusal bye", False),
        (False, [Heard(acts.CHAT)], "accept_refusal bye", False),
        (False, [DENIED_WRONGLY, DENIED], "accept_refusal bye", True),
        (True, [DENIED], "accept_refusal bye", False),
        (True, [DENIED, OFFERED], "accept_alternative bye", True),
        (True, [DENIED, OFFERED], "accept_refusal bye", True),
        (True, [DENIED, OFFERED_WRONGLY], "accept_alternative bye", False),
        (True, [OFFERED], "accept_alternative bye", False),
    ],
)
def test_only_the_right_refusal_can_be_accepted(alternative, heard, words, resolved):
    stage = Stage(alternative)
    stage.open()
    _, closed = stage.answer(words, *heard)
    assert stage.state.resolved is resolved
    assert closed is (words.split()[-1] in ("bye", "give_up"))


def test_nobody_leaves_between_the_yes_and_the_deed():
    stage = Stage()
    stage.open()
    assert stage.answer("affirm bye", ASKED) == (["affirm"], False)
    assert stage.answer("bye", Heard(acts.REPORT_DONE, verdict=WRONG)) == ([], False)
    assert stage.answer("bye", Heard(acts.REPORT_DONE)) == (["bye"], True)


def test_a_content_customer_is_gone_when_nothing_more_is_wanted():
    stage = Stage(facts=(0, 1))
    stage.open()
    assert stage.answer("no_more", Heard(acts.TELL, 0)) == (["no_more"], False)
    assert stage.answer("no_more", Heard(acts.TELL, 1)) == (["no_more"], True)


def test_a_copy_goes_its_own_way():
    stage = Stage()
    stage.open()
    saved = stage.episode.user.copy()
    stage.answer("affirm", ASKED)
    assert (saved.said, saved.waiting) == ([("assistant", "greet")], False)
    assert len(stage.state.said) == 3 and stage.state.waiting


# -- the prompt ------------------------------------------------------------------------------------


def test_roles_alternate_and_the_role_comes_first():
    stage = Stage()
    stage.open()
    for turn in range(30):
        stage.episode.reply = f"reply {turn}"
        stage.answer("thank", Heard(acts.CHAT))
    roles = [message.role for message in stage.user.prompt(stage.episode)]
    assert roles[:2] == ["system", "user"] and len(roles) < 50
    assert all(a != b for a, b in pairwise(roles))


def test_a_silent_agent_is_no_empty_message():
    stage = Stage()
    stage.open()
    stage.episode.reply = ""
    stage.answer("thank")
    assert all(message.content for message in stage.user.prompt(stage.episode))


def told_of(task):
    """The role of a task's customer, as a model reads it."""
    return role.describe(Episode(task, 1, 2, DESK.layout.row()))


@pytest.mark.parametrize("number", range(0, 3000, 29))
def test_the_role_tells_nothing_that_the_customer_does_not_know(number):
    shop, task, d = world(), DESK.task("train", number), DESK.declaration
    text = told_of(task)
    assert shop.email(task.account) in text
    assert (shop.text(ACCOUNT, task.account, "postcode") in text) is not task.impostor
    known = set()
    for request in task.requests:
        kind = d.workflows[request.workflow].kind
        if kind:
            assert shop.text(kind, request.row, d.kind[kind].label) in text
            if request.knowledge in (KNOWS_ID, LOOKS_UP):
                known.add(shop.text(kind, request.row, kind))
            elif request.knowledge == MISTAKEN:
                known.add(shop.wrong(kind, request.row, kind))
    assert set(re.findall(r"\b[WSC]\d{5}", text)) == known
    moves = [r for r in task.requests if d.names[r.workflow] == "address"]
    assert (shop.address(task.account) in text) is bool(moves)
    assert not re.search("|".join(STAGES[:3]), text) and "{" not in text
    assert not re.search("store credit|pickup|waitlist|new label|paid repair|invoice", text)


def test_what_the_role_states_is_read_as_it_is_meant():
    shop, d, seen = world(), DESK.declaration, set()
    for number in range(0, 900, 7):
        task = draw_task("train", number)
        request = task.requests[0]
        asked = d.workflows[request.workflow]
        values = {
            "inform_email": f"My e-mail is {shop.email(task.account)}.",
            "inform_postcode": f"My postcode is {shop.text(ACCOUNT, task.account, 'postcode')}.",
        }
        if asked.kind:
            name, label = asked.kind, d.kind[asked.kind].label
            values |= {
                f"inform_{name}": f"The number is {shop.text(name, request.row, name)}.",
                f"inform_{name}_wrong": f"The number is {shop.wrong(name, request.row, name)}.",
                f"inform_{label}": f"It is the {shop.text(name, request.row, label)}.",
            }
        if asked.name == "address":
            values["inform_address"] = f"The new address is {shop.address(task.account)}."
        seen.update(values)
        episode = Episode(task, 1, 2, DESK.layout.row())
        for name, text in values.items():
            found = [USER_ACTS[act] for act in role.read(episode, text)[0]]
            assert [act for act in found if act.startswith("inform")] == [name]
    assert {"inform_order_wrong", "inform_plan", "inform_address"} <= seen


def test_persona_and_style_stand_in_the_prompt():
    env = make(customer, persona={"base": "frustrated_novice", "traits": ["just moved house"]},
               style="terse")
    env.reset(seed=1)
    system = env.unwrapped._played.prompt(env.unwrapped._episode)[0].content
    for words in ("just moved house", "lose patience quickly", "as few words as you can"):
        assert words in system
    assert in_words((50,) * len(TRAITS), (), style_of("plain")) == "You are like most people."
    expert = named_persona("patient_expert")
    assert "You are patient." in in_words(expert.levels, expert.traits, style_of("formal"))
    assert max(expert.levels) <= HUNDRED


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("Hello there.", "Hello there."),
        ("Customer: Hello.\nAgent: Hi, all done!", "Hello."),
        ("<think>I am a customer</think>Yes, please.", "Yes, please."),
        ("<think>never closed", ""),
        ("thought</think> Hi", "Hi"),
        ('"Where is it?"', "Where is it?"),
        ("two\n\nlines", "two lines"),
        ("  \x00 ", ""),
        ("a" * 5000, "a" * MESSAGE_LENGTH),
    ],
)
def test_one_message_in_one_line(raw, message):
    assert message_of(raw) == message


# -- the keyword -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "user",
    [7, ["a"], {}, {"kind": "oracle"}, {"kind": "endpoint"}, {"kind": "local", "path": "x"},
     {"kind": "endpoint", "url": "ftp://x", "model": "m"}],
)  # fmt: skip
def test_what_is_no_user_is_refused(user):
    with pytest.raises(InvalidConfiguration):
        gym.make(ID, user=user)


def test_a_model_cannot_answer_act_numbers():
    with pytest.raises(InvalidConfiguration, match='take action="text"'):
        make(customer, action="act")


def test_an_endpoint_is_made_from_a_mapping_that_travels_as_json():
    model = chat_model({"kind": "endpoint", "url": "http://127.0.0.1:9/v1", "model": "m"})
    assert model.model == "m"
    given = {"kind": "endpoint", "url": "http://127.0.0.1:9/v1", "model": "m", "timeout": 0.5}
    env = gym.make(ID, user=given, disable_env_checker=True)
    assert gym.make(env.spec.to_json() and env.spec).reset(seed=1)[0] == "Hello."
