"""Intervals, quantiles and sets of classes: score, coverage and cost, beside other methods.

A method of numbers is a function of rows, targets, a seed and a number of threads. It returns a
function of new rows: their quantiles at LEVELS. COST is what the intervals of our model take.
"""

import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, mean_pinball_loss

from benchmarks import data
from benchmarks.accuracy import interval_score
from benchmarks.compare import average_ranks, geometric_mean, means, ratios, wide
from benchmarks.measure import best_of, clocked
from benchmarks.methods import OURS, build
from benchmarks.record import Cell, Key
from benchmarks.tables import frame_of, shown, table
from mondrian_kernel import load, save

NINE = np.arange(1, 10) / 10
LEVELS = np.array([0.05, *NINE, 0.95])  # the first and the last are the ends of a 90 % interval
COVERAGES = [0.9, 0.8, 0.6, 0.4, 0.2]  # of the intervals between these levels
MAPIE = f"MAPIE around the {OURS}"
COST, COST_ROWS, FEW_ROWS, MANY_ROWS = f"{OURS}, cost", 100_000, 10_000, 300_000
CLASS_METHODS, CLASS_BINS = (OURS, "LightGBM", "CatBoost"), 15


def from_intervals(ends, middle):
    """Quantiles at LEVELS from the ends of central intervals, widest first, and the middle."""
    low, high = [e[:, 0] for e in ends], [e[:, 1] for e in ends]
    return np.column_stack([*low, middle, *high[::-1]])


def ours(X, y, seed, threads):
    """The regressor's own quantiles."""
    model = build(OURS, X, "regression", seed, threads).fit(X, y)
    return lambda new: model.predict_quantiles(new, LEVELS)


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
    """Cells of the sets: all methods for numbers, cost on the first split, and classes."""
    cells = {}
    for name in options.some(data.names(options.data), 4):
        X, y = data.read(options.data, name)
        of_numbers = not data.is_classes(y)
        if of_numbers and not isinstance(X, np.ndarray):
            continue  # quantile forest and NGBoost take no categories
        call, methods = (one_fit, METHODS) if of_numbers else (one_classifier, CLASS_METHODS)
        for seed in options.seeds:
            shared = (str(options.data), name, options.rows, seed, options.threads)
            cells |= {Key(name, seed, m): Cell(call, (*shared, m)) for m in methods}
            if of_numbers and seed == options.seeds[0]:
                part = 50 if options.quick else 1
                cells[Key(name, seed, COST)] = Cell(one_cost, (*shared, part))
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


