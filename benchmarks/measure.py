"""Clocks, peak memory and slopes, and the machine they were read on."""

import multiprocessing
import os
import platform
import resource
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

PACKAGES = (
    "mondrian-kernel", "numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl",
    "river", "dask",
)  # fmt: skip
_PRELOAD = ["numba", "benchmarks.end_to_end", "benchmarks.growth", "benchmarks.features"]


def clocked(call):
    """Return the result of a call and its wall and CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }


def best_of(n, *calls):
    """Return the least times of each call, run n times in turn, so that all share the weather."""
    rounds = [[clocked(call)[1] for call in calls] for _ in range(n)]
    return [
        {clock: min(r[k][clock] for r in rounds) for clock in ("wall_seconds", "cpu_seconds")}
        for k in range(len(calls))
    ]


def peak_mb():
    """Largest resident memory of this process so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_child(call, *arguments, limit=None):
    """Return ``call(*arguments)`` of a process of its own, or None after ``limit`` seconds.

    The process is forked from a server that has only imported, so that neither what was computed
    before nor its memory is there. What the call raises is raised here.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    receiver, sender = context.Pipe(duplex=False)
    # Not a daemon: joblib allows those but one thread.
    child = context.Process(target=_answer, args=(sender, call, arguments))
    child.start()
    sender.close()
    try:
        if not receiver.poll(limit):
            return None
        answer = receiver.recv()
    except EOFError:
        raise MemoryError(f"{call.__name__}{arguments} was killed; memory ran out?") from None
    finally:
        child.kill()
        child.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _answer(sender, call, arguments):
    warnings.simplefilter("ignore")  # a search tries what a model may well warn of
    try:
        sender.send(call(*arguments))
    except Exception as error:
        sender.send(error)


def slope(sizes, values):
    """Exponent b of the power law a·sizes**b that is nearest to the values, in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def machine():
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    return {
        "cpu": cpu,
        "cpus": os.cpu_count(),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        "load_at_start": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
