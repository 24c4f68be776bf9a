"""Underneath: a process as a torch module.

`ExactGP` is a process that you can ask, sample and condition. Conditioned, it is a process again, and so is its
derivative.
"""

import matplotlib.pyplot as plt
import torch

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.training import maximise

torch.manual_seed(0)
x = 6 * torch.rand(40, 1, dtype=torch.float64)
y = torch.sin(x[:, 0]) + 0.05 * torch.randn(40, dtype=torch.float64)

gp = ExactGP(k.RBF(), noise=0.1)
maximise(lambda: gp.log_evidence(x, y), gp.parameters())
slope = gp.condition(x, y).derivative(0)
grid = torch.linspace(0, 6, 100, dtype=torch.float64)[:, None]
print(f"slope at 3: {slope.mean(torch.tensor([[3.0]])).item():.2f}, truth {torch.tensor(3.0).cos().item():.2f}")

plt.plot(grid, slope.mean(grid).detach(), label="slope, from values alone")
plt.plot(grid, grid.cos(), "--", label="truth")
plt.legend()
plt.show()
