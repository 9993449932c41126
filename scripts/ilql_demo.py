"""A language model that learns from recorded conversations to talk better than any of them.

    python scripts/ilql_demo.py [--seeds 0 1 2] [--data majority-bad] [--out rows.json]

The toy dialogue in tokens, 1,500 conversations of agents that are good in one half of a
conversation only: SFT on all of them, SFT on the best fifth, ILQL over the SFT model, and the best
of eight SFT replies by ILQL's values; each plays 2,000 new conversations, beside the most that any
agent can earn. All settings were fixed on seeds 10 to 12. Exits with an error where ILQL's mean
over the seeds is not twice that of SFT, or not 85 % of the best.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from trainers.llm.ilql import ILQLConfig
from trainers.llm.sft import SFTConfig
from trainers.llm.token_models import TokenGRU
from trainers.toy_dialogue import MAJORITY_BAD, majority_bad, toy_model
from trainers.toy_tokens import (
    END,
    LONGEST,
    WORDS,
    Agent,
    best_return,
    converse,
    hasty_and_slow,
    mean_return,
    record_tokens,
    text_of,
)

DATA = {
    "hasty-and-slow": (hasty_and_slow, (0.5, 0.5)),
    "majority-bad": (majority_bad, MAJORITY_BAD),
}
MODEL = toy_model(turn_cost=0.02)
CONVERSATIONS, PLAYED = 1500, 2000
WIDTH, SFT_STEPS, FILTERED_STEPS, ILQL_STEPS = 64, 450, 200, 600
SAYS = {"end": END, "limit": LONGEST}


def learn(data: str, seed: int) -> tuple[dict[str, Agent], float]:
    """The agents by name, and the mean return of what they learnt from."""
    policies, shares = DATA[data]
    rows = record_tokens(policies(), CONVERSATIONS, MODEL, shares=shares, seed=seed)

    def gru() -> TokenGRU:
        return TokenGRU(len(WORDS), WIDTH, seed)

    sft = SFTConfig(seed=seed).create(gru()).fit(rows, SFT_STEPS)
    filtered = SFTConfig(seed=seed, top_share=0.2).create(gru()).fit(rows, FILTERED_STEPS)
    config = ILQLConfig(seed=seed, discount=0.95, beta=16.0)
    ilql = config.create(sft.model).fit(rows, ILQL_STEPS)
    cloned, best, moved = (learner.policy(**SAYS, seed=seed) for learner in (sft, filtered, ilql))

    return {
        "SFT": cloned.reply,
        "SFT, greedy": lambda said: cloned.reply(said, deterministic=True),
        "SFT of the best fifth": best.reply,
        "best of 8 by value": ilql.best_of(**SAYS, seed=seed).reply,
        "ILQL": moved.reply,
    }, mean_return(rows)[0]


def scores(data: str, seed: int) -> dict[str, float]:
    """Mean return of the data and of each agent, and the CPU seconds of it all."""
    began = time.process_time()
    agents, recorded = learn(data, seed)
    found = {"data": recorded}
    for name, agent in agents.items():
        rows = converse(agent, PLAYED, MODEL, seed=1_000_000 + seed)
        found[name], error = mean_return(rows)
        print(f"  {name:<22} {found[name]:6.3f} ± {error:.3f}", flush=True)
    print(f"  said by {name}: {text_of(rows[0].input_ids)}")
    return {**found, "CPU seconds": time.process_time() - began}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", choices=list(DATA), default="hasty-and-slow")
    parser.add_argument("--out", type=Path, help="the numbers as JSON")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for seed in given.seeds:
        print(f"seed {seed}", flush=True)
        found.append(scores(given.data, seed))
    best = best_return(MODEL)
    print(f"\n{'mean return':<24} {'  '.join(f'seed {seed}' for seed in given.seeds)}    mean")
    for name in found[0]:
        each = [row[name] for row in found]
        print(f"{name:<24} {'  '.join(f'{x:6.3g}' for x in each)}  {np.mean(each):6.3g}")
    print(f"{'the best there is':<24} {best:.3f}, by dynamic programming")
    if given.out:
        rows = [{"seed": seed, **row} for seed, row in zip(given.seeds, found, strict=True)]
        given.out.write_text(json.dumps({"best": best, "rows": rows}, indent=1) + "\n", "utf-8")
    sft, ilql = (float(np.mean([row[name] for row in found])) for name in ("SFT", "ILQL"))
    ratio = f"{ilql / sft:.1f} × SFT" if sft > 0 else "no multiple of SFT, which earns nothing,"
    print(f"ILQL is {ratio} and {ilql / best:.0%} of the best")
    if sft <= 0 or ilql < 2 * sft or ilql < 0.85 * best:
        sys.exit("short of twice a positive SFT return and 85 % of the best")


if __name__ == "__main__":
    main()
