"""Trees in growth and frozen: structure, exact equalities, and the kernels one by one.

Few rows and few trees throughout, so that the file also runs with the JIT off.
"""

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel._kernels.grow import ring
from mondrian_kernel._kernels.streams import left_key, right_key, root_key, uniform
from mondrian_kernel._kernels.walk import box_distance
from mondrian_kernel._trees.growth import Growth
from oracles import path_down, splitmix64, stay_probability

LINKS = ("root", "tree", "parent", "left", "right", "dim", "loc", "time", "lower", "upper", "count")

ROWS = {
    "normal": np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 3.0, 0.2],
    "lattice": np.random.default_rng(1).integers(0, 4, size=(40, 2)).astype(float),
    "constant column": np.random.default_rng(2).normal(size=(20, 3)) * [1.0, 0.0, 2.0],
    "equal rows": np.full((5, 2), 0.3),
    "one row": np.array([[1.0, -2.0, 5.0]]),
    "line": np.linspace(0.0, 1.0, 25)[:, None] ** 3,
    "denormal": np.random.default_rng(3).integers(0, 5, size=(12, 2)) * 5e-324,
    "huge": np.random.default_rng(4).uniform(-4e307, 4e307, size=(12, 2)),
    "scales": np.random.default_rng(5).normal(size=(15, 3)) * [1e-200, 1.0, 1e200],
}


def grown(X, lifetime, n_trees=4, seed=0, n_jobs=1):
    growth = Growth(X, n_trees, seed, n_jobs)
    growth.advance(lifetime)
    return growth


def typical_lifetime(X):
    """Return a time at which trees on these rows have a few cuts."""
    rate = float((X.max(axis=0) - X.min(axis=0)).sum())
    return min(3.0 / rate, 1e308) if rate > 0 else 1.0


def assert_same_trees(a, b):
    (trees_a, leaf_a), (trees_b, leaf_b) = a, b
    assert_array_equal(leaf_a, leaf_b)
    for name in LINKS:
        one, other = getattr(trees_a, name), getattr(trees_b, name)
        assert one.dtype == other.dtype
        assert_array_equal(one, other, err_msg=name)


def assert_is_a_tree_on(X, trees, leaf, lifetime):
    """Everything that is true of every frozen block of trees, whatever was drawn."""
    assert (trees.n_trees, trees.n_dims) == (leaf.shape[1], X.shape[1])
    assert all(getattr(trees, name).dtype == np.int32 for name in (*LINKS[:6], "count"))
    is_cut = trees.left >= 0
    assert_array_equal(is_cut, trees.right >= 0)
    assert_array_equal(is_cut, trees.dim >= 0)
    assert_array_equal(is_cut, np.isfinite(trees.time))
    assert_array_equal(is_cut, np.isfinite(trees.loc))
    assert (trees.time[is_cut] <= lifetime).all()
    assert_array_equal(np.flatnonzero(trees.parent < 0), trees.root)
    assert_array_equal(trees.tree[trees.root], np.arange(trees.n_trees))
    for node in np.flatnonzero(is_cut):
        children = trees.left[node], trees.right[node]
        assert children[0] == node + 1, "the table is in preorder"
        assert all(trees.parent[c] == node and trees.tree[c] == trees.tree[node] for c in children)
        assert all(trees.time[c] >= trees.time[node] for c in children)
        assert trees.lower[node, trees.dim[node]] <= trees.loc[node]
        assert trees.loc[node] < trees.upper[node, trees.dim[node]]
    for m in range(trees.n_trees):
        members = {}
        for i, x in enumerate(X):
            path = path_down(trees, m, x)
            assert path[-1] == leaf[i, m]
            for node in path:
                members.setdefault(node, []).append(i)
        assert set(members) == set(np.flatnonzero(trees.tree == m)), "a node without rows"
        for node, rows in members.items():
            assert trees.count[node] == len(rows)
            assert_array_equal(trees.lower[node], X[rows].min(axis=0))
            assert_array_equal(trees.upper[node], X[rows].max(axis=0))


