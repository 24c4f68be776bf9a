"""Train from files, in one process or in many: ``torchrun --nproc-per-node 2 examples/cluster.py``.

Six shards of made-up sensor readings stand for data too large for one machine. Each process reads its own part;
the first one writes the checkpoint and prints. If it is killed, the same command continues where it was.
"""

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

from stratagp import AutoGPRegressor

FOLDER = Path("out/cluster")
SHARDS = 6


def main(steps: int = 1000) -> dict[str, float]:
    """Write shards if there are none, fit, predict a shard to a file, and score it."""
    first = os.environ.get("RANK", "0") == "0"
    if first:
        write_shards()
    while len(list(FOLDER.glob("shard-*.parquet"))) < SHARDS:  # the others wait for the first
        time.sleep(0.1)
    epochs = max(1, steps // 10)  # of 10 steps each
    gp = AutoGPRegressor(n_inducing=20, max_epochs=epochs, batch_size=500, random_state=0, verbose=first)
    gp.fit(str(FOLDER / "shard-[0-4].parquet"), "level", checkpoint=FOLDER / "run")
    if not first:
        return {}
    gp.predict_file(FOLDER / "shard-5.parquet", FOLDER / "predicted.parquet")
    truth, found = pd.read_parquet(FOLDER / "shard-5.parquet")["level"], pd.read_parquet(FOLDER / "predicted.parquet")
    error = float(np.sqrt(np.mean((truth - found["mean"]) ** 2)))
    held = float(((found["lower"] <= truth) & (truth <= found["upper"])).mean())
    print(f"A shard that was not read in training: RMSE {error:.3f}, in the 95 % interval {held:.0%}")
    return {"rmse": error, "coverage": held}


def write_shards(rows: int = 1000) -> None:
    """Readings ``sin(2 x) + 0.1 noise``, shuffled as shards should be; each is written atomically."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        x = rng.uniform(-2, 2, size=rows)
        table = pd.DataFrame({"place": x, "level": np.sin(2 * x) + 0.1 * rng.normal(size=rows)})
        path = FOLDER / f"shard-{shard}.parquet"
        if not path.exists():
            table.to_parquet(path.with_suffix(".part"), row_group_size=250)
            path.with_suffix(".part").rename(path)


if __name__ == "__main__":
    main()
