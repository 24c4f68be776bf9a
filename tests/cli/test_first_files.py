"""A stranger's first file: what is decided about its columns, task, test and model, for each row of a table."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from stratagp.cli.commands import fit
from stratagp.cli.output import Console
from stratagp.cli.settings import Settings
from stratagp.errors import InputError

FILES = Path(__file__).parent / "first_files"
TABLE = FILES / "decisions.md"


class Decision(NamedTuple):
    asked: str
    task: str
    columns: str
    left_out: str
    split: str
    model: str
    said: str


def decisions() -> list[Decision]:
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| ")][1:]
    return [Decision(*(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])) for line in lines]


def settings_of(asked: str) -> Settings:
    name, *options = shlex.split(asked)
    context = fit.command.make_context("fit", [str(FILES / name), *options])
    own = {name: value for name, value in context.params.items() if name not in ("as_json", "verbose", "debug")}
    return Settings(**own)


@pytest.mark.parametrize("wanted", decisions(), ids=lambda each: each.asked)
def test_what_is_decided_about_a_file(wanted, capsys):
    settings = settings_of(wanted.asked)
    if settings.file.endswith(".xlsx"):
        pytest.importorskip("openpyxl")
    pieces = [piece.replace("\\|", "|") for piece in wanted.said.split(" / ") if piece]
    if wanted.task == "refused":
        with pytest.raises(InputError) as refusal:
            fit.prepare(Console(verbose=True), settings)
        said = str(refusal.value)
    else:
        found = fit.prepare(Console(verbose=True), settings)
        said = capsys.readouterr().err + "\n".join(found.assumed)
        used = {each.name: each.kind for each in found.columns if each.used}
        assert used == dict(each.rsplit(" ", 1) for each in wanted.columns.split(", "))
        left_out = ", ".join(each.name for each in found.columns if not each.used)
        assert (found.task, left_out) == (wanted.task, wanted.left_out)
        assert (found.settings.split, found.choice.model) == (wanted.split, wanted.model)
        assert len(found.parts.y) + len(found.parts.y_test) == len(found.parts.rank) + len(found.parts.y_test)
    for piece in pieces:
        assert piece in said


def test_every_file_has_a_decision_and_there_are_forty():
    listed = {each.asked.split()[0] for each in decisions()}
    assert listed == {path.name for path in FILES.iterdir()} - {TABLE.name}
    assert len(listed) >= 40
