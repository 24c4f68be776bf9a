"""Deep random features against the sparse process, linear models and exact processes."""

import math

import pytest
import torch

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import Inducing, RandomFeatures, Stack
from stratagp.layers.random_features import FREQUENCIES
from stratagp.likelihoods import GaussianNoise, Softmax
from stratagp.models import StochasticGP, drf, fit_drf, gp_drf
from stratagp.types import Mixture

DOUBLE = torch.float64


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


X = 4 * torch.rand(60, 1, generator=seeded(), dtype=DOUBLE) - 2
Y = torch.sin(2 * X) + 0.1 * torch.randn(60, 1, generator=seeded(1), dtype=DOUBLE)
NEW = torch.linspace(-2, 2, 9, dtype=DOUBLE)[:, None]


def first_layer(functions=1):
    layer = Inducing(k.RBF(0.8, variance=1.0), X[:8], functions=functions, jitter=1e-6)
    with torch.no_grad():
        layer.posterior.mean += 0.5 * torch.randn(functions, 8, generator=seeded(2), dtype=DOUBLE)
        layer.posterior.scale *= 0.4
    return layer


def small(frequencies="var-fixed", **options):
    given = dict(n_features=20, frequencies=frequencies, generator=seeded(), dtype=DOUBLE)
    model = drf(1, 1, GaussianNoise(0.1), **{**given, **options})
    for layer in model.layer.sequence:
        torch.nn.init.normal_(layer.posterior.mean, std=0.3, generator=seeded(7))
    return model


# --- limits ---


def test_without_random_features_it_is_the_sparse_process():
    deep = gp_drf(first_layer(), 1, GaussianNoise(0.1), layers=0, dtype=DOUBLE)
    sparse = StochasticGP(k.RBF(0.8, variance=1.0), X[:8], GaussianNoise(0.1), dtype=DOUBLE)
    sparse.layer.posterior.load_state_dict(deep.layer.posterior.state_dict())
    for before in (True, False):  # and after some training
        assert deep.bound(X, Y).item() == pytest.approx(sparse.bound(X, Y).item(), rel=1e-6)
        torch.testing.assert_close(tuple(deep.predict(NEW)), tuple(sparse.predict(NEW)), rtol=0, atol=1e-6)
        if before:
            fit_drf(deep, X, Y, steps=20, batch_size=30)
            sparse.fit(X, Y, steps=20, batch_size=30)


def linear_model(n_features=40, kernel=None, draws="independent"):
    """One layer with the best factorised belief, and the exact belief of a linear model on its features.

    The best factorised Gaussian has the mean of the exact one, and its precisions on the diagonal.
    """
    noise, kernel = 0.05, k.RBF(0.7, variance=1.3) if kernel is None else kernel
    model = drf(
        1,
        1,
        GaussianNoise(noise),
        layers=1,
        n_features=n_features,
        kernel=kernel,
        frequencies="prior-fixed",
        draws=draws,
        generator=seeded(),
        dtype=DOUBLE,
    )
    (layer,) = model.layer.sequence
    with torch.no_grad():
        phi = layer.features(X)
        precision = torch.eye(phi.shape[1], dtype=DOUBLE) + phi.mT @ phi / noise
        mean = torch.linalg.solve(precision, phi.mT @ Y / noise)
        layer.posterior.mean.copy_(mean.mT)
        layer.posterior.log_scale.copy_(-0.5 * precision.diagonal().log())
    return model, layer, phi, precision, mean


