"""Online trees: what holds exactly after every extension, whatever was drawn."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

from mondrian_kernel._kernels.tables import OnlineTable
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.online import OnlineTrees

SEED = 7
M = 4


def rows(n, n_dims, *, seed=0):
    return np.random.default_rng([seed, n, n_dims]).uniform(size=(n, n_dims))


def from_rows(X, n_fitted, lifetime, rungs=None, *, n_trees=M):
    """Trees fitted to the first rows, or empty ones."""
    if n_fitted == 0:
        return OnlineTrees.empty(X.shape[1], n_trees, lifetime, SEED, rungs)
    growth = Growth(X[:n_fitted], n_trees, SEED)
    growth.advance(lifetime)
    return OnlineTrees.from_trees(growth.freeze()[0], SEED, rungs)


def state(online):
    """All that there is to see, copied."""
    arrays = dict(vars(online.freeze()), column=online.column, n_cells=online.n_cells)
    return {name: np.copy(a) for name, a in arrays.items()} | {"n_rows": online.n_rows}


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def assert_sound(online, X):
    """Boxes, counts, times, links and columns are those of the rows, node by node."""
    trees = online.freeze()
    seen = np.zeros(trees.time.size, int)
    for m, root in enumerate(trees.root):
        stack = [(root, -1, 0.0, np.arange(len(X)), np.full(online.rungs.size, -1))]
        while stack:
            node, parent, birth, member, cell = stack.pop()
            seen[node] += 1
            assert (trees.tree[node], trees.parent[node]) == (m, parent)
            assert trees.count[node] == len(member) > 0
            np.testing.assert_array_equal(trees.lower[node], X[member].min(axis=0))
            np.testing.assert_array_equal(trees.upper[node], X[member].max(axis=0))
            assert trees.time[node] >= birth
            is_cut = (trees.time[node] <= online.rungs) & np.isfinite(trees.time[node])
            is_inside = cell >= 0
            column = online.column[:, node]
            np.testing.assert_array_equal(column[is_inside], cell[is_inside])
            np.testing.assert_array_equal(column[~is_inside] < 0, is_cut[~is_inside])
            if trees.left[node] < 0:
                assert (trees.right[node], trees.dim[node], trees.time[node]) == (-1, -1, np.inf)
                continue
            assert trees.time[node] <= trees.lifetime
            goes_left = X[member, trees.dim[node]] <= trees.loc[node]
            for child, side in ((trees.left, goes_left), (trees.right, ~goes_left)):
                stack.append((child[node], node, trees.time[node], member[side], column))
    assert (seen == 1).all()
    for r, rung in enumerate(online.rungs):
        assert online.n_cells[r] == trees.cells(rung).total
        assert set(online.column[r]) - {-1} == set(range(online.n_cells[r]))


def assert_rows_stand_in(online, X, leaf):
    """Rows are in the cell that the extension said, certainly, at every rung."""
    for r, rung in enumerate(online.rungs):
        node, log_stay = online.freeze().walk(X, rung)
        assert (log_stay == 0).all()
        np.testing.assert_array_equal(online.column[r, leaf], online.column[r, node])


STREAMS = {
    "D=1": (rows(60, 1), 5.0),
    "D=2": (rows(40, 2), 3.0),
    "D=5": (rows(40, 5), 2.0),
    "no time": (rows(10, 2), 0.0),
    "all time": (rows(30, 2), np.inf),
    "one row": (rows(1, 3), 2.0),
    "sorted": (np.sort(rows(40, 2), axis=0), 3.0),
    "repeated": (np.repeat(rows(8, 2), 4, axis=0), 30.0),
    "few values": (np.random.default_rng(0).integers(3, size=(40, 3)).astype(float), 2.0),
    "one constant": (rows(30, 2) * [1.0, 0.0], 4.0),
    # The next number of 1e16 is 1e16 + 2: nothing lies between the rows but themselves.
    "neighbours": (1e16 + 2.0 * np.random.default_rng(1).permutation(30)[:, None], 1.0),
    "tiny": (5e-324 * np.random.default_rng(2).permutation(20)[:, None], 1e300),
    "huge": (rows(30, 2) * 1e307 - 5e306, 1e-307),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("fitted", [0.0, 0.5])
def test_boxes_counts_times_and_columns_are_exact(stream, fitted):
    X, lifetime = STREAMS[stream]
    n_fitted = int(fitted * len(X))
    rungs = np.unique(np.minimum([0.1 * lifetime, 0.5 * lifetime, 3.0], lifetime))
    rungs = np.union1d(rungs[np.isfinite(rungs)], lifetime)
    online = from_rows(X, n_fitted, lifetime, rungs)
    leaf = online.extend(X[n_fitted:])
    assert leaf.dtype == np.int32
    assert online.n_rows == len(X)
    assert_sound(online, X)
    assert_rows_stand_in(online, X[n_fitted:], leaf)


def test_default_rung_is_the_lifetime():
    online = from_rows(rows(10, 2), 0, 3.0)
    assert online.rungs.tolist() == [3.0]
    assert online.column.shape == (1, 0)
    assert online.n_cells.tolist() == [0]


@pytest.mark.parametrize("rungs", [[1.0, 2.0], [1.0, 1.0, 3.0], [2.0, 1.0, 3.0]])
def test_rungs_increase_up_to_the_lifetime(rungs):
    with pytest.raises(ValueError, match="increase up to the lifetime"):
        OnlineTrees.empty(2, M, 3.0, SEED, rungs)


@pytest.mark.parametrize("n_fitted", [0, 20])
@pytest.mark.parametrize("sizes", [[1] * 40, [7] * 5 + [5], [0, 39, 0, 1]])
def test_result_does_not_depend_on_batches(n_fitted, sizes):
    X, rungs = rows(60, 3), [0.5, 2.0]
    whole, pieces = (from_rows(X, n_fitted, 2.0, rungs) for _ in range(2))
    leaf = whole.extend(X[20:], max_cells=150)
    edges = np.cumsum([20, *sizes])
    leaves = [pieces.extend(X[a:b], max_cells=150) for a, b in pairwise(edges)]
    np.testing.assert_array_equal(leaf, np.concatenate(leaves))
    assert_same_state(state(whole), state(pieces))


def test_trees_do_not_depend_on_each_other_but_differ():
    X = rows(30, 2)
    many, few = (from_rows(X, 0, 3.0, n_trees=n) for n in (6, 3))
    many.extend(X)
    few.extend(X)
    times = [np.sort(many.freeze().time[many.freeze().tree == m]) for m in range(6)]
    for m in range(3):
        alone = np.sort(few.freeze().time[few.freeze().tree == m])
        np.testing.assert_array_equal(times[m], alone)
    assert len({t.tobytes() for t in times}) == 6


def test_seed_decides():
    X = rows(20, 2)
    a, b, c = (OnlineTrees.empty(2, M, 3.0, seed) for seed in (0, 0, 2**63 + 1))
    for online in (a, b, c):
        online.extend(X)
    assert_same_state(state(a), state(b))
    assert state(a)["time"].tolist() != state(c)["time"].tolist()


def test_old_nodes_and_columns_keep_their_numbers():
    X = rows(60, 2)
    online = from_rows(X, 0, 4.0, [1.0, 4.0])
    leaf = online.extend(X[:30])
    old = state(online)
    online.extend(X[30:])
    n = old["time"].size
    assert online.freeze().time.size > n
    np.testing.assert_array_equal(online.column[:, :n], old["column"])
    for name in ("tree", "dim", "loc", "time"):
        np.testing.assert_array_equal(state(online)[name][:n], old[name])
    assert_rows_stand_in(online, X[:30], leaf)


def test_equal_rows_share_a_cell():
    online = from_rows(rows(1, 3), 0, np.inf)
    online.extend(np.repeat(rows(1, 3), 20, axis=0))
    assert online.n_cells.tolist() == [M]
    assert (online.freeze().count == 20).all()


def test_trees_given_are_not_changed():
    X = rows(40, 2)
    growth = Growth(X[:20], M, SEED)
    growth.advance(3.0)
    trees, _ = growth.freeze()
    before = {name: np.copy(a) for name, a in vars(trees).items()}
    OnlineTrees.from_trees(trees, SEED).extend(X[20:] * 2)
    for name, a in before.items():
        np.testing.assert_array_equal(getattr(trees, name), a)


@pytest.mark.parametrize("n_fitted", [0, 10])
def test_pickled_trees_go_on_in_the_same_way(n_fitted):
    X = rows(60, 2)
    online = from_rows(X, n_fitted, 4.0, [1.0, 4.0])
    online.extend(X[n_fitted:30])
    copy = pickle.loads(pickle.dumps(online))
    np.testing.assert_array_equal(online.extend(X[30:]), copy.extend(X[30:]))
    assert_same_state(state(online), state(copy))
    # Nodes in use only: 6 floats and 6 integers each, and the columns of 2 rungs.
    assert len(pickle.dumps(online)) < 2000 + online.freeze().time.size * (6 * 8 + 6 * 4 + 2 * 4)


# --- the cap -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_fitted", [0, 20])
def test_at_the_cap_trees_stop_splitting_but_keep_learning(n_fitted):
    X, rungs = rows(150, 2), [1.0, 6.0]
    free, capped = (from_rows(X, n_fitted, 6.0, rungs) for _ in range(2))
    free.extend(X[n_fitted:])
    cap = int(free.n_cells[-1]) // 2
    leaves, reached = [], None
    for i in range(n_fitted, len(X)):
        leaves.append(capped.extend(X[i : i + 1], max_cells=cap))
        if capped.n_cells[-1] == cap and reached is None:
            reached = capped.freeze().time.size
    assert reached is not None
    assert capped.freeze().time.size == reached
    assert capped.n_cells[-1] == cap
    assert_sound(capped, X)
    assert_rows_stand_in(capped, X[n_fitted:], np.concatenate(leaves))
    # Up to the cap the trees are the free ones.
    np.testing.assert_array_equal(capped.column, free.column[:, :reached])
    np.testing.assert_array_equal(capped.freeze().time, free.freeze().time[:reached])


def test_a_cap_below_one_cell_a_tree_leaves_one_cell_a_tree():
    X = rows(20, 2)
    online = from_rows(X, 0, 6.0)
    online.extend(X, max_cells=1)
    assert online.n_cells.tolist() == [M]
    assert_sound(online, X)


# --- all or nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("n_before", [0, 1, 15])
def test_rollback_takes_back_the_last_batch(stream, n_before):
    X, lifetime = STREAMS[stream]
    online = from_rows(X, 0, lifetime)
    online.extend(X[:n_before])
    before = state(online)
    for repeat in range(2):
        leaf = online.extend(X[n_before:]).copy()
        after = state(online)
        if repeat == 0:
            first = leaf, after
        np.testing.assert_array_equal(leaf, first[0])
        assert_same_state(after, first[1])
        online.rollback(before["n_rows"])
        assert_same_state(state(online), before)
        online.rollback(before["n_rows"])
        assert_same_state(state(online), before)


def test_rollback_after_many_batches():
    X = rows(120, 2)
    online, plain = (from_rows(X, 10, 5.0, [1.0, 5.0]) for _ in range(2))
    edges = [10, 11, 30, 31, 32, 70, 90, 120]
    for a, b in pairwise(edges):
        before = state(online)
        online.extend(rows(b - a, 2, seed=1) * 2 - 0.5)  # rows which are then thought better of
        online.rollback(a)
        assert_same_state(state(online), before)
        online.extend(X[a:b])
        plain.extend(X[a:b])
        assert_same_state(state(online), state(plain))


def test_rollback_to_now_does_nothing_and_further_back_is_refused():
    X = rows(30, 2)
    online = from_rows(X, 0, 3.0)
    online.extend(X[:10])
    online.extend(X[10:20])
    now = state(online)
    online.rollback(20)
    assert_same_state(state(online), now)
    with pytest.raises(ValueError, match="Cannot return to 5 rows: there are 20, and 10 before"):
        online.rollback(5)


@pytest.mark.parametrize("n_before", [0, 40])
def test_interrupted_batch_leaves_the_trees_as_they_were(n_before, monkeypatch):
    X = rows(400, 2)
    online = from_rows(X, 0, 20.0)
    online.extend(X[:n_before])
    before = state(online)
    doubled, calls = OnlineTable.doubled, []

    def interrupted(table):
        calls.append(table)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return doubled(table)

    monkeypatch.setattr(OnlineTable, "doubled", interrupted)
    with pytest.raises(KeyboardInterrupt):
        online.extend(X[n_before:])
    assert len(calls) == 2
    monkeypatch.undo()
    assert_same_state(state(online), before)
    online.extend(X[n_before:])
    assert_sound(online, X)


# --- a later lifetime ----------------------------------------------------------------------------


def assert_sound_regions(online, X):
    """Boxes hold their rows and lie in their parents', cuts follow in time, counts add up."""
    trees = online.freeze()
    seen = np.zeros(trees.time.size, int)
    for m, root in enumerate(trees.root):
        assert trees.count[root] == len(X)
        stack = [(root, -1, 0.0, np.arange(len(X)))]
        while stack:
            node, parent, birth, member = stack.pop()
            seen[node] += 1
            assert (trees.tree[node], trees.parent[node]) == (m, parent)
            assert (trees.lower[node] <= X[member]).all()
            assert (X[member] <= trees.upper[node]).all()
            assert birth <= trees.time[node]
            if trees.left[node] < 0:
                assert trees.time[node] == np.inf
                assert online.stop[node] <= trees.lifetime
                continue
            children = [trees.left[node], trees.right[node]]
            assert trees.time[node] <= trees.lifetime
            assert trees.count[children].sum() == trees.count[node]
            np.testing.assert_array_equal(trees.lower[children].min(axis=0), trees.lower[node])
            np.testing.assert_array_equal(trees.upper[children].max(axis=0), trees.upper[node])
            dim, loc = trees.dim[node], trees.loc[node]
            assert trees.upper[children[0], dim] <= loc <= trees.lower[children[1], dim]
            goes_left = X[member, dim] <= loc
            for child, side in zip(children, (goes_left, ~goes_left), strict=True):
                stack.append((child, node, trees.time[node], member[side]))
    assert (seen == 1).all()
    for r, rung in enumerate(online.rungs):
        cells = trees.cells(rung)
        assert online.n_cells[r] == cells.total
        np.testing.assert_array_equal(online.n_cells_per_tree[r], cells.per_tree)
        # The same cells by other numbers.
        whole = online.column[r] >= 0
        np.testing.assert_array_equal(whole, cells.column >= 0)
        pairs = np.unique(np.stack([online.column[r], cells.column])[:, whole], axis=1)
        assert pairs.shape[1] == cells.total


