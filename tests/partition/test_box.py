"""The arrays of a partition, what is refused, and that no box of floats breaks it."""

import dataclasses
import pickle
from contextlib import suppress
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from mondrian_kernel._trees import boxes as box_trees
from mondrian_kernel.partition import MondrianPartition

COLUMNS = ("parent", "left", "right", "dim", "loc", "time", "lower", "upper")


@pytest.fixture(scope="module")
def partition():
    return MondrianPartition.sample([0.0, -1.0], [2.0, 0.0], 4.0, random_state=0)


def assert_equal(a, b):
    assert a.lifetime == b.lifetime
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(a, column), getattr(b, column), err_msg=column)


def assert_valid(partition):
    """Every invariant that the class documents."""
    cell = partition.dim < 0
    cut = np.flatnonzero(~cell)
    left, right = partition.left[cut], partition.right[cut]
    dim, loc = partition.dim[cut], partition.loc[cut]
    lower, upper = partition.lower, partition.upper

    assert partition.n_cells == np.count_nonzero(cell) == cut.size + 1
    assert partition.parent[0] == -1
    np.testing.assert_array_equal(np.sort(np.concatenate(([0], left, right))), np.arange(cell.size))
    np.testing.assert_array_equal(partition.parent[left], cut)
    np.testing.assert_array_equal(partition.parent[right], cut)
    assert (partition.left[cell] == -1).all()
    assert (partition.right[cell] == -1).all()

    assert np.isnan(partition.loc[cell]).all()
    assert np.isposinf(partition.time[cell]).all()
    assert np.isfinite(partition.time[cut]).all()
    assert (partition.time[cut] <= partition.lifetime).all()
    assert (partition.birth <= partition.time).all()

    assert ((lower[cut, dim] <= loc) & (loc < upper[cut, dim])).all()
    other = np.arange(lower.shape[1]) != dim[:, None]
    np.testing.assert_array_equal(lower[left], lower[cut])
    np.testing.assert_array_equal(upper[right], upper[cut])
    np.testing.assert_array_equal(upper[left], np.where(other, upper[cut], loc[:, None]))
    np.testing.assert_array_equal(lower[right], np.where(other, lower[cut], loc[:, None]))


# --- structure -----------------------------------------------------------------------------------


def test_arrays_are_flat_typed_and_read_only(partition):
    assert partition.n_cells > 5
    assert_valid(partition)
    for column in COLUMNS:
        array = getattr(partition, column)
        is_float = column in ("loc", "time", "lower", "upper")
        assert array.dtype == (np.float64 if is_float else np.int32)
        assert not array.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        partition.lifetime = 1.0


def test_bounds_are_copied():
    lower, upper = np.zeros(2), np.ones(2)
    partition = MondrianPartition.sample(lower, upper, 1.0, random_state=0)
    lower[:] = upper[:] = 7.0
    np.testing.assert_array_equal(partition.lower[0], [0, 0])
    np.testing.assert_array_equal(partition.upper[0], [1, 1])


def test_cuts_are_in_time_order(partition):
    time, dim, loc = partition.cuts
    assert time.size == dim.size == loc.size == partition.n_cells - 1
    assert (np.diff(time) > 0).all()
    assert partition.cuts.time[0] == partition.time[0]


def test_cells_fill_the_box_without_overlap(partition):
    lower, upper = partition.cells()
    assert lower.shape == upper.shape == (partition.n_cells, 2)
    assert np.isclose((upper - lower).prod(axis=1).sum(), 2.0)
    overlap = np.minimum(upper, upper[:, None]) - np.maximum(lower, lower[:, None])
    np.testing.assert_array_equal((overlap > 0).all(axis=2), np.eye(partition.n_cells, dtype=bool))


def test_at_keeps_the_cuts_until_then(partition):
    times = partition.cuts.time
    for lifetime in (0.0, times[0], (times[3] + times[4]) / 2, times[-1], 4.0):
        stopped = partition.at(lifetime)
        assert_valid(stopped)
        assert stopped.lifetime == lifetime
        kept = times <= lifetime
        for old, new in zip(partition.cuts, stopped.cuts, strict=True):
            np.testing.assert_array_equal(old[kept], new)
        for a, b in zip(partition.cells(lifetime), stopped.cells(), strict=True):
            np.testing.assert_array_equal(a, b)
    assert_equal(partition.at(4.0), partition)
    assert_equal(partition.at(2.0).at(1.0), partition.at(1.0))


