from itertools import count

import numpy as np
import pandas as pd
import pytest
from scipy.stats import uniform

from benchmarks import data
from benchmarks.methods import METHODS, LaplaceRidge, Tuned, build, installed, search


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    parts = pd.DataFrame({"a=x": rng.permutation(np.arange(80) % 2), "n": rng.normal(size=80)})
    parts.insert(1, "a=y", 1 - parts["a=x"])
    return data.with_categories(parts)


def write(folder, name, table):
    table.to_csv(folder / f"{name}.csv.gz", index=False)


def test_columns_of_zeros_and_ones_become_one_of_categories(frame):
    assert list(frame) == ["a", "n"]
    assert frame["a"].dtype == "category"
    assert frame["n"].dtype == float
    parts = pd.DataFrame({"a=x": [1, 0, 0], "b": [1, 2, 3], "a=y": [0, 1, 1]})
    assert data.with_categories(parts)["a"].tolist() == ["x", "y", "y"]


def test_harder_sets_are_made_by_name(tmp_path):
    X = np.random.default_rng(0).normal(size=(500, 4))
    write(tmp_path, "set", pd.DataFrame(np.c_[X, X[:, 0]], columns=list("abcdy")))
    missing, y = data.read(tmp_path, "set-missing")
    # Of 2000 cells a tenth, give or take six standard deviations.
    assert abs(missing.isna().to_numpy().mean() - 0.1) < 6 * np.sqrt(0.09 / 2000)
    np.testing.assert_allclose(y, X[:, 0])
    assert data.read(tmp_path, "set-irrelevant")[0].shape == (500, 54)
    changed = ~np.isclose(data.read(tmp_path, "set-outliers")[0], X)
    assert 0 < changed.sum() < 20


def test_whole_numbers_from_zero_without_a_gap_are_classes():
    assert data.is_classes(np.array([0.0, 2.0, 1.0, 1.0]))
    assert not data.is_classes(np.array([3.0, 4.0, 5.0]))
    assert not data.is_classes(np.array([0.0, 0.5, 1.0]))
    assert not data.is_classes(np.arange(1000.0))


def test_a_split_shares_no_row_and_keeps_a_frame(frame):
    y = np.arange(80.0)
    problem = data.split(frame, y, seed=1, max_train=30, max_test=5)
    assert not set(problem.y) & set(problem.y_test)
    assert (problem.X.shape, problem.X_test.shape) == ((30, 2), (5, 2))
    assert problem.X["n"].tolist() == frame["n"][problem.y.astype(int)].tolist()


def test_a_missing_folder_or_file_says_what_to_do(tmp_path):
    with pytest.raises(SystemExit, match="MONDRIAN_KERNEL_DATA"):
        data.names(tmp_path)
    with pytest.raises(SystemExit, match=r"cpu_act\.csv\.gz is missing"):
        data.read(tmp_path, "cpu_act")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_rival_learns_a_category_from_a_table_with_holes(frame, task):
    y = frame["a"].cat.codes.to_numpy() + (0.0 if task == "regression" else 0)
    holes = frame.assign(n=frame["n"].where(np.arange(80) % 7 > 0))
    for name in installed():
        if task in METHODS[name].tasks:
            encode = METHODS[name].package == "sklearn"  # ours among them
            model = build(name, holes, task, encode=encode).fit(holes, y)
            assert np.mean((np.ravel(model.predict(holes)) - y) ** 2) < 0.05, name


@pytest.mark.parametrize(("budget", "n"), [(0.5, 1), (2.5, 3)])
def test_a_search_ends_with_its_budget_and_takes_what_is_better_held_out(monkeypatch, budget, n):
    seconds = count()  # one passes with every trial
    monkeypatch.setattr("benchmarks.methods.time.process_time", lambda: next(seconds))
    X, y = data.jumps(300)
    name = "HistGradientBoosting"
    space = {"learning_rate": uniform(1e-9, 1e-9)}  # a constant, which is worse
    monkeypatch.setitem(METHODS, name, METHODS[name]._replace(space=space))
    model, trials = search(name, X, y, "regression", 0, 1, budget)
    assert trials == n
    assert model.learning_rate == 0.1  # the default, tried first
    space = {"learning_rate": uniform(0.2, 0.0), "max_iter": [300]}
    monkeypatch.setitem(
        METHODS,
        "worse",
        METHODS[name]._replace(
            make=lambda *a, learning_rate=1e-9, **k: METHODS[name].make(
                *a, learning_rate=learning_rate, **k
            ),
            space=space,
        ),
    )
    model, _ = search("worse", X, y, "regression", 0, 1, budget)
    assert model.max_iter == (100 if n == 1 else 300)


def test_the_tuned_rival_finds_a_width_that_fits():
    X, y = data.smooth(300)
    grid = {"gamma": [1e-3, 1.0], "alpha": [0.1]}
    model = Tuned(LaplaceRidge(), grid, n_some=100).fit(X[:200], y[:200])
    # Nearer than the grid came: a step of √3 from one of its values.
    assert model.best_.gamma in [
        pytest.approx(g * 3**s) for g in grid["gamma"] for s in (-0.5, 0.5)
    ]
    assert np.std(model.predict(X[200:]) - y[200:]) < 0.8 * np.std(y[200:])
