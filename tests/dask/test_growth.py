"""Trees grown on blocks are the trees grown in one place, bit for bit."""

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import MondrianFeatures
from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel.dask import DaskMondrianFeatures, cluster, growth, shares
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.growth import BlockGrowth
from mondrian_kernel.dask.shares import SharedGrowth, start_growth

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


def grown(X, n_trees, seed=SEED, at_once=None):
    return BlockGrowth(Blocks(X), n_trees, seed, at_once=at_once)


@pytest.fixture(params=["shares", "rounds"])
def way(request, monkeypatch):
    """Both ways to grow."""
    monkeypatch.setattr(shares, "fits_worker", lambda n_bytes: request.param == "shares")
    return request.param


def assert_same_trees(a, b):
    assert a.lifetime == b.lifetime
    for name in TABLES:
        one, other = getattr(a, name), getattr(b, name)
        assert one.dtype == other.dtype, name
        assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("n_chunks", [1, 3, 7])
@pytest.mark.parametrize("lifetime", [0.0, 0.4, 3.0, np.inf])
def test_same_trees_whatever_the_blocks(lifetime, n_chunks, way):
    local = MondrianFeatures(lifetime, 11, random_state=3).fit(ROWS)
    blocks = DaskMondrianFeatures(lifetime, 11, random_state=3).fit(in_chunks(ROWS, n_chunks))
    assert_same_trees(local.trees_, blocks.trees_)
    assert local.n_cells_ == blocks.n_cells_


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_same_trees_on_every_scheduler(scheduler, way):
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
def test_same_trees_on_odd_rows(X, way):
    local = MondrianFeatures(np.inf, 5, random_state=0).fit(X)
    assert_same_trees(
        local.trees_, DaskMondrianFeatures(np.inf, 5, random_state=0).fit(in_chunks(X, 3)).trees_
    )


@pytest.mark.parametrize("at_once", [None, 3, 1, 0])
def test_growing_in_steps_changes_nothing(at_once, monkeypatch):
    """However many trees grow at once, or if nothing is remembered, and in slabs of rows."""
    monkeypatch.setattr(settings, "ROUND_TREES_LEAST", 1)
    monkeypatch.setattr(settings, "ROUND_ROWS", 100)
    steps, once = grown(in_chunks(ROWS, 3), 7, at_once=at_once), Growth(ROWS, 7, SEED)
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


def test_a_budget_stops_at_the_same_time(way):
    steps, once = start_growth(Blocks(in_chunks(ROWS, 4)), 7, SEED), Growth(ROWS, 7, SEED)
    end = steps.advance_within(5.0, 60)
    assert end == once.advance_within(5.0, 60)
    assert steps.freeze(end)[0].cells(end).total == 60


def test_a_round_for_each_level():
    """Cuts that miss the rows cost no pass over them."""
    blocks = grown(in_chunks(ROWS, 2), 7)
    blocks.advance(1.0)
    trees = blocks.freeze()[0]
    depth = np.zeros(trees.parent.size, int)
    for node, parent in enumerate(trees.parent):  # children come after their parents
        depth[node] = 0 if parent < 0 else depth[parent] + 1
    assert blocks.n_rounds == depth.max()


@pytest.mark.parametrize(("free", "at_once"), [(4 * 700 * 3, 3), (4 * 700 * 3 - 1, 0)])
def test_as_many_trees_at_once_as_there_is_room_for(free, at_once, monkeypatch):
    """Two bytes for each row and tree, in half of the memory; the trees are the same."""
    monkeypatch.setattr(settings, "ROUND_TREES_LEAST", 3)
    monkeypatch.setattr(growth, "free_bytes", lambda: free)
    some, all_at_once = grown(in_chunks(ROWS, 2), 7), grown(in_chunks(ROWS, 2), 7, at_once=7)
    for blocks in some, all_at_once:
        blocks.advance(0.5)
        assert_same_trees(blocks.freeze()[0], local_trees(0.5))
    assert (some.n_rounds > all_at_once.n_rounds) == (at_once > 0)
    assert some._keeps_places == (at_once > 0)


def local_trees(lifetime):
    local = Growth(ROWS, 7, SEED)
    local.advance(lifetime)
    return local.freeze()[0]


@pytest.mark.parametrize("lacks", [0, 1])
def test_trees_grow_in_shares_where_a_worker_has_room(lacks, monkeypatch):
    """Rows three times and their order in each tree, in half of the free memory of a worker."""
    free = 2 * (3 * ROWS.nbytes + 4 * 700 * 7) - lacks
    monkeypatch.setattr(cluster, "_free_bytes", lambda: [free])
    found = start_growth(Blocks(in_chunks(ROWS, 2)), 7, SEED)
    assert isinstance(found, BlockGrowth if lacks else SharedGrowth)


def test_shares_of_many_workers(monkeypatch):
    """In steps, of more trees than workers or fewer."""
    monkeypatch.setattr(cluster, "_free_bytes", lambda: [1e9] * 3)
    for n_trees in 2, 7, 50:
        steps, once = (
            start_growth(Blocks(in_chunks(ROWS, 3)), n_trees, SEED),
            Growth(ROWS, n_trees, SEED),
        )
        for lifetime in 0.1, 0.15, 0.15, 1.0, 0.3:
            steps.advance(lifetime)
        once.advance(1.0)
        assert len(steps._shares) == min(n_trees, 3 if n_trees < 48 else 6)
        assert_same_trees(steps.freeze(0.2)[0], once.freeze(0.2)[0])
        assert_same_trees(steps.freeze()[0], once.freeze()[0])
        assert_array_equal(steps.cut_times, once.cut_times)
        assert steps.n_cells == once.n_cells
        assert not steps.done


def test_blocks_without_rows(way):
    X = da.concatenate([in_chunks(ROWS, 2), da.zeros((0, 4)), in_chunks(ROWS[:5], 1)])
    X = X.rechunk({0: (350, 0, 350, 5)})
    local = MondrianFeatures(1.0, 5, random_state=0).fit(np.vstack([ROWS, ROWS[:5]]))
    assert_same_trees(local.trees_, DaskMondrianFeatures(1.0, 5, random_state=0).fit(X).trees_)