# ---- the frozen table ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("grow_to", ["nothing", "typical", "full"])
def test_structure(name, grow_to):
    X = ROWS[name]
    lifetime = {"nothing": 0.0, "typical": typical_lifetime(X), "full": np.inf}[grow_to]
    growth = grown(X, lifetime)
    trees, leaf = growth.freeze()
    assert_is_a_tree_on(X, trees, leaf, lifetime)
    assert trees.lifetime == growth.lifetime == lifetime
    assert growth.n_cells == (trees.left < 0).sum()
    assert_array_equal(growth.cut_times, trees.cuts.time)
    if grow_to == "nothing":
        assert growth.n_cells == 4


@pytest.mark.parametrize("name", sorted(set(ROWS) - {"denormal"}))
def test_fully_grown_has_one_cell_for_every_different_row(name):
    X = ROWS[name]
    growth = grown(X, np.inf)
    assert growth.done
    trees, leaf = growth.freeze()
    n_different = len(np.unique(X, axis=0))
    assert_array_equal(trees.cells(np.inf).per_tree, np.full(4, n_different))
    for m in range(4):
        together = leaf[:, m][:, None] == leaf[:, m]
        assert_array_equal(together, (X[:, None] == X).all(axis=2))


def test_rows_too_close_to_be_cut_in_any_time_stay_together():
    growth = grown(ROWS["denormal"], np.inf)
    assert not growth.done
    assert growth.n_cells == 4


@given(
    X=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 7), st.integers(1, 4)),
        elements=st.floats(-1e300, 1e300) | st.sampled_from([0.0, -0.0, 5e-324, 1.0, 1e-308]),
    ),
    lifetime=st.floats(0, np.inf),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=60, deadline=None)
def test_structure_on_any_rows(X, lifetime, seed):
    growth = Growth(X, 2, seed)
    growth.advance(lifetime)
    trees, leaf = growth.freeze()
    assert_is_a_tree_on(X, trees, leaf, lifetime)
    node, log_stay = trees.walk(X, lifetime)
    assert_array_equal(node, leaf)
    assert_array_equal(log_stay, 0.0)


def test_cuts_are_in_time_order():
    trees, _ = grown(ROWS["normal"], 0.5).freeze()
    time, tree, dim, loc, node = trees.cuts
    assert time.size == (trees.left >= 0).sum() > 10
    assert (np.diff(time) >= 0).all()
    for name, column in (("time", time), ("tree", tree), ("dim", dim), ("loc", loc)):
        assert_array_equal(getattr(trees, name)[node], column)


# ---- the same trees, however they are grown ----------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_growth_in_steps_equals_growth_in_one_go(name):
    X = ROWS[name]
    lifetime = typical_lifetime(X)
    steps = Growth(X, 4, 7)
    for share in (0.0, 1e-9, 0.1, 0.1, 0.35, 0.05, 0.8, 1.0):
        steps.advance(share * lifetime)
    assert steps.lifetime == lifetime
    assert_same_trees(steps.freeze(), grown(X, lifetime, seed=7).freeze())
    steps.advance(np.inf)
    assert_same_trees(steps.freeze(), grown(X, np.inf, seed=7).freeze())


@pytest.mark.parametrize("name", ROWS)
def test_freezing_earlier_equals_growing_less(name):
    X = ROWS[name]
    lifetime = typical_lifetime(X)
    full = grown(X, np.inf)
    for share in (0.0, 0.3, 1.0):
        less = grown(X, share * lifetime)
        assert_same_trees(full.freeze(share * lifetime), less.freeze())
        cut_times = full.cut_times
        assert_array_equal(cut_times[cut_times <= share * lifetime], less.cut_times)


