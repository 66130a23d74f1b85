"""Speed of MondrianFeatures: against random trees, fully grown, in N, M and D, threads, imports.

Run ``python benchmarks/features.py [--data DIR] [--quick]``. Figures are best of several in one
process, on one thread unless said; they go to ``benchmarks/results/features.json`` (with
``--quick`` to ``features-quick.json``) and, as a table, to the screen.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomTreesEmbedding
from threadpoolctl import threadpool_limits

from mondrian_kernel import MondrianFeatures
from mondrian_kernel.partition.growth import Growth

RESULTS = Path(__file__).parent / "results"


def best_of(n, *calls):
    """Return the least seconds of each call, run n times in turn, so that all share the weather."""
    seconds = np.full(len(calls), np.inf)
    for _ in range(n):
        for k, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            seconds[k] = min(seconds[k], time.perf_counter() - begin)
    return seconds.tolist()


def cpu_act(folder):
    """Return the standardised rows of the CPU data, training and test, or None without the file."""
    path = Path(folder) / "cpu_act.csv.gz"
    if not path.exists():
        return None
    rows = np.loadtxt(path, delimiter=",", skiprows=1)[:, :-1]
    i = np.arange(len(rows)) % 10
    train, new = rows[i < 8], rows[i >= 8]
    mean, std = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / std, (new - mean) / std


def normal(n_rows, n_dims, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_dims))


def against_random_trees(train, new, n_trees, lifetime, repeats):
    """Compare fit_transform and transform with as many random trees of about as many leaves."""
    ours = MondrianFeatures(lifetime, n_trees, random_state=0, n_jobs=1)
    ours.fit_transform(train)
    leaves = max(2, round(ours.n_cells_ / n_trees))
    theirs = RandomTreesEmbedding(
        n_trees, max_depth=None, max_leaf_nodes=leaves, random_state=0, n_jobs=1
    )
    n_theirs = theirs.fit_transform(train).shape[1]
    ours.transform(new)
    fit = best_of(repeats, lambda: ours.fit_transform(train), lambda: theirs.fit_transform(train))
    to_new = best_of(repeats, lambda: ours.transform(new), lambda: theirs.transform(new))
    return {
        "rows": len(train),
        "new_rows": len(new),
        "dims": train.shape[1],
        "trees": n_trees,
        "lifetime": lifetime,
        "cells": ours.n_cells_,
        "their_leaves": n_theirs,
        "fit_transform_s": fit[0],
        "their_fit_transform_s": fit[1],
        "fit_transform_times_faster": fit[1] / fit[0],
        "transform_s": to_new[0],
        "their_transform_s": to_new[1],
        "transform_times_slower": to_new[0] / to_new[1],
    }


def threads(train, n_trees, lifetime, repeats):
    one, two = (MondrianFeatures(lifetime, n_trees, random_state=0, n_jobs=j) for j in (1, 2))
    fit = best_of(repeats, lambda: one.fit_transform(train), lambda: two.fit_transform(train))
    to_rows = best_of(repeats, lambda: one.transform(train), lambda: two.transform(train))
    return {
        "fit_transform_one_thread_s": fit[0],
        "fit_transform_two_threads_s": fit[1],
        "fit_transform_speedup": fit[0] / fit[1],
        "transform_one_thread_s": to_rows[0],
        "transform_two_threads_s": to_rows[1],
        "transform_speedup": to_rows[0] / to_rows[1],
    }


def grow_fully(X, n_trees):
    growth = Growth(X, n_trees, 0, 1)
    growth.advance(np.inf)
    return growth


def fully_grown(X, n_trees, repeats):
    sampling, both = best_of(
        repeats, lambda: grow_fully(X, n_trees), lambda: grow_fully(X, n_trees).freeze()
    )
    return {
        "rows": len(X),
        "dims": X.shape[1],
        "trees": n_trees,
        "sampling_s": sampling,
        "sampling_and_freezing_s": both,
    }


def slopes(quick, repeats):
    """Return exponents of the time to grow trees fully, in each of N, M and D."""
    base = {"N": 4000, "M": 20, "D": 10}
    ranges = {
        "N": [1000, 2000, 4000, 8000] if quick else [1000, 2000, 4000, 8000, 16000, 32000],
        "M": [5, 10, 20, 40] if quick else [10, 20, 40, 80, 160],
        "D": [2, 8, 32] if quick else [2, 4, 8, 16, 32, 64],
    }
    found = {}
    for name, values in ranges.items():
        seconds = []
        for value in values:
            size = {**base, name: value}
            X = normal(size["N"], size["D"])
            seconds += best_of(repeats, lambda X=X, size=size: grow_fully(X, size["M"]))
        slope = float(np.polyfit(np.log(values), np.log(seconds), 1)[0])
        found[name] = {"values": values, "seconds": seconds, "slope": slope}
    n_log_n = [n * np.log(n) for n in ranges["N"]]
    found["N"]["slope_of_n_log_n"] = float(np.polyfit(np.log(ranges["N"]), np.log(n_log_n), 1)[0])
    return found


def in_subprocess(code, **environment):
    """Run code that prints seconds in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def imports(repeats):
    timed = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    lines = {
        "sklearn_s": "import sklearn.kernel_approximation",
        "with_mondrian_kernel_s": "import sklearn.kernel_approximation, mondrian_kernel",
        "with_MondrianFeatures_s": (
            "import sklearn.kernel_approximation; from mondrian_kernel import MondrianFeatures"
        ),
    }
    found = dict.fromkeys(lines, np.inf)
    for _ in range(repeats):
        for name, line in lines.items():
            found[name] = min(found[name], in_subprocess(timed.format(line)))
    found["mondrian_kernel_adds_s"] = found["with_mondrian_kernel_s"] - found["sklearn_s"]
    found["MondrianFeatures_adds_s"] = found["with_MondrianFeatures_s"] - found["sklearn_s"]
    return found


