"""How well replies are understood: exact share, F1 per act, abstention, on labelled files.

    python scripts/eval_understanding.py FILE [FILE ...] [--labels] [--errors] [--ignore ACT ...]
                                         [--examples FILE]
    python scripts/eval_understanding.py agent_phrases.toml [--errors]

A file holds one JSON object per line; `tests/data/replies.md` tells all labels:

    {"text": "It has shipped, sorry!", "acts": ["inform(status=shipped)", "apologise"],
     "style": "terse", "request": "status"}

`request` (status, cancel, return, exchange, ...) is what the customer has asked for; it settles
a refusal that says only "too late". An act is the name before the bracket, but a label that was
read counts only if all of it is right, slot and value. Macro-F1 is over the acts with at least
20 examples. Abstained: nothing at all is read, where a label stands.

`--examples` takes a labelled file whose replies with one label serve a reranker, which is asked
where nothing was read; of a file that is its own examples a fifth at a time is left out.

    exact 0.912 [0.87, 0.94]   macro-F1 0.93 over 11 acts   abstained 0.02 [0.01, 0.05]

Of a phrase file (`.toml`) it prints for each bank the share of wordings that are read as the act
under which they stand, and as no other weighty one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from convgym.domains.customer_service.claims import (
    HARMLESS,
    LATE,
    OFFERS,
    PROMISES,
    REASONS,
    SLOTS,
    STATUS,
    TERMS,
    UNLABELLED,
    WRITES,
)
from convgym.domains.customer_service.understanding import Reranker, read_speech
from convgym.evaluation.intervals import wilson
from convgym.language.figures import MONTHS
from convgym.language.phrases import PhraseBank, read_banks
from convgym.language.reranker import NearestLabel

FOLDS = 5
"""Parts of a file that is its own examples; each is read with those of the others."""
ENOUGH = 20
"""Examples that an act needs to count in the macro average."""
REQUESTS = ("", "status", *WRITES)
_TOO_LATE_FOR = {
    "cancel": "not_cancellable", "address": "already_shipped", "return": "not_delivered",
    "billing": "dispute_late",
}  # fmt: skip
LABELS = frozenset(
    ["greet", "ask_intent", "explain", "apologise", "wait", "close"]
    + [f"ask({slot})" for slot in SLOTS]
    + [f"inform(status={stage})" for stage in STATUS]
    + [f"inform({term}={value})" for term, values in TERMS.items() for value in values]
    + [f"{act}({write})" for act in ("confirm", "done") for write in WRITES]
    + [f"promise({promise})" for promise in PROMISES]
    + [f"deny({reason})" for reason in REASONS]
    + [f"offer({offer})" for offer in OFFERS]
)
"""All labels but those with a number in them."""
_NUMBERED = re.compile(rf"inform\((eta=\d\d? ({'|'.join(MONTHS)})|fee=\d\d?\d?)\)")


class Row(NamedTuple):
    """A reply with the labels that it should bear and those that were read."""

    text: str
    wanted: frozenset[str]
    read: frozenset[str]


class Score(NamedTuple):
    """Counts of one act or label."""

    hits: int
    wrong: int
    missed: int

    @property
    def support(self) -> int:
        return self.hits + self.missed

    @property
    def precision(self) -> float:
        return self.hits / max(1, self.hits + self.wrong)

    @property
    def recall(self) -> float:
        return self.hits / max(1, self.support)

    @property
    def f1(self) -> float:
        return 2 * self.hits / max(1, 2 * self.hits + self.wrong + self.missed)


def read_labels(text: str, request: str = "", reranker: Reranker | None = None) -> frozenset[str]:
    """The labels that the understanding gives to a reply."""
    claims = read_speech(text, reranker)
    labels = {str(claim) for claim in claims if claim.act not in UNLABELLED}
    late = f"deny({LATE})"
    if late in labels:
        labels.remove(late)
        if request in _TOO_LATE_FOR:
            labels.add(f"deny({_TOO_LATE_FOR[request]})")
    return frozenset(labels)


def labelled(
    path: Path,
    ignored: Iterable[str] = (),
    read: Callable[[str, str], frozenset[str]] = read_labels,
) -> list[Row]:
    """The rows of a labelled file as they are read; acts in `ignored` count nowhere.

    Raises ValueError, in one sentence, at the first line that does not fit the format.
    """
    ignored, rows = frozenset(ignored), []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        text, acts, request = _parsed(line, f"{path.name}, line {number}")
        both = (acts, read(text, request))
        wanted, found = (frozenset(x for x in labels if kind(x) not in ignored) for labels in both)
        rows.append(Row(text, wanted, found))
    return rows


def reranked(path: Path, examples: Path, ignored: Iterable[str] = ()) -> list[Row]:
    """The rows of `path` with a reranker that knows those of `examples`, but never the row."""
    known = [_one_label(line) for line in examples.read_text(encoding="utf-8").splitlines() if line]
    parts = FOLDS if path.samefile(examples) else 1
    rerankers = [
        NearestLabel(
            [pair for place, pair in enumerate(known) if parts == 1 or place % parts != part],
            allowed=HARMLESS,
        )
        for part in range(parts)
    ]
    places = itertools.count()

    def read(text: str, request: str) -> frozenset[str]:
        return read_labels(text, request, rerankers[next(places) % parts])

    return labelled(path, ignored, read)


def _one_label(line: str) -> tuple[str, str]:
    """A reply and its label; those with several or none only stand in the way of others."""
    row = json.loads(line)
    return row["text"], row["acts"][0] if len(row["acts"]) == 1 else f"{len(row['acts'])} labels"


def _parsed(line: str, where: str) -> tuple[str, frozenset[str], str]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where}: this is no JSON: {error}.") from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise ValueError(f'{where}: a row is an object with a "text"; got {line[:60]!r}.')
    acts = row.get("acts")
    if not isinstance(acts, list):
        raise ValueError(f'{where}: "acts" must be a list of labels; got {acts!r}.')
    unknown = [x for x in acts if x not in LABELS and not _NUMBERED.fullmatch(str(x))]
    if unknown:
        raise ValueError(
            f"{where}: unknown label {unknown[0]!r}; tests/data/replies.md tells the labels."
        )
    request = row.get("request") or ""
    if request not in REQUESTS:
        raise ValueError(
            f"{where}: request is {request!r}; it takes one of {', '.join(REQUESTS[1:])}."
        )
    return row["text"], frozenset(acts), request


# -- scores ----------------------------------------------------------------------------------------


def kind(label: str) -> str:
    """The act of a label: what stands before the bracket."""
    return label.partition("(")[0]


def scores(rows: Sequence[Row], key: Callable[[str], str] = kind) -> dict[str, Score]:
    """Counts by act, or by whatever `key` makes of a label."""
    hits, wrong, missed = Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        hits.update(map(key, row.wanted & row.read))
        wrong.update(map(key, row.read - row.wanted))
        missed.update(map(key, row.wanted - row.read))
    return {k: Score(hits[k], wrong[k], missed[k]) for k in sorted(hits | wrong | missed)}


def macro_f1(by_act: dict[str, Score]) -> tuple[float, list[str]]:
    """Mean F1 and the acts it is over: those with enough examples, else all that have any."""
    acts = [act for act, score in by_act.items() if score.support >= ENOUGH]
    acts = acts or [act for act, score in by_act.items() if score.support]
    return sum(by_act[act].f1 for act in acts) / max(1, len(acts)), acts


def exact_share(rows: Sequence[Row]) -> tuple[int, int]:
    """Rows of which all labels and no others are read, of how many."""
    return sum(row.wanted == row.read for row in rows), len(rows)


def abstained_share(rows: Sequence[Row]) -> tuple[int, int]:
    """Rows with a label of which nothing is read, of how many with a label."""
    meant = [row for row in rows if row.wanted]
    return sum(not row.read for row in meant), len(meant)


def summary(rows: Sequence[Row]) -> str:
    """The line that sums a file up."""
    by_act = scores(rows)
    mean, acts = macro_f1(by_act)
    few = all(score.support < ENOUGH for score in by_act.values())
    over = f"all {len(acts)} acts (none has {ENOUGH} examples)" if few else f"{len(acts)} acts"
    exact, abstained = _share(exact_share(rows)), _share(abstained_share(rows))
    return f"exact {exact}   macro-F1 {mean:.3f} over {over}   abstained {abstained}"


def _share(share: tuple[int, int]) -> str:
    hits, n = share
    if not n:
        return "-"
    low, high = wilson(hits, n)
    return f"{hits / n:.3f} [{low:.2f}, {high:.2f}]"


def print_scores(table: dict[str, Score]) -> None:
    """Precision, recall, F1 and support, one line each."""
    width = max((len(name) for name in table), default=3) + 2
    print(f"  {'':<{width}}{'precision':>9}{'recall':>8}{'F1':>7}{'support':>9}")
    for name, score in table.items():
        numbers = f"{score.precision:>9.3f}{score.recall:>8.3f}{score.f1:>7.3f}{score.support:>9}"
        print(f"  {name:<{width}}{numbers}")


def print_errors(rows: Sequence[Row]) -> None:
    """What is missed and what is read too much in each misread row."""
    for row in rows:
        if row.wanted != row.read:
            missed, wrong = sorted(row.wanted - row.read), sorted(row.read - row.wanted)
            print("  - " + ", ".join(missed) + "   + " + ", ".join(wrong))
            print(f"    {row.text!r}")


# -- wordings --------------------------------------------------------------------------------------

VALUES = {
    "order": "W48213",
    "item": "wireless headphones",
    "status": "shipped",
    "date": "14 March",
    "fee": "15",
    "days": "30",
    "address": "7 Harbour View, Exeter",
    "subscription": "S12345",
    "plan": "coffee box",
    "charge": "C12345",
    "amount": "$24.90",
    "variant": "size M",
}
"""What the placeholders of a wording are filled with."""
_MEANT = {
    "inform_status": "inform(status=shipped)",
    "inform_eta_coming": "inform(eta=14 March)",
    "inform_eta_delivered": "inform(eta=14 March)",
    "inform_fee_charged": "inform(fee=15)",
    "inform_fee_waived": "inform(fee=0)",
    "ask_intent": "ask_intent",
}
_IMPLIED = {  # what a wording may say beside its act: the ground of a refusal, a repeated one
    "inform_eta_delivered": "inform(status=delivered)",
    "deny_not_cancellable": "inform(status=shipped)",
    "deny_already_shipped": "inform(status=shipped)",
    "deny_not_delivered": "inform(status=shipped)",
    "deny_outside_window": "inform(status=delivered)",
}
_TOO_LATE = ("deny_not_cancellable", "deny_already_shipped")
_WEIGHTY = ("inform", "confirm", "done", "deny", "offer", "promise", "close")
"""Acts that do harm where nobody meant them; a greeting too many does none."""


def expected(key: str) -> str:
    """The label of the act that a wording stands for: `deny(final_sale)`."""
    if key in _MEANT:
        return _MEANT[key]
    act, _, rest = key.partition("_")
    if act == "explain":  # where a number is found belongs to asking for it
        return f"ask({rest})" if rest in SLOTS else act
    if act == "inform":
        term, _, value = rest.rpartition("_")
        return f"inform({term}={value})"
    return f"{act}({rest})" if rest else act


def spoken_keys(bank: PhraseBank) -> list[str]:
    """Acts of a bank that are spoken; it also holds the thoughts of tool calls."""
    return [key for key in bank if not key.startswith("think_")]


def misread(bank: PhraseBank) -> Iterator[tuple[str, str, set[str]]]:
    """Key, text and labels read of each wording that is not read as what it is."""
    for key in spoken_keys(bank):
        for phrase in bank.variants(key):
            text = re.sub(r"\{(\w+)\}", lambda match: VALUES[match.group(1)], phrase)
            read = {str(claim) for claim in read_speech(text)}
            if key in _TOO_LATE and f"deny({LATE})" in read:
                read = read - {f"deny({LATE})"} | {expected(key)}
            meant = {expected(key), "explain"} if key.startswith("explain") else {expected(key)}
            extra = {label for label in read if label.startswith(_WEIGHTY)}
            if not meant & read or extra - meant - {_IMPLIED.get(key, "")}:
                yield key, text, read


def print_wordings(path: Path, errors: bool) -> None:
    """Print the share of wordings that are read as what they are, bank by bank."""
    for name, bank in read_banks(path).items():
        wrong = list(misread(bank))
        n = sum(len(bank.variants(key)) for key in spoken_keys(bank))
        print(f"{path.name} [{name}]: {n} wordings, read {_share((n - len(wrong), n))}")
        for key, text, read in wrong if errors else ():
            print(f"  {key}  {sorted(read)}\n    {text!r}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a summary line and a table for each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="labelled replies, or phrases")
    parser.add_argument("--labels", action="store_true", help="a line per label, not per act")
    parser.add_argument("--errors", action="store_true", help="list what is misread")
    parser.add_argument("--ignore", nargs="*", default=(), help="acts that the labels leave out")
    parser.add_argument("--examples", type=Path, help="labelled replies that a reranker knows")
    chosen = parser.parse_args(arguments)
    for path in chosen.files:
        if path.suffix == ".toml":
            print_wordings(path, chosen.errors)
            continue
        try:
            rows = labelled(path, chosen.ignore)
            if chosen.examples:
                print(f"without a reranker:\n{summary(rows)}")
                rows = reranked(path, chosen.examples, chosen.ignore)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        print(f"{path.name}: {len(rows)} replies\n{summary(rows)}")
        print_scores(scores(rows, str if chosen.labels else kind))
        if chosen.errors:
            print_errors(rows)


if __name__ == "__main__":
    main()
