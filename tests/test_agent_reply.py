"""What a message says, asks and denies, and how well a question fits a response."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.envs.matching import ENOUGH, Matcher, Topic, asked_by, told_by
from convgym.envs.reply import Reply, stem, stems_of, tables, word_set

SAYS = [
    "I have refunded you $1,500.50 today.",
    "Your refund, don't worry, is on its way.",
    "Your refund is on its way, let me know if you need anything else.",
    "No problem, your refund has been issued.",
    "The refund takes 5 days, not 3.",
    "I cannot cancel it and you will get a refund.",
    "I can't cancel it, but a refund is on its way.",
    "I checked whether it shipped, and the refund is on its way.",
    "You will get not only a replacement but a refund.",
    "REFUNDS are paid within a week.",
    "<think>no refund</think> The refund is done.",
    "That's why I refunded it.",
]
DENIES = [
    "A refund is not possible.",
    "I can't refund that.",
    "You are not eligible for a refund.",
    "Instead of a refund you get credit.",
    "We never pay refunds.",
    "The refund was declined.",
    "There is no refund.",
    "I am unable to issue a refund.",
    "A refund is out of the question.",
]
NEITHER = [
    "Would you like a refund?",
    "If you send it back, we refund it.",
    "We refund it if you send it back.",
    "I don't know whether a refund was issued.",
    "Your order is on its way.",
    "<think>refund</think> Hello.",
    '{"name": "refund", "arguments": {}}',
    "Customer: I want a refund\nHello.",
    "",
]


@pytest.mark.parametrize("text", SAYS)
def test_what_is_asserted_is_said(text):
    assert Reply(text).says("refund") and not Reply(text).denies("refund")


@pytest.mark.parametrize("text", DENIES)
def test_what_is_denied_is_not_said(text):
    assert Reply(text).denies("refund") and not Reply(text).says("refund")


@pytest.mark.parametrize("text", NEITHER)
def test_what_is_asked_conditional_or_absent_is_neither(text):
    assert not Reply(text).says("refund") and not Reply(text).denies("refund")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Could I have your order number?", True),
        ("Please tell me your order number.", True),
        ("I need your order number.", True),
        ("Your order number is K4471.", False),
        ("There is no need to tell me your order number.", False),
        ("Let me know if you have questions about the order number.", False),
        ("You don't have to give me the order number.", False),
    ],
)
def test_questions_and_requests_ask(text, asked):
    assert Reply(text).asks("order number") is asked


def test_phrases_are_found_whatever_their_spelling():
    reply = Reply("It costs $1,500.50, takes five business days, and comes by e-mail at 16:30.")
    for phrase in ("1500.50", "$1,500.50", "5 business days", "five business day", "email"):
        assert reply.says(phrase), phrase
    assert reply.says("16:30")
    assert not reply.says("15", "business week", "16:3")
    assert Reply("You are not eligible for this.").says("not eligible")


@pytest.mark.parametrize(
    "same",
    [
        "refund refunds refunded refunding", "ship ships shipped shipping", "day days",
        "cancel cancelled canceled cancelling", "charge charges charged charging", "use used",
        "note noted notes", "try tried tries", "box boxes", "case cases", "address addresses",
        "5 five", "fix fixed", "ask asked asking", "update updated updating",
    ],
)  # fmt: skip
def test_endings_are_put_aside(same):
    assert len({stem(word) for word in same.split()}) == 1


def test_different_words_stay_different():
    words = "not note king string bring need speed status bus thing address add day date data"
    assert len({stem(word) for word in words.split()}) == len(words.split())


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("", "silent"), ("...", "silent"), ("<think>hm</think>", "silent"),
        ("router order table name light price data plan code day refund number", "salad"),
        ("How can I help you today?", "invites"), ("Is there anything else?", "invites"),
        ("Have a nice day, goodbye!", "parts"), ("Hello there, welcome!", "empty"),
        ("One moment please, let me check.", "empty"), ("Would you like a table?", "offers"),
        ("We are here. " * 80, "long"),
    ],
)  # fmt: skip
def test_sorts_of_messages(text, sort):
    assert getattr(Reply(text), sort)
    plain = Reply("Your parcel was sent on Tuesday and should arrive tomorrow.")
    assert not getattr(plain, sort)


def test_a_question_word_alone_is_no_pastime():
    assert not Reply("When?").empty and not Reply("How many are you?").empty
    assert Reply("How are you?").empty and Reply("How can I help?").empty


def test_repetition_is_seen_through_small_changes():
    first = Reply("The technician comes on Tuesday and repairs the line.")
    again = Reply("Well, as I said, the technician comes on Tuesday and repairs the line!")
    other = Reply("The technician comes on Friday and brings a router.")
    assert again.repeats([first.content]) and not other.repeats([first.content])
    assert not first.repeats([]) and not Reply("").repeats([frozenset()])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=300), st.text(max_size=20))
def test_no_text_makes_a_reply_raise(text, phrase):
    reply = Reply(text)
    assert not (reply.silent and (reply.content or reply.says(phrase) or reply.asks(phrase)))
    assert reply.mentions(phrase) or not (reply.says(phrase) or reply.denies(phrase))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(word_set("generic"))), min_size=1, max_size=5))
def test_a_phrase_is_found_in_a_sentence_that_holds_it(words):
    phrase = " ".join(words)
    assert stems_of(phrase)
    assert Reply(f"Here you see {phrase} at once.").mentions(phrase)


# -- matching --------------------------------------------------------------------------------------

TEXTS = (
    "My bike was stolen.",
    "It happened on Tuesday night.",
    "In Park Lane, right in front of my house.",
    "It's a green Falter, worth 900 euros.",
    "Yes, I had locked it.",
    "My name is Ines Berg.",
)


@pytest.mark.parametrize(
    ("question", "response"),
    [
        ("When did that happen?", 1),
        ("On which day was it?", 1),
        ("Where was the bike?", 2),
        ("Could you tell me the street?", 2),
        ("What colour is it?", 3),
        ("How much was it worth?", 3),
        ("Had you locked the bike?", 4),
        ("What is your name?", 5),
    ],
)
def test_a_question_finds_its_answer(question, response):
    assert Matcher(TEXTS).best(Reply(question), [1, 2, 3, 4, 5])[0] == response


@pytest.mark.parametrize(
    "message", ["Do you like cheese?", "It happened on Tuesday night.", "Hello.", "Is it insured?"]
)
def test_what_asks_for_nothing_finds_nothing(message):
    assert Matcher(TEXTS).best(Reply(message), [1, 2, 3, 4, 5]) == []


def test_the_listed_order_breaks_ties():
    matcher = Matcher(("Hello.", "It was on Monday.", "It was on Friday.", "Yes.", "Yes!"))
    assert matcher.best(Reply("When was it?"), [1, 2, 3, 4])[0] == 1
    assert matcher.best(Reply("When was it?"), [2, 3, 4])[0] == 2
    assert matcher.best(Reply("Is that so?"), [3, 4]) == [3], "a bare yes waits for its turn"
    assert matcher.best(Reply("Is that so?"), [2, 3]) == []


def test_points_by_hand():
    """A lane is a street, in one response alone: 4; a place, told there alone: 3 + 1."""
    matcher = Matcher(TEXTS)
    (heard,) = Reply("On which street was it?").sentences
    open_to = [1, 2, 3, 4, 5]
    points = [matcher.points(heard, one, open_to) for one in open_to]
    assert points == [0, 8, 0, 0, 0] and max(points) >= ENOUGH


def test_sorts_of_questions_and_answers():
    assert told_by("on 3 May at 16:30") >= {"time"} and told_by("two of us") >= {"count"}
    assert told_by("ada@example.com") >= {"mail"} and told_by("K4471") >= {"code"}
    assert asked_by("When was it?") == {"time"} and asked_by("Is it blue?") == {"yesno"}
    assert asked_by("It was blue.") == frozenset()


def test_families_join_words():
    topic = Topic.of("My parcel is late.")
    assert topic.touched([stem("shipment")]) == {"parcel"}
    assert topic.touched([stem("delayed")]) == {"late"}
    assert topic.touched([stem("refund")]) == frozenset()


def test_the_tables_are_clean():
    for name in ("function", "polite", "generic"):
        words = tables()[name].split()
        assert len(words) == len(set(words)), f"{name} has a word twice"
        assert all(word == word.lower() and word.isalpha() for word in words)
    assert not word_set("function") & word_set("polite")
