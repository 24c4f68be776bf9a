"""The exact process by conjugate gradients, against the one by a Cholesky factor."""

import json
import pickle
import warnings

import pytest
import torch

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning, InputError
from stratagp.means import Constant
from stratagp.models import IterativeGP
from stratagp.models import row_blocks as blocks
from stratagp.models.row_blocks import RowBlocks
from stratagp.training.world import World
from tests.training.test_world import together


def data(n=400, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(n, 2, generator=g, dtype=torch.float64)
    return x, x.sin().sum(1) + 0.3 * torch.randn(n, generator=g, dtype=torch.float64)


def pair(**options):
    """The same process by a factor and by conjugate gradients."""
    made = [(k.Matern(nu=2.5, lengthscale=[0.8, 1.5], variance=1.3), Constant(0.5)) for _ in range(2)]
    return ExactGP(*made[0], noise=0.1), IterativeGP(*made[1], noise=0.1, **options)


@pytest.mark.parametrize("keep", [True, False])
def test_products_are_those_of_the_dense_matrix(keep, monkeypatch):
    """In three blocks of rows; rows that are kept are in single precision."""
    monkeypatch.setattr(blocks, "_CHUNK", 150 * 400)
    x, _ = data()
    kernel, v = k.RBF(0.7), torch.randn(400, 3, dtype=torch.float64)
    made = RowBlocks(kernel, x, keep)
    torch.testing.assert_close(made @ v, kernel(x) @ v, rtol=1e-5 if keep else 1e-12, atol=1e-4 if keep else 1e-12)
    torch.testing.assert_close(made.exact(v), kernel(x) @ v, rtol=1e-12, atol=1e-12)


def test_rows_are_kept_where_they_fit_for_all_processes(monkeypatch):
    """400 rows are 640,000 bytes, which processes of one machine share; one without room decides for all."""
    x, _ = data()
    monkeypatch.setattr(blocks, "available_memory", lambda: 1_100_000)
    assert RowBlocks(k.RBF(), x).kept is not None
    monkeypatch.setattr(World, "all_have", lambda self, own: [own, False])
    assert RowBlocks(k.RBF(), x).kept is None
    monkeypatch.undo()
    monkeypatch.setattr(blocks, "available_memory", lambda: 1_100_000)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert RowBlocks(k.RBF(), x).kept is None


def test_predictions_are_those_of_the_factor():
    x, y = data()
    by_factor, iterative = (gp.condition(x, y) for gp in pair(tolerance=1e-9))
    new, _ = data(50, seed=1)
    assert iterative.solved_to < 1e-9
    torch.testing.assert_close(iterative.mean(new), by_factor.mean(new), rtol=0, atol=1e-7)
    torch.testing.assert_close(iterative.variance(new), by_factor.variance(new), rtol=1e-4, atol=0)
    torch.testing.assert_close(iterative.covariance(new), by_factor.covariance(new), rtol=0, atol=1e-5)
    torch.testing.assert_close(iterative.covariance(new, x[:3]), by_factor.covariance(new, x[:3]), rtol=0, atol=1e-5)


def test_a_variance_that_is_not_finished_is_too_large_not_too_small():
    x, y = data()
    exact = pair()[0].condition(x, y).variance(x[:40])
    with pytest.warns(ConvergenceWarning):  # of the targets' residual too
        short = pair(rank=1, most=5)[1].condition(x, y)
    with pytest.warns(ConvergenceWarning, match=r"of 40 rows may be too large, by up to \d.* after .* iterations"):
        rough = short.variance(x[:40])
    assert (rough >= exact * (1 - 1e-6)).all()
    fine = pair(tolerance=1e-6, rank=1)[1].condition(x, y).variance(x[:40])
    assert (rough > 1.01 * fine).all()
    assert (fine <= 1.01 * exact).all()


@pytest.mark.parametrize(("noise", "rank"), [(1e-2, 20), (1e-4, 100), (1e-5, 200)])
def test_variances_are_within_a_hundredth_of_small_noise(noise, rank):
    """Of products in single precision, and without a warning."""
    g = torch.Generator().manual_seed(0)
    x, new = (torch.randn(n, 4, generator=g, dtype=torch.float64) for n in (300, 20))
    y = x.sin().sum(1)
    by_factor = ExactGP(k.RBF(1.0), noise=noise).condition(x, y).variance(0.7 * new) + noise
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = IterativeGP(k.RBF(1.0), noise=noise, rank=rank).condition(x, y).variance(0.7 * new) + noise
    assert (found / by_factor).max() < 1.01 + 1e-6
    assert (found / by_factor).min() > 1 - 1e-6


def test_covariances_have_no_negative_eigenvalue():
    """Also where conjugate gradients were stopped early; the diagonal is that of variances."""
    x, y = data()
    gp = IterativeGP(k.RBF(1.0), noise=1e-3, rank=5, most=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        posterior = gp.condition(x, y)
        found, spread = posterior.covariance(x[:60]), posterior.variance(x[:60])
    exact = ExactGP(k.RBF(1.0), noise=1e-3).condition(x, y).covariance(x[:60])
    assert (found - exact).diagonal().max() > 1e-4  # it was stopped early
    assert torch.linalg.eigvalsh(found).min() > -1e-12
    torch.testing.assert_close(found.diagonal(), spread, rtol=0, atol=1e-12)


def test_no_rows_have_no_variances():
    x, y = data(30)
    assert pair()[1].condition(x, y).variance(x[:0]).shape == (0,)


def test_own_noise_of_rows_and_refinement_beyond_single_precision():
    x, y = data()
    noise = torch.linspace(0.01, 0.5, 400, dtype=torch.float64)
    by_factor, iterative = (gp.condition(x, y, noise) for gp in pair(tolerance=1e-12))
    assert iterative.solved_to < 1e-12
    torch.testing.assert_close(iterative.alpha, by_factor.alpha, rtol=1e-8, atol=1e-8)


def test_evidence_within_its_error():
    x, y = data()
    by_factor, iterative = pair(rank=20, n_probes=200)
    found = iterative.evidence(x, y)
    assert 0 < found.error < 1.0
    assert abs(found.value - by_factor.log_evidence(x, y).item()) < 4 * found.error


def test_the_slope_is_that_of_the_evidence_on_average():
    """Of kernel, noise and mean; the mean of 20 estimates of 50 columns, for two targets that share all."""
    x, y = data()
    by_factor, iterative = pair(rank=20, n_probes=50)
    targets = torch.stack([y, y.flip(0)], 1)
    by_factor.log_evidence(x, targets).backward()
    moving, drawn = list(iterative.parameters()), []
    for seed in range(20):
        iterative.zero_grad()
        generator = torch.Generator().manual_seed(seed)
        iterative._climb(x, targets, [iterative.noise] * 2, generator, moving)
        drawn.append(torch.cat([p.grad.reshape(-1) for p in moving]))
    mean, error = torch.stack(drawn).mean(0), torch.stack(drawn).std(0) / 20**0.5
    truth = torch.cat([p.grad.reshape(-1) for p in by_factor.parameters()])
    assert ((mean - truth).abs() < 4 * error + 2e-2 * truth.abs() + 0.2).all()


def test_steps_climb_towards_the_best_values():
    x, y = data(150)
    by_factor, iterative = pair()
    history = iterative.fit(x, y, steps=6, rate=0.1)
    by_factor.load_state_dict(iterative.state_dict())
    end = by_factor.log_evidence(x, y).item()
    assert len(history) == 6
    assert end > history[0].value + 3
    again = pair()[1]
    again.fit(x, y, steps=6, rate=0.1)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), iterative.parameters(), strict=True))


