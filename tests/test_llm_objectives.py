"""Every preset: laws of its loss, finite differences on a tiny model, and a task that it learns."""

from dataclasses import replace
from itertools import pairwise

import pytest

from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainers.llm.credit import Episodes, GeneralizedAdvantage  # noqa: E402
from trainers.llm.losses import Totals, aggregate, kl, log_group_expectations  # noqa: E402
from trainers.llm.objective_loss import LossInputs, objective_loss  # noqa: E402
from trainers.llm.objectives import (  # noqa: E402
    A2C,
    CISPO,
    DR_GRPO,
    GRPO,
    PPO,
    PRESETS,
    Clip,
    KLPenalty,
    Objective,
    SamplerCorrection,
    ValueLoss,
    WeightCap,
)

FULL = {
    "full ppo": replace(
        PPO, kl=KLPenalty(corrected=True), correction=SamplerCorrection(), entropy_coefficient=0.01
    ),
    "full grpo": replace(
        GRPO, clip=Clip(dual=3.0), kl=KLPenalty(estimator="k2"), count_empty_rows=True,
        correction=SamplerCorrection(level="token", action="truncate", cap=1.5),
    ),
}  # fmt: skip
OBJECTIVES = {**PRESETS, **FULL}
every_objective = pytest.mark.parametrize("name", OBJECTIVES)
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- laws ------------------------------------------------------------------------------------------

PER_TOKEN = (
    "log_probs", "old_log_probs", "reference_log_probs", "sampler_log_probs", "values",
    "old_values", "returns", "entropies", "advantages",
)  # fmt: skip


def drawn(seed, rows=5, tokens=6):
    """Everything that any objective asks for; the last row has no token of its own."""
    generator = torch.Generator().manual_seed(seed)

    def normal(scale=0.3):
        noise = torch.randn(rows, tokens, generator=generator, dtype=torch.float64)
        return scale * noise

    log_probs = -2 + normal()
    mask = torch.rand(rows, tokens, generator=generator) < 0.6
    mask[:, 0] = True
    mask[-1] = False
    old = log_probs + normal()
    return {
        "mask": mask,
        "log_probs": log_probs,
        "old_log_probs": old,
        "reference_log_probs": log_probs + normal(),
        "sampler_log_probs": old + normal(0.1),
        "log_group_expectations": log_group_expectations(old, mask, torch.arange(rows) // 2),
        "values": normal(1.0),
        "old_values": normal(1.0),
        "returns": normal(1.0),
        "entropies": normal(1.0).abs(),
        "advantages": normal(1.0),
        "positive": torch.rand(rows, generator=generator) < 0.5,
    }


def evaluated(objective, given, totals=None):
    """Loss, what is watched, and the gradients of what learns."""
    learnt = {n: given[n].clone().requires_grad_() for n in ("log_probs", "values", "entropies")}
    loss, watched = objective_loss(objective, LossInputs(**{**given, **learnt}), totals)
    found = torch.autograd.grad(loss, list(learnt.values()), allow_unused=True)
    return loss.detach(), watched, dict(zip(learnt, found, strict=True))


def check_same(found, expected, moved=lambda gradient: gradient):
    assert torch.allclose(found[0], expected[0], rtol=0, atol=1e-12)
    assert found[1].keys() == expected[1].keys()
    for name, value in expected[1].items():
        assert torch.allclose(found[1][name], value, rtol=0, atol=1e-12), name
    for name, gradient in expected[2].items():
        assert (found[2][name] is None) == (gradient is None)
        if gradient is not None:
            assert torch.allclose(found[2][name], moved(gradient), rtol=0, atol=1e-12), name


@every_objective
@settings(max_examples=10, deadline=None)
@given(seeds, st.permutations(range(5)))
def test_rows_in_another_order_give_the_same_loss_and_their_gradients(name, seed, order):
    given = drawn(seed)
    moved = {n: column[list(order)] for n, column in given.items()}
    expected = evaluated(OBJECTIVES[name], given)
    check_same(evaluated(OBJECTIVES[name], moved), expected, lambda g: g[list(order)])


@every_objective
@settings(max_examples=10, deadline=None)
@given(seeds, st.lists(st.integers(0, 9), min_size=6, max_size=6, unique=True).map(sorted))
def test_padding_anywhere_gives_the_same_loss_and_no_gradient_of_its_own(name, seed, places):
    given = drawn(seed)

    def padded(column, filling=0.0):
        wide = torch.full((5, 10), filling, dtype=column.dtype)
        wide[:, places] = column
        return wide

    wider = {n: padded(column, -7.7) for n, column in given.items() if n in PER_TOKEN}
    wider = {**given, **wider, "mask": padded(given["mask"], False)}
    check_same(evaluated(OBJECTIVES[name], wider), evaluated(OBJECTIVES[name], given), padded)


@every_objective
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -1e30])
def test_what_stands_where_the_mask_is_0_is_never_seen(name, garbage):
    given = drawn(11)
    dirty = {n: given[n].masked_fill(~given["mask"], garbage) for n in PER_TOKEN}
    expected = evaluated(OBJECTIVES[name], given)
    check_same(evaluated(OBJECTIVES[name], {**given, **dirty}), expected)
    log_probs = expected[2]["log_probs"]
    assert not log_probs[~given["mask"]].any() and log_probs[given["mask"]].any()


