"""The lifetime path on the paper's CPU data beside one exact kernel ridge fit."""

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from benchmarks import data
from benchmarks.measure import best_of, clocked
from benchmarks.record import Cell, Key
from benchmarks.tables import of_cells
from mondrian_kernel import every_cut_path, lifetime_path

TREES, END = 350, 0.03
ALPHAS = np.logspace(-2, 1, 10)
RAW_LIFETIME, RAW_ALPHA = 1e-6, 1e-4  # of the paper, on raw columns


def plan(options):
    """Cells by job: a path by criterion, and every cut."""
    folder, quick, threads = str(options.data), options.quick, options.threads
    cells = {
        Key("cpu_act", 0, criterion): Cell(beside_ridge, (folder, criterion, quick, threads))
        for criterion in ("holdout", "loo")
    }
    cells[Key("every cut", 0, "ridge")] = Cell(every_cut, (folder, quick))
    return cells


def percent(prediction, y):
    """The paper's error, 100·‖ŷ - y‖ / ‖y‖."""
    return float(100 * np.linalg.norm(prediction - y) / np.linalg.norm(y))


def beside_ridge(folder, criterion, quick, threads):
    """Rows to chosen width, beside KernelRidge at one width and penalty."""
    (X, y), validation, (X_test, y_test) = data.cpu_act(folder, quick)
    held = {"validation": validation} if criterion == "holdout" else {}
    ridge = KernelRidge(alpha=1e-2, kernel="laplacian", gamma=0.01)

    def fit(alphas, **settings):
        return lifetime_path(
            X, y, n_estimators=TREES, alphas=alphas, tol=1e-3, criterion=criterion,
            random_state=0, n_jobs=threads, **held, **settings,
        )  # fmt: skip

    whole = {"max_lifetime": END, "n_lifetimes": 6 if quick else 50}
    path = fit(ALPHAS, **whole)
    last = {"lifetimes": [END], "solver": str(path.solver[-1])}
    ours, exact, one = best_of(
        1 if quick else 2,
        lambda: fit(ALPHAS, **whole),
        lambda: ridge.fit(X, y),
        lambda: fit([path.best_alpha], **last),
    )
    return {
        "rows": len(X),
        "fits": f"{path.lifetimes.size} × {path.alphas.size}",
        "cpu": ours["cpu"],
        "over_ridge": ours["cpu"] / exact["cpu"],
        "over_one_fit": ours["cpu"] / one["cpu"],
        "error_percent": percent(path.predict(X_test), y_test),
        "ridge_error_percent": percent(ridge.predict(X_test), y_test),
    }


def every_cut(folder, quick):
    """Exact ridge after each cut on raw columns, beside one exact fit after the last."""
    X, y = data.read(folder, "cpu_act")
    fold = np.arange(y.size) % 10
    train = (fold < 8) & (np.arange(y.size) % 8 == 0 if quick else True)
    settings = {"max_lifetime": RAW_LIFETIME, "alphas": [RAW_ALPHA], "criterion": "holdout",
                "validation": (X[fold == 8], y[fold == 8] + 1), "random_state": 0}  # fmt: skip
    X, y = X[train], y[train] + 1
    every_cut_path(X[:200], y[:200], n_estimators=10, **settings)  # compiles
    n_trees = 50 if quick else TREES
    path, times = clocked(lambda: every_cut_path(X, y, n_estimators=n_trees, **settings))
    Phi = path.features(path.lifetimes[-1]).transform(X).toarray()
    _, one_fit = clocked(lambda: Ridge(RAW_ALPHA, solver="cholesky").fit(Phi, y))
    return {"trees": n_trees, "cuts": path.lifetimes.size - 1, **times,
            "over_one_fit": times["cpu"] / one_fit["cpu"]}  # fmt: skip


TABLES = {
    "path": lambda cells: of_cells(cells, {
        "method": "criterion", "rows": "rows", "fits": "widths × penalties", "cpu": "path, CPU s",
        "over_ridge": "over one `KernelRidge.fit`", "over_one_fit": "over one fit at its end",
        "error_percent": "test error, %", "ridge_error_percent": "`KernelRidge`'s, %",
    }, "cpu_act"),
    "every_cut": lambda cells: of_cells(cells, {
        "trees": "trees", "cuts": "cuts", "cpu": "every cut, CPU s",
        "over_one_fit": "over one `Ridge.fit` after the last",
    }, "every cut"),
}  # fmt: skip
