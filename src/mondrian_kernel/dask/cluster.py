"""Dask collections, and the cluster: its work, errors in plain words, and memory of its workers."""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
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

from mondrian_kernel import _settings as settings
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


@contextmanager
def clear_errors() -> Iterator[None]:
    """Explain errors where the scheduler is lost, workers die or something does not pickle."""
    with warnings.catch_warnings():
        # Cuts and weights go to the workers in every pass, and may be many megabytes.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        try:
            yield
        except CancelledError as error:
            raise RuntimeError(
                f"The work was cancelled, most likely as the Dask scheduler was lost ({error}). "
                "Nothing was changed: connect a new distributed.Client and fit again."
            ) from error
        except TypeError as error:
            if "Could not serialize" not in str(error):
                raise
            raise TypeError(
                "X, y or sample_weight hold something that cannot be sent to workers: "
                f"{error.__cause__ or error}. Make them of functions and data "
                "that pickle, or use dask's threaded scheduler."
            ) from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            raise RuntimeError(
                "Workers died again and again at the same block, most likely for want of memory. "
                "Give them more, or X smaller blocks; their logs say why."
            ) from error


def total(parts: list[Delayed], merge: Callable[[Any, Any], Any]) -> Any:
    """Compute answers and put them together two by two, always in the same order, on the workers.

    An answer joins its neighbour as soon as both are there, so that few of them wait in memory.
    """
    together = dask.delayed(merge, pure=False)
    while len(parts) > 1:
        pairs = [together(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return compute(parts)[0]


def delayed_call(
    parts: list[Delayed], function: Callable[..., Any], *message: Any
) -> list[Delayed]:
    """Delayed ``function(part, *message)`` of each part; the message is sent once."""
    sent, call = dask.delayed(message, traverse=False), dask.delayed(_apply, pure=False)
    return [call(function, part, sent) for part in parts]


def _apply(function: Callable[..., Any], part: Any, message: tuple[Any, ...]) -> Any:
    return function(part, *message)


def compute(parts: list[Delayed]) -> list[Any]:
    """Compute, on whatever scheduler is the default, with clear errors."""
    with clear_errors():
        return list(dask.compute(*parts))


def persist(parts: list[Delayed]) -> list[Delayed]:
    """Compute and keep where they are computed."""
    with clear_errors():
        return list(dask.persist(*parts))


def by_worker(kept: list[Delayed]) -> list[list[Delayed]]:
    """Return what is kept, that of each worker together, when it is there.

    Answers that are joined on a worker first need not travel.
    """
    distributed: Any = sys.modules.get("distributed")
    futures = [f for part in kept for f in distributed.futures_of(part)] if distributed else []
    if not futures:  # without a cluster
        return [kept]
    with clear_errors():
        distributed.wait(futures)
        held = futures[0].client.who_has(futures)
    workers = defaultdict(list)
    for part, future in zip(kept, futures, strict=True):
        workers["".join(held[future.key][:1])].append(part)
    return list(workers.values())


def send(message: Any) -> Delayed:
    """Send a message that many passes need to a worker, from which the others fetch it."""
    return persist([dask.delayed(message, traverse=False)])[0]


def add(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add answers that are tuples of arrays or numbers."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def slabs(n_rows: int, n_each: int) -> list[slice]:
    """Split rows of which ``n_each`` numbers are made each into slabs, at least one."""
    return in_steps(n_rows, max(1, settings.SLAB_NUMBERS // n_each))


def in_steps(n_rows: int, step: int) -> list[slice]:
    """Split rows into slabs of so many, at least one."""
    return [slice(k, min(k + step, n_rows)) for k in range(0, max(n_rows, 1), step)]


def fits_worker(n_bytes: int) -> bool:
    """Whether so many bytes on every worker leave half of its free memory free."""
    return 2 * n_bytes <= min(_free_bytes())


def n_workers() -> int:
    """Return the number of workers, 1 without a cluster."""
    return len(_free_bytes())


def free_bytes() -> float:
    """Memory of all workers that is free before Dask begins to spill, or of this machine."""
    return sum(_free_bytes())


def _free_bytes() -> list[float]:
    """Memory of each worker that is free before Dask begins to spill, or of this machine."""
    try:
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return [0.0]
    workers = _workers() or [(MEMORY_LIMIT, 0.0)]
    target = dask.config.get("distributed.worker.memory.target") or 1.0
    return [max(0.0, target * limit - used) for limit, used in workers]


def warn_if_cramped(block: int) -> None:
    """Warn where a worker could not hold a block of so many bytes before Dask pauses it."""
    workers = _workers() or []
    pause = dask.config.get("distributed.worker.memory.pause") if workers else None
    if not pause:
        return
    free = min(pause * limit - used for limit, used in workers)
    needed = settings.CODE_BYTES + settings.BLOCK_COPIES * block
    if free < needed:
        warnings.warn(
            f"A worker has {free / 1e6:.0f} MB free before Dask pauses it, at {pause:.0%} of its "
            f"limit, and a block of {block / 1e6:.0f} MB takes some {needed / 1e6:.0f} MB. "
            "Give workers more memory, or X smaller blocks: else the fit may never end.",
            stacklevel=4,
        )


def _workers() -> list[tuple[float, float]] | None:
    """Memory that each worker may take and has taken; None without a cluster."""
    try:
        from distributed import default_client
        from distributed.system import MEMORY_LIMIT

        client = default_client()
    except (ImportError, ValueError):
        return None
    info = client.scheduler_info()
    found = [
        (w["memory_limit"] or MEMORY_LIMIT, w["metrics"].get("memory", 0))
        for w in info["workers"].values()
    ]
    # The scheduler lists only a few of many workers: the others are like them.
    n_workers = info.get("n_workers", len(found))
    return [found[k % len(found)] for k in range(n_workers)] if found else []
