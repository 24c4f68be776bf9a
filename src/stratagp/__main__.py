"""``python -m stratagp``, the command line; also under ``torchrun -m stratagp fit …``."""

from stratagp.cli import main

if __name__ == "__main__":
    main()
