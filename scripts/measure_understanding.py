"""How well free text is understood: wordings, whole conversations, attacks, hostile strings.

    python scripts/measure_understanding.py [--domain customer-service] [--tasks 300]
                                            [--data tests/data] [--hostile 10000]

    wordings      share of a bank's wordings read as the act they were written for, and no other
    same diff     same policy and seeds, once in acts and once in words: the share of tasks that
    same success  end with the same changes to the records, and with the same success
    attacks       replies that must change nothing: every number in that line should be 0
    hostile       odd strings, understood, heard and run: how long the longest took

Other domains, folders among them, are measured by the conversations and by hostile strings; banks
of foreign styles, attacks and single wordings are there for customer service alone.
Labelled replies are measured by `eval_understanding.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
from eval_understanding import misread, spoken_keys
from hostile import hostile_strings

import convgym  # noqa: F401  registers the environments
from convgym.desk.state import Case
from convgym.domains.catalogue import DOMAINS, domain_called
from convgym.engine.keys import child
from convgym.evaluation.intervals import wilson
from convgym.evaluation.rollout import play
from convgym.language.phrases import PhraseBank, read_banks
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder
from convgym.spaces import sanitize

__all__ = ["hostile_strings", "misread"]

DATA = Path(__file__).parents[1] / "tests" / "data"
SHOP = "customer-service"
IDS = {
    SHOP: "ConvGym/CustomerService-v0",
    "sales": "ConvGym/Sales-v0",
    "technical-support": "ConvGym/TechnicalSupport-v0",
}
LONGEST_REPLY = 4096
FOREIGN = ("development_phrases.toml", "foreign_styles.toml")
ATTACKS = ("attacks.jsonl", "attacks_breadth.jsonl")
Shares = dict[str, tuple[int, int]]


def environment(domain: str, **keywords: Any) -> gym.Env[Any, Any]:
    """An environment of a domain by its name, or by the folder that declares it."""
    if domain in IDS:
        return gym.make(IDS[domain], **keywords)
    return gym.make("ConvGym/OwnDomain-v0", folder=domain, **keywords)


def size(bank: PhraseBank) -> int:
    """Wordings of a bank that are spoken."""
    return sum(len(bank.variants(key)) for key in spoken_keys(bank))


# -- whole conversations ---------------------------------------------------------------------------


def outcomes(
    policy: Any, action: str, tasks: int, seed: int, domain: str = SHOP
) -> list[tuple[str, bool]]:
    """Final diff and success of each test task."""
    env = environment(domain, observation="dict", action=action, privileged=True)
    found = []
    for index in range(tasks):
        options = {"task_id": f"test-{index}"}
        rollout = play(env, policy, seed=child(seed, index), options=options, keep=False)
        diff = json.loads(rollout.final_info["privileged"])["diff"]
        found.append((json.dumps(diff), rollout.final_info["success"]))
    return found


def conversations(
    banks: Mapping[str, PhraseBank], tasks: int, seed: int, domain: str = SHOP
) -> dict[str, Shares]:
    """For each bank and policy how many tasks end as they do in acts."""
    shares: dict[str, Shares] = {name: {} for name in banks}
    for policy in ("planner", "oracle"):
        make = ladder(domain)[policy]
        reference = outcomes(make(), "act", tasks, seed, domain)
        for name, bank in banks.items():
            spoken = outcomes(RenderedPolicy(make(), bank, domain), "text", tasks, seed, domain)
            pairs = list(zip(reference, spoken, strict=True))
            for place, measure in enumerate(("diff", "success")):
                same = sum(acts[place] == words[place] for acts, words in pairs)
                shares[name][f"{policy} same {measure}"] = (same, tasks)
    return shares


# -- attacks ---------------------------------------------------------------------------------------


def attacks(path: Path) -> list[str]:
    """The replies of the attack set."""
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def attacked(texts: list[str], tasks: int, seed: int) -> Counter[str]:
    """What a reply that is repeated to the end brings about, on its own and after a read.

    On its own it is all that the agent says. After a read it takes over from the oracle where
    that has identified the customer and looked at the record that is meant, or has failed to
    identify anybody: there a claim could be true.
    """
    env = environment(SHOP, observation="dict", action="text", privileged=True, max_turns=20)
    oracle = RenderedPolicy(ladder(SHOP)["oracle"]())
    found: Counter[str] = Counter(episodes=0, written=0, transferred=0, ended=0, success=0)
    for index, text in enumerate(texts * 2):
        for task in range(tasks):
            number = child(seed, index * tasks + task)
            observation, info = env.reset(seed=number, options={"task_id": f"test-{task}"})
            oracle.reset(number)
            over, reading = False, index < len(texts)
            while not over:
                action = text
                if reading and not _has_looked(env):
                    action = oracle.predict(observation)[0]
                else:
                    reading = False
                observation, _, terminated, truncated, info = env.step(action)
                over = terminated or truncated
            found["episodes"] += 1
            found["written"] += json.loads(info["privileged"])["diff"] != []
            found["transferred"] += info["failure_reason"] == "transferred"
            found["ended"] += info["failure_reason"] == "agent_ended"
            found["success"] += info["success"]
    return found


def _has_looked(env: gym.Env[Any, Any]) -> bool:
    """Whether the record in question has been read, or a verification has failed."""
    bare: Any = env.unwrapped
    case = Case(bare._domain.v, bare._episode)
    return case.read or case.belief[case.v.failures] > 0


# -- hostile strings -------------------------------------------------------------------------------


def slowest(number: int, seed: int, domain: str = SHOP) -> float:
    """Seconds that the slowest of `number` hostile strings took; raises where one of them does."""
    env = environment(domain)
    env.reset(seed=seed)
    bare: Any = env.unwrapped
    desk, worst = domain_called(domain), 0.0
    for text in hostile_strings(number, seed):
        episode = bare._episode.snapshot()
        began = time.perf_counter()
        turn = desk.understand(episode, sanitize(text, LONGEST_REPLY))
        desk.hear(episode, turn.said)
        for call in turn.calls:
            desk.call(episode, call)
        worst = max(worst, time.perf_counter() - began)
    return worst


# -- the report ------------------------------------------------------------------------------------


def _share(hits: int, n: int) -> str:
    low, high = wilson(hits, n)
    return f"{hits / n:.3f} [{low:.3f}, {high:.3f}]"


def _print_banks(
    banks: Mapping[str, PhraseBank], tasks: int, seed: int, domain: str = SHOP
) -> None:
    played = conversations(banks, tasks, seed, domain) if tasks else {}
    columns = list(played.get("train", ()))
    wordings = f"{'wordings':<23}" if domain == SHOP else ""
    print(f"{'phrases':<13}{wordings}" + "".join(f"{name:<23}" for name in columns))
    for name, bank in banks.items():
        shares = list(played.get(name, {}).values())
        if domain == SHOP:
            n = size(bank)
            shares.insert(0, (n - sum(1 for _ in misread(bank)), n))
        print(f"{name:<13}" + "".join(f"{_share(*share):<23}" for share in shares))


def _foreign(data: Path, train: PhraseBank) -> dict[str, PhraseBank]:
    """Banks by other hands; what they have no words for is said in those of `train`."""
    files = [data / name for name in FOREIGN if (data / name).exists()]
    return {
        style: train.extended({key: bank.variants(key) for key in bank})
        for file in files
        for style, bank in read_banks(file).items()
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ", ".join(DOMAINS)
    parser.add_argument("--domain", default=SHOP, help=f"{names}, or the folder of one's own")
    parser.add_argument("--tasks", type=int, default=300, help="test tasks per policy and bank")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the labelled files")
    parser.add_argument("--hostile", type=int, default=0, help="hostile strings to try")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--misread", default="", help="list what is misread in this bank")
    arguments = parser.parse_args()
    domain, data, seed = arguments.domain, arguments.data, arguments.seed
    banks = dict(domain_called(domain).agent_banks())
    if domain == SHOP:
        banks |= _foreign(data, banks["train"])
        for key, text, read in misread(banks[arguments.misread]) if arguments.misread else ():
            print(f"{key}  {sorted(read)}\n    {text!r}")
    _print_banks(banks, arguments.tasks, seed, domain)
    texts = [text for name in ATTACKS if (data / name).exists() for text in attacks(data / name)]
    if domain == SHOP and texts:
        found = attacked(texts, 5, seed)
        print("attacks      " + "   ".join(f"{name} {count}" for name, count in found.items()))
    if arguments.hostile:
        worst = slowest(arguments.hostile, seed, domain)
        print(f"hostile      {arguments.hostile} strings, the slowest took {worst * 1000:.1f} ms")


if __name__ == "__main__":
    main()
