"""Intervals and quantiles: their score, coverage and cost, beside other ways to get them.

A method is a function of rows, targets, a seed and a number of threads. It returns a function of
new rows: their quantiles at LEVELS.
"""

from functools import partial
from importlib import import_module

import numpy as np
from sklearn.metrics import mean_pinball_loss

from benchmarks import data
from benchmarks.accuracy import interval_score
from benchmarks.compare import average_ranks, means, wide
from benchmarks.measure import clocked
from benchmarks.methods import OURS, build
from benchmarks.record import Cell, Key
from benchmarks.tables import frame_of, shown, table

NINE = np.arange(1, 10) / 10
LEVELS = np.array([0.05, *NINE, 0.95])  # the first and the last are the ends of a 90 % interval
COVERAGES = [0.9, 0.8, 0.6, 0.4, 0.2]  # of the intervals between these levels
MAPIE = f"MAPIE around the {OURS}"


def from_intervals(ends, middle):
    """Quantiles at LEVELS from the ends of central intervals, widest first, and the middle."""
    low, high = [e[:, 0] for e in ends], [e[:, 1] for e in ends]
    return np.column_stack([*low, middle, *high[::-1]])


def ours(X, y, seed, threads):
    """The regressor's own quantiles, or the ends of its intervals where it has none."""
    model = build(OURS, X, "regression", seed, threads).fit(X, y)
    if hasattr(model, "predict_quantiles"):
        return lambda new: model.predict_quantiles(new, LEVELS)
    return lambda new: from_intervals(
        [model.predict_interval(new, c) for c in COVERAGES], model.predict(new)
    )


def mapie(X, y, seed, threads):
    """MAPIE's cross-conformal intervals of five folds around our regressor."""
    kind = import_module("mapie.regression").CrossConformalRegressor
    model = kind(build(OURS, X, "regression", seed, threads), COVERAGES, cv=5, random_state=seed)
    model.fit_conformalize(X, y)

    def quantiles(new):
        middle, ends = model.predict_interval(new)
        return from_intervals(np.moveaxis(ends, 2, 0), middle)

    return quantiles


def conformal(fit, X, y, seed, threads):
    """Quantile regression, each quantile shifted to its share on a fifth of the rows held out.

    The level is moved from the middle by one row, since a quantile of n rows is that of n + 1.
    """
    held, train = np.split(np.random.default_rng(seed).permutation(y.size), [y.size // 5])
    raw = fit(X[train], y[train], seed, threads)
    levels = np.clip(LEVELS + (LEVELS - 0.5) * 2 / held.size, 0, 1)
    rest = y[held, None] - raw(X[held])
    shift = np.array([np.quantile(rest[:, k], level) for k, level in enumerate(levels)])
    return lambda new: np.sort(raw(new) + shift, axis=1)


def lightgbm(X, y, seed, threads):
    models = [
        build("LightGBM", X, "regression", seed, threads, objective="quantile", alpha=a).fit(X, y)
        for a in LEVELS
    ]
    return lambda new: np.column_stack([model.predict(new) for model in models])


def catboost(X, y, seed, threads):
    loss = f"MultiQuantile:alpha={','.join(f'{level:.2f}' for level in LEVELS)}"
    return build("CatBoost", X, "regression", seed, threads, loss_function=loss).fit(X, y).predict


def quantile_forest(X, y, seed, threads):
    kind = import_module("quantile_forest").RandomForestQuantileRegressor
    model = kind(random_state=seed, n_jobs=threads).fit(X, y)
    return lambda new: model.predict(new, quantiles=list(LEVELS))


def ngboost(X, y, seed, threads):
    model = import_module("ngboost").NGBRegressor(random_state=seed, verbose=False).fit(X, y)

    def quantiles(new):
        normal = model.pred_dist(new)
        return np.column_stack([normal.ppf(level) for level in LEVELS])

    return quantiles


METHODS = {
    OURS: ours,
    "LightGBM, conformal": partial(conformal, lightgbm),
    "CatBoost, conformal": partial(conformal, catboost),
    "quantile forest": quantile_forest,
    "NGBoost": ngboost,
    MAPIE: mapie,
}


def plan(options):
    """Cells of the sets of numbers with a numeric target."""
    cells = {}
    for name in options.some(data.names(options.data), 4):
        X, y = data.read(options.data, name)
        if not data.is_classes(y) and isinstance(X, np.ndarray):
            for seed in options.seeds:
                shared = (str(options.data), name, options.rows, seed, options.threads)
                cells |= {Key(name, seed, m): Cell(one_fit, (*shared, m)) for m in METHODS}
    return dict(sorted(cells.items(), key=lambda item: item[0].split))


def one_fit(folder, name, rows, seed, threads, method):
    """Scores, coverage and cost of the quantiles of a method on one split."""
    problem = data.split(*data.read(folder, name), seed, rows)
    if method in (OURS, MAPIE):  # compiles or loads
        ours(problem.X[:300], problem.y[:300], seed, threads)(problem.X[:9])
    quantiles, fit = clocked(lambda: METHODS[method](problem.X, problem.y, seed, threads))
    found, predict = clocked(lambda: quantiles(problem.X_test))
    return {"task": "regression", **scores(problem.y_test, found, problem.y.std()),
            "rows": len(problem.y), "fit": fit, "predict": predict}  # fmt: skip


def scores(y, quantiles, scale):
    """Scores of quantiles at LEVELS, over the scale; coverage overall and by fifths."""
    low, high, middle = quantiles[:, 0], quantiles[:, -1], quantiles[:, LEVELS.size // 2]
    inside = (low <= y) & (y <= high)
    fifths = np.array_split(np.argsort(middle, kind="stable"), 5)
    losses = [mean_pinball_loss(y, quantiles[:, 1 + k], alpha=q) for k, q in enumerate(NINE)]
    by_fifth = [float(inside[part].mean()) for part in fifths]
    return {
        "interval_score": interval_score(y, low, high, 0.9) / scale,
        "pinball": float(np.mean(losses) / scale),
        "coverage": float(inside.mean()),
        "worst_fifth": min(by_fifth),
        "by_fifth": by_fifth,
    }


def by_set(cells, value):
    """A score by set and method, the least in bold."""
    found = means(wide(cells, "regression", value))
    found = found[[m for m in METHODS if m in found]]
    rows = []
    for name, row in found.iterrows():
        line = {"data": name} | {method: shown(score) for method, score in row.items()}
        rows.append(line | {row.idxmin(): f"**{line[row.idxmin()]}**"})
    return table(rows)


def overview(cells):
    """One line a method: mean ranks, coverage, and the cost of a fit with intervals."""
    found = frame_of(cells)
    score, pinball = (
        average_ranks(means(wide(cells, "regression", what)))[0]
        for what in ("interval_score", "pinball")
    )
    rows = []
    for method in (m for m in METHODS if m in set(found["method"])):
        own = found[found["method"] == method]
        rows.append({
            "method": method, "rank by interval score": score.get(method),
            "rank by pinball loss": pinball.get(method),
            "coverage of 90 %": f"{100 * own['coverage'].mean():.1f} %",
            "in the worst fifth": f"{100 * own['worst_fifth'].mean():.0f} %",
            "of the worst set": f"{100 * own['worst_fifth'].min():.0f} %",
            "fit, CPU s": own["fit.cpu"].mean(), "quantiles, CPU s": own["predict.cpu"].mean(),
        })  # fmt: skip
    return table(rows)


TABLES = {
    "intervals": overview,
    "interval_scores": partial(by_set, value="interval_score"),
    "pinball": partial(by_set, value="pinball"),
}
