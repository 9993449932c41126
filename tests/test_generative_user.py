"""A customer played by a language model; the models here are functions."""

import re
from itertools import pairwise

import gymnasium as gym
import pytest

from convgym.domains.customer_service import role
from convgym.domains.customer_service.desk import CustomerServiceDesk, knowledge
from convgym.domains.customer_service.tasks import IMPOSTOR, KNOWS_ID, LOOKS_UP, draw_task
from convgym.domains.customer_service.vocabulary import USER_ACTS, U
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
from convgym.users.agenda import UserState
from convgym.users.generative import (
    MESSAGE_LENGTH,
    RULES,
    ModelUser,
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


def customer(messages):
    """Reads its role and answers by keywords, as a small model might."""
    part = messages[0].content.partition(RULES)[0]
    heard, said = messages[-1].content.lower(), [m.content for m in messages[2::2]]

    def known(pattern):
        found = re.search(pattern, part)
        return found[1] if found else ""

    email, postcode = known(r"account is (\S+)\. "), known(r"[Yy]ou(?:r postcode is| say) (\d+)")
    wishes = {
        "cancelled": "I would like to cancel my order.",
        "send back": "I would like to return an item.",
        "another address": "I need to change the delivery address of my order.",
        "where the order is": "Where is my order?",
    }
    wish = next(words for key, words in wishes.items() if key in part)
    item = f"I ordered the {known(r'(?:the|back to you: the) ([a-z ]+), ordered')}"
    order = known(r"(?:number is|next message:) (W\d+)")
    if len(messages) == 2:
        return f"Hello. {wish}"
    dated = re.search(r"\d (january|february|march|april)", heard) and wish.startswith("Where")
    if dated or re.search(rf"goodbye|have a (nice|great|lovely)|(has been|have|was) {DONE}", heard):
        return "Thank you, goodbye."
    if re.search(r"e-?mail", heard):
        return f"My e-mail address is {email}."
    if re.search(r"postcode|postal|zip", heard):
        return f"My postcode is {postcode}."
    if re.search(r"\byes\b|confirm|shall i|should i|go ahead", heard):
        return "Yes, please."
    if re.search(r"(which|what|new|full) (delivery )?address|address should|where should", heard):
        return f"Please send it to {known('another address: ([^.]+)')}."
    if re.search(r"instead|pickup|credit as|goodwill|alternative|once it has|after it", heard):
        return "All right, I accept that offer. Goodbye."
    if re.search(r"sorry|unfortunately|cannot|afraid|regret|not possible|could not", heard):
        if "Is there no other way?" in said:
            return "That is a pity, but I accept that. Goodbye."
        return "Is there no other way?"
    if re.search(r"reason|why|wrong with|what made", heard) and "send back" in part:
        return BECAUSE[known("because ([^.]+)")]
    if re.search(r"number|which|item", heard):
        if order and not any(words.startswith("My order") for words in said):
            return f"My order number is {order}."
        return f"{item} on {known(r'ordered on ([^.]+)')}."
    if re.search(r"how can i|what can i|help you|would you like me", heard):
        return wish
    return "OK."


DONE = "(now |successfully |just )*(cancelled|created|set up|changed|updated|registered)"
BECAUSE = {
    "it is damaged": "It arrived damaged.",
    "it is the wrong item": "You sent me the wrong item.",
    "you have changed your mind": "I changed my mind.",
    "it came too late": "It came too late.",
}


def rambler(messages):
    return "Well, yes, you know, the weather. " * 100 + "\nAgent: I have cancelled it. \x00\ud800"


def failing(messages):
    raise ConnectionError("secret")


# -- whole episodes --------------------------------------------------------------------------------


def test_a_model_that_keeps_to_its_role_gets_what_it_came_for():
    env = make(customer)
    ends = [played(env, seed).final_info for seed in range(40)]
    assert sum(info["success"] for info in ends) >= 32, [i["failure_reason"] for i in ends]


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


def test_a_yes_to_another_write_is_no_yes():
    """However willing the model, it agrees to its own request on its own order alone."""
    env = make(lambda messages: "Yes, please go ahead.", render_mode="ansi")
    task = next(t for t in (draw_task("train", n) for n in range(99)) if t.workflow == 0)
    env.reset(seed=1, options={"task_id": task.task_id})
    shop = world()
    for text in (
        f'<tool_call>{{"name": "find_customer", "arguments": {{"email": '
        f'"{shop.email(task.customer)}"}}}}</tool_call>',
        '<tool_call>{"name": "list_orders", "arguments": {}}</tool_call>',
        f"Shall I cancel order {shop.order_id(task.order)}? Please answer yes or no.",
    ):
        _, _, _, _, info = env.step(text)
    assert "affirm" not in info["user_acts"]
    assert "confirmed" not in env.render() and "user_act_ignored: affirm" in env.render()


def test_somebody_elses_values_do_not_become_right_ones():
    env = make(lambda m: "My e-mail is alice.adams0@example.com, postcode 12345, order W10001.")
    task = next(t for t in (draw_task("train", n) for n in range(99)) if t.branch != IMPOSTOR)
    env.reset(seed=1, options={"task_id": task.task_id})
    episode = env.unwrapped._episode
    assert 1 not in episode.desk.heard and 2 in episode.desk.heard


# -- what counts -----------------------------------------------------------------------------------


class Stage:
    """One episode without an environment; the model's text is the names of its acts."""

    def __init__(self, alternative=False, facts=()):
        task = draw_task("train", 1)
        self.words = ""
        self.episode = Episode(task, 5, 6, bytearray(9))
        wants = knowledge(task)
        fields = {name: getattr(wants, name) for name in wants.__slots__}
        fields |= {"alternative": alternative, "facts": facts}
        self.episode.user = UserState((50,) * len(TRAITS), type(wants)(**fields))
        model = CallableModel(lambda _: self.words, takes="messages")
        self.user = ModelUser(model, lambda episode: "You are a customer.", self.read, U)

    @staticmethod
    def read(episode, text):
        return [U[name] for name in text.split() if name in U], ""

    def open(self, words="greet"):
        self.words = words
        return self.user.open(self.episode)

    def answer(self, words, *heard):
        self.words = words
        turn = self.user.answer(self.episode, heard)
        return [USER_ACTS[act] for act in turn.acts], turn.closed

    @property
    def state(self):
        return self.episode.user


FINE, WRONG, OTHER = acts.FINE, acts.WRONG, acts.OTHER_OBJECT
ASKED = Heard(acts.CONFIRM, verdict=FINE)
TOLD = Heard(acts.TELL, 2)


@pytest.mark.parametrize(
    ("heard", "counts"),
    [
        ([[ASKED]], True),
        ([[Heard(acts.CONFIRM, verdict=OTHER)]], False),
        ([[Heard(acts.CONFIRM, verdict=acts.FEE_UNKNOWN)]], False),
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


DENIED, DENIED_WRONGLY = Heard(acts.DENY, verdict=FINE), Heard(acts.DENY, verdict=WRONG)
OFFERED, OFFERED_WRONGLY = Heard(acts.OFFER, verdict=FINE), Heard(acts.OFFER, verdict=WRONG)


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


@pytest.mark.parametrize("number", range(0, 3000, 29))
def test_the_role_tells_nothing_that_the_customer_does_not_know(number):
    shop, task = world(), draw_task("train", number)
    text = role.description(shop, task)
    assert shop.email(task.customer) in text and shop.item_name(task.order) in text
    orders = {shop.order_id(3 * task.customer + k) for k in range(3)}
    known = {shop.order_id(task.order)} if task.knowledge in (KNOWS_ID, LOOKS_UP) else set()
    assert orders & set(re.findall(r"W\d+", text)) == known
    assert (shop.postcode_text(task.customer) in text) is (task.branch != IMPOSTOR)
    assert (shop.address(task.customer) in text) is (task.workflow == 3)
    assert not re.search("|".join(STAGES[:3]), text) and "{" not in text
    assert "store credit" not in text and "pickup" not in text


def test_what_the_role_states_is_read_as_it_is_meant():
    desk, shop = CustomerServiceDesk(), world()
    for number in range(0, 600, 7):
        task = draw_task("train", number)
        values = {
            "inform_email": f"My e-mail is {shop.email(task.customer)}.",
            "inform_postcode": f"My postcode is {shop.postcode_text(task.customer)}.",
            "inform_order": f"The order number is {shop.order_id(task.order)}.",
            "inform_order_wrong": f"The order number is {shop.wrong_order_id(task.order)}.",
            "inform_item": f"I ordered the {shop.item_name(task.order)}.",
            "inform_address": f"The new address is {shop.address(task.customer)}.",
        }
        episode = Episode(task, 1, 2, desk.layout.row())
        for name, text in values.items():
            found = [USER_ACTS[act] for act in role.read(episode, text)[0]]
            assert [act for act in found if act.startswith("inform")] == [name]


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
