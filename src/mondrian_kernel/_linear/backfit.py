r"""Ridge regression on cells at several lifetimes by backfitting: one tree after the other.

The cells of a tree at all levels make small nested problems, which are solved exactly. So each tree
in turn is fitted to what the others leave of the targets, and a few sweeps over all trees do what
takes tens of steps of conjugate gradients. Their number hardly depends on the number of rows. After
each sweep the best combination of what it changed and of the step before is taken.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._trees.threads import in_threads

SingleArray = NDArray[np.float32]


class Backfit:
    r"""Many ridge fits at once, each with its own targets, sample weights and level weights.

    Column j minimises :math:`\sum_i s_{ij} (y_{ij} - f_{ij})^2 + \sum_c u_{cj}^2 / \tau_{cj}`,
    where f adds up the values u of the cells of a row and τ = v / M. Numbers are held in single
    precision, and a sweep changes them in place.

    Parameters
    ----------
    operator : LevelOperator
        Cells of the rows.
    targets : ndarray of shape (N, k)
        Targets y; k is at most ``settings.BACKFIT_LANES``.
    weight : ndarray of shape (N, k)
        Sample weights s; 0 for rows that are held out.
    level_weights : ndarray of shape (L, k)
        Weights v of the levels.
    """

    def __init__(
        self,
        operator: LevelOperator,
        targets: NDArray[Any],
        weight: NDArray[Any],
        level_weights: NDArray[Any],
    ) -> None:
        from mondrian_kernel._kernels.levels import count_rows

        self._operator, self._width = operator, targets.shape[1]
        self._lanes = (0,) * operator.n_lanes(self._width, settings.BACKFIT_LANES)
        self._table = operator.table
        self._targets = targets
        self._weight = self._padded(weight)
        self._scale = self._padded(level_weights / operator.n_trees)
        self._inverse = np.divide(
            1.0, self._scale, out=np.zeros_like(self._scale), where=self._scale > 0
        )
        # Fitted minus targets, and the values of cells over τ: as they are, after a sweep, and the
        # step that was taken last.
        self._rows = [self._padded(-targets), self._padded(-targets), self._blank(len(targets))]
        self._cells = [self._blank(operator.n_cells[0]) for _ in range(3)]
        start = self._table[2]
        n_shares = settings.OPERATOR_SHARES if len(targets) > settings.SHARED_ROWS else 1
        self._edges = np.linspace(0, len(targets), n_shares + 1).astype(int).tolist()
        self._parts = np.zeros(
            (n_shares, int((start[-1] - start[-2]).max()), len(self._lanes)), np.float32
        )
        self._room = self._blank(int(start[-1].max()) + 1)
        self._shrink = self._blank(operator.n_cells[0])
        count_rows(
            *self._table,
            self._weight,
            self._scale,
            self._shrink,
            self._parts[:1],
            self._room,
            np.ones_like(self._room[:1]),
            self._lanes,
        )
        self._n_sweeps, self._combined = 0, np.ones(len(self._lanes), bool)

    def _blank(self, n: int) -> SingleArray:
        return np.zeros((n, len(self._lanes)), np.float32)

    def _padded(self, columns: NDArray[Any]) -> SingleArray:
        """Return columns in single precision, with further ones of zeros."""
        out = self._blank(len(columns))
        out[:, : self._width] = columns
        return out

    @property
    def sums(self) -> SingleArray:
        """Value of each cell over τ, (F, k): the sum of s (y - f) over its rows, at the minimum."""
        return self._cells[0][:, : self._width]

    @property
    def predictions(self) -> NDArray[Any]:
        """Predictions f of the rows, (N, k)."""
        out: NDArray[Any] = self._targets + self._rows[0][:, : self._width]
        return out

    def step(self) -> float:
        """Sweep once over the trees; return by how much predictions have changed.

        That is the length of the change over that of the errors, the largest of all columns. It is
        taken over the rows held out, or over all rows if there are none.
        """
        from mondrian_kernel._kernels.levels import take_steps

        order = np.arange(self._operator.n_trees)[:: 1 if self._n_sweeps % 2 == 0 else -1]
        self._sweep(np.concatenate([[-1], order, [-1]]))
        self._n_sweeps += 1
        moments = self._moments(self._rows, self._weight, self._all_rows)
        moments += self._moments(self._cells, self._scale, self._levels)
        factors = _best_factors(moments)
        # From then on where that gains nothing but rounding, a sweep is taken as it is: rounding
        # differs between rows and cells, and large factors would make it grow.
        self._combined &= (
            -(factors * moments[3:5]).sum(axis=0) > settings.STEP_ROUNDING * moments[5]
        )
        factors = np.where(self._combined, factors, np.array([[1.0], [0.0]], np.float32))
        take_steps(*self._rows, self._all_rows, factors, self._lanes)
        take_steps(*self._cells, self._levels, factors, self._lanes)
        moments = self._moments(self._rows, self._judged, self._all_rows)
        change, errors = np.sqrt(moments[2]), np.sqrt(moments[5])
        return float(np.max(change / np.where(errors > 0, errors, np.inf)))

    @cached_property
    def _judged(self) -> SingleArray:
        """1 where a row is held out, or everywhere if none is."""
        held_out = self._weight[:, : self._width] == 0
        return self._padded(held_out if held_out.any() else np.ones_like(held_out))

    @cached_property
    def _all_rows(self) -> NDArray[np.int64]:
        return np.array([[0, len(self._targets)]])

    @cached_property
    def _levels(self) -> NDArray[np.int64]:
        """Begin and end of the cells of the trees in use, at each level, (L, 2)."""
        _, _, start, number = self._table
        last = self._operator.n_trees - 1
        return np.stack([number[:, 0] + start[:-1, 0], number[:, last] + start[1:, last]], axis=1)

    def _moments(
        self, state: list[SingleArray], weight: SingleArray, edges: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return weighted sums of products of numbers as they are, their changes and last steps."""
        from mondrian_kernel._kernels.levels import moments

        out, own = np.zeros((6, len(self._lanes))), edges is self._all_rows
        moments(*state, weight, own, edges, self._blank(6), out, self._lanes)
        return out

    def _sweep(self, order: NDArray[np.intp]) -> None:
        """Fit the trees of ``order`` one after the other; it begins and ends with -1."""
        from mondrian_kernel._kernels.levels import fit_tree, sweep, visit_rows

        cells, *trees = self._table
        start, lanes = trees[1], self._lanes
        values = self._scale, self._inverse, self._shrink, self._cells[1]
        rows = self._room, self._weight, self._rows[1]
        if len(self._parts) == 1:
            sweep(*self._table, order, values, *rows, self._parts, lanes)
            return
        shares = [
            (*edges, part) for edges, part in zip(pairwise(self._edges), self._parts, strict=True)
        ]

        def visit(left: int, entered: int, begin: int, end: int) -> None:
            for share in shares[begin:end]:
                visit_rows(cells, start, left, entered, *rows, *share, lanes)

        for left, entered in pairwise(order.tolist()):
            in_threads(partial(visit, left, entered), len(shares), self._operator.n_jobs)
            if entered >= 0:
                fit_tree(*trees, entered, *values, self._parts, self._room, lanes)


def _best_factors(moments: NDArray[np.float64]) -> SingleArray:
    """Return a and b, (2, k), of the shortest e + a z + b p of each column, by their moments."""
    zz, zp, pp, ze, pe, _ = moments
    det = zz * pp - zp**2
    both = det > settings.STEP_ROUNDING * zz * pp
    det, alone = np.where(both, det, 1.0), np.where(zz > 0, zz, np.inf)
    a = np.where(both, (zp * pe - pp * ze) / det, -ze / alone)
    b = np.where(both, (zp * ze - zz * pe) / det, 0.0)
    return np.stack([a, b]).astype(np.float32)
