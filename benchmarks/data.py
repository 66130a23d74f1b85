"""Data sets of a folder and drawn ones, made harder by name, and their splits.

A folder holds one NAME.csv.gz a data set: a header row, numbers, the target last. Columns
``column=category`` of zeros and ones become one column of categories. Targets that are
0, 1, ... K-1 without a gap are classes. ``NAME-missing`` and the like are sets made from NAME.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

MAX_CLASSES, MAX_TEST = 50, 5_000
HARDER = [f"{name}-{kind}" for name in ("california", "magic")
          for kind in ("missing", "outliers", "irrelevant")] + ["adult-missing"]  # fmt: skip
WHERE = (
    "set MONDRIAN_KERNEL_DATA or pass --data DIR, a folder with one NAME.csv.gz a data set "
    "(a header row, numbers, the target last)."
)


class Split(NamedTuple):
    """Rows and targets to learn from and to test on; rows are an array or a frame."""

    task: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def names(folder):
    """Names of the data sets in a folder, small files first."""
    files = sorted(Path(folder).glob("*.csv.gz"), key=lambda path: path.stat().st_size)
    if not files:
        raise SystemExit(f"There is no data set in {folder}: {WHERE}")
    return [path.name.removesuffix(".csv.gz") for path in files]


def read(folder, name):
    """Rows and targets of a set, in the order of its file."""
    base, _, kind = name.partition("-")
    path = Path(folder) / f"{base}.csv.gz"
    if not path.exists():
        raise SystemExit(f"{path} is missing: {WHERE}")
    table = pd.read_csv(path)
    X, y = with_categories(table.iloc[:, :-1]), table.iloc[:, -1].to_numpy(float)
    X = X if (X.dtypes == "category").any() else X.to_numpy(float)
    return (KINDS[kind](X, np.random.default_rng(0)) if kind else X), y


def with_categories(frame):
    """Frame with each group of columns ``column=category`` as one column of categories."""
    columns = {}
    for name in frame:
        columns.setdefault(name.partition("=")[0], []).append(name)
    joined = {}
    for name, parts in columns.items():
        if parts == [name]:
            joined[name] = frame[name].astype(float)
            continue
        kinds = [part.partition("=")[2] for part in parts]
        joined[name] = pd.Categorical.from_codes(frame[parts].to_numpy().argmax(axis=1), kinds)
    return pd.DataFrame(joined)


def missing(X, rng):
    """A tenth of the cells is deleted."""
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X).add_prefix("x")
    return frame.mask(rng.random(frame.shape) < 0.1)


def outliers(X, rng):
    """A cell in a thousand is multiplied by a thousand."""
    return X * np.where(rng.random(X.shape) < 1e-3, 1e3, 1.0)


def irrelevant(X, rng):
    """Fifty columns of noise are added."""
    return np.hstack([X, rng.normal(size=(len(X), 50))])


KINDS = {"missing": missing, "outliers": outliers, "irrelevant": irrelevant}


def smooth(n_rows, seed=0):
    """Friedman's function of five of ten uniform columns, with noise of variance 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows)


def jumps(n_rows, seed=0):
    """Steps in seven of ten uniform columns, one of them oblique, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 10))
    y = 2.0 * (X[:, 0] > 0.5) + (X[:, 1] > X[:, 2]) + np.floor(4 * X[:, 3]) / 2
    return X, y + 2.0 * ((X[:, 4] > 0.3) & (X[:, 5] < 0.7)) + 0.3 * rng.normal(size=n_rows)


DRAWN = {"smooth": smooth, "jumps": jumps}


def is_classes(y):
    found = np.unique(y)
    return found.size <= MAX_CLASSES and np.array_equal(found, np.arange(found.size))


def split(X, y, seed, max_train, max_test=MAX_TEST):
    """Four fifths of the rows to learn from and a fifth to test on, at most so many of each."""
    order = np.random.default_rng(seed).permutation(y.size)
    n_train = int(0.8 * y.size)
    train, test = order[:n_train][:max_train], order[n_train:][:max_test]
    rows = X.iloc if isinstance(X, pd.DataFrame) else X
    task = "classification" if is_classes(y) else "regression"
    y = y.astype(int) if task == "classification" else y
    return Split(task, rows[train], y[train], rows[test], y[test])


def error(problem, predicted):
    """Share of wrong classes, or root mean squared error over the standard deviation of y."""
    if problem.task == "classification":
        return float(np.mean(np.ravel(predicted) != problem.y_test))
    return float(np.sqrt(np.mean((predicted - problem.y_test) ** 2)) / problem.y.std())


def cpu_act(folder, quick=False):
    """The paper's split of the CPU data, y = usr + 1: scaled rows to learn, validate and test."""
    X, y = read(folder, "cpu_act")
    fold = np.arange(y.size) % 10
    train = (fold < 8) & (np.arange(y.size) % 8 == 0 if quick else True)
    rows = StandardScaler().fit(X[train]).transform(X)
    return [(rows[part], y[part] + 1.0) for part in (train, fold == 8, fold == 9)]
