"""The lifetime path: ridge regression, or another loss, at every lifetime and alpha of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._linear.losses import check_loss
from mondrian_kernel._path.checks import (
    blamed_on,
    check_alphas,
    check_lifetimes,
    check_options,
    check_targets,
    check_weights,
    with_weight,
)
from mondrian_kernel._path.every_cut_path import every_cut_path
from mondrian_kernel._path.gradient_path import gradient_path
from mondrian_kernel._path.grid_path import Grown, advance, cell_budget, grid_path
from mondrian_kernel._path.loss_path import LossPath
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._path.sgd_path import SgdPath
from mondrian_kernel._trees.checks import check_rows, draw_seed
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel.features import MondrianFeatures, features_at


@overload
def lifetime_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: Literal["squared"] = ...,
    solver: Literal["auto", "dense", "lanczos"] = ...,
    **options: Any,
) -> LifetimePath: ...
@overload
def lifetime_path(
    X: ArrayLike, y: ArrayLike, *, loss: str = ..., solver: Literal["sgd"], **options: Any
) -> SgdPath: ...
@overload
def lifetime_path(
    X: ArrayLike, y: ArrayLike, *, loss: Literal["log_loss", "hinge"], **options: Any
) -> LossPath: ...
def lifetime_path(  # type: ignore[misc] # the overloads show what the result depends on
    X: ArrayLike,
    y: ArrayLike,
    *,
    features: MondrianFeatures | None = None,
    n_estimators: int = 350,
    max_lifetime: float | None = None,
    n_lifetimes: int = 50,
    lifetimes: ArrayLike | None = None,
    alphas: ArrayLike | None = None,
    loss: str = "squared",
    criterion: str = "loo",
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    every_cut: bool = False,
    solver: str = "auto",
    tol: float = 1e-3,
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callable[[int, int, dict[str, Any]], None] | None = None,
) -> LifetimePath | LossPath | SgdPath:
    r"""Fit a linear learner at every kernel width of a grid, on one set of trees.

    .. math::
        \min_{w, b} \sum_i s_i (y_i - b - w^\top \phi_\lambda(x_i))^2 + \alpha \lVert w \rVert^2

    for lifetimes λ placed by the growth of the number of cells, and all alphas at once. With
    another ``loss`` ℓ in the place of the square it classifies.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, used as they are: scale the columns first.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets; with several, errors are averaged and likelihoods multiplied. Classes where
        ``loss`` is not "squared".
    features : MondrianFeatures or None, default=None
        Trees that exist already, fitted on these very rows, instead of new ones; the path then
        ends where they do.
    n_estimators : int, default=350
        Number of trees M.
    max_lifetime : float or None, default=None
        Terminal lifetime Λ. None: the trees grow as the path advances, until the criterion has
        clearly passed its best.
    n_lifetimes : int, default=50
        Number of lifetimes at most.
    lifetimes : array-like or None, default=None
        The very lifetimes to look at, instead of the two parameters above.
    alphas : array-like or None, default=None
        Penalties δ² as in :class:`sklearn.linear_model.Ridge`. None: nine from 0.001 to 10, and
        for classes two smaller ones.
    loss : {"squared", "log_loss", "hinge"}, default="squared"
        Loss. The last two are for classes, judged by their mean on ``validation`` or, without it,
        on a fifth of the rows held out.
    criterion : {"loo", "holdout", "evidence", "evidence-paper"}, default="loo"
        What decides for the squared loss: leave-one-out error, error on ``validation``, the
        marginal likelihood with the signal variance profiled out, or as in the paper (variance 1,
        noise alpha).
    validation : tuple (X, y) or None, default=None
        Rows held out.
    every_cut : bool, default=False
        Whether to look at the lifetime of *each* cut up to ``max_lifetime``, exactly, as in the
        paper: O(C²) or O(N²) a cut, for each alpha (by default one, 0.01). For one target and no
        weights; the intercept is then the mean of y.
    solver : {"auto", "dense", "lanczos", "sgd"}, default="auto"
        Exact factors of size min(C, N), or matrix-free for all lifetimes at once; by default the
        former while it is cheap. "sgd" takes one pass of stochastic gradients at each lifetime
        for the one alpha given, up to ``max_lifetime``: :func:`sgd_path`, with any loss.
    tol : float, default=1e-3
        Relative residual at which Lanczos stops. At the smallest alpha the scores are about that
        exact, at all others far more so; predictions do not depend on it.
    fit_intercept : bool, default=True
        Whether there is an intercept, which is not penalised. False for the paper's model.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights s; a row of weight 2 counts as two, one of weight 0 is left out.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees and of the random vectors.
    n_jobs : int or None, default=None
        Threads.
    callback : callable or None, default=None
        Called as ``callback(done, total, info)`` as the path advances.

    Returns
    -------
    path : LifetimePath, LossPath or SgdPath
        Scores for each (lifetime, alpha) and, for the squared loss, the models behind them; a
        :class:`LossPath` for classes, an :class:`SgdPath` with ``solver="sgd"``. After Ctrl-C it
        holds what was done so far and ``path.complete`` is False.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import lifetime_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> path = lifetime_path(X, y, n_estimators=100, random_state=0)
    >>> path.score.shape == (path.lifetimes.size, path.alphas.size)
    True
    >>> bool(np.mean((path.predict(X) - y) ** 2) < 0.1)
    True
    """
    check_loss(loss)
    check_options(criterion, solver, validation, max_lifetime, n_lifetimes, tol)
    if solver == "sgd" or loss != "squared":
        if features is not None or every_cut or not fit_intercept:
            raise ValueError(
                "features, every_cut and fit_intercept=False are for ridge regression: "
                "loss='squared' with another solver than 'sgd'."
            )
        return gradient_path(
            X, y, loss=loss, solver=solver, max_lifetime=max_lifetime, lifetimes=lifetimes,
            alphas=alphas, validation=validation, sample_weight=sample_weight,
            random_state=random_state, n_estimators=n_estimators, n_lifetimes=n_lifetimes,
            n_jobs=n_jobs, callback=callback,
        )  # fmt: skip
    if every_cut and max_lifetime is None and features is None:
        raise ValueError("every_cut=True needs max_lifetime: the cuts up to it are gone through.")
    if every_cut and max_lifetime is not None and features is not None:
        raise ValueError("every_cut=True goes through all cuts of features: drop max_lifetime.")
    if every_cut and np.ndim(y) > 1:
        raise ValueError("every_cut=True takes one target; fit the columns of y apart.")
    if every_cut and (lifetimes is not None or sample_weight is not None):
        raise ValueError("every_cut=True takes neither lifetimes nor sample_weight.")
    alphas = check_alphas([0.01] if every_cut and alphas is None else alphas)
    checker = MondrianFeatures(n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs)
    checker._validate_params()
    rows = check_rows(checker, X, reset=True)
    Y = check_targets(y, rows)
    rows, Y, weight = with_weight(rows, Y, check_weights(sample_weight, rows))
    held_out = None
    if validation is not None:
        with blamed_on("validation"):
            X_val = check_rows(checker, validation[0])
            held_out = X_val, check_targets(validation[1], X_val)
        if held_out[1].shape[1] != Y.shape[1]:
            raise ValueError("validation y has another number of outputs than y.")
    wanted = None if lifetimes is None else check_lifetimes(lifetimes)
    seed = draw_seed(random_state)
    grown: Growth | Grown
    if features is None:
        grown = Growth(rows, n_estimators, seed, n_jobs)
        budget = cell_budget(rows.shape, n_estimators)
    else:
        grown = Grown(features, rows)
        budget = features.n_cells_
        max_lifetime = min(max_lifetime or np.inf, features.lifetime_)
    if every_cut:
        assert max_lifetime is not None
        end = advance(grown, max_lifetime, budget)
        trees, leaf = grown.freeze(end)
        return every_cut_path(
            features_at(trees, end, n_jobs, seed=seed, names_of=checker), leaf, Y, alphas,
            criterion=criterion, held_out=held_out, fit_intercept=fit_intercept,
            callback=callback,
        )  # fmt: skip
    return grid_path(
        grown, Y, weight, budget=budget, alphas=alphas, criterion=criterion, held_out=held_out,
        max_lifetime=max_lifetime, n_lifetimes=n_lifetimes, lifetimes=wanted, solver=solver,
        tol=tol, fit_intercept=fit_intercept, seed=seed, n_jobs=n_jobs, callback=callback,
        names_of=checker,
    )  # fmt: skip
