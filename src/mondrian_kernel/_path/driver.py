"""One way along the lifetimes: grow, score, report, stop, whatever the learner."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import _settings as settings
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.threads import Tell
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures

Callback = Callable[[int, int, dict[str, Any]], None]
Verbose = int | Callback


class Point(NamedTuple):
    """What a learner found at one lifetime: every curve is of shape (A,)."""

    lifetime: float
    n_cells: int
    curves: dict[str, FloatArray]
    solver: str = ""


Score = Callable[[Trees, IntArray, FloatArray], Iterator[list[Point]]]
"""What is evaluated along a path: ``score(trees, leaf, lifetimes)`` yields points at ascending
lifetimes, one at a time or some together. ``leaf`` (N, M) is the leaf of each row in each of the
trees, which reach the last of the lifetimes at least. Later calls have later lifetimes."""


@dataclass(frozen=True)
class Plan:
    """Which lifetimes a path evaluates, and when it stops.

    Given ``lifetimes`` are all evaluated. With ``max_lifetime`` alone ``n_lifetimes`` are placed
    up to it, by the growth of the number of cells. With neither the trees grow to at most
    ``budget`` cells, until the best score lies ``patience`` lifetimes back and the last is worse by
    more than ``margin`` (None: 3 % of the best). With ``warns`` a best lifetime at the end of the
    path gives a warning.
    """

    n_lifetimes: int
    budget: int
    patience: int
    margin: float | None = None
    max_lifetime: float | None = None
    lifetimes: FloatArray | None = None
    warns: bool = False

    @property
    def end(self) -> float | None:
        """Last lifetime, where it is known beforehand."""
        return self.max_lifetime if self.lifetimes is None else float(self.lifetimes[-1])

    def is_past(self, best: FloatArray) -> bool:
        """Whether the least of the best scores (L,) lies back and the last is clearly worse."""
        if int(np.argmin(best)) > best.size - 1 - self.patience:
            return False
        margin = settings.CLEARLY_WORSE * best.min() if self.margin is None else self.margin
        return bool(best[-1] > best.min() + margin)


def follow(
    grown: Growth | Grown,
    score: Score,
    plan: Plan,
    alphas: FloatArray,
    criterion: str,
    callback: Callback | None,
) -> tuple[LifetimePath, Trees, IntArray]:
    """Evaluate a learner along the lifetimes of trees that grow, or are grown.

    Returns a path without models, the trees that it ends with, and the leaf of each row. After an
    interrupt the path holds the points done; without any, the interrupt is raised again.
    """
    steps: Iterable[FloatArray]
    total, end = plan.n_lifetimes, plan.end
    if end is None:
        assert isinstance(grown, Growth)
        steps = growing(grown, plan.n_lifetimes, plan.budget)
    else:
        end = advance(grown, end, plan.budget)
        trees, leaf = grown.freeze(end)
        wanted = plan.lifetimes
        if wanted is None:
            wanted = lifetimes_between(grown.cut_times, end, grown.n_trees, plan.n_lifetimes)
        wanted = np.unique(np.minimum(wanted, end))
        steps, total = [wanted[part] for part in in_groups(wanted.size)], wanted.size

    def scored() -> Iterator[list[Point]]:
        nonlocal trees, leaf
        for group in steps:
            if end is None:
                trees, leaf = grown.freeze(float(group[-1]))
            yield from score(trees, leaf, group)

    points: list[Point] = []
    complete = True
    try:
        for new in scored():
            points += new
            path = _path(points, alphas, criterion)
            best = np.nanmin(path.score, axis=1)
            if callback is not None:
                info = {
                    "lifetime": points[-1].lifetime,
                    "best": float(best.min()),
                    "measure": path.score_name,
                }
                callback(len(points), total, info)
            if end is None and plan.is_past(best):
                break
    except KeyboardInterrupt:
        if not points:
            raise
        complete = False
        if end is None:
            trees, leaf = grown.freeze(points[-1].lifetime)
    path = _path(points, alphas, criterion, complete)
    if complete and plan.warns:
        _warn(path, grown, plan)
    return path, trees, leaf


def _path(
    points: list[Point], alphas: FloatArray, criterion: str, complete: bool = True
) -> LifetimePath:
    curves = {name: np.array([p.curves[name] for p in points]) for name in points[0].curves}
    solver = np.array([p.solver for p in points]) if points[0].solver else None
    return LifetimePath(
        np.array([p.lifetime for p in points]),
        np.array([p.n_cells for p in points]),
        alphas,
        curves,
        criterion,
        complete,
        solver,
    )


def _warn(path: LifetimePath, grown: Growth | Grown, plan: Plan) -> None:
    """Warn where more cells, or a larger lifetime, might have been better."""
    last = float(path.lifetimes[-1])
    if plan.end is None and grown.n_cells >= plan.budget and not grown.done:
        _warn_budget(last)
    best = int(np.argmin(np.nanmin(path.score, axis=1)))
    if best == path.lifetimes.size - 1 and plan.lifetimes is None and not grown.done:
        warnings.warn(
            f"The best lifetime, {last:.4g}, is the last of the path: a larger one may be better. "
            "Raise max_lifetime.",
            UserWarning,
            stacklevel=_outside(),
        )


def _warn_budget(lifetime: float) -> None:
    warnings.warn(
        f"The trees have as many cells as fit into memory at lifetime {lifetime:.4g}; the path "
        "ends there. Fewer trees (n_estimators) get further.",
        UserWarning,
        stacklevel=_outside(),
    )


def _outside() -> int:
    """Return the ``stacklevel`` of a warning that points to the caller of the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("mondrian_kernel."):
        frame, level = frame.f_back, level + 1
    return level


