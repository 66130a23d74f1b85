"""Walk new rows down trees and note how their features fade with time."""

from numba import njit

from mondrian_kernel._kernels.walk import box_distance


@njit(cache=True, nogil=True)
def decay(
    X, root, left, right, dim, loc, time, lower, upper, row, tree, start, level, slope
):  # fmt: skip
    """Note the pieces of log φ along the way of each row down each tree, to its leaf.

    At a node with box B alive from ``start`` on, a row at L1 distance ``slope`` from B has
    log(√M φ) = level - slope (t - start). Pieces where this is 0 throughout are left out, and
    consecutive constant ones are joined. Sorted by row, tree and start. Returns the number of
    pieces; those that fit into the five output arrays are written.
    """
    n = 0
    for i in range(X.shape[0]):
        for m in range(root.size):
            node = root[m]
            birth = log_p = 0.0
            flat = True
            while True:
                distance = box_distance(X, i, lower, upper, node)
                if distance > 0.0 or not flat:
                    if n < row.size:
                        row[n], tree[n] = i, m
                        start[n], level[n], slope[n] = birth, log_p, distance
                    n += 1
                flat = distance == 0.0
                if left[node] < 0:
                    break
                if distance > 0.0:
                    log_p -= distance * (time[node] - birth)
                birth = time[node]
                node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
    return n
