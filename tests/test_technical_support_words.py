"""The words of technical support: the customer's wordings and turns, the agent's replies."""

import json
import re
from itertools import chain
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_words import spoken_by_agents, task_of, view_of
from wordings import plain, wordings

from convgym.domains.catalogue import domain_called
from convgym.domains.technical_support import view, wording
from convgym.domains.technical_support.calls import TOOLS
from convgym.domains.technical_support.dialogue import ACTIONS, HEARD_AS, USER_ACTS
from convgym.domains.technical_support.user_understanding import user_tagger
from convgym.domains.technical_support.vocabulary import KINDS
from convgym.domains.technical_support.wording import PACKAGE
from convgym.engine import acts
from convgym.envs.technical_support import TechnicalSupportEnv
from convgym.evaluation.rollout import play
from convgym.language.phrases import REGISTERS, packaged, read_tables
from convgym.language.style import Style
from convgym.language.tool_calls import check_arguments, parse_reply
from convgym.language.voice import RETRIEVAL, TEMPLATE, Spoken
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.technical_support import PlannerPolicy

PARTS = ("train", "held_out")
PHRASES = read_tables(packaged(PACKAGE, "user_phrases.toml"))
TURNS = read_tables(packaged(PACKAGE, "user_turns.toml"))
AGENT = read_tables(packaged(PACKAGE, "agent_phrases.toml"))
ACTS = tuple(dict.fromkeys(HEARD_AS))
BANKS = wording.agent_banks()
LEAST = {"train": 6, "held_out": 3}

every_part = pytest.mark.parametrize("part", PARTS)


def slots_of(text):
    return re.findall(r"\{(\w*)\}", text)


def slot(name):
    """The placeholder of an act's value."""
    return view.slot_and_value(task_of("router"), USER_ACTS.index(name))[0]


# -- the customer's wordings -----------------------------------------------------------------------


@every_part
def test_every_act_of_the_customer_has_words_in_every_register(part):
    assert tuple(PHRASES[part]) == ACTS
    for name, by_register in PHRASES[part].items():
        assert tuple(by_register) == REGISTERS
        assert all(len(set(texts)) >= LEAST[part] for texts in by_register.values()), name


@every_part
def test_placeholders_are_those_of_the_acts(part):
    for name, text in wordings(PHRASES[part]):
        if name.startswith("see_"):  # what was asked about need not be named in the answer
            assert slots_of(text) in ([], ["thing"]), text
        else:
            assert slots_of(text) == [slot(name)] * bool(slot(name)), text
        assert text == text.strip() and "  " not in text
    for _, text in wordings(TURNS[part]):
        assert not slots_of(text)


def test_names_that_differ_between_devices_are_left_open():
    for name in ("data_cable", "signal", "card", "battery", "source", "picture", "wifi_light"):
        for acts_of, by_register in PHRASES["train"].items():
            if acts_of.startswith(f"see_{name}_"):
                texts = chain.from_iterable(by_register.values())
                assert sum("{thing}" in text for text in texts) >= 3, acts_of


@every_part
def test_no_wording_has_a_number_of_its_own(part):
    for _, text in chain(wordings(PHRASES[part]), wordings(TURNS[part])):
        stated = user_tagger().values(re.sub(r"\{\w+\}", " ", text))
        assert {slot for slot, _ in stated} <= {"device"}, text


def test_held_out_words_are_others():
    train, held_out = (
        {plain(text) for _, text in chain(wordings(PHRASES[part]), wordings(TURNS[part]))}
        for part in PARTS
    )
    assert not train & held_out
    assert tuple(TURNS["train"]) == tuple(TURNS["held_out"])


def test_only_what_is_seen_of_things_asked_about_is_said_in_the_same_words():
    """"It is red" is said of any light; nothing else has two meanings."""
    seen = {}
    for name, text in chain.from_iterable(wordings(PHRASES[part]) for part in PARTS):
        seen.setdefault(plain(text), set()).add(name)
    for text, names in seen.items():
        looks = {name.rsplit("_", 1)[0] for name in names}
        shown = all(name.startswith(("see_", "request_frozen")) for name in names)
        described = names == {"inform_kind", "inform_room"}
        assert len(names) == 1 or (shown and len(looks) > 1) or described, (text, names)


