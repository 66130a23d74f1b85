"""A stream with exact updates, for few rows or few cells."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns, column_scale, is_measured
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._online.ridge import ExactFit, ExactRidge
from mondrian_kernel._trees.checks import check_magnitudes, check_vectors
from mondrian_kernel._trees.levels import check_online, continue_trees, online_levels
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._typing import FloatArray, IntArray


class ExactStream:
    """A ridge regression that at any moment equals a fit of all rows on its trees: mutable.

    A row costs O(min(N, C)²) for N rows and C cells. If the scale is to be taken from the rows, it
    is computed at 1, 4, 16, ... and 1024 rows, as in a :class:`Stream`, and all rows are learnt
    again on it. Leading rows that are all equal count as one.

    ``scale`` (D,) is what the columns are divided by, their scale over their ``relevance`` (D,).
    Build it with :meth:`begin` or :meth:`after`.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.exact import ExactStream
    >>> X = np.random.default_rng(0).uniform(size=(30, 2))
    >>> stream = ExactStream.begin(1, 2, 10, 1.0, 0.1, "std", seed=0)
    >>> for row in X:
    ...     stream = stream.learn(row[None], row[None, :1], np.ones(1), None)
    >>> stream.fitted().rows.Y.shape
    (30, 1)
    """

    _state = ("level_weights", "scale", "relevance", "alpha", "scale_rule", "kept", "numbers")

    def __init__(
        self,
        online: OnlineTrees,
        level_weights: FloatArray,
        rows: TrainingRows,
        scale: FloatArray,
        relevance: FloatArray,
        alpha: float,
    ) -> None:
        self.online, self.scale, self.relevance = online, scale, relevance
        self.alpha, self.level_weights = alpha, level_weights
        # The rule of the scale; and all rows, not scaled, while the scale may change.
        self.scale_rule: Any = scale
        self.kept: FloatArray | None = None
        # Of each level, the number of each cell among the cells of all levels. They are numbered in
        # order of appearance, so that new rows only append cells.
        self.numbers: list[IntArray] = [np.empty(0, np.int32) for _ in level_weights]
        self._number_new_cells()
        self._ridge = self._new_ridge(rows)
        self._fit: ExactFit | None = None
        # Number of rows, numbers of cells, rows that were kept and fit before the last batch.
        self._before: tuple[int, list[IntArray], FloatArray | None, ExactFit | None] | None = None

    @classmethod
    def begin(
        cls,
        n_outputs: int,
        n_columns: int,
        n_trees: int,
        lifetime: float,
        alpha: float,
        scale: Any,
        seed: int,
    ) -> ExactStream:
        """Return a stream without rows; lifetime, alpha and scale are parameters of the model."""
        online, ones = OnlineTrees.empty(n_columns, n_trees, lifetime, seed), np.ones(n_columns)
        none = np.empty((0, n_trees), np.int32), np.empty((0, n_outputs)), np.empty(0)
        given = column_scale(scale, ones[None], None)
        stream = cls(online, ones[:1], TrainingRows(*none), given, ones, alpha)
        if is_measured(scale):
            stream.scale_rule, stream.kept = scale, np.empty((0, n_columns))
        return stream

    @classmethod
    def after(cls, model: FittedModel) -> ExactStream:
        """Return a stream that continues a fit whose rows are known, at all its levels.

        The trees are copied; the model stays as it is.
        """
        if model.rows is None:
            raise ValueError("The rows of the fit were forgotten: it cannot be continued exactly.")
        online = continue_trees(model.trees, model.levels, model.seed)
        weights = model.levels.weights
        return cls(online, weights, model.rows, model.scale, model.relevance, model.alpha)

    @property
    def n_outputs(self) -> int:
        """Number of outputs, K."""
        return int(self._ridge.rows.Y.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows learnt from."""
        return self._ridge.n_rows

    @property
    def evidence(self) -> float:
        """Log marginal likelihood of all rows."""
        return self._fitted().evidence

    def size(self, n_more: int) -> int:
        """Return the smaller of the numbers of rows, with ``n_more`` more, and of cells.

        Without rows there are no cells yet, and it is the number of rows.
        """
        n_rows = self.n_rows + n_more
        return n_rows if self.n_rows == 0 else min(n_rows, self._n_cells)

    def fitted(self) -> FittedModel:
        """Return the present model, with its rows.

        Trees and rows are views, which the next batch changes: ask again after each.
        """
        fit, weights = self._fitted(), self.level_weights
        return FittedModel(
            trees=self.online.freeze(),
            levels=online_levels(self.online, slice(weights.size), weights),
            cell_weights=fit.coef[np.concatenate(self.numbers)],
            intercept=fit.intercept,
            columns=Columns.scaled(self.scale, self.relevance),
            alpha=self.alpha,
            seed=self.online.seed,
            signal=fit.signal,
            rows=self._ridge.rows,
        )

    def learn(
        self, X: FloatArray, Y: FloatArray, weight: FloatArray, max_cells: int | None
    ) -> ExactStream:
        """Learn from all rows of a batch or, if anything fails, from none.

        Rows ``X`` (n, D) are not scaled, targets ``Y`` are (n, K), weights positive; ``max_cells``
        bounds the number of cells of all trees. Returns this stream, changed; or, where the scale
        changes, another one, while this one stays as it was.
        """
        self._before = None  # the batch before this one can no longer be rolled back
        kept = None
        if self.kept is not None:
            kept = np.concatenate([self.kept, X])
            n = _n_unequal(kept)
            if last_build(n) > last_build(_n_unequal(self.kept)):
                return self._restarted(kept, Y, weight, max_cells)
            kept = None if n >= settings.WARM_UP else kept
        self._learn(X, Y, weight, max_cells, kept)
        return self

    def rollback(self, n_rows: int) -> None:
        """Undo the batch that :meth:`learn` put into this stream when it had ``n_rows``, if any."""
        if self._before is None or self._before[0] != n_rows:
            return
        _, self.numbers, self.kept, self._fit = self._before
        self.online.rollback(n_rows)
        self._ridge.rollback(n_rows, self._n_cells)
        self._before = None

    def _learn(
        self,
        X: FloatArray,
        Y: FloatArray,
        weight: FloatArray,
        max_cells: int | None,
        kept: FloatArray | None,
    ) -> None:
        """Learn on the present scale; if anything fails, nothing has changed."""
        X = X / self.scale
        n_before = self.n_rows
        self._before = n_before, self.numbers, self.kept, self._fit
        try:
            leaf = self.online.extend(X, max_cells)
            self._number_new_cells()
            self._ridge.append(leaf, self._cells(leaf), Y, weight, self._n_cells)
            self._fit, self.kept = self._ridge.fit(), kept
        except BaseException:
            self.rollback(n_before)
            raise

    def _restarted(
        self, X: FloatArray, Y: FloatArray, weight: FloatArray, max_cells: int | None
    ) -> ExactStream:
        """Return a stream on the scale of its rows, with all rows learnt again.

        ``X`` are all rows, ``Y`` and ``weight`` only those of the new ones.
        """
        old, online = self._ridge.rows, self.online
        Y, weight = np.concatenate([old.Y, Y]), np.concatenate([old.weight, weight])
        n, n_equal = last_build(_n_unequal(X)), X.shape[0] - _n_unequal(X)
        some = np.concatenate([[0], np.arange(n_equal + 1, n_equal + n)])
        scale = stream_scale(self.scale_rule, X[some], weight[some])
        size = Y.shape[1], X.shape[1], online.table.root.size, online.lifetime
        new = ExactStream.begin(*size, self.alpha, scale, online.seed)
        new.scale_rule = self.scale_rule
        new._learn(X, Y, weight, max_cells, None if n >= settings.WARM_UP else X)
        new._before = None
        return new

    def _new_ridge(self, rows: TrainingRows) -> ExactRidge:
        value = np.sqrt(self.level_weights / rows.leaf.shape[1])
        parts = rows.leaf, self._cells(rows.leaf), rows.Y, rows.weight
        return ExactRidge(*parts, self._n_cells, value, self.alpha)

    def _fitted(self) -> ExactFit:
        if self._fit is None:
            self._fit = self._ridge.fit()
        return self._fit

    @property
    def _n_cells(self) -> int:
        """Number of cells of all levels."""
        return int(self.online.n_cells[: self.level_weights.size].sum())

    def _number_new_cells(self) -> None:
        begin, numbers = sum(old.size for old in self.numbers), []
        for old, n in zip(self.numbers, self.online.n_cells.tolist(), strict=False):
            end = begin + n - old.size
            numbers.append(np.concatenate([old, np.arange(begin, end, dtype=np.int32)]))
            begin = end
        self.numbers = numbers

    def _cells(self, leaf: IntArray) -> IntArray:
        """Return the numbers of the cells of rows, (n, L·M), level after level."""
        columns = zip(self.numbers, self.online.column, strict=False)
        return np.hstack([numbers[column[leaf]] for numbers, column in columns])

    def with_columns(self, n_more: int) -> ExactStream:
        """Return the stream with further columns, in which all rows so far are 0.

        No prediction changes; see :meth:`Stream.with_columns`.
        """
        new: ExactStream = with_more_columns(self, n_more)
        if self.kept is not None:
            new.kept = np.hstack([self.kept, np.zeros((self.n_rows, n_more))])
        return new

    def check(self) -> None:
        """Raise ValueError unless trees, cells, rows and weights belong together."""
        check_online(self.online)
        check_vectors(level_weights=self.level_weights, scale=self.scale, relevance=self.relevance)
        sizes = [part.size for part in self.numbers]
        numbers = np.concatenate(self.numbers)
        if sizes != self.online.n_cells[: self.level_weights.size].tolist():
            raise ValueError(f"{sizes} cells are numbered, but there are {self.online.n_cells}.")
        if numbers.dtype != np.int32 or set(numbers.tolist()) != set(range(numbers.size)):
            raise ValueError("The cells are not numbered one by one.")
        kept, shape = self.kept, (self.n_rows, self.scale.size)
        if kept is not None and (kept.shape != shape or not np.isfinite(kept).all()):
            raise ValueError("The rows that are kept are not those of the fit.")
        if self.online.n_rows != self.n_rows:
            raise ValueError("The trees have other rows.")
        self.fitted().check()

    def __getstate__(self) -> dict[str, Any]:
        """Return arrays, plain Python and :class:`Trees`; the factor is made anew from the rows."""
        online, rows, fit = self.online, self._ridge.rows, self._fit
        return {name: getattr(self, name) for name in self._state} | {
            "trees": (online.freeze(), online.seed, online.rungs, online.column, online.stop),
            "rows": (rows.leaf, rows.Y, rows.weight),
            "fit": None if fit is None else tuple(fit),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in self._state:
            setattr(self, name, state[name])
        self.online = OnlineTrees.from_trees(*state["trees"])
        self._ridge = self._new_ridge(TrainingRows(*state["rows"]))
        self._fit = None if state["fit"] is None else ExactFit(*state["fit"])
        self._before = None


def _n_unequal(rows: FloatArray) -> int:
    """Return the number of rows, with leading rows that are all equal counted as one."""
    differs = (rows != rows[:1]).any(axis=1)
    if not differs.any():
        return min(len(rows), 1)
    return len(rows) - int(differs.argmax()) + 1


def stream_scale(rule: Any, X: FloatArray, weight: FloatArray) -> FloatArray:
    """Return what the columns are divided by; in the end no column may be lost by underflow."""
    if X.shape[0] >= settings.WARM_UP:
        check_magnitudes(X, "X", least=1.0 / settings.LARGEST_NUMBER)
    return column_scale(rule, X, weight)


def last_build(n_rows: int) -> int:
    """Return how many of the rows scale and widths are computed from: a power of four, or 0."""
    return int(min(4 ** ((n_rows.bit_length() - 1) // 2), settings.WARM_UP)) if n_rows else 0


def with_more_columns(stream: Any, n_more: int) -> Any:
    """Return a copy of a stream of either kind whose trees and scales have further columns."""
    new, ones = copy.copy(stream), np.ones(n_more)
    new.online = stream.online.widened(n_more)
    new.scale, new.relevance = np.append(stream.scale, ones), np.append(stream.relevance, ones)
    if not isinstance(stream.scale_rule, str):
        new.scale_rule = np.append(stream.scale_rule, ones)
    return new
