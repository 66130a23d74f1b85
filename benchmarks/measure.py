"""Time without compilation, peak memory, processes of their own, and the machine."""

import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numba.core import event
from threadpoolctl import threadpool_limits

PACKAGES = (
    "mondrian-kernel", "numpy", "scipy", "scikit-learn", "numba", "pandas", "catboost", "lightgbm",
    "xgboost", "xrfm", "quantile-forest", "ngboost", "mapie", "river", "dask",
)  # fmt: skip


class _Compiling(event.Listener):
    """Sums the wall and CPU time that numba spends on compiling, and on loading from its cache."""

    def __init__(self):
        self.depth, self.spent = 0, np.zeros(2)

    def on_start(self, _):
        if self.depth == 0:
            self.begin = _clocks()
        self.depth += 1

    def on_end(self, _):
        self.depth -= 1
        if self.depth == 0:
            self.spent += _clocks() - self.begin


def _clocks():
    return np.array([time.perf_counter(), time.process_time()])


def clocked(call):
    """Return the result of a call, its wall and CPU seconds without compiling, and its memory.

    The memory is by how many MB the largest memory during the call is above that before it.
    """
    with suppress(OSError):  # the peak begins anew, where the system can
        Path("/proc/self/clear_refs").write_text("5")
    before = resident_mb()
    with event.install_listener("numba:compiler_lock", _Compiling()) as compiling:
        begin = _clocks()
        result = call()
        wall, cpu = _clocks() - begin - compiling.spent
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return result, {"wall": float(wall), "cpu": float(cpu), "mb": max(peak - before, 0.0)}


def best_of(n, *calls):
    """Return the least costs of each call, run n times in turn, so that all share the weather."""
    rounds = [[clocked(call)[1] for call in calls] for _ in range(n)]
    return [
        {what: min(r[k][what] for r in rounds) for what in ("wall", "cpu", "mb")}
        for k in range(len(calls))
    ]


def resident_mb():
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def in_child(call, arguments, limit=None, threads=1):
    """Return ``call(*arguments)`` of a process of its own, or None after ``limit`` seconds.

    The process is forked from a server that has only imported, so that neither what was computed
    before nor its memory is there. What the call raises is raised here.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.accuracy", "mondrian_kernel.regressor"])
    receiver, sender = context.Pipe(duplex=False)
    # Not a daemon: joblib allows those but one thread.
    child = context.Process(target=_answer, args=(sender, call, arguments, threads))
    child.start()
    sender.close()
    try:
        if not receiver.poll(limit):
            return None
        answer = receiver.recv()
        child.join(10)  # it closes what it has opened
    except EOFError:
        raise MemoryError("The process was killed; memory ran out?") from None
    finally:
        child.kill()
        child.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _answer(sender, call, arguments, threads):
    warnings.simplefilter("ignore")  # a search tries what a model may well warn of
    try:
        with threadpool_limits(threads):
            sender.send(call(*arguments))
    except Exception as error:
        try:
            sender.send(error)
        except Exception:  # an error that does not travel
            sender.send(RuntimeError(f"{type(error).__name__}: {error}"))


def machine():
    """What the numbers depend on: processor, system, versions, and the commit of the checkout."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = ""
    with suppress(OSError):
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cpu": names[0] if names else platform.processor(),
        "cpus": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": commit,
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
