"""Operations on the learners of all rungs: values for cut cells, copies for a rollback.

A batch is learnt at all rungs by one call. ``leaf`` int32 (n, M) holds the node of each row in each
tree. A learner has a table with a row for each of its cells, or several such tables. If it learns
at L levels at once, row c L + l belongs to cell c at level l, and ``column`` int32 (at least R L,
n_nodes) holds in row r L + l the cell of each node. Tables come as a tuple of one length, whatever
the number of rungs; the first R of them are used.
"""

from mondrian_kernel._kernels.compiled import kernel


@kernel
def inherit(origin, n_before, tables):
    """Give new cells that were cut off from old ones the values of the old ones.

    At each of the R rungs, R being the size of ``n_before`` int64, the cell ``n_before[r]`` + k is
    a part of ``origin[r][k]``. ``tables`` are two-dimensional: for each kind as many as ``origin``
    has entries. Only for learners of one level.
    """
    length = len(origin)
    for j in range(len(tables)):
        r, a = j % length, tables[j]
        if r < n_before.size:
            for k in range(origin[r].size):  # in order: a part may have been cut again
                for e in range(a.shape[1]):
                    a[n_before[r] + k, e] = a[origin[r][k], e]


@kernel
def keep(leaf, column, n_levels, n_before, tables, kept):
    """Copy the table rows that a batch may change.

    ``tables`` are as of :func:`inherit`. ``kept`` is a tuple of arrays (R, S, any), one for each
    kind. It receives the first ``n_before[r]`` rows of a table if these are at most n M L.
    Otherwise entry (i M + m) L + l receives the row of the cell of row i in tree m at level l, if
    that is among the first ``n_before[r]``.
    """
    n_trees, length = leaf.shape[1], len(tables) // len(kept)
    for j in range(len(tables)):
        r, a, out = j % length, tables[j], kept[j // length]
        n = n_before[r] if r < n_before.size else 0
        if n <= leaf.size * n_levels:
            for c in range(n):
                for e in range(a.shape[1]):
                    out[r, c, e] = a[c, e]
        else:
            for i in range(leaf.size * n_levels):
                node, level = leaf[i // n_levels // n_trees, i // n_levels % n_trees], i % n_levels
                c = column[r * n_levels + level, node] * n_levels + level
                if c < n:
                    for e in range(a.shape[1]):
                        out[r, i, e] = a[c, e]


@kernel
def update_errors(losses, n_seen, window, error):
    """Update the running means ``error`` (R,) by the losses (R, n) of rows, in order.

    A running mean is that of all rows up to ``window`` rows, of which ``n_seen`` came before these.
    After that every row has the weight 1 / ``window`` and older rows are forgotten.
    """
    for i in range(losses.shape[1]):
        rate = 1.0 / min(n_seen + i + 1, window)
        for r in range(error.size):
            error[r] += rate * (losses[r, i] - error[r])
