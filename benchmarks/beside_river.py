"""The streams of :mod:`benchmarks.streams`, written to the results of all parts."""

from river import forest
from threadpoolctl import threadpool_limits

from benchmarks import streams

ROWS, QUICK_ROWS = 10_000, 300


def adaptive_forest(folder, name, n_rows):
    """River's adaptive random forest of as many trees, one row at a time."""
    task = streams.STREAMS[name][0]
    kind = forest.ARFClassifier if task == "classification" else forest.ARFRegressor
    return streams.run_river(task, *streams.read(folder, name, n_rows), kind(n_models=10, seed=1))


def measure(run):
    section = run.section("streams")
    n_rows = QUICK_ROWS if run.quick else ROWS
    folder = str(run.data)
    with threadpool_limits(1):
        for name in ("phishing", "elec2") if run.quick else streams.STREAMS:
            section.put(streams.one_stream(folder, name, n_rows), "streams", name)
            found = adaptive_forest(folder, name, n_rows)
            section.put(found, "streams", name, "adaptive forest")
            section.put(streams.memory(folder, name, n_rows), "memory", name)
        if not run.quick:
            section.put(streams.million(), "million rows")