def test_freezing_leaves_the_growth_as_it_was():
    X = ROWS["normal"]
    growth = grown(X, 0.2)
    before = growth.freeze()
    growth.freeze(0.1)
    assert_same_trees(before, growth.freeze())
    growth.advance(0.4)
    assert_same_trees(growth.freeze(), grown(X, 0.4).freeze())


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
@pytest.mark.parametrize("n_trees", [1, 2, 13])
def test_threads_change_nothing(n_jobs, n_trees):
    X = ROWS["normal"]
    alone = grown(X, 0.5, n_trees).freeze()
    assert_same_trees(alone, grown(X, 0.5, n_trees, n_jobs=n_jobs).freeze())
    new = np.random.default_rng(9).normal(size=(17, 3))
    for one, other in zip(alone[0].walk(new, 0.4, 1), alone[0].walk(new, 0.4, n_jobs), strict=True):
        assert_array_equal(one, other)


def test_a_tree_does_not_depend_on_how_many_there_are():
    X = ROWS["normal"]
    few, many = grown(X, 0.5, 2).freeze()[0], grown(X, 0.5, 9).freeze()[0]
    n = few.time.size
    for name in ("tree", "parent", "left", "right", "dim", "loc", "time", "lower", "upper"):
        assert_array_equal(getattr(few, name), getattr(many, name)[:n], err_msg=name)


def test_order_of_rows_does_not_matter():
    X = ROWS["normal"]
    shuffle = np.random.default_rng(0).permutation(len(X))
    (trees, leaf), (shuffled, shuffled_leaf) = (
        grown(X, 0.5).freeze(),
        grown(X[shuffle], 0.5).freeze(),
    )
    assert_array_equal(leaf[shuffle], shuffled_leaf)
    for name in LINKS:
        assert_array_equal(getattr(trees, name), getattr(shuffled, name), err_msg=name)


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**13])
def test_scaling_the_rows_scales_time(factor):
    """Powers of two, so that both sides round alike."""
    X = ROWS["normal"]
    (trees, leaf), (scaled, scaled_leaf) = (
        grown(X, 0.5).freeze(),
        grown(factor * X, 0.5 / factor).freeze(),
    )
    assert_array_equal(leaf, scaled_leaf)
    assert_array_equal(trees.time, factor * scaled.time)
    assert_array_equal(factor * trees.loc, scaled.loc)


def test_seeds_and_trees_differ():
    X = ROWS["normal"]
    first_times = [grown(X, 0.5, 3, seed).freeze()[0] for seed in (0, 1, 2**64 - 1)]
    times = np.concatenate([trees.time[trees.root] for trees in first_times])
    assert len(set(times[np.isfinite(times)])) == np.isfinite(times).sum() >= 6


# ---- the budget ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(ROWS) - {"denormal"}))
@pytest.mark.parametrize("max_cells", [4, 5, 11, 30, 10**6])
def test_budget(name, max_cells):
    X = ROWS[name]
    full = grown(X, np.inf)
    growth = Growth(X, 4, 0)
    stopped = growth.advance_within(np.inf, max_cells)
    assert_same_trees(growth.freeze(stopped), full.freeze(stopped))
    n_cells = (growth.freeze(stopped)[0].left < 0).sum()
    assert n_cells == min(max_cells, full.n_cells)
    if full.n_cells <= max_cells:
        assert stopped == np.inf
    else:
        assert np.nextafter(stopped, np.inf) == full.cut_times[max_cells - 4]


def test_budget_that_is_not_reached_stops_at_the_lifetime():
    X = ROWS["normal"]
    growth = Growth(X, 4, 0)
    assert growth.advance_within(0.3, 10**6) == growth.lifetime == 0.3
    assert_same_trees(growth.freeze(), grown(X, 0.3).freeze())


def test_budget_with_rows_too_close_to_be_cut():
    growth = Growth(ROWS["denormal"], 4, 0)
    assert growth.advance_within(np.inf, 5) == np.inf
    assert growth.n_cells == 4


