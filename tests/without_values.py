"""A device that is not the processor's, for tests: torch's "meta", whose tensors have shapes and no values.

An operation on tensors of both devices fails, as it would on another device, unless one of them is a number. Questions
about values get the answers of a healthy model, and what comes back to the processor is one.
"""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stratagp.training.optimisers import OPTIMISERS


def answer_questions(monkeypatch):
    """``bool``, ``int``, ``float`` and ``item`` of tensors without values: all is finite, and nothing is bad."""
    found_any, to_list, to_cpu = Tensor.any, Tensor.tolist, Tensor.cpu

    def no(tensor, *args, **options):
        found = found_any(tensor, *args, **options)
        found.is_no = tensor.is_meta
        return found

    def answer(tensor):
        if tensor.dtype == torch.bool:
            return not getattr(tensor, "is_no", False)
        return 1.0 if tensor.is_floating_point() else 0

    def patched(before, kind):
        return lambda self: kind(answer(self)) if self.is_meta else before(self)

    def ones(tensor):
        return torch.ones(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else to_cpu(tensor)

    kinds = {"__bool__": bool, "__int__": int, "__float__": lambda _: 1.0, "item": lambda value: value}
    for name, kind in kinds.items():
        monkeypatch.setattr(Tensor, name, patched(getattr(Tensor, name), kind))
    monkeypatch.setattr(Tensor, "tolist", lambda self: [answer(self)] * len(self) if self.is_meta else to_list(self))
    monkeypatch.setattr(Tensor, "any", no)
    monkeypatch.setattr(Tensor, "cpu", ones)
    equal = torch.equal
    monkeypatch.setattr(torch, "equal", lambda a, b: a.is_meta or equal(a, b))
    monkeypatch.setattr(torch, "allclose", lambda *_, **__: True)
    monkeypatch.setitem(OPTIMISERS, "adam", lambda groups: torch.optim.AdamW(groups, foreach=True))  # it is fused else


class OneDevice(TorchDispatchMode):
    """Every operation must have all its tensors on one device, but for numbers and copies from one to another."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors = [part for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor) and part.dim()]
        if len({part.device for part in tensors}) > 1 and function is not torch.ops.aten.copy_.default:
            raise RuntimeError(f"{function} is given tensors on more than one device")
        return function(*args, **(kwargs or {}))
