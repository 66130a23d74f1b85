"""Error, time, memory and size of models beside their rivals, on every set of the folder.

Every method has its defaults. Those that have a space are measured once more after a random search
that may take as long as our fit on the same split (or ``--budget`` CPU seconds), on two splits.
"""

import pickle
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from benchmarks import compare, data
from benchmarks.compare import means, paired_p, ratios, rivals, wide
from benchmarks.measure import clocked
from benchmarks.methods import METHODS, OURS, SEARCHED, build, installed, search
from benchmarks.record import Cell, Key
from benchmarks.tables import frame_of, p_value, table
from mondrian_kernel import save

INTERVAL_ROWS, SEARCHED_SPLITS = 1000, 2


def plan(options):
    """Cells of all sets, splits and methods, the first split of every set first."""
    found = data.names(options.data)
    harder = [name for name in data.HARDER if name.partition("-")[0] in found]
    cells = {}
    for name in options.some([*found, *harder], 3):
        _, y = data.read(options.data, name)
        task = "classification" if data.is_classes(y) else "regression"
        n_train = min(int(0.8 * y.size), options.rows)
        for seed in options.seeds:
            arguments = (str(options.data), name, options.rows, seed, options.threads)
            for method in installed():
                spec, ours = METHODS[method], Key(name, seed, OURS)
                if task not in spec.tasks or n_train > spec.max_rows:
                    continue
                cells[Key(name, seed, method)] = Cell(one_fit, (*arguments, method))
                if spec.space and seed in options.seeds[:SEARCHED_SPLITS]:
                    needs = () if options.budget else (ours,)
                    cells[Key(name, seed, method + SEARCHED)] = Cell(
                        one_search, (*arguments, method, options.budget), needs
                    )
    return dict(sorted(cells.items(), key=lambda item: item[0].split))


def one_fit(folder, name, rows, seed, threads, method):
    """All that is measured of a model with its defaults on one split."""
    problem = data.split(*data.read(folder, name), seed, rows)
    model, found = fit_once(problem, method, seed, threads)
    if method == OURS and problem.task == "regression":
        rows, y = problem.X_test[:INTERVAL_ROWS], problem.y_test[:INTERVAL_ROWS]
        if found["encoded"]:
            rows, model = model[:-1].transform(rows), model[-1]
        ends, found["interval"] = clocked(lambda: model.predict_interval(rows, 0.9))
        found["coverage"] = float(np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])))
        found["interval_score"] = interval_score(y, *ends.T, 0.9) / problem.y.std()
    return found


def fit_once(problem, method, seed, threads):
    """Return a fitted model, and what it took; a frame it does not take as it is gets encoded."""
    X, y, task = problem.X, problem.y, problem.task
    for encode in (False, True):
        try:
            if method == OURS:  # compiled code is compiled or loaded before anything is measured
                small = build(OURS, X, task, seed, threads, encode).fit(X[:300], y[:300])
                small.predict(X[:300])
            model = build(method, X, task, seed, threads, encode)
            return model, outcome(problem, lambda m=model: m.fit(X, y)) | {"encoded": encode}
        except (TypeError, ValueError):
            if encode or isinstance(X, np.ndarray):
                raise


def one_search(folder, name, rows, seed, threads, method, budget, ours=None):
    """The same of a rival after a random search within the CPU time of our fit."""
    problem = data.split(*data.read(folder, name), seed, rows)
    budget = budget or ours["fit"]["cpu"]
    build(method, problem.X, problem.task)  # imports
    trials = []

    def fit():
        model, n = search(method, problem.X, problem.y, problem.task, seed, threads, budget)
        trials.append(n)
        return model

    return outcome(problem, fit) | {"trials": trials[0], "budget": budget}


def outcome(problem, fit):
    """Error, times, memory and size of the model that a call returns."""
    model, fit_cost = clocked(fit)
    predicted, predict_cost = clocked(lambda: model.predict(problem.X_test))
    found = {
        "task": problem.task,
        "error": data.error(problem, predicted),
        "rows": len(problem.y),
        "tested": len(problem.y_test),
        "fit": fit_cost,
        "predict": predict_cost,
        "size_mb": size_mb(model),
    }
    if problem.task == "classification" and hasattr(model, "predict_proba"):
        chances = model.predict_proba(problem.X_test)
        found["log_loss"] = float(log_loss(problem.y_test, chances, labels=np.unique(problem.y)))
    return found


def interval_score(y, low, high, coverage):
    """Winkler's: mean length, and 2/(1 - coverage) times the distance of y outside."""
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - coverage) * outside))


