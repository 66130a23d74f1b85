"""Error and time against the number of rows, ours beside gradient boosting."""

from benchmarks import data
from benchmarks.accuracy import fit_once
from benchmarks.methods import OURS, installed
from benchmarks.record import Cell, Key
from benchmarks.tables import frame_of, shown, table

SETS = ("nycflights_delay", "protein", "kin40k", "elec2", "smooth", "jumps")
METHODS = (OURS, "LightGBM", "LightGBM 1000", "CatBoost")
MOST, HUGE = 1_000_000, 10_000_000
TESTED = 20_000


def plan(options):
    """Cells by set and method; the split is the number of rows, few rows first."""
    cells = {}
    most = 3000 if options.quick else HUGE if options.huge else MOST
    for name in options.some(SETS[::-1], 2):
        whole = most if name in data.DRAWN else min(int(0.8 * _n_rows(options.data, name)), most)
        sizes = [*(n for n in _decades(most) if n < 0.8 * whole), whole]
        for method in installed(METHODS):
            for k, n_rows in enumerate(sizes):
                arguments = (str(options.data), name, n_rows, options.seed, options.threads, method)
                smaller = [Key(name, sizes[k - 1], method)] if k else []
                cells[Key(name, n_rows, method)] = Cell(one_fit, arguments, tuple(smaller))
    return dict(sorted(cells.items(), key=lambda item: item[0].split))


def _decades(most):
    """1000, 3000, 10 000, 30 000 and so on."""
    return [n for k in range(3, 8) for n in (10**k, 3 * 10**k) if n <= most]


def _n_rows(folder, name):
    return data.read(folder, name)[1].size


def one_fit(folder, name, n_rows, seed, threads, method, smaller=None):
    """All that is measured of a model on so many rows; the tested rows are the same for all.

    The cell with fewer rows is needed only because more rows are not tried where it was too slow.
    """
    if name in data.DRAWN:
        draw = data.DRAWN[name]
        problem = data.Split("regression", *draw(n_rows), *draw(TESTED, seed=1))
    else:
        X, y = data.read(folder, name)
        problem = data.split(X, y, seed, int(0.8 * y.size), TESTED)
        problem = problem._replace(X=problem.X[:n_rows], y=problem.y[:n_rows])
    return fit_once(problem, method, seed, threads)[1]


def errors(cells):
    """Errors and, in brackets, CPU seconds of a fit, by set and rows."""
    found = frame_of(cells)
    present = [name for name in METHODS if name in set(found["method"])]
    rows = []
    for (name, n_rows), group in found.groupby(["set", "split"]):
        by = group.set_index("method").reindex(present)
        line = {"data": name, "rows": n_rows}
        for method, cell in by.iterrows():
            slow = "over_seconds" in cell and cell["over_seconds"] > 0
            text = f"{shown(cell['error'])} ({shown(cell['fit.cpu'], 2)})"
            line[method] = "too slow" if slow else text if cell["error"] >= 0 else "–"
        rows.append(line)
    return table(rows)


TABLES = {"growth": errors}
