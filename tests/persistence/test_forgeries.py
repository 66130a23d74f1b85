"""Files with a valid checksum and impossible contents: refused, or harmless."""

import copy
import dataclasses
import inspect
import tracemalloc
import zlib
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import RegressorMixin

from forgery import PARTS, Forgery
from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor, sgd_path
from mondrian_kernel._trees.levels import grow_trees
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._trees.packed import PackedOnline, PackedTrees, pack_online, pack_trees
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor
from mondrian_kernel.persistence import ModelFileError, load, save
from mondrian_kernel.persistence.container import pack, store, unpack
from mondrian_kernel.persistence.encoding import CHECKED_BY_OWNER, CLASSES

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(20, 3)), RNG.normal(size=(20, 2)), RNG.normal(size=(15, 3))


def features():
    return MondrianFeatures(0.7, 3, random_state=0).fit(X)


@pytest.fixture(scope="module")
def packed():
    return MondrianKernelRegressor(n_estimators=4, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def small(packed):
    """A model that is not packed in its file, as those of streams are not."""
    model = copy.deepcopy(packed)
    rows = dataclasses.replace(model._model.rows, X=None)
    model._model = dataclasses.replace(model._model, rows=rows)
    return model


@pytest.fixture(scope="module")
def chosen():
    """A model with a path."""
    return MondrianKernelRegressor("path", n_estimators=4, random_state=0).fit(X, Y)


def test_a_forgery_without_a_change_is_loaded(small, tmp_path):
    forgery = Forgery(small, tmp_path)
    forgery.put("Trees", "left", forgery.array("Trees", "left"))
    np.testing.assert_array_equal(forgery.load().predict(NEW), small.predict(NEW))


@pytest.mark.parametrize("weight", [None, RNG.integers(1, 4, size=60).astype(float)])
@pytest.mark.parametrize("kind", [MondrianKernelRegressor, MondrianKernelClassifier])
def test_a_packed_model_is_the_same_when_it_is_unpacked(kind, weight):
    """Rows are repeated, so that leaves hold several and boxes are points in some columns."""
    rows = np.repeat(RNG.integers(3, size=(30, 3)).astype(float), 2, axis=0)
    model = kind(n_estimators=5, random_state=0).fit(rows, np.arange(60) % 2, weight).model_
    packed = model.packed(512)
    packed.check()
    again = packed.unpacked()
    again.check()
    for part in ("trees", "levels", "rows"):
        one, other = getattr(model, part), getattr(again, part)
        for field in dataclasses.fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


@pytest.fixture(scope="module")
def went_on(packed):
    """A stream that goes on from a fit, and is too large to be exact."""
    model = copy.deepcopy(packed).set_params(forgetting=1e6)
    return model.partial_fit(RNG.normal(size=(9, 3)), RNG.normal(size=(9, 2)))


@pytest.fixture(scope="module")
def forgot(went_on):
    """The stream after so many rows more that it does not keep them."""
    model = copy.deepcopy(went_on)
    return model.partial_fit(RNG.normal(size=(40, 3)), RNG.normal(size=(40, 2)))


def test_packed_streams_are_the_same_when_they_are_unpacked(went_on, forgot):
    """Trees, cells and rows, which go on to be packed; those that are forgotten are not."""
    assert forgot._stream.online.rows is None
    online = went_on._stream.online
    packed = pack_online(online)
    assert isinstance(packed, PackedOnline)
    packed.check()
    again = packed.unpacked()
    for one, other in ((online, again), (online, pack_online(again).unpacked())):
        pairs = [*zip(one.freeze().nodes, other.freeze().nodes, strict=True)]
        pairs += [(getattr(one, name), getattr(other, name)) for name in ("column", "stop")]
        pairs += [(one.n_cells_per_tree, other.n_cells_per_tree), (one.n_cells, other.n_cells)]
        pairs += [(np.concatenate(one.rows.X), np.concatenate(other.rows.X))]
        pairs += [(np.concatenate(one.rows.leaf), np.concatenate(other.rows.leaf))]
        for array, same in pairs:
            np.testing.assert_array_equal(array, same, strict=True)
        assert (one.seed, one.lifetime, one.n_rows) == (other.seed, other.lifetime, other.n_rows)


def test_a_stream_keeps_its_rows_until_they_are_twice_those_of_the_fit(packed):
    """What is rolled back is not kept; wherever rows are not kept, files hold boxes."""
    model, n_fit = copy.deepcopy(packed).set_params(forgetting=1e6), len(X)
    for n in (1, n_fit - 1, 1):
        model.partial_fit(RNG.normal(size=(n, 3)), RNG.normal(size=(n, 2)))
        stream, before = model._stream, model._stream.n_rows
        rows = stream.online.rows
        if before > 2 * n_fit:
            assert rows is None
            continue
        assert sum(map(len, rows.X)) == sum(map(len, rows.leaf)) == before
        stream.learn(np.ones((1, 3)), np.ones((1, 2)), np.ones(1), None)
        stream.rollback(before)
        assert sum(map(len, rows.X)) == sum(map(len, rows.leaf)) == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_packed_trees_are_the_same_when_they_are_unpacked(dtype):
    """Rows are repeated, so that boxes are points in some columns."""
    rows = RNG.integers(3, size=(60, 3)).astype(dtype)
    trees = grow_trees(rows, 1.5, 5, 0, None, 1)[0]
    online = OnlineTrees.from_trees(trees, 1)
    online.extend(RNG.normal(size=(30, 3)))
    trees = online.freeze()
    packed = pack_trees(trees)
    assert isinstance(packed, PackedTrees)
    packed.check()
    again = packed.unpacked()
    again.check()
    for field in dataclasses.fields(trees):
        one, other = getattr(trees, field.name), getattr(again, field.name)
        np.testing.assert_array_equal(one, other, strict=True)


def test_trees_with_loose_boxes_are_saved_as_they_are():
    trees = grow_trees(X, 1.5, 5, 0, None, 1)[0]
    trees.lower[trees.root[2]] -= 1.0
    trees.check()
    assert pack_trees(trees) is trees


# Wrong entries of what is packed, at the first, at a middle and at the last place of an array.
WRONG_IN_PACKED = {
    ("PackedModel", "n_nodes"): [-1, 0, 10**6],
    ("PackedModel", "dim"): [-1, 3, 10**6],
    ("PackedModel", "loc"): [np.nan, np.inf],
    ("PackedModel", "time"): [np.nan, np.inf, -1.0, 1e9],
    ("PackedModel", "leaf"): [-1, 0, 10**6],
    ("PackedModel", "X"): [np.nan, np.inf],
    ("PackedModel", "Y"): [np.nan, np.inf],
    ("PackedModel", "weight"): [np.nan, 0.0, -1.0],
    ("PackedModel", "level_lifetimes"): [np.nan, -1.0, 1e9],
    ("PackedModel", "level_weights"): [np.nan, 0.0, -1.0],
    ("PackedOnline", "n_nodes"): [-1, 0, 10**6],
    ("PackedOnline", "root"): [-1, 1, 10**6],
    ("PackedOnline", "dim"): [-1, 3, 10**6],
    ("PackedOnline", "loc"): [np.nan, np.inf],
    ("PackedOnline", "time"): [np.nan, np.inf, -1.0, 1e9],
    ("PackedOnline", "rungs"): [np.nan, -1.0, 1e9],
    ("PackedOnline", "linked"): [-1, 10**6],
    ("PackedOnline", "left"): [-1, 0, 10**6],
    ("PackedOnline", "right"): [-1, 0, 10**6],
    ("PackedOnline", "column"): [-2, 10**6],
    ("PackedOnline", "X"): [np.nan, np.inf],
    ("PackedOnline", "fit_leaf"): [-1, 0, 10**6],
    ("PackedOnline", "leaf"): [-1, 0, 10**6],
    ("PackedTrees", "root"): [-1, 1, 10**6],
    ("PackedTrees", "dim"): [-1, 3, 10**6],
    ("PackedTrees", "left"): [-1, 0, 10**6],
    ("PackedTrees", "right"): [-1, 0, 10**6],
    ("PackedTrees", "loc"): [np.nan, np.inf],
    ("PackedTrees", "time"): [np.nan, np.inf, -1.0, 1e9],
    ("PackedTrees", "count"): [-1, -(10**6)],
    ("PackedTrees", "lower"): [np.nan, np.inf],
    ("PackedTrees", "is_wide"): [True, False],
    ("PackedTrees", "upper"): [np.nan, np.inf, -1e9],
}


@pytest.mark.parametrize(("name", "attribute"), WRONG_IN_PACKED)
def test_no_entry_of_what_is_packed_can_be_wrong(
    name, attribute, packed, went_on, forgot, tmp_path
):
    models = {"PackedModel": packed, "PackedOnline": went_on, "PackedTrees": forgot}
    forgery = Forgery(models[name], tmp_path)
    array = forgery.array(name, attribute)
    n_refused = 0
    for place in (0, array.size // 2, -1):
        for entry in WRONG_IN_PACKED[name, attribute]:
            forged = array.copy()
            forged.flat[place] = entry
            if np.array_equal(forged, array):
                continue
            forgery.put(name, attribute, forged)
            with pytest.raises(ModelFileError, match=r"is inconsistent|contradicts itself"):
                forgery.load()
            n_refused += 1
    assert n_refused > 0


@pytest.mark.parametrize(("name", "attribute"), WRONG_IN_PACKED)
@pytest.mark.parametrize("change", ["dtype", "shorter", "axis", "empty"])
def test_wrong_dtypes_and_shapes_of_what_is_packed_are_refused(
    name, attribute, change, packed, went_on, forgot, tmp_path
):
    models = {"PackedModel": packed, "PackedOnline": went_on, "PackedTrees": forgot}
    forgery = Forgery(models[name], tmp_path)
    array = forgery.array(name, attribute)
    changed = {
        "dtype": array.astype(np.float16),
        "shorter": array[:-1],
        "axis": array[..., None],
        "empty": array[:0],
    }
    forgery.put(name, attribute, changed[change])
    with pytest.raises(ModelFileError, match=r"is inconsistent|contradicts itself"):
        forgery.load()


def test_the_nodes_of_a_packed_model_cannot_claim_much_memory(packed, tmp_path):
    """Of a file with few bytes for each cut and many columns."""
    forgery = Forgery(packed, tmp_path)
    body = sum(map(len, forgery.chunks))
    n_columns = 16
    while True:
        n_columns *= 2
        forgery.put("PackedModel", "X", np.zeros((20, n_columns)))
        n_bytes = 16 * n_columns * forgery.array("PackedModel", "dim").size
        if n_bytes > 2 * 512 * body:
            break
    with pytest.raises(ModelFileError, match="claims far more memory"):
        forgery.load()


def record(model, part):
    """Return a part of a fitted record, and a function that puts another one in its place."""
    fitted = model._model
    if part == "FittedModel":
        return fitted, lambda other: other
    name = PARTS[part]
    return getattr(fitted, name), lambda other: dataclasses.replace(fitted, **{name: other})


# What no entry of an array may be; None where the entry may be that. A function takes the trees,
# the array and the place of the entry.
def _cut(value):
    return lambda trees, array, i: value if trees.left[i[0]] >= 0 else None


def _leaf(value):
    return lambda trees, array, i: value if trees.left[i[0]] < 0 else None


def _always(value):
    return lambda trees, array, i: value


def _shifted(shift):
    return lambda trees, array, i: array[i] + shift


def _n_nodes(trees, array, i):
    return trees.time.size


def _earlier(trees, array, i):
    return max(i[0] - 1, 0) if trees.left[i[0]] >= 0 and array[i] != max(i[0] - 1, 0) else None


def _own_number(trees, array, i):
    return i[0]


def _n_cells(trees, array, i):
    return array[i[0]].max() + 1


def _other_cell(trees, array, i):
    return 1 if array[i] == 0 else 0


def _cut_node(trees, array, i):
    return np.flatnonzero((trees.left >= 0) & (trees.tree == i[1]))[0]


def _other_tree(trees, array, i):
    return array[i[0], i[1] - 1]


NUMBERS = [_always(np.nan), _always(np.inf), _always(-np.inf)]
POSITIVE = [*NUMBERS, _always(0.0), _always(-1.0)]
WRONG = {
    ("Trees", "root"): [_always(-1), _n_nodes, _shifted(1)],
    ("Trees", "tree"): [_always(-1), _always(4), _shifted(1)],
    ("Trees", "parent"): [_always(-2), _n_nodes, _own_number, _shifted(1), _shifted(-1)],
    ("Trees", "left"): [_always(-5), _n_nodes, _own_number, _always(0), _cut(-1), _earlier],
    ("Trees", "right"): [_n_nodes, _own_number, _always(0), _cut(-1), _earlier, _shifted(2)],
    ("Trees", "dim"): [_cut(-1), _cut(3)],
    ("Trees", "loc"): [_cut(np.nan), _cut(np.inf)],
    ("Trees", "time"): [_always(np.nan), _always(-1.0), _always(1e9), _cut(np.inf), _leaf(0.1)],
    ("Trees", "lower"): [*NUMBERS, _always(1e9)],
    ("Trees", "upper"): [*NUMBERS, _always(-1e9)],
    ("Trees", "count"): [_always(-1), _shifted(1), _always(2**31 - 1)],
    ("Levels", "lifetimes"): [*NUMBERS, _always(-1.0), _always(1e9)],
    ("Levels", "weights"): POSITIVE,
    ("Levels", "column"): [_always(-2), _n_cells, _other_cell],
    ("Levels", "per_tree"): [_always(-1), _always(0), _shifted(1), _always(2**40)],
    ("TrainingRows", "leaf"): [_always(-1), _n_nodes, _cut_node, _other_tree],
    ("TrainingRows", "Y"): NUMBERS,
    ("TrainingRows", "weight"): POSITIVE,
    ("FittedModel", "cell_weights"): NUMBERS,
    ("FittedModel", "intercept"): NUMBERS,
    ("Columns", "scale"): POSITIVE,
    ("Columns", "relevance"): POSITIVE,
    ("Columns", "bend"): [*NUMBERS, _always(-1.0)],
    ("Columns", "knots"): NUMBERS,
    ("Columns", "ranks"): NUMBERS,
    ("Trend", "landmarks"): NUMBERS,
    ("Trend", "coef"): NUMBERS,
    ("Trend", "intercept"): NUMBERS,
    ("Spread", "cell_weights"): NUMBERS,
    ("Spread", "knots"): NUMBERS,
    ("Spread", "log_scale"): NUMBERS,
    ("Spread", "column_knots"): NUMBERS,
    ("Spread", "column_logs"): NUMBERS,
    ("Spread", "errors"): NUMBERS,
    ("Spread", "predictions"): NUMBERS,
    ("Spread", "weight"): POSITIVE,
    ("Spread", "far"): [*NUMBERS, _always(-1.0)],
    ("Spread", "lowest"): [_always(np.nan)],
    ("Spread", "highest"): [_always(np.nan)],
    ("FittedModel", "signal"): [*NUMBERS, _always(-1.0)],
}


@pytest.mark.parametrize(("part", "attribute"), WRONG)
def test_no_entry_of_the_record_can_be_wrong(part, attribute, small):
    value, put_back = record(small, part)
    array = getattr(value, attribute)
    trees = small._model.trees
    for wrong in WRONG[part, attribute]:
        n_forged = 0
        for i in np.ndindex(array.shape):
            entry = wrong(trees, array, i)
            if entry is None or entry == array[i]:
                continue
            forged = array.copy()
            forged[i] = entry
            with pytest.raises(ValueError, match=r"\w"):
                put_back(dataclasses.replace(value, **{attribute: forged})).check()
            n_forged += 1
        assert n_forged > 0


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize(("part", "attribute"), WRONG)
def test_a_file_with_a_wrong_entry_is_refused(part, attribute, place, small, tmp_path):
    forgery = Forgery(small, tmp_path)
    array = forgery.array(part, attribute)
    trees, n_forged = small._model.trees, 0
    i = np.unravel_index(place % array.size, array.shape)
    for wrong in WRONG[part, attribute]:
        entry = wrong(trees, array, i)
        if entry is None or entry == array[i]:
            continue
        forged = array.copy()
        forged[i] = entry
        forgery.put(part, attribute, forged)
        with pytest.raises(ModelFileError, match=r"is inconsistent|contradicts itself"):
            forgery.load()
        n_forged += 1
    assert n_forged > 0 or attribute in ("dim", "loc")


@pytest.mark.parametrize(
    "change", [*({"alpha": a} for a in (-1.0, 0.0, np.nan, np.inf)), {"seed": -1}, {"seed": 2**64}]
)
def test_numbers_of_the_record_cannot_be_wrong(change, small):
    with pytest.raises(ValueError, match="out of range"):
        dataclasses.replace(small._model, **change).check()


@pytest.mark.parametrize("change", ["dtype", "shorter", "axis"])
@pytest.mark.parametrize(
    ("name", "attribute"), [*WRONG, ("LifetimePath", "lifetimes"), ("LifetimePath", "n_cells"),
                            ("RidgeRows", "leaf"), ("RidgeRows", "y"), ("RidgeRows", "offset")]
)  # fmt: skip
def test_wrong_dtypes_and_shapes_are_refused(name, attribute, change, small, chosen, tmp_path):
    forgery = Forgery(chosen if name in ("LifetimePath", "RidgeRows") else small, tmp_path)
    array = forgery.array(name, attribute)
    changed = {"dtype": array.astype(np.float16), "shorter": array[:-1], "axis": array[..., None]}
    forgery.put(name, attribute, changed[change])
    with pytest.raises(ModelFileError, match=r"is inconsistent|contradicts itself"):
        forgery.load()


ASTRAY = [
    ("RidgeRows", "leaf", -1), ("RidgeRows", "leaf", 10**6), ("RidgeRows", "leaf", 0),
    ("RidgeRows", "y", np.nan), ("RidgeRows", "offset", np.inf),
    ("LifetimePath", "lifetimes", np.nan), ("LifetimePath", "lifetimes", -1.0),
    ("LifetimePath", "lifetimes", 1e9), ("LifetimePath", "alphas", 0.0),
    ("LifetimePath", "alphas", np.inf),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attribute", "value"), ASTRAY)
@pytest.mark.parametrize("place", [0, -1])
def test_values_out_of_range_are_refused(name, attribute, value, place, chosen, tmp_path):
    forgery = Forgery(chosen, tmp_path)
    array = forgery.array(name, attribute)
    array.flat[place] = value
    forgery.put(name, attribute, array)
    with pytest.raises(ModelFileError, match=f"{name} is inconsistent"):
        forgery.load()


@pytest.mark.parametrize("change", [np.float32, lambda a: a[:-1], lambda a: a[..., None]])
def test_wrong_curves_are_refused(change, chosen, tmp_path):
    forgery = Forgery(chosen, tmp_path)
    index = dict(forgery.state("LifetimePath")["curves"]["dict"])["loo_error"]["array"]
    forgery.set(index, change(forgery.get(index)))
    with pytest.raises(ModelFileError, match="LifetimePath is inconsistent: "):
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


def _itself(header):
    header["objects"][-1][1]["_mixture"] = {"object": len(header["objects"]) - 1}


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
    "huge array": (_set("arrays", 0, 1, [2**40, 2**40]), "far more memory"),
    "large array": (_set("arrays", 0, 1, [2**18]), "other bytes"),
    "negative shape": (_set("arrays", 0, 1, [-1]), "impossible shape"),
    "shape of text": (_set("arrays", 0, 1, "12"), "impossible shape"),
    "huge chunk": (_set("arrays", 0, 4, 2**62), "do not have"),
    "negative chunk": (_set("arrays", 0, 4, -1), "impossible shape"),
    "shifted chunk": (_set("arrays", 0, 4, 5), "do not have"),
    "objects": (_set("arrays", 0, 0, "|O"), "unknown dtype"),
    "unhashable dtype": (_set("arrays", 0, 0, []), "contradicts itself"),
    "order": (_set("arrays", 0, 2, "K"), "unknown dtype .* or order"),
    "no arrays": (_set("arrays", []), "do not have"),
    "arrays of no kind": (_set("arrays", 7), "contradicts itself"),
    "short entry": (lambda header: header["arrays"][0].pop(), "contradicts itself"),
    "foreign class": (_set("objects", 0, 0, "os.system"), "unknown class 'os.system'"),
    "other class": (_set("objects", 0, 0, "Levels"), "lacks, or must not have"),
    "later object": (_attribute("_model", {"object": 99}), "missing object"),
    "itself": (_itself, "missing object"),
    "missing array": (_attribute("_model", {"array": -1}), "missing array"),
    "array for object": (_attribute("_model", {"array": 0}), "no fitted model"),
    "object for object": (_attribute("_model", {"object": 0}), "no fitted model"),
    "hidden method": (_attribute("predict", 1), "must not have, .*predict"),
    "hidden constraints": (_attribute("_parameter_constraints", {"dict": []}), "must not have"),
    "threads": (_attribute("n_jobs", 64), "must not have, .*n_jobs"),
    "no identifier": (_attribute("a b", 1), "must not have"),
    "unknown kind": (_attribute("x_", {"pickle": "gASV"}), "unknown kind"),
    "no kind": (_attribute("x_", [1]), "without a kind"),
    "float": (_attribute("x_", {"float": "1_0"}), "unknown kind"),
    "unhashable key": (_attribute("x_", {"dict": [[{"list": []}, 1]]}), "contradicts itself"),
    "objects of another shape": (_attribute("x_", {"objects": [[2], ["a"]]}), "other items"),
    "array of lists": (_attribute("x_", {"objects": [[1], [{"list": []}]]}), "other items"),
    "stream": (_attribute("_stream", 3), "_stream is a value of type int"),
    "path": (_attribute("path_", 3), "path"),
    "notes": (_attribute("_notes", 3), "notes"),
    "mixture": (_attribute("_mixture", 3), "mixture"),
    "error bars": (_attribute("_bars", {"dict": []}), "not one of a regression"),
    "outputs": (_attribute("_one_output", True), "has 2 scores, not 1"),
    "columns": (_attribute("n_features_in_", 4), "3 columns"),
    "names": (_attribute("feature_names_in_", {"objects": [[2], ["a", "b"]]}), "3 columns"),
    "state": (lambda header: header["objects"][-1][1].pop("_one_output"), "contradicts itself"),
    "parameter": (lambda header: header["objects"][-1][1].pop("alpha"), "lacks"),
    "random state": (_attribute("random_state", ASTRAY_GENERATOR), "random generator"),
    "no model": (lambda header: header.pop("model"), "contradicts itself"),
    "model of no object": (_set("model", {"array": 0}), "not an object"),
    "another model": (_set("model", {"object": 0}), "belong to nothing"),
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
    index = forgery.state("MondrianFeatures")["flags_"]["array"]
    forgery.set(index, np.array([1, 2], np.uint8))
    forgery.header["arrays"][index][0] = forgery.header["arrays"][index][3] = "|b1"
    with pytest.raises(ModelFileError, match="truth values"):
        forgery.load()


def test_text_is_made_of_characters(tmp_path):
    model = features()
    model.note_ = np.array(["a", "b"])
    forgery = Forgery(model, tmp_path)
    index = forgery.state("MondrianFeatures")["note_"]["array"]
    (entry,), (forgery.chunks[index],) = store([np.array([0, 0x110000], np.uint32)])
    forgery.header["arrays"][index] = ["<U1", *entry[1:3], "<U1", entry[-1]]
    with pytest.raises(ModelFileError, match="impossible character"):
        forgery.load()


def test_a_classifier_of_other_classes_is_refused(tmp_path):
    for cls in (MondrianKernelClassifier, MondrianForestClassifier):
        model = cls(1.0, 0.1, n_estimators=4, random_state=0).fit(X, np.arange(20) % 3)
        for classes in (np.arange(2), np.arange(4), np.arange(3)[::-1], np.zeros((3, 1))):
            forgery = Forgery(model, tmp_path)
            forgery.put(cls.__name__, "classes_", classes)
            with pytest.raises(ModelFileError, match="Classifier is inconsistent"):
                forgery.load()


def test_a_classifier_of_one_class_is_refused(tmp_path):
    model = MondrianKernelClassifier(1.0, 0.1, 4, random_state=0).fit(X, np.arange(20) % 2)
    forgery = Forgery(model, tmp_path)
    forgery.put("MondrianKernelClassifier", "classes_", np.arange(1))
    with pytest.raises(ModelFileError, match="fewer than two"):
        forgery.load()


@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[:, :-1], np.float32])
def test_a_forest_of_other_cells_is_refused(change, tmp_path):
    model = MondrianForestRegressor(1.0, 0.1, n_estimators=4, random_state=0).fit(X, Y)
    forgery = Forgery(model, tmp_path)
    forgery.put("FittedModel", "sums", change(model._model.sums))
    with pytest.raises(ModelFileError, match="FittedModel is inconsistent: sums"):
        forgery.load()
    forgery.state("FittedModel")["sums"] = None
    with pytest.raises(ModelFileError, match=r"sums of the leaves|belong to nothing"):
        forgery.load()


@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[:, :-1], np.float32])
def test_stochastic_gradients_of_other_cells_are_refused(change, tmp_path):
    path = sgd_path(X, Y, alpha=0.1, max_lifetime=1.0, n_estimators=3, random_state=0)
    forgery = Forgery(path, tmp_path)
    forgery.put("SgdWeights", "coef", change(path.model.coef))
    with pytest.raises(ModelFileError, match="SgdWeights is inconsistent"):
        forgery.load()


