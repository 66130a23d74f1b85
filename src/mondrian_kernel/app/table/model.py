"""A fitted model of a table: the estimator, and the encoding of the columns it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._path.driver import Callback
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.table.columns import Columns

_BLOCK = 2000  # rows


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model of a table; what :func:`~mondrian_kernel.save` needs to keep of it.

    Attributes
    ----------
    columns : Columns
        Encoding of the columns.
    target : str
        Name of the column that is predicted.
    task : {"regression", "classification"}
        What is learnt.
    estimator : MondrianKernelRegressor or MondrianKernelClassifier
        Fitted on the encoded columns.
    n_rows : int
        Number of rows that were learnt from.
    held_out : dict
        Scores on rows set aside before anything was fitted; empty where none were.
    errors : ndarray or None
        Absolute errors on rows that were never fitted, increasing: the half-widths of intervals of
        a regression on so many rows that the estimator's own would take too long.
    """

    columns: Columns
    target: str
    task: str
    estimator: Any
    n_rows: int
    held_out: dict[str, Any]
    errors: FloatArray | None

    def predict_interval(self, X: FloatArray, coverage: float) -> FloatArray:
        """Interval for a new target at each encoded row, of shape (n_rows, 2)."""
        if self.errors is None:
            interval: FloatArray = self.estimator.predict_interval(X, coverage)
            return interval
        half = error_quantile(self.errors, coverage)
        mean = self.estimator.predict(X)
        return np.stack([mean - half, mean + half], axis=1)


def in_blocks(
    function: Callable[[FloatArray], NDArray[Any]],
    X: FloatArray,
    callback: Callback | None = None,
) -> NDArray[Any]:
    """Apply a function to some thousand rows at a time, so that memory is bounded."""
    blocks = []
    for begin in range(0, len(X), _BLOCK):
        blocks.append(function(X[begin : begin + _BLOCK]))
        if callback is not None:
            callback(min(begin + _BLOCK, len(X)), len(X), {})
    return np.concatenate(blocks)


def error_quantile(errors: FloatArray, coverage: float) -> float:
    """Half-width that holds for a new row with the given probability, given errors, increasing.

    The k-th smallest of n errors with k = ⌈coverage (n + 1)⌉, as in split conformal prediction;
    the largest where there are too few.
    """
    k = int(np.ceil(coverage * (errors.size + 1)))
    return float(errors[min(k, errors.size) - 1])


def held_out_scores(
    task: str, model: Any, X: FloatArray, y: NDArray[Any], y_train: NDArray[Any]
) -> dict[str, float]:
    """Scores of a fitted estimator on rows held out, beside those of a constant."""
    if task == "regression":
        error = float(np.sqrt(np.mean((in_blocks(model.predict, X) - y) ** 2)))
        plain = float(np.sqrt(np.mean((y_train.mean() - y) ** 2)))
        return {"rmse": error, "rmse_of_the_mean": plain, "r2": 1.0 - (error / plain) ** 2}
    P = in_blocks(model.predict_proba, X)
    classes = model.classes_
    frequency = np.array([np.mean(y_train == c) for c in classes])
    truth = y[:, None] == classes  # of no class where it was not among the fitted rows
    return {
        "accuracy": float(np.mean(classes[P.argmax(axis=1)] == y)),
        "log_loss": _log_loss(P, truth),
        "accuracy_of_the_commonest": float(np.mean(classes[frequency.argmax()] == y)),
        "log_loss_of_the_frequencies": _log_loss(frequency, truth),
    }


def _log_loss(P: FloatArray, truth: NDArray[np.bool_]) -> float:
    likelihood = np.where(truth, P, 0.0).sum(axis=1)
    return float(-np.mean(np.log(np.maximum(likelihood, np.finfo(float).eps))))


def coverage_of(interval: FloatArray, y: FloatArray) -> dict[str, float]:
    """Share of targets inside their intervals, and the mean width of these."""
    inside = (interval[:, 0] <= y) & (y <= interval[:, 1])
    return {
        "coverage": float(inside.mean()),
        "interval_width": float(np.mean(interval[:, 1] - interval[:, 0])),
    }
