"""The commands and their options; what they do is in the modules that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from stratagp.cli.program import Program, command
from stratagp.cli.settings import read_config

MODELS = ("auto", "exact", "sparse", "autogp", "dkl", "dfgp", "gp-drf")
TASKS = ("regression", "classification")
KINDS = ("number", "category", "date", "text", "ignore")
_OPENING: dict[str, dict[str, Any]] = {
    "missing": {"multiple": True, "metavar": "TEXT",
                "help": "What stands for a missing value, beside nothing, NA and NaN; '?', say. Several times."},
    "decimal": {"default": ".", "help": "The sign before the fraction of a number in a text file; ',' perhaps."},
    "delimiter": {"help": "What separates columns of a text file."},
    "encoding": {"default": "utf-8-sig", "help": "The encoding of a text file."},
}  # fmt: skip


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        import importlib.metadata

        click.echo(f"stratagp {importlib.metadata.version('stratagp')}")
        ctx.exit()


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def main() -> None:
    """Gaussian-process models of tables: predictions that say how sure they are.

    \b
    stratagp fit houses.csv --target price       learn, test on held-out rows, save, report
    stratagp predict houses-model new.csv        mean, spread and interval for each row
    stratagp evaluate houses-model test.csv      errors, and whether the intervals hold

    Results go to standard output, remarks to standard error. Exit codes: 0 all went well, 1 data or
    options are at fault, 2 the command was not understood, 3 an unexpected error, 130 interrupted.
    """


main.sections = {
    "Learn and predict": ("fit", "predict", "evaluate"),
    "Look at models": ("report", "info", "export"),
    "This machine and data": ("bench", "data", "completion"),
}


def _opening(declared: Callable[..., Any]) -> Callable[..., Any]:
    for name, given in _OPENING.items():
        declared = click.option(f"--{name}", **given, show_default="default" in given)(declared)
    return declared


def _kinds(ctx: click.Context, parameter: click.Parameter, given: Any) -> dict[str, str]:
    """``COLUMN=KIND``, several times, as a mapping."""
    pairs = [each.rpartition("=")[::2] for each in given]
    for name, kind in pairs:
        if not name or kind not in KINDS:
            raise click.BadParameter(f"write COLUMN=KIND, with one of {', '.join(KINDS)} as kind")
    return dict(pairs)


@command(main, "fit", "starting")
@click.argument("file", metavar="FILE")
@click.option("--target", "-t", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("--config", is_eager=True, expose_value=False, callback=read_config, metavar="FILE",
              help="A TOML file with options by their names, as every fit leaves one.")  # fmt: skip
@click.option("--out", "-o", metavar="DIR", help="Where the model goes; the file's name with -model if left out.")
@click.option("--overwrite", is_flag=True, help="Replace a model that is there.")
@click.option("--model", type=click.Choice(MODELS), default="auto", show_default=True,
              help="Which kind of model; auto goes by size and kind of the data, and says why.")  # fmt: skip
@click.option("--task", type=click.Choice(["auto", *TASKS]), default="auto", show_default=True,
              help="Whether the target is a number or a class.")  # fmt: skip
@click.option("--log", is_flag=True,
              help="Learn the logarithm of a positive target, by mini-batches; answers are about the target itself, "
              "intervals lie above zero.")  # fmt: skip
@click.option("--kernel", metavar="TEXT", help="For example \"RBF*Periodic(period=1) + Linear(on='year')\".")
@click.option("--as", "kinds", multiple=True, callback=_kinds, metavar="COLUMN=KIND",
              help="What a column holds: number, category, date, text; or ignore. Several times.")  # fmt: skip
@click.option("--test", type=click.FloatRange(0, 1, max_open=True), default=0.2, show_default=True, metavar="SHARE",
              help="The share of rows to hold out for the test; 0 for none.")  # fmt: skip
@click.option("--drop-missing", is_flag=True,
              help="Leave rows out that have no target, or lack inputs where the model cannot fill them.")  # fmt: skip
@click.option("--rows", type=click.IntRange(2), metavar="N",
              help="Train on this many rows at most, drawn at random; not for folders.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), metavar="N", help="How often mini-batch models go over the rows.")
@click.option("--time-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="Train for about so long: by fewer epochs or rows or a sparser model; not for folders.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, metavar="N",
              help="Of the test rows and of all that is random in training.")  # fmt: skip
@click.option("--checkpoint", metavar="DIR", help="Where mini-batch models leave their state; a second call goes on.")
@click.option("--device", metavar="NAME", help="Where the model is trained: cpu, cuda, cuda:1.")
@click.option("--report/--no-report", default=True, help="Whether to write a page about the model.")
@_opening
def _fit(**options: Any) -> None:
    """Learn to predict a column of FILE from the others.

    FILE is a CSV, TSV or Parquet file, or - for CSV from standard input. A folder or a quoted pattern of
    files ('flights/*.parquet'), or one that does not fit in memory, is read in batches, which --rows and
    --time-limit are not for; that also works in several processes:
    torchrun --nproc-per-node 2 -m stratagp fit ...

    The kinds of columns are found and told. A part of the rows is held out, and predicted beside the
    mean of the target and gradient boosting. The model, the settings and a report go to a folder.
    """


@command(main, "predict", "predicting")
@click.argument("model", metavar="MODEL")
@click.argument("file", metavar="FILE")
@click.option("--out", "-o", metavar="FILE", help="A .csv or .parquet file; CSV on standard output if left out.")
@click.option("--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True,
              metavar="SHARE", help="The probability of the interval.")  # fmt: skip
@click.option("--skip", is_flag=True,
              help="Leave predictions empty of rows that lack inputs or have categories the model has not learnt, "
              "which are errors otherwise.")  # fmt: skip
@_opening
def _predict(**options: Any) -> None:
    """Predict the rows of FILE.

    Each gets mean, std, lower and upper; or its class, and the probability of each. Rows stay in their
    order. Columns are found by their names, in any order; others are ignored. A folder or a quoted
    pattern of files is read in batches.
    """


@command(main, "evaluate", "evaluating")
@click.argument("model", metavar="MODEL")
@click.argument("file", metavar="FILE")
@click.option(
    "--drop-missing", is_flag=True, help="Leave rows out that have no target, or that the model cannot answer."
)
@_opening
def _evaluate(**options: Any) -> None:
    """Compare predictions for FILE with its target.

    Of numbers: errors, density, and how many lie inside of intervals of 95 %. Of classes: accuracy, log
    loss and calibration. A folder or a quoted pattern of files is read in batches.
    """


@command(main, "report", "reporting")
@click.argument("model", metavar="MODEL")
@click.option("--data", metavar="FILE", help="Rows to judge the model by, in place of those held out in the fit.")
@click.option("--out", "-o", metavar="FILE", help="The page; report.html beside the model if left out.")
@click.option("--drop-missing", is_flag=True,
              help="Of --data, leave rows out that have no target, or that the model cannot answer.")  # fmt: skip
@click.option("--open", "open_it", is_flag=True, help="Show it in the browser.")
@_opening
def _report(**options: Any) -> None:
    """Write the page about a model again, or about other rows.

    One HTML file that needs no network: how good the model is, whether its error bars hold, what drives
    predictions, worst cases.
    """


@command(main, "info", "describing")
@click.argument("model", metavar="MODEL")
def _info(**options: Any) -> None:
    """Tell what a saved model is, without loading it."""


@command(main, "export", "exporting")
@click.argument("model", metavar="MODEL")
@click.option("--out", "-o", required=True, metavar="FILE", help="The file to write, .onnx or .pt2.")
@click.option("--format", "kind", type=click.Choice(["onnx", "torch"]),
              help="Its format; by the ending of the file if left out.")  # fmt: skip
def _export(**options: Any) -> None:
    """Write a model as a graph that runs without StrataGP.

    It maps rows of numbers, x, to mean and variance, or to probabilities: an ONNX file for onnxruntime, or
    a program for torch.export.load. Categories are given by their number, dates in days since 1970; the
    file names columns, categories and classes. Models of texts cannot be exported.
    """


@command(main, "bench", "benching")
@click.option("--sizes", default="500,1000,2000", show_default=True, metavar="N,N,...", help="Numbers of rows.")
def _bench(**options: Any) -> None:
    """Time the exact process on this machine, beside scikit-learn.

    One log marginal likelihood with its gradient, eight lengthscales, double precision, as many threads
    as torch takes here. The best of three; both must agree on the value.
    """


@main.group("data")
def _data() -> None:
    """List data sets, or write one as a CSV file."""


@command(_data, "list", "listing")
def _data_list(**options: Any) -> None:
    """List data sets that need no network.

    These are scikit-learn's own, and those under the folder that STRATAGP_DATA names.
    """


@command(_data, "get", "getting")
@click.argument("name", metavar="NAME")
@click.option("--out", "-o", metavar="FILE", help="The CSV file to write; NAME.csv if left out.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
def _data_get(**options: Any) -> None:
    """Write a data set as a CSV file.

    NAME is one of the list, or a data set of OpenML where there is a network.
    """


@main.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def _completion(shell: str) -> None:
    """Print what makes a shell complete commands and options.

    For bash, put this into ~/.bashrc:  eval "$(stratagp completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "stratagp", "_STRATAGP_COMPLETE").source())