def test_targets_share_the_matrix_and_its_preconditioner(monkeypatch):
    """One preconditioner for each step, whatever the number of targets; the answers are those of each alone."""
    made, make = [], blocks.pivoted_rows
    monkeypatch.setattr(blocks, "pivoted_rows", lambda *args: made.append(1) or make(*args))
    x, y = data(120)
    gp = pair()[1]
    gp.fit(x, torch.stack([y, -y, 2 * y], 1), steps=2)
    assert len(made) == 2
    shared = gp.blocks(x)
    ours = [gp.condition(x, target, blocks=shared) for target in (y, 3 * y)]
    assert len(made) == 3
    assert gp.evidence(x, y, blocks=shared) == gp.evidence(x, y)
    for target, posterior in zip((y, 3 * y), ours, strict=True):
        alone = gp.condition(x, target)
        assert torch.equal(alone.mean(x[:9]), posterior.mean(x[:9]))
        assert torch.equal(alone.variance(x[:9]), posterior.variance(x[:9]))


def test_targets_that_are_the_mean():
    """Of which nothing is left to solve for: the evidence is that of the factor, and a step can be made."""
    x, _ = data(80)
    by_factor, iterative = pair(n_probes=100)
    y = torch.full((80,), 0.5, dtype=torch.float64)
    found = iterative.evidence(x, y)
    assert found.value == pytest.approx(by_factor.log_evidence(x, y).item(), abs=4 * found.error + 1e-3)
    assert iterative.condition(x, y).alpha.abs().max() == 0
    iterative.fit(x, y, steps=1)
    assert all(p.isfinite().all() for p in iterative.parameters())


