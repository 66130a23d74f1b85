"""Dask arrays and dataframes as arrays of rows in blocks, checked before any work is done."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray


def is_collection(X: object) -> bool:
    """Whether X is a dask array, dataframe or series."""
    return isinstance(X, da.Array) or hasattr(X, "to_dask_array")


def row_array(X: Any) -> tuple[da.Array, NDArray[np.object_] | None]:
    """Return rows as a dask array of one chunk of columns, and the names of the columns if any."""
    if not is_collection(X):
        raise TypeError(
            f"X is a {type(X).__name__}: pass a dask array or dataframe, or fit the estimator of "
            "the same name without Dask."
        )
    names = None
    if not isinstance(X, da.Array):
        _check_numeric(X)
        if all(isinstance(name, str) for name in X.columns):
            names = np.asarray(list(X.columns), dtype=object)
        X = _as_array(X, np.float64)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and columns, got {X.ndim}.")
    if not isinstance(X._meta, np.ndarray):
        raise TypeError(f"Blocks of X are {type(X._meta).__name__}: numpy arrays are needed.")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X has the dtype {X.dtype}: numbers are needed.")
    if X.shape[1] == 0:
        raise ValueError("X has no columns.")
    return X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X, names


def beside(y: Any, X: da.Array, name: str) -> da.Array:
    """Return targets or weights in the same blocks of rows as X."""
    if not is_collection(y):
        if np.isnan(X.shape[0]):
            raise TypeError(
                f"{name} is a {type(y).__name__}, but X does not know the sizes of its chunks: "
                f"pass {name} as a dask collection, or call X.compute_chunk_sizes() first."
            )
        y = da.from_array(np.asarray(y), chunks=-1)
    elif not isinstance(y, da.Array):
        y = _as_array(y, object)
    if np.isnan(X.shape[0] + y.shape[0]) and y.numblocks[0] != X.numblocks[0]:
        # Columns of the same files may be read in larger parts where they are few.
        X, y = (a.copy().compute_chunk_sizes() for a in (X, y))
    if not np.isnan(X.shape[0] + y.shape[0]):
        if y.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {name} has {y.shape[0]}.")
        y = y.rechunk({0: X.chunks[0]})
    return y.rechunk({1: -1}) if y.ndim == 2 else y


def _as_array(frame: Any, dtype: Any) -> da.Array:
    """Return the values of a frame or series, those of pandas' own dtypes as ``dtype``."""
    dtypes = [frame.dtype] if frame.ndim == 1 else frame.dtypes
    if not all(isinstance(d, np.dtype) for d in dtypes):
        frame = frame.astype(dtype)
    return frame.to_dask_array()


def _check_numeric(frame: Any) -> None:
    for name, dtype in frame.dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiub":
            raise TypeError(f"Column {name!r} of X has the dtype {dtype}: numbers are needed.")
