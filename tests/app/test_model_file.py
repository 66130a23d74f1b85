"""A model of a table survives its file, and a forged one is refused."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import load, save
from mondrian_kernel.app.console import Progress
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
    return fit_table(DATA, choices, Progress(enabled=False))[0]


@pytest.mark.parametrize("task", TASKS)
def test_the_same_after_loading(task, tmp_path):
    saved = model(task)
    save(saved, tmp_path / "m")
    loaded = load(tmp_path / "m")
    X = loaded.frame(DATA)
    assert saved.frame(DATA) == X
    assert_array_equal(loaded.estimator.predict(X), saved.estimator.predict(X))
    assert loaded.held_out == saved.held_out
    assert (loaded.target, loaded.task, loaded.n_rows) == (saved.target, task, 30)
    assert loaded.categories == {"größe": None, "art": ["blau", "grün", "rot"]}
    if task == "regression":
        ends = [kept.estimator.predict_interval(X, 0.5) for kept in (loaded, saved)]
        assert_array_equal(*ends)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task": "classification"}, "The estimator is not one of a classification"),
        ({"estimator": None}, "The estimator is not one of a regression"),
        ({"target": 3}, "target is not of the type str"),
        ({"n_rows": 1.5}, "n_rows is not of the type int"),
        ({"held_out": []}, "held_out is not of the type dict"),
    ],
)
def test_contradicting_models_are_refused(change, problem, tmp_path):
    with pytest.raises(ModelFileError, match=problem):
        save(dataclasses.replace(model("regression"), **change), tmp_path / "m")
