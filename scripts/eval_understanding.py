"""How well replies are understood: exact share, F1 per act, abstention, on labelled files.

    python scripts/eval_understanding.py FILE [FILE ...] [--domain sales] [--labels] [--errors]
                                         [--ignore ACT ...] [--enough N] [--examples FILE]
    python scripts/eval_understanding.py agent_phrases.toml [--errors]

A file holds one JSON object per line; `tests/data/replies.md` tells all labels of each domain:

    {"text": "It has shipped, sorry!", "acts": ["inform(status=shipped)", "apologise"],
     "style": "terse", "request": "status"}

`request` (status, cancel, return, exchange, ...; customer service only) is what the customer has
asked for; it settles a refusal that says only "too late". An act is the name before the bracket,
but a label that was read counts only if all of it is right, slot and value. Macro-F1 is over the
acts with at least 20 examples. Abstained: nothing at all is read, where a label stands.

`--examples` takes a labelled file whose replies with one label serve a reranker, which is asked
where nothing was read; of a file that is its own examples a fifth at a time is left out.

    exact 0.912 [0.87, 0.94]   macro-F1 0.930 over 11 acts   abstained 0.020 [0.01, 0.05]

Of a phrase file of customer service (`.toml`) it prints for each bank the share of wordings that
are read as the act under which they stand, and as no other weighty one.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from convgym.domains.customer_service import labels as customer_service
from convgym.domains.customer_service import understanding as customer_service_words
from convgym.domains.customer_service.claims import LATE, SLOTS
from convgym.domains.customer_service.understanding import read_speech
from convgym.domains.sales import labels as sales
from convgym.domains.sales import understanding as sales_words
from convgym.domains.technical_support import labels as technical_support
from convgym.domains.technical_support import understanding as technical_support_words
from convgym.evaluation.labelled import ENOUGH, Reading, Record, Score, Share, act_of, records
from convgym.language.phrases import PhraseBank, read_banks
from convgym.language.reranker import NearestLabel

SHOP = "customer-service"
LABELS_OF: dict[str, Any] = {
    SHOP: customer_service,
    "sales": sales,
    "technical-support": technical_support,
}
"""The labels of each domain: `labels` of a text, and `is_label`."""
HARMLESS = {
    SHOP: customer_service_words.HARMLESS,
    "sales": sales_words.HARMLESS,
    "technical-support": technical_support_words.HARMLESS,
}
"""The labels of each domain that a reranker may propose."""
FOLDS = 5
"""Parts of a file that is its own examples; each is read with those of the others."""


# -- labelled replies ------------------------------------------------------------------------------


def labelled(path: Path, domain: str = SHOP, ignored: Sequence[str] = ()) -> Reading:
    """The replies of a labelled file as they are read; acts in `ignored` count nowhere.

    Raises InvalidConfiguration, in one sentence, at the first line that does not fit the format.
    """
    return Reading.of(path, _reader(domain, [None]), LABELS_OF[domain].is_label, ignored)


def reranked(
    path: Path, examples: Path, domain: str = SHOP, ignored: Sequence[str] = ()
) -> Reading:
    """As `labelled`, with a reranker that knows the replies of `examples`, but never the row."""
    is_label = LABELS_OF[domain].is_label
    known = [_one_label(record) for record in records(examples, is_label)]
    parts = FOLDS if path.samefile(examples) else 1
    rerankers = [
        NearestLabel(
            [pair for place, pair in enumerate(known) if parts == 1 or place % parts != part],
            allowed=HARMLESS[domain],
        )
        for part in range(parts)
    ]
    return Reading.of(path, _reader(domain, rerankers), is_label, ignored)


def _reader(
    domain: str, rerankers: Sequence[NearestLabel | None]
) -> Callable[[Record], frozenset[str]]:
    """What reads the rows of a file in their order, with one reranker after the other."""
    labels = LABELS_OF[domain].labels
    turns = itertools.cycle(rerankers)

    def read(record: Record) -> frozenset[str]:
        own = {"request": record.get("request") or ""} if domain == SHOP else {}
        found: frozenset[str] = labels(record["text"], reranker=next(turns), **own)
        return found

    return read


def _one_label(record: Record) -> tuple[str, str]:
    """A reply and its label; those with several or none only stand in the way of others."""
    acts = record["acts"]
    return record["text"], acts[0] if len(acts) == 1 else f"{len(acts)} labels"


def print_scores(table: dict[str, Score]) -> None:
    """Precision, recall, F1 and support, one line each."""
    width = max((len(name) for name in table), default=3) + 2
    print(f"  {'':<{width}}{'precision':>9}{'recall':>8}{'F1':>7}{'support':>9}")
    for name, score in table.items():
        numbers = f"{score.precision:>9.3f}{score.recall:>8.3f}{score.f1:>7.3f}{score.support:>9}"
        print(f"  {name:<{width}}{numbers}")


def print_errors(reading: Reading) -> None:
    """What is missed and what is read too much in each misread row."""
    for row in reading.rows:
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
        print(f"{path.name} [{name}]: {n} wordings, read {Share(n - len(wrong), n)}")
        for key, text, read in wrong if errors else ():
            print(f"  {key}  {sorted(read)}\n    {text!r}")


# -- the command -----------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a summary line and a table for each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="labelled replies, or phrases")
    parser.add_argument("--domain", choices=LABELS_OF, default=SHOP, help="whose replies they are")
    parser.add_argument("--labels", action="store_true", help="a line per label, not per act")
    parser.add_argument("--errors", action="store_true", help="list what is misread")
    parser.add_argument("--ignore", nargs="*", default=(), help="acts that the labels leave out")
    parser.add_argument("--enough", type=int, default=ENOUGH, help="examples of an act that count")
    parser.add_argument("--examples", type=Path, help="labelled replies that a reranker knows")
    chosen = parser.parse_args(arguments)
    if chosen.enough < 1:
        parser.error(f"--enough is {chosen.enough}; it takes 1 or more examples.")
    for path in chosen.files:
        if path.suffix == ".toml":
            if chosen.domain != SHOP:
                parser.error(f"{path.name}: phrases are read for --domain {SHOP} alone.")
            print_wordings(path, chosen.errors)
            continue
        try:
            reading = labelled(path, chosen.domain, chosen.ignore)
            if chosen.examples:
                print(f"without a reranker:\n{reading.summary(chosen.enough)}")
                reading = reranked(path, chosen.examples, chosen.domain, chosen.ignore)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        print(f"{path.name}: {len(reading.rows)} replies\n{reading.summary(chosen.enough)}")
        print_scores(Reading(reading.rows, str if chosen.labels else act_of).scores)
        if chosen.errors:
            print_errors(reading)


if __name__ == "__main__":
    main()
