"""Labelled replies: how they are scored, and that what was once read is still read."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest

from convgym.desk.grounding import understand
from convgym.domains.catalogue import DOMAINS
from convgym.domains.customer_service.labels import labels
from convgym.domains.customer_service.understanding import HARMLESS, Claim, read_speech
from convgym.engine import acts
from convgym.errors import InvalidConfiguration
from convgym.evaluation.labelled import Reading, Row
from convgym.language.reranker import CharacterEncoder, NearestLabel

SCRIPT = Path(__file__).parents[1] / "scripts" / "eval_understanding.py"
DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def evaluation():
    spec = importlib.util.spec_from_file_location("eval_understanding", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def written(folder, *rows):
    path = folder / "replies.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


# -- what was read stays read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "ignored", "exact"),
    [
        ("replies_tuning.jsonl", (), 0.97),
        ("replies_development.jsonl", (), 0.97),
        ("utterances.jsonl", ("wait", "promise", "explain"), 0.97),
    ],
)
def test_labelled_replies_are_read(evaluation, file, ignored, exact):
    reading = evaluation.labelled(DATA / file, ignored=ignored)
    assert reading.exact.value >= exact
    for act in ("inform", "confirm", "done", "deny", "offer"):
        assert reading.precision(act) >= 0.97, act


# -- scores ----------------------------------------------------------------------------------------


def reading_of(*pairs):
    rows = (Row("", frozenset(wanted), frozenset(read)) for wanted, read in pairs)
    return Reading(tuple(rows))


def test_scores_are_those_worked_by_hand():
    reading = reading_of(
        (["greet"], ["greet"]),
        (["quote(10)"], ["quote(20)", "greet"]),
        (["greet", "close"], []),
        ([], []),
    )
    assert reading.scores == {"close": (0, 0, 1), "greet": (1, 1, 1), "quote": (0, 1, 1)}
    assert reading.exact == (2, 4) and reading.exact.value == 0.5
    assert reading.abstained == (1, 3)
    assert reading.acts(2) == ["greet"] and reading.macro_f1(2) == 0.5
    assert reading.macro_f1(1) == reading.macro_f1(9) == pytest.approx(0.5 / 3)
    assert reading.micro_f1 == 2 / (2 + 2 + 3)
    assert reading.precision("greet") == 0.5
    assert reading.precision("greet", "quote") == pytest.approx(1 / 3)
    assert Reading(reading.rows, str).scores["quote(10)"] == (0, 0, 1)
    # Wilson's interval of 2 of 4 is 0.5 ± 0.35, of 1 of 3 it is [0.061, 0.792].
    assert reading.summary(2) == (
        "exact 0.500 [0.15, 0.85]   macro-F1 0.500 over 1 acts   abstained 0.333 [0.06, 0.79]"
    )
    assert "macro-F1 0.167 over all 3 acts (none has 20 examples)" in reading.summary()
    with pytest.raises(InvalidConfiguration, match="'hold'; there are close, greet, quote"):
        reading.precision("hold")


def test_only_acts_with_enough_examples_count():
    found = [(["check"], ["check"])] * 8 + [(["step"], [])] * 2 + [(["step"], ["step"])] * 6
    reading = reading_of(*found, ([], []), (["close"], ["check"]))
    assert reading.exact == (15, 18) and reading.abstained == (2, 17)
    # check: 8 hits, 1 wrong; step: 6 hits, 2 missed; close has too few examples.
    assert reading.acts(8) == ["check", "step"]
    assert reading.macro_f1(8) == (16 / 17 + 12 / 14) / 2


def test_nothing_at_all_is_no_number():
    reading = reading_of()
    assert all(map(math.isnan, (reading.exact.value, reading.abstained.value, reading.macro_f1())))
    assert reading.summary() == "exact -   macro-F1 nan over all 0 acts (none has 20 examples)" + (
        "   abstained -"
    )
    assert math.isnan(reading_of((["greet"], [])).precision("greet"))


def test_a_file_is_scored_row_by_row(evaluation, tmp_path):
    path = written(
        tmp_path,
        {"text": "Hello!", "acts": ["greet"]},
        {"text": "It has shipped.", "acts": ["inform(status=packed)"]},
        {"text": "Qwerty.", "acts": ["explain"]},
        {"text": "Qwerty.", "acts": []},
    )
    reading = evaluation.labelled(path)
    assert [row.text for row in reading.rows] == ["Hello!", "It has shipped.", "Qwerty.", "Qwerty."]
    assert reading.scores == {"explain": (0, 0, 1), "greet": (1, 0, 0), "inform": (0, 1, 1)}
    assert set(evaluation.labelled(path, ignored=["inform"]).scores) == {"explain", "greet"}


@pytest.mark.parametrize(
    ("request_", "label"),
    [
        ("cancel", "deny(not_cancellable)"),
        ("address", "deny(already_shipped)"),
        ("return", "deny(not_delivered)"),
    ],
)
def test_too_late_is_settled_by_the_request(request_, label):
    read = labels("Too late, it is packed already.", request_)
    assert read == {label, "inform(status=packed)"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "no JSON"),
        ('{"acts": []}', '"text"'),
        ('{"text": "a", "acts": "greet"}', "list of labels"),
        ('{"text": "a", "acts": [["greet"]]}', "list of labels"),
        ('{"text": "a", "acts": ["inform(eta=14.3.)"]}', "unknown label"),
        ('{"text": "a", "acts": ["jargon"]}', "unknown label"),
        ('{"text": "a", "acts": [], "request": "refunds"}', "request"),
    ],
)
def test_a_bad_line_is_named(evaluation, tmp_path, line, problem, capsys):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"text": "Hi", "acts": ["greet"]}\n' + line, encoding="utf-8")
    with pytest.raises(InvalidConfiguration, match=r"^replies.jsonl, line 2: ") as caught:
        evaluation.labelled(path)
    assert problem in str(caught.value)
    with pytest.raises(SystemExit):
        evaluation.main([str(path)])
    assert "line 2" in capsys.readouterr().err


def test_the_command_prints_the_summary_and_the_misread(evaluation, tmp_path, capsys):
    path = written(tmp_path, {"text": "It has shipped.", "acts": ["close"]})
    evaluation.main([str(path), "--labels", "--errors"])
    printed = capsys.readouterr().out
    assert "macro-F1 0.000" in printed and "- close   + inform(status=shipped)" in printed


def test_every_domain_has_its_labels(evaluation):
    assert set(evaluation.LABELS_OF) == set(evaluation.HARMLESS) == set(DOMAINS)
    for domain, harmless in evaluation.HARMLESS.items():
        assert all(map(evaluation.LABELS_OF[domain].is_label, harmless)), domain


@pytest.mark.parametrize(
    ("domain", "text", "label"),
    [
        ("sales", "The Aster Slim costs $1,249.", "quote(Aster Slim=1249)"),
        ("technical-support", "Is the power light on?", "check(power_light)"),
    ],
)
def test_the_command_reads_the_replies_of_every_domain(
    evaluation, tmp_path, domain, text, label, capsys
):
    path = written(tmp_path, {"text": text, "acts": [label]}, {"text": "Hello!", "acts": []})
    evaluation.main([str(path), "--domain", domain, "--enough", "1", "--labels"])
    printed = capsys.readouterr().out
    assert "macro-F1 1.000 over 1 acts" in printed and f"  {label}" in printed
    with pytest.raises(SystemExit):
        evaluation.main([str(path)])
    assert f"unknown label {label!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["phrases.toml", "--domain", "sales"], "phrases are read for --domain customer-service"),
        (["replies.jsonl", "--domain", "hotel"], "choose from"),
        (["replies.jsonl", "--enough", "0"], "--enough is 0"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_what_does_not_apply_is_refused(evaluation, arguments, problem, capsys):
    with pytest.raises(SystemExit):
        evaluation.main(arguments)
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("domain", "label"), [("customer-service", "greet"), ("sales", "ask(more)")]
)
def test_examples_read_what_nobody_else_does(evaluation, tmp_path, domain, label):
    path = written(tmp_path, {"text": "Zippity zap over yonder", "acts": [label]})
    examples = tmp_path / "examples.jsonl"
    rows = [{"text": "Zippity zap, over yonder!", "acts": [label]}, {"text": "Qwerty", "acts": []}]
    examples.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert evaluation.labelled(path, domain).abstained == (1, 1)
    assert evaluation.reranked(path, examples, domain).exact == (1, 1)


def test_a_reply_is_never_its_own_example(evaluation, tmp_path):
    words = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf")
    rows = [{"text": f"{word} {word[::-1]}", "acts": ["greet"]} for word in words]
    path = written(tmp_path, *rows)
    assert evaluation.reranked(path, path).abstained == (len(words), len(words))


# -- the reranker ----------------------------------------------------------------------------------

EXAMPLES = [
    ("Blimey, zounds!", "greet"),
    ("Zippity zap over yonder?", "ask(order)"),
    ("Gadzooks, the deed is dune.", "done(cancel)"),
]


def test_a_reranker_is_asked_only_where_nothing_is_read():
    reranker = NearestLabel(EXAMPLES, allowed=HARMLESS)
    unread = "Zippity zap, over yonder"
    assert read_speech(unread) == ()
    assert read_speech(unread, reranker) == (Claim("ask", "order"),)
    assert understand(unread, read_speech).said == (acts.Said(acts.UNCLEAR),)
    with_it = understand(unread, lambda speech: read_speech(speech, reranker))
    assert with_it.said == (Claim("ask", "order"),)
    read = "It has shipped, zippity zap over yonder"
    assert read_speech(read, reranker) == read_speech(read)


def test_a_reranker_proposes_nothing_that_weighs():
    anything = NearestLabel(EXAMPLES)
    assert anything.propose("Gadzooks, the deed is dune.") == ("done(cancel)",)
    assert read_speech("Gadzooks, the deed is dune.", anything) == ()
    assert NearestLabel(EXAMPLES, allowed=HARMLESS).propose("Gadzooks, the deed is dune") == ()


def test_a_reranker_keeps_its_distance():
    reranker = NearestLabel(EXAMPLES, threshold=0.5, margin=0.1)
    assert reranker.propose("Something else entirely") == ()
    assert reranker.propose("") == ()
    torn = NearestLabel([("alpha beta", "greet"), ("alpha betas", "close")], margin=0.3)
    assert torn.propose("alpha beta") == ()
    with pytest.raises(ValueError, match="examples"):
        NearestLabel([])


def test_any_encoder_will_do():
    def length(texts):
        return [[len(text), 10.0] for text in texts]

    reranker = NearestLabel([("a", "greet"), ("a" * 100, "close")], length, margin=0.0)
    assert reranker.propose("b" * 90) == ("close",)


def test_the_built_in_encoder_sees_spelling():
    encode = CharacterEncoder()
    first, same, near, far = encode(["Your e-mail?", "your E-mail", "your emails", "Goodbye"])
    assert (first == same).all() and first @ near > first @ far
