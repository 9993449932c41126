"""What each trait does: conversations with it low and high, all other traits in the middle.

    python scripts/trait_effects.py [--conversations 400] [--low 0.1] [--high 0.9]

Each row is a mean per conversation with the trait low, with it high, and the 95 % interval of the
difference. A row where the interval holds zero, or lies on the wrong side, is marked, and the
script ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym

import convgym  # noqa: F401  registers the environments
from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.domains.customer_service.world import (
    CATEGORIES,
    COLOURS,
    ITEMS,
    PLANS,
    SIZES,
    STREETS,
    TOWNS,
)
from convgym.language.retrieval import Signature
from convgym.policies.scripted import OraclePolicy, ScriptedPolicy
from convgym.users.persona import TRAITS

ENVIRONMENT = "ConvGym/CustomerService-v0"
_WORD = re.compile(r"[A-Za-z']+")
_MAIL = re.compile(r"\S+@\S+")


@dataclass
class Talk:
    """One conversation as it is measured."""

    turns: list[list[str]] = field(default_factory=list)
    """Names of the acts of each of the customer's turns."""
    texts: list[str] = field(default_factory=list)
    knowledge: str = ""
    success: bool = False

    def count(self, *acts: str) -> int:
        """How often any of the acts occurs."""
        return sum(act in acts for turn in self.turns for act in turn)

    def words(self) -> list[str]:
        """All words said, as they were written."""
        return [word for text in self.texts for word in _WORD.findall(_MAIL.sub(" ", text))]


@cache
def known_words() -> frozenset[str]:
    """Every word of the phrases, and of the items that can stand in them."""
    voice = CustomerServiceDesk().user_voices()["train"]
    phrases = [phrase for act in voice.bank for phrase in voice.bank.variants(act)]
    signatures: list[Signature] = voice.index.signatures()
    phrases += [
        turn.text for one in signatures for r in range(3) for turn in voice.index.turns(one, r, 0)
    ]
    phrases += [name for name, _, _ in ITEMS] + [name for name, _ in PLANS]
    phrases += [*CATEGORIES, *SIZES, *COLOURS, *TOWNS, *STREETS]
    return frozenset(word.lower() for phrase in phrases for word in _WORD.findall(phrase))


def _misspelt(talk: Talk) -> float:
    plain = [w for w in talk.words() if w.islower() and len(w) > 3]
    return sum(word not in known_words() for word in plain) / max(1, len(plain))


_NUMBERS = ("inform_order", "inform_subscription", "inform_charge")


def _wrong_values(talk: Talk) -> float:
    """Values that had to be given again: what a slip of memory costs."""
    slots = ("inform_email", "inform_postcode", *_NUMBERS)
    return float(sum(max(0, talk.count(slot) - 1) for slot in slots))


class Clumsy(OraclePolicy):
    """Knows what to do, and does something else two times in five."""

    name = "oracle, 40 % noise"

    def __init__(self) -> None:
        super().__init__(noise=0.4)


class Effect(NamedTuple):
    """What a trait should do to a measure."""

    trait: str
    measure: str
    policy: type[ScriptedPolicy]
    sign: int
    """+1: more with more of the trait."""
    of: Callable[[Talk], float | None]
    """None where a conversation cannot show it."""


def _looked_up(talk: Talk) -> float | None:
    return float(bool(talk.count(*_NUMBERS))) if talk.knowledge == "looks up" else None


def _pushed(talk: Talk) -> float | None:
    refused = talk.count("accept_alternative", "accept_refusal", "push_back", "ask_alternative")
    return float(talk.count("push_back")) if refused else None


_GIVEN = (*_NUMBERS, "inform_item", "inform_category", "inform_plan", "inform_amount",
          "inform_email")  # fmt: skip
