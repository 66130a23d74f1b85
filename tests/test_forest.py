"""Mondrian forests: leaf values, the paper's two objectives on one sample, the contract."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor
from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor
from scikit_learn_checks import assert_all_run_and_pass

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(150, 2)) * [1.0, 10.0]
Y = np.column_stack([np.sin(4 * X[:, 0]), X[:, 0] + X[:, 1]])
LABELS = np.where(X[:, 0] > 0.5, "right", np.where(X[:, 0] * X[:, 1] > 0, "same", "other"))
NEW = rng.uniform(-1.3, 1.3, size=(40, 2)) * [1.0, 10.0]
S = rng.integers(0, 4, size=150)
FIXED = {"lifetime": 1.5, "alpha": 0.7, "n_estimators": 11, "random_state": 0}


def stays(forest, rows):
    """Cell (N, M) of each row, and the probability that it lies there."""
    scaled = rows / forest.scale_
    _, log_stay = forest.features_.trees_.walk(scaled, forest.lifetime_)
    return forest.features_.apply(scaled), np.exp(log_stay)


# ---- scikit-learn's contract -----------------------------------------------------------------


@parametrize_with_checks(
    [MondrianForestRegressor(n_estimators=20), MondrianForestClassifier(n_estimators=20)]
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("forest", [MondrianForestRegressor, MondrianForestClassifier])
def test_scikit_learn_checks_all_run_and_none_is_expected_to_fail(forest):
    assert_all_run_and_pass(forest(n_estimators=5), at_least=57)


@pytest.mark.parametrize(
    ("forest", "y"), [(MondrianForestRegressor, Y), (MondrianForestClassifier, LABELS)]
)
def test_frames_pickle_clone_pipeline_and_search(forest, y):
    model = forest(n_estimators=9, random_state=0).fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(NEW), model.predict(NEW))
    assert_array_equal(clone(model).fit(X, y).predict(NEW), model.predict(NEW))
    for frame in (pd.DataFrame, pl.DataFrame):
        columns = {"a": X[:, 0], "b": X[:, 1]}
        other = forest(n_estimators=9, random_state=0).fit(frame(columns), y)
        assert_array_equal(other.cell_weights_, model.cell_weights_)
        assert_array_equal(other.feature_names_in_, ["a", "b"])
    assert cross_val_score(make_pipeline(MinMaxScaler(), clone(model)), X, y, cv=3).mean() > 0.6
    search = GridSearchCV(forest(**FIXED), {"lifetime": [0.001, 3.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"lifetime": 3.0}


# ---- leaf values -----------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("s", [None, S], ids=["plain", "weighted"])
def test_prediction_is_the_mean_of_shrunk_leaf_means(alpha, fit_intercept, s):
    forest = MondrianForestRegressor(**{**FIXED, "alpha": alpha}, fit_intercept=fit_intercept)
    forest.fit(X, Y, sample_weight=s)
    weight = np.ones(150) if s is None else s
    b = np.average(Y, axis=0, weights=weight) if fit_intercept else np.zeros(2)
    cells, _ = stays(forest, X)
    new_cells, stay = stays(forest, NEW)
    expected = np.tile(b, (40, 1))
    for m in range(11):
        for i in range(40):
            mates = cells[:, m] == new_cells[i, m]
            n = weight[mates].sum()
            value = (weight[mates, None] * (Y[mates] - b)).sum(axis=0) / (n + alpha)
            expected[i] += stay[i, m] * value / 11
    assert_allclose(forest.predict(NEW), expected, atol=1e-12)


@pytest.mark.parametrize("s", [None, S], ids=["plain", "weighted"])
def test_probabilities_are_leaf_frequencies_shrunk_to_the_prior(s):
    forest = MondrianForestClassifier(**FIXED).fit(X, LABELS, sample_weight=s)
    weight = np.ones(150) if s is None else s
    one_hot = LABELS[:, None] == forest.classes_
    prior = weight @ one_hot / weight.sum()
    assert_allclose(forest.class_prior_, prior)
    cells, _ = stays(forest, X)
    new_cells, stay = stays(forest, NEW)
    expected = np.zeros((40, 3))
    for m in range(11):
        for i in range(40):
            mates = cells[:, m] == new_cells[i, m]
            leaf = (weight[mates] @ one_hot[mates] + 0.7 * prior) / (weight[mates].sum() + 0.7)
            expected[i] += (stay[i, m] * leaf + (1 - stay[i, m]) * prior) / 11
    P = forest.predict_proba(NEW)
    assert_allclose(P, expected, atol=1e-12)
    assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)
    assert (P >= 0).all()
    assert_array_equal(forest.predict(NEW), forest.classes_[expected.argmax(axis=1)])


def test_far_from_the_data_the_forest_knows_the_mean_alone():
    far = np.full((1, 2), 1e6)
    assert_allclose(MondrianForestRegressor(**FIXED).fit(X, Y).predict(far)[0], Y.mean(axis=0))
    forest = MondrianForestClassifier(**FIXED).fit(X, LABELS)
    assert_allclose(forest.predict_proba(far)[0], forest.class_prior_)


# ---- kernel and forest on one sample ---------------------------------------------------------


def kernel_objective(w, Phi, y, delta2):
    """Sum over rows of the loss of the mean of the trees, plus δ²‖w‖²: the paper's §6.1."""
    return ((y - Phi @ w) ** 2).sum() + delta2 * w @ w


def forest_objective(w, cells, y, gamma2):
    """Sum over rows of the mean loss of the trees, plus γ²‖w‖²: the paper's §6.2.

    The paper's w is M^(-1/2) times the leaf values of all trees.
    """
    n_trees = cells.shape[1]
    leaf_values = np.sqrt(n_trees) * w
    total = 0.0
    for n in range(y.size):
        total += sum((y[n] - leaf_values[cells[n, m]]) ** 2 for m in range(n_trees)) / n_trees
    return total + gamma2 * w @ w


