"""A forest that learns from each row once, by adding it to the sums of its cells.

One call trains all learners on a batch; :mod:`mondrian_kernel._kernels.learners` has the arrays.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.tables import NodeTable
from mondrian_kernel._kernels.walk import walk_trees


@kernel
def learn_means(
    leaf,
    column,
    rung,
    begin,
    value,
    Y,
    sample_weight,
    alpha,
    centre,
    keep,
    sums,
    totals,
    growth,
    scores,
):
    """Add each row, in order, to the sums of its cells: every tree is learnt apart.

    Of the J learners ``sums`` (C, K + 2) holds Σ s y and twice Σ s over the rows of each
    cell, and ``totals`` (J, K + 1) the sums of s y and s over all rows. Learner j forgets: a row
    has the weight s times ``growth`` (J, 1), which is divided by ``keep[j]`` before each row.
    ``scores`` (J, n, K) receives the scores of the rows before any of them was learnt from; before
    the first row they are its target.
    """
    n, n_trees, n_levels, n_outputs = leaf.shape[0], leaf.shape[1], value.size, Y.shape[1]
    for j in range(keep.size):
        add, all_rows = sums[begin[j] : begin[j + 1]], totals[j]
        first = rung[j] * n_levels
        for i in range(n):
            for k in range(n_outputs):
                b = _mean(all_rows, k, centre)
                if centre and all_rows[n_outputs] == 0.0:
                    b = Y[0, k]
                scores[j, i, k] = b
                for l in range(n_levels):
                    for m in range(n_trees):
                        c = np.int64(column[first + l, leaf[i, m]]) * n_levels + l
                        part = _cell_mean(add[c], k, b, alpha * growth[j, 0])
                        scores[j, i, k] += value[l] ** 2 * part
        for i in range(n):
            growth[j, 0] /= keep[j]
            s = sample_weight[i] * growth[j, 0]
            for k in range(n_outputs):
                all_rows[k] += s * Y[i, k]
            all_rows[n_outputs] += s
            for l in range(n_levels):
                for m in range(n_trees):
                    c = np.int64(column[first + l, leaf[i, m]]) * n_levels + l
                    for k in range(n_outputs):
                        add[c, k] += s * Y[i, k]
                    add[c, n_outputs] += s
                    add[c, n_outputs + 1] += s


@kernel
def _mean(totals, k, centre):
    total = totals[totals.size - 1]
    return totals[k] / total if centre and total > 0.0 else 0.0


@kernel
def _cell_mean(sums, k, b, alpha):
    """(Σ s y - b Σ s) / (Σ s + alpha) of a cell, 0 where it has no rows."""
    n_outputs = sums.size - 2
    total = sums[n_outputs + 1] + alpha
    return (sums[k] - b * sums[n_outputs]) / total if total > 0.0 else 0.0


@kernel
def mixed_means(
    X,
    arrays,
    lifetimes,
    column,
    rung,
    begin,
    value,
    weights,
    alpha,
    centre,
    sums,
    totals,
    growth,
    scores,
):
    """Average the means of the cells of each row, less the mean b of all rows.

        scores (n, K) = Σ_j weights_j Σ_l value_l² Σ_m p_lm (Σ s y - b Σ s) / (Σ s + alpha)

    with b = 0 unless ``centre``, and p_lm as of :func:`mondrian_kernel._kernels.walk.walk`.
    ``arrays`` are those of a ``NodeTable``, ``lifetimes`` those of all rungs and their levels.
    """
    nodes, n_levels = NodeTable(*arrays), value.size
    n, n_outputs = scores.shape
    node_of, log_stay = np.empty((n, 1), np.int32), np.empty((n, 1, lifetimes.size))
    for i in range(n):
        for k in range(n_outputs):
            scores[i, k] = 0.0
    for m in range(nodes.root.size):
        walk_trees(X, nodes, m, m + 1, lifetimes, node_of, log_stay)
        for i in range(n):
            for j in range(rung.size):
                if weights[j] == 0.0:
                    continue
                for l in range(n_levels):
                    level = rung[j] * n_levels + l
                    c = begin[j] + np.int64(column[level, node_of[i, 0]]) * n_levels + l
                    feature = weights[j] * value[l] ** 2 * np.exp(log_stay[i, 0, level])
                    for k in range(n_outputs):
                        b = _mean(totals[j], k, centre)
                        part = _cell_mean(sums[c], k, b, alpha * growth[j, 0])
                        scores[i, k] += feature * part
