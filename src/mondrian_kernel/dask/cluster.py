"""The cluster: work for it, its errors in plain words, and how much memory its workers have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import dask
from dask.delayed import Delayed

from mondrian_kernel import _settings as settings


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
    """Compute answers and put them together."""
    return compute([joined(parts, merge)])[0]


def joined(parts: list[Delayed], merge: Callable[[Any, Any], Any]) -> Delayed:
    """Put answers together two by two, always in the same order, on the workers.

    An answer joins its neighbour as soon as both are there, so that few of them wait in memory.
    """
    together = dask.delayed(merge, pure=False)
    while len(parts) > 1:
        pairs = [together(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]


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


def is_room_for(n_bytes: int) -> bool:
    """Whether so many bytes, spread over the workers, leave half of their free memory free."""
    return 2 * n_bytes <= free_bytes()


def free_bytes() -> float:
    """Memory of all workers that is free before Dask begins to spill, or of this machine."""
    try:
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return 0.0
    workers = _workers()
    if workers is None:
        workers = [(MEMORY_LIMIT, 0.0)]
    target = dask.config.get("distributed.worker.memory.target") or 1.0
    return sum(max(0.0, target * limit - used) for limit, used in workers)


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
