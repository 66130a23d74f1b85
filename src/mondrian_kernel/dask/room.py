"""How much memory there is, and rows taken some at a time so that little of it is needed."""

from __future__ import annotations

import dask

# Numbers that are made of the rows of a block at once, 16 MB or 32 MB.
_SLAB = 2**22


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
        from distributed import default_client
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return 0.0
    fraction = dask.config.get("distributed.worker.memory.target") or 1.0
    try:
        client = default_client()
    except ValueError:
        return float(fraction * MEMORY_LIMIT)
    # Of many workers the scheduler tells of a few.
    workers = client.scheduler_info()["workers"].values()
    free = [
        max(0.0, fraction * (w["memory_limit"] or MEMORY_LIMIT) - w["metrics"].get("memory", 0))
        for w in workers
    ]
    return float(sum(free) * len(client.ncores()) / max(len(free), 1))
