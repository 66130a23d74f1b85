"""A large file through the command line: ``python -m benchmarks.big_file [ROWS ...]``.

Each file is a CSV of ten columns of numbers and a target. Written to ``results/big_file.json`` are
the seconds and the most memory of ``mondrian-kernel fit`` and ``predict``, reading included.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import machine
from benchmarks.record import HERE

N_DIMS = 10
COMMAND = [
    sys.executable,
    "-c",
    "import sys; from mondrian_kernel.app.main import main; sys.exit(main())",
]


def write(file, n_rows):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, N_DIMS))
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n_rows)
    names = [f"x{d}" for d in range(N_DIMS)] + ["y"]
    np.savetxt(file, np.c_[X, y], "%.6g", delimiter=",", header=",".join(names), comments="")


def run(*words):
    """Time and memory of a command, and what it says."""
    begin = time.perf_counter()
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE) as process:
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed.")
    cost = {
        "wall_seconds": time.perf_counter() - begin,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }
    return cost, said


def one_file(n_rows):
    with tempfile.TemporaryDirectory() as folder:
        data, model, out = (str(Path(folder) / name) for name in ("rows.csv", "model", "out.csv"))
        write(data, n_rows)
        fit, said = run("fit", data, "--target", "y", "--output", model, "--json")
        predict, _ = run("predict", model, data, "--interval", "0.9", "-o", out, "--quiet")
        told = json.loads(said)
        return {
            "rows": n_rows, "dims": N_DIMS, "file_mb": os.path.getsize(data) / 2**20,
            "model_mb": os.path.getsize(model) / 2**20, "fit": fit, "predict": predict,
            "trees": told["trees"], "cells": told["cells"], "held_out": told["held_out"],
        }  # fmt: skip


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]] or [100_000, 1_000_000]
    found = {"machine": machine(), "files": [one_file(n_rows) for n_rows in sizes]}
    (HERE / "results" / "big_file.json").write_text(json.dumps(found, indent=1) + "\n")
