"""Data sets from a folder, their task and splits; and rows drawn at random where none are needed.

A folder holds one NAME.csv.gz a data set: a header row, numbers, the target last. Targets that are
0, 1, ... K-1 without a gap are classes.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

MAX_CLASSES = 50
WHERE = (
    "pass --data DIR or set MONDRIAN_KERNEL_DATA, a folder with one NAME.csv.gz a data set "
    "(a header row, numbers, the target last)."
)
MAX_TEST = 5_000


class Split(NamedTuple):
    """Scaled rows and targets to learn from and to test on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def names(folder):
    """Names of the data sets in a folder, small files first."""
    files = sorted(Path(folder).glob("*.csv.gz"), key=lambda path: path.stat().st_size)
    if not files:
        raise SystemExit(f"No data set in {folder}: {WHERE}")
    return [path.name.removesuffix(".csv.gz") for path in files]


def read(folder, name):
    """Rows and targets, in the order of the file."""
    path = Path(folder) / f"{name}.csv.gz"
    if not path.exists():
        raise SystemExit(f"{path} is missing: {WHERE}")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


def is_classes(y):
    found = np.unique(y)
    return found.size <= MAX_CLASSES and np.array_equal(found, np.arange(found.size))


def scaled(X, y, train, test):
    scaler = StandardScaler().fit(X[train])
    return Split(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test])


def random_split(X, y, seed, max_train, max_test=MAX_TEST):
    """Four fifths to learn from and a fifth to test on, at most so many of each."""
    order = np.random.default_rng(seed).permutation(y.size)
    n_train = int(0.8 * y.size)
    return scaled(X, y, order[:n_train][:max_train], order[n_train:][:max_test])


def cpu_act(folder):
    """The paper's split of the CPU data: raw rows, y = usr + 1, masks of the three parts."""
    X, y = read(folder, "cpu_act")
    fold = np.arange(y.size) % 10
    return X, y + 1.0, fold < 8, fold == 8, fold == 9


def error(task, split, predicted):
    """Share of wrong classes, or root mean squared error over the standard deviation of y."""
    if task == "classification":
        return float(np.mean(predicted != split.y_test))
    return float(np.sqrt(np.mean((predicted - split.y_test) ** 2)) / split.y.std())


def percent(prediction, y):
    """The paper's error, 100·‖ŷ - y‖ / ‖y‖."""
    return float(100 * np.linalg.norm(prediction - y) / np.linalg.norm(y))


def normal(n_rows, n_dims, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_dims))


def curve(n_rows, n_dims=10, seed=0):
    """Uniform rows and y = sin(6x₀) + x₁x₂ + noise: something to learn, of any size."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, n_dims))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
