"""Trees grown on blocks are the trees grown in one place, bit for bit."""

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import MondrianFeatures
from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel.dask import DaskMondrianFeatures, cluster
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.growth import BlockGrowth

TABLES = (
    "root",
    "tree",
    "parent",
    "left",
    "right",
    "dim",
    "loc",
    "time",
    "lower",
    "upper",
    "count",
)
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(700, 4)) * [1.0, 5.0, 0.2, 1.0]
ROWS[:, 2] = ROWS[:, 2].round(1)  # with ties
ROWS[::9] = ROWS[0]  # and copies
SEED = 2**61 + 3


def in_chunks(X, n_chunks):
    return da.from_array(X, chunks=(-(-X.shape[0] // n_chunks), -1))


def grown(X, n_trees, seed=SEED, keep=None):
    return BlockGrowth(Blocks(X), n_trees, seed, keep=keep)


def assert_same_trees(a, b):
    assert a.lifetime == b.lifetime
    for name in TABLES:
        one, other = getattr(a, name), getattr(b, name)
        assert one.dtype == other.dtype, name
        assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("n_chunks", [1, 3, 7])
@pytest.mark.parametrize("lifetime", [0.0, 0.4, 3.0, np.inf])
def test_same_trees_whatever_the_blocks(lifetime, n_chunks):
    local = MondrianFeatures(lifetime, 11, random_state=3).fit(ROWS)
    blocks = DaskMondrianFeatures(lifetime, 11, random_state=3).fit(in_chunks(ROWS, n_chunks))
    assert_same_trees(local.trees_, blocks.trees_)
    assert local.n_cells_ == blocks.n_cells_


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_same_trees_on_every_scheduler(scheduler):
    local = MondrianFeatures(1.0, 11, random_state=3).fit(ROWS)
    with dask.config.set(scheduler=scheduler):
        blocks = DaskMondrianFeatures(1.0, 11, random_state=3).fit(in_chunks(ROWS, 5))
    assert_same_trees(local.trees_, blocks.trees_)


@pytest.mark.parametrize(
    "X",
    [
        ROWS[:1],
        ROWS[:2],
        np.zeros((5, 2)),
        np.c_[np.zeros(20), np.arange(20.0)],
        np.arange(30.0)[:, None],
        -1e300 * ROWS[:50, :1],
    ],
)
def test_same_trees_on_odd_rows(X):
    local = MondrianFeatures(np.inf, 5, random_state=0).fit(X)
    assert_same_trees(
        local.trees_, DaskMondrianFeatures(np.inf, 5, random_state=0).fit(in_chunks(X, 3)).trees_
    )


@pytest.mark.parametrize("keep", [True, False])
def test_growing_in_steps_changes_nothing(keep, monkeypatch):
    """Whether or not blocks remember where their rows are, and in several slabs of rows."""
    monkeypatch.setattr(settings, "ROUND_ROWS_LEAST", 100)
    monkeypatch.setattr(settings, "ROUND_NUMBERS", 1)
    steps, once = grown(in_chunks(ROWS, 3), 7, keep=keep), Growth(ROWS, 7, SEED)
    for lifetime in 0.1, 0.15, 0.15, 1.0, 0.3:
        steps.advance(lifetime)
    once.advance(1.0)
    assert_same_trees(steps.freeze()[0], once.freeze()[0])
    assert_same_trees(steps.freeze(0.2)[0], once.freeze(0.2)[0])
    assert_array_equal(steps.cut_times, once.cut_times)
    assert steps.n_cells == once.n_cells
    assert not steps.done
    steps.advance(np.inf)
    assert steps.done


def test_a_budget_stops_at_the_same_time():
    steps, once = grown(in_chunks(ROWS, 4), 7), Growth(ROWS, 7, SEED)
    end = steps.advance_within(5.0, 60)
    assert end == once.advance_within(5.0, 60)
    assert steps.freeze(end)[0].cells(end).total == 60


def test_a_round_for_each_level():
    """Cuts that miss the rows cost no pass over them."""
    growth = grown(in_chunks(ROWS, 2), 7)
    growth.advance(1.0)
    trees = growth.freeze()[0]
    depth = np.zeros(trees.parent.size, int)
    for node, parent in enumerate(trees.parent):  # children come after their parents
        depth[node] = 0 if parent < 0 else depth[parent] + 1
    assert growth.n_rounds == depth.max()


@pytest.mark.parametrize("free", [4 * 700 * 7 * 2, 4 * 700 * 7 * 2 - 1])
def test_places_are_kept_where_there_is_room(free, monkeypatch):
    monkeypatch.setattr(cluster, "free_bytes", lambda: free)
    growth = grown(in_chunks(ROWS, 2), 7)
    growth.advance(0.5)
    assert (growth._kept[0] is not None) == (free == 4 * 700 * 7 * 2)


def test_blocks_without_rows():
    X = da.concatenate([in_chunks(ROWS, 2), da.zeros((0, 4)), in_chunks(ROWS[:5], 1)])
    X = X.rechunk({0: (350, 0, 350, 5)})
    local = MondrianFeatures(1.0, 5, random_state=0).fit(np.vstack([ROWS, ROWS[:5]]))
    assert_same_trees(local.trees_, DaskMondrianFeatures(1.0, 5, random_state=0).fit(X).trees_)
