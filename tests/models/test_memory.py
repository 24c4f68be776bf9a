"""The memory of exact inference is asked for before it is taken."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.models import memory
from stratagp.models.memory import available_memory, check_memory

GB = 10**9


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine that is made of files: write ``system("meminfo", text)``."""
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_MOUNT", tmp_path / "mount")

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    return write


class Largest(TorchDispatchMode):
    """How much the largest tensor takes that an operation returns."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return result


def test_need_and_remedy_are_told(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * GB)
    with pytest.raises(InputError) as caught:
        check_memory(40_000, "conditioning", 2)
    assert str(caught.value) == (
        "conditioning on 40,000 rows needs at least 25.6 GB of memory for its 40,000 × 40,000 matrices, but 8.0 GB are "
        "available: use VecchiaGP (GPRegressor(inference='vecchia')), SparseGP (inference='sparse'), or at most 22,360 "
        "of the rows"
    )
    check_memory(22_360, "conditioning", 2)
    check_memory(40_000, "conditioning", 2, bytes_each=2)
    with pytest.raises(InputError):
        check_memory(22_361, "conditioning", 2)


def test_nothing_is_read_for_small_matrices(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: pytest.fail("read"))
    check_memory(3000, "conditioning", 100)


def test_what_is_not_known_is_not_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    check_memory(10**9, "conditioning", 2)


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda gp, x, y: gp.log_evidence(x, y), "the evidence on 20,000 rows needs at least 7.0 GB"),
        (lambda gp, x, y: gp.log_posterior(x, y), "the evidence on 20,000 rows"),
        (lambda gp, x, y: gp.log_leave_one_out(x, y), "the leave-one-out score on 20,000 rows needs at least 22.4 GB"),
        (lambda gp, x, y: gp.condition(x, y), "conditioning on 20,000 rows needs at least 1.8 GB"),
        (lambda gp, x, y: gp.condition_each(x, torch.stack([y, y], 1)), "conditioning on 20,000 rows"),
        (lambda gp, x, y: gp.condition(x[:2], y[:2]).condition(x[2:], y[2:]), "conditioning on 20,000 rows"),
    ],
)
def test_exact_inference_refuses_before_it_allocates(monkeypatch, act, what):
    monkeypatch.setattr(memory, "available_memory", lambda: GB)
    x = torch.arange(20_000, dtype=torch.float64)[:, None]
    with pytest.raises(InputError, match=what), Largest() as largest:
        act(ExactGP(k.RBF()), x, x[:, 0])
    assert largest.bytes < 10**7


def test_the_largest_tensor_is_seen_where_nothing_refuses():
    x = torch.arange(500, dtype=torch.float64)[:, None]
    with Largest() as largest:
        ExactGP(k.RBF()).condition(x, x[:, 0])
    assert largest.bytes >= 8 * 500**2


def test_machine(system):
    system("meminfo", "MemTotal:  100 kB\nMemAvailable:   7000 kB\n")
    assert available_memory() == 7000 * 1024


def test_machine_without_proc(system, monkeypatch):
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", sizes.__getitem__, raising=False)
    assert available_memory() == 4_096_000
    monkeypatch.delattr(memory.os, "sysconf")
    assert available_memory() is None


def test_groups_of_version_2_up_to_the_root(system):
    system("meminfo", "MemAvailable: 9000 kB")
    system("groups", "0::/user/job\n")
    system("mount/user/job/memory.max", "max\n")
    system("mount/user/job/memory.current", "100\n")
    system("mount/user/memory.max", "5000000\n")
    system("mount/user/memory.current", "2000000\n")
    system("mount/user/memory.stat", "anon 1500000\ninactive_file 400000\n")
    assert available_memory() == 5_000_000 - 2_000_000 + 400_000


def test_groups_of_version_1_whose_path_is_not_mounted(system):
    """In a container the path may be the host's, and the group itself is the root of the mount."""
    system("meminfo", "MemAvailable: 9000 kB")
    system("groups", "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n")
    system("mount/memory/memory.limit_in_bytes", "3000000\n")
    system("mount/memory/memory.usage_in_bytes", "1000000\n")
    system("mount/memory/memory.stat", "total_inactive_file 200000\n")
    assert available_memory() == 2_200_000


def test_a_full_group_has_nothing_left(system):
    system("groups", "0::/\n")
    system("mount/memory.max", "1000\n")
    system("mount/memory.current", "1200\n")
    assert available_memory() == 0


def test_this_machine_is_read():
    left = available_memory()
    assert left is None or left > 10**6
