"""Markdown tables of the results file; no number is typed in.

``python -m benchmarks.tables [FILE]`` prints all of them.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.ranks import mean_errors
from benchmarks.record import path_of, read
from benchmarks.rivals import OURS

METHODS = (OURS, "exact kernel", "Nystroem", "ExtraTrees", "RandomForest", "HistGradientBoosting")


def table(header, rows, words=()):
    """Markdown table; the first column and those of words to the left, numbers to the right."""
    first, *rest = ["| " + " | ".join(map(str, line)) + " |" for line in (header, *rows)]
    left = {header[0], *words}
    rule = "|" + "".join("---|" if name in left else "---:|" for name in header)
    return "\n".join([first, rule, *rest])


def number(value, digits=3):
    """Number with some digits, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}g}"


def seconds(value):
    return "–" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def errors(section, task, percent=False):
    """Mean errors by data set, the least in bold."""
    found = mean_errors(section, task)
    sets = section["sets"]
    present = [m for m in METHODS if any(m in row for row in found.values())]
    regression = task == "regression"
    header = ["data", "rows", *present, "coverage" if regression else "log loss", "seconds"]
    rows = []
    for name, means in found.items():
        ours = sets[name].get("fits", {}).get(OURS)
        if ours is None:
            continue
        best = min(means.values())
        cells = []
        for method in present:
            value = means.get(method)
            text = "–" if value is None else f"{100 * value:.1f}" if percent else f"{value:.3f}"
            cells.append(f"**{text}**" if value == best else text.replace("inf", "too slow"))
        if all("error" in fit for fit in ours):
            what = np.mean([fit["coverage" if regression else "log_loss"] for fit in ours])
            cells.append(f"{100 * what:.0f} %" if regression else f"{what:.3f}")
            cells.append(seconds(np.mean([fit["fit"]["wall_seconds"] for fit in ours])))
        else:
            cells += ["–", f"over {ours[-1]['over_seconds']}"]
        rows.append([name, sets[name]["n_train"], *cells])
    splits = sorted({len(s["fits"][OURS]) for s in sets.values() if OURS in s.get("fits", {})})
    return table(header, rows) + f"\n\nSplits a data set: {', '.join(map(str, splits))}."


def accuracy(results):
    return errors(results["end_to_end"], "regression")


def classification(results):
    return errors(results["end_to_end"], "classification", percent=True)


def ranks(results):
    """Average ranks by task, those that took part in all sets."""
    found = results["end_to_end"]["ranks"]
    rows = [
        [
            task,
            entry["sets"],
            ", ".join(f"{name} {rank:.2f}" for name, rank in entry["average"].items()),
            number(entry["critical_difference"]),
        ]
        for task, entry in found.items()
    ]
    header = ["task", "sets", "average ranks", "critical difference"]
    return table(header, rows, words=["average ranks"])


def costs(results):
    """Fit and predict time and memory, as geometric means over the sets, relative to ours."""
    sets = results["end_to_end"]["sets"].values()
    rows = []
    for method in METHODS:
        ratios = {"fit": [], "predict": [], "memory": []}
        for entry in sets:
            pair = [entry.get("fits", {}).get(m, [{}])[0] for m in (method, OURS)]
            if any("fit" not in fit for fit in pair):
                continue
            for what in ("fit", "predict"):
                ratios[what].append(pair[0][what]["wall_seconds"] / pair[1][what]["wall_seconds"])
            grown = [max(fit["grown_by_mb"], 1.0) for fit in pair]
            ratios["memory"].append(grown[0] / grown[1])
        if ratios["fit"]:
            means = [number(np.exp(np.mean(np.log(r))), 2) for r in ratios.values()]
            rows.append([method, len(ratios["fit"]), *means])
    return table(["method", "sets", "fit", "predict", "memory"], rows)


def features(results):
    """Feature maps at the components of the budget."""
    section = results["features"]
    size = section["components"][str(section["data"]["trees"])]
    rows = []
    for name, entry in size.items():
        budget = section["budget"][name]
        rows.append([
            f"`{name}`", entry["columns"], number(entry["non_zeros_a_row"]),
            seconds(entry["fit_transform"]["cpu_seconds"]),
            seconds(entry["transform_new"]["cpu_seconds"]), number(budget["grown_by_mb"]),
            number(budget["equal_non_zeros"]), number(budget["equal_time"]),
        ])  # fmt: skip
    header = [
        "map", "columns", "non-zeros a row", "fit and map, s", "map new rows, s", "MB",
        "kernel error, equal non-zeros", "equal time",
    ]  # fmt: skip
    return table(header, rows)