@every_objective
@settings(max_examples=10, deadline=None)
@given(seeds, st.sets(st.integers(1, 4)))
def test_micro_batches_add_up_to_the_step_however_it_is_split(name, seed, cuts):
    objective, whole = OBJECTIVES[name], drawn(seed)
    bounds = [0, *sorted(cuts), 5]
    parts = [{n: column[a:b] for n, column in whole.items()} for a, b in pairwise(bounds)]
    totals = Totals(0, 0)
    for part in parts:
        totals = totals + Totals.of(
            part["mask"], part["positive"], count_empty_rows=objective.count_empty_rows
        )
    found = [evaluated(objective, part, totals) for part in parts]
    watched = {n: torch.stack([f[1][n] for f in found]) for n in found[0][1]}
    ends = {"min": lambda x: x.amin(), "max": lambda x: x.amax()}
    together = (
        sum(f[0] for f in found),
        {n: ends.get(n[-3:], lambda x: x.sum())(values) for n, values in watched.items()},
        {
            n: None if gradient is None else torch.cat([f[2][n] for f in found])
            for n, gradient in found[0][2].items()
        },
    )
    check_same(together, evaluated(objective, whole))


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"gepo"}))
def test_on_policy_the_gradient_is_that_of_reinforce(name):
    """−A ∇ℓ under the preset's own mean; ratios are 1 and no clip is met."""
    objective = replace(PRESETS[name], value=None, positive_coefficient=0.0)
    given = {**drawn(3), "old_log_probs": None}
    log_probs = given["log_probs"].requires_grad_()
    if objective.ratio == "sequence":  # one advantage for all that share a ratio
        given["advantages"] = given["advantages"][:, :1].expand(5, 6)
    reinforce = aggregate(
        -given["advantages"] * log_probs, given["mask"], objective.aggregation,
        Totals.of(given["mask"]), objective.length,
    )  # fmt: skip
    (expected,) = torch.autograd.grad(reinforce, log_probs)
    _, watched, found = evaluated(objective, {**given, "log_probs": log_probs.detach()})
    assert torch.allclose(found["log_probs"], expected, rtol=0, atol=1e-13)
    assert watched["ratio_min"] == watched["ratio_max"] == 1
    assert watched.get("clip_share", 0) == 0 and watched["policy_kl"] == 0


@pytest.mark.parametrize("name", ["grpo", "gspo", "gspo_token", "gepo", "rloo", "dr_grpo"])
def test_an_advantage_for_each_row_is_one_for_each_of_its_tokens(name):
    given = drawn(4)
    rows = given["advantages"][:, 0]
    wide = {**given, "advantages": rows[:, None].expand(5, 6)}
    check_same(
        evaluated(PRESETS[name], {**given, "advantages": rows}), evaluated(PRESETS[name], wide)
    )


# -- finite differences on a tiny model ------------------------------------------------------------


