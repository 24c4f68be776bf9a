"""Write all tables of the pages again, from the stored results: ``python benchmarks/pages.py``.

Each script whose name stands in a mark of a page writes its own; nothing is measured.
"""

import importlib
import re
import sys

import harness


def subjects() -> list[str]:
    """The scripts that have tables in the pages."""
    text = "".join(page.read_text(encoding="utf-8") for page in harness.PAGES)
    return list(dict.fromkeys(re.findall(r"<!-- (\w+)(?: \d+)?: begin -->", text)))


def main() -> None:
    for name in subjects():
        sys.argv = [name, "--markdown"]
        importlib.import_module(name).main()


if __name__ == "__main__":
    main()
