"""Steps per second of the batched desk beside the plain one and a vectorised CartPole.

    python scripts/bench_batch.py [--seconds 2]

One run on one core measures all of them, so that their ratios hold where absolute numbers
do not. Everything a driver needs is inside: masks, random legal actions, and new episodes
for those that ended. CartPole is Gymnasium's own numpy implementation, with random actions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from numpy.typing import NDArray

from convgym.domains.customer_service.batch import BatchedCustomerService, Tasks
from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.domains.customer_service.vocabulary import ACTIONS, LAYOUT, U
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.users.agenda import AgendaUser
from convgym.users.agenda_batch import draw_personas
from convgym.users.persona import draw_levels

MAX_TURNS, TASKS = 20, 4096
Step = Callable[[], None]


def plain_loop(rng: np.random.Generator) -> Step:
    """One conversation after the other, in plain Python."""
    desk = CustomerServiceDesk()
    engine = Engine(desk, AgendaUser(U), MAX_TURNS)
    tasks = [desk.task("train", number) for number in range(TASKS)]

    def begin() -> Episode:
        key = int(rng.integers(2**63))
        episode = Episode(tasks[rng.integers(TASKS)], key, key, LAYOUT.row())
        desk.open(episode, draw_levels(key))
        engine.open(episode)
        return episode

    episode = begin()

    def step() -> None:
        nonlocal episode
        legal = np.flatnonzero(ACTIONS.mask(np.frombuffer(bytes(episode.belief), np.uint8)))
        engine.apply(episode, desk.turn(episode, int(legal[rng.integers(len(legal))])))
        if episode.end:
            episode = begin()

    return step


def batch(n: int, rng: np.random.Generator) -> Step:
    """n conversations as arrays."""
    desk = CustomerServiceDesk()
    tasks = Tasks([desk.task("train", number) for number in range(TASKS)])
    service, actions = BatchedCustomerService(n, MAX_TURNS), np.zeros(n, dtype=np.int64)

    def opening(count: int) -> tuple[Tasks, NDArray[np.uint64], NDArray[np.int64]]:
        user_keys = rng.integers(2**63, size=count).astype(np.uint64)
        return tasks[rng.integers(TASKS, size=count)], user_keys, draw_personas(user_keys)

    service.open(*opening(n))

    def step() -> None:
        masks, rows = service.masks(), np.arange(n)
        while len(rows):  # draw again where the draw was not legal
            actions[rows] = rng.integers(len(ACTIONS), size=len(rows))
            rows = rows[masks[rows, actions[rows]] == 0]
        service.step(actions)
        ended = np.flatnonzero(service.episodes.end)
        if len(ended):
            service.reopen(ended, *opening(len(ended)))

    return step


def cart_pole(n: int, rng: np.random.Generator) -> Step:
    """Gymnasium's vectorised CartPole."""
    env = gymnasium.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point")
    env.reset(seed=0)

    def step() -> None:
        env.step(rng.integers(2, size=n))

    return step


def rate(step: Step, rows: int, seconds: float) -> float:
    """Rows stepped per second; the first tenth is warming up."""
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds / 10:
        step()
    begin = time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        step()
        steps += 1
    return steps * rows / passed


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="per row of the table")
    seconds, rng = parser.parse_args().seconds, np.random.default_rng(0)
    rates = {"plain loop": rate(plain_loop(rng), 1, seconds)}
    for n in (1, 8, 64, 512, 4096):
        rates[f"batch of {n}"] = rate(batch(n, rng), n, seconds)
    rates["CartPole of 512"] = rate(cart_pole(512, rng), 512, seconds)
    print(f"{'':<16} {'steps/s':>10} {'× plain':>8} {'× CartPole':>10}")
    for name, value in rates.items():
        of_plain, of_cart_pole = value / rates["plain loop"], value / rates["CartPole of 512"]
        print(f"{name:<16} {value:>10,.0f} {of_plain:>8.2f} {of_cart_pole:>10.4f}")


if __name__ == "__main__":
    main()
