"""Operations on learners at all rungs: values for cut cells, and copies for a rollback.

A batch is learnt by J learners in one call. ``leaf`` int32 (n, M) holds the node of each row in
each tree. Learner j learns at the rung ``rung[j]`` int64; several may share one. A learner has a
table with a row for each of its cells, or several such tables. If it learns at L levels at once,
row c L + l belongs to cell c at level l, and ``column`` int32 (at least R L, n_nodes) holds in row
r L + l the cell of each node. Tables come as a tuple of one length, whatever the number of
learners; the first J of them are used.
"""

from mondrian_kernel._kernels.compiled import kernel


@kernel
def inherit(rung, origin, n_before, n_kinds, tables):
    """Give new cells that were cut off from old ones the values of the old ones.

    At rung r the k-th new cell is a part of ``origin[r][k]``; for learner j it is the table row
    ``n_before[j]`` + k. ``tables`` are two-dimensional, the same number of each of the kinds. Only
    for learners of one level.
    """
    length = len(tables) // n_kinds
    for i in range(len(tables)):
        j, a = i % length, tables[i]
        if j < rung.size:
            cut = origin[rung[j]]
            for k in range(cut.size):  # in order: a part may have been cut again
                for e in range(a.shape[1]):
                    a[n_before[j] + k, e] = a[cut[k], e]


@kernel
def keep(leaf, column, rung, n_levels, n_before, tables, kept):
    """Copy the table rows that a batch may change.

    ``tables`` are as of :func:`inherit`. ``kept`` is a tuple of arrays (J, S, any), one for each
    kind. It receives the first ``n_before[j]`` rows of a table if these are at most n M L.
    Otherwise entry (i M + m) L + l receives the row of the cell of row i in tree m at level l, if
    that is among the first ``n_before[j]``.
    """
    n_trees, length = leaf.shape[1], len(tables) // len(kept)
    for t in range(len(tables)):
        j, a, out = t % length, tables[t], kept[t // length]
        n = n_before[j] if j < rung.size else 0
        if n <= leaf.size * n_levels:
            for c in range(n):
                for e in range(a.shape[1]):
                    out[j, c, e] = a[c, e]
        else:
            for i in range(leaf.size * n_levels):
                node, level = leaf[i // n_levels // n_trees, i // n_levels % n_trees], i % n_levels
                c = column[rung[j] * n_levels + level, node] * n_levels + level
                if c < n:
                    for e in range(a.shape[1]):
                        out[j, i, e] = a[c, e]
