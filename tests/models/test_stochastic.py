"""The stochastic model against exact inference, on rows that need not fit in memory."""

import numpy as np
import pytest
import torch

from stratagp import ExactGP, SparseGP
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.likelihoods import Bernoulli, GaussianNoise, Sampled, Softmax
from stratagp.models.stochastic import StochasticGP

G = torch.Generator().manual_seed(0)
X = 4 * torch.rand(2000, 1, generator=G, dtype=torch.float64)
Y = torch.sin(3 * X[:, 0]) + 0.1 * torch.randn(2000, generator=G, dtype=torch.float64)
NEW = torch.linspace(0, 4, 50, dtype=torch.float64)[:, None]


def regression(**options):
    return StochasticGP(k.RBF(0.5, variance=1.0), X[::100], GaussianNoise(0.01), **options)


def test_one_natural_step_on_all_rows_is_the_sparse_posterior():
    gp = regression(dtype=torch.float64)
    gp.layer.jitter = 0.0
    gp.fit(X, Y, batch_size=2000, steps=1, natural_rate=1.0, rate=1e-12)
    sparse = SparseGP(k.RBF(0.5, variance=1.0), X[::100], noise=0.01)
    torch.testing.assert_close(
        tuple(gp.marginals(NEW)), tuple(sparse.condition(X, Y).marginals(NEW)), rtol=0, atol=1e-6
    )
    assert gp.elbo(X, Y).value.item() == pytest.approx(sparse.log_evidence(X, Y).item(), abs=1e-5)


def test_training_learns_the_noise_and_the_function():
    gp = StochasticGP(k.RBF(1.0, variance=1.0), X[::100], GaussianNoise(0.5))
    history = gp.fit(X, Y, batch_size=200, epochs=20, rate=0.1)
    assert history.values[-1] > history.values[0]
    exact = ExactGP(k.RBF(0.5, variance=1.0), noise=0.01).condition(X, Y).marginals(NEW)
    assert gp.likelihood.noise.item() == pytest.approx(0.01, rel=0.15)
    torch.testing.assert_close(gp.marginals(NEW).mean.double(), exact.mean, rtol=0, atol=0.05)
    coverage = (gp.predict(X).mean[:, 0] - Y).abs() < 1.96 * gp.predict(X).var[:, 0].sqrt()
    assert coverage.double().mean().item() == pytest.approx(0.95, abs=0.02)


def test_adam_alone_gets_there_too():
    gp = regression()
    gp.fit(X, Y, natural=False, batch_size=200, epochs=20, rate=0.05)
    torch.testing.assert_close(gp.marginals(NEW).mean[:, 0].double(), torch.sin(3 * NEW[:, 0]), rtol=0, atol=0.2)


def test_seeds_reproduce():
    means = []
    for seed in (0, 0, 1):
        gp = regression()
        gp.fit(X, Y, batch_size=100, steps=5, generator=torch.Generator().manual_seed(seed))
        means.append(gp.marginals(NEW).mean)
    assert torch.equal(means[0], means[1])
    assert not torch.equal(means[0], means[2])


def test_single_precision_predicts_as_double():
    single, double = regression(), regression(dtype=torch.float64)
    single.fit(X, Y, batch_size=200, epochs=1)
    double.load_state_dict(single.state_dict())
    double.layer.jitter = single.layer.jitter
    a, b = single.predict(NEW), double.predict(NEW)
    assert (a.mean.dtype, b.mean.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(tuple(t.double() for t in a), tuple(b), rtol=0, atol=1e-3)


def test_memory_maps_and_chunks(tmp_path):
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    gp = StochasticGP(k.RBF(0.5, variance=1.0), X, GaussianNoise(0.01))  # 524 rows a chunk
    first, second = gp.marginals(mapped), gp.layer(X.float())
    torch.testing.assert_close(tuple(first), tuple(second), rtol=0, atol=1e-5)
    small = regression()
    small.fit(mapped, Y.numpy(), steps=2)
    score = small.log_predictive(mapped, Y.numpy())
    with torch.no_grad():
        belief = small.layer(X.float(), small.layer.whitener())
    torch.testing.assert_close(score, small.likelihood.log_predictive(Y.float()[:, None], belief), rtol=0, atol=1e-4)


def test_two_classes():
    labels = (torch.sin(3 * X[:, 0]) > 0).double()
    gp = StochasticGP(k.RBF(0.5, variance=4.0), X[::100], Bernoulli())
    gp.fit(X, labels, batch_size=200, epochs=10, natural_rate=0.3)
    probability = gp.predict(X).mean[:, 0]
    assert ((probability > 0.5) == labels.bool()).double().mean() > 0.97
    assert gp.log_predictive(X, labels).mean() > -0.15


def test_several_classes_and_outputs():
    labels = torch.bucketize(torch.sin(3 * X[:, 0]), torch.tensor([-0.4, 0.4], dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    gp = StochasticGP(k.RBF(0.5, variance=4.0).replicate(3), X[::100], Sampled(Softmax(), 16, generator))
    gp.fit(X, labels, batch_size=200, epochs=15, rate=0.05)
    assert (gp.predict(X).mean.argmax(1) == labels).double().mean() > 0.93
    both = torch.stack([Y, -Y], 1)
    outputs = StochasticGP(k.RBF(0.5, variance=1.0), X[::100], GaussianNoise([0.01, 0.02]), functions=2)
    outputs.fit(X, both, batch_size=200, epochs=3)
    mean = outputs.predict(NEW).mean
    torch.testing.assert_close(mean[:, 0], -mean[:, 1], rtol=0, atol=0.03)


def test_bad_data_are_refused():
    gp = regression()
    broken = Y.clone()
    broken[1234] = torch.nan
    with pytest.raises(InputError, match="y has NaN or infinite values, the first in row 1234"):
        gp.fit(X, broken)
    with pytest.raises(InputError, match="equally many rows"):
        gp.fit(X, Y[:-1])
    with pytest.raises(InputError, match="x has NaN"):
        gp.predict(NEW.log())
    with pytest.raises(InputError, match="columns"):
        gp.predict(NEW[:, 0])
