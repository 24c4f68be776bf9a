"""Files and columns that are not as they should be: one line that says what to do, and exit code 1."""

from pathlib import Path

import numpy as np
import pytest

from stratagp.cli.table import Format, TableFile
from tests.cli.conftest import table


def fails(call, *args, given=None):
    run = call(*args, code=1, given=given)
    assert run.stdout == ""
    (line,) = run.stderr.strip().splitlines()
    return line


def test_a_file_that_is_not_there(call, here):
    Path("houses.csv").write_text("a\n1\n")
    assert fails(call, "fit", "house.csv", "-t", "a") == "error: house.csv does not exist; did you mean houses.csv?"


def test_a_target_that_is_not_there(call, houses, here):
    assert fails(call, "fit", houses["file"], "-t", "prise").endswith("has no column 'prise'; did you mean 'price'?")


def test_an_empty_file(call, here):
    Path("empty.csv").write_text("")
    Path("heading.csv").write_text("a,b\n")
    assert fails(call, "fit", "empty.csv", "-t", "a") == "error: empty.csv is empty"
    assert fails(call, "fit", "heading.csv", "-t", "a") == "error: heading.csv has column names but no rows"


def test_one_row(call, here):
    Path("one.csv").write_text("a,b\n1,2\n")
    assert fails(call, "fit", "one.csv", "-t", "a") == "error: one.csv has 1 row: a fit needs at least 5"


@pytest.mark.parametrize(("sign", "shown"), [(";", ";"), ("\t", "\\t")])
def test_another_delimiter_is_recognised_or_said(call, here, sign, shown):
    table(20).to_csv("t.csv", index=False, sep=sign)
    found = TableFile("t.csv", Format())
    assert found.read().equals(TableFile("t.csv", Format(delimiter=shown)).read())
    assert found.notes == [f"columns are separated by {sign!r}"]
    Path("u.csv").write_text(f"a{sign}b\n1{sign}2{sign}3\n4\n")
    assert fails(call, "fit", "u.csv", "-t", "a").endswith(f"try --delimiter '{shown}'")


def test_another_encoding(call, call_json, here):
    table(20).replace("Oslo", "Köln").to_csv("t.csv", index=False, encoding="latin-1")
    where = Path("t.csv").read_bytes().index(b"\xf6")
    line = fails(call, "fit", "t.csv", "-t", "price")
    assert f"is not UTF-8: byte 0xf6 at position {where}, in line" in line
    assert "--encoding latin-1" in line
    call_json("fit", "t.csv", "-t", "price", "--encoding", "latin-1", "--no-report", "--test", "0")


def test_two_columns_of_one_name(call, here):
    Path("t.csv").write_text("a,b,a\n1,2,3\n")
    assert "several columns named 'a'" in fails(call, "fit", "t.csv", "-t", "b")


def test_a_broken_parquet_file(call, here):
    Path("t.parquet").write_bytes(b"PAR1 and no more")
    assert "t.parquet is not a complete Parquet file" in fails(call, "fit", "t.parquet", "-t", "b")


def test_folders_in_the_place_of_files(call, houses, here):
    Path("folder").mkdir()
    assert "no table files" in fails(call, "fit", "folder", "-t", "b")
    assert "no table files" in fails(call, "evaluate", houses["model"], "folder")
    assert "is a folder: give a CSV" in fails(call, "report", houses["model"], "--data", "folder")


def test_a_model_that_is_none(call, houses, here):
    Path("folder").mkdir()
    assert "folder" in fails(call, "predict", "folder", houses["file"])
    assert "nowhere" in fails(call, "info", "nowhere")


def test_a_column_missing_at_prediction(call, houses, here):
    table(5).drop(columns="town").to_csv("new.csv", index=False)
    line = fails(call, "predict", houses["model"], "new.csv")
    assert line == "error: new.csv has no column 'town', which the model was fitted with"
    table(5).rename(columns={"town": "Town"}).to_csv("new.csv", index=False)
    assert fails(call, "predict", houses["model"], "new.csv").endswith("; did you mean 'Town' for 'town'?")


def test_text_where_numbers_are_meant(call, houses, here):
    frame = table(5).astype({"size": object})
    frame.loc[2, "size"] = "large"
    frame.to_csv("new.csv", index=False)
    assert "has 'large' in column 'size', row 3" in fails(call, "predict", houses["model"], "new.csv")


