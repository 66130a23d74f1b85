r"""What the kernel sees of each column: a monotone function of it.

A Laplace kernel adds up the columns, :math:`\exp(-\lambda \sum_d |t_d(x_d) - t_d(x'_d)|)`. With
equal scaling, irrelevant columns separate rows as much as useful ones, and a column with a few huge
values spends its cuts on them. So each column is replaced by

.. math::
    t_d(x) = r_d \Big[(1 - m_d) \, \frac{x}{s_d}
    + m_d \sqrt{12} \int_0^{F_d(x)} e^{u_d(q)} \, dq\Big]

with :math:`s_d` its standard deviation and :math:`F_d` its distribution function, the share of rows
below x. A relevance :math:`r_d`, a share :math:`m_d` of ranks and a function :math:`u_d`, constant
on each of 32 equal bins of the ranks, are learnt. Where y jumps, :math:`u_d` is large: a small step
of x takes rows far apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.checks import check_numbers, naming
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.on_disk import row_blocks


@dataclass(frozen=True, eq=False)
class Columns:
    r"""Monotone functions of the input columns.

    .. math:: t(x) = (x - centre) / scale + bend \cdot F(x)

    Attributes
    ----------
    scale : ndarray of shape (D,)
        What the columns are divided by.
    relevance : ndarray of shape (D,)
        How much each scaled column counts, 1 on average.
    bend : ndarray of shape (D,)
        Factor of the rank of a value; 0 where a column is only scaled.
    knots, ranks : ndarrays of shape (Q, D)
        Values of each column, not decreasing, and F at them: the share of rows below, stretched by
        exp(u) and divided by its largest value.
    centre : ndarray of shape (D,) or None
        With a centre, t(x) is rounded to single precision, and trees take half of the memory. None
        stands for 0, and t(x) is not rounded.
    """

    scale: FloatArray
    relevance: FloatArray
    bend: FloatArray
    knots: FloatArray
    ranks: FloatArray
    centre: FloatArray | None = None

    @classmethod
    def scaled(cls, scale: FloatArray, relevance: FloatArray | None = None) -> Columns:
        """Return columns that are only divided by ``scale``."""
        ones, none = np.ones(scale.size), np.empty((0, scale.size))
        relevance = ones if relevance is None else relevance
        return cls(scale, relevance, np.zeros(scale.size), none, none)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return t(x) of rows (n, D), a new array."""
        out = np.empty(X.shape, np.float64 if self.centre is None else np.float32)
        for block in row_blocks(X.shape[0]):
            rows = X[block]
            T: FloatArray = (rows if self.centre is None else rows - self.centre) / self.scale
            T += self.ranked(rows)
            with np.errstate(over="ignore"):  # infinitely far from all rows
                out[block] = T
        return out

    def ranked(self, X: FloatArray) -> FloatArray:
        """Return bend · F(x) of rows (n, D)."""
        ranks = np.zeros(X.shape)
        for d in np.flatnonzero(self.bend):
            ranks[:, d] = self.bend[d] * np.interp(X[:, d], self.knots[:, d], self.ranks[:, d])
        return ranks

    def check(self, n_columns: int) -> None:
        """Raise ValueError unless the arrays are those of ``n_columns`` columns."""
        one, table = (n_columns,), (len(self.knots), n_columns)
        check_numbers(self, scale=one, relevance=one, bend=one, knots=table, ranks=table)
        if self.centre is not None:
            check_numbers(self, centre=one)
        if not (self.scale > 0).all() or not (self.relevance > 0).all() or (self.bend < 0).any():
            raise ValueError("A scale or relevance is no positive number, or a bend is negative.")
        if self.bend.any() and len(self.knots) == 0:
            raise ValueError("There are no knots.")
        if any((np.diff(values, axis=0) < 0).any() for values in (self.knots, self.ranks)):
            raise ValueError("knots or ranks decrease.")


class Metric(NamedTuple):
    """Columns, and widths of the kernel that go with them: lifetimes and their shares."""

    columns: Columns
    lifetimes: FloatArray
    shares: FloatArray

    def centred(self, rows: FloatArray) -> Metric:
        """Return the metric with the columns of rows (n, D) centred, in single precision."""
        return self._replace(columns=replace(self.columns, centre=rows.mean(axis=0)))

    def raised(self, power: float) -> Metric:
        """Return the metric with relevances raised to a power; below 1 columns are more alike."""
        columns = self.columns
        relevance = np.maximum(columns.relevance**power, settings.COLUMN_LEAST_RELEVANCE)
        relevance = significant(relevance / relevance.mean())
        factor = relevance / columns.relevance
        changed = replace(
            columns, scale=columns.scale / factor, relevance=relevance, bend=columns.bend * factor
        )
        return self._replace(columns=changed)