class TinyModel(torch.nn.Module):
    """Two tokens of context, a softmax over the next, a value: 5 tokens, 3 features."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 3)
        self.mix = torch.nn.Linear(6, 3)
        self.head = torch.nn.Linear(3, 6)

    def forward(self, ids):
        """(B, T + 2) → logits of what follows (B, T, 5), values (B, T)."""
        seen = self.embedding(ids)
        out = self.head(torch.tanh(self.mix(torch.cat([seen[:, :-2], seen[:, 1:-1]], -1))))
        return out[..., :5], out[..., 5]


# A stop-gradient makes the loss another function than the one whose gradient is followed.
DIFFERENTIABLE = [n for n, o in OBJECTIVES.items() if not isinstance(o.clip, WeightCap)]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_finite_differences_through_a_tiny_model_agree(name):
    torch.manual_seed(5)
    model, given = TinyModel().double(), drawn(5)
    ids = torch.randint(5, (5, 8))
    if "sequence" in OBJECTIVES[name].ratio:  # exact where a row shares one advantage
        given["advantages"] = given["advantages"][:, :1].expand(5, 6)
        given["old_log_probs"] = -1.6 + 1e-4 * given["old_log_probs"]

    def loss(*weights):
        names = [name for name, _ in model.named_parameters()]
        logits, values = torch.func.functional_call(
            model, dict(zip(names, weights, strict=True)), ids
        )
        every = logits.log_softmax(-1)
        learnt = {
            "log_probs": every.gather(-1, ids[:, 2:, None])[..., 0],
            "values": values,
            "entropies": -(every.exp() * every).sum(-1),
        }
        return objective_loss(OBJECTIVES[name], LossInputs(**{**given, **learnt}))[0]

    assert torch.autograd.gradcheck(loss, tuple(model.parameters()))


def test_capped_weights_pull_with_the_weight_as_it_is():
    given = drawn(6)
    log_probs, mask = given["log_probs"], given["mask"]
    weights = (log_probs - given["old_log_probs"]).exp().clamp(max=1.2)
    found = evaluated(replace(CISPO, clip=WeightCap(cap=1.2)), given)
    expected = -(weights * given["advantages"]).masked_fill(~mask, 0) / mask.sum()
    assert torch.allclose(found[2]["log_probs"], expected, rtol=0, atol=1e-13)
    capped = (weights >= 1.2)[mask].double().mean()
    assert capped > 0 and found[1]["clip_share"] == pytest.approx(capped.item())


# -- numbers worked by hand ------------------------------------------------------------------------


def doubles(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


BY_HAND = {
    "mask": torch.tensor([[1, 1, 0], [1, 0, 0]]),
    "log_probs": doubles([1.5, 1.0, 9.0], [0.5, 9.0, 9.0]).log(),
    "old_log_probs": doubles([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]).log(),
    "advantages": doubles(2.0, -4.0),
}  # ratios 1.5 and 1 of a good row, ½ of a bad one


def test_what_is_watched_by_hand():
    loss, watched = objective_loss(GRPO, LossInputs(**BY_HAND))
    assert loss.item() == pytest.approx(((-2.4 - 2) / 2 + 3.2) / 2)
    assert watched["policy_loss"] == loss and not watched["policy_loss"].requires_grad
    assert (watched["ratio_min"], watched["ratio_max"]) == (0.5, 1.5)
    assert watched["clip_share"].item() == pytest.approx(2 / 3)
    k3 = (1.5 - 1 - doubles(1.5).log()) + (0.5 - 1 - doubles(0.5).log())
    assert watched["policy_kl"].item() == pytest.approx(k3.item() / 3)
    assert not {"kl", "entropy", "sampler_gap"} & watched.keys()


def test_what_is_added_to_a_policy_loss_by_hand():
    """Entropy by the objective's mean, over rows: 2 and 5. Values by tokens: ½, ½ and 2.

    Likelihood of the good row's two tokens: 1.5 and 1.
    """
    more = replace(
        GRPO, entropy_coefficient=0.5, positive_coefficient=0.1,
        value=ValueLoss(coefficient=3.0, clip=None),
    )  # fmt: skip
    given = {
        "entropies": doubles([1, 3, 9], [5, 9, 9]),
        "positive": torch.tensor([1, 0]),
        "values": doubles([0, 0, 9], [0, 9, 9]),
        "returns": doubles([1, -1, 4], [2, 4, 4]),
    }
    plain, _ = objective_loss(GRPO, LossInputs(**BY_HAND))
    loss, watched = objective_loss(more, LossInputs(**BY_HAND, **given))
    likelihood = -doubles(1.5).log().item() / 2
    assert watched["entropy_bonus"].item() == pytest.approx(3.5)
    assert watched["entropy"].item() == pytest.approx(3)
    assert watched["value_loss"].item() == pytest.approx(1)
    assert watched["positive_loss"].item() == pytest.approx(likelihood)
    assert (loss - plain).item() == pytest.approx(-0.5 * 3.5 + 3 * 1 + 0.1 * likelihood)


def test_without_a_clip_ratios_count_as_they_are():
    loss, watched = objective_loss(replace(GRPO, clip=None), LossInputs(**BY_HAND))
    assert loss.item() == pytest.approx(((-3 - 2) / 2 + 2) / 2) and "clip_share" not in watched


def test_weights_of_the_sampler_apply_before_the_penalty():
    """The sampler's row has a weight of 4, above the cap: only the KL penalty is left of it."""
    far = {"sampler_log_probs": BY_HAND["old_log_probs"] - doubles(4.0).log() / 2}
    reference = {"reference_log_probs": BY_HAND["log_probs"] - 1}
    masked = replace(
        GRPO, correction=SamplerCorrection(cap=3.0), kl=KLPenalty(coefficient=0.1, estimator="k1")
    )
    loss, watched = objective_loss(masked, LossInputs(**BY_HAND, **far, **reference))
    assert watched["policy_loss"].item() == pytest.approx((0 + 2 * 3.2) / 2)
    assert loss.item() == pytest.approx(3.2 + 0.1)
    assert watched["sampler_gap"].item() == pytest.approx(doubles(2).log().item())
    assert watched["sampler_gap_max"].item() == pytest.approx(doubles(2).log().item())
    assert watched["kl"].item() == pytest.approx(doubles(-1.0).exp().item())


