"""Errors on rows held out, at several lifetimes for one walk down the trees."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._trees.csr import features_through
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray

# Features of so many (row, tree, lifetime) at once.
_AT_ONCE = 2**24


def held_out_errors(
    trees: Trees,
    lifetimes: FloatArray,
    models: list[tuple[FloatArray, FloatArray]],
    X: FloatArray,
    Y: FloatArray,
    n_jobs: int | None,
) -> list[FloatArray]:
    """Mean squared errors (A,) at each lifetime.

    ``models`` holds weights (C, T·A) and intercepts (T·A,) of each lifetime; Y is (N, T).
    """
    n_rows, n_outputs = Y.shape
    squares = [np.zeros(intercept.size // n_outputs) for _, intercept in models]
    step = max(1, _AT_ONCE // (trees.n_trees * lifetimes.size))
    for begin in range(0, n_rows, step):
        some = slice(begin, begin + step)
        through = features_through(trees, X[some], lifetimes, n_jobs)
        for Phi, (coef, intercept), total in zip(through, models, squares, strict=True):
            predicted = (Phi @ coef + intercept).reshape(-1, n_outputs, total.size)
            total += ((predicted - Y[some, :, None]) ** 2).sum(axis=(0, 1))
    return [total / Y.size for total in squares]
