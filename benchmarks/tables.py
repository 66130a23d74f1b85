"""Markdown tables of the files of results; no number is typed in."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import PARTS
from benchmarks.record import RESULTS, Results

README = Path(__file__).parents[1] / "README.md"


def table(rows):
    """Markdown table of dicts that map titles to values, or None of no rows.

    The first column and long words stand to the left, all else to the right.
    """
    if not rows:
        return None
    lines = [[shown(value) for value in row.values()] for row in rows]
    left = [
        k == 0 or max(map(len, column)) > 24 for k, column in enumerate(zip(*lines, strict=True))
    ]
    rule = "|" + "".join("---|" if one else "---:|" for one in left)
    first, *rest = ["| " + " | ".join(line) + " |" for line in ([*rows[0]], *lines)]
    return "\n".join([first, rule, *rest])


def shown(value, digits=3):
    """Text as it is, counts in full, other numbers with some digits, a dash for nothing."""
    if isinstance(value, str | int | np.integer):
        return str(value)
    if value is None or np.isnan(value):
        return "–"
    if np.isinf(value):
        return "too slow"
    return f"{value:.0f}" if abs(value) >= 10**digits or value == 0 else f"{value:.{digits}g}"


def p_value(value):
    return "<0.001" if value is not None and value < 0.001 else shown(value, 2)


def frame_of(cells):
    """One line a cell that did not fail; nested values such as fit.cpu are columns."""
    found = pd.json_normalize([cell for cell in cells.values() if "failed" not in cell])
    if "task" in found:  # a cell that ran out of time does not know its task
        found["task"] = found.groupby("set")["task"].transform("first")
    return found


def of_cells(cells, titles, only=None):
    """Table with one line a cell, of some of their values, or of the cells of one set."""
    rows = frame_of({key: cell for key, cell in cells.items() if only in (None, key.set)})
    rows = rows.reindex(columns=list(titles)).convert_dtypes()
    return table(rows.rename(columns=titles).replace({pd.NA: None}).to_dict("records"))


def setup(results):
    """What the numbers depend on: one line for each run that has cells in the file."""
    counts = Counter(cell["run"] for cell in results.cells.values())
    lines = []
    for k, n_cells in sorted(counts.items()):
        run = results.runs[k] | results.runs[k]["versions"]
        run["seed"] = f"of the splits {run['seed']} to {run['seed'] + run['splits'] - 1}"
        known = (f"{name} {value}" for name, value in run.items() if name != "versions")
        lines.append(f"- {n_cells} cells: {', '.join(known)}")
    return "\n".join(lines)


def rendered(folder=RESULTS, quick=False):
    """All tables, by name, of the parts that have been run."""
    found = {}
    for part in PARTS:
        path = Path(folder) / f"{part}{'-quick' if quick else ''}.json"
        if path.exists():
            results = Results(path)
            module = import_module(f"benchmarks.{part}")
            made = {name: make(results.cells) for name, make in module.TABLES.items()}
            two = Results(path.with_stem(f"{path.stem}-2threads"))
            if two.cells and hasattr(module, "on_threads"):
                made["two_threads"] = module.on_threads(results.cells, two.cells)
                made["setup_two_threads"] = setup(two)
            found |= {name: text for name, text in made.items() if text}
            found[f"setup_{part}"] = setup(results)
    for name in ("headline", "growth_curves"):
        picture = Path(folder) / f"{name}{'-quick' if quick else ''}.png"
        if picture.exists():
            found[name] = f"![{name}](benchmarks/results/{picture.name})"
    return found


def filled(text, tables):
    """Text with each table between its marks; marks whose table is missing are left alone."""
    for name, found in tables.items():
        block = f"<!-- {name} -->\n{found}\n<!-- end -->"
        text = re.sub(
            rf"<!-- {name} -->.*?<!-- end -->", lambda _, b=block: b, text, flags=re.DOTALL
        )
    return text
