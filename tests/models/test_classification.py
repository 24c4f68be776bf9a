"""Classification models against scikit-learn, quadrature and brute-force algebra."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk

from stratagp import GPClassifier
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.models.classification import GPClassification, MulticlassLaplace, averaged_sigmoid
from stratagp.objectives.sites import WarmStart
from stratagp.training import maximise
from stratagp.types import Gaussian

F64 = torch.float64
EVERY = [("laplace", "logit"), ("laplace", "probit"), ("ep", "probit"), ("variational", "logit")]


def data(n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    t = (np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.4 * rng.normal(size=n) > 0).astype(float)
    return torch.from_numpy(x), torch.from_numpy(t)


def test_latent_process_and_evidence_agree_with_scikit_learn():
    pytest.importorskip("sklearn", minversion="1.7")  # has moments of the latent function
    x, t = data()
    new = torch.from_numpy(np.random.default_rng(1).normal(size=(9, 2)))
    theirs = GaussianProcessClassifier(1.7 * sk.RBF([0.8, 1.5]), optimizer=None).fit(x.numpy(), t.numpy())
    model = GPClassification(k.RBF([0.8, 1.5], 1.7))
    posterior = model.condition(x, t)
    belief = posterior.marginals(new)
    mean, var = theirs.latent_mean_and_variance(new.numpy())
    np.testing.assert_allclose(belief.mean[:, 0].numpy(), mean, atol=1e-6)
    np.testing.assert_allclose(belief.var[:, 0].numpy(), var, atol=1e-6)
    assert model.log_evidence(x, t).item() == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-6)
    # scikit-learn averages the sigmoid by five error functions, to about 1e-3
    np.testing.assert_allclose(posterior.probabilities(new).numpy(), theirs.predict_proba(new.numpy())[:, 1], atol=2e-3)


@pytest.mark.parametrize("mean", [-3.0, 0.0, 0.7, 5.0])
@pytest.mark.parametrize(("var", "atol"), [(0.0, 1e-12), (0.5, 1e-9), (4.0, 1e-5), (100.0, 2e-3)])
def test_averaged_sigmoid_is_the_integral(mean, var, atol):
    def integrand(e):
        return np.exp(-0.5 * e * e) / np.sqrt(2 * np.pi) / (1 + np.exp(-(mean + np.sqrt(var) * e)))

    integral = quad(integrand, -12, 12, points=[np.clip(-mean / np.sqrt(var or 1), -11, 11)], epsabs=1e-13, limit=500)[
        0
    ]
    ours = averaged_sigmoid(Gaussian(torch.tensor([[mean]], dtype=F64), torch.tensor([[var]], dtype=F64)))
    assert ours.item() == pytest.approx(integral, abs=atol)


def test_kappa_is_near_quadrature_and_shares_its_decision():
    x, t = data()
    posterior = GPClassification(k.RBF(0.8, 10.0)).condition(x, t)
    new = torch.from_numpy(np.random.default_rng(2).normal(size=(200, 2)))
    exact, cheap = posterior.probabilities(new), posterior.probabilities(new, method="kappa")
    assert (exact - cheap).abs().max() < 0.02
    assert (exact - cheap).abs().max() > 1e-4
    assert ((exact > 0.5) == (cheap > 0.5)).all()
    assert ((exact > 0.5) == (posterior.marginals(new).mean[:, 0] > 0)).all()


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_probit_probabilities_are_the_integral(inference):
    x, t = data()
    posterior = GPClassification(k.RBF(0.8, 2.0), inference, "probit").condition(x, t)
    mean, var = (part.item() for part in posterior.marginals(x[:1] + 0.1))
    draws = np.random.default_rng(0).normal(mean, np.sqrt(var), 400_000)
    average = torch.special.ndtr(torch.from_numpy(draws)).mean().item()
    assert posterior.probabilities(x[:1] + 0.1).item() == pytest.approx(average, abs=2e-3)


@pytest.mark.parametrize(("inference", "link"), EVERY)
def test_latent_marginals_are_those_of_dense_algebra(inference, link):
    x, t = data(15)
    kernel = k.RBF(0.8, 2.0)
    posterior = GPClassification(kernel, inference, link).condition(x, t)
    new = x[:4] + 0.3
    K, cross = kernel(x).detach(), kernel(x, new).detach()
    total = torch.linalg.inv(K + torch.diag(1 / posterior.sites.precision))
    mean = cross.mT @ total @ (posterior.sites.shift / posterior.sites.precision)
    var = kernel.diag(new).detach() - (cross * (total @ cross)).sum(0)
    belief = posterior.marginals(new)
    torch.testing.assert_close(belief.mean[:, 0], mean, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(belief.var[:, 0], var, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("inference", "link"), EVERY)
def test_flipped_labels_flip_the_probabilities(inference, link):
    x, t = data()
    model = GPClassification(k.RBF(0.8, 2.0), inference, link)
    there, back = model.condition(x, t).probabilities(x), model.condition(x, 1 - t).probabilities(x)
    torch.testing.assert_close(there, 1 - back, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("inference", "link"), EVERY)
def test_training_with_a_warm_start_reaches_the_same_optimum(inference, link):
    x, t = data()
    reached = []
    for start in (None, WarmStart()):
        model = GPClassification(k.RBF(1.0, 1.0), inference, link)
        reached.append(maximise(lambda: model.log_evidence(x, t, start), model.parameters()).value)  # noqa: B023
    assert reached[0] == pytest.approx(reached[1], abs=1e-5)
    assert reached[0] > GPClassification(k.RBF(1.0, 1.0), inference, link).log_evidence(x, t).item()


def test_trained_evidence_is_not_below_scikit_learns():
    x, t = data(60)
    theirs = GaussianProcessClassifier(sk.ConstantKernel() * sk.RBF([1.0, 1.0])).fit(x.numpy(), t.numpy())
    model = GPClassification(k.RBF(ard=2))
    start = WarmStart()
    result = maximise(lambda: model.log_evidence(x, t, start), model.parameters())
    assert result.value >= theirs.log_marginal_likelihood_value_ - 1e-3


def test_start_of_other_data_is_ignored():
    x, t = data()
    start = WarmStart()
    model = GPClassification(k.RBF())
    model.log_evidence(x, t, start)
    assert model.log_evidence(x[:20], t[:20], start).item() == model.log_evidence(x[:20], t[:20]).item()
    assert len(start.state.weights) == 20


@pytest.mark.parametrize(("inference", "link"), EVERY)
def test_separable_data_and_plain_types_are_fine(inference, link):
    x = np.linspace(-2, 2, 16)[:, None]
    posterior = GPClassification(k.RBF(1.0, 1e3), inference, link).condition(x, x[:, 0] > 0)
    p = posterior.probabilities(x)
    assert ((p > 0.5).numpy() == (x[:, 0] > 0)).all()
    assert ((p >= 0) & (p <= 1)).all()


# --- several classes ---


def three_classes(n=25):
    x, _ = data(n)
    return x, (x[:, 0] > -0.5).long() + (x[:, 0] + 0.3 * x[:, 1] > 0.5).long()


def test_two_classes_by_softmax_are_the_logistic_model_of_the_difference():
    x, t = data()
    several = MulticlassLaplace(k.RBF(0.8, 1.0), 2)
    binary = GPClassification(k.RBF(0.8, 2.0))
    assert several.log_evidence(x, t).item() == pytest.approx(binary.log_evidence(x, t).item(), abs=1e-7)
    new = x[:6] + 0.2
    mean, covariance = several.condition(x, t).joint(new)
    belief = binary.condition(x, t).marginals(new)
    contrast = torch.tensor([-1.0, 1.0], dtype=F64)
    torch.testing.assert_close(mean @ contrast, belief.mean[:, 0], rtol=0, atol=1e-6)
    torch.testing.assert_close(covariance @ contrast @ contrast, belief.var[:, 0], rtol=0, atol=1e-6)
    p = several.condition(x, t).probabilities(new)
    torch.testing.assert_close(p[:, 1], binary.condition(x, t).probabilities(new), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kernel", [k.RBF(0.9, 2.0), k.RBF(0.9).replicate(3).set(variance=[0.5, 1.0, 3.0])])
def test_latent_classes_are_those_of_dense_algebra(kernel):
    x, t = three_classes(10)
    new = x[:3] + 0.2
    posterior = MulticlassLaplace(kernel, 3).condition(x, t)
    K, cross = kernel(x).detach().expand(3, 10, 10), kernel(x, new).detach().expand(3, 10, 3)
    f = (K @ posterior.weights[..., None]).squeeze(-1)
    one_hot = torch.nn.functional.one_hot(t, 3).mT
    hessian = torch.autograd.functional.hessian(lambda f: (one_hot * f.log_softmax(0)).sum(), f).reshape(30, 30)
    inner = -hessian @ torch.linalg.inv(torch.eye(30, dtype=F64) - torch.block_diag(*K) @ hessian)
    mean, covariance = posterior.joint(new)
    for row in range(3):
        side = torch.block_diag(*[c[:, row : row + 1] for c in cross])
        prior = torch.diag(kernel.diag(new).detach().expand(3, 3)[:, row])
        torch.testing.assert_close(covariance[row], prior - side.mT @ inner @ side, rtol=0, atol=1e-8)
        torch.testing.assert_close(mean[row], side.mT @ posterior.weights.flatten(), rtol=0, atol=1e-10)
    torch.testing.assert_close(posterior.marginals(new).var, covariance.diagonal(dim1=1, dim2=2))


def test_class_probabilities_are_those_of_samples():
    x, t = three_classes()
    posterior = MulticlassLaplace(k.RBF(0.9, 3.0), 3).condition(x, t)
    mean, covariance = posterior.joint(x[:1] + 0.2)
    draws = np.random.default_rng(0).multivariate_normal(mean[0].numpy(), covariance[0].numpy(), 200_000)
    average = torch.from_numpy(draws).softmax(-1).mean(0)
    p = posterior.probabilities(x[:1] + 0.2)[0]
    torch.testing.assert_close(p, average, rtol=0, atol=5e-3)
    assert p.sum().item() == pytest.approx(1, abs=1e-12)


def test_several_classes_train_with_a_warm_start_and_classify():
    x, t = three_classes(40)
    reached = []
    for start in (None, WarmStart()):
        model = MulticlassLaplace(k.RBF(1.0, 1.0), 3)
        reached.append(maximise(lambda: model.log_evidence(x, t, start), model.parameters()).value)  # noqa: B023
    assert reached[0] == pytest.approx(reached[1], abs=1e-5)
    assert (model.condition(x, t).probabilities(x).argmax(-1) == t).double().mean() > 0.9


# --- what is refused ---


@pytest.mark.parametrize(
    ("x", "t", "message"),
    [
        (torch.zeros(3), torch.zeros(3), "x must have one point in each row"),
        (torch.zeros(3, 1), torch.zeros(4), r"got x \(3, 1\) and t \(4,\)"),
        (torch.zeros(0, 1), torch.zeros(0), "n ≥ 1"),
        (torch.tensor([[0.0], [torch.nan]]), torch.tensor([0, 1]), "x has NaN or infinite values, the first in row 1"),
        (torch.zeros(3, 1), torch.tensor([0.0, 1.0, 2.0]), "labels t must be 0 or 1, got 2.0 in row 2"),
        (torch.zeros(2, 1), torch.tensor([-1, 1]), "labels t must be 0 or 1, got -1.0 in row 0"),
        (torch.zeros(2, 1), torch.tensor([0.0, torch.nan]), "t has NaN or infinite values, the first in row 1"),
        (torch.zeros(3, 1), torch.ones(3), "at least two classes; all 3 are 1"),
        (torch.zeros(1, 1), torch.ones(1), "at least two classes; all 1 are 1"),
    ],
)
def test_bad_data_is_named(x, t, message):
    model = GPClassification(k.RBF())
    for method in (model.condition, model.log_evidence):
        with pytest.raises(InputError, match=message):
            method(x, t)


@pytest.mark.parametrize(
    ("t", "message"),
    [([0, 1, 3], "from 0 to 2, got 3.0 in row 2"), ([0, 1, 0.5], "got 0.5 in row 2"), ([1, 1, 1], "all 3 are 1")],
)
def test_bad_classes_are_named(t, message):
    with pytest.raises(InputError, match=message):
        MulticlassLaplace(k.RBF(), 3).condition(torch.zeros(3, 1), torch.tensor(t))


def test_bad_settings_are_named():
    with pytest.raises(InputError, match="one of laplace, ep, variational; got 'mcmc'"):
        GPClassification(k.RBF(), "mcmc")
    with pytest.raises(InputError, match="inference='ep' needs link='probit', got 'logit'"):
        GPClassification(k.RBF(), "ep", "logit")
    with pytest.raises(InputError, match="needs link='logit' or 'probit', got 'cauchit'"):
        GPClassification(k.RBF(), link="cauchit")
    with pytest.raises(InputError, match="one latent function, but the kernel has 2"):
        GPClassification(k.RBF().replicate(2))
    with pytest.raises(InputError, match="n_classes must be at least 2"):
        MulticlassLaplace(k.RBF(), 1)
    with pytest.raises(InputError, match=r"2 functions for 3 classes.*replicate\(3\)"):
        MulticlassLaplace(k.RBF().replicate(2), 3)
    x, t = data()
    with pytest.raises(InputError, match="method must be 'quadrature' or 'kappa', got 'mean'"):
        GPClassification(k.RBF()).condition(x, t).probabilities(x, method="mean")


@pytest.mark.parametrize(("inference", "link"), EVERY)
def test_the_intercept_is_a_constant_kernel(inference, link):
    x, t = data()
    new = torch.from_numpy(np.random.default_rng(1).normal(size=(9, 2)))
    ours = GPClassification(k.RBF([0.8, 1.5], 1.7), inference, link, intercept=4.0)
    summed = GPClassification(k.RBF([0.8, 1.5], 1.7) + k.Constant(4.0), inference, link)
    assert ours.log_evidence(x, t).item() == pytest.approx(summed.log_evidence(x, t).item(), abs=1e-10)
    ours, summed = ours.condition(x, t).probabilities(new), summed.condition(x, t).probabilities(new)
    torch.testing.assert_close(ours, summed, rtol=0, atol=1e-9)


def test_the_intercepts_of_several_classes_are_constant_kernels():
    x, t = data()
    t = t + (x[:, 1] > 0.5)
    ours = MulticlassLaplace(k.RBF([0.8, 1.5], 1.7), 3, intercept=4.0)
    summed = MulticlassLaplace(k.RBF([0.8, 1.5], 1.7) + k.Constant(4.0), 3)
    assert ours.log_evidence(x, t).item() == pytest.approx(summed.log_evidence(x, t).item(), abs=1e-10)
    ours, summed = ours.condition(x, t).probabilities(x[:5] + 1), summed.condition(x, t).probabilities(x[:5] + 1)
    torch.testing.assert_close(ours, summed, rtol=0, atol=1e-9)
    with pytest.raises(InputError, match="intercept must be a variance, 0 or more, got -1"):
        MulticlassLaplace(k.RBF(), 3, intercept=-1)


def test_far_from_all_rows_classes_return_to_their_base_rates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    rare = rng.random(300) < np.where(X[:, 0] > 1, 0.3, 0.02)  # some 6 %
    three = np.where(rare, 2, (rng.random(300) < 0.3).astype(int))
    for y in (rare.astype(int), three):
        far, rates = GPClassifier(random_state=0).fit(X, y).predict_proba([[1e3, 1e3]])[0], np.bincount(y) / 300
        assert (np.argsort(far) == np.argsort(rates)).all()
        assert rates[-1] < far[-1] < 0.3  # without the constant 0.5, and 0.33
