"""Tasks drawn in compiled code are those that the domains draw one by one; their records."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from twins import engine_of

from convgym.domains.catalogue import domain_called
from convgym.engine.tasks import SPLITS

LIBRARY = str(Path(__file__).parent / "data" / "library_domain")
ENVIRONMENTS = {
    "customer-service": {"id": "ConvGym/CustomerService-v0"},
    "technical-support": {"id": "ConvGym/TechnicalSupport-v0"},
    "sales": {"id": "ConvGym/Sales-v0"},
    "library": {"id": "ConvGym/OwnDomain-v0", "folder": LIBRARY},
}
EVERY = [
    (name, split)
    for name in ENVIRONMENTS
    for split in domain_called(LIBRARY if name == "library" else name).splits
]


def assert_drawn_alike(name, split, numbers):
    engine = engine_of(gym.make(**ENVIRONMENTS[name]))
    plain, drawn = np.zeros(len(numbers), engine.task), np.zeros(len(numbers), engine.task)
    drawn.view(np.uint8)[:] = 77  # what was there before does not show
    for row, number in enumerate(numbers.tolist()):
        engine.compile(split, number, plain[row])
    rows = np.random.default_rng(0).permutation(len(numbers)).astype(np.int32)
    engine.draw(split, numbers[rows], rows, drawn)
    for field in engine.task.names:
        assert np.array_equal(plain[field], drawn[field]), f"{field} of {split}"


@pytest.mark.parametrize(("name", "split"), EVERY)
def test_drawn_tasks_are_the_compiled_ones(name, split):
    assert_drawn_alike(name, split, np.arange(120))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split"), EVERY)
def test_many_drawn_tasks_are_the_compiled_ones(name, split):
    assert_drawn_alike(name, split, np.random.default_rng(0).permutation(SPLITS[split])[:4000])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_all_engines_of_a_domain_share_their_dtypes(name):
    # Compiled code is found by them, and slowly where they are only equal.
    one, other = (engine_of(gym.make(**ENVIRONMENTS[name])) for _ in range(2))
    assert one.episode is other.episode and one.task is other.task
