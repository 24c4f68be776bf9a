"""Curvature and standard errors against closed forms and differences of values."""

import math
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import constraints

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, bounded, lower_cholesky, positive, real, simplex
from stratagp.training import maximise
from stratagp.training.curvature import Hyperparameter, HyperparameterTable, hessian, table


def free(*values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def data(n=30, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return torch.from_numpy(x), torch.from_numpy(np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=n))


def test_hessian_of_a_quadratic_is_exact():
    root = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = root + root.mT
    a, b, fixed = free(3.0), free(-1.0, 200.0, 0.5), nn.Parameter(torch.ones(2), requires_grad=False)

    def objective():
        x = torch.cat([a, b])
        return x @ matrix @ x / 2 + x.sum()

    torch.testing.assert_close(hessian(objective, [a, fixed, b]), matrix, rtol=0, atol=1e-7)
    assert b.tolist() == [-1, 200, 0.5]


def test_hessian_of_the_evidence_against_differences_of_values():
    x, y = data()
    gp = ExactGP(k.RBF([0.7, 1.5], 1.3), noise=0.05)
    raws = [item.parameter.raw for item in gp.named_values()]
    found = hessian(lambda: gp.log_evidence(x, y), gp.parameters())

    def value(theta):
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(theta, raws)
            return gp.log_evidence(x, y).item()

    start = torch.nn.utils.parameters_to_vector(raws).detach().clone()
    steps = 1e-3 * torch.eye(4, dtype=torch.float64)
    for i in range(4):
        for j in range(4):
            corners = [a * b * value(start + a * steps[i] + b * steps[j]) for a in (1, -1) for b in (1, -1)]
            assert found[i, j].item() == pytest.approx(sum(corners) / 4e-6, rel=1e-4, abs=1e-3)


class Line(Parameterised):
    """``y = w·x + N(0, noise)``."""

    def __init__(self):
        super().__init__()
        self.weights = real([0.0, 0.0])
        self.noise = positive(1.0)

    def log_likelihood(self, x, y):
        gap = y - x @ self.weights
        return -gap.square().sum() / (2 * self.noise) - len(y) / 2 * self.noise.log()


def test_standard_errors_of_a_linear_model():
    x, y = data()
    model = Line()
    maximise(lambda: model.log_likelihood(x, y), model.parameters())
    rows = table(model, lambda: model.log_likelihood(x, y))
    noise = (y - x @ torch.linalg.solve(x.T @ x, x.T @ y)).square().mean().item()
    errors = (noise * torch.linalg.inv(x.T @ x).diagonal()).sqrt().tolist()
    assert [row.name for row in rows] == ["weights[0]", "weights[1]", "noise"]
    assert [row.std for row in rows] == pytest.approx([*errors, noise * (2 / 30) ** 0.5], rel=1e-3)
    assert rows["noise"].value == pytest.approx(noise, rel=1e-3)
    assert rows["noise"].lower == pytest.approx(noise * math.exp(-1.959964 * (2 / 30) ** 0.5), rel=1e-3)
    assert rows["noise"].upper == pytest.approx(noise * math.exp(1.959964 * (2 / 30) ** 0.5), rel=1e-3)
    assert rows["weights[1]"].upper - rows["weights[1]"].value == pytest.approx(1.959964 * errors[1], rel=1e-3)


class Kinds(Parameterised):
    def __init__(self):
        super().__init__()
        self.share = bounded(0.3, 0.2, 0.9)
        self.dof = Parameter(5.0, constraints.greater_than(2.0))
        self.weights = simplex([0.2, 0.5, 0.3])
        self.root = lower_cholesky([[1.5, 0.0], [0.4, 0.7]])
        self.known = positive(3.0, trainable=False)


def test_every_kind_of_constraint_by_the_delta_method():
    module = Kinds()
    centre = {item.name: item.parameter.raw.detach().clone() for item in module.named_values()}

    def objective():  # independent normals with std 0.1 on every free coordinate
        gaps = [item.parameter.raw - centre[item.name] for item in module.named_values() if item.parameter.trainable]
        return -sum(gap.square().sum() for gap in gaps) / (2 * 0.01)

    rows = table(module, objective)
    names = "share dof weights[0] weights[1] weights[2] root[0,0] root[1,0] root[1,1] known"
    assert " ".join(row.name.replace(", ", ",") for row in rows) == names
    assert rows["share"].std == pytest.approx(0.1 * 0.7 * (0.1 / 0.7) * (0.6 / 0.7), rel=1e-6)
    assert rows["dof"].std == pytest.approx(0.3, rel=1e-6)
    assert rows["dof"].lower == pytest.approx(2 + 3 * math.exp(-0.1959964), rel=1e-6)
    assert rows["root[0, 0]"].std == pytest.approx(0.15, rel=1e-6)
    assert rows["root[1, 0]"].std == pytest.approx(0.1, rel=1e-6)
    raw = centre["weights"] + 0.1 * torch.randn(100000, 2, generator=torch.Generator().manual_seed(0))
    drawn = torch.distributions.biject_to(constraints.simplex)(raw).std(0).tolist()
    assert [rows[f"weights[{i}]"].std for i in range(3)] == pytest.approx(drawn, rel=0.02)
    assert all(0 < rows[f"weights[{i}]"].lower < rows[f"weights[{i}]"].upper < 1 for i in range(3))
    known = rows["known"]
    assert (known.value, known.lower, known.upper, known.std) == pytest.approx((3, 3, 3, 0), rel=1e-12)
    assert known.note == "fixed"


class Pair(Parameterised):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = positive(2.0), positive(3.0), positive(4.0)


def test_only_what_the_data_leave_open_is_not_determined():
    module = Pair()

    def objective():  # a product: the ratio of a and b is open
        return -((module.a * module.b).log() - math.log(6)).square() - 8 * (module.c.log() - math.log(4)).square()

    rows = table(module, objective)
    assert [row.std for row in rows] == pytest.approx([math.inf, math.inf, 1.0], rel=1e-6)
    assert (rows["a"].lower, rows["a"].upper) == (0, math.inf)
    assert re.search(r"^a +2 +not determined$", str(rows), re.MULTILINE)
    upwards = table(module, lambda: module.a.log().square() - module.b.log().square() / 2 + 0 * module.c)
    assert [row.std for row in upwards] == pytest.approx([math.inf, 3.0, math.inf], rel=1e-6)


def test_a_step_that_cannot_be_factored_leaves_its_coordinate_open():
    module = Pair()
    module.set(a=1.0)

    def objective():
        if module.a > 1:
            raise NotPositiveDefiniteError("too far")
        return -sum(value.log().square() for value in (module.a, module.b, module.c)) / 2

    assert hessian(objective, module.parameters())[0].isnan().all()
    assert [row.std for row in table(module, objective)] == pytest.approx([math.inf, 3.0, 4.0], rel=1e-6)


def test_names_follow_the_columns():
    x, y = data(d=3)
    gp = ExactGP(k.RBF(ard=True) + k.Linear(ard=True).on(["year", "age"]) + k.Constant().on(slice(0, 2)), noise=0.1)
    gp.kernel.bind(["age", "dose", "year"])
    gp.fix("noise")
    rows = table(gp, lambda: gp.log_evidence(x, y), ["age", "dose", "year"])
    names = [row.name for row in rows]
    assert names[:3] == [f"kernel.0.lengthscale[{column}]" for column in ("age", "dose", "year")]
    assert {"kernel.1.base.variance[year]", "kernel.1.base.variance[age]"} < set(names)
    assert rows["lengthscale[dose]"].name == "kernel.0.lengthscale[dose]"
    plain = table(gp, lambda: gp.log_evidence(x, y))
    assert plain["kernel.0.lengthscale[1]"].std == rows["lengthscale[dose]"].std
    with pytest.raises(InputError, match=r"'variance' matches \d hyperparameters; choose from: kernel.0.length"):
        rows["variance"]
    with pytest.raises(InputError, match="'depth' matches 0 hyperparameters"):
        rows["depth"]


def test_text_html_and_frame():
    rows = HyperparameterTable(
        (
            Hyperparameter("kernel.lengthscale[a<b]", 1.23456, 0.1, 1.05, 1.45, True),
            Hyperparameter("noise", 0.1, 0.0, 0.1, 0.1, False),
        )
    )
    assert str(rows).splitlines() == [
        "name                     value  std  2.5 %  97.5 %",
        "kernel.lengthscale[a<b]  1.235  0.1   1.05    1.45",
        "noise                      0.1                      fixed",
    ]
    html = rows._repr_html_()
    assert html.count("<tr>") == 3
    assert "lengthscale[a&lt;b]</td><td>1.235</td>" in html
    frame = rows.to_frame()
    assert frame.loc["noise", "value"] == 0.1
    assert list(frame.columns) == ["value", "std", "lower", "upper", "trainable"]
    assert len(rows) == 2


def test_nothing_free():
    mean = means.Constant().fix()
    assert [row.note for row in table(mean, lambda: torch.zeros(()))] == ["fixed"]
    with pytest.raises(InputError, match="no trainable entry"):
        hessian(lambda: torch.zeros(()), mean.parameters())
