"""The lifetimes in a report: the slider, the words on the choice, and the figures of the path."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._settings import (
    SLIDER_OCTAVES,
    SLIDER_POSITIONS,
    SLIDER_ROWS,
    SLIDER_STEPS_PER_OCTAVE,
    SLIDER_TREES,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.figures import (
    Figure,
    Model,
    chart,
    layer,
    number,
    number_table,
    percent,
)

_AXIS = {"label": "lifetime λ", "log": True}


@dataclass(frozen=True)
class Slider:
    """The positions of the slider: small models of one lifetime, and the estimator at its own.

    Attributes
    ----------
    estimator : fitted estimator
        The estimator that is reported on. Its position is the weighted mean of its lifetimes.
    path : LifetimePath or None
        The path on which the estimator chose its lifetime. Where it learnt several, the path of a
        small model that has one.
    lifetimes : ndarray of shape (n_positions,)
        Lifetime of each position, increasing.
    models : list of estimators
        A small model at each position, also at the estimator's own, to compare with each other.
    size : str
        How many trees and rows the small models have.
    """

    estimator: Any
    path: Any
    lifetimes: FloatArray
    models: list[Any]
    size: str

    @classmethod
    def of(cls, model: Model) -> Slider:
        """Fit the small models to some of the rows."""
        estimator = model.estimator
        fit, size = small_models(estimator, model.X_train, model.y_train)
        one = fit("path", "auto") if estimator.lifetime == "auto" else estimator
        path = None if one.path_ is None or one.path_.lifetimes.size < 3 else one.path_
        lifetimes = slider_lifetimes(estimator.lifetime_, path)
        models = [fit(float(lifetime), one.alpha_) for lifetime in lifetimes]
        return cls(estimator, path, lifetimes, models, size)

    @property
    def chosen(self) -> int:
        """Position of the estimator."""
        return int(np.flatnonzero(self.lifetimes == self.estimator.lifetime_)[0])

    @property
    def shown(self) -> list[Any]:
        """The model to show at each position: the small ones, and the estimator at its own."""
        shown = self.models.copy()
        shown[self.chosen] = self.estimator
        return shown

    def readouts(self, words: Iterable[str]) -> list[str]:
        """Return for each position its lifetime, the given words, and which model is shown."""
        said = []
        for lifetime, model, some in zip(self.lifetimes, self.shown, words, strict=True):
            cells = model.features_.n_cells_ / model.features_.n_estimators
            which = "the model itself" if model is self.estimator else f"a model of {self.size}"
            said.append(f"λ = {number(lifetime)}: {some}, {cells:.1f} cells a tree; {which}")
        return said


def slider_lifetimes(own: float, path: Any) -> FloatArray:
    """Return the lifetimes of the slider: some of the path, some beyond it, and the model's own."""
    if own == 0:
        return np.zeros(1)
    low, high = SLIDER_OCTAVES
    lifetimes = own * 2.0 ** np.linspace(low, high, SLIDER_STEPS_PER_OCTAVE * (high - low) + 1)
    if path is not None:
        step = np.linspace(0, path.lifetimes.size - 1, SLIDER_POSITIONS)
        some = path.lifetimes[np.unique(step.round().astype(int))]
        beyond = (lifetimes < some[0]) | (lifetimes > some[-1])
        lifetimes = np.concatenate([lifetimes[beyond], some[some > 0], [own]])
    return np.unique(lifetimes)


