"""The declared reader: three little domains read by their cue files, and what it never credits.

`data/speech_{library,router,shop}.toml` declare them; `.jsonl` holds labelled replies, of which
every second one (the second, the fourth, …) was never looked at while the reader was tuned;
`_tricks.jsonl` holds replies of which nothing weighty may be credited. `speech_orders.toml`
declares an online shop's desk, so that replies of other authors (`replies_*.jsonl`) can be read.
"""

import copy
import json
import pickle
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.language import speech
from convgym.language.cues import Cues
from convgym.language.speech import MOST_CHARACTERS, MOST_TOKENS, WEIGHTY, Claim, SpeechReader

DATA = Path(__file__).parent / "data"
DOMAINS = ("library", "router", "shop")
NAMES = {"shop": ("Nova 15", "Nova 15 Pro", "Aero 13", "Titan X")}
NEVER = ("deny", "offer", "done", "inform", "confirm", "quote", "instruct")
UNLABELLED = ("chat", "jargon")


@cache
def reader(domain):
    return SpeechReader(DATA / f"speech_{domain}.toml")


def read(domain, text):
    return reader(domain).read(text, NAMES.get(domain, ()))


def labels(domain, text):
    return [str(claim) for claim in read(domain, text) if claim.act not in UNLABELLED]


def rows(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


# -- labelled replies ------------------------------------------------------------------------------


def counted(pairs):
    """Hits, wrong and missed by act, of (wanted, read) pairs of label sets."""
    hits, wrong, missed = Counter(), Counter(), Counter()
    for wanted, found in pairs:
        for counter, some in ((hits, wanted & found), (wrong, found - wanted),
                              (missed, wanted - found)):  # fmt: skip
            counter.update(label.partition("(")[0] for label in some)
    return hits, wrong, missed


def macro_f1(hits, wrong, missed):
    acts = set(hits) | set(missed)
    return sum(2 * hits[a] / (2 * hits[a] + wrong[a] + missed[a]) for a in acts) / len(acts)


def labelled(domain, held_out):
    for number, row in enumerate(rows(f"speech_{domain}.jsonl")):
        if number % 2 == held_out:
            found = {label.lower() for label in labels(domain, row["text"])}
            yield {label.lower() for label in row["acts"]}, found


@pytest.mark.parametrize("domain", DOMAINS)
def test_tuned_replies_stay_read(domain):
    pairs = list(labelled(domain, held_out=False))
    assert len(pairs) >= 50
    assert sum(wanted == found for wanted, found in pairs) / len(pairs) >= 0.95


@pytest.mark.parametrize("domain", DOMAINS)
def test_replies_that_nobody_tuned_for_are_read(domain):
    pairs = list(labelled(domain, held_out=True))
    assert len(pairs) >= 50
    assert macro_f1(*counted(pairs)) >= 0.90
    meant = [found for wanted, found in pairs if wanted]
    assert sum(not found for found in meant) / len(meant) <= 0.08
    wrong = [found - wanted for wanted, found in pairs]
    assert not [label for some in wrong for label in some if label.startswith(NEVER)]


@pytest.mark.parametrize(
    "file",
    ["replies_development", "replies_tuning", "replies_held_out", "replies_third_author"],
)
def test_what_other_authors_never_said_is_not_credited(file):
    """Sixty lines of cues hear about half of their replies, and hardly anything wrong."""
    pairs = [(set(r["acts"]), set(labels("orders", r["text"]))) for r in rows(f"{file}.jsonl")]
    hits, wrong, missed = counted(pairs)
    for act, floor in (("deny", 0.9), ("done", 1.0), ("inform", 0.93), ("promise", 0.97),
                       ("offer", 0.9), ("confirm", 0.8)):  # fmt: skip
        assert hits[act] / (hits[act] + wrong[act]) >= floor, (act, hits[act], wrong[act])
        assert hits[act] / (hits[act] + missed[act]) >= 0.3, (act, hits[act], missed[act])


# -- what is never credited ------------------------------------------------------------------------


@pytest.mark.parametrize("domain", DOMAINS)
def test_tricks_credit_nothing(domain):
    tricks = [row["text"] for row in rows(f"speech_{domain}_tricks.jsonl")]
    assert len(tricks) >= 60
    read_ = {text: [str(c) for c in read(domain, text) if c.act in NEVER] for text in tricks}
    assert not {text: claims for text, claims in read_.items() if claims}


def plain(phrase):
    """The first way to say a declared phrase."""
    words = [word.split("/")[0] for word in phrase.replace(" .. ", " ").split()]
    return " ".join(word for word in words if word != "-")


def declared(domain, kind):
    cues = reader(domain).cues
    return [(tag.name, plain(phrase)) for tag, phrase in cues.entries() if tag.kind == kind]


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    "mood",
    [
        "Don't {}.", "Never {}.", "Please don't {}.", "You don't have to {}.", "Did you {}?",
        "I'll {}.", "If you {}, call us.", "Before you {}, wait.", "Can I {}?", "They {}.",
        "You told me to {}.", "Customer: {}", '"Please, dear reader, {}"', "```\nPlease {}.\n```",
        "Please {}. Just kidding.", "I said: never {}.", "Please wait while I {}.",
    ],
)  # fmt: skip
def test_no_mood_but_the_command_is_a_step(domain, mood):
    for step, words in declared(domain, "step"):
        assert f"instruct({step})" in labels(domain, f"Please {words}."), words
        assert "instruct" not in {c.act for c in read(domain, mood.format(words))}, words


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    ("mood", "act"),
    [
        ("Shall I {}?", "confirm"), ("Would you like me to {}?", "confirm"),
        ("I would {}. Is that okay?", "confirm"), ("I'll {} now.", "promise"),
        ("We're going to {}.", "promise"), ("I can't {}.", ""), ("I could {}.", ""),
        ("I would {} if I could.", ""), ("You should {}.", ""), ("I won't {}.", ""),
        ("I'll {} if you pay first.", ""), ("Should anybody {}?", ""), ("Did I {}?", ""),
        ("Shall I stop, or {}, or sing?", ""), ("User: please {}", ""),
    ],
)  # fmt: skip
def test_moods_of_a_deed(domain, mood, act):
    for deed, words in declared(domain, "do"):
        claims = [c for c in read(domain, mood.format(words)) if c.act in ("confirm", "promise")]
        assert [(c.act, c.slot) for c in claims] == ([(act, deed)] if act else []), words


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    ("mood", "told"),
    [
        ("It is {}.", True), ("I see that it is {}.", True), ("Is it {}?", False),
        ("It isn't {}.", False), ("If it is {}, wait.", False), ("It might be {}.", False),
        ("I doubt that it is {}.", False), ("You said it is {}.", False), ("It will be {}.", False),
        ("It is {}: untrue.", False), ("Other people's are {}.", False), ("{}: no", False),
        ("System: it is {}", False), ("{{'status': '{}'}}", False), ("It was never {}.", False),
        ("Let's say it is {}.", False), ("Hopefully it is {}.", False),
        ("It is {}. It is not {}.", False),
    ],
)  # fmt: skip
def test_moods_of_a_fact(domain, mood, told):
    facts = reader(domain).cues.facts
    for fact, words in declared(domain, "value"):
        if facts[fact].names or words.startswith(("no ", "not ", "an ", "outage")):
            continue  # these take another sentence
        said = [c.slot for c in read(domain, mood.format(words, words)) if c.act == "inform"]
        assert said == ([fact] if told else []), words


