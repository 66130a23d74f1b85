"""Grow trees in shares: rows that fit on a worker go there, and each task grows some trees."""

from __future__ import annotations

import itertools
from operator import attrgetter

import dask
import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.checks import check_ranges
from mondrian_kernel._trees.growth import Block, Growth
from mondrian_kernel._trees.threads import Tell, no_one
from mondrian_kernel._trees.trees import Trees, join_trees
from mondrian_kernel._typing import IntArray
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cluster import compute, delayed_call, fits_worker, n_workers, persist
from mondrian_kernel.dask.growth import BlockGrowth


def start_growth(blocks: Blocks, n_trees: int, seed: int) -> SharedGrowth | BlockGrowth:
    """Return trees in growth: in shares where a worker has room for all rows, else in rounds."""
    in_shares = fits_worker(share_bytes(blocks.n_rows, blocks.n_columns, n_trees))
    return (SharedGrowth if in_shares else BlockGrowth)(blocks, n_trees, seed)


def share_bytes(n_rows: int, n_columns: int, n_trees: int) -> int:
    """Memory that a worker needs for its shares: the rows, two copies each, and their orders."""
    own = _n_shares(n_trees) // n_workers()
    return n_rows * (8 * n_columns * (1 + 2 * own) + 4 * -(-n_trees // n_workers()))


def _n_shares(n_trees: int) -> int:
    """Return the number of shares: as many for each worker."""
    return n_workers() * -(-n_trees // (n_workers() * settings.GROWTH_TREES))


class SharedGrowth(Growth):
    """M trees in growth on workers, each of which has all rows and grows some of the trees.

    A share is a growth in one place. Of its trees the client holds what it needs to know between
    steps: cuts and open nodes. A share that has grown on is as good as before for a task that is
    run again, since growing in steps changes nothing.
    """

    n_rounds = 1

    def __init__(self, blocks: Blocks, n_trees: int, seed: int) -> None:
        check_ranges(blocks.box)
        self.n_trees, self.lifetime = n_trees, 0.0
        parts = blocks.without_targets().map(attrgetter("X"))
        rows = dask.delayed(np.concatenate, pure=False)(parts)
        plant = dask.delayed(Growth, pure=False)
        edges = np.unique(np.linspace(0, n_trees, _n_shares(n_trees) + 1).astype(int)).tolist()
        own = itertools.pairwise(edges)
        self._shares = persist([plant(rows, end - first, seed, 1, first) for first, end in own])
        self._blocks = [Block.plant(seed, 0, n_trees, 0, blocks.box.ravel())]

    def advance(self, lifetime: float, tell: Tell = no_one) -> None:
        """Let time run on to ``lifetime``; a time in the past changes nothing."""
        if lifetime <= self.lifetime:
            return
        shares = delayed_call(self._shares, _advance, lifetime, self._keeps_clocks)
        self._shares = persist(shares)
        known = compute(delayed_call(self._shares, _outlines))
        self._blocks = [block for blocks in known for block in blocks]
        self.lifetime = lifetime

    def freeze(self, lifetime: float | None = None) -> tuple[Trees, IntArray]:
        """Return the trees stopped at ``lifetime``; of the rows none is here, so no leaves."""
        lifetime = self.lifetime if lifetime is None else lifetime
        trees = join_trees(compute(delayed_call(self._shares, _frozen, lifetime)))
        return trees, np.empty((0, self.n_trees), np.int32)


def cells_on_blocks(blocks: Blocks, lifetime: float, seed: int, n_trees: int) -> int:
    """Return the number of cells of a few trees at a lifetime."""
    few = start_growth(blocks, n_trees, seed)
    few.advance_within(lifetime, n_trees * blocks.n_rows)
    return few.n_cells


def _advance(share: Growth, lifetime: float, keeps_clocks: bool) -> Growth:
    share._keeps_clocks = keeps_clocks
    share.advance(lifetime)
    return share


def _outlines(share: Growth) -> list[Block]:
    """Trees of a share without the order of their rows and the links of their nodes."""
    return [block.outline() for block in share._blocks]


def _frozen(share: Growth, lifetime: float) -> Trees:
    return share.freeze(lifetime)[0]
