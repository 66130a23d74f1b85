"""Blocks are read by the tasks that use them, where each is made by tasks of its own."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.callbacks import Callback
from numpy.testing import assert_array_equal

from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cluster import Recipe, add, parts_of, row_array

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(90, 3))


def from_files(folder):
    for k in range(9):
        np.save(folder / f"{k}.npy", ROWS[10 * k : 10 * k + 10])
    read = dask.delayed(np.load)
    parts = [da.from_delayed(read(folder / f"{k}.npy"), (10, 3), float) for k in range(9)]
    return 2.0 * da.concatenate(parts)


def from_parquet(folder):
    for k in range(9):
        frame = pd.DataFrame(2.0 * ROWS[10 * k : 10 * k + 10], columns=list("abc"))
        frame.to_parquet(folder / f"{k}.parquet")
    return row_array(dd.read_parquet(folder, split_row_groups=True))[0]


def from_memory(folder):
    return da.from_array(2.0 * ROWS, chunks=(10, 3))


def kept_by_threads(folder):
    return from_memory(folder).persist()


SOURCES = [from_files, from_parquet, from_memory, kept_by_threads]


@pytest.mark.parametrize("source", SOURCES)
def test_recipes_make_the_blocks(source, tmp_path):
    parts = parts_of(source(tmp_path))
    assert all(isinstance(part, Recipe) for part in parts)
    assert_array_equal(np.concatenate([part() for part in parts]), 2.0 * ROWS)


class Tasks(Callback):
    def __init__(self):
        super().__init__(pretask=lambda key, *_: self.keys.append(key))
        self.keys = []


@pytest.mark.parametrize("source", SOURCES)
def test_a_task_for_each_block(source, tmp_path):
    """And one less to put the answers together, and the message."""
    blocks = Blocks(source(tmp_path))
    with Tasks() as tasks, dask.config.set(scheduler="sync"):
        (total,) = blocks.total(lambda rows: (rows.X.sum(axis=0),), add)
    np.testing.assert_allclose(total, 2.0 * ROWS.sum(axis=0))
    assert len(tasks.keys) <= 9 + 8 + 1


def test_what_blocks_share_is_made_once():
    made = []

    def make(block):
        made.append(block.shape)
        return block

    # The meta that is given keeps dask from trying out the function.
    X = da.from_array(ROWS, chunks=(45, 3)).map_blocks(make, meta=np.empty((0, 0)))
    X = X.rechunk((15, 3))
    assert not any(isinstance(part, Recipe) for part in parts_of(X))
    with dask.config.set(scheduler="sync"):
        Blocks(X).total(lambda rows: (len(rows.X),), add)
    assert made == [(45, 3)] * 2
