"""Lifetime paths: a linear learner at every kernel width of one set of trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.every_cut import EveryCut
from mondrian_kernel._path.checks import (
    check_alphas,
    check_lifetimes,
    check_targets,
    check_weights,
    checked_options,
    class_rows,
    features_checker,
    held_out_rows,
    with_weight,
)
from mondrian_kernel._path.driver import Callback, advance, trees_of
from mondrian_kernel._path.loss_path import loss_path
from mondrian_kernel._path.result import LifetimePath, RidgeRows
from mondrian_kernel._path.ridge_path import RidgeLearner, ridge_path
from mondrian_kernel._path.sgd_path import sgd_path
from mondrian_kernel._trees.checks import check_magnitudes, check_penalty, check_rows, draw_seed
from mondrian_kernel._trees.trees import CutSequence
from mondrian_kernel.features import MondrianFeatures

__all__ = ["LifetimePath", "every_cut_path", "lifetime_path", "sgd_path"]


@checked_options
def lifetime_path(
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
    solver: str = "auto",
    tol: float = 1e-3,
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> LifetimePath:
    r"""Fit a linear learner at every kernel width of a grid, on one set of trees.

    .. math::
        \min_{w, b} \sum_i s_i (y_i - b - w^\top \phi_\lambda(x_i))^2 + \alpha \lVert w \rVert^2

    for lifetimes λ placed by the growth of the number of cells, and all alphas at once. With
    another ``loss`` than "squared", y are classes.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, used as they are: scale the columns first.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets; with several, errors are averaged and likelihoods multiplied. Classes where
        ``loss`` is not "squared".
    features : MondrianFeatures or None, default=None
        Features fitted on these very rows, whose trees are used instead of new ones. The path then
        ends where they do. For the squared loss.
    n_estimators : int, default=350
        Number of trees M.
    max_lifetime : float or None, default=None
        Terminal lifetime Λ. None: the trees grow as the path advances, until the criterion has
        clearly passed its best.
    n_lifetimes : int, default=50
        Largest number of lifetimes.
    lifetimes : array-like or None, default=None
        Lifetimes to evaluate, instead of the two parameters above.
    alphas : array-like or None, default=None
        Penalties δ² as in :class:`sklearn.linear_model.Ridge`. None: nine from 0.001 to 10, and
        for classes two smaller ones.
    loss : {"squared", "log_loss", "hinge"}, default="squared"
        Loss. The last two are for classes, judged by their mean on ``validation`` or, without it,
        on a fifth of the rows held out.
    criterion : {"loo", "holdout", "evidence", "evidence-paper"}, default="loo"
        Score that chooses for the squared loss: leave-one-out error, error on ``validation``, the
        marginal likelihood with the best signal variance, or that of the paper (variance 1, noise
        alpha).
    validation : tuple (X, y) or None, default=None
        Rows held out.
    solver : {"auto", "dense", "lanczos"}, default="auto"
        How the squared loss is solved: by exact factors of size min(C, N), or without a matrix for
        all lifetimes at once. "auto" is "dense" while that is cheap.
    tol : float, default=0.001
        Relative residual at which Lanczos stops. Scores are within about ``tol`` at the smallest
        alpha, and far closer at the others. Predictions do not depend on it.
    fit_intercept : bool, default=True
        Whether there is an intercept, which is not penalised. False for the paper's model.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights s. A row of weight 2 counts as two, one of weight 0 is left out.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees and of the random vectors.
    n_jobs : int or None, default=None
        Threads. None: all cores, or ``OMP_NUM_THREADS``. The result does not depend on it.
    callback : callable or None, default=None
        Called as ``callback(done, total, info)`` as the path advances.

    Returns
    -------
    path : LifetimePath
        Scores for each (lifetime, alpha) and, for the squared loss, the models behind them. After
        Ctrl-C it holds what was done so far and ``path.complete`` is False. It shares no memory
        with the arguments.

    See Also
    --------
    every_cut_path : The exact path after every single cut, as in the paper.
    sgd_path : One learner by stochastic gradients along the lifetimes.

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
    end = None if max_lifetime is None else float(max_lifetime)
    grid = None if loss != "squared" and alphas is None else check_alphas(alphas)
    checker = features_checker(n_estimators, random_state, n_jobs)
    if loss != "squared":
        if features is not None or not fit_intercept or solver != "auto":
            raise ValueError("features, fit_intercept=False and solver are for loss='squared'.")
        rows, labels, n_classes, weight, outside = class_rows(
            X, y, validation, sample_weight, checker
        )
        if grid is not None:
            check_penalty(grid[0], labels.size if weight is None else weight.sum())
        return loss_path(
            rows,
            labels,
            n_classes,
            loss,
            n_estimators=n_estimators,
            max_rows=rows.shape[0],
            held_out=outside,
            n_lifetimes=n_lifetimes,
            max_lifetime=end,
            lifetimes=None if lifetimes is None else check_lifetimes(lifetimes),
            alphas=grid,
            sample_weight=weight,
            seed=draw_seed(random_state),
            n_jobs=n_jobs,
            callback=callback,
        )
    rows = check_rows(checker, X, reset=True)
    check_magnitudes(rows, "X", least=1.0 / settings.LARGEST_NUMBER)
    Y = check_targets(y, rows)
    rows, Y, weight = with_weight(rows, Y, check_weights(sample_weight, rows))
    assert grid is not None
    check_penalty(grid[0], rows.shape[0] if weight is None else weight.sum())
    held_out = held_out_rows(checker, validation, Y.shape[1])
    wanted = None if lifetimes is None else check_lifetimes(lifetimes)
    seed = draw_seed(random_state)
    grown, budget, end = trees_of(features, rows, n_estimators, seed, n_jobs, end)
    Y, weight = Y.copy(), None if weight is None else weight.copy()
    learner = RidgeLearner(
        Y, weight, grid, criterion, held_out, solver, tol, seed, n_jobs, fit_intercept
    )
    return ridge_path(
        grown,
        learner,
        budget,
        max_lifetime=end,
        n_lifetimes=n_lifetimes,
        lifetimes=wanted,
        callback=callback,
        names_of=checker,
    )


