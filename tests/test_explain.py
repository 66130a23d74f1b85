"""Explanations add up and are Shapley values; importances are those of rows held out."""

import warnings
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from math import factorial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import partial_dependence, permutation_importance

from mondrian_kernel import (
    MondrianForestClassifier,
    MondrianForestRegressor,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
    load,
    save,
)
from mondrian_kernel._estimator.explainable import shapley_values
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.folds import Folds
from mondrian_kernel._model.importance import importances
from mondrian_kernel._model.kernel_fit import fit_kernel
from mondrian_kernel._model.learn_columns import learn_columns
from mondrian_kernel._model.notes import draw_background
from mondrian_kernel._path.driver import Stages
from mondrian_kernel._settings import BACKGROUND_ROWS

rng = np.random.default_rng(0)
N = 150
FRAME = pd.DataFrame(
    {
        "area": rng.uniform(size=N),
        "noise": rng.normal(size=N),
        "kind": rng.choice(["brick", "wood", "stone"], size=N),
        "age": np.where(rng.uniform(size=N) < 0.1, np.nan, rng.uniform(size=N)),
    }
)
y = 3 * FRAME.area.to_numpy() + (FRAME.kind == "brick") + 0.05 * rng.normal(size=N)
y = y.to_numpy()
Y = np.stack([y, y**2], axis=1)
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [1.0, 2.5])]
AUTO = {"n_estimators": 20, "random_state": 0}
ONE = {"lifetime": 2.0, "alpha": 0.1, "n_estimators": 20, "random_state": 0}

MODELS = {
    "auto": lambda: MondrianKernelRegressor(**AUTO).fit(FRAME, y),
    "outputs": lambda: MondrianKernelRegressor(**AUTO).fit(FRAME, Y),
    "one width": lambda: MondrianKernelRegressor(**ONE).fit(FRAME, y),
    "average": lambda: MondrianKernelRegressor("average", n_estimators=20, random_state=0).fit(
        FRAME, y
    ),
    "two classes": lambda: MondrianKernelClassifier(**AUTO).fit(FRAME, y > 1.5),
    "classes": lambda: MondrianKernelClassifier(**AUTO).fit(FRAME, LABELS),
    "hinge": lambda: MondrianKernelClassifier(**ONE, loss="hinge").fit(FRAME, y > 1.5),
    "forest": lambda: MondrianForestRegressor(**ONE).fit(FRAME, y),
    "forest classes": lambda: MondrianForestClassifier(**ONE).fit(FRAME, LABELS),
}


@pytest.fixture(scope="module")
def fitted():
    return {name: make() for name, make in MODELS.items()}


def literal_shapley(predict, row, background, group):
    """Shapley values by their definition, a weighted sum over all sets of columns."""
    columns = range(group.max() + 1)
    G = len(columns)

    def value(chosen):
        mixed = np.where(np.isin(group, chosen), row, background)
        return predict(mixed).mean(axis=0)

    out = []
    for j in columns:
        others = [k for k in columns if k != j]
        out.append(
            sum(
                factorial(size) * factorial(G - size - 1) / factorial(G)
                * (value([*chosen, j]) - value(list(chosen)))
                for size in range(G)
                for chosen in combinations(others, size)
            )
        )  # fmt: skip
    return np.array(out)


def test_contributions_are_shapley_values(fitted):
    """Up to four columns they are exact, each category and each gap with its column."""
    model = fitted["outputs"]
    found = model.explain(FRAME[:3], background=FRAME[50:55])
    rows, others = (model._check_new(some) for some in (FRAME[:3], FRAME[50:55]))
    group = model.encoder_.column_of_output_
    for i in range(3):
        expected = literal_shapley(model._outputs, rows[i], others, group)
        assert_allclose(found.contributions[i], expected, atol=1e-12)
    assert_allclose(found.base, model.predict(FRAME[50:55]).mean(axis=0))