def advance(grown: Growth | Grown, max_lifetime: float, budget: int) -> float:
    """Grow the trees to a lifetime, or as far as memory allows; return the lifetime reached."""
    end = grown.advance_within(max_lifetime, budget)
    if end < max_lifetime:
        _warn_budget(end)
    return end


def cell_budget(shape: tuple[int, ...], n_trees: int) -> int:
    """Cells that fit into memory: two boxes of D sides for every node."""
    n_rows, n_columns = shape
    return int(
        min(n_rows * n_trees, max(2 * n_trees, settings.TREE_BYTES / (64 * n_columns + 200)))
    )


class Grown:
    """Trees that exist already, in the place of trees in growth."""

    def __init__(self, features: MondrianFeatures, rows: FloatArray) -> None:
        check_is_fitted(features)
        self._trees, self.n_trees = features.trees_, features.trees_.n_trees
        self._lifetime, self.n_cells = features.lifetime_, features.n_cells_
        self._leaf, log_stay = self._trees.walk(rows, self._lifetime, features.n_jobs)
        if log_stay.any():
            row = int(np.flatnonzero(log_stay.any(axis=1))[0])
            raise ValueError(
                f"features were not fitted on these rows: row {row} of X is new to them."
            )
        self.cut_times = self._trees.cuts.time
        self.done = False

    def advance_within(self, lifetime: float, max_cells: int) -> float:
        """Return a lifetime that the trees have reached; others are refused."""
        if lifetime > self._lifetime:
            raise ValueError(
                f"The features end at lifetime_={self._lifetime:.6g}, before {lifetime:.6g}. Fit "
                "them with a larger lifetime."
            )
        return lifetime

    def freeze(self, lifetime: float) -> tuple[Trees, IntArray]:
        """Return the trees as they are, and the leaf of each row in each."""
        return self._trees, self._leaf


def trees_of(
    features: MondrianFeatures | None,
    rows: FloatArray,
    n_estimators: int,
    seed: int,
    n_jobs: int | None,
    max_lifetime: float | None,
) -> tuple[Growth | Grown, int, float | None]:
    """Return trees of the rows, their most cells, and where they end."""
    if features is None:
        budget = cell_budget(rows.shape, n_estimators)
        return Growth(rows, n_estimators, seed, n_jobs), budget, max_lifetime
    end = min(max_lifetime or np.inf, features.lifetime_)
    return Grown(features, rows), features.n_cells_, end


