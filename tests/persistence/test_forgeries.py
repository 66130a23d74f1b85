"""Files with a valid checksum and impossible contents: refused, or harmless."""

import copy
import zlib
from importlib import import_module

import numpy as np
import pytest

from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor
from mondrian_kernel.persistence import ModelFileError, load, save
from mondrian_kernel.persistence.checks import check
from mondrian_kernel.persistence.container import pack, unpack
from mondrian_kernel.persistence.encoding import CLASSES
from mondrian_kernel.persistence.forms import ARRAYS

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(20, 3)), RNG.normal(size=(20, 2)), RNG.normal(size=(15, 3))


def features():
    return MondrianFeatures(0.7, 3, random_state=0).fit(X)


class Forgery:
    """A saved model taken apart, to be put together again with a valid checksum."""

    def __init__(self, model, folder):
        self.path = folder / "forged"
        save(model, self.path)
        self.header, body = unpack(self.path.read_bytes())
        ends = np.cumsum([a[3] for a in self.header["arrays"]])
        self.chunks = [bytes(c) for c in np.split(np.frombuffer(body, np.uint8), ends[:-1])]

    def state(self, name):
        return next(state for cls, state in self.header["objects"] if cls == name)

    def array(self, name, attribute):
        index = self.state(name)[attribute]["array"]
        dtype, shape, *_ = self.header["arrays"][index]
        raw = zlib.decompress(self.chunks[index])
        return np.frombuffer(raw, dtype).reshape(shape, order="F").copy()

    def put(self, name, attribute, array):
        index = self.state(name)[attribute]["array"]
        self.chunks[index] = zlib.compress(array.tobytes(order="F"))
        entry = [array.dtype.str, list(array.shape), "C", len(self.chunks[index])]
        self.header["arrays"][index] = entry

    def load(self):
        self.path.write_bytes(b"".join(pack(self.header, self.chunks)))
        return load(self.path)


@pytest.fixture(scope="module")
def small():
    return MondrianKernelRegressor(n_estimators=4, random_state=0).fit(X, Y)


def test_a_forgery_without_a_change_is_loaded(small, tmp_path):
    forgery = Forgery(small, tmp_path)
    forgery.put("Trees", "left", forgery.array("Trees", "left"))
    np.testing.assert_array_equal(forgery.load().predict(NEW), small.predict(NEW))


WRONG = {
    "left": [-5, 10**6, 0],
    "right": [-1, 10**6, 0],
    "parent": [3, -2],
    "root": [-1, 10**6, 1],
    "tree": [-1, 3],
    "dim": [-1, 3],
    "loc": [np.nan, np.inf],
    "time": [np.nan, -1.0, 1e9, np.inf],
    "lower": [np.nan, -np.inf, 1e9],
    "upper": [np.nan, np.inf, -1e9],
    "count": [0, -1, 7],
}


@pytest.mark.parametrize(("attribute", "value"), [(a, v) for a in WRONG for v in WRONG[a]])
def test_impossible_trees_are_refused(attribute, value, small, tmp_path):
    forgery = Forgery(small, tmp_path)
    array = forgery.array("Trees", attribute)
    array.flat[0] = value
    forgery.put("Trees", attribute, array)
    with pytest.raises(ModelFileError, match="Trees is inconsistent"):
        forgery.load()


def test_a_circle_of_nodes_is_refused():
    trees = features().trees_
    tables = {
        name: np.concatenate([a, a[:0]]) for name, a in vars(trees).items() if name != "lifetime"
    }
    n, end = trees.time.size, np.inf
    extra = {
        "tree": [0] * 4, "parent": [n + 1, n, n, n + 1], "left": [n + 2, n + 3, -1, -1],
        "right": [n + 1, n, -1, -1], "dim": [0, 0, -1, -1], "loc": [0.0] * 4,
        "time": [0.5, 0.5, end, end], "count": [1] * 4,
    }  # fmt: skip
    for name, values in extra.items():
        tables[name] = np.concatenate([tables[name], np.array(values, tables[name].dtype)])
    for name in ("lower", "upper"):
        tables[name] = np.concatenate([tables[name], np.zeros((4, 3))])
    with pytest.raises(ModelFileError, match="no root leads to"):
        check(Trees(trees.lifetime, **tables))


