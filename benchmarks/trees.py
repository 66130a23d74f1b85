"""Error and time of our models against the number of trees, and with all columns alike."""

from benchmarks import data
from benchmarks.accuracy import outcome
from benchmarks.methods import OURS, build
from benchmarks.record import Cell, Key
from benchmarks.tables import frame_of, shown, table

SETS = ("concrete", "airfoil", "elevators", "bike", "cpu_act", "kin8nm", "magic", "satimage")
SETTINGS = {"default": {}, "columns alike": {"relevance": "equal"}} | {
    f"{n} trees": {"n_estimators": n} for n in (30, 100, 300, 1000, 3000)
}


def plan(options):
    """Cells of each set, split and setting."""
    return {
        Key(name, seed, setting): Cell(
            one_fit, (str(options.data), name, options.rows, seed, options.threads, setting)
        )
        for seed in options.seeds
        for name in options.some(SETS, 2)
        for setting in SETTINGS
    }


def one_fit(folder, name, rows, seed, threads, setting):
    """All that is measured of our model with a setting, on one split."""
    problem = data.split(*data.read(folder, name), seed, rows)

    def fitted(X, y):
        model = build(OURS, problem.X, problem.task, seed, threads)
        return model.set_params(**SETTINGS[setting]).fit(X, y)

    fitted(problem.X[:300], problem.y[:300])  # compiles or loads
    return outcome(problem, lambda: fitted(problem.X, problem.y))


def against_trees(cells):
    """Error and, in brackets, CPU seconds of a fit; means over splits."""
    found = frame_of(cells).groupby(["set", "method"]).mean(numeric_only=True)
    rows = []
    for name in found.index.unique("set"):
        own = found.loc[name].reindex(list(SETTINGS))
        texts = {m: f"{shown(c['error'])} ({shown(c['fit.cpu'], 2)})" for m, c in own.iterrows()}
        rows.append({"data": name, "rows": int(own["rows"].max()), **texts})
    return table(rows)


TABLES = {"trees": against_trees}
