"""Forests that take each row once, into the sums of its cells.

One call learns a batch at all rungs. See :mod:`mondrian_kernel._kernels.rungs` for the arrays.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def learn_means(leaf, column, Y, sample_weight, alpha, centre, sums, counts, totals, losses):
    """Take each row once, in order, into the sums of its cells: each tree is learnt apart.

    At each rung ``sums`` (C, K + 1) holds Σ s y and, last, Σ s of the rows of each cell and
    ``counts`` (C,) Σ s as well; ``totals`` (R, K + 1) the sums over all rows. ``losses`` (R, n)
    receives the squared errors of the scores before each row was learnt from; see
    :func:`average_means`.
    """
    n_outputs = Y.shape[1]
    certain = np.empty((0, 0))
    cells = np.empty((1, leaf.shape[1]), np.int32)
    scores = np.empty((1, n_outputs))
    for r in range(losses.shape[0]):
        add, n, all_rows = sums[r], counts[r], totals[r]
        for i in range(leaf.shape[0]):
            s = sample_weight[i]
            for m in range(leaf.shape[1]):
                cells[0, m] = column[r, leaf[i, m]]
            _average(cells, 0, certain, alpha, centre, add, n, all_rows, scores)
            losses[r, i] = 0.0
            for k in range(n_outputs):
                losses[r, i] += (Y[i, k] - scores[0, k]) ** 2
                all_rows[k] += s * Y[i, k]
            all_rows[n_outputs] += s
            for m in range(leaf.shape[1]):
                c = cells[0, m]
                for k in range(n_outputs):
                    add[c, k] += s * Y[i, k]
                add[c, n_outputs] += s
                n[c] += s


@njit(cache=True, nogil=True)
def average_means(cells, values, alpha, centre, sums, counts, totals, scores):
    """Average the means of the cells of each row, shrunk to the mean b of all rows.

        scores = b + Σ_m values_m (Σ s y - b Σ s)_c / (counts_c + alpha) / M

    with b = 0 unless ``centre``. ``cells`` int32 (n, M), ``values`` (n, M), ``scores`` (n, K).
    """
    for i in range(cells.shape[0]):
        _average(cells, i, values, alpha, centre, sums, counts, totals, scores)


@njit(cache=True, nogil=True)
def _average(cells, i, values, alpha, centre, sums, counts, totals, scores):
    n_trees, n_outputs = cells.shape[1], scores.shape[1]
    for k in range(n_outputs):
        b = totals[k] / totals[n_outputs] if centre and totals[n_outputs] > 0.0 else 0.0
        score = 0.0
        for m in range(n_trees):
            c = cells[i, m]
            if counts[c] + alpha > 0.0:
                part = (sums[c, k] - b * sums[c, n_outputs]) / (counts[c] + alpha)
                score += part if values.size == 0 else values[i, m] * part
        scores[i, k] = b + score / n_trees
