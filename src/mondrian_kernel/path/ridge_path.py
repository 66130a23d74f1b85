"""The lifetime path: ridge regression, or another loss, at every lifetime and alpha of a grid."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel.features import MondrianFeatures, check_rows, draw_seed, features_at
from mondrian_kernel.gradient.losses import check_loss
from mondrian_kernel.partition.growth import Growth
from mondrian_kernel.partition.trees import FloatArray, IntArray, Trees
from mondrian_kernel.path.checks import (
    check_alphas,
    check_lifetimes,
    check_options,
    check_targets,
    check_weights,
    with_weight,
)
from mondrian_kernel.path.every_cut_path import every_cut_path
from mondrian_kernel.path.gradient_path import gradient_path
from mondrian_kernel.path.loss_path import LossPath
from mondrian_kernel.path.plan import GROUP, growing, lifetimes_between, passed_its_best
from mondrian_kernel.path.result import LifetimePath, criterion_values
from mondrian_kernel.path.sgd_path import SgdPath
from mondrian_kernel.ridge.dense import dense_cost, dense_scores
from mondrian_kernel.ridge.design import Design
from mondrian_kernel.ridge.lanczos import lanczos_scores
from mondrian_kernel.ridge.scores import Scores
from mondrian_kernel.ridge.solve import centred_targets, weights

_DENSE_COST = 25.0 * 1200**3
_MEMORY = 2e9
_PATIENCE = 6
_NATS = 10.0


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
    tol: float = 1e-4,
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
        Penalties δ² as in :class:`sklearn.linear_model.Ridge`. None: eleven from 0.0001 to 10.
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
    tol : float, default=1e-4
        Relative residual at which Lanczos stops.
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
    check_options(criterion, solver, validation, max_lifetime, n_lifetimes, tol)
    checker = MondrianFeatures(n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs)
    checker._validate_params()
    rows = check_rows(checker, X, reset=True)
    Y = check_targets(y, rows)
    rows, Y, weight = with_weight(rows, Y, check_weights(sample_weight, rows))
    held_out = None
    if validation is not None:
        X_val = check_rows(checker, validation[0])
        held_out = X_val, check_targets(validation[1], X_val)
        if held_out[1].shape[1] != Y.shape[1]:
            raise ValueError("validation y has another number of outputs than y.")
    wanted = None if lifetimes is None else check_lifetimes(lifetimes)
    seed = draw_seed(random_state)
    grown: Growth | _Grown
    if features is None:
        grown = Growth(rows, n_estimators, seed, n_jobs)
        budget = cell_budget(rows.shape, n_estimators)
    else:
        grown = _Grown(features, rows)
        budget = features.n_cells_
        max_lifetime = min(max_lifetime or np.inf, features.lifetime_)
    if every_cut:
        assert max_lifetime is not None
        end = _advance(grown, max_lifetime, budget)
        trees, leaf = grown.freeze(end)
        return every_cut_path(
            features_at(trees, end, n_jobs, names_of=checker), leaf, Y, alphas,
            criterion=criterion, held_out=held_out, fit_intercept=fit_intercept,
            callback=callback,
        )  # fmt: skip
    return grid_path(
        grown, Y, weight, budget=budget, alphas=alphas, criterion=criterion, held_out=held_out,
        max_lifetime=max_lifetime, n_lifetimes=n_lifetimes, lifetimes=wanted, solver=solver,
        tol=tol, fit_intercept=fit_intercept, seed=seed, n_jobs=n_jobs, callback=callback,
        names_of=checker,
    )  # fmt: skip


def grid_path(
    grown: Growth | _Grown,
    Y: FloatArray,
    weight: FloatArray | None,
    *,
    budget: int,
    alphas: FloatArray,
    criterion: str,
    held_out: tuple[FloatArray, FloatArray] | None,
    max_lifetime: float | None = None,
    n_lifetimes: int = 50,
    lifetimes: FloatArray | None = None,
    solver: str,
    tol: float,
    fit_intercept: bool = True,
    seed: int,
    n_jobs: int | None,
    callback: Callable[[int, int, dict[str, Any]], None] | None,
    names_of: Any = None,
) -> LifetimePath:
    """Return the path of valid rows, on trees that grow or are grown; see :func:`lifetime_path`."""
    if lifetimes is not None:
        max_lifetime, n_lifetimes = float(lifetimes[-1]), lifetimes.size
    steps: Iterable[FloatArray]
    if max_lifetime is None:
        assert isinstance(grown, Growth)
        steps = growing(grown, n_lifetimes, budget)
    else:
        end = _advance(grown, max_lifetime, budget)
        trees, leaf = grown.freeze(end)
        wanted = lifetimes
        if wanted is None:
            wanted = lifetimes_between(grown.cut_times, end, grown.n_trees, n_lifetimes)
        steps = _groups(np.unique(np.minimum(wanted, end)))

    run = _Run(alphas, criterion, held_out, solver, tol, seed, n_jobs)
    complete = True
    try:
        for group in steps:
            if max_lifetime is None:
                trees, leaf = grown.freeze(float(group[-1]))
            run.advance(trees, leaf, group, Y, weight, fit_intercept)
            if callback is not None:
                info = {"lifetime": run.lifetimes[-1], "best": float(np.min(run.score()))}
                callback(len(run.lifetimes), n_lifetimes, info)
            if max_lifetime is None and run.passed_its_best():
                break
    except KeyboardInterrupt:
        if not run.lifetimes:
            raise
        complete = False
        if max_lifetime is None:
            trees, leaf = grown.freeze(run.lifetimes[-1])
    if complete and max_lifetime is None and grown.n_cells >= budget and not grown.done:
        _warn_budget(run.lifetimes[-1])
    at_end = int(np.argmin(run.score().min(axis=1))) == len(run.lifetimes) - 1
    if complete and at_end and lifetimes is None and not grown.done:
        warnings.warn(
            f"The best lifetime, {run.lifetimes[-1]:.4g}, is the last of the path: a larger one "
            "may be better. Raise max_lifetime.",
            UserWarning,
            stacklevel=3,
        )
    end_features = features_at(trees, trees.lifetime, n_jobs, names_of=names_of)
    return run.result(end_features, leaf, Y, weight, fit_intercept, complete)


def _advance(grown: Growth | _Grown, max_lifetime: float, budget: int) -> float:
    """Let the trees grow to a lifetime, or as far as memory goes; return how far that was."""
    end = grown.advance_within(max_lifetime, budget)
    if end < max_lifetime:
        _warn_budget(end)
    return end


class _Grown:
    """Trees that exist already, in the place of trees in growth."""

    def __init__(self, features: MondrianFeatures, rows: FloatArray) -> None:
        check_is_fitted(features)
        self._trees, self.n_trees = features.trees_, features.trees_.n_trees
        self._lifetime, self.n_cells = features.lifetime_, features.n_cells_
        self._leaf, log_stay = self._trees.walk(rows, self._lifetime, features.n_jobs)
        if log_stay.any():
            row = int(np.flatnonzero(log_stay.any(axis=1))[0])
            raise ValueError(
                f"features were not fitted on these rows: row {row} of X is new to them."
            )
        self.cut_times = self._trees.cuts.time
        self.done = False

    def advance_within(self, lifetime: float, max_cells: int) -> float:
        if lifetime > self._lifetime:
            raise ValueError(
                f"The features end at lifetime_={self._lifetime:.6g}, before {lifetime:.6g}. Fit "
                "them with a larger lifetime."
            )
        return lifetime

    def freeze(self, lifetime: float) -> tuple[Trees, IntArray]:
        return self._trees, self._leaf


class _Run:
    """Scores collected so far."""

    def __init__(
        self,
        alphas: FloatArray,
        criterion: str,
        held_out: tuple[FloatArray, FloatArray] | None,
        solver: str,
        tol: float,
        seed: int,
        n_jobs: int | None,
    ) -> None:
        self.alphas, self.criterion, self.held_out = alphas, criterion, held_out
        self.solver, self.tol, self.seed, self.n_jobs = solver, tol, seed, n_jobs
        self.lifetimes: list[float] = []
        self.n_cells: list[int] = []
        self.scores: list[Scores] = []
        self.validation: list[FloatArray] = []
        self.solvers: list[str] = []

    def advance(
        self,
        trees: Trees,
        leaf: IntArray,
        lifetimes: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        fit_intercept: bool,
    ) -> None:
        fine = trees.cells(float(lifetimes[-1]))
        is_cell = np.flatnonzero(trees.left < 0)
        node = np.empty(fine.total, np.int64)
        node[fine.column[is_cell]] = is_cell
        levels = [trees.cells(float(t)) for t in lifetimes]
        groups = np.stack([cells.column[node] for cells in levels], axis=1)
        design = Design(fine.column[leaf], groups, weight, centre=fit_intercept, n_jobs=self.n_jobs)
        target, mean = centred_targets(design, Y)
        solver = self.solver
        if solver == "auto":
            cost = dense_cost(design.n_rows, int(design.n_cells[-1]))
            solver = "dense" if cost <= _DENSE_COST else "lanczos"
        if solver == "dense":
            fits = [
                dense_scores(design.level(k), target, self.alphas) for k in range(lifetimes.size)
            ]
        else:
            rng = None
            if self.criterion != "holdout":
                rng = np.random.default_rng([self.seed, 1])  # the same at every lifetime
            fits = lanczos_scores(design, target, self.alphas, self.tol, rng)
        if self.held_out is not None:
            for k, (_, dual) in enumerate(fits):
                error = self._validate(trees, float(lifetimes[k]), design, k, dual, mean)
                self.validation.append(error)
        self.scores += [scores for scores, _ in fits]
        self.lifetimes += [float(t) for t in lifetimes]
        self.n_cells += [cells.total for cells in levels]
        self.solvers += [solver] * lifetimes.size

    def _validate(
        self,
        trees: Trees,
        lifetime: float,
        design: Design,
        level: int,
        dual: FloatArray,
        mean: FloatArray,
    ) -> FloatArray:
        assert self.held_out is not None
        X_val, Y_val = self.held_out
        n_outputs, n_alphas = dual.shape[1:]
        means = np.repeat(mean, n_alphas)
        coef, intercept = weights(design, dual.reshape(design.n_rows, -1), means, level)
        Phi = features_at(trees, lifetime, self.n_jobs).transform(X_val)
        residual = (Phi @ coef + intercept).reshape(-1, n_outputs, n_alphas) - Y_val[:, :, None]
        errors: FloatArray = np.mean(residual**2, axis=(0, 1))
        return errors

    def score(self) -> FloatArray:
        return criterion_values(
            self.criterion,
            np.array([s.loo_error for s in self.scores]),
            np.array(self.validation) if self.held_out is not None else None,
            np.array([s.evidence for s in self.scores]),
            np.array([s.evidence_paper for s in self.scores]),
        )

    def passed_its_best(self) -> bool:
        clearly = _NATS if self.criterion.startswith("evidence") else None
        return passed_its_best(self.score().min(axis=1), _PATIENCE, clearly)

    def result(
        self,
        features: MondrianFeatures,
        leaf: IntArray,
        Y: FloatArray,
        weight: FloatArray | None,
        fit_intercept: bool,
        complete: bool,
    ) -> LifetimePath:
        columns = [np.array(c) for c in zip(*self.scores, strict=True)]
        train, loo, evidence, evidence_paper, std = columns
        return LifetimePath(
            np.array(self.lifetimes), np.array(self.n_cells), self.alphas, train, loo,
            np.array(self.validation) if self.held_out is not None else None,
            evidence, evidence_paper, std, np.array(self.solvers), self.criterion, complete,
            features, leaf, Y, weight, fit_intercept, np.zeros(Y.shape[1]),
        )  # fmt: skip


def _groups(lifetimes: FloatArray) -> list[FloatArray]:
    return [lifetimes[k : k + GROUP] for k in range(0, lifetimes.size, GROUP)]


def cell_budget(shape: tuple[int, ...], n_trees: int) -> int:
    """Cells that fit into memory: two boxes of D sides for every node."""
    n_rows, n_dims = shape
    return int(min(n_rows * n_trees, max(2 * n_trees, _MEMORY / (64 * n_dims + 200))))


def _warn_budget(lifetime: float) -> None:
    warnings.warn(
        f"The trees have as many cells as fit into memory at lifetime {lifetime:.4g}; the path "
        "ends there. Fewer trees (n_estimators) get further.",
        UserWarning,
        stacklevel=3,
    )