@checked_options
def every_cut_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    features: MondrianFeatures | None = None,
    n_estimators: int = 350,
    max_lifetime: float | None = None,
    alphas: ArrayLike | None = None,
    criterion: str = "loo",
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    fit_intercept: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> LifetimePath:
    r"""Fit ridge regression after every single cut of the trees, exactly, as in the paper.

    .. math::
        \min_w \sum_i (y_i - b - w^\top \phi_\lambda(x_i))^2 + \alpha \lVert w \rVert^2

    at the lifetime 0 and at the time of each cut. A cut changes the solution by an update of low
    rank, O(C²) or O(N²), for each alpha. The intercept b is the mean of y.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, used as they are: scale the columns first.
    y : array-like of shape (n_samples,)
        Targets.
    features : MondrianFeatures or None, default=None
        Features fitted on these very rows; the path goes through all their cuts.
    n_estimators : int, default=350
        Number of trees M, where ``features`` is None.
    max_lifetime : float or None, default=None
        Terminal lifetime Λ, needed where ``features`` is None.
    alphas : array-like or None, default=None
        Penalties δ² as in :class:`sklearn.linear_model.Ridge`. None: 0.01 alone.
    criterion : {"loo", "holdout", "evidence", "evidence-paper"}, default="loo"
        What decides, as in :func:`lifetime_path`.
    validation : tuple (X, y) or None, default=None
        Rows held out.
    fit_intercept : bool, default=True
        Whether there is an intercept. False for the paper's model.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    n_jobs : int or None, default=None
        Threads that grow the trees.
    callback : callable or None, default=None
        Called as ``callback(done, total, info)`` after each block of cuts, for each alpha.

    Returns
    -------
    path : LifetimePath
        Scores at the lifetime 0 and after each cut, for each alpha, and the models behind them.
        After Ctrl-C it holds the cuts done and ``path.complete`` is False.

    See Also
    --------
    lifetime_path : The path on a grid of lifetimes, much faster.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import every_cut_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(100, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=100)
    >>> path = every_cut_path(X, y, n_estimators=10, max_lifetime=2.0, random_state=0)
    >>> bool(np.all(np.diff(path.n_cells) == 1))
    True
    """
    if max_lifetime is None and features is None:
        raise ValueError("every_cut_path needs max_lifetime, or features that are fitted.")
    if max_lifetime is not None and features is not None:
        raise ValueError("every_cut_path goes through all cuts of features: drop max_lifetime.")
    end = None if max_lifetime is None else float(max_lifetime)
    if np.ndim(y) > 1:
        raise ValueError("every_cut_path takes one target; fit the columns of y apart.")
    grid = check_alphas([settings.EVERY_CUT_ALPHA] if alphas is None else alphas)
    checker = features_checker(n_estimators, random_state, n_jobs)
    rows = check_rows(checker, X, reset=True)
    Y = check_targets(y, rows)
    check_penalty(grid[0], rows.shape[0])
    held_out = held_out_rows(checker, validation, 1)
    seed = draw_seed(random_state)
    grown, budget, end = trees_of(features, rows, n_estimators, seed, n_jobs, end)
    assert end is not None
    end = advance(grown, end, budget)
    trees, leaf = grown.freeze(end)
    features = MondrianFeatures.from_trees(trees, end, n_jobs=n_jobs, seed=seed, names_of=checker)
    sequence, target = CutSequence(trees, leaf), Y[:, 0]
    offset = target.mean() if fit_intercept else 0.0
    target = target - offset
    new = None if held_out is None else (held_out[0], held_out[1][:, 0] - offset)
    runs: list[EveryCut] = []
    complete = True
    for alpha in grid.tolist():
        runs.append(EveryCut(sequence, target, alpha, new))
        complete = runs[-1].run(callback)
        if not complete:
            break
    n = min(run.done for run in runs) + 1
    found = [run.curves() for run in runs]
    curves = {name: np.stack([each[name][:n] for each in found], axis=1) for name in found[0]}
    model = RidgeRows(features, leaf, target[:, None], None, False, np.array([offset]))
    return LifetimePath(
        np.concatenate([[0.0], sequence.times])[:n],
        runs[0].n_cells[:n],
        grid[: len(runs)],
        curves,
        criterion,
        complete,
        np.full(n, "every cut"),
        model,
    )
