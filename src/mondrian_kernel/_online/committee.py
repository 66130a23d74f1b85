"""Learners of one kind at several widths, which learn, predict and are rolled back together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._online.learners import Counts, Filter, Means, Small, Tables, compiled
from mondrian_kernel._online.mixture import Mixture
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray

_NO_CELLS = np.empty(0, np.int32)
_NO_ROWS = np.empty(0)


class Cells(NamedTuple):
    """Cells of rows that the trees have taken in.

    ``leaf`` (n, M): node of each row's cell. ``column`` (at least R·L, n_nodes): cell of each node
    at each rung, at each level; ``n_cells``: their numbers. ``origin``, one for each rung or none:
    cells that have been cut; the k-th new cell is a part of ``origin[r][k]`` and starts with its
    numbers, so that no score changes.
    """

    leaf: IntArray
    column: IntArray
    n_cells: Counts
    origin: tuple[IntArray, ...] = ()


class Said(NamedTuple):
    """What learners say of rows before they learn any of them.

    ``scores`` (J, n, K), less the offset; ``variance`` (J, n) of an error in units of that of the
    signal; ``base`` (K,): the first learner's intercept.
    """

    scores: FloatArray
    variance: FloatArray
    base: FloatArray


class _Saved(NamedTuple):
    """The state before a batch, for a rollback."""

    cells: Cells
    n_table: Counts
    tables: tuple[FloatArray, ...]
    small: Small
    mixture: Mixture


@dataclass(eq=False)
class Committee:
    """J learners of one rule: S rates of forgetting at each of R widths, or at L levels: mutable.

    Attributes
    ----------
    rule : Filter or Means
        What a learner does with a row, and the meaning of ``tables`` and ``small``.
    half_lives : ndarray of shape (S,)
        Rows after which a row counts half; infinite if none is forgotten.
    value : ndarray of shape (L,)
        Feature of a row in its cells at each level.
    begin : ndarray of shape (J + 1,), int64
        First table row of each learner. There is room for more cells than there are.
    n_table : ndarray of shape (J,), int64
        Number of table rows in use.
    mixture : Mixture
        How the learners predict together.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.committee import Cells, Committee
    >>> from mondrian_kernel._online.learners import Means
    >>> leaf = np.array([[0, 1], [0, 2]], np.int32)  # two rows in two trees
    >>> column = np.array([[0, 1, 1], [0, 1, 2]], np.int32)  # at two rungs
    >>> learners = Committee.blank(Means(1, 0.0, True), [np.inf], 2, np.array([0.5**0.5]))
    >>> cells, y = Cells(leaf, column, np.array([2, 3])), np.array([[1.0], [2.0]])
    >>> learners.learn(cells, y, np.ones(2)).scores[:, :, 0]
    array([[1., 1.],
           [1., 1.]])
    >>> learners.n_table
    array([2, 3])
    >>> learners.rollback()
    >>> learners.n_table
    array([0, 0])
    """

    rule: Filter | Means
    half_lives: FloatArray
    value: FloatArray
    begin: Counts
    n_table: Counts
    tables: Tables
    small: Small
    mixture: Mixture

    _saved = None  # what a rollback goes back to

    @classmethod
    def blank(
        cls,
        rule: Filter | Means,
        half_lives: Sequence[float] | FloatArray,
        n_rungs: int,
        value: FloatArray,
    ) -> Committee:
        """Return learners without rows; they follow recent means if some forget faster."""
        S, J = len(half_lives), len(half_lives) * n_rungs
        place = np.zeros(J + 1, np.int64), np.zeros(J, np.int64)
        mixture = Mixture.equal(J, rule.n_outputs, follows=S > 1)
        rates = np.array(half_lives, dtype=np.float64)
        return cls(rule, rates, value, *place, rule.tables(0), rule.small(J), mixture)

    @classmethod
    def after(
        cls, rule: Filter | Means, half_lives: Sequence[float], model: FittedModel
    ) -> Committee:
        """Return learners that continue a fit, at all its levels."""
        new = cls.blank(rule, half_lives, 1, model.levels.values)
        (tables, small), S = rule.after(model), len(half_lives)
        n = len(next(iter(tables.values())))
        new.begin, new.n_table = n * np.arange(S + 1), np.full(S, n)
        new.tables = {name: np.concatenate([table] * S) for name, table in tables.items()}
        new.small = {name: np.repeat(values, S, axis=0) for name, values in small.items()}
        return new

    @property
    def n_rates(self) -> int:
        """Number of learners at each width, S."""
        return self.half_lives.size

    @property
    def n_rungs(self) -> int:
        """Number of widths, R; 1 where each learner has several levels."""
        return self.n_table.size // self.half_lives.size

    @cached_property
    def rung(self) -> Counts:
        """Rung of each learner, (J,)."""
        return np.repeat(np.arange(self.n_rungs), self.n_rates)

    @cached_property
    def _keep(self) -> FloatArray:
        return np.array([0.5 ** (1.0 / rows) for rows in self.half_lives.tolist()] * self.n_rungs)

    def learn(self, cells: Cells, Y: FloatArray, weight: FloatArray) -> Said:
        """Learn from each row once, in order; targets (n, K), positive weights (n,)."""
        base = self.rule.intercepts(self.small)[0].copy()
        leaf, column, n_cells, origin = cells
        J, n_levels = self.n_table.size, self.value.size
        n_table = n_cells[self.rung]
        if n_levels > 1:
            n_table = np.full(J, n_levels * n_cells[:n_levels].max())
        room = self.begin[1:] - self.begin[:-1]
        if (n_table > room).any():  # tables grow by doubling
            room = np.where(n_table > room, np.maximum(n_table, 2 * room), room)
            self.begin, self.tables = self._laid_out(np.arange(J), room)
        # The weights of rows grow fastest at the shortest half-life.
        if self.small["growth"].item(int(self.half_lives.argmin())) > settings.LARGEST_GROWTH:
            self.rule.rescale(self.tables, self.small, room)
        flat, n_before = tuple(map(_flat, self.tables.values())), self.n_table
        n_kept = min(int(n_before.max()), leaf.size * n_levels)
        kept = tuple([np.empty((J, n_kept, table.shape[1])) for table in flat])
        place = self.rung, self.begin
        compiled().keep(leaf, column, *place, n_levels, n_before, flat, kept)
        small = {name: values.copy() for name, values in self.small.items()}
        # Before anything changes, so that an interrupt at any moment finds it.
        self._saved = _Saved(cells, n_before, kept, small, self.mixture)
        self.n_table = n_table
        if origin and origin[-1].size:  # no rung is cut more often than the last
            origins = (*origin, *[_NO_CELLS] * settings.MAX_RUNGS)[: settings.MAX_RUNGS]
            compiled().inherit(*place, origins, n_before, flat)
        batch = leaf, column, *place, self.value, Y, weight
        return Said(*self.rule.learn(batch, self.tables, self.small, self._keep), base)

    def judge(self, said: Said, Y: FloatArray, weight: FloatArray) -> FloatArray:
        """Learn how to mix from what was said of rows; return the mixed scores (n, K).

        Targets and scores are less the offset.
        """
        scores, _, base = said
        self.mixture, mixed = self.mixture.judge(scores, base, Y, weight, self.rule.loss)
        return mixed

    def rollback(self) -> None:
        """Undo the last batch; without one, or after a rollback, nothing happens."""
        saved: _Saved | None = self._saved
        if saved is None:
            return
        L, (leaf, column, *_), fresh = self.value.size, saved.cells, self.rule.tables(1)
        for kept, (name, table) in zip(saved.tables, self.tables.items(), strict=True):
            for j, n in enumerate(saved.n_table.tolist()):
                own = _flat(table)[self.begin[j] : self.begin[j + 1]]
                own[n:] = _flat(fresh[name])
                if n <= leaf.size * L:
                    own[:n] = kept[j, :n]
                else:
                    rows = column[self.rung[j] * L : (self.rung[j] + 1) * L, leaf.ravel()]
                    rows = (rows.T.astype(np.int64) * L + np.arange(L)).ravel()
                    own[rows[rows < n]] = kept[j, : rows.size][rows < n]
        for name, before in saved.small.items():
            self.small[name][:] = before
        self.n_table, self.mixture, self._saved = saved.n_table, saved.mixture, None

    def commit(self) -> None:
        """Drop the copies that a rollback of the last batch would need."""
        self._saved = None

    def at_rungs(self, rungs: NDArray[np.intp]) -> Committee:
        """Return copies of the learners of some rungs, and their mixture."""
        members = (rungs[:, None] * self.n_rates + np.arange(self.n_rates)).ravel()
        begin, tables = self._laid_out(members, np.diff(self.begin)[members])
        small = {name: values[members] for name, values in self.small.items()}
        sizes, mixture = self.n_table[members], self.mixture.of(members)
        return Committee(
            self.rule, self.half_lives, self.value, begin, sizes, tables, small, mixture
        )

    def _laid_out(self, members: NDArray[np.intp], room: Counts) -> tuple[Counts, Tables]:
        """Return the tables of some learners, with room for so many rows, and where each begins."""
        begin = np.append(0, np.cumsum(room))
        tables = self.rule.tables(int(begin[-1]))
        for name, table in tables.items():
            for first, j in zip(begin.tolist(), members.tolist(), strict=False):
                own = self.tables[name][self.begin[j] : self.begin[j + 1]]
                table[first : first + len(own)] = own
        return begin, tables

    def with_class(self) -> Committee:
        """Return learners of the logistic loss with a further class, which no row was of."""
        assert isinstance(self.rule, Filter)
        rule, tables, small = self.rule.with_class(self.tables, self.small)
        mixture = self.mixture.with_class()
        return replace(self, rule=rule, tables=tables, small=small, mixture=mixture)

    @property
    def offset(self) -> FloatArray:
        """What is subtracted from all targets, (K,)."""
        return self.rule.offset(self.small)

    @property
    def intercept(self) -> FloatArray:
        """Intercept (K,) of the mixture."""
        b = self.rule.intercepts(self.small)
        return self.offset + self.mixture.intercept(b, self.rule.loss)

    @property
    def rung_shares(self) -> FloatArray:
        """Share of each width, (R,), positive."""
        shares: FloatArray = self.mixture.shares.reshape(self.n_rungs, -1).sum(axis=1)
        return np.maximum(shares, np.finfo(float).eps)

    def scores(
        self,
        X: FloatArray,
        trees: Sequence[Any],
        n_jobs: int | None,
        variance: FloatArray = _NO_ROWS,
    ) -> FloatArray:
        """Return mixed scores (n, K) of scaled rows; write their variances (n,), if any.

        ``trees`` are nodes, lifetimes and cells, as kernels that walk them take them.
        """
        mean = np.empty((X.shape[0], self.rule.n_outputs))
        weights = self.mixture.weights[: self.n_table.size]
        members = *trees, self.rung, self.begin, self.value, weights

        def run(begin: int, end: int) -> None:
            part = (X[begin:end], *members), self.mixture.shares
            out = mean[begin:end], variance[begin:end]
            self.rule.write_scores(*part, self.tables, self.small, out)

        in_threads(run, X.shape[0], n_jobs, work=10 * X.shape[0] * trees[0][0].size)
        mean += self.intercept
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
                own = slice(self.begin[j], self.begin[j + 1])
                tables = {name: table[own] for name, table in self.tables.items()}
                small = {name: values[j] for name, values in self.small.items()}
                numbers = part(tables, small, n_cells[r * L : (r + 1) * L], self.value)
                total = total + weights[j] * numbers
            mixed.append(total / share**power)
        return np.concatenate(mixed)

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together; rule and mixture check themselves."""
        J, S, begin = self.n_table.size, self.half_lives.size, self.begin
        if self.n_table.shape != (J,) or self.half_lives.shape != (S,) or J == 0 or S == 0 or J % S:
            raise ValueError(f"There are {J} learners with {S} half-lives.")
        if begin.shape != (J + 1,) or begin[0] != 0 or (np.diff(begin) < self.n_table).any():
            raise ValueError(f"The tables begin at {begin}.")
        if not (self.n_table >= 0).all() or not (self.half_lives > 0).all():
            raise ValueError("A number of cells or a half-life is not positive.")
        for blank, found, n in (
            (self.rule.tables(1), self.tables, begin[-1]),
            (self.rule.small(1), self.small, J),
        ):
            if list(blank) != list(found):
                raise ValueError(f"The learners have {list(found)} instead of {list(blank)}.")
            for name, one in blank.items():
                array = found[name]
                if array.shape != (n, *one.shape[1:]) or array.dtype != one.dtype:
                    raise ValueError(f"{name} has the shape {array.shape}.")
                if not np.isfinite(array).all():
                    raise ValueError(f"{name} is not finite.")
        if not (self.small["growth"] >= 1).all():
            raise ValueError("growth is out of range.")
        self.rule.check_numbers(self.tables, self.small)
        mixture = Mixture.equal(J, self.rule.n_outputs, follows=S > 1)
        if [self.mixture.shares.shape, self.mixture.recent.shape] != [
            mixture.shares.shape,
            mixture.recent.shape,
        ]:
            raise ValueError("The mixture is that of other learners.")

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _flat(table: FloatArray) -> FloatArray:
    """Return a table as a matrix: a view."""
    return table if table.ndim == 2 else table[:, None]
