"""The cells of a grid as numbers: bin indices are digits, made dense with a table of codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NumberCells = Callable[[Ints], tuple[Ints, int]]
"""Turns the codes of rows into numbers below a count, which it returns as well."""

_INT64_MAX = int(np.iinfo(np.int64).max)
# Up to here every integer is a float64, so a bin index is exact.
_EXACT_INTEGERS = 2**53


def most_bins(n_rows: int) -> int:
    """Bins that a dim may have, so that a cell number times their number is an exact int64."""
    return min(_EXACT_INTEGERS, _INT64_MAX // n_rows)


def cells_of(bins: Ints, n_bins: Ints, number_cells: NumberCells) -> Ints:
    """Turn the D bin indices of each row into one integer, the number of its cell in a grid.

    The indices are the digits of a number with bases `n_bins`, hence no two cells share one. The
    numbers are made dense with `number_cells` at the end, and earlier whenever the next digit
    would not fit in 64 bits.
    """
    codes = np.zeros(1, dtype=np.int64)
    count = 1
    for digits, base in zip(bins, n_bins.tolist(), strict=True):
        if count * base > _INT64_MAX:
            codes, count = number_cells(codes)
        codes = codes * base + digits
        count *= base
    return number_cells(codes)[0]


def tabulate(tables: list[Ints]) -> NumberCells:
    """Return a `number_cells` that numbers the codes it meets and appends their table."""

    def number_cells(codes: Ints) -> tuple[Ints, int]:
        table, cells = np.unique(codes, return_inverse=True)
        tables.append(table)
        return cells.astype(np.int64, copy=False), len(table)

    return number_cells


def look_up(tables: Iterator[Ints], known: Bools) -> NumberCells:
    """Return a `number_cells` that finds codes in the next table, else clears `known`."""

    def number_cells(codes: Ints) -> tuple[Ints, int]:
        table = next(tables)
        cells = np.minimum(np.searchsorted(table, codes), len(table) - 1)
        np.logical_and(known, table[cells] == codes, out=known)
        return cells.astype(np.int64, copy=False), len(table)

    return number_cells
