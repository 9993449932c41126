"""The sales response curve: P(deal) as the last price asked goes from the buyer's target to list.

    python scripts/response_curve.py [--tasks 2000] [--split train] [--seed 0] [--personas]

A seller that does everything else by the book asks one price and stands by it:

    price = target + x (list − target)        x = 0, ¼, ½, ¾, 1

Tasks are those of the split in which there is something to sell; every point plays the same ones,
with personas drawn. Beside each share with its 95 % interval (Wilson) stands that of real buyers
(reference: 364 negotiations over goods, by the seller's last price). Exit code 1 where a point is
further than 0.10 from the real one, or the curve rises anywhere.

`--personas` adds the curve of each built-in persona.
"""

from __future__ import annotations

import argparse
import sys
from itertools import count, islice, pairwise
from typing import NamedTuple

import numpy as np

from convgym.domains.sales.desk import SalesDesk
from convgym.domains.sales.tasks import SELL, Task, draw_task
from convgym.domains.sales.vocabulary import ACTIONS, CREATE_QUOTE, LAYOUT
from convgym.engine.acts import AgentTurn, Call
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.evaluation.intervals import wilson
from convgym.policies.sales import OraclePolicy, View
from convgym.users.decisions import DecisionModel
from convgym.users.persona import BUILT_IN, Levels, drawn_levels

RATIOS = (0, 25, 50, 75, 100)
"""x in hundredths."""
REAL = (0.96, 0.94, 0.89, 0.82, 0.66)
LIMIT = 0.10
MAX_TURNS = 50


class FixedPriceSeller(OraclePolicy):
    """The oracle up to the price; then one price, whatever is said to it."""

    name = "fixed price"

    def __init__(self, ratio: int) -> None:
        super().__init__()
        self.ratio = ratio

    def discount(self, task: Task) -> int:
        """Per mille off the list price at which `ratio` is asked of this buyer."""
        exact, rest = divmod((1000 - task.target) * (100 - self.ratio), 100)
        assert not rest, "the targets are chosen so that each ratio is a whole per mille"
        return exact

    def turn(self, desk: SalesDesk, episode: Episode) -> AgentTurn:
        """What it does next."""
        row = np.frombuffer(bytes(episode.belief), np.uint8).astype(np.float32)
        name = self.choose(View(row, LAYOUT))
        act, _, pointer = name.rpartition("_")
        if act == "create_quote":
            quantity, discount = episode.task.quantity, self.discount(episode.task)
            return AgentTurn(calls=(Call(CREATE_QUOTE, quantity, int(pointer), discount),))
        if act == "lower_quote" or name.startswith("deny_"):
            quoted = next(k for k in range(4) if row[LAYOUT[f"told_price_{k}"]])
            name = f"hold_price_{quoted}"
        return desk.turn(episode, ACTIONS[name])


class Point(NamedTuple):
    """One point of the curve."""

    ratio: int
    deals: int
    tasks: int

    @property
    def share(self) -> float:
        """P(deal)."""
        return self.deals / self.tasks


def sells(split: str, number: int) -> list[Task]:
    """The first `number` tasks of a split in which there is something to sell."""
    tasks = (draw_task(split, n) for n in islice(count(), SPLITS[split]))
    return list(islice((task for task in tasks if task.branch == SELL), number))


def deal(task: Task, ratio: int, key: int, levels: Levels, desk: SalesDesk) -> bool:
    """Whether this buyer has bought at this price."""
    episode = Episode(task, key, key, LAYOUT.row())
    desk.open(episode, levels)
    engine = Engine(desk, desk.make_user(DecisionModel()), MAX_TURNS)
    engine.open(episode)
    seller = FixedPriceSeller(ratio)
    while not episode.end:
        engine.apply(episode, seller.turn(desk, episode))
    return bool(episode.diff)


def curve(tasks: list[Task], seed: int = 0, levels: Levels | None = None) -> list[Point]:
    """The whole curve; personas are drawn where none is given."""
    desk, points = SalesDesk(), []
    keys = [child(seed, number) for number in range(len(tasks))]
    for ratio in RATIOS:
        deals = sum(
            deal(task, ratio, key, levels or drawn_levels(key, task.split), desk)
            for task, key in zip(tasks, keys, strict=True)
        )
        points.append(Point(ratio, deals, len(tasks)))
    return points


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--split", default="train", choices=tuple(SPLITS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--personas", action="store_true")
    arguments = parser.parse_args()
    tasks = sells(arguments.split, arguments.tasks)
    points = curve(tasks, arguments.seed)
    print(f"| x | P(deal), {len(tasks)} tasks | 95 % | real buyers | difference |")
    print("|---|---|---|---|---|")
    right = True
    for point, real in zip(points, REAL, strict=True):
        low, high = wilson(point.deals, point.tasks)
        gap = point.share - real
        right &= abs(gap) <= LIMIT
        print(
            f"| {point.ratio / 100:.2f} | {point.share:.3f} | [{low:.3f}, {high:.3f}] "
            f"| {real:.2f} | {gap:+.3f} |"
        )
    right &= all(one.share >= other.share for one, other in pairwise(points))
    if arguments.personas:
        print("\n| persona | " + " | ".join(f"{ratio / 100:.2f}" for ratio in RATIOS) + " |")
        print("|---" * (1 + len(RATIOS)) + "|")
        for name, persona in BUILT_IN.items():
            shares = (point.share for point in curve(tasks, arguments.seed, persona.levels))
            print(f"| {name} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
