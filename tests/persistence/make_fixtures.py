"""Writes the model files of the present format that later releases must still read: run it once for each version.

python -m tests.persistence.make_fixtures
"""

import json
from pathlib import Path

import numpy as np

import stratagp as s
from stratagp.persistence.files import FORMAT

HERE = Path(__file__).parent / "fixtures"


def write(name, model, X, plain):
    folder = HERE / f"v{FORMAT}_{name}"
    model.save(folder, overwrite=True)
    found = model.predict_proba(X) if hasattr(model, "predict_proba") else np.stack(model.predict(X, return_std=True))
    (folder / "expected.json").write_text(json.dumps({"X": plain, "found": found.tolist()}))


def main():
    pandas = __import__("pandas")
    X = np.linspace(0, 6, 12)[:, None]
    y = np.sin(X[:, 0])
    new = [[0.5], [2.2], [9.0]]
    write("exact", s.GPRegressor(n_restarts=0, random_state=0).fit(X, y), new, new)
    sparse = s.GPRegressor(inference="sparse", n_inducing=5, n_restarts=0, random_state=0)
    write("sparse", sparse.fit(X, y), new, new)
    frame = pandas.DataFrame({"size": X[:, 0], "town": ["Rome", "Oslo", "Bern"] * 4})
    some = frame.iloc[:4]
    classes = np.where(y > 0, "up", "down")
    write("frame", s.GPClassifier(random_state=0).fit(frame, classes), some, some.to_dict("list"))


if __name__ == "__main__":
    main()
