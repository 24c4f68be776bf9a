"""Checks the sizes of posteriors."""

from stratagp.errors import InputError


def check_sizes(m: int, q: int, n_components: int = 1) -> None:
    """Refuse sizes below one."""
    for name, size in (("m", m), ("q", q), ("n_components", n_components)):
        if size < 1:
            raise InputError(f"a posterior needs m ≥ 1, q ≥ 1 and n_components ≥ 1, got {name}={size}")