def width(results):
    """Searches by data set: time to within 1 % of the best, and the errors."""
    rows = []
    for name, entry in results["width"].items():
        for method, found in (entry.get("searches", {}) if isinstance(entry, dict) else {}).items():
            fits = f"{found['fits']} of {found['of']}" if "fits" in found else "1 call"
            rows.append([
                name, found.get("rows", entry["rows"]), method,
                seconds(found["seconds_to_one_percent"]), fits,
                f"{found['held_out_error']:.3f}", f"{found['test_error']:.3f}",
            ])  # fmt: skip
    header = ["data", "rows", "search", "seconds to 1 %", "fits", "held-out error", "test error"]
    return table(header, rows, words=["search"])


def path(results):
    """The path beside one kernel ridge fit, by criterion and threads."""
    rows = [
        [
            found["criterion"], found["threads"],
            *(seconds(found[k]["wall_seconds"]) for k in ("path", "kernel_ridge")),
            number(found["path_over_kernel_ridge"], 2), number(found["path_over_one_fit"], 2),
            number(found["path_over_one_width"], 2),
            f"{found['test_error_percent']:.2f}", f"{found['kernel_ridge_test_error_percent']:.2f}",
        ]
        for found in results["path"]["cpu_act"].values()
    ]  # fmt: skip
    header = [
        "criterion", "threads", "path, s", "one `KernelRidge.fit`, s", "path over that",
        "over one fit at its end", "over one width, all penalties", "test error, %",
        "`KernelRidge`'s, %",
    ]  # fmt: skip
    return table(header, rows)


def path_rows(results):
    """Time and memory of the path against rows."""
    section = results["path"]
    rows = [
        [step["rows"], seconds(step["wall_seconds"]), seconds(step["cpu_seconds"]),
         number(step["peak_mb"] / 1024, 2), step["lifetimes"], step["cells"]]
        for step in section["rows"].values()
    ]  # fmt: skip
    found = section["slopes"]
    return table(["rows", "seconds", "CPU seconds", "peak GB", "widths", "cells"], rows) + (
        f"\n\nSlopes: CPU time {found['cpu_seconds']:.2f}, memory {found['grown_by_mb']:.2f}."
    )


def trees(results):
    """Error, and seconds to fit, against the number of trees."""
    sets = results["trees"]["sets"]
    numbers = list(next(iter(sets.values()))["trees"])
    rows = [
        [name, found["rows"], found["auto"],
         *(f"{found['trees'][m]['error']:.3f} ({seconds(found['trees'][m]['fit']['cpu_seconds'])})"
           for m in numbers)]
        for name, found in sets.items()
    ]  # fmt: skip
    return table(["data", "rows", "auto", *(f"{m} trees" for m in numbers)], rows)


def relevance(results):
    """Errors with all columns alike and with relevances learnt, and what these take."""
    rows = []
    for name, found in results["relevance"]["sets"].items():
        alike, learnt = found["equal"], found["learn"]
        values = learnt["relevance"]
        rows.append([
            name, found["rows"], found["dims"], f"{alike['error']:.3f}", f"{learnt['error']:.3f}",
            f"{100 * (learnt['error'] / alike['error'] - 1):+.0f} %".replace("-", "−"),
            f"{values[0]:.2f} to {values[-1]:.2f}",
            seconds(alike["fit"]["wall_seconds"]), seconds(learnt["fit"]["wall_seconds"]),
        ])  # fmt: skip
    header = [
        "data", "rows", "columns", "error, columns alike", "relevances learnt", "change",
        "relevances", "fit, s", "with relevances, s",
    ]  # fmt: skip
    return table(header, rows)


def streams(results):
    """Streams beside river's forests of ten trees."""
    section = results["streams"]
    rows = []
    for name, found in section["streams"].items():
        rows.append([
            name, found["rows"], f"{found['river']['error']:.3f}",
            *(f"{found[k]['error']:.3f}"
              for k in ("adaptive forest", "single rows", "batches", "equal time")),
            number(found["equal time"]["time_over_rivers"], 2),
            number(found["batches"]["learn_times_faster"], 2),
            number(found["batches"]["predict_times_faster"], 2),
            number(found["single rows"]["learn_times_faster"], 2),
            number(section["memory"][name]["times_smaller"], 2),
        ])  # fmt: skip
    header = [
        "stream", "rows", "error of AMF", "of ARF", "ours, 10 trees", "in batches",
        "ours in AMF's time", "time over AMF's", "learns × faster in batches",
        "predicts × faster", "learns × faster row by row", "× smaller",
    ]  # fmt: skip
    return table(header, rows)


def long_stream(results):
    """Speed and memory along a long stream with a bound on the cells."""
    rows = [
        [step["rows"], f"{step['rows_a_second']:.0f}", number(step["grown_by_mb"], 3),
         step["cells"], f"{step['rmse']:.3f}"]
        for step in results["streams"]["million rows"]
    ]  # fmt: skip
    return table(["rows", "rows a second", "MB", "cells", "error"], rows)