@pytest.mark.parametrize(
    ("name", "value"), [("fit_intercept", 2**70), ("alpha", -1.0), ("max_cells", 0)]
)
def test_a_forest_with_an_impossible_parameter_is_refused(name, value, tmp_path):
    forgery = Forgery(MondrianForestRegressor(1.0, n_estimators=2).fit(X, Y), tmp_path)
    forgery.state("MondrianForestRegressor")[name] = value
    with pytest.raises(ModelFileError, match=f"'{name}' parameter"):
        forgery.load()


@pytest.mark.parametrize("weights", [[1.0], [0.0], [np.nan], [0.5]])
def test_a_mixture_of_other_weights_is_refused(weights, tmp_path):
    model = MondrianKernelRegressor("average", n_estimators=4, random_state=0).fit(X, Y)
    forgery = Forgery(model, tmp_path)
    forged = forgery.array("WidthMixture", "weights")
    forged = forged[:-1] if weights == [1.0] else np.r_[weights, forged[1:]]
    forgery.put("WidthMixture", "weights", forged)
    with pytest.raises(ModelFileError, match="WidthMixture is inconsistent"):
        forgery.load()


def stream_of(kind):
    classes = np.arange(20) % 3
    if kind == "widths":
        model = MondrianKernelClassifier(n_estimators=4, random_state=0)
        return model.partial_fit(X, classes, classes=[0, 1, 2])
    if kind == "after a fit":
        model = MondrianKernelClassifier(1.0, 0.1, 4, random_state=0).fit(X, classes)
        return model.partial_fit(X, classes)
    if kind == "forest":
        return MondrianForestRegressor(n_estimators=4, random_state=0).partial_fit(X, Y)
    lifetime = "auto" if kind == "exact after learning" else 1.0
    model = MondrianKernelRegressor(lifetime, n_estimators=4, random_state=0)
    if kind == "exact":
        return model.partial_fit(X, Y)
    return model.fit(X, Y).partial_fit(NEW, NEW[:, :2])


