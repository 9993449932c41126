"""How well words tell what labelled turns do: the priors of `convgym.calibration.misreading`.

    python scripts/cue_readings.py shared/data/multidogo/train.jsonl.gz shared/data/multiwoz/…
"""

import sys
from pathlib import Path

import numpy as np
from scipy.special import logit

from convgym.calibration.parameters import told_slots
from convgym.calibration.roles import ROLES, Roles, cued, named
from convgym.calibration.signatures import logged_users
from convgym.data import cues
from convgym.data.logs import read_log

LEAST = 20
"""Turns that must have done it."""


def main(paths: list[str]) -> None:
    rates = []
    for path in paths:
        log = logged_users(list(read_log(path)))
        turns = [turn for user in log for turn in user.turns]
        pairs = {
            role: [(role in named(turn.acts), role in cued(turn.text)) for turn in turns]
            for role in Roles(log).labelled
        }
        pairs["told a slot"] = [
            (bool(told_slots(t)), cues.DIGIT.search(t.text) is not None) for t in turns
        ]
        for role in (*ROLES, "told a slot"):
            did, read = np.array(pairs.get(role, [(False, False)])).T
            if did.sum() < LEAST:
                continue
            of = [(float((read & is_so).sum()), int(is_so.sum())) for is_so in (did, ~did)]
            rates.append([(k + 0.5) / (n + 1) for k, n in of])
            s, f = (k / n for k, n in of)
            print(f"{Path(path).parent.name:12} {role:12} s {s:.3f}  f {f:.4f}  turns {of[0][1]}")
    for name, column in zip(("s", "f"), logit(rates).T, strict=True):
        print(f"logit {name}: mean {column.mean():.1f}, sd {column.std(ddof=1):.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
