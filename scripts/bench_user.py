"""Turns per CPU-second of the simulated user alone: what it decides, and its words.

    python scripts/bench_user.py [--env ConvGym/CustomerService-v0] [--episodes 400] [--rounds 3]

Situations are taken from real conversations with the planner: the user's state just before it
answers, and what it heard. Each is answered anew and put into words, with every source of words,
without and with misspellings. A ratio is to CartPole's steps in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
from bench_env import ENVIRONMENT, cartpole, scripted

from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.envs.registration import ENVIRONMENTS
from convgym.language.style import Style
from convgym.language.voice import RETRIEVAL, TEMPLATE
from convgym.users.persona import own_style

Situation = tuple[Episode, Sequence[Heard]]
PLAIN, TYPOS = 0, 50


class Recorder:
    """A user that notes each situation before it answers."""

    def __init__(self, user: Any) -> None:
        self.user = user
        self.seen: list[Situation] = []

    def open(self, episode: Episode) -> UserTurn:
        turn: UserTurn = self.user.open(episode)
        return turn

    def answer(self, episode: Episode, heard: Sequence[Heard]) -> UserTurn:
        self.seen.append((episode.snapshot(), list(heard)))
        turn: UserTurn = self.user.answer(episode, heard)
        return turn


def situations(
    env: gym.Env[Any, Any], episodes: int, environment: str = ENVIRONMENT
) -> list[Situation]:
    """Every situation of the planner's conversations."""
    base: Any = env.unwrapped
    base._engine.user = recorder = Recorder(base._engine.user)
    env.reset(seed=0)
    for actions in scripted("act", episodes, environment):
        for action in actions:
            env.step(action)
        env.reset()
    base._engine.user = recorder.user
    return recorder.seen


def rate(env: gym.Env[Any, Any], seen: Sequence[Situation], source: str, typos: int) -> float:
    """User turns per CPU-second; an empty source makes no words."""
    base: Any = env.unwrapped
    user, desk, voice = base._engine.user, base._domain, base._words.voice
    fresh = [(episode.snapshot(), heard) for episode, heard in seen]
    styles: list[Style] = [
        replace(own_style(episode.user.persona), typo_rate=typos) for episode, _ in fresh
    ]
    start = time.process_time()
    for (episode, heard), style in zip(fresh, styles, strict=True):
        turn = user.answer(episode, heard)
        if source:
            spoken = desk.spoken(episode, turn)
            voice.say(spoken, style, episode.wording_key, episode.user.turn, source)
    return len(fresh) / (time.process_time() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(ENVIRONMENTS))
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    options = parser.parse_args()
    env = gym.make(options.env, observation="features", action="act")
    seen = situations(env, options.episodes, options.env)
    anchor = cartpole(2.0)
    print(f"{'user turn':<36}{'turns/CPU-s':>12}{'x CartPole':>12}   ({len(seen):,} situations)")
    for name, source, typos in (
        ("decided", "", PLAIN),
        ("and said, templates", TEMPLATE, PLAIN),
        ("and said, templates, misspelt", TEMPLATE, TYPOS),
        ("and said, whole turns", RETRIEVAL, PLAIN),
        ("and said, whole turns, misspelt", RETRIEVAL, TYPOS),
    ):
        best = max(rate(env, seen, source, typos) for _ in range(options.rounds))
        print(f"{name:<36}{best:>12,.0f}{best / anchor:>12.3f}")


if __name__ == "__main__":
    main()
