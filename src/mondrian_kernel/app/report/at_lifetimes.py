"""Models at other lifetimes than the chosen one, for the report's slider."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.figure import number

_ROWS, _TREES = 1500, 200
_PLACES = 15
# Beyond a path, and where there is none: from wider to narrower kernels around the model's.
_AROUND = 2.0 ** np.linspace(-3, 2, 11)


@dataclass(frozen=True)
class Slider:
    """The places of the slider: models at other lifetimes, and the estimator at its own.

    Attributes
    ----------
    estimator : fitted estimator
        What the report is on.
    lifetimes : ndarray of shape (n_places,)
        Lifetime of each place, increasing.
    models : list of estimators
        A smaller model at each place, the estimator's own too: to be compared among each other.
    small : str
        How many trees and rows those have.
    """

    estimator: Any
    lifetimes: FloatArray
    models: list[Any]
    small: str

    @classmethod
    def of(cls, estimator: Any, X: FloatArray, y: NDArray[Any]) -> Slider:
        """Fit the smaller models to some of the rows."""
        lifetimes = slider_lifetimes(estimator)
        return cls(estimator, lifetimes, *models_at(estimator, X, y, lifetimes))

    @property
    def chosen(self) -> int:
        """Place of the estimator."""
        return int(np.flatnonzero(self.lifetimes == self.estimator.lifetime_)[0])

    @property
    def shown(self) -> list[Any]:
        """The model to show at each place: the smaller ones, and the estimator at its own."""
        shown = self.models.copy()
        shown[self.chosen] = self.estimator
        return shown

    def readouts(self, words: Iterable[str]) -> list[str]:
        """Say of each place its lifetime, the words, and what model it is that is shown."""
        said = []
        for lifetime, model, some in zip(self.lifetimes, self.shown, words, strict=True):
            cells = model.features_.n_cells_ / model.features_.trees_.n_trees
            whose = "the model itself" if model is self.estimator else f"a model of {self.small}"
            said.append(f"λ = {number(lifetime)}: {some}, {cells:.1f} cells a tree; {whose}")
        return said


def whole_path(estimator: Any) -> Any:
    """Return the path on which a model chose its lifetime; None where there was no choice."""
    path = estimator.path_
    return None if path is None or path.lifetimes.size < 3 else path


def slider_lifetimes(estimator: Any) -> FloatArray:
    """Lifetimes of the slider, increasing: of the path, beyond it, and the model's own."""
    own, path = estimator.lifetime_, whole_path(estimator)
    if own == 0:
        return np.zeros(1)
    lifetimes = own * _AROUND
    if path is not None:
        step = np.linspace(0, path.lifetimes.size - 1, _PLACES)
        some = path.lifetimes[np.unique(step.round().astype(int))]
        beyond = (lifetimes < some[0]) | (lifetimes > some[-1])
        lifetimes = np.concatenate([lifetimes[beyond], some[some > 0], [own]])
    return np.unique(lifetimes)


def models_at(
    estimator: Any, X: FloatArray, y: NDArray[Any], lifetimes: FloatArray
) -> tuple[list[Any], str]:
    """Return a model for each lifetime, and how many trees and rows they have.

    They have the estimator's penalty and scales and one seed, so that the trees of one lead on to
    those of the next, but fewer rows and trees: they show what a width does.
    """
    n_trees = min(estimator.features_.n_estimators, _TREES)
    rows = _sample(X.shape[0], y if hasattr(estimator, "classes_") else None)
    seed = estimator.random_state if isinstance(estimator.random_state, int) else 0
    small = clone(estimator).set_params(
        alpha=estimator.alpha_, n_estimators=n_trees, scale=estimator.scale_, relevance="equal",
        max_cells=None, random_state=seed, verbose=0,
    )  # fmt: skip
    models = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for lifetime in lifetimes:
            model = clone(small).set_params(lifetime=float(lifetime))
            models.append(model.fit(X[rows], y[rows]))
    return models, f"{n_trees} trees on {rows.size} rows"


def _sample(n_rows: int, classes: NDArray[Any] | None) -> NDArray[np.intp]:
    """Draw some rows, of each class at least one."""
    order = np.random.default_rng(0).permutation(n_rows)
    if classes is not None:
        _, first = np.unique(classes[order], return_index=True)
        order = np.concatenate([order[first], np.delete(order, first)])
        return order[: max(_ROWS, first.size)]
    return order[:_ROWS]
