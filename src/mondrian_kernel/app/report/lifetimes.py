"""The lifetimes in a report: words on the choice, and the figures of the path."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.figures import (
    Figure,
    Section,
    chart,
    layer,
    number,
    number_table,
    percent,
)

_AXIS = {"label": "lifetime λ", "log": True}


def choice_words(estimator: Any) -> list[str]:
    """Return sentences on how lifetime and alpha were chosen, and how certain the choice is."""
    path, lifetime = _path(estimator), estimator.lifetime_
    pair = f"The lifetime λ = {number(lifetime)} and alpha = {number(estimator.alpha_)}"
    width = "At λ = 0 the kernel is constant: only the mean is learnt."
    if lifetime > 0:
        width = (
            f"Two rows have correlation 0.37 if their scaled inputs differ by 1/λ = "
            f"{number(1 / lifetime)} in sum. A larger λ means a narrower kernel, finer detail and "
            "more cells."
        )
    if estimator.lifetime == "auto" and estimator.path_ is None:
        return [_learnt_words(estimator)]
    if path is None:
        how = "were given" if estimator.path_ is None else "come from a path too short to show"
        return [f"{pair} {how}. {width}"]
    words = [f"{pair} were chosen {_tried(path)}. {width}"]
    if estimator.lifetime == "average":
        words.append(
            "This is the likeliest lifetime. Predictions are averaged over all of the path, with "
            "the posterior probabilities as weights."
        )
    if _has_evidence(path):
        low, high = _width_posterior(path).interval(0.9)
        words.append(
            f"λ lies between {number(low)} and {number(high)} with probability 90 %, by the "
            "marginal likelihood, if all widths of the path are equally likely beforehand."
            + _outside(lifetime, low, high)
        )
    elif "log_marginal_likelihood" in path.curves:
        words.append(
            "The marginal likelihood was not computed along this path, so there is no posterior "
            "over λ. Fit with lifetime='path' and criterion='evidence' to have both."
        )
    if path.best_index[0] in (0, path.lifetimes.size - 1):
        words.append("Note: the best lifetime is at an end of the path; one beyond may be better.")
    if lifetime < path.best_lifetime:
        best = number(path.best_lifetime)
        words.append(f"Note: max_cells stopped the trees before the best lifetime, {best}.")
    return words


def _learnt_words(model: Any) -> str:
    """Say what a model of several lifetimes has learnt."""
    each = zip(model.lifetimes_, model.lifetime_weights_, strict=True)
    listed = ", ".join(f"{number(t)} ({percent(round(w, 3))})" for t, w in each)
    return (
        "The model has learnt a function of each column, a smooth trend, and the weights of the "
        f"lifetimes λ of its cells: {listed}. A larger λ means smaller cells and finer detail."
    )


def _outside(lifetime: float, low: float, high: float) -> str:
    """Explain a choice that lies outside the interval of the posterior."""
    if low <= lifetime <= high:
        return ""
    wider = "narrower" if lifetime > high else "wider"
    return f" The error, by which λ was chosen, is least for a {wider} kernel than that."


def _tried(path: Any) -> str:
    by = {"loo": "the leave-one-out error", "holdout": "the error on rows held out"}
    criterion = by.get(_criterion(path), "the marginal likelihood")
    tried = f"{path.lifetimes.size} lifetimes × {path.alphas.size} alphas"
    return f"among {tried} by {criterion}"


def path_sections(estimator: Any) -> list[Section]:
    """Return the section on the path, if the model was chosen on one."""
    path = _path(estimator)
    if path is None:
        return []
    figures = [_error_figure(path)]
    if _has_evidence(path):
        figures.append(_evidence_figure(path))
    return [Section("The lifetime path", [*figures, _cells_figure(path)])]


def _path(estimator: Any) -> Any:
    """Return the path of the choice, if it has some lifetimes."""
    path = estimator.path_
    return None if path is None or path.lifetimes.size < 3 else path


def _error_figure(path: Any) -> Figure:
    name, values = _path_error(path)
    caption = (
        f"The {name} is {number(values[path.best_index[0]])} at the best lifetime of the path, "
        f"{number(values[0])} and {number(values[-1])} at its ends."
    )
    spec = chart(
        _AXIS, "error", layer("line", "blue", x=path.lifetimes, y=values), _mark(path, values)
    )
    table = number_table(["λ", name], path.lifetimes, values)
    return Figure("error", "Error at every width", caption, spec, table)


def _path_error(path: Any) -> tuple[str, FloatArray]:
    """Return name and values of the error or loss along a path, at the best alpha of each λ."""
    if "loo_error" not in path.curves:
        return "mean loss of fitted rows held out", _at_best_alpha(
            path, path.curves["validation_loss"]
        )
    if _criterion(path) == "holdout":
        values, rows = path.validation_error, "held out"
    else:
        values, rows = path.loo_error, "left out in turn"
    return f"root mean squared error of fitted rows {rows}", np.sqrt(_at_best_alpha(path, values))


def _evidence_figure(path: Any) -> Figure:
    name = "log marginal likelihood"
    values = _at_best_alpha(path, path.log_marginal_likelihood)
    posterior = _width_posterior(path)
    low, high = posterior.interval(0.9)
    caption = (
        f"The log marginal likelihood is largest, {number(values.max())}, at λ = "
        f"{number(path.lifetimes[values.argmax()])}. The posterior over λ has mean "
        f"{number(posterior.mean)} and 90 % of its mass between {number(low)} and {number(high)}."
    )
    spread = path.log_marginal_likelihood_std.max()
    if spread > 0:
        caption += f" Both are estimates; the standard error is up to {number(spread)}."
    edges, density = _density_steps(posterior)
    steps = layer("steps", "yellow", "posterior over λ", edges=edges, heights=density)
    line = layer("line", "blue", name, x=path.lifetimes, y=values)
    spec = chart(_AXIS, name, steps, line, _mark(path, values))
    head = ["λ", name, "posterior probability from here to the next"]
    table = number_table(head, path.lifetimes, values, posterior.weights)
    return Figure("evidence", "Evidence, and the posterior over the width", caption, spec, table)


def _cells_figure(path: Any) -> Figure:
    line = layer("line", "blue", "cells of all trees of the path", x=path.lifetimes, y=path.n_cells)
    caption = (
        f"From {path.n_cells[0]} cells at λ = {number(path.lifetimes[0])} to {path.n_cells[-1]} at "
        f"λ = {number(path.lifetimes[-1])}; {path.n_cells[path.best_index[0]]} at the best "
        "lifetime of the path."
    )
    axis = {"label": "number of cells", "log": True}
    spec = chart(_AXIS, axis, line, _mark(path, path.n_cells))
    table = number_table(["λ", "cells"], path.lifetimes, path.n_cells)
    return Figure("cells", "Number of cells", caption, spec, table)


def _width_posterior(path: Any) -> Any:
    """Return the posterior over λ under a prior that is uniform in log λ on the path."""
    positive = path.lifetimes[path.lifetimes > 0]
    return path.posterior(stats.loguniform(positive[0], positive[-1]))


def _criterion(path: Any) -> str:
    """Return the name of the criterion that chose; a path of losses has rows held out."""
    criterion: str = getattr(path, "criterion", "holdout")
    return criterion


def _has_evidence(path: Any) -> bool:
    evidence = getattr(path, "log_marginal_likelihood", None)
    return evidence is not None and not np.isnan(evidence).all()


def _at_best_alpha(path: Any, values: FloatArray) -> FloatArray:
    best: FloatArray = values[np.arange(path.lifetimes.size), np.nanargmin(path.score, axis=1)]
    return best


def _density_steps(posterior: Any) -> tuple[FloatArray, FloatArray]:
    """Return positive edges (n + 1,) of the posterior's intervals, and its density of log λ."""
    lowest = posterior.lifetimes[posterior.lifetimes > 0][:1]
    edges = np.maximum(posterior.edges, lowest)
    kept = edges[1:] > edges[:-1]
    density = posterior.weights[kept] / np.log(edges[1:][kept] / edges[:-1][kept])
    return np.append(edges[:-1][kept], edges[-1]), density


def _mark(path: Any, values: Any) -> dict[str, Any]:
    """Return a layer with a dot at the best lifetime of a path."""
    k = [path.best_index[0]]
    return layer("points", "red", "best of the path", x=path.lifetimes[k], y=values[k], size=5)