def test_a_corrected_penalty_pulls_differently_even_where_the_ratio_is_1():
    """∇(w k3) = ∇k3 + k3 at w = 1."""
    given = {**drawn(8), "old_log_probs": None, "advantages": torch.zeros(5)}
    difference = []
    for corrected in (False, True):
        penalty = KLPenalty(coefficient=1.0, corrected=corrected)
        difference.append(evaluated(replace(PPO, value=None, kl=penalty), given)[2]["log_probs"])
    k3 = kl(given["log_probs"], given["reference_log_probs"]).masked_fill(~given["mask"], 0)
    assert torch.allclose(difference[1] - difference[0], k3 / given["mask"].sum())


def test_groups_without_spread_still_feel_the_penalty():
    given = {**drawn(9), "advantages": torch.zeros(5)}
    assert not evaluated(GRPO, given)[2]["log_probs"].any()
    assert evaluated(replace(GRPO, kl=KLPenalty()), given)[2]["log_probs"].any()


def test_a_constant_length_makes_rows_weigh_what_they_are_long():
    """Dr. GRPO: −2.4 − 2 + 3.2 over 2 rows of 4 tokens."""
    loss, _ = objective_loss(replace(DR_GRPO, length=4), LossInputs(**BY_HAND))
    assert loss.item() == pytest.approx((-2.4 - 2 + 3.2) / 8)


@pytest.mark.parametrize(
    ("objective", "missing"),
    [
        (replace(GRPO, kl=KLPenalty()), "reference_log_probs"),
        (replace(GRPO, correction=SamplerCorrection()), "sampler_log_probs"),
        (replace(GRPO, entropy_coefficient=0.1), "entropies"),
        (replace(GRPO, positive_coefficient=0.1), "positive"),
        (PRESETS["gepo"], "log_group_expectations"),
        (PPO, "old_values"),
        (A2C, "values"),
    ],
)
def test_what_an_objective_needs_and_does_not_get_is_one_sentence(objective, missing):
    with pytest.raises(InvalidConfiguration, match=f"needs {missing}"):
        objective_loss(objective, LossInputs(**BY_HAND))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Clip, {"low": 1.2}, "low=1.2, high=0.2; low is in"),
        (Clip, {"dual": 1.1}, "dual=1.1; it must be above 1.2"),
        (WeightCap, {"cap": 0.5}, "floor=0.0, cap=0.5; they enclose 1"),
        (KLPenalty, {"estimator": "k4"}, "estimator='k4'; it is one of k1, k2, k3"),
        (KLPenalty, {"coefficient": -1.0}, "coefficient=-1.0; it must be 0 or more"),
        (SamplerCorrection, {"level": "turn"}, "level='turn'; it is one of token, sequence"),
        (SamplerCorrection, {"action": "drop"}, "action='drop'; it is one of"),
        (SamplerCorrection, {"cap": 0.9}, "cap=0.9; it must be 1 or more"),
        (ValueLoss, {"clip": 0.0}, "clip=0.0; it must be above 0, or None"),
        (Objective, {"ratio": "turn"}, "ratio='turn'; it is one of none, token"),
        (Objective, {"aggregation": "mean"}, "aggregation='mean'; it is one of"),
        (Objective, {"length": 0}, "length=0; it must be 1 token or more"),
        (Objective, {"ratio": "none"}, "leaves nothing to clip"),
        (Objective, {"entropy_coefficient": -0.1}, "entropy_coefficient=-0.1"),
    ],
)
def test_bad_options_are_one_sentence(kind, options, message):
    with pytest.raises(InvalidConfiguration, match=message):
        kind(**options)