def one_cost(folder, name, rows, seed, threads, part):
    """What intervals add to a fit and to predictions, and the first one of a model that was loaded.

    A fit tells the seconds of its stages, so that one fit gives both times. The rows to predict
    are those of the test, again and again; a ``part``-th of them in quick runs. The memory of few
    and of many intervals is that beside the rows, in this order: what was used once is used again.
    """
    problem = data.split(*data.read(folder, name), seed, rows)
    build(OURS, problem.X, "regression", seed, threads).fit(problem.X[:300], problem.y[:300])
    model = build(OURS, problem.X, "regression", seed, threads).fit(problem.X, problem.y)
    seconds = dict(model._seconds)
    own = seconds.pop("errors of rows held out")
    few, n_new, many = (n // part for n in (FEW_ROWS, COST_ROWS, MANY_ROWS))
    new = np.resize(problem.X_test, (many, problem.X_test.shape[1]))
    model.predict_interval(new[:9])
    few_mb, many_mb = (
        clocked(partial(model.predict_interval, new[:n]))[1]["mb"] for n in (few, many)
    )
    new = new[:n_new]
    predict, interval = best_of(2, lambda: model.predict(new), lambda: model.predict_interval(new))
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model")
        again = load(Path(folder) / "model")
    first = clocked(lambda: again.predict_interval(new[:1]))[1]
    return {"task": "cost", "rows": len(problem.y), "fit_ratio": 1 + own / sum(seconds.values()),
            "predict_ratio": interval["cpu"] / predict["cpu"], "new_rows": n_new,
            "predict": predict, "interval": interval, "few_rows": few, "few_mb": few_mb,
            "many_rows": many, "many_mb": many_mb, "first_ms": 1000 * first["cpu"]}  # fmt: skip


def one_classifier(folder, name, rows, seed, threads, method):
    """Calibration of the probabilities of a classifier, and coverage of our sets of classes."""
    problem = data.split(*data.read(folder, name), seed, rows)
    X, y, new, truth = problem.X, problem.y, problem.X_test, problem.y_test
    model, fit = clocked(lambda: build(method, X, "classification", seed, threads).fit(X, y))
    chances = model.predict_proba(new)
    found = {"task": "classification", "rows": len(y), "fit": fit,
             "calibration_error": calibration_error(truth, chances),
             "log_loss": float(log_loss(truth, chances, labels=np.unique(y)))}  # fmt: skip
    if method == OURS:
        member = model.predict_set(new, 0.9)
        found["coverage"] = float(member[np.arange(len(truth)), truth].mean())
        found["set_size"] = float(member.sum(axis=1).mean())
    return found


def calibration_error(y, chances, n_bins=CLASS_BINS):
    """Expected calibration error: how far the probability of the likeliest class is off.

    Rows are put into bins of equal width by that probability; the mean of the distances between
    it and the share of right answers, in each bin, is weighted by the rows of the bin.
    """
    top = chances.max(axis=1)
    off = (chances.argmax(axis=1) == y) - top
    place = np.minimum((top * n_bins).astype(int), n_bins - 1)
    return float(np.abs(np.bincount(place, off, n_bins)).sum() / len(y))


def scores(y, quantiles, scale):
    """Scores of quantiles at LEVELS, over the scale; coverage overall and by fifths."""
    low, high, middle = quantiles[:, 0], quantiles[:, -1], quantiles[:, LEVELS.size // 2]
    inside = (low <= y) & (y <= high)
    fifths = np.array_split(np.argsort(middle, kind="stable"), 5)
    losses = [mean_pinball_loss(y, quantiles[:, 1 + k], alpha=q) for k, q in enumerate(NINE)]
    by_fifth = [float(inside[part].mean()) for part in fifths]
    return {
        "tested": len(y),
        "interval_score": interval_score(y, low, high, 0.9) / scale,
        "pinball": float(np.mean(losses) / scale),
        "coverage": float(inside.mean()),
        "worst_fifth": min(by_fifth),
        "best_fifth": max(by_fifth),
        "by_fifth": by_fifth,
    }


def by_set(cells, value):
    """A score by set and method, with its deviation over splits, the least in bold."""
    if not cells:
        return None
    every = wide(cells, "regression", value)
    found = means(every)
    found = found[[m for m in METHODS if m in found]]
    rows = []
    for name, row in found.iterrows():
        split = every.loc[name]
        line = {"data": name} | {method: spread(split[method]) for method in found}
        best = row.idxmin()
        rows.append(line | {best: f"**{line[best]}**"})
    return table(rows)


def spread(values):
    """Mean, and standard deviation over splits where there are several."""
    values = values.dropna()
    text = shown(values.mean()) if values.size else "–"
    return f"{text} ± {shown(values.std(), 2)}" if values.size > 1 else text


def overview(cells):
    """One line a method: our scores over its, coverage, and the cost of a fit with intervals."""
    if not cells:
        return None
    found = frame_of(cells)
    scores = {what: wide(cells, "regression", what) for what in ("interval_score", "pinball")}
    ranks = average_ranks(means(scores["interval_score"]))[0]
    found = found[found["task"] == "regression"]
    rows = []
    for method in (m for m in METHODS if m in set(found["method"])):
        own = found[found["method"] == method]
        by_set = own.groupby("set")["coverage"].mean()
        ours = {what: geometric_mean(ratios(each, method)) for what, each in scores.items()}
        rows.append({
            "method": method, "sets": int(by_set.size), "splits": int(own["split"].nunique()),
            "mean rank": ranks.get(method),
            "interval score, ours / its": ours["interval_score"],
            "pinball loss, ours / its": ours["pinball"],
            "coverage of 90 %": f"{100 * by_set.mean():.1f} %",
            "of single sets": f"{100 * by_set.min():.0f}–{100 * by_set.max():.0f} %",
            "of the worst fifth": f"{100 * own['worst_fifth'].mean():.0f} %",
            "fit, CPU s": own["fit.cpu"].mean(), "quantiles, CPU s": own["predict.cpu"].mean(),
        })  # fmt: skip
    return table(rows)


def fifths(cells):
    """Our coverage by fifths of the prediction, by set, and the worst one of a single split.

    Beside it is the standard error of a share of 90 % of so many rows.
    """
    own = frame_of({key: cell for key, cell in cells.items() if key.method == OURS})
    rows = []
    for name, part in own[own["task"] == "regression"].groupby("set") if len(own) else ():
        each = np.mean(part["by_fifth"].tolist(), axis=0)
        line = {"data": name, "all rows": f"{100 * part['coverage'].mean():.1f} %"}
        names = ("lowest fifth", "second", "third", "fourth", "highest fifth")
        line |= {f: f"{100 * c:.0f} %" for f, c in zip(names, each, strict=True)}
        error = np.sqrt(0.09 / (part["tested"].max() // 5))
        worst = f"{100 * part['worst_fifth'].min():.0f} ± {100 * error:.1f} %"
        rows.append(line | {"worst of a split": worst})
    return table(rows)


def costs(cells):
    """What intervals cost beside a fit and predictions without them."""
    found = frame_of({key: cell for key, cell in cells.items() if key.method == COST})
    return table([
        {"data": row["set"], "rows": row["rows"], "fit, with / without": row["fit_ratio"],
         "new rows": row["new_rows"], "intervals / predictions": row["predict_ratio"],
         f"MB of {FEW_ROWS} intervals": row.get("few_mb"),
         f"MB of {MANY_ROWS}": row.get("many_mb"),
         "first interval after loading, ms": row["first_ms"]}
        for row in found.to_dict("records")
    ])  # fmt: skip


def classes(cells):
    """Calibration errors of the methods for classes, and our sets of classes."""
    error = wide(cells, "classification", "calibration_error") if cells else ()
    if OURS not in error:
        return None
    found = frame_of(cells)
    own = found[(found["method"] == OURS) & (found["task"] == "classification")].groupby("set")
    rows = []
    for name, row in means(error).iterrows():
        line = {"data": name} | {m: shown(row[m]) for m in CLASS_METHODS if m in row}
        part = own.get_group(name)
        rows.append(line | {"coverage of 90 % sets": f"{100 * part['coverage'].mean():.1f} %",
                            "classes in a set": part["set_size"].mean()})  # fmt: skip
    return table(rows)


TABLES = {
    "intervals": overview,
    "interval_scores": partial(by_set, value="interval_score"),
    "pinball": partial(by_set, value="pinball"),
    "interval_fifths": fifths,
    "interval_costs": costs,
    "calibration": classes,
}
