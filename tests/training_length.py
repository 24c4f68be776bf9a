"""Toys need few steps: how long training by mini-batches lasts in a test."""

from stratagp.recipes.options import BatchOptions


def make_steps(monkeypatch, least):
    """Let training make the epochs that are asked for, or the usual ones, but ``least`` steps at least."""

    def epochs_for(self, rows, usual=None):
        epochs = (usual or self.usual_epochs) if self.max_epochs is None else self.max_epochs
        return max(epochs, -(-least // (rows // min(self.batch_size, rows))))

    monkeypatch.setattr(BatchOptions, "epochs_for", epochs_for)
