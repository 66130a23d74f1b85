"""Laws of the trees on data: lazy clocks against the plain algorithm, and exact laws of clocks.

A forest hides errors in its mean, so the trees are looked at one by one: every sample below is a
list of single trees, taken either from one seed or each from a seed of its own.
"""

from functools import cache, reduce
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats

from laws.level import (
    assert_at_most,
    assert_frequencies,
    assert_law,
    assert_mean,
    assert_same_frequencies,
    assert_same_law,
)
from mondrian_kernel._settings import GROWTH_TREES
from mondrian_kernel._trees.growth import Growth
from oracles import mondrian_tree, n_cells, nodes, path_down, path_to

N_TREES = 5000
LIFETIME = 2.0
SOURCES = ["trees of one seed", "one tree of many seeds"]


def clusters():
    """Three clusters on a diagonal, a constant column, unlike sides and rows that repeat.

    After the first cut the tight boxes are much smaller than those the nodes inherit, so that
    clocks ring for cuts that miss the data and have to be thinned.
    """
    rng = np.random.default_rng(0)
    middles = np.repeat([[0.0, 0.0, 0.0], [0.5, 0.2, 0.3], [0.9, 0.4, 0.1]], 4, axis=0)
    X = middles + rng.uniform(0.0, 0.12, size=(12, 3))
    X = np.insert(X, 1, 7.0, axis=1)
    return np.vstack([X, X[:2]])


X = clusters()
NEW = np.array(
    [
        [0.25, 7.0, 0.1, 0.2],  # inside the box of the rows, between clusters
        [0.05, 7.0, 0.05, 0.05],  # in a cluster
        [1.3, 7.0, 0.1, 0.6],  # outside
        [0.5, 7.2, 0.25, 0.35],  # off the constant column
    ]
)


@cache
def plain():
    rng = np.random.default_rng(1)
    return [mondrian_tree(X, LIFETIME, rng) for _ in range(N_TREES)]


@cache
def lazy(source, lifetime=LIFETIME):
    """Return single trees as pairs (block, number in the block)."""

    def grown(n_trees, seed):
        growth = Growth(X, n_trees, seed)
        growth.advance(lifetime)
        return growth.freeze()[0]

    if source == "trees of one seed":
        block = grown(N_TREES, 3)
        return [(block, m) for m in range(N_TREES)]
    return [(grown(1, seed), 0) for seed in range(N_TREES)]


def join_rare(expected, *tables):
    """Join the classes expected fewer than 25 times, so that the chi-square law holds for all."""
    order = np.argsort(expected)
    n_rare = int((expected < 25).sum())
    if n_rare > 0 and expected[order[:n_rare]].sum() < 25:
        n_rare += 1
    first = [0] if n_rare else []
    return [np.add.reduceat(t[order], [*first, *range(n_rare, t.size)]) for t in tables]


def assert_same_counts(a, b):
    """Two samples of small whole numbers have the same law."""
    top = 1 + max(max(a), max(b))
    table = np.array([np.bincount(a, minlength=top), np.bincount(b, minlength=top)])
    expected = table.sum(axis=0) * min(len(a), len(b)) / (len(a) + len(b))
    assert_same_frequencies(*join_rare(expected, *table))


def cuts_around_plain(row, depth):
    """Return time, dim, loc of the cut at a depth of the path to a row; NaN where there is none."""
    paths = (path_to(tree, row) for tree in plain())
    ends = [path[depth] if depth < len(path) else path[-1] for path in paths]
    return np.array([[n.time, n.dim, n.loc] if n.dim is not None else [np.nan] * 3 for n in ends])


def cuts_around_lazy(source, row, depth):
    found = []
    for block, m in lazy(source):
        path = path_down(block, m, X[row])
        is_cut = depth < len(path) - 1
        node = path[min(depth, len(path) - 1)]
        cut = [block.time[node], block.dim[node], block.loc[node]]
        found.append(cut if is_cut else [np.nan] * 3)
    return np.array(found)


def cuts_in_order_plain(number):
    found = []
    for tree in plain():
        cuts = sorted((n.time, n.dim, n.loc) for n in nodes(tree) if n.dim is not None)
        found.append(cuts[number] if number < len(cuts) else [np.nan] * 3)
    return np.array(found)


def cuts_in_order_lazy(source, number):
    found = []
    for block, m in lazy(source):
        first, last = block.root[m], [*block.root[m + 1 : m + 2], block.time.size][0]
        of_tree = first + np.flatnonzero(block.dim[first:last] >= 0)
        of_tree = of_tree[np.argsort(block.time[of_tree])]
        if number < of_tree.size:
            node = of_tree[number]
            found.append([block.time[node], block.dim[node], block.loc[node]])
        else:
            found.append([np.nan] * 3)
    return np.array(found)


