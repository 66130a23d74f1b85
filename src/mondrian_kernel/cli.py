"""The command line."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from mondrian_kernel import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="mondrian-kernel",
        description="Laplace-kernel learning with every kernel width at once.",
    )
    parser.add_argument("--version", action="version", version=f"mondrian-kernel {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo_parser = commands.add_parser(
        "demo", help="learn the kernel width of a built-in data set and print what was found"
    )
    demo_parser.add_argument("--seed", type=int, default=0, help="seed of data and trees")
    demo_parser.add_argument("--jobs", type=int, default=None, help="threads")
    args = parser.parse_args(argv)
    try:
        demo(args.seed, args.jobs)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 1
    return 0


def demo(seed: int, n_jobs: int | None) -> None:
    """Learn the width of a function drawn with a known one, and compare with what is usual."""
    import numpy as np
    from scipy import stats
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import train_test_split

    from mondrian_kernel import MondrianKernelRegressor
    from mondrian_kernel.datasets import make_laplace_gp

    truth = 5.0
    X, y = make_laplace_gp(2000, 2, lifetime=truth, noise=0.1, random_state=seed)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed)
    print(f"A function of 2 dims drawn with the Laplace kernel exp(-{truth:g}·|x-x'|), noise 0.1;")
    print(f"{len(y_train)} rows to learn from, {len(y_test)} to test on.\n")

    begin = time.perf_counter()
    model = MondrianKernelRegressor(scale=None, random_state=seed, n_jobs=n_jobs)
    model.fit(X_train, y_train)
    took = time.perf_counter() - begin
    path = model.path_
    assert path is not None
    posterior = path.posterior(stats.loguniform(path.lifetimes[0], path.lifetimes[-1]))
    low, high = posterior.interval(0.9)
    inside = model.predict_interval(X_test, coverage=0.9)
    covered = np.mean((inside[:, 0] <= y_test) & (y_test <= inside[:, 1]))

    def rmse(prediction: object) -> float:
        return float(np.sqrt(np.mean((prediction - y_test) ** 2)))

    print(f"  lifetime (true {truth:g})      {model.lifetime_:.3g}")
    print(f"    90 % posterior       {low:.3g} to {high:.3g}")
    print(f"  penalty alpha          {model.alpha_:.3g}")
    print(f"  trees, cells           {model.n_estimators}, {model.features_.n_cells_}")
    print(f"  widths × alphas tried  {path.lifetimes.size} × {path.alphas.size}")
    print(f"  time, width included   {took:.1f} s")
    print(f"  90 % intervals cover   {100 * covered:.0f} %\n")
    print("  root mean squared error on the test rows (the noise alone: 0.1)")
    rivals = {
        "Mondrian kernel": model,
        "extra trees (100)": ExtraTreesRegressor(random_state=seed).fit(X_train, y_train),
        "linear ridge": RidgeCV().fit(X_train, y_train),
    }
    for name, rival in rivals.items():
        print(f"    {name:<20} {rmse(rival.predict(X_test)):.3f}")
    print(f"    {'mean of y':<20} {rmse(np.full(len(y_test), y_train.mean())):.3f}")
