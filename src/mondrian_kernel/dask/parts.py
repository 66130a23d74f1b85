"""A dask collection as a table in parts, for models that are fitted on the client."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from mondrian_kernel.dask.blocks import compute
from mondrian_kernel.dask.inputs import is_collection, row_array
from mondrian_kernel.on_disk import TableParts


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
