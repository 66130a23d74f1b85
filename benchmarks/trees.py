"""How many trees: error and time of the regressor against their number, at the width it chooses."""

from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import clocked
from mondrian_kernel import MondrianKernelRegressor

SETS = ("concrete", "airfoil", "elevators", "bike", "cpu_act", "kin8nm")
TREES = (250, 500, 1000, 2000, 4000)
MAX_ROWS = 8_000


def against_trees(split, numbers, seed):
    """Errors, and seconds to fit and to predict, for each number of trees."""
    chosen = MondrianKernelRegressor(random_state=seed).fit(split.X, split.y)
    settings = {"lifetime": chosen.lifetime_, "alpha": chosen.alpha_, "random_state": seed}
    found = {"auto": chosen.features_.n_estimators, "rows": len(split.y), **settings, "trees": {}}
    for n_trees in numbers:
        model = MondrianKernelRegressor(n_estimators=n_trees, scale=chosen.scale_, **settings)
        _, fit = clocked(lambda model=model: model.fit(split.X, split.y))
        predicted, predict = clocked(lambda model=model: model.predict(split.X_test))
        found["trees"][str(n_trees)] = {
            "error": data.error("regression", split, predicted),
            "fit": fit,
            "predict": predict,
        }
    return found


def measure(run):
    section = run.section("trees")
    rows, numbers = (300, TREES[:2]) if run.quick else (MAX_ROWS, TREES)
    with threadpool_limits(1):
        for name in SETS[:2] if run.quick else SETS:
            split = data.random_split(*data.read(run.data, name), run.seed, rows)
            section.put(against_trees(split, numbers, run.seed), "sets", name)
