"""Files that were damaged or made to do harm: each is refused with a ModelFileError, or loads and works."""

import copy
import json
import random
import sys
import time
import warnings

import pytest
import torch

import stratagp
from stratagp.errors import ModelFileError
from stratagp.persistence.decoding import Decoder
from stratagp.persistence.limits import Sizes, check_layer
from stratagp.persistence.registry import classes
from tests.persistence.estimators import fitted
from tests.persistence.mutate import (
    STRANGERS,
    Files,
    alter_bytes,
    alter_config,
    alter_numbers,
    alter_tensors,
    alter_test,
)

ROUNDS = 120
SECONDS = 60  # that no load may take: a hang, not a slow machine
NAMES = ["exact", "classes of a frame", "sparse", "texts", "autogp, deep kernel", "dkl, inducing", "dkl, images"]
NAMES += ["conformal"]


@pytest.fixture(scope="module", params=NAMES)
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    model, X = fitted(request.param)
    model.save(folder)
    return Files(folder), folder.parent / "altered", X


def tried(folder, X):
    """Load an altered model; one that loads must be able to predict. Whether it was refused."""
    start = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stratagp.load(folder).predict(X)
    except ModelFileError:
        return True
    except stratagp.errors.InputError:  # about X, such as a category that the altered file does not know
        return False
    finally:
        assert time.monotonic() - start < SECONDS
    return False


@pytest.mark.parametrize("alter", [alter_config, alter_numbers, alter_test])
def test_altered_objects_with_right_checksums(saved, alter):
    files, folder, X = saved
    refused = 0
    for i in range(ROUNDS):
        files.write(folder, alter(files.config, random.Random(f"{alter.__name__} {i}")), files.content)
        refused += tried(folder, X)
    assert refused > 0.1 * ROUNDS


@pytest.mark.parametrize("alter", [alter_bytes, alter_tensors])
def test_altered_tensors_with_right_checksums(saved, alter):
    files, folder, X = saved
    refused = 0
    for i in range(ROUNDS):
        files.write(folder, copy.deepcopy(files.config), alter(files.content, random.Random(i)))
        refused += tried(folder, X)
    assert refused > 0.3 * ROUNDS


def test_damaged_text_is_always_found(saved):
    files, folder, X = saved
    files.write(folder, copy.deepcopy(files.config), files.content)
    text = (folder / "config.json").read_bytes()
    for i in range(ROUNDS):
        damaged = alter_bytes(text, random.Random(i))
        (folder / "config.json").write_bytes(damaged)
        assert tried(folder, X) or json.loads(damaged) == json.loads(text)


def test_damaged_tensors_are_always_found(saved):
    files, folder, X = saved
    for i in range(ROUNDS):
        damaged = alter_bytes(files.content, random.Random(i))
        files.write(folder, files.config, damaged, mend=False)
        assert tried(folder, X) or damaged == files.content


def altered(saved, change):
    """The error of a model whose configuration was changed."""
    files, folder, _ = saved
    config = copy.deepcopy(files.config)
    change(config)
    files.write(folder, config, files.content)
    with pytest.raises(ModelFileError) as error:
        stratagp.load(folder)
    assert str(folder) in str(error.value)
    return str(error.value)


def first(config, class_name):
    return next(node for node in config["objects"] if node.get("class") == class_name)


exact = pytest.mark.parametrize("saved", ["exact"], indirect=True)


@exact
def test_no_module_is_imported_by_a_name_from_the_file(saved):
    assert "antigravity" not in sys.modules
    for node in STRANGERS:
        assert "trust=['antigravity." in altered(saved, lambda config, node=node: config["objects"].insert(0, node))
        assert "trust=['antigravity." in altered(saved, lambda config, node=node: config["objects"].append(node))
    assert "antigravity" not in sys.modules


def put(config, *entries):
    """Insert entries before all others, and let the kernel of the regressor be the last of them."""
    shift(config["objects"], len(entries))
    config["objects"][:0] = entries
    first(config, "stratagp.estimators.GPRegressor")["arguments"]["kernel"] = {"ref": len(entries) - 1}


@exact
def test_messages_say_what_is_wrong(saved):
    kernel, regressor = "stratagp.kernels.Matern", "stratagp.estimators.GPRegressor"

    def change(class_name, kind, **values):
        return altered(saved, lambda config: first(config, class_name)[kind].update(values))

    assert "unknown attribute 'forward'" in change(kernel, "state", forward=1)
    assert "unknown attribute 'predict'" in change(regressor, "state", predict=1)
    assert "unknown attribute '__class__'" in change(kernel, "state", __class__=1)
    assert "unknown attribute '_forward_hooks'" in change(kernel, "state", _forward_hooks=1)
    assert "unknown argument 'note'" in change(regressor, "arguments", note=1)
    method = {"class": "stratagp.kernels.RBF", "arguments": {}, "state": {}}, {"method": "save", "of": [{"ref": 0}]}
    assert "not a method that a file may hold" in altered(saved, lambda c: put(c, *method))
    lists = [{"list": []}, *({"list": [{"ref": i}]} for i in range(120))]
    assert "nested too deep" in altered(saved, lambda c: put(c, *lists))
    pair = {"tuple": [{"ref": 0}, {"ref": 0}]}
    assert "not hold a fitted estimator" in altered(saved, lambda c: c.update(objects=[{"list": []}, pair]))
    assert "update StrataGP" in altered(saved, lambda c: c.update(version=99))
    assert "unknown or missing fields: ['extra']" in altered(saved, lambda c: c.update(extra=1))
    assert "differently than when it was saved" in altered(saved, lambda c: rougher(c["objects"]))


