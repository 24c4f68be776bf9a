"""Molecules as graphs.

`WeisfeilerLehman` counts the neighbourhoods that two graphs share, here those of molecules written as SMILES.
`PairFunction` makes a kernel of any similarity of two objects.
"""

from stratagp import GPRegressor
from stratagp import kernels as k

boiling = {  # in °C
    "CO": 64.7,
    "CCO": 78.2,
    "CCCO": 97.2,
    "CCCCO": 117.7,
    "CCCCCO": 138.0,
    "CCCCCCO": 157.0,
    "CCC": -42.1,
    "CCCC": -0.5,
    "CCCCC": 36.1,
    "CCCCCC": 68.7,
    "CCCCCCC": 98.4,
}
kernel = k.WeisfeilerLehman(2, lengthscale=1.0, parse=k.read_smiles)
gp = GPRegressor(kernel, n_restarts=0).fit(list(boiling), list(boiling.values()))

for smiles, name, truth in (("CCCCCCCO", "heptanol", 176), ("CCCCCCCC", "octane", 126)):
    low, high = gp.predict_interval([smiles])
    print(f"{name}: {low[0]:.0f} to {high[0]:.0f} °C; measured: {truth}")