STREAMS = {
    "widths": ["Committee", "Mixture", "Stream"],
    "after a fit": ["Committee", "Stream"],
    "forest": ["Committee", "Mixture", "Stream"],
    "exact": ["ExactStream"],
    "exact after a fit": ["ExactStream"],
    "exact after learning": ["ExactStream", "Columns", "Trend"],
}


def entries(code, place=()):
    """Yield the path to each number of an array and each number in the code of an object."""
    if isinstance(code, dict) and "array" in code:
        yield place, code["array"]
    elif isinstance(code, dict) and "dict" in code:
        for key, part in code["dict"]:
            yield from entries(part, (*place, key))
    elif isinstance(code, dict | list):
        for key, part in code.items() if isinstance(code, dict) else enumerate(code):
            yield from entries(part, (*place, key))


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in STREAMS for name in STREAMS[kind]]
)
def test_a_stream_with_wrong_arrays_is_refused(kind, name, tmp_path):
    model = stream_of(kind)
    original = Forgery(model, tmp_path)
    for place, index in entries(original.state(name)):
        array = original.get(index)
        wrong = [array[..., None]]
        if array.size:
            wrong += [array[:0], array[:-1]]
        if array.dtype == np.float64 and array.size:
            wrong += [np.full_like(array, np.nan)]
        if array.dtype.kind == "i" and array.size:
            wrong += [array - 1000] if "n_rows" in place else [array + 1000, array - 1000]
        for forged in wrong:
            forgery = copy.deepcopy(original)
            forgery.set(index, forged)
            with pytest.raises(ModelFileError):
                forgery.load()
        original.set(index, array.astype(np.float32))
        try:
            loaded = original.load()
        except ModelFileError:
            pass
        else:  # the stream makes it a right dtype again
            np.testing.assert_allclose(loaded.predict(NEW), model.predict(NEW), rtol=1e-6)
            loaded.partial_fit(X, Y if isinstance(model, RegressorMixin) else np.arange(20) % 3)
        original.set(index, array)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("Committee", "rule", None), ("Committee", "mixture", None), ("Filter", "n_outputs", 2),
        ("Filter", "loss", "absolute"), ("Filter", "loss", "squared"), ("Filter", "alpha", 0.0),
        ("Filter", "alpha", 1), ("Stream", "kept", None),
        ("Committee", "small", {"dict": []}), ("Stream", "start", 3), ("Stream", "n_start", 0),
        ("Stream", "n_start", 10**6), ("Stream", "learners", {"list": []}), ("Stream", "rows", 3),
    ],
)  # fmt: skip
def test_a_stream_with_a_wrong_attribute_is_refused(name, attribute, value, tmp_path):
    forgery = Forgery(stream_of("widths"), tmp_path)
    forgery.state(name)[attribute] = value
    with pytest.raises(ModelFileError):
        forgery.load()