def test_the_best_belief_of_one_layer_is_where_the_bound_has_no_slope():
    model, layer, phi, precision, mean = linear_model()
    bound = model.elbo(X, Y).value
    slopes = torch.autograd.grad(bound, [layer.posterior.mean, layer.posterior.log_scale])
    assert max(slope.abs().max().item() for slope in slopes) < 1e-9
    covariance = phi @ phi.mT + 0.05 * torch.eye(60, dtype=DOUBLE)
    evidence = torch.distributions.MultivariateNormal(torch.zeros(60, dtype=DOUBLE), covariance).log_prob(Y[:, 0])
    gap = 0.5 * (precision.diagonal().log().sum() - torch.linalg.slogdet(precision)[1])  # KL(q ‖ exact belief)
    assert bound.item() == pytest.approx((evidence - gap).item(), abs=1e-8)
    torch.testing.assert_close(model.marginals(NEW).mean, layer.features(NEW).detach() @ mean, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", [k.RBF(0.7, variance=1.3), k.Matern(2.5, 0.9, variance=1.3)], ids=["RBF", "Matern"])
def test_one_layer_with_many_features_approaches_the_exact_process(kernel):
    exact = ExactGP(kernel, noise=0.05).condition(X, Y[:, 0]).marginals(NEW).mean
    errors = []
    for n_features in (16, 2048):
        model, *_ = linear_model(n_features, kernel, "quasi")
        errors.append((model.marginals(NEW).mean[:, 0] - exact[:, 0]).abs().max().item())
    assert errors[1] < 0.02
    assert errors[1] < 0.4 * errors[0]


def test_training_finds_the_best_belief():
    wanted = linear_model()[0].bound(X, Y).item()
    model, layer, *_ = linear_model()
    with torch.no_grad():
        layer.posterior.mean.zero_()
        layer.posterior.log_scale.fill_(-1)
    model.fit(X, Y, steps=800, batch_size=60, rate=0.05, parameters=layer.posterior.parameters())
    assert model.bound(X, Y).item() == pytest.approx(wanted, abs=0.5)


# --- deep ones ---


@pytest.mark.parametrize("frequencies", FREQUENCIES)
def test_predictions_are_the_same_each_time_and_close_to_sampling(frequencies):
    model = small(frequencies, layers=3, width=4)
    first, second = model.predict(NEW), model.predict(NEW)
    assert torch.equal(first.mean, second.mean)
    torch.testing.assert_close(model.predict(NEW[:3]).mean, first.mean[:3])  # whatever the other rows are
    assert isinstance(model.belief(NEW), Mixture)
    assert len(model.belief(NEW).log_weights) == 64
    model.layer.n_samples = 4000
    for layer in model.layer.sequence:
        layer.n_samples = 4000
    with torch.no_grad():
        sampled = model.layer(NEW)
    spread = (sampled.var.mean(0) + sampled.mean.var(0)).sqrt()
    found = model.marginals(NEW)
    assert ((found.mean - sampled.mean.mean(0)).abs() / spread).max() < 4.5 / 8  # 64 nodes
    torch.testing.assert_close(found.var.sqrt(), spread, rtol=0.3, atol=0)


@pytest.mark.parametrize("frequencies", FREQUENCIES)
def test_the_bound_repeats_with_its_noise_or_not(frequencies):
    model = small(frequencies)
    values = []
    for _ in range(2):
        model.layer.generator.manual_seed(0)  # layers and stack share one generator
        values.append(model.elbo(X, Y).value.item())
    assert values[0] == values[1]
    model.layer.generator = seeded(0)  # one for the stack alone: only resampled frequencies differ now
    values = []
    for _ in range(2):
        model.layer.generator.manual_seed(0)
        values.append(model.elbo(X, Y).value.item())
    assert (values[0] == values[1]) == (frequencies != "var-resampled")


def test_wide_layers_predict():
    model = small(layers=4, width=60)
    assert model.predict(NEW).mean.isfinite().all()


@pytest.mark.parametrize("feed_forward", [False, True])
@pytest.mark.parametrize("frequencies", ["prior-fixed", "var-fixed"])
def test_training_raises_the_bound(frequencies, feed_forward):
    given = dict(n_features=50, frequencies=frequencies, feed_forward=feed_forward)
    model = drf(1, 1, GaussianNoise(0.1), generator=seeded(), **given)  # from where the library starts
    before = model.bound(X, Y).item()
    (history,) = fit_drf(model, X, Y, steps=300, rate=0.03)
    assert history.halvings == 0
    assert model.bound(X, Y).item() > before + 300
    assert (model.predict(NEW).mean - torch.sin(2 * NEW)).square().mean().sqrt() < 0.35


def test_what_is_fed_forward_is_what_flowed_on(monkeypatch):
    model = gp_drf(first_layer(2), 1, GaussianNoise(0.1), layers=3, n_features=10, n_samples=5, generator=seeded())
    seen = []
    plain = RandomFeatures.forward
    monkeypatch.setattr(RandomFeatures, "forward", lambda self, x: (seen.append(x), plain(self, x))[1])
    model.elbo(X, Y)
    assert [x.shape for x in seen] == [(5, 60, 2), (5, 60, 5), (5, 60, 5)]
    for x in seen[1:]:
        assert torch.equal(x[..., 3:], seen[0])
    assert not torch.equal(seen[0][0], seen[0][1])


def test_a_drawn_function_is_fed_forward_too():
    layers = small(layers=2).layer.sequence
    stack = Stack(*layers, feed_from=0)
    function = stack.draw(seeded(3))
    first, last = (layer.draw(generator) for generator in [seeded(3)] for layer in layers)
    torch.testing.assert_close(function(NEW), last(torch.cat([first(NEW), NEW], -1)))


def test_classes():
    labels = (X[:, 0] > 0).to(DOUBLE)[:, None]
    model = drf(1, 2, Softmax(), n_features=20, n_samples=3, generator=seeded())
    fit_drf(model, X, labels, steps=150, rate=0.03)
    found = model.predict(torch.tensor([[-1.5], [1.5]])).mean
    assert found.shape == (2, 2)
    assert found[0, 0] > 0.8
    assert found[1, 1] > 0.8


def test_objects():
    words = ["a", "ab", "abc", "bcd", "cd", "d", "dd", "aa"]
    anchors = k.Anchors(k.PairFunction(lambda a, b: len(set(a) & set(b))), words[:3])
    rows, y = anchors.encode(words), torch.tensor([[float("a" in word)] for word in words])
    first = Inducing(anchors.kernel, anchors.rows(), functions=2, jitter=1e-4)
    model = gp_drf(first, 1, GaussianNoise(0.1), n_features=20, generator=seeded())
    before = model.bound(rows, y).item()
    fit_drf(model, rows, y, steps=150, rate=0.03)
    assert model.bound(rows, y).item() > before


# --- phases ---


def test_frequencies_and_hyperparameters_wait_for_their_phase():
    def moved(**after):
        model = small(n_features=5)
        start = {name: p.detach().clone() for name, p in model.named_parameters()}
        histories = fit_drf(model, X, Y, steps=20, batch_size=30, **after)
        changed = {name for name, p in model.named_parameters() if not torch.equal(p, start[name])}
        return [h.steps for h in histories], changed, set(start)

    steps, changed, names = moved()
    assert steps == [20]
    assert changed == names
    steps, changed, names = moved(frequencies_after=0.25, hyperparameters_after=0.5)
    assert steps == [5, 5, 10]
    assert changed == names
    steps, changed, names = moved(frequencies_after=1.0, hyperparameters_after=0.5)
    assert steps == [10, 10]
    resting = ("frequency", "lengthscale")  # lengthscales learn from frequencies, which are still those of the prior
    assert names - changed == {name for name in names if any(part in name for part in resting)}
    steps, changed, names = moved(hyperparameters_after=1.0)
    assert names - changed == {name for name in names if "kernel" in name or "likelihood" in name}


def test_the_schedule_runs_over_all_phases():
    seen = []
    fit_drf(
        small(n_features=5), X, Y, steps=8, hyperparameters_after=0.5, schedule=lambda done: seen.append(done) or 0.1
    )
    assert seen == pytest.approx([i / 8 for i in range(8)])


def test_lengthscales_start_as_far_as_points_are_apart():
    model = drf(4, 1, GaussianNoise(0.1), layers=2, width=3, feed_forward=True)
    first, last = (layer.kernel.lengthscale.detach() for layer in model.layer.sequence)
    torch.testing.assert_close(first, torch.full((4,), 2.0, dtype=DOUBLE))
    torch.testing.assert_close(last, torch.full((7,), math.sqrt(7), dtype=DOUBLE))
    kept = drf(4, 1, GaussianNoise(0.1), kernel=k.RBF(0.3))
    assert kept.layer.sequence[0].kernel.lengthscale.item() == pytest.approx(0.3)


def test_bad_arguments_are_named():
    for wrong, options in [
        ("layers must be at least 1", {"layers": 0}),
        ("kernel must be a kernel or one of rbf, arc-cosine", {"kernel": "cosine"}),
        ("frequencies must be one of", {"frequencies": "free"}),
    ]:
        with pytest.raises(InputError, match=wrong):
            drf(1, 1, GaussianNoise(), **options)
    with pytest.raises(InputError, match="must have the 1 functions"):
        gp_drf(first_layer(2), 1, GaussianNoise(), layers=0)
    with pytest.raises(InputError, match="layers must not be negative"):
        gp_drf(first_layer(2), 1, GaussianNoise(), layers=-1)
    with pytest.raises(InputError, match="frequencies_after must lie between 0 and 1"):
        fit_drf(small(), X, Y, steps=3, frequencies_after=2)
