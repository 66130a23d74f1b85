"""Laws of the Mondrian process on a box: clocks, cell counts, projectivity, extension."""

from functools import cache

import numpy as np
import pytest

from laws.level import (
    assert_at_most,
    assert_frequencies,
    assert_law,
    assert_mean,
    assert_same_frequencies,
    assert_same_law,
)
from mondrian_kernel.partition import MondrianPartition

LOWER, UPPER = np.array([-1.0, 0.0, 2.0]), np.array([0.0, 0.5, 2.3])
LIFETIME = 1.5
N = 3000

SMALLER_BOXES = {
    "inside": [([-0.7, 0.1, 2.1], [-0.4, 0.4, 2.2])],
    "below": [([-0.5, 0.0, 2.0], UPPER)],
    "above": [(LOWER, [-0.5, 0.5, 2.3])],
    "point": [([-0.3, 0.2, 2.3], [-0.3, 0.2, 2.3])],
    "in steps": [([-0.7, 0.1, 2.1], [-0.4, 0.4, 2.2]), ([-1.0, 0.1, 2.1], [-0.4, 0.5, 2.3])],
}

PAIRS_OF_POINTS = [
    ([-0.6, 0.2, 2.12], [-0.5, 0.3, 2.18]),  # both in the box "inside"
    ([-0.5, 0.2, 2.15], [-0.9, 0.2, 2.1]),  # one in it, one below
    ([-0.5, 0.3, 2.15], [-0.1, 0.45, 2.25]),  # one in it, one above
    ([-0.95, 0.05, 2.05], [-0.1, 0.45, 2.05]),  # on opposite sides of it
    ([-0.2, 0.02, 2.25], [-0.1, 0.02, 2.29]),  # on the same side of it
]


def sample_many(lower, upper, lifetime, *, seed, n=N):
    rng = np.random.default_rng(seed)
    return [MondrianPartition.sample(lower, upper, lifetime, random_state=rng) for _ in range(n)]


@cache
def direct():
    """Samples on the box of these tests, shared by them and never changed."""
    return sample_many(LOWER, UPPER, LIFETIME, seed=0)


@cache
def direct_cuts():
    return cuts_of(direct())