def assert_same_law_of_cuts(a, b):
    """Two-sample tests of the time (censored at the lifetime), the dimension and the location."""
    assert_same_law(*(np.nan_to_num(cuts[:, 0], nan=2 * LIFETIME) for cuts in (a, b)))
    a, b = a[~np.isnan(a[:, 0])], b[~np.isnan(b[:, 0])]
    dims_a, dims_b = a[:, 1].astype(int), b[:, 1].astype(int)
    assert_same_frequencies(np.bincount(dims_a, minlength=4), np.bincount(dims_b, minlength=4))
    for dim in (0, 2, 3):
        assert_same_law(a[dims_a == dim, 2], b[dims_b == dim, 2])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("row", [0, 5])
def test_cuts_around_a_row_have_the_law_of_the_plain_algorithm(source, depth, row):
    assert_same_law_of_cuts(cuts_around_lazy(source, row, depth), cuts_around_plain(row, depth))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("number", [0, 1, 2, 4])
def test_cuts_in_time_order_have_the_law_of_the_plain_algorithm(source, number):
    assert_same_law_of_cuts(cuts_in_order_lazy(source, number), cuts_in_order_plain(number))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("lifetime", [0.3, 1.0, LIFETIME])
def test_cell_counts_have_the_law_of_the_plain_algorithm(source, lifetime):
    counts = [n_cells(tree, lifetime) for tree in plain()]
    trees = lazy(source)
    if source == "trees of one seed":
        lazy_counts = trees[0][0].cells(lifetime).per_tree
    else:
        lazy_counts = [block.cells(lifetime).total for block, _ in trees]
    assert_same_counts(counts, lazy_counts)
    assert_mean(np.subtract(counts, lazy_counts), 0.0)


@pytest.mark.parametrize("source", SOURCES)
def test_sizes_of_cells_have_the_law_of_the_plain_algorithm(source):
    sizes = [path_to(tree, 5)[-1].rows.size for tree in plain()]
    lazy_sizes = [block.count[path_down(block, m, X[5])[-1]] for block, m in lazy(source)]
    assert_same_counts(sizes, lazy_sizes)


# ---- exact laws ------------------------------------------------------------------------------


@cache
def clocks(source):
    """Every node with a clock of fully grown trees: depth, time alive × rate, dim, loc, p(dim).

    In fully grown trees the first is Exp(1) and the location, on its side, uniform, independent of
    everything before: all nodes are one sample.
    """
    found = []
    blocks = {id(block): block for block, _ in lazy(source, np.inf)}.values()
    for block in blocks:
        node = np.flatnonzero(block.dim >= 0)
        sides = block.upper[node] - block.lower[node]
        rate = sides.sum(axis=1)
        above = block.parent[node]
        birth = np.where(above >= 0, block.time[above], 0.0)
        depth = np.zeros(block.time.size, int)
        for child in np.flatnonzero(block.parent >= 0):  # preorder: parents first
            depth[child] = depth[block.parent[child]] + 1
        dim = block.dim[node]
        side, low = sides[np.arange(node.size), dim], block.lower[node, dim]
        found.append(
            np.column_stack(
                [
                    depth[node],
                    (block.time[node] - birth) * rate,
                    dim,
                    (block.loc[node] - low) / side,
                    sides / rate[:, None],
                ]
            )
        )
    return np.vstack(found)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4, 5])
def test_every_node_is_cut_at_the_rate_of_its_tight_box(source, depth):
    found = clocks(source)
    found = found[found[:, 0] == depth]
    assert_law(found[:, 1], stats.expon.cdf)
    assert_law(found[:, 3], stats.uniform.cdf)
    for dim in (0, 2, 3):
        assert_mean((found[:, 2] == dim) - found[:, 4 + dim], 0.0)
    assert (found[:, 2] != 1).all(), "a constant column was cut"


@pytest.mark.parametrize("source", SOURCES)
def test_clocks_of_all_nodes_together(source):
    found = clocks(source)
    assert len(found) == 11 * N_TREES, "fully grown on 12 different rows"
    assert_law(found[:, 1], stats.expon.cdf)
    assert_law(found[:, 3], stats.uniform.cdf)


def test_draws_of_parent_and_children_are_independent():
    block = lazy("trees of one seed", np.inf)[0][0]
    node = np.flatnonzero(block.dim >= 0)
    time, place = np.full(block.time.size, np.nan), np.full(block.time.size, np.nan)
    time[node], place[node] = clocks("trees of one seed")[:, 1], clocks("trees of one seed")[:, 3]
    u, v = 1.0 - np.exp(-time) - 0.5, place - 0.5
    left, right = block.left[node], block.right[node]
    siblings = (block.dim[left] >= 0) & (block.dim[right] >= 0)
    below = node[block.dim[left] >= 0]
    assert_mean(u[node] * v[node], 0.0)
    for draw in (u, v):
        assert_mean(draw[left[siblings]] * draw[right[siblings]], 0.0)
        assert_mean(draw[below] * draw[block.left[below]], 0.0)


