"""A report on a fitted model: one HTML file for people, without network or other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import __version__
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.report.classification import classification_content
from mondrian_kernel.app.report.page import render
from mondrian_kernel.app.report.regression import regression_content
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.persistence.container import write_file
from mondrian_kernel.regressor import MondrianKernelRegressor

__all__ = ["write_report"]


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

    The file needs neither network nor other files. It shows the error beside that of
    HistGradientBoosting and of guessing; predictions, residuals and intervals, or the confusion
    matrix, the calibration of probabilities, ROC and precision-recall curves; which columns matter
    and how; the worst rows; and the lifetime path of a model that was chosen on one. With two
    columns it also shows the cells and the surface. The file is smaller than 1 MB and appears whole
    or not at all.

    Parameters
    ----------
    file : str or Path
        Where to write. An existing file is replaced.
    estimator : MondrianKernelRegressor or MondrianKernelClassifier
        Fitted to one target.
    X_train, y_train : array-like of shape (n_samples, n_features) and (n_samples,)
        The rows it was fitted on.
    X_test, y_test : array-like of shape (n_test_samples, n_features) and (n_test_samples,)
        Rows it was not fitted on. Those of a class that was not fitted are left out.
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
    rows = X_train, y_train, X_test, y_test
    measured = Measured(estimator, *rows, feature_names=feature_names)
    return write_page(file, measured, title=title, target=target)


def write_page(file: str | Path, measured: Measured, *, title: str, target: str) -> Path:
    """Write the report on a model that was measured."""
    if measured.is_regression:
        task, content = "Regression", regression_content(measured, target)
    else:
        task, content = "Classification", classification_content(measured, target)
    features = measured.saved.features_
    last_line = (
        f"Written by mondrian-kernel {__version__}: {features.n_estimators} trees, "
        f"{features.n_cells_} cells. Lifetimes are for columns divided by their scales."
    )
    page = render(title, f"{task} of {target} with the Mondrian kernel", content, last_line)
    write_file(file, [page.encode("utf-8")])
    return Path(file)
