"""A stream of rows: trees that grow, a learner at each width, and the width that does best."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from mondrian_kernel._model.relevance import is_learnt, learn_relevance
from mondrian_kernel._model.scaling import dim_scale
from mondrian_kernel._online.cell_learner import Lessons, kernels
from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.means import Means
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures, check_more_ranges

STREAM_ALPHA = 0.1
WARM_UP = 1024
# Rows after which it is learnt how much each dim counts, and how many of them are looked at.
RELEVANCE_AT, _RELEVANCE_ROWS = 4096, 400
WINDOW = 1024
# Times the inverse of the sum of the standard deviations of the dims.
FIRST_RUNGS = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
# Rungs above the best that are looked at.
ABOVE = 2

_Rows = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(eq=False)
class Stream:
    r"""What was learnt from the rows of a stream, which are taken once and forgotten: mutable.

    *Width.* Where no lifetime is given a ladder of at most five lives on the same trees, each twice
    the one below, with a learner on each. A row costs what it costs at the top, where it is put
    into the trees, and O(M) for each rung. The rung that predicts is the one with the least loss on
    rows that it had not learnt from yet: their mean, and after 1024 rows one that forgets, over
    about 1024 rows. Whenever 1024 rows have come and the top rung is the best, the ladder climbs:
    the trees get twice their lifetime (see :meth:`OnlineTrees.deeper`), the new top rung starts
    with the weights of the one below, and the lowest of six rungs is dropped; not any more,
    however, when there are ``max_cells`` cells. And when the best is three rungs or more below the
    top, the top is dropped: its many cells, which take the time and the memory, are of no use, and
    the trees are as if they had never been run so far (:meth:`OnlineTrees.shallower`).

    *Scale.* Trees need inputs on a scale that stays. If it is to be taken from the rows, or the
    ladder is, the first 1024 rows are kept. At 1, 4, 16, 64, 256 and 1024 rows both are taken anew
    from all rows so far, which are then learnt again from the beginning; then both stand and the
    rows are forgotten. If it is to be learnt how much each dim counts, the rows are kept until
    there are 4096; it is learnt from these, and counts from then on if it makes them come out
    better, each before it is learnt from.

    What is learnt depends on the rows in their order and, as long as no rung is put on or dropped,
    not on how they are split into batches. Rungs change at the end of a batch, of a part of 1024
    rows if the batch is larger.

    Parameters
    ----------
    blank : Filter or Means
        A learner that has seen nothing.
    lifetime : float or None
        Lifetime, or None for a ladder.
    scale_rule : "std" or ndarray of shape (D,)
        What inputs are divided by: their standard deviation, or these numbers.
    learns_relevance : bool
        Whether it is to be learnt how much each of them counts.
    seed : int
        Seed of the trees.
    trees, column, stop, rungs
        As of :class:`OnlineTrees`.
    learners : list
        A learner for each rung.
    error : ndarray of shape (R,)
        Running mean of the loss at each rung.
    relevance : ndarray of shape (D,)
        How much each dim counts.
    scale : ndarray of shape (D,)
        What inputs are divided by at present: their scale over their relevance.
    kept : tuple of ndarrays or None
        Rows, targets and weights while the scale may change: the first ``n_rows`` of each, which
        are followed by room for more.
    n_rows : int
        Number of rows learnt from.
    """

    blank: Filter | Means
    lifetime: float | None
    scale_rule: Any
    learns_relevance: bool
    seed: int
    trees: Trees
    column: IntArray
    stop: FloatArray
    rungs: FloatArray
    learners: list[Any]
    error: FloatArray
    relevance: FloatArray
    scale: FloatArray
    kept: _Rows | None
    n_rows: int = 0

    @classmethod
    def begin(
        cls,
        blank: Filter | Means,
        n_dims: int,
        n_trees: int,
        lifetime: float | str,
        scale: Any,
        relevance: str,
        seed: int,
    ) -> Stream:
        """Return a stream that has seen nothing; lifetime, scale and relevance as of a model."""
        auto = isinstance(lifetime, str)
        rule: Any = scale
        if not isinstance(scale, str):
            rule = dim_scale(scale, np.empty((1, n_dims)), None)
        learns_relevance = is_learnt(relevance, lifetime, scale)
        warms_up = auto or isinstance(rule, str) or learns_relevance
        kept = (np.empty((0, n_dims)), np.empty((0, blank.n_outputs)), np.empty(0))
        trees = OnlineTrees.empty(n_dims, n_trees, 1.0 if auto else float(lifetime), seed)
        return cls(
            blank, None if auto else float(lifetime), rule, learns_relevance, seed, trees.freeze(),
            trees.column, trees.stop, trees.rungs, [blank.fresh()], np.zeros(1), np.ones(n_dims),
            np.ones(n_dims) if isinstance(rule, str) else rule, kept if warms_up else None,
        )  # fmt: skip

    @classmethod
    def after(
        cls,
        learner: Filter | Means,
        online: OnlineTrees,
        scale: FloatArray,
        relevance: FloatArray,
    ) -> Stream:
        """Return a stream that goes on from a learner at the first rung of trees, at its lifetime.

        The trees may have run further than that; rungs without a learner are of no use to it.
        """
        return cls(
            learner.fresh(), float(online.rungs[0]), scale, False, online.seed, online.snapshot(),
            online.column.copy(), online.stop.copy(),
            online.rungs, [learner], np.zeros(1), relevance, scale, None, online.n_rows,
        )  # fmt: skip

    def learn(
        self, X: FloatArray, Y: FloatArray, sample_weight: FloatArray, max_cells: int | None
    ) -> Stream:
        """Learn from rows, all of them or, if anything fails, none.

        Parameters
        ----------
        X : ndarray of shape (n, D)
            Rows, not scaled.
        Y : ndarray of shape (n, K)
            Targets.
        sample_weight : ndarray of shape (n,)
            Positive weights.
        max_cells : int or None
            Bound on the number of cells of all trees.

        Returns
        -------
        stream : Stream
            This one or, if the batch goes past a row where it was to be changed as a whole, a copy
            that was.
        """
        self.__dict__.pop("_before", None)  # the batch before is not to be taken back any more
        n, rows = X.shape[0], (X, Y, sample_weight)
        kept, after = self.kept, self.n_rows + n
        if n <= WINDOW and (kept is None or self._build_at(after) == self._build_at(self.n_rows)):
            for all_rows, part in zip(kept or (), rows, strict=kept is not None):
                all_rows[self.n_rows : after] = part
            self._take(rows, max_cells)
            return self
        if kept is None:
            new = copy.deepcopy(self)
            new._take_parts(rows, max_cells)
            return new
        return self._again(_joined(_part(kept, 0, self.n_rows), rows), max_cells)

    def rollback(self) -> None:
        """Take back the last batch of at most 1024 rows; a second time nothing happens."""
        before = self.__dict__.pop("_before", None)
        if before is None:
            return
        online, n_rows, lessons, state = before
        lessons.rollback()
        online.rollback(n_rows)
        self._show(online, _lessons=lessons, **state)

    def _build_at(self, n_rows: int) -> int:
        """Return how many of the rows the stream is as a whole made of."""
        if self.learns_relevance and n_rows >= RELEVANCE_AT:
            return RELEVANCE_AT
        return last_build(n_rows)

    @property
    def best(self) -> int:
        """The rung that predicts."""
        return int(self.error.argmin())

    @property
    def learner(self) -> Any:
        """The learner that predicts."""
        return self.learners[self.best]

    @property
    def online(self) -> OnlineTrees:
        """The trees, growing."""
        online: OnlineTrees | None = self.__dict__.get("_online")
        if online is None:
            online = OnlineTrees.from_trees(
                self.trees, self.seed, self.rungs, self.column, self.stop
            )
            self._show(online)
        return online

    def _show(self, online: OnlineTrees, **state: Any) -> None:
        """Set the fields to the present state, all at once."""
        self.__dict__.update(
            _online=online, trees=online.freeze(), column=online.column, stop=online.stop,
            rungs=online.rungs, **state,
        )  # fmt: skip

    def _again(self, rows: _Rows, max_cells: int | None) -> Stream:
        """Return a stream that has learnt all rows from the beginning, on their own scale.

        It keeps them if scale and ladder are to be taken anew.
        """
        n, n_first = rows[0].shape[0], last_build(rows[0].shape[0])
        if n_first > last_build(self.n_rows):
            X, _, sample_weight = first = _part(rows, 0, n_first)
            scale = dim_scale(self.scale_rule, X, sample_weight)
            new = self._restarted(first, scale, np.ones(X.shape[1]), max_cells)
        else:
            new = copy.deepcopy(self)
        learns = self.learns_relevance
        if learns and n >= RELEVANCE_AT:
            first = _part(rows, 0, RELEVANCE_AT)
            new._take_parts(_part(first, new.n_rows, None), max_cells)
            other = new._with_relevance(first, max_cells)
            new = other if other.error.min() < new.error.min() else new
        new._take_parts(_part(rows, new.n_rows, None), max_cells)
        warm = n >= (RELEVANCE_AT if learns else WARM_UP)
        new.kept = None if warm else _with_room(rows, 4 * n_first)
        return new

    def _with_relevance(self, rows: _Rows, max_cells: int | None) -> Stream:
        """Return a stream that has learnt how much each dim counts, and then these rows."""
        X, Y, sample_weight = rows
        scale = dim_scale(self.scale_rule, X, sample_weight)
        relevance = learn_relevance(X / scale, Y, sample_weight, self.seed, _RELEVANCE_ROWS)
        return self._restarted(rows, scale, relevance, max_cells)

    def _restarted(
        self,
        rows: _Rows,
        scale: FloatArray,
        relevance: FloatArray,
        max_cells: int | None,
    ) -> Stream:
        """Return a stream on this scale that has learnt these rows and nothing else."""
        X, scale, rungs = rows[0], scale / relevance, np.array([self.lifetime])
        if self.lifetime is None:
            spread = (X / scale).std(axis=0).sum()
            rungs = FIRST_RUNGS / (spread if spread > 0 else 1.0)
        new = replace(
            self, learners=[self.blank.fresh() for _ in rungs], error=np.zeros(rungs.size),
            relevance=relevance, scale=scale, kept=None, n_rows=0,
        )  # fmt: skip
        room = 2 * self.trees.time.size
        new._show(
            OnlineTrees.empty(
                X.shape[1], self.trees.n_trees, float(rungs[-1]), self.seed, rungs, room=room
            )
        )
        new._take_parts(rows, max_cells)
        return new

    def _take_parts(self, rows: _Rows, max_cells: int | None) -> None:
        for begin in range(0, rows[0].shape[0], WINDOW):
            self._take(_part(rows, begin, begin + WINDOW), max_cells)

    def _take(self, rows: _Rows, max_cells: int | None) -> None:
        """Learn from rows; if anything fails, nothing has changed."""
        X, Y, sample_weight = rows
        X = X / self.scale
        check_more_ranges(self.trees, X)
        online, error, n_before = self.online, self.error.copy(), self.n_rows
        lessons = self.__dict__.get("_lessons")
        if lessons is None:
            lessons = Lessons(self.learners)
        lessons.commit()
        state = {"error": self.error, "n_rows": n_before, "learners": self.learners}
        self._before = online, online.n_rows, lessons, state
        try:
            leaf = online.extend(X, max_cells)
            losses = lessons.teach(
                leaf, online.column, online.n_cells.tolist(), online.origin, Y, sample_weight
            )
            kernels().forget(losses, n_before, WINDOW, error)
            n_rows = n_before + leaf.shape[0]
            new = {"error": error, "n_rows": n_rows, "_lessons": lessons}
            if self.lifetime is None and n_rows // WINDOW > n_before // WINDOW:
                online, changes = _moved(online, self.learners, error, max_cells)
                new |= changes
            self._show(online, **new)
        except BaseException:
            self.rollback()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def last_build(n_rows: int) -> int:
    """Return how many of the rows scale and ladder are taken from: a power of four, or 0."""
    return int(min(4 ** ((n_rows.bit_length() - 1) // 2), WARM_UP)) if n_rows else 0


def rows_per_cell(features: MondrianFeatures) -> FloatArray:
    """Count the rows in each cell, (C,)."""
    trees, column = features.trees_, features._cells.column
    top = trees.top_nodes(column)
    counts = np.zeros(features.n_cells_)
    counts[column[top]] = trees.count[top]
    return counts


def _moved(
    online: OnlineTrees, learners: list[Any], error: FloatArray, max_cells: int | None
) -> tuple[OnlineTrees, dict[str, Any]]:
    """Put a rung above the top where that is the best, drop it where it is far from the best.

    Returns the trees and what changes.
    """
    top, best = len(learners) - 1, int(error.argmin())
    full = max_cells is not None and online.n_cells[top] >= max_cells
    if best == top and not full:
        online = online.deeper(2.0 * online.lifetime, FIRST_RUNGS.size)
        learners = [*learners, copy.deepcopy(learners[top])][-FIRST_RUNGS.size :]
        error = np.append(error, error[top])[-FIRST_RUNGS.size :]
    elif best < top - ABOVE:
        online, learners, error = online.shallower(), learners[:top], error[:top].copy()
    else:
        return online, {}
    return online, {"learners": learners, "error": error, "_lessons": Lessons(learners)}


def _joined(a: _Rows, b: _Rows) -> Any:
    return tuple(np.concatenate(parts) for parts in zip(a, b, strict=True))


def _with_room(rows: _Rows, n: int) -> Any:
    """Copy rows to arrays of n rows."""
    return tuple(
        np.concatenate([part, np.zeros((n - part.shape[0], *part.shape[1:]))]) for part in rows
    )


def _part(rows: _Rows, begin: int, end: int | None) -> Any:
    return tuple(part[begin:end] for part in rows)
