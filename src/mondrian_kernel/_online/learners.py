"""What the learners of a stream do with a row: a Kalman filter for kernels, means for forests.

The numbers of J learners are in two dicts. ``tables`` have a row for each cell of each learner; a
learner of L levels has in its row c L + l the numbers of cell c at level l. ``small`` arrays have
the learners in their first axis. ``growth`` (J, 1) among them is the weight of the last row in
units of the first one's, in which the tables are: old rows lose weight without being touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import check_loss, smoothness
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray

Counts = NDArray[np.int64]
Tables = dict[str, FloatArray]
Small = dict[str, NDArray[Any]]


@cache
def compiled() -> Any:
    """Return the compiled loops, which are imported when they are needed."""
    from mondrian_kernel._kernels import learners

    return learners


@cache
def _compiled_means() -> Any:
    from mondrian_kernel._kernels import means

    return means


@dataclass(frozen=True)
class Filter:
    r"""Take each row once towards the least :math:`\sum_i s_i \ell(y_i, f_i) + \alpha\|W\|^2`.

    .. math::
        f = b + W^\top \phi, \qquad
        W_c \leftarrow W_c - \frac{P_c \phi_c}{2\alpha} \frac{s \ell'}{1 + s \ell'' v}, \qquad
        v = \frac1{2\alpha} \sum_c P_c \phi_c^2 + v_b

    Every weight has a prior of variance 1/(2α) and keeps the share P of it that the rows have left:
    1 at first, then less with every row in its cell. The weights of a row's cells share its error
    in proportion to P. So a new cell learns fast, and one that has seen many rows hardly moves.
    There is no step size to set, and the weights need not be averaged. With all covariances this
    would be the Kalman filter, which solves ridge regression exactly in O(C²) a row; with the
    covariances between weights left out it takes O(M) a row. The hinge loss steps to its kink at
    most (passive-aggressive). With a half-life the shares P grow again, up to 1, so that new rows
    count more than old ones.

    Tables are the weights ``W`` (C, K) and ``P`` (C,), over ``growth``, where 1 or more stands for
    1. Small are the intercepts ``b`` (J, K), their ``b_variance``, the number of rows ``n_rows``
    and the ``offset`` (J, K) that is subtracted from all targets: with the squared loss the target
    of the first row, so that a large mean of y costs no precision; 0 with other losses.
    """

    n_outputs: int
    loss: str
    alpha: float

    def tables(self, n: int) -> Tables:
        """Return ``n`` table rows of cells without rows."""
        return {"W": np.zeros((n, self.n_outputs)), "P": np.ones(n)}

    def small(self, n: int) -> Small:
        """Return the small arrays of ``n`` learners without rows."""
        return {
            "b": np.zeros((n, self.n_outputs)),
            "b_variance": np.full((n, 1), settings.FLAT_VARIANCE),
            "growth": np.ones((n, 1)),
            "offset": np.zeros((n, self.n_outputs)),
            "n_rows": np.zeros((n, 1), np.int64),
        }

    def after(self, model: FittedModel) -> tuple[Tables, Small]:
        r"""Return the numbers of a learner that continues a fit; its scores stay.

        A cell of n rows has the variance that these rows leave if the other cells are ignored,
        :math:`P = 1/(1 + L n \phi_c^2 / 2 \alpha)` with L the curvature of the loss.
        """
        levels, squared = model.levels, self.loss == "squared"
        n_cells, counts = np.diff(levels.offset), rows_per_cell(model.trees, levels)
        curvature = smoothness(self.loss, self.n_outputs)
        squares = np.repeat(levels.values**2, n_cells)
        P = 1.0 / (1.0 + curvature * counts * squares / (2.0 * self.alpha))
        n_rows = counts.sum() / (n_cells.size * levels.n_trees)
        small = self.small(1)
        small["b_variance"][:] = 1.0 / (curvature * n_rows)
        small["n_rows"][:] = max(1, round(n_rows))
        small["offset" if squared else "b"][:] = model.intercept
        tables = {"W": as_table(model.cell_weights, n_cells, 0.0), "P": as_table(P, n_cells, 1.0)}
        return tables, small

    def with_class(self, tables: Tables, small: Small) -> tuple[Filter, Tables, Small]:
        """Return learners of the logistic loss with a further class, which no row was of."""
        W, b = tables["W"], small["b"]
        if b.shape[1] == 1:  # the log-odds of two classes
            W, b = np.hstack([-0.5 * W, 0.5 * W]), np.hstack([-0.5 * b, 0.5 * b])
        # One row in n + 2 is of a class that n rows were not of.
        rare = logsumexp(b, axis=1, keepdims=True) - np.log1p(small["n_rows"])
        b = np.hstack([b, rare])
        W = np.hstack([W, np.zeros((len(W), 1))])
        wider = replace(self, n_outputs=b.shape[1])
        return wider, tables | {"W": W}, small | {"b": b, "offset": np.zeros_like(b)}

    def learn(
        self, batch: Sequence[Any], tables: Tables, small: Small, keep: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Train all learners; return scores (J, n, K) and variances (J, n) of before.

        ``batch`` holds the first arguments of the kernel. Before each row, earlier ones lose all
        but the share ``keep`` (J,) of their weight.
        """
        shape = keep.size, *batch[-2].shape
        scores, variance = np.empty(shape), np.empty(shape[:2])
        code, numbers = loss_code(self.loss, self.n_outputs), (*tables.values(), *small.values())
        compiled().learn(*batch, code, self.alpha, keep, *numbers, scores, variance)
        return scores, variance

    def rescale(self, tables: Tables, small: Small, room: Counts) -> None:
        """Put the variances into their own units: ``growth`` is 1 again."""
        growth = np.repeat(small["growth"][:, 0], room)
        np.minimum(tables["P"] * growth, 1.0, out=tables["P"])
        small["growth"][:] = 1.0

    def write_scores(
        self,
        walk: Sequence[Any],
        shares: FloatArray,
        tables: Tables,
        small: Small,
        out: tuple[FloatArray, FloatArray],
    ) -> None:
        """Write scores without intercepts and variances, mixed over the learners by ``shares``.

        ``walk`` holds the first arguments of the kernel.
        """
        numbers = *tables.values(), small["b_variance"], small["growth"]
        compiled().mixed_scores(*walk, shares, self.alpha, *numbers, *out)

    def intercepts(self, small: Small) -> FloatArray:
        """Return the intercepts of learners, less their offset, (J, K)."""
        b: FloatArray = small["b"]
        return b

    def offset(self, small: Small) -> FloatArray:
        """Return what is subtracted from all targets, (K,)."""
        offset: FloatArray = small["offset"][0]
        return offset

    def cell_weights(
        self, tables: Tables, small: Small, n_cells: Counts, value: FloatArray
    ) -> FloatArray:
        """Weights (F, K) of all cells of one learner, level after level."""
        return by_level(tables["W"], n_cells)

    def variances(
        self, tables: Tables, small: Small, n_cells: Counts, value: FloatArray
    ) -> FloatArray:
        """Variances (F,) of the weights in units of the prior's, level after level."""
        share: FloatArray = np.minimum(by_level(tables["P"], n_cells) * small["growth"][0], 1.0)
        return share

    def check(self) -> None:
        """Raise ValueError unless loss and penalty are possible."""
        check_loss(self.loss)
        if not (self.n_outputs > 0 and 0 < self.alpha < np.inf):
            raise ValueError(f"n_outputs={self.n_outputs} or alpha={self.alpha} is out of range.")

    def check_numbers(self, tables: Tables, small: Small) -> None:
        """Raise ValueError unless variances are positive."""
        if (tables["P"] <= 0).any() or (small["b_variance"] <= 0).any():
            raise ValueError("A variance is not positive.")
        if (small["n_rows"] < 0).any():
            raise ValueError("The number of rows is negative.")


@dataclass(frozen=True)
class Means:
    r"""Mean of the rows of each cell, shrunk to the mean of all rows; exact at any moment.

    .. math::
        f = b + \frac1M \sum_m \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    A row is added to the sums of its M cells and to the mean b, in O(M). The result equals a fit of
    all rows on the same trees, weighted by how much the half-life leaves of them. ``alpha`` is the
    shrinkage γ²; b is 0 unless ``centre``.

    The table ``sums`` (C, K + 2) has Σ s p y, Σ s p and Σ s p² over the rows of each cell, with p
    the probability that a row lies in it: 1 for rows that the trees were grown on. Small are
    ``totals`` (J, K + 1), Σ s y and Σ s over all rows.
    """

    loss: ClassVar[str] = "squared"
    n_outputs: int
    alpha: float
    centre: bool

    def tables(self, n: int) -> Tables:
        """Return ``n`` table rows of cells without rows."""
        return {"sums": np.zeros((n, self.n_outputs + 2))}

    def small(self, n: int) -> Small:
        """Return the small arrays of ``n`` learners without rows."""
        return {"totals": np.zeros((n, self.n_outputs + 1)), "growth": np.ones((n, 1))}

    def after(self, model: FittedModel) -> tuple[Tables, Small]:
        """Return the numbers of a learner that continues the fit of a forest."""
        assert model.sums is not None
        n_cells, small = np.diff(model.levels.offset), self.small(1)
        # Every row lies in one cell of each tree, at each level.
        total = model.sums[:, self.n_outputs].sum() / (n_cells.size * model.levels.n_trees)
        small["totals"][:] = total * np.append(model.intercept, 1.0)
        return {"sums": as_table(model.sums, n_cells, 0.0)}, small

    def learn(
        self, batch: Sequence[Any], tables: Tables, small: Small, keep: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Train all learners; see :class:`Filter`. The variances are 1."""
        scores = np.empty((keep.size, *batch[-2].shape))
        numbers = tables["sums"], *small.values()
        _compiled_means().learn_means(*batch, self.alpha, self.centre, keep, *numbers, scores)
        return scores, np.ones(scores.shape[:2])

    def rescale(self, tables: Tables, small: Small, room: Counts) -> None:
        """Put the sums into units of the last row: ``growth`` is 1 again."""
        tables["sums"] /= np.repeat(small["growth"], room, axis=0)
        small["totals"] /= small["growth"]
        small["growth"][:] = 1.0

    def write_scores(
        self,
        walk: Sequence[Any],
        shares: FloatArray,
        tables: Tables,
        small: Small,
        out: tuple[FloatArray, FloatArray],
    ) -> None:
        """Write mixed scores without intercepts; see :class:`Filter`. The variances are 1."""
        numbers = tables["sums"], *small.values()
        _compiled_means().mixed_means(*walk, self.alpha, self.centre, *numbers, out[0])
        out[1][:] = 1.0

    def intercepts(self, small: Small) -> FloatArray:
        """Return the means b of all rows, (J, K)."""
        totals = small["totals"]
        if not self.centre or totals.item(-1) == 0.0:  # without rows, which all learners share
            return np.zeros((len(totals), self.n_outputs))
        b: FloatArray = totals[:, :-1] / totals[:, -1:]
        return b

    def offset(self, small: Small) -> FloatArray:
        """Return zeros, (K,): targets are taken as they are."""
        return np.zeros(self.n_outputs)

    def cell_weights(
        self, tables: Tables, small: Small, n_cells: Counts, value: FloatArray
    ) -> FloatArray:
        """Weights (F, K) of all cells of one learner, level after level."""
        sums = by_level(tables["sums"], n_cells)
        b = self.intercepts({"totals": small["totals"][None]})
        counts = sums[:, -1:] + self.alpha * small["growth"]
        W = (sums[:, :-2] - b * sums[:, -2:-1]) / np.where(counts > 0, counts, np.inf)
        weights: FloatArray = np.repeat(value, n_cells)[:, None] * W
        return weights

    def check(self) -> None:
        """Raise ValueError unless the shrinkage is possible."""
        if not (self.n_outputs > 0 and 0 <= self.alpha < np.inf):
            raise ValueError(f"n_outputs={self.n_outputs} or alpha={self.alpha} is out of range.")

    def check_numbers(self, tables: Tables, small: Small) -> None:
        """Raise ValueError unless weights of cells are possible."""
        K = self.n_outputs
        if (tables["sums"][:, K:] < 0).any() or (small["totals"][:, K] < 0).any():
            raise ValueError("The weight of a cell is negative.")


def by_level(table: FloatArray, n_cells: Counts) -> FloatArray:
    """Return the rows of a table, level after level: a view if there is one level."""
    n_levels = len(n_cells)
    if n_levels == 1:
        return table[: int(n_cells[0])]
    return np.concatenate([table[level::n_levels][:n] for level, n in enumerate(n_cells)])


def as_table(values: FloatArray, n_cells: Counts, fill: float) -> FloatArray:
    """Return a copy of values that are in order of levels as a table; see :func:`by_level`."""
    n_levels = len(n_cells)
    table = np.full((int(n_cells.max()) * n_levels, *values.shape[1:]), fill)
    for level, part in enumerate(np.split(values, np.cumsum(n_cells)[:-1])):
        table[level::n_levels][: len(part)] = part
    return table


def loss_code(loss: str, n_outputs: int) -> int:
    """Return the number by which kernels know a loss."""
    kernels = compiled()
    code: int = kernels.CODES[loss]
    return kernels.SOFTMAX if code == kernels.LOGISTIC and n_outputs > 1 else code


def rows_per_cell(trees: Trees, levels: Levels) -> FloatArray:
    """Count the rows in each cell, (F,), level after level."""
    counts = np.zeros(levels.n_features)
    for begin, column in zip(levels.offset, levels.column, strict=False):
        top = trees.top_nodes(column)
        counts[begin + column[top]] = trees.count[top]
    return counts
