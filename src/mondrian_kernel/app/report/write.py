"""A report on a fitted model: one HTML file for people, without network or other files."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
)

from mondrian_kernel import __version__
from mondrian_kernel._settings import REPORT_TEST_ROWS
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.classification import classification_content
from mondrian_kernel.app.report.figures import Content, Figure, Model, Section, Table
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
        Names of the columns of X, or of the numbers that a table is encoded as. None: those the
        model was fitted with, or x0, x1 and so on.

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
    X_train, y_train = _check_rows(estimator, X_train, y_train, "y_train")
    X_test, y_test = _check_rows(estimator, X_test, y_test, "y_test")
    order = np.random.default_rng(0).permutation(y_test.size)[:REPORT_TEST_ROWS]
    own = _for_numbers(estimator, X_train.shape[1])
    names = _names(estimator, feature_names)
    model = Model(own, X_train, y_train, X_test[order], y_test[order], target, names)
    if isinstance(estimator, MondrianKernelRegressor):
        task, content = "Regression", regression_content(model)
    else:
        task, content = "Classification", classification_content(model)
    last_line = (
        f"Written by mondrian-kernel {__version__}: {own.features_.n_estimators} trees, "
        f"{own.features_.n_cells_} cells. Lifetimes are for inputs divided by their scales."
    )
    page = render(title, f"{task} of {target} with the Mondrian kernel", content, last_line)
    write_file(file, [page.encode("utf-8")])
    return Path(file)


def render(title: str, subtitle: str, content: Content, last_line: str) -> str:
    """Return the page as one HTML document that needs no other file."""
    figures = [figure for section in content.sections for figure in section.figures]
    data = {
        "lifetimes": content.lifetimes,
        "chosen": content.chosen,
        "readouts": content.readouts,
        "figures": {figure.name: figure.spec for figure in figures},
    }
    return Template(_read("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=_read("page.css"),
        script=_read("page.js"),
        tiles="".join(_tile(*tile) for tile in content.tiles),
        summary="".join(f"<p>{escape(sentence)}</p>" for sentence in content.summary),
        slider=_slider(content),
        moving="".join(_section(section) for section in content.sections if section.moves),
        still="".join(_section(section) for section in content.sections if not section.moves),
        last_line=escape(last_line),
        data=script_json(data),
    )


def script_json(data: object) -> str:
    """JSON that may stand in a script element: no text in it can close the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (files("mondrian_kernel.app.report") / name).read_text(encoding="utf-8")


def _tile(name: str, value: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"


def _slider(content: Content) -> str:
    readout = escape(content.readouts[content.chosen])
    if len(content.lifetimes) < 2:
        return f'<p class="slider"><output id="readout">{readout}</output></p>'
    return (
        '<div class="slider"><label for="lifetime">Move the lifetime λ</label>'
        f'<input type="range" id="lifetime" min="0" max="{len(content.lifetimes) - 1}" step="1" '
        f'value="{content.chosen}" aria-describedby="readout">'
        '<button type="button" id="back">to the chosen one</button>'
        f'<output id="readout" for="lifetime" aria-live="polite">{readout}</output></div>'
    )


def _section(section: Section) -> str:
    if not section.figures:
        return ""
    figures = "".join(_figure(figure) for figure in section.figures)
    heading = escape(section.heading)
    return f'<section><h2>{heading}</h2><div class="row">{figures}</div></section>'


def _figure(figure: Figure) -> str:
    name, table = escape(figure.name), ""
    if figure.table is not None:
        table = f"<details><summary>The numbers</summary>{_table(figure.table)}</details>"
    return (
        f'<figure id="{name}"><h3 id="{name}-title">{escape(figure.title)}</h3>'
        f'<div class="plot" data-figure="{name}" role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-caption"></div>'
        f'<figcaption id="{name}-caption">{escape(figure.caption)}</figcaption>{table}</figure>'
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


def _check_rows(
    estimator: Any, X: ArrayLike, y: ArrayLike, name: str
) -> tuple[FloatArray, NDArray[Any]]:
    """Check rows and targets and return them as arrays; ``name`` is that of the targets."""
    rows = estimator._check_new(X)
    targets = np.asarray(y)
    if targets.ndim != 1:
        raise ValueError(
            f"{name} must have one target a row, got the shape {targets.shape}. Fit a model for "
            "each target and report on each."
        )
    check_consistent_length(rows, targets)
    assert_all_finite(targets, input_name=name)
    return rows, targets


def _for_numbers(estimator: Any, n_columns: int) -> Any:
    """Return a copy of a model for arrays of numbers, those that its encoder makes of a table."""
    own = copy.copy(estimator)
    vars(own).pop("feature_names_in_", None)
    own._encoder, own.categorical_features, own.n_features_in_ = None, None, n_columns
    mixture = getattr(own, "_mixture", None)
    if mixture is not None:
        models = [_for_numbers(part, n_columns) for part in mixture.models]
        own._mixture = dataclasses.replace(mixture, models=models)
    return own


def _names(estimator: Any, feature_names: Sequence[str] | None) -> list[str]:
    own, encoder = getattr(estimator, "feature_names_in_", None), estimator.encoder_
    if encoder is not None:
        own = encoder.get_feature_names_out()
    n_columns = estimator.n_features_in_ if own is None else len(own)
    if feature_names is None:
        return [f"x{d}" for d in range(n_columns)] if own is None else [str(name) for name in own]
    names = [str(name) for name in feature_names]
    if len(names) != n_columns:
        raise ValueError(
            f"{len(names)} feature_names were given for {n_columns} columns of X: give one each."
        )
    return names