def test_many_columns():
    """A random order and its reverse are exact for pairs of columns, and add up for all."""
    rows, others = rng.normal(size=(4, 7)), rng.normal(size=(6, 7))
    group = np.array([0, 1, 1, 2, 3, 4, 5])

    def pairs(X):
        one = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] * X[:, 4] + X[:, 3] * np.exp(X[:, 5])
        return np.stack([one, X[:, 6] ** 2], axis=1)

    base, values, ends = shapley_values(pairs, rows, others, group)
    assert_allclose(base, pairs(others).mean(axis=0))
    assert_allclose(ends, pairs(rows))
    for row, value in zip(rows, values, strict=True):
        assert_allclose(value, literal_shapley(pairs, row, others, group), atol=1e-12)

    def triples(X):
        return np.prod(X, axis=1, keepdims=True)

    base, values, ends = shapley_values(triples, rows, others, group)
    assert_allclose(base + values.sum(axis=1), ends, atol=1e-12)


def test_many_columns_and_a_large_background():
    """Each order is the reverse of the one before, and is exact for single columns."""
    rows, others = rng.normal(size=(4, 6)), rng.normal(size=(12, 6))

    def sums(X):
        return np.sin(X * np.arange(6)).sum(axis=1, keepdims=True)

    for row, value in zip(rows, shapley_values(sums, rows, others, np.arange(6))[1], strict=True):
        assert_allclose(value, literal_shapley(sums, row, others, np.arange(6)), atol=1e-12)

    def product(X):
        return X[:, :1] * X[:, 1:2]

    # Of two equal rows one has the first column before the second, the other after it.
    found = shapley_values(product, rows, np.repeat(others[:6], 2, axis=0), np.arange(6))[1]
    for row, value in zip(rows, found, strict=True):
        expected = literal_shapley(product, row, others[:6], np.arange(6))
        assert_allclose(value, expected, atol=1e-12)


def test_equal_rows_are_predicted_once():
    rows, seen = np.zeros((1, 6)), []
    rows[0, :2] = 1.0

    def predict(X):
        seen.append(X.shape[0])
        return X.sum(axis=1, keepdims=True)

    values = shapley_values(predict, rows, np.zeros((1, 6)), np.arange(6))[1]
    assert_allclose(values[0, :, 0], [1, 1, 0, 0, 0, 0])
    assert sum(seen) == 2 + 4  # row and background; both columns, one of each, none


def test_rows_are_explained_in_blocks(monkeypatch):
    rows, others = rng.normal(size=(20, 6)), rng.normal(size=(3, 6))
    expected = shapley_values(lambda X: X**3, rows, others, np.arange(6))
    monkeypatch.setattr("mondrian_kernel._settings.EXPLAIN_NUMBERS", 200)
    for one, two in zip(
        shapley_values(lambda X: X**3, rows, others, np.arange(6)), expected, strict=True
    ):
        assert_array_equal(one, two)


@pytest.mark.parametrize("name", MODELS)
def test_contributions_add_up_to_the_prediction(name, fitted):
    model, rows = fitted[name], FRAME[:5]
    found = model.explain(rows)
    ask = model.predict
    if hasattr(model, "classes_"):
        ask = model.decision_function if name == "hinge" else model.predict_proba
    assert_allclose(found.prediction, ask(rows))
    assert found.contributions.shape == (5, 4, *found.prediction.shape[1:])
    total = found.base + found.contributions.sum(axis=1)
    assert_allclose(total, found.prediction, rtol=1e-12, atol=1e-12)
    assert found.names == list(FRAME.columns)
    assert repr(found).startswith("Explanation of 5 rows\n  row 0: ")


def test_the_background_stands_for_all_rows(fitted):
    """Ten rows, one of each tenth by y, have nearly the mean of all."""
    model = fitted["auto"]
    assert model._notes.background.shape[0] == BACKGROUND_ROWS
    # A row is off by at most the range of its part; on average far less.
    assert abs(model.explain(FRAME[:1]).base - y.mean()) < np.ptp(y) / BACKGROUND_ROWS
    weight = np.where(np.arange(1000) < 500, 4.0, 1.0)
    values = np.arange(1000.0)[:, None]
    as_they_are = Columns.scaled(np.ones(1))
    some = draw_background(values, values, weight, as_they_are, seed=0)
    assert (some < 500).sum() == 8  # four fifths of the weight


def test_the_background_is_spread_as_all_rows_where_y_says_nothing():
    X, y = rng.normal(size=(1000, 1)), rng.normal(size=(1000, 1))
    draws = [draw_background(X, y, None, Columns.scaled(np.ones(1)), seed) for seed in range(20)]
    # The mean of ten rows at random has a standard deviation of 0.32.
    assert np.std([draw.mean() for draw in draws]) < 0.15
    assert np.mean([draw.std() for draw in draws]) > 0.8


