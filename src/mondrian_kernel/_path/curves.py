"""The curves of a lifetime path by name, whichever learner it is of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray

# Of a kind of curve: where a path may hold it, and what it is called.
_CURVES = {
    "holdout": {
        "validation_error": "mean squared error, rows held out",
        "validation_loss": "mean loss, rows held out",
    },
    "loo": {"loo_error": "mean squared error, leave-one-out"},
    "train": {
        "train_error": "mean squared error, fitted rows",
        "train_loss": "mean loss, fitted rows",
    },
    "evidence": {"log_marginal_likelihood": "log marginal likelihood"},
    "evidence-paper": {"log_marginal_likelihood_paper": "log marginal likelihood, unit variance"},
}


class Curve(NamedTuple):
    """A quantity along a path: its ``name`` and its ``values`` (L, A), A = 1 without alphas."""

    name: str
    values: FloatArray


def curves(path: Any) -> dict[str, Curve]:
    """Return what was computed along a path, by the name of its criterion.

    "train" is the training error. What is NaN throughout was left out by the solver.
    """
    found = {}
    for criterion, places in _CURVES.items():
        for attribute, name in places.items():
            values = getattr(path, attribute, None)
            if values is not None and not np.isnan(values).all():
                found[criterion] = Curve(name, values.reshape(path.lifetimes.size, -1))
    return found


def own_criterion(path: Any) -> str:
    """Return the name of the curve that decided."""
    named: str | None = getattr(path, "criterion", None)
    return named or next(iter(curves(path)))


def best_alphas(path: Any) -> NDArray[np.intp]:
    """Index of the alpha that is best at each lifetime, of shape (L,)."""
    score = path.score.reshape(path.lifetimes.size, -1)
    best: NDArray[np.intp] = np.nanargmin(score, axis=1)
    return best


def best_lifetime_index(path: Any) -> int:
    """Index of the best lifetime."""
    return int(np.ravel(path.best_index)[0])
