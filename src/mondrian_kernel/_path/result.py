"""The result of a lifetime path: named curves over (lifetime, alpha), and models read off them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._linear.ridge import Fit, solve
from mondrian_kernel._trees.checks import require
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures

if TYPE_CHECKING:
    from mondrian_kernel._path.posterior import LifetimePosterior

CRITERIA = ("loo", "holdout", "evidence", "evidence-paper")

# For each criterion the curves that it may be read from, and their labels.
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


@dataclass(frozen=True, eq=False)
class RidgeRows:
    """Rows that ridge models at any lifetime of a path are solved from.

    ``trees`` are the features at the end of the path, ``leaf`` (N, M) the leaf of each row in each
    tree, ``y`` (N, T) the targets less ``offset`` (T,), ``sample_weight`` (N,) or None.
    """

    trees: MondrianFeatures
    leaf: IntArray
    y: FloatArray
    sample_weight: FloatArray | None
    fit_intercept: bool
    offset: FloatArray

    def operator(self, lifetime: float) -> CellOperator:
        """Return the rows at a lifetime."""
        levels = self.trees.at(lifetime).levels_
        return CellOperator(
            levels.column[0][self.leaf],
            levels.n_features,
            sample_weight=self.sample_weight,
            centre=self.fit_intercept,
            n_jobs=self.trees.n_jobs,
        )

    def check(self) -> None:
        """Raise ValueError unless these can be rows of the trees."""
        self.trees.trees_.check_leaves(self.leaf)
        n_rows, weight = self.leaf.shape[0], self.sample_weight
        fits = self.y.shape == (n_rows, self.offset.size) and self.offset.ndim == 1 and n_rows > 0
        require(fits, f"y of the shape {self.y.shape} for {n_rows} rows")
        finite = np.isfinite(self.y).all() and np.isfinite(self.offset).all()
        require(finite, "a target that is not finite")
        if weight is not None:
            positive = weight.shape == (n_rows,) and (np.isfinite(weight) & (weight > 0)).all()
            require(positive, "weights of rows that are not positive")

    def fit(self, operator: CellOperator, alpha: float) -> Fit:
        """Fit ridge regression to the rows at a lifetime."""
        fit = solve(operator, self.y, alpha)
        return fit._replace(intercept=fit.intercept + self.offset)


@dataclass(frozen=True, eq=False)
class SgdWeights:
    """Averaged weights (C, K) and intercept (K,) of stochastic gradients at the last lifetime.

    ``classes`` are those of the K scores, or of the two signs of one score; None for numbers.
    """

    trees: MondrianFeatures
    coef: FloatArray
    intercept: FloatArray
    classes: NDArray[Any] | None

    def check(self) -> None:
        """Raise ValueError unless these can be weights of the cells."""
        n_scores = self.intercept.size
        fits = self.intercept.ndim == 1 and self.coef.shape == (self.trees.n_cells_, n_scores)
        require(fits, f"weights of the shape {self.coef.shape}")
        known = self.classes is None or self.classes.shape == (max(n_scores, 2),)
        require(known, f"{n_scores} scores of other classes")
        finite = np.isfinite(self.coef).all() and np.isfinite(self.intercept).all()
        require(finite, "a weight that is not finite")


def _curve(name: str, doc: str) -> Any:
    """Return the property that is a curve of a path; one of rows held out may be None."""

    def read(path: LifetimePath) -> FloatArray | None:
        if name not in path.curves and not name.startswith("validation"):
            raise AttributeError(f"This path has no {name}: it has {', '.join(path.curves)}.")
        return path.curves.get(name)

    return property(read, doc=doc)


@dataclass(frozen=True, eq=False, repr=False)
class LifetimePath:
    r"""A linear learner at every (lifetime, alpha) of a grid, on one set of trees.

    Made by :func:`lifetime_path`, :func:`every_cut_path` and :func:`sgd_path`; models that choose
    their own width keep one as ``path_``.

    Attributes
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ, increasing.
    n_cells : ndarray of shape (L,)
        Number of cells C at each lifetime.
    alphas : ndarray of shape (A,)
        Penalties α, increasing; shrinkages of a forest.
    curves : dict of str to ndarray of shape (L, A)
        What was computed, by name. Ridge regression has ``train_error``, ``loo_error``,
        ``loo_error_std``, ``log_marginal_likelihood``, ``log_marginal_likelihood_paper``,
        ``log_marginal_likelihood_std`` and, with rows held out, ``validation_error``. Other losses
        have ``train_loss`` and ``validation_loss``, a forest ``loo_error``. Each of them is a
        property as well. Errors are mean squared errors.
    criterion : {"loo", "holdout", "evidence", "evidence-paper", "train"}
        Which score chooses the lifetime.
    complete : bool
        False where the path was interrupted.
    solver : ndarray of shape (L,) or None
        For ridge regression "dense" (exact), "lanczos" (matrix-free) or "every cut" (exact
        updates). Where it is "lanczos" and there are more than 500 rows, ``loo_error`` and the
        likelihoods are estimated with random vectors; with the criterion "holdout", which does not
        need them, they are NaN.
    model : RidgeRows, SgdWeights or None
        What :meth:`coef` and :meth:`predict` are made of; None where the path holds scores only.
    slack : float
        The best lifetime is the smallest at which the score is within this share of its minimum.
        It is above 0 in the paths of models: the noise of few trees makes narrow kernels look best.
    """

    lifetimes: FloatArray
    n_cells: NDArray[np.int64]
    alphas: FloatArray
    curves: dict[str, FloatArray]
    criterion: str
    complete: bool = True
    solver: NDArray[np.str_] | None = None
    model: RidgeRows | SgdWeights | None = None
    slack: float = 0.0

    @cached_property
    def score(self) -> FloatArray:
        """Value of the criterion, lower is better, of shape (L, A); NaN where not computed."""
        score = next(self.curves[name] for name in _CURVES[self.criterion] if name in self.curves)
        return -score if self.criterion.startswith("evidence") else score

    @property
    def score_name(self) -> str:
        """What :attr:`score` is."""
        labels = _CURVES[self.criterion].items()
        label = next(label for name, label in labels if name in self.curves)
        return f"minus {label}" if self.criterion.startswith("evidence") else label

    @property
    def best_index(self) -> tuple[int, int]:
        """Indices of the best lifetime and alpha."""
        score = np.where(np.isnan(self.score), np.inf, self.score)
        best = score.min(axis=1)
        k = int(np.argmax(best <= best.min() + self.slack * abs(best.min())))
        return k, int(np.argmin(score[k]))

    @property
    def best_lifetime(self) -> float:
        """Lifetime λ̂ with the best score."""
        return float(self.lifetimes[self.best_index[0]])

    @property
    def best_alpha(self) -> float:
        """Alpha with the best score."""
        return float(self.alphas[self.best_index[1]])

    train_error = _curve("train_error", "Mean squared error on the rows that were fitted, (L, A).")
    loo_error = _curve("loo_error", "Mean squared error when each row is left out in turn, (L, A).")
    loo_error_std = _curve("loo_error_std", "Its standard error, 0 where it is exact, (L, A).")
    validation_error = _curve(
        "validation_error", "Mean squared error on the rows held out, (L, A), or None."
    )
    log_marginal_likelihood = _curve(
        "log_marginal_likelihood", "Log-likelihood with the best signal variance, (L, A)."
    )
    log_marginal_likelihood_paper = _curve(
        "log_marginal_likelihood_paper", "The same with variance 1 and noise alpha, (L, A)."
    )
    log_marginal_likelihood_std = _curve(
        "log_marginal_likelihood_std", "Standard error of both, (L, A)."
    )
    train_loss = _curve("train_loss", "Mean loss on the rows that were fitted, (L, A).")
    validation_loss = _curve("validation_loss", "Mean loss on the rows held out, (L, A), or None.")

    @property
    def trees(self) -> MondrianFeatures:
        """The features at the end of the path, fitted."""
        return self._fitted().trees

    def features(self, lifetime: float | None = None) -> MondrianFeatures:
        """Return the features at a lifetime, a fitted transformer.

        Parameters
        ----------
        lifetime : float or None, default=None
            Lifetime λ. None: the best, or the last of a path by stochastic gradients.

        Returns
        -------
        features : MondrianFeatures
            Features which share the trees of the path.
        """
        return self._fitted().trees.at(self._lifetime(lifetime))

    def coef(
        self, lifetime: float | None = None, alpha: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Weights and intercept at a lifetime and alpha.

        Parameters
        ----------
        lifetime, alpha : float or None, default=None
            Lifetime and penalty. None: the best ones. Stochastic gradients have weights at the last
            lifetime only, which is then the default.

        Returns
        -------
        coef : ndarray of shape (n_cells,) or (n_cells, n_outputs)
            Weights of the features.
        intercept : ndarray of shape () or (n_outputs,)
            Intercept.
        """
        model, lifetime = self._fitted(), self._lifetime(lifetime)
        alpha = self.best_alpha if alpha is None else alpha
        if not 0 < alpha < np.inf:
            raise ValueError(f"alpha must be positive and finite, got {alpha}.")
        if isinstance(model, RidgeRows):
            coef, intercept, _ = model.fit(model.operator(lifetime), alpha)
        elif lifetime != self.lifetimes[-1] or alpha != self.alphas[0]:
            raise ValueError(
                "A path by stochastic gradients keeps the weights of its last lifetime only, "
                f"{self.lifetimes[-1]:.6g}, at alpha={self.alphas[0]:.6g}."
            )
        else:
            coef, intercept = model.coef, model.intercept
        return (coef[:, 0], intercept[0]) if coef.shape[1] == 1 else (coef, intercept)

    def predict(
        self, X: ArrayLike, lifetime: float | None = None, alpha: float | None = None
    ) -> NDArray[Any]:
        """Predict rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, fitted before or new.
        lifetime, alpha : float or None, default=None
            As in :meth:`coef`.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predicted numbers, or classes where y held classes.
        """
        coef, intercept = self.coef(lifetime, alpha)
        scores: FloatArray = self.features(lifetime).transform(X) @ coef + intercept
        classes = self.model.classes if isinstance(self.model, SgdWeights) else None
        if classes is None:
            return scores
        best = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)
        named: NDArray[Any] = classes[best]
        return named

    def posterior(
        self, prior: Any, *, alpha: float | None = None, evidence: str = "evidence"
    ) -> LifetimePosterior:
        """Posterior over the lifetime given a prior; see :func:`lifetime_posterior`."""
        from mondrian_kernel._path.posterior import lifetime_posterior

        return lifetime_posterior(self, prior, alpha=alpha, evidence=evidence)

    def check(self) -> None:
        """Raise ValueError unless the curves are those of the lifetimes and alphas."""
        L, A = self.lifetimes.size, self.alphas.size
        for name, values, shape in [
            ("lifetimes", self.lifetimes, (L,)),
            ("n_cells", self.n_cells, (L,)),
            ("alphas", self.alphas, (A,)),
            *((name, values, (L, A)) for name, values in self.curves.items()),
        ]:
            fits = values.shape == shape and 0 not in shape
            require(fits, f"{name} of the shape {values.shape}, not {shape}")
        end = np.inf if self.model is None else self.model.trees.lifetime_
        rising = (np.diff(self.lifetimes) >= 0).all() and (np.diff(self.alphas) > 0).all()
        in_order = rising and 0 <= self.lifetimes[0] <= self.lifetimes[-1] <= end
        require(in_order, "lifetimes or alphas out of order or out of range")
        least = self.alphas[0] >= 0 if self.model is None else self.alphas[0] > 0
        in_range = least and np.isfinite(self.alphas[-1]) and 0 <= self.slack < np.inf
        require(in_range, "an alpha or a slack out of range")
        require(self.solver is None or self.solver.shape == (L,), "a solver of another shape")
        judged = any(name in self.curves for name in _CURVES.get(self.criterion, ()))
        require(judged, f"no curve of the criterion {self.criterion!r}")

    def _fitted(self) -> RidgeRows | SgdWeights:
        if self.model is None:
            raise ValueError("This path holds scores only, and no model to predict with.")
        return self.model

    def _lifetime(self, lifetime: float | None) -> float:
        if lifetime is not None:
            return lifetime
        last = isinstance(self.model, SgdWeights)
        return float(self.lifetimes[-1]) if last else self.best_lifetime

    def __repr__(self) -> str:
        (k, a), curve = self.best_index, curves(self)[self.criterion]
        ends = [f"{v[0]:.3g} to {v[-1]:.3g}" for v in (self.lifetimes, self.alphas)]
        sizes = f"{self.lifetimes.size} lifetimes {ends[0]}, {self.alphas.size} alphas {ends[1]}"
        return (
            f"LifetimePath({sizes}{'' if self.complete else ', interrupted'})\n"
            f"  best: lifetime {self.lifetimes[k]:.4g}, alpha {self.alphas[a]:.3g}, "
            f"{self.n_cells[k]} cells, {curve.name}: {curve.values[k, a]:.4g}\n"
            f"  curves: {', '.join(self.curves)}"
        )

    def _repr_html_(self) -> str:
        from mondrian_kernel._path.html_repr import path_html

        return path_html(self)


class Curve(NamedTuple):
    """A quantity along a path: its ``name`` and its ``values`` (L, A)."""

    name: str
    values: FloatArray


def curves(path: LifetimePath) -> dict[str, Curve]:
    """Return the curves of a path, by the criterion that they are of.

    "train" is the training error. Curves that the solver left out, all NaN, are not returned.
    """
    return {
        criterion: Curve(label, path.curves[name])
        for criterion, places in _CURVES.items()
        for name, label in places.items()
        if name in path.curves and not np.isnan(path.curves[name]).all()
    }


def best_alphas(path: LifetimePath) -> NDArray[np.intp]:
    """Index of the alpha that is best at each lifetime, of shape (L,)."""
    best: NDArray[np.intp] = np.nanargmin(path.score, axis=1)
    return best
