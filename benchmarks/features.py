"""Feature maps side by side: time, memory, and error of the kernel at equal time and non-zeros."""

import numpy as np
from scipy import sparse
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import best_of, in_child, peak_mb
from mondrian_kernel import LaplaceFourierFeatures, MondrianFeatures, RandomBinningFeatures

LIFETIME, TREES = 0.02, 350
# Components (trees, grids, frequencies, landmarks) of each map; the first map sets the budget.
LADDER, QUICK_LADDER = (22, 88, 350, 1400), (22, 88, 350)


def maps(n_components, seed, leaves, gaussian_gamma):
    return {
        "MondrianFeatures": MondrianFeatures(LIFETIME, n_components, random_state=seed, n_jobs=1),
        "RandomBinningFeatures": RandomBinningFeatures(LIFETIME, n_components, random_state=seed),
        "LaplaceFourierFeatures": LaplaceFourierFeatures(LIFETIME, n_components, random_state=seed),
        "RBFSampler": RBFSampler(
            gamma=gaussian_gamma, n_components=n_components, random_state=seed
        ),
        "Nystroem(laplacian)": Nystroem(
            "laplacian", gamma=LIFETIME, n_components=n_components, random_state=seed
        ),
        "RandomTreesEmbedding": RandomTreesEmbedding(
            n_components, max_depth=None, max_leaf_nodes=leaves, random_state=seed, n_jobs=1
        ),
    }


def kernels(rows, new):
    """Kernel each map stands for, between rows and new rows; for random trees there is none.

    The Gaussian kernel is as wide as the Laplace kernel: both have the same median.
    """
    laplace = laplacian_kernel(rows, new, gamma=LIFETIME)
    squares = -np.log(rbf_kernel(rows, new, gamma=1e-3)) / 1e-3
    gamma = float(-np.log(np.median(laplace)) / np.median(squares))
    return laplace, rbf_kernel(rows, new, gamma=gamma), gamma


def dense(Phi):
    return Phi.toarray() if sparse.issparse(Phi) else Phi


def grown_by(name, settings, X, new):
    """Memory by which fitting and mapping makes a process grow, in MB; for a child."""
    feature_map = maps(*settings)[name]
    feature_map.fit_transform(X[:1500])  # compiled code is loaded, threads are started
    before = peak_mb()
    feature_map.fit_transform(X)
    feature_map.transform(new)
    return peak_mb() - before


def one_size(X, new, settings, pairs, repeats):
    """Time, non-zeros a row and error of the kernel of every map with so many components."""
    rows, others, laplace, gaussian = pairs
    found = {}
    for name, feature_map in maps(*settings).items():
        Phi = feature_map.fit_transform(X)
        fit, transform = best_of(
            repeats,
            lambda m=feature_map: m.fit_transform(X),
            lambda m=feature_map: m.transform(new),
        )
        error = None
        if name != "RandomTreesEmbedding":
            exact = gaussian if name == "RBFSampler" else laplace
            product = feature_map.transform(rows) @ feature_map.transform(others).T
            error = float(np.sqrt(np.mean((dense(product) - exact) ** 2)))
        found[name] = {
            "columns": Phi.shape[1],
            "non_zeros_a_row": (Phi.nnz if sparse.issparse(Phi) else Phi.size) / len(X),
            "fit_transform": fit,
            "transform_new": transform,
            "kernel_rmse": error,
        }
    return found


def at_budget(ladder, name, budget):
    """Error of a map where time, and where non-zeros, are those of the budget (log-log lines)."""
    steps = [sizes[name] for sizes in ladder]
    if steps[0]["kernel_rmse"] is None:
        return {"equal_time": None, "equal_non_zeros": None}
    errors = np.log([step["kernel_rmse"] for step in steps])

    def read_off(cost):
        costs = np.log([cost(step) for step in steps])
        order = np.argsort(costs)
        wanted = np.log(cost(budget))
        if not costs.min() - 1e-9 <= wanted <= costs.max() + 1e-9:
            return None
        return float(np.exp(np.interp(wanted, costs[order], errors[order])))

    return {
        "equal_time": read_off(lambda step: step["fit_transform"]["cpu_seconds"]),
        "equal_non_zeros": read_off(lambda step: step["non_zeros_a_row"]),
    }


def random_trees(X, new, n_trees, lifetime, seed, repeats):
    """As many random trees with as many leaves, and ours on one thread and on two."""
    ours, two = (MondrianFeatures(lifetime, n_trees, random_state=seed, n_jobs=j) for j in (1, 2))
    ours.fit(X).transform(new)
    leaves = max(2, round(ours.n_cells_ / n_trees))
    theirs = RandomTreesEmbedding(
        n_trees, max_depth=None, max_leaf_nodes=leaves, random_state=seed, n_jobs=1
    ).fit(X)
    fits = best_of(repeats, *(lambda m=m: m.fit_transform(X) for m in (ours, theirs, two)))
    walks = best_of(repeats, *(lambda m=m: m.transform(new) for m in (ours, theirs, two)))
    found = {
        "rows": len(X), "dims": X.shape[1], "new_rows": len(new), "trees": n_trees,
        "cells": ours.n_cells_,
    }  # fmt: skip
    for what, times in (("fit_transform", fits), ("transform", walks)):
        wall = [t["wall_seconds"] for t in times]
        found[what] = times[0]
        found[f"{what}_times_faster"] = wall[1] / wall[0]
        found[f"{what}_speedup_of_two_threads"] = wall[0] / wall[2]
    return found


def measure(run):
    section = run.section("features")
    repeats = 1 if run.quick else 3
    X, y, train, _, test = data.cpu_act(run.data)
    split = data.scaled(X, y, train, test)
    rows, others = split.X[:500], split.X_test[:500]
    laplace, gaussian, gamma = kernels(rows, others)
    cells = MondrianFeatures(LIFETIME, TREES, random_state=run.seed).fit(split.X).n_cells_
    leaves = round(cells / TREES)
    sizes = {"rows": len(split.X), "dims": X.shape[1], "lifetime": LIFETIME, "trees": TREES}
    section.put(sizes, "data")
    ladder = []
    with threadpool_limits(1):
        for n_components in QUICK_LADDER if run.quick else LADDER:
            settings = (n_components, run.seed, leaves, gamma)
            pairs = rows, others, laplace, gaussian
            ladder.append(one_size(split.X, split.X_test, settings, pairs, repeats))
            section.put(ladder[-1], "components", str(n_components))
        budget = section.found["components"][str(TREES)]["MondrianFeatures"]
        settings = (TREES, run.seed, leaves, gamma)
        for name in ladder[0]:
            grown = in_child(grown_by, name, settings, split.X, split.X_test)
            section.put({"grown_by_mb": grown, **at_budget(ladder, name, budget)}, "budget", name)
        section.put(
            random_trees(split.X, split.X_test, TREES, LIFETIME, run.seed, repeats),
            "random trees", "cpu_act",
        )  # fmt: skip
        n = 20_000 if run.quick else 100_000
        large = random_trees(
            data.normal(n, 20), data.normal(n // 5, 20, seed=1), 50, 0.1, run.seed, repeats
        )
        section.put(large, "random trees", "normal")