ASTRAY = [
    ("Cells", "column", -2), ("Cells", "column", 10**6), ("Cells", "per_tree", 0),
    ("MondrianFeatures", "n_cells_per_tree_", 3), ("RidgeRows", "leaf", -1),
    ("RidgeRows", "leaf", 10**6), ("RidgeRows", "leaf", 0), ("RidgeRows", "y", np.nan),
    ("LifetimePath", "lifetimes", np.nan), ("LifetimePath", "lifetimes", 1e9),
    ("MondrianKernelRegressor", "_leaf", -1), ("MondrianKernelRegressor", "_leaf", 10**6),
    ("MondrianKernelRegressor", "_Y", np.inf), ("MondrianKernelRegressor", "scale_", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attribute", "value"), ASTRAY)
def test_values_out_of_range_are_refused(name, attribute, value, small, tmp_path):
    forgery = Forgery(small, tmp_path)
    array = forgery.array(name, attribute)
    array.flat[0] = value
    if name == "Cells":  # one table, which the features share
        array.flat[-1] = value
    forgery.put(name, attribute, array)
    with pytest.raises(ModelFileError, match="is inconsistent"):
        forgery.load()


@pytest.mark.parametrize("change", ["dtype", "shorter", "axis"])
@pytest.mark.parametrize(
    ("name", "attribute"),
    [("Trees", "left"), ("Trees", "upper"), ("Cells", "column"), ("LifetimePath", "n_cells"),
     ("RidgeRows", "leaf"),
     ("MondrianKernelRegressor", "_leaf"), ("MondrianKernelRegressor", "_coef")],
)  # fmt: skip
def test_wrong_dtypes_and_shapes_are_refused(name, attribute, change, small, tmp_path):
    forgery = Forgery(small, tmp_path)
    array = forgery.array(name, attribute)
    changed = {"dtype": array.astype(np.float32), "shorter": array[:-1], "axis": array[..., None]}
    forgery.put(name, attribute, changed[change])
    with pytest.raises(ModelFileError, match="is inconsistent"):
        forgery.load()


@pytest.mark.parametrize("change", [np.float32, lambda a: a[:-1], lambda a: a[..., None]])
def test_wrong_curves_are_refused(change, small, tmp_path):
    forgery = Forgery(small, tmp_path)
    curves = dict(forgery.state("LifetimePath")["curves"]["dict"])
    index = curves["loo_error"]["array"]
    dtype, shape, *_ = forgery.header["arrays"][index]
    raw = np.frombuffer(zlib.decompress(forgery.chunks[index]), dtype)
    forged = change(raw.reshape(shape, order="F"))
    forgery.chunks[index] = zlib.compress(forged.tobytes(order="F"))
    entry = [forged.dtype.str, list(forged.shape), "C", len(forgery.chunks[index])]
    forgery.header["arrays"][index] = entry
    with pytest.raises(ModelFileError, match="is inconsistent: a curve loo_error"):
        forgery.load()


def _set(*keys_and_value):
    *keys, last, value = keys_and_value

    def forge(header):
        place = header
        for key in keys:
            place = place[key]
        place[last] = value

    return forge


def _attribute(name, value):
    return _set("objects", -1, 1, name, value)


ASTRAY_GENERATOR = {
    "random_state": {
        "dict": [
            ["bit_generator", "MT19937"],
            ["state", {"dict": [["pos", 10**6], ["key", {"array": 0}]]}],
            ["has_gauss", 0],
            ["gauss", 0.0],
        ]
    }
}
FORGED_HEADERS = {
    "huge array": (_set("arrays", 0, 1, [2**40, 2**40]), "larger than the file"),
    "large array": (_set("arrays", 0, 1, [2**18]), "other bytes"),
    "negative shape": (_set("arrays", 0, 1, [-1]), "impossible shape"),
    "shape of text": (_set("arrays", 0, 1, "12"), "impossible shape"),
    "huge chunk": (_set("arrays", 0, 3, 2**62), "does not fit"),
    "negative chunk": (_set("arrays", 0, 3, -1), "does not fit"),
    "shifted chunk": (_set("arrays", 0, 3, 5), "Cannot load"),
    "objects": (_set("arrays", 0, 0, "|O"), "unknown dtype"),
    "unhashable dtype": (_set("arrays", 0, 0, []), "contradicts itself"),
    "no arrays": (_set("arrays", []), "belong to no array"),
    "arrays of no kind": (_set("arrays", 7), "contradicts itself"),
    "foreign class": (_set("objects", 0, 0, "os.system"), "unknown class 'os.system'"),
    "other class": (_set("objects", 0, 0, "Cells"), "lacks, or must not have"),
    "later object": (_attribute("features_", {"object": 99}), "missing object"),
    "missing array": (_attribute("_leaf", {"array": -1}), "missing array"),
    "array for object": (_attribute("features_", {"array": 0}), "no features"),
    "hidden method": (_attribute("predict", 1), "must not have, .*predict"),
    "no identifier": (_attribute("a b", 1), "must not have"),
    "unknown kind": (_attribute("x_", {"pickle": "gASV"}), "unknown kind"),
    "no kind": (_attribute("x_", [1]), "without a kind"),
    "float": (_attribute("x_", {"float": "1_0"}), "unknown kind"),
    "unhashable key": (_attribute("x_", {"dict": [[{"list": []}, 1]]}), "contradicts itself"),
    "wide text": (_attribute("x_", {"strings": ["U9999999", [10**6], []]}), "larger than"),
    "text dtype": (_attribute("x_", {"strings": ["V8", [1], ["a"]]}), "unknown dtype"),
    "text of numbers": (_attribute("x_", {"strings": ["U1", [1], [1]]}), "other items"),
    "alpha": (_attribute("alpha_", -1.0), "impossible alpha"),
    "lifetime": (_attribute("lifetime_", 99.0), "two lifetimes"),
    "path": (_attribute("path_", 3), "impossible path"),
    "state": (lambda header: header["objects"][-1][1].pop("_coef"), "contradicts itself"),
    "parameter": (lambda header: header["objects"][-1][1].pop("alpha"), "lacks"),
    "random state": (_attribute("random_state", ASTRAY_GENERATOR), "random generator"),
    "no model": (lambda header: header.pop("model"), "contradicts itself"),
    "model of no object": (_set("model", {"array": 0}), "not an object"),
}


@pytest.mark.parametrize("name", FORGED_HEADERS)
def test_forged_headers_are_refused(name, small, tmp_path):
    forge, problem = FORGED_HEADERS[name]
    forgery = Forgery(small, tmp_path)
    forge(forgery.header)
    with pytest.raises(ModelFileError, match=problem):
        forgery.load()


@pytest.mark.parametrize("text", ["[1]", '{"a": NaN}', "{", "[" * 10**5])
def test_headers_that_are_no_json_object_are_refused(text, monkeypatch):
    monkeypatch.setattr("json.dumps", lambda *args, **options: text)
    with pytest.raises(ModelFileError, match="Its header is not"):
        unpack(b"".join(pack({}, [])))


def test_truth_values_are_0_or_1(tmp_path):
    model = features()
    model.flags_ = np.array([True, False])
    forgery = Forgery(model, tmp_path)
    forgery.put("MondrianFeatures", "flags_", np.array([1, 2], np.uint8))
    forgery.header["arrays"][forgery.state("MondrianFeatures")["flags_"]["array"]][0] = "|b1"
    with pytest.raises(ModelFileError, match="truth values"):
        forgery.load()


def test_two_sets_of_weights_are_refused(tmp_path):
    model = MondrianKernelRegressor(n_estimators=4, random_state=0).fit(X, Y[:, 0])
    forgery = Forgery(model, tmp_path)
    forgery.put("MondrianKernelRegressor", "coef_", 2 * model.coef_)
    with pytest.raises(ModelFileError, match="two sets of weights"):
        forgery.load()


@pytest.mark.parametrize(
    ("cls", "attribute"),
    [
        (MondrianKernelClassifier, "classes_"),
        (MondrianKernelClassifier, "coef_"),
        (MondrianForestClassifier, "classes_"),
    ],
)
def test_a_classifier_of_other_classes_is_refused(cls, attribute, tmp_path):
    model = cls(1.0, 0.1, n_estimators=4, random_state=0).fit(X, np.arange(20) % 3)
    forgery = Forgery(model, tmp_path)
    forgery.put(cls.__name__, attribute, getattr(model, attribute)[:2])
    with pytest.raises(ModelFileError, match="Classifier is inconsistent"):
        forgery.load()


def test_a_forest_of_other_cells_is_refused(tmp_path):
    model = MondrianForestRegressor(1.0, 0.1, n_estimators=4, random_state=0).fit(X, Y)
    forgery = Forgery(model, tmp_path)
    forgery.state("Means")["n_cells"] -= 1
    with pytest.raises(ModelFileError, match="means of other cells"):
        forgery.load()


@pytest.mark.parametrize(
    ("attribute", "change", "problem"),
    [
        ("column", lambda a: a + 100, "cells out of range"),
        ("rungs", lambda a: a[::-1].copy(), "rungs that do not rise"),
        ("stop", lambda a: a[:-1], "stop of length"),
        ("scale", lambda a: -a, "impossible scale"),
        ("error", lambda a: a[:-1], "no learners"),
    ],
)
def test_a_forged_stream_is_refused(attribute, change, problem, tmp_path):
    model = MondrianKernelClassifier(n_estimators=4, random_state=0)
    model.partial_fit(X, np.arange(20) % 3, classes=[0, 1, 2])
    forgery = Forgery(model, tmp_path)
    forgery.put("Stream", attribute, change(getattr(model._stream, attribute)))
    with pytest.raises(ModelFileError, match=problem):
        forgery.load()


@pytest.mark.parametrize("name", CLASSES)
def test_every_known_class_is_checked(name):
    assert name in ARRAYS
    assert hasattr(import_module(f"mondrian_kernel.{CLASSES[name]}"), name)


def test_random_forgeries_are_refused_or_harmless(small, tmp_path):
    original = Forgery(small, tmp_path)
    rng = np.random.default_rng(0)
    places = [(c, a) for c, s in original.header["objects"] for a in s if "array" in str(s[a])[:9]]
    refused = 0
    for _ in range(300):
        forgery = copy.deepcopy(original)
        name, attribute = places[rng.integers(len(places))]
        array = forgery.array(name, attribute)
        array.flat[rng.integers(array.size)] = rng.choice([-3, -1, 0, 1, 2, 5, 30, 10**5])
        forgery.put(name, attribute, array)
        try:
            model = forgery.load()
        except ModelFileError:
            refused += 1
        else:
            model.predict(NEW, return_std=True)
            model.at(0.5 * model.lifetime_).predict(NEW)
            model.path_.predict(NEW, lifetime=model.path_.lifetimes[0], alpha=1.0)
    assert refused > 100
