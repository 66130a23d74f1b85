"""Mondrian forest for regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils.validation import validate_data

from mondrian_kernel._model.relevance import scale_and_relevance
from mondrian_kernel._online.model import check_stream
from mondrian_kernel._path.checks import check_weights, with_weight
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import draw_seed
from mondrian_kernel.forest.base import MondrianForest


class MondrianForestRegressor(MultiOutputMixin, RegressorMixin, MondrianForest):
    r"""Mondrian forest: the mean of trees whose leaf means are shrunk by γ².

    .. math::
        \hat f(x) = b + \frac1M \sum_m w^{(m)}_{c_m(x)}, \qquad
        w^{(m)}_c = \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    Every tree is fitted apart: the leaf values minimise :math:`\frac1M \sum_m \sum_i s_i (y_i -
    b - w^{(m)}_{c_m(x_i)})^2 + \gamma^2 \lVert w \rVert^2`, the mean of the losses of the trees,
    where :class:`MondrianKernelRegressor` minimises the loss of their mean. A leaf of a new row
    counts by the probability that the row lies in it.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the trees on the scaled inputs, or "auto" for the one with the least
        leave-one-out error.
    alpha : float or "auto", default="auto"
        Shrinkage γ² ≥ 0, in rows, or "auto" to choose it likewise.
    n_estimators : int, default=200
        Number of trees M.
    fit_intercept : bool, default=True
        Whether leaves are shrunk to the mean b of y. False for the paper's forest: b = 0.
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every input is divided by: its standard deviation, nothing, or the given numbers.
    relevance : {"auto", "learn", "equal"}, default="auto"
        How much each scaled input counts: learnt from at most 1000 of the rows, or all the same;
        "auto" learns it unless ``lifetime`` or ``scale`` are given as numbers. See
        :func:`mondrian_kernel._model.relevance.learn_relevance`.
    max_cells : int or None, default=None
        Bound on the number of cells of all trees.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    verbose : int or callable, default=0
        Whether to print how the path advances, or what to call instead: the ``callback`` of
        :func:`lifetime_path`.

    Attributes
    ----------
    lifetime_, alpha_ : float
        Lifetime and shrinkage of the fit.
    path_ : LifetimePath or None
        The path on which they were chosen; None where both were given.
    coef_ : ndarray of shape (n_cells,) or (n_cells, n_outputs)
        Leaf values over √M, the weights of the features.
    intercept_ : float or ndarray of shape (n_outputs,)
        Intercept b.
    features_ : MondrianFeatures
        The trees, on the scaled inputs.
    relevance_ : ndarray of shape (n_features_in_,)
        How much each scaled input counts, 1 on average.
    scale_ : ndarray of shape (n_features_in_,)
        What the inputs are divided by: their scale over their relevance.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianForestRegressor
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> y = np.sin(6 * X[:, 0])
    >>> forest = MondrianForestRegressor(n_estimators=50, random_state=0).fit(X, y)
    >>> bool(forest.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **MondrianForest._parameter_constraints,
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int = 200,
        *,
        fit_intercept: bool = True,
        scale: Any = "std",
        relevance: str = "auto",
        max_cells: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.relevance = relevance
        self.max_cells = max_cells
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianForestRegressor:
        """Choose the width and fit every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.

        Returns
        -------
        self : MondrianForestRegressor
            The fitted forest.
        """
        rows, targets = validate_data(
            self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
        rows, Y, weight = with_weight(rows, Y, check_weights(sample_weight, rows))
        seed = draw_seed(self.random_state)
        scales = scale_and_relevance(self, rows, Y, weight, seed)
        self._means = self._fit_leaves(
            rows, Y, weight, scales, seed, fit_intercept=self.fit_intercept
        )
        self._one_output = targets.ndim == 1
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianForestRegressor:
        """Learn from further rows, after :meth:`fit` or from nothing.

        The leaves are at any moment those of a fit of all rows on the same trees, while the ladder
        of widths does not climb. After a fit the width, the shrinkage and the scale stay. From
        nothing, ``lifetime="auto"`` is that ladder and ``scale="std"`` is taken from the first 1024
        rows and how much each dim counts from the first 4096, see
        :class:`mondrian_kernel._online.stream.Stream`; ``alpha="auto"`` is 0.1. Memory grows with
        the number of cells, until ``max_cells``; from then on no cell is cut any more, but all
        learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 0 is left out.

        Returns
        -------
        self : MondrianForestRegressor
            The forest; unchanged if anything fails.
        """
        first = not hasattr(self, "_means")
        rows, targets = check_stream(self, X, y, first=first, multi_output=True, y_numeric=True)
        Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
        weight = check_weights(sample_weight, rows)
        self._learn(
            rows, Y, weight, fit_intercept=self.fit_intercept, _one_output=targets.ndim == 1
        )
        return self

    @property
    def coef_(self) -> FloatArray:
        """Leaf values over √M, the weights of the features."""
        coef = self._means.coef(self.features_.trees_.n_trees)
        return coef[:, 0] if self._one_output else coef

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept b."""
        b = self._means.intercept
        return float(b[0]) if self._one_output else b

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predict rows by the average of the trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions.
        """
        average = self._average(X)
        return average[:, 0] if self._one_output else average
