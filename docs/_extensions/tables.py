"""Tables of the guide, in Markdown, from what the benchmarks have written."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
_LABELS = {"dims": "columns"}  # names in result files that tables show as other words
# The benchmarks are a package of the checkout, not of the library.
sys.path.insert(0, str(ROOT))

from benchmarks.record import path_of, read  # noqa: E402
from benchmarks.tables import rendered  # noqa: E402
from benchmarks.tables import table as markdown  # noqa: E402


def table(name):
    """Return a table by its name, or how to make it where the benchmark has not been run."""
    if name in OWN:
        return OWN[name]()
    missing = "*Not measured yet in this checkout:* `python -m benchmarks` *writes the table.*"
    return rendered(read(path_of())).get(name, missing)


def dask():
    """All that was measured on Dask workers, side by side where there are two solvers."""
    file = RESULTS / "dask_scale.json"
    if not file.exists():
        return "*Not measured yet in this checkout: run* `python benchmarks/dask_scale.py speed`."
    parts = []
    for part, found in json.loads(file.read_text()).items():
        plain = {_LABELS.get(k, k): v for k, v in found.items() if not isinstance(v, dict)}
        inner = {k: v for k, v in found.items() if isinstance(v, dict)}
        rows = [[k, *[_number(v)] * max(len(inner), 1)] for k, v in plain.items()]
        names = dict.fromkeys(k for column in inner.values() for k in column if k not in plain)
        rows += [[k, *(_number(column[k]) for column in inner.values())] for k in names]
        header = [part, *(inner or ["measured"])]
        parts.append(markdown(header, rows))
    return "\n\n".join(parts)


def dask_on_paper():
    """What a fit of 10⁹ rows on 100 workers would take, from the times of a row and tree."""
    file = RESULTS / "dask_scale.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    if "work" not in found or "speed" not in found:
        return (
            "*Not measured yet in this checkout: run* `python benchmarks/dask_scale.py work` "
            "*and* `speed`."
        )
    work, speed = found["work"], found["speed"]
    rounds, steps = speed["dense"]["rounds of growing"], speed["lanczos"]["passes"]
    n_rows, n_blocks, few, many = 1e9 / 100, 1000, 100, 1500

    def hours(kind, n_trees, passes):
        return passes * work[f"{kind}, ns a row and tree"] * 1e-9 * n_trees * n_rows / 3600

    def reading(passes):
        return passes * work["reading 20 columns of Parquet, ns a row"] * 1e-9 * n_rows / 3600

    def growing(n_trees):
        return f"{hours('a round of growing', n_trees, rounds) + reading(rounds):.1f} h"

    def scheduling(passes):
        # A step of Lanczos on few rows is nearly all Dask's own work for its blocks.
        each = speed["lanczos"]["seconds a pass"] / speed["blocks"]
        return f"{passes * each * n_blocks / 3600:.1f} h"

    def bytes_of(way, n_trees):
        return speed["dense"][f"bytes {way} in a round"] * n_trees / speed["trees"] / 1e6

    # Each of M cells of a row meets M others, and of half a matrix of 8000 cells a pass sums 16 MB.
    panels = 8 * 8000**2 / 2 / 2**24
    dense = hours("summing the matrix", few, few / work["trees"])
    dense += hours("finding the cells", few, panels) + reading(panels)
    products = hours("a step of Lanczos", many, steps)
    again = products + hours("finding the cells", many, steps) + reading(steps)
    rows = [
        [f"growing, {rounds} rounds", growing(few), growing(many)],
        [f"solving, {panels:.0f} or {steps} passes", f"{dense:.1f} h", f"{products:.0f} h"],
        ["solving if cells are not kept", "–", f"{again:.0f} h"],
        ["scheduling", scheduling(rounds + panels), scheduling(rounds + steps)],
        ["cells kept, GB a worker", "–", f"{many * n_rows / 1e9:.0f}"],
        [
            "a round: to each worker, MB",
            *(f"{bytes_of('to a worker', m):.2f}" for m in (few, many)),
        ],
        [
            "a round: answers of all blocks, MB",
            *(f"{n_blocks * bytes_of('from a block', m):.0f}" for m in (few, many)),
        ],
    ]
    return markdown(["", f"{few} trees, dense", f"{many} trees, Lanczos"], rows)


def big_file():
    """Files through the command line: time and memory of fitting and predicting."""
    file = RESULTS / "big_file.json"
    if not file.exists():
        return "*Not measured yet in this checkout: run* `python -m benchmarks.big_file`."
    header = [
        "rows × columns",
        "file, MB",
        "fit, CPU s",
        "peak, GB",
        "predict, CPU s",
        "peak, GB",
        "R²",
    ]
    rows = []
    for found in json.loads(file.read_text())["files"]:
        cells = [f"{found['rows']:,} × {found['dims']}", f"{found['file_mb']:.0f}"]
        for what in ("fit", "predict"):
            cells += [f"{found[what]['cpu_seconds']:.0f}", f"{found[what]['peak_mb'] / 1024:.1f}"]
        rows.append([*cells, f"{found['held_out']['r2']:.3f}"])
    return markdown(header, rows)


def _number(value):
    if isinstance(value, list):
        return ", ".join(map(_number, value))
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3g}"


OWN = {"dask": dask, "dask_on_paper": dask_on_paper, "big_file": big_file}