def small_models(
    estimator: Any, X: FloatArray, y: NDArray[Any]
) -> tuple[Callable[[float | str, float | str], Any], str]:
    """Return a function that fits a model at a lifetime and alpha, and how large such models are.

    They see the columns as the estimator does, but have fewer rows and trees. One seed for all
    makes the trees of a larger lifetime those of a smaller one, grown further.
    """
    n_trees = min(estimator.features_.n_estimators, SLIDER_TREES)
    rows = _sample_rows(X.shape[0], y if hasattr(estimator, "classes_") else None)
    columns, targets = estimator.model_.columns, y[rows]
    T = columns(X[rows])
    small = clone(estimator).set_params(
        n_estimators=n_trees,
        scale=None,
        relevance="equal",
        max_cells=None,
        random_state=estimator.random_state if isinstance(estimator.random_state, int) else 0,
        verbose=0,
    )

    def fit(lifetime: float | str, alpha: float | str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = clone(small).set_params(lifetime=lifetime, alpha=alpha).fit(T, targets)
        model._model = replace(model._fitted(), columns=columns)
        return model

    return fit, f"{n_trees} trees on {rows.size} rows"


def width_posterior(path: Any) -> Any:
    """Return the posterior over λ under a prior that is uniform in log λ on the path."""
    positive = path.lifetimes[path.lifetimes > 0]
    return path.posterior(stats.loguniform(positive[0], positive[-1]))


def choice_words(slider: Slider) -> list[str]:
    """Return sentences on how lifetime and alpha were chosen, and how certain the choice is."""
    estimator, path = slider.estimator, slider.path
    lifetime = estimator.lifetime_
    pair = f"The lifetime λ = {number(lifetime)} and alpha = {number(estimator.alpha_)}"
    width = "At λ = 0 the kernel is constant: only the mean is learnt."
    if lifetime > 0:
        width = (
            f"Two rows have correlation 0.37 if their scaled inputs differ by 1/λ = "
            f"{number(1 / lifetime)} in sum. A larger λ means a narrower kernel, finer detail and "
            "more cells."
        )
    if estimator.lifetime == "auto":
        words = [_learnt_words(slider)]
    elif path is None:
        how = "were given" if estimator.path_ is None else "come from a path too short to show"
        return [f"{pair} {how}. {width}"]
    else:
        words = [f"{pair} were chosen {_tried(path)}. {width}"]
    if path is None:
        return words
    if estimator.lifetime == "average":
        words.append(
            "This is the likeliest lifetime. Predictions are averaged over all of the path, with "
            "the posterior probabilities as weights."
        )
    if _has_evidence(path):
        low, high = width_posterior(path).interval(0.9)
        words.append(
            f"λ lies between {number(low)} and {number(high)} with probability 90 %, by the "
            "marginal likelihood, if all widths of the path are equally likely beforehand."
        )
    elif "log_marginal_likelihood" in path.curves:
        words.append(
            "The marginal likelihood was not computed along this path, so there is no posterior "
            "over λ. Fit with lifetime='path' and criterion='evidence' to have both."
        )
    if path.best_index[0] in (0, path.lifetimes.size - 1):
        words.append("Note: the best lifetime is at an end of the path; one beyond may be better.")
    if lifetime < path.best_lifetime and path is estimator.path_:
        best = number(path.best_lifetime)
        words.append(f"Note: max_cells stopped the trees before the best lifetime, {best}.")
    return words


def _learnt_words(slider: Slider) -> str:
    """Say what a model of several lifetimes has learnt, and what the slider compares it with."""
    model, path = slider.estimator, slider.path
    each = zip(model.lifetimes_, model.lifetime_weights_, strict=True)
    listed = ", ".join(f"{number(t)} ({percent(round(w, 3))})" for t, w in each)
    words = (
        "The model has learnt a function of each column, a smooth trend, and the weights of the "
        f"lifetimes λ of its cells: {listed}. A larger λ means smaller cells and finer detail. The "
        f"slider shows models of one lifetime ({slider.size}) on the same columns, without a trend."
    )
    if path is None:
        return words
    best = number(path.best_lifetime)
    return f"{words} With one lifetime, λ = {best} is the best {_tried(path)}."


def _tried(path: Any) -> str:
    by = {"loo": "the leave-one-out error", "holdout": "the error on rows held out"}
    criterion = by.get(_criterion(path), "the marginal likelihood")
    tried = f"{path.lifetimes.size} lifetimes × {path.alphas.size} alphas"
    return f"among {tried} by {criterion}"


def path_figures(slider: Slider, error_name: str, errors: FloatArray) -> list[Figure]:
    """Return the figures of the path; ``errors`` are those of the small models on test rows."""
    path = slider.path
    figures = []
    if slider.lifetimes.size > 1:
        figures.append(_error_figure(path, error_name, slider, errors))
    if path is not None:
        if _has_evidence(path):
            figures.append(_evidence_figure(path))
        figures.append(_cells_figure(path))
    return figures


def _error_figure(path: Any, error_name: str, slider: Slider, errors: FloatArray) -> Figure:
    name, lifetimes = f"{error_name}, test rows", slider.lifetimes
    layers = [{"type": "cursor"}, layer("line", "grey", name, x=lifetimes, y=errors, dashed=True)]
    best = number(lifetimes[errors.argmin()])
    caption = f"The {name}, is lowest at λ = {best}, for models of {slider.size}."
    table = number_table(["λ", name], lifetimes, errors)
    if path is not None:
        name, values = _path_error(path)
        layers += [layer("line", "blue", name, x=path.lifetimes, y=values), _mark(path, values)]
        caption = (
            f"The {name}, is {number(values[path.best_index[0]])} at the best lifetime of the "
            f"path, {number(values[0])} and {number(values[-1])} at its ends. {caption}"
        )
        table = number_table(["λ", name], path.lifetimes, values)
    spec = chart(_AXIS, error_name, *layers)
    return Figure("error", "Error at every width", caption, spec, table)


def _path_error(path: Any) -> tuple[str, FloatArray]:
    """Return name and values of the error or loss along a path, at the best alpha of each λ."""
    if "loo_error" not in path.curves:
        return "mean loss, rows held out", _at_best_alpha(path, path.curves["validation_loss"])
    if _criterion(path) == "holdout":
        values, rows = path.validation_error, "rows held out"
    else:
        values, rows = path.loo_error, "leave-one-out"
    return f"root mean squared error, {rows}", np.sqrt(_at_best_alpha(path, values))


def _evidence_figure(path: Any) -> Figure:
    name = "log marginal likelihood"
    values = _at_best_alpha(path, path.log_marginal_likelihood)
    posterior = width_posterior(path)
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
    spec = chart(_AXIS, name, steps, {"type": "cursor"}, line, _mark(path, values))
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
    spec = chart(_AXIS, axis, {"type": "cursor"}, line, _mark(path, path.n_cells))
    table = number_table(["λ", "cells"], path.lifetimes, path.n_cells)
    return Figure("cells", "Number of cells", caption, spec, table)


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


def _sample_rows(n_rows: int, classes: NDArray[Any] | None) -> NDArray[np.intp]:
    """Draw some rows, at least one of each class."""
    order = np.random.default_rng(0).permutation(n_rows)
    if classes is None:
        return order[:SLIDER_ROWS]
    _, first = np.unique(classes[order], return_index=True)
    order = np.concatenate([order[first], np.delete(order, first)])
    return order[: max(SLIDER_ROWS, first.size)]
