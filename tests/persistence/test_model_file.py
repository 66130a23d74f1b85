"""Models saved to a file: the same after loading, and never loaded from a damaged file."""

import copy
import os
import pickle
import stat

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.exceptions import NotFittedError

from mondrian_kernel import (
    MondrianFeatures,
    MondrianKernelRegressor,
    every_cut_path,
    lifetime_path,
    sgd_path,
)
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._path.posterior import WidthMixture
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel.baselines import LaplaceFourierFeatures
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor
from mondrian_kernel.persistence import ModelFileError, load, save
from mondrian_kernel.persistence.container import unpack

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.1 * RNG.normal(size=(40, 2))
LABELS = np.array(["no", "yes", "perhaps"])[np.arange(40) % 3]
NEW = RNG.normal(size=(15, 3))


def regressor(**options):
    return MondrianKernelRegressor(**{"n_estimators": 12, "random_state": 0} | options)


def features():
    return MondrianFeatures(0.7, 3, random_state=0).fit(X[:8])


def regressor_outputs(model):
    mean, cov = model.predict(NEW, return_cov=True)
    std, interval = model.predict(NEW, return_std=True)[1], model.predict_interval(NEW)
    return [mean, cov, std, interval, model.predict_quantiles(NEW)]


def features_outputs(model):
    Phi = model.transform(NEW)
    return [Phi.data, Phi.indices, Phi.indptr, model.at(0.3 * model.lifetime_).kernel(NEW)]


def classifier_outputs(model):
    return [model.predict(NEW), model.predict_proba(NEW)]


def path_outputs(path):
    return [path.score, path.predict(NEW), path.predict(NEW, path.lifetimes[0], path.alphas[0])]


def forest_on_trees():
    features = MondrianFeatures(0.7, 5, random_state=0).fit(X)
    return MondrianForestRegressor.from_features(features).fit(X, Y)


MODELS = {
    "features": (features, features_outputs),
    "features grown out": (lambda: MondrianFeatures(np.inf, 3).fit(X), features_outputs),
    "one cell": (lambda: MondrianFeatures(1.0, 2).fit(X[:1]), features_outputs),
    "regressor": (lambda: regressor().fit(X, Y[:, 0]), regressor_outputs),
    "regressor at": (lambda: _at_half(regressor().fit(X, Y[:, 0])), regressor_outputs),
    "two outputs": (lambda: regressor().fit(X, Y), regressor_outputs),
    "given width": (lambda: regressor(lifetime=1, alpha=0.1).fit(X, Y), regressor_outputs),
    "weights": (
        lambda: regressor(scale=[1.0, 2.0, 3.0]).fit(X, Y, np.arange(40.0)),
        regressor_outputs,
    ),
    "constant": (lambda: regressor().fit(X, np.full(40, 0.1)), regressor_outputs),
    "zero": (lambda: regressor().fit(X, np.zeros(40)), regressor_outputs),
    "one row": (lambda: regressor().fit(X[:1], Y[:1, 0]), regressor_outputs),
    "average": (lambda: regressor(lifetime="average").fit(X, Y), regressor_outputs),
    "path of a model": (lambda: regressor(lifetime="path").fit(X, Y), regressor_outputs),
    "held out": (
        lambda: regressor(lifetime="path", criterion="holdout").fit(X, Y[:, 0]),
        regressor_outputs,
    ),
    "classifier": (
        lambda: MondrianKernelClassifier(n_estimators=9, random_state=0).fit(X, LABELS),
        classifier_outputs,
    ),
    "two classes": (
        lambda: MondrianKernelClassifier(1.0, 0.1, 9, class_weight={True: 2.0}).fit(X, X[:, 0] > 0),
        classifier_outputs,
    ),
    "forest of classes": (
        lambda: MondrianForestClassifier(n_estimators=9, random_state=0).fit(X, LABELS),
        classifier_outputs,
    ),
    "forest": (
        lambda: MondrianForestRegressor(n_estimators=9, random_state=0).fit(X, Y[:, 0]),
        lambda model: [model.predict(NEW)],
    ),
    "forest on trees": (forest_on_trees, lambda model: [model.predict(NEW)]),
    "every cut": (
        lambda: every_cut_path(X, Y[:, 0], n_estimators=3, max_lifetime=0.5),
        path_outputs,
    ),
    "stochastic gradients": (
        lambda: sgd_path(X, LABELS, loss="log_loss", alpha=0.1, max_lifetime=1.0, n_estimators=3),
        lambda path: [path.score, path.predict(NEW)],
    ),
    "several lifetimes": (
        lambda: MondrianFeatures([0.3, 1.0], 5, weights=[1.0, 2.0], random_state=0).fit(X),
        features_outputs,
    ),
    "path of two": (
        lambda: lifetime_path(X, Y, n_estimators=9, criterion="holdout", validation=(X, Y)),
        path_outputs,
    ),
    "path": (lambda: lifetime_path(X, Y[:, 0], n_estimators=9, random_state=1), path_outputs),
}


