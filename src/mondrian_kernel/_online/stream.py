"""A stream of rows, which are learnt once and forgotten; its scale comes from the first rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import column_scale, is_learnt, is_measured
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.learn_columns import learn_columns
from mondrian_kernel._online.committee import Committee
from mondrian_kernel._online.exact import last_build, stream_scale, with_more_columns
from mondrian_kernel._online.learners import Filter, Means
from mondrian_kernel._online.scaled_stream import (
    Rows,
    ScaledStream,
    put_at,
    size_learners,
    take_rows,
)
from mondrian_kernel._trees.checks import check_ranges
from mondrian_kernel._trees.levels import continue_trees
from mondrian_kernel._trees.online import KeptRows, OnlineTrees
from mondrian_kernel._typing import FloatArray


class Stream(ScaledStream):
    r"""A stream that takes its scale and its first widths from the first rows: mutable.

    The trees need inputs on a fixed scale. If the scale or the widths are to be taken from the
    rows, the first 1024 rows are kept. At 1, 4, 16, 64, 256 and 1024 rows scale and widths are
    computed from all rows so far, and these are learnt again from the beginning. After that the
    scale stays and the rows are forgotten. Leading rows that are all equal count as one row,
    because they have no scale. If the relevance of columns is to be learnt, 4096 rows are kept; it
    is learnt from 256, 1024 and 4096, and used if it lowers the error on unseen rows.

    Every 128 rows the stream is compared with the last rows. The loss has risen if its mean over
    the last 128, 256, 512 or 1024 rows is three standard errors above its lowest value, and as long
    as it stays there since the first of them. A stream that starts again is then tried on the rows
    since the rise, from 256 rows on, and again whenever these have doubled, up to 1024. It is tried
    on 1024 rows if the scale of a column differs by a factor of 4 or more. It takes over if its
    loss on the later half of these rows is lower by two standard errors. If it is higher by as
    much, or not lower after 1024 rows, the present loss is the lowest from now on, and the next
    trial is after half as many rows as there were. A stream that forgets nothing is not tried for
    its loss.

    The weights of the cells depend on the rows and their order. They do not depend on how the rows
    are split into batches as long as no width is added. How the learners predict
    together does: it is learnt from predictions as they are made, a batch at a time.

    Build it with :meth:`begin` or :meth:`after`.

    Attributes
    ----------
    kept : tuple of ndarrays or None
        Rows with their targets and weights, row i at place i modulo their number, where leading
        equal rows count as one: all rows while the scale may change, and then the last ones if the
        stream may start again on them.
    start : Committee or None
        The learners of one width after the leading equal rows, where they do not depend on the
        scale; None while all rows are equal or none has come.
    n_start : int
        Number of these rows.
    scale_rule : "std" or ndarray of shape (D,)
        How the scale is found: as standard deviations, or given; or "std" among given numbers.
    learns_relevance : bool
        Whether the relevance of columns is to be learnt.
    check_at, trial_at : int
        Numbers of rows after which the last rows are looked at next, and after which a new start
        may be tried.
    lowest : float
        Lowest loss at these checks.
    risen_at : int or None
        Number of rows since which the loss is clearly above it.
    """

    _state = (
        *ScaledStream._state,
        *("kept", "start", "n_start", "scale_rule", "learns_relevance"),
        *("check_at", "trial_at", "lowest", "risen_at"),
    )
    kept: Rows | None = None
    start: Committee | None = None
    n_start: int = 0
    scale_rule: Any = None
    learns_relevance: bool = False
    check_at: int = 2 * settings.WARM_UP
    trial_at: int = 2 * settings.WARM_UP
    lowest: float = np.inf
    risen_at: int | None = None
    # These four before the last batch, if it was followed by a check.
    _checks: tuple[int, int, float, int | None] | None = None

    @classmethod
    def begin(
        cls,
        rule: Filter | Means,
        half_lives: Sequence[float] | FloatArray,
        n_columns: int,
        n_trees: int,
        lifetime: float | str,
        scale: Any,
        relevance: str,
        seed: int,
    ) -> Stream:
        """Return a stream without rows, with a learner for each half-life at each width.

        Lifetime (several widths if "auto"), scale and relevance are parameters of the estimator.
        """
        auto = isinstance(lifetime, str)
        rungs = np.array(settings.FIRST_RUNGS if auto else [lifetime], dtype=np.float64)
        online = OnlineTrees.empty(n_columns, n_trees, float(rungs[-1]), seed, rungs)
        ones = np.ones(n_columns)
        # Means, and widths that are given, are models without a linear part.
        few = auto and isinstance(rule, Filter) and n_columns <= settings.LINEAR_COLUMNS
        size = rungs.size, np.sqrt(ones[:1] / n_trees), n_columns if few else 0
        learners = Committee.blank(rule, half_lives, *size)
        given, measured = column_scale(scale, ones[None], None), is_measured(scale)
        stream = cls(learners, online, ones[:1], given, ones, changes_widths=auto)
        stream.scale_rule = scale if measured else given
        stream.learns_relevance = is_learnt(relevance, lifetime, scale)
        if rule.loss == "squared":
            stream.sizes = size_learners(learners)
        if auto or measured or stream.learns_relevance:
            n = stream._room
            stream.kept = np.zeros((n, n_columns)), np.zeros((n, rule.n_outputs)), np.ones(n)
        return stream

    @classmethod
    def after(cls, model: FittedModel, rule: Filter | Means, half_lives: Sequence[float]) -> Stream:
        """Return a stream that continues a fit, at all its levels and at its scale.

        The trees are copied; the model stays as it is.
        """
        online, rows = continue_trees(model.trees, model.levels, model.seed), model.rows
        if rows is not None and rows.X is not None:
            n_nodes = np.bincount(model.trees.tree, minlength=model.trees.n_trees)
            online.rows = KeptRows(n_nodes, [rows.X], [rows.leaf])
        weights, columns = model.levels.weights, (model.scale, model.relevance)
        learners = Committee.after(rule, half_lives, model)
        stream = cls(learners, online, weights, *columns, changes_widths=False)
        if model.signal.size and rule.loss == "squared":
            # Until new rows have errors of their own: normal errors of the variance of the fit.
            # The factor 619 mixes their order.
            n = settings.RECENT_ROWS
            scores = ndtri((np.arange(n) * 619 % n + 0.5) / n)
            stream.recent = np.tile(scores[:, None] * np.sqrt(model.signal), (2, 1))
        return stream

    def learn(
        self, X: FloatArray, Y: FloatArray, weight: FloatArray, max_cells: int | None
    ) -> Stream:
        """Learn from all rows of a batch or, if anything fails, from none.

        Rows ``X`` (n, D) are not scaled, targets ``Y`` are (n, K), weights positive; ``max_cells``
        bounds the number of cells of all trees. Returns this stream, changed; or, for a large batch
        and where the scale changes, another one, while this one stays as it was.
        """
        self._before = None  # the batch before this one can no longer be rolled back
        rows, n = (X, Y, weight), X.shape[0]
        # Parts in which rows are learnt again are about as large as the present batch: errors are
        # then those of predictions as they are made.
        least, most = settings.REPLAY_ROWS
        size = max(least, min(n, most))
        if n <= settings.STREAM_WINDOW and self.n_rows > 0 and self._keeps_its_scale(X):
            self.learn_batch(rows, max_cells)
            return self._renewed(max_cells, size)
        new = copy.deepcopy(self)
        if not new._is_settled:
            return new._learn_first_rows(rows, max_cells, size)
        new.learn_parts(rows, max_cells)
        return new._renewed(max_cells, size)

    def learn_batch(self, rows: Rows, max_cells: int | None) -> None:
        """Learn from at most 1024 rows on the present scale, and remember them."""
        n_before, self._checks = self._n_unequal, None
        super().learn_batch(rows, max_cells)
        if self.kept is not None and self.start is not None:
            for kept, part in zip(self.kept, rows, strict=True):
                put_at(kept, n_before, part)

    def rollback(self, n_rows: int) -> None:
        """Undo the batch that :meth:`learn` put into this stream when it had ``n_rows``, if any."""
        if self._checks is not None and self._before is not None and self._before[1] == n_rows:
            self.check_at, self.trial_at, self.lowest, self.risen_at = self._checks
        super().rollback(n_rows)

    def _renewed(self, max_cells: int | None, size: int) -> Stream:
        """Return a stream that starts on the last rows, where these differ and it serves better."""
        n, most = self.n_rows, settings.WARM_UP
        if n < self.check_at or self.kept is None or not self._is_settled:
            return self
        self._checks = self.check_at, self.trial_at, self.lowest, self.risen_at
        self.check_at, self.lowest = n + settings.RENEWAL_STEP, min(self.error, self.lowest)
        windows = [most >> k for k in range(4)] if self.risen_at is None else [n - self.risen_at]
        rises = (standard_errors(self.last_losses(k) - self.lowest) for k in windows)
        rise, n_new = max(zip(rises, windows, strict=True))
        risen = np.isfinite(self.learners.half_lives).any() and rise > settings.RENEWAL_RISE
        self.risen_at = n - n_new if risen else None
        if n < self.trial_at:
            return self
        X, _, weight = self._last_rows(most)
        scale, old = column_scale(self.scale_rule, X, weight), self.scale * self.relevance
        rescaled = (np.maximum(scale / old, old / scale) >= settings.RENEWAL_RATIO).any()
        n_new = most if rescaled else min(n_new, most)
        if rescaled or (risen and n_new >= settings.RENEWAL_ROWS):
            learners, online = self.learners, self.online
            columns = self.scale_rule, "learn" if self.learns_relevance else "equal"
            trees = self.scale.size, online.table.root.size, "auto"
            new = Stream.begin(learners.rule, learners.half_lives, *trees, *columns, online.seed)
            new = new._learn_first_rows(self._last_rows(n_new), max_cells, size)
            # It knows nothing of the first of these rows when it predicts them.
            late = n_new // 2
            gain = standard_errors(self.last_losses(late) - new.last_losses(late))
            if gain > settings.RENEWAL_GAIN:
                return new
            self.trial_at = n + n_new
            if n_new == most or gain < -settings.RENEWAL_GAIN:
                self.lowest, self.risen_at, self.trial_at = self.error, None, n + n // 2
        return self

    def _last_rows(self, n: int) -> Rows:
        """Return the last rows, of those that are kept."""
        assert self.kept is not None
        place = np.arange(self._n_unequal - n, self._n_unequal) % self._room
        X, Y, weight = (part[place] for part in self.kept)
        return X, Y, weight

    def with_columns(self, n_more: int) -> Stream:
        """Return the stream with further columns, in which all rows so far are 0.

        No prediction changes. The scale of the new columns is 1, until that of all columns is
        measured again. The old stream must not be used any more.
        """
        new: Stream = with_more_columns(self, n_more)
        new.learners = self.learners.with_columns(n_more)
        new.start = self.start and self.start.with_columns(n_more)
        if self.kept is not None:
            X, Y, weight = self.kept
            new.kept = np.hstack([X, np.zeros((len(X), n_more))]), Y, weight
        return new

    def with_class(self) -> Stream:
        """Return a stream of the logistic loss with a further class, which no row was of.

        The odds of the other classes do not change. The old stream must not be used any more.
        """
        new = copy.copy(self)
        new.learners, new.start = self.learners.with_class(), self.start and self.start.with_class()
        new.recent_sizes = np.zeros((len(self.recent_sizes), new.n_outputs))
        if self.kept is not None:
            X, Y, weight = self.kept
            if Y.shape[1] == 1:  # -1 and 1
                Y = np.hstack([Y < 0, Y > 0]).astype(np.float64)
            new.kept = X, np.hstack([Y, np.zeros((len(Y), 1))]), weight
        return new

    def check(self) -> None:
        """Raise ValueError unless the first rows, where they are kept, are those of the trees."""
        super().check()
        start, learners = self.start, self.learners
        if start is not None:
            self._check_committee(start, np.array([self.online.table.root.size]))
            rates = start.half_lives, learners.half_lives
            if start.rule != learners.rule or not np.array_equal(*rates):
                raise ValueError("The start is that of other learners.")
        if not 0 <= self.n_start <= self.n_rows or (self.n_start > 0) != (start is not None):
            raise ValueError("The start is that of another stream.")
        if not self.lowest >= 0 or not 0 <= (self.risen_at or 0) <= self.n_rows:
            raise ValueError(f"The loss was {self.lowest}, and has risen at {self.risen_at}.")
        if self.kept is not None:
            shapes = [(self._room, n) for n in (self.scale.size, self.n_outputs)] + [(self._room,)]
            if [part.shape for part in self.kept] != shapes:
                raise ValueError(f"The rows that are kept have shapes other than {shapes}.")
            if not all(part.dtype == np.float64 and np.isfinite(part).all() for part in self.kept):
                raise ValueError("A number of the rows that are kept is not finite.")

    @property
    def _n_first(self) -> int:
        """Number of rows after which the scale stays."""
        return settings.RELEVANCE_ROWS[-1] if self.learns_relevance else settings.WARM_UP

    @property
    def _room(self) -> int:
        """Number of rows that are kept: two of the batches that may be rolled back at least."""
        return max(self._n_first, 2 * settings.WARM_UP)

    @property
    def _n_unequal(self) -> int:
        """Number of rows, leading equal rows counted as one."""
        return min(self.n_rows, 1) if self.start is None else self.n_rows - self.n_start + 1

    @property
    def _is_settled(self) -> bool:
        return self.kept is None or self._n_unequal >= self._n_first

    def _build_at(self, n_rows: int) -> int:
        """Return how many of the kept rows scale, widths and relevance are computed from."""
        relevance: tuple[int, ...] = settings.RELEVANCE_ROWS if self.learns_relevance else ()
        return max([last_build(n_rows), *(n for n in relevance if n <= n_rows)])

    def _keeps_its_scale(self, X: FloatArray) -> bool:
        """Whether the rows can be learnt on the present scale and at the present widths."""
        if self.kept is None or self._is_settled:
            return True
        if self.start is None:
            return bool((self.kept[0][0] == X).all())
        n = self._n_unequal
        return self._build_at(n + len(X)) == self._build_at(n)

    def _learn_first_rows(self, rows: Rows, max_cells: int | None, size: int) -> Stream:
        """Learn from rows while the scale may change; return the stream that has done so."""
        assert self.kept is not None
        if self.start is None:
            if self.n_rows == 0:
                for kept, part in zip(self.kept, rows, strict=True):
                    kept[0] = part[0]
            differs = (rows[0] != self.kept[0][0]).any(axis=1)
            n_equal = int(differs.argmax()) if differs.any() else differs.size
            self.learn_parts(take_rows(rows, 0, n_equal), max_cells, size)
            if n_equal == differs.size:
                return self
            self.start, self.n_start = self.learners.at_rungs(np.arange(1)), self.n_rows
            rows = take_rows(rows, n_equal, None)
        n_before = self._n_unequal
        first = take_rows(self.kept, 0, n_before)
        X, Y, weight = map(np.concatenate, zip(first, rows, strict=True))
        rows, n, new = (X, Y, weight), len(X), self
        n_scale, built_from = last_build(n), self._build_at(n)
        if built_from > self._build_at(n_before):
            some = take_rows(rows, 0, built_from)
            if n_scale > last_build(n_before):
                scale = stream_scale(self.scale_rule, X[:n_scale], weight[:n_scale])
                new = self._restarted(some, scale, np.ones(scale.size), max_cells, size)
            else:
                self.learn_parts(take_rows(some, n_before, None), max_cells, size)
            if self.learns_relevance and built_from in settings.RELEVANCE_ROWS:
                scale = column_scale(self.scale_rule, some[0], some[2])
                found = learn_columns(
                    *some,
                    self.online.seed,
                    scale=scale,
                    ranked=np.zeros(scale.size, bool),
                    step_rows=settings.RELEVANCE_STEP_ROWS,
                    steps=settings.RELEVANCE_STEPS,
                )
                other = self._restarted(some, scale, found.columns.relevance, max_cells, size)
                new = other if other.error < new.error else new
        rest, done = take_rows(rows, new._n_unequal, None), n >= self._n_first
        new.learn_parts(rest, max_cells, settings.STREAM_WINDOW if done else size)
        if done and not (self.changes_widths and is_measured(self.scale_rule)):
            new.kept = None  # it never starts again
        return new

    def _restarted(
        self,
        rows: Rows,
        scale: FloatArray,
        relevance: FloatArray,
        max_cells: int | None,
        size: int,
    ) -> Stream:
        """Return a stream on another scale that has learnt the kept rows again, in parts."""
        assert self.start is not None
        old, start, scale = self.online, self.start, scale / relevance
        X, rungs = rows[0] / scale, old.rungs
        check_ranges(X)
        if self.changes_widths:
            with np.errstate(over="ignore"):
                spread = X.std(axis=0).sum()
            rungs = np.array(settings.FIRST_RUNGS) / (spread if 0 < spread < np.inf else 1.0)
        n_trees, seed = old.table.root.size, old.seed
        online = OnlineTrees.empty(X.shape[1], n_trees, float(rungs[-1]), seed, rungs)
        online.extend(X[:1], max_cells)
        equal, room = online.snapshot(), 2 * old.freeze().time.size
        equal.count[:] = self.n_start
        online = OnlineTrees.from_trees(equal, seed, rungs, online.column, online.stop, room=room)
        learners = start.at_rungs(np.zeros(rungs.size, np.intp))
        learners.linear = start.linear and start.linear.centred(X)
        columns = self.level_weights, scale, relevance
        new = Stream(learners, online, *columns, self.changes_widths)
        for name in ("start", "n_start", "scale_rule", "learns_relevance", "kept"):
            setattr(new, name, getattr(self, name))
        for name in ("recent", "recent_sizes", "lost"):
            setattr(new, name, getattr(self, name).copy())
        new.sizes = self.sizes and size_learners(new.learners)
        new.learn_parts(take_rows(rows, 1, None), max_cells, size)
        return new


def standard_errors(x: FloatArray) -> float:
    """Return the mean of independent numbers over its standard error, 0 if all are 0."""
    x = x / max(np.abs(x).max(), np.finfo(float).tiny)  # so that no square overflows
    return float(x.mean() * np.sqrt(x.size) / max(x.std(), np.finfo(float).eps))
