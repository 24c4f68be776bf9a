"""A sparse precision matrix from conditionals, and solutions of systems with it.

If each of ``n`` Gaussian variables, in some order, is regressed on a few earlier ones with weights ``A`` and residual
variances ``D``, their precision is ``Q = Uᵀ D⁻¹ U`` with ``U = I − A``. Systems with ``Q + T``, for a diagonal ``T``,
are solved by conjugate gradients; the preconditioner is ``Uᵀ (D⁻¹ + T) U`` (Kündig and Sigrist 2025), whose inverse
takes two triangular solves. It needs some dozens of iterations, each linear in the number of weights.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

MAX_ITERATIONS = 1000


class ConditionalPrecision:
    """``Q = Uᵀ D⁻¹ U``, on the processor.

    Arguments:
        rows: the variables in their order.
        given: the variables that each of ``rows`` is regressed on, all of them earlier; −1 where there are fewer.
        weights: of these.
        var: what the regressions leave.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> q = ConditionalPrecision(torch.tensor([0]), torch.tensor([[-1]]), one[:, None], one)
    >>> q.solve(one, 4 * one)  # (1 + 1) f = 4
    tensor([2.], dtype=torch.float64)
    """

    def __init__(
        self,
        rows: Int[Tensor, " n"],
        given: Int[Tensor, "n m"],
        weights: Float[Tensor, "n m"],
        var: Float[Tensor, " n"],
    ) -> None:
        from scipy.sparse import csr_matrix, eye  # slow to load, and only needed here
        from scipy.sparse.linalg import splu

        n, self.order = len(rows), rows.cpu()
        place = torch.empty(n, dtype=torch.long)
        place[self.order] = torch.arange(n)
        there = (given >= 0).cpu()
        columns, values = place[given.cpu()[there]].numpy(), weights.detach().cpu()[there].double().numpy()
        starts = np.concatenate([[0], there.sum(1).cumsum(0).numpy()])
        self.unit = (eye(n, format="csr") - csr_matrix((values, columns, starts), (n, n))).tocsr()
        self.transposed = self.unit.T.tocsr()
        self.precision = 1 / var.detach().cpu().double().numpy()
        natural = {"permc_spec": "NATURAL", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        self.factor = splu(self.unit.tocsc(), **natural)  # triangular already: nothing fills in

    def square(self, f: Float[Tensor, " n"]) -> float:
        """``fᵀ Q f``."""
        return float(((self.unit @ f.cpu()[self.order].numpy()) ** 2 * self.precision).sum())

    def solve(
        self,
        more: Float[Tensor, " n"],
        right: Float[Tensor, " n"],
        start: Float[Tensor, " n"] | None = None,
        tolerance: float = 1e-10,
    ) -> Float[Tensor, " n"]:
        """``f`` in ``(Q + diag(more)) f = right``, to a residual of ``tolerance`` times that of zero."""
        t, b = (part.detach().cpu()[self.order].double().numpy() for part in (more, right))
        f = np.zeros_like(b) if start is None else start.detach().cpu()[self.order].double().numpy()
        inner, enough = 1 / (self.precision + t), tolerance * np.linalg.norm(b)
        residual, way, last = b - self._product(f, t), np.zeros_like(b), 1.0
        for _ in range(MAX_ITERATIONS):
            if np.linalg.norm(residual) <= enough:
                break
            near = self.factor.solve(inner * self.factor.solve(residual, "T"))
            size = residual @ near
            way, last = near + (size / last) * way, size
            image = self._product(way, t)
            step = size / (way @ image)
            f, residual = f + step * way, residual - step * image
        solution = torch.empty(len(b), dtype=torch.float64)
        solution[self.order] = torch.from_numpy(f)
        return solution.to(right)

    def _product(self, v: np.ndarray, t: np.ndarray) -> np.ndarray:
        """``(Q + T) v``."""
        product: np.ndarray = self.transposed @ (self.precision * (self.unit @ v)) + t * v
        return product
