"""Exported graphs say what the models say, for any number of rows."""

import copy
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import special

import stratagp
from stratagp import GPRegressor, means
from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.export import onnx_operations
from stratagp.export.answer_graphs import cholesky_graph
from stratagp.export.programs import ModelGraph
from tests.persistence.estimators import MAKERS, Fitted, fitted, mixed_frame, numbers, table

REFUSED = {
    "heteroscedastic": "noise that does not vary",
    "exact, many rows": "a factor in double precision",
    "noisy inputs": "does not know layers of type Measured",
    "stack": "a stack cannot be exported",
    "stack of classes": "a stack cannot be exported",
    "stack of counts": "a stack cannot be exported",
    "vecchia": "Vecchia's process",
    "vecchia, two classes": "Vecchia's process",
    "vecchia, classes": "Vecchia's process",
    "correlated": "correlated targets",
    "codes": "not Coregionalised",
    "missing": "fills missing inputs",
    "texts": "objects such as texts",
    "autogp, deep kernel": "not ArcCosine",
    "dfgp, views": "objects such as texts",
    "gp-drf, frame with texts": "objects such as texts",
    "latent variables": "none that can be exported",
    "conformal": "export the model that was calibrated",
}
# As others, but slow to fit; and further ones of objects.
SPARED = (
    "exact, averaged",
    "classes averaged",
    "stochastic classes",
    "autogp, texts",
    "gp-drf, texts",
    "graphs",
    "trees",
)
SPARED += ("recalibrated", "conformal classes", "recalibrated classes", "temperature")
IN_SINGLE = ("dkl, images", "dkl, residual network")
SOME = ["composed", "classes of a frame", "gp-drf"]
IN_ONNX = ["composed", "classes of a frame", "softmax", "autogp, robust", "dkl, classes", "dfgp"]


@cache
def composed():
    kernel = k.RBF().on([0]) + k.Periodic().on([1]) * k.Linear() + k.Constant() + k.Matern(nu=0.5)
    options = {"mean": means.Polynomial([0.1, 0.2, 0.3]), "standardise": "both", "n_restarts": 0, "max_iterations": 0}
    return Fitted(GPRegressor(kernel, **options).fit(table(), numbers(table())), table()[:7] + 0.1)


def asked(name):
    """A model, rows as numbers, and what it says about these."""
    model, X = composed() if name == "composed" else fitted(name)
    if hasattr(model, "classes_"):
        said = [model.predict_proba(X)]
    else:
        mean, std = (part.reshape(len(X), -1) for part in model.predict(X, return_std=True))
        said = [mean, std**2]
    return model, as_numbers(X), said


def as_numbers(X):
    """Rows as a graph takes them: categories by their number."""
    if not hasattr(X, "iloc"):
        return np.asarray(X, dtype=np.float32 if np.ndim(X) > 2 else np.float64)
    whole = mixed_frame(60)
    columns = []
    for name in X.columns:
        if X[name].dtype.kind in "iuf":
            columns.append(X[name].to_numpy(dtype=float))
        elif X[name].dtype.kind == "M":
            columns.append((X[name] - np.datetime64("1970-01-01")) / np.timedelta64(1, "D"))
        else:
            known = getattr(whole[name].dtype, "categories", None)
            columns.append(
                [sorted(set(whole[name])).index(v) if known is None else list(known).index(v) for v in X[name]]
            )
    return np.stack([np.asarray(column, dtype=float) for column in columns], 1)


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in REFUSED and name not in SPARED])
def test_a_graph_says_what_its_model_says(name):
    model, x, said = asked(name)
    found = ModelGraph(model).eval()(torch.from_numpy(x))
    for own, other in zip(found, said, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5 if name in IN_SINGLE else 1e-7, atol=1e-9)


