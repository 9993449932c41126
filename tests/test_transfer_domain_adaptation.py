"""Domain losses against plain second versions, and the accuracy that they bring back."""

import numpy as np
import pytest

from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402

from trainers.transfer.coral import CORAL, covariance  # noqa: E402
from trainers.transfer.dann import DANN, reverse_gradient  # noqa: E402
from trainers.transfer.domain_adaptation import (  # noqa: E402
    DomainAdaptationModule,
    DomainBatch,
    ramp,
)
from trainers.transfer.mmd import SCALES, squared_mmd  # noqa: E402

METHODS = ("dann", "mmd", "coral")
SIZE, FEATURES = 16, 4


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows(seed, count, shift=0.0, scale=1.0, width=FEATURES):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(shift, scale, (count, width)))


# -- the losses ------------------------------------------------------------------------------------


def plain_mmd(source, target):
    """Pair by pair."""
    both = np.concatenate([source, target])
    squares = np.array([[((a - b) ** 2).sum() for b in both] for a in both])
    off = sorted(squares[i, j] for i in range(len(both)) for j in range(len(both)) if i != j)
    median = off[(len(off) - 1) // 2]

    def kernel(i, j):
        return sum(np.exp(-squares[i, j] / (scale * median)) for scale in SCALES) / len(SCALES)

    n, m = len(source), len(target)
    inside = [kernel(i, j) for i in range(n) for j in range(n) if i != j]
    outside = [kernel(n + i, n + j) for i in range(m) for j in range(m) if i != j]
    across = [kernel(i, n + j) for i in range(n) for j in range(m)]
    return np.mean(inside) + np.mean(outside) - 2 * np.mean(across)


def plain_coral(source, target):
    apart = np.cov(source, rowvar=False) - np.cov(target, rowvar=False)
    return (apart**2).sum() / (4 * source.shape[1] ** 2)


sizes = st.tuples(st.integers(2, 7), st.integers(2, 7), st.integers(2, 5), st.integers(0, 99))


@given(sizes)
@settings(max_examples=30)
def test_mmd_is_the_loop_over_pairs(size):
    n, m, width, seed = size
    source, target = rows(seed, n, width=width), rows(seed + 100, m, 1.0, width=width)
    expected = plain_mmd(source.numpy(), target.numpy())
    assert squared_mmd(source, target).item() == pytest.approx(expected, abs=1e-9)


@given(sizes)
@settings(max_examples=30)
def test_coral_is_numpys_covariance(size):
    n, m, width, seed = size
    source, target = rows(seed, n, width=width), rows(seed + 100, m, scale=2.0, width=width)
    expected = plain_coral(source.numpy(), target.numpy())
    assert CORAL()(source, target).item() == pytest.approx(expected)


def test_coral_by_hand():
    source = torch.tensor([[0.0, 0.0], [2.0, 2.0]])
    target = torch.tensor([[0.0, 4.0], [2.0, 0.0]])
    assert covariance(source).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert covariance(target).tolist() == [[2.0, -4.0], [-4.0, 8.0]]
    assert CORAL()(source, target).item() == pytest.approx((0 + 36 + 36 + 36) / (4 * 4))


def test_mmd_of_one_distribution_is_zero_on_the_average_and_of_two_is_not():
    same = [squared_mmd(rows(s, 20), rows(s + 500, 20)).item() for s in range(200)]
    apart = [squared_mmd(rows(s, 20), rows(s + 500, 20, 1.0)).item() for s in range(20)]
    error = np.std(same) / np.sqrt(len(same))
    assert abs(np.mean(same)) < 4 * error and min(same) < 0
    assert min(apart) > 10 * error


def test_mmd_does_not_change_when_all_features_shrink_or_move():
    source, target = rows(0, 20).float(), rows(1, 20, 1.0).float()
    expected = squared_mmd(source, target).item()
    assert squared_mmd(source / 100, target / 100).item() == pytest.approx(expected, rel=1e-4)
    assert squared_mmd(source + 500, target + 500).item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_features_that_are_all_the_same_have_a_loss_and_a_finite_gradient(method):
    module = DomainAdaptationModule(method, features=FEATURES)
    source, target = (torch.ones(6, FEATURES, requires_grad=True) for _ in range(2))
    loss = module.compute_domain_loss(source, target)
    loss.backward()
    assert loss.isfinite() and source.grad.isfinite().all() and target.grad.isfinite().all()


@pytest.mark.parametrize("method", ["mmd", "coral"])
def test_one_row_is_refused(method):
    module = DomainAdaptationModule(method, features=FEATURES)
    with pytest.raises(InvalidConfiguration, match="two or more"):
        module.compute_domain_loss(torch.ones(1, FEATURES), torch.ones(6, FEATURES))


# -- gradients -------------------------------------------------------------------------------------


def slopes(function, features, width=1e-6):
    """Finite differences of `function` by each number of `features`."""
    found = torch.zeros_like(features)
    for place in np.ndindex(*features.shape):
        ends = []
        for sign in (1, -1):
            moved = features.clone()
            moved[place] += sign * width
            ends.append(function(moved).item())
        found[place] = (ends[0] - ends[1]) / (2 * width)
    return found


def test_reversed_features_are_the_same_and_their_gradient_is_not():
    features = rows(0, 3).requires_grad_()
    passed = reverse_gradient(features, 0.3)
    assert torch.equal(passed, features)
    (passed**2).sum().backward()
    expected = -0.3 * slopes(lambda moved: (moved**2).sum(), features.detach())
    assert torch.allclose(features.grad, expected, atol=1e-6)


def test_dann_sends_features_up_the_gradient_that_its_classifier_goes_down():
    torch.manual_seed(0)
    loss, strength = DANN(FEATURES, hidden=5).double(), 0.7
    source, target = rows(1, 3).requires_grad_(), rows(2, 4).requires_grad_()
    loss(source, target, strength).backward()
    of_source = slopes(lambda moved: loss(moved, target.detach()), source.detach())
    of_target = slopes(lambda moved: loss(source.detach(), moved), target.detach())
    assert torch.allclose(source.grad, -strength * of_source, atol=1e-7)
    assert torch.allclose(target.grad, -strength * of_target, atol=1e-7)
    weights = loss.classifier[0].weight
    before, learnt = weights.detach().clone(), weights.grad.clone()

    def with_weights(moved):
        with torch.no_grad():
            weights.copy_(moved)
            return loss(source, target)

    assert torch.allclose(learnt, slopes(with_weights, before), atol=1e-7)


def test_dann_weighs_both_domains_alike_and_is_ln_2_where_it_knows_nothing():
    loss = DANN(FEATURES).double()
    nn.init.zeros_(loss.classifier[2].weight)
    nn.init.constant_(loss.classifier[2].bias, 1.5)
    expected = (np.log(1 + np.exp(-1.5)) + np.log(1 + np.exp(1.5))) / 2
    assert loss(rows(0, 3), rows(1, 30)).item() == pytest.approx(expected)
    nn.init.zeros_(loss.classifier[2].bias)
    assert loss(rows(0, 3), rows(1, 30)).item() == pytest.approx(np.log(2))


@pytest.mark.parametrize("method", ["mmd", "coral"])
def test_losses_without_a_classifier_have_the_gradient_of_finite_differences(method):
    module = DomainAdaptationModule(method, features=FEATURES, weight=3.0)
    source, target = rows(1, 5).requires_grad_(), rows(2, 6, 0.5)
    module.compute_domain_loss(source, target).backward()
    if method == "coral":
        expected = slopes(lambda moved: module.compute_domain_loss(moved, target), source.detach())
    else:  # no gradient flows through the median
        expected = slopes(lambda moved: 3.0 * ramp(1) * fixed_mmd(moved, target, source.detach()),
                          source.detach())  # fmt: skip
    assert torch.allclose(source.grad, expected, atol=1e-6)


def fixed_mmd(source, target, first):
    """MMD² with the median of `first` and the target."""
    n, both = len(source), torch.cat([source, target])
    median = torch.pdist(torch.cat([first, target])).square().median()
    squares = (both[:, None] - both[None]).square().sum(2)
    kernel = sum(torch.exp(-squares / (scale * median)) for scale in SCALES) / len(SCALES)
    kernel = kernel.fill_diagonal_(0.0)
    m = len(target)
    within = kernel[:n, :n].sum() / (n * (n - 1)) + kernel[n:, n:].sum() / (m * (m - 1))
    return within - 2 * kernel[:n, n:].mean()


# -- the module ------------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(SIZE, FEATURES), nn.Linear(FEATURES, 2)

    def features(self, inputs):
        return self.encoder(inputs)

    def predict(self, features):
        return self.head(features)


def test_ramp_by_hand():
    assert ramp(0.0) == 0.0
    assert ramp(0.1) == pytest.approx((np.e - 1) / (np.e + 1))
    assert ramp(1.0) == pytest.approx(0.9999092)


@pytest.mark.parametrize("method", METHODS)
def test_adapted_loss_is_the_task_loss_plus_the_domain_loss(method):
    torch.manual_seed(0)
    model, module = Model(), DomainAdaptationModule(method, features=FEATURES, weight=2.0)
    source, target = (rows(seed, 8, width=SIZE).float() for seed in (0, 1))
    labels = torch.arange(8) % 2
    found = module.compute_adapted_loss(model, DomainBatch(source, labels, target))
    task = nn.functional.cross_entropy(model.head(model.encoder(source)), labels)
    domain = module.compute_domain_loss(model.encoder(source), model.encoder(target))
    assert found.item() == pytest.approx((task + domain).item())
    module.progress = 0.0


@pytest.mark.parametrize("method", METHODS)
def test_at_first_features_serve_the_task_alone(method):
    module = DomainAdaptationModule(method, features=FEATURES, weight=2.0).double()
    module.progress = 0.0
    features = rows(0, 5).requires_grad_()
    module.compute_domain_loss(features, rows(1, 5, 1.0)).backward()
    assert features.grad.abs().max() == 0.0
    module.progress = 0.1
    module.compute_domain_loss(features, rows(1, 5, 1.0)).backward()
    assert features.grad.abs().max() > 0.0


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_alone_decides_the_first_weights_and_nothing_global_changes(method):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, again, other = (
        DomainAdaptationModule(method, features=FEATURES, seed=seed) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.rand(3), expected)
    weights = [torch.cat([p.flatten() for p in m.parameters()] or [torch.zeros(0)])
               for m in (first, again, other)]  # fmt: skip
    assert torch.equal(weights[0], weights[1])
    assert (len(weights[0]) > 0) == (method == "dann")
    assert method != "dann" or not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    "wrong",
    [{"method": "adda"}, {"weight": -1.0}, {"weight": np.nan}, {"features": 0}, {"hidden": 0}],
    ids=str,
)
def test_a_value_that_is_not_allowed_is_one_sentence(wrong):
    with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
        DomainAdaptationModule(**{"features": FEATURES, **wrong})