@every_part
def test_whole_turns_do_what_they_are_filed_under(part):
    for signature, by_register in TURNS[part].items():
        names = signature.split("+")
        assert set(names) <= set(ACTS) and len(set(names)) == len(names) > 1
        counts = [len(set(by_register[register])) for register in REGISTERS]
        assert min(counts) >= (3 if part == "train" else 2), signature
    openings = {f"greet+{name}" for name in ACTS if name.startswith("request_")}
    assert openings <= set(TURNS[part])
    assert len(TURNS[part]) >= len(openings) + 10


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(USER_ACTS), min_size=1, max_size=4),
    st.integers(0, 2000),
    st.sampled_from((TEMPLATE, RETRIEVAL)),
    st.sampled_from(PARTS),
    st.sampled_from(KINDS),
    st.integers(0, 100),
)
def test_every_value_stands_in_the_words(names, number, source, part, kind, formality):
    task = task_of(kind)
    unlike = {HEARD_AS[USER_ACTS.index(name)]: USER_ACTS.index(name) for name in names}
    spoken = [
        Spoken(name, *view.slot_and_value(task, act)) for name, act in unlike.items()
    ]
    slots = [said.slot for said in spoken if said.slot]
    voice = wording.user_voices()[part]
    text = voice.say(spoken, Style(formality, number % 101), number, number % 7, source)
    assert not re.search(r"[{}]", text)
    for said in spoken:
        if said.slot and said.slot != "thing" and slots.count(said.slot) == 1:
            assert said.value in text


def test_a_sentence_does_not_begin_with_a_small_thing():
    """In neutral and formal words; "the HDMI cable" comes without a capital letter."""
    for part in PARTS:
        for name, by_register in PHRASES[part].items():
            for register in ("neutral", "formal"):
                for text in by_register[register]:
                    assert not text.startswith("{thing}"), (name, text)


# -- the agent's replies ---------------------------------------------------------------------------


@every_part
def test_every_act_of_the_agent_has_enough_wordings(part):
    met = {}
    for act, label, text in spoken_by_agents(part):
        met.setdefault((act, label), set()).add(text)
    speech = {a.name for a in ACTIONS.actions if a.kind < acts.FIRST_TOOL}
    assert {act for act, _ in met} == speech
    assert all(len(texts) >= LEAST[part] for texts in met.values())
    for name in TOOLS:
        assert len(set(AGENT[part][f"think_{name}"])) >= LEAST[part], name


def test_no_wording_of_the_agent_is_in_both_parts():
    train, held_out = (
        {plain(text) for texts in AGENT[part].values() for text in texts} for part in PARTS
    )
    assert not train & held_out
    assert {k for k in AGENT["held_out"] if k not in AGENT["train"]} == set()


@every_part
def test_all_names_are_filled_in(part):
    for _, _, text in spoken_by_agents(part):
        assert not re.search(r"[{}]", text) and "  " not in text, text


def test_a_thing_is_called_as_on_the_device_in_hand():
    number = ACTIONS["check_data_cable"]
    texts = {
        kind: wording.agent_text(number, view_of(KINDS.index(kind)), BANKS["train"], 7)
        for kind in ("router", "tv_box")
    }
    assert "the network cable" in texts["router"] and "the HDMI cable" in texts["tv_box"]


@every_part
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_tools_are_called_with_what_the_view_holds(kind, part):
    for number, action in enumerate(ACTIONS.actions):
        if action.kind < acts.FIRST_TOOL:
            continue
        reply = parse_reply(wording.agent_text(number, view_of(kind), BANKS[part], number * 977))
        assert not reply.speech and not reply.errors
        (call,) = reply.calls
        assert not check_arguments(TOOLS[call.name]["parameters"], call.arguments)
        assert all(call.arguments.values())
        if action.name == "get_stated_device":
            assert call.arguments == {"device": "D12345"}
        elif action.name in TOOLS:
            assert call.name == action.name
        else:
            assert call.name == "get_device"
            assert call.arguments == {"device": f"device:{action.pointer + 1}"}


def test_an_empty_view_is_no_trouble():
    empty = view_of(0, heard={}, device={}, question="how", done="")
    for number in range(len(ACTIONS.actions)):
        text = wording.agent_text(number, empty, BANKS["train"], 2**31)
        assert text and ("{" not in text.partition("<tool_call>")[0])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, len(ACTIONS.actions) - 1), st.integers(0, 2**32 - 1))
def test_the_same_draw_gives_the_same_words(number, drawn):
    seen = view_of(number % len(KINDS))
    first, again = (wording.agent_text(number, seen, BANKS["train"], drawn) for _ in range(2))
    assert first == again


def test_what_a_planner_says_is_no_telegram():
    env = TechnicalSupportEnv(observation="dict", action="text", split="test")
    policy = RenderedPolicy(PlannerPolicy(), domain="technical-support")
    said = [a for seed in range(30) for a in play(env, policy, seed=seed).actions]
    assert len(said) > 200
    assert median(len(text.split()) for text in said) >= 15


def test_the_desk_hands_out_these_words():
    desk = domain_called("technical-support")
    assert set(desk.agent_banks()) == set(desk.user_voices()) == set(PARTS)
    said = json.loads(desk.acts_json(_Episode, _Turn))
    assert said == [{"act": "see_power_light_red"}]
    assert [s.slot for s in desk.spoken(_Episode, _Turn)] == ["thing"]


class _Episode:
    task = task_of("router")


class _Turn:
    acts = (USER_ACTS.index("see_power_light_red"),)
