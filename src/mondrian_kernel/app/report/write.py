"""A report on a fitted model: one HTML file for people, without network or other files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import __version__
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.report.classification import classification_content
from mondrian_kernel.app.report.figures import Content, Figure, Section, Table
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
    features = measured.estimator.features_
    last_line = (
        f"Written by mondrian-kernel {__version__}: {features.n_estimators} trees, "
        f"{features.n_cells_} cells. Lifetimes are for inputs divided by their scales."
    )
    page = render(title, f"{task} of {target} with the Mondrian kernel", content, last_line)
    write_file(file, [page.encode("utf-8")])
    return Path(file)


def render(title: str, subtitle: str, content: Content, last_line: str) -> str:
    """Return the page as one HTML document that needs no other file."""
    figures = [figure for section in content.sections for figure in section.figures]
    return Template(_read("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=_read("page.css"),
        script=_read("page.js"),
        tiles="".join(_tile(*tile) for tile in content.tiles),
        summary="".join(f"<p>{escape(sentence)}</p>" for sentence in content.summary),
        sections="".join(_section(section) for section in content.sections),
        last_line=escape(last_line),
        data=script_json({f.name: f.spec for f in figures if f.spec is not None}),
    )


def script_json(data: object) -> str:
    """JSON that may stand in a script element: no text in it can close the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (files("mondrian_kernel.app.report") / name).read_text(encoding="utf-8")


def _tile(name: str, value: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"


def _section(section: Section) -> str:
    figures = "".join(_figure(figure) for figure in section.figures)
    heading = escape(section.heading)
    return f'<section><h2>{heading}</h2><div class="row">{figures}</div></section>'


def _figure(figure: Figure) -> str:
    name, table = escape(figure.name), "" if figure.table is None else _table(figure.table)
    title = f'<h3 id="{name}-title">{escape(figure.title)}</h3>'
    caption = f'<figcaption id="{name}-caption">{escape(figure.caption)}</figcaption>'
    if figure.spec is None:
        return f'<figure id="{name}" class="wide">{title}{table}{caption}</figure>'
    if table:
        table = f"<details><summary>The numbers</summary>{table}</details>"
    return (
        f'<figure id="{name}">{title}<div class="plot" data-figure="{name}" role="img" '
        f'aria-labelledby="{name}-title" aria-describedby="{name}-caption"></div>'
        f"{caption}{table}</figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    body = "".join(_row(row) for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[str]) -> str:
    first, *others = (escape(cell) for cell in row)
    cells = "".join(f"<td>{cell}</td>" for cell in others)
    return f'<tr><th scope="row">{first}</th>{cells}</tr>'