EFFECTS: tuple[Effect, ...] = (
    Effect("patience", "gives up", Clumsy, -1, lambda t: float(t.count("give_up") > 0)),
    Effect("patience", "shows annoyance", Clumsy, -1, lambda t: t.count("frustrated")),
    Effect("expertise", "asks for a meaning", OraclePolicy, -1, lambda t: t.count("ask_meaning")),
    Effect(
        "verbosity", "words per turn", OraclePolicy, +1, lambda t: len(t.words()) / len(t.turns)
    ),
    Effect(
        "formality", "contractions per turn", OraclePolicy, -1,
        lambda t: sum("'" in word for word in t.words()) / len(t.turns),
    ),
    Effect("formality", "thanks, goodbyes", OraclePolicy, +1, lambda t: t.count("thank", "bye")),
    Effect(
        "cooperativeness", "values in the opening", OraclePolicy, +1,
        lambda t: sum(act in _GIVEN for act in t.turns[0]),
    ),
    Effect("cooperativeness", "turns", OraclePolicy, -1, lambda t: len(t.turns)),
    Effect("accuracy", "values given again", OraclePolicy, -1, _wrong_values),
    Effect("compliance", "does look it up", OraclePolicy, +1, _looked_up),
    Effect("compliance", "says in vain to have looked", OraclePolicy, -1,
           lambda t: t.count("no_luck") if t.knowledge == "looks up" else None),
    Effect("assertiveness", "disputes a refusal", OraclePolicy, +1, _pushed),
    Effect("typo_rate", "share of words misspelt", OraclePolicy, +1, _misspelt),
    Effect("scepticism", "asks what for", OraclePolicy, +1, lambda t: t.count("ask_why")),
    Effect("scepticism", "asks if it is sure", OraclePolicy, +1, lambda t: t.count("ask_sure")),
    Effect("curiosity", "asks what comes next", OraclePolicy, +1, lambda t: t.count("ask_next")),
)  # fmt: skip


def converse(policy: ScriptedPolicy, persona: dict[str, float], seeds: Sequence[int]) -> list[Talk]:
    """Conversations with one persona about one thing each, one for each seed."""
    env = gym.make(
        ENVIRONMENT, observation="dict", action="act", persona=persona, privileged=True,
        disable_env_checker=True,
    )  # fmt: skip
    talks = []
    for seed in seeds:
        observation, info = env.reset(seed=seed)
        policy.reset(seed)
        told = json.loads(info["privileged"])
        talk, over = Talk(knowledge=told["requests"][0]["knowledge"]), False
        _note(talk, observation, info)
        while not over:
            action, _ = policy.predict(observation, action_masks=info["action_mask"])
            observation, _, terminated, truncated, info = env.step(action)
            _note(talk, observation, info)
            over = terminated or truncated or json.loads(info["privileged"])["at"] > 0
        talk.success = info["success"]
        talks.append(talk)
    return talks


def _note(talk: Talk, observation: dict[str, Any], info: dict[str, Any]) -> None:
    acts = [act["act"] for act in json.loads(info["user_acts"])]
    if acts:
        talk.turns.append(acts)
        talk.texts.append(observation["message"])


class Difference(NamedTuple):
    """Means at both ends and the 95 % interval of high minus low."""

    low: float
    high: float
    from_: float
    to: float


def difference(low: Sequence[float], high: Sequence[float]) -> Difference:
    """Normal interval for the difference of two independent means (Welch)."""
    means, variances = [], []
    for values in (low, high):
        mean = sum(values) / len(values)
        means.append(mean)
        spread = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
        variances.append(spread / len(values))
    gap, width = means[1] - means[0], 1.96 * math.sqrt(sum(variances))
    return Difference(means[0], means[1], gap - width, gap + width)


def effects(
    conversations: int, low: float = 0.1, high: float = 0.9
) -> list[tuple[Effect, Difference]]:
    """Every effect as it is measured."""

    @cache
    def talks(trait: str, level: float, policy: type[ScriptedPolicy]) -> list[Talk]:
        persona = dict.fromkeys(TRAITS, 0.5) | {"typo_rate": 0.0, trait: level}
        seeds = range(conversations) if level == low else range(10**6, 10**6 + conversations)
        return converse(policy(), persona, seeds)

    found = []
    for effect in EFFECTS:
        ends = [
            [v for talk in talks(effect.trait, level, effect.policy)
             if (v := effect.of(talk)) is not None]
            for level in (low, high)
        ]
        found.append((effect, difference(*ends)))
    return found


def holds(effect: Effect, measured: Difference) -> bool:
    """Whether the whole interval lies on the side that the trait should move it to."""
    return measured.from_ > 0 if effect.sign > 0 else measured.to < 0


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=400)
    parser.add_argument("--low", type=float, default=0.1)
    parser.add_argument("--high", type=float, default=0.9)
    arguments = parser.parse_args()
    print("| trait | measure | agent | low | high | high - low, 95 % | |")
    print("|---|---|---|---|---|---|---|")
    failed = 0
    for effect, d in effects(arguments.conversations, arguments.low, arguments.high):
        good = holds(effect, d)
        failed += not good
        print(
            f"| {effect.trait} | {effect.measure} | {effect.policy.name} | {d.low:.3f} | "
            f"{d.high:.3f} | [{d.from_:+.3f}, {d.to:+.3f}] | {'' if good else 'NO'} |"
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