def test_restrict_keeps_the_cells_that_meet_the_box(partition):
    lower, upper = np.array([0.3, -0.8]), np.array([1.2, -0.1])
    restricted = partition.restrict(lower, upper)
    assert_valid(restricted)
    low, high = (
        np.maximum(partition.cells().lower, lower),
        np.minimum(partition.cells().upper, upper),
    )
    meets = (low < high).all(axis=1)
    expected = np.hstack((low[meets], high[meets]))
    got = np.hstack(restricted.cells())
    np.testing.assert_array_equal(np.unique(got, axis=0), np.unique(expected, axis=0))


def test_restrict_to_the_own_box_changes_nothing(partition):
    assert_equal(partition.restrict(partition.lower[0], partition.upper[0]), partition)


def test_extend_to_the_own_box_changes_nothing(partition):
    assert_equal(partition.extend(partition.lower[0], partition.upper[0]), partition)


def test_restrict_undoes_extend(partition):
    extended = partition.extend([-0.5, -1.0], [2.5, 1.0], random_state=1)
    assert_valid(extended)
    assert extended.n_cells > partition.n_cells
    assert_equal(extended.restrict(partition.lower[0], partition.upper[0]), partition)


def test_restrict_and_at_commute(partition):
    bounds = [0.5, -0.7], [1.5, -0.2]
    assert_equal(partition.restrict(*bounds).at(2.0), partition.at(2.0).restrict(*bounds))


@pytest.mark.parametrize("lifetime", [0.5, 4.0])
def test_locate_finds_the_cell_that_holds_the_point(partition, lifetime):
    stopped = partition.at(lifetime)
    lower, upper = stopped.cells()
    X = np.random.default_rng(0).uniform([0.0, -1.0], [2.0, 0.0], size=(500, 2))
    cell = stopped.locate(X)
    assert cell.dtype == np.int32
    holds = ((lower < X[:, None]) & (X[:, None] <= upper)).all(axis=2)
    np.testing.assert_array_equal(holds.sum(axis=1), 1)
    np.testing.assert_array_equal(cell, holds.argmax(axis=1))


def test_locate_sends_a_point_on_a_cut_to_the_left(partition):
    dim, loc = partition.dim[0], partition.loc[0]
    x = np.array([1.0, -0.5])
    x[dim] = loc
    assert partition.cells().upper[partition.locate([x])[0], dim] == loc
    x[dim] = np.nextafter(loc, np.inf)
    assert partition.cells().lower[partition.locate([x])[0], dim] == loc


def test_locate_takes_the_corners_and_no_rows(partition):
    corners = np.array([partition.lower[0], partition.upper[0]])
    lower, upper = partition.cells()
    first, last = partition.locate(corners)
    np.testing.assert_array_equal(lower[first], corners[0])
    np.testing.assert_array_equal(upper[last], corners[1])
    assert partition.locate(np.empty((0, 2))).shape == (0,)


def test_degenerate_boxes():
    flat = MondrianPartition.sample([0.0, 3.0], [2.0, 3.0], 5.0, random_state=0)
    assert_valid(flat)
    assert flat.n_cells > 1
    assert set(flat.cuts.dim) == {0}
    point = MondrianPartition.sample([1.0, 3.0], [1.0, 3.0], np.inf)
    assert point.n_cells == point.cells(np.inf).lower.shape[0] == 1
    assert point.at(2.0).n_cells == 1
    np.testing.assert_array_equal(point.locate([[1.0, 3.0]]), [0])
    assert MondrianPartition.sample([0], [1], 0.0).n_cells == 1


# --- determinism ---------------------------------------------------------------------------------


def test_same_seed_same_partition():
    def run(random_state):
        partition = MondrianPartition.sample([0, 0], [2, 1], 3.0, random_state=random_state)
        return partition.extend([-1, 0], [2, 2], random_state=random_state)

    assert_equal(run(5), run(np.int64(5)))
    assert_equal(run(np.random.default_rng(5)), run(np.random.default_rng(5)))
    assert_equal(run(np.random.RandomState(5)), run(np.random.RandomState(5)))
    assert run(5).time[0] != run(6).time[0]
    assert run(None).time[0] != run(None).time[0]