@cache
def extended(kind):
    """Samples on the same box, each extended from a smaller one, at once or in steps."""
    boxes = SMALLER_BOXES[kind]
    rng = np.random.default_rng([1, list(SMALLER_BOXES).index(kind)])
    partitions = []
    for _ in range(N // 2):
        partition = MondrianPartition.sample(*boxes[0], LIFETIME, random_state=rng)
        for lower, upper in [*boxes[1:], (LOWER, UPPER)]:
            partition = partition.extend(lower, upper, random_state=rng)
        partitions.append(partition)
    return partitions


def literal_cuts(lower, upper, birth, lifetime, rng):
    """Cuts (time, dim, loc) of the paper's generative process, word for word."""
    clocks = [rng.exponential(1 / (u - l)) for l, u in zip(lower, upper, strict=True)]
    dim = int(np.argmin(clocks))
    time = birth + clocks[dim]
    if time > lifetime:
        return []
    loc = rng.uniform(lower[dim], upper[dim])
    left_upper, right_lower = list(upper), list(lower)
    left_upper[dim] = right_lower[dim] = loc
    return [
        (time, dim, loc),
        *literal_cuts(lower, left_upper, time, lifetime, rng),
        *literal_cuts(right_lower, upper, time, lifetime, rng),
    ]


def nth_cut(cuts, n):
    """Time, dim and loc of the n-th cut of each partition; an infinite time if it has none."""
    with_end = [cut[n] if len(cut) > n else (np.inf, -1, np.nan) for cut in cuts]
    return np.array(with_end).T


def cuts_of(partitions):
    """Cuts (time, dim, loc) of each partition, in time order."""
    return [list(zip(*map(np.ndarray.tolist, p.cuts), strict=True)) for p in partitions]


def assert_same_cuts(a, b, n_dims):
    """Number of cuts, and time, dim and loc of the first, third and fifth, have the same law."""
    assert_same_law([len(cuts) for cuts in a], [len(cuts) for cuts in b])
    for n in (0, 2, 4):
        (time_a, dim_a, loc_a), (time_b, dim_b, loc_b) = nth_cut(a, n), nth_cut(b, n)
        assert_same_law(time_a, time_b)
        counts = [np.bincount(dim.astype(int) + 1, minlength=n_dims + 1) for dim in (dim_a, dim_b)]
        assert_same_frequencies(*counts)
        for d in range(n_dims):
            assert_same_law(loc_a[dim_a == d], loc_b[dim_b == d])


# --- the process ---------------------------------------------------------------------------------


def test_first_cut_time_is_exponential_with_the_linear_dimension():
    rate = (UPPER - LOWER).sum()
    time = nth_cut(direct_cuts(), 0)[0]
    by_lifetime = -np.expm1(-rate * LIFETIME)
    assert_mean(time < np.inf, by_lifetime)
    assert_law(time[time < np.inf], lambda t: -np.expm1(-rate * t) / by_lifetime)


def test_first_cut_dim_is_proportional_to_the_side():
    dim = nth_cut(direct_cuts(), 0)[1].astype(int)
    side = UPPER - LOWER
    assert_frequencies(np.bincount(dim[dim >= 0], minlength=3), side / side.sum())


@pytest.mark.parametrize("d", range(3))
def test_first_cut_loc_is_uniform(d):
    _, dim, loc = nth_cut(direct_cuts(), 0)
    assert_law(loc[dim == d], lambda x: (x - LOWER[d]) / (UPPER[d] - LOWER[d]))


def test_whole_process_has_the_law_of_the_literal_one():
    rng = np.random.default_rng(2)
    literal = [sorted(literal_cuts(LOWER, UPPER, 0.0, LIFETIME, rng)) for _ in range(N)]
    assert_same_cuts(direct_cuts(), literal, n_dims=3)


@pytest.mark.parametrize("lifetime", [0.3, 0.8, LIFETIME])
def test_mean_number_of_cells(lifetime):
    n_cells = [partition.at(lifetime).n_cells for partition in direct()]
    assert_mean(n_cells, np.prod(1 + lifetime * (UPPER - LOWER)))


@pytest.mark.parametrize("side", [[3.0], [4.0, 0.5], [1.0, 0.0, 1.0], [0.4] * 6])
def test_mean_number_of_cells_on_other_boxes(side):
    partitions = sample_many(np.zeros(len(side)), side, 1.0, seed=[3, len(side)], n=N // 2)
    assert_mean([partition.n_cells for partition in partitions], np.prod(1 + np.array(side)))


@pytest.mark.parametrize("n_dims", [1, 40])
def test_tail_of_the_number_of_cells(n_dims):
    # Supplement A: P[N_t > n] <= e^{|X|t} / n, because a Yule process with birth rate |X| dominates
    # N; its tail, (1 - e^{-|X|t})^n, is the sharper bound, and nearly reached in many dimensions.
    side = np.full(n_dims, 1.0 / n_dims)
    partitions = sample_many(np.zeros(n_dims), side, 1.0, seed=[4, n_dims])
    n_cells = np.array([partition.n_cells for partition in partitions])
    for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        n_hits = np.count_nonzero(n_cells > n)
        assert_at_most(n_hits, N, np.e / n)
        assert_at_most(n_hits, N, (1 - np.exp(-1.0)) ** n)


# --- stopping, restricting, extending ------------------------------------------------------------


def test_stopped_partition_has_the_law_of_one_sampled_so_long():
    stopped = [partition.at(0.8) for partition in direct()[: N // 2]]
    shorter = sample_many(LOWER, UPPER, 0.8, seed=5, n=N // 2)
    assert_same_law([p.n_cells for p in stopped], [p.n_cells for p in shorter])
    for n in (0, 1):
        assert_same_law(*(nth_cut(cuts_of(ps), n)[0] for ps in (stopped, shorter)))


def test_stopped_partitions_are_nested():
    for partition in direct()[:200]:
        coarse, fine = partition.at(0.6), partition.at(1.1)
        lower, upper = fine.cells()
        cell = coarse.locate((lower + upper) / 2)
        assert (coarse.cells().lower[cell] <= lower).all()
        assert (upper <= coarse.cells().upper[cell]).all()


def test_restriction_has_the_law_of_a_direct_sample():
    lower, upper = [-1.5, -1.0, 1.5], [0.5, 0.5, 2.6]
    larger = sample_many(lower, upper, LIFETIME, seed=6, n=N // 2)
    restricted = [partition.restrict(LOWER, UPPER) for partition in larger]
    assert_same_cuts(cuts_of(restricted), direct_cuts(), n_dims=3)
    n_cells = [partition.n_cells for partition in restricted]
    assert_mean(n_cells, np.prod(1 + LIFETIME * (UPPER - LOWER)))


@pytest.mark.parametrize("kind", SMALLER_BOXES)
def test_extension_has_the_law_of_a_direct_sample(kind):
    assert_same_cuts(cuts_of(extended(kind)), direct_cuts(), n_dims=3)
    n_cells = [partition.n_cells for partition in extended(kind)]
    assert_mean(n_cells, np.prod(1 + LIFETIME * (UPPER - LOWER)))


@pytest.mark.parametrize("kind", SMALLER_BOXES)
def test_points_share_an_extended_cell_with_the_laplace_probability(kind):
    x, y = np.array(PAIRS_OF_POINTS).swapaxes(0, 1)
    expected = np.exp(-LIFETIME * np.abs(x - y).sum(axis=1))
    cells = np.array([partition.locate(np.concatenate((x, y))) for partition in extended(kind)])
    share = cells[:, : len(x)] == cells[:, len(x) :]
    for pair, probability in enumerate(expected):
        assert_mean(share[:, pair], probability)


def test_extension_with_the_seed_of_the_sample_has_the_law_of_a_direct_sample():
    partitions = []
    for seed in range(N // 2):
        smaller = MondrianPartition.sample(LOWER, [-0.5, 0.5, 2.3], LIFETIME, random_state=seed)
        partitions.append(smaller.extend(LOWER, UPPER, random_state=seed))
    assert_same_cuts(cuts_of(partitions), direct_cuts(), n_dims=3)


def test_extension_keeps_the_old_cuts():
    rng = np.random.default_rng(7)
    for old in direct()[:200]:
        new = old.extend(LOWER - 0.3, UPPER + 0.4, random_state=rng)
        assert set(cuts_of([old])[0]) <= set(cuts_of([new])[0])
        assert cuts_of([new.restrict(LOWER, UPPER)]) == cuts_of([old])
