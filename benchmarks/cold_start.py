"""Imports, first calls with nothing compiled and with compiled code on disk, what is compiled."""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.record import Cell, Key
from benchmarks.tables import of_cells, table

IMPORTS = {
    "scikit-learn": "import sklearn.kernel_approximation",
    "and mondrian_kernel": "import sklearn.kernel_approximation, mondrian_kernel",
    "and the regressor": (
        "import sklearn.kernel_approximation; from mondrian_kernel import MondrianKernelRegressor"
    ),
}
FIRST_CALLS = {
    "features": "MondrianFeatures(random_state=0).fit(X).transform(X)",
    "regressor": "MondrianKernelRegressor(random_state=0).fit(X, X[:, 0]).predict(X)",
    "intervals": "MondrianKernelRegressor(random_state=0).fit(X, X[:, 0]).predict_interval(X)",
    "classifier": "MondrianKernelClassifier(random_state=0).fit(X, X[:, 0] > 0).predict(X)",
    "stream": "MondrianKernelRegressor(random_state=0).partial_fit(X, X[:, 0]).predict(X)",
}
# The time of a function is without that of functions compiled within.
SCRIPT = """
import json, time, warnings
import numpy as np
from numba.core import event
warnings.simplefilter("ignore")

class Compiled(event.Listener):
    open, found = [], {{}}
    def on_start(self, ev):
        self.open.append([time.process_time(), 0.0])
    def on_end(self, ev):
        begin, inner = self.open.pop()
        spent = time.process_time() - begin
        if self.open:
            self.open[-1][1] += spent
        name = ev.data["dispatcher"].py_func.__qualname__
        n, seconds = self.found.get(name, (0, 0.0))
        self.found[name] = n + 1, seconds + spent - inner

X = np.random.default_rng(0).normal(size=(200, 5))
from mondrian_kernel import {name}
with event.install_listener("numba:compile", Compiled()) as compiled:
    begin = time.perf_counter()
    {code}
    print(json.dumps([time.perf_counter() - begin, compiled.found]))
"""


def plan(options):
    """Cells by import and first call."""
    n = 1 if options.quick else 5
    calls = list(FIRST_CALLS)[:1] if options.quick else FIRST_CALLS
    return {Key("import", 0, name): Cell(imported, (name, n)) for name in IMPORTS} | {
        Key("first call", 0, name): Cell(first_call, (name, n)) for name in calls
    }


def _output(code, **environment):
    """What a fresh interpreter prints, as JSON."""
    env = os.environ | environment
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def imported(name, n):
    """Least seconds of an import in a fresh interpreter."""
    code = f"import time; t = time.perf_counter(); {IMPORTS[name]}; print(time.perf_counter() - t)"
    return {"seconds_later": min(_output(code) for _ in range(n))}


def first_call(name, n):
    """Seconds of a call with an empty cache and later, and what was compiled."""
    code = FIRST_CALLS[name]
    script = SCRIPT.format(name=code.partition("(")[0], code=code)
    with tempfile.TemporaryDirectory() as cache:
        (first, compiled), *later = (_output(script, NUMBA_CACHE_DIR=cache) for _ in range(1 + n))
    order = sorted(compiled.items(), key=lambda item: -item[1][1])
    return {
        "seconds_first": first,
        "seconds_later": min(seconds for seconds, _ in later),
        "functions": sum(count for count, _ in compiled.values()),
        "compiled_later": sum(count for count, _ in later[-1][1].values()),
        "compiling_cpu": sum(seconds for _, seconds in compiled.values()),
        "compiled": [[function, *found] for function, found in order],
    }


def longest(cells, n_shown=15):
    """The functions that take longest to compile, in the first call that takes longest."""
    found = [cell for cell in cells.values() if "compiled" in cell]
    if not found:
        return None
    call = max(found, key=lambda cell: cell["compiling_cpu"])
    return table([
        {f"function (first call: {call['method']})": f"`{name}`", "versions": n, "CPU s": seconds,
         "share": f"{100 * seconds / call['compiling_cpu']:.0f} %"}
        for name, n, seconds in call["compiled"][:n_shown]
    ])  # fmt: skip


TABLES = {
    "cold_start": lambda cells: of_cells(cells, {
        "set": "what", "method": "of", "seconds_first": "first ever, s",
        "functions": "functions compiled", "seconds_later": "later, s",
        "compiled_later": "functions compiled later",
    }),
    "compiled": longest,
}  # fmt: skip