# -- a task that every preset learns ---------------------------------------------------------------

WORDS, GROUPS, SIZE = 4, 6, 8


class Talker(torch.nn.Module):
    """A table: what to say first, what then, and what either is worth."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.zeros(WORDS))
        self.then = torch.nn.Parameter(torch.zeros(WORDS, WORDS))
        self.value = torch.nn.Parameter(torch.zeros(WORDS + 1))

    def log_probs(self, said):
        """(B, 2) words → (B, 3): there is a token of the user's between them."""
        first = self.first.log_softmax(-1)[said[:, 0]]
        then = self.then.log_softmax(-1)[said[:, 0], said[:, 1]]
        return torch.stack([first, torch.zeros(len(said)), then], -1)

    def values(self, said):
        start, nothing = self.value[WORDS].expand(len(said)), torch.zeros(len(said))
        return torch.stack([start, nothing, self.value[said[:, 0]]], -1)

    def expected_return(self):
        """Half for saying 2 first, half for saying the word after the first one then."""
        first, then = self.first.softmax(-1), self.then.softmax(-1)
        after = (torch.arange(WORDS) + 1) % WORDS
        return 0.5 * first[2] + 0.5 * (first * then[torch.arange(WORDS), after]).sum()


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_learns_what_to_say_in_two_turns(name):
    """Return ¼ before; 100 iterations of 48 conversations, two steps each on halves of them."""
    objective, talker = PRESETS[name], Talker()
    generator = torch.Generator().manual_seed(2)
    optimizer = torch.optim.Adam(talker.parameters(), lr=0.1)
    rows = GROUPS * SIZE
    turns = torch.tensor([[0, -1, 1]]).expand(rows, 3)
    groups = torch.arange(rows) // SIZE
    for _ in range(100):
        with torch.no_grad():
            first = talker.first.softmax(-1).expand(rows, -1).multinomial(1, generator=generator)
            then = talker.then.softmax(-1)[first[:, 0]].multinomial(1, generator=generator)
            said = torch.cat([first, then], -1)
            old, values = talker.log_probs(said), talker.values(said)
        right = torch.stack([said[:, 0] == 2, said[:, 1] == (said[:, 0] + 1) % WORDS], -1)
        everyone = torch.ones(rows)
        credit = objective.credit.estimate(
            Episodes(
                rewards=0.5 * right, played=torch.ones(rows, 2), turns=turns, groups=groups,
                valid=everyone, values=values,
            )
        )  # fmt: skip
        given = {
            "mask": turns >= 0, "advantages": credit.advantages, "returns": credit.returns,
            "old_log_probs": old, "old_values": values, "positive": right.all(-1),
            "log_group_expectations": log_group_expectations(old, turns >= 0, groups),
        }  # fmt: skip
        for half in torch.randperm(rows, generator=generator).view(2, -1):
            part = {n: None if column is None else column[half] for n, column in given.items()}
            new, worth = talker.log_probs(said[half]), talker.values(said[half])
            inputs = LossInputs(log_probs=new, values=worth, **part)
            loss, _ = objective_loss(objective, inputs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert talker.expected_return().item() > 0.9
    if isinstance(objective.credit, GeneralizedAdvantage):  # the critic knows what is to come
        assert talker.value[WORDS].item() == pytest.approx(1, abs=0.15)
