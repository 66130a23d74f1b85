"""What the learners of all rungs have in common: what parts inherit, what a batch will change.

A batch is learnt at all rungs by one call. ``leaf`` int32 (n, M) holds the node of each row in each
tree, ``column`` int32 (at least R, n_nodes) the cell of each node at each rung, and tuples of R
arrays the numbers of the learners.
"""

from numba import njit


@njit(cache=True, nogil=True)
def inherit(origin, n_before, arrays):
    """Give parts of cells the numbers of the whole.

    At rung r the cell ``n_before[r]`` + k is a part of ``origin[r][k]``. ``arrays`` is a tuple of
    arrays of a row a cell, those of all rungs after each other, once or more often.
    """
    n_rungs = len(origin)
    for j in range(len(arrays)):
        r = j % n_rungs
        a = arrays[j]
        for k in range(origin[r].size):  # a part may have been cut again
            for e in range(a.shape[1]):
                a[n_before[r] + k, e] = a[origin[r][k], e]


@njit(cache=True, nogil=True)
def keep(leaf, column, n_before, arrays, kept):
    """Copy the numbers that the cells of a batch have before it.

    ``arrays`` are as of :func:`inherit`, and ``kept`` is a tuple of arrays (R, S, any), one for all
    rungs. It receives the first ``n_before[r]`` rows where these are not more than the insertions
    of the batch; otherwise, for each of those, the row of its cell, if this is an old one.
    """
    n_trees, n_rungs = leaf.shape[1], n_before.size
    for j in range(len(arrays)):
        r, n = j % n_rungs, n_before[j % n_rungs]
        a, out = arrays[j], kept[j // n_rungs]
        if n <= leaf.size:
            for c in range(n):
                for e in range(a.shape[1]):
                    out[r, c, e] = a[c, e]
        else:
            for i in range(leaf.size):
                c = column[r, leaf[i // n_trees, i % n_trees]]
                if c < n:
                    for e in range(a.shape[1]):
                        out[r, i, e] = a[c, e]


@njit(cache=True, nogil=True)
def forget(losses, n_seen, window, error):
    """Update the running means ``error`` (R,) by the losses (R, n) of rows, in order.

    The mean of all rows up to ``window``, ``n_seen`` of them before these; then one that forgets,
    with 1/window of each new row.
    """
    for i in range(losses.shape[1]):
        rate = 1.0 / min(n_seen + i + 1, window)
        for r in range(error.size):
            error[r] += rate * (losses[r, i] - error[r])
