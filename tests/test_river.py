"""River's own checks of our river classes; columns and classes that come and go."""

import random

import numpy as np
import pytest

pytest.importorskip("river", minversion="0.26")
pd = pytest.importorskip("pandas")
from river import checks, compose, datasets, drift, evaluate, metrics, preprocessing  # noqa: E402

import mondrian_kernel as mk  # noqa: E402
from mondrian_kernel import _settings as settings  # noqa: E402
from mondrian_kernel.river import (  # noqa: E402
    MondrianAnomaly,
    MondrianFeatures,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
)

MODELS = [MondrianKernelRegressor, MondrianKernelClassifier, MondrianFeatures, MondrianAnomaly]


class FewPayments:
    """In place of river's CreditCard, which is downloaded: fewer rows, of which some stand out."""

    def take(self, n):
        draw = random.Random(0)
        for i in range(n // 5):
            fraud = i % 50 == 49
            yield {f"V{j}": draw.gauss(0, 4 if fraud else 1) for j in range(6)}, int(fraud)


@pytest.mark.parametrize("kind", MODELS)
def test_river_checks(kind, monkeypatch):
    monkeypatch.setattr(datasets, "CreditCard", FewPayments)
    model = kind(n_estimators=3, max_cells=500)
    for check in checks.yield_checks(model):
        random.seed(0)
        check(model.clone())


def stream(n=80, late=40):
    """Rows with a column z that appears late, and columns that are sometimes left out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    X[:late, 2] = 0.0
    X[rng.uniform(size=X.shape) < 0.2] = 0.0
    X[0, :2] = 1.0
    rows = [{name: v for name, v in zip("abz", row, strict=True) if v != 0} for row in X.tolist()]
    return X, rows, X[:, 0] + np.abs(X[:, 2])


@pytest.mark.parametrize("late", [40, 70])  # before and after rows are learnt again, at 64
@pytest.mark.parametrize("lifetime", ["auto", 1.0])
def test_a_column_that_is_not_named_is_zero(lifetime, late):
    X, rows, y = stream(late=late)
    model = MondrianKernelRegressor(lifetime, n_estimators=5, seed=0)
    whole = mk.MondrianKernelRegressor(lifetime, n_estimators=5, random_state=0)
    for i, x in enumerate(rows):
        model.learn_one(x, y[i])
        whole.partial_fit(X[i : i + 1], y[i : i + 1])
    expected = whole.predict(X)
    np.testing.assert_allclose([model.predict_one(x) for x in rows], expected, rtol=1e-10)
    frame = pd.DataFrame(X, columns=list("abz"), index=np.arange(80) + 7)
    many = model.predict_many(frame)
    np.testing.assert_allclose(many, expected, rtol=1e-10)
    assert many.index.equals(frame.index)
    ends = whole.predict_interval(X[:1], 0.8)[0]
    found = model.predict_interval_one(rows[0], 0.8)
    np.testing.assert_allclose([found.lower, found.upper], ends, rtol=1e-10)


def test_features_of_a_column_that_appears_late():
    X, rows, _ = stream()
    model = MondrianFeatures(1.0, n_estimators=5, seed=0)
    whole = mk.MondrianFeatures(1.0, n_estimators=5, random_state=0)
    for i, x in enumerate(rows):
        model.learn_one(x)
        whole.partial_fit(X[i : i + 1])
    Phi = whole.transform(X)
    for i, x in enumerate(rows):
        assert model.transform_one(x) == dict(zip(Phi[i].indices, Phi[i].data, strict=True))
    frame = pd.DataFrame(X, columns=list("abz"))
    np.testing.assert_array_equal(model.transform_many(frame).to_numpy(), Phi.toarray())


def test_unknown_columns_do_not_predict():
    model = MondrianKernelRegressor(n_estimators=5, seed=0)
    for _, x, y in zip(range(20), *stream()[1:], strict=False):
        model.learn_one(x, y)
    assert model.predict_one({"a": 1.0, "new": 5.0}) == model.predict_one({"a": 1.0})


def test_a_further_class_leaves_the_odds_of_the_others(monkeypatch):
    monkeypatch.setattr(settings, "LINEAR_COLUMNS", 0)  # lines go on far from all rows
    _, rows, _ = stream(late=0)
    model = MondrianKernelClassifier(n_estimators=5, seed=0)
    model.learn_one(rows[0], "left")
    assert model.predict_proba_one(rows[0]) == {"left": 1.0}
    for x in rows[1:]:
        model.learn_one(x, "left" if x.get("a", 0) < 0 else "right")
    for label in ("third", "fourth"):
        before = model.predict_proba_many(pd.DataFrame(rows).fillna(0.0)).to_numpy()
        model._model._add_class()
        model._classes[label] = len(model._classes)
        after = model.predict_proba_many(pd.DataFrame(rows).fillna(0.0)).to_numpy()
        share = after[:, :-1].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(after[:, :-1] / share, before, rtol=1e-9)
        # Far from all rows only the intercepts are left: one of 80 + 2 rows. The learners of
        # several widths share one intercept, their mean. Recent means of the classes add a little.
        assert model.predict_proba_one({"a": 1e9})[label] == pytest.approx(1 / 82, rel=0.05)
        model._model.check()


def test_a_class_that_comes_late_is_learnt():
    model, draw = MondrianKernelClassifier(n_estimators=10, seed=0), random.Random(0)
    accuracy = metrics.Accuracy()
    for i in range(600):
        a = draw.uniform(0, 3 if i >= 200 else 2)
        x, y = {"a": a, "b": draw.random()}, ("low", "mid", "high")[int(a)]
        if i >= 400:
            accuracy.update(y, model.predict_one(x))
        model.learn_one(x, y)
    assert accuracy.get() > 0.9


@pytest.mark.parametrize("bad", ["rain", None, float("nan"), float("inf"), 1e200])
@pytest.mark.parametrize("name", ["b", "new"])
def test_what_is_not_a_number_is_refused_by_name(name, bad):
    _, rows, y = stream(20)
    model = MondrianKernelRegressor(n_estimators=3, seed=0)
    for x, target in zip(rows, y, strict=True):
        model.learn_one(x, target)
    before = model.predict_one(rows[0])
    with pytest.raises(ValueError, match=rf"'{name}' is .*StatImputer"):
        model.learn_one({"a": 1.0, "fresh": 1.0, name: bad}, 1.0)
    with pytest.raises(ValueError, match=rf"'{name}' is .*StatImputer"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0], name: [0.0, bad]}), pd.Series([1.0, 2.0]))
    with pytest.raises(ValueError, match="'y' is nan"):
        model.learn_one({"a": 1.0, "fresh": 1.0}, float("nan"))
    assert "fresh" not in model._names
    assert "new" not in model._names
    assert model.predict_one(rows[0]) == before


def test_without_columns_there_is_nothing_to_learn():
    with pytest.raises(ValueError, match="no columns"):
        MondrianKernelRegressor().learn_one({}, 1.0)


def test_pipelines_metrics_and_drift():
    model = compose.Pipeline(
        preprocessing.StandardScaler(),
        drift.DriftRetrainingClassifier(
            MondrianKernelClassifier(n_estimators=10, seed=0),
            drift.binary.DDM(),
            train_in_background=False,
        ),
    )
    found = evaluate.progressive_val_score(datasets.Phishing().take(400), model, metrics.Accuracy())
    assert found.get() > 0.8


def test_intervals_cover():
    model, draw = MondrianKernelRegressor(n_estimators=10, seed=0), random.Random(0)
    assert model.predict_interval_one({"a": 1.0}).width == np.inf
    inside = []
    for i in range(900):
        x = {"a": draw.random()}
        y = x["a"] + draw.gauss(0.0, 0.1)
        if i >= 300:
            inside.append(y in model.predict_interval_one(x, coverage=0.8))
        model.learn_one(x, y)
    # 600 rows: the share has a deviation of 0.016; four of them, and 0.03 for a model that learns.
    assert abs(np.mean(inside) - 0.8) < 0.1


def test_rows_and_targets_of_a_table_are_as_many():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    for n in (2, 4):
        model = MondrianKernelRegressor(n_estimators=3, seed=0)
        with pytest.raises(ValueError, match=f"X has 3 rows, but y has {n}"):
            model.learn_many(X, pd.Series(np.arange(float(n))))
        assert model.predict_one({"a": 1.0}) == 0.0


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_label_is_no_class(missing):
    model = MondrianKernelClassifier(n_estimators=3, seed=0)
    for label in ("p", "q"):
        model.learn_one({"a": 1.0}, label)
    before = model.predict_proba_one({"a": 1.0})
    with pytest.raises(ValueError, match="y contains NaN"):
        model.learn_one({"a": 1.0}, missing)
    assert model.predict_proba_one({"a": 1.0}) == before