def _at_half(model):
    return model.at(0.5 * model.lifetime_)


def through_skops(model):
    data = skops.io.dumps(model)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


def assert_same(outputs, expected):
    for output, right in zip(outputs, expected, strict=True):
        assert output.dtype == right.dtype
        np.testing.assert_array_equal(output, right, strict=True)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:The best lifetime")
def test_round_trips_predict_bit_for_bit(name, tmp_path):
    make, outputs = MODELS[name]
    model = make()
    expected = outputs(model)
    save(model, tmp_path / "model.mondrian")
    loaded = load(os.fspath(tmp_path / "model.mondrian"))
    assert type(loaded) is type(model)
    assert_same(outputs(loaded), expected)
    save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model.mondrian").read_bytes()
    assert_same(outputs(pickle.loads(pickle.dumps(model))), expected)
    assert_same(outputs(through_skops(model)), expected)


def streams():
    yield regressor().partial_fit(X[:30], Y[:30]), Y
    yield regressor(lifetime=1.0, alpha=0.1).partial_fit(X[:30], Y[:30, 0]), Y[:, 0]
    yield regressor().fit(X[:30], Y[:30]), Y
    yield regressor().fit(X[:20], Y[:20]).partial_fit(X[20:30], Y[20:30]), Y
    yield MondrianForestRegressor(n_estimators=9).partial_fit(X[:30], Y[:30]), Y
    yield MondrianForestRegressor(n_estimators=9).fit(X[:30], Y[:30]), Y
    for cls in (MondrianKernelClassifier, MondrianForestClassifier):
        labels = np.unique(LABELS)
        yield cls(n_estimators=9).partial_fit(X[:1], LABELS[:1], classes=labels), LABELS
        yield cls(n_estimators=9).partial_fit(X[:30], LABELS[:30], classes=labels), LABELS
        yield cls(n_estimators=9).fit(X[:30], LABELS[:30]), LABELS


@pytest.mark.parametrize("number", range(12))
def test_a_loaded_model_learns_on_as_the_saved_one(number, tmp_path):
    model, y = list(streams())[number]
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    for part in (slice(30, 31), slice(31, 40), slice(0, 40)):
        loaded.partial_fit(X[part], y[part])
        model.partial_fit(X[part], y[part])
        if isinstance(model._stream, ExactStream):  # its factor is made again
            np.testing.assert_allclose(loaded.predict(NEW), model.predict(NEW), rtol=1e-11)
        else:
            np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    save(model, tmp_path / "m")
    assert_same([load(tmp_path / "m").predict(NEW)], [model.predict(NEW)])


def test_a_long_stream_is_saved(tmp_path):
    rows = np.random.default_rng(1).normal(size=(6000, 2))
    y = np.sin(5 * rows[:, 0])
    model = MondrianKernelRegressor(n_estimators=5, random_state=0)
    for begin in range(0, 5000, 500):
        model.partial_fit(rows[begin : begin + 500], y[begin : begin + 500])
    assert model._stream._is_settled
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(regressor_outputs_of(loaded, rows[:50]), regressor_outputs_of(model, rows[:50]))
    loaded.partial_fit(rows[5000:], y[5000:])
    model.partial_fit(rows[5000:], y[5000:])
    assert_same(regressor_outputs_of(loaded, rows[:50]), regressor_outputs_of(model, rows[:50]))


def regressor_outputs_of(model, rows):
    mean, std = model.predict(rows, return_std=True)
    return [mean, std, model.predict_interval(rows)]


def test_a_loaded_model_can_be_changed_and_fitted_again(tmp_path):
    model = regressor().fit(X, Y)
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.get_params() == model.get_params()
    assert loaded._model.rows.leaf.flags.writeable
    np.testing.assert_array_equal(loaded.fit(X, Y).predict(NEW), model.predict(NEW))


