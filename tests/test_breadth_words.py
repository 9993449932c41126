"""The customer's words for all ten workflows: wordings, reading them back, and the role."""

import re
from itertools import chain, product

import numpy as np
import pytest
from customer_words import KINDS, PACKAGE, SLOTS, messages, request_for, value, voice, want, who
from hypothesis import given, settings
from hypothesis import strategies as st
from wordings import plain, wordings

from convgym.domains.customer_service.customer import DATES, DETAILS, LABELS
from convgym.domains.customer_service.desk import vocabulary
from convgym.domains.customer_service.role import description
from convgym.domains.customer_service.user_understanding import (
    NOTHING,
    understand,
    user_examples,
    user_tagger,
)
from convgym.language.phrases import REGISTERS, packaged, read_tables
from convgym.language.style import Style
from convgym.language.voice import RETRIEVAL, TEMPLATE

PARTS = ("train", "held_out")
PHRASES = read_tables(packaged(PACKAGE, "user_phrases.toml"))
TURNS = read_tables(packaged(PACKAGE, "user_turns.toml"))
ACTS = tuple(dict.fromkeys(vocabulary().heard_as))
WORKFLOWS = tuple(vocabulary().declaration.names)
NEW_WORKFLOWS = ("exchange", "refund", "subscription", "access", "warranty", "billing")
NEW = frozenset(
    act
    for act in ACTS
    if act.startswith(("inform_defect_", "inform_cause_", "correct_s", "correct_c"))
    or act in {f"request_{workflow}" for workflow in NEW_WORKFLOWS}
    or act in ("ask_postage", "ask_remedy", "ask_ends", "inform_variant")
    or act.removeprefix("inform_") in "subscription plan started charge amount charged".split()
)
KNOWLEDGES = ("number", "item", "looks up", "vague", "mistaken")

every_part = pytest.mark.parametrize("part", PARTS)
every_workflow = pytest.mark.parametrize("workflow", WORKFLOWS)


# -- the hand-written words ------------------------------------------------------------------------


def test_there_are_25_new_acts():
    assert len(NEW) == 25 and set(ACTS) >= NEW


@every_part
def test_every_act_has_words_in_every_register(part):
    assert set(PHRASES[part]) == set(ACTS)
    least = {"train": (9, 9, 7), "held_out": (5, 5, 4)}[part]
    for act, by_register in PHRASES[part].items():
        counts = [len(by_register[register]) for register in REGISTERS]
        assert all(n >= few for n, few in zip(counts, least, strict=True)), act
        if act in NEW:
            assert counts == ([10, 10, 10] if part == "train" else [6, 6, 4]), act


def test_no_wording_serves_two_acts():
    every = chain.from_iterable(wordings(tables[part]) for tables in (PHRASES, TURNS)
                                for part in PARTS)  # fmt: skip
    seen = {}
    for acts, text in every:
        assert plain(text) not in seen, (text, acts, seen.get(plain(text)))
        seen[plain(text)] = acts


@every_part
def test_placeholders_are_those_of_the_acts(part):
    for acts, text in chain(wordings(PHRASES[part]), wordings(TURNS[part])):
        slots = sorted(SLOTS[act] for act in acts.split("+") if act in SLOTS)
        assert sorted(re.findall(r"\{(\w*)\}", text)) == slots, text
        assert text == text.strip() and "  " not in text


@every_part
def test_no_wording_has_a_value_of_its_own(part):
    for _, text in chain(wordings(PHRASES[part]), wordings(TURNS[part])):
        assert not user_tagger().values(re.sub(r"\{\w+\}", " ", text)), text


@every_part
def test_whole_turns_are_filed_under_what_they_do(part):
    for signature, by_register in TURNS[part].items():
        acts = signature.split("+")
        assert set(acts) <= set(ACTS) and len(set(acts)) == len(acts) > 1
        counts = [len(by_register[register]) for register in REGISTERS]
        assert counts == ([8, 7, 5] if part == "train" else [2, 2, 2]), signature


@every_part
@every_workflow
def test_every_workflow_has_opening_turns(workflow, part):
    kind, request = KINDS.get(workflow, "order"), f"request_{workflow}"
    known = (kind, LABELS[kind]) if kind else ("email",)
    for field in known:
        assert f"{request}+inform_{field}" in TURNS[part]
        assert f"greet+{request}+inform_{field}" in TURNS[part]
    assert f"greet+{request}" in TURNS[part]


