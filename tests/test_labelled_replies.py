"""Labelled replies: how they are scored, and that what was once read is still read."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from convgym.desk.grounding import understand
from convgym.domains.customer_service.understanding import HARMLESS, Claim, read_speech
from convgym.engine import acts
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
    rows = evaluation.labelled(DATA / file, ignored)
    right, n = evaluation.exact_share(rows)
    assert right / n >= exact
    weighty = evaluation.scores(rows)
    for act in ("inform", "confirm", "done", "deny", "offer"):
        assert weighty[act].precision >= 0.97, act


# -- scores ----------------------------------------------------------------------------------------


def test_scores_are_those_worked_by_hand(evaluation, tmp_path):
    path = written(
        tmp_path,
        {"text": "Hello!", "acts": ["greet"]},
        {"text": "It has shipped.", "acts": ["inform(status=packed)"]},
        {"text": "Qwerty.", "acts": ["explain"]},
        {"text": "Qwerty.", "acts": []},
    )
    rows = evaluation.labelled(path)
    assert evaluation.exact_share(rows) == (2, 4)
    assert evaluation.abstained_share(rows) == (1, 3)
    by_act = evaluation.scores(rows)
    assert by_act["inform"] == (0, 1, 1), "the right act with the wrong value is wrong"
    mean, over = evaluation.macro_f1(by_act)
    assert (mean, over) == (pytest.approx(1 / 3), ["explain", "greet", "inform"])
    assert "none has 20 examples" in evaluation.summary(rows)
    assert evaluation.scores(rows, str)["inform(status=packed)"] == (0, 0, 1)


def test_only_acts_with_enough_examples_count(evaluation, tmp_path):
    rows = [{"text": "Hello!", "acts": ["greet"]}] * 20 + [{"text": "Qwerty.", "acts": ["explain"]}]
    by_act = evaluation.scores(evaluation.labelled(written(tmp_path, *rows)))
    assert evaluation.macro_f1(by_act) == (1.0, ["greet"])


@pytest.mark.parametrize(
    ("request_", "label"),
    [
        ("cancel", "deny(not_cancellable)"),
        ("address", "deny(already_shipped)"),
        ("return", "deny(not_delivered)"),
    ],
)
def test_too_late_is_settled_by_the_request(evaluation, request_, label):
    read = evaluation.read_labels("Too late, it is packed already.", request_)
    assert read == {label, "inform(status=packed)"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "no JSON"),
        ('{"acts": []}', '"text"'),
        ('{"text": "a", "acts": "greet"}', "list of labels"),
        ('{"text": "a", "acts": ["inform(eta=14.3.)"]}', "unknown label"),
        ('{"text": "a", "acts": ["jargon"]}', "unknown label"),
        ('{"text": "a", "acts": [], "request": "refunds"}', "request"),
    ],
)
def test_a_bad_line_is_named(evaluation, tmp_path, line, problem, capsys):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"text": "Hi", "acts": ["greet"]}\n' + line, encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2: ") as caught:
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
