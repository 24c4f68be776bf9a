"""The run-time type checker of the test session: beartype, with whole numbers counted as floats (PEP 484)."""

from beartype import BeartypeConf, beartype

typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))
