"""The part of a report on the lifetime path: error, evidence, cells and posterior against λ."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel._path.html_repr import density_steps
from mondrian_kernel._path.posterior import width_posterior
from mondrian_kernel._path.result import LifetimePath, best_alphas, curves
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.at_lifetimes import Slider, whole_path
from mondrian_kernel.app.report.figure import Figure, Table, number, plain

_X = {"label": "lifetime λ", "log": True}


def path_words(estimator: Any) -> list[str]:
    """Say what was chosen, among what, and how sure one can be of it."""
    lifetime, path = estimator.lifetime_, whole_path(estimator)
    pair = f"The lifetime λ = {number(lifetime)} and alpha = {number(estimator.alpha_)}"
    width = (
        f"Two rows whose scaled inputs differ by 1/λ = {number(1 / lifetime)} in sum have a "
        "correlation of 0.37; a larger λ means a narrower kernel, finer detail and more cells."
        if lifetime > 0
        else "At λ = 0 the kernel is constant: nothing but the mean is learnt."
    )
    if path is None:
        how = "were given" if estimator.path_ is None else "come of a path too short to show"
        return [f"{pair} {how}. {width}"]
    by = {"loo": "the leave-one-out error", "holdout": "the error on rows held out"}
    words = [
        f"{pair} were chosen among {path.lifetimes.size} × {path.alphas.size} by "
        f"{by.get(path.criterion, 'the marginal likelihood')}. {width}"
    ]
    if estimator.lifetime == "average":
        words.append(
            "That is the likeliest lifetime: predictions are averaged over all of the path, with "
            "their posterior probabilities."
        )
    if "evidence" in curves(path):
        low, high = width_posterior(path).interval(0.9)
        words.append(
            "By the marginal likelihood of the data, with all widths of the path equally likely "
            f"beforehand, λ lies between {number(low)} and {number(high)} with probability 90 %."
        )
    elif "train_error" in path.curves:
        words.append(
            "The marginal likelihood was not computed along this path, hence there is no posterior "
            "over λ; fit with criterion='evidence' to have both."
        )
    if path.best_index[0] in (0, path.lifetimes.size - 1):
        words.append("Mind: the best lifetime is at an end of the path; one beyond may be better.")
    if lifetime < path.best_lifetime:
        words.append(
            f"Mind: max_cells stopped the trees before the best lifetime, "
            f"{number(path.best_lifetime)}."
        )
    return words


def path_figures(slider: Slider, error_name: str, errors: FloatArray) -> list[Figure]:
    """Figures of the path; ``errors`` are of the slider's smaller models on test rows."""
    path = whole_path(slider.estimator)
    figures = []
    if slider.lifetimes.size > 1:
        figures.append(_error_figure(path, error_name, slider, errors))
    if path is not None:
        if "evidence" in curves(path):
            figures.append(_evidence_figure(path))
        figures.append(_cells_figure(path))
    return figures


def _error_figure(path: Any, error_name: str, slider: Slider, errors: FloatArray) -> Figure:
    name, lifetimes = f"{error_name}, test rows", slider.lifetimes
    tested = _line(lifetimes, errors, name, "grey") | {"dashed": True}
    layers = [{"type": "cursor"}, tested]
    caption = (
        f"The {name}, is least at λ = {number(lifetimes[errors.argmin()])}, for models of "
        f"{slider.small}."
    )
    table = _table(["λ", name], [lifetimes, errors])
    if path is not None:
        name, values = _path_error(path)
        layers += [_line(path.lifetimes, values, name, "blue"), _chosen(path, values)]
        caption = (
            f"The {name}, is {number(values[path.best_index[0]])} at the chosen lifetime, "
            f"{number(values[0])} and {number(values[-1])} at the ends of the path. {caption}"
        )
        table = _table(["λ", name], [path.lifetimes, values])
    spec = {"x": _X, "y": {"label": error_name}, "layers": layers}
    return Figure("error", "Error at every width", caption, spec, table)


def _path_error(path: Any) -> tuple[str, FloatArray]:
    """Error or loss along a path at the alphas that are best there; errors in the units of y."""
    held = curves(path)
    kind = path.criterion if path.criterion in ("loo", "holdout") else "loo"
    values = held[kind].values[np.arange(path.lifetimes.size), best_alphas(path)]
    if held[kind].name.startswith("mean squared"):
        return f"root {held[kind].name}", np.sqrt(values)
    return held[kind].name, values


def _evidence_figure(path: LifetimePath) -> Figure:
    values = path.log_marginal_likelihood[np.arange(path.lifetimes.size), best_alphas(path)]
    posterior = width_posterior(path)
    edges, density = density_steps(posterior)
    low, high = posterior.interval(0.9)
    steps = {
        "type": "steps", "edges": plain(edges), "heights": plain(density), "colour": "yellow",
        "name": "posterior over λ",
    }  # fmt: skip
    line = _line(path.lifetimes, values, "log marginal likelihood", "blue")
    caption = (
        f"The log marginal likelihood is largest, {number(values.max())}, at λ = "
        f"{number(path.lifetimes[values.argmax()])}. The posterior over λ has its mean at "
        f"{number(posterior.mean)} and 90 % between {number(low)} and {number(high)}."
    )
    spread = path.log_marginal_likelihood_std.max()
    if spread > 0:
        caption += f" Both are estimates; the standard error is up to {number(spread)}."
    layers = [steps, {"type": "cursor"}, line, _chosen(path, values)]
    spec = {"x": _X, "y": {"label": "log marginal likelihood"}, "layers": layers}
    table = _table(
        ["λ", "log marginal likelihood", "posterior probability from here to the next"],
        [path.lifetimes, values, posterior.weights],
    )
    return Figure("evidence", "Evidence, and the posterior over the width", caption, spec, table)


def _cells_figure(path: Any) -> Figure:
    line = _line(path.lifetimes, path.n_cells, "cells of all trees of the path", "blue")
    caption = (
        f"From {path.n_cells[0]} cells at λ = {number(path.lifetimes[0])} to {path.n_cells[-1]} at "
        f"λ = {number(path.lifetimes[-1])}; {path.n_cells[path.best_index[0]]} at the "
        "chosen lifetime."
    )
    layers = [{"type": "cursor"}, line, _chosen(path, path.n_cells)]
    spec = {"x": _X, "y": {"label": "number of cells", "log": True}, "layers": layers}
    table = _table(["λ", "cells"], [path.lifetimes, path.n_cells])
    return Figure("cells", "Number of cells", caption, spec, table)


def _line(x: FloatArray, y: Any, name: str, colour: str) -> dict[str, Any]:
    return {"type": "line", "x": plain(x), "y": plain(y), "name": name, "colour": colour}


def _chosen(path: Any, values: Any) -> dict[str, Any]:
    k = path.best_index[0]
    return {
        "type": "points", "x": plain(path.lifetimes[[k]]), "y": plain(values[[k]]),
        "colour": "red", "size": 5, "name": "chosen",
    }  # fmt: skip


def _table(head: list[str], columns: list[Any]) -> Table:
    return Table(head, [[number(float(v)) for v in row] for row in zip(*columns, strict=True)])
