"""Who writes replies into conversations, for engines that are compared: replies of any sort."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import convgym  # noqa: F401
from convgym.engine.keys import child

_DATA = Path(__file__).parent / "data"


def pick(rng: np.random.Generator, options: Any) -> Any:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


@cache
def written(domain: str) -> list[str]:
    """Replies of people to customers of a domain, and replies that try to trick."""
    names = ("replies_{}_tuning", "replies_{}_held_out", "tricks_{}")
    paths = (_DATA / f"{name.format(domain)}.jsonl" for name in names)
    lines = (line for path in paths for line in path.read_text("utf-8").splitlines())
    return [json.loads(line)["text"] for line in lines]


def singles(env_id: str, episodes: int, seed: int, **keywords: Any) -> list[Any]:
    """Environments in text that were just reset."""
    envs: list[Any] = [
        gym.make(env_id, observation="features", action="text", **keywords).unwrapped
        for _ in range(episodes)
    ]
    for i, env in enumerate(envs):
        env.reset(seed=child(seed, i))
    return envs


class Talker:
    """Joins parts to replies; which parts there are is the domain's: `part`, `value`.

    A part is right in its conversation with the probability `right`.
    """

    banks: Any
    malformed: tuple[str, ...]

    def __init__(self, seed: int, right: float = 0.4, more: float = 0.35) -> None:
        self.rng, self.right, self._more = np.random.default_rng(seed), right, more
        self.policies: dict[int, Any] = {}
        self.heard: list[str] = []

    def part(self, env: Any, right: bool) -> str:
        """A part of a reply."""
        raise NotImplementedError

    def value(self, env: Any, name: str) -> str:
        """What stands in one pair of braces."""
        raise NotImplementedError

    def reply(self, env: Any) -> str:
        """A reply of one or more parts; replies of other conversations are among them."""
        rng = self.rng
        parts = [self.part(env, rng.random() < self.right)]
        while rng.random() < self._more:
            parts.append(self.part(env, rng.random() < self.right))
        rng.shuffle(parts)
        text: str = pick(rng, (" ", " ", "\n")).join(parts)
        self.heard.append(text)
        return text

    def phrase(self, env: Any) -> str:
        """A wording of the domain with values of its own."""
        bank = self.banks[pick(self.rng, ("train", "held_out"))]
        return self.filled(env, pick(self.rng, bank.variants(pick(self.rng, tuple(bank)))))

    def elsewhere(self, env: Any) -> str:
        """What was said before, here or elsewhere."""
        return str(pick(self.rng, self.heard)) if self.heard else "Hello."

    def sample(self, env: Any) -> str:
        """What the action space gives."""
        env.action_space.seed(int(self.rng.integers(1 << 30)))
        return str(env.action_space.sample())

    def broken(self, env: Any) -> str:
        """A call that is none."""
        return str(pick(self.rng, self.malformed))

    def filled(self, env: Any, text: str) -> str:
        """A text with values in its braces: of this conversation mostly, and at times not quite."""
        return re.sub(r"\{(\w+)\}", lambda found: self.value(env, found[1].lower()), text)


class Listener:
    """Notes what the plain desk makes of a reply's claims, with `ground_speech` of a module."""

    def __init__(self, monkeypatch: Any, module: Any) -> None:
        self.said: Any = None
        plain = module.ground_speech

        def ground_speech(*args: Any) -> Any:
            self.said = plain(*args)
            return self.said

        monkeypatch.setattr(module, "ground_speech", ground_speech)
