"""Streams beside river's aggregated Mondrian forests (AMF) and adaptive random forests (ARF)."""

from benchmarks.measure import in_child
from benchmarks.streams import (
    BATCH,
    STREAMS,
    TREES,
    cost,
    million,
    run_ours,
    run_river,
    trees_in,
)

QUICK_ROWS, ROWS = 300, 20_000  # at 50 000 river alone takes half an hour
MANY = 100
NEAR = 1.05  # what counts as the same time
ATTEMPTS = 3


def in_rivers_time(folder, name, n_rows, river, few):
    """Run one row at a time with as many trees as fit into the time of river's."""
    part = max(n_rows // 4, min(n_rows, 1000))
    parts = [in_child(run_ours, folder, name, part, n_trees, 1) for n_trees in (TREES, MANY)]
    least = TREES if cost(few) <= NEAR * cost(river) else 1
    n_trees = max(least, trees_in(cost(river), few, *parts))
    for _ in range(ATTEMPTS):
        found = in_child(run_ours, folder, name, n_rows, n_trees, 1)
        over = found["time_over_rivers"] = cost(found) / cost(river)
        if over <= NEAR or n_trees == least:
            break
        n_trees = max(least, int(n_trees / over))  # once more, with what was learnt
    return found


def beside(run, river):
    """Add to a run how many times faster and smaller than river's it is."""
    for what in ("learn", "predict"):
        run[f"{what}_times_faster"] = river[f"{what}_us"] / run[f"{what}_us"]
    return run


def measure(run):
    section = run.section("streams")
    n_rows = QUICK_ROWS if run.quick else run.rows or ROWS
    folder = str(run.data)
    for name in ("phishing", "elec2") if run.quick else STREAMS:
        river = in_child(run_river, folder, name, n_rows, "AMF", TREES)
        section.put({"rows": river["rows"], "dims": river["dims"], "river": river}, "streams", name)
        few = in_child(run_ours, folder, name, n_rows, TREES, 1)
        section.put(beside(few, river), "streams", name, "single rows")
        many_rows = in_child(run_ours, folder, name, n_rows, TREES, BATCH)
        section.put(beside(many_rows, river), "streams", name, "batches")
        memory = {"river_mb": river["grown_by_mb"], "ours_mb": many_rows["grown_by_mb"]}
        memory["times_smaller"] = memory["river_mb"] / max(memory["ours_mb"], 1e-3)
        section.put(memory, "memory", name)
        equal = in_rivers_time(folder, name, river["rows"], river, few)
        section.put(equal, "streams", name, "equal time")
        adaptive = in_child(run_river, folder, name, n_rows, "ARF", TREES)
        section.put(adaptive, "streams", name, "adaptive forest")
    if not run.quick:
        section.put(in_child(million), "million rows")