@pytest.mark.parametrize(("kind", "name"), [("exact", "ExactStream"), ("widths", "Stream")])
def test_impossible_numbers_are_refused_without_a_warning(kind, name, tmp_path):
    forgery = Forgery(stream_of(kind), tmp_path)
    forgery.put(name, "level_weights", -np.ones(1))
    with pytest.raises(ModelFileError):
        forgery.load()


def zeros(n_bytes):
    """Return the entry and the bytes of an array of zeros as no model has it: a thousandth."""
    chunk = zlib.compress(bytes(n_bytes), 9)
    return ["|u1", [n_bytes], "C", "|u1", len(chunk)], chunk


@pytest.mark.parametrize("is_used", [False, True])
def test_a_small_file_cannot_fill_the_memory(is_used, small, tmp_path):
    forgery = Forgery(small, tmp_path)
    entry, chunk = zeros(2**28)
    forgery.header["arrays"].append(entry)
    forgery.chunks.append(chunk)
    if is_used:
        forgery.header["objects"][-1][1]["note_"] = {"array": len(forgery.chunks) - 1}
    forgery.path.write_bytes(b"".join(pack(forgery.header, forgery.chunks)))
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="far more memory"):
        load(forgery.path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * forgery.path.stat().st_size


def test_many_small_arrays_cannot_fill_the_memory_either(small, tmp_path):
    forgery = Forgery(small, tmp_path)
    entry, chunk = zeros(2**20)
    first = len(forgery.chunks)
    forgery.header["arrays"] += [entry] * 40
    forgery.chunks += [chunk] * 40
    used = [{"array": i} for i in range(first, first + 40)]
    forgery.header["objects"][-1][1]["note_"] = {"list": used}
    with pytest.raises(ModelFileError, match="far more memory"):
        forgery.load()


def test_what_belongs_to_nothing_is_refused(small, tmp_path):
    forgery = Forgery(small, tmp_path)
    (entry,), (chunk,) = store([np.arange(3)])
    forgery.header["arrays"].append(entry)
    forgery.chunks.append(chunk)
    with pytest.raises(ModelFileError, match="1 of its arrays and objects belong to nothing"):
        forgery.load()


def test_zeros_of_our_own_are_saved_and_loaded(tmp_path):
    model = features()
    model.note_ = np.zeros(2**26, np.int8), np.zeros(2**26, np.int8)
    save(model, tmp_path / "m")
    for note in load(tmp_path / "m").note_:
        assert note.shape == (2**26,)
        assert not note.any()


@pytest.mark.parametrize("name", CLASSES)
def test_every_known_class_is_checked(name):
    cls = getattr(import_module(f"mondrian_kernel.{CLASSES[name]}"), name)
    assert hasattr(cls, "check")
    if name in CHECKED_BY_OWNER:
        assert len(inspect.signature(cls.check).parameters) > 1


@pytest.mark.parametrize("kind", ["small", "chosen"])
def test_random_forgeries_are_refused_or_harmless(kind, request, tmp_path):
    original = Forgery(request.getfixturevalue(kind), tmp_path)
    rng = np.random.default_rng(0)
    objects = original.header["objects"]
    places = {(c, a) for c, state in objects for a in state if "array" in str(state[a])[:9]}
    places = sorted(places)
    refused = 0
    for _ in range(300):
        forgery = copy.deepcopy(original)
        name, attribute = places[rng.integers(len(places))]
        array = forgery.array(name, attribute)
        if array.dtype.kind == "U" or array.size == 0:
            continue
        array.flat[rng.integers(array.size)] = rng.choice([-3, -1, 0, 1, 2, 5, 30, 10**5])
        forgery.put(name, attribute, array)
        try:
            model = forgery.load()
        except ModelFileError:
            refused += 1
        else:
            model.predict(NEW, return_std=True)
            model.at(0.5 * model.lifetime_).predict(NEW)
            if model.path_ is not None:
                model.path_.predict(NEW, lifetime=model.path_.lifetimes[0], alpha=1.0)
    assert refused > 100