def rougher(nodes):
    for node in nodes:
        if node.get("class") == "stratagp.kernels.Matern":
            node["arguments"]["nu"] = 0.5


def shift(nodes, by):
    for part in nodes.values() if isinstance(nodes, dict) else nodes:
        if isinstance(part, dict) and type(part.get("ref")) is int:
            part["ref"] += by
        elif isinstance(part, (dict, list)):
            shift(part, by)


@exact
def test_a_view_cannot_grow(saved):
    name = next(node["tensor"] for node in saved[0].config["objects"] if "tensor" in node)
    for view in ({"shape": [10**9], "stride": [0], "offset": 0}, {"shape": [2], "stride": [10**9], "offset": 0}):
        message = altered(saved, lambda c, view=view: put(c, {"tensor": name, **view}))
        assert "size is expected" in message or "beyond it" in message


@exact
def test_shared_lists_cannot_grow_without_limit(saved):
    laugh = [{"list": [1] * 10}, *({"list": [{"ref": i}] * 10} for i in range(30))]
    assert "too many values" in altered(saved, lambda config: put(config, *laugh))


def refused(nodes, tensors=None):
    """The message about nodes that a decoder refuses, at once."""
    start = time.monotonic()
    with pytest.raises(ModelFileError) as error:
        Decoder(nodes, tensors or {}).read()
    assert time.monotonic() - start < 5
    return str(error.value)


def test_a_chain_of_pairs_is_not_hashed():
    chain = [{"tuple": [1, 2]}, *({"tuple": [{"ref": i}, {"ref": i}]} for i in range(40))]
    for node in ({"set": [{"ref": 40}]}, {"dict": [{"ref": 40}, 1]}):
        assert "too many values" in refused([*chain, node])


def test_many_shared_lists_are_read_in_a_time_that_grows_with_their_number():
    n = 10_000
    lists = [{"list": [1]} for _ in range(n)]
    start = time.process_time()
    Decoder([*lists, {"list": [{"ref": i} for i in range(n)]}], {}).read()
    alone = time.process_time()
    found = Decoder([*lists, {"list": [{"ref": i} for i in range(n)] * 2}], {}).read()
    assert found[0] is found[n]
    assert time.process_time() - alone < 20 * (alone - start)  # as long as that for each reference, not for all


def test_an_empty_tensor_vouches_for_no_number():
    assert Sizes([torch.empty(0, 10**12), torch.ones(2, 3)]).axes == {2, 3}
    pooling = torch.nn.AdaptiveAvgPool2d(10**6)
    pooling.register_buffer("empty", torch.empty(0, 10**6))
    with pytest.raises(ModelFileError, match="does not fit its tensors"):
        check_layer(pooling)


def test_no_node_takes_far_more_memory_than_the_file():
    tensors = {"a": torch.zeros(8, dtype=torch.float64), "s": torch.Generator().get_state()}
    state = {"tensor": "s", "generator": True}
    assert "two generators" in refused([state, state], tensors)
    assert "the wrong size for its letters" in refused([{"tensor": "a", "dtype": "<U1", "texts": [8]}], tensors)
    wrong = {"tensor": "b", "dtype": "<U1", "texts": [1]}
    assert "invalid letters" in refused([wrong], {"b": torch.full((4,), 255, dtype=torch.uint8)})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("stratagp.posteriors.FullGaussian", {"m": 1000, "q": 1000}),
        ("stratagp.posteriors.DiagonalGaussian", {"m": 10**9, "q": 1}),
        ("stratagp.networks.Embedded", {"inputs": 10**9, "sizes": {"ref": 0}}),
        ("torch.nn.Linear", {"in_features": 10**5, "out_features": 10**5, "bias": True}),
        ("torch.nn.Conv2d", {"in_channels": 10**4, "out_channels": 10**4, "kernel_size": 64}),
        ("torch.nn.Embedding", {"num_embeddings": 10**10, "embedding_dim": 10}),
    ],
)
def test_no_constructor_takes_far_more_memory_than_the_file(name, arguments):
    entries = [{"dict": []}, {"class": name, "arguments": arguments, "state": {}}]
    message = refused(entries)
    assert "more memory than the file accounts for" in message or "has numbers up to" in message


def test_columns_of_a_frame_are_arrays_of_one_length():
    pytest.importorskip("pandas")
    tensors = {"a": torch.zeros(8), "b": torch.zeros(1)}
    columns = [{"tensor": name, "dtype": "<f4"} for name in "ab"]
    frame = {"frame": [{"ref": 2}, {"ref": 0}, {"ref": 1}]}
    assert "different lengths" in refused([*columns, {"list": ["a", "b"]}, frame], tensors)
    longer = [{"range": [0, 10**5, 1]}, {"list": ["c"]}, {"frame": [{"ref": 1}, {"ref": 0}]}]
    assert "is not a column" in refused(longer)


@exact
def test_a_list_cannot_hold_itself(saved):
    assert "holds itself" in altered(saved, lambda config: put(config, {"list": [{"ref": 0}]}))


@exact
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "NaN", "1e999", "9" * 10_000, "", "null", "[]", '"x"']
)
def test_texts_that_are_no_configuration(saved, text):
    _, folder, X = saved
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(text)
    assert tried(folder, X)


def test_classes_that_open_files_are_not_in_the_registry():
    names = set(classes())
    for name in ("Checkpoint", "ParquetFiles", "CsvFiles", "Given", "Source", "World", "Stream"):
        assert not any(known.endswith(f".{name}") for known in names)


def test_a_state_of_a_generator_is_checked():
    with pytest.raises(RuntimeError):
        torch.Generator().set_state(torch.zeros(5056, dtype=torch.uint8))
