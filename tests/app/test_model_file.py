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
        ({"names": ["größe"]}, "no columns"),
        ({"names": ["größe", 3]}, "names that are not text"),
        ({"categories": [None, [1]]}, "categories that are not text"),
        ({"categories": [None, "rot"]}, "categories that are not text"),
        ({"medians": np.array([np.nan, 0.0])}, "an impossible median"),
        ({"medians": np.zeros(3)}, "where 3 is due"),
        ({"gaps": np.zeros(2)}, "gaps that is no b1 array"),
        ({"spreads": np.array([0.0, 1.0])}, "an impossible spread"),
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
        ({"columns": None}, "no columns"),
        ({"task": "classification"}, "an estimator of another task"),
        ({"estimator": None}, "an estimator of another task"),
        ({"target": 3}, "no target"),
        ({"n_rows": 1.5}, "no target, rows"),
        ({"held_out": []}, "no target, rows or scores"),
        ({"errors": np.array([-1.0])}, "impossible errors"),
        ({"errors": np.array([1])}, "no f8 array"),
    ],
)
def test_contradicting_models_are_refused(change, problem, tmp_path):
    with pytest.raises(ModelFileError, match=problem):
        save(dataclasses.replace(model("regression"), **change), tmp_path / "m")


def test_columns_of_another_estimator_are_refused(tmp_path):
    one = model("regression")
    columns = dataclasses.replace(one.columns, gaps=np.array([False, False]))
    with pytest.raises(ModelFileError, match="other columns"):
        save(dataclasses.replace(one, columns=columns), tmp_path / "m")