# -- what it is for --------------------------------------------------------------------------------


def shifted(rng, count, *, real):
    """Four cues of the label beside twelve numbers that say nothing; only reality varies them."""
    labels = rng.integers(0, 2, count)
    inputs = rng.normal(size=(count, SIZE))
    inputs[:, :4] += 0.9 * (2 * labels[:, None] - 1)
    inputs[:, 4:] *= 4.0 if real else 0.1
    return torch.from_numpy(inputs).float(), torch.from_numpy(labels)


def accuracy(seed, method=None, *, labelled="simulated", steps=400):
    """On real data, after training on what is `labelled`, with or without adaptation."""
    rng = np.random.default_rng(seed)
    simulated, real, test = (shifted(rng, n, real=r) for n, r in ((1000, 0), (1000, 1), (4000, 1)))
    inputs, labels = simulated if labelled == "simulated" else real
    torch.manual_seed(seed)
    model = Model()
    module = DomainAdaptationModule(
        method or "coral", features=FEATURES, weight=float(method is not None), seed=seed
    )
    optimiser = torch.optim.Adam([*model.parameters(), *module.parameters()], lr=1e-2)
    for step in range(steps):
        module.progress = step / steps
        one, other = rng.integers(0, 1000, (2, 64))
        batch = DomainBatch(inputs[one], labels[one], real[0][other])
        loss = module.compute_adapted_loss(model, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        right = model.predict(model.features(test[0])).argmax(dim=1) == test[1]
    return right.double().mean().item()


@pytest.fixture(scope="module")
def unadapted():
    """Of each seed: accuracy on real data of what learnt from simulated, and from real data."""
    return {seed: (accuracy(seed), accuracy(seed, labelled="real")) for seed in range(3)}


@pytest.mark.parametrize("method", METHODS)
def test_adaptation_brings_back_most_of_what_the_shift_costs(method, unadapted):
    for seed, (simulated, real) in unadapted.items():
        assert real - simulated > 0.2
        assert accuracy(seed, method) - simulated > 0.5 * (real - simulated)


def test_the_same_seed_gives_the_same_accuracy():
    assert accuracy(0, "dann", steps=50) == accuracy(0, "dann", steps=50)
