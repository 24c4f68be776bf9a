"""Memory that training uses again at each step."""

import torch


def keep_freed_blocks() -> None:
    """Let the C library keep freed memory for the next step.

    glibc returns blocks to the system until one as large has been freed, and any free space above twice its size; a
    step of training then spends a tenth of its time on fetching the same pages again. Freeing a block just below 32 MB,
    the largest that counts, raises both limits for the whole process, which may then keep 64 MB that it has freed.
    Other systems ignore it, as does glibc if the user has set limits.

    >>> keep_freed_blocks()
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8, device="cpu")


keep_freed_blocks()
