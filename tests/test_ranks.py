"""Several processes learn as one: the same gradient, the same steps, one checkpoint."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs the extra llm")

import torch
from forked_ranks import on_ranks
from test_policy_update import OBJECTIVES, prepared, weights
from toy_collector import ToyCollector, toy_model

from convgym.errors import InvalidConfiguration
from trainers.llm import policy_optimizer
from trainers.llm.policy_config import Critic, PolicyOptimizerConfig, TrustRegion
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.ranks import ProcessGroup, Ranks, own_rows, ranks_here
from trainers.llm.run_checkpoints import read_run, write_run
from trainers.llm.seed_shares import seed_shares, together

TESTS = Path(__file__).parent
BY_THE_CLOCK = {
    "generation_seconds", "update_seconds", "generation_tokens_per_second",
    "update_tokens_per_second",
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def close(one, other, tolerance):
    """Rows of two runs, but for the clock."""
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        assert first.keys() == second.keys()
        for name in first.keys() - BY_THE_CLOCK:
            assert first[name] == pytest.approx(second[name], rel=tolerance, abs=tolerance), name


# -- shares ----------------------------------------------------------------------------------------


def test_seeds_in_shares_and_back():
    """A seed that comes twice is in one share, so that its members go on counting."""
    seeds = [8, 3, 8, 5, 9]
    shares = seed_shares(seeds, 2)
    assert shares == [[0, 1, 2], [3, 4]]
    found = [
        [f"{seeds[place]}.{place}.{member}" for place in share for member in range(2)]
        for share in shares
    ]
    joined = [f"{seed}.{place}.{member}" for place, seed in enumerate(seeds) for member in range(2)]
    assert together(shares, found, 2) == joined
    assert seed_shares(seeds, 1) == [[0, 1, 2, 3, 4]]
    assert seed_shares(seeds, 9) == [[0, 2], [1], [3], [4]] and seed_shares([], 3) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_row_has_one_rank_and_ranks_have_as_much_to_do(size):
    lengths = torch.as_tensor(np.random.default_rng(0).integers(10, 60, 100))
    index = torch.randperm(100, generator=torch.Generator().manual_seed(0))[:80]
    ranks = [Ranks() for _ in range(size)]
    for rank, one in enumerate(ranks):
        one.rank, one.size = rank, size
    own = [own_rows(index, lengths, one) for one in ranks]
    assert sorted(torch.cat(own).tolist()) == sorted(index.tolist())
    loads = [int(lengths[rows].sum()) for rows in own]
    assert max(loads) - min(loads) <= 2 * 60
    assert all((rows[1:] > rows[:-1]).all() for rows in own if size > 1)


# -- one step --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_the_step_of_ranks_is_the_step_of_one(name):
    """Plain steps of rate 1, so that the difference of weights is the gradient."""

    def moved(ranks):
        update, batch = prepared(OBJECTIVES[name], tokens_per_micro_batch=64)
        update.ranks = ranks
        before = weights(update)
        update.run(batch, 0)
        return (weights(update) - before).numpy()

    alone = moved(Ranks())
    size = abs(alone).max()
    assert size > 1e-4
    for found in on_ranks(2, moved):
        assert found == pytest.approx(alone, abs=1e-6 * size, rel=0)


def test_more_ranks_than_rows():
    """Who has nothing to do brings nothing, and takes the same step."""

    def moved(ranks):
        update, batch = prepared(OBJECTIVES["value"])
        update.ranks = ranks
        row = update._step(batch, torch.arange(3), measures_sampler=True)
        return weights(update).numpy(), row

    alone, row = moved(Ranks())
    found = on_ranks(5, moved)
    for theirs, _ in found:
        assert theirs == pytest.approx(alone, abs=1e-6, rel=0)
    close([theirs for _, theirs in found], [row] * 5, 1e-6)


# -- whole runs ------------------------------------------------------------------------------------


def learning(ranks, callbacks=(), seed=0, **changes):
    model = toy_model(double=True, seed=seed)
    config = PolicyOptimizerConfig(**{
        "objective": "ppo", "iterations": 4, "minibatches": 2, "learning_rate": 2e-3,
        "evaluate_every": 2, "evaluation_episodes": 7, "critic": Critic(pretraining=1),
    } | changes)  # fmt: skip
    return PolicyOptimizer(model, ToyCollector(model, "asks"), config, callbacks, ranks=ranks)


def learnt(ranks, **changes):
    """Rows, weights, and the number of seeds played here."""
    run = learning(ranks, **changes)
    rows = run.train()
    weights = torch.cat([p.detach().flatten() for p in run.model.trainable().values()])
    return rows, weights.numpy(), len(run._collection.collector.seeds)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"objective": "grpo", "resample": 2, "max_grad_norm": 0.1},
        pytest.param({"objective": "grpo", "trust_region": TrustRegion()}, marks=pytest.mark.slow),
    ],
    ids=["critic", "resampled", "trust region"],
)
def test_the_learning_curve_of_ranks_is_that_of_one(changes):
    rows, weights, played = learnt(Ranks(), **changes)
    found = on_ranks(2, partial(learnt, **changes))
    for their_rows, their_weights, _ in found:
        close(their_rows, rows, 1e-7)
        # 16 of AdamW's steps of 2e-3 each, which blow up what rounds differently near 0
        assert their_weights == pytest.approx(weights, abs=5e-6, rel=0)
    assert sum(share for _, _, share in found) == played and all(share for _, _, share in found)


def test_the_first_rank_writes_and_tells_and_all_go_on_from_there(tmp_path):
    path = tmp_path / "run.zip"

    def begun(ranks):
        heard, writes = [], []
        run = learning(ranks, callbacks=[lambda row: heard.append(row) or len(heard) == 3])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                policy_optimizer, "write_run", lambda *a: writes.append(1) or write_run(*a)
            )
            run.train(path)
        return len(run.rows), len(heard), len(writes), run.stopped

    first, second = on_ranks(2, begun)
    assert first == (3, 3, 1, "a callback asked for it")
    assert second == (3, 0, 0, "a callback asked for it")

    def gone_on(ranks):
        return learning(ranks).restore(path).train()

    whole = learnt(Ranks())[0]
    for rows in on_ranks(2, gone_on):
        close(rows, whole, 1e-7)


def test_ranks_that_begin_with_other_weights_are_told():
    with pytest.raises(InvalidConfiguration, match="2 processes of this run do not begin alike"):
        on_ranks(2, lambda ranks: learning(ranks, seed=ranks.rank).stopped)


def test_without_torchrun_there_is_one(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert type(ranks_here()) is Ranks and ranks_here().first
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert type(ranks_here()) is Ranks


# -- processes -------------------------------------------------------------------------------------


def added_up(ranks):
    """What ranks made of a few numbers."""
    assert isinstance(ranks, ProcessGroup)
    weight, idle, one = (torch.nn.Parameter(torch.ones(3)) for _ in range(3))
    weight.grad = torch.arange(3.0) * (ranks.rank + 1)
    if ranks.rank:
        one.grad = torch.ones(3)
    ranks.add_up_gradients([weight, idle, one])
    sums = torch.tensor([1.0, ranks.rank])
    ranks.add_up([sums])
    ranks.wait()
    return [
        (ranks.rank, ranks.size, ranks.first), weight.grad.tolist(), idle.grad, one.grad.tolist(),
        sums.tolist(), ranks.gathered("ab"[ranks.rank]), ranks.agreed(ranks.rank),
    ]  # fmt: skip


def test_processes_add_up():
    same = [[0.0, 3.0, 6.0], None, [1.0] * 3, [2.0, 1.0], ["a", "b"], 0]
    assert on_ranks(2, added_up) == [[(0, 2, True), *same], [(1, 2, False), *same]]


LAUNCHERS = {
    "alone": [],
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"],
}


def launched(folder, launcher, objective):
    """Runs of `learns_on_ranks.py`, each process' own."""
    folder.mkdir()
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    given = [str(TESTS / "learns_on_ranks.py"), str(folder), objective]
    starts = ["-m", *LAUNCHERS[launcher]] if LAUNCHERS[launcher] else []
    processes = 2 if starts else 1
    done = subprocess.run(
        [sys.executable, *starts, *given],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"rank-{rank}.pt") for rank in range(processes)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "objective"), [("torchrun", "grpo"), ("torchrun", "ppo"), ("accelerate", "grpo")]
)
def test_launched_processes_learn_what_one_learns(tmp_path, launcher, objective):
    (alone,) = launched(tmp_path / "one", "alone", objective)
    runs = launched(tmp_path / "two", launcher, objective)
    assert [run["size"] for run in runs] == [2, 2] and [run["heard"] for run in runs] == [3, 0]
    for run in runs:
        close(run["rows"], alone["rows"], 1e-6)
        for name, weight in run["weights"].items():
            assert torch.allclose(weight, alone["weights"][name], atol=1e-6), name
    names = sorted(path.name for path in (tmp_path / "two").iterdir())
    assert names == ["rank-0.pt", "rank-1.pt", "run.zip"]
    state, _ = read_run(tmp_path / "two" / "run.zip")
    assert state.counters["iteration"] == 3
