"""Small ridge problems on nested cells, and their answers by brute force."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.stats import multivariate_normal
from sklearn.linear_model import Ridge

from mondrian_kernel._linear.cholesky import centred_targets, dense_scores
from mondrian_kernel._linear.lanczos import lanczos_scores
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._trees.growth import Growth

ALPHAS = np.array([1e-3, 1e-2, 0.3, 5.0])
LIFETIMES = [0.5, 2.0, 6.0]


class Problem(NamedTuple):
    """Cells of rows at several levels, targets, integer sample weights or None."""

    cells: np.ndarray
    groups: np.ndarray
    Y: np.ndarray
    weight: np.ndarray | None

    def design(self, centre, n_jobs=None):
        return CellOperator(
            self.cells,
            len(self.groups),
            groups=self.groups,
            sample_weight=self.weight,
            centre=centre,
            n_jobs=n_jobs,
        )

    def Phi(self, level=-1):
        """Indicator features over √M, entry by entry, without weights."""
        n_rows, n_trees = self.cells.shape
        Phi = np.zeros((n_rows, self.groups[:, level].max() + 1))
        for i in range(n_rows):
            for c in self.cells[i]:
                Phi[i, self.groups[c, level]] = n_trees**-0.5
        return Phi


def random_problem(n_rows, n_trees=6, k=4, *, n_outputs=1, weighted=False, seed=0):
    """Rows thrown into k cells a tree: one level of single cells, one of pairs, one of all k."""
    rng = np.random.default_rng(seed)
    assert k % 2 == 0
    columns = [m * k + rng.permutation(np.arange(n_rows) % k) for m in range(n_trees)]
    fine = np.arange(n_trees * k)
    groups = np.stack([fine // k, fine // 2, fine], axis=1)
    Y = rng.normal(size=(n_rows, n_outputs)) + np.arange(1, n_outputs + 1)
    weight = rng.integers(1, 4, size=n_rows).astype(float) if weighted else None
    cells = np.stack(columns, axis=1)
    return Problem(cells.astype(np.int32), groups.astype(np.int32), Y, weight)


def mondrian_problem(n_rows, n_trees, lifetimes, *, n_dims=2, seed=0):
    """Cells of Mondrian trees at increasing lifetimes, and a target that they can learn."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, n_dims))
    growth = Growth(X, n_trees, seed)
    growth.advance(lifetimes[-1])
    trees, leaf = growth.freeze(lifetimes[-1])
    cells = trees.cells(lifetimes[-1]).column[leaf]
    groups = np.empty((cells.max() + 1, len(lifetimes)), np.int32)
    for k, lifetime in enumerate(lifetimes):
        groups[cells.ravel(), k] = trees.cells(lifetime).column[leaf].ravel()
    y = np.sin(6 * X[:, 0]) + X[:, -1] + 0.1 * rng.normal(size=n_rows)
    return Problem(np.ascontiguousarray(cells), groups, y[:, None], None)


def lanczos(problem, centre, tol=1e-10, seed=0, **options):
    """Scores and duals of every level without a matrix."""
    design = problem.design(centre)
    rng = np.random.default_rng([seed, 1])  # not the stream that made the rows
    return lanczos_scores(
        design, centred_targets(design, problem.Y)[0], ALPHAS, tol, rng, **options
    )


def dense(problem, centre):
    """Scores and duals of every level by dense factors."""
    design = problem.design(centre)
    target, _ = centred_targets(design, problem.Y)
    return dense_scores(design, target, ALPHAS)


def ridge(problem, level, alpha, centre):
    """Fit scikit-learn's ridge regression."""
    model = Ridge(alpha, fit_intercept=centre, solver="cholesky")
    return model.fit(problem.Phi(level), problem.Y, problem.weight)


def train_error(problem, level, alpha, centre):
    Phi, weight = problem.Phi(level), problem.weight
    prediction = ridge(problem, level, alpha, centre).predict(Phi).reshape(problem.Y.shape)
    return np.average(((problem.Y - prediction) ** 2).mean(axis=1), weights=weight)


def loo_error(problem, level, alpha, centre):
    """Refit without each row in turn, all its copies with it."""
    Phi, errors = problem.Phi(level), []
    for i in range(len(Phi)):
        rest = np.arange(len(Phi)) != i
        weight = None if problem.weight is None else problem.weight[rest]
        model = Ridge(alpha, fit_intercept=centre, solver="cholesky")
        model.fit(Phi[rest], problem.Y[rest], weight)
        errors.append(np.mean((problem.Y[i] - model.predict(Phi[i : i + 1])) ** 2))
    return np.average(errors, weights=problem.weight)


def evidences(problem, level, alpha, centre):
    """Profiled and printed log marginal likelihood, of contrasts where there is an intercept.

    Rows are repeated as often as their weight says.
    """
    counts = 1 if problem.weight is None else problem.weight.astype(int)
    Phi, Y = (np.repeat(a, counts, axis=0) for a in (problem.Phi(level), problem.Y))
    cov = Phi @ Phi.T + alpha * np.eye(len(Phi))
    if centre:
        contrasts = null_space(np.ones((1, len(Phi))))
        cov, Y = contrasts.T @ cov @ contrasts, contrasts.T @ Y

    def log_likelihood(y, variance):
        return multivariate_normal(np.zeros(len(y)), variance * cov).logpdf(y)

    paper = sum(log_likelihood(y, 1.0) for y in Y.T)
    profiled = 0.0
    for y in Y.T:
        variance = y @ np.linalg.solve(cov, y) / len(y)
        best = log_likelihood(y, variance)
        assert best > max(log_likelihood(y, variance * 0.99), log_likelihood(y, variance * 1.01))
        profiled += best
    return profiled, paper
