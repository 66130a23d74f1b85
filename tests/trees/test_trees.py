"""Frozen trees: what they check of themselves, their top nodes, and walks at the time of a cut."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.online import OnlineTrees
from oracles import stay_probability

X = np.random.default_rng(0).normal(size=(30, 3))
NEW = np.random.default_rng(1).normal(size=(25, 3)) * 1.5


def grown(lifetime=0.6, n_trees=4):
    growth = Growth(X, n_trees, 5)
    growth.advance(lifetime)
    return growth.freeze()[0]


def changed(trees, name, index, value):
    array = getattr(trees, name).copy()
    array[index] = value
    return dataclasses.replace(trees, **{name: array})


# ---- the check -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [0.0, 0.6, np.inf])
def test_trees_that_were_grown_are_sound(lifetime):
    grown(lifetime).check()


def test_trees_that_were_extended_are_sound():
    online = OnlineTrees.from_trees(grown(), 3)
    online.extend(NEW[:15])
    online.freeze().check()
    online = online.deeper(2.0)
    online.extend(NEW[15:])
    online.freeze().check()
    online.snapshot().check()


CUT = 0  # the root of the first tree
LEAF = int(np.flatnonzero(grown().left < 0)[0])
IMPOSSIBLE = [
    ("root", 0, -1, "roots out of range"),
    ("root", 0, 10**6, "roots out of range"),
    ("root", 0, 1, "a root with a parent"),
    ("root", 1, 0, "mixed trees"),
    ("left", CUT, 10**6, "children out of range"),
    ("right", CUT, -1, "children out of range"),
    ("right", LEAF, 1, "a node with one child"),
    ("left", CUT, 0, "children of other parents"),
    ("left", CUT, int(grown().right[CUT]), "children of other parents"),
    ("parent", 1, 3, "children of other parents"),
    ("tree", 0, 1, "mixed trees"),
    ("tree", 1, 1, "mixed trees"),
    ("dim", CUT, -1, "a cut along no column"),
    ("dim", CUT, 3, "a cut along no column"),
    ("loc", CUT, np.nan, "a cut at no place"),
    ("time", CUT, -1.0, "a cut out of time"),
    ("time", CUT, np.nan, "a cut out of time"),
    ("time", CUT, 0.7, "a cut out of time"),
    ("time", CUT, np.inf, "a cut out of time"),
    ("time", CUT, 0.6, "cuts out of order"),
    ("time", LEAF, 0.6, "a leaf that is cut"),
    ("lower", CUT, np.nan, "an impossible box"),
    ("lower", CUT, 1e9, "an impossible box"),
    ("upper", CUT, np.inf, "an impossible box"),
    ("lower", LEAF, -1e9, "a box outside its parent's"),
    ("upper", LEAF, 1e9, "a box outside its parent's"),
    ("count", CUT, 7, "counts that do not add up"),
    ("count", LEAF, -1, "counts that do not add up"),
]


@pytest.mark.parametrize(("name", "index", "value", "problem"), IMPOSSIBLE)
def test_impossible_trees_say_what_is_wrong(name, index, value, problem):
    with pytest.raises(ValueError, match=problem):
        changed(grown(), name, index, value).check()


@pytest.mark.parametrize("name", grown().nodes._fields)
@pytest.mark.parametrize("change", ["dtype", "length", "axis", "no array"])
def test_arrays_of_another_type_or_shape_are_refused(name, change):
    array = getattr(grown(), name)
    other = {
        "dtype": array.astype(np.float32),
        "length": array[:-1],
        "axis": array[..., None],
        "no array": array.tolist(),
    }
    with pytest.raises(ValueError, match=r"another type or shape|parents"):
        dataclasses.replace(grown(), **{name: other[change]}).check()


def test_boxes_of_two_widths_and_a_lifetime_that_is_no_number_are_refused():
    with pytest.raises(ValueError, match="an array upper of another type or shape"):
        dataclasses.replace(grown(), upper=grown().upper[:, :2]).check()
    with pytest.raises(ValueError, match="a lifetime that is no float"):
        dataclasses.replace(grown(), lifetime=np.float32(0.6)).check()


def test_a_circle_of_nodes_is_refused():
    trees = grown()
    n, end = trees.time.size, np.inf
    extra = {
        "tree": [0] * 4,
        "parent": [n + 1, n, n, n + 1],
        "left": [n + 2, n + 3, -1, -1],
        "right": [n + 1, n, -1, -1],
        "dim": [0, 0, -1, -1],
        "loc": [0.0] * 4,
        "time": [0.5, 0.5, end, end],
        "count": [1] * 4,
        "lower": np.zeros((4, 3)),
        "upper": np.zeros((4, 3)),
    }
    tables = {name: getattr(trees, name) for name in extra}
    circle = {a: np.concatenate([tables[a], np.array(extra[a], tables[a].dtype)]) for a in extra}
    with pytest.raises(ValueError, match="nodes that no root leads to"):
        dataclasses.replace(trees, **circle).check()


# ---- cells ---------------------------------------------------------------------------------------


def test_every_cell_has_one_top_node():
    trees = grown()
    lifetimes = [0.0, 0.2, 0.6]
    columns = np.stack([trees.cells(lifetime).column for lifetime in lifetimes])
    for lifetime, column, is_top in zip(lifetimes, columns, trees.top_nodes(columns), strict=True):
        assert_array_equal(is_top, trees.top_nodes(column))
        assert_array_equal(column[is_top], np.arange(trees.cells(lifetime).total))
        born = np.where(trees.parent < 0, 0.0, trees.time[trees.parent])
        assert_array_equal(is_top, (born <= lifetime) & (trees.time > lifetime))


@pytest.mark.parametrize("number", [0, 1, 5, 20])
def test_a_walk_that_ends_at_the_time_of_a_cut_is_below_the_cut(number):
    """A cut at time τ parts the rows at the lifetime τ, and not before."""
    trees = grown()
    at, node = trees.cuts.time[number], trees.cuts.node[number]
    m, children = trees.tree[node], [trees.left[node], trees.right[node]]
    rows = np.vstack([X, NEW, trees.lower[children], trees.upper[children]])
    before = np.nextafter(at, 0.0)
    found = {}
    for lifetime in (before, at):
        cells = trees.cells(lifetime)
        found[lifetime], log_stay = trees.walk(rows, lifetime)
        assert trees.top_nodes(cells.column)[found[lifetime]].all(), "not the node of a cell"
        expected = [stay_probability(trees, m, x, lifetime) for x in rows]
        assert_allclose(np.exp(log_stay[:, m]), expected, rtol=1e-12)
        # At the time of the cut its halves have not lived, so nothing parts a row from them.
        assert_allclose(log_stay, trees.walk(rows, before)[1], rtol=1e-12, atol=1e-15)
    assert np.isin(children, found[at][:, m]).all()
    assert node in found[before][:, m]
    assert node not in found[at][:, m]
