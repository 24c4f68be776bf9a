"""Is the package fit to be published? ``make release-check`` builds it and tries it as a new user has it.

Builds the source distribution and the wheel, checks their contents and how the README renders, installs the wheel in an
empty environment with torch as pinned by ``constraints.txt``, runs ``tools/smoke.py`` there, and lets mypy and pyright
judge a user's program against the installed types. Nothing is uploaded.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PROGRAM = ROOT / "tests" / "types" / "user_program.py"
BUILD_LEFTOVERS = re.compile(r"(\.pyc|/\.|^tests/|^benchmarks/)")


def run(*command: object, cwd: Path = ROOT) -> None:
    """Run a command, and stop where it fails."""
    words = [str(word) for word in command]
    print("$", " ".join(words).replace(str(ROOT), "."), flush=True)
    if subprocess.run(words, cwd=cwd, check=False).returncode:
        sys.exit(f"release-check: failed at {Path(words[0]).name} {' '.join(words[1:4])}")


def build() -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made from it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (source,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return source, wheel


def check_contents(source: Path, wheel: Path) -> None:
    """The wheel has the package alone, with its types and data; a README on an index points at no file beside it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        page = message_from_string(archive.read(metadata).decode("utf-8")).get_payload()
    extra = [name for name in names if BUILD_LEFTOVERS.search(name) or not name.startswith("stratagp")]
    missing = {"stratagp/py.typed", "stratagp/examples/diabetes.csv"} - {*names}
    relative = re.findall(r"\]\((?!https?:)[^)]*\)", str(page))
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    unpacked = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "constraints.txt", "tests/conftest.py"} - held
    for found, what in [(extra, "files that do not belong in the wheel"), (missing, "files missing from the wheel")]:
        if found:
            sys.exit(f"release-check: {what}: {sorted(found)[:10]}")
    if relative or unpacked:
        sys.exit(f"release-check: relative links in the README: {relative}; missing in the source: {sorted(unpacked)}")
    print(f"wheel: {len(names)} files, {wheel.stat().st_size // 1000} kB; source: {source.stat().st_size // 1000} kB")


def install(wheel: Path, folder: Path, python: str, constraints: Path) -> Path:
    """The interpreter of an empty environment in which the wheel is installed."""
    run(python, "-m", "venv", folder)
    inside = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, wheel)
    run(inside, "-m", "pip", "check", "--disable-pip-version-check")
    return inside


def check_types(python: Path, folder: Path) -> None:
    """Both checkers accept the right calls of a user's program and find each wrong one: no ``ignore`` is idle."""
    shutil.copy(PROGRAM, folder / "user_program.py")
    mypy = ["--strict", "--disable-error-code", "type-arg", "--config-file", "", "--python-executable", python]
    run(sys.executable, "-m", "mypy", *mypy, "user_program.py", cwd=folder)
    rules = {"include": ["user_program.py"], "reportUnnecessaryTypeIgnoreComment": "error"}
    (folder / "pyrightconfig.json").write_text(json.dumps(rules), encoding="utf-8")
    run(sys.executable, "-m", "pyright", "--pythonpath", python, "--project", folder, cwd=folder)


def main() -> None:
    """Build, look inside, install, try, check types."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter to install the wheel for")
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt", help="versions to install")
    options = parser.parse_args()
    source, wheel = build()
    check_contents(source, wheel)
    with tempfile.TemporaryDirectory() as name:
        python = install(wheel, Path(name) / "empty", options.python, options.constraints.resolve())
        run(python, ROOT / "tools" / "smoke.py", cwd=Path(name))
        check_types(python, Path(name))
    print(f"release-check: all well, {', '.join(path.name for path in (source, wheel))}")


if __name__ == "__main__":
    main()
