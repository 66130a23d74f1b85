"""Cells of a measurement: run one by one or side by side, each written to its file at once."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.measure import in_child, machine

RESULTS = Path(__file__).parent / "results"
RECORDED = ("rows", "splits", "seed", "threads", "jobs")


class Key(NamedTuple):
    """What was measured: a data set (or a job), the number of its split, a method."""

    set: str
    split: int
    method: str


class Cell(NamedTuple):
    """What to call for a key; the cells that it needs are given as further arguments."""

    call: Any
    arguments: tuple
    needs: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Options:
    """What a part is told: where the data are, how much to measure, and where to write."""

    data: Path
    out: Path = RESULTS
    quick: bool = False
    huge: bool = False
    again: bool = False
    methods: list[str] | None = None
    sets: list[str] | None = None
    splits: int = 5
    rows: int = 20_000
    seed: int = 0
    threads: int = 1
    jobs: int = 1
    limit: float = 1800.0
    budget: float | None = None

    @property
    def seeds(self):
        """Seeds of the splits."""
        return range(self.seed, self.seed + self.splits)

    def some(self, names, n):
        """All names, or the first n in a quick run that names no sets."""
        return names[:n] if self.quick and not self.sets else names

    def made_quick(self):
        """The same with few rows and splits, and hardly any time for searches."""
        few = {"rows": min(self.rows, 300), "splits": min(self.splits, 2), "budget": 0.5}
        return replace(self, quick=True, **few)


class Results:
    """The file of a part: the runs (machine, versions, settings) and the cells they measured."""

    def __init__(self, path):
        self.path = Path(path)
        found = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.runs = found.get("runs", [])
        self.cells = {
            Key(cell["set"], cell["split"], cell["method"]): cell for cell in found.get("cells", [])
        }

    def begin(self, run):
        """Note a run, unless the last one was alike."""
        if not self.runs or self.runs[-1] != run:
            self.runs.append(run)

    def put(self, key, values):
        """Set a cell and write the file."""
        self.cells[key] = key._asdict() | values | {"run": len(self.runs) - 1}
        lines = ",\n".join(json.dumps(cell) for cell in self.cells.values())
        text = f'{{"runs": {json.dumps(self.runs, indent=1)},\n"cells": [\n{lines}\n]}}\n'
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        draft.write_text(text)
        os.replace(draft, self.path)

    def has(self, key):
        """Whether a cell is finished; one that failed is to be tried again."""
        return key in self.cells and "failed" not in self.cells[key]


def path_of(part, options):
    """File of a part; quick runs and other numbers of threads have files of their own."""
    threads = f"-{options.threads}threads" if options.threads > 1 else ""
    return options.out / f"{part}{'-quick' if options.quick else ''}{threads}.json"


def run(part, plan, options):
    """Measure the cells of a plan that are not in the file yet."""
    results = Results(path_of(part, options))
    plan = _selected(plan, options)
    todo = [key for key in plan if options.again or not results.has(key)]
    kept = f", {len(plan) - len(todo)} kept (--again measures all)" if len(todo) < len(plan) else ""
    print(f"{part}: {len(todo)} cells to measure{kept}", flush=True)
    settings = {name: getattr(options, name) for name in RECORDED}
    results.begin({"date": time.strftime("%Y-%m-%d"), **machine(), **settings})
    left = dict.fromkeys(todo)
    with ThreadPoolExecutor(options.jobs) as pool:
        while left:  # first the cells that need no other, then those that need these, ...
            ready = [key for key in left if not any(need in left for need in plan[key].needs)]
            jobs = {pool.submit(_one, plan[key], results, options): key for key in ready}
            try:
                for job in as_completed(jobs):
                    key, values = jobs[job], job.result()
                    results.put(key, values)
                    del left[key]
                    clock = _seconds_left(left, results.cells) / options.jobs
                    _tell(f"{part} {len(todo) - len(left)}/{len(todo)}", key, values, clock)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return results


def _selected(plan, options):
    """The cells that were asked for by name; a name that is not in the plan is an error."""
    for field, wanted in (("set", options.sets), ("method", options.methods)):
        known = dict.fromkeys(getattr(key, field) for key in plan)
        if unknown := set(wanted or ()) - set(known):
            raise SystemExit(f"unknown {field} {min(unknown)!r}; there are: {', '.join(known)}")
        if wanted:
            plan = {key: cell for key, cell in plan.items() if getattr(key, field) in wanted}
    return plan


def _one(cell, results, options):
    """Values of a cell, or why there are none."""
    begin = time.perf_counter()
    for key in cell.needs:
        if not results.has(key) or "over_seconds" in results.cells[key]:
            return {"failed": f"needs {' / '.join(map(str, key))} first"}
    arguments = (*cell.arguments, *(results.cells[key] for key in cell.needs))
    try:
        values = in_child(cell.call, arguments, options.limit, options.threads)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:300]}
    values = {"over_seconds": options.limit} if values is None else values
    return values | {"seconds": time.perf_counter() - begin}


def _seconds_left(left, cells):
    """Expected seconds of the cells that are left: those of the same method, or of all."""
    spent = {}
    for key, cell in cells.items():
        for alike in (key.method, None):
            spent.setdefault(alike, []).append(cell.get("seconds", 0.0))
    return sum(mean(spent.get(key.method, spent[None])) for key in left)


def _tell(place, key, values, left):
    """Write a line of progress."""
    shown = [f"{name} {v:.4g}" for name, v in values.items() if isinstance(v, float)][:4]
    text = values.get("failed", "  ".join(shown))
    clock = f"{left / 3600:.1f} h" if left > 5400 else f"{left / 60:.0f} min"
    print(f"{place}, {clock} left  {' / '.join(map(str, key))}:  {text}", flush=True)