def test_generator_moves_on():
    for rng in (np.random.default_rng(0), np.random.RandomState(0)):
        first, second = (MondrianPartition.sample([0], [9], 9.0, random_state=rng) for _ in "ab")
        assert first.time[0] != second.time[0]


def test_global_random_state_is_left_alone():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    MondrianPartition.sample([0], [1], 1.0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_pickle(partition):
    assert_equal(pickle.loads(pickle.dumps(partition)), partition)


def test_repr(partition):
    assert repr(partition) == (
        f"MondrianPartition(n_cells={partition.n_cells}, n_columns=2, lifetime=4.0)"
    )


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [-1.0, -np.inf, np.nan])
def test_bad_lifetime_is_refused(partition, lifetime):
    for use in (lambda v: MondrianPartition.sample([0], [1], v), partition.at, partition.cells):
        with pytest.raises(ValueError, match="lifetime must be a number >= 0, got"):
            use(lifetime)


def test_later_lifetime_is_refused(partition):
    for use in (partition.at, partition.cells):
        with pytest.raises(ValueError, match=r"lifetime=4.5 is beyond .* own lifetime, 4.0"):
            use(4.5)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0, 0], [1, -1], r"lower\[1\]=0.0 is greater than upper\[1\]=-1.0"),
        ([0, np.nan], [1, 1], r"lower\[1\] must be finite, got nan"),
        ([0, 0], [np.inf, 1], r"upper\[0\] must be finite, got inf"),
        ([0, -1e308], [1, 1e308], r"upper\[1\] - lower\[1\] overflows"),
        ([0, 0], [1], r"same, non-zero length, got shapes \(2,\) and \(1,\)"),
        ([], [], "non-zero length"),
        (0, 1, r"lower must have 1 dimension\(s\), got shape \(\)"),
        ([0], [[1]], r"upper must have 1 dimension\(s\), got shape \(1, 1\)"),
        (["a"], [1], "lower must hold real numbers, got dtype <U1"),
        ([0], [1j], "upper must hold real numbers, got dtype complex128"),
        ([None], [1], "lower must hold real numbers, got dtype object"),
    ],
)
def test_bad_box_is_refused(partition, lower, upper, message):
    uses = (
        lambda: MondrianPartition.sample(lower, upper, 1e-3),
        lambda: partition.restrict(lower, upper),
        lambda: partition.extend(lower, upper),
    )
    for use in uses:
        with pytest.raises(ValueError, match=message):
            use()


def test_boxes_that_are_not_nested_are_refused(partition):
    with pytest.raises(
        ValueError, match=r"cannot restrict: in column 1, \[-1.5, 0.0\] does not lie"
    ):
        partition.restrict([0, -1.5], [1, 0])
    with pytest.raises(ValueError, match=r"cannot extend: in column 0, \[0.0, 2.0\] does not lie"):
        partition.extend([0, -1], [1, 0])
    with pytest.raises(ValueError, match=r"has 1 column\(s\), the larger box 2"):
        partition.restrict([0], [1])
    with pytest.raises(ValueError, match=r"has 2 column\(s\), the larger box 3"):
        partition.extend([0, -1, 0], [2, 0, 0])


def test_runaway_is_refused_with_the_number_and_the_remedy():
    message = r"has 1e\+10 cells on average .* choose a smaller lifetime or a smaller box"
    with pytest.raises(ValueError, match=message):
        MondrianPartition.sample([0, 0], [1, 1], 1e5 - 1)
    with pytest.raises(ValueError, match="has inf cells"):
        MondrianPartition.sample([0, 0], [1, 0], np.inf)
    with pytest.raises(ValueError, match="has inf cells"):
        MondrianPartition.sample(np.zeros(2000), np.ones(2000), 1.0)
    small = MondrianPartition.sample([0], [1e-9], 1e9)
    with pytest.raises(ValueError, match=r"has 1e\+09 cells"):
        small.extend([0], [1])