def test_beliefs_at_draws_of_hyperparameters_are_averaged():
    """Mean ``½ (m₁ + m₂)`` and variance ``½ (v₁ + v₂) + ¼ (m₁ − m₂)²``; the same for probabilities."""
    one, other = (fitted(name) for name in ("exact", "exact, leave-one-out"))
    both = copy.copy(one.model)
    both.fitted_ = copy.copy(both.fitted_)
    both.fitted_.draws = [*one.model.fitted_.draws, *other.model.fitted_.draws]
    (m1, s1), (m2, s2) = (model.predict(one.X, return_std=True) for model in (one.model, other.model))
    mean, var = (part[:, 0] for part in ModelGraph(both)(torch.from_numpy(one.X)))
    np.testing.assert_allclose(mean, (m1 + m2) / 2)
    np.testing.assert_allclose(var, (s1**2 + s2**2) / 2 + (m1 - m2) ** 2 / 4, rtol=1e-7)
    classes, others = copy.copy(fitted("laplace").model), fitted("ep").model
    expected = (classes.predict_proba(one.X) + others.predict_proba(one.X)) / 2
    classes.fitted_ = copy.copy(classes.fitted_)
    classes.fitted_.draws = [*classes.fitted_.draws, *others.fitted_.draws]
    np.testing.assert_allclose(ModelGraph(classes)(torch.from_numpy(one.X))[0], expected)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """``exported("composed", "onnx")``, the file of a model, written once for all tests."""

    @cache
    def export(name, ending):
        if ending == "onnx":
            pytest.importorskip("onnxscript")
        folder = tmp_path_factory.mktemp("files") / "a private folder"
        folder.mkdir()
        asked(name)[0].export(folder / f"mine.{ending}", format="torch" if ending == "pt2" else "onnx")
        return folder / f"mine.{ending}"

    return export


@pytest.mark.parametrize("name", SOME)
def test_a_torch_program_agrees(name, exported):
    model, x, said = asked(name)
    about = {"stratagp.json": ""}
    program = torch.export.load(exported(name, "pt2"), extra_files=about).module()
    for n in (1, len(x)):
        for own, other in zip(program(torch.from_numpy(x[:n])), said, strict=True):
            np.testing.assert_allclose(own.detach(), other[:n], rtol=1e-7, atol=1e-9)
    assert json.loads(about["stratagp.json"])["model"] == type(model).__name__


@pytest.mark.parametrize("name", IN_ONNX)
def test_an_onnx_file_agrees(name, exported):
    runtime = pytest.importorskip("onnxruntime")
    model, x, said = asked(name)
    session = runtime.InferenceSession(str(exported(name, "onnx")))
    about = json.loads(session.get_modelmeta().custom_metadata_map["stratagp"])
    assert [each.name for each in session.get_outputs()] == about["outputs"]
    assert about["classes"] == [str(label) for label in getattr(model, "classes_", [])]
    for n in (1, len(x)):
        for own, other in zip(session.run(about["outputs"], {"x": x[:n]}), said, strict=True):
            np.testing.assert_allclose(own, other[:n], rtol=1e-4, atol=1e-6)


def test_the_description_names_columns_and_categories():
    about = ModelGraph(fitted("classes of a frame").model).about
    frame = mixed_frame()
    assert about["columns"] == list(frame.columns)
    assert about["categories"]["town"] == sorted(set(frame["town"]))
    assert about["outputs"] == ["probabilities"]
    assert about["kinds"] == ["number", "category", "category", "date", "category"]
    assert about["library"] == f"stratagp {stratagp.__version__}"
    assert ModelGraph(fitted("exact").model).about["kinds"] == ["number"] * 3


IMPOSSIBLE = [(1, 5.0), (1, 0.5), (1, -1.0), (1, np.nan), (0, np.nan), (0, np.inf)]  # a column, and what it never is


