r"""Shapley values of predictions, and the rows of a fit that are most similar to a row.

The Shapley value of column j at a row x is the mean, over rows z of a background and over all
orders of the columns, of the change of the prediction when column j of z becomes that of x, after
the columns before it in the order have. The values of all columns add up to the prediction of x
less the mean prediction of the background, for any set of orders.

Up to four columns all orders are taken. Beyond, each row of the background has one random order, of
which the next row has the reverse; in a small background each row has both. What single columns do
is then exact too and, in a small background, what pairs of columns do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._typing import FloatArray

Predict = Callable[[FloatArray], FloatArray]


def shapley_values(
    predict: Predict, rows: FloatArray, background: FloatArray, group: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean prediction of the background, the Shapley values, and the predictions.

    Parameters
    ----------
    predict : callable
        Predictions (n, K) of rows (n, D).
    rows : ndarray of shape (n, D)
        Rows to explain.
    background : ndarray of shape (B, D)
        Rows to compare with.
    group : ndarray of shape (D,)
        Number of the input column of each column; columns of a group change together.

    Returns
    -------
    base : ndarray of shape (K,)
        Mean prediction of the background.
    values : ndarray of shape (n, G, K)
        Shapley values of the G input columns.
    predictions : ndarray of shape (n, K)
        Predictions of the rows.
    """
    n_rows, n_columns = rows.shape[0], int(group.max()) + 1
    ends, starts = predict(rows), predict(background)
    values = np.zeros((n_rows, n_columns, ends.shape[1]))
    for z, start, orders in zip(
        background, starts, _orders(n_columns, background.shape[0]), strict=True
    ):
        steps, masks, place = _walks(orders)
        size = max(1, settings.EXPLAIN_NUMBERS // max(masks.shape[0] * rows.shape[1], 1))
        for begin in range(0, n_rows, size):
            some = slice(begin, begin + size)
            mixed = np.where(masks[:, None, group], rows[some], z)
            found = np.empty((masks.shape[0] + 2, *ends[some].shape))
            found[0], found[-1] = start, ends[some]
            if masks.shape[0]:
                found[1:-1] = _predict_once(predict, mixed.reshape(-1, rows.shape[1])).reshape(
                    found[1:-1].shape
                )
            for order, at in zip(orders, place, strict=True):
                values[some, order] += np.diff(found[at], axis=0).swapaxes(0, 1)
    values /= background.shape[0] * steps
    return starts.mean(axis=0), values, ends


def _predict_once(predict: Predict, rows: FloatArray) -> FloatArray:
    """Predict rows of which many are equal, where a row and the background share categories."""
    rows = np.ascontiguousarray(rows)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return predict(rows[first])[place]


def _orders(n_columns: int, n_rows: int) -> NDArray[np.intp]:
    """Return orders of the columns for each row of the background, (n_rows, n_orders, G)."""
    if n_columns <= settings.EXPLAIN_ALL_ORDERS:
        return np.array([list(permutations(range(n_columns)))] * n_rows)
    rng = np.random.default_rng(0)  # the same row has the same explanation every time
    one = rng.permuted(np.tile(np.arange(n_columns), (n_rows, 1)), axis=1)
    if n_rows < settings.BACKGROUND_ROWS:
        return np.stack([one, one[:, ::-1]], axis=1)
    one[1::2] = one[:-1:2, ::-1]
    return one[:, None]


def _walks(orders: NDArray[np.intp]) -> tuple[int, NDArray[np.bool_], NDArray[np.intp]]:
    """Return the number P of orders, the sets of columns on their way, and which each order meets.

    The sets (U, G) leave out the empty and the full one, which are numbers 0 and U + 1.
    """
    n_orders, n_columns = orders.shape
    rank = np.argsort(orders, axis=1)
    on = rank[:, None, :] < np.arange(n_columns + 1)[:, None]  # (P, G + 1, G)
    sets, place = np.unique(on[:, 1:-1].reshape(-1, n_columns), axis=0, return_inverse=True)
    inner = 1 + place.reshape(n_orders, n_columns - 1)
    first, last = np.zeros((n_orders, 1), int), np.full((n_orders, 1), sets.shape[0] + 1)
    return n_orders, sets, np.hstack([first, inner, last])


def most_similar(
    model: FittedModel, X: FloatArray, n_neighbours: int, n_jobs: int | None
) -> tuple[NDArray[np.intp], FloatArray]:
    r"""Return the rows of the fit with the largest kernel to new rows, and the kernel, (n, k) each.

    The kernel is that of the trees, :math:`\sum_l w_l \frac1M \sum_m p_{lm}(x) \,
    1[c_{lm}(x) = c_{lm}(x_i)]`, with weights w of sum 1: at most 1, for a row of the fit itself.
    """
    assert model.rows is not None
    leaf, levels = model.rows.leaf, model.levels
    new = model.features(X, n_jobs).T.tocsr()
    n_rows, k = leaf.shape[0], min(n_neighbours, leaf.shape[0])
    best: NDArray[np.intp] = np.empty((X.shape[0], 0), np.intp)
    kernel: FloatArray = np.empty((X.shape[0], 0))
    size = max(1, settings.EXPLAIN_NUMBERS // (levels.n_levels * levels.n_trees))
    for begin in range(0, n_rows, size):
        block = levels.features(leaf[begin : begin + size], None) @ new
        found = block.T.toarray()
        own = np.arange(begin, begin + found.shape[1])
        best = np.hstack([best, np.broadcast_to(own, found.shape)])
        kernel = np.hstack([kernel, found])
        order = np.argsort(-kernel, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(best, order, axis=1)
        kernel = np.take_along_axis(kernel, order, axis=1)
    return best, kernel / levels.weights.sum()