@pytest.mark.parametrize("lifetime", [0.3, 1.0])
def test_kernel_and_forest_each_minimise_their_own_objective(lifetime):
    y, alpha = Y[:, 0], 0.5
    features = MondrianFeatures(2.0, 13, random_state=1).fit(X).at(lifetime)
    Phi, cells = features.transform(X), features.apply(X)
    forest = MondrianForestRegressor.from_features(features, alpha, fit_intercept=False).fit(X, y)
    kernel = Ridge(alpha, fit_intercept=False, solver="cholesky").fit(Phi, y).coef_
    assert forest.features_.trees_ is features.trees_
    assert_allclose(forest.predict(X), Phi @ forest.cell_weights_)
    objectives = {
        "kernel": lambda w: kernel_objective(w, Phi, y, alpha),
        "forest": lambda w: forest_objective(w, cells, y, alpha),
    }
    weights = {"kernel": kernel, "forest": forest.cell_weights_}
    for name, objective in objectives.items():
        best = objective(weights[name])
        other = weights["forest" if name == "kernel" else "kernel"]
        assert objective(other) > 1.01 * best
        for _ in range(5):
            step = 1e-3 * rng.normal(size=kernel.size)
            up, down = objective(weights[name] + step), objective(weights[name] - step)
            assert min(up, down) > best
            assert_allclose(up, down, rtol=1e-9)  # the slope is 0: a quadratic at its minimum


def test_forest_on_the_trees_of_a_kernel_model():
    y = Y[:, 0]
    model = MondrianKernelRegressor(1.0, 0.1, 30, random_state=0).fit(X, y)
    forest = MondrianForestRegressor.from_features(model.features_, scale=model.scale_).fit(X, y)
    grown = MondrianForestRegressor(1.0, 1.0, 30, random_state=0).fit(X, y)
    assert forest.features_.trees_ is model.model_.trees
    assert_allclose(forest.predict(NEW), grown.predict(NEW))
    other = MondrianForestClassifier.from_features(model.features_, scale=model.scale_)
    assert other.fit(X, LABELS).features_.trees_ is model.model_.trees


def test_rows_that_the_trees_do_not_know_count_by_their_probability():
    features = MondrianFeatures(1.0, 5, random_state=0).fit(X)
    y = NEW[:, 0]
    forest = MondrianForestRegressor.from_features(features, 0.5, fit_intercept=False).fit(NEW, y)
    cells = features.apply(NEW)
    values = features.transform(NEW).toarray() * np.sqrt(5)
    for m in range(5):
        used = np.unique(cells[:, m])
        expected = Ridge(0.5, fit_intercept=False).fit(values[:, used], y).coef_
        assert_allclose(forest.cell_weights_[used] * np.sqrt(5), expected, atol=1e-10)


def test_from_features_wants_fitted_features_of_these_columns():
    with pytest.raises(ValueError, match="not fitted"):
        MondrianForestRegressor.from_features(MondrianFeatures())
    features = MondrianFeatures(1.0, 5).fit(X)
    with pytest.raises(ValueError, match="features"):
        MondrianForestRegressor.from_features(features).fit(np.c_[X, X], Y)


# ---- the choice, weights, bad input ----------------------------------------------------------


@pytest.mark.parametrize(
    ("forest", "y"), [(MondrianForestRegressor, Y), (MondrianForestClassifier, LABELS)]
)
def test_width_is_chosen_and_weights_are_repetitions(forest, y, capsys):
    options = {"n_estimators": 20, "random_state": 0}
    weighted = forest(verbose=1, **options).fit(X, y, sample_weight=S)
    assert "lifetime path 1/20" in capsys.readouterr().out
    assert weighted.lifetime_ == weighted.path_.best_lifetime
    assert weighted.alpha_ == weighted.path_.best_alpha
    repeated = forest(**options).fit(np.repeat(X, S, axis=0), np.repeat(y, S, axis=0))
    assert_allclose(weighted.cell_weights_, repeated.cell_weights_, atol=1e-12)
    threads = forest(n_jobs=2, **options).fit(X, y, sample_weight=S)
    assert_array_equal(threads.cell_weights_, weighted.cell_weights_)
    given = forest(lifetime=0.5, **options).fit(X, y)
    assert_array_equal(given.path_.lifetimes, [0.5])
    assert weighted.score(X, y) > given.score(X, y) - 0.1


def test_balanced_classes_have_an_even_prior():
    forest = MondrianForestClassifier(**FIXED, class_weight="balanced").fit(X, LABELS)
    assert_allclose(forest.class_prior_, 1 / 3)


def test_one_output_has_one_dimension():
    one = MondrianForestRegressor(**FIXED).fit(X, Y[:, 0])
    both = MondrianForestRegressor(**FIXED).fit(X, Y)
    assert_allclose(one.predict(NEW), both.predict(NEW)[:, 0])
    assert isinstance(one.intercept_, float)


def test_bad_input():
    with pytest.raises(ValueError, match="one class"):
        MondrianForestClassifier(**FIXED).fit(X, np.zeros(150, int))
    with pytest.raises(ValueError, match="alpha"):
        MondrianForestRegressor(alpha=-1.0).fit(X, Y)


def test_fewer_cells_than_trees_are_refused_before_any_work():
    model = MondrianForestRegressor(n_estimators=10, max_cells=9)
    with pytest.raises(ValueError, match="max_cells=9 is less than n_estimators=10"):
        model.fit([[0.0], [1.0]], [0.0, 1.0])
