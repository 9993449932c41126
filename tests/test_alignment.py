"""Every converter shows every transition of every kind of dataset as it was recorded.

A new converter is a line in `NUMBERS` or `WORDS`, a new kind of dataset one in `KINDS`.
"""

import contextlib
import copy
import importlib.util
import io
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Text

import convgym  # noqa: F401  registers the environments
from convgym.data.collection import collect_episodes
from convgym.data.episodes import write_dataset
from convgym.data.mixture import BatchMixture
from convgym.errors import DatasetError
from convgym.policies.batched import BatchRandomPolicy, RowPolicies
from convgym.policies.null import END
from convgym.policies.roster import ladder
from convgym.spaces import CHARSET
from trainers.alignment import CONVERTERS, Held, mismatches, plain_loop

minari = pytest.importorskip("minari")
pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("stable_baselines3", reason="stable_baselines3 is not installed")
with contextlib.redirect_stderr(io.StringIO()):  # gym's notice
    pytest.importorskip("d3rlpy", reason="d3rlpy is not installed")

NUMBERS = {
    "d3rlpy",
    "d3rlpy, back",
    "torch transitions",
    "torch windows, left",
    "torch windows, right",
    "Stable-Baselines3",
    "Stable-Baselines3, back",
}
WORDS = {"chat turns", "chat tokens"}


class Sampler:
    """Takes any action of the environment's space, or hangs up; a policy that looks at nothing."""

    name = "sampler"

    def __init__(self, env):
        self._space = copy.deepcopy(env.action_space)

    def reset(self, seed):
        self._space.seed(seed % 2**32)

    def predict(self, observation, state=None, episode_start=None, deterministic=False, **_):
        action = self._space.sample()
        ends = isinstance(self._space, Text) and self._space.np_random.random() < 0.2
        return END if ends else action, state


def played(name, domain, observation, action):
    """60 short conversations: some end by themselves, some at the first turn, some are cut off."""
    keywords = {"observation": observation, "action": action, "reward": "milestones"}
    env = gym.make(name, **keywords, max_turns=5)
    envs = gym.make_vec(name, num_envs=8, **keywords, max_turns=5)
    planner = ladder(domain)["planner"]
    policy = BatchMixture([(BatchRandomPolicy(), 0.6), (RowPolicies(lambda: planner(0.2)), 0.4)])
    if action != "act":
        policy = RowPolicies(lambda: Sampler(env))
    elif observation not in ("features", "dict"):  # which alone the planner can read
        policy = BatchRandomPolicy()
    return write_dataset(
        f"convgym/aligned-{domain}-{observation}-{action}-v0",
        env,
        collect_episodes(envs, policy, 60, seed=1),
        description="A few conversations.",
        ref_min_score=0.0,
        ref_max_score=1.0,
        algorithm_name=policy.name,
    )


def drawn(dataset_id, shown, acted):
    """Random episodes of 1 to 6 turns, every second one cut off, all rewards different."""
    rng, buffers = np.random.default_rng(0), []
    for index in range(40):
        length = 1 if index < 4 else int(rng.integers(2, 7))
        last = np.arange(1, length + 1) == length
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                observations=[shown.sample() for _ in range(length + 1)],
                actions=[acted.sample() for _ in range(length)],
                rewards=rng.normal(size=length),
                terminations=last & (index % 2 == 0),
                truncations=last & (index % 2 == 1),
                infos={},
            )
        )
    with pytest.warns(UserWarning):
        return minari.create_dataset_from_buffers(
            dataset_id, buffers, observation_space=shown, action_space=acted
        )


SERVICE, SUPPORT, SALES = (
    (f"ConvGym/{name}-v0", domain)
    for name, domain in (
        ("CustomerService", "customer-service"),
        ("TechnicalSupport", "technical-support"),
        ("Sales", "sales"),
    )
)
KINDS = {
    "customer service, features, acts": (NUMBERS, lambda: played(*SERVICE, "features", "act")),
    "technical support, features, acts": (NUMBERS, lambda: played(*SUPPORT, "features", "act")),
    "sales, features, acts": (NUMBERS, lambda: played(*SALES, "features", "act")),
    "customer service, dict, acts": (NUMBERS, lambda: played(*SERVICE, "dict", "act")),
    "customer service, message, texts": (WORDS, lambda: played(*SERVICE, "message", "text")),
    "technical support, message, texts": (WORDS, lambda: played(*SUPPORT, "message", "text")),
    "sales, message, texts": (WORDS, lambda: played(*SALES, "message", "text")),
    "customer service, transcript, texts": (WORDS, lambda: played(*SERVICE, "transcript", "text")),
    "sales, dict, texts": (WORDS, lambda: played(*SALES, "dict", "text")),
    "technical support, message, acts": (set(), lambda: played(*SUPPORT, "message", "act")),
    "customer service, embedding, acts": (NUMBERS, lambda: played(*SERVICE, "embedding", "act")),
    "sales, embedding, embedding": (NUMBERS, lambda: played(*SALES, "embedding", "embedding")),
    "drawn vectors, vectors": (NUMBERS, lambda: drawn("vectors-v0", VECTORS, ARM)),
    "drawn vectors, acts": (NUMBERS, lambda: drawn("acts-v0", VECTORS, Discrete(6, seed=1))),
    "drawn texts, texts": (WORDS, lambda: drawn("texts-v0", WORDED, WORDED)),
}
VECTORS, ARM = Box(-1, 1, (5,), seed=1), Box(-3, 1, (4,), seed=1)
WORDED = Text(40, min_length=0, charset=CHARSET, seed=1)


