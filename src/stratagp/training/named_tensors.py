"""States of optimisers and snapshots as named tensors, for files."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stratagp.training.optimisers import Mover, Snapshot


def fill(targets: list[Tensor], tensors: dict[str, Tensor], name: str) -> None:
    """Set tensors to the values stored as ``name.0``, ``name.1``, …."""
    with torch.no_grad():
        for i, target in enumerate(targets):
            target.copy_(tensors[f"{name}.{i}"])


def named_part(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors stored as ``name.…``, by the rest of their names."""
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def note_optimiser(mover: Mover, tensors: dict[str, Tensor]) -> list[int]:
    """Add the state of the optimiser to ``tensors``; returns which parameters have one."""
    state = {} if mover.optimiser is None else mover.optimiser.state
    known = [i for i, parameter in enumerate(mover.moving) if state.get(parameter)]
    for i in known:
        tensors |= {f"optimiser.{i}.{name}": value for name, value in state[mover.moving[i]].items()}
    return known


def restore_optimiser(mover: Mover, tensors: dict[str, Tensor], known: list[int]) -> None:
    """Restore the state stored by :func:`note_optimiser`."""
    if mover.optimiser is not None:
        mover.optimiser.state.clear()
        for i in known:
            mover.optimiser.state[mover.moving[i]] = _beside(mover.moving[i], named_part(tensors, f"optimiser.{i}"))


def note_snapshot(snapshot: Snapshot, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Add a snapshot to ``tensors``; returns how to read it back."""
    if snapshot.copies is None:
        return {"copies": None}
    tensors |= {f"{name}.{i}": copy for i, copy in enumerate(snapshot.copies)}
    known = [i for i, parameter in enumerate(snapshot.moving) if snapshot.state.get(parameter)]
    for i in known:
        tensors |= {f"{name}-state.{i}.{key}": value for key, value in snapshot.state[snapshot.moving[i]].items()}
    return {"copies": len(snapshot.copies), "known": known}


def restore_snapshot(snapshot: Snapshot, name: str, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Restore a snapshot stored by :func:`note_snapshot`."""
    if state["copies"] is None:
        return
    moving, device = snapshot.moving, snapshot.moving[0].device
    snapshot.copies = [tensors[f"{name}.{i}"].to(device, copy=True) for i in range(state["copies"])]
    snapshot.state = {moving[i]: _beside(moving[i], named_part(tensors, f"{name}-state.{i}")) for i in state["known"]}


def _beside(parameter: Tensor, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors on the device of a parameter."""
    return {name: value.to(parameter.device) for name, value in tensors.items()}
