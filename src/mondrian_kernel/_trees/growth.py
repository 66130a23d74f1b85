"""Grow Mondrian trees on rows, forward in time, in one go or in steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


class Growth:
    """M trees in growth on the rows of ``X``: mutable, until :meth:`freeze` is called.

    Parameters
    ----------
    X : ndarray of shape (N, D), float64
        The rows, finite, with finite ranges.
    n_trees : int
        Number of trees, M.
    seed : int
        Seed of all node streams, below 2**64. The trees depend on it and on ``X`` alone: not on
        ``n_jobs``, nor on the steps in which time advances.
    n_jobs : int or None
        Threads.
    """

    # Bounds the number of cells a step may add, so that a budget is overrun by little.
    _step = 0.5

    def __init__(self, X: FloatArray, n_trees: int, seed: int, n_jobs: int | None = None) -> None:
        from mondrian_kernel._kernels.grow import plant

        self._X = np.ascontiguousarray(X)
        self._columns = np.ascontiguousarray(X.T)
        self._n_jobs = n_jobs
        self.n_trees = n_trees
        self.lifetime = 0.0
        box = np.concatenate([X.min(axis=0), X.max(axis=0)])

        def run(begin: int, end: int) -> Block:
            return Block(*plant(np.uint64(seed), begin, end - begin, X.shape[0], box))

        self._blocks = in_threads(run, n_trees, n_jobs)

    @property
    def cut_times(self) -> FloatArray:
        """Times of all cuts so far, sorted."""
        times = np.concatenate([block.cut[: block.n_nodes, 1] for block in self._blocks])
        return np.sort(times[np.isfinite(times)])

    @property
    def n_cells(self) -> int:
        """Number of cells so far, of all trees."""
        return sum((block.n_nodes + block.order.shape[0]) // 2 for block in self._blocks)

    @property
    def done(self) -> bool:
        """Whether every cell holds only equal rows, so that no cut is left to come."""
        return all(block.open[0].size == 0 for block in self._blocks)

    def advance(self, lifetime: float) -> None:
        """Let time run on to ``lifetime``; a time in the past changes nothing."""
        if lifetime <= self.lifetime:
            return
        in_threads(lambda a, b: self._grow(a, b, lifetime), len(self._blocks), self._n_jobs)
        self.lifetime = lifetime

    def _grow(self, begin: int, end: int, lifetime: float) -> None:
        from mondrian_kernel._kernels.grow import grow

        for block in self._blocks[begin:end]:
            block.links, block.cut, block.n_nodes, *block.open = grow(
                self._columns, block.order, block.links, block.cut, block.n_nodes,
                *block.open, lifetime,
            )  # fmt: skip

    def advance_within(self, lifetime: float, max_cells: int) -> float:
        """Advance to ``lifetime``, or until ``max_cells`` are exceeded.

        Returns the time up to which the sample has at most ``max_cells`` cells: ``lifetime``, or
        the last moment before the first cut too many.
        """
        while self.lifetime < lifetime and self.n_cells <= max_cells and not self.done:
            rate = self._mean_rate()
            step = self._step / rate if rate > 0 else np.inf
            self.advance(min(lifetime, self.lifetime + step))
        times = self.cut_times
        n_allowed = max_cells - self.n_trees
        if times.size <= n_allowed:
            self.lifetime = max(self.lifetime, lifetime)
            return lifetime
        return float(np.nextafter(times[n_allowed], 0.0))

    def _mean_rate(self) -> float:
        """Mean rate of the clocks, a bound on the rate of cuts a cell; the sum may overflow."""
        n_cells, boxes = self.n_cells, [block.open[-1] for block in self._blocks]
        n_dims = boxes[0].shape[1] // 2
        rates = [(box[:, n_dims:] - box[:, :n_dims]).sum(axis=1) for box in boxes]
        with np.errstate(over="ignore"):  # by rounding, where a range is the largest number
            return float(min(sum((r / n_cells).sum() for r in rates), np.finfo(float).max))

    def freeze(self, lifetime: float | None = None) -> tuple[Trees, IntArray]:
        """Return the trees stopped at ``lifetime`` and the leaf of each row in each tree."""
        from mondrian_kernel._kernels.freeze import count_nodes, freeze

        lifetime = self.lifetime if lifetime is None else lifetime
        counts = [
            count_nodes(b.links, b.cut, b.order.shape[0], b.n_nodes, lifetime) for b in self._blocks
        ]
        sizes = np.concatenate(counts)
        n, (n_rows, n_dims) = int(sizes.sum()), self._X.shape
        root = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        parent, left, right, dim, count = (np.empty(n, np.int32) for _ in range(5))
        loc, time = np.empty(n), np.empty(n)
        lower, upper = np.empty((n, n_dims)), np.empty((n, n_dims))
        leaf = np.empty((n_rows, self.n_trees), np.int32)
        nodes = np.concatenate([[0], np.cumsum([c.sum() for c in counts])]).astype(int)
        trees = np.concatenate([[0], np.cumsum([c.size for c in counts])]).astype(int)

        def run(begin: int, end: int) -> None:
            for k in range(begin, end):
                block, s = self._blocks[k], slice(nodes[k], nodes[k + 1])
                freeze(
                    self._X, block.order, block.links, block.cut, block.n_nodes, lifetime,
                    parent[s], left[s], right[s], dim[s], loc[s], time[s], count[s],
                    lower[s], upper[s], leaf[:, trees[k] : trees[k + 1]], nodes[k],
                )  # fmt: skip

        in_threads(run, len(self._blocks), self._n_jobs)
        tree = np.repeat(np.arange(self.n_trees, dtype=np.int32), sizes)
        frozen = Trees(
            lifetime, root, tree, parent, left, right, dim, loc, time, lower, upper, count
        )
        return frozen, leaf


class Block:
    """Some consecutive trees in growth; see :mod:`mondrian_kernel._kernels.grow` for the arrays."""

    def __init__(self, order: Any, links: Any, cut: Any, *open_nodes: Any) -> None:
        self.order, self.links, self.cut = order, links, cut
        self.n_nodes: int = links.shape[0]
        self.open: list[Any] = list(open_nodes)
