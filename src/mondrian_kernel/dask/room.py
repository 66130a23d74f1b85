"""How much memory there is, and rows taken some at a time so that little of it is needed."""

from __future__ import annotations

import warnings

import dask

# Numbers that are made of the rows of a block at once, 16 MB or 32 MB.
_SLAB = 2**22
# A block as it was read, as a frame, as an array and scaled; and compiled code when it first runs.
_COPIES, _CODE = 4, 60_000_000


def slabs(n_rows: int, n_each: int) -> list[slice]:
    """Cut rows of which ``n_each`` numbers are made each into slabs, one of them at least."""
    step = max(1, _SLAB // n_each)
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
    needed = _CODE + _COPIES * block
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
    # Of many workers the scheduler tells of a few: the others are like them.
    n_workers = info.get("n_workers", len(found))
    return [found[k % len(found)] for k in range(n_workers)] if found else []
