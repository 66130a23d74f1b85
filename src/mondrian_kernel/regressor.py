"""Regression with the Mondrian kernel: widths learnt from the data, with error bars."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import StrOptions

from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.base import MondrianEstimator, in_space_of_trees
from mondrian_kernel._estimator.shared_docs import shared_docs
from mondrian_kernel._estimator.targets import as_columns
from mondrian_kernel._estimator.uncertain import UncertainRegressor
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.importance import findings_of_numbers
from mondrian_kernel._model.kernel_fit import fit_kernel, plan_sizes, with_spread
from mondrian_kernel._model.notes import notes_on
from mondrian_kernel._model.ridge_model import fit_ridge, unfitted_ridge
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Filter
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.checks import distinct_rows, fixed_order, used_rows
from mondrian_kernel._path.choose import Choice, cells_of_trees, choose_width, enough_trees
from mondrian_kernel._path.driver import Stages, Verbose
from mondrian_kernel._path.posterior import WidthMixture, likely_widths
from mondrian_kernel._path.result import CRITERIA, LifetimePath
from mondrian_kernel._trees.checks import all_or_nothing, check_ranges, draw_seed
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._typing import FloatArray


@shared_docs
class MondrianKernelRegressor(MultiOutputMixin, RegressorMixin, UncertainRegressor):
    r"""Kernel regression whose columns, widths and noise are learnt from the data.

    .. math::
        \hat f(x) = g(x) + \sum_l \sqrt{w_l} \, W_l^\top \phi_{\lambda_l}(t(x))

    Each column goes through a learnt monotone function t. A trend g, kernel ridge regression on
    some hundred landmarks, carries what is smooth. Cells of Mondrian trees at several lifetimes λ,
    random features of the kernel :math:`\sum_l w_l \exp(-\lambda_l \lVert x - x' \rVert_1)`,
    carry the rest. With a number as ``lifetime`` the model is the paper's: ridge regression on the
    features of one Laplace kernel, on scaled columns, without a trend,

    .. math::
        \min_{w, b} \sum_i s_i (y_i - b - w^\top \phi_\lambda(x_i))^2 + \alpha \lVert w \rVert^2

    Parameters
    ----------
    lifetime : float, "auto", "path" or "average", default="auto"
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)` on the scaled
        columns: the inverse of its width. "auto" learns several lifetimes and their weights, unless
        ``alpha`` is a number. "path" chooses one lifetime, as the paper does. "average" averages
        the predictions of all likely lifetimes (see ``posterior_``) and makes a fit for each.
    alpha : float or "auto", default="auto"
        Penalty, as in :class:`sklearn.linear_model.Ridge`, or "auto" to choose it. If ``alpha`` is
        a number and ``lifetime`` is "auto", one lifetime is chosen, as with "path".
    n_estimators : int or "auto", default="auto"
        Number of trees M. "auto" takes 200 for 5000 to 20 000 rows, and down to 100 for fewer or
        more rows. With one lifetime it takes 4000, or as many as 30 million pairs of a row and a
        tree and 1.2 GB of boxes allow, but at least 100. A stream without a fit has 100.
    criterion : {"loo", "holdout", "evidence", "evidence-paper"}, default="loo"
        Score that chooses one lifetime. "loo" is the leave-one-out error; above 2000 rows, where
        it is not exact, the error on a fifth of the rows held out. "holdout" is that error for any
        number of rows. The others are marginal likelihoods. With ``lifetime="average"`` the
        criterion is always "evidence".
    <scale>
    <max_cells>
    <forgetting>
    solver : {"auto", "dense", "lanczos"}, default="auto"
        How the path is solved; see :func:`lifetime_path`.
    <random_state>

    Attributes
    ----------
    <attributes>
    cell_weights_ : ndarray of shape (n_cells,) or (n_cells, n_outputs)
        Weights of the cells.
    intercept_ : float or ndarray of shape (n_outputs,)
        Intercept, not penalised.
    feature_importances_, feature_importances_std_ : ndarrays of shape (n_features_in_,)
        How much R² on rows held out falls when a column is shuffled, and its standard deviation
        over shuffles. Only with ``lifetime="auto"``.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Variances σ² of the function and σ²α of the noise, with the highest likelihood.
    log_marginal_likelihood_ : float
        Log-likelihood of y at these variances, computed when asked for. It is estimated where rows
        and cells are both above 8000, and NaN once ``partial_fit`` has forgotten the rows.
    posterior_ : LifetimePosterior
        Only with ``lifetime="average"``: the posterior over λ, its prior uniform in ln λ on
        ``path_``. The other attributes are then those of the likeliest lifetime.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = MondrianKernelRegressor(n_estimators=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X[:2], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((2,), True)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **MondrianEstimator._parameter_constraints,
        "lifetime": [
            *MondrianEstimator._parameter_constraints["lifetime"],
            StrOptions({"average", "path"}),
        ],
        "criterion": [StrOptions(set(CRITERIA))],
        "solver": [StrOptions({"auto", "dense", "lanczos"})],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int | str = "auto",
        *,
        criterion: str = "loo",
        scale: Any = "std",
        relevance: str = "auto",
        categorical_features: Any = "from_dtype",
        max_cells: int | None = None,
        forgetting: float | str | None = "auto",
        solver: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.scale = scale
        self.relevance = relevance
        self.categorical_features = categorical_features
        self.max_cells = max_cells
        self.forgetting = forgetting
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianKernelRegressor:
        """Choose the width and fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite, or a data frame, also with gaps: see :class:`TableEncoder`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights. A row of weight 2 counts as two, one of weight 0 is left out. Error bars take
            weights that sum to less than the number of rows as shares.

        Returns
        -------
        self : MondrianKernelRegressor
            The fitted model.
        """
        rows, targets, weight = self._check_fit(
            X, y, sample_weight, multi_output=True, y_numeric=True
        )
        Y, seed = as_columns(targets), draw_seed(self.random_state)
        std = Y.std(axis=0)
        learnt = self.lifetime == self.alpha == "auto"
        if learnt:
            plan_sizes(rows.shape, self.n_estimators, self.max_cells)  # refuses too large a fit
        stages = Stages(self.verbose if learnt else 0, 7)
        tell, unit = stages.teller("learning columns"), np.where(std > 0, std, 1.0)
        metric = self._learn_columns(rows, Y / unit, weight, seed, tell)
        stages.done("columns")
        path, found = None, {}
        index = used_rows(sample_weight, rows.shape[0])
        if learnt:
            order, weight = fixed_order(rows, Y, weight)
            rows, Y, index = rows[order], Y[order], index[order]
            fit = fit_kernel(
                rows,
                Y,
                weight,
                seed,
                metric,
                n_estimators=self.n_estimators,
                max_cells=self.max_cells,
                n_jobs=self.n_jobs,
                stages=stages,
            )
            model = with_spread(fit, Y)
            stages.done("errors of rows held out")
            group = self._column_of_output()
            assert model.spread is not None
            found = findings_of_numbers(fit, model.spread, rows, Y, group, self.n_jobs)
            stages.done("importances of the columns")
        else:
            model, path, order = self._fit_one_width(rows, Y, weight, seed, metric.columns)
            rows, Y, index = rows[order], Y[order], index[order]
        assert model.rows is not None
        self._one_output = targets.ndim == 1
        notes = notes_on(rows, Y, model.rows.weight, metric.columns, seed, index, **found)
        self._set_fitted(model, path, notes, stages.seconds)
        self._bars, self._mixture = None, None
        if self.lifetime == "average" and path is not None:
            lifetimes, weights = likely_widths(path)
            models = [self.at(min(t, model.trees.lifetime)) for t in lifetimes]
            self._mixture = WidthMixture(weights, models)
        return self

    def _fit_one_width(
        self,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        seed: int,
        columns: Columns,
    ) -> tuple[FittedModel, LifetimePath | None, NDArray[np.intp]]:
        """Return a ridge fit at one lifetime, the path, and the numbers of the rows that it keeps.

        Where lifetimes are averaged it is the fit at the likeliest of them.
        """
        rows = columns(rows)
        check_ranges(rows)
        lifetime, alpha, path = self._choose_width(rows, Y, weight, seed)
        longest = lifetime
        if self.lifetime == "average" and path is not None:
            lifetimes, weights = likely_widths(path)
            lifetime, longest = float(lifetimes[np.argmax(weights)]), float(lifetimes[-1])
        n_trees = enough_trees(
            self.n_estimators,
            rows.shape,
            self.max_cells,
            partial(cells_of_trees, rows, longest, seed),
        )
        order, weight = fixed_order(rows, Y, weight)
        kept, weight = distinct_rows(rows[order], Y[order], weight)
        order = np.arange(rows.shape[0])[order][kept]
        rows, Y = rows[order], Y[order]
        trees, leaf = grow_trees(rows, longest, n_trees, seed, self.max_cells, self.n_jobs)
        levels = Levels.of(trees, np.array([min(lifetime, trees.lifetime)]))
        model = unfitted_ridge(
            trees, levels, leaf, rows, Y, weight, alpha, columns=columns, seed=seed
        )
        return fit_ridge(model, self.n_jobs), path, order

    def _choose_width(
        self, rows: FloatArray, Y: FloatArray, weight: FloatArray | None, seed: int
    ) -> Choice:
        """Return a lifetime, a penalty, and the path on which they were chosen."""
        criterion = "evidence" if self.lifetime == "average" else self.criterion
        return choose_width(rows, Y, weight, seed, self._wanted(), criterion, self.solver)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from further rows, after :meth:`fit` or without one.

        After a fit, or where ``lifetime`` is a number, the model is at any moment the exact fit of
        all rows so far on its trees, error bars included, at O(min(C, N)²) a row. When rows and
        cells are both more than 4000 a warning says that from now on each row is used once and
        forgotten: O(M) a row, approximate.

        With ``lifetime="auto"`` and no fit, every row is used once from the beginning. Up to five
        widths share the trees and predict together, weighted by their errors on rows that they had
        not learnt. When the narrowest has the lowest error, a narrower one is added. Error bars
        come from the errors of the last rows, each before it was learnt.

        Without a fit, ``scale="std"`` is taken from the first 1024 rows. Relevances are
        learnt after 256, 1024 and 4096 rows, unless updates are exact.
        ``alpha="auto"`` is 0.1. Memory grows with the number of cells until there are
        ``max_cells``. From then on no cell is cut, but all cells learn.

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
        self : MondrianKernelRegressor
            The model; unchanged if anything fails.
        """
        if self.lifetime == "average":
            raise ValueError(
                'partial_fit follows one lifetime: set lifetime="auto" or a number instead of '
                '"average".'
            )
        return super().partial_fit(X, y, sample_weight)

    def _learn(
        self, rows: FloatArray, Y: FloatArray, sample_weight: FloatArray | None, **changes: Any
    ) -> None:
        super()._learn(rows, Y, sample_weight, _bars=None, _mixture=None, **changes)

    def _next_stream(self, n_columns: int, n_outputs: int, n_new: int) -> Stream | ExactStream:
        first = not hasattr(self, "_model")
        stream = None if first else self._stream
        one_pass = isinstance(stream, Stream) or (first and isinstance(self.lifetime, str))
        forgets = not isinstance(self.forgetting, str | None)
        if one_pass or (stream is None and forgets):
            return super()._next_stream(n_columns, n_outputs, n_new)
        if first:
            exact: ExactStream | None = ExactStream.begin(
                n_outputs,
                n_columns,
                self._stream_trees(),
                float(self.lifetime),
                self._stream_alpha,
                self._scale_rule(),
                draw_seed(self.random_state),
            )
        else:
            assert not isinstance(stream, Stream)
            exact = stream or self._exact_after_fit(n_new)
        if exact is not None and exact.size(n_new) <= settings.EXACT_SIZE:
            return exact
        warnings.warn(
            f"Rows and cells are more than {settings.EXACT_SIZE}, too many for exact updates. From "
            "now on each row is used once and forgotten, which is approximate. To stay exact, fit "
            "all "
            "rows anew, or lower n_estimators or lifetime.",
            UserWarning,
            stacklevel=5,
        )
        if stream is None:
            return super()._next_stream(n_columns, n_outputs, n_new)
        return self._continued(stream.fitted())

    def _exact_after_fit(self, n_new: int) -> ExactStream | None:
        """Return a stream of exact updates; None, without making it, if it would be too large."""
        model = self._fitted()
        if model.rows is not None:
            n_rows = model.rows.weight.size + n_new
            if min(n_rows, model.levels.n_features) > settings.EXACT_SIZE:
                return None
        return ExactStream.after(in_space_of_trees(model))

    def _learner(self, n_outputs: int, alpha: float) -> Filter:
        return Filter(n_outputs, "squared", alpha)

    def at(self, lifetime: float) -> MondrianKernelRegressor:
        """Return the same trees fitted at one other, smaller lifetime.

        Parameters
        ----------
        lifetime : float
            Lifetime λ between 0 and that of the trees.

        Returns
        -------
        model : MondrianKernelRegressor
            A fitted model which shares the trees; this one is not changed.
        """
        model = self._fitted()
        if model.rows is None:
            raise ValueError("The rows were forgotten by partial_fit: there is no other lifetime.")
        model = replace(model, levels=self._levels_at(lifetime))
        other = self._copy_with(fit_ridge(model, self.n_jobs))
        other.lifetime = float(lifetime)
        other._bars = other._mixture = None
        return other

    def _levels_at(self, lifetime: float) -> Levels:
        """Return the cells of the trees at an earlier lifetime."""
        trees = self._fitted().trees
        if not isinstance(lifetime, Real) or not 0 <= lifetime <= trees.lifetime:
            raise ValueError(
                f"lifetime={lifetime} lies outside [0, {trees.lifetime}], the time these trees "
                "have run."
            )
        return Levels.of(trees, np.array([float(lifetime)]))
