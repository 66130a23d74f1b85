"""Write the tables of README.md from the files in benchmarks/results.

python benchmarks/readme_table.py
"""

import json
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
COLUMNS = {
    "mondrian": "Mondrian kernel",
    "exact_laplace": "exact kernel",
    "extra_trees": "ExtraTrees",
    "hist_boosting": "HistGradientBoosting",
}


def accuracy():
    found = result("accuracy")
    lines = [
        "| data | rows | " + " | ".join(COLUMNS.values()) + " | coverage | seconds |",
        "|---|---:|" + "---:|" * (len(COLUMNS) + 2),
    ]
    splits = set()
    for name, rows in sorted(found["sets"].items()):
        if not rows:
            continue
        splits.add(len(rows))
        errors = {m: [r["error"][m] for r in rows if m in r["error"]] for m in COLUMNS}
        means = {m: np.mean(e) for m, e in errors.items() if e}
        best = min(means.values())
        cells = [
            "–"
            if m not in means
            else f"**{means[m]:.3f}**"
            if means[m] == best
            else f"{means[m]:.3f}"
            for m in COLUMNS
        ]
        coverage = np.mean([r["coverage"] for r in rows])
        seconds = np.mean([r["fit_seconds"]["mondrian"] for r in rows])
        lines.append(
            f"| {name} | {rows[0]['n_train']} | "
            + " | ".join(cells)
            + f" | {100 * coverage:.0f} % | {seconds:.0f} |"
        )
    lines.append(f"\nSplits a data set: {', '.join(map(str, sorted(splits)))}.")
    return "\n".join(lines)


def result(name):
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def speed():
    features, path, cuts = (result(n) for n in ("features", "width_path", "every_cut"))
    small, large, threads = features["cpu_act"], features["normal"], features["two threads, normal"]
    one = path["cpu_act, threads 1"]
    return f"""\
| what, on one thread | seconds | beside |
|---|---:|---|
| grow {small["trees"]} trees on {small["rows"]}×{small["dims"]} rows and map them | \
{small["fit_transform_s"]:.2f} | {small["fit_transform_times_faster"]:.1f} times faster than \
`RandomTreesEmbedding` with as many leaves |
| {large["trees"]} trees on {large["rows"]}×{large["dims"]} | {large["fit_transform_s"]:.2f} | \
{large["fit_transform_times_faster"]:.1f} times faster; two threads \
{threads["fit_transform_speedup"]:.1f} times one |
| map {large["new_rows"]} new rows, exactly | {large["transform_s"]:.2f} | \
{large["transform_times_slower"]:.1f} times as long as its leaf look-up |
| path of {one["lifetimes"]} widths × {one["alphas"]} penalties on {small["rows"]} rows | \
{one["path"]["wall_seconds"]:.0f} | as long as {one["path_over_kernel_ridge"]:.0f} exact \
`KernelRidge` fits at one width and penalty |
| ridge after each of {cuts["cuts"]} cuts, exactly | {cuts["wall_seconds"]:.0f} | the published \
procedure, one epoch of SGD a cut: {cuts["published_cpu_seconds"]:.0f} |
| first call ever (compiles) / later | {features["first call"]["cold_cache_s"]:.0f} / \
{features["first call"]["warm_cache_s"]:.1f} | |"""


def main():
    text = README.read_text()
    for name, table in {"accuracy": accuracy(), "speed": speed()}.items():
        block = f"<!-- {name} -->\n{table}\n<!-- end -->"
        text = re.sub(
            rf"<!-- {name} -->.*?<!-- end -->", lambda _, b=block: b, text, flags=re.DOTALL
        )
    README.write_text(text)


if __name__ == "__main__":
    main()
