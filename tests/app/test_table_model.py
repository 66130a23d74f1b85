"""A table is fitted without a look at the rows set aside, and measured on them."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel.app.roles import guess_task, read_targets
from mondrian_kernel.app.table_model import (
    Choices,
    coverage_of,
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
    stages = []
    trained = fit_table(table(columns), Choices(n_trees=20, **options), stage=stages.append)
    return trained, stages


def test_regression_is_measured_on_rows_set_aside_and_fitted_to_all():
    trained, stages = fit()
    model = trained.model
    assert (len(trained.y_train), len(trained.y_test), model.n_rows) == (64, 16, 80)
    assert len(stages) == 3
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
    assert trained.measured.model_.rows.leaf.shape[0] == 64
    assert model.estimator.model_.rows.leaf.shape[0] == 80
    assert model.relevance["x"] == model.estimator.relevance_[0]


def test_rows_set_aside_do_not_change_the_fit():
    trained, _ = fit()
    _, test = split_rows(N, Choices("y", "regression", [], []))
    spoilt = {name: values.copy() for name, values in COLUMNS.items()}
    spoilt["x"][test], spoilt["y"][test] = 1e3, -1e6
    spoilt["kind"] = spoilt["kind"].astype(object)
    spoilt["kind"][test] = "c"
    again, _ = fit(spoilt)
    assert again.measured.lifetime_ == trained.measured.lifetime_
    assert again.measured.feature_names_in_.tolist() == trained.measured.feature_names_in_.tolist()
    assert_array_equal(again.measured.cell_weights_, trained.measured.cell_weights_)
    assert again.model.held_out["rmse"] > 1e5


def test_classification():
    trained, _ = fit(target="label", task="classification", drop=["y"])
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
    trained, stages = fit(holdout=0.0)
    assert trained.model.held_out == {}
    assert trained.model.n_rows == N
    assert len(stages) == 1


def test_a_class_that_only_rows_held_out_have_is_learnt_in_the_end():
    label = COLUMNS["label"].copy()
    _, test = split_rows(N, Choices("label", "classification", [], []))
    label[test[0]] = "odd"
    columns = COLUMNS | {"label": label}
    trained, _ = fit(columns, target="label", task="classification", drop=["y"])
    assert trained.measured.classes_.tolist() == ["no", "yes"]
    assert trained.model.estimator.classes_.tolist() == ["no", "odd", "yes"]


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