@pytest.mark.parametrize("name", ["auto", "outputs", "one width", "two classes", "classes"])
def test_neighbours_have_the_largest_kernel(name, fitted, tmp_path):
    model = fitted[name]
    rows = pd.concat([FRAME[:4], FRAME[4:8].assign(area=0.5)])
    found = model.explain(rows, n_neighbours=3)
    K = model.model_.features(model._check_new(rows), None)
    K = (K @ model.model_.features(model._check_new(FRAME), None).T).toarray()
    assert_allclose(found.similarity, np.sort(K, axis=1)[:, :-4:-1])
    assert_allclose(np.take_along_axis(K, found.neighbours, axis=1), found.similarity)
    assert_array_equal(found.neighbours[:4, 0], np.arange(4))
    assert_allclose(found.similarity[:4, 0], 1.0)
    targets = {"outputs": Y, "two classes": y > 1.5, "classes": LABELS}.get(name, y)
    assert_array_equal(found.neighbour_targets, targets[found.neighbours])
    save(model, tmp_path / "model")
    again = load(tmp_path / "model").explain(rows, n_neighbours=3)
    for part in ("contributions", "neighbours", "neighbour_targets"):
        assert_array_equal(getattr(again, part), getattr(found, part))


@pytest.mark.parametrize("parameters", [AUTO, ONE])
def test_neighbours_are_places_in_the_table_that_was_fitted(parameters):
    """Rows of weight 0 count, and of equal rows one is named."""
    X = FRAME[["area", "age"]].fillna(0.5)
    X, target = pd.concat([X, X[:20]]), np.concatenate([y, y[:20]])
    weight = np.ones(N + 20)
    weight[[0, 3]] = 0.0
    model = MondrianKernelRegressor(**parameters).fit(X, target, sample_weight=weight)
    found = model.explain(X[:20], n_neighbours=1).neighbours[:, 0]
    assert found[0] == N
    assert found[3] == N + 3
    assert_array_equal(found % N, np.arange(20))


def test_neighbours_in_blocks(fitted, monkeypatch):
    expected = fitted["auto"].explain(FRAME[:5])
    monkeypatch.setattr("mondrian_kernel._settings.EXPLAIN_NUMBERS", 1000)
    found = fitted["auto"].explain(FRAME[:5])
    assert_array_equal(found.neighbours, expected.neighbours)
    assert_array_equal(found.similarity, expected.similarity)


def test_after_partial_fit():
    X = FRAME[["area", "noise"]]
    model = MondrianKernelRegressor(**AUTO).fit(X, y)
    assert model.explain(X[:2]).neighbours is not None
    before = model.feature_importances_
    model.partial_fit(X[:3], y[:3] + 1.0)
    found = model.explain(X[:2])
    assert found.neighbours is found.neighbour_targets is None
    assert_allclose(found.base + found.contributions.sum(axis=1), model.predict(X[:2]))
    assert_array_equal(model.feature_importances_, before)
    stream = MondrianKernelRegressor(**ONE).partial_fit(X, y)
    with pytest.raises(ValueError, match="background"):
        stream.explain(X[:2])
    found = stream.explain(X[:2], background=X[10:20])
    assert_allclose(found.base, stream.predict(X[10:20]).mean())


def test_impossible_arguments(fitted):
    for wrong in (0, 2.5, "all"):
        with pytest.raises(ValueError, match="n_neighbours"):
            fitted["auto"].explain(FRAME, n_neighbours=wrong)
    assert fitted["auto"].explain(FRAME[:1], n_neighbours=999).neighbours.shape == (1, N)


# ---- importances -------------------------------------------------------------------------------


def test_parts_that_were_held_out_can_be_predicted_again():
    """The models without a part predict its rows as they were predicted during the fit."""
    X = FRAME[["area", "noise"]].to_numpy()
    metric = learn_columns(X, Y, None, 0, scale=np.ones(2))
    fit = fit_kernel(
        X, Y, None, 0, metric, n_estimators=20, max_cells=None, n_jobs=None, stages=Stages(0, 4)
    )
    assert fit.folds.n_folds == 5
    for fold in range(5):
        own = fit.folds.of_row == fold
        found = fit.without(fold).scores(X[own], None)
        # Predictions during the fit are made in single precision.
        assert_allclose(found, fit.predictions[own], atol=1e-4 * Y.std())


