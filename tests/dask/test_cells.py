"""Cells of rows in blocks: kept or found again, always some rows at a time."""

import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel.dask import cells as cells_module
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.regressor import Centred
from mondrian_kernel.features import MondrianFeatures

rng = np.random.default_rng(0)
ROWS, TARGETS = rng.normal(size=(2000, 2)), rng.normal(size=2000)


def cell_blocks(keep, n_trees=20, lifetime=1.0, chunk=900):
    features = MondrianFeatures(lifetime, n_trees, random_state=0).fit(ROWS)
    blocks = Blocks(da.from_array(ROWS, chunks=(chunk, -1)), da.from_array(TARGETS, chunks=chunk))
    return features, CellBlocks(
        blocks, features.trees_, features.levels_, Centred(np.zeros(1)), keep=keep
    )


def count(part, n_cells):
    """Rows in each cell, and how many rows came at once at most."""
    return np.bincount(part.cells.ravel(), minlength=n_cells), len(part.weight)


@pytest.mark.parametrize("lifetime", [1.0, 30.0])  # some and more than 256 cells a tree
@pytest.mark.parametrize("keep", [True, False])
def test_all_rows_are_counted_in_their_cells(keep, lifetime, monkeypatch):
    monkeypatch.setattr(settings, "SLAB_NUMBERS", 20 * 130)
    features, blocks = cell_blocks(keep, lifetime=lifetime)
    counts, n_rows = blocks.sum(count, features.n_cells_)
    assert n_rows == 2000
    assert_array_equal(counts, np.bincount(features.apply(ROWS).ravel()))
    assert (features.n_cells_per_tree_.max() > 256) == (lifetime == 30.0)


def largest(part):
    return ([len(part.weight)],)


@pytest.mark.parametrize("keep", [True, False])
def test_some_rows_at_a_time(keep, monkeypatch):
    monkeypatch.setattr(settings, "SLAB_NUMBERS", 20 * 130)
    _, blocks = cell_blocks(keep)
    (sizes,) = blocks.sum(largest)
    assert sizes == ([130] * 6 + [120]) * 2 + [130, 70]


def test_memory_does_not_grow_with_rows_times_trees(monkeypatch):
    """A block with its cells would take 2000 × 400 × 4 bytes, and its features three times that."""
    n_trees, slab = 400, 2**14
    features, blocks = cell_blocks(False, n_trees, lifetime=0.1, chunk=2000)
    monkeypatch.setattr(settings, "SLAB_NUMBERS", slab)
    columns, none = Columns.scaled(np.ones(2)), np.zeros(1)
    W = np.zeros((features.n_cells_, 1))
    model = FittedModel(features.trees_, features.levels_, W, none, columns, 1.0, 0, none)

    def peak(run):
        run()  # compiles
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    # Of a slab: leaves and cells, 4 bytes each; and to predict, the distances and Φ, 8 bytes each
    # and twice. Beside it tables of the nodes, fewer than twice as many as cells, 100 bytes each.
    trees = 200 * features.n_cells_
    with dask.config.set(scheduler="sync"):
        found = peak(lambda: blocks.sum(count, features.n_cells_))
    assert found < 8 * slab + trees + 100 * 2000
    assert peak(lambda: model.scores(ROWS, None)) < 40 * slab + trees + 100 * 2000
    assert 4 * 2000 * n_trees > 2 * (8 * slab + trees + 100 * 2000)


@pytest.mark.parametrize(("free", "kept"), [(2 * 2000 * 20, True), (2 * 2000 * 20 - 1, False)])
def test_cells_are_kept_where_there_is_room(free, kept, monkeypatch):
    monkeypatch.setattr(cells_module, "free_bytes", lambda: free)
    asked = []
    monkeypatch.setattr(cells_module, "_keep", lambda *args: asked.append(1))
    cell_blocks("auto")
    assert bool(asked) == kept
