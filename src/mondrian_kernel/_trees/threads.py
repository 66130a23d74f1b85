"""Threads over pieces of work: one pool a process, since many a product is quicker than a pool."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from joblib import effective_n_jobs

# Less than a thread is worth.
_LITTLE = 500_000

_here = threading.local()


def in_threads(
    run: Callable[[int, int], Any], n: int, n_jobs: int | None, work: float = np.inf
) -> list[Any]:
    """Call ``run(begin, end)`` on consecutive pieces of ``range(n)``, in threads.

    ``n_jobs`` is joblib's. Little ``work`` (in elementary operations) is done in one piece, and so
    is what one of the threads asks for: it would wait for the others, and they for it.
    """
    alone = n <= 1 or work < _LITTLE or getattr(_here, "in_pool", False)
    workers = 1 if alone else effective_n_jobs(n_jobs)
    if workers == 1:
        return [run(0, n)]
    edges = np.unique(np.linspace(0, n, 4 * workers + 1).astype(int)).tolist()
    # A forked process has none of the threads of its parent.
    return list(_pool(workers, os.getpid()).map(run, edges[:-1], edges[1:]))


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "mondrian_kernel", initializer=_enter)


def _enter() -> None:
    _here.in_pool = True
