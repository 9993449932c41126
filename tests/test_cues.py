"""Cue files: how they are declared, what is wrong with them, and the phrases found in words."""

import json
import re
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from convgym.language.cue_lint import lint
from convgym.language.cues import Cues
from convgym.language.figures import Figure, figures, sums_written_out, written_out
from convgym.language.inflection import gerunds, inflected, participles, turned
from convgym.language.spans import GAP, Hit, Spans, Tag
from convgym.language.speech import SpeechReader
from convgym.language.understanding import Lexicon

DATA = Path(__file__).parent / "data"
FILES = ("speech_library", "speech_router", "speech_shop", "speech_orders")

# -- declarations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_the_files_of_the_tests_are_short_and_without_complaint(name):
    path = DATA / f"{name}.toml"
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= 60 + 40 * (name == "speech_orders")
    assert lint(path) == []


def test_a_file_its_text_and_its_table_say_the_same():
    path = DATA / "speech_library.toml"
    text = path.read_text("utf-8")
    assert Cues.load(path) == Cues.load(text)
    table = {"ask": {"card": ["card number"]}}
    assert Cues.load(table) == Cues.load('[ask]\ncard = ["Card  Number"]')


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[aks]\na = ['b']", r"no section \[aks\] .* did you mean 'ask'"),
        ("[ask]\ncard = 3", r"\[ask\] card must be a list of texts; got 3"),
        ("[deny.x]\nof = 3", r"\[deny.x\] of must be a list of texts; got 3"),
        ("[object]\nid = 3", r"id must be a list of texts; got 3"),
        ("[ask]\nmore = ['b']", r"\[ask\] more is there in every domain"),
        ("[ask]\ncard = ['what?!']", r"\[ask\] card: 'what\?!' is no phrase"),
        ("[ask]\ncard = ['a .. ']", r"is no phrase"),
        ("ask = 1", r"\[ask\] must be a table"),
        ("[deed.renew]\nundo = ['b']", r"\[deed.renew\] has no key 'undo'; .*do"),
        ("[deed]\nrenew = ['b']", r"\[deed\] renew must be a table"),
        ("[deny.x]\nof = 'renew'", r"denial of 'renew', which is no deed"),
        ("[deny.x]\nbare = true", r"bare, so it must say of which deed"),
        ("[deny.x]\nbare = 1", r"bare must be true or false; got 1"),
        ("[fact]\nfine = {kind = 'mony', names = ['a']}", r"kind 'mony'; did you mean 'money'"),
        ("[fact]\nfine = {kind = 'money'}", r"fine needs names"),
        ("[fact]\nfine = {names = ['a']}", r"needs a kind .* or values"),
        ("[fact]\nfine = {kind = 'money', names = ['a'], b = ['c']}", r"not both"),
        ("[fact]\nfine = 'b'", r"\[fact\] fine must be a table"),
        ("[object]\nid = ['[']", r"is no regular expression"),
        ("[jargon]\nword = ['b']", r"\[jargon\] has no key 'word'"),
        ("[ask", r"is no TOML"),
    ],
)
def test_what_is_not_allowed_is_told_in_one_sentence(text, complaint):
    with pytest.raises(InvalidConfiguration, match=complaint):
        Cues.load(text)
    (told,) = lint(text)
    assert re.search(complaint, told)


def test_a_missing_file_is_told():
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        SpeechReader(Path("nowhere.toml"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[ask]\ncard = []", "[ask] card lists no phrases"),
        ("[deed.renew]\ndone = ['renewed']", "[deed.renew] has no do and no noun"),
        ("[deny.x]", "[deny.x] can never be heard"),
        ("[ask]\na = ['card']\nb = ['card']", "'card' stands for two things, [ask] a and [ask] b"),
        ("[ask]\na = ['lamp']\n[check]\nb = ['lamp']", "[ask] a and [check] b"),
        ("[fact]\ns.a = ['open']\ns.b = ['open']", "[fact] s.a and [fact] s.b"),
        ("[ask]\na = ['card number', 'your card number']", "'your card number' adds nothing"),
        ("[ask]\na = ['this but that']", "'This but that?' is read as nothing, not as ask(a)"),
        ("[deed.x]\ndo = ['greet']\n[deny.y]\nof = 'x'\nbecause = ['hm but no']", "deny(y)"),
    ],
)
def test_lint_finds_what_nobody_would_hear(text, complaint):
    told = lint(text)
    assert any(complaint in sentence for sentence in told), told


def test_lint_lets_two_deeds_share_a_ground():
    text = """
    [deed.renew]
    do = ["renew"]
    [deed.lend]
    do = ["lend"]
    [deny.a]
    of = "renew"
    because = ["it is reserved"]
    [deny.b]
    of = "lend"
    because = ["it is reserved"]
    """
    assert lint(text) == []