def is_learnt(relevance: str, lifetime: float | str, scale: Any) -> bool:
    """Whether the columns are to be learnt, by the parameters of a model."""
    if relevance == "auto":
        return isinstance(lifetime, str) and lifetime == "auto" and isinstance(scale, str)
    return relevance == "learn"


def column_scale(scale: Any, rows: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
    """Return what each column is divided by: "std", None (nothing) or given positive numbers.

    An array may hold "std" beside numbers.
    """
    n_columns = rows.shape[1]
    if scale is None:
        return np.ones(n_columns)
    if is_measured(scale):
        std = _deviation(rows, sample_weight)
        std = rounded(np.where(np.isfinite(std) & (std > 0), std, 1.0))
        if isinstance(scale, str):
            return std
        scale = np.where(scale == "std", std, scale)
    with naming("scale"):
        given = np.array(scale, dtype=np.float64)  # a copy: the caller may change the array
    if given.shape != (n_columns,):
        raise ValueError(
            f"scale must have one number for each of the {n_columns} columns of X, got shape "
            f"{given.shape}."
        )
    if not ((given >= 1.0 / settings.LARGEST_NUMBER) & (given <= settings.LARGEST_NUMBER)).all():
        raise ValueError(
            f"scale must be positive and finite, from {1.0 / settings.LARGEST_NUMBER:g} to "
            f"{settings.LARGEST_NUMBER:g}, got {scale!r}."
        )
    return given


def is_measured(scale: Any) -> bool:
    """Whether rows decide what some of the columns are divided by."""
    if isinstance(scale, np.ndarray) and scale.dtype == object:
        return bool((scale == "std").any())
    return isinstance(scale, str)


def _deviation(rows: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
    """Return the standard deviation of each column, 0 where it is not more than rounding.

    As of :class:`sklearn.preprocessing.StandardScaler`, which takes longer than to learn from many
    a batch.
    """
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    n, blocks = s.sum(), row_blocks(rows.shape[0])
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sum(s[block] @ rows[block] for block in blocks) / n
        sums = np.zeros((2, rows.shape[1]))
        for block in blocks:
            rest = rows[block] - mean
            sums += s[block] @ rest, s[block] @ rest**2
        variance = np.maximum(sums[1] - sums[0] ** 2 / n, 0.0) / n
        eps = np.finfo(np.float64).eps
        noise = n * eps * variance + (n * mean * eps) ** 2
        deviation: FloatArray = np.where(variance <= noise, 0.0, np.sqrt(variance))
    return deviation


def rounded(values: FloatArray, bits: int = 32) -> FloatArray:
    """Round to some bits, so that the order in which numbers were summed up does not show."""
    mantissa, exponent = np.frexp(values)
    out: FloatArray = np.ldexp(np.rint(mantissa * 2.0**bits) * 2.0**-bits, exponent)
    return out


def rank_table(rows: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return knots and ranks of each column, (Q, D): values, and the share of rows below them.

    Equal values share the middle of their ranks. A column with fewer values repeats its last one.
    """
    s = np.ones(rows.shape[0]) if weight is None else weight
    tables = []
    for column in rows.T:
        values, place = np.unique(column, return_inverse=True)
        share = np.bincount(place, s) / s.sum()
        ranks = np.cumsum(share) - 0.5 * share
        some = np.unique(np.linspace(0, values.size - 1, settings.RANK_KNOTS).astype(int))
        tables.append((values[some], ranks[some]))
    most = max(values.size for values, _ in tables)
    padded = [
        np.stack([np.append(part, np.full(most - part.size, part[-1])) for part in table])
        for table in tables
    ]
    knots, ranks = np.stack(padded, axis=2)
    return knots, ranks


def significant(values: FloatArray | np.floating[Any]) -> FloatArray:
    """Round to a few digits, so that rounding errors do not show in what is learnt."""
    exponent = np.floor(np.log10(values)) - (settings.COLUMN_DIGITS - 1)
    out: FloatArray = np.rint(values / 10.0**exponent) * 10.0**exponent
    return out
