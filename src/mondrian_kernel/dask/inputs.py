"""Dask arrays and dataframes as blocks of rows, checked before any work is done."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.core import flatten
from dask.delayed import Delayed
from dask.optimization import cull
from dask.utils import ensure_dict
from numpy.typing import NDArray

from mondrian_kernel.dask.cluster import compute
from mondrian_kernel.on_disk import TableParts


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
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and columns, got {X.ndim}.")
    if not isinstance(X, da.Array):
        _check_numeric(X)
        if all(isinstance(name, str) for name in X.columns):
            names = np.asarray(list(X.columns), dtype=object)
        X = _as_array(X, np.float64)
    if not isinstance(X._meta, np.ndarray):
        raise TypeError(f"Blocks of X are {type(X._meta).__name__}: numpy arrays are needed.")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X has the dtype {X.dtype}: numbers are needed.")
    if X.shape[1] == 0:
        raise ValueError("X has no columns.")
    return X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X, names


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


def beside(y: Any, X: da.Array, name: str) -> da.Array:
    """Return targets or weights in the same blocks of rows as X."""
    if y is None:
        raise ValueError(f"A fit needs {name}: pass it as a dask collection beside X.")
    if not is_collection(y):
        if np.isnan(X.shape[0]):
            raise TypeError(
                f"{name} is a {type(y).__name__}, but X does not know the sizes of its chunks: "
                f"pass {name} as a dask collection, or call X.compute_chunk_sizes() first."
            )
        y = da.from_array(np.asarray(y), chunks=-1)
    elif not isinstance(y, da.Array):
        y = _as_array(y, object)
    if not 1 <= y.ndim <= (2 if name == "y" else 1) or 0 in y.shape[1:]:
        raise ValueError(f"{name} has the shape {y.shape}: a number for each row is needed.")
    if y.dtype.kind == "c":
        raise TypeError(f"{name} holds complex numbers.")
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
            raise TypeError(
                f"Column {name!r} of X has the dtype {dtype}: numbers are needed. Models with "
                'lifetime="auto" take it as it is. Else fit a TableEncoder on some rows and encode '
                "the others with map_partitions."
            )


class Recipe:
    """Tasks that make a block when it is called; pickles if they do.

    The task that uses a block also reads it. Between two tasks a block would lie in the memory of
    a worker until the scheduler hears of it, or travel to another worker.
    """

    __slots__ = ("graph", "key")

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key

    def __call__(self) -> Any:
        """Make the block, here and now."""
        return dask.get(self.graph, self.key)


def parts_of(X: da.Array) -> list[Recipe] | list[Delayed]:
    """Return the blocks of an array in the order of their rows.

    They are recipes where each is made by tasks of its own. Where blocks share tasks, as after a
    change of chunks, or lie on workers already, they are left to the scheduler.
    """
    delayed: list[Delayed] = X.to_delayed().ravel().tolist()
    distributed = sys.modules.get("distributed")
    if distributed is not None and distributed.futures_of(X):  # persisted on a cluster
        return delayed
    (X,) = dask.optimize(X)
    keys = list(flatten(X.__dask_keys__()))
    graph = ensure_dict(X.__dask_graph__())
    own = [cull(graph, [key])[0] for key in keys]
    uses = Counter(key for tasks in own for key in tasks)
    if max(uses.values(), default=0) > 1:
        return delayed
    return [Recipe(tasks, key) for tasks, key in zip(own, keys, strict=True)]


class CollectionParts(TableParts):
    """Blocks of a dask array or dataframe, which come to the client one at a time."""

    def __init__(self, X: Any) -> None:
        self._blocks = delayed_blocks(X)

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            (part,) = compute([block])
            if len(part):  # partitions of a dataframe may be empty
                yield part

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows, counted on the workers."""
        return int(sum(compute([dask.delayed(len)(block) for block in self._blocks])))


def delayed_blocks(X: Any) -> list[Delayed]:
    """Return the blocks of rows of an array or dataframe, in their order."""
    if isinstance(X, da.Array):
        X = row_array(X)[0]
    return list(np.ravel(X.to_delayed()))


def on_client(values: Any) -> NDArray[Any] | None:
    """Return targets or weights in the memory of the client."""
    if is_collection(values):
        (values,) = compute([values])
    return None if values is None else np.asarray(values)
