"""Training that can be resumed: it saves its state to a folder now and then, and the same call continues from there.

A *stage* is one call of :func:`~stratagp.training.loop.train`; a fit may have several. Each has one file of tensors
(safetensors) with its numbers as JSON in the header: parameters, the optimiser, the last good and the best state,
generators, the position in the data. It is written beside the last one, flushed to disk and renamed, so a process
killed at any moment leaves a complete file. When a fit is called again, it restores the ends of finished stages and
continues the unfinished one, to the same bits as if nothing had happened, given one process and as many threads.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.training.batches import BatchStream
from stratagp.training.named_tensors import (
    fill,
    named_part,
    note_optimiser,
    note_snapshot,
    restore_optimiser,
    restore_snapshot,
)
from stratagp.training.progress import Meter
from stratagp.training.run import Best, Run
from stratagp.training.world import World
from stratagp.whole_files import write_whole

EXIT_CODE = 128 + signal.SIGTERM  # of a process that was asked to end and has saved its state
_COPIES = 6  # of all tensors, at most: values, two moments, the good state and its moments, the best one
_FORMAT = 1


class Checkpoint:
    """A folder in which a fit saves its state.

    Arguments:
        folder: created if necessary. Each fit needs its own folder.
        every: seconds between saves.

    >>> import tempfile
    >>> from stratagp.training.loop import train
    >>> def fit(folder, steps):
    ...     line = nn.Linear(1, 1, bias=False).requires_grad_(True)
    ...     with torch.no_grad():
    ...         line.weight.zero_()
    ...     x = torch.linspace(-1, 1, 64)[:, None]
    ...     history = train(lambda x: -(line(x) - 3 * x).square().mean(), line, [x], steps=steps,
    ...                     batch_size=8, checkpoint=Checkpoint(folder))
    ...     return line.weight.item(), history.steps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit(folder, 20) == fit(folder, 20)  # the second restores what the first has left
    True
    """

    def __init__(self, folder: str | os.PathLike[str], every: float = 60.0) -> None:
        if not every >= 0:
            raise InputError(f"every must be a number of seconds ≥ 0, got {every!r}")
        self.folder, self.every = Path(folder), every
        self._stages = 0
        self.world.by_first(lambda: _check_writable(self.folder))

    @property
    def world(self) -> World:
        """The processes that have joined so far; the first one writes."""
        return World()

    def begin(self, settings: dict[str, Any]) -> None:
        """Record the settings of the fit; refuse a folder with the state of a different fit."""
        self._stages = 0
        self.world.by_first(lambda: _check_writable(self.folder))  # the first of all processes that have joined
        self.world.by_first(lambda: self._begin(settings))

    def settings(self) -> dict[str, Any]:
        """The settings of an earlier fit; empty if there was none."""
        found: dict[str, Any] = self.world.by_first(self._noted)
        return found

    def _noted(self) -> dict[str, Any]:
        path = self.folder / "run.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except ValueError as error:
            raise InputError(f"checkpoint: {path} is damaged ({error}): use another folder") from error
        return found

    def _begin(self, settings: dict[str, Any]) -> None:
        path, text = self.folder / "run.json", json.dumps(settings, indent=1, sort_keys=True, default=repr)
        before, given = self._noted(), json.loads(text)
        if before:
            other = sorted(key for key in before.keys() | given.keys() if before.get(key) != given.get(key))
            if "seed" in other:  # it decides which rows are held out, and the sample
                other = [key for key in other if key != "data"]
            if other:
                raise InputError(
                    f"checkpoint: {self.folder} holds another fit, which differs in {', '.join(other)}: use the same "
                    "arguments to continue it, or another folder"
                )
            return
        try:
            write_whole(path, text.encode())
        except OSError as error:
            raise InputError(f"checkpoint: {path} could not be written ({error}): use another folder") from error

    def stage(self, module: nn.Module, run: Run, best: Best, batches: BatchStream, total: int) -> Stage:
        """The next stage of the fit."""
        number, self._stages = self._stages, self._stages + 1
        return Stage(self, self.folder / f"stage-{number}.safetensors", module, run, best, batches, total)


class Stage:
    """What one call of ``train`` saves and restores."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        path: Path,
        module: nn.Module,
        run: Run,
        best: Best,
        batches: BatchStream,
        total: int,
    ) -> None:
        self.path, self.every, self.world = path, checkpoint.every, checkpoint.world
        self.module, self.run, self.best, self.batches = module, run, best, batches
        self.tensors = all_tensors(module)
        self.generators = generators(module, batches)
        self.fits = {"total": total, "rows": batches.rows, "tensors": [list(t.shape) for t in self.tensors]}
        self._saved = time.monotonic()

    def restore(self, show: Meter) -> bool:
        """Continue from a saved file, if there is one; returns whether the stage is over."""
        content = self.world.by_first(lambda: self.path.read_bytes() if self.path.exists() else None)
        if content is None:
            self.world.by_first(self._check_space)
            return False
        tensors, state = _parsed(content, self.path)
        if state["fits"] != self.fits:
            raise InputError(
                f"checkpoint: {self.path} is from training with other data, length or model: use the same arguments "
                "to continue it, or another folder"
            )
        fill(self.tensors, tensors, "module")
        for i, generator in enumerate(self.generators):
            generator.set_state(tensors[f"generator.{i}"])
        torch.set_rng_state(tensors["generator"])
        self.run.restore(state["run"])
        show.resume(state["run"]["taken"], state["seconds"])
        if state["over"]:
            return True
        self.best.restore(state["best"])
        restore_optimiser(self.run.mover, tensors, state["optimiser"])
        for name, snapshot in (("good", self.run.good), ("best", self.best.snapshot)):
            restore_snapshot(snapshot, name, tensors, state[name])
        self.batches.restore({**state["batches"], **named_part(tensors, "batches")})
        return False

    def maybe_save(self, show: Meter) -> None:
        """Save if the last save was long enough ago."""
        if time.monotonic() - self._saved >= self.every:
            self.save(show)

    def save(self, show: Meter, over: bool = False) -> None:
        """Write the state to the file; if that fails, warn and keep the last file."""
        self._saved = time.monotonic()
        if not self.world.is_first:
            return
        try:
            write_whole(self.path, self._content(show, over))
        except OSError as error:
            warnings.warn(
                f"checkpoint: {self.path} could not be written ({error}); training continues and keeps the last one",
                RuntimeWarning,
                stacklevel=4,
            )

    def _content(self, show: Meter, over: bool) -> bytes:
        """The file as bytes; for a finished stage, only its end."""
        tensors = {f"module.{i}": tensor.detach() for i, tensor in enumerate(self.tensors)}
        tensors |= {f"generator.{i}": generator.get_state() for i, generator in enumerate(self.generators)}
        tensors["generator"] = torch.get_rng_state()
        state: dict[str, Any] = {"format": _FORMAT, "fits": self.fits, "run": self.run.state(), "over": over}
        state["seconds"] = show.elapsed
        if not over:
            place = self.batches.state()
            tensors |= {f"batches.{name}": part for name, part in place.items() if isinstance(part, Tensor)}
            state["batches"] = {name: part for name, part in place.items() if not isinstance(part, Tensor)}
            state["best"] = self.best.state()
            state["optimiser"] = note_optimiser(self.run.mover, tensors)
            for name, snapshot in (("good", self.run.good), ("best", self.best.snapshot)):
                state[name] = {**state.get(name, {}), **note_snapshot(snapshot, name, tensors)}
        copies = {name: tensor.cpu().clone().contiguous() for name, tensor in tensors.items()}
        return save(copies, {"state": json.dumps(state)})

    def _check_space(self) -> None:
        need = _COPIES * sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)
        free = shutil.disk_usage(self.path.parent).free
        if free < 2 * need:  # the new file is written beside the old one
            raise InputError(
                f"checkpoint: {self.path.parent} has {free / 1e6:,.0f} MB left, but two files of up to "
                f"{need / 1e6:,.0f} MB may be needed: free some space or use another folder"
            )


