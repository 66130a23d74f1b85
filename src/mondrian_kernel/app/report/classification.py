"""The contents of a report on a classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from mondrian_kernel._linear.losses import encode, value
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.app.report.at_lifetimes import Slider
from mondrian_kernel.app.report.dims import dims_section
from mondrian_kernel.app.report.figure import (
    Content,
    Figure,
    Section,
    Table,
    number,
    percent,
    plain,
)
from mondrian_kernel.app.report.plane import plane_sections
from mondrian_kernel.app.report.the_path import path_figures, path_words

_ROWS = 1000  # test rows at each place of the slider
_CLASSES = 12
_BINS = np.linspace(0, 1, 11)


def classification_content(
    estimator: Any,
    X_train: FloatArray,
    y_train: NDArray[Any],
    X_test: FloatArray,
    y_test: NDArray[Any],
    target: str,
    names: Sequence[str],
) -> Content:
    """Tiles, words and figures on a fitted classifier; rows are in random order."""
    classes = estimator.classes_
    known = np.isin(y_test, classes)
    unknown = int((~known).sum())
    X_test, y_test = X_test[known], y_test[known]
    if not known.any():
        raise ValueError(
            f"No row of y_test is of a class that the model was fitted on: give rows of "
            f"{classes.tolist()}."
        )
    right = float(np.mean(estimator.predict(X_test) == y_test))
    values, counts = np.unique(y_train, return_counts=True)
    most = values[counts.argmax()]
    guess = float(np.mean(y_test == most))

    slider = Slider.of(estimator, X_train, y_train)
    X_shown, y_shown = X_test[:_ROWS], y_test[:_ROWS]
    logistic = hasattr(estimator, "predict_proba")
    losses = np.array([_mean_loss(model, X_shown, y_shown) for model in slider.models])
    name = estimator.loss.replace("_", " ") if logistic else f"{estimator.loss} loss"
    along = [model.predict(X_shown) for model in slider.shown]
    dims_words, dims = dims_section(
        estimator, X_test, y_test, names, lambda *rows: -_mean_loss(*rows), name
    )
    matrix, most_confused = _confusion(y_shown, along, classes, slider.chosen)

    summary = [
        f"“{target}” (one of {classes.size} classes) was learnt from {len(names)} "
        f"{'dim' if len(names) == 1 else 'dims'} of {y_train.size} rows. Of {y_test.size} rows "
        f"that were not fitted {percent(right)} are put into the right class; always guessing "
        f"the commonest, {most}, gives {percent(guess)}.",
        *path_words(estimator),
        most_confused,
    ]
    tiles = [
        ("right on test rows", percent(right)),
        ("guessing the commonest", percent(guess)),
        ("lifetime λ", number(estimator.lifetime_)),
    ]
    figures = [matrix]
    if logistic:
        tiles.append((name, number(_mean_loss(estimator, X_test, y_test))))
        P = np.array([model.predict_proba(X_shown) for model in slider.shown])
        figure, words = _reliability(np.searchsorted(classes, y_shown), P, classes, slider.chosen)
        figures.append(figure)
        summary.append(words)
    else:
        summary.append(
            f"With loss={estimator.loss!r} there are no probabilities, hence no calibration."
        )
    summary.append(dims_words)
    if unknown:
        summary.append(
            f"Mind: {unknown} test rows of classes that the model has never seen were left out."
        )
    if right <= guess:
        summary.append("Mind: the model is no better than guessing the commonest class.")
    sections = [
        Section("The lifetime path", path_figures(slider, name, losses), moves=True),
        Section("Predictions at this width", figures, moves=True),
        *_plane(slider.shown, X_train, names, target, classes, logistic),
        dims,
    ]
    readouts = slider.readouts(
        f"{percent(np.mean(said == y_shown))} of {y_shown.size} test rows right" for said in along
    )
    return Content(tiles, summary, sections, slider.lifetimes.tolist(), slider.chosen, readouts)


def _mean_loss(model: Any, X: FloatArray, y: NDArray[Any]) -> float:
    """Mean of a model's own loss on rows of the classes y."""
    scores = model.decision_function(X).reshape(y.size, -1)
    Y = encode(np.searchsorted(model.classes_, y), model.classes_.size, model.loss)
    return float(value(model.loss, Y, scores).mean())


