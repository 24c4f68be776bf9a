"""Toys need few steps: how long training by mini-batches lasts in a test."""

from stratagp.recipes.batches import Batches


def make_steps(monkeypatch, least):
    """Let training make the epochs that are asked for, or the default ones, but ``least`` steps at least."""
    length = Batches.length

    def few(self, default_epochs, what="", epochs=None):
        rows = len(self.data) if self.rows.stream is None else self.rows.total
        size = min(self.settings.batch_size, rows)
        wanted = max(default_epochs if epochs is None else epochs, -(-least // (rows // size)))
        return length(self, default_epochs, what, wanted)

    monkeypatch.setattr(Batches, "length", few)
