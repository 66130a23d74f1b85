"""A stream of rows, which are learnt once and forgotten; its scale comes from the first rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import column_scale, is_learnt, is_measured
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.learn_columns import learn_columns
from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.mixture import Mixture
from mondrian_kernel._online.rows import (
    Rows,
    blank_rows,
    joined,
    last_build,
    part_size,
    put_at,
    stream_scale,
    take_rows,
    wider,
    with_class,
    with_room,
)
from mondrian_kernel._online.scaled_stream import ScaledStream
from mondrian_kernel._online.sizes import ErrorSizes
from mondrian_kernel._online.state import Learner
from mondrian_kernel._trees.checks import check_ranges
from mondrian_kernel._trees.levels import continue_trees
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False)
class Start:
    """State after the leading rows, which are all equal: it does not depend on the scale."""

    n_rows: int
    learners: list[Learner]
    mixture: Mixture

    def check(self) -> None:
        """Raise ValueError unless there are rows; learners and mixture check themselves."""
        if self.n_rows < 1 or self.mixture.shares.size != len(self.learners):
            raise ValueError(f"There are {self.n_rows} rows and {len(self.learners)} learners.")


class Stream(ScaledStream):
    r"""A stream that takes its scale and its first widths from the first rows: mutable.

    The trees need inputs on a fixed scale. If the scale or the widths are to be taken from the
    rows, the first 1024 rows are kept. At 1, 4, 16, 64, 256 and 1024 rows scale and widths are
    computed from all rows so far, and these are learnt again from the beginning. After that the
    scale stays and the rows are forgotten. Leading rows that are all equal count as one row,
    because they have no scale. If the relevance of columns is to be learnt, 4096 rows are kept; it
    is learnt from 1024 and again from 4096, and used if it lowers the error on unseen rows.

    Every 1024 rows the stream is compared with the last 1024. If the scale of a column differs by a
    factor of 4 or more, or the loss has been a quarter above its lowest value since the check
    before, a stream that starts again on these rows is tried. It takes over if its loss on them is
    a tenth lower. If not, that loss is the lowest from now on, and the next trial for a scale is
    after half as many rows as there were.

    The weights of the cells depend on the rows and their order. They do not depend on how the rows
    are split into batches as long as no width is added or dropped. How the learners predict
    together does: it is learnt from predictions as they are made, a batch at a time.

    Build it with :meth:`begin` or :meth:`after`.

    Attributes
    ----------
    kept : tuple of ndarrays or None
        While the scale may change: the first row and all rows after :attr:`start`, with their
        targets and weights, followed by room for more.
    start : Start or None
        State after the leading equal rows; None while all rows are equal or none has come.
    scale_rule : "std" or ndarray of shape (D,)
        How the scale is found: as standard deviations, or given; or "std" among given numbers.
    learns_relevance : bool
        Whether the relevance of columns is to be learnt.
    last : tuple of ndarrays or None
        The last rows, row i at place i modulo 2048, of a stream whose scale is measured.
    check_at : int
        Number of rows after which the last rows are looked at next.
    losses : tuple of two floats
        Lowest loss at these checks, and that at the last one.
    """

    _own = "kept", "start", "scale_rule", "learns_relevance", "last", "check_at", "losses"
    _state = (*ScaledStream._state, *_own)
    kept: Rows | None = None
    start: Start | None = None
    scale_rule: Any = None
    learns_relevance: bool = False
    last: Rows | None = None
    check_at: int = 2 * settings.WARM_UP
    losses: tuple[float, float] = (np.inf, np.inf)

    @classmethod
    def begin(
        cls,
        learners: Sequence[Learner],
        n_columns: int,
        n_trees: int,
        lifetime: float | str,
        scale: Any,
        relevance: str,
        seed: int,
    ) -> Stream:
        """Return a stream without rows.

        Parameters
        ----------
        learners : sequence of Filter or Means
            Learners without rows, with different half-lives; there will be copies at each width.
        n_columns, n_trees : int
            Number of input columns and of trees.
        lifetime : float or "auto"
            Lifetime, or "auto" for several widths.
        scale, relevance
            Parameters of the estimator.
        seed : int
            Seed of the trees.

        Returns
        -------
        stream : Stream
            The stream.
        """
        auto = isinstance(lifetime, str)
        rungs = np.array(settings.FIRST_RUNGS if auto else [lifetime], dtype=np.float64)
        online = OnlineTrees.empty(n_columns, n_trees, float(rungs[-1]), seed, rungs)
        each: list[Learner] = [copy.deepcopy(learner) for _ in rungs for learner in learners]
        ones = np.ones(n_columns)
        given, measured = column_scale(scale, ones[None], None), is_measured(scale)
        stream = cls(each, online, ones[:1], given, ones, changes_widths=auto)
        stream.scale_rule = scale if measured else given
        stream.learns_relevance = is_learnt(relevance, lifetime, scale)
        if learners[0].loss == "squared":
            stream.sizes = ErrorSizes.begin(stream.n_outputs, rungs.size)
            stream._make_group()
        if auto or measured or stream.learns_relevance:
            stream.kept = blank_rows(0, n_columns, stream.n_outputs)
        if auto and measured:
            stream.last = blank_rows(2 * settings.WARM_UP, n_columns, stream.n_outputs)
        return stream

    @classmethod
    def after(cls, model: FittedModel, learners: Sequence[Learner]) -> Stream:
        """Return a stream that continues a fit, at all its levels and at its scale.

        ``learners`` are ``Filter.after(model, ...)`` or ``Means.after(model, ...)``, with different
        half-lives. The trees are copied; the model stays as it is.
        """
        online = continue_trees(model.trees, model.levels, model.seed)
        weights, columns = model.levels.weights, (model.scale, model.relevance)
        stream = cls(list(learners), online, weights, *columns, changes_widths=False)
        if model.signal.size and learners[0].loss == "squared":
            # Until new rows have errors of their own: normal errors of the variance of the fit.
            # The factor 619 mixes their order.
            scores = ndtri(
                (np.arange(settings.RECENT_ROWS) * 619 % settings.RECENT_ROWS + 0.5)
                / settings.RECENT_ROWS
            )
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
        rows = X, Y, weight
        if X.shape[0] <= settings.STREAM_WINDOW and self.n_rows > 0:
            if self.kept is None:
                self.learn_batch(rows, max_cells)
                return self._renewed(max_cells, part_size(rows))
            if self._keeps_its_scale(X):
                self._keep(rows)
                self.learn_batch(rows, max_cells)
                return self
        new = copy.deepcopy(self)
        if new.kept is not None:
            return new._learn_first_rows(rows, max_cells)
        new.learn_parts(rows, max_cells)
        return new._renewed(max_cells, part_size(rows))

    def learn_batch(self, rows: Rows, max_cells: int | None) -> None:
        """Learn from at most 1024 rows on the present scale, and remember them."""
        n_before = self.n_rows
        super().learn_batch(rows, max_cells)
        if self.last is not None:
            for last, part in zip(self.last, rows, strict=True):
                put_at(last, n_before, part)

    def _renewed(self, max_cells: int | None, size: int) -> Stream:
        """Return a stream that starts on the last rows, where these differ and it serves better."""
        if self.last is None or self.n_rows < self.check_at:
            return self
        place = np.arange(self.n_rows - settings.WARM_UP, self.n_rows) % self.last[2].size
        X, Y, weight = (part[place] for part in self.last)
        scale, old = column_scale(self.scale_rule, X, weight), self.scale * self.relevance
        rescaled = (np.maximum(scale / old, old / scale) >= settings.RENEWAL_RATIO).any()
        loss, (lowest, before) = float(self.mixture.error[-1]), self.losses
        risen = (
            min(loss, before) > settings.RENEWAL_RISE * lowest
        )  # all these rows came after the rise
        if rescaled or risen:
            new = self._begun_on((X, Y, weight), max_cells, size)
            if new.mixture.error[-1] < settings.RENEWAL_GAIN * loss:
                return new
        self.check_at = self.n_rows + max(settings.WARM_UP, self.n_rows // 2 if rescaled else 0)
        self.losses = loss if risen else min(loss, lowest), loss
        return self

    def _begun_on(self, rows: Rows, max_cells: int | None, size: int) -> Stream:
        """Return a stream like this one that has learnt these rows only, ``size`` at a time."""
        columns = self.scale_rule, "learn" if self.learns_relevance else "equal"
        n_trees, seed = self.online.freeze().n_trees, self.online.seed
        blank = [learner.fresh() for learner in self.learners[: self.n_rates]]
        new = Stream.begin(blank, self.scale.size, n_trees, "auto", *columns, seed)
        for begin in range(0, len(rows[0]), size):
            new = new.learn(*take_rows(rows, begin, begin + size), max_cells)
        return new

    def with_columns(self, n_more: int) -> Stream:
        """Return the stream with further columns, in which all rows so far are 0.

        No prediction changes. The scale of the new columns is 1, until that of all columns is
        measured again. The old stream must not be used any more.
        """
        new, ones = copy.copy(self), np.ones(n_more)
        new.online = self.online.widened(n_more)
        new.scale, new.relevance = np.append(self.scale, ones), np.append(self.relevance, ones)
        if not isinstance(self.scale_rule, str):
            new.scale_rule = np.append(self.scale_rule, ones)
        new.kept, new.last = wider(self.kept, n_more), wider(self.last, n_more)
        new._make_group()
        return new

    def with_class(self) -> Stream:
        """Return a stream of the logistic loss with a further class, which no row was of.

        The odds of the other classes do not change. The old stream must not be used any more.
        """
        new = copy.copy(self)
        new.learners = [_with_class(learner) for learner in self.learners]
        if self.start is not None:
            start = [_with_class(learner) for learner in self.start.learners]
            new.start = Start(self.start.n_rows, start, self.start.mixture.with_class())
        new.mixture = self.mixture.with_class()
        new.kept, new.last = with_class(self.kept), with_class(self.last)
        new._make_group()
        return new

    def check(self) -> None:
        """Raise ValueError unless the first rows, where they are kept, are those of the trees."""
        super().check()
        start, first = self.start, self.learners[0]
        if start is not None:
            n_trees = self.online.freeze().n_trees
            if not isinstance(start, Start) or start.n_rows > self.n_rows:
                raise ValueError("The start is that of another stream.")
            self._check_alike(start.learners)
            if any(learner.n_table != n_trees for learner in start.learners):
                raise ValueError("The start is that of other trees.")
        if len(self.losses) != 2 or not min(self.losses) >= 0:
            raise ValueError(f"The losses at earlier checks are {self.losses}.")
        if self.last is not None:
            n = 2 * settings.WARM_UP
            shapes = [part.shape for part in self.last]
            if shapes != [(n, self.scale.size), (n, first.n_outputs), (n,)]:
                raise ValueError(f"The last rows have the shapes {shapes}.")
            if not all(np.isfinite(part).all() for part in self.last):
                raise ValueError("A number of the last rows is not finite.")
        if self.kept is None:
            return
        X, Y, weight = self.kept
        n, n_columns = X.shape[0], self.scale.size
        if n < self._n_kept() or n > 4 * settings.RELEVANCE_ROWS[-1]:
            raise ValueError(f"{n} rows are kept instead of {self._n_kept()}.")
        if (X.shape, Y.shape, weight.shape) != ((n, n_columns), (n, first.n_outputs), (n,)):
            raise ValueError("The rows that are kept have other columns or outputs.")
        if not all(part.dtype == np.float64 and np.isfinite(part).all() for part in self.kept):
            raise ValueError("A number of the rows that are kept is not finite.")

    def _n_kept(self, n_more: int = 0) -> int:
        """Return the number of rows that are kept, leading equal rows as one."""
        if self.start is None:
            return min(self.n_rows, 1)
        return self.n_rows - self.start.n_rows + 1 + n_more

    def _build_at(self, n_rows: int) -> int:
        """Return how many of the kept rows scale, widths and relevance are computed from."""
        reached = (
            [n for n in settings.RELEVANCE_ROWS if n <= n_rows] if self.learns_relevance else []
        )
        return max([last_build(n_rows), *reached])

    def _keeps_its_scale(self, X: FloatArray) -> bool:
        """Whether the rows can be learnt on the present scale and at the present widths."""
        assert self.kept is not None
        if self.start is None:
            return self.n_rows > 0 and bool((self.kept[0][0] == X).all())
        return self._build_at(self._n_kept(X.shape[0])) == self._build_at(self._n_kept())

    def _keep(self, rows: Rows) -> None:
        """Copy rows behind those that are kept; there is room."""
        assert self.kept is not None
        if self.start is not None:
            n = self._n_kept()
            for kept, part in zip(self.kept, rows, strict=True):
                kept[n : n + part.shape[0]] = part

    def _learn_first_rows(self, rows: Rows, max_cells: int | None) -> Stream:
        """Learn from rows while the scale may change; return the stream that has done so."""
        assert self.kept is not None
        first = take_rows(rows, 0, 1) if self.n_rows == 0 else take_rows(self.kept, 0, 1)
        n_before = self._n_kept()
        size = part_size(rows)
        if self.start is None:
            differs = (rows[0] != first[0]).any(axis=1)
            n_equal = int(differs.argmax()) if differs.any() else differs.size
            self.learn_parts(take_rows(rows, 0, n_equal), max_cells, size)
            self.kept, n_before, rows = with_room(first, 4), 1, take_rows(rows, n_equal, None)
            if n_equal == differs.size:
                return self
            learners = copy.deepcopy(self.learners[: self.n_rates])
            mixture = self.mixture.of(np.arange(self.n_rates, dtype=np.int64))
            self.start = Start(self.n_rows, learners, mixture)
        rows = joined(take_rows(self.kept, 0, n_before), rows)
        n, new, scale = rows[0].shape[0], self, self.scale * self.relevance
        n_first, built_from = last_build(n), self._build_at(n)
        if n_first > last_build(n_before):
            X, _, weight = take_rows(rows, 0, n_first)
            scale = stream_scale(self.scale_rule, X, weight)
        if built_from > self._build_at(n_before):
            some = take_rows(rows, 0, built_from)
            new = self._restarted(some, scale, np.ones(scale.size), max_cells, size)
            if self.learns_relevance and built_from in settings.RELEVANCE_ROWS:
                other = self._with_relevance(some, max_cells, size)
                new = other if other.mixture.error[-1] < new.mixture.error[-1] else new
        done = n >= (settings.RELEVANCE_ROWS[-1] if self.learns_relevance else settings.WARM_UP)
        rest = take_rows(rows, new._n_kept(), None)
        new.learn_parts(rest, max_cells, settings.STREAM_WINDOW if done else size)
        new.kept = None if done else with_room(rows, max(n, 4 * n_first))
        return new

    def _with_relevance(self, rows: Rows, max_cells: int | None, size: int) -> Stream:
        """Return a stream that learns the relevance of columns from rows, then the rows."""
        X, Y, weight = rows
        scale, seed = column_scale(self.scale_rule, X, weight), self.online.seed
        found = learn_columns(
            X,
            Y,
            weight,
            seed,
            scale=scale,
            ranked=np.zeros(X.shape[1], bool),
            step_rows=settings.RELEVANCE_STEP_ROWS,
            steps=settings.RELEVANCE_STEPS,
        )
        return self._restarted(rows, scale, found.columns.relevance, max_cells, size)

    def _restarted(
        self,
        rows: Rows,
        scale: FloatArray,
        relevance: FloatArray,
        max_cells: int | None,
        size: int,
    ) -> Stream:
        """Return a stream on another scale that has learnt the kept rows ``rows`` again.

        They are learnt in parts of ``size`` rows.
        """
        assert self.start is not None
        X, scale, start = rows[0], scale / relevance, self.start
        X = X / scale
        check_ranges(X)
        rungs = self.online.rungs
        if self.changes_widths:
            with np.errstate(over="ignore"):
                spread = X.std(axis=0).sum()
            rungs = np.array(settings.FIRST_RUNGS) / (spread if 0 < spread < np.inf else 1.0)
        old = self.online.freeze()
        online = OnlineTrees.empty(
            X.shape[1], old.n_trees, float(rungs[-1]), self.online.seed, rungs
        )
        online.extend(X[:1], max_cells)
        equal = online.snapshot()
        equal.count[:] = start.n_rows
        online = OnlineTrees.from_trees(
            equal, online.seed, rungs, online.column, online.stop, room=2 * old.time.size
        )
        learners = [copy.deepcopy(learner) for _ in rungs for learner in start.learners]
        new = Stream(learners, online, self.level_weights, scale, relevance, self.changes_widths)
        members = np.tile(np.arange(len(start.learners), dtype=np.int64), rungs.size)
        new.start, new.mixture = start, start.mixture.of(members)
        new.recent = self.recent.copy()
        if self.sizes is not None:
            new.sizes = ErrorSizes.begin(self.n_outputs, rungs.size, self.sizes.recent)
            new._make_group()
        for name in ("scale_rule", "learns_relevance", "last"):
            setattr(new, name, getattr(self, name))
        new.learn_parts(take_rows(rows, 1, None), max_cells, size)
        return new


def _with_class(learner: Learner) -> Learner:
    assert isinstance(learner, Filter)
    return learner.with_class()
