"""The lifetimes in a report: words on the choice, and the figure of the path."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel.app.report.figures import (
    Figure,
    Section,
    chart,
    layer,
    number,
    number_table,
    percent,
)


def choice_words(estimator: Any) -> list[str]:
    """Return sentences on how lifetime and alpha were chosen."""
    path, lifetime = _path(estimator), estimator.lifetime_
    if estimator.lifetime == "auto" and estimator.path_ is None:
        each = zip(estimator.lifetimes_, estimator.lifetime_weights_, strict=True)
        listed = ", ".join(f"{number(t)} ({percent(round(w, 3))})" for t, w in each)
        return [
            "The model has learnt a function of each column, a smooth trend, and the weights of "
            f"the lifetimes λ of its cells: {listed}. A larger λ means smaller cells and finer "
            "detail."
        ]
    how = "were given" if estimator.path_ is None else "come from a path too short to show"
    if path is not None:
        by = {"holdout": "the error on rows held out", "loo": "the leave-one-out error"}
        criterion = by.get(getattr(path, "criterion", "holdout"), "the marginal likelihood")
        how = f"were chosen among {path.lifetimes.size} × {path.alphas.size} pairs by {criterion}"
    width = "At λ = 0 the kernel is constant: only the mean is learnt."
    if lifetime > 0:
        width = (
            f"Two rows have correlation 0.37 if their scaled inputs differ by 1/λ = "
            f"{number(1 / lifetime)} in sum. A larger λ means a narrower kernel, finer detail and "
            "more cells."
        )
    pair = f"The lifetime λ = {number(lifetime)} and alpha = {number(estimator.alpha_)}"
    words = [f"{pair} {how}. {width}"]
    if estimator.lifetime == "average":
        words.append(
            "This is the likeliest lifetime. Predictions are averaged over all of the path, with "
            "the posterior probabilities as weights."
        )
    if path is not None and path.best_index[0] in (0, path.lifetimes.size - 1):
        words.append("Note: the best lifetime is at an end of the path; one beyond may be better.")
    if path is not None and lifetime < path.best_lifetime:
        best = number(path.best_lifetime)
        words.append(f"Note: max_cells stopped the trees before the best lifetime, {best}.")
    return words


def path_sections(estimator: Any) -> list[Section]:
    """Return the error along the path, if the model was chosen on one."""
    path = _path(estimator)
    if path is None:
        return []
    if "loo_error" not in path.curves:
        name, values = "mean loss of fitted rows held out", path.curves["validation_loss"]
    elif path.criterion == "holdout":
        name, values = "root mean squared error of fitted rows held out", path.validation_error**0.5
    else:
        name, values = "root mean squared error of fitted rows left out", path.loo_error**0.5
    best = path.best_index[0]
    line = values[np.arange(path.lifetimes.size), np.nanargmin(path.score, axis=1)]
    figure = Figure(
        "error",
        "Error at every width",
        f"The {name}, at the best alpha of each lifetime: {number(line[best])} at the best one, "
        f"{number(line[0])} and {number(line[-1])} at the ends of the path.",
        chart(
            {"label": "lifetime λ", "log": True},
            "error",
            layer("line", "blue", x=path.lifetimes, y=line),
            layer("points", "red", "best", x=path.lifetimes[[best]], y=line[[best]], size=5),
        ),
        number_table(["λ", name, "cells of all trees"], path.lifetimes, line, path.n_cells),
    )
    return [Section("The lifetime path", [figure])]


def _path(estimator: Any) -> Any:
    """Return the path of the choice, if it has some lifetimes."""
    path = estimator.path_
    return None if path is None or path.lifetimes.size < 3 else path
