"""MondrianKernelClassifier: equal to its parts, scikit-learn's contract, classes of every kind."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from mondrian_kernel._path.driver import Stages
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.features import MondrianFeatures

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(200, 3)) * [1.0, 10.0, 0.1]
TWO = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
MANY = np.where(X[:, 0] > 0.5, "right", TWO)
NEW = rng.uniform(-1.3, 1.3, size=(50, 3)) * [1.0, 10.0, 0.1]
LOSSES = ["log_loss", "hinge", "squared"]


def fixed(**options):
    options = {"lifetime": 0.8, "alpha": 0.1, "n_estimators": 25, "random_state": 0, **options}
    return MondrianKernelClassifier(**options)


def auto(**options):
    return MondrianKernelClassifier(**{"n_estimators": 25, "random_state": 0, **options})


# ---- scikit-learn's contract -----------------------------------------------------------------


@parametrize_with_checks(
    [MondrianKernelClassifier(n_estimators=20)]
    + [fixed(loss=loss, random_state=None) for loss in ("hinge", "squared")]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_scikit_learn_checks_all_run_and_none_is_expected_to_fail():
    results = check_estimator(fixed(random_state=None), on_skip=None, on_fail=None)
    assert len(results) >= 60
    assert {r["status"] for r in results} <= {"passed", "skipped"}
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {
        "check_array_api_input"
    }


def test_pickle_and_clone():
    model = auto().fit(X, MANY)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict_proba(NEW), model.predict_proba(NEW))
    assert_array_equal(clone(model).fit(X, MANY).cell_weights_, model.cell_weights_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame):
    columns = {name: X[:, k] for k, name in enumerate("abc")}
    model = fixed().fit(frame(columns), TWO)
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    assert_array_equal(model.cell_weights_, fixed().fit(X, TWO).cell_weights_)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({name: columns[name] for name in "cba"}))


def test_pipeline_grid_search_and_cross_validation():
    pipeline = make_pipeline(MinMaxScaler(), fixed())
    assert cross_val_score(pipeline, X, TWO, cv=3).mean() > 0.8
    search = GridSearchCV(fixed(), {"lifetime": [0.001, 1.0]}, cv=3).fit(X, TWO)
    assert search.best_params_ == {"lifetime": 1.0}


# ---- the model -------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [TWO, MANY], ids=["two", "many"])
def test_log_loss_is_logistic_regression_on_the_features_of_scaled_rows(y):
    model = fixed().fit(X, y)
    features = MondrianFeatures(0.8, 25, random_state=0)
    oracle = make_pipeline(
        StandardScaler(with_mean=False), features,
        LogisticRegression(C=1 / (2 * 0.1), tol=1e-9, max_iter=10_000),
    ).fit(X, y)  # fmt: skip
    assert_allclose(model.predict_proba(NEW), oracle.predict_proba(NEW), atol=5e-3)
    assert_allclose(model.decision_function(NEW), oracle.decision_function(NEW), atol=0.03)
    assert model.path_ is None
    assert (model.lifetime_, model.alpha_) == (0.8, 0.1)


def test_hinge_is_a_support_vector_machine():
    model = fixed(loss="hinge").fit(X, TWO)
    Phi = model.features_.transform(X / model.scale_)
    oracle = SVC(kernel="linear", C=1 / (2 * 0.1), tol=1e-6).fit(Phi, TWO)
    Phi = model.features_.transform(NEW / model.scale_)
    assert_allclose(model.decision_function(NEW), oracle.decision_function(Phi), atol=0.03)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("y", [TWO, MANY], ids=["two", "many"])
def test_shapes_and_the_formula(loss, y):
    model = fixed(loss=loss).fit(X, y)
    assert_array_equal(model.classes_, np.unique(y))
    n_scores = 1 if y is TWO else 3
    assert model.cell_weights_.shape == (n_scores, model.features_.n_cells_)
    assert model.intercept_.shape == (n_scores,)
    F = model.features_.transform(NEW / model.scale_) @ model.cell_weights_.T + model.intercept_
    assert_allclose(model.decision_function(NEW), F[:, 0] if n_scores == 1 else F)
    best = (F[:, 0] > 0).astype(int) if n_scores == 1 else F.argmax(axis=1)
    assert_array_equal(model.predict(NEW), model.classes_[best])
    assert model.score(X, y) > 0.85


def test_probabilities_sum_to_one_and_go_to_those_of_the_intercept_far_away():
    model = fixed().fit(X, MANY)
    P = model.predict_proba(np.vstack([NEW, [[1e6, 1e6, 1e6]]]))
    assert_allclose(P.sum(axis=1), 1.0)
    assert_allclose(P[-1], np.exp(model.intercept_) / np.exp(model.intercept_).sum())
    assert fixed().fit(X, TWO).predict_proba(NEW).shape == (50, 2)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_no_probabilities_of_other_losses(loss):
    model = fixed(loss=loss).fit(X, TWO)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as info:
        model.predict_proba(NEW)
    assert "'log_loss'" in str(info.value.__cause__)


# ---- the choice ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_width_is_chosen_on_the_path(loss):
    model = auto(loss=loss).fit(X, TWO)
    assert model.lifetime_ == model.path_.best_lifetime
    assert model.alpha_ == model.path_.best_alpha
    assert model.score(NEW, np.where(NEW[:, 0] * NEW[:, 1] > 0, "same", "other")) > 0.75


def test_one_of_the_two_may_be_given():
    model = auto(lifetime=0.5).fit(X, TWO)
    assert_array_equal(model.path_.lifetimes, [0.5])
    assert model.lifetime_ == 0.5
    model = auto(alpha=0.2).fit(X, TWO)
    assert_array_equal(model.path_.alphas, [0.2])
    assert model.alpha_ == 0.2


def test_neither_the_order_of_rows_nor_threads_change_the_model():
    model = auto().fit(X, MANY)
    order = rng.permutation(200)
    for other in (auto().fit(X[order], MANY[order]), auto(n_jobs=2).fit(X, MANY)):
        assert_allclose(other.predict_proba(NEW), model.predict_proba(NEW), rtol=1e-9)


def test_verbose_tells_of_the_path(capsys):
    auto(lifetime="path", verbose=1).fit(X, TWO)
    assert "lifetime path 1/20" in capsys.readouterr().out
    auto(verbose=1).fit(X, TWO)
    assert "fit 6/6: importances of the columns" in capsys.readouterr().out


def test_verbose_tells_that_kernels_were_compiled(capsys, monkeypatch):
    counts = iter([3, 4, 4, 4, 4])
    monkeypatch.setattr("mondrian_kernel._kernels.compiled.n_compiled", lambda: next(counts))
    stages = Stages(1, 2)
    stages.done("first")
    stages.done("second")
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("some of it to compile, once on a machine")
    assert second.endswith(" s")


# ---- weights and classes ---------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("make", [fixed, auto])
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repetitions(make, loss, options):
    s = rng.integers(0, 4, size=200)
    weighted = make(loss=loss, **options).fit(X, MANY, sample_weight=s)
    repeated = make(loss=loss, **options).fit(np.repeat(X, s, axis=0), np.repeat(MANY, s))
    scores = repeated.decision_function(NEW)
    assert_allclose(weighted.decision_function(NEW), scores, rtol=1e-6, atol=1e-6)


def test_class_weights():
    s = np.where(TWO == "same", 3.0, 1.0)
    # The scale of the inputs goes by the rows, whatever the weight of their class.
    weighted = fixed(scale=[1.0, 5.0, 0.1]).fit(X, TWO, sample_weight=s)
    by_class = fixed(scale=[1.0, 5.0, 0.1], class_weight={"same": 3.0}).fit(X, TWO)
    assert_allclose(by_class.cell_weights_, weighted.cell_weights_)
    rare = np.r_[np.flatnonzero(TWO == "same")[:10], np.flatnonzero(TWO == "other")]
    plain = fixed().fit(X[rare], TWO[rare]).predict(NEW)
    balanced = fixed(class_weight="balanced").fit(X[rare], TWO[rare]).predict(NEW)
    assert (balanced == "same").sum() > (plain == "same").sum()
    with pytest.raises(ValueError, match="class_weight must be positive"):
        fixed(class_weight={"same": 0.0}).fit(X, TWO)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_class_of_one_row(loss):
    y = TWO.astype("<U6")
    y[7] = "single"
    model = auto(loss=loss).fit(X, y)
    assert_array_equal(model.classes_, ["other", "same", "single"])
    assert np.isfinite(model.decision_function(NEW)).all()


def test_two_rows():
    model = auto().fit([[0.0], [1.0]], ["a", "b"])
    assert_array_equal(model.predict([[0.0], [1.0]]), ["a", "b"])


def test_a_constant_column_is_harmless_and_a_bound_on_cells_is_kept():
    model = fixed().fit(np.column_stack([X, np.full(200, 7.0)]), TWO)
    assert_allclose(model.decision_function(np.c_[NEW, np.full(50, 7.0)]),
                    fixed().fit(X, TWO).decision_function(NEW))  # fmt: skip
    with pytest.warns(UserWarning, match="max_cells"):
        bounded = fixed(max_cells=60).fit(X, TWO)
    assert bounded.features_.n_cells_ <= 60
    assert bounded.lifetime_ < 0.8


# ---- bad input -------------------------------------------------------------------------------


def test_one_class_only():
    with pytest.raises(ValueError, match="one class, 'a'"):
        fixed().fit(X, ["a"] * 200)
    with pytest.raises(ValueError, match="one class, 'same'"):
        fixed().fit(X, TWO, sample_weight=TWO == "same")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "absolute"}, "loss"),
        ({"alpha": 0.0}, "alpha"),
        ({"lifetime": -1.0}, "lifetime"),
        ({"class_weight": "even"}, "class_weight"),
        ({"scale": [1.0, 2.0]}, "one number for each"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        fixed(**options).fit(X, TWO)


def test_before_fit_and_continuous_targets():
    with pytest.raises(NotFittedError):
        fixed().predict(X)
    with pytest.raises(ValueError, match="continuous"):
        fixed().fit(X, X[:, 0])


def test_fewer_cells_than_trees_are_refused_before_any_work():
    model = MondrianKernelClassifier(n_estimators=10, max_cells=9)
    with pytest.raises(ValueError, match="max_cells=9 is less than n_estimators=10"):
        model.fit([[0.0], [1.0]], [0, 1])