@every_part
def test_a_request_can_follow_another(part):
    opening = re.compile(
        r"^(?:hi|hey|hello|dear|good (?:day|evening))\b|\bi(?:'m| am) (?:writing|contacting)"
    )
    for act, text in wordings(PHRASES[part]):
        if act.startswith("request_"):
            assert not opening.search(text.lower()), text


SHARED = tuple(
    act for act in ACTS if not act.startswith(("request_", "inform_", "correct_"))
    and act not in {f"ask_{term}" for term in vocabulary().declaration.terms}
)  # fmt: skip


@every_part
def test_what_all_workflows_share_fits_them_all(part):
    """Who is refused an exchange does not speak of a return, who is locked out of no account."""
    of_one = re.compile(
        r"\b(?:orders?|parcels?|packages?|refund\w*|return\w*|exchange\w*|cancel\w*|subscription\w*"
        r"|charged?|deliver\w*|item|log(?:ged)? in(?:to)?|(?:my|the) account)\b"
    )
    fine = ("in order to", "the order in which", "on my account, fire", "not a single item remains",
            "tedious exchange", "this exchange ends")  # fmt: skip
    for act, text in wordings({act: PHRASES[part][act] for act in SHARED}):
        found = of_one.search(text.lower())
        assert not found or any(words in text for words in fine), (act, text)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(ACTS), min_size=1, max_size=5, unique_by=lambda a: SLOTS.get(a, a)),
    st.integers(0, 2000),
    st.sampled_from((TEMPLATE, RETRIEVAL)),
    st.sampled_from(PARTS),
    st.integers(0, 100),
)
def test_every_value_stands_in_the_words(acts, number, source, part, formality):
    spoken = request_for(acts, number).spoken
    text = voice(part).say(spoken, Style(formality, number % 101), number, number % 7, source)
    assert all(said.value in text for said in spoken) and not re.search(r"[{}]", text)


# -- read back -------------------------------------------------------------------------------------


def scores(tagger, examples, only=None):
    """(macro-F1 over the acts that are there, share of texts told exactly)."""
    found = [(frozenset(tagger.tag(text)), acts) for text, acts in examples]
    there = sorted({act for _, acts in found for act in acts} & (only or set(ACTS)))
    each = []
    for act in there:
        right = sum(act in told and act in acts for told, acts in found)
        each.append(2 * right / sum((act in told) + (act in acts) for told, acts in found))
    return np.mean(each), np.mean([told == acts for told, acts in found])


@pytest.fixture(scope="module")
def unseen():
    return user_tagger("train")


def split(part):
    examples = user_examples(part)
    return [e for e in examples if len(e[1]) == 1], [e for e in examples if len(e[1]) > 1]


def test_the_tagger_reads_the_wordings_back_that_it_was_fitted_to(unseen):
    single, several = split("train")
    assert scores(unseen, single)[0] > 0.90  # measured: 0.925
    assert scores(unseen, single, NEW)[0] > 0.92  # measured: 0.946
    assert scores(unseen, several)[0] > 0.89  # measured: 0.914


def test_held_out_wordings_of_the_new_acts(unseen):
    """Written to be far from the others: idioms where those are plain."""
    single, several = split("held_out")
    assert scores(unseen, single, NEW)[0] > 0.72  # measured: 0.761
    assert scores(unseen, several, NEW)[0] > 0.77  # measured: 0.806


@pytest.mark.parametrize(
    ("part", "least", "exact"),
    [
        ("development", 0.92, 0.78),  # measured: 0.957, 0.861; looked at while cues were written
        ("held_out", 0.89, 0.79),  # measured: 0.924, 0.833; only its number was seen
    ],
)
def test_messages_that_are_no_wordings(unseen, part, least, exact):
    """Written before the wordings and the cues; 72 of each part."""
    examples = messages(part)
    assert len(examples) == 72
    assert frozenset().union(*(acts for _, acts in examples)) >= NEW
    macro, told = scores(unseen, examples)
    assert macro > least and told > exact


# -- understood by what the customer knows ---------------------------------------------------------


def understood(text, *wants, number=3):
    acts, problem = understand(text, who(number), wants)
    return set(acts), problem