def first_call(repeats):
    """Time the first fit_transform and transform of a process, numba's import included."""
    code = """
import time
import numpy as np
from mondrian_kernel import MondrianFeatures
X = np.random.default_rng(0).normal(size=(200, 5))
t = time.perf_counter()
MondrianFeatures(random_state=0).fit(X).transform(X)
print(time.perf_counter() - t)
"""
    with tempfile.TemporaryDirectory() as folder:
        cold = in_subprocess(code, NUMBA_CACHE_DIR=folder)
        warm = min(in_subprocess(code, NUMBA_CACHE_DIR=folder) for _ in range(repeats))
    return {"cold_cache_s": cold, "warm_cache_s": warm}


def machine():
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    packages = ("mondrian-kernel", "numpy", "scipy", "scikit-learn", "numba", "joblib")
    return {
        "cpu": cpu,
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "load_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def measure(folder, quick):
    repeats = 2 if quick else 5
    found = {"machine": machine(), "quick": quick}
    grow_fully(normal(50, 3), 2).freeze()  # compiled or loaded before anything is timed
    rows = cpu_act(folder)
    if rows is None:
        print(f"cpu_act.csv.gz is not in {str(folder)!r}: that case is skipped (see --data)")
    else:
        found["cpu_act"] = against_random_trees(*rows, 350, 0.02, repeats)
        found["cpu_act fully grown"] = fully_grown(rows[0], 350, 1 if quick else 3)
    n_rows = 20_000 if quick else 100_000
    large, new = normal(n_rows, 20), normal(n_rows // 5, 20, seed=1)
    found["normal"] = against_random_trees(large, new, 50, 0.1, 1 if quick else 3)
    found["two threads, normal"] = threads(large, 50, 0.1, repeats)
    found["normal fully grown"] = fully_grown(normal(6554, 21), 350, 1 if quick else 3)
    found["slopes"] = slopes(quick, repeats)
    found["import"] = imports(repeats)
    found["first call"] = first_call(repeats)
    return found


def show(found, indent=""):
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            show(value, indent + "  ")
        elif isinstance(value, list):
            print(f"{indent}{name:<32}" + "  ".join(f"{v:.4g}" for v in value))
        else:
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
            print(f"{indent}{name:<32}{text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("MONDRIAN_KERNEL_DATA", "data"))
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repeats")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        found = measure(arguments.data, arguments.quick)
    show(found)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / ("features-quick.json" if arguments.quick else "features.json")
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
