r"""Learn the weights of several kernel widths on the same trees.

The kernel is :math:`K = \sum_l w_l K_{\lambda_l}`. Predictions of ridge regression depend only on
:math:`v_l = w_l / \alpha`, which are found by gradient descent on the error of rows held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from mondrian_kernel._linear.conjugate_gradients import Nystroem, conjugate_gradients, shifted
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._linear.scores import centred_targets
from mondrian_kernel._settings import (
    LADDER,
    LEAST_ERROR,
    WIDTH_GRADIENT_STEPS,
    WIDTH_GRADIENT_TOL,
    WIDTH_HELD_OUT_SHARE,
    WIDTH_LEAST_WEIGHT,
    WIDTH_ROWS,
    WIDTH_ROWS_HELD_OUT,
    WIDTH_STEPS,
    WIDTH_TREES,
    WIDTH_WORTH,
)
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True)
class Widths:
    """Lifetimes of a kernel, their weights of sum 1, and the penalty that goes with them."""

    lifetimes: FloatArray
    weights: FloatArray
    alpha: float


def learn_widths(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    *,
    lifetime: float,
    alpha: float,
    n_trees: int | None,
    seed: int,
    n_jobs: int | None,
) -> Widths:
    """Return the best of one width and a mixture of widths around it.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Scaled rows.
    Y : ndarray of shape (N, T)
        Targets.
    weight : ndarray of shape (N,) or None
        Sample weights, positive.
    lifetime, alpha : float
        The best single lifetime and its penalty.
    n_trees : int or None
        Number of trees of the model, where it is given.
    seed : int
        Seed of the trees and of the rows held out.
    n_jobs : int or None
        Threads.

    Returns
    -------
    widths : Widths
        The single width, unless a mixture has a lower error on the rows held out.
    """
    ladder, alone = np.array(LADDER), Widths(np.array([lifetime]), np.ones(1), alpha)
    order = np.random.default_rng([seed, 2]).permutation(rows.shape[0])
    n_out = min(int(WIDTH_HELD_OUT_SHARE * order.size), WIDTH_ROWS_HELD_OUT)
    if lifetime <= 0 or n_out < 2:
        return alone
    out, fitted = order[:n_out], np.sort(order[n_out : n_out + WIDTH_ROWS])
    s = np.ones(rows.shape[0]) if weight is None else weight
    error = HeldOutError(
        rows[fitted],
        Y[fitted],
        s[fitted],
        rows[out],
        Y[out],
        s[out],
        lifetimes=lifetime * ladder,
        n_trees=WIDTH_TREES if n_trees is None else min(n_trees, WIDTH_TREES),
        seed=seed,
        n_jobs=n_jobs,
    )
    single = error(np.where(ladder == 1.0, -np.log(alpha), -np.inf))[0]
    start = np.full(ladder.size, -np.log(ladder.size * alpha))
    found = minimize(
        error,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(a - 9.0, a + 9.0) for a in start],
        options={"maxfun": WIDTH_STEPS, "ftol": 1e-5},
    )
    if not found.fun < single - WIDTH_WORTH:
        return alone
    v = np.exp(found.x)
    kept = v > WIDTH_LEAST_WEIGHT * v.sum()
    total = float(v[kept].sum())
    return Widths(error.lifetimes[kept], v[kept] / total, 1.0 / total)


class HeldOutError:
    r"""Half the logarithm of the error of rows held out, times their number, and its gradient.

    A function of :math:`\ln v_l`. With A = K + I, a = A⁻¹y and f = K' a the predictions of the rows
    held out, the gradient of the error takes one more solve, of A z = K'ᵀ f', with f' the gradient
    in f: the derivative in :math:`v_l` is :math:`f'^\top K'_l a - z^\top K_l a`.

    Parameters
    ----------
    rows, Y, weight, rows_out, Y_out, weight_out : ndarrays
        Rows to fit and rows held out, with targets and weights.
    lifetimes : ndarray of shape (L,)
        Lifetimes, increasing.
    n_trees, seed, n_jobs : int
        Trees.
    """

    def __init__(
        self,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray,
        rows_out: FloatArray,
        Y_out: FloatArray,
        weight_out: FloatArray,
        *,
        lifetimes: FloatArray,
        n_trees: int,
        seed: int,
        n_jobs: int | None,
    ) -> None:
        trees, leaf = grow_trees(rows, float(lifetimes[-1]), n_trees, seed, None, n_jobs)
        levels = Levels.of(trees, lifetimes, np.ones(lifetimes.size))
        self.lifetimes = lifetimes
        self._operator = LevelOperator(trees, leaf, levels, weight, rows, n_jobs=n_jobs)
        node, log_stay = trees.walk_through(rows_out, lifetimes, n_jobs)
        Phi, offset = levels.features(node, log_stay), levels.offset
        self._out = [sparse.csr_matrix(Phi[:, a:b]) for a, b in pairwise(offset)]
        self._offset = offset
        self._target, self._mean = centred_targets(self._operator, Y)
        self._Y_out, self._s_out = Y_out, weight_out[:, None] / weight_out.sum()
        self._variance = float(np.sum(self._s_out * (Y_out - self._mean) ** 2)) or 1.0
        self._a = self._z = np.zeros_like(self._target)

    def __call__(self, log_v: FloatArray) -> tuple[float, FloatArray]:
        """Return the value at ln v (L,), and its gradient."""
        v, n_out, base = np.exp(log_v), self._Y_out.shape[0], self._operator
        operator = base.with_weights(v)
        precondition = Nystroem(operator, 1.0)
        self._a = self._solve(operator, precondition, self._target, self._a)
        a = operator.centred(self._a.copy())
        each = base.gram_of_levels(a)  # (L, N, T)
        W = base.scatter(base.root_weight[:, None] * a)
        mean = base.mean_direction / np.sqrt(base.total_weight)
        parts = np.stack(
            [
                Phi @ W[begin:end] - mean @ K
                for Phi, K, (begin, end) in zip(
                    self._out, each, pairwise(self._offset), strict=True
                )
            ]
        )
        residual = self._mean + np.einsum("l,lnt->nt", v, parts) - self._Y_out
        error = float(np.sum(self._s_out * residual**2)) / self._variance + LEAST_ERROR
        slope = 2.0 * self._s_out * residual / (self._variance * error)
        # The gradient in a, of the predictions and of the mean that is taken off them.
        W_out = np.concatenate([w * (Phi.T @ slope) for w, Phi in zip(v, self._out, strict=True)])
        pulled = base.root_weight[:, None] * base.gather(W_out)
        K_mean = np.einsum("l,lnt->nt", v, base.gram_of_levels(mean[:, None]))
        pulled -= K_mean * slope.sum(axis=0)
        self._z = self._solve(operator, precondition, operator.centred(pulled), self._z)
        z = operator.centred(self._z.copy())
        gradient = np.einsum("nt,lnt->l", slope, parts) - np.einsum("nt,lnt->l", z, each)
        return 0.5 * n_out * np.log(error), 0.5 * n_out * v * gradient

    def _solve(
        self, operator: LevelOperator, precondition: Nystroem, B: FloatArray, start: FloatArray
    ) -> FloatArray:
        """Solve (K + I) X = B roughly, from a point nearby."""
        product = shifted(operator, 1.0)
        enough = WIDTH_GRADIENT_TOL * np.linalg.norm(B, axis=0)
        change, _ = conjugate_gradients(
            product,
            B - product(start),
            lambda now: bool(np.all(np.linalg.norm(now.residual, axis=0) <= enough)),
            precondition=precondition,
            max_steps=WIDTH_GRADIENT_STEPS,
        )
        return start + change
