"""The program as a whole: help, exit codes, pipes, processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import numpy as np
import pytest

import stratagp
from stratagp.cli import main
from stratagp.cli.commands import info
from stratagp.cli.program import COMMANDS
from tests.cli.conftest import table
from tests.training.test_world import CRASH

PROGRAM = [sys.executable, "-m", "stratagp"]


def test_help_tells_of_every_command_and_loads_nothing_heavy():
    code = "import sys; sys.argv = ['stratagp', '--help']\n"
    code += (
        "import atexit; atexit.register(lambda: print([m for m in ('torch', 'numpy', 'rich') if m in sys.modules]))\n"
    )
    code += "from stratagp.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
    assert all(re.search(rf"^  {name}  ", run.stdout, re.MULTILINE) for group in COMMANDS.values() for name in group)


def test_answers_about_a_few_rows_load_no_more_than_they_need(houses):
    """What scikit-learn and SciPy import beside what predictions need takes longer than all else."""
    heavy = "scipy.stats._stats_py scipy.optimize scipy.interpolate sklearn.isotonic sklearn.ensemble sklearn.metrics"
    heavy += " torch._dynamo matplotlib IPython pyarrow.parquet"
    code = "import sys\nfrom stratagp.cli import main\n"
    code += "for name in ('predict', 'evaluate'): main([name, *sys.argv[1:]], standalone_mode=False)\n"
    code += f"print([name for name in {heavy.split()!r} if name in sys.modules])\n"
    code += "from scipy import stats; print(float(stats.norm.cdf(0.0)), type(stats).__name__)"
    words = [sys.executable, "-c", code, str(houses["model"]), str(houses["file"])]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-2:] == ["[]", "0.5 module"]


@pytest.mark.parametrize(("command", "code"), [("info", 0), ("fit", 1)])
def test_light_work_loads_nothing_heavy(houses, tmp_path, command, code):
    words = ["info", str(houses["model"])] if command == "info" else ["fit", "no-such.csv", "-t", "price"]
    program = f"import sys; sys.argv = ['stratagp', *{words}]\n"
    program += "heavy = ('torch', 'sklearn', 'pandas')\nimport atexit\n"
    program += "atexit.register(lambda: print([m for m in heavy if m in sys.modules]))\n"
    program += "from stratagp.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == code, run.stderr
    assert run.stdout.splitlines()[-1] == "[]"
    assert code == 0 or run.stderr == "error: no-such.csv does not exist\n"


@pytest.mark.parametrize("name", [name for group in COMMANDS.values() for name in group])
def test_every_command_and_option_has_help(name):
    found = main.get_command(click.Context(main), name)
    assert found.help
    assert found.name == name
    assert found.help.splitlines()[0] in {group[name] for group in COMMANDS.values() if name in group}
    options = [each for each in found.params if isinstance(each, click.Option)]
    assert all(each.help for each in options)


def test_wrong_usage_is_2(call):
    assert "No such option" in call("fit", "--no-such", code=2).stderr
    assert "Missing option '--target'" in call("fit", "x.csv", code=2).stderr
    assert "COLUMN=KIND" in call("fit", "x.csv", "-t", "y", "--as", "zip=code", code=2).stderr


def test_unexpected_errors_are_3_and_told_in_full_when_asked(call, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(info, "describe", broken)
    assert (
        call("info", "x", code=3).stderr == "error: unexpected ZeroDivisionError: of all things (--debug shows where)\n"
    )
    assert "Traceback" in call("info", "x", "--debug", code=3).stderr


def test_an_interruption_is_130(call, monkeypatch):
    def slow(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(info, "describe", slow)
    assert call("info", "x", code=130).stderr == "error: interrupted\n"


def test_a_signal_while_training_is_130(tmp_path):
    table(2000).to_csv(tmp_path / "many.csv", index=False)
    often = "from stratagp.training import progress; progress._LINE_SECONDS = 0.2; "
    program = [sys.executable, "-c", f"{often}from stratagp.cli import main; main()"]
    command = [*program, "fit", "many.csv", "-t", "price", "--model", "autogp", "--epochs", "100000", "-v"]
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # whoever started the tests may ignore it
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=heeds) as run:
        for line in run.stderr:
            if line.startswith("step "):
                break
        run.send_signal(signal.SIGINT)
        try:
            _, rest = run.communicate(timeout=60)
        finally:
            run.kill()
    # Python ends itself by the signal where it came while a text was executed, whoever caught it: a shell says 130 too.
    assert run.returncode in (130, -signal.SIGINT), rest
    kept = "not scored; saved: the model of 1,600 rows (interrupted); in many-model"
    assert rest.endswith(f"error: interrupted: {kept}\n")
    X = table(5)[["size", "town"]]
    assert np.isfinite(stratagp.load(tmp_path / "many-model").predict(X)).all()
    assert json.loads((tmp_path / "many-model" / "table.json").read_text())["about"]["metrics"] == {}


def test_pipes_see_results_alone(houses, tmp_path):
    text = table(4).to_csv(index=False)
    command = [*PROGRAM, "predict", str(houses["model"]), "-"]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    assert run.stdout.splitlines()[0] == "mean,std,lower,upper"
    assert len(run.stdout.splitlines()) == 5


def test_two_processes_fit_a_folder_and_one_speaks(tmp_path):
    (tmp_path / "many").mkdir()
    for i in range(4):
        table(200, seed=i)[["size", "town", "price"]].to_parquet(tmp_path / "many" / f"{i}.parquet")
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "stratagp",
    ]
    options = ["fit", "many", "-t", "price", "--epochs", "3", "--test", "0.25", "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for _ in range(3):
        shutil.rmtree(tmp_path / "many-model", ignore_errors=True)
        run = subprocess.run(
            [*torchrun, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        if CRASH not in run.stderr:
            break
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert said["model"] == "autogp"
    assert said["metrics"]["rmse"] < 3.2  # the standard deviation of the prices
    assert (tmp_path / "many-model" / "config.json").exists()


def test_completion_is_a_script(call):
    assert "_STRATAGP_COMPLETE=bash_complete" in call("completion", "bash").stdout


def test_the_speed_table_has_both(call_json):
    said = call_json("bench", "--sizes", "60")
    assert said["seconds"][0]["rows"] == 60
    assert said["seconds"][0]["difference"] < 1e-9
    assert said["seconds"][0]["stratagp"] > 0


def test_data_sets_that_ship(call, call_json, here, monkeypatch):
    monkeypatch.setenv("STRATAGP_DATA", str(here))
    Path("v1.2").mkdir()
    for name in ("own.csv", "v1.2/a.csv", "v1.2/b.csv.gz"):
        table(3).to_csv(name, index=False)
    names = [each["name"] for each in call_json("data", "list")["data"]]
    assert {"diabetes", "iris", "own", "v1.2/a", "v1.2/b"} <= set(names)
    assert call_json("data", "get", "v1.2/b")["rows"] == 3
    assert call_json("data", "get", "iris")["rows"] == 150
    assert call_json("data", "get", "diabetes")["rows"] == 442
    assert "--overwrite" in call("data", "get", "diabetes", code=1).stderr
    assert Path("diabetes.csv").read_text().startswith("age,sex,bmi")
