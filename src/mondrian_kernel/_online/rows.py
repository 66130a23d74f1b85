"""Rows of a stream with their targets and weights, kept for a while, and their scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import column_scale
from mondrian_kernel._trees.checks import check_magnitudes
from mondrian_kernel._typing import FloatArray

Rows = tuple[FloatArray, FloatArray, FloatArray]


def take_rows(rows: Rows, begin: int, end: int | None) -> Rows:
    """Return some of the rows: views."""
    X, Y, weight = rows
    return X[begin:end], Y[begin:end], weight[begin:end]


def put_at(ring: FloatArray, begin: int, rows: FloatArray) -> None:
    """Write rows to an array whose place i holds row i modulo its length."""
    n, first = ring.shape[0], begin % ring.shape[0]
    if first + len(rows) <= n:
        ring[first : first + len(rows)] = rows
    else:
        ring[np.arange(begin, begin + len(rows)) % n] = rows


def part_size(rows: Rows) -> int:
    """Return the size of parts in which rows are learnt again: about that of the present batch.

    Errors of streams are then those of predictions as they are made.
    """
    least, most = settings.REPLAY_ROWS
    return max(least, min(len(rows[0]), most))


def blank_rows(n: int, n_columns: int, n_outputs: int) -> Rows:
    return np.zeros((n, n_columns)), np.zeros((n, n_outputs)), np.ones(n)


def wider(rows: Rows | None, n_more: int) -> Rows | None:
    """Return rows with further columns of zeros."""
    return rows and (np.hstack([rows[0], np.zeros((rows[0].shape[0], n_more))]), *rows[1:])


def with_class(rows: Rows | None) -> Rows | None:
    """Return rows whose targets have a further class."""
    if rows is None:
        return None
    X, Y, weight = rows
    if Y.shape[1] == 1:  # -1 and 1
        Y = np.hstack([Y < 0, Y > 0]).astype(np.float64)
    return X, np.hstack([Y, np.zeros((Y.shape[0], 1))]), weight


def joined(a: Rows, b: Rows) -> Rows:
    X, Y, weight = (np.concatenate(parts) for parts in zip(a, b, strict=True))
    return X, Y, weight


def with_room(rows: Rows, n: int) -> Rows:
    """Copy rows to arrays of n rows."""
    n_more = n - rows[0].shape[0]
    X, Y, weight = (np.concatenate([a, np.zeros((n_more, *a.shape[1:]))]) for a in rows)
    return X, Y, weight


def stream_scale(rule: Any, X: FloatArray, weight: FloatArray) -> FloatArray:
    """Return what the columns are divided by; in the end no column may be lost by underflow."""
    if X.shape[0] >= settings.WARM_UP:
        check_magnitudes(X, "X", least=1.0 / settings.LARGEST_NUMBER)
    return column_scale(rule, X, weight)


def last_build(n_rows: int) -> int:
    """Return how many of the rows scale and widths are computed from: a power of four, or 0."""
    return int(min(4 ** ((n_rows.bit_length() - 1) // 2), settings.WARM_UP)) if n_rows else 0
