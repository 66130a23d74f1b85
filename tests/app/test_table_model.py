"""A table is fitted without a look at the rows set aside, and measured on them."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel.app import table_model
from mondrian_kernel.app.columns import guess_task, read_targets
from mondrian_kernel.app.table_model import (
    Choices,
    coverage_of,
    error_quantile,
    fit_table,
    held_out_scores,
    split_rows,
)
from mondrian_kernel.app.tables import Table, TableError

RNG = np.random.default_rng(0)
N = 80
X = RNG.uniform(size=(N, 2))
COLUMNS = {
    "x": X[:, 0],
    "kind": np.where(X[:, 1] > 0.5, "a", "b"),
    "y": 3 * X[:, 0] + (X[:, 1] > 0.5) + 0.05 * RNG.normal(size=N),
    "label": np.where(X[:, 0] > 0.5, "yes", "no"),
}


def table(columns=COLUMNS):
    return Table("t.csv", pa.table(columns))


def fit(columns=COLUMNS, **options):
    options = {"target": "y", "task": "regression", "drop": ["label"], "categorical": []} | options
    stages, steps = [], []
    trained = fit_table(
        table(columns),
        Choices(n_trees=20, **options),
        stage=stages.append,
        callback=lambda done, total, info: steps.append((done, total)),
    )
    return trained, stages, steps


def test_regression_is_measured_on_rows_set_aside_and_fitted_to_all():
    trained, stages, steps = fit()
    model = trained.model
    assert (len(trained.y_train), len(trained.y_test), model.n_rows) == (64, 16, 80)
    assert len(stages) == 3
    assert steps
    residual = trained.measured.predict(trained.X_test) - trained.y_test
    scores = model.held_out
    assert scores["rows"] == 16
    assert_allclose(scores["rmse"], np.sqrt(np.mean(residual**2)))
    plain = np.sqrt(np.mean((trained.y_test - trained.y_train.mean()) ** 2))
    assert_allclose(scores["rmse_of_the_mean"], plain)
    assert_allclose(scores["r2"], 1 - (scores["rmse"] / plain) ** 2)
    assert scores["r2"] > 0.8
    interval = trained.measured.predict_interval(trained.X_test, 0.9)
    assert scores["coverage"] == coverage_of(interval, trained.y_test)["coverage"]
    assert model.estimator.lifetime_ == trained.measured.lifetime_
    assert model.estimator.alpha_ == trained.measured.alpha_
    assert model.estimator.model_.rows.leaf.shape[0] == 80
    assert model.errors is None


def test_rows_set_aside_do_not_change_the_fit():
    trained, _, _ = fit()
    _, test = split_rows(N, Choices("y", "regression", [], []))
    spoilt = {name: values.copy() for name, values in COLUMNS.items()}
    spoilt["x"][test], spoilt["y"][test] = 1e3, -1e6
    spoilt["kind"] = spoilt["kind"].astype(object)
    spoilt["kind"][test] = "c"
    again, _, _ = fit(spoilt)
    assert again.measured.lifetime_ == trained.measured.lifetime_
    assert again.columns.encoded_names == trained.columns.encoded_names
    assert_array_equal(again.measured.cell_weights_, trained.measured.cell_weights_)
    assert again.model.held_out["rmse"] > 1e5


def test_classification():
    trained, _, _ = fit(target="label", task="classification", drop=["y"])
    scores = trained.model.held_out
    assert scores["accuracy"] > 0.8 > scores["accuracy_of_the_commonest"]
    P = trained.measured.predict_proba(trained.X_test)
    right = np.where(trained.y_test == "yes", P[:, 1], P[:, 0])
    assert_allclose(scores["log_loss"], -np.mean(np.log(right)))
    share = np.mean(trained.y_train == "yes")
    plain = np.where(trained.y_test == "yes", share, 1 - share)
    assert_allclose(scores["log_loss_of_the_frequencies"], -np.mean(np.log(plain)))


def test_a_class_that_was_not_fitted_counts_as_wrong():
    class Model:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

        def predict(self, X):
            return np.full(len(X), "a")

    y = np.array(["a", "c"])
    scores = held_out_scores("classification", Model(), np.zeros((2, 1)), y, np.array(["a", "b"]))
    assert scores["accuracy"] == 0.5
    assert_allclose(scores["log_loss"], -0.5 * (np.log(0.5) + np.log(np.finfo(float).eps)))


def test_nothing_held_out():
    trained, stages, _ = fit(holdout=0.0)
    assert trained.model.held_out == {}
    assert trained.model.n_rows == N
    assert len(stages) == 1


def test_many_rows_get_intervals_from_rows_never_fitted(monkeypatch):
    monkeypatch.setitem(table_model.ROWS_AT_ONCE, "regression", 40)
    trained, stages, steps = fit(holdout=0.4)
    assert stages[1] == "learning the other rows"
    assert steps[-1] == (8, 8)
    model = trained.model
    assert model.n_rows == 48
    assert model.estimator is trained.measured
    errors = np.abs(model.estimator.predict(trained.X_test) - trained.y_test)
    assert_allclose(model.errors, np.sort(errors))
    interval = model.predict_interval(trained.X_test, 0.5)
    assert np.mean(errors <= (interval[:, 1] - interval[:, 0]) / 2) >= 0.5
    half = np.unique(np.round(interval[:, 1] - interval[:, 0], 12)) / 2
    assert_allclose(half, [model.errors[int(np.ceil(0.5 * 33)) - 1]])
    assert 0 < model.held_out["coverage"] <= 1


def test_quantile_of_errors_is_that_of_split_conformal_prediction():
    errors = np.arange(1.0, 10.0)
    assert error_quantile(errors, 0.5) == 5
    assert error_quantile(np.arange(1.0, 11.0), 0.5) == 6
    assert error_quantile(errors, 0.89) == 9
    assert error_quantile(errors, 0.999) == 9


def test_many_rows_of_rare_classes(monkeypatch):
    monkeypatch.setitem(table_model.ROWS_AT_ONCE, "classification", 10)
    label = COLUMNS["label"].copy()
    train, _ = split_rows(N, Choices("label", "classification", [], []))
    label[train[40]] = "odd"  # learnt long after those that are fitted at once
    trained, _, _ = fit(
        COLUMNS | {"label": label}, target="label", task="classification", drop=["y"]
    )
    assert trained.model.estimator.classes_.tolist() == ["no", "odd", "yes"]
    assert trained.model.n_rows == 64
    assert trained.model.held_out["accuracy"] > 0.7


def test_rows_are_split_at_random():
    train, test = split_rows(50, Choices("y", "regression", [], [], seed=3))
    assert (train.size, test.size, np.unique([*train, *test]).size) == (40, 10, 50)
    other = split_rows(50, Choices("y", "regression", [], [], seed=4))
    assert not np.array_equal(other[0], train)


@pytest.mark.parametrize(
    ("values", "task"),
    [(["a", "b", "c"], "classification"), ([True, False, True], "classification"),
     ([0, 1, 0], "classification"), (["0", "1", None], "classification"),
     ([0, 1, 2], "regression"), ([0.5, 0.25, 0.75], "regression")],
)  # fmt: skip
def test_the_task_is_guessed(values, task):
    assert guess_task(table({"y": values}), "y") == task


def test_classes_are_text_however_they_are_written():
    csv, parquet = table({"y": ["1", "0"]}), table({"y": [1.0, 0.0]})
    for source in (csv, parquet):
        assert read_targets(source, "y", "classification").tolist() == ["1", "0"]


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_missing_target_is_named(task):
    with pytest.raises(TableError, match="row 2 below the header, column 'y' is missing"):
        read_targets(table({"y": [1.0, None]}), "y", task)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"target": "z"}, "there is no column 'z'"),
        ({"drop": ["z"]}, "there is no column 'z'"),
        ({"categorical": ["z"]}, "there is no column 'z'"),
        ({"drop": ["x", "kind", "label"]}, "no column is left to learn from"),
        ({"holdout": 0.99}, "80 rows are too few to learn from"),
        ({"target": "kind"}, "row 1 below the header, column 'kind' holds '[ab]', which is not a"),
    ],
)
def test_impossible_choices_are_refused(options, problem):
    with pytest.raises(TableError, match=problem):
        fit(**options)


def test_a_constant_target_is_refused():
    with pytest.raises(TableError, match=r"column 'y' is 2\.5 in every row"):
        fit(COLUMNS | {"y": np.full(N, 2.5)})
