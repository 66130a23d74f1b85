"""Write a report on a fitted model as one HTML file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from mondrian_kernel import __version__
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.classification import classification_content
from mondrian_kernel.app.report.page import render
from mondrian_kernel.app.report.regression import regression_content
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.persistence.container import write_atomically
from mondrian_kernel.regressor import MondrianKernelRegressor

_TEST_ROWS = 10_000


def write_report(
    file: str | Path,
    estimator: MondrianKernelRegressor | MondrianKernelClassifier,
    X_train: ArrayLike,
    y_train: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    *,
    title: str,
    target: str,
    feature_names: Sequence[str] | None = None,
) -> Path:
    """Write what a model has learnt as one HTML file, which needs neither network nor other files.

    It holds, in words and in pictures with a slider over the lifetimes: the lifetime path,
    predictions and residuals or the confusion matrix, intervals and their coverage or the
    calibration of probabilities, which dims matter, and for two dims the partition and the
    surface. The file is smaller than 1 MB and appears whole or not at all.

    Parameters
    ----------
    file : str or Path
        Where to write; a file that is there is replaced.
    estimator : MondrianKernelRegressor or MondrianKernelClassifier
        Fitted, of one target. Where lifetime and alpha were given there is no path to show, and
        the slider runs around the given lifetime.
    X_train, y_train : array-like of shape (n_samples, n_features) and (n_samples,)
        The rows it was fitted on. Up to 1500 of them serve the slider, whose places other than the
        chosen lifetime are models of at most 200 trees.
    X_test, y_test : array-like of shape (n_test_samples, n_features) and (n_test_samples,)
        Rows it was not fitted on; of more than 10000 a random part is taken. Test rows of a class
        that was not fitted are left out.
    title : str
        Title of the page.
    target : str
        What y is.
    feature_names : sequence of str or None, default=None
        Names of the columns of X. None: those the model was fitted with, or x0, x1 and so on.

    Returns
    -------
    file : Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mondrian_kernel import MondrianKernelRegressor
    >>> from mondrian_kernel.datasets import make_laplace_gp
    >>> from mondrian_kernel.app.report import write_report
    >>> X, y = make_laplace_gp(150, 1, random_state=0)
    >>> model = MondrianKernelRegressor(n_estimators=20, random_state=0).fit(X[:100], y[:100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_report(
    ...         Path(folder) / "report.html", model, X[:100], y[:100], X[100:], y[100:],
    ...         title="A function of one dim", target="height",
    ...     )
    ...     "<title>A function of one dim</title>" in file.read_text(encoding="utf-8")
    True
    """
    if not isinstance(estimator, MondrianKernelRegressor | MondrianKernelClassifier):
        raise TypeError(
            "estimator must be a MondrianKernelRegressor or MondrianKernelClassifier, got "
            f"{type(estimator).__name__}. Of a pipeline give the last step and transformed rows."
        )
    check_is_fitted(estimator)
    train = _rows(estimator, X_train, y_train, "y_train")
    test = _shuffled(*_rows(estimator, X_test, y_test, "y_test"), _TEST_ROWS)
    names = _names(estimator, feature_names)
    model = copy.copy(estimator)
    model.__dict__.pop("feature_names_in_", None)  # the rows are arrays from here on
    is_regressor = isinstance(estimator, MondrianKernelRegressor)
    contents = regression_content if is_regressor else classification_content
    content = contents(model, *train, *test, target, names)
    subtitle = (
        f"{'Regression' if is_regressor else 'Classification'} of {target} with the Mondrian kernel"
    )
    colophon = (
        f"Written by mondrian-kernel {__version__}: {estimator.features_.n_estimators} trees, "
        f"{estimator.features_.n_cells_} cells. Lifetimes are for inputs divided by their scales."
    )
    page = render(title, subtitle, content, colophon)
    write_atomically(file, [page.encode("utf-8")])
    return Path(file)


def _rows(estimator: Any, X: ArrayLike, y: ArrayLike, name: str) -> tuple[FloatArray, NDArray[Any]]:
    """Return rows and targets as arrays, checked; ``name`` is that of the targets."""
    rows = validate_data(estimator, X, reset=False, dtype=np.float64, order="C")
    targets = np.asarray(y)
    if targets.ndim != 1:
        raise ValueError(
            f"{name} must have one target a row, got the shape {targets.shape}. Fit a model for "
            "each target and report on each."
        )
    check_consistent_length(rows, targets)
    assert_all_finite(targets, input_name=name)
    return rows, targets


def _names(estimator: Any, feature_names: Sequence[str] | None) -> list[str]:
    n_dims = estimator.n_features_in_
    if feature_names is None:
        own = getattr(estimator, "feature_names_in_", None)
        return [f"x{d}" for d in range(n_dims)] if own is None else [str(name) for name in own]
    names = [str(name) for name in feature_names]
    if len(names) != n_dims:
        raise ValueError(
            f"{len(names)} feature_names were given for {n_dims} columns of X: give one for each."
        )
    return names


def _shuffled(X: FloatArray, y: NDArray[Any], most: int) -> tuple[FloatArray, NDArray[Any]]:
    order = np.random.default_rng(0).permutation(y.size)[:most]
    return X[order], y[order]
