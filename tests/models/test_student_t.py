import numpy as np
import pytest
import torch
from scipy.stats import multivariate_t
from torch.autograd import gradcheck

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.linalg.student_density import student_log_density
from stratagp.models import StudentTProcess
from stratagp.training import maximise

X = torch.randn(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.sin(2 * X[:, 0]) + X[:, 1]


def process(dof=4.0):
    return StudentTProcess(k.RBF([0.8, 1.5], 1.7), noise=0.05, dof=dof)


def scipy_log_density(x, y, dof):
    c = (k.RBF([0.8, 1.5], 1.7)(x) + 0.05 * torch.eye(len(x))).detach().numpy()
    return multivariate_t(shape=c * (dof - 2) / dof, df=dof).logpdf(y.numpy())


def test_evidence_agrees_with_scipy():
    assert process().log_evidence(X, Y).item() == pytest.approx(scipy_log_density(X, Y, 4.0), abs=1e-6)


def test_gradients():
    b = torch.linalg.cholesky(k.RBF()(X[:5]).detach() + torch.eye(5))
    leaves = [t.clone().double().requires_grad_() for t in (Y[:5], b, torch.tensor(0.3), torch.tensor(4.5))]
    assert gradcheck(lambda r, b, noise, dof: student_log_density(r, b @ b.mT, noise, dof), leaves)


def test_predictive_density_is_joint_over_marginal():
    posterior = process().condition(X[:10], Y[:10])
    for i in (10, 11):
        joint = scipy_log_density(torch.cat([X[:10], X[i : i + 1]]), torch.cat([Y[:10], Y[i : i + 1]]), 4.0)
        expected = joint - scipy_log_density(X[:10], Y[:10], 4.0)
        assert posterior.log_predictive(X[i : i + 1], Y[i : i + 1]).item() == pytest.approx(expected, abs=1e-6)


def test_many_degrees_of_freedom_are_a_gaussian_process():
    gp = ExactGP(k.RBF([0.8, 1.5], 1.7), noise=0.05)
    assert process(1e9).log_evidence(X, Y).item() == pytest.approx(gp.log_evidence(X, Y).item(), abs=1e-5)
    ours, theirs = process(1e9).condition(X, Y).marginals(X + 0.1), gp.condition(X, Y).marginals(X + 0.1)
    torch.testing.assert_close(tuple(ours), tuple(theirs), rtol=1e-6, atol=1e-6)


def test_error_bars_follow_the_size_of_the_data():
    tame, wild = process().condition(X, Y), process().condition(X, 10 * Y)
    new = X + 0.2
    torch.testing.assert_close(wild.mean(new), 10 * tame.mean(new), rtol=1e-9, atol=1e-9)
    assert (wild.marginals(new).var > 5 * tame.marginals(new).var).all()
    torch.testing.assert_close(wild.covariance(new).diagonal(), wild.marginals(new).var[:, 0], rtol=1e-8, atol=1e-10)


def test_degrees_of_freedom_are_learnt():
    """Data far larger than the kernel expects prefer few degrees of freedom."""
    model = process(50.0)
    before = model.log_evidence(X, 20 * Y).item()
    model.gaussian.fix()
    maximise(lambda: model.log_evidence(X, 20 * Y), model.parameters())
    assert model.dof.item() < 10
    assert model.log_evidence(X, 20 * Y).item() > before


@pytest.mark.parametrize("dof", [2.0, -1.0, np.nan])
def test_degrees_of_freedom_are_checked(dof):
    with pytest.raises(InputError, match="dof must be above 2"):
        process(dof)
