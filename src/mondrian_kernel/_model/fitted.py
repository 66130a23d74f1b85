"""The fitted model: one frozen record of arrays that predicts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.folds import draw_folds
from mondrian_kernel._model.spread import Spread
from mondrian_kernel._model.trend import Trend
from mondrian_kernel._trees.checks import check_numbers
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray, RowArray

if TYPE_CHECKING:
    from mondrian_kernel._model.packed import PackedModel


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows of a fit as the trees see them, for refits and exact updates.

    Attributes
    ----------
    leaf : ndarray of shape (N, M), int32
        Leaf of each row in each tree.
    Y : ndarray of shape (N, K)
        Targets.
    weight : ndarray of shape (N,)
        Sample weights, positive.
    X : ndarray of shape (N, D) or None
        The rows themselves, where they are kept.
    held_out : ndarray of shape (n, K) or None
        Where Y is what a trend left of the targets: what is left of those of the rows held out
        by a trend that has not seen them. For the error bars of refits.
    """

    leaf: IntArray
    Y: FloatArray
    weight: FloatArray
    X: RowArray | None = None
    held_out: FloatArray | None = None

    def check(self, trees: Trees, n_outputs: int) -> None:
        """Raise ValueError unless these can be rows of ``trees``."""
        n_rows = self.weight.size
        shapes = (self.leaf.shape, self.Y.shape, self.weight.shape)
        if shapes != ((n_rows, trees.n_trees), (n_rows, n_outputs), (n_rows,)):
            raise ValueError(f"The arrays of the rows have shapes {shapes}.")
        if n_rows == 0:
            raise ValueError("There are no rows.")
        types = [array.dtype.name for array in (self.leaf, self.Y, self.weight)]
        if types != ["int32", "float64", "float64"]:
            raise ValueError(f"The arrays of the rows have the types {types}.")
        trees.check_leaves(self.leaf)
        if not (np.isfinite(self.weight) & (self.weight > 0)).all():
            raise ValueError("The weights of the rows are not positive numbers.")
        held_out = self.Y[:0] if self.held_out is None else self.held_out
        if held_out.dtype != np.float64 or held_out.shape[1:] != (n_outputs,):
            raise ValueError("The targets of rows held out are not those of the outputs.")
        if not (np.isfinite(self.Y).all() and np.isfinite(held_out).all()):
            raise ValueError("A target is not a finite number.")
        if self.X is not None and self.X.shape != (n_rows, trees.n_dims):
            raise ValueError(f"X of the rows has shape {self.X.shape}.")


@dataclass(frozen=True, eq=False)
class Basis:
    """Parts of a :class:`FittedModel` that stay when a stream goes on from it.

    Of the spread, the local scale stays; the errors are those of the last rows. So are the
    probabilities of the calibration.
    """

    columns: Columns
    trend: Trend | None
    link: FloatArray | None
    spread: Spread | None
    calibration: FloatArray | None

    def seen(self, X: FloatArray) -> FloatArray:
        """Rows as the trees of a stream see them, in double precision."""
        return self.columns(X).astype(np.float64, copy=False)

    def check(self, model: FittedModel) -> None:
        """Raise ValueError unless these can be parts of the model."""
        n_columns, n_outputs = model.trees.n_dims, model.n_outputs
        self.columns.check(n_columns)
        if self.spread is not None:
            self.spread.check(model.levels.n_features, n_columns, n_outputs)
        if self.trend is not None:
            self.trend.check(n_columns, n_outputs)
        if self.calibration is not None:
            own = self.calibration
            fits = own.size > 0 and own.shape == (len(own), 2) and np.isfinite(own).all()
            if not (fits and (own >= 0).all() and (own[:, 0] <= 1).all() and own[:, 1].all()):
                raise ValueError("calibration does not hold probabilities and positive weights.")
        link = np.zeros(n_outputs + 1) if self.link is None else self.link
        if link.shape != (n_outputs + 1,) or not np.isfinite(link).all():
            raise ValueError("link is not a factor and a shift for each score.")


