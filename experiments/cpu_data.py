"""The CPU data of the paper with its split, or synthetic data for small runs."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, make_friedman1

FloatArray = NDArray[np.float64]

_HOW_TO_GET_IT = (
    "The CPU data is missing: pass a folder that holds cpu_act.csv.gz (OpenML data set 197, 21 "
    "inputs, the target usr last), set MONDRIAN_KERNEL_DATA to that folder, or go online."
)
_FILE = "cpu_act.csv.gz"
_QUICK_ROWS = 800


class DataMissing(Exception):
    """The CPU data is neither in a folder nor online; the message says how to get it."""


@dataclass(frozen=True)
class Split:
    """Training, validation and test rows.

    Models are fitted to centred targets: the mean of the training targets is subtracted. Errors
    100 ‖ŷ - y‖ / ‖y‖ refer to the targets as they are in the data.
    """

    name: str
    source: str
    X: FloatArray
    y: FloatArray
    X_validation: FloatArray
    y_validation: FloatArray
    X_test: FloatArray
    y_test: FloatArray

    @property
    def mean(self) -> float:
        """Mean of the training targets."""
        return float(self.y.mean())

    @property
    def centred(self) -> FloatArray:
        """Training targets minus their mean."""
        return np.subtract(self.y, self.mean)

    @property
    def held_out(self) -> tuple[FloatArray, FloatArray]:
        """Validation rows, and their targets minus the mean of the training targets."""
        return self.X_validation, self.y_validation - self.mean

    def percent(self, part: str, prediction: FloatArray) -> float:
        """Relative error of predictions of the *centred* targets, in percent."""
        y = {"train": self.y, "validation": self.y_validation, "test": self.y_test}[part]
        return float(100 * np.linalg.norm(prediction + self.mean - y) / np.linalg.norm(y))


def load_cpu(folder: Path | None, *, quick: bool, seed: int) -> Split:
    """Return the CPU data from a folder or from OpenML; with ``quick`` only some of its rows.

    Row i of the file is a training row if i % 10 < 8, a validation row if it is 8 and a test row if
    it is 9; y = usr + 1. The paper uses this split. Rahimi and Recht used it before, without
    validation rows. With ``quick`` and no folder, `stand_in` is returned.
    """
    place = folder if folder is not None else os.environ.get("MONDRIAN_KERNEL_DATA")
    if place is not None:
        path = Path(place) / _FILE
        if not path.is_file():
            raise DataMissing(f"{path} does not exist. {_HOW_TO_GET_IT}")
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        X, y = table[:, :-1], table[:, -1]
    elif quick:
        return stand_in(seed)
    else:
        try:
            options = {"as_frame": False, "parser": "liac-arff", "n_retries": 0}
            X, y = fetch_openml(data_id=197, return_X_y=True, **options)
        except OSError as error:
            raise DataMissing(_HOW_TO_GET_IT) from error
        X, y = X.astype(np.float64), y.astype(np.float64)
    fold = np.arange(y.size) % 10
    name, source = "CPU", "cpu_act, OpenML data set 197"
    train = np.flatnonzero(fold < 8)
    if quick:
        train = np.random.default_rng(seed).choice(train, _QUICK_ROWS, replace=False)
        name = f"{_QUICK_ROWS} rows of CPU"
    return Split(name, source, *_parts(X, y + 1.0, train, fold == 8, fold == 9))


def stand_in(seed: int) -> Split:
    """Return Friedman's first function with inputs times 10⁶, which suits lifetimes near 10⁻⁶."""
    X, y = make_friedman1(_QUICK_ROWS + 400, n_features=5, noise=1.0, random_state=seed)
    row = np.arange(y.size)
    train = row < _QUICK_ROWS
    test = row >= _QUICK_ROWS + 200
    source = "make_friedman1 of scikit-learn, 5 inputs times 1e6, noise 1, in place of cpu_act"
    return Split("synthetic stand-in", source, *_parts(1e6 * X, y, train, ~train & ~test, test))


def _parts(X: FloatArray, y: FloatArray, *rows: NDArray[np.generic]) -> Iterator[FloatArray]:
    """Training, validation and test rows in turn, given by their indices or masks."""
    return (a[part] for part in rows for a in (X, y))
