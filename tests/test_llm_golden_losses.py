"""Golden losses, gradients and advantages of an independent reference, through our parts.

The values lie beside the checkout, not in it, or beside the folder that CONVGYM_DATA names:
`../shared/reference/llm-loss-golden.json`. A case is read by the names of its own fields.
"""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainers.functional import discounted_sums, generalized_advantages  # noqa: E402
from trainers.llm.advantages import (  # noqa: E402
    group_advantages,
    have_spread,
    length_adaptive_lambda,
    overlong_penalty,
)
from trainers.llm.losses import (  # noqa: E402
    Totals,
    aggregate,
    entropy,
    kl,
    log_group_expectations,
    sampler_weights,
    tempered_log_probs,
    value_losses,
)
from trainers.llm.natural_step import natural_step  # noqa: E402
from trainers.llm.objective_loss import LossInputs, objective_loss  # noqa: E402
from trainers.llm.objectives import (  # noqa: E402
    Clip,
    KLPenalty,
    Objective,
    SamplerCorrection,
    ValueLoss,
    WeightCap,
)
from trainers.llm.preference_losses import bradley_terry_losses, dpo_losses  # noqa: E402

DATA = os.environ.get("CONVGYM_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
PLACE = Path(DATA).parent / "reference" / "llm-loss-golden.json"
CASES = json.loads(PLACE.read_text("utf-8"))["cases"] if PLACE.exists() else []
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-6}

RATIOS = {
    "gspo": "sequence",
    "luspo": "sequence",
    "gspo_token": "sequence_token",
    "gepo": "group_expectation",
    "a2c": "none",
}
AGGREGATIONS = {
    "seq_mean": ("row_mean", 1),
    "token_mean": ("token_mean", 1),
    "seq_sum": ("constant", 1),
}
POLICY = ("grpo", "dapo", "bnpo", "dr_grpo", "luspo", "cispo", "tis", "vapo", "a2c", *RATIOS)


def objective_of(case):
    """The objective that a case's params spell out."""
    params, algorithm = case["params"], case["algorithm"]
    named = params.get("agg", "token_mean" if algorithm in ("dapo", "a2c") else "seq_mean")
    aggregation, length = AGGREGATIONS.get(named, ("constant", params.get("max_len")))
    clip = Clip(low=params.get("clip_low", 0.2), high=params.get("clip_high", 0.28))
    if algorithm == "cispo":
        cap = float(str(params["cap"]).rpartition("=")[2])  # "1+eps_high=1.28"
        clip = WeightCap(cap=cap, floor=params.get("floor", 0.0))
    if algorithm == "a2c":
        clip = None
    penalty = correction = value = None
    if params.get("beta"):
        corrected = params.get("kl_bias_correction", False)
        penalty = KLPenalty(coefficient=params["beta"], estimator=params["kl"], corrected=corrected)
    if algorithm == "tis":
        level, action = params["mode"].split("_")
        correction = SamplerCorrection(level=level, action=action, cap=params["C"])
    if "vf_coef" in params:
        value = ValueLoss(coefficient=params["vf_coef"], clip=None)
    return Objective(
        ratio=RATIOS.get(algorithm, "token"), clip=clip, aggregation=aggregation, length=length,
        kl=penalty, correction=correction, value=value,
        entropy_coefficient=params.get("ent_coef", 0.0),
        positive_coefficient=params.get("mu_positive_lm", 0.0),
    )  # fmt: skip


INPUTS = {
    "logp_old": "old_log_probs", "logp_ref": "reference_log_probs", "values": "values",
    "logp_sampler": "sampler_log_probs", "advantages": "advantages", "returns": "returns",
    "positive_rows": "positive",
}  # fmt: skip


def policy_loss(case, tensor):
    given = case["inputs"]
    log_probs, mask = tensor(given["logp_cur"]).requires_grad_(), tensor(given["mask"])
    inputs = {ours: tensor(given[theirs]) for theirs, ours in INPUTS.items() if theirs in given}
    if "groups" in given:
        inputs["log_group_expectations"] = log_group_expectations(
            inputs["old_log_probs"], mask, tensor(given["groups"])
        )
    totals = None
    if "denominator_tokens" in case["params"]:
        totals = Totals(rows=0, tokens=case["params"]["denominator_tokens"])
    inputs = LossInputs(log_probs=log_probs, mask=mask, **inputs)
    loss, watched = objective_loss(objective_of(case), inputs, totals)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    found = {"loss": loss, "grad_logp_cur": gradient, "pg": watched["policy_loss"]}
    found |= {"vf": watched.get("value_loss"), "ppo": watched["policy_loss"]}
    return found | {"positive_nll": watched.get("positive_loss")}


def advantage(case, tensor):
    params, rewards = case["params"], tensor(case["inputs"]["rewards"])
    scale = {"group_norm": "group", "group_mean": "none", "batch_norm": "batch"}[params["mode"]]
    found = group_advantages(
        rewards.nan_to_num(), tensor(case["inputs"]["groups"]), scale=scale,
        epsilon=params["eps"], correction=params["ddof"], valid=~rewards.isnan(),
    )  # fmt: skip
    return {"advantages": found}


def turn_advantage(case, tensor):
    rewards = tensor(case["inputs"]["turn_rewards"])
    found = group_advantages(
        rewards, torch.zeros(len(rewards)), valid=~rewards.isnan(),
        epsilon=case["params"]["eps"], correction=case["params"]["ddof"],
    )  # fmt: skip
    return {"advantages": found}


