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
from stratagp.persistence.limits import check_layer
from stratagp.persistence.registry import attributes_of, classes
from stratagp.persistence.tensors import TensorReader
from tests.persistence.estimators import fitted
from tests.persistence.mutate import (
    STRANGERS,
    Files,
    alter_bytes,
    alter_config,
    alter_numbers,
    alter_tensors,
    alter_test,
    nested,
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
    for node in ({"class": "antigravity.Class", "state": {}}, {"function": "antigravity.geohash"}):
        message = altered(saved, lambda config, node=node: config["objects"].append(node))
        assert "trust=['antigravity." in message
    for node in STRANGERS:
        assert "trust=['antigravity." in altered(saved, lambda config, node=node: config.update(test=node))
    assert "antigravity" not in sys.modules


@exact
def test_messages_say_what_is_wrong(saved):
    kernel, regressor = "stratagp.kernels.Matern", "stratagp.estimators.GPRegressor"

    def change(class_name, kind, **values):
        return altered(saved, lambda config: first(config, class_name).setdefault(kind, {}).update(values))

    assert "unknown attribute 'forward'" in change(kernel, "state", forward=1)
    assert "unknown attribute 'predict'" in change(regressor, "state", predict={"function": "torch.log"})
    assert "unknown attribute '__class__'" in change(kernel, "state", __class__=1)
    assert "unknown attribute '_forward_hooks'" in change(kernel, "state", _forward_hooks={"dict": []})
    assert "no method that a file may hold" in change(regressor, "state", kernel={"method": "save", "of": {"ref": 0}})
    assert "nested too deep" in change(regressor, "state", kernel=nested(120))
    assert "no fitted estimator" in altered(
        saved, lambda c: c["objects"].insert(0, {"list": []}) or shift(c["objects"])
    )
    assert "update StrataGP" in altered(saved, lambda c: c.update(version=99))
    assert "unknown or missing fields: ['extra']" in altered(saved, lambda c: c.update(extra=1))
    assert "otherwise than when it was saved" in altered(saved, lambda c: rougher(c["objects"]))


def rougher(nodes):
    for node in nodes:
        if node.get("class") == "stratagp.kernels.Matern":
            node["state"]["nu"] = 0.5


def torch_names(saved):
    return [node["tensor"] for node in saved[0].config["objects"] if "tensor" in node]


def shift(nodes):
    for part in nodes.values() if isinstance(nodes, dict) else nodes:
        if isinstance(part, dict) and type(part.get("ref")) is int:
            part["ref"] += 1
        elif isinstance(part, (dict, list)):
            shift(part)


@exact
def test_a_view_cannot_grow(saved):
    name = torch_names(saved)[0]
    for view in ({"shape": [10**9], "stride": [0], "offset": 0}, {"shape": [2], "stride": [10**9], "offset": 0}):
        message = altered(
            saved, lambda c, view=view: c["objects"].append({"list": [{"tensor": name, **view}]}) or refer(c)
        )
        assert "size is due" in message or "beyond it" in message


def refer(config):
    first(config, "stratagp.estimators.GPRegressor")["state"]["kernel"] = {"ref": len(config["objects"]) - 1}


@exact
def test_shared_lists_cannot_grow_without_limit(saved):
    def laugh(config):
        start = len(config["objects"])
        config["objects"].append({"list": [1] * 10})
        config["objects"] += [{"list": [{"ref": start + i}] * 10} for i in range(30)]
        refer(config)

    assert "too many values" in altered(saved, laugh)


def refused(nodes, tensors=None):
    """The message about nodes that a decoder refuses, at once."""
    start = time.monotonic()
    with pytest.raises(ModelFileError) as error:
        Decoder(nodes, tensors or {}).read()
    assert time.monotonic() - start < 5
    return str(error.value)


def test_a_chain_of_pairs_is_not_hashed():
    chain = [{"tuple": [1, 2]}, *({"tuple": [{"ref": i}, {"ref": i}]} for i in range(1, 40))]
    for node in ({"set": [{"ref": 40}]}, {"dict": [[{"ref": 40}, 1]]}):
        assert "too many values" in refused([node, *chain])


def test_many_shared_lists_are_read_in_a_time_that_grows_with_their_number():
    n = 10_000
    lists = [{"list": [1]} for _ in range(n)]
    shared = [{"list": [{"ref": i} for i in range(1, n + 1)] * 2}, *lists]
    start = time.process_time()
    Decoder([{"list": lists}], {}).read()
    alone = time.process_time()
    found = Decoder(shared, {}).read()
    assert found[0] is found[n]
    assert time.process_time() - alone < 20 * (alone - start)  # as long as that for each reference, not for all


def test_an_empty_tensor_vouches_for_no_number():
    assert TensorReader({"z": torch.empty(0, 10**12), "a": torch.ones(2, 3)}).sizes == {2, 3}
    pooling = torch.nn.AdaptiveAvgPool2d(10**6)
    pooling.register_buffer("empty", torch.empty(0, 10**6))
    with pytest.raises(ModelFileError, match="does not fit its tensors"):
        check_layer(pooling)


def test_no_node_takes_far_more_memory_than_the_file():
    tensors = {"a": torch.zeros(8, dtype=torch.float64), "s": torch.Generator().get_state()}
    array, state = {"array": "a", "dtype": "<f8"}, {"generator": {"tensor": "s"}}
    assert "two arrays" in refused([{"list": [array, array]}], tensors)
    assert "two generators" in refused([{"list": [state, state]}], tensors)
    texts = {"texts": ["x" * 20_000] + [""] * 2000, "dtype": "<U20000", "shape": [2001]}
    assert "room for far more" in refused([texts])
    letters = {"letters": array, "dtype": "<U1", "shape": [8]}
    assert "another size than its letters" in refused([letters], tensors)
    wrong = {"letters": {"array": "b", "dtype": "|u1"}, "dtype": "<U1", "shape": [1]}
    assert "letters that are none" in refused([wrong], {"b": torch.full((4,), 255, dtype=torch.uint8)})


def test_columns_of_a_frame_are_arrays_of_one_length():
    pytest.importorskip("pandas")
    tensors = {"a": torch.zeros(8), "b": torch.zeros(1)}
    columns = [["a", {"array": "a", "dtype": "<f4"}], ["b", {"array": "b", "dtype": "<f4"}]]
    assert "different lengths" in refused([{"frame": columns}], tensors)
    codes = {"dict": [["categories", {"list": ["x"]}], ["codes", {"range": [0, 10**5, 1]}]]}
    assert "is no column" in refused([{"frame": [["c", codes]]}])


@exact
def test_a_list_cannot_hold_itself(saved):
    def loop(config):
        config["objects"].append({"list": [{"ref": len(config["objects"])}]})
        refer(config)

    assert "holds itself" in altered(saved, loop)


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
    assert all("__" not in name for cls in classes().values() for name in attributes_of(cls))


def test_a_state_of_a_generator_is_checked():
    with pytest.raises(RuntimeError):
        torch.Generator().set_state(torch.zeros(5056, dtype=torch.uint8))