def climbing(X, edges, max_cells=None):
    """Trees whose lifetime doubles after every batch."""
    online = from_rows(X, 0, 1.0, [0.25, 0.5, 1.0])
    for a, b in pairwise([0, *edges]):
        online = online if a == 0 else online.deeper(2 * online.lifetime)
        online.extend(X[a:b], max_cells)
    return online


@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_trees_with_a_later_lifetime_are_sound(n_dims):
    X = rows(120, n_dims)
    online = climbing(X, [30, 60, 61, 120])
    assert online.lifetime == 8.0
    assert online.rungs.tolist() == [2.0, 4.0, 8.0]
    assert_sound_regions(online, X)


def test_a_later_lifetime_changes_nothing_before_rows_come():
    X = rows(50, 2)
    online = from_rows(X, 0, 2.0, [1.0, 2.0])
    online.extend(X)
    before = state(online)
    deeper = online.deeper(4.0)
    assert (deeper.lifetime, deeper.rungs.tolist()) == (4.0, [2.0, 4.0])
    np.testing.assert_array_equal(deeper.column, before["column"][[1, 1]])
    np.testing.assert_array_equal(deeper.n_cells, before["n_cells"][[1, 1]])
    assert_same_state(state(online), before)
    for lifetime in (2.0, 1.0, np.inf):
        with pytest.raises(ValueError, match="not later than"):
            online.deeper(lifetime)


