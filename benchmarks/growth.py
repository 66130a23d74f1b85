"""Time and memory against rows N, trees M, dims D and cells C, with slopes in logarithms."""

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import best_of, in_child, peak_mb, slope
from mondrian_kernel import MondrianFeatures, every_cut_path
from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.cholesky import dense_scores
from mondrian_kernel._trees.growth import Growth

SMALL = {"N": 300, "M": 5, "D": 2, "C": 60}
ROWS = (1_000, 10_000, 100_000, 1_000_000)


def grown(X, n_trees, seed):
    growth = Growth(X, n_trees, seed, 1)
    growth.advance(np.inf)
    return growth


def sampling(N, M, D, seed, repeats):
    """Grow trees until every row is alone."""
    X = data.normal(N, D, seed)
    before = peak_mb()
    (times,) = best_of(repeats, lambda: grown(X, M, seed))
    return times | {"grown_by_mb": peak_mb() - before}


def design_of(X, n_trees, lifetime, seed):
    features = MondrianFeatures(lifetime, n_trees, random_state=seed, n_jobs=1)
    columns = features.fit_transform(X).indices.reshape(len(X), n_trees)
    return CellOperator(np.ascontiguousarray(columns), features.n_cells_, n_jobs=1)


def product(N, M, D, seed, repeats):
    """Multiply the kernel matrix ΦΦᵀ by eight vectors, at the lifetime 1/D."""
    X = data.normal(N, D, seed)
    before = peak_mb()
    design = design_of(X, M, 1.0 / D, seed)
    V = data.normal(N, 8, seed)
    design.gram(V)
    (times,) = best_of(repeats, lambda: design.gram(V))
    return times | {"grown_by_mb": peak_mb() - before}


def factor(C, seed, repeats):
    """Factor ΦᵀΦ + α I for ten penalties, with more rows than cells."""
    n_trees = 20
    X, y = data.curve(2 * C, 5, seed)
    growth = Growth(X, n_trees, seed, 1)
    end = growth.advance_within(np.inf, C)
    trees, leaf = growth.freeze(end)
    cells = trees.cells(end)
    design = CellOperator(cells.column[leaf], cells.total, n_jobs=1)
    Y, alphas = (y - y.mean())[:, None] * design.root_weight[:, None], np.logspace(-2, 1, 10)
    before = peak_mb()
    (times,) = best_of(repeats, lambda: dense_scores(design, Y, alphas))
    return times | {"grown_by_mb": peak_mb() - before}


def update(C, seed, repeats):
    """Exact ridge after one more cut: the mean over the cuts of a path."""
    n_trees = 50
    X, y = data.curve(2 * C, 5, seed)
    growth = Growth(X, n_trees, seed, 1)
    end = growth.advance_within(np.inf, C)
    before = peak_mb()
    (times,) = best_of(
        repeats,
        lambda: every_cut_path(
            X, y, n_estimators=n_trees, max_lifetime=end, alphas=[0.1],
            random_state=seed, n_jobs=1,
        ),
    )  # fmt: skip
    cuts = C - n_trees
    each = {clock: seconds / cuts for clock, seconds in times.items()}
    return each | {"grown_by_mb": peak_mb() - before}


def plans(quick):
    """Job, letter that grows, its values, the fixed sizes, and the exponents to expect."""
    rows = ROWS[:3] if quick else ROWS
    trees, dims = (
        ((10, 20, 40), (4, 8, 16)) if quick else ((10, 20, 40, 80, 160), (2, 4, 8, 16, 32))
    )
    cells = (100, 200, 400) if quick else (500, 1000, 2000, 4000)
    n_log_n = slope(rows, [n * np.log(n) for n in rows])
    few = {"N": 4000, "M": 20, "D": 10}
    return [
        (sampling, "N", rows, {"M": 2, "D": 4}, n_log_n, 1),
        (sampling, "M", trees, few, 1, 1),
        (sampling, "D", dims, few, 0, 0),
        (product, "N", rows, {"M": 20, "D": 4}, 1, 1),
        (product, "M", trees, few | {"N": 20_000}, 1, 1),
        (factor, "C", cells, {}, 3, 2),
        (update, "C", cells, {}, 2, 2),
    ]


def job(call, sizes, seed, repeats):
    """One point of a curve; for a child."""
    with threadpool_limits(1):
        small = {name: SMALL[name] for name in sizes}
        call(**small, seed=seed, repeats=1)  # compiled code is loaded before anything is measured
        return call(**sizes, seed=seed, repeats=repeats)


def measure(run):
    section = run.section("growth")
    for call, letter, values, fixed, in_time, in_memory in plans(run.quick):
        steps = []
        for value in values:
            repeats = 1 if run.quick or value >= 100_000 else 3
            steps.append(in_child(job, call, fixed | {letter: value}, run.seed, repeats))
        name = f"{call.__name__} in {letter}"
        section.put(
            {
                "letter": letter,
                "values": list(values),
                "fixed": {k: v for k, v in fixed.items() if k != letter},
                "cpu_seconds": [step["cpu_seconds"] for step in steps],
                "grown_by_mb": [step["grown_by_mb"] for step in steps],
                "slope_of_time": slope(values, [step["cpu_seconds"] for step in steps]),
                "expected_of_time": in_time,
                "slope_of_memory": memory_slope(values, [step["grown_by_mb"] for step in steps]),
                "expected_of_memory": in_memory,
            },
            name,
        )


def memory_slope(values, megabytes):
    """Slope where memory is more than the noise of a process, or None."""
    seen = [(v, mb) for v, mb in zip(values, megabytes, strict=True) if mb > 10]
    return slope(*zip(*seen, strict=True)) if len(seen) > 1 else None
