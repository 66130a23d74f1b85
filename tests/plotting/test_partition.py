"""The picture of a partition has its cells and cuts, and the tree its times."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianFeatures, MondrianPartition
from mondrian_kernel._model.columns import Columns
from mondrian_kernel.plotting import PartitionDisplay
from mondrian_kernel.plotting.partition import tree_partition

rng = np.random.default_rng(0)
X = rng.uniform(size=(60, 2))
PARTITION = MondrianPartition.sample([0, 0], [2, 1], lifetime=3.0, random_state=6)
FEATURES = MondrianFeatures(4.0, 6, random_state=0).fit(X)


def boxes(display):
    """Lower and upper corners of the cells that were drawn."""
    corners = [path.vertices[:4] for path in display.cells_.get_paths()]
    return np.min(corners, axis=1), np.max(corners, axis=1)


@pytest.mark.parametrize("colors", ["mondrian", "time", "none"])
def test_cells_are_those_of_the_partition(colors):
    display = PartitionDisplay.from_partition(PARTITION, lifetime=2.0, colors=colors)
    lower, upper = boxes(display)
    expected = PARTITION.cells(2.0)
    assert_allclose(lower, expected.lower)
    assert_allclose(upper, expected.upper)
    assert len(display.cuts_.get_segments()) == len(lower) - 1
    assert f"{len(lower)} cells" in display.ax_.get_title()
    display.figure_.canvas.draw()


def test_cuts_lie_where_they_were_made_and_early_ones_are_thick():
    display = PartitionDisplay.from_partition(PARTITION)
    cuts = PARTITION.cuts
    segments = display.cuts_.get_segments()[::-1]
    for dim, loc, segment in zip(cuts.dim, cuts.loc, segments, strict=True):
        assert_allclose(segment[:, dim], loc)
        assert segment[1, 1 - dim] > segment[0, 1 - dim]
    assert np.all(np.diff(display.cuts_.get_linewidths()) >= 0)


def test_times_colour_the_cuts():
    display = PartitionDisplay.from_partition(PARTITION, colors="time")
    assert_array_equal(display.cuts_.get_array(), PARTITION.cuts.time[::-1])


def test_paint_depends_on_the_seed_alone():
    def paint(seed):
        display = PartitionDisplay.from_partition(PARTITION, random_state=seed)
        return display.cells_.get_facecolor()

    assert_array_equal(paint(0), paint(0))
    assert not np.array_equal(paint(0), paint(1))
    assert len(np.unique(paint(0), axis=0)) > 1


@pytest.mark.parametrize("lifetime", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("tree", [0, 5])
def test_rows_share_a_drawn_cell_when_they_share_a_feature(lifetime, tree):
    at = FEATURES.at(lifetime)
    partition = tree_partition(at, tree)
    assert partition.n_cells == at.n_cells_per_tree_[tree]
    assert_allclose((partition.lower[0], partition.upper[0]), (X.min(axis=0), X.max(axis=0)))
    drawn, cell = partition.locate(X), at.apply(X)[:, tree]
    assert_array_equal(drawn[:, None] == drawn, cell[:, None] == cell)
    lower, upper = partition.cells()
    assert np.all((lower[drawn] <= X) & (upper[drawn] >= X))
    assert_allclose((upper - lower).prod(axis=1).sum(), np.ptp(X, axis=0).prod())


def test_an_earlier_time_can_be_taken_before_or_after():
    early, late = tree_partition(FEATURES.at(1.5), 2), tree_partition(FEATURES, 2).at(1.5)
    for name in ("parent", "left", "right", "dim", "loc", "time", "lower", "upper"):
        assert_array_equal(getattr(early, name), getattr(late, name), err_msg=name)


@pytest.mark.parametrize("centre", [None, np.array([30.0, -20.0])])
def test_cells_of_learnt_columns_are_in_the_units_of_the_inputs(centre):
    """Rows lie in a box of the inputs exactly where their columns lie in that of the trees."""
    X = np.random.default_rng(1).lognormal(size=(80, 2))
    knots = np.sort(X[::4], axis=0)
    ranks = np.repeat(np.linspace(0, 1, 20)[:, None], 2, axis=1)
    columns = Columns(np.array([2.0, 0.5]), np.ones(2), np.array([3.0, 0.0]), knots, ranks, centre)
    features = MondrianFeatures(1.0, 1, random_state=0).fit(columns(X))
    partition = tree_partition(features, 0, columns)
    # With a centre, single precision rounds numbers up to 60 by 60 * 2**-24, times the scale.
    atol = 1e-12 if centre is None else 60 * 2.0**-24 * 2.0
    assert_allclose(partition.lower[0], X.min(axis=0), rtol=1e-12, atol=atol)
    assert_allclose(partition.upper[0], X.max(axis=0), rtol=1e-12, atol=atol)
    cells = features.apply(columns(X))[:, 0]
    assert len(set(cells)) == partition.n_cells > 5
    lower, upper = partition.cells()
    # A cut lies between rows; the outermost rows lie on the sides, up to rounding.
    slack = atol + 1e-9 * np.ptp(X, axis=0)
    inside = ((lower - slack <= X[:, None]) & (X[:, None] <= upper + slack)).all(axis=2)
    assert (inside.sum(axis=1) == 1).all()
    first = np.unique(cells, return_index=True)[1]
    assert (inside.argmax(axis=1) == inside.argmax(axis=1)[first][cells]).all()


def test_scale_gives_the_cells_in_the_units_of_the_inputs():
    scale = np.array([2.0, 10.0])
    plain = tree_partition(FEATURES, 1)
    scaled = tree_partition(FEATURES, 1, Columns.scaled(scale))
    assert_allclose(scaled.lower, plain.lower * scale)
    assert_allclose(scaled.upper, plain.upper * scale)


def test_features_are_drawn_with_the_names_of_their_columns():
    frame = pd.DataFrame(X, columns=["east", "north"])
    features = MondrianFeatures(2.0, 3, random_state=0).fit(frame)
    display = PartitionDisplay.from_features(features, lifetime=1.0, tree=2)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("east", "north")
    assert len(display.cells_.get_paths()) == features.at(1.0).n_cells_per_tree_[2]


class TestTree:
    def test_every_node_lives_from_birth_to_cut(self):
        display = PartitionDisplay(partition=PARTITION).plot_tree()
        n_nodes = PARTITION.dim.size
        segments = np.array(display.cuts_.get_segments())
        lives, joins = segments[:n_nodes], segments[n_nodes:]
        assert_allclose(lives[:, 0, 1], PARTITION.birth)
        assert_allclose(lives[:, 1, 1], np.minimum(PARTITION.time, PARTITION.lifetime))
        assert_allclose(lives[:, 0, 0], lives[:, 1, 0])
        assert_allclose(np.sort(joins[:, 0, 1]), PARTITION.cuts.time)
        tops = lives[PARTITION.dim < 0, 0, 0]
        assert_array_equal(np.sort(tops), np.arange(PARTITION.n_cells))
        # A cut stands between its children.
        cut = PARTITION.dim >= 0
        assert np.all(joins[:, 0, 0] < lives[cut, 0, 0])
        assert np.all(lives[cut, 0, 0] < joins[:, 1, 0])

    @pytest.mark.parametrize("n_columns", [1, 3, 12])
    def test_any_number_of_columns(self, n_columns):
        box = MondrianPartition.sample([0] * n_columns, [1] * n_columns, 0.4, random_state=0)
        display = PartitionDisplay(partition=box).plot_tree()
        display.figure_.canvas.draw()

    def test_a_single_cell(self):
        display = PartitionDisplay(partition=PARTITION.at(0.0))
        assert len(display.plot_tree().cuts_.get_segments()) == 1
        assert len(display.plot().cells_.get_paths()) == 1
        display.figure_.canvas.draw()


def test_bad_input():
    cube = MondrianPartition.sample([0] * 3, [1] * 3, 1.0, random_state=0)
    with pytest.raises(ValueError, match="Cells of 3 columns cannot be drawn"):
        PartitionDisplay.from_partition(cube)
    with pytest.raises(ValueError, match="colors must be"):
        PartitionDisplay.from_partition(PARTITION, colors="red")
    with pytest.raises(ValueError, match="tree=6 is not one of the 6 trees"):
        PartitionDisplay.from_features(FEATURES, tree=6)
    with pytest.raises(ValueError, match="lies outside"):
        PartitionDisplay.from_features(FEATURES, lifetime=5.0)
    assert plt.get_fignums() == []