# ---- cells and walks ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_cells_at_every_lifetime(name):
    X = ROWS[name]
    lifetime = typical_lifetime(X)
    trees, leaf = grown(X, lifetime).freeze()
    for at in [0.0, *trees.cuts.time[:6], lifetime / 3, lifetime, np.inf]:
        column, per_tree = trees.cells(at)
        assert column.dtype == np.int32
        expected, total = np.full(trees.time.size, -1), 0
        for node in range(trees.time.size):  # preorder: parents first, from left to right
            above = expected[trees.parent[node]] if trees.parent[node] >= 0 else -1
            if above >= 0:
                expected[node] = above
            elif trees.left[node] < 0 or trees.time[node] > at:
                expected[node] = total
                total += 1
        assert_array_equal(column, expected)
        assert trees.cells(at).total == total
        cut_by_then = trees.tree[(trees.left >= 0) & (trees.time <= at)]
        assert_array_equal(per_tree, 1 + np.bincount(cut_by_then, minlength=4))
        assert_array_equal(np.unique(column[leaf]), np.arange(total))


@pytest.mark.parametrize("name", ROWS)
def test_cells_are_nested(name):
    X = ROWS[name]
    lifetime = typical_lifetime(X)
    trees, leaf = grown(X, lifetime).freeze()
    columns = [trees.cells(share * lifetime).column[leaf] for share in (0.0, 0.2, 0.5, 1.0)]
    for coarse, fine in pairwise(columns):
        parents = {}
        for cell, parent in zip(fine.ravel(), coarse.ravel(), strict=True):
            assert parents.setdefault(cell, parent) == parent
        assert len(set(coarse.ravel())) <= len(parents)


@pytest.mark.parametrize("name", ["normal", "lattice", "constant column", "line", "one row"])
def test_walk_is_the_formula(name):
    X = ROWS[name]
    rng = np.random.default_rng(3)
    new = X[rng.integers(len(X), size=12)] + rng.normal(size=(12, X.shape[1]))
    trees, _ = grown(X, typical_lifetime(X)).freeze()
    for lifetime in (0.0, 0.4 * trees.lifetime, trees.lifetime):
        column = trees.cells(lifetime).column
        node, log_stay = trees.walk(new, lifetime)
        for i, x in enumerate(new):
            for m in range(4):
                path = path_down(trees, m, x)
                assert column[node[i, m]] == column[path[-1]] >= 0
                assert_allclose(
                    np.exp(log_stay[i, m]), stay_probability(trees, m, x, lifetime), rtol=1e-12
                )


def test_walk_in_batches():
    trees, _ = grown(ROWS["normal"], 0.5).freeze()
    new = np.random.default_rng(1).normal(size=(150, 3))
    node, log_stay = trees.walk(new, 0.5)
    for i in (0, 63, 64, 149):
        one_node, one_log_stay = trees.walk(new[i : i + 1], 0.5)
        assert_array_equal(one_node[0], node[i])
        assert_array_equal(one_log_stay[0], log_stay[i])


def test_several_lifetimes_are_walked_as_each_by_itself():
    trees, _ = grown(ROWS["normal"], 0.5).freeze()
    new = 2.0 * np.random.default_rng(1).normal(size=(50, 3))
    new[-1] = 1.7e308  # at an infinite distance from every box
    leaf = trees.walk(new, 0.5)[0]
    at_a_cut = float(trees.time[trees.parent[leaf[-1, 0]]])  # on the way of the last row
    lifetimes = np.unique([0.0, 0.05, at_a_cut, 0.4, 0.5])
    node, log_stay = trees.walk_through(new, lifetimes)
    for k, lifetime in enumerate(lifetimes):
        one_node, one = trees.walk(new, lifetime)
        column = trees.cells(lifetime).column
        assert_array_equal(column[node], column[one_node])
        assert_allclose(log_stay[:, :, k], one, rtol=1e-13)  # other orders of a few dozen terms


