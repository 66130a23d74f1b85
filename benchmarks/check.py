"""Compare a quick run with the stored ratios to rivals, and fail where ours got worse.

The rivals are scikit-learn's, so that nothing else must be installed. ``--smallest`` compares
errors alone: ratios of the CPU times of short fits depend on what else the machine does.
"""

import json

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import best_of
from benchmarks.methods import OURS, build
from benchmarks.tables import table

RIVALS = ("HistGradientBoosting", "ExtraTrees")
ALLOWED = {"error": 1.1, "fit": 1.3, "predict": 1.3}  # times the stored ratio
SETS, ROWS = ("concrete", "kin8nm", "california", "magic"), 2000
DRAWN_ROWS, ATTEMPTS = 400, 3


def problems(options, smallest):
    """Problems by name: drawn ones, and some of the data folder."""
    found = {}
    for name, draw in data.DRAWN.items():
        X, y = draw(5 * DRAWN_ROWS)
        found[name] = data.split(X, y, 0, DRAWN_ROWS)
        found[f"{name}, classes"] = data.split(X, (y > np.median(y)).astype(int), 0, DRAWN_ROWS)
    if not smallest:
        found |= {name: data.split(*data.read(options.data, name), 0, ROWS) for name in SETS}
    return found


def ratios(problem):
    """Error, fit and predict CPU time of ours over the geometric mean of the rivals'."""
    models = [build(name, problem.X, problem.task) for name in (OURS, *RIVALS)]
    models[0].fit(problem.X, problem.y).predict(problem.X_test)  # compiles or loads
    fit = best_of(2, *(lambda m=m: m.fit(problem.X, problem.y) for m in models))
    predict = best_of(3, *(lambda m=m: m.predict(problem.X_test) for m in models))
    errors = [data.error(problem, m.predict(problem.X_test)) for m in models]
    found = {
        "error": errors,
        "fit": [t["cpu"] for t in fit],
        "predict": [t["cpu"] for t in predict],
    }
    return {name: float(v[0] / np.exp(np.mean(np.log(v[1:])))) for name, v in found.items()}


def worse(found, stored):
    """Names of what is worse than the stored ratios allow; what is not stored is not."""
    return [name for name, ratio in stored.items() if found[name] > ALLOWED[name] * ratio]


def checked(problem, stored):
    """Ratios of a problem; a time that seems worse may be bad luck and is measured again."""
    found = ratios(problem)
    for _ in range(ATTEMPTS - 1):
        if not set(worse(found, stored)) - {"error"}:
            break
        again = ratios(problem)
        found = {name: min(found[name], again[name]) for name in found}
    return found


def run(options, smallest=False, store=False):
    """Print the ratios beside the stored ones; end with an error where one is worse."""
    path = options.out / "check.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    lines, losses, now = [], [], {}
    with threadpool_limits(1):
        for name, problem in problems(options, smallest).items():
            before = {} if store else stored.get(name, {})
            if smallest and before:
                before = {"error": before["error"]}
            now[name] = found = checked(problem, before)
            shown = {w: f"{found[w]:.3g} ({before.get(w, np.nan):.3g})" for w in ALLOWED}
            lines.append({"ours / rivals (stored)": name, **shown})
            losses += [f"{what} on {name}" for what in worse(found, before)]
    print(table(lines))
    if store:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored | now, indent=1) + "\n")
    if losses:
        raise SystemExit(f"Worse than stored: {', '.join(losses)}.")
