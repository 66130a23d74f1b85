"""Run pieces of work in the threads of one pool, which is kept: many pieces are short."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from mondrian_kernel import _settings as settings

P = ParamSpec("P")
T = TypeVar("T")
Tell = Callable[[float], None]
"""Is told which share of some work is done."""

_here = threading.local()


def no_one(share: float) -> None:
    """Take no note of how far some work has come."""


def in_threads(
    run: Callable[[int, int], Any], n: int, n_jobs: int | None, work: float = np.inf
) -> list[Any]:
    """Call ``run(begin, end)`` on consecutive pieces of ``range(n)``, in threads.

    ``n_jobs`` is that of :func:`n_threads`. Little ``work`` (in elementary operations) is done in
    one piece. So is a call from one of the threads, which would otherwise wait for threads that
    wait for it.

    When a piece fails or Ctrl-C arrives, pieces that have not begun are dropped, and the error is
    raised once no piece runs any more: nothing writes to the caller's arrays after the return.
    """
    alone = n <= 1 or work < settings.THREAD_WORK or getattr(_here, "in_pool", False)
    workers = 1 if alone else n_threads(n_jobs)
    if workers == 1:
        return [run(0, n)]
    edges = np.unique(np.linspace(0, n, min(4 * workers, n) + 1).astype(int)).tolist()
    # A forked process has none of the threads of its parent.
    pool = _pool(workers, os.getpid())
    pieces: list[Future[Any]] = []
    try:
        for begin, end in pairwise(edges):
            pieces.append(pool.submit(run, begin, end))
        return [piece.result() for piece in pieces]
    except BaseException:
        _stop(pieces)
        raise


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for joblib's ``n_jobs``; None: as many as OpenMP would use.

    These are all cores, or ``OMP_NUM_THREADS`` if it is set. joblib and Dask set it in their worker
    processes, so that models that are fitted side by side share the cores.
    """
    if n_jobs is not None:
        return int(effective_n_jobs(n_jobs))
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    most = int(wanted) if wanted.isdecimal() and int(wanted) > 0 else sys.maxsize
    return min(most, int(effective_n_jobs(-1)))


def _stop(pieces: list[Future[Any]]) -> None:
    """Cancel the pieces that wait and wait for those that run, even if Ctrl-C comes again."""
    while True:
        try:
            for piece in pieces:
                piece.cancel()
            wait(pieces)
            return
        except KeyboardInterrupt:  # the first one is raised by the caller
            continue


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "mondrian_kernel", initializer=_enter)


def _enter() -> None:
    _here.in_pool = True


@cache
def _libraries() -> ThreadpoolController:
    """Return the libraries that are loaded; to find them takes 2 ms."""
    return ThreadpoolController()


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function use one thread of the BLAS; several would mostly wait for each other.

    So its result does not depend on the number of cores either.
    """

    @wraps(function)
    def limited(*args: P.args, **options: P.kwargs) -> T:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **options)

    return limited