def test_far_away_is_minus_infinity_and_never_nan():
    X = ROWS["normal"]
    far = np.array([[1.7e308, 1.7e308, -1.7e308], [1e300, 0.0, 0.0]])
    trees, _ = grown(X, 0.5).freeze()
    log_stay = trees.walk(far, 0.5)[1]
    assert (np.exp(log_stay) == 0).all()
    assert (trees.walk(far, 0.0)[1] == 0).all()
    assert (np.exp(grown(X, np.inf).freeze()[0].walk(far, np.inf)[1]) == 0).all()


@pytest.mark.parametrize("n_dims", [1, 2, 3, 4, 5, 7, 8, 9])
def test_box_distance(n_dims):
    rng = np.random.default_rng(n_dims)
    lower = rng.normal(size=(1, n_dims))
    upper = lower + rng.exponential(size=(1, n_dims))
    X = np.vstack([rng.normal(scale=3.0, size=(20, n_dims)), lower, upper, (lower + upper) / 2])
    nearest = np.clip(X, lower, upper)
    distances = [box_distance(X, i, lower, upper, 0) for i in range(len(X))]
    assert_allclose(distances, np.abs(X - nearest).sum(axis=1), rtol=1e-14)
    assert distances[-3:] == [0.0, 0.0, 0.0]


# ---- streams and clocks ------------------------------------------------------------------------


def test_a_stream_is_splitmix64():
    # The first outputs for seed 1234567, as published with the reference implementation.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert list(islice(splitmix64(1234567), 3)) == published
    for key in (0, 1, 1234567, 2**63, 2**64 - 1):
        expected = [z / 2**64 for z in islice(splitmix64(key), 5)]
        draws = [uniform(np.uint64(key), draw) for draw in range(5)]
        assert_allclose(draws, expected, atol=2**-53, rtol=0)


def test_keys_of_nodes_are_all_different():
    keys = {int(root_key(np.uint64(seed), tree)) for seed in range(8) for tree in range(8)}
    assert len(keys) == 64
    generation = [np.uint64(root_key(np.uint64(0), 0))]
    found = {int(generation[0])}
    for _ in range(8):
        generation = [np.uint64(child(k)) for k in generation for child in (left_key, right_key)]
        found |= {int(k) for k in generation}
    assert len(found) == 2**9 - 1


def test_ring():
    boxes = np.array([[0.0, 5.0, -1.0, 2.0, 5.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]])
    for key in range(50):
        key = np.uint64(key)
        time, dim, loc = ring(key, 3, 0.25, boxes, 0, np.inf)
        u = [uniform(key, draw) for draw in (3, 4, 5)]
        assert_allclose(time, 0.25 - np.log(1.0 - u[0]) / 3.0, rtol=1e-12)
        assert dim == (0 if 3.0 * u[1] < 2.0 else 2), "the side without length never rings"
        low, side = (0.0, 2.0) if dim == 0 else (-1.0, 1.0)
        assert_allclose(loc, low + u[2] * side, atol=1e-15)
        assert ring(key, 3, 0.25, boxes, 0, np.nextafter(time, 0.0)) == (np.inf, -1, 0.0)
        assert ring(key, 3, 0.25, boxes, 0, time) == (time, dim, loc)
        assert ring(key, 0, 0.0, boxes, 1, np.inf) == (np.inf, -1, 0.0)


@pytest.mark.parametrize("low", [0.0, 1.0, -1e300, 5e-324])
def test_a_cut_parts_the_narrowest_side(low):
    boxes = np.array([[low, np.nextafter(low, np.inf)]])
    for key in range(20):
        time, _, loc = ring(np.uint64(key), 0, 0.0, boxes, 0, np.inf)
        if np.isfinite(time):
            assert loc == low
