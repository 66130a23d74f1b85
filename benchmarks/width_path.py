"""The lifetime path against one exact kernel ridge fit on the paper's CPU data, and its growth.

    python benchmarks/width_path.py [--data DIR] [--quick]

DIR holds cpu_act.csv.gz (target ``usr`` last; OpenML data set 197); the default is the environment
variable MONDRIAN_KERNEL_DATA. Writes benchmarks/results/width_path.json and prints it.
"""

import argparse
import json
import os
import platform
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.kernel_ridge import KernelRidge
from threadpoolctl import threadpool_limits

import mondrian_kernel
from mondrian_kernel import lifetime_path

RESULT = Path(__file__).parent / "results" / "width_path.json"
ALPHAS = np.logspace(-2, 1, 10)


def cpu_act(folder):
    """Training and test rows of the paper's split, standardised; y = usr + 1."""
    path = Path(folder) / "cpu_act.csv.gz"
    if not path.exists():
        raise SystemExit(f"{path} is missing: pass --data DIR, or set MONDRIAN_KERNEL_DATA.")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    fold = np.arange(len(table)) % 10
    X, y = table[:, :-1], table[:, -1] + 1.0
    train, test = fold < 8, fold == 9
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    return X[train], y[train], X[test], y[test]


def percent(prediction, y):
    return float(100 * np.linalg.norm(prediction - y) / np.linalg.norm(y))


def clocked(call):
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }


def against_kernel_ridge(data, n_trees, threads, repeats):
    X, y, X_test, y_test = data
    lifetime_path(X[:200], y[:200], n_estimators=10, solver="lanczos", random_state=0)  # compile

    def path():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return lifetime_path(
                X, y, n_estimators=n_trees, max_lifetime=0.03, n_lifetimes=50, alphas=ALPHAS,
                tol=1e-3, random_state=0, n_jobs=threads,
            )  # fmt: skip

    def ridge():
        return KernelRidge(alpha=1e-2, kernel="laplacian", gamma=0.01).fit(X, y)

    with threadpool_limits(threads):
        rounds = [(clocked(ridge), clocked(path)) for _ in range(repeats)]
    exact, found = rounds[0][0][0], rounds[0][1][0]
    best = {
        name: min((r[k][1] for r in rounds), key=lambda t: t["wall_seconds"])
        for k, name in enumerate(["kernel_ridge", "path"])
    }
    return {
        "threads": threads,
        "n_trees": n_trees,
        "lifetimes": int(found.lifetimes.size),
        "alphas": int(found.alphas.size),
        **best,
        "path_over_kernel_ridge": best["path"]["wall_seconds"]
        / best["kernel_ridge"]["wall_seconds"],
        "chosen_lifetime": found.best_lifetime,
        "chosen_alpha": found.best_alpha,
        "test_error_percent": percent(found.predict(X_test), y_test),
        "kernel_ridge_test_error_percent": percent(exact.predict(X_test), y_test),
    }


def growth_in_rows(sizes, n_dims, n_trees):
    rng = np.random.default_rng(0)
    rows = []
    for n in sizes:
        X = rng.uniform(size=(n, n_dims))
        y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
        path, times = clocked(
            lambda X=X, y=y: lifetime_path(
                X,
                y,
                n_estimators=n_trees,
                n_lifetimes=25,
                alphas=[0.1, 0.3, 1.0, 3.0],
                tol=1e-3,
                random_state=0,
                n_jobs=2,
            )
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        rows.append({"n_rows": n, **times, "peak_gb": peak, "lifetimes": int(path.lifetimes.size)})
        print(rows[-1], flush=True)
    log_n = np.log([r["n_rows"] for r in rows])
    slope = np.polyfit(log_n, np.log([r["cpu_seconds"] for r in rows]), 1)[0]
    return {"n_dims": n_dims, "n_trees": n_trees, "rows": rows, "slope_of_time": float(slope)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("MONDRIAN_KERNEL_DATA", "."))
    parser.add_argument("--quick", action="store_true", help="one repetition, small sizes")
    args = parser.parse_args()
    data = cpu_act(args.data)
    repeats = 1 if args.quick else 2
    sizes = [3_000, 10_000] if args.quick else [10_000, 30_000, 100_000]
    found = {
        "machine": {"processor": platform.processor(), "cores": os.cpu_count()},
        "mondrian_kernel": mondrian_kernel.__version__,
        "sklearn": sklearn.__version__,
    }
    RESULT.parent.mkdir(exist_ok=True)
    for threads in (1, 2):
        found[f"cpu_act, threads {threads}"] = against_kernel_ridge(data, 350, threads, repeats)
        RESULT.write_text(json.dumps(found, indent=2) + "\n")
        print(json.dumps(found, indent=2), flush=True)
    found["growth"] = growth_in_rows(sizes, 10, 100)
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found["growth"], indent=2))


if __name__ == "__main__":
    main()
