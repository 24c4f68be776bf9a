"""CSV files that cannot be read as they are: the message names the file, the line, and what to do."""

import gzip

import pytest

from stratagp.data import Rules, copies, open_source, survey
from stratagp.errors import InputError

LATIN = "city,y\na,1\nb,2\nä,3\n".encode("latin-1")


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("t.csv", LATIN, 4),
        ("t.csv.gz", gzip.compress(LATIN, mtime=0), 4),
        ("t.csv", "stä,y\na,1\n".encode("latin-1"), 1),
        ("t.csv", b"city,y\n" + b"a,1\n" * 500 + b"\xe4,3\n", 502),
    ],
    ids=["plain", "compressed", "names", "later block"],
)
def test_files_that_are_not_utf8_are_refused_by_file_and_line(tmp_path, monkeypatch, name, content, line):
    """In the first block, where pyarrow makes bytes of texts, in names, and in a later block."""
    monkeypatch.setattr(copies, "_BLOCK", 256)
    (tmp_path / "0.csv").write_text("city,y\na,1\n")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        open_source(tmp_path, "y")
    assert (
        str(caught.value) == f"{tmp_path / name} is not UTF-8 (line {line} cannot be decoded): save the file as UTF-8"
    )


def test_utf8_is_read_with_a_mark_of_its_bytes_or_without(tmp_path):
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "t.csv").write_text("city,y\nä,1\n", encoding=encoding)
        assert next(open_source(tmp_path / "t.csv", "y").blocks(0)).X["city"].tolist() == ["ä"]


def test_other_delimiters_are_guessed_at(tmp_path):
    (tmp_path / "t.csv").write_text("city;y\na;1\n")
    with pytest.raises(
        InputError, match=r"t.csv has a single column 'city;y'; its delimiter seems to be ';': separate"
    ):
        open_source(tmp_path / "t.csv", "y")
    (tmp_path / "t.txt").write_text("city\ty\na\t1\n")
    with pytest.raises(InputError, match=r"t.txt has a single column .* seems to be .*: name the file .tsv"):
        open_source(tmp_path / "t.txt", "y")


def test_a_word_among_numbers_of_a_later_block_is_named_with_its_column(tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "_BLOCK", 256)
    (tmp_path / "t.csv").write_text("a,y\n" + "1,1\n" * 500 + "oh no,3\n")
    with pytest.raises(InputError, match=r"t.csv cannot be read as CSV: column 'a': .*invalid value 'oh no'"):
        open_source(tmp_path / "t.csv", "y")


def two_files(folder, word_in):
    """Numbers in two files, with a word in row 200 of one of them."""
    for i in range(2):
        rows = [f"{row}.5,{row}" for row in range(300)]
        rows[200] = "n/a?,200" if i == word_in else rows[200]
        rows[150] = ",150"
        (folder / f"{i}.csv").write_text("\n".join(["x,y", *rows]))


def test_a_word_among_the_numbers_of_another_file_is_named_with_its_row(tmp_path):
    two_files(tmp_path, word_in=1)
    with pytest.raises(InputError) as caught:
        survey(open_source(tmp_path, "y", missing="drop"), Rules(missing="drop"), of_classes=False)
    assert str(caught.value) == (
        f"{tmp_path}/1.csv: column 'x' holds values of kind 'category' ('n/a?' in row 200), but of kind 'number' in "
        f"{tmp_path}/0.csv: give all files the same types"
    )
    two_files(tmp_path, word_in=0)
    with pytest.raises(InputError, match=r"of kind 'number', but of kind 'category' in \S*0.csv \('n/a\?'\): give all"):
        survey(open_source(tmp_path, "y", missing="drop"), Rules(missing="drop"), of_classes=False)
