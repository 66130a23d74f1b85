"""The contents of a report on a classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.metrics import confusion_matrix

from mondrian_kernel._settings import CLASS_TEST_ROWS, CLASSES_SHOWN, PROBABILITY_BINS
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.figures import (
    Content,
    Figure,
    Model,
    Section,
    Table,
    chart,
    importance_section,
    layer,
    number,
    percent,
    plane_sections,
)
from mondrian_kernel.app.report.lifetimes import Slider, choice_words, path_figures


def classification_content(model: Model) -> Content:
    """Return tiles, words and figures on a fitted classifier."""
    estimator, target, y_train = model.estimator, model.target, model.y_train
    classes = estimator.classes_
    known = np.isin(model.y_test, classes)
    if not known.any():
        raise ValueError(
            f"No row of y_test has a class that the model was fitted on: give rows of "
            f"{classes.tolist()}."
        )
    model = replace(model, X_test=model.X_test[known], y_test=model.y_test[known])
    X_test, y_test = model.X_test, model.y_test
    right = float(np.mean(estimator.predict(X_test) == y_test))
    values, counts = np.unique(y_train, return_counts=True)
    commonest = values[counts.argmax()]
    guess = float(np.mean(y_test == commonest))

    slider = Slider.of(model)
    X_shown, y_shown = X_test[:CLASS_TEST_ROWS], y_test[:CLASS_TEST_ROWS]
    logistic = hasattr(estimator, "predict_proba")
    losses = np.array([mean_loss(small, X_shown, y_shown) for small in slider.models])
    name = "log loss" if logistic else f"{estimator.loss} loss"
    at_positions = [small.predict(X_shown) for small in slider.shown]
    importance_words, importance = importance_section(model, lambda *rows: -mean_loss(*rows), name)
    matrix, mistakes = _confusion(y_shown, at_positions, classes, slider.chosen)
    figures, calibration = [matrix], f"loss={estimator.loss!r} gives no probabilities."
    tiles = [
        ("right on test rows", percent(right)),
        ("guessing the commonest", percent(guess)),
        ("lifetime λ", number(estimator.lifetime_)),
    ]
    if logistic:
        tiles.append((name, number(mean_loss(estimator, X_test, y_test))))
        P = np.array([small.predict_proba(X_shown) for small in slider.shown])
        labels = np.searchsorted(classes, y_shown)
        reliability, calibration = _reliability(labels, P, classes, slider.chosen)
        figures.append(reliability)
    columns = "1 column" if len(model.names) == 1 else f"{len(model.names)} columns"
    summary = [
        f"“{target}” (one of {classes.size} classes) was learnt from {columns} of {y_train.size} "
        f"rows. The model is right on {percent(right)} of {y_test.size} rows that were not fitted; "
        f"always guessing the commonest class, {commonest}, gives {percent(guess)}.",
        *choice_words(slider),
        mistakes,
        calibration,
        importance_words,
    ]
    if not known.all():
        left_out = int((~known).sum())
        summary.append(f"Note: {left_out} test rows of classes unknown to the model were left out.")
    if right <= guess:
        summary.append("Note: the model is no better than guessing the commonest class.")
    sections = [
        Section("The lifetime path", path_figures(slider, name, losses), moves=True),
        Section("Predictions at this width", figures, moves=True),
        *_plane(model, slider.shown, logistic),
        importance,
    ]
    readouts = slider.readouts(
        f"{percent(np.mean(predicted == y_shown))} of {y_shown.size} test rows right"
        for predicted in at_positions
    )
    return Content(tiles, summary, sections, slider.lifetimes.tolist(), slider.chosen, readouts)


def mean_loss(model: Any, X: FloatArray, y: NDArray[Any]) -> float:
    r"""Return the mean of a model's own loss on rows with the classes y.

    With scores f: the log loss :math:`-\log \mathrm{softmax}(f)_y`; for the hinge and the squared
    loss, the sum over scores of :math:`\max(0, 1 - tf)` and :math:`(t - f)^2`, t = ±1.
    """
    labels, scores = np.searchsorted(model.classes_, y), model.decision_function(X)
    if model.loss in ("auto", "log_loss"):
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return float(-np.mean(log_softmax(scores, axis=1)[np.arange(y.size), labels]))
    truth = labels == 1 if scores.ndim == 1 else labels[:, None] == np.arange(model.classes_.size)
    signs = np.where(truth, 1.0, -1.0)
    losses = (signs - scores) ** 2 if model.loss == "squared" else 1.0 - signs * scores
    return float(np.maximum(0.0, losses).sum() / y.size)


def _confusion(
    y: NDArray[Any], at_positions: list[NDArray[Any]], classes: NDArray[Any], chosen: int
) -> tuple[Figure, str]:
    """Return the confusion matrix at each position, and a sentence on the commonest mistake.

    If there are many classes, those with few rows are joined.
    """
    labels = [str(c) for c in classes]
    groups = np.arange(classes.size)
    if classes.size > CLASSES_SHOWN:
        counts = np.bincount(np.searchsorted(classes, y), minlength=classes.size)
        kept = np.sort(np.argsort(-counts, kind="stable")[: CLASSES_SHOWN - 1])
        groups = np.full(classes.size, CLASSES_SHOWN - 1)
        groups[kept] = np.arange(CLASSES_SHOWN - 1)
        labels = [str(classes[c]) for c in kept] + ["all others"]
    true, span = groups[np.searchsorted(classes, y)], np.arange(len(labels))
    frames = np.array(
        [
            confusion_matrix(true, groups[np.searchsorted(classes, predicted)], labels=span)
            for predicted in at_positions
        ]
    )
    own = frames[chosen]
    wrong = own - np.diag(np.diag(own))
    i, j = np.unravel_index(wrong.argmax(), wrong.shape)
    words = f"All of the {y.size} test rows shown are right."
    if wrong[i, j]:
        words = (
            f"The commonest mistake on {y.size} test rows: {wrong[i, j]} of class {labels[i]} "
            f"predicted as {labels[j]}."
        )
    rows = [[label, *map(str, row)] for label, row in zip(labels, own.tolist(), strict=True)]
    figure = Figure(
        "confusion",
        "True and predicted class",
        f"Number of test rows, of {y.size}, by true class (lines) and predicted class (columns).",
        {"kind": "matrix", "labels": labels, "frames": frames.tolist()},
        Table(["true \\ predicted", *labels], rows),
    )
    return figure, words


def _reliability(
    labels: NDArray[np.intp], P: FloatArray, classes: NDArray[Any], chosen: int
) -> tuple[Figure, str]:
    """Return predicted probability against observed frequency in bins, and a sentence on it."""
    if classes.size == 2:
        what, given = f"probability of {classes[1]}", P[:, :, 1]
        hits = np.broadcast_to(labels == 1, given.shape)
    else:
        what, given, hits = "probability of the predicted class", P.max(2), P.argmax(2) == labels
    mean, seen, count = _bin_means(given, hits)
    gap = float(np.nansum(np.abs(mean - seen)[chosen] * count[chosen]) / count[chosen].sum())
    words = (
        f"Predicted probabilities differ from observed frequencies by {percent(gap)} on average "
        f"on {labels.size} test rows."
    )
    sizes = 1.5 + 5.5 * np.sqrt(count / count.max())
    bins = zip(mean[chosen], seen[chosen], count[chosen], strict=True)
    figure = Figure(
        "reliability",
        "Predicted probability and observed frequency",
        f"The {what} in ten bins, and how often it came true. On the line the two agree. Bins of "
        "few rows scatter.",
        chart(
            {"label": what, "domain": [0, 1]},
            {"label": "came true", "domain": [0, 1]},
            layer("line", "grey", x=[0, 1], y=[0, 1]),
            layer("points", "blue", xs=mean, ys=seen, sizes=sizes),
        ),
        Table(
            [what, "came true", "rows"],
            [[number(m), number(s), str(int(c))] for m, s, c in bins if c],
        ),
    )
    return figure, words


def _bin_means(
    given: FloatArray, hits: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean probability, share of hits and number of rows, each (positions, bins)."""
    edges = np.linspace(0, 1, PROBABILITY_BINS + 1)
    bins = np.clip(np.digitize(given, edges) - 1, 0, PROBABILITY_BINS - 1)
    belongs = bins[:, :, None] == np.arange(PROBABILITY_BINS)
    count = belongs.sum(axis=1).astype(float)
    with np.errstate(invalid="ignore"):
        mean = (given[:, :, None] * belongs).sum(axis=1) / count
        seen = (hits[:, :, None] & belongs).sum(axis=1) / count
    return mean, seen, count


def _plane(model: Model, shown: Sequence[Any], logistic: bool) -> list[Section]:
    classes, target = model.estimator.classes_, model.target
    if logistic and classes.size == 2:
        title = f"Probability that {target} is {classes[1]}"
        return plane_sections(model, shown, lambda m, rows: m.predict_proba(rows)[:, 1], title)
    return plane_sections(
        model,
        shown,
        lambda m, rows: np.searchsorted(classes, m.predict(rows)),
        f"Predicted {target}",
        [str(c) for c in classes],
    )
