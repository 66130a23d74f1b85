"""Maps of rows that stay lazy: one task a block, the model sent once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

from mondrian_kernel.dask.inputs import row_array


def known_rows(estimator: Any, X: Any) -> da.Array:
    """Return rows of a collection with the columns that an estimator was fitted on."""
    rows, names = row_array(X)
    if rows.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} columns, but {type(estimator).__name__} was fitted on "
            f"{estimator.n_features_in_}."
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if names is not None and fitted is not None and list(names) != list(fitted):
        raise ValueError(
            f"X has the columns {list(names)}, but {type(estimator).__name__} was fitted on "
            f"{list(fitted)}."
        )
    return rows


def map_rows(
    function: Callable[[Any, Any], Any],
    model: Any,
    rows: da.Array,
    n_columns: int | None,
    meta: Any,
) -> da.Array:
    """Lazy ``function(model, block)`` for all blocks of rows.

    Parameters
    ----------
    function : callable
        Maps rows (n, D) to an array (n,), or (n, n_columns).
    model : object
        Goes to every worker once.
    rows : dask array of shape (N, D), one chunk of columns
        Rows.
    n_columns : int or None
        Columns of the result; None for an array of one dimension.
    meta : array
        An empty result.

    Returns
    -------
    result : dask array
        In the same blocks of rows.
    """
    sent = dask.delayed(model, traverse=False)
    shape = {"drop_axis": 1} if n_columns is None else {"chunks": (rows.chunks[0], (n_columns,))}
    return rows.map_blocks(_apply, function=function, model=sent, meta=meta, **shape)


def _apply(block: Any, function: Callable[[Any, Any], Any], model: Any) -> Any:
    X = np.asarray(block, dtype=np.float64)
    if X.shape[0] == 0:  # partitions of a dataframe may be empty
        return function(model, np.zeros((1, X.shape[1])))[:0]
    return function(model, X)
