"""A run that was stopped, or killed, and taken up again ends where it would have ended."""

import os
import random
import signal
import time

import pytest
import torch
from toy_collector import ToyCollector, toy_model

from convgym.errors import InvalidConfiguration
from trainers.llm.language_model import LoRA
from trainers.llm.objectives import KLPenalty, Objective
from trainers.llm.policy_config import Critic, PolicyOptimizerConfig, TrustRegion
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.run_checkpoints import digest, read_run

KINDS = {
    "grpo": {"objective": "grpo", "epochs": 2, "warmup": 9, "schedule": "cosine"},
    "dapo": {"objective": "dapo", "resample": 2},
    "ppo": {"objective": "ppo"},
    "vapo": {"objective": "vapo", "critic": Critic(pretraining=2)},
    "kl": {"objective": Objective(kl=KLPenalty())},
    "lora": {"objective": Objective(kl=KLPenalty()), "lora": LoRA(rank=2)},
    "trpo": {"trust_region": TrustRegion(iterations=3)},
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def begun(kind="grpo", callbacks=(), **changes):
    options = {"iterations": 5, "minibatches": 2, "learning_rate": 2e-3, "seeds_per_iteration": 3}
    options |= {"group_size": 4, "save_every": 1} | KINDS[kind] | changes
    model = toy_model(lora=options.pop("lora", None), seed=options.pop("model_seed", 0))
    config = PolicyOptimizerConfig(**options)
    return PolicyOptimizer(model, ToyCollector(model, "asks"), config, callbacks)


def everything(run):
    """Weights of model and critic, and moments of the optimiser."""
    found = [p for part in run._learnt().values() for p in part.values()]
    optimizer = run._update.optimizer
    if optimizer is not None:
        for _, moments in sorted(optimizer.state_dict()["state"].items()):
            found += [moments[name] for name in sorted(moments)]
    return [value.detach().clone() for value in found]


def told(rows):
    timed = ("seconds", "per_second")
    return [{k: v for k, v in row.items() if not k.endswith(timed)} for row in rows]


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_run_that_was_stopped_goes_on_bit_by_bit(kind, tmp_path):
    whole = begun(kind)
    whole.train()
    path = tmp_path / "run.zip"
    for last in (1, 3, 99):
        heard = []
        run = begun(kind, [heard.append, lambda row, last=last: row["step"] >= last])
        if path.exists():
            run.restore(path)
        run.train(path)
        assert heard == run.rows  # the rows of before are told again
    assert told(run.rows) == told(whole.rows)
    assert all(torch.equal(a, b) for a, b in zip(everything(run), everything(whole), strict=True))
    assert len(everything(run)) == len(everything(whole)) > 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.zip"]


def test_checkpoints_come_as_often_as_asked(tmp_path):
    path, seen = tmp_path / "run.zip", []

    def look(row):
        seen.append(read_run(path)[0].counters["iteration"] if path.exists() else 0)

    begun(save_every=2, callbacks=[look]).train(path)
    assert seen == [0, 0, 2, 2, 4] and read_run(path)[0].counters["iteration"] == 5


def test_more_iterations_may_be_asked_for(tmp_path):
    path = tmp_path / "run.zip"
    begun("ppo", iterations=2).train(path)
    run = begun("ppo", iterations=4).restore(path)
    assert len(run.train()) == 4
    whole = begun("ppo", iterations=4)
    whole.train()
    assert all(torch.equal(a, b) for a, b in zip(everything(run), everything(whole), strict=True))


def test_another_configuration_or_model_is_refused(tmp_path):
    path = tmp_path / "run.zip"
    begun("kl").train(path)
    with pytest.raises(InvalidConfiguration, match="another group_size and seed; only"):
        begun("kl", seed=1, group_size=8).restore(path)
    with pytest.raises(InvalidConfiguration, match="began with other weights"):
        begun("kl", model_seed=1).restore(path)
    with pytest.raises(InvalidConfiguration, match="another objective"):
        begun("ppo").restore(path)
    run = begun("lora", objective=KINDS["kl"]["objective"])
    before = everything(run)
    with pytest.raises(InvalidConfiguration):
        run.restore(path)
    assert all(torch.equal(a, b) for a, b in zip(everything(run), before, strict=True))
    (tmp_path / "other").write_text("no zip")
    with pytest.raises(InvalidConfiguration, match="holds no convgym policy run"):
        begun().restore(tmp_path / "other")
    with pytest.raises(InvalidConfiguration, match="holds no convgym policy run"):
        begun().restore(tmp_path / "nothing")


def test_leftovers_of_killed_writes_are_swept(tmp_path):
    path = tmp_path / "run.zip"
    begun(iterations=1).train(path)
    (tmp_path / "run.zip.12345.part").write_bytes(b"half")
    (tmp_path / "other.part").write_bytes(b"somebody else's")
    begun(iterations=2).restore(path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other.part", "run.zip"]


def test_a_write_that_fails_leaves_the_older_one(tmp_path, monkeypatch):
    path = tmp_path / "run.zip"
    run = begun(iterations=1)
    run.train(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.save(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_digests_know_names_and_numbers():
    one = {"a": torch.ones(3), "b": torch.zeros(2, dtype=torch.bfloat16)}
    assert digest(one) == digest(dict(one)) != digest({"c": one["a"], "b": one["b"]})
    assert digest(one) != digest({"a": torch.tensor([1.0, 1.0, 1.0 + 1e-6]), "b": one["b"]})


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("kind", ["grpo", "ppo"])
def test_twenty_kills_change_nothing(kind, tmp_path):
    """SIGKILL at random moments, also while a checkpoint is written."""
    path, iterations = tmp_path / "run.zip", 50
    clock = time.perf_counter()
    whole = begun(kind, iterations=iterations)
    whole.train(tmp_path / "whole.zip")
    each = (time.perf_counter() - clock) / iterations
    rng, kills = random.Random(0), 0

    def resumed():
        run = begun(kind, iterations=iterations)
        return run.restore(path) if path.exists() else run

    def written():
        return path.stat().st_mtime_ns if path.exists() else 0

    for number in range(20):
        before, child = written(), os.fork()
        if child == 0:
            try:
                resumed().train(path)
            finally:
                os._exit(0)
        latest = time.monotonic() + 60
        while number % 2 and written() == before:  # every other one gets somewhere first
            assert time.monotonic() < latest, "the child writes nothing"
            time.sleep(each / 20)
        time.sleep(rng.uniform(0.0, 2 * each))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
    run = resumed()
    assert kills == 20 and 10 <= run._iteration < iterations
    run.train(path)
    assert told(run.rows) == told(whole.rows)
    assert all(torch.equal(a, b) for a, b in zip(everything(run), everything(whole), strict=True))
