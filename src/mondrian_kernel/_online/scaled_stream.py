"""Learning from a stream on a fixed scale, at the width that predicts best."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._online.group import Counts, LearnerGroup
from mondrian_kernel._online.learners import Filter, Means
from mondrian_kernel._settings import MAX_RUNGS, RUNGS_ABOVE, STREAM_WINDOW
from mondrian_kernel._trees.checks import check_more_ranges, check_vectors
from mondrian_kernel._trees.levels import Levels, check_online, online_levels
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._typing import FloatArray

Learner = Filter | Means
Rows = tuple[FloatArray, FloatArray, FloatArray]


@cache
def _kernels() -> Any:
    from mondrian_kernel._kernels import rungs

    return rungs


@dataclass(frozen=True, eq=False)
class _Before:
    """The state of a stream before its last batch, for a rollback."""

    online: OnlineTrees
    n_rows: int
    group: LearnerGroup
    learners: list[Learner]
    error: FloatArray


class ScaledStream:
    """A stream on a fixed scale: mutable.

    Up to five widths share the trees, each half the one before, and there is a learner for each. A
    row costs what the narrowest width costs, where it is put into the trees, and O(M) for each of
    the others. The width with the lowest error on unseen rows predicts. This error is the mean over
    all rows, or after 1024 rows a mean that forgets old rows at the rate 1/1024.

    Widths change every 1024 rows, at the end of a batch. When the narrowest one predicts, a
    narrower one is added: the trees get twice their lifetime (:meth:`OnlineTrees.deeper`), the new
    learner starts as a copy of the last one, and the widest of six widths is dropped. No width is
    added once there are ``max_cells`` cells. When the best width is three or more below the
    narrowest, the narrowest one is dropped (:meth:`OnlineTrees.shallower`): its many cells take
    time and memory and are of no use.

    Parameters
    ----------
    learners : list
        A learner for each of the R widths; or one learner, of L levels.
    online : OnlineTrees
        The trees, with a rung for each width or level.
    level_weights : ndarray of shape (L,)
        Weights of the levels.
    scale, relevance : ndarrays of shape (D,)
        What the columns are divided by, and how much each counts.
    changes_widths : bool
        Whether widths are added and dropped.

    Attributes
    ----------
    error : ndarray of shape (R,)
        Running mean of the loss at each width.
    """

    _state: ClassVar[tuple[str, ...]] = (
        "learners",
        "error",
        "level_weights",
        "scale",
        "relevance",
        "changes_widths",
    )

    def __init__(
        self,
        learners: list[Learner],
        online: OnlineTrees,
        level_weights: FloatArray,
        scale: FloatArray,
        relevance: FloatArray,
        changes_widths: bool,
    ) -> None:
        self.learners = learners
        self.online = online
        self.level_weights = level_weights
        self.scale = scale
        self.relevance = relevance
        self.changes_widths = changes_widths
        self.error = np.zeros(len(learners))
        self._value = np.sqrt(level_weights / online.freeze().n_trees)
        self._group: LearnerGroup | None = None
        self._before: _Before | None = None

    @property
    def n_outputs(self) -> int:
        """Number of outputs, K."""
        return self.learners[0].n_outputs

    @property
    def n_rows(self) -> int:
        """Number of rows learnt from."""
        return self.online.n_rows

    @property
    def best(self) -> int:
        """Index of the width that predicts."""
        return int(self.error.argmin())

    @property
    def learner(self) -> Any:
        """The learner that predicts."""
        return self.learners[self.best]

    def fitted(self) -> FittedModel:
        """Return the present model, at the width that predicts.

        Its arrays are views, which the next batch changes: ask again after each. Only the weights
        of a forest are computed anew, in O(F).
        """
        learner, n_cells = self.learner, self._n_cells()
        return FittedModel(
            trees=self.online.freeze(),
            levels=self._levels(),
            cell_weights=learner.cell_weights(n_cells, self._value),
            intercept=learner.intercept,
            columns=Columns.scaled(self.scale, self.relevance),
            alpha=learner.alpha,
            seed=self.online.seed,
            signal=learner.signal(),
            sums=learner.cell_sums(n_cells),
        )

    def scores(self, X: FloatArray, n_jobs: int | None) -> FloatArray:
        """Scores (n, K) of rows as they come, in O(M) a row also for a forest."""
        learner = self.learner
        if not isinstance(learner, Means):
            return self.fitted().scores(X, n_jobs)
        levels, trees = self._levels(), self.online.freeze()
        node, log_stay = trees.walk_through(X / self.scale, levels.lifetimes, n_jobs)
        number = np.arange(levels.n_levels)[:, None, None]
        cells = levels.column[:, node].astype(np.int64) * levels.n_levels + number
        stay = np.exp(log_stay).transpose(0, 2, 1)
        shape = X.shape[0], -1
        return learner.scores(
            cells.transpose(1, 0, 2).reshape(shape), stay.reshape(shape), self._value
        )

    def standard_errors(self) -> FloatArray:
        """Absolute errors of the last 1024 rows in units of their deviation, (n, K)."""
        errors: FloatArray = self.learner.standard_errors()
        return errors

    def variance(self, Phi: sparse.csr_matrix) -> FloatArray:
        """Variance of f at new rows in units of the signal, (n,), given their features Φ (n, F)."""
        variance: FloatArray = self.learner.variance(Phi, self._n_cells())
        return variance

    __call__ = variance  # as of PredictiveVariance

    def covariance(self, Phi: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at new rows in units of the signal, (n, n)."""
        covariance: FloatArray = self.learner.covariance(Phi, self._n_cells())
        return covariance

    def _n_cells(self) -> Counts:
        """Return the number of cells at each level, (L,)."""
        return self.online.n_cells[self.best :][: self._value.size]

    def _levels(self) -> Levels:
        n_levels, first = self._value.size, self.best
        return online_levels(self.online, slice(first, first + n_levels), self.level_weights)

    def rollback(self) -> None:
        """Undo the last batch that :meth:`learn` put into this stream, if there is one.

        A batch for which :meth:`learn` returned another stream did not change this one.
        """
        before = self._before
        if before is None:
            return
        before.group.rollback()
        before.online.rollback(before.n_rows)
        self.online, self._group = before.online, before.group
        self.learners, self.error = before.learners, before.error
        self._before = None

    def learn_batch(self, rows: Rows, max_cells: int | None) -> None:
        """Learn from at most 1024 rows on the present scale; if anything fails, from none."""
        X, Y, weight = rows
        X = X / self.scale
        online, n_before = self.online, self.online.n_rows
        check_more_ranges(online.freeze(), X)
        group = self._group
        if group is None:
            group = self._group = LearnerGroup(self.learners, self._value)
        group.commit()
        self._before = _Before(online, n_before, group, self.learners, self.error)
        try:
            leaf = online.extend(X, max_cells)
            losses = group.learn(
                leaf, online.column, online.n_cells.tolist(), online.origin, Y, weight
            )
            error = self.error.copy()
            _kernels().update_errors(losses, n_before, STREAM_WINDOW, error)
            self.error = error
            n_rows = n_before + X.shape[0]
            if self.changes_widths and n_rows // STREAM_WINDOW > n_before // STREAM_WINDOW:
                self._change_widths(max_cells)
        except BaseException:
            self.rollback()
            raise

    def learn_parts(self, rows: Rows, max_cells: int | None) -> None:
        """Learn from any number of rows. If that fails, the stream must not be used any more."""
        for begin in range(0, rows[0].shape[0], STREAM_WINDOW):
            self.learn_batch(take_rows(rows, begin, begin + STREAM_WINDOW), max_cells)
        self._before = None

    def _change_widths(self, max_cells: int | None) -> None:
        """Add a narrower width if the narrowest predicts; drop the narrowest if it is useless."""
        top, best, online = len(self.learners) - 1, self.best, self.online
        full = max_cells is not None and online.n_cells[top] >= max_cells
        if best == top and not full:
            self.online = online.deeper(2.0 * online.lifetime, MAX_RUNGS)
            new = copy.deepcopy(self.learners[top])
            self.learners = [*self.learners, new][-MAX_RUNGS:]
            self.error = np.append(self.error, self.error[top])[-MAX_RUNGS:]
        elif best < top - RUNGS_ABOVE:
            self.online = online.shallower()
            self.learners, self.error = self.learners[:top], self.error[:top].copy()
        else:
            return
        self._group = None

    def check(self) -> None:
        """Raise ValueError unless trees, cells and learners belong together.

        The learners have been checked before.
        """
        check_online(self.online)
        check_vectors(
            level_weights=self.level_weights,
            scale=self.scale,
            relevance=self.relevance,
            error=self.error,
        )
        R, n_levels, rungs = len(self.learners), self.level_weights.size, self.online.rungs.size
        if not 1 <= R <= MAX_RUNGS or self.error.shape != (R,) or not (self.error >= 0).all():
            raise ValueError(f"There are {R} learners, but errors {self.error}.")
        if (R > 1 and n_levels > 1) or R * n_levels > rungs or (self.changes_widths and rungs != R):
            raise ValueError(f"There are {R} learners at {n_levels} levels, but {rungs} rungs.")
        n_cells = self.online.n_cells
        in_use = n_cells[:R] if n_levels == 1 else [n_levels * n_cells[:n_levels].max()]
        first = self.learners[0]
        for learner, n in zip(self.learners, in_use, strict=True):
            if (type(learner), learner.n_outputs) != (type(first), first.n_outputs):
                raise ValueError("The learners are of different kinds.")
            if learner.n_table != n:
                raise ValueError(f"A learner knows {learner.n_table} cells instead of {n}.")
        self.fitted().check()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state as arrays, plain Python, :class:`Trees` and learners."""
        online = self.online
        trees = online.freeze(), online.seed, online.rungs, online.column, online.stop
        return {"trees": trees} | {name: getattr(self, name) for name in self._state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.online = OnlineTrees.from_trees(*state["trees"])
        for name in self._state:
            setattr(self, name, state[name])
        self._value = np.sqrt(self.level_weights / self.online.freeze().n_trees)
        self._group = self._before = None


def take_rows(rows: Rows, begin: int, end: int | None) -> Rows:
    """Return some of the rows: views."""
    X, Y, weight = rows
    return X[begin:end], Y[begin:end], weight[begin:end]