def growth(results):
    """Slopes beside those to expect."""
    rows = []
    for name, found in results["growth"].items():
        if isinstance(found, dict) and "values" in found:
            values = found["values"]
            rows.append([
                name, f"{values[0]} … {values[-1]}",
                " … ".join(seconds(found["cpu_seconds"][k]) for k in (0, -1)),
                number(found["slope_of_time"]), number(found["expected_of_time"]),
                number(found["slope_of_memory"]), number(found["expected_of_memory"]),
            ])  # fmt: skip
    header = [
        "what", "from … to", "CPU seconds", "slope", "expected", "slope of memory", "expected",
    ]  # fmt: skip
    return table(header, rows)


def cold_start(results):
    """Seconds until something has happened."""
    section = results["cold_start"]
    rows = [[f"import {name}", "", seconds(value)] for name, value in section["import"].items()]
    rows += [
        [f"first call: {name}", seconds(found["cold_seconds"]), seconds(found["warm_seconds"])]
        for name, found in section["first call"].items()
    ]
    commands = section["command line"]
    rows.append(["`mondrian-kernel --help`", "", seconds(commands["--help"])])
    if "demo, warm" in commands:
        demo = [seconds(commands[f"demo, {kind}"]) for kind in ("cold", "warm")]
        rows.append(["`mondrian-kernel demo`", *demo])
    return table(["what", "first ever, s (compiles)", "later, s"], rows)


def time_spent(results):
    """The three main jobs: time, bytes, the limit set by the memory, and the first functions."""
    section = results["time_spent"]
    rows = []
    for job in ("features", "path", "stream"):
        found = section[job]
        most = ", ".join(
            f"`{part['function']}` {100 * part['share']:.0f} %" for part in found["functions"][:4]
        )
        rows.append([
            job, seconds(found["cpu_seconds"]), number(found["bytes_to_read"] / 1e9),
            seconds(found["seconds_at_bandwidth"]), number(found["times_the_limit"], 2), most,
        ])  # fmt: skip
    speed = section["bytes_a_second"]["read"] / 1e9
    header = ["job", "CPU s", "GB to read", f"s at {speed:.1f} GB/s", "times that", "where"]
    return table(header, rows, words=["where"])


def speed(results):
    """The short table of the README."""
    trees, cuts = results["features"]["random trees"], results["path"]["every cut"]
    small, large = trees["cpu_act"], trees["normal"]
    held_out = results["path"]["cpu_act"]["holdout, threads 1"]
    loo = results["path"]["cpu_act"]["loo, threads 1"]
    first = results["cold_start"]["first call"]["features"]
    wall = "wall_seconds"
    rows = [
        [
            f"grow {small['trees']} trees on {small['rows']}×{small['dims']} rows and map them",
            f"{small['fit_transform'][wall]:.2f}",
            f"{small['fit_transform_times_faster']:.1f} times faster than `RandomTreesEmbedding` "
            "with as many leaves",
        ],
        [
            f"{large['trees']} trees on {large['rows']}×{large['dims']}",
            f"{large['fit_transform'][wall]:.2f}",
            f"{large['fit_transform_times_faster']:.1f} times faster; two threads "
            f"{large['fit_transform_speedup_of_two_threads']:.1f} times one",
        ],
        [
            f"map {large['new_rows']} new rows, exactly",
            f"{large['transform'][wall]:.2f}",
            f"{1 / large['transform_times_faster']:.1f} times as long as its leaf look-up",
        ],
        *(
            [
                f"path of {found['lifetimes']} widths × {found['alphas']} penalties on "
                f"{found['rows']} rows, by {what}",
                seconds(found["path"][wall]),
                f"as long as {found['path_over_kernel_ridge']:.1f} exact `KernelRidge` fits at "
                "one width and penalty",
            ]
            for found, what in ((held_out, "rows held out"), (loo, "leave-one-out"))
        ),
        [
            f"ridge after each of {cuts['cuts']} cuts, exactly",
            seconds(cuts[wall]),
            f"as long as {cuts['over_one_fit']:.1f} exact `Ridge` fits after the last; the "
            f"published procedure takes {cuts['published_cpu_seconds']:.0f}",
        ],
        [
            "first call ever (compiles) / later",
            f"{first['cold_seconds']:.0f} / {first['warm_seconds']:.1f}",
            "",
        ],
    ]
    return table(["what, on one thread", "seconds", "beside"], rows, words=["beside"])


TABLES = {
    "accuracy": accuracy, "classification": classification, "ranks": ranks, "costs": costs,
    "speed": speed, "features": features, "path": path, "path_rows": path_rows, "width": width,
    "streams": streams, "long_stream": long_stream, "growth": growth, "cold_start": cold_start,
    "time_spent": time_spent, "trees": trees, "relevance": relevance,
}  # fmt: skip


def rendered(results):
    """All tables whose parts have been run, by name."""
    found = {}
    for name, render in TABLES.items():
        try:
            found[name] = render(results)
        except KeyError:  # a part that has not been run, or not to its end
            continue
    return found


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else path_of()
    for name, text in rendered(read(file)).items():
        print(f"### {name}\n\n{text}\n")
