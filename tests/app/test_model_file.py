"""A model of a table survives its file, and a forged one is refused."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import load, save
from mondrian_kernel.app.table_model import Choices, fit_table
from mondrian_kernel.app.tables import Table
from mondrian_kernel.persistence import ModelFileError

RNG = np.random.default_rng(0)
DATA = Table(
    "t.csv",
    pa.table(
        {
            "größe": [None, *RNG.uniform(size=29)],
            "art": ["rot", "grün", "blau"] * 10,
            "y": RNG.normal(size=30),
            "label": ["a", "b", "c"] * 10,
        }
    ),
)
TASKS = {"regression": ("y", "label"), "classification": ("label", "y")}


def model(task):
    target, other = TASKS[task]
    choices = Choices(target, task, [other], [], n_trees=5)
    return fit_table(DATA, choices, stage=lambda words: None, callback=lambda *step: None).model


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("errors", [None, np.array([0.5, 1.0])])
def test_the_same_after_loading(task, errors, tmp_path):
    saved = dataclasses.replace(model(task), errors=errors)
    save(saved, tmp_path / "m")
    loaded = load(tmp_path / "m")
    X = loaded.columns.encode(DATA)
    assert_array_equal(X, saved.columns.encode(DATA))
    assert_array_equal(loaded.estimator.predict(X), saved.estimator.predict(X))
    assert loaded.held_out == saved.held_out
    assert (loaded.target, loaded.task, loaded.n_rows) == (saved.target, task, 30)
    assert loaded.columns.encoded_names == saved.columns.encoded_names
    if task == "regression":
        assert_array_equal(loaded.predict_interval(X, 0.5), saved.predict_interval(X, 0.5))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"names": ["größe"]}, "There are 1 names of columns"),
        ({"names": ["größe", 3]}, r"names is not of the type list\[str\]"),
        ({"categories": [None, [1]]}, "categories is not of the type"),
        ({"categories": [None, "rot"]}, "categories is not of the type"),
        ({"medians": np.array([np.nan, 0.0])}, "A median is not finite"),
        ({"medians": np.zeros(3)}, "There are 2 names of columns"),
        ({"gaps": np.zeros(2)}, r"gaps is not of the type NDArray\[np.bool_\]"),
        ({"spreads": np.array([0.0, 1.0])}, "A spread is not a positive number"),
    ],
)
def test_contradicting_columns_are_refused(change, problem, tmp_path):
    columns = dataclasses.replace(model("regression").columns, **change)
    with pytest.raises(ModelFileError, match=problem):
        save(columns, tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"columns": None}, "columns is not of the type Columns"),
        ({"task": "classification"}, "The estimator is not one of a classification"),
        ({"estimator": None}, "The estimator is not one of a regression"),
        ({"target": 3}, "target is not of the type str"),
        ({"n_rows": 1.5}, "n_rows is not of the type int"),
        ({"held_out": []}, "held_out is not of the type dict"),
        ({"errors": np.array([-1.0])}, "The errors do not increase from 0"),
        ({"errors": np.array([1])}, "errors is not of the type FloatArray"),
    ],
)
def test_contradicting_models_are_refused(change, problem, tmp_path):
    with pytest.raises(ModelFileError, match=problem):
        save(dataclasses.replace(model("regression"), **change), tmp_path / "m")


def test_columns_of_another_estimator_are_refused(tmp_path):
    one = model("regression")
    columns = dataclasses.replace(one.columns, gaps=np.array([False, False]))
    with pytest.raises(ModelFileError, match="fitted on other columns"):
        save(dataclasses.replace(one, columns=columns), tmp_path / "m")
