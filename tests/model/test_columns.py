"""Learnt columns: a gradient that agrees with differences, and the functions that are learnt."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import laplacian_kernel

from mondrian_kernel._model import learn_columns as module
from mondrian_kernel._model.columns import Columns, Metric, is_learnt, rank_table
from mondrian_kernel._model.learn_columns import _Search, learn_columns

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
Y = np.sin(2 * X[:, :1]) + 0.3 * X[:, 1:2] + 0.1 * rng.normal(size=(300, 1))
ONES = np.ones(4)


def search(weight=None, group=None, targets=Y):
    knots, ranks = rank_table(X, weight)
    whole = Columns(ONES, ONES, np.full(4, module.SQRT_12), knots, ranks)
    group = np.arange(4) if group is None else np.array(group)
    return _Search(X, whole, targets, weight, group, seed=0, step_rows=100, steps=20)


def literal_objective(found, theta, fitted, out):
    """The formula of the docstring, in double precision and with scikit-learn's kernel."""
    G = found.n_groups
    r, m = np.exp(theta[:G])[found.group], 1 / (1 + np.exp(-theta[G : 2 * G]))[found.group]
    L, n = len(module.settings.COLUMN_WIDTHS), module.settings.COLUMN_BINS
    v, u = np.exp(theta[2 * G : 2 * G + L]), theta[2 * G + L :].reshape(-1, n)
    F = np.zeros(found.ranks.shape)
    for b in range(n):  # the length of [0, rank] within each bin, stretched
        F += np.exp(u[:, b]) * np.clip(found.ranks.astype(float) - b / n, 0.0, 1.0 / n)
    T = r * ((1 - m) * found.values.astype(float) + m * np.sqrt(12) * F)
    kernel = lambda A: sum(  # noqa: E731
        w * laplacian_kernel(A, T[fitted], gamma=c)
        for w, c in zip(v, module.settings.COLUMN_WIDTHS, strict=True)
    )
    s, y = found.s, found.Y
    centre = np.average(y[fitted], axis=0, weights=s[fitted])
    a = np.linalg.solve(kernel(T[fitted]) + np.diag(1 / s[fitted]), y[fitted] - centre)
    rest = kernel(T[out]) @ a + centre - y[out]
    error = np.sum(s[out, None] * rest**2) / np.sum(s[out, None] * (y[out] - centre) ** 2)
    log_r, logit = theta[:G] - theta[:G].mean(), theta[G : 2 * G]
    prior = np.sum(log_r**2) / module.settings.COLUMN_PRIOR**2
    prior += np.sum(logit**2) / module.settings.COLUMN_RANK_PRIOR**2
    prior += np.sum(u**2) / module.settings.COLUMN_BIN_PRIOR**2
    return 0.5 * out.size * np.log(error + module.settings.LEAST_ERROR) + 0.5 * prior