def size_mb(model):
    """Size of the saved model: our own file, or a pickle."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        if type(model).__module__.startswith("mondrian_kernel"):
            save(model, path)
        else:
            path.write_bytes(pickle.dumps(model))
        return path.stat().st_size / 2**20


def sets_table(cells, task, value="error", harder=False):
    """Means and spreads over splits by set, the least in bold; our ratio to the best rival."""
    found = wide(cells, task, value, harder)
    if OURS not in found:
        return None
    found, every = found[found[OURS].notna()], frame_of(cells)
    average, n_rows = means(found), every.groupby("set")["rows"].max()
    own = every[every["method"] == OURS].groupby("set").mean(numeric_only=True)
    present = [name for name in METHODS if name in found]
    scale, digits = (100, 1) if value == "error" and task == "classification" else (1, 3)
    rows = []
    for name, row in average.iterrows():
        splits, others = found.loc[name], rivals(average).loc[name].dropna()
        best, least = row[present].idxmin(), others.min() if others.size else np.nan
        p = paired_p(splits[OURS], splits[others.idxmin()]) if others.size else None
        spreads = {m: spread(splits[m] * scale, digits) for m in present}
        spreads[best] = f"**{spreads[best]}**"
        line = {"data": name, "rows": int(n_rows[name]), **spreads}
        line |= {"ours / best rival": row[OURS] / least if least else None, "p": p_value(p)}
        if task == "regression":
            line |= {"coverage of 90 %": own.loc[name].get("coverage"),
                     "interval score": own.loc[name].get("interval_score")}  # fmt: skip
        rows.append(line | {"fit, CPU s": own.loc[name, "fit.cpu"]})
    return table(rows)


def spread(values, digits):
    """Mean and standard deviation over splits."""
    values = values.dropna()
    if not values.size or np.isinf(values).any():
        return "too slow" if values.size else "–"
    return f"{values.mean():.{digits}f}" + (
        f" ± {values.std():.{digits}f}" if values.size > 1 else ""
    )


COSTS = {"fit.cpu": "fit time", "predict.cpu": "predict time", "fit.mb": "memory",
         "size_mb": "file"}  # fmt: skip


def summary(cells, task):
    """One line a rival: errors, and what they cost, ours over theirs as geometric means."""
    errors = wide(cells, task)
    if OURS not in errors:
        return None
    costs = {what: wide(cells, task, what) for what in COSTS}
    costs["fit.mb"] = costs["fit.mb"].clip(lower=1.0)  # below is the noise of a process
    order = [name + end for name in METHODS for end in ("", SEARCHED)]
    rows = []
    for rival in sorted(rivals(errors, searched=True), key=order.index):
        found = ratios(errors, rival)
        rows.append(
            {
                "rival": rival,
                "sets": found.size,
                "error, ours / rival": compare.geometric_mean(found),
                "ours better": np.sum(found < 1),
                "p": p_value(compare.wilcoxon_p(found)),
            }
            | {COSTS[what]: compare.geometric_mean(ratios(costs[what], rival)) for what in COSTS}
        )
    return table(rows)


def ranks(cells):
    """Mean ranks of the methods with defaults that were measured on all sets, by task."""
    rows = []
    for task in ("regression", "classification"):
        errors = wide(cells, task)
        if OURS in errors:
            found, n_sets = compare.average_ranks(means(errors[[OURS, *rivals(errors)]]))
            text = ", ".join(f"{name} {rank:.2f}" for name, rank in found.items())
            difference = compare.critical_difference(found.size, n_sets)
            rows.append({"task": task, "sets": n_sets, "mean ranks": text,
                         "critical difference": difference})  # fmt: skip
    return table(rows)


def on_threads(*runs):
    """Wall times of fits and predictions, ours over a rival's, with one thread, with two, ..."""
    rows = []
    for rival in METHODS:
        line = {"rival": rival}
        for value in ("fit.wall", "predict.wall"):
            for n, cells in enumerate(runs, 1):
                tables = [wide(cells, task, value) for task in ("regression", "classification")]
                found = np.concatenate([ratios(each, rival) for each in tables])
                title = f"{value.removesuffix('.wall')}, {n} thread{'s' if n > 1 else ''}"
                line[title] = compare.geometric_mean(found)
        if rival != OURS and None not in line.values():
            rows.append(line)
    return table(rows)


TABLES = {
    "accuracy": partial(sets_table, task="regression"),
    "classification": partial(sets_table, task="classification"),
    "log_loss": partial(sets_table, task="classification", value="log_loss"),
    "harder_regression": partial(sets_table, task="regression", harder=True),
    "harder_classification": partial(sets_table, task="classification", harder=True),
    "summary_regression": partial(summary, task="regression"),
    "summary_classification": partial(summary, task="classification"),
    "ranks": ranks,
}
