"""Imports, first calls with and without compiled code on disk, and the command line."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import clocked

IMPORTS = {
    "scikit-learn": "import sklearn.kernel_approximation",
    "and mondrian_kernel": "import sklearn.kernel_approximation, mondrian_kernel",
    "and MondrianFeatures": (
        "import sklearn.kernel_approximation; from mondrian_kernel import MondrianFeatures"
    ),
}
ROWS = "import numpy as np; X = np.random.default_rng(0).normal(size=(200, 5)); "
FIRST_CALLS = {
    "features": "MondrianFeatures(random_state=0).fit(X).transform(X)",
    "regressor": "MondrianKernelRegressor(random_state=0).fit(X, X[:, 0]).predict(X)",
    "classifier": "MondrianKernelClassifier(random_state=0).fit(X, X[:, 0] > 0).predict(X)",
    "stream": "MondrianKernelRegressor(random_state=0).partial_fit(X, X[:, 0]).predict(X)",
}


def seconds_of(code, setup="", **environment):
    """Seconds that a line takes in a fresh interpreter."""
    timed = f"{setup}import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    done = subprocess.run(
        [sys.executable, "-c", timed],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def command(*arguments, **environment):
    """Wall seconds of the command line."""
    start = "from mondrian_kernel.app.main import main; raise SystemExit(main())"
    line = [sys.executable, "-c", start, *arguments]
    _, times = clocked(
        lambda: subprocess.run(line, env=os.environ | environment, capture_output=True, check=True)
    )
    return times["wall_seconds"]


def measure(run):
    section = run.section("cold_start")
    repeats = 1 if run.quick else 5
    for name, line in IMPORTS.items():
        section.put(min(seconds_of(line) for _ in range(repeats)), "import", name)
    with tempfile.TemporaryDirectory() as folder:
        calls = dict(list(FIRST_CALLS.items())[:1]) if run.quick else FIRST_CALLS
        for name, line in calls.items():
            setup = f"{ROWS}from mondrian_kernel import {line.split('(')[0]}; "
            cache = str(Path(folder) / name)
            cold = seconds_of(line, setup, NUMBA_CACHE_DIR=cache)
            warm = min(seconds_of(line, setup, NUMBA_CACHE_DIR=cache) for _ in range(repeats))
            section.put({"cold_seconds": cold, "warm_seconds": warm}, "first call", name)
        section.put(min(command("--help") for _ in range(repeats)), "command line", "--help")
        if not run.quick:
            report, cache = str(Path(folder) / "demo.html"), str(Path(folder) / "demo")
            for kind in ("cold", "warm"):
                seconds = command("demo", "--report", report, NUMBA_CACHE_DIR=cache)
                section.put(seconds, "command line", f"demo, {kind}")