@pytest.mark.parametrize("name", ["classes of a frame", "dkl, embedded codes"])
def test_there_is_no_answer_to_what_the_model_refuses(name, exported):
    model, x, said = asked(name)
    x = np.repeat(x[:1], 1 + len(IMPOSSIBLE), 0)
    for row, (column, value) in enumerate(IMPOSSIBLE, 1):
        x[row, column] = value
    answers = [part.detach().numpy() for part in ModelGraph(model).eval()(torch.from_numpy(x))]
    if name == "classes of a frame":
        runtime = pytest.importorskip("onnxruntime")
        answers += runtime.InferenceSession(str(exported(name, "onnx"))).run(None, {"x": x})
    for own, expected in zip(answers, [*said, *said], strict=False):
        np.testing.assert_allclose(own[0], expected[0], rtol=1e-4)
        assert np.isnan(own[1:]).all()


def test_images_with_missing_points_have_no_answer():
    model, x, said = asked("dkl, images")
    x = x.copy()
    x[1, 0, 3, 4] = np.nan
    (found,) = ModelGraph(model).eval()(torch.from_numpy(x))
    assert found[1].isnan().all()
    np.testing.assert_allclose(found[[0, 2, 3]], said[0][[0, 2, 3]], rtol=1e-5)


@pytest.mark.parametrize("ending", ["pt2", "onnx"])
def test_files_say_nothing_of_the_machine_that_wrote_them(exported, ending):
    file = exported("composed", ending)
    content = file.read_bytes()
    for path in ("/src/", "private", "mine", str(Path.home()), str(Path(stratagp.__file__).parent), "export.py"):
        assert path.encode() not in content
    assert [each.name for each in file.parent.iterdir()] == [f"mine.{ending}"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused(name, tmp_path):
    with pytest.raises((UnsupportedError, InputError), match=REFUSED[name]):
        fitted(name).model.export(tmp_path / "model.pt2", format="torch")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["wishart", "dkl, residual network"])
def test_what_torch_cannot_trace_is_refused(name, tmp_path):
    with pytest.raises(UnsupportedError, match="torch cannot trace a part"):
        fitted(name).model.export(tmp_path / "model.pt2", format="torch")
    assert not list(tmp_path.iterdir())


def test_a_graph_that_deviates_is_refused():
    model = fitted("laplace").model
    graph = ModelGraph(model)
    graph.answer.draws[0].processes[0].weights.mul_(1.01)
    with pytest.raises(UnsupportedError, match="deviates from the model"):
        graph.check(model)


def test_arguments_are_checked(tmp_path):
    model = fitted("exact").model
    with pytest.raises(InputError, match="format must be"):
        model.export(tmp_path / "model.onnx", format="pickle")
    with pytest.raises(InputError, match=r"must end with \.onnx"):
        model.export(tmp_path / "model.pt2")
    with pytest.raises(InputError, match="not fitted"):
        GPRegressor().export(tmp_path / "model.pt2", format="torch")
    gp = GPRegressor(k.RBF().warp(torch.tanh), max_iterations=0).fit(table(), numbers(table()))
    with pytest.raises(UnsupportedError, match="but not"):
        gp.export(tmp_path / "model.pt2", format="torch")


@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr", "log_ndtr"])
def test_operations_for_onnx_agree_with_scipy(name):
    x = np.linspace(-12, 6, 3001)
    found = getattr(onnx_operations, name)(torch.from_numpy(x))
    np.testing.assert_allclose(
        found, getattr(special, name)(x), rtol=1e-12, atol=1e-15 if name in ("erf", "log_ndtr") else 0
    )


def test_elementary_forms_agree_with_torch():
    x = torch.linspace(-40, 40, 801, dtype=torch.float64)
    for name, options in (("softplus", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"})):
        expected = getattr(torch.nn.functional, name)(x, **options)
        torch.testing.assert_close(getattr(onnx_operations, name)(x, **options), expected, rtol=1e-8, atol=1e-12)
    a = torch.randn(5, 4, 9, dtype=torch.float64)
    torch.testing.assert_close(cholesky_graph(a @ a.mT), torch.linalg.cholesky(a @ a.mT))