def test_memory_of_a_partition_is_what_the_limit_counts(partition):
    n_bytes = sum(getattr(partition, column).nbytes for column in COLUMNS)
    with pytest.raises(ValueError, match=r"more than the ([\d,]+) that are allowed") as refusal:
        MondrianPartition.sample([0, 0], [1, 1], 1e9)
    allowed = int(str(refusal.value).split("more than the ")[1].split()[0].replace(",", ""))
    node_bytes = n_bytes / partition.dim.size
    assert allowed * 2 * node_bytes == pytest.approx(
        box_trees.settings.PARTITION_MAX_BYTES, rel=1e-3
    )


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, -0.5], [1.0, 0.5]], r"row 1 of X is outside the box: in column 1, 0.5 is not in"),
        (
            [[1.0, -0.5], [1.0, -0.5], [np.nan, 0]],
            "row 2 of X is outside the box: in column 0, nan",
        ),
        ([[-np.inf, -0.5]], "row 0 of X is outside the box: in column 0, -inf"),
        ([[1.0]], r"X has 1 column\(s\), but the box has 2"),
        ([1.0, -0.5], r"X must have 2 dimension\(s\), got shape \(2,\)"),
        ([["1", "2"]], "X must hold real numbers"),
    ],
)
def test_points_that_cannot_be_located_are_refused(partition, X, message):
    with pytest.raises(ValueError, match=message):
        partition.locate(X)


# --- any box of floats ---------------------------------------------------------------------------

ANY_FLOAT = st.floats(width=64)
ANY_ARRAY = arrays(scalar_dtypes(), array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
SEED = st.integers(0, 2**32 - 1)


@st.composite
def boxes(draw, elements):
    n_dims = draw(st.integers(1, 4))
    ends = [sorted((draw(elements), draw(elements))) for _ in range(n_dims)]
    return np.array(ends).T


@settings(deadline=None, max_examples=200)
@given(st.lists(ANY_FLOAT, max_size=3), st.lists(ANY_FLOAT, max_size=3), ANY_FLOAT, SEED)
def test_any_numbers_give_a_partition_or_a_value_error(lower, upper, lifetime, seed):
    with mock.patch.object(box_trees.settings, "PARTITION_MAX_BYTES", 2**20), suppress(ValueError):
        assert_valid(MondrianPartition.sample(lower, upper, lifetime, random_state=seed))


@settings(deadline=None, max_examples=200)
@given(ANY_ARRAY, ANY_ARRAY)
def test_any_arrays_give_a_partition_or_a_value_error(a, b):
    square = MondrianPartition.sample([-2, -2], [2, 2], 0.5, random_state=0)
    with mock.patch.object(box_trees.settings, "PARTITION_MAX_BYTES", 2**20):
        for use in (
            partial(MondrianPartition.sample, lifetime=0.5),
            square.restrict,
            square.extend,
        ):
            with suppress(ValueError):
                assert_valid(use(a, b))
        with suppress(ValueError):
            assert (square.locate(a) < square.n_cells).all()


@settings(deadline=None, max_examples=200)
@given(boxes(st.floats(-1e307, 1e307)), st.floats(0.0, 3.0), SEED, st.data())
def test_restrict_undoes_extend_on_any_box(bounds, cuts_per_side, seed, data):
    lower, upper = bounds
    outer = data.draw(st.floats(0.0, 1e307))
    wide_lower, wide_upper = lower - outer, upper + outer
    lifetime = cuts_per_side / max(1e-300, (wide_upper - wide_lower).max())
    partition = MondrianPartition.sample(lower, upper, lifetime, random_state=seed)
    extended = partition.extend(wide_lower, wide_upper, random_state=seed)
    assert_valid(partition)
    assert_valid(extended)
    assert_equal(extended.restrict(lower, upper), partition)
    assert_equal(extended.at(lifetime / 2).restrict(lower, upper), partition.at(lifetime / 2))


@settings(deadline=None, max_examples=100)
@given(st.floats(-1e300, 1e300), st.integers(0, 3), st.integers(0, 3), SEED)
def test_sides_of_a_few_floats_are_cut_like_any_other(start, n_inner, n_outer, seed):
    # Where neighbouring floats are all there is, rounding decides everything.
    def step(x, n):
        for _ in range(abs(n)):
            x = np.nextafter(x, np.copysign(np.inf, n))
        return x

    lower, upper = np.array([start]), np.array([step(start, n_inner)])
    wide_lower, wide_upper = step(lower, -n_outer), step(upper, n_outer)
    side = (wide_upper - wide_lower)[0]
    lifetime = 20 / side if side > 1e-300 else 1e300
    partition = MondrianPartition.sample(lower, upper, lifetime, random_state=seed)
    extended = partition.extend(wide_lower, wide_upper, random_state=seed)
    assert_valid(extended)
    assert_equal(extended.restrict(lower, upper), partition)
