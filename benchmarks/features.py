"""Feature maps side by side: time, memory and error of the kernel for equal components."""

import numpy as np
from scipy import sparse
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from benchmarks import data
from benchmarks.measure import best_of, clocked
from benchmarks.record import Cell, Key
from benchmarks.tables import of_cells
from mondrian_kernel import LaplaceFourierFeatures, MondrianFeatures, RandomBinningFeatures

LIFETIME, OURS = 0.02, "MondrianFeatures"
COMPONENTS = (22, 88, 350, 1400)  # trees, grids, frequencies or landmarks


def maps(n_components, leaves, gaussian_gamma, threads):
    shared = {"n_components": n_components, "random_state": 0}
    return {
        OURS: MondrianFeatures(LIFETIME, n_components, random_state=0, n_jobs=threads),
        "RandomBinningFeatures": RandomBinningFeatures(LIFETIME, n_components, random_state=0),
        "LaplaceFourierFeatures": LaplaceFourierFeatures(LIFETIME, n_components, random_state=0),
        "RBFSampler": RBFSampler(gamma=gaussian_gamma, **shared),
        "Nystroem(laplacian)": Nystroem("laplacian", gamma=LIFETIME, **shared),
        "RandomTreesEmbedding": RandomTreesEmbedding(
            n_components, max_depth=None, max_leaf_nodes=leaves, random_state=0, n_jobs=threads
        ),
    }


def plan(options):
    """Cells by map; the split is the number of components."""
    sizes = COMPONENTS[:2] if options.quick else COMPONENTS
    return {
        Key("cpu_act", n, name): Cell(one_map, (str(options.data), name, n, options.threads))
        for n in sizes
        for name in maps(n, 2, 1.0, 1)
    }


def one_map(folder, name, n_components, threads):
    """Time, memory, non-zeros a row and error of the kernel of a map of the CPU data.

    Random trees have as many leaves as ours have cells, and stand for no kernel. The Gaussian
    kernel is as wide as the Laplace kernel: both have the same median.
    """
    (X, _), _, (new, _) = data.cpu_act(folder)
    leaves = MondrianFeatures(LIFETIME, 20, random_state=0).fit(X).n_cells_ // 20
    exact = laplacian_kernel(X[:500], new[:500], gamma=LIFETIME)
    squares = -np.log(rbf_kernel(X[:500], new[:500], gamma=1e-3)) / 1e-3
    gamma = float(-np.log(np.median(exact)) / np.median(squares))
    if name == "RBFSampler":
        exact = rbf_kernel(X[:500], new[:500], gamma=gamma)
    feature_map = maps(n_components, max(leaves, 2), gamma, threads)[name]
    feature_map.fit_transform(X[:1500])  # compiled code is loaded
    Phi, fit = clocked(lambda: feature_map.fit_transform(X))
    times = best_of(3, lambda: feature_map.fit_transform(X), lambda: feature_map.transform(new))
    product = feature_map.transform(X[:500]) @ feature_map.transform(new[:500]).T
    product = product.toarray() if sparse.issparse(product) else product
    none = name == "RandomTreesEmbedding"
    return {
        "columns": Phi.shape[1],
        "non_zeros": (Phi.nnz if sparse.issparse(Phi) else Phi.size) / len(X),
        "fit": times[0] | {"mb": fit["mb"]},
        "transform": times[1],
        "kernel_rmse": None if none else float(np.sqrt(np.mean((product - exact) ** 2))),
    }


TABLES = {
    "features": lambda cells: of_cells(cells, {
        "method": "map", "split": "components", "columns": "columns",
        "non_zeros": "non-zeros a row", "fit.cpu": "fit and map, CPU s",
        "transform.cpu": "map new rows, CPU s", "fit.mb": "MB",
        "kernel_rmse": "error of the kernel",
    })
}  # fmt: skip