@contextmanager
def termination(wanted: bool) -> Iterator[list[int]]:
    """A list to which SIGTERM and the first Ctrl-C append their numbers instead of ending the process.

    Only inside this context, if ``wanted``, and where they are heeded; a second Ctrl-C ends what is done at once.
    """
    box: list[int] = []
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield box
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, _: object) -> None:
        box.append(number)
        signal.signal(number, before[number])

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield box
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def all_tensors(module: nn.Module) -> list[Tensor]:
    """Parameters and buffers, each once."""
    return list({id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}.values())


def generators(module: nn.Module, batches: BatchStream | None = None) -> list[torch.Generator]:
    """All random generators in a module, and that of the shuffles, each once."""
    held = [value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Generator)]
    held += [] if batches is None else [batches.generator]
    return list({id(generator): generator for generator in held}.values())


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ".writable", b"")
        for left in (folder / ".writable", *folder.glob(".*.safetensors.*")):  # left by a process killed while writing
            left.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"checkpoint: the folder {folder} is not writable ({error}): use another folder") from error


def _parsed(content: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        state = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["state"])
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"checkpoint: {path} is damaged ({error}): remove it to restart that stage") from error
    if state.get("format") != _FORMAT:
        raise InputError(f"checkpoint: {path} is from another version of this library: use another folder")
    return tensors, state
