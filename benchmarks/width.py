"""Searches for the width: the time each takes to come within 1 % of the best it ever reaches."""

import time

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import clocked
from benchmarks.rivals import CentredRidge
from mondrian_kernel import LaplaceFourierFeatures, RandomBinningFeatures, lifetime_path

SETS = ("cpu_act", "california", "kin8nm", "protein")
GAMMAS, ALPHAS = np.geomspace(1e-3, 3, 12), np.logspace(-4, 1, 6)
TREES, COMPONENTS, PROCESS_ROWS, THREADS = 350, 1000, 1000, 2


def searches(n_components, seed):
    """Estimator and grid of each rival: every width with every penalty."""

    def grid(width, penalty):
        return list(ParameterGrid({width: GAMMAS, penalty: ALPHAS}))

    def on_features(feature_map, width):
        step = type(feature_map).__name__.lower()
        pipeline = make_pipeline(feature_map, Ridge(random_state=seed))
        return pipeline, grid(f"{step}__{width}", "ridge__alpha")

    return {
        "KernelRidge(laplacian)": (CentredRidge(kernel="laplacian"), grid("gamma", "alpha")),
        "Nystroem(laplacian) + Ridge": on_features(
            Nystroem("laplacian", n_components=n_components, random_state=seed), "gamma"
        ),
        "LaplaceFourierFeatures + Ridge": on_features(
            LaplaceFourierFeatures(n_components=n_components, random_state=seed), "lifetime"
        ),
        "RandomBinningFeatures + Ridge": on_features(
            RandomBinningFeatures(n_grids=TREES, random_state=seed), "lifetime"
        ),
    }


def error(y, predicted, std):
    return float(np.sqrt(np.mean((predicted - y) ** 2)) / std)


def search(model, grid, train, val, test, limit, seed):
    """Fit the grid in random order, so that its order decides nothing, until time is up."""
    std, steps, best, chosen = train[1].std(), [], np.inf, None
    begin = time.perf_counter()
    for k in np.random.default_rng(seed).permutation(len(grid)):
        candidate = clone(model).set_params(**grid[k]).fit(*train)
        found = error(val[1], candidate.predict(val[0]), std)
        steps.append((time.perf_counter() - begin, found))
        if found < best:
            best, chosen = found, candidate
        if steps[-1][0] > limit:
            break
    return {
        **summary(steps),
        "fits": len(steps),
        "of": len(grid),
        "test_error": error(test[1], chosen.predict(test[0]), std),
    }


def summary(steps):
    """Best held-out error of (seconds, error) pairs, and when 1.01 times it was first reached."""
    best = min(found for _, found in steps)
    return {
        "held_out_error": best,
        "seconds_to_one_percent": next(t for t, found in steps if found <= 1.01 * best),
        "seconds": steps[-1][0],
    }


def one_call(call, train, val, test):
    """A method that chooses by itself: it has its answer when the call is over."""
    model, times = clocked(call)
    std = train[1].std()
    found = error(val[1], model.predict(val[0]), std)
    return {
        **summary([(times["wall_seconds"], found)]),
        "test_error": error(test[1], model.predict(test[0]), std),
    }


def process(train, seed):
    """Gaussian process with the Matern kernel of order 1/2, by likelihood, on some of the rows."""
    kernel = ConstantKernel(1.0) * Matern(5.0, (0.1, 1e3), nu=0.5) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    return model.fit(train[0][:PROCESS_ROWS], train[1][:PROCESS_ROWS])


def one_set(run, section, name, limit, max_rows):
    split = data.random_split(*data.read(run.data, name), run.seed, max_rows, 2_000)
    n_val = len(split.X) // 5
    val = split.X[:n_val], split.y[:n_val]
    train, test = (split.X[n_val:], split.y[n_val:]), (split.X_test, split.y_test)
    section.put(len(train[1]), name, "rows")

    def path(train):
        return lifetime_path(
            *train, n_estimators=TREES, criterion="holdout", validation=val, tol=1e-3,
            random_state=run.seed, n_jobs=THREADS,
        )  # fmt: skip

    path([part[:100] for part in train])  # compiled code is loaded before the clock runs
    section.put(one_call(lambda: path(train), train, val, test), name, "searches", "lifetime path")
    n_components = 200 if run.quick else COMPONENTS
    for rival, (model, grid) in searches(n_components, run.seed).items():
        found = search(model, grid, train, val, test, limit, run.seed)
        section.put(found, name, "searches", rival)
    found = one_call(lambda: process(train, run.seed), train, val, test)
    found["rows"] = min(PROCESS_ROWS, len(train[1]))
    section.put(found, name, "searches", "GaussianProcessRegressor(Matern 1/2)")


def measure(run):
    section = run.section("width")
    limit, max_rows = (1.0, 300) if run.quick else (20.0, 8_000)
    with threadpool_limits(THREADS):
        for name in SETS:
            one_set(run, section, name, limit, max_rows)
