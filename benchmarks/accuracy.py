"""Errors and coverage of the regressor with defaults beside what a user would pick instead.

    python benchmarks/accuracy.py [--data DIR] [--splits 5] [--sets concrete,energy,...]

DIR holds one NAME.csv.gz a data set, a header row and the target last; the default is the
environment variable MONDRIAN_KERNEL_DATA. Random 80/20 splits, at most 20 000 training rows, inputs
scaled by their standard deviation for all. Errors are root mean squared errors over the standard
deviation of y. The exact Laplace kernel ridge has gamma and alpha tuned by leave-one-out, up to
MAX_EXACT training rows. Writes benchmarks/results/accuracy.json after every split.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
from scipy import linalg
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.preprocessing import StandardScaler

from mondrian_kernel import MondrianKernelRegressor

RESULT = Path(__file__).parent / "results" / "accuracy.json"
MAX_ROWS, MAX_EXACT = 20_000, 2_500
SETS = [
    "airfoil", "bike", "boston", "california", "concrete", "cpu_act", "elevators", "energy",
    "kin40k", "kin8nm", "pol", "protein", "wine_quality",
]  # fmt: skip


class ExactLaplaceRidge:
    """Kernel ridge with the exact Laplace kernel; gamma and alpha by leave-one-out."""

    def fit(self, X, y):
        self.X, self.mean = X, y.mean()
        best = np.inf
        for gamma in np.geomspace(1e-3, 3, 15):
            values, U = linalg.eigh(laplacian_kernel(X, gamma=gamma))
            Uy = U.T @ (y - self.mean)
            for alpha in np.logspace(-5, 1, 13):
                dual = U @ (Uy / (values + alpha))
                error = np.mean((dual / ((U * U) @ (1 / (values + alpha)))) ** 2)
                if error < best:
                    best, self.gamma, self.dual = error, gamma, dual
        return self

    def predict(self, X):
        return laplacian_kernel(X, self.X, gamma=self.gamma) @ self.dual + self.mean


def methods(n_rows, seed):
    found = {
        "mondrian": MondrianKernelRegressor(random_state=seed, n_jobs=2),
        "extra_trees": ExtraTreesRegressor(200, random_state=seed, n_jobs=2),
        "hist_boosting": HistGradientBoostingRegressor(random_state=seed),
    }
    if n_rows <= MAX_EXACT:
        found["exact_laplace"] = ExactLaplaceRidge()
    return found


def one_split(table, seed):
    order = np.random.default_rng(seed).permutation(len(table))
    n_train = int(0.8 * len(table))
    train, test = table[order[:n_train][:MAX_ROWS]], table[order[n_train:]]
    scaler = StandardScaler().fit(train[:, :-1])
    X, X_test = scaler.transform(train[:, :-1]), scaler.transform(test[:, :-1])
    y, y_test = train[:, -1], test[:, -1]
    row = {"seed": seed, "n_train": len(y), "n_dims": X.shape[1], "error": {}, "fit_seconds": {}}
    for name, model in methods(len(y), seed).items():
        begin = time.perf_counter()
        model.fit(X, y)
        row["fit_seconds"][name] = time.perf_counter() - begin
        row["error"][name] = float(
            np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)) / y.std()
        )
        if name == "mondrian":
            some = slice(0, 2000)
            low, high = model.predict_interval(X_test[some], 0.9).T
            row["coverage"] = float(np.mean((low <= y_test[some]) & (y_test[some] <= high)))
            row["lifetime"], row["alpha"] = model.lifetime_, model.alpha_
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("MONDRIAN_KERNEL_DATA", "."))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", default=",".join(SETS))
    args = parser.parse_args()
    found = {"machine": {"processor": platform.processor(), "cores": os.cpu_count()}, "sets": {}}
    RESULT.parent.mkdir(exist_ok=True)
    for name in args.sets.split(","):
        path = Path(args.data) / f"{name}.csv.gz"
        if not path.exists():
            raise SystemExit(f"{path} is missing: pass --data DIR, or set MONDRIAN_KERNEL_DATA.")
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        found["sets"][name] = rows = []
        for seed in range(args.splits):
            rows.append(one_split(table, seed))
            print(name, json.dumps(rows[-1]), flush=True)
            RESULT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
