"""Exact ridge after every cut on the paper's CPU data: CPU time, and deviation from fresh solves.

    python benchmarks/every_cut.py --data DIR

DIR holds cpu_act.csv.gz (target ``usr`` last; OpenML data set 197); the default is the environment
variable MONDRIAN_KERNEL_DATA. Writes benchmarks/results/every_cut.json and prints it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from pathlib import Path

import numba
import numpy as np
import scipy
from threadpoolctl import threadpool_limits

import mondrian_kernel
from mondrian_kernel.partition.growth import Growth
from mondrian_kernel.partition.sequence import CutSequence, cut_sequence
from mondrian_kernel.ridge.cut_factor import Nested
from mondrian_kernel.ridge.every_cut import EveryCut, HeldOut, every_cut

RESULT = Path(__file__).parent / "results" / "every_cut.json"
PUBLISHED_CPU_SECONDS = 133.0  # one epoch of SGD after every cut, over the same cuts


def load(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    path = folder / "cpu_act.csv.gz"
    if not path.exists():
        raise SystemExit(f"{path} is missing: pass --data DIR, or set MONDRIAN_KERNEL_DATA.")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1] + 1.0
    fold = np.arange(y.size) % 10
    return X[fold < 8], y[fold < 8], X[fold == 8], y[fold == 8]


def run(data, n_trees, lifetime, alpha, seed):
    X, y, X_new, y_new = data
    mean = y.mean()
    clock = [(time.process_time(), time.perf_counter())]
    growth = Growth(X, n_trees, seed)
    growth.advance(lifetime)
    trees, leaf = growth.freeze()
    sequence = cut_sequence(trees, leaf)
    cells, decay = sequence.new_rows(X_new)
    clock.append((time.process_time(), time.perf_counter()))
    held_out = HeldOut(cells, y_new - mean, tuple(decay))
    result = every_cut(
        sequence.cells, sequence.splits, y - mean, alpha, times=sequence.times, validation=held_out
    )
    clock.append((time.process_time(), time.perf_counter()))
    return sequence, result, np.diff(np.array(clock), axis=0)


def deviation(
    data, sequence: CutSequence, result: EveryCut, alpha: float, cuts: int
) -> dict[str, float]:
    """Relative deviation from one dense solve of size N, by LAPACK alone."""
    _, y, X_new, y_new = data
    mean = y.mean()
    Phi = Nested.of(sequence.cells, sequence.splits).features(cuts)
    n = y.size
    G = (Phi @ Phi.T).toarray()
    G.ravel()[:: n + 1] += alpha
    L, _ = scipy.linalg.lapack.dpotrf(G, lower=1)
    log_det = 2 * np.log(L.diagonal()).sum()
    inverse, _ = scipy.linalg.lapack.dpotri(L, lower=1)
    diagonal = inverse.diagonal()
    x, _ = scipy.linalg.lapack.dpotrs(L, y - mean, lower=1)
    w = Phi.T @ x
    node, log_stay = sequence.trees.walk(X_new, sequence.times[cuts - 1])
    predicted = (np.exp(log_stay) * w[sequence.cell[node]]).sum(axis=1) * sequence.cells.shape[
        1
    ] ** -0.5
    fresh = {
        "train_error": np.mean((alpha * x) ** 2),
        "loo_error": np.mean((x / diagonal) ** 2),
        "validation_error": np.mean((y_new - mean - predicted) ** 2),
        "log_det": log_det,
        "misfit": (y - mean) @ x,
    }
    return {k: float(abs(getattr(result, k)[cuts] / v - 1)) for k, v in fresh.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MONDRIAN_KERNEL_DATA", "."))
    parser.add_argument("--trees", type=int, default=350)
    parser.add_argument("--lifetime", type=float, default=1e-6)
    parser.add_argument("--alpha", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spots", type=int, default=3, help="cuts at which to solve afresh")
    args = parser.parse_args()
    data = load(Path(args.data))
    with threadpool_limits(1):
        small = (data[0][:200], data[1][:200], data[2][:50], data[3][:50])
        run(small, 10, args.lifetime, args.alpha, 1)  # compile the primal kernels
        sequence, result, seconds = run(data, args.trees, args.lifetime, args.alpha, args.seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        total = sequence.splits.size
        spots = np.linspace(0, total, args.spots + 1).astype(int)[1:]
        checks = {int(k): deviation(data, sequence, result, args.alpha, k) for k in spots}
    rms = np.sqrt(np.mean(data[3] ** 2))
    best = int(np.argmin(result.validation_error))
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": {
            "mondrian_kernel": mondrian_kernel.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "numba": numba.__version__,
        },
        "settings": {k: v for k, v in vars(args).items() if k not in ("data", "spots")},
        "threads": 1,
        "cuts": total,
        "cells": int(result.n_cells[-1]),
        "cpu_seconds": {
            "trees_and_validation_walk": seconds[0, 0],
            "every_cut": seconds[1, 0],
            "total": seconds[:, 0].sum(),
        },
        "wall_seconds": seconds[:, 1].sum(),
        "published_cpu_seconds": PUBLISHED_CPU_SECONDS,
        "ratio": PUBLISHED_CPU_SECONDS / seconds[:, 0].sum(),
        "peak_memory_mb": peak,
        "factorizations": result.n_factorizations,
        "repeats_for_drift": result.n_repeats,
        "max_drift": result.max_drift,
        "deviation_from_fresh_solve": checks,
        "max_deviation": max(max(check.values()) for check in checks.values()),
        "best_by_validation": {
            "cut": best,
            "lifetime": float(sequence.times[best - 1]) if best else 0.0,
            "validation_error_percent": float(100 * np.sqrt(result.validation_error[best]) / rms),
        },
    }
    RESULT.parent.mkdir(exist_ok=True)
    text = json.dumps(report, indent=2)
    RESULT.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
