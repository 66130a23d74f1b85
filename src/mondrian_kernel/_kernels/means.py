"""A forest that learns from each row once, by adding it to the sums of its cells.

One call learns a batch at all rungs. See :mod:`mondrian_kernel._kernels.rungs` for the arrays.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


@kernel
def learn_means(leaf, column, value, Y, sample_weight, alpha, centre, sums, totals, losses):
    """Add each row, in order, to the sums of its cells: every tree is learnt apart.

    At each rung ``sums`` (C, K + 2) holds Σ s y and twice Σ s over the rows of each cell, and
    ``totals`` (R, K + 1) the sums of s y and s over all rows. ``losses`` (R, n) receives the
    squared error of each row before it was learnt from (see :func:`average_means`), and 0 for a
    first row that only sets the mean.
    """
    n_trees, n_levels, n_outputs = leaf.shape[1], value.size, Y.shape[1]
    certain = np.empty((0, 0))
    cells = np.empty((1, n_levels * n_trees), np.int64)
    scores = np.empty((1, n_outputs))
    for r in range(losses.shape[0]):
        add, all_rows = sums[r], totals[r]
        for i in range(leaf.shape[0]):
            s = sample_weight[i]
            for l in range(n_levels):
                for m in range(n_trees):
                    c = np.int64(column[r * n_levels + l, leaf[i, m]])
                    cells[0, l * n_trees + m] = c * n_levels + l
            _average(cells, 0, certain, value, alpha, centre, add, all_rows, scores)
            losses[r, i] = 0.0
            sets_mean = centre and all_rows[n_outputs] == 0.0
            for k in range(n_outputs):
                losses[r, i] += 0.0 if sets_mean else (Y[i, k] - scores[0, k]) ** 2
                all_rows[k] += s * Y[i, k]
            all_rows[n_outputs] += s
            for c in cells[0]:
                for k in range(n_outputs):
                    add[c, k] += s * Y[i, k]
                add[c, n_outputs] += s
                add[c, n_outputs + 1] += s


@kernel
def average_means(cells, stay, value, alpha, centre, sums, totals, scores):
    """Average the means of the cells of each row, shrunk to the mean b of all rows.

        scores = b + Σ_l value_l² Σ_m stay_lm (Σ s y - b Σ s)_c / (Σ s + alpha)_c

    with b = 0 unless ``centre``. ``cells`` int64 (n, L M) are rows of ``sums``, level after level;
    ``stay`` (n, L M) are the probabilities that the rows lie in them; ``scores`` (n, K).
    """
    for i in range(cells.shape[0]):
        _average(cells, i, stay, value, alpha, centre, sums, totals, scores)


@kernel
def _average(cells, i, stay, value, alpha, centre, sums, totals, scores):
    n_outputs = scores.shape[1]
    n_trees = cells.shape[1] // value.size
    for k in range(n_outputs):
        b = totals[k] / totals[n_outputs] if centre and totals[n_outputs] > 0.0 else 0.0
        score = b
        for l in range(value.size):
            level_sum = 0.0
            for j in range(l * n_trees, (l + 1) * n_trees):
                c = cells[i, j]
                if sums[c, n_outputs + 1] + alpha > 0.0:
                    part = sums[c, k] - b * sums[c, n_outputs]
                    part /= sums[c, n_outputs + 1] + alpha
                    level_sum += part if stay.size == 0 else stay[i, j] * part
            score += value[l] ** 2 * level_sum
        scores[i, k] = score


@kernel
def write_weights(sums, intercept, alpha, value, W):
    """Write the weight of every cell, value (Σ s y - b Σ s) / (Σ s + alpha), to ``W`` (C, K).

    ``sums`` (C, K + 2), ``intercept`` b (K,). Cells without rows have the weight 0.
    """
    n_outputs = W.shape[1]
    for c in range(W.shape[0]):
        n = sums[c, n_outputs + 1] + alpha
        for k in range(n_outputs):
            rest = sums[c, k] - intercept[k] * sums[c, n_outputs]
            W[c, k] = value * rest / n if n > 0.0 else 0.0