def test_missing_cells_that_the_model_does_not_fill(call, houses, here):
    frame = table(5)
    frame.loc[2, "size"] = None
    frame.to_csv("new.csv", index=False)
    line = fails(call, "predict", houses["model"], "new.csv")
    assert "no value in column 'size', row 3" in line
    assert "correct 1 of 5 rows, or add --skip" in line


def test_a_word_among_numbers(call, here):
    frame = table(40).astype({"size": object, "price": object})
    frame.loc[6, "size"] = "n.a."
    frame.to_csv("t.csv", index=False)
    line = fails(call, "fit", "t.csv", "-t", "price")
    assert "the column 'size' holds numbers, but 'n.a.' in row 7 is none (1 such entries)" in line
    assert "--missing 'n.a.'" in line
    call("fit", "t.csv", "-t", "price", "--missing", "n.a.", "--no-report", "--test", "0")
    frame.assign(size=1.5, price=["?", *frame["price"][1:]]).to_csv("u.csv", index=False)
    assert "the target 'price' holds numbers, but '?' in row 1" in fails(call, "fit", "u.csv", "-t", "price")


@pytest.mark.parametrize(
    ("written", "first"),
    [
        (lambda v: f"${1000 * v:,.2f}", "$"),
        (lambda v: f"{v:.1f}%", "%"),
        (lambda v: f"{v:.2f} €", "€"),
        (lambda v: f"{1e6 * v:,.0f}", ","),
        (lambda v: f"{1e6 * v:_.0f}".replace("_", " "), " "),
    ],
)
def test_numbers_with_signs(call, here, written, first):
    frame = table(40)
    frame.assign(size=frame["size"].map(written)).to_csv("t.csv", index=False)
    table_file = TableFile("t.csv", Format())
    found = table_file.read()["size"].to_numpy()
    assert first in written(frame["size"][0])
    assert np.ptp(found / frame["size"]) < 0.1 * np.mean(found / frame["size"])  # they are rounded
    assert table_file.notes == [f"column 'size' holds numbers, written like {written(frame['size'][0])!r}"]
    signed = frame["size"].map(written)
    signed[6] = "n.a."
    frame.assign(size=signed).to_csv("t.csv", index=False)
    assert "the column 'size' holds numbers, but 'n.a.' in row 7" in fails(call, "fit", "t.csv", "-t", "price")


def test_words_with_such_signs_are_categories(call, here):
    table(40).assign(rate=["5%", "none"] * 20, pair=["1 2", "3 4"] * 20).to_csv("t.csv", index=False)
    call("fit", "t.csv", "-t", "price", "--no-report", "--test", "0", "-o", "model")
    assert "rate (category), pair (category)" in call("info", "model").stdout


def test_decimal_commas(call, call_json, here):
    table(20).to_csv("t.csv", index=False, sep=";", decimal=",")
    options = ("--delimiter", ";", "--decimal", ",", "--no-report")
    said = call_json("fit", "t.csv", "-t", "price", *options)
    assert said["task"] == "regression"
    assert call_json("fit", "t.csv", "-t", "price", "--no-report", "-o", "found")["metrics"] == said["metrics"]
    again = call_json("fit", "--config", "t-model/settings.toml", "-o", "again", "--no-report")
    assert again["metrics"] == said["metrics"]
    table(20).to_csv("u.csv", index=False)
    line = fails(call, "fit", "u.csv", "-t", "price", "--decimal", ",", "-o", "b")
    assert "--decimal ',' also separates columns" in line


def test_lines_before_the_heading_that_are_empty(call, here):
    Path("t.csv").write_text("\n  \r\na,b\n1,2\n")
    assert fails(call, "fit", "t.csv", "-t", "a") == "error: t.csv has 1 row: a fit needs at least 5"


def test_a_file_in_the_place_of_a_folder_is_found_before_any_work(call, houses, here):
    Path("file").write_text("")
    assert "is a file: give a folder" in fails(call, "fit", houses["file"], "-t", "price", "-o", "file/m")


def test_a_target_without_values_in_evaluation(call, houses, here):
    frame = table(6)
    frame.loc[0, "price"] = None
    frame.to_csv("t.csv", index=False)
    assert "missing in 1 of 6 rows, first in row 1" in fails(call, "evaluate", houses["model"], "t.csv")


