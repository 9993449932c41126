"""How well free text is understood: wordings, whole conversations, attacks, hostile strings.

    python scripts/measure_understanding.py [--tasks 300] [--data tests/data] [--hostile 10000]

    wordings      share of a bank's wordings read as the act they were written for, and no other
    same diff     same policy and seeds, once in acts and once in words: the share of tasks that
    same success  end with the same changes to the shop, and with the same success
    attacks       replies that must change nothing: every number in that line should be 0
    hostile       odd strings through sanitize() and understand(): how long the longest took

Labelled replies are measured by `eval_understanding.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

import convgym  # noqa: F401  registers the environments
from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.domains.customer_service.grounding import ground_call, ground_speech
from convgym.domains.customer_service.rules import DENIALS, OFFERS
from convgym.domains.customer_service.understanding import LATE, lexicon, read_speech
from convgym.domains.customer_service.vocabulary import SLOTS, WRITES
from convgym.domains.customer_service.wording import agent_banks
from convgym.engine.keys import child
from convgym.evaluation.intervals import wilson
from convgym.evaluation.rollout import play
from convgym.language.phrases import PhraseBank, read_banks
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import OraclePolicy, PlannerPolicy
from convgym.spaces import sanitize

DATA = Path(__file__).parents[1] / "tests" / "data"
ENVIRONMENT = "ConvGym/CustomerService-v0"
LONGEST_REPLY = 4096
Shares = dict[str, tuple[int, int]]

# -- wordings --------------------------------------------------------------------------------------

VALUES = {
    "order": "W48213",
    "item": "wireless headphones",
    "status": "shipped",
    "date": "14 March",
    "fee": "15",
    "days": "30",
    "address": "7 Harbour View, Exeter",
}
"""What the placeholders of a wording are filled with."""
_EXPECTED = {
    "inform_status": "inform(status=shipped)",
    "inform_eta_coming": "inform(eta=14 March)",
    "inform_eta_delivered": "inform(eta=14 March)",
    "inform_fee_charged": "inform(fee=15)",
    "inform_fee_waived": "inform(fee=0)",
    "inform_channel_original": "inform(channel=original)",
    "inform_channel_credit": "inform(channel=credit)",
    "ask_intent": "ask_intent",
}
_IMPLIED = {  # what a wording may say beside its act: the ground of a refusal, a repeated one
    "inform_eta_delivered": "inform(status=delivered)",
    "deny_not_cancellable": "inform(status=shipped)",
    "deny_already_shipped": "inform(status=shipped)",
    "deny_not_delivered": "inform(status=shipped)",
    "deny_outside_window": "inform(status=delivered)",
    "offer_store_credit": "deny(outside_window)",
}
KEYS = (
    "greet", "ask_intent", *(f"ask_{slot}" for slot in (*SLOTS, "more")),
    "inform_status", "inform_eta_coming", "inform_eta_delivered", "inform_fee_charged",
    "inform_fee_waived", "inform_channel_original", "inform_channel_credit",
    *(f"confirm_{write}" for write in WRITES), *(f"deny_{reason}" for reason in DENIALS),
    *(f"offer_{offer}" for offer in OFFERS), *(f"done_{write}" for write in WRITES),
    "apologise", "close",
)  # fmt: skip
"""What is spoken; a bank also holds the thoughts of tool calls."""
_TOO_LATE = ("deny_not_cancellable", "deny_already_shipped")
_WEIGHTY = ("inform", "confirm", "done", "deny", "offer", "close")
"""Acts that do harm where nobody meant them; a greeting too many does none."""


def expected(key: str) -> str:
    """The label of the act that a wording stands for: `deny(final_sale)`."""
    if key in _EXPECTED:
        return _EXPECTED[key]
    act, _, slot = key.partition("_")
    return f"{act}({slot})" if slot else act


def misread(bank: PhraseBank) -> Iterator[tuple[str, str, set[str]]]:
    """Key, text and labels read of each wording that is not read as what it is."""
    for key in KEYS:
        for phrase in bank.variants(key):
            text = re.sub(r"\{(\w+)\}", lambda match: VALUES[match.group(1)], phrase)
            read = {str(claim) for claim in read_speech(text)}
            if key in _TOO_LATE and f"deny({LATE})" in read:
                # Too late for what, the conversation tells: the customer asked for one of them.
                read = read - {f"deny({LATE})"} | {expected(key)}
            extra = {x for x in read if x.startswith(_WEIGHTY)}
            extra -= {expected(key), _IMPLIED.get(key, "")}
            if expected(key) not in read or extra:
                yield key, text, read


def size(bank: PhraseBank) -> int:
    """Wordings of a bank that are spoken."""
    return sum(len(bank.variants(key)) for key in KEYS)


# -- whole conversations ---------------------------------------------------------------------------


def outcomes(policy: Any, action: str, tasks: int, seed: int) -> list[tuple[str, bool]]:
    """Final diff and success of each test task."""
    env = gym.make(ENVIRONMENT, observation="dict", action=action, privileged=True)
    found = []
    for index in range(tasks):
        options = {"task_id": f"test-{index}"}
        rollout = play(env, policy, seed=child(seed, index), options=options, keep=False)
        diff = json.loads(rollout.final_info["privileged"])["diff"]
        found.append((json.dumps(diff), rollout.final_info["success"]))
    return found


def conversations(banks: Mapping[str, PhraseBank], tasks: int, seed: int) -> dict[str, Shares]:
    """For each bank and policy how many tasks end as they do in acts."""
    shares: dict[str, Shares] = {name: {} for name in banks}
    for make in (PlannerPolicy, OraclePolicy):
        reference = outcomes(make(), "act", tasks, seed)
        for name, bank in banks.items():
            spoken = outcomes(RenderedPolicy(make(), bank), "text", tasks, seed)
            pairs = list(zip(reference, spoken, strict=True))
            for place, measure in enumerate(("diff", "success")):
                same = sum(acts[place] == words[place] for acts, words in pairs)
                shares[name][f"{make.name} same {measure}"] = (same, tasks)
    return shares


# -- attacks ---------------------------------------------------------------------------------------


def attacks(path: Path) -> list[str]:
    """The replies of the attack set."""
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def attacked(texts: list[str], tasks: int, seed: int) -> Counter[str]:
    """What a reply that is repeated to the end brings about, on its own and after a read.

    On its own it is all that the agent says. After a read it takes over from the oracle where
    that has identified the customer and looked at the order: there a claim could be true.
    """
    env = gym.make(ENVIRONMENT, observation="dict", action="text", privileged=True, max_turns=20)
    oracle = RenderedPolicy(OraclePolicy())
    found: Counter[str] = Counter(episodes=0, written=0, transferred=0, ended=0, success=0)
    for index, text in enumerate(texts * 2):
        for task in range(tasks):
            number = child(seed, index * tasks + task)
            observation, info = env.reset(seed=number, options={"task_id": f"test-{task}"})
            oracle.reset(number)
            over, reading = False, index < len(texts)
            while not over:
                action = text
                if reading and '"status"' not in info["tool_results"]:
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


# -- hostile strings -------------------------------------------------------------------------------

_EVERY_VALUE = " ".join(
    ("W48213 W51977 14 March 15% 0% 7 Harbour Road, Leith EH6 5AB lena@example.org",
     "processing packed shipped delivered damaged original store credit cancel return yes")
)  # fmt: skip
_PIECES = (
    "", " ", "\n", "\t", "\0", "\ud800", "\udfff", "\u0301", "\u0f73", "\uff9e", "\ufdfa", "👍🏽",
    "not ", "no ", "never ", "unless ", "if ", "before ", "shipped ", "W48213 ", "W48213,",
    "14 March ", "1 March, ", "15% fee, ", "fee ", "return ", "cancel ", "delivered ",
    "store credit ", "shall i cancel ", "has been ", "your address ", "7 Harbour View ",
    "?", "!", ".", ",", ";", "|", "* ", " - ", "1) ", "'", '"', "`", "```json\n", "\\",
    "(", ")", "[", "]", "{", "}", "<", ">", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "<|im_start|>", "<|im_end|>", "[INST]", '{"name": ', '{"tool_calls": [',
    '{"name": "cancel_order", "arguments": {"order": "W48213"}',
    '{"function": {"name": "x", "arguments": "{', "a.", "a@", "@.", "1e999", "-0", "NaN", "word ",
    _EVERY_VALUE,
)  # fmt: skip


def hostile_strings(number: int, seed: int = 0) -> Iterator[str]:
    """Seeded strings that nobody sane would send; every hundredth is very long."""
    yield from (
        "",
        "a" * 2**20,
        "\0" * 2**20,
        "e" + "\u0301\u0323" * 32_000,
        "[" * 100_000,
        "." * 4000 + "x",
        "@." * 2000 + "x",
        ("a" + "._" * 20) * 100,
        "{" + " " * 4000,
        "not " * 1000,
        "it has been cancelled and the return has been created " * 80,
        '{"name": ' * 20_000,
        '{"name": "x", "arguments": ' + '{"a": ' * 50_000,
        "<think>" * 50_000,
        "<tool_call>" * 50_000,
        "<tool_call>{}</tool_call>" * 10_000,
    )
    rng = random.Random(seed)
    cues = sorted(lexicon().phrases())
    for place in range(16, number):
        length = 4000 if place % 100 == 0 else rng.choice((1, 3, 10, 40, 200))
        kind = rng.randrange(4)
        if kind == 0:  # one piece over and over
            yield rng.choice(_PIECES) * length * 5
        elif kind == 1:  # any pieces
            yield "".join(rng.choices(_PIECES, k=length))
        elif kind == 2:  # cue words without sense
            yield " ".join(rng.choices(cues, k=length))
        else:  # any characters at all
            yield "".join(chr(rng.randrange(0x110000)) for _ in range(length))


def slowest(number: int, seed: int) -> float:
    """Seconds that the slowest of `number` hostile strings took; raises where one of them does."""
    env = gym.make(ENVIRONMENT)
    env.reset(seed=seed)
    desk, episode = CustomerServiceDesk(), env.unwrapped._episode  # type: ignore[attr-defined]
    worst = 0.0
    for text in hostile_strings(number, seed):
        began = time.perf_counter()
        turn = desk.understand(episode, sanitize(text, LONGEST_REPLY))
        ground_speech(desk.shop, episode, turn.said)
        for call in turn.calls:
            ground_call(desk.shop, episode, call)
        worst = max(worst, time.perf_counter() - began)
    return worst


# -- the report ------------------------------------------------------------------------------------


def _share(hits: int, n: int) -> str:
    low, high = wilson(hits, n)
    return f"{hits / n:.3f} [{low:.3f}, {high:.3f}]"


def _print_banks(banks: Mapping[str, PhraseBank], tasks: int, seed: int) -> None:
    played = conversations(banks, tasks, seed) if tasks else {}
    columns = list(played.get("train", ()))
    print(f"{'phrases':<13}{'wordings':<23}" + "".join(f"{name:<23}" for name in columns))
    for name, bank in banks.items():
        n = size(bank)
        shares = [(n - sum(1 for _ in misread(bank)), n), *played.get(name, {}).values()]
        print(f"{name:<13}" + "".join(f"{_share(*share):<23}" for share in shares))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=300, help="test tasks per policy and bank")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the labelled files")
    parser.add_argument("--hostile", type=int, default=0, help="hostile strings to try")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--misread", default="", help="list what is misread in this bank")
    arguments = parser.parse_args()
    banks = dict(agent_banks())
    for name in ("development_phrases.toml", "foreign_styles.toml"):
        if (arguments.data / name).exists():
            for style, bank in read_banks(arguments.data / name).items():
                banks[style] = banks["train"].extended({key: bank.variants(key) for key in bank})
    if arguments.misread:
        for key, text, read in misread(banks[arguments.misread]):
            print(f"{key}  {sorted(read)}\n    {text!r}")
    _print_banks(banks, arguments.tasks, arguments.seed)
    if (arguments.data / "attacks.jsonl").exists():
        found = attacked(attacks(arguments.data / "attacks.jsonl"), 5, arguments.seed)
        print("attacks      " + "   ".join(f"{name} {count}" for name, count in found.items()))
    if arguments.hostile:
        worst = slowest(arguments.hostile, arguments.seed)
        print(f"hostile      {arguments.hostile} strings, the slowest took {worst * 1000:.1f} ms")


if __name__ == "__main__":
    main()