@dataclass(frozen=True, eq=False)
class FittedModel:
    r"""A linear function of the cells of Mondrian trees, and a trend.

    .. math::
        f(x) = b + g(x) + \sum_l \sqrt{w_l / M} \sum_m p_{lm}(x) \, W_{c_{lm}(x)}

    with :math:`p_{lm}` the probability that a row stays in its cell, 1 for fitted rows, and g the
    trend, where there is one.

    Attributes
    ----------
    trees : Trees
        The M trees, on the scaled rows.
    levels : Levels
        Lifetimes, their weights w, and the cells at each.
    cell_weights : ndarray of shape (F, K)
        Weights W of all cells, level after level.
    intercept : ndarray of shape (K,)
        Intercept b.
    columns : Columns
        What the trees see of the input columns.
    alpha : float
        Penalty of the fit.
    seed : int
        Seed with which the trees go on when rows are added.
    signal : ndarray of shape (K,)
        Variance of the function before any row is seen; only of a regression, else empty.
    rows : TrainingRows or None
        The rows of the fit, with targets less their trend; None once they have been forgotten.
    sums : ndarray of shape (F, K + 2) or None
        Only of a forest: Σ s p y, Σ s p and Σ s p² over the rows of each cell, with s their
        weights and p the probability that they lie in it.
    trend : Trend or None
        The smooth part g, a function of the columns as the trees see them.
    spread : Spread or None
        Only of a regression: how far off predictions are.
    link : ndarray of shape (K + 1,) or None
        Only of a classification that learns its widths: a factor of the scores and a shift of each,
        which calibrate the log-odds.
    calibration : ndarray of shape (n, 2) or None
        Only of a classification: probability of the true class, and weight, of rows held out.
    """

    trees: Trees
    levels: Levels
    cell_weights: FloatArray
    intercept: FloatArray
    columns: Columns
    alpha: float
    seed: int
    signal: FloatArray
    rows: TrainingRows | None = None
    sums: FloatArray | None = None
    trend: Trend | None = None
    spread: Spread | None = None
    link: FloatArray | None = None
    calibration: FloatArray | None = None

    @property
    def scale(self) -> FloatArray:
        """What the input columns are divided by."""
        return self.columns.scale

    @property
    def relevance(self) -> FloatArray:
        """How much each scaled column counts, 1 on average."""
        return self.columns.relevance

    @property
    def n_outputs(self) -> int:
        """Number of outputs, K."""
        return int(self.intercept.size)

    def scores(self, X: FloatArray, n_jobs: int | None) -> FloatArray:
        """Scores of rows as they come, f(x), (n, K)."""
        rows = self._seen(X)
        out = self._sums_over_cells(rows, self.cell_weights, n_jobs)[:, :-1] + self.intercept
        return out if self.trend is None else out + self.trend(rows)

    def scores_and_scale(self, X: FloatArray, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
        """Scores of rows, and the scale of their errors, (n, K) each."""
        spread, K = self.spread, self.n_outputs
        assert spread is not None
        rows = self._seen(X)
        found = self._sums_over_cells(rows, self._weights_and_sizes, n_jobs)
        scores = found[:, :K] + self.intercept
        if self.trend is not None:
            scores += self.trend(rows)
        return scores, spread.scale(found[:, K:-1], found[:, -1], scores, rows)

    def _seen(self, X: FloatArray) -> NDArray[Any]:
        """Rows as the trees see them, in the precision of their boxes."""
        return self.columns(X).astype(self.trees.lower.dtype, copy=False)

    def _sums_over_cells(self, rows: FloatArray, W: FloatArray, n_jobs: int | None) -> FloatArray:
        """Φ W for weights W (F, k) of the cells, and last the mean squared stay at level 0."""
        from mondrian_kernel._kernels.walk import descend, level_scores

        levels, arrays, steps = self.levels, tuple(self.trees.nodes), self._steps
        W, values = np.ascontiguousarray(W), levels.values
        # Rows that are close to each other, as in the first tree, share nodes in the cache.
        node = np.empty(rows.shape[0], np.uint32)
        descend(rows, self.trees.root[0], steps, node, np.empty(settings.WALK_LANES, np.uint64))
        order = np.argsort(node)
        rows, out = rows[order], np.zeros((rows.shape[0], W.shape[1] + 1))

        def run(begin: int, end: int) -> None:
            level_scores(
                rows[begin:end],
                arrays,
                steps,
                levels.lifetimes,
                levels.cells,
                values,
                W,
                out[begin:end],
                node[begin:end],
                np.empty(settings.WALK_LANES, np.uint64),
                np.empty(levels.n_levels),
            )

        in_threads(run, rows.shape[0], n_jobs, work=10 * rows.shape[0] * levels.n_trees)
        back = np.empty_like(out)
        back[order] = out
        return back

    @cached_property
    def _weights_and_sizes(self) -> FloatArray:
        """Weights of the cells, and those of the sizes of errors, side by side."""
        assert self.spread is not None
        return np.hstack([self.cell_weights, self.spread.cell_weights])

    @cached_property
    def _steps(self) -> NDArray[np.void]:
        return self.trees.steps(float(self.levels.lifetimes[-1]))

    def features(self, X: FloatArray, n_jobs: int | None) -> sparse.csr_matrix:
        """Sparse features Φ of rows as they come, (n, F)."""
        node, log_stay = self.trees.walk_through(self._seen(X), self.levels.lifetimes, n_jobs)
        return self.levels.features(node, log_stay)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # nothing cached

    def packed(self, most: int) -> PackedModel | FittedModel:
        """Return what the model follows from, for files, or else the model.

        It is not packed if its nodes had more than ``most`` bytes for each byte of half its cuts.
        """
        from mondrian_kernel._model.packed import pack

        packed = pack(self)
        return self if packed is None or packed.n_bytes > most * packed.loc.nbytes else packed

    def check(self) -> None:
        """Raise ValueError unless all arrays fit together."""
        self.trees.check()
        self.levels.check(self.trees)
        self.check_numbers()

    def check_numbers(self) -> None:
        """Do the same for all arrays but those of trees and levels, which have been checked."""
        n_outputs, n_features = self.n_outputs, self.levels.n_features
        check_numbers(
            self,
            cell_weights=(n_features, n_outputs),
            intercept=(n_outputs,),
            signal=(n_outputs if self.signal.size else 0,),
        )
        if self.sums is not None:
            check_numbers(self, sums=(n_features, n_outputs + 2))
            if (self.sums[:, n_outputs:] < 0).any():
                raise ValueError("The weight of a cell is negative.")
        basis = Basis(self.columns, self.trend, self.link, self.spread, self.calibration)
        basis.check(self)
        if (self.signal < 0).any():
            raise ValueError("signal is a negative variance.")
        penalised = self.alpha > 0 or (self.alpha == 0 and self.sums is not None)  # of a forest
        if not (np.isfinite(self.alpha) and penalised and 0 <= self.seed < 2**64):
            raise ValueError(f"alpha={self.alpha} or seed={self.seed} is out of range.")
        if self.rows is not None:
            self.rows.check(self.trees, n_outputs)
            own = self.rows.held_out
            if own is not None:
                n_held_out = draw_folds(self.rows.weight.size, self.seed).held_out.size
                if len(own) != n_held_out:
                    raise ValueError(f"{len(own)} rows were held out, not {n_held_out}.")
