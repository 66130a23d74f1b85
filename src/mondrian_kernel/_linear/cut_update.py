r"""The next k cuts from one factor, as one low-rank update.

Cut j parts b off the cell c. With F = [φ_c φ_b] it changes the kernel matrix by

.. math:: K_j - K_{j-1} = F D F^\top, \quad D = \begin{pmatrix} 0 & -1 \\ -1 & 2 \end{pmatrix}.

Stack the F of k cuts and let :math:`G = (K_0 + \alpha I)^{-1}`. By Woodbury's formula all k states
follow from :math:`H = \mathrm{diag}(D^{-1}) + F^\top G F = L\,\mathrm{diag}(d)\,L^\top`, for
leading blocks of H have leading blocks of L and d. Each cut has one pivot :math:`d \le -1` and one
:math:`d > 0`, so that no pivoting is needed. With :math:`\beta = L^{-1} F^\top G y`, column q of
:math:`R = \alpha G F L^{-\top}` takes :math:`\beta_q R_q / d_q` from the residuals αGy and
:math:`R_q^2 / (\alpha d_q)` from αG_ii = 1 - h_i, and adds ln|d_q| to the log-determinant.
R = Φ Y is a function of cells too, and holds for new rows as well. The product goes through the
rows as a tree of small differences, which touches few cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from mondrian_kernel._linear.cut_factor import Dual, Primal
from mondrian_kernel._settings import LDL_PANEL, ROW_TREE_KEYS, ROW_TREE_ORDERS
from mondrian_kernel._typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class CutBlock:
    """Low-rank update over k cuts: per column ``step`` β/d, pivot ``d`` and cells ``Y`` (C, 2k).

    ``R`` (N, 2k) is Φ Y of the rows fitted, where that is known more exactly than by the product.
    ``coef`` are the weights before the cuts, on the cells after them: a new cell begins with the
    weight of the cell it comes from, and Y takes it on.
    """

    Y: FloatArray
    R: FloatArray | None
    d: FloatArray
    step: FloatArray
    coef: FloatArray

    @property
    def last_coef(self) -> FloatArray:
        """Weights after the last cut."""
        w: FloatArray = self.coef + self.Y @ self.step
        return w


def cut_block(factor: Primal | Dual, k: int, coef: FloatArray, residual: FloatArray) -> CutBlock:
    """Prepare the next k cuts, given weights and residuals before them."""
    from mondrian_kernel._kernels.cut_rows import sum_runs
    from mondrian_kernel._kernels.every_cut import compose

    nested, cuts = factor.nested, factor.cuts
    m = nested.n_partitions
    old, source = _sources(nested.splits[cuts : cuts + k], m + cuts)
    e = old.size
    U, S, rows = factor.respond(k, old)

    def of_cuts(V: FloatArray) -> FloatArray:
        F = np.empty((2 * k, V.shape[1]))
        compose(V[:e], V[e:], source, F)
        return F

    H = of_cuts(np.ascontiguousarray(of_cuts(S).T))
    i = np.arange(0, 2 * k, 2)
    H[i, i] -= 2.0
    H[i, i + 1] -= 1.0
    H[i + 1, i] -= 1.0
    d = _ldl(H)

    new_y = np.empty(k)
    sum_runs(nested, cuts, residual, new_y)
    new_y /= factor.alpha * m**0.5
    beta = of_cuts(np.concatenate([coef[old], new_y])[:, None])[:, 0]
    beta = solve_triangular(H, beta, lower=True, unit_diagonal=True)
    U = _refine(U, nested.splits[cuts : cuts + k], nested.stage(cuts), m + cuts)

    def eliminate(F: FloatArray) -> FloatArray:
        FL: FloatArray = dtrsm(1.0, H.T, F.T, side=1, lower=0, diag=1, overwrite_b=1)
        return FL

    Y = eliminate(of_cuts(U))
    R = None if rows is None else eliminate(of_cuts(rows))
    return CutBlock(Y, R, d, beta / d, coef[nested.stage(cuts)[: m + cuts + k]])


def _sources(splits: IntArray, n_cells: int) -> tuple[IntArray, NDArray[np.int32]]:
    """Cells among the present ``n_cells`` that are split, and what each cut finds there.

    See :func:`mondrian_kernel._kernels.every_cut.compose`.
    """
    old = np.unique(splits[splits < n_cells])
    found = {int(c): (0, i) for i, c in enumerate(old)}
    source = np.empty((splits.size, 2), np.int32)
    for j, c in enumerate(splits.tolist()):
        source[j] = found[c]
        found[c], found[n_cells + j] = (2, j), (1, j)
    return old, source


def _refine(U: FloatArray, splits: IntArray, stage: IntArray, n_cells: int) -> FloatArray:
    """Extend rows of U over the present cells to the cells that the cuts will make.

    A new cell takes the value of the one it comes from; the rows of features that the cuts make,
    the last of U, gain 1 on the cells inside.
    """
    k, e = splits.size, U.shape[0] - splits.size
    fine = np.empty((U.shape[0], n_cells + k))
    fine[:, :n_cells] = U
    fine[:, n_cells:] = U[:, stage[n_cells : n_cells + k]]
    inside = np.eye(k)
    for j, c in enumerate(splits.tolist()):
        if c >= n_cells:
            inside[:, j] += inside[:, c - n_cells]
    fine[e:, n_cells:] += inside
    return fine


def _ldl(H: FloatArray) -> FloatArray:
    """Overwrite the lower triangle of H with unit lower L where H = L diag(d) Lᵀ; return d."""
    from mondrian_kernel._kernels.every_cut import ldl_panel

    n = H.shape[0]
    d = np.empty(n)
    for begin in range(0, n, LDL_PANEL):
        end = min(begin + LDL_PANEL, n)
        ldl_panel(H, begin, end, d)
        below = H[end:, begin:end]
        H[end:, end:] -= (below * d[begin:end]) @ below.T
    return d


class RowTree(NamedTuple):
    """Rows in an order in which each differs little from one before it.

    Similar rows share most of their cells: with N rows in M partitions, Φ Y takes as many
    additions a column as rows differ from their parents, instead of N M. Cells only ever get
    finer, so that a tree made for the final cells serves all earlier ones.
    """

    visit: IntArray
    parent: IntArray
    ptr: IntArray
    plus: IntArray
    minus: IntArray

    def product(self, Y: FloatArray, stage: IntArray) -> FloatArray:
        """Φ Y for the 0-1 features Φ of the rows; ``stage`` maps final cells to rows of Y."""
        from mondrian_kernel._kernels.cut_rows import spread

        R = np.empty((self.visit.size, Y.shape[1]))
        spread(self, Y, stage, R)
        return R


def row_tree(cells: IntArray) -> RowTree:
    """Build the tree for rows in ``cells`` int32 (N, M): a light spanning tree of differences.

    The candidates for an edge are rows next to each other in a few sorted orders, so the tree is
    close to the lightest one, not always the lightest; only the speed depends on it.
    """
    n = cells.shape[0]
    pairs = _neighbours(cells)
    distance = np.empty(pairs.shape[0])
    for begin in range(0, distance.size, 4096):
        i, j = pairs[begin : begin + 4096].T
        distance[begin : begin + 4096] = (cells[i] != cells[j]).sum(axis=1)
    # Edges of weight 0 are no edges to scipy; equal rows must stay connected.
    i, j = pairs.T.astype(np.int32)  # SciPy 1.11 takes no others
    graph = coo_array((distance + 1.0, (i, j)), shape=(n, n)).tocsr()
    visit, parent = breadth_first_order(minimum_spanning_tree(graph), 0, directed=False)
    parent = np.where(parent < 0, -1, parent).astype(np.int32)
    differ = cells != cells[parent]
    differ[visit[0]] = True
    ptr = np.concatenate([[0], np.cumsum(differ.sum(axis=1))]).astype(np.int32)
    return RowTree(visit.astype(np.int32), parent, ptr, cells[differ], cells[parent][differ])


def _neighbours(cells: IntArray) -> NDArray[np.int64]:
    """Pairs of rows (i < j), each once, that are near in one of several sorted orders."""
    n, n_partitions = cells.shape
    found = [np.empty(0, np.int64)]
    for shift in range(min(ROW_TREE_ORDERS, n_partitions)):
        first = shift * n_partitions // ROW_TREE_ORDERS
        keys = np.roll(cells, -first, axis=1)[:, :ROW_TREE_KEYS]
        order = np.lexsort(keys.T[::-1])
        for lag in (1, 2):
            i, j = order[:-lag], order[lag:]
            found.append(np.minimum(i, j) * n + np.maximum(i, j))
    code = np.unique(np.concatenate(found))
    return np.stack([code // n, code % n], axis=1)