def test_caches_are_left_out(tmp_path):
    model = regressor().fit(X, Y)
    save(model, tmp_path / "before")
    model.predict(NEW, return_cov=True)
    assert model._bars is not None
    save(model, tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()


def test_what_is_shared_is_stored_once_and_shared_again(tmp_path):
    model = regressor(lifetime="average").fit(X, Y)
    save(model, tmp_path / "shared")
    loaded = load(tmp_path / "shared")
    parts = loaded._mixture.models
    assert len(parts) > 1
    for part in parts:
        assert part._model.trees is loaded._model.trees
        assert part._model.rows is loaded._model.rows
        assert part._model.levels.column is not loaded._model.levels.column
        assert part.path_ is loaded.path_
    model._mixture = WidthMixture(model._mixture.weights, copy.deepcopy(model._mixture.models))
    save(model, tmp_path / "apart")
    shared, apart = (unpack((tmp_path / name).read_bytes())[0] for name in ("shared", "apart"))
    n_trees, n_apart = ([name for name, _ in h["objects"]].count("Trees") for h in (shared, apart))
    assert n_apart == 2 * n_trees


@pytest.mark.parametrize("make", [lambda: regressor(lifetime="path").fit(X, Y), features])
def test_nothing_about_the_machine_is_kept(make, tmp_path):
    model = make()
    save(model, tmp_path / "one")
    model.n_jobs = 2
    if hasattr(model, "verbose"):
        model.verbose = print
    save(model, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    loaded = load(tmp_path / "two")
    assert loaded.n_jobs is None
    if hasattr(model, "verbose"):
        assert loaded.verbose == 0
        assert loaded.path_.trees.n_jobs is None


def test_a_private_file_stays_private(tmp_path):
    save(features(), tmp_path / "m")
    (tmp_path / "m").chmod(0o600)
    save(features(), tmp_path / "m")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o600


def test_parameters_and_names_are_kept(tmp_path):
    generator = np.random.RandomState(3)
    generator.normal()
    model = MondrianFeatures(np.float64(0.5), np.int64(4), max_cells=None, random_state=generator)
    model.fit(pd.DataFrame(X, columns=["a", "b", "ünïcode"])).set_output(transform="default")
    model.note_ = {"a": (1, [True, None]), 2: float("nan"), "b": np.array(["x", "yz"], "U5")}
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert list(loaded.feature_names_in_) == ["a", "b", "ünïcode"]
    assert loaded.feature_names_in_.dtype == object
    assert type(loaded.lifetime) is np.float64
    assert type(loaded.n_estimators) is np.int64
    assert loaded.note_["a"] == (1, [True, None])
    assert np.isnan(loaded.note_[2])
    assert loaded.note_["b"].dtype == "U5"
    np.testing.assert_array_equal(loaded.random_state.normal(size=5), generator.normal(size=5))


def test_arrays_keep_their_layout(tmp_path):
    model = features()
    model.table_ = np.asfortranarray(X)
    model.flags_ = X[:, ::2] > 0
    model.empty_ = np.empty((0, 3), np.float32)
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.table_.flags.f_contiguous
    assert not loaded.table_.flags.c_contiguous
    np.testing.assert_array_equal(loaded.table_, X)
    np.testing.assert_array_equal(loaded.flags_, X[:, ::2] > 0, strict=True)
    np.testing.assert_array_equal(loaded.empty_, model.empty_, strict=True)


def test_trees_extended_online_are_consistent():
    growth = Growth(X[:20], 5, 1)
    growth.advance(0.8)
    trees, _ = growth.freeze()
    online = OnlineTrees.from_trees(trees, 1)
    online.extend(X[20:])
    online.freeze().check()


@pytest.mark.parametrize(
    ("model", "error", "problem"),
    [
        (MondrianFeatures(), NotFittedError, "not fitted"),
        (regressor(), NotFittedError, "not fitted"),
        (LaplaceFourierFeatures().fit(X), TypeError, "LaplaceFourierFeatures"),
        ({"a": 1}, TypeError, "of type dict"),
        (type("MondrianFeatures", (MondrianFeatures,), {})().fit(X), TypeError, "of type"),
    ],
)
def test_save_refuses_what_it_cannot_keep(model, error, problem, tmp_path):
    with pytest.raises(error, match=problem):
        save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [print, X.astype(complex), np.array([print, 1]), {1, 2}, b"x"])
def test_save_names_the_attribute_it_cannot_keep(value, tmp_path):
    model = features()
    model.note_ = value
    with pytest.raises(TypeError, match=r"MondrianFeatures\.note_"):
        save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_save_refuses_a_broken_model(tmp_path):
    model = features()
    model.trees_.left[0] = 10**6
    with pytest.raises(ModelFileError, match="children out of range"):
        save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