@pytest.mark.parametrize("group", [None, [0, 1, 1, 2]], ids=["apart", "grouped"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_objective_and_gradient(group, weighted):
    """The value is the literal one up to single precision, the slope that of its differences."""
    weight = np.random.default_rng(1).integers(1, 4, size=300) * 1.0 if weighted else None
    found = search(weight, group, np.hstack([Y, Y**2]))
    n = found.kinds[-1] + 4 * module.settings.COLUMN_BINS
    theta = 0.3 * np.random.default_rng(2).normal(size=n)
    fitted, out = np.arange(150), np.arange(150, 300)
    value, gradient = found.slope(theta, fitted, out)
    assert_allclose(value, literal_objective(found, theta, fitted, out), rtol=1e-4)
    step = 1e-5
    for k in range(n):
        up, down = theta.copy(), theta.copy()
        up[k] += step
        down[k] -= step
        difference = literal_objective(found, up, fitted, out) - literal_objective(
            found, down, fitted, out
        )
        # Sums of 150 × 150 products in single precision: 1e-7 · 150 of their size.
        assert_allclose(gradient[k], difference / (2 * step), atol=2e-3 * np.abs(gradient).max())


def test_the_useful_column_counts_most():
    found = learn_columns(X, Y, None, 0, scale=ONES).columns.relevance
    assert found.argmax() == 0
    assert found[0] > 2 * found[2:].max()
    assert_allclose(found.mean(), 1.0, atol=0.01)


def test_heavy_tails_are_taken_by_rank():
    """y is smooth in the rank of a column whose values span ten orders of magnitude."""
    rank = np.random.default_rng(3).uniform(size=(600, 2))
    rows, y = np.exp(12 * rank**3), np.sin(6 * rank[:, :1])
    found = learn_columns(rows, y, None, 0, scale=rows.std(axis=0))
    T = found.columns(rows)
    by_rank = found.columns.bend[0] * 1.0  # the whole range of ranks
    assert by_rank > 3 * (np.ptp(T[:, 0]) - by_rank) * np.median(rows[:, 0]) / rows[:, 0].max()
    half = np.median(rows[:, 0])
    below = found.columns(np.array([[rows.min(), half], [half, half]]))[:, 0]
    assert np.diff(below)[0] > 0.2 * np.ptp(T[:, 0])


def test_a_column_is_stretched_where_y_jumps():
    """y jumps where a fifth of the rows lie below: the columns take these rows far apart."""
    rng = np.random.default_rng(4)
    rows = rng.uniform(size=(1500, 2))
    y = np.where(rows[:, :1] > 0.2, 1.0, -1.0) + 0.3 * rows[:, 1:]
    columns = learn_columns(rows, y, None, 0, scale=rows.std(axis=0)).columns
    at = np.array([[0.05, 0.5], [0.15, 0.5], [0.25, 0.5], [0.85, 0.5], [0.95, 0.5]])
    below, across, _, above = np.diff(columns(at)[:, 0])
    assert across > 3 * max(below, above)


def test_functions_are_monotone_and_ends_go_on():
    columns = learn_columns(X, Y, None, 0, scale=ONES).columns
    grid = np.linspace(-10, 10, 501)[:, None] * np.ones(4)
    T = columns(grid)
    assert (np.diff(T, axis=0) > 0).all()
    slope = np.diff(T, axis=0)[-1] / np.diff(grid, axis=0)[-1]
    assert_allclose(slope, 1 / columns.scale)  # beyond the data a column is only scaled


def test_a_group_has_one_relevance_and_no_ranks_where_forbidden():
    ranked = np.array([True, False, False, True])
    found = learn_columns(
        X, Y, None, 0, scale=ONES, group=np.array([0, 1, 1, 2]), ranked=ranked
    ).columns
    assert found.relevance[1] == found.relevance[2]
    assert_array_equal(found.bend > 0, ranked)


def test_rank_table_is_the_distribution_function():
    rows = np.array([[3.0, 0.0], [1.0, 0.0], [1.0, 5.0], [2.0, 0.0]])
    knots, ranks = rank_table(rows, None)
    assert_array_equal(knots[:, 0], [1, 2, 3])
    assert_array_equal(ranks[:, 0], [0.25, 0.625, 0.875])
    assert_array_equal(knots[:, 1], [0, 5, 5])
    weighted = rank_table(rows, np.array([1.0, 2.0, 3.0, 1.0]))
    repeated = rank_table(np.repeat(rows, [1, 2, 3, 1], axis=0), None)
    assert_allclose(weighted, repeated)


@pytest.mark.parametrize("n_rows", [1, 5, 19])
def test_few_rows_learn_nothing(n_rows):
    found = learn_columns(X[:n_rows], Y[:n_rows], None, 0, scale=ONES)
    assert_array_equal(found.columns.relevance, ONES)
    assert not found.columns.bend.any()
    assert np.isfinite(found.lifetimes).all()


def test_nothing_to_learn():
    for rows, targets in ((X, np.ones((300, 1))), (np.ones((300, 4)), Y)):
        assert_array_equal(
            learn_columns(rows, targets, None, 0, scale=ONES).columns.relevance, ONES
        )


def test_a_power_below_one_makes_columns_alike():
    found = learn_columns(X, Y, None, 0, scale=ONES)
    half = found.raised(0.5)
    ratio = half.columns.relevance / np.sqrt(found.columns.relevance)
    assert_allclose(ratio, ratio[0], rtol=1e-2)  # three digits are kept
    assert_allclose(
        half.columns.scale * half.columns.relevance, found.columns.scale * found.columns.relevance
    )
    assert_allclose(
        half.columns.bend / half.columns.relevance, found.columns.bend / found.columns.relevance
    )


@pytest.mark.parametrize(
    ("relevance", "lifetime", "scale", "expected"),
    [
        ("auto", "auto", "std", True),
        ("auto", "path", "std", False),
        ("auto", 1.0, "std", False),
        ("auto", "auto", None, False),
        ("learn", 1.0, None, True),
        ("equal", "auto", "std", False),
    ],
)
def test_when_columns_are_learnt(relevance, lifetime, scale, expected):
    assert is_learnt(relevance, lifetime, scale) is expected


@pytest.mark.parametrize("name", ["scale", "relevance", "bend", "knots", "ranks"])
def test_impossible_columns_are_refused(name):
    columns = learn_columns(X, Y, None, 0, scale=ONES).columns
    columns.check(4)
    bad = getattr(columns, name).copy()
    bad.flat[-1] = -1.0
    with pytest.raises(ValueError, match=r"number|decrease"):
        Columns(**{**vars(columns), name: bad}).check(4)


def test_centred_columns_keep_their_digits_beside_a_large_mean():
    """Single precision rounds what is left of a column without its mean, not the column."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    columns = Metric(Columns.scaled(np.array([1.0, 3.0])), np.ones(1), np.ones(1))
    found = columns.centred(X + 1e7).columns(X + 1e7)
    assert found.dtype == np.float32
    expected = (X - X.mean(axis=0)) / [1.0, 3.0]
    # X + 1e7 is rounded by 1e-9; numbers up to 4 by 4 * 2**-24.
    assert_allclose(found, expected, rtol=0, atol=1e-8 + 4 * 2.0**-24)
