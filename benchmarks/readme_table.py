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
    found = json.loads((HERE / "results" / "accuracy.json").read_text())
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


def main():
    text = README.read_text()
    block = f"<!-- accuracy -->\n{accuracy()}\n<!-- end -->"
    README.write_text(re.sub(r"<!-- accuracy -->.*?<!-- end -->", block, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
