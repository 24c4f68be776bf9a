"""Small files that ask for much work: each is refused at once, though its checksums are right."""

import copy
import time
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

import stratagp
from stratagp import kernels as k
from stratagp.errors import InputError, ModelFileError
from stratagp.layers import Inducing
from stratagp.linalg.interpolation import RegularGrid
from stratagp.persistence.decoding import Decoder
from stratagp.persistence.limits import Sizes, refuse_alike, refuse_growth
from stratagp.posteriors import DiagonalGaussian
from tests.persistence.estimators import COUNTS, WORDS, fitted
from tests.persistence.mutate import Files

SECONDS = 20
PRIME = 2**61 - 1  # whole numbers have their remainder by it as their hash


def quickly(files, folder, config, content=None):
    """The error about an altered file, which must come soon."""
    files.write(folder, config, files.content if content is None else content)
    start = time.monotonic()
    with pytest.raises(ModelFileError) as error:
        stratagp.load(folder)
    assert time.monotonic() - start < SECONDS
    return str(error.value)


def altered(tmp_path, model, change):
    """The error about a model whose objects were changed."""
    model.save(tmp_path / "model")
    files = Files(tmp_path / "model")
    config = copy.deepcopy(files.config)
    change(config["objects"])
    return quickly(files, tmp_path / "altered", config)


def of_class(nodes, name):
    return [node for node in nodes if node.get("class") == f"stratagp.kernels.{name}"]


def setting(name, **values):
    """Set arguments of all kernels of a class."""

    def change(nodes):
        for node in of_class(nodes, name):
            node["arguments"] |= values

    return change