@every_workflow
@pytest.mark.parametrize("number", range(0, 60, 7))
def test_what_a_request_states_is_its_act(workflow, number):
    one = want(workflow, number)
    if not one["kind"]:
        assert understood(value("email", number), one, number=number) == ({"inform_email"}, "")
        return
    kind = one["kind"]
    stated = {
        f"inform_{kind}": one["id"],
        f"inform_{kind}_wrong": f"{one['id'][0]}99998",
        f"inform_{LABELS[kind]}": one["label"],
        f"inform_{DATES[kind]}": one["date"],
    }
    if DETAILS.get(workflow) in ("address", "variant"):
        stated[f"inform_{DETAILS[workflow]}"] = one["detail"]
    for (act, text), frame in product(
        stated.items(), ("{}", "Sure, it's {}.", "that'd be {} then")
    ):
        acts, problem = understood(frame.format(text), one, number=number)
        assert act in acts and not problem, (text, acts, problem)
        assert not {a for a in acts if a.startswith("inform_")} - {act}


@pytest.mark.parametrize(
    ("text", "workflow", "act"),
    [
        ("the subscription number is 10201", "subscription", "inform_subscription"),
        ("S 10201", "subscription", "inform_subscription"),
        ("s#10201", "subscription", "inform_subscription"),
        ("my plan is 10201", "subscription", "inform_subscription"),
        ("number 10213", "billing", "inform_charge"),
        ("payment 10213", "billing", "inform_charge"),
        ("it's 10213", "billing", "inform_charge"),
        ("it was 159.13 dollars", "billing", "inform_amount"),
        ("159,13", "billing", "inform_amount"),
        ("since the 4th of April", "subscription", "inform_started"),
        ("April 4th", "billing", "inform_charged"),
        ("an XL? no, size large please", "exchange", "inform_variant"),
    ],
)
def test_values_in_other_spellings(text, workflow, act):
    numbers = {"subscription": "S10201", "billing": "C10213"}
    one = want(workflow, 3, label="$159.13" if workflow == "billing" else value("plan", 3))
    one |= {"id": numbers.get(workflow, one["id"]), "date": "4 April"}
    one["detail"] = "size L" if workflow == "exchange" else one["detail"]
    acts, problem = understood(text, one)
    assert act in acts and not problem


@pytest.mark.parametrize(
    ("text", "workflow", "problem"),
    [
        ("It's about the tea box.", "subscription", "the plan of another subscription"),
        ("I was charged $1.99.", "billing", "an amount that is not this charge's"),
        ("in red please", "exchange", "a variant that is not this customer's"),
        ("It got soaked in the rain, water everywhere.", "warranty", "a defect"),
        ("You charged me too much, the amount is too high.", "billing", "a cause"),
        ("The number is W12345.", "billing", "an order that is not this customer's concern"),
        ("It started on 9 May.", "subscription", "a date that is not this subscription's"),
    ],
)
def test_what_the_customer_does_not_have_is_a_problem(text, workflow, problem):
    acts, found = understood(text, want(workflow, 3, date="4 April"))
    assert problem in found
    assert not any(act.startswith("inform_") and not act.endswith("_wrong") for act in acts)


@pytest.mark.parametrize("detail", ["dead", "loose", "cracked", "wet", "twice", "unknown"])
def test_a_detail_is_the_customers_own(detail):
    said = {
        "dead": "It won't turn on any more.",
        "loose": "A part has come loose and rattles.",
        "cracked": "I dropped it and there is a crack in it now.",
        "wet": "Some water got into it.",
        "twice": "I was charged twice for it.",
        "unknown": "I don't recognise that charge at all.",
    }
    workflow = "billing" if detail in ("twice", "unknown") else "warranty"
    name = DETAILS[workflow]
    acts, _ = understood(said[detail], want(workflow, 3, detail=detail))
    assert {a for a in acts if a.startswith("inform_")} == {f"inform_{name}_{detail}"}
    acts, problem = understood(said[detail], want("return", 3, detail="too_late"))
    assert not any(a.startswith("inform_") for a in acts)
    assert "that is not this customer's" in problem


def test_words_are_taken_as_this_customer_means_them():
    subscription, exchange = want("subscription", 3), want("exchange", 3, terms=("postage",))
    assert "request_subscription" in understood("I want to cancel it, please.", subscription)[0]
    assert "request_cancel" in understood("I want to cancel it.", subscription, want("cancel"))[0]
    assert "ask_postage" in understood("Is there a fee?", exchange)[0]
    assert "ask_fee" in understood("Is there a fee?", want("return", 3, terms=("fee",)))[0]
    assert (
        "correct_subscription" in understood("That's the wrong one, not that one.", subscription)[0]
    )
    assert "correct_order" in understood("That's the wrong order.", want("status", 3))[0]