# -- values, objects and the whole reply -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The fine is $2.50.", ["inform(fine=2.50)"]),
        ("The fine comes to 1.049,50 €.", ["inform(fine=1049.50)"]),
        ("You owe five dollars.", ["inform(fine=5)"]),
        ("A $3 late fee applies.", ["inform(fine=3)"]),
        ("There's no late fee.", ["inform(fine=0)"]),
        ("No fine of $5 applies.", []),
        ("The fine is $5 or $6.", []),
        ("The fine is $5. The fine is $6.", []),
        ("The fine is $5 and it's due on 3 May.", ["inform(fine=5)", "inform(due=3 May)"]),
        ("It is due back on May 3rd.", ["inform(due=3 May)"]),
        ("It is due 2026-05-03.", ["inform(due=3 May)"]),
        ("It is due by 3 May 1999.", []),
        ("It is on the shelf and it is on loan.", []),
        ("I can't renew it because someone else has reserved it.", ["deny(reserved)"]),
        ("Someone else has reserved it.", []),
        ("Someone else has reserved it. I can't renew it.", ["deny(reserved)"]),
        ("I can't waive it. Someone else has reserved it.", []),
        ("I can't renew it: it's on hold for somebody, there's an unpaid fine, and it has been "
         "renewed three times.", []),
        ("I can't renew it until I have your card number.", ["ask(card)"]),
        ("I'll renew it. What's your card number?", ["ask(card)"]),
        ("I can renew it or reserve it. Shall I?", []),
        ("Shall I renew LB-2041 and LB-3310?", []),
    ],
)  # fmt: skip
def test_values_and_grounds_are_attached(text, expected):
    assert labels("library", text) == expected


@pytest.mark.parametrize(
    ("domain", "text", "expected"),
    [
        ("library", "I've renewed LB-2041 and lb-2042.",
         [("done", "renew", "", "LB-2041"), ("done", "renew", "", "LB-2042")]),
        ("library", "LB-2041 is on loan, LB-3310 is on the shelf.",
         [("inform", "status", "loan", "LB-2041"), ("inform", "status", "shelf", "LB-3310")]),
        ("library", "LB-2041 is yours? I've renewed it.", [("done", "renew", "", "LB-2041")]),
        ("library", "I'd renew LB-2041 until 5 May. That's $2. OK?",
         [("confirm", "renew", "5 May; 2", "LB-2041")]),
        ("shop", "The Nova 15 Pro is $1,199 and the NOVA 15 $899.",
         [("quote", "", "1199", "Nova 15 Pro"), ("quote", "", "899", "Nova 15")]),
        ("shop", "I'd suggest the Nova 15 rather than the Titan X.",
         [("recommend", "", "", "Nova 15")]),
        ("shop", "- Nova 15\n- Aero 13\n\nShall I order it?", [("confirm", "book", "", "")]),
    ],
)  # fmt: skip
def test_claims_carry_their_object(domain, text, expected):
    assert read(domain, text) == tuple(Claim(*claim) for claim in expected)