class Rolled(Held):
    """A dataset with one column of every episode moved by one turn."""

    def __init__(self, dataset, column):
        super().__init__(dataset)
        self._episodes = [rolled(episode, column) for episode in self._episodes]


def rolled(episode, column):
    values = getattr(episode, column)
    moved = np.roll(values, 1, 0) if isinstance(values, np.ndarray) else values[1:] + values[:1]
    return replace(episode, **{column: moved})


@pytest.fixture(scope="module")
def dataset_of(tmp_path_factory):
    """The dataset of a kind, made when it is first asked for."""
    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = Held(KINDS[kind][1]())
        return made[kind]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        yield of


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_episodes_of_one_turn_and_of_many_ended_and_cut_off(dataset_of, kind):
    dataset = dataset_of(kind)
    episodes = list(dataset.iterate_episodes())
    assert {bool(episode.terminations[-1]) for episode in episodes} == {False, True}
    assert {1} < {len(episode) for episode in episodes} and len(episodes) >= 40
    assert len(list(plain_loop(dataset))) == dataset.total_steps


@pytest.mark.parametrize("name", CONVERTERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_transition_is_the_recorded_one(dataset_of, kind, name):
    dataset, convert = dataset_of(kind), CONVERTERS[name]
    if name not in KINDS[kind][0]:
        with pytest.raises(DatasetError):
            mismatches(dataset, convert)
        return
    compared, wrong = mismatches(dataset, convert)
    assert wrong == 0 and compared >= dataset.total_steps
    assert {"action", "reward"} <= set(next(iter(convert(dataset)))[1])


def test_every_converter_takes_numbers_or_words():
    assert set(CONVERTERS) == NUMBERS | WORDS


@pytest.mark.parametrize("column", ["observations", "actions", "rewards"])
@pytest.mark.parametrize("name", CONVERTERS)
def test_a_converter_that_shifts_a_column_is_found_out(dataset_of, name, column):
    kind = "drawn texts, texts" if name in WORDS else "drawn vectors, acts"
    if (name, column) == ("chat tokens", "observations"):
        pytest.skip("tokens are compared by what the agent said")
    dataset = dataset_of(kind)
    compared, wrong = mismatches(dataset, lambda data: CONVERTERS[name](Rolled(data, column)))
    assert compared >= dataset.total_steps and wrong > compared / 4


def test_observations_joined_over_episodes_beside_fewer_actions_are_found_out(dataset_of):
    """What d3rlpy's own reader does: every episode after the first is read too early."""
    dataset = dataset_of("drawn vectors, acts")

    def joined(data):
        episodes = list(data.iterate_episodes())
        rows = np.concatenate([episode.observations for episode in episodes])
        return ((n, {"observation": rows[n]}) for n in range(data.total_steps))

    first = len(next(iter(dataset.iterate_episodes())))
    assert mismatches(dataset, joined) == (dataset.total_steps, dataset.total_steps - first)


def test_a_transition_too_few_or_too_many_is_found_out(dataset_of):
    dataset = dataset_of("drawn vectors, acts")
    steps = dataset.total_steps
    whole = [(n, {}) for n in range(steps)]
    assert mismatches(dataset, lambda _: whole) == (steps, 0)
    assert mismatches(dataset, lambda _: whole[:-3]) == (steps - 3, 3)
    assert mismatches(dataset, lambda _: [*whole, (steps, {})]) == (steps + 1, 1)


# The script


@pytest.fixture
def script():
    path = Path(__file__).parents[1] / "scripts/check_alignment.py"
    spec = importlib.util.spec_from_file_location("check_alignment", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_prints_a_table_and_fails_where_something_differs(
    dataset_of, script, monkeypatch, capsys
):
    steps = dataset_of("drawn vectors, acts").total_steps
    monkeypatch.setattr(sys, "argv", ["check_alignment.py", "acts-v0"])
    assert script.main() == 0
    lines = {line[2:27].strip(): line.split()[-4:] for line in capsys.readouterr().out.splitlines()}
    assert lines["d3rlpy"] == [str(steps), "compared", "0", "mismatches"]
    assert lines["chat turns"][-1] == "-"
    monkeypatch.setitem(script.CONVERTERS, "d3rlpy", lambda _: [])
    assert script.main() == 1
    assert f"{steps} mismatches" in capsys.readouterr().out
