"""The contents of a report on a classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.report.page import (
    Content,
    Figure,
    Section,
    Table,
    chart,
    layer,
    number,
    percent,
    table,
)
from mondrian_kernel.app.report.sections import (
    COLOURS,
    Curves,
    choice_words,
    importance_section,
    learnt_words,
    path_sections,
    plane_sections,
    worst_section,
)


def classification_content(measured: Measured, target: str) -> Content:
    """Return tiles, words and figures on a fitted classifier."""
    estimator, scores = measured.estimator, measured.scores
    y, P = measured.y_test, measured.probability
    classes, right = estimator.classes_, scores["accuracy"]
    guess, boosting = scores["accuracy_of_the_commonest"], measured.boosting
    values, counts = np.unique(measured.y_train, return_counts=True)
    # The classes with a curve of their own: of two the second, else the commonest.
    common = values[np.argsort(-counts, kind="stable")[: len(COLOURS)]]
    drawn = np.array([1]) if classes.size == 2 else np.sort(np.searchsorted(classes, common))
    importance_words, importance = importance_section(measured, _curves(measured, drawn))
    matrix, mistakes = _confusion(y, measured.predicted, classes)
    figures, words = [matrix], [f"loss={estimator.loss!r} gives no probabilities."]
    tiles = [
        (f"right on {y.size} test rows", percent(right)),
        ("HistGradientBoosting, same rows", percent(boosting)),
        ("commonest class, same rows", percent(guess)),
    ]
    badness: FloatArray = 1.0 * (measured.predicted != y)
    shown = {f"true {target}": y, "predicted": measured.predicted}
    if P is not None:
        tiles.append(("log loss, same rows", number(scores["log_loss"])))
        labels = np.searchsorted(classes, y)
        reliability, calibration = _reliability(labels, P, classes)
        curves, ranking = _curve_figures(labels, P, classes, drawn)
        figures, words = [matrix, reliability, *curves], [calibration, ranking]
        own = P[np.arange(y.size), labels]
        badness, shown["probability of the true class"] = 1.0 - own, own
    summary = [
        learnt_words(measured, f"“{target}” (one of {classes.size} classes)"),
        f"The model is right on {percent(right)} of them. HistGradientBoosting of scikit-learn "
        f"with its defaults, fitted to the same rows, is right on {percent(boosting)}. Always "
        f"guessing the commonest class, {values[counts.argmax()]}, gives {percent(guess)}.",
        mistakes,
        *words,
        importance_words,
        *choice_words(measured.saved),
    ]
    if measured.n_unknown:
        summary.append(
            f"Note: {measured.n_unknown} test rows of classes unknown to the model are left out."
        )
    if right <= guess:
        summary.append("Note: the model is no better than guessing the commonest class.")
    sections = [
        Section("Predictions", figures),
        importance,
        worst_section(measured, badness, shown),
        *_plane(measured, target),
        *path_sections(measured.saved),
    ]
    return Content(tiles, summary, sections)


def _curves(measured: Measured, shown: NDArray[np.intp]) -> Curves:
    """Return the probabilities of the classes shown, or the shares of rows predicted as these."""
    estimator, classes = measured.estimator, measured.estimator.classes_[shown]
    names: list[str | None] = [str(c) for c in classes]
    label = f"mean probability of {names[0]}" if len(names) == 1 else "mean probability"
    if measured.probability is None:
        label = "share predicted as the class"
        return Curves(lambda X: 1.0 * (estimator.predict(X)[:, None] == classes), label, names)
    return Curves(
        lambda X: estimator.predict_proba(X)[:, shown],
        label,
        [None] if len(names) == 1 else names,
    )


def _confusion(
    y: NDArray[Any], predicted: NDArray[Any], classes: NDArray[Any]
) -> tuple[Figure, str]:
    """Return the confusion matrix, and a sentence on the commonest mistake.

    If there are many classes, those with few rows are joined.
    """
    labels = [str(c) for c in classes]
    groups, true = np.arange(classes.size), np.searchsorted(classes, y)
    if classes.size > settings.CLASSES_SHOWN:
        counts = np.bincount(true, minlength=classes.size)
        kept = np.sort(np.argsort(-counts, kind="stable")[: settings.CLASSES_SHOWN - 1])
        groups = np.full(classes.size, settings.CLASSES_SHOWN - 1)
        groups[kept] = np.arange(settings.CLASSES_SHOWN - 1)
        labels = [str(classes[c]) for c in kept] + ["all others"]
    found = groups[np.searchsorted(classes, predicted)]
    counts = confusion_matrix(groups[true], found, labels=np.arange(len(labels)))
    wrong = counts - np.diag(np.diag(counts))
    i, j = np.unravel_index(wrong.argmax(), wrong.shape)
    words = "No class shown is taken for another."
    if wrong[i, j]:
        words = (
            f"The commonest mistake: {wrong[i, j]} rows of class {labels[i]} are predicted as "
            f"{labels[j]}."
        )
    figure = Figure(
        "confusion",
        "True and predicted class",
        f"Number of test rows, of {y.size}, by true class (lines) and predicted class (columns).",
        {"kind": "matrix", "labels": labels, "counts": counts.tolist()},
        table(["true \\ predicted", *labels], labels, *counts.T),
    )
    return figure, words


def _reliability(
    labels: NDArray[np.intp], P: FloatArray, classes: NDArray[Any]
) -> tuple[Figure, str]:
    """Return predicted probability against observed frequency in bins, and a sentence on it."""
    what, given, hits = "probability of the predicted class", P.max(axis=1), P.argmax(1) == labels
    if classes.size == 2:
        what, given, hits = f"probability of {classes[1]}", P[:, 1], labels == 1
    bins = np.minimum(
        (settings.PROBABILITY_BINS * given).astype(int), settings.PROBABILITY_BINS - 1
    )
    count = np.bincount(bins, minlength=settings.PROBABILITY_BINS)
    filled = np.flatnonzero(count)
    count = count[filled]
    mean, seen = (np.bincount(bins, weights=w)[filled] / count for w in (given, hits))
    gap = float(np.abs(mean - seen) @ count / labels.size)
    words = (
        f"Predicted probabilities differ from observed frequencies by {percent(gap)} on average."
    )
    figure = Figure(
        "reliability",
        "Predicted probability and observed frequency",
        f"The {what} in {settings.PROBABILITY_BINS} bins, and how often it came true. On the line "
        "the two agree. Larger dots have more rows; those of few rows scatter.",
        chart(
            {"label": what, "domain": [0, 1]},
            {"label": "came true", "domain": [0, 1]},
            layer("line", "grey", x=[0, 1], y=[0, 1]),
            layer("points", "blue", x=mean, y=seen, size=2 + 6 * np.sqrt(count / count.max())),
        ),
        table([what, "came true", "rows"], mean, seen, count),
    )
    return figure, words


def _curve_figures(
    labels: NDArray[np.intp], P: FloatArray, classes: NDArray[Any], shown: NDArray[np.intp]
) -> tuple[list[Figure], str]:
    """Return ROC and precision-recall curves of some classes, and a sentence on them."""
    roc, precision, said = [], [], []
    rows: list[list[str]] = []
    for c, colour in zip(shown, COLOURS, strict=False):
        truth, given, name = labels == c, P[:, c], str(classes[c])
        if truth.all() or not truth.any():
            continue
        area, mean = roc_auc_score(truth, given), average_precision_score(truth, given)
        false, true, _ = roc_curve(truth, given)
        p, r, _ = precision_recall_curve(truth, given)
        roc.append(layer("line", colour, f"{name}: area {area:.3f}", **_thinned(false, true)))
        precision.append(layer("line", colour, f"{name}: mean {mean:.3f}", **_thinned(r, p)))
        said.append(f"{area:.3f} for {name} ({int(truth.sum())} of {truth.size} rows)")
        rows += _counts(truth, given, name)
    if not roc:
        return [], "There are no rows of two classes to rank."
    head = ["class", "probability from", "found", "missed", "false alarms", "rightly left out"]
    unit = {"domain": [0, 1]}
    figures = [
        Figure(
            "roc",
            "ROC curve",
            f"Of the {labels.size} test rows: the share of a class that is found, against the "
            "share of the other rows that are false alarms, at every threshold of its probability.",
            chart(
                {"label": "false alarms, share of other rows", **unit},
                {"label": "found, share of the class", **unit},
                layer("line", "grey", x=[0, 1], y=[0, 1]),
                *roc,
            ),
            Table(head, rows),
        ),
        Figure(
            "precision",
            "Precision and recall",
            f"Of the {labels.size} test rows, at every threshold: the share of the class that is "
            "found (recall), and how many rows above the threshold are of the class (precision).",
            chart(
                {"label": "recall: found, share of the class", **unit},
                {"label": "precision", **unit},
                *precision,
            ),
            Table(head, rows),
        ),
    ]
    return figures, f"Area under the ROC curve: {', '.join(said)}."


def _thinned(x: FloatArray, y: FloatArray) -> dict[str, FloatArray]:
    """Return some of the points of a curve."""
    some = np.unique(np.linspace(0, x.size - 1, settings.CURVE_POINTS).round().astype(int))
    return {"x": x[some], "y": y[some]}


def _counts(truth: NDArray[np.bool_], given: FloatArray, name: str) -> list[list[str]]:
    """Return the rows found and missed at some thresholds."""
    rows = []
    for threshold in settings.THRESHOLDS:
        above = given >= threshold
        counts = [above & truth, ~above & truth, above & ~truth, ~above & ~truth]
        rows.append([name, percent(threshold), *(str(int(c.sum())) for c in counts)])
    return rows


def _plane(measured: Measured, target: str) -> list[Section]:
    estimator, classes = measured.estimator, measured.estimator.classes_
    if measured.probability is not None and classes.size == 2:
        title = f"Probability that {target} is {classes[1]}"
        return plane_sections(measured, lambda X: estimator.predict_proba(X)[:, 1], title)
    return plane_sections(
        measured,
        lambda X: np.searchsorted(classes, estimator.predict(X)),
        f"Predicted {target}",
        [str(c) for c in classes],
    )