# -- forms of verbs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "doing", "done"),
    [
        ("renew", "renewing", "renewed"),
        ("reserve", "reserving", "reserved"),
        ("cancel", "cancelling canceling", "cancelled canceled"),
        ("stop", "stopping stoping", "stopped stoped"),
        ("apply", "applying", "applied"),
        ("tie", "tying", "tied"),
        ("take", "taking", "took taken"),
        ("set", "setting seting", "set"),
        ("look", "looking", "looked"),
        ("fix", "fixing", "fixed"),
        ("agree", "agreeing", "agreed"),
    ],
)
def test_forms_are_those_of_the_grammar_book(verb, doing, done):
    assert set(gerunds(verb)) == set(doing.split())
    assert set(participles(verb)) == set(done.split())


def test_phrases_are_inflected_by_their_first_word():
    assert inflected("put/take .. on hold", "done") == "put/took/taken .. on hold"
    assert turned("remove the fine") == "fine .. removed"
    assert turned("put .. on hold") == ""


# -- phrases in words ------------------------------------------------------------------------------

WORDS = st.sampled_from("a b c d ,".split())
PATTERNS = ["a", "a b", "b c", "a b c", "a .. c", "b .. d", "c/d -/a b"]


def found_plainly(patterns, tokens):
    """Every hit by trying each phrase at each place; then those inside earlier ones go."""
    whole, gapped = [], []
    for number, pattern in enumerate(patterns):
        tag = Tag("kind", str(number))
        parts = [
            [
                [word for word in choice if word != "-"]
                for choice in product(*(word.split("/") for word in part.split()))
            ]
            for part in pattern.split(" .. ")
        ]
        for start, end in spans_of(parts, tokens):
            (gapped if len(parts) > 1 else whole).append(Hit(tag, start, end))
    kept, covered = [], 0
    for start in range(len(tokens)):
        here = [hit for hit in whole if hit.start == start and hit.end > covered]
        if here:
            covered = max(hit.end for hit in here)
            kept += [hit for hit in here if hit.end == covered]
    return {*kept, *gapped}


def spans_of(parts, tokens):
    """(start, end) of parts in order, each up to GAP words after the one before."""
    first = parts[0]
    for start in range(len(tokens)):
        for words in first:
            if tokens[start : start + len(words)] != words:
                continue
            end = start + len(words)
            if len(parts) == 1:
                yield start, end
            for words_after in parts[1] if len(parts) > 1 else ():
                for gap in range(GAP + 1):
                    at = end + gap
                    if tokens[at : at + len(words_after)] == words_after:
                        if "," not in tokens[end:at]:
                            yield start, at + len(words_after)


@given(st.lists(WORDS, max_size=14), st.sets(st.sampled_from(PATTERNS), min_size=1))
def test_phrases_are_found_where_a_plain_search_finds_them(tokens, chosen):
    patterns = sorted(chosen)
    spans = Spans((Tag("kind", str(n)), pattern) for n, pattern in enumerate(patterns))
    found = set(spans.find(tokens).get("kind", []))
    plain = found_plainly(patterns, tokens)
    gapped = {str(n) for n, pattern in enumerate(patterns) if ".." in pattern}
    assert {hit for hit in found if hit.name not in gapped} == {
        hit for hit in plain if hit.name not in gapped
    }
    # Of several beginnings of a phrase with a gap the latest counts.
    assert {hit for hit in found if hit.name in gapped} <= plain
    assert {(hit.name, hit.end) for hit in found} >= {
        (hit.name, hit.end) for hit in plain if hit.name in gapped
    }


# -- figures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs $1,049.50", [("money", "1049.50")]),
        ("1.049,50 € or EUR 12,5", [("money", "1049.50"), ("money", "12.50")]),
        ("five dollars and 50 cents", [("money", "5"), ("money", "0.50")]),
        ("twenty-five books", [("number", "25")]),
        ("fifteen per cent off", [("percent", "15")]),
        ("a 10% discount until 5 May", [("percent", "10"), ("date", "5 May")]),
        ("the 5th of May", [("date", "5 May")]),
        ("16GB and a 14-hour battery", [("number", "16"), ("number", "14")]),
        ("£3.00", [("money", "3")]),
        ("no figure, one of these", []),
    ],
)
def test_figures_are_brought_to_one_shape(text, expected):
    (sentence,) = Lexicon({}).read(written_out(sums_written_out(text)))
    assert [figure[:2] for figure in figures(sentence.tokens)] == expected


@given(st.integers(0, 10**6), st.integers(0, 99))
def test_every_sum_comes_back(whole, cents):
    value = f"{whole}.{cents:02}" if cents else str(whole)
    plain = f"{whole}.{cents:02}"
    for written in (f"${whole:,}.{cents:02}", f"{plain} dollars", f"€{plain}"):
        (sentence,) = Lexicon({}).read(sums_written_out(f"it is {written}"))
        assert [f.value for f in figures(sentence.tokens)] == [value]


def test_figures_do_not_overlap():
    tokens = "5 may 2026 10 % 12 dollars 7 june 3".split()
    found = figures(tokens)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert Figure("date", "5 May", 0, 2) in found


def test_the_labelled_files_hold_what_they_promise():
    for name in FILES[:3]:
        rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
        assert len(rows) >= 80 and all(set(row) == {"text", "acts"} for row in rows)
        tricks = (DATA / f"{name}_tricks.jsonl").read_text().splitlines()
        assert len(tricks) >= 60 and len(set(tricks)) == len(tricks)
