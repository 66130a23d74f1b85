"""Blocks of a dask array as recipes, so that the task that uses a block also reads it.

Between two tasks a block would lie in the memory of a worker until the scheduler hears of it, or
travel to another worker. A block that is read where it is used does neither.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import dask
import dask.array as da
from dask.core import flatten
from dask.delayed import Delayed
from dask.optimization import cull
from dask.utils import ensure_dict


class Recipe:
    """Tasks that make a block when it is called; pickles if they do."""

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
    if _on_workers(X):
        return delayed
    (X,) = dask.optimize(X)
    keys = list(flatten(X.__dask_keys__()))
    graph = ensure_dict(X.__dask_graph__())
    own = [cull(graph, [key])[0] for key in keys]
    uses = Counter(key for tasks in own for key in tasks)
    if max(uses.values(), default=0) > 1:
        return delayed
    return [Recipe(tasks, key) for tasks, key in zip(own, keys, strict=True)]


def _on_workers(X: da.Array) -> bool:
    """Whether some of an array was persisted on a cluster."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and bool(distributed.futures_of(X))
