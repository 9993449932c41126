"""How well words tell what turns do: the priors of `convgym.calibration.misreading`.

    python scripts/cue_readings.py shared/data/multidogo/train.jsonl.gz shared/data/multiwoz/…

Measured where labels can check the cues: on the logs given, and on the phrases of our own users,
which were written by act and without these cues in view.
"""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from scipy.special import logit

from convgym.calibration.misreading import WELL_READ
from convgym.calibration.parameters import told_slots
from convgym.calibration.roles import ROLES, Roles, cued, named
from convgym.calibration.signatures import logged_users
from convgym.data import cues
from convgym.data.logs import read_log

LEAST = 20
"""Turns that must have done it."""
DOMAINS = ("customer_service", "sales", "technical_support")
ACTS = {
    "greet": ("greet",),
    "question": ("ask_",),
    "off_topic": ("tangent",),
    "confirm_back": ("ask_sure",),
    "correct": ("correct_",),
    "reject": ("negate", "decline_", "reject_"),
    "repeat": ("remind_",),
    "vague": ("dont_know",),
    "escalate": ("frustrated", "give_up"),
    "ack": ("acknowledge", "affirm"),
    "thank": ("thank",),
    "bye": ("bye",),
}
"""Of each role, how the acts of our users' phrases that play it begin."""
Pairs = Mapping[str, Sequence[tuple[bool, bool]]]


def main(paths: list[str]) -> None:
    sensitivity, hardly, false_alarms, never = [], [], [], []
    for name, pairs in [*map(of_log, paths), *map(of_phrases, DOMAINS)]:
        for role in (*ROLES, "open_slot"):
            did, read = np.array(pairs.get(role, [(False, False)])).T
            if did.sum() < LEAST:
                continue
            of = [(float((read & is_so).sum()), int(is_so.sum())) for is_so in (did, ~did)]
            s, f = (k / n for k, n in of)
            smooth = [logit((k + 0.5) / (n + 1)) for k, n in of]
            sensitivity += [smooth[0]] if s else []
            false_alarms.append(smooth[1])
            if role not in WELL_READ:
                hardly.append(smooth[0])
                never.append(s == 0)
            print(f"{name:18} {role:12} s {s:.3f}  f {f:.4f}  turns {of[0][1]}")
    for name, found in (
        ("s, where ever read", sensitivity),
        ("s, where not well read", hardly),
        ("f", false_alarms),
    ):
        print(f"logit {name}: mean {np.mean(found):.1f}, sd {np.std(found, ddof=1):.1f}")
    print(f"never read: {sum(never)} of {len(never)} that are not well read")


def of_log(path: str) -> tuple[str, Pairs]:
    """Of each role that labels name, of each turn, whether it did it and whether cues say so."""
    log = logged_users(list(read_log(path)))
    turns = [turn for user in log for turn in user.turns]
    pairs = {
        role: [(role in named(turn.acts), role in cued(turn.text)) for turn in turns]
        for role in Roles(log).labelled
    }
    digits = [cues.DIGIT.search(turn.text) is not None for turn in turns]
    pairs["open_slot"] = [(bool(told_slots(t)), d) for t, d in zip(turns, digits, strict=True)]
    return Path(path).parent.name, pairs


def of_phrases(domain: str) -> tuple[str, Pairs]:
    """The same of our users' phrases."""
    bank = tomllib.loads((files("convgym.domains") / domain / "user_phrases.toml").read_text())
    phrases = [
        (act, text)
        for part in bank.values()
        for act, registers in part.items()
        for texts in registers.values()
        for text in texts
    ]
    return domain, {
        role: [(act.startswith(acts), role in cued(text)) for act, text in phrases]
        for role, acts in ACTS.items()
    }


if __name__ == "__main__":
    main(sys.argv[1:])
