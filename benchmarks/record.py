"""The results file: one section a part, written whole after every figure that comes in."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import machine

HERE = Path(__file__).parent


def path_of(folder=HERE / "results", quick=False):
    return Path(folder) / ("benchmarks-quick.json" if quick else "benchmarks.json")


def read(path):
    return json.loads(path.read_text()) if path.exists() else {}


@dataclass(frozen=True)
class Run:
    """What a part is told: the folder of the data, the size of the run, and where to write."""

    data: Path
    out: Path
    quick: bool
    splits: int | None = None
    rows: int | None = None
    methods: list[str] | None = None
    seed: int = 0

    def section(self, part, keep=False):
        return Section(path_of(self.out, self.quick), part, self, keep)


class Section:
    """The section of a part, begun afresh or kept; what other parts have written stays."""

    def __init__(self, path, part, run, keep):
        self._path, self._part, self._begin = path, part, time.perf_counter()
        self.found = read(path).get(part, {}) if keep else {}
        self.found |= {"machine": machine(), "quick": run.quick, "seed": run.seed}
        self._write()

    def put(self, value, *keys):
        """Set the entry at ``keys`` (names of the nested tables) and write the file."""
        table = self.found
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
        self._write()
        print(f"{self._part}: {' / '.join(keys)}  {_short(value)}", flush=True)

    def _write(self):
        # Read again: another part may have been run meanwhile.
        found = read(self._path)
        self.found["seconds"] = time.perf_counter() - self._begin
        found[self._part] = self.found
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".tmp")
        draft.write_text(json.dumps(found, indent=1) + "\n")
        os.replace(draft, self._path)


def _short(value):
    if isinstance(value, dict):
        return "  ".join(f"{k} {_short(v)}" for k, v in value.items() if not isinstance(v, list))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