def test_a_value_of_any_request_is_right():
    wants = want("return", 3), want("subscription", 4)
    text = f"The order is {wants[0]['id']}. I also want to end subscription {wants[1]['id']}."
    acts, problem = understood(text, *wants)
    assert {"inform_order", "inform_subscription", "request_subscription"} <= acts and not problem


def test_nothing_is_made_of_nothing():
    assert understand("", who(), ()) == ((), "")
    assert understand("Jupiter has dozens of moons.", who(), (want("status"),)) == ((), NOTHING)
    for text in ("\0", "🙂" * 400, "12345 " * 400, "W1 S2 C3 $ €", "a" * 50_000):
        assert isinstance(understand(text, who(), (want("billing"), want("exchange")))[1], str)


# -- the role --------------------------------------------------------------------------------------


@every_workflow
@pytest.mark.parametrize("knowledge", KNOWLEDGES)
@pytest.mark.parametrize("impostor", [False, True])
def test_a_role_tells_what_is_known_and_nothing_else(workflow, knowledge, impostor):
    one = want(workflow, 5, knowledge=knowledge)
    if knowledge == "vague" and one["kind"] != "order":
        return  # nobody remembers anything else vaguely
    text, person = description(who(5, impostor), [one]), who(5, impostor)
    assert person["name"] in text and person["email"] in text
    assert (person["postcode"] in text) is not impostor
    assert (person["wrong_postcode"] in text) is impostor
    if one["kind"]:
        assert one["label"] in text and one["date"] in text
        assert (one["id"] in text) is (knowledge in ("number", "looks up"))
        assert (one["wrong_id"] in text) is (knowledge == "mistaken")
        assert (one["vague"] in text and one["vague"] != "") is (knowledge == "vague")
    else:
        assert "number" not in text
    assert not re.search(r"[{}_]|store credit|pickup|waiting list|warranty lasts", text)
    assert " ." not in text and "  " not in text


def test_a_role_reads_as_it_should():
    one = want("exchange", 5, knowledge="looks up", detail="size M", terms=("postage",))
    one |= {"id": "W10305", "label": "winter coat", "date": "6 June"}
    assert description(who(5), [one]) == (
        "You are Dana Lee, a customer of an online shop, and chat with its support desk.\n\n"
        "What you want\nYou want something that you ordered exchanged for the same in size M. "
        "Before you agree to it, you want to know who pays the postage.\n\n"
        "What you know\nThe e-mail address of the account is dana.lee5@example.com. Your postcode "
        "is 20185. You do not have the order number at hand. When you are asked for it, say that "
        "you need a moment to look it up, and give it with your next message: W10305. It is for "
        "the winter coat, ordered on 6 June. You do not know what the shop's records and rules say."
    )


@pytest.mark.parametrize("detail", ["reason", "defect", "cause"])
def test_details_are_put_into_words(detail):
    workflow = next(name for name, named in DETAILS.items() if named == detail)
    texts = set()
    for word in vocabulary().declaration.details[detail]:
        text = description(who(), [want(workflow, detail=word)])
        assert word not in text.split() or word in ("damaged", "wet", "twice", "loose")
        assert "_" not in text
        texts.add(text)
    assert len(texts) == len(vocabulary().declaration.details[detail])


def test_every_term_has_a_question():
    for terms in [*([term] for term in vocabulary().declaration.terms), ["fee", "channel"]]:
        text = description(who(), [want("return", terms=tuple(terms))])
        assert text.count("you want to know") == 1
        assert ("whether there is a fee, and how you get" in text) is (len(terms) == 2)


def test_several_requests_are_numbered():
    wants = [want("access", 1), want("billing", 2), want("warranty", 3, knowledge="mistaken")]
    text = description(who(1), wants)
    assert "You have 3 requests." in text
    assert all(f"\n{place}. " in text for place in (1, 2, 3))
    assert "For request 2: The number of the charge is" in text
    assert "For request 3: You believe that the order number is" in text
    assert "For request 1" not in text


@every_workflow
def test_what_a_role_states_is_read_as_it_is_meant(workflow):
    for number in range(0, 40, 3):
        one = want(workflow, number)
        person = who(number)
        stated = {
            "inform_email": f"My e-mail is {person['email']}.",
            "inform_postcode": f"My postcode is {person['postcode']}.",
        }
        if one["kind"]:
            stated[f"inform_{one['kind']}"] = f"The number is {one['id']}."
            stated[f"inform_{LABELS[one['kind']]}"] = f"It is about {one['label']}."
        for act, text in stated.items():
            found = understand(text, person, [one])[0]
            assert [a for a in found if a.startswith("inform")] == [act], text