def gae(case, tensor):
    params = case["params"]
    parts = [tensor(case["inputs"][name]) for name in ("rewards", "values", "mask")]
    if "lam" in params:
        advantages, returns = generalized_advantages(*parts, params["gamma"], params["lam"])
        return {"advantages": advantages, "returns": returns}
    lam = length_adaptive_lambda(parts[2].sum(-1, keepdim=True), params["alpha"])
    advantages, _ = generalized_advantages(*parts, params["gamma"], lam)
    _, targets = generalized_advantages(*parts, params["gamma"], params["lam_critic"])
    return {"lam_policy": lam[:, 0], "policy_advantages": advantages, "critic_targets": targets}


def value(case, tensor):
    given = {name: tensor(rows) for name, rows in case["inputs"].items()}
    losses = value_losses(
        given["values"], given["returns"], given["old_values"], case["params"]["clip"]
    )
    return {"loss": aggregate(losses, given["mask"], "token_mean", Totals.of(given["mask"]))}


def shaping(case, tensor):
    given, params = case["inputs"], case["params"]
    if "lengths" in given:
        lengths = torch.tensor(given["lengths"])
        return {"penalty": overlong_penalty(lengths, params["L_max"], params["L_cache"])}
    rewards = tensor(given["group_rewards"])
    groups = torch.arange(len(rewards))[:, None].expand(rewards.shape)
    kept = have_spread(rewards.flatten(), groups.flatten()).view(rewards.shape)
    return {"keep": kept[:, 0]}


def dpo(case, tensor):
    given = {name: tensor(rows) for name, rows in case["inputs"].items()}
    chosen = given["policy_chosen"].requires_grad_()
    losses = dpo_losses(
        chosen, given["policy_rejected"], given["ref_chosen"], given["ref_rejected"],
        case["params"]["beta"],
    )  # fmt: skip
    (gradient,) = torch.autograd.grad(losses.mean(), chosen)
    return {"losses": losses, "loss": losses.mean(), "grad_policy_chosen": gradient}


def reward_model(case, tensor):
    given = case["inputs"]
    losses = bradley_terry_losses(tensor(given["chosen"]), tensor(given["rejected"]))
    return {"losses": losses, "loss": losses.mean()}


def log_prob(case, tensor):
    found = tempered_log_probs(tensor(case["inputs"]["logits"]), case["params"]["temperature"])
    return {"logp": found, "entropy": entropy(found)}


def reinforce_pp(case, tensor):
    rewards, mask = (tensor(case["inputs"][name]) for name in ("rewards", "mask"))
    return {"returns": discounted_sums(rewards, mask, case["params"]["gamma"])}


def estimators(case, tensor):
    log_probs = tensor(case["inputs"]["logp_cur"]).requires_grad_()
    reference = tensor(case["inputs"]["logp_ref"])
    found = {name: kl(log_probs, reference, name) for name in ("k1", "k2", "k3")}
    (gradient,) = torch.autograd.grad(found["k3"].sum(), log_probs)
    return found | {"grad_k3_wrt_cur": gradient}


def trpo(case, tensor):
    theta, params = tensor(case["inputs"]["theta"]).requires_grad_(), case["params"]
    policy = theta.softmax(-1)
    (gradient,) = torch.autograd.grad(policy @ tensor(case["inputs"]["advantages"]), theta)
    start, policy = theta.detach(), policy.detach()
    x, length = natural_step(
        gradient, lambda v: policy * (v - policy @ v),
        max_kl=params["max_kl"], damping=params["cg_damping"],
    )  # fmt: skip
    moved = start + length * x
    divergence = (policy * (start.log_softmax(-1) - moved.log_softmax(-1))).sum()
    return {
        "policy_gradient": gradient, "search_direction": x, "step_size": length,
        "theta_new": moved, "kl_old_new": divergence,
    }  # fmt: skip


HOW = {
    **dict.fromkeys(POLICY, policy_loss), "advantage": advantage, "advantage_turn": turn_advantage,
    "ppo_gae": gae, "ppo_value": value, "dapo_shaping": shaping, "dpo": dpo, "kl": estimators,
    "reward_model": reward_model, "logprob": log_prob, "reinforce_pp": reinforce_pp, "trpo": trpo,
}  # fmt: skip


@pytest.mark.skipif(not CASES, reason=f"no golden losses at {PLACE}")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_number_of_a_golden_case_is_ours(case, dtype):
    def tensor(rows):
        nothing = [[float("nan") if x is None else x for x in row] if isinstance(row, list) else row
                   for row in rows]  # fmt: skip
        return torch.tensor(nothing, dtype=dtype)

    how = HOW[case["algorithm"]]
    if case["algorithm"] == "vapo" and "logp_cur" not in case["inputs"]:
        how = gae
    found = how(case, tensor)
    for name, expected in case["expected"].items():
        wanted = torch.tensor(expected, dtype=torch.float64)
        ours = found[name].detach().to(torch.float64)
        assert ours.shape == wanted.shape, name
        assert torch.allclose(ours, wanted, rtol=0, atol=TOLERANCE[dtype]), name


@pytest.mark.skipif(not CASES, reason=f"no golden losses at {PLACE}")
@pytest.mark.parametrize(
    "case", [c for c in CASES if "is_weight" in c["inputs"]], ids=lambda case: case["name"]
)
def test_weights_of_the_sampler_are_the_golden_ones(case):
    old, sampler, mask, wanted = (
        torch.tensor(case["inputs"][name], dtype=torch.float64)
        for name in ("logp_old", "logp_sampler", "mask", "is_weight")
    )
    level, action = case["params"]["mode"].split("_")
    found = sampler_weights(old, sampler, mask, level=level, action=action, cap=case["params"]["C"])
    assert torch.allclose(found, wanted, rtol=0, atol=1e-9)
