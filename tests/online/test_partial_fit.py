"""partial_fit of every model: what scikit-learn, users and a power cut may expect."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.metrics import log_loss

from mondrian_kernel import (
    MondrianFeatures,
    MondrianKernelRegressor,
    _settings,
    load,
    save,
)
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3)) * [1.0, 10.0, 0.1]
NEW = RNG.normal(size=(20, 3)) * [1.0, 10.0, 0.1]
F = np.sin(2 * X[:, 0]) + X[:, 1] / 10
Y = F + 0.1 * RNG.normal(size=150)
LABELS = np.array(["a", "b", "c"])[np.digitize(F, [-0.5, 0.5])]
MODELS = {
    "regressor": MondrianKernelRegressor(n_estimators=8, random_state=0),
    "exact regressor": MondrianKernelRegressor(0.5, 0.1, 8, random_state=0),
    "classifier": MondrianKernelClassifier(n_estimators=8, random_state=0),
    "hinge": MondrianKernelClassifier(0.5, 0.1, 8, loss="hinge", random_state=0),
    "squared": MondrianKernelClassifier(n_estimators=8, loss="squared", random_state=0),
    "forest regressor": MondrianForestRegressor(n_estimators=8, random_state=0),
    "forest classifier": MondrianForestClassifier(n_estimators=8, random_state=0),
}
GIVEN = {"lifetime": 0.5, "alpha": 0.1}


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def targets(model):
    return LABELS if is_classifier(model) else Y


def learn(model, begin, end, **kwargs):
    if is_classifier(model) and not hasattr(model, "classes_"):
        kwargs["classes"] = np.unique(LABELS)
    return model.partial_fit(X[begin:end], targets(model)[begin:end], **kwargs)


def seen(model):
    """All that a user can see of a model."""
    out = {
        "coef": np.copy(model.cell_weights_),
        "lifetime": model.lifetime_,
        "scale": model.scale_.copy(),
    }
    out["features"] = model.features_.transform(NEW / model.scale_).toarray()
    out["n_cells"] = model.features_.n_cells_
    names = ("decision_function", "predict_proba", "predict")
    out["prediction"] = next(getattr(model, name) for name in names if hasattr(model, name))(NEW)
    if isinstance(model, MondrianKernelRegressor):
        out["intervals"] = model.predict_interval(NEW)
    return out


def assert_same(a, b, rtol=0.0):
    for name, values in a.items():
        assert_allclose(values, b[name], rtol=rtol, atol=rtol, err_msg=name)


def test_learns(model):
    """From a stream in one pass more than half of what the best constant leaves."""
    for begin in range(0, 150, 10):
        learn(model, begin, begin + 10)
    constant = max(np.mean(c == LABELS) for c in "abc") if is_classifier(model) else 0.0
    assert model.score(X, targets(model)) > (1 + constant) / 2
    assert model.features_.trees_.count[model.features_.trees_.root[0]] == 150


def test_result_of_one_width_does_not_depend_on_batches(model):
    model.set_params(forgetting=None, **GIVEN)
    whole, pieces = learn(clone(model), 0, 150), clone(model)
    for begin in range(150):
        learn(pieces, begin, begin + 1)
    assert_same(seen(whole), seen(pieces), rtol=1e-8)


def test_fit_then_partial_fit_continues(model):
    model.set_params(**GIVEN)
    model.fit(X[:100], targets(model)[:100])
    before = {"scale": model.scale_, "alpha": model.alpha_, "lifetime": model.lifetime_}
    features, n_cells = model.features_, model.features_.n_cells_
    predicted = model.predict(NEW)
    learn(model, 100, 150)
    after = {"scale": model.scale_, "alpha": model.alpha_, "lifetime": model.lifetime_}
    assert_same(before, after)
    assert model.features_.n_cells_ > n_cells
    # The features of the fit, which others may hold, are what they were.
    assert features.n_cells_ == n_cells
    assert (features.trees_.count[features.trees_.root] == 100).all()
    assert model.predict(NEW).shape == predicted.shape
    # And a new fit forgets the stream.
    model.fit(X[:100], targets(model)[:100])
    assert_array_equal(model.predict(NEW), predicted)
    learn(model, 100, 150)


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("keep", ["pickle", "save", "deepcopy"])
def test_kept_models_go_on_as_they_would(model, fitted, keep, tmp_path):
    if fitted:
        model.set_params(**GIVEN).fit(X[:40], targets(model)[:40])
    learn(model, 40, 90)
    if keep == "save":
        save(model, tmp_path / "model")
        kept = load(tmp_path / "model")
    else:
        kept = copy.deepcopy(model) if keep == "deepcopy" else pickle.loads(pickle.dumps(model))
    assert_same(seen(model), seen(kept))
    for begin in range(90, 150, 30):
        learn(model, begin, begin + 30)
        learn(kept, begin, begin + 30)
        assert_same(seen(model), seen(kept), rtol=1e-9)


def test_skops_round_trip(model, tmp_path):
    skops = pytest.importorskip("skops.io")
    learn(model, 0, 90)
    data = skops.dumps(model)
    kept = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    learn(model, 90, 150)
    learn(kept, 90, 150)
    assert_same(seen(model), seen(kept), rtol=1e-9)


# --- all or nothing ------------------------------------------------------------------------------


def bad(name, model):
    rows, y, kwargs = X[60:90].copy(), targets(model)[60:90].copy(), {}
    if name == "infinite":
        rows[20, 1] = np.inf
    elif name == "columns":
        rows = rows[:, :2]
    elif name == "empty":
        rows, y = rows[:0], y[:0]
    elif name == "lengths":
        y = y[:-1]
    elif name == "class":
        y[-1] = "d"
    elif name == "classes":
        kwargs["classes"] = ["a", "b", "d"]
    elif name == "weights":
        kwargs["sample_weight"] = np.full(30, -1.0)
    elif name == "overflow":
        rows[20, 0], rows[21, 0] = 1.7e308, -1.7e308
    elif name == "outputs":
        y = np.stack([y, y], axis=1)
    return rows, y, kwargs


BAD = {
    "infinite": "infinity",
    "columns": "2 features, but .* is expecting 3",
    "empty": "0 sample",
    "lengths": "inconsistent numbers of samples",
    "class": r"\['d'\].* not among",
    "classes": "not the same as on",
    "weights": "Negative values",
    "overflow": "overflow",
    "outputs": "outputs|1d array",
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("n_before", [60, 64])
def test_bad_rows_leave_the_model_as_it_was(model, name, n_before):
    if name in ("class", "classes") and not is_classifier(model):
        pytest.skip("has no classes")
    learn(model, 0, n_before)
    before, plain = seen(model), copy.deepcopy(model)
    rows, y, kwargs = bad(name, model)
    with pytest.raises(ValueError, match=BAD[name]):
        model.partial_fit(rows, y, **kwargs)
    assert_same(seen(model), before)
    learn(model, n_before, 150)
    learn(plain, n_before, 150)
    assert_same(seen(model), seen(plain), rtol=1e-9)


INTERRUPTED = {
    "trees": "mondrian_kernel._trees.online.OnlineTrees.extend",
    "stream": "mondrian_kernel._online.scaled_stream.ScaledStream.learn_batch",
    "last step": "mondrian_kernel._online.stream.Stream.fitted",
    "last exact step": "mondrian_kernel._online.exact.ExactStream.fitted",
    "exact": "mondrian_kernel._online.ridge.ExactRidge.fit",
}


@pytest.mark.parametrize("where", INTERRUPTED)
@pytest.mark.parametrize("n_before", [60, 70])
def test_interrupt_leaves_the_model_as_it_was(model, where, n_before, monkeypatch):
    learn(model, 0, n_before)
    before, plain = seen(model), copy.deepcopy(model)
    place, name = INTERRUPTED[where].rsplit(".", 1)
    module, owner = place.rsplit(".", 1)
    cls = getattr(__import__(module, fromlist=[owner]), owner)
    original, calls = getattr(cls, name), []

    def interrupted(*args, **kwargs):
        result = original(*args, **kwargs)
        calls.append(None)
        if len(calls) == 1:
            raise KeyboardInterrupt  # all was done, nothing has been told yet
        return result

    monkeypatch.setattr(cls, name, interrupted)
    try:
        learn(model, n_before, 90)
    except KeyboardInterrupt:
        assert calls
    else:
        pytest.skip("does not come this way")
    monkeypatch.undo()
    assert_same(seen(model), before)
    learn(model, n_before, 150)
    learn(plain, n_before, 150)
    assert_same(seen(model), seen(plain), rtol=1e-9)


# --- conventions ---------------------------------------------------------------------------------


def test_classes_are_told_first(model):
    if not is_classifier(model):
        pytest.skip("has no classes")
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, LABELS)
    assert not hasattr(model, "classes_")
    model.partial_fit(X[:1], LABELS[:1], classes=["c", "a", "b", "d"])  # one row of one class
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    model.partial_fit(X, LABELS, classes=["d", "c", "b", "a"])
    assert set(model.predict(X)) <= set("abc")
    with pytest.raises(ValueError, match="fewer than two"):
        clone(model).partial_fit(X, LABELS, classes=["a"])
    with pytest.raises(ValueError, match="cannot be had from partial_fit"):
        clone(model).set_params(class_weight="balanced").partial_fit(
            X, LABELS, classes=["a", "b", "c"]
        )


def test_rows_without_weight_are_left_out(model):
    weight = np.tile([1.0, 2.0, 0.0], 50)
    used = weight > 0
    weighted = learn(clone(model), 0, 150, sample_weight=weight)
    kwargs = {"classes": np.unique(LABELS)} if is_classifier(model) else {}
    without = clone(model).partial_fit(
        X[used], targets(model)[used], sample_weight=weight[used], **kwargs
    )
    assert_same(seen(weighted), seen(without))
    assert weighted.features_.trees_.count[weighted.features_.trees_.root[0]] == 100


def test_several_outputs():
    Y2 = np.stack([Y, -Y], axis=1)
    for name in ("regressor", "exact regressor", "forest regressor"):
        one, two = clone(MODELS[name]), clone(MODELS[name])
        for begin in range(0, 150, 50):
            one.partial_fit(X[begin : begin + 50], Y[begin : begin + 50])
            two.partial_fit(X[begin : begin + 50], Y2[begin : begin + 50])
        assert_allclose(two.predict(NEW), np.stack([one.predict(NEW), -one.predict(NEW)], axis=1))


@pytest.mark.parametrize("name", ["regressor", "exact regressor"])
@pytest.mark.parametrize("y", [5.0, 0.0])
def test_one_row_says_nothing_of_the_errors(name, y):
    """The bars are those of a fit: as wide as y itself, or 1."""
    model = clone(MODELS[name]).partial_fit(X[:1], [y])
    mean, std = model.predict([X[0], [1e6] * 3], return_std=True)
    assert_allclose(mean, y)
    fitted = clone(MODELS[name]).fit(X[:1], [y])
    assert_allclose(std, fitted.predict(X[:1], return_std=True)[1][0])
    assert (np.diff(model.predict_interval(NEW)) > 2 * std[0]).all()


def test_names_of_columns_are_kept(model):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["u", "v", "w"])
    kwargs = {"classes": np.unique(LABELS)} if is_classifier(model) else {}
    model.partial_fit(frame[:50], targets(model)[:50], **kwargs)
    model.partial_fit(frame[50:], targets(model)[50:])
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame.rename(columns={"u": "z"}), targets(model))


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
@pytest.mark.parametrize("forest", [False, True])
def test_river_wrappers(kind, forest):
    compat = pytest.importorskip("river.compat")
    classes = {
        ("Regressor", False): MondrianKernelRegressor,
        ("Regressor", True): MondrianForestRegressor,
        ("Classifier", False): MondrianKernelClassifier,
        ("Classifier", True): MondrianForestClassifier,
    }
    plain = classes[kind, forest](n_estimators=5, random_state=0)
    y = targets(plain)
    if kind == "Regressor":
        wrapped = compat.convert_sklearn_to_river(clone(plain))
        plain.partial_fit(X[:1], Y[:1])
    else:
        wrapped = compat.convert_sklearn_to_river(clone(plain), classes=["a", "b", "c"])
        plain.partial_fit(X[:1], LABELS[:1], classes=["a", "b", "c"])
    rows = [dict(zip("uvw", row.tolist(), strict=True)) for row in X]
    wrapped.learn_one(rows[0], y[0])
    for row, target, x in zip(rows[1:60], y[1:60], X[1:60], strict=True):
        assert wrapped.predict_one(row) == plain.predict(x[None])[0]
        wrapped.learn_one(row, target)
        plain.partial_fit(x[None], np.array([target]))
    if hasattr(plain, "predict_proba"):
        assert sum(wrapped.predict_proba_one(rows[0]).values()) == pytest.approx(1.0)


def test_dask_ml_incremental():
    wrappers = pytest.importorskip("dask_ml.wrappers")
    dask_array = pytest.importorskip("dask.array")
    model = MondrianKernelClassifier(n_estimators=5, random_state=0)
    blocks = dask_array.from_array(X, chunks=(50, 3)), dask_array.from_array(LABELS, chunks=50)
    wrapped = wrappers.Incremental(model, shuffle_blocks=False)
    wrapped.fit(*blocks, classes=["a", "b", "c"])
    for begin in (0, 50, 100):
        learn(model, begin, begin + 50)
    assert_array_equal(wrapped.estimator_.predict(NEW), model.predict(NEW))


# --- features ------------------------------------------------------------------------------------


def test_features_keep_their_numbers():
    features = MondrianFeatures(1.0, 6, random_state=0).fit(X[:50])
    old, n_old = features.apply(X[:50]), features.n_cells_
    features.partial_fit(X[50:])
    assert_array_equal(features.apply(X[:50]), old)
    Phi = features.transform(X)
    assert Phi.shape == (150, features.n_cells_)
    assert features.n_cells_ > n_old
    assert Phi[:50, n_old:].nnz == 0
    assert_allclose(Phi.data, 6**-0.5)
    assert_array_equal(features.n_cells_per_tree_, features.trees_.cells(1.0).per_tree)
    assert_array_equal(Phi.toarray(), features.transform(X[:, :]).toarray())
    assert features.get_feature_names_out().size == features.n_cells_


def test_features_from_nothing_equal_features_in_batches():
    whole = MondrianFeatures(1.0, 6, random_state=0).partial_fit(X)
    pieces = MondrianFeatures(1.0, 6, random_state=0)
    for row in X:
        pieces.partial_fit(row[None])
    assert_array_equal(whole.transform(NEW).toarray(), pieces.transform(NEW).toarray())
    assert (whole.n_features_in_, whole.lifetime_) == (3, 1.0)


def test_views_stay_when_features_go_on():
    features = MondrianFeatures(1.0, 6, random_state=0).partial_fit(X[:50])
    views = features.at(1.0), features.at(0.4)
    before = [view.transform(NEW).toarray() for view in views]
    features.partial_fit(X[50:])
    for view, values in zip(views, before, strict=True):
        assert_array_equal(view.transform(NEW).toarray(), values)
    # A view goes on as well, at its own lifetime.
    views[1].partial_fit(X[50:])
    assert views[1].lifetime_ == 0.4
    assert_array_equal(views[1].kernel(X) > 0.999, features.at(0.4).kernel(X) > 0.999)


def test_features_from_a_file_go_on(tmp_path):
    features = MondrianFeatures(1.0, 6, random_state=0).partial_fit(X[:50])
    save(features, tmp_path / "features")
    for kept in (load(tmp_path / "features"), pickle.loads(pickle.dumps(features))):
        kept.partial_fit(X[50:])
        whole = MondrianFeatures(1.0, 6, random_state=0).partial_fit(X)
        assert_array_equal(kept.transform(NEW).toarray(), whole.transform(NEW).toarray())


def test_features_are_as_they_were_after_a_failure(monkeypatch):
    features = MondrianFeatures(1.0, 6, random_state=0).partial_fit(X[:50])
    before = features.transform(NEW).toarray()
    with pytest.raises(ValueError, match="overflow"):
        features.partial_fit(np.array([[1.7e308, 0, 0], [-1.7e308, 0, 0]]))
    follow = MondrianFeatures._follow
    calls = []

    def interrupted(self, *args):
        calls.append(None)
        follow(self, *args)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(MondrianFeatures, "_follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        features.partial_fit(X[50:])
    monkeypatch.undo()
    assert_array_equal(features.transform(NEW).toarray(), before)
    features.partial_fit(X[50:])
    whole = MondrianFeatures(1.0, 6, random_state=0).partial_fit(X)
    assert_array_equal(features.transform(NEW).toarray(), whole.transform(NEW).toarray())


def test_features_stop_at_the_cap():
    features = MondrianFeatures(5.0, 6, max_cells=40, random_state=0)
    for begin in range(0, 150, 10):
        features.partial_fit(X[begin : begin + 10])
    assert features.n_cells_ == 40
    with pytest.raises(ValueError, match="less than n_estimators"):
        MondrianFeatures(5.0, 6, max_cells=5).partial_fit(X)


def test_warm_up_is_what_the_documentation_says():
    assert _settings.WARM_UP == _settings.STREAM_WINDOW == _settings.RECENT_ROWS == 1024
    assert _settings.STREAM_ALPHA == 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_odds_of_a_fit_go_on(n_classes):
    """Further rows lower the log loss of a classifier that has learnt its widths."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 2))
    y = np.digitize(np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=6000), [-0.1, 0.3])
    y = np.minimum(y, n_classes - 1)
    model = MondrianKernelClassifier(n_estimators=60, random_state=0).fit(X[:200], y[:200])
    before = log_loss(y[4000:], model.predict_proba(X[4000:]))
    for begin in range(200, 4000, 500):
        model.partial_fit(X[begin : begin + 500], y[begin : begin + 500])
    after = log_loss(y[4000:], model.predict_proba(X[4000:]))
    assert after < 0.98 * before
