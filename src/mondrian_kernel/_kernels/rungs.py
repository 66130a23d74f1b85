"""Operations on learners at all rungs: values for cut cells, and copies for a rollback.

A batch is learnt by J learners in one call. ``leaf`` int32 (n, M) holds the node of each row in
each tree. Learner j learns at the rung ``rung[j]`` int64; several may share one. A learner has a
row for each of its cells in each kind of table. The rows of learner j are ``begin[j]`` to
``begin[j + 1]`` int64 of the table, of which not all need be in use. If it learns at L levels at
once, its row c L + l belongs to cell c at level l, and ``column`` int32 (at least R L, n_nodes)
holds in row r L + l the cell of each node.
"""

from mondrian_kernel._kernels.compiled import kernel


@kernel
def inherit(rung, begin, origin, n_before, tables):
    """Give new cells that were cut off from old ones the values of the old ones.

    At rung r the k-th new cell is a part of ``origin[r][k]``; for learner j it is row
    ``n_before[j]`` + k. ``tables`` are two-dimensional. Only for learners of one level.
    """
    for t in range(len(tables)):
        a = tables[t]
        for j in range(rung.size):
            cut, first = origin[rung[j]], begin[j]
            for k in range(cut.size):  # in order: a part may have been cut again
                for e in range(a.shape[1]):
                    a[first + n_before[j] + k, e] = a[first + cut[k], e]


@kernel
def keep(leaf, column, rung, begin, n_levels, n_before, tables, kept):
    """Copy the table rows that a batch may change.

    ``tables`` are two-dimensional. ``kept`` is a tuple of arrays (J, S, any), one for each. It
    receives the first ``n_before[j]`` rows of a learner if these are at most n M L. Otherwise entry
    (i M + m) L + l receives the row of the cell of row i in tree m at level l, if that is among the
    first ``n_before[j]``.
    """
    n_trees = leaf.shape[1]
    for t in range(len(tables)):
        a, out = tables[t], kept[t]
        for j in range(rung.size):
            n, first = n_before[j], begin[j]
            if n <= leaf.size * n_levels:
                for c in range(n):
                    for e in range(a.shape[1]):
                        out[j, c, e] = a[first + c, e]
                continue
            for i in range(leaf.size * n_levels):
                node, level = leaf[i // n_levels // n_trees, i // n_levels % n_trees], i % n_levels
                c = column[rung[j] * n_levels + level, node] * n_levels + level
                if c < n:
                    for e in range(a.shape[1]):
                        out[j, i, e] = a[first + c, e]
