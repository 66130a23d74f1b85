"""A table is fitted without a look at the rows set aside, and measured on them."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.app.console import Progress
from mondrian_kernel.app.measure import Measured, coverage_of
from mondrian_kernel.app.table_model import Choices, fit_table, guess_task, read_targets, split_rows
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
    progress = Progress(enabled=False)
    model, measured = fit_table(table(columns), Choices(n_trees=20, **options), progress)
    return SimpleNamespace(model=model, measured=measured), list(progress.stage_seconds())


def test_regression_is_measured_on_rows_set_aside_and_fitted_to_all():
    trained, stages = fit()
    model, measured = trained.model, trained.measured
    y_train, y_test = measured.y_train, measured.y_test
    assert (len(y_train), len(y_test), model.n_rows) == (64, 16, 80)
    assert stages == ["fitting", "fitting all rows", "measuring on the rows held out"]
    assert_array_equal(np.array(COLUMNS["y"])[measured.rows - 1], y_test)
    predicted = measured.estimator.predict(measured.X_test)
    scores = model.held_out
    assert scores["rows"] == 16
    assert_allclose(scores["rmse"], np.sqrt(np.mean((predicted - y_test) ** 2)))
    plain = np.sqrt(np.mean((y_test - y_train.mean()) ** 2))
    assert_allclose(scores["rmse_of_the_mean"], plain)
    assert_allclose(scores["r2"], 1 - (scores["rmse"] / plain) ** 2)
    assert scores["r2"] > 0.8
    interval = measured.estimator.predict_interval(measured.X_test, 0.9)
    assert scores["coverage"] == coverage_of(interval, y_test)["coverage"]
    sizes = [4, 3, 3, 3, 3]
    assert_allclose(np.dot(scores["coverage_by_fifth"], sizes) / 16, scores["coverage"])
    assert measured.estimator.model_.rows.leaf.shape[0] == 64
    assert model.estimator.model_.rows.leaf.shape[0] == 80


def test_the_report_shows_the_importances_of_the_model_that_is_saved():
    trained, _ = fit()
    saved, shown = trained.model.estimator, trained.measured.importance
    assert_array_equal(shown.mean, saved.feature_importances_)
    assert_array_equal(shown.deviation, saved.feature_importances_std_)
    assert shown.measure == "fall of R²"
    other = trained.measured.estimator.feature_importances_  # of the rows not held out
    assert not np.array_equal(other, shown.mean)


def test_without_importances_of_the_fit_all_of_a_column_is_shuffled_in_test_rows():
    kind = COLUMNS["kind"] == "a"
    frame, y = pa.table({name: COLUMNS[name] for name in ("x", "kind")}), 10.0 * kind
    model = MondrianKernelRegressor(1.0, 0.01, 20, random_state=0).fit(frame[:60], y[:60])
    found = Measured(model, frame[:60], y[:60], frame[60:], y[60:]).importance
    assert (found.measure, found.rows) == ("fall of R²", "20 test rows")
    # Of two rows about half have the other kind. Both values are then off by 10.
    assert 1.0 < found.mean[1] < 3.0
    assert abs(found.mean[0]) < 0.1
    model = MondrianKernelClassifier(1.0, 0.1, 20, loss="hinge", random_state=0)
    model.fit(frame[:60], kind[:60])
    found = Measured(model, frame[:60], kind[:60], frame[60:], kind[60:]).importance
    assert found.measure == "growth of the share of wrong classes"
    assert 0.25 < found.mean[1] < 0.75


def test_rows_set_aside_do_not_change_the_fit():
    trained, _ = fit()
    _, test = split_rows(N, Choices("y", "regression", [], []))
    spoilt = {name: values.copy() for name, values in COLUMNS.items()}
    spoilt["x"][test], spoilt["y"][test] = 1e3, -1e6
    spoilt["kind"] = spoilt["kind"].astype(object)
    spoilt["kind"][test] = "c"
    again, _ = fit(spoilt)
    one, two = trained.measured.estimator, again.measured.estimator
    assert two.lifetime_ == one.lifetime_
    assert again.measured.names == trained.measured.names
    assert_array_equal(two.cell_weights_, one.cell_weights_)
    assert again.model.held_out["rmse"] > 1e5


def test_classification():
    trained, _ = fit(target="label", task="classification", drop=["y"])
    scores = trained.model.held_out
    assert scores["accuracy"] > 0.8 > scores["accuracy_of_the_commonest"]
    measured = trained.measured
    P, y_test = measured.probability, measured.y_test
    right = np.where(y_test == "yes", P[:, 1], P[:, 0])
    assert_allclose(scores["log_loss"], -np.mean(np.log(right)))
    share = np.mean(measured.y_train == "yes")
    plain = np.where(y_test == "yes", share, 1 - share)
    assert_allclose(scores["log_loss_of_the_frequencies"], -np.mean(np.log(plain)))


def test_rows_of_a_class_that_was_not_fitted_are_left_out_and_counted():
    model = MondrianKernelClassifier(1.0, 0.1, 5).fit(X, COLUMNS["label"])
    rows, y = X[:4], COLUMNS["label"][:4].astype(object)
    y[1] = "other"
    measured = Measured(model, X, COLUMNS["label"], rows, y)
    assert measured.n_unknown == 1
    assert measured.rows.tolist() == [0, 2, 3]
    assert measured.scores["rows"] == 3


def test_nothing_held_out():
    trained, stages = fit(holdout=0.0)
    assert trained.model.held_out == {}
    assert trained.model.n_rows == N
    assert stages == ["fitting"]


def test_a_class_that_only_rows_held_out_have_is_learnt_in_the_end():
    label = COLUMNS["label"].copy()
    _, test = split_rows(N, Choices("label", "classification", [], []))
    label[test[0]] = "odd"
    columns = COLUMNS | {"label": label}
    trained, _ = fit(columns, target="label", task="classification", drop=["y"])
    assert trained.measured.estimator.classes_.tolist() == ["no", "yes"]
    assert trained.model.estimator.classes_.tolist() == ["no", "odd", "yes"]


def test_rows_held_out_whose_classes_are_all_unknown_are_not_measured():
    label = COLUMNS["label"].copy()
    _, test = split_rows(N, Choices("label", "classification", [], []))
    label[test] = "odd"
    trained, stages = fit(
        COLUMNS | {"label": label}, target="label", task="classification", drop=["y"]
    )
    assert (trained.measured, trained.model.held_out) == (None, {})
    assert stages == ["fitting", "fitting all rows"]
    assert trained.model.estimator.classes_.size == 3


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