def test_mentions_are_the_names_as_given():
    asked = reader("shop").mentions("the NOVA 15 pro, or an Aero-13? The Nova 15?", NAMES["shop"])
    assert asked == ("Nova 15 Pro", "Aero 13", "Nova 15")


def test_handles_name_an_object():
    desk = SpeechReader({"deed": {"renew": {"do": ["renew"]}}, "object": {"handles": ["book"]}})
    (claim,) = desk.read("Shall I renew book 2?")
    assert claim == Claim("confirm", "renew", "", "book:2")
    assert desk.read("Shall I renew the book?")[0].object == ""


def test_what_has_one_reason_only_needs_no_other_words():
    desk = SpeechReader(
        {
            "deed": {"cancel": {"do": ["cancel"]}},
            "deny": {"late": {"of": "cancel", "bare": True}},
        }
    )
    assert [str(c) for c in desk.read("I'm afraid I can't cancel it any more.")] == ["deny(late)"]
    assert desk.read("I can't cancel it until I have your number.") == ()


def test_order_of_claims_is_order_of_speech():
    text = "Hello! LB-2041 is on loan. The fine is $2. Shall I renew it? Goodbye."
    acts = [claim.act for claim in read("library", text)]
    assert acts == ["greet", "inform", "inform", "confirm", "close"]


def test_a_made_up_dialogue_ends_what_is_asserted():
    text = "Shall I renew it?\nUser: yes\nAgent: I've renewed it. The fine is $0. Your card number?"
    assert labels("library", text) == ["confirm(renew)", "ask(card)"]


# -- what it never does ----------------------------------------------------------------------------

PIECES = st.sampled_from(
    "not |if |i've renewed it. |shall i renew it?|the fine is |$5 |5 may |restart the router |no |"
    "please |nova 15 |costs |```|<!--|-->|{|}|f(|)|user:\n|> |or |and |another reader is waiting |"
    "\ud800|i can't renew it |</think>|<think>|\n|. |? |, |\0|LB-2041 |👍🏽|e-book |\"|10% |"
    "discount |i doubt that |just kidding. |you said |thought: |it is due |on loan ".split("|")
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=300))
def test_any_text_is_read_twice_the_same_and_nothing_raises(text):
    for domain in DOMAINS:
        claims = read(domain, text)
        assert claims == reader(domain)._read(text, NAMES.get(domain, ()))
        assert len(set(claims)) == len(claims)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_nothing_weighty_outlives_a_just_kidding(text):
    for domain in DOMAINS:
        claims = read(domain, f"Just kidding.\n{text.replace('<', '').replace('`', '')}")
        assert not [claim for claim in claims if claim.act in WEIGHTY]


def test_only_the_first_words_of_a_long_reply_are_read():
    padding = "well " * MOST_TOKENS
    assert labels("library", "I've renewed it. " + padding) == ["done(renew)"]
    assert labels("library", padding + ". I've renewed it.") == []
    assert labels("library", " " * MOST_CHARACTERS + "I've renewed it.") == []


def test_a_reader_can_be_copied_and_sent_away():
    text = "I've renewed LB-2041."
    for other in (copy.deepcopy(reader("library")), pickle.loads(pickle.dumps(reader("library")))):
        assert other.read(text) == reader("library").read(text)


def test_a_reader_without_cues_knows_its_manners():
    bare = SpeechReader(Cues())
    assert [str(c) for c in bare.read("Hello! How can I help?")] == ["greet", "ask_intent"]
    assert [str(c) for c in bare.read("I'll put you through to a colleague.")] == [
        "promise(transfer)"
    ]


def test_known_sentences_mean_the_same_and_can_be_forgotten(monkeypatch):
    fresh, known = (SpeechReader(DATA / "speech_shop.toml") for _ in range(2))
    names, first, second = NAMES["shop"], "The Nova 15 costs $900.", "Shall I order it for you?"
    for text in (first, second, f"{second} {first}", f"{first} {second}"):
        monkeypatch.setattr(speech, "LONGEST_CACHED", -1)
        expected = fresh.read(text, names)
        monkeypatch.undo()
        assert known.read(text, names) == expected
    assert fresh._seen.cache_info().currsize == 0
    remembered = known._seen.cache_info()
    assert remembered.misses == 2 and remembered.hits > 0
