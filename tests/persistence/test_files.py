"""Where models are written, and how: whole, in the right place, with what they are; old files, newer files."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import stratagp
from stratagp.errors import InputError, ModelFileError
from stratagp.persistence import describe, files
from tests.persistence import mutate
from tests.persistence.estimators import fitted
from tests.persistence.make_fixtures import MODELS, said

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("v*"))


def test_two_files_and_no_more(tmp_path):
    fitted("exact").model.save(tmp_path / "deep" / "down")
    assert sorted(os.listdir(tmp_path / "deep" / "down")) == ["config.json", "model.safetensors"]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    model = fitted("exact").model
    model.save(tmp_path)  # an empty folder will do
    with pytest.raises(InputError, match="holds a model: give another, or overwrite=True"):
        model.save(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"is not a model and holds thesis\.tex"):
        model.save(other)
    model.save(other, overwrite=True)
    assert (other / "thesis.tex").read_text() == "years of work"
    assert stratagp.load(other).predict([[0, 0, 0]]) == model.predict([[0, 0, 0]])
    with pytest.raises(InputError, match="is a file"):
        model.save(other / "thesis.tex")


def test_files_of_others_are_not_taken_for_leavings(tmp_path):
    model, others = fitted("exact").model, ("model.safetensors", "model-7.safetensors", ".modelrc", ".config.json.bak")
    for name in others:
        (tmp_path / name).write_text("weights of another")
    with pytest.raises(InputError, match=r"is not a model and holds \.config\.json\.bak"):
        model.save(tmp_path)
    model.save(tmp_path, overwrite=True)
    assert {(tmp_path / name).read_text() for name in others} == {"weights of another"}
    assert stratagp.load(tmp_path).predict([[0, 0, 0]]) == model.predict([[0, 0, 0]])


def test_a_configuration_of_others_is_no_model(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_text("weights of another")
    with pytest.raises(InputError, match=r"is not a model and holds config\.json"):
        fitted("exact").model.save(tmp_path)
    assert len(os.listdir(tmp_path)) == 2


def test_leavings_of_a_killed_save_go_and_links_and_folders_stay(tmp_path):
    (tmp_path / "kept").write_text("weights")
    folder = tmp_path / "model"
    fitted("exact").model.save(folder)
    for name in (".config.json.41", ".model-2.safetensors.41", "model-3.safetensors"):
        (folder / name).write_text("half")
    (folder / "model-4.safetensors").symlink_to(tmp_path / "kept")
    (folder / "model-5.safetensors").mkdir()
    fitted("exact").model.save(folder, overwrite=True)
    there = ["config.json", "model-2.safetensors", "model-4.safetensors", "model-5.safetensors"]
    assert sorted(os.listdir(folder)) == there


def test_a_model_is_replaced_by_another(tmp_path):
    fitted("exact").model.save(tmp_path)
    for name in ("sparse", "laplace", "exact"):
        fitted(name).model.save(tmp_path, overwrite=True)
        assert type(stratagp.load(tmp_path)) is type(fitted(name).model)
        assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("dies_at", ["model-2.safetensors", "config.json"])
def test_a_save_that_dies_leaves_the_old_model(tmp_path, monkeypatch, dies_at):
    fitted("exact").model.save(tmp_path)
    before = stratagp.load(tmp_path).predict([[1, 2, 3]])
    write = files.write_whole

    def die(path, content):
        if path.name == dies_at:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(files, "write_whole", die)
    with pytest.raises(KeyboardInterrupt):
        fitted("sparse").model.save(tmp_path, overwrite=True)
    monkeypatch.undo()
    np.testing.assert_array_equal(stratagp.load(tmp_path).predict([[1, 2, 3]]), before)
    fitted("sparse").model.save(tmp_path, overwrite=True)
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("dies_at", ["model.safetensors", "config.json"])
def test_a_full_disk_leaves_no_part_of_a_new_model(tmp_path, monkeypatch, dies_at):
    def write(path, content, whole=files.write_whole):
        if path.name == dies_at:
            raise OSError(28, "No space left on device")
        whole(path, content)

    monkeypatch.setattr(files, "write_whole", write)
    with pytest.raises(OSError, match="No space left"):
        fitted("exact").model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_must_be_fitted(tmp_path):
    for name in (name for name in stratagp._ESTIMATORS if hasattr(getattr(stratagp, name), "save")):
        cls = getattr(stratagp, name)
        first = [stratagp.GPRegressor()] if getattr(cls, "calibrates", False) else []
        model = cls(*[0.1] if name == "NoisyInputRegressor" else first)
        with pytest.raises(InputError, match=f"this {name} is not fitted: call fit first"):
            model.save(tmp_path / "model")


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(ModelFileError, match="there is no such folder"):
        stratagp.load(tmp_path / "absent")
    with pytest.raises(ModelFileError, match=r"has no config\.json"):
        stratagp.load(tmp_path)
    fitted("exact").model.save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"model\.safetensors is missing"):
        stratagp.load(tmp_path)


def test_a_newer_format_is_refused(tmp_path):
    fitted("exact").model.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["version"] = files.FORMAT + 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match=f"format version {files.FORMAT + 1}, .* reads up to {files.FORMAT}"):
        stratagp.load(tmp_path)


def test_a_description_comes_from_the_configuration_alone(tmp_path):
    fitted("classes of a frame").model.save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    found = describe(tmp_path)
    assert found["class"] == "GPClassifier"
    assert found["columns"] == ["size", "town", "kind", "day", "open"]
    assert found["categories"]["town"] == ["Bern", "Oslo", "Rome"]
    assert found["categories"]["kind"] == ["y", "x", "z"]
    assert found["arguments"]["max_iterations"] == "5"
    assert found["library"]["stratagp"] == stratagp.__version__
    assert found["classes"] == ["False", "True"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("class", 3),
        ("classes", [1, 2]),
        ("classes", "abc"),
        ("columns", {"a": 1}),
        ("categories", {"town": [{}]}),
        ("arguments", []),
        ("features", "many"),
        ("inference", ["exact"]),
    ],
)
def test_a_description_of_other_types_is_refused(tmp_path, name, value):
    config = {"format": "stratagp model", "version": files.FORMAT, "library": {}, "about": {name: value}}
    config |= {"tensors": {}, "objects": []}
    (tmp_path / "config.json").write_text(json.dumps({**config, "checksum": files.checksum(config)}))
    with pytest.raises(ModelFileError, match=f"an unexpected value for '{name}'"):
        describe(tmp_path)


def test_nothing_is_pickled(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickle was called")

    model = fitted("rich").model
    for name in ("dump", "dumps", "load", "loads"):
        monkeypatch.setattr(f"pickle.{name}", refuse)
    model.save(tmp_path)
    stratagp.load(tmp_path)


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda folder: folder.name)
def test_old_files_load(folder):
    expected = json.loads((folder / "expected.json").read_text())
    model = stratagp.load(folder)
    X = expected["X"]
    if isinstance(X, dict):
        X = pytest.importorskip("pandas").DataFrame(X)
    np.testing.assert_allclose(said(model, X), expected["found"], rtol=1e-10, atol=1e-10)
    assert describe(folder)["format"] == int(folder.name[1])


def test_an_argument_of_a_newer_torch_is_read_from_the_state(tmp_path):
    """As `bias` of a batch norm was: the state says whether there is one."""
    (folder,) = (each for each in FIXTURES if each.name == "v1_dkl")
    expected, saved = json.loads((folder / "expected.json").read_text()), mutate.Files(folder)
    norm = next(each for each in saved.config["objects"] if each.get("class") == "torch.nn.BatchNorm1d")
    norm["arguments"]["running_var"] = True  # no argument, but a part of the state
    saved.write(tmp_path, saved.config, saved.content)
    np.testing.assert_allclose(said(stratagp.load(tmp_path), expected["X"]), expected["found"], rtol=1e-10, atol=1e-10)
    norm["arguments"]["other"] = True
    saved.write(tmp_path, saved.config, saved.content)
    with pytest.raises(ModelFileError, match="the unknown argument 'other'"):
        stratagp.load(tmp_path)


def test_there_are_old_files():
    assert {folder.name.partition("_")[2] for folder in FIXTURES} == {make.__name__ for make in MODELS}