def in_groups(n: int, least: int = 1) -> list[slice]:
    """Split so many lifetimes into groups of at most eight, which cost as much as one.

    There are ``least`` groups or more. If one is smaller it is the first, of the fewest cells.
    """
    size = max(1, min(settings.PATH_GROUP, n // least))
    edges = [0, *range(n % size or size, n + 1, size)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def cell_targets(n_trees: int, last: int, n_lifetimes: int) -> list[int]:
    """Numbers of cells in geometric progression from just above M to ``last``."""
    steps = np.arange(1, n_lifetimes + 1) / n_lifetimes
    return sorted({round(n_trees * (last / n_trees) ** s) for s in steps})


def lifetimes_between(
    cut_times: FloatArray, end: float, n_trees: int, n_lifetimes: int
) -> FloatArray:
    """Lifetimes up to ``end``, placed by the growth of the number of cells."""
    cut_times = cut_times[cut_times <= end]
    if not np.isfinite(end):
        end = float(cut_times[-1]) if cut_times.size else 0.0
    if cut_times.size == 0:
        return np.array([end])
    targets = cell_targets(n_trees, n_trees + cut_times.size, n_lifetimes)
    cuts = np.maximum(np.array(targets) - n_trees, 1)
    return np.unique(np.append(cut_times[cuts[:-1] - 1], end))


def growing(growth: Growth, n_lifetimes: int, max_cells: int) -> Iterator[FloatArray]:
    """Yield groups of lifetimes. Before each, the trees grow to the last of its lifetimes.

    Ends when every row has a cell of its own or at ``max_cells``.
    """
    seen = 0.0
    targets = cell_targets(growth.n_trees, max_cells, n_lifetimes)
    for part in in_groups(len(targets), settings.GROWING_GROUPS):
        group = targets[part]
        growth.advance_within(np.inf, group[-1])
        times = growth.cut_times
        if times.size == 0:
            yield np.zeros(1)
            return
        wanted = np.minimum(np.array(group) - growth.n_trees, times.size)
        lifetimes = np.unique(times[wanted[wanted > 0] - 1])
        lifetimes = lifetimes[lifetimes > seen]
        if lifetimes.size:
            yield lifetimes
            seen = lifetimes[-1]
        if growth.done and seen == times[-1]:
            return


def listener(verbose: Verbose) -> Callback | None:
    """Return the callback of a path: None, :func:`report`, or the given callable."""
    if callable(verbose):
        return verbose
    return report if verbose else None


class Stages:
    """Tells how far a fit of several stages has come, as a path does.

    ``seconds`` holds the time that each stage took.
    """

    def __init__(self, verbose: Verbose, total: int) -> None:
        from mondrian_kernel._kernels.compiled import n_compiled

        self._tell, self._total = listener(verbose), total
        self._count, self._n_compiled = n_compiled, n_compiled()
        self.seconds: dict[str, float] = {}
        self._began = perf_counter()

    def teller(self, what: str) -> Tell:
        """Return a function that is told which share of a stage is done, by any thread.

        It passes the share and the time left on once a second has gone by, and then whenever a
        quarter more time has passed: a stage of an hour makes some forty reports.
        """
        began, lock = perf_counter(), threading.Lock()
        due = began + settings.PROGRESS_FIRST

        def tell(share: float) -> None:
            nonlocal due
            with lock:
                now = perf_counter()
                if self._tell is None or now < due or not 0 < share < 1:
                    return
                due = now + settings.PROGRESS_GROWTH * (now - began)
                left = (now - began) * (1.0 - share) / share
                info = {"stage": what, "share": share, "seconds_left": left}
                self._tell(len(self.seconds), self._total, info)

        return tell

    def done(self, stage: str) -> None:
        """Tell that a stage has ended, and the seconds that it took."""
        now = perf_counter()
        self.seconds[stage] = seconds = now - self._began
        if self._tell is not None:
            compiled = self._count() > self._n_compiled
            info = {"stage": stage, "seconds": seconds, "compiled": compiled}
            self._tell(len(self.seconds), self._total, info)
        self._began, self._n_compiled = now, self._count()


def report(done: int, total: int, info: dict[str, Any]) -> None:
    """Print how far a path or a fit has come."""
    if "share" in info:
        left = f"{info['seconds_left']:.0f} s left"
        print(f"fit {done + 1}/{total}: {info['stage']}, {100 * info['share']:.0f} %, {left}")
        return
    if "stage" in info:
        compiled = ", some of it to compile, once on a machine" if info["compiled"] else ""
        print(f"fit {done}/{total}: {info['stage']}, {info['seconds']:.1f} s{compiled}")
        return
    lowest = f"lowest {info['measure']}: {info['best']:.4g}"
    print(f"lifetime path {done}/{total}: lifetime {info['lifetime']:.4g}, {lowest}")