def test_what_predictions_are_written_to(call, houses, here):
    assert "must end with .csv or .parquet" in fails(call, "predict", houses["model"], houses["file"], "-o", "a.txt")
    assert "does not exist" in fails(call, "predict", houses["model"], houses["file"], "-o", "no/a.csv")


@pytest.mark.parametrize(
    ("text", "reason", "marked"),
    [
        ("RBF + Foo", "there is no kernel 'Foo'", "RBF + >>>Foo"),
        ("RBF * (Linear", "'(' was never closed", "RBF * >>>(Linear"),
        ("RBF - Linear", "join kernels by + and *", ">>>RBF - Linear"),
        ("RBF(lengthscale=open('x'))", "arguments must be numbers", "RBF(lengthscale=>>>open('x'))"),
        ("__import__('os').system('ls')", "the only method", ">>>__import__"),
        ("RBF(speed=2)", "RBF has no argument 'speed'; it has lengthscale", ">>>RBF(speed=2)"),
        ("RBF(lenghtscale=2)", "'lenghtscale'; did you mean lengthscale?", ">>>RBF(lenghtscale=2)"),
        ("3", "a number alone is no kernel", ">>>3"),
        ("RBF(ard=3000000000)", "RBF: ard must be at most 3,000", ">>>RBF(ard=3000000000)"),
        ("Linear + MetricRBF(100000)", "MetricRBF: factor must be at most 3,000", "Linear + >>>MetricRBF(100000)"),
        ("SpectralMixture(2, 10**9)", "arguments must be numbers", "SpectralMixture(2, >>>10**9)"),
        ("RBF(2, 3, 4, 5)", "too many positional arguments", ">>>RBF(2, 3, 4, 5)"),
        (f"{'9' * 1900} * RBF", "int too large", ">>>999"),
        (f"RBF(lengthscale={'9' * 1900})", "RBF: ", ">>>RBF"),
        ("RBF(lengthscale=1, lengthscale=2)", "the argument 'lengthscale' is given twice", ">>>RBF(len"),
        ("RBF(**{'ard': 2})", "** is not allowed in arguments", ">>>RBF(**"),
        ("Linear + (lambda: 1)", "write kernels and numbers", "Linear + (>>>lambda: 1)"),
    ],
)
def test_kernels_that_cannot_be_read(call, houses, here, text, reason, marked):
    line = fails(call, "fit", houses["file"], "-t", "price", "-o", "a", "--kernel", text)
    assert reason in line
    assert marked in line


def test_a_device_that_is_not_there(call, here):
    table(20).to_csv("t.csv", index=False)
    assert "device='gpu' cannot compute" in fails(call, "fit", "t.csv", "-t", "price", "--device", "gpu")


@pytest.mark.parametrize(("option", "given"), [("epochs", "5"), ("checkpoint", "states")])
@pytest.mark.parametrize("model", ["exact", "sparse"])
def test_options_that_closed_forms_would_ignore(call, here, option, given, model):
    table(20).drop(columns="id").to_csv("t.csv", index=False)
    line = call("fit", "t.csv", "-t", "price", "--model", model, f"--{option}", given, code=1).stderr.splitlines()[-1]
    assert line.startswith(f"error: --{option} needs a model that learns by mini-batches, and {model} does not: leave")


def test_rows_with_more_fields_than_the_heading(call, here):
    Path("r.csv").write_text("a,b\n" + "".join(f"{i},{i + 1},{i + 2}\n" for i in range(6)))
    line = fails(call, "fit", "r.csv", "-t", "a")
    assert line.startswith("error: r.csv: rows have more fields than the 2 column names: name the first column")
    Path("comma.csv").write_text("a,b\n1,2,\n3,4,\n")
    assert fails(call, "fit", "comma.csv", "-t", "a") == "error: comma.csv has 2 rows: a fit needs at least 5"


def test_a_quote_that_is_never_closed(call, here):
    Path("q.csv").write_text('"a,b\n' + "1,2\n" * 50_000)
    assert fails(call, "fit", "q.csv", "-t", "a").startswith("error: q.csv cannot be read as CSV: field larger than")
    Path("q.csv").write_text('a,b\n"1,2\n3,4\n')
    assert fails(call, "fit", "q.csv", "-t", "a").startswith("error: q.csv cannot be read as CSV: EOF inside string")