def gp(kernel, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stratagp.GPRegressor(kernel, n_restarts=0, max_iterations=0, random_state=0).fit(X, y)


@pytest.mark.parametrize("stop", [10**7, 10**11, {"int": "9" * 50}])
def test_a_range_cannot_be_long(tmp_path, stop):
    def change(nodes):
        shift(nodes, 0, 1)
        nodes.insert(0, {"range": [0, stop, 1]})
        setting("OnColumns", columns={"ref": 0})(nodes)

    message = altered(tmp_path, fitted("rich").model, change)
    assert "a range of too many numbers" in message


def test_many_ranges_cannot_be_long_together():
    nodes = [{"range": [0, 10**6, 1]}] * 2
    with pytest.raises(ModelFileError, match="a range of too many numbers"):
        Decoder(nodes, {}).read()


def test_a_chain_of_shared_modules_is_not_evaluated(tmp_path):
    """Sums, each with the one before twice, in the place of the kernel of the model."""

    def chain(nodes):
        place = next(i for i, node in enumerate(nodes) if node.get("class") == "stratagp.models.ExactGP")
        start = nodes[place]["arguments"]["kernel"]["ref"]
        links, last = [], start
        for i in range(40):
            links.append({"tuple": [{"ref": last}, {"ref": last}]})
            last = place + 2 * i + 1
            links.append({"class": "stratagp.kernels.Sum", "arguments": {"parts": {"ref": last - 1}}, "state": {}})
        shift(nodes, place, len(links))
        nodes[place:place] = links
        nodes[place + len(links)]["arguments"]["kernel"] = {"ref": last}

    assert "shared parts in it stand for too many" in altered(tmp_path, fitted("exact").model, chain)


def shift(nodes, start, by):
    """Let references to entries from ``start`` on mean those that stand ``by`` places later."""
    for part in nodes.values() if isinstance(nodes, dict) else nodes:
        if isinstance(part, dict) and type(part.get("ref")) is int:
            part["ref"] += by if part["ref"] >= start else 0
        elif isinstance(part, (dict, list)):
            shift(part, start, by)


def test_a_module_cannot_hold_itself(tmp_path):
    def loop(nodes):
        place = next(i for i, node in enumerate(nodes) if node.get("class") == "stratagp.models.ExactGP")
        nodes[place]["arguments"]["kernel"] = {"ref": place}

    assert "holds itself" in altered(tmp_path, fitted("exact").model, loop)


def test_modules_may_be_shared_often():
    """A thousand holders of one kernel of three parts meet it a thousand times."""
    kernel = [{"class": "Part"}, {"class": "Part"}, {"class": "Sum", "state": {"0": {"ref": 0}, "1": {"ref": 1}}}]
    refuse_growth([*kernel, {"list": [{"ref": 2}] * 1000}])
    with pytest.raises(ModelFileError, match="too many"):
        refuse_growth([*kernel, {"list": [{"ref": 2}] * 10**5}])


WORDS_WITH_GAPS = [
    (k.Gapped(3, 2), {"g": 60, "k": 30}),
    (k.Wildcard(3, 1), {"k": 60, "m": 30}),
    (k.Mismatch(3, 1, 3), {"k": 1000, "m": 500}),
    (k.Double(1, 2), {"k": 1000, "d": 1000}),
    (k.Triple(1, 2), {"d": 1000}),
    (k.GappyPair(1, 1), {"k": 1000, "m": 999}),
]


@pytest.mark.parametrize(("kernel", "values"), WORDS_WITH_GAPS, ids=lambda value: type(value).__name__)
def test_words_with_gaps_are_not_too_many(tmp_path, kernel, values):
    message = altered(tmp_path, gp(kernel, WORDS, COUNTS), setting(type(kernel).__name__, **values))
    assert "words with gaps are too many: lower" in message


def test_similar_pairs_have_no_more_features_than_fit(tmp_path):
    change = setting("SimilarPairs", d=1000, positions=1000)
    words = [word.upper() for word in WORDS]
    assert "ask for more than 10000000 features" in altered(tmp_path, gp(k.SimilarPairs(), words, COUNTS), change)


def test_a_signature_is_not_too_deep(tmp_path):
    paths = [np.cumsum(np.ones((4, 1)) * i, 0) for i in range(1, 9)]
    model = gp(k.Signature(2, time=False), paths, np.arange(8.0))
    assert "depth must be at most 50, got 1000" in altered(tmp_path, model, setting("Signature", depth=1000))
    with pytest.raises(InputError, match="depth must be at most 50, got 51"):
        k.Signature(51)


@pytest.mark.parametrize("count", [900, 20_000])
@pytest.mark.parametrize("kind", ["set", "frozenset", "dict"])
def test_numbers_of_one_hash_are_not_put_into_a_set(kind, count):
    members = [{"int": str(i * PRIME)} for i in range(count)]
    node = {"dict": [*members, *[1] * count]} if kind == "dict" else {kind: members}
    start = time.monotonic()
    with pytest.raises(ModelFileError, match="told apart quickly" if count < 1000 else "so many digits"):
        Decoder([node], {}).read()
    assert time.monotonic() - start < SECONDS


def test_pairs_of_one_hash_are_found_and_others_are_not():
    refuse_alike([(i, i**2) for i in range(10**4)] + list(range(-(10**4), 10**4)))
    with pytest.raises(ModelFileError, match="told apart quickly"):
        refuse_alike([(i * PRIME, 1) for i in range(100)])


def stretched(tensor, before, after):
    """A tensor whose axes of one length are longer, with its numbers over and over."""
    for axis, n in enumerate(tensor.shape):
        if n == before:
            tensor = tensor.index_select(axis, torch.arange(after) % n)
    return tensor.contiguous()


def test_a_matrix_that_the_file_does_not_hold_is_not_computed(tmp_path):
    fitted("autogp, mixture").model.save(tmp_path / "model")
    files = Files(tmp_path / "model")
    content = save({name: stretched(tensor, 6, 12_000) for name, tensor in load(files.content).items()})
    message = quickly(files, tmp_path / "altered", copy.deepcopy(files.config), content)
    assert "12000 inducing points of 1 functions in an object Inducing" in message


def layer(points, functions=1):
    kernel = k.RBF(1.0) if functions == 1 else k.RBF(1.0).replicate(functions)
    return Inducing(kernel, torch.zeros(points, 1), DiagonalGaussian(points, functions))


def wide(owner, square):
    Sizes([torch.empty(1, dtype=torch.bool).expand(square, square)] if square else []).check_points(owner)


def test_as_many_inducing_points_as_models_have_are_fine():
    wide(layer(5000), 0)
    wide(layer(5000, 4), 0)
    wide(layer(6000), 6000)  # with a matrix of that size in the file
    for many, square in ((layer(5001), 0), (layer(6000), 5999), (layer(5000, 5), 0), (RegularGrid(0, 1, 6000), 10)):
        with pytest.raises(ModelFileError, match="and the file has no matrix"):
            wide(many, square)


def test_a_test_is_about_two_rows(tmp_path):
    def more(nodes):
        regressor = next(node for node in nodes if node.get("class") == "stratagp.estimators.GPRegressor")
        row = {"list": [0.0, 0.0, 0.0]}
        shift(nodes, 0, 2)
        nodes[:0] = [row, {"list": [{"ref": 0}] * 3}]
        regressor["state"] |= {"feature_names_in_": regressor["state"]["_example"], "_example": {"ref": 1}}

    assert "asks about 3 rows instead of 2" in altered(tmp_path, fitted("exact").model, more)


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
def test_what_cannot_be_loaded_cannot_be_saved(tmp_path):
    with pytest.raises(InputError, match=r"^save: k of a Spectrum is 2000: .* up to 1000 there; fit with smaller"):
        gp(k.Spectrum(2000), ["a" * 2001, "b" * 2002, "ab" * 1001], [0.0, 1.0, 2.0]).save(tmp_path / "model")
    model = copy.deepcopy(fitted("exact").model)
    model.random_state = range(10**8)
    with pytest.raises(InputError, match="of more than 1000000 numbers: give a slice"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
