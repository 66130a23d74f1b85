"""What the learners of all rungs have in common: what parts inherit, what a batch will change.

A batch is learnt at all rungs by one call. ``leaf`` int32 (n, M) holds the node of each row in each
tree, ``column`` int32 (at least R, n_nodes) the cell of each node at each rung, and tuples of
arrays the numbers of the learners, the first R of which count.
"""

from numba import njit


@njit(cache=True, nogil=True)
def inherit(origin, n_before, arrays):
    """Give parts of cells the numbers of the whole.

    At each of the R rungs, as many as ``n_before`` int64 (R,) has numbers, the cell
    ``n_before[r]`` + k is a part of ``origin[r][k]``. ``arrays`` is a tuple of arrays of a row a
    cell, as many for each kind of them as ``origin`` is long.
    """
    length = len(origin)
    for j in range(len(arrays)):
        r, a = j % length, arrays[j]
        if r < n_before.size:
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
    n_trees, length = leaf.shape[1], len(arrays) // len(kept)
    for j in range(len(arrays)):
        r, a, out = j % length, arrays[j], kept[j // length]
        n = n_before[r] if r < n_before.size else 0
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