@pytest.mark.parametrize("source", SOURCES)
def test_trees_are_independent(source):
    trees = lazy(source, np.inf)
    first = np.array([block.time[block.root[m]] for block, m in trees])
    place = np.array([block.loc[block.root[m]] for block, m in trees])
    for draw in (first, place):
        rank = stats.rankdata(draw) / draw.size - 0.5
        assert_mean(rank[::2] * rank[1::2], 0.0)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_trees_of_different_blocks_are_independent(n_jobs):
    """Threads grow blocks of trees; trees with the same place in two blocks differ."""
    growth = Growth(X, 500 * GROWTH_TREES, 3, n_jobs)
    growth.advance(np.inf)
    block = growth.freeze()[0]
    root = block.root.reshape(-1, GROWTH_TREES)
    assert len(set(block.time[root].ravel())) == root.size, "two trees are the same"
    child = np.where(block.left[block.left[root]] >= 0, block.left[root], block.right[root])
    for draw in (block.time[root], block.loc[root], block.time[child] - block.time[root]):
        rank = (stats.rankdata(draw) / draw.size - 0.5).reshape(draw.shape)
        assert_mean(rank[:-1] * rank[1:], 0.0)
        assert_mean(rank[0] * rank[-1], 0.0)


@pytest.mark.parametrize("source", SOURCES)
def test_two_rows_part_at_the_rate_of_their_distance(source):
    """The time at which two rows part is Exp(‖x - x'‖₁): the Laplace kernel at every lifetime."""
    pairs = list(combinations([0, 1, 5, 9], 2))
    parting = np.empty((N_TREES, len(pairs)))
    for k, (block, m) in enumerate(lazy(source, np.inf)):
        paths = {i: path_down(block, m, X[i]) for i in (0, 1, 5, 9)}
        for p, (i, j) in enumerate(pairs):
            common = set(paths[i]) & set(paths[j])
            parting[k, p] = block.time[max(common)]  # preorder: the lowest comes last
    for p, (i, j) in enumerate(pairs):
        assert_law(parting[:, p], stats.expon(scale=1.0 / np.abs(X[i] - X[j]).sum()).cdf)


@pytest.mark.parametrize("lifetime", [0.5, 2.0, 6.0])
def test_in_one_dimension_the_cuts_are_a_poisson_process(lifetime):
    """Gap g is cut with probability 1 - exp(-λg), independently of all others."""
    rows = np.array([0.0, 0.02, 0.1, 0.15, 0.4, 0.45, 0.8, 1.0])
    growth = Growth(rows[:, None], N_TREES, 11)
    growth.advance(lifetime)
    trees, leaf = growth.freeze()
    p = 1.0 - np.exp(-lifetime * np.diff(rows))
    parted = leaf[:-1] != leaf[1:]
    for gap in range(p.size):
        assert_mean(parted[gap], p[gap])
    for gap, other in pairwise(range(p.size)):
        assert_mean((parted[gap] - p[gap]) * (parted[other] - p[other]), 0.0)
    law = reduce(np.convolve, [[1.0 - q, q] for q in p])
    counts = np.bincount(trees.cells(lifetime).per_tree - 1, minlength=law.size)
    assert_frequencies(*join_rare(N_TREES * law, counts, law))


@pytest.mark.parametrize("lifetime", [0.5, 1.0, LIFETIME])
def test_tail_bound_on_the_number_of_cells(lifetime):
    """Supplement: P[N_t > n] ≤ exp(|X| t) / n."""
    counts = lazy("trees of one seed")[0][0].cells(lifetime).per_tree
    linear_dimension = (X.max(axis=0) - X.min(axis=0)).sum()
    for n in range(1, len(X)):
        hits = int((counts > n).sum())
        assert_at_most(hits, N_TREES, min(1.0, np.exp(linear_dimension * lifetime) / n))


# ---- rows that were not fitted -----------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("new", range(len(NEW)))
@pytest.mark.parametrize("lifetime", [0.6, LIFETIME])
def test_company_of_a_new_row_has_the_law_of_the_plain_algorithm(source, new, lifetime):
    """With how many rows does it share its cell, had it been among them from the start?"""
    rng = np.random.default_rng([new, 5])
    both = np.vstack([X, NEW[new]])
    companions = np.array(
        [path_to(mondrian_tree(both, lifetime, rng), len(X))[-1].rows.size - 1 for _ in range(1500)]
    )
    trees = lazy(source)[:4500]
    blocks = {id(block): block for block, _ in trees}.values()
    walks = [block.walk(NEW[new : new + 1], lifetime) for block in blocks]
    node = np.concatenate([w[0][0] for w in walks])[:4500]
    stay = np.exp(np.concatenate([w[1][0] for w in walks])[:4500])
    size = np.array([block.count[k] for (block, _), k in zip(trees, node, strict=True)])
    stays = rng.uniform(size=size.size) < stay
    assert_same_counts(companions, np.where(stays, size, 0))
    # How often it is alone, by the closed form.
    alone = (companions == 0).astype(float)
    assert_mean(alone - (1.0 - stay).reshape(3, -1).mean(axis=0), 0.0)