def _confusion(
    y: NDArray[Any], along: list[NDArray[Any]], classes: NDArray[Any], chosen: int
) -> tuple[Figure, str]:
    """Confusion matrix at each place of the slider; of many classes the commonest and the rest."""
    labels = [str(c) for c in classes]
    groups = np.arange(classes.size)
    if classes.size > _CLASSES:
        counts = np.bincount(np.searchsorted(classes, y), minlength=classes.size)
        kept = np.sort(np.argsort(-counts, kind="stable")[: _CLASSES - 1])
        groups = np.full(classes.size, _CLASSES - 1)
        groups[kept] = np.arange(_CLASSES - 1)
        labels = [str(classes[c]) for c in kept] + ["all others"]
    span = np.arange(len(labels))

    def matrix(predicted: NDArray[Any]) -> IntArray:
        true, said = (groups[np.searchsorted(classes, v)] for v in (y, predicted))
        found: IntArray = confusion_matrix(true, said, labels=span)
        return found

    frames = np.array([matrix(predicted) for predicted in along])
    own = frames[chosen]
    wrong = own - np.diag(np.diag(own))
    i, j = np.unravel_index(wrong.argmax(), wrong.shape)
    words = "No test row that is shown is in a wrong class."
    if wrong[i, j]:
        words = (
            f"The commonest mistake on {y.size} test rows: {wrong[i, j]} of class {labels[i]} "
            f"taken for {labels[j]}."
        )
    figure = Figure(
        "confusion", "True and predicted class",
        f"How many of {y.size} test rows of each class (a line) were put into which (a column).",
        {"kind": "matrix", "labels": labels, "frames": frames.tolist()},
        Table(
            ["true \\ predicted", *labels],
            [[label, *map(str, row)] for label, row in zip(labels, own.tolist(), strict=True)],
        ),
    )  # fmt: skip
    return figure, words


def _reliability(
    index: NDArray[np.intp], P: FloatArray, classes: NDArray[Any], chosen: int
) -> tuple[Figure, str]:
    """Share of rows that are right against the probability that the model gave them, in bins."""
    if classes.size == 2:
        what, sure, hit = f"probability of {classes[1]}", P[:, :, 1], index == 1
        hits = np.broadcast_to(hit, sure.shape)
    else:
        what, sure, hits = "probability of the predicted class", P.max(2), P.argmax(2) == index
    given, seen, count = _bins(sure, hits)
    gap = float(np.nansum(np.abs(given - seen)[chosen] * count[chosen]) / count[chosen].sum())
    words = (
        f"Probabilities are off by {percent(gap)} on average, as compared with how often they come "
        f"true on {index.size} test rows."
    )
    figure = Figure(
        "reliability", "Do probabilities come true?",
        f"The {what} as the model gives it, in ten bins, and how often it came true; on the line "
        "the two agree. Bins of few rows scatter.",
        {
            "x": {"label": what, "domain": [0, 1]},
            "y": {"label": "came true", "domain": [0, 1]},
            "layers": [
                {"type": "line", "x": [0, 1], "y": [0, 1], "colour": "grey"},
                {"type": "points", "xs": plain(given), "ys": plain(seen), "colour": "blue",
                 "sizes": plain(1.5 + 5.5 * np.sqrt(count / count.max()))},
            ],
        },
        Table(
            [what, "came true", "rows"],
            [[number(g), number(s), str(int(c))]
             for g, s, c in zip(given[chosen], seen[chosen], count[chosen], strict=True) if c],
        ),
    )  # fmt: skip
    return figure, words


def _bins(sure: FloatArray, hits: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean probability, share of hits and number of rows in each bin, each (places, bins)."""
    bins = np.clip(np.digitize(sure, _BINS) - 1, 0, _BINS.size - 2)
    belongs = bins[:, :, None] == np.arange(_BINS.size - 1)
    count = belongs.sum(axis=1).astype(float)
    with np.errstate(invalid="ignore"):
        given = (sure[:, :, None] * belongs).sum(axis=1) / count
        seen = (hits[:, :, None] & belongs).sum(axis=1) / count
    return given, seen, count


def _plane(
    models: Sequence[Any],
    X: FloatArray,
    names: Sequence[str],
    target: str,
    classes: NDArray[Any],
    logistic: bool,
) -> list[Section]:
    if logistic and classes.size == 2:
        return plane_sections(
            models, X, names, lambda m, rows: m.predict_proba(rows)[:, 1],
            f"Probability that {target} is {classes[1]}",
        )  # fmt: skip
    return plane_sections(
        models, X, names, lambda m, rows: np.searchsorted(classes, m.predict(rows)),
        f"Predicted {target}", [str(c) for c in classes],
    )  # fmt: skip
