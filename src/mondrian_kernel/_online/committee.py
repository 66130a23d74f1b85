"""Learners of one kind at several widths, which learn, predict and are rolled back together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import FIRST, GROWTH, KNOWN, LEARNER_SUMS, N_ROWS, LearnerTable
from mondrian_kernel._linear.losses import smoothness
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.trend import Trend
from mondrian_kernel._online.learners import Counts, Filter, Means, blank_state
from mondrian_kernel._online.linear import Linear
from mondrian_kernel._online.mixture import Mixture
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray

_NO_ROWS = np.empty(0)


@cache
def kernels() -> Any:
    """Return the compiled loops, which are imported when they are needed."""
    from mondrian_kernel._kernels import committee

    return committee


@dataclass(eq=False)
class Committee:
    """J learners of one rule: S rates of forgetting at each of R widths, or at L levels: mutable.

    Attributes
    ----------
    rule : Filter or Means
        What a learner does with a row, and the meaning of ``table`` and ``state``.
    half_lives : ndarray of shape (S,)
        Rows after which a row counts half; infinite if none is forgotten.
    value : ndarray of shape (L,)
        Feature of a row in its cells at each level.
    begin : ndarray of shape (J L + 1,), int64
        First table row of each learner at each level. There is room for more cells than there are.
    n_table : ndarray of shape (J L,), int64
        Number of table rows in use.
    table, state : ndarrays of shapes (begin[J L], any) and (J, any)
        Numbers of all cells of each learner, and of the learners.
    mixture : Mixture
        How the learners predict together.
    linear : Linear or None
        Linear learners of the same rates beside them.
    """

    rule: Filter | Means
    half_lives: FloatArray
    value: FloatArray
    begin: Counts
    n_table: Counts
    table: FloatArray
    state: FloatArray
    mixture: Mixture
    linear: Linear | None = None

    @classmethod
    def blank(
        cls,
        rule: Filter | Means,
        half_lives: Sequence[float] | FloatArray,
        n_rungs: int,
        value: FloatArray,
        linear_columns: int = 0,
    ) -> Committee:
        """Return learners without rows; they follow recent means if some forget faster.

        There are linear ones beside them if these have columns.
        """
        S, J = len(half_lives), len(half_lives) * n_rungs
        n_parts = J * value.size
        place = np.zeros(n_parts + 1, np.int64), np.zeros(n_parts, np.int64)
        numbers = np.tile(rule.fresh, (0, 1)), np.tile(blank_state(rule), (J, 1))
        K, n_linear = rule.n_outputs, S if linear_columns else 0
        linear = Linear.blank(linear_columns, S, K, rule.alpha) if n_linear else None
        mixture = Mixture.equal(J, K, n_linear=n_linear, follows=S > 1)
        rates = np.array(half_lives, dtype=np.float64)
        return cls(rule, rates, value, *place, *numbers, mixture, linear)

    @classmethod
    def after(
        cls, rule: Filter | Means, half_lives: Sequence[float], model: FittedModel
    ) -> Committee:
        """Return learners that continue a fit, at all its levels."""
        new = cls.blank(rule, half_lives, 1, model.levels.values)
        (new.table, state), S = rule.after(model), len(half_lives)
        new.begin, new.n_table = model.levels.offset, np.diff(model.levels.offset)
        room = np.tile(new.n_table + new.n_table // settings.SPARE_CELLS, S)
        new.begin, new.table = new._laid_out(np.zeros(S, np.intp), room)
        new.state, new.n_table = np.tile(state, (S, 1)), np.tile(new.n_table, S)
        return new

    @property
    def n_rates(self) -> int:
        """Number of learners at each width, S."""
        return self.half_lives.size

    @property
    def n_rungs(self) -> int:
        """Number of widths, R; 1 where each learner has several levels."""
        return len(self.state) // self.half_lives.size

    @cached_property
    def rung(self) -> Counts:
        """Rung of each learner, (J,)."""
        return np.repeat(np.arange(self.n_rungs), self.n_rates)

    @cached_property
    def _keep(self) -> FloatArray:
        return np.array([0.5 ** (1.0 / rows) for rows in self.half_lives.tolist()] * self.n_rungs)

    # As kernels take them, made when they are needed: the arrays, and what goes with a batch.
    _arrays = None
    _batch = None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The fields of a ``LearnerTable``, as kernels take them."""
        arrays: tuple[Any, ...] | None = self._arrays
        if arrays is None:
            linear = self.linear
            if linear is None:
                linear = Linear.blank(0, 0, self.rule.n_outputs, alpha=1.0)  # it has no learners
            table = self.rung, self.begin, self.n_table, self.value, self._keep, self.table
            arrays = (*table, self.state, *linear.arrays, *self.mixture.arrays)
            self._arrays = arrays
        return arrays

    def batch(self, n_rows: int, n_trees: int) -> tuple[Any, ...]:
        """Return what the kernel ``learn`` takes after the cells: the same for equal batches.

        The last but one is what a rollback needs, the last what is said of the rows.
        """
        found: tuple[Any, ...] | None = self._batch
        if found is None or found[0] != (n_rows, n_trees):
            rule, K, (n, L) = self.rule, self.rule.n_outputs, (n_rows, self.value.size)
            J, T = len(self.state), self.mixture.weights.size - len(self.mixture.recent)
            curvature = smoothness(rule.loss, K)
            kind = rule.code, rule.alpha, curvature, settings.LARGEST_GROWTH
            sums = LearnerTable(*self.arrays)._asdict()
            n_sums = sum(sums[name].size for name in LEARNER_SUMS)
            kept = np.empty((J, n * L * n_trees, self.table.shape[1]))
            said = np.empty((T, n, K)), np.empty((J, n)), np.empty((n, K)), np.empty(n)
            errors = np.empty((n, K)), np.empty((n, K)), np.empty(n)
            room = np.zeros(1 + n_sums + self.n_table.size), kept, (*said, *errors)
            self._batch = found = (n_rows, n_trees), (kind, self.arrays, *room)
        batch: tuple[Any, ...] = found[1]
        return batch

    def grow(self, n_cells: Counts) -> None:
        """Make room for so many cells and half as many more, for all learners at once."""
        needed = self.size_for(n_cells)
        begin, table = self._laid_out(np.arange(len(self.state)), needed + needed // 2)
        self._arrays = self._batch = None  # first, as they hold the old table
        self.begin, self.table = begin, table

    def size_for(self, n_cells: Counts) -> Counts:
        """Return the number of table rows of each learner at each level, (J L,).

        ``n_cells`` are the numbers of cells at the rungs of the trees.
        """
        L = self.value.size
        sizes: Counts = n_cells[self.rung[:, None] * L + np.arange(L)].ravel()
        return sizes

    def rollback(self, leaf: IntArray, column: IntArray) -> None:
        """Undo the last batch; without one, or after a rollback, nothing happens.

        Its rows were in the nodes ``leaf`` (n, M), which had the cells ``column``.
        """
        if self._batch is not None:
            _, arrays, saved, kept, _ = self._batch[1]
            kernels().roll_back(leaf, column, arrays, saved, kept, self.rule.fresh)

    def commit(self) -> None:
        """Forget what a rollback of the last batch would need."""
        if self._batch is not None:
            self._batch[1][2][0] = 0.0

    def at_rungs(self, rungs: NDArray[np.intp]) -> Committee:
        """Return copies of the learners of some rungs, and their mixture."""
        members = (rungs[:, None] * self.n_rates + np.arange(self.n_rates)).ravel()
        parts = self._parts(members)
        begin, table = self._laid_out(members, np.diff(self.begin)[parts])
        return replace(
            self,
            begin=begin,
            n_table=self.n_table[parts],
            table=table,
            state=self.state[members],
            mixture=self.mixture.of(members),
            linear=copy.deepcopy(self.linear),
        )

    def _parts(self, members: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places of some learners, level after level, in ``begin`` and ``n_table``."""
        L = self.value.size
        return (members[:, None] * L + np.arange(L)).ravel()

    def _laid_out(self, members: NDArray[np.intp], room: Counts) -> tuple[Counts, FloatArray]:
        """Return where the parts of some learners begin, and the table, with so much room each."""
        begin = np.append(0, np.cumsum(room))
        table = np.empty((int(begin[-1]), self.rule.fresh.size))
        ends = begin[1:].tolist()
        for first, last, p in zip(begin.tolist(), ends, self._parts(members), strict=False):
            own = self.table[self.begin[p] : self.begin[p] + self.n_table[p]]
            table[first : first + len(own)] = own
            table[first + len(own) : last] = self.rule.fresh
        return begin, table

    def with_class(self) -> Committee:
        """Return learners of the logistic loss with a further class, which no row was of."""
        assert isinstance(self.rule, Filter)
        rule, table, state = self.rule.with_class(self.table, self.state)
        linear = self.linear and self.linear.with_class(float(self.state[0, N_ROWS]))
        mixture = self.mixture.with_class()
        return replace(self, rule=rule, table=table, state=state, mixture=mixture, linear=linear)

    def with_columns(self, n_more: int) -> Committee:
        """Return the learners with further columns, in which all rows so far are 0."""
        if self.linear is None:
            return self
        return replace(self, linear=self.linear.with_columns(n_more, self.rule.alpha))

    @property
    def offset(self) -> FloatArray:
        """What is subtracted from all targets, (K,)."""
        return self.state[0, FIRST : FIRST + self.rule.n_outputs]

    @property
    def intercepts(self) -> FloatArray:
        """Intercepts of the learners, less the offset, (J, K)."""
        return self.state[:, FIRST + self.rule.n_outputs :]

    @property
    def intercept(self) -> FloatArray:
        """Intercept (K,) of the mixture."""
        b = self.intercepts
        if self.linear is not None:
            b = np.concatenate([b, self.linear.coef[:, 0]])
        return self.offset + self.mixture.intercept(b, self.rule.loss)

    @property
    def trend(self) -> Trend | None:
        """What linear learners add to the mixture, without their intercepts."""
        return None if self.linear is None else self.linear.trend(self._linear_weights)

    @property
    def _linear_weights(self) -> FloatArray:
        J = len(self.state)
        return self.mixture.weights[J : J + self.n_rates]

    @property
    def intercept_variance(self) -> float:
        """Variance of the intercept in units of that of the signal."""
        return 2.0 * self.rule.alpha * float(self.mixture.shares @ self.state[:, KNOWN])

    @property
    def rung_shares(self) -> FloatArray:
        """Share of each width, (R,), positive."""
        shares: FloatArray = self.mixture.shares.reshape(self.n_rungs, -1).sum(axis=1)
        return np.maximum(shares, np.finfo(float).eps)

    def scores(
        self,
        X: FloatArray,
        scale: FloatArray,
        trees: Sequence[Any],
        n_jobs: int | None,
        variance: FloatArray = _NO_ROWS,
    ) -> FloatArray:
        """Return mixed scores (n, K) of rows; write their variances (n,), if any.

        ``scale`` (D,) is what their columns are divided by, ``trees`` are nodes, lifetimes and
        cells, as kernels that walk them take them.
        """
        rule, n = self.rule, len(X)
        mean = np.empty((n, rule.n_outputs))
        members = scale, trees, self.arrays, rule.code, rule.alpha
        if n == 1:
            kernels().scores(X, *members, mean, variance)
            return mean

        def run(begin: int, end: int) -> None:
            kernels().scores(X[begin:end], *members, mean[begin:end], variance[begin:end])

        in_threads(run, n, n_jobs, work=10 * n * trees[0][0].size)
        return mean

    def cell_weights(self, n_cells: Counts) -> FloatArray:
        """Mixed weights (F, K) of all cells, in units of the levels' share, in O(F)."""
        return self._mixed(n_cells, self.mixture.weights, 0.5, self.rule.cell_weights)

    def variances(self, n_cells: Counts) -> FloatArray:
        """Mixed variances (F,) of the weights of cells in units of the prior's."""
        assert isinstance(self.rule, Filter)  # forests have no covariance
        return self._mixed(n_cells, self.mixture.shares, 1.0, self.rule.variances)

    def _mixed(
        self, n_cells: Counts, weights: FloatArray, power: float, part: Callable[..., FloatArray]
    ) -> FloatArray:
        """Mix numbers of the cells over the learners of each width.

        Each width is divided by its share to the ``power``, which is a part of the weights of the
        levels.
        """
        L, S, mixed = self.value.size, self.n_rates, []
        for r, share in enumerate(self.rung_shares):
            total: Any = 0.0
            for j in range(r * S, (r + 1) * S):
                n = n_cells[r * L : (r + 1) * L]
                begins = self.begin[j * L : (j + 1) * L].tolist()
                own = [self.table[b : b + k] for b, k in zip(begins, n.tolist(), strict=True)]
                table = own[0] if L == 1 else np.concatenate(own)
                numbers = part(table, self.state[j], n, self.value)
                total = total + weights[j] * numbers
            mixed.append(total / share**power)
        return np.concatenate(mixed)

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together; rule and mixture check themselves."""
        J, S, K, begin = len(self.state), self.half_lives.size, self.rule.n_outputs, self.begin
        n_parts = J * self.value.size
        if self.half_lives.shape != (S,) or J == 0 or S == 0 or J % S:
            raise ValueError(f"There are {J} learners with {S} half-lives.")
        if self.value.ndim != 1 or self.n_table.shape != (n_parts,) or n_parts == 0:
            raise ValueError(f"{J} learners know {self.n_table} cells.")
        if begin.shape != (n_parts + 1,) or begin[0] != 0 or (np.diff(begin) < self.n_table).any():
            raise ValueError(f"The table begins at {begin}.")
        if not (self.n_table >= 0).all() or not (self.half_lives > 0).all():
            raise ValueError("A number of cells or a half-life is not positive.")
        shapes = {"table": (begin[-1], self.rule.fresh.size), "state": (J, FIRST + 2 * K)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"{name} has the shape {array.shape}, or is not finite.")
        if (self.table[:, K:] < 0).any() or (self.state[:, [KNOWN, N_ROWS]] < 0).any():
            raise ValueError("A variance, or a weight or number of rows, is negative.")
        if not (self.state[:, GROWTH] >= 1).all():
            raise ValueError("growth is out of range.")
        n_linear = 0 if self.linear is None else S
        if self.linear is not None and (*self.linear.coef.shape[::2],) != (S, K):
            raise ValueError("The linear learners are others.")
        blank = Mixture.equal(J, K, n_linear=n_linear, follows=S > 1)
        for name in ("shares", "recent", "moment"):
            if getattr(self.mixture, name).shape != getattr(blank, name).shape:
                raise ValueError("The mixture is that of other learners.")

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, with a table that has no room for further cells."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        used = [self.table[b : b + n] for b, n in zip(self.begin, self.n_table, strict=False)]
        state["begin"], state["table"] = np.append(0, np.cumsum(self.n_table)), np.concatenate(used)
        return state
