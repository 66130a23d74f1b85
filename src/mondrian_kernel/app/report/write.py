"""A report on a fitted model: one HTML file for people, without network or other files."""

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
from mondrian_kernel._settings import REPORT_TEST_ROWS
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.classification import classification_content
from mondrian_kernel.app.report.page import render
from mondrian_kernel.app.report.regression import regression_content
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.persistence.file_writing import write_file
from mondrian_kernel.regressor import MondrianKernelRegressor


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
    """Write a report on a fitted model as one HTML file.

    The file needs neither network nor other files. Words and pictures, with a slider over the
    lifetimes, show the lifetime path; predictions and residuals, or the confusion matrix; the
    coverage of intervals, or the calibration of probabilities; and which columns matter. With two
    columns they also show the cells and the surface. The file is smaller than 1 MB and appears
    whole or not at all.

    Parameters
    ----------
    file : str or Path
        Where to write. An existing file is replaced.
    estimator : MondrianKernelRegressor or MondrianKernelClassifier
        Fitted to one target. If lifetime and alpha were given there is no path to show, and the
        slider runs around the given lifetime.
    X_train, y_train : array-like of shape (n_samples, n_features) and (n_samples,)
        The rows it was fitted on. Up to 1500 of them serve the slider. At lifetimes other than the
        chosen one it shows models of at most 200 trees.
    X_test, y_test : array-like of shape (n_test_samples, n_features) and (n_test_samples,)
        Rows it was not fitted on; at most 10000 are used, drawn at random. Rows of a class that
        was not fitted are left out.
    title : str
        Title of the page.
    target : str
        Name of y.
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
    ...         title="A function of one column", target="height",
    ...     )
    ...     "<title>A function of one column</title>" in file.read_text(encoding="utf-8")
    True
    """
    if not isinstance(estimator, MondrianKernelRegressor | MondrianKernelClassifier):
        raise TypeError(
            "estimator must be a MondrianKernelRegressor or MondrianKernelClassifier, got "
            f"{type(estimator).__name__}. For a pipeline give its last step and transformed rows."
        )
    check_is_fitted(estimator)
    train = _rows(estimator, X_train, y_train, "y_train")
    test = _shuffled(*_rows(estimator, X_test, y_test, "y_test"), REPORT_TEST_ROWS)
    names = _names(estimator, feature_names)
    model = copy.copy(estimator)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the rows are arrays from here on
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
    write_file(file, [page.encode("utf-8")])
    return Path(file)


def _rows(estimator: Any, X: ArrayLike, y: ArrayLike, name: str) -> tuple[FloatArray, NDArray[Any]]:
    """Check rows and targets and return them as arrays; ``name`` is that of the targets."""
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
    n_columns = estimator.n_features_in_
    if feature_names is None:
        own = getattr(estimator, "feature_names_in_", None)
        return [f"x{d}" for d in range(n_columns)] if own is None else [str(name) for name in own]
    names = [str(name) for name in feature_names]
    if len(names) != n_columns:
        raise ValueError(
            f"{len(names)} feature_names were given for {n_columns} columns of X: give one each."
        )
    return names


def _shuffled(X: FloatArray, y: NDArray[Any], most: int) -> tuple[FloatArray, NDArray[Any]]:
    order = np.random.default_rng(0).permutation(y.size)[:most]
    return X[order], y[order]
