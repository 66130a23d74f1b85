"""Where the time goes in the three main jobs, beside the bytes that they cannot but read."""

import cProfile
import pstats
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import best_of, clocked
from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor, lifetime_path
from mondrian_kernel._linear.cell_operator import CellOperator

SHOWN = 8


def bandwidth(megabytes):
    """Bytes a second that one thread reads (a dot product of two vectors) and copies."""
    a, b = np.ones(megabytes * 2**17), np.ones(megabytes * 2**17)
    dot, copy = best_of(5, lambda: a @ b, lambda: np.copyto(a, b))
    return {
        "read": (a.nbytes + b.nbytes) / dot["wall_seconds"],
        "copy": (a.nbytes + b.nbytes) / copy["wall_seconds"],
    }


def shares(call):
    """Functions by their own share of the time; compiled code counts for who calls it."""
    profile = cProfile.Profile()
    profile.runcall(call)
    own = {}
    for (file, _, name), (_, calls, seconds, _, _) in pstats.Stats(profile).stats.items():
        place = Path(file)
        where = f"{place.parent.name}/{place.stem}: " if place.suffix == ".py" else ""
        before = own.get(where + name, (0, 0.0))
        own[where + name] = before[0] + calls, before[1] + seconds
    total = sum(seconds for _, seconds in own.values())
    first = sorted(own.items(), key=lambda item: -item[1][1])[:SHOWN]
    return [
        {"function": name, "calls": calls, "share": seconds / total}
        for name, (calls, seconds) in first
    ]


def features_bytes(trees):
    """To part the rows of a node, their value in one dim and their number are read."""
    parted = trees.count[np.isfinite(trees.time)].sum(dtype=np.int64)
    return int(parted) * (8 + 4)


def stream_bytes(trees, n_rows):
    """A row meets the boxes of the nodes on its way (mean depth of the grown trees), and cuts."""
    depth = trees.count.sum(dtype=np.int64) / trees.count[trees.root].sum(dtype=np.int64)
    node = 2 * 8 * trees.n_dims + 8 + 8 + 4 + 2 * 4  # box, cut time, place, dim, children
    return int(n_rows * trees.n_trees * depth * node)


class ProductBytes:
    """Adds up what products with the kernel matrices read while it is entered.

    A product passes the entries of the runs of trees and the eight columns of a panel twice: once
    to sum rows into cells, once to sum cells into rows.
    """

    def __enter__(self):
        self.total, self.products, self._gram = 0, 0, CellOperator.gram

        def gram(design, V):
            runs = design._runs.table
            panels = -(-V.shape[1] // 8)
            tables = runs.joint.nbytes + runs.before.nbytes + runs.cell.nbytes
            self.total += panels * 2 * (tables + 8 * 8 * design.n_rows)
            self.products += 1
            return self._gram(design, V)

        CellOperator.gram = gram
        return self

    def __exit__(self, *_):
        CellOperator.gram = self._gram


def jobs(split, n_trees, seed):
    """The three main jobs on the CPU data."""
    X, y, X_val, y_val = split

    def features():
        return MondrianFeatures(0.02, n_trees, random_state=seed, n_jobs=1).fit(X)

    def path():
        return lifetime_path(
            X, y, n_estimators=n_trees, max_lifetime=0.03, n_lifetimes=20, tol=1e-3,
            alphas=np.logspace(-2, 1, 10), criterion="holdout", validation=(X_val, y_val),
            solver="lanczos", random_state=seed, n_jobs=1,
        )  # fmt: skip

    def stream():
        model = MondrianKernelRegressor(n_estimators=10, random_state=seed, n_jobs=1)
        for begin in range(0, len(X), 100):
            model.partial_fit(X[begin : begin + 100], y[begin : begin + 100])
        return model

    return features, path, stream


def measure(run):
    section = run.section("time_spent")
    X, y, train, val, _ = data.cpu_act(run.data)
    if run.quick:
        train = train & (np.arange(y.size) % 8 == 0)
    split = data.scaled(X, y, train, val)
    speed = bandwidth(100 if run.quick else 400)
    section.put(speed, "bytes_a_second")
    n_trees = 50 if run.quick else 350
    for job in jobs(split, n_trees, run.seed):
        with threadpool_limits(1):
            job()  # compiles
            with ProductBytes() as products:
                result, times = clocked(job)
            parts = shares(job)
        n_bytes = products.total
        if job.__name__ == "features":
            n_bytes = features_bytes(result.trees_)
        elif job.__name__ == "stream":
            n_bytes = stream_bytes(result.features_.trees_, len(split.X))
        least = n_bytes / speed["read"]
        section.put(
            {
                **times,
                "bytes_to_read": n_bytes,
                "seconds_at_bandwidth": least,
                "times_the_limit": times["cpu_seconds"] / least,
                "products": products.products,
                "functions": parts,
            },
            job.__name__,
        )
