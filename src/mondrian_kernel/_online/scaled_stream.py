"""Learning from a stream on a fixed scale, at several widths that predict together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.spread import Spread
from mondrian_kernel._online.committee import Committee, kernels
from mondrian_kernel._online.learners import Counts, Means
from mondrian_kernel._trees.checks import check_vectors
from mondrian_kernel._trees.levels import Levels, check_online, online_levels
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._trees.packed import pack_online
from mondrian_kernel._typing import FloatArray

_NO_TARGETS = 4  # what the kernel returns; see there
Rows = tuple[FloatArray, FloatArray, FloatArray]


class ScaledStream:
    r"""A stream on a fixed scale: mutable.

    Up to five widths share the trees, each half the one before. At each there is a learner for
    every rate of forgetting. A row costs what the narrowest width costs, where it is put into the
    trees, and O(M) for each learner. How the learners predict together is learnt from their errors
    on rows of a batch before any of it was learnt.

    Widths change every 1024 rows, at the end of a batch, by the errors of their learners. When the
    narrowest one is the best, and its cells have 16 rows on average, a narrower one is added: the
    trees get twice their lifetime (:meth:`OnlineTrees.deeper`), the new learners start as copies of
    the last ones, and the widest of six widths is dropped. No width is added once there are
    ``max_cells`` cells.

    Attributes
    ----------
    learners : Committee
        Learners of the targets.
    sizes : Committee or None
        Learners of the local scale :math:`e^{g(x)}` of the errors u, :math:`g = \mathrm{E} \ln|u|`,
        where there was no fit that knows it: means of ln|u| in the cells of each width. They
        forget, so they follow a change of the noise. Only differences of g between rows count: the
        level is that of the last errors.
    online : OnlineTrees
        The trees, with a rung for each width or level.
    level_weights : ndarray of shape (L,)
        Weights of the levels.
    scale, relevance : ndarrays of shape (D,)
        What the columns are divided by, and how much each counts.
    changes_widths : bool
        Whether narrower widths are added.
    recent : ndarray of shape (2048, K) or (2048, 0)
        With the squared loss, errors of rows before their batch was learnt, in units of their
        expected size. Row i is at place i modulo 2048. The last 1024 are used; the others are there
        in case a batch is rolled back.
    recent_sizes : ndarray of shape (2048, K)
        Logarithm of the scale of the last errors before their batch was learnt, in the same units;
        0 without ``sizes``.
    lost : ndarray of shape (2048,)
        Losses of the last rows before their batch was learnt; infinite where there was none.
    """

    _state: ClassVar[tuple[str, ...]] = (
        "learners",
        "sizes",
        "level_weights",
        "scale",
        "relevance",
        "changes_widths",
        "recent",
        "recent_sizes",
        "lost",
    )
    # Trees, number of rows, learners and sizes before the last batch.
    _before: tuple[OnlineTrees, int, Committee, Committee | None] | None = None
    sizes: Committee | None = None

    def __init__(
        self,
        learners: Committee,
        online: OnlineTrees,
        level_weights: FloatArray,
        scale: FloatArray,
        relevance: FloatArray,
        changes_widths: bool,
    ) -> None:
        self.learners, self.online, self.level_weights = learners, online, level_weights
        self.scale, self.relevance, self.changes_widths = scale, relevance, changes_widths
        self.recent = np.zeros((2 * settings.RECENT_ROWS, self._n_recent))
        self.recent_sizes = np.zeros((2 * settings.RECENT_ROWS, self.n_outputs))
        self.lost = np.full(2 * settings.RECENT_ROWS, np.inf)

    @property
    def n_outputs(self) -> int:
        """Number of outputs, K."""
        return self.learners.rule.n_outputs

    @property
    def _n_recent(self) -> int:
        return self.n_outputs if self.learners.rule.loss == "squared" else 0

    @property
    def n_rows(self) -> int:
        """Number of rows learnt from."""
        return self.online.n_rows

    @property
    def error(self) -> float:
        """Mean loss on rows before they were learnt."""
        return float(self.learners.mixture.error[-1])

    def last_losses(self, n_rows: int) -> FloatArray:
        """Losses of the last rows, at most 1024 of them, before they were learnt."""
        return self.lost[self._places()[:n_rows]]

    @property
    def best(self) -> int:
        """Index of the width whose best learner errs least."""
        return int(self.learners.mixture.error[:-1].argmin()) // self.learners.n_rates

    def rollback(self, n_rows: int) -> None:
        """Undo the batch that :meth:`learn` put into this stream when it had ``n_rows``, if any.

        A batch for which :meth:`learn` returned another stream did not change this one.
        """
        if self._before is None or self._before[1] != n_rows:
            return
        self.online, _, self.learners, self.sizes = self._before
        batch = self.online.leaf, self.online.table.column
        self.learners.rollback(*batch)
        if self.sizes is not None:
            self.sizes.rollback(*batch)
        self.online.rollback(n_rows)
        self._before = None

    def learn_batch(self, rows: Rows, max_cells: int | None) -> None:
        """Learn from at most 1024 rows on the present scale; if anything fails, from none."""
        X, online, n_before = rows[0], self.online, self.n_rows
        self.learners.commit()
        if self.sizes is not None:
            self.sizes.commit()
        self._before = online, n_before, self.learners, self.sizes
        begins, bound, kernel = True, online.bound, kernels().learn_batch
        online.start(len(X), reuse=True)
        try:
            while status := kernel(
                *rows, begins, bound, self.scale, *self._arrays(len(X), max_cells)
            ):
                begins = False
                if status < _NO_TARGETS:
                    bound = online.make_room(status, X / self.scale)
                elif status == _NO_TARGETS or self.sizes is None:
                    self.learners.grow(online.n_cells)
                else:
                    self.sizes.grow(online.n_cells)
            if online.rows is not None:
                online.keep_rows(X / self.scale)
            window = settings.STREAM_WINDOW
            if self.changes_widths and self.n_rows // window > n_before // window:
                self._add_width(max_cells)
        except BaseException:
            self.rollback(n_before)
            raise

    def _arrays(self, n_rows: int, max_cells: int | None) -> tuple[Any, ...]:
        """Return what the kernel takes after the scale."""
        online, sizes, n_trees = self.online, self.sizes, self.online.table.root.size
        targets = self.learners.batch(n_rows, n_trees)
        of_sizes = targets if sizes is None else sizes.batch(n_rows, n_trees)
        rings = self.lost, self.recent, self.recent_sizes
        return *online.arrays(max_cells), targets, of_sizes, sizes is not None, rings

    def learn_parts(
        self, rows: Rows, max_cells: int | None, size: int = settings.STREAM_WINDOW
    ) -> None:
        """Learn from any number of rows. If that fails, the stream must not be used any more.

        They are taken in parts of ``size`` rows, and the very first row alone. The parts matter for
        the mixture, which judges predictions of a part.
        """
        begin, n = 0, rows[0].shape[0]
        while begin < n:
            end = begin + (size if self.n_rows > 0 else 1)
            self.learn_batch(take_rows(rows, begin, end), max_cells)
            begin = end
        self._before = None

    def _add_width(self, max_cells: int | None) -> None:
        """Add a narrower width if the narrowest one is best and its cells have enough rows."""
        top, online = self.learners.n_rungs - 1, self.online
        n_cells = online.n_cells[top]
        few = n_cells * settings.CELL_ROWS <= self.n_rows * online.table.root.size
        if self.best < top or not few or (max_cells is not None and n_cells >= max_cells):
            return
        self.online = online.deeper(2.0 * online.lifetime, settings.MAX_RUNGS)
        rungs = np.append(np.arange(top + 1), top)[-settings.MAX_RUNGS :]
        self.learners = self.learners.at_rungs(rungs)
        self.sizes = self.sizes and self.sizes.at_rungs(rungs)

    def fitted(self) -> FittedModel:
        """Return the present model, with all widths as levels.

        Trees and cells are views, which the next batch changes: ask again after each. The weights
        of the cells are computed in O(F).
        """
        levels, rule = self._levels(), self.learners.rule
        errors, weight = self._errors()
        signal, calibration = np.empty(0), None
        if rule.loss == "squared":
            signal = np.average(errors**2, axis=0, weights=weight)
        elif rule.loss == "log_loss":
            # The probabilities of the classes that came; no loss is below 0 but for rounding.
            shares = np.exp(-np.maximum(self.lost[self._places()], 0.0))
            calibration = np.column_stack([shares, weight])
        return FittedModel(
            trees=self.online.freeze(),
            levels=levels,
            cell_weights=self.learners.cell_weights(np.diff(levels.offset)),
            intercept=self.learners.intercept,
            columns=Columns.scaled(self.scale, self.relevance),
            alpha=rule.alpha,
            seed=self.online.seed,
            signal=signal,
            calibration=calibration,
            trend=self.learners.trend,
        )

    def scores(self, X: FloatArray, n_jobs: int | None) -> FloatArray:
        """Scores (n, K) of rows as they come, in O(M) a row."""
        return self.learners.scores(X, self.scale, self._walk(), n_jobs)

    def scores_and_variance(
        self, X: FloatArray, n_jobs: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores, and the variances (n,) of their errors in units of that of the signal."""
        variance = np.empty(X.shape[0])
        return self.learners.scores(X, self.scale, self._walk(), n_jobs, variance), variance

    def scores_and_scale(self, X: FloatArray, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
        """Scores of rows as they come, and the scale of their errors, (n, K) each."""
        scores, variance = self.scores_and_variance(X, n_jobs)
        usual = self.learners.mixture.counts[2]
        if self.sizes is not None and usual > 0.0:
            variance = np.maximum(variance / usual, 1.0)
        scale: FloatArray = np.repeat(np.sqrt(variance)[:, None], self.n_outputs, axis=1)
        if self.sizes is not None:
            sizes = self.sizes.scores(X, self.scale, self._walk(), n_jobs)
            scale *= np.exp(sizes - self.sizes.intercept)
        return scores, scale

    def _walk(self) -> tuple[Any, ...]:
        """Return nodes, lifetimes and cells of the trees, as kernels that walk them take them."""
        table, rungs = self.online.table, self.online.rungs
        n_levels = self.learners.n_rungs * self.level_weights.size
        return table.nodes, rungs if n_levels == rungs.size else rungs[:n_levels], table.column

    def spread(self) -> Spread:
        """Return the errors of the last rows in units of their scale, with their weights."""
        errors, weight = self._errors()
        return Spread.normal(errors * np.exp(-self.recent_sizes[self._places()]), weight)

    def covariance(self, Phi: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at new rows in units of the signal, (n, n), given their features.

        Covariances between the weights of cells are left out.
        """
        learners = self.learners
        cells = learners.variances(np.diff(self._levels().offset))
        cov: FloatArray = (Phi @ sparse.diags_array(cells) @ Phi.T).toarray()
        cov += learners.intercept_variance
        squares = np.asarray(Phi.multiply(Phi).sum(axis=1)).ravel()
        cov.flat[:: cov.shape[0] + 1] += np.maximum(self.level_weights.sum() - squares, 0.0)
        return cov

    def _levels(self) -> Levels:
        weights = np.outer(self.learners.rung_shares, self.level_weights).ravel()
        return online_levels(self.online, slice(weights.size), weights)

    def _errors(self) -> tuple[FloatArray, FloatArray]:
        """Errors of the last 1024 rows (see ``recent``), and weights (n,).

        A row of zeros before there are any. The weight halves every 128 rows, without a fit before
        every eighth of all rows at most.
        """
        places = self._places()
        half_life = float(settings.ERROR_HALF_LIFE)
        if self.sizes is not None:
            half_life = min(half_life, settings.ERROR_HALF_SHARE * self.n_rows)
        return self.recent[places], 0.5 ** (np.arange(places.size) / half_life)

    def _places(self) -> Counts:
        """Return the places of the last errors, the latest first; that of none is 0, which is 0.

        The first row only sets the intercept.
        """
        age = np.arange(max(min(self.n_rows - 1, settings.RECENT_ROWS), 1))
        return np.maximum(self.n_rows - 1 - age, 0) % (2 * settings.RECENT_ROWS)

    def check(self) -> None:
        """Raise ValueError unless trees, cells and learners belong together.

        The learners and the trees have been checked before.
        """
        check_online(self.online)
        check_vectors(level_weights=self.level_weights, scale=self.scale, relevance=self.relevance)
        R, n_levels, rungs = self.learners.n_rungs, self.level_weights.size, self.online.rungs.size
        if R > settings.MAX_RUNGS or R * n_levels > rungs or (self.changes_widths and rungs != R):
            raise ValueError(f"There are {R} widths and {n_levels} levels, but {rungs} rungs.")
        n_cells = self.online.n_cells
        self._check_committee(self.learners, n_cells)
        linear = self.learners.linear
        if linear is not None and linear.factor.size != self.scale.size:
            raise ValueError("The linear learners have other columns.")
        if self.sizes is not None:
            self._check_committee(self.sizes, n_cells)
            found, blank = self.sizes, size_learners(self.learners)
            if found.rule != blank.rule or not np.array_equal(found.half_lives, blank.half_lives):
                raise ValueError("The learners of sizes of errors are of another kind.")
            if n_levels > 1 or self.learners.rule.loss != "squared":
                raise ValueError("These errors have no sizes.")
        for name, n in (("recent", self._n_recent), ("recent_sizes", self.n_outputs)):
            recent = getattr(self, name)
            if recent.shape != (2 * settings.RECENT_ROWS, n) or not np.isfinite(recent).all():
                raise ValueError(f"{name} has another shape, or is infinite.")
        if self.lost.shape != (2 * settings.RECENT_ROWS,) or np.isnan(self.lost).any():
            raise ValueError("The losses of the last rows have another shape, or are missing.")
        self.fitted().check_numbers()

    def _check_committee(self, learners: Any, n_cells: Counts) -> None:
        """Raise ValueError unless learners are on these trees and know so many cells."""
        if not isinstance(learners, Committee):
            raise ValueError("The learners are of another kind.")
        n = learners.size_for(n_cells)
        if not np.array_equal(learners.n_table, n):
            raise ValueError(f"The learners know {learners.n_table} cells instead of {n}.")
        if not np.array_equal(
            learners.value, np.sqrt(self.level_weights / self.online.table.root.size)
        ):
            raise ValueError("The features of the learners have other values.")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state as arrays, plain Python, :class:`Trees` and learners."""
        return {"trees": self.online.state} | {name: getattr(self, name) for name in self._state}

    def file_state(self) -> dict[str, Any]:
        """Return the state as a file holds it, with trees in few numbers."""
        state = self.__getstate__()
        return state | {"trees": pack_online(self.online)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        trees = state["trees"]
        is_made = isinstance(trees, OnlineTrees)
        self.online = trees if is_made else OnlineTrees.from_trees(*trees)
        for name in self._state:
            setattr(self, name, state[name])


def size_learners(learners: Committee) -> Committee:
    """Return blank learners of the local size of errors; it is 1 before any row."""
    rule = Means(learners.rule.n_outputs, settings.SIZE_SHRINKAGE, True)
    return Committee.blank(rule, [settings.SIZE_HALF_LIFE], learners.n_rungs, learners.value)


def take_rows(rows: Rows, begin: int, end: int | None) -> Rows:
    """Return some of the rows, with targets and weights: views."""
    X, Y, weight = rows
    return X[begin:end], Y[begin:end], weight[begin:end]


def put_at(ring: FloatArray, begin: int, rows: FloatArray) -> None:
    """Write rows to an array whose place i holds row i modulo its length."""
    first = begin % len(ring)
    if first + len(rows) <= len(ring):
        ring[first : first + len(rows)] = rows
    else:
        ring[np.arange(begin, begin + len(rows)) % len(ring)] = rows
