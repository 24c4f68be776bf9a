"""A model as a file.

`save` writes JSON and tensors, no pickle: loading a file runs no code, whoever made it. The loaded model gives the
same predictions to the last bit, and can learn on.
"""

import tempfile
from pathlib import Path

import numpy as np

import stratagp
from stratagp import GPRegressor

X = np.linspace(0, 6, 40)[:, None]
gp = GPRegressor().fit(X, np.sin(X[:, 0]))
with tempfile.TemporaryDirectory() as folder:
    gp.save(Path(folder) / "model")
    for path in sorted((Path(folder) / "model").iterdir()):
        print(path.name)
    loaded = stratagp.load(Path(folder) / "model")

print("the same to the last bit:", bool((loaded.predict(X) == gp.predict(X)).all()))
