"""Trust-region steps: the Fisher product beside the whole matrix, the bound, and learning."""

import pytest
import torch
from toy_collector import ToyCollector, toy_model

from convgym.errors import InvalidConfiguration
from trainers.llm.language_model import LoRA
from trainers.llm.objectives import PRESETS
from trainers.llm.policy_batches import policy_batch
from trainers.llm.policy_config import PolicyOptimizerConfig, TrustRegion
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollouts import RolloutBatch
from trainers.llm.trpo import TrustRegionUpdate


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def prepared(model, seeds=4, **changes):
    config = PolicyOptimizerConfig(trust_region=TrustRegion(**changes))
    rollouts = ToyCollector(model, "asks").collect(range(seeds), 4, 1)
    batch = policy_batch(RolloutBatch(rollouts), model, None, config, "current")
    return TrustRegionUpdate(model, config), batch, config


def test_the_fisher_product_is_that_of_the_whole_matrix():
    """F = mean over places of E[∇ log π ∇ log πᵀ], made gradient by gradient."""
    model = toy_model(kind="gpt2", double=True)
    for name, p in model.module.named_parameters():
        p.requires_grad_("ln_f" in name or "h.1.mlp.c_proj.bias" in name)
    update, batch, _ = prepared(model, seeds=1)
    learnt = list(model.trainable().values())
    table = model.distributions(batch.rows)
    fisher = 0.0
    for logs in table:
        for log_prob in logs:
            gradient = torch.autograd.grad(log_prob, learnt, retain_graph=True)
            flat = torch.cat([g.flatten() for g in gradient])
            fisher = fisher + log_prob.detach().exp() * torch.outer(flat, flat) / len(table)
    everything = torch.arange(len(batch.teaches))
    parts = [batch.at(everything[:1]), batch.at(everything[1:])]
    for seed in range(3):
        vector = torch.randn(len(fisher), generator=torch.Generator().manual_seed(seed)).double()
        product = update._fisher_product(parts, vector)
        torch.testing.assert_close(product, fisher @ vector, atol=1e-10, rtol=1e-7)


def test_a_step_gains_within_its_bound_and_the_divergence_is_what_it_says():
    model = toy_model()
    update, batch, _ = prepared(model, seeds=6, max_kl=0.02)
    with torch.no_grad():
        old = model.distributions(batch.rows)
    row = update.run(batch, 0)
    with torch.no_grad():
        new = model.distributions(batch.rows)
    divergence = float((old.exp() * (old - new)).sum(-1).mean())
    assert row["policy_kl"] == pytest.approx(divergence, rel=1e-3)
    assert 0.005 < divergence <= 0.02 and row["gain"] > 0 and update.steps == 1


def test_how_rows_are_cut_changes_no_step():
    def moved(tokens):
        model = toy_model(double=True)
        config = PolicyOptimizerConfig(trust_region=TrustRegion(), tokens_per_micro_batch=tokens)
        rollouts = ToyCollector(model, "asks").collect(range(4), 4, 1)
        batch = policy_batch(RolloutBatch(rollouts), model, None, config, "current")
        TrustRegionUpdate(model, config).run(batch, 0)
        return torch.cat([p.detach().flatten() for p in model.trainable().values()])

    torch.testing.assert_close(moved(10_000), moved(25), atol=1e-6, rtol=0)


def test_curvature_is_of_a_share_of_the_rows_that_say_something():
    update, batch, _ = prepared(toy_model(), seeds=6, curvature_share=0.25)
    batch.rows.turns[::2] = -1
    index = torch.randperm(len(batch.teaches), generator=torch.Generator().manual_seed(0))
    chosen = update._curved(batch, index)
    assert len(chosen) == len(set(chosen.tolist())) == round(0.25 * (len(index) // 2))
    assert batch.rows.mask[chosen].any(dim=1).all()
    assert len(update._curved(batch, chosen[:1])) == 1


def test_a_step_that_never_gains_is_not_taken(monkeypatch):
    model = toy_model()
    update, batch, _ = prepared(model)
    monkeypatch.setattr(update, "_measured", lambda *given: (float("nan"), 0.0))
    before = torch.cat([p.detach().flatten() for p in model.trainable().values()])
    row = update.run(batch, 0)
    after = torch.cat([p.detach().flatten() for p in model.trainable().values()])
    assert torch.equal(before, after) and row["step_length"] == row["gain"] == 0


def learns(lora, spread, iterations):
    model = toy_model(lora=lora, initializer_range=spread)
    region = TrustRegion(max_kl=0.05)
    config = PolicyOptimizerConfig(
        iterations=iterations, trust_region=region, seeds_per_iteration=4, seed=1
    )
    rows = PolicyOptimizer(model, ToyCollector(model), config).train()
    assert all(row["policy_kl"] <= 0.05 for row in rows if "policy_kl" in row)
    found = [row["success"] for row in rows]
    assert sum(found[-4:]) / 4 > 0.75 > 0.4 > sum(found[:4]) / 4


def test_it_learns_a_word_and_keeps_its_bound():
    learns(None, 0.02, 30)


@pytest.mark.slow
def test_adapters_learn_a_word():
    learns(LoRA(rank=2), 0.3, 25)


@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_objectives_that_it_does_not_take(name):
    with pytest.raises(InvalidConfiguration, match="trust_region takes objectives"):
        PolicyOptimizerConfig(objective=PRESETS[name], trust_region=TrustRegion())


@pytest.mark.parametrize(
    "given",
    [{"max_kl": 0}, {"shrink": 1.0}, {"attempts": 0}, {"curvature_share": 0.0}],
    ids=str,
)
def test_regions_that_there_cannot_be(given):
    with pytest.raises(InvalidConfiguration):
        TrustRegion(**given)
