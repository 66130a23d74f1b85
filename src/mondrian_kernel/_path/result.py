"""The result of a lifetime path: arrays over (lifetime, alpha), and models read off them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.ridge import solve
from mondrian_kernel._path.best import BestOfGrid
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures

if TYPE_CHECKING:
    from mondrian_kernel._path.posterior import LifetimePosterior

CRITERIA = ("loo", "holdout", "evidence", "evidence-paper")


@dataclass(frozen=True, eq=False)
class LifetimePath(BestOfGrid):
    """Ridge regression at every (lifetime, alpha) of a grid, on one set of trees.

    Errors are mean squared errors, with one row for each lifetime and one column for each alpha.

    Attributes
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ, increasing.
    n_cells : ndarray of shape (L,)
        Number of cells C at each lifetime.
    alphas : ndarray of shape (A,)
        Ridge penalties δ², increasing.
    train_error, loo_error : ndarray of shape (L, A)
        Error on the rows, and when each row is left out in turn. Where ``solver`` is "lanczos" and
        there are more than 500 rows the second is estimated with random vectors, and so are the
        likelihoods below; with the criterion "holdout", which does not need them, these are NaN
        wherever ``solver`` is "lanczos".
    loo_error_std : ndarray of shape (L, A)
        Standard error of ``loo_error`` from the random vectors; 0 where it is exact.
    validation_error : ndarray of shape (L, A) or None
        Error on the rows given as ``validation``.
    log_marginal_likelihood : ndarray of shape (L, A)
        Log-likelihood of y with the signal variance at its best.
    log_marginal_likelihood_paper : ndarray of shape (L, A)
        The same with prior variance 1 of the weights and noise variance alpha, as in the paper.
    log_marginal_likelihood_std : ndarray of shape (L, A)
        Standard error of both; 0 where they are exact.
    solver : ndarray of shape (L,)
        "dense" (exact), "lanczos" (matrix-free) or "every cut" (exact updates).
    criterion : str
        What ``score`` holds.
    complete : bool
        False where the path was interrupted.
    slack : float
        The best lifetime is the smallest at which the score is within this share of its minimum: 0
        but for the paths of models, as the noise of few trees makes narrow kernels look best.
    """

    train_error: FloatArray
    loo_error: FloatArray
    loo_error_std: FloatArray
    validation_error: FloatArray | None
    log_marginal_likelihood: FloatArray
    log_marginal_likelihood_paper: FloatArray
    log_marginal_likelihood_std: FloatArray
    solver: NDArray[np.str_]
    criterion: str
    complete: bool
    trees: MondrianFeatures
    _leaf: IntArray
    _y: FloatArray
    _sample_weight: FloatArray | None
    _fit_intercept: bool
    _offset: FloatArray
    slack: float = 0.0

    @property
    def best_index(self) -> tuple[int, int]:
        """Indices of the best lifetime and alpha."""
        score = np.where(np.isnan(self.score), np.inf, self.score)
        best = score.min(axis=1)
        k = int(np.argmax(best <= best.min() + self.slack * abs(best.min())))
        return k, int(np.argmin(score[k]))

    @cached_property
    def score(self) -> FloatArray:
        """Value of the criterion, lower is better, of shape (L, A)."""
        return criterion_values(
            self.criterion, self.loo_error, self.validation_error,
            self.log_marginal_likelihood, self.log_marginal_likelihood_paper,
        )  # fmt: skip

    def features(self, lifetime: float | None = None) -> MondrianFeatures:
        """Return the features at a lifetime (default: the best), a fitted transformer."""
        return self.trees.at(self.best_lifetime if lifetime is None else lifetime)

    def coef(
        self, lifetime: float | None = None, alpha: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Weights and intercept at a lifetime and alpha (default: the best).

        Returns
        -------
        coef : ndarray of shape (n_cells,) or (n_cells, n_outputs)
            Weights of the features.
        intercept : ndarray of shape () or (n_outputs,)
            Intercept.
        """
        alpha = self.best_alpha if alpha is None else alpha
        if not 0 < alpha < np.inf:
            raise ValueError(f"alpha must be positive and finite, got {alpha}.")
        fit = solve(self._design(lifetime), self._y, alpha)
        intercept = fit.intercept + self._offset
        if self._y.shape[1] == 1:
            return fit.coef[:, 0], intercept[0]
        return fit.coef, intercept

    def predict(
        self, X: ArrayLike, lifetime: float | None = None, alpha: float | None = None
    ) -> FloatArray:
        """Predict rows at a lifetime and alpha (default: the best)."""
        coef, intercept = self.coef(lifetime, alpha)
        prediction: FloatArray = self.features(lifetime).transform(X) @ coef + intercept
        return prediction

    def posterior(
        self, prior: Any, *, alpha: float | None = None, evidence: str = "evidence"
    ) -> LifetimePosterior:
        """Posterior over the lifetime given a prior; see :func:`lifetime_posterior`."""
        from mondrian_kernel._path.posterior import lifetime_posterior

        return lifetime_posterior(self, prior, alpha=alpha, evidence=evidence)

    def _design(self, lifetime: float | None) -> CellOperator:
        cells = self.features(lifetime)._cells
        return CellOperator(
            cells.column[self._leaf],
            cells.total,
            sample_weight=self._sample_weight,
            centre=self._fit_intercept,
            n_jobs=self.trees.n_jobs,
        )


def criterion_values(
    criterion: str,
    loo: FloatArray,
    validation: FloatArray | None,
    evidence: FloatArray,
    evidence_paper: FloatArray,
) -> FloatArray:
    """Values of a criterion by name, the lower the better."""
    if criterion == "holdout":
        assert validation is not None
        return validation
    return {"loo": loo, "evidence": -evidence, "evidence-paper": -evidence_paper}[criterion]
