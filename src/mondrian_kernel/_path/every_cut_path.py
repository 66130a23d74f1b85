"""The paper's procedure: the ridge path after every single cut, exactly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._linear.every_cut import EveryCut
from mondrian_kernel._path.checks import (
    check_alphas,
    check_options,
    check_targets,
    features_checker,
    held_out_rows,
)
from mondrian_kernel._path.driver import Callback, advance, trees_of
from mondrian_kernel._path.result import LifetimePath, RidgeRows
from mondrian_kernel._settings import EVERY_CUT_ALPHA
from mondrian_kernel._trees.checks import check_penalty, check_rows, draw_seed
from mondrian_kernel._trees.trees import cut_sequence
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures


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
        Features fitted on these very rows, all of whose cuts are gone through.
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
    check_options(
        "every_cut_path",
        features=features,
        max_lifetime=max_lifetime,
        criterion=criterion,
        validation=validation,
        fit_intercept=fit_intercept,
        callback=callback,
    )
    if max_lifetime is None and features is None:
        raise ValueError("every_cut_path needs max_lifetime, or features that are fitted.")
    if max_lifetime is not None and features is not None:
        raise ValueError("every_cut_path goes through all cuts of features: drop max_lifetime.")
    end = None if max_lifetime is None else float(max_lifetime)
    if np.ndim(y) > 1:
        raise ValueError("every_cut_path takes one target; fit the columns of y apart.")
    grid = check_alphas([EVERY_CUT_ALPHA] if alphas is None else alphas)
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
    sequence, target = cut_sequence(trees, leaf), Y[:, 0]
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

    def table(values: Iterable[FloatArray]) -> FloatArray:
        return np.stack([value[:n] for value in values], axis=1)

    best, paper = (table(both) for both in zip(*(run.evidences for run in runs), strict=True))
    curves = {
        "train_error": table(run.train_error for run in runs),
        "loo_error": table(run.loo_error for run in runs),
        "loo_error_std": np.zeros_like(paper),
        "log_marginal_likelihood": best,
        "log_marginal_likelihood_paper": paper,
        "log_marginal_likelihood_std": np.zeros_like(paper),
    }
    if new is not None:
        curves["validation_error"] = table(run.held_out_error for run in runs)
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