def fit_of(slopes, X, n_folds=3):
    """Return a fit whose model without a part has slopes of its own."""
    folds = Folds(np.arange(X.shape[0]) % n_folds, n_folds)

    def without(fold):
        return SimpleNamespace(scores=lambda rows, n_jobs: rows @ slopes[fold][:, None])

    operator = SimpleNamespace(sample_weight=np.ones(X.shape[0]))
    model = SimpleNamespace(seed=0)
    return SimpleNamespace(
        folds=folds, rows=folds.held_out, without=without, operator=operator, model=model
    )


def test_importance_is_the_growth_of_the_error_of_rows_held_out():
    X = rng.normal(size=(3000, 4))
    X[:, 2] = X[:, 1]
    slopes = np.array([[2.0, 1.0, -1.0, 0.0], [1.0, 3.0, -3.0, 0.0], [0.5, 1.0, -1.0, 0.0]])
    fit = fit_of(slopes, X)
    target = np.einsum("nd,nd->n", X, slopes[fit.folds.of_row])

    def loss(S, at):
        return (S[:, 0] - target[at]) ** 2

    mean, std = importances(fit, X, loss, np.array([0, 1, 1, 2]), None)
    # Two standard normal numbers differ by 2 in mean square, with a deviation of √8; x is the
    # mean of that over 2000 rows and, on average, (4 + 1 + 0.25) / 3 as large.
    assert abs(mean[0] - 2 * 5.25 / 3) < 5 * np.sqrt(8 * (16 + 1 + 1 / 16) / 3 / 2000)
    assert std[0] > 0
    assert_allclose(mean[1], 0.0, atol=1e-20)  # equal columns of a group move together
    assert mean[2] == std[2] == 0.0
    assert importances(fit_of(slopes, X[:0], 0), X, loss, np.arange(4), None).shape == (2, 0)


def test_importances_of_a_table(fitted):
    for name in ("auto", "outputs", "classes", "two classes"):
        found, std = fitted[name].feature_importances_, fitted[name].feature_importances_std_
        assert found.shape == std.shape == (4,)
        assert found.argmax() == 0
        assert np.argsort(found)[2] == 2
        assert (found[[0, 2]] > 2 * std[[0, 2]]).all()
        assert (np.abs(found[[1, 3]]) < 0.05 * found[0]).all()
    # As permutation_importance, whose rows are fitted ones and whose score is R² too.
    known = permutation_importance(fitted["auto"], FRAME, y, n_repeats=5, random_state=0)
    assert_allclose(fitted["auto"].feature_importances_[0], known.importances_mean[0], rtol=0.5)


def test_only_fits_that_hold_rows_out_have_importances(fitted):
    for name in ("one width", "average", "hinge", "forest", "forest classes"):
        assert not hasattr(fitted[name], "feature_importances_")
    with pytest.raises(AttributeError, match="permutation_importance"):
        _ = fitted["forest"].feature_importances_
    other = fitted["auto"].at(0.5)
    assert not hasattr(other, "feature_importances_")
    assert other.explain(FRAME[:1]).neighbours[0, 0] == 0
    few = MondrianKernelRegressor(**AUTO).fit(FRAME[["area"]][:3], y[:3])
    assert not hasattr(few, "feature_importances_")


def test_select_from_model(fitted):
    chosen = SelectFromModel(fitted["auto"], prefit=True).set_output(transform="pandas").fit(FRAME)
    assert_array_equal(chosen.transform(FRAME).columns, ["area"])
    chosen = SelectFromModel(MondrianKernelClassifier(**AUTO), max_features=2).fit(FRAME, LABELS)
    assert_array_equal(chosen.get_feature_names_out(), ["area", "kind"])


def test_damaged_notes_are_refused(fitted):
    model, notes = fitted["auto"], fitted["auto"]._notes
    for change in (
        {"background": notes.background[:, 1:]},
        {"background": notes.background[:0]},
        {"index": notes.index[1:]},
        {"index": -1 - notes.index},
        {"targets": np.full_like(notes.targets, np.nan)},
        {"importances": notes.importances[:, 1:]},
        {"importances": notes.importances.astype(np.float32)},
    ):
        other = model._copy_with(model.model_)
        other._notes = replace(notes, **change)
        with pytest.raises(ValueError, match=r"background|places|targets|importances|notes"):
            other.check()