@pytest.mark.parametrize("noise", [1e-3, 1e-5, 1e-7])
def test_little_noise_is_solved_for_in_double_precision(noise):
    """Rows in single precision would be off by more than the noise: an evidence of millions, residuals near one."""
    x = 4 * torch.rand(600, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact, iterative = (gp(k.RBF(0.5), noise=noise) for gp in (ExactGP, IterativeGP))
    y = exact.sample(x, generator=torch.Generator().manual_seed(1), method="eigen")[0]
    y = y + noise**0.5 * torch.randn(600, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    made = iterative.blocks(x)
    found = iterative.evidence(x, y, blocks=made)
    assert made.kept.dtype == (torch.float32 if noise > 1e-4 else torch.float64)
    assert abs(found.value - float(exact.log_evidence(x, y).detach())) < 0.05 + 4 * found.error
    assert iterative.condition(x, y).solved_to < 1e-6


def test_rows_are_not_kept_in_double_precision_where_they_do_not_fit(monkeypatch):
    x, _ = data()
    monkeypatch.setattr(blocks, "available_memory", lambda: 1_100_000)  # 400 rows are 640,000 bytes, or twice as many
    made, v = RowBlocks(k.RBF(), x), torch.randn(400, 2, dtype=torch.float64)
    assert made.kept is not None
    made.refine()
    assert made.kept is None
    torch.testing.assert_close(made @ v, k.RBF()(x) @ v, rtol=1e-12, atol=1e-12)


def test_what_cannot_be_solved_is_refused():
    """Few iterations of a badly conditioned system: predictions would be those of no data."""
    x = 4 * torch.rand(400, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.randn(400, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gp = IterativeGP(k.RBF(3.0, 1000.0), noise=1e-8, rank=1, most=3)
    with pytest.raises(InputError, match=r"with a noise variance of 1\.0e-08 the matrix is too ill-conditioned"):
        gp.condition(x, y)
    with pytest.warns(ConvergenceWarning, match="the log evidence and its slope are rough"):
        gp.evidence(x, y)


def test_pickles_are_without_the_matrix():
    x, y = data(300)
    posterior = pair(rank=5)[1].condition(x, y)
    text = pickle.dumps(posterior)
    assert len(text) < 40_000  # of 360,000 bytes that the matrix has
    assert torch.equal(pickle.loads(text).variance(x[:3]), posterior.variance(x[:3]))


def test_draws_have_the_posterior_moments():
    x, y = data()
    gp = IterativeGP(k.RBF(0.8), noise=0.1)
    posterior, new = gp.condition(x, y), data(5, seed=2)[0]
    g = torch.Generator().manual_seed(0)
    drawn = torch.stack([posterior.draw(500, g)(new) for _ in range(300)])
    spread = posterior.variance(new).sqrt()
    assert ((drawn.mean(0) - posterior.mean(new)).abs() < 0.35 * spread).all()
    assert (drawn.std(0) / spread).sub(1).abs().max() < 0.2


def test_objects():
    texts = ["".join(chr(97 + (i * j) % 4) for j in range(1, 12)) for i in range(40)]
    y = torch.arange(40, dtype=torch.float64).sin()
    new = ["abcabc", "ddda"]
    both = [gp(k.Spectrum(2), noise=0.1).condition(texts, y) for gp in (ExactGP, IterativeGP)]
    torch.testing.assert_close(both[1].mean(new), both[0].mean(new), rtol=0, atol=1e-5)


TOGETHER = """
import json
from stratagp.training.world import World, join
join()
from tests.models.test_iterative import fitted
found = fitted()
if World().is_first:
    print(json.dumps(found))
"""


def fitted():
    x, y = data(101)
    gp = pair(rank=10)[1]
    history = gp.fit(x, y, steps=3)
    posterior = gp.condition(x, y)
    return [history[-1].value, *(p.detach().tolist() for p in gp.parameters()), posterior.mean(x[:5]).tolist()]


def test_two_processes_share_the_rows(tmp_path):
    """Products of 101 rows, 50 and 51 of them: steps and predictions of one process."""
    (found,) = together(TOGETHER, folder=tmp_path)
    flat = [torch.tensor(json.loads(json.dumps(part))).reshape(-1) for part in (found, fitted()) for part in part]
    half = len(flat) // 2
    for ours, theirs in zip(flat[:half], flat[half:], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert World().size == 1


def test_bad_input():
    x, y = data(50)
    with pytest.raises(InputError, match="noise must be above 0"):
        IterativeGP(k.RBF(), noise=0).condition(x, y)
    with pytest.raises(InputError, match="noise must be above 0"):
        IterativeGP(k.RBF(), noise=0).fit(x, y)
    with pytest.raises(InputError, match="tolerance must be positive"):
        IterativeGP(k.RBF(), tolerance=0)
    with pytest.raises(InputError, match="rank must be at least 1"):
        IterativeGP(k.RBF(), rank=0)
    with pytest.warns(ConvergenceWarning, match="left a relative residual of .* after 4 iterations"):
        IterativeGP(k.RBF(3.0), noise=1e-5, rank=1, most=2).condition(x, y)