def test_cut_cells_name_their_origin():
    """A new cell that is part of an old one names it, at the rungs where it is cut."""
    X = rows(150, 2)
    online = from_rows(X, 0, 1.0, [0.5, 1.0])
    online.extend(X[:80])
    online = online.deeper(6.0)
    old = [online.column[r].copy() for r in range(2)]
    n_old, trees = online.n_cells, online.freeze()
    lower, upper = trees.lower.copy(), trees.upper.copy()
    online.extend(X[80:])
    assert (online.origin[0] < 0).all()  # whose time was over
    origin = online.origin[1][online.origin[1] >= 0]
    assert origin.size > 0
    new = online.freeze()
    for k, source in enumerate(origin):
        column = n_old[1] + k
        node = np.flatnonzero(online.column[1] == column)[0]
        while source >= n_old[1]:
            source = origin[source - n_old[1]]
        was = np.flatnonzero(old[1] == source)[0]
        assert new.tree[node] == new.tree[was]
        overlap = np.minimum(upper[was], new.upper[node]) - np.maximum(lower[was], new.lower[node])
        assert (overlap >= 0).all()


@pytest.mark.parametrize("n_rows", [1, 30])
def test_rollback_makes_cut_leaves_whole_again(n_rows):
    X = rows(60 + n_rows, 2)
    online = climbing(X, [30, 60]).deeper(16.0)
    before = state(online) | {"stop": online.stop.copy()}
    online.extend(X[60:])
    after = state(online)
    assert after["time"].size > before["time"].size
    online.rollback(60)
    assert_same_state(state(online) | {"stop": online.stop.copy()}, before)
    online.extend(X[60:])
    assert_same_state(state(online), after)


def test_pickled_trees_with_a_later_lifetime_go_on_in_the_same_way():
    X = rows(90, 2)
    online = climbing(X, [30, 60])
    copy = pickle.loads(pickle.dumps(online))
    np.testing.assert_array_equal(online.extend(X[60:]), copy.extend(X[60:]))
    assert_same_state(state(online), state(copy))


def test_the_cap_holds_after_a_later_lifetime():
    X = rows(200, 2)
    online = climbing(X, [50, 100, 200], max_cells=60)
    assert online.n_cells[-1] == 60
    assert_sound_regions(online, X)


def test_rows_whose_ranges_overflow_change_nothing():
    """Also where each number is far from the largest one, but their sum is not."""
    X = rows(30, 4)
    online, plain = (OnlineTrees.empty(4, 5, 2.0, SEED) for _ in range(2))
    online.extend(X[:20])
    plain.extend(X[:20])
    for large in (1e308, 5e307):
        with pytest.raises(ValueError, match="range"):
            online.extend(np.vstack([X[20:], np.full((1, 4), large)]))
    np.testing.assert_array_equal(online.extend(X[20:]), plain.extend(X[20:]))