# ---- company -----------------------------------------------------------------------------------


def test_partial_dependence_on_a_table(fitted):
    for name in ("auto", "two classes"):
        found = partial_dependence(
            fitted[name], FRAME, ["area"], grid_resolution=4, kind="average"
        )["average"][0]
        assert (np.diff(found) > -1e-3).all()  # probabilities end near 1
        assert found[-1] > found[0] + 0.5
        found = partial_dependence(fitted[name], FRAME, ["kind"], categorical_features=["kind"])
        assert list(found["grid_values"][0]) == ["brick", "stone", "wood"]
        assert found["average"][0].argmax() == 0


def test_shap_gives_the_same_values():
    """With a column of categories as numbers: shap takes no text."""
    shap = pytest.importorskip("shap")
    X = FRAME[["area", "noise"]].assign(kind=FRAME.kind.astype("category").cat.codes)
    model = MondrianKernelRegressor(**AUTO, categorical_features=["kind"]).fit(X, y)
    assert_array_equal(model.encoder_.column_of_output_, [0, 1, 2, 2, 2])
    rows, background = X[:3], X[50:60]
    found = model.explain(rows, background=background)
    for explainer in (shap.Explainer, shap.explainers.Permutation):
        theirs = explainer(model, background)(rows)
        assert_allclose(theirs.base_values, found.base)
        assert_allclose(theirs.values.sum(axis=1), found.contributions.sum(axis=1))
        exact = explainer is shap.Explainer
        # The permutations of the other are random.
        assert_allclose(theirs.values, found.contributions, atol=1e-8 if exact else 0.5)


@pytest.mark.parametrize("name", MODELS)
def test_a_call_returns_what_is_explained(name, fitted):
    model = fitted[name]
    assert_array_equal(model(FRAME[:5]), model.explain(FRAME[:5]).prediction)
    if "predict_proba" in dir(model):
        assert_array_equal(model(FRAME[:5]), model.predict_proba(FRAME[:5]))
    elif not sklearn.base.is_classifier(model):
        assert_array_equal(model(FRAME[:5]), model.predict(FRAME[:5]))


def test_shap_takes_the_model_and_classes():
    shap = pytest.importorskip("shap")
    X, labels = FRAME[["area", "noise"]], LABELS
    model = MondrianKernelClassifier(**AUTO).fit(X, labels)
    theirs = shap.Explainer(model, X[50:60])(X[:3])
    assert_allclose(theirs.values, model.explain(X[:3], background=X[50:60]).contributions)


def test_shap_with_text_and_gaps(fitted):
    """Only the kernel explainer of shap takes text; the others subtract values."""
    shap = pytest.importorskip("shap")
    model = fitted["auto"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it passes arrays without the names of columns
        theirs = shap.KernelExplainer(model, FRAME[50:55]).shap_values(FRAME[:2], silent=True)
    found = model.explain(FRAME[:2], background=FRAME[50:55])
    assert_allclose(theirs, found.contributions, atol=1e-6)


class Tags(HTMLParser):
    """Collects text and tags, and fails where tags of a table do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        if tag in ("table", "tr", "td", "th", "caption"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("table", "tr", "td", "th", "caption"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


@pytest.mark.parametrize("name", ["auto", "classes", "one width", "forest"])
def test_a_notebook_shows_a_summary_below_the_parameters(name, fitted):
    model = fitted[name]
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    blank = sklearn.base.clone(model)._repr_mimebundle_()["text/html"]
    for html in (bundle["text/html"], model._repr_html_()):
        assert "lifetimes λ (weights)" in html
        page = Tags()
        page.feed(html)
        assert page.open == []
        measured = {"auto": "root mean squared error", "classes": "log loss"}.get(name)
        if measured:
            assert f"{measured}, rows held out" in page.text
            assert "Growth of the error when a column is shuffled" in page.text
            assert "importances of the columns" in page.text
    assert "lifetimes λ (weights)" not in blank
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_measures_are_those_of_rows_held_out(fitted):
    measures = fitted["auto"]._notes.measures
    spread = fitted["auto"].model_.spread
    assert measures["R²"] > 0.9
    assert abs(measures["share in 90 % intervals"] - 0.9) < 0.1
    assert 0 < measures["root mean squared error"] < spread.far[0]
    assert 0 < fitted["classes"]._notes.measures["share of wrong classes"] < 0.5
