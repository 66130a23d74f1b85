"""Fourier features and random binning: the contract, scikit-learn's checks, their own ways."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from feature_map_contract import FeatureMapContract, assert_same, gram, sample
from mondrian_kernel import baselines
from mondrian_kernel.baselines import LaplaceFourierFeatures, RandomBinningFeatures
from scikit_learn_checks import assert_all_run_and_pass


class TestLaplaceFourier(FeatureMapContract):
    """A draw is cos ωᵀ(x - x'): in [-1, 1], and E cos² = (1 + k²)/2."""

    estimator = LaplaceFourierFeatures
    draws_parameter = "n_components"
    sparse = False
    spread = 2.0

    def variance(self, k):
        return (1.0 - k**2) / 2.0

    def size(self, n_draws):
        return 2 * n_draws


class TestRandomBinning(FeatureMapContract):
    """A draw is 1 where x and x' share the cell of a grid."""

    estimator = RandomBinningFeatures
    draws_parameter = "n_grids"


# ---- scikit-learn's checks -------------------------------------------------------------------


CHECKED = [LaplaceFourierFeatures(), RandomBinningFeatures()]


@parametrize_with_checks(CHECKED)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", CHECKED, ids=lambda e: type(e).__name__)
def test_scikit_learn_checks_all_run_and_none_is_expected_to_fail(estimator):
    assert_all_run_and_pass(estimator, at_least=46)


# ---- Fourier features ------------------------------------------------------------------------


def test_fourier_with_one_component_is_unbiased():
    X, lifetime = sample(2)
    n = 5_000
    kernels = np.zeros((len(X), len(X)))
    rng = np.random.RandomState(0)
    for _ in range(n):
        Phi = LaplaceFourierFeatures(lifetime, 1, random_state=rng).fit_transform(X)
        kernels += Phi @ Phi.T
    # Each entry lies within [-2, 2]: Hoeffding's bound at 1e-6 for all of them together.
    tolerance = 4 * np.sqrt(np.log(2 * len(X) ** 2 / 1e-6) / (2 * n))
    assert np.abs(kernels / n - laplacian_kernel(X, gamma=lifetime)).max() < tolerance


@pytest.mark.parametrize("n_components", [3, 101])
def test_fourier_odd_number_of_components(n_components):
    X, lifetime = sample(5)
    odd = LaplaceFourierFeatures(lifetime, n_components, random_state=0).fit(X)
    Phi = odd.transform(X)
    assert Phi.shape == (len(X), n_components)
    last = np.cos(X @ odd.frequencies_[-1] + odd.shift_) * np.sqrt(2 / n_components)
    assert_allclose(Phi[:, -1], last, atol=1e-10)


def test_fourier_is_the_formula():
    X, lifetime = sample(5)
    fitted = LaplaceFourierFeatures(lifetime, 6, random_state=0).fit(X)
    assert fitted.frequencies_.shape == (3, 5)
    phases = X @ fitted.frequencies_.T
    expected = np.hstack([np.cos(phases), np.sin(phases)]) * np.sqrt(2 / 6)
    assert_allclose(fitted.transform(X), expected, atol=1e-10)


def test_fourier_overflow_names_the_remedy():
    fitted = LaplaceFourierFeatures(1e10, random_state=0).fit([[1.0]])
    with pytest.raises(ValueError, match="scale X or lower the lifetime"):
        fitted.transform([[1e300]])


# ---- random binning --------------------------------------------------------------------------


def cells_one_row_at_a_time(fitted, X):
    """Return the bin indices of each row in each grid, as tuples of Python ints."""
    return [
        [
            tuple(int(i) for i in np.floor((x - fitted.origin_) * inverse_width + shift))
            for inverse_width, shift in zip(fitted.inverse_widths_, fitted.shifts_, strict=True)
        ]
        for x in X
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_columns", "lifetime"), [(1, 5.0), (3, 2.0), (30, 0.1), (30, 20.0)])
def test_binning_equals_a_dictionary_of_tuples(n_columns, lifetime, seed):
    """No two cells share a column, no cell has two, unknown cells have none.

    With 30 columns and lifetime 20 there are more than 2⁶⁴ cells.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, n_columns))
    new = np.vstack(
        [X[:20] + 0.01 * rng.normal(size=(20, n_columns)), 3 * rng.normal(size=(20, n_columns))]
    )
    fitted = RandomBinningFeatures(lifetime, 15, random_state=seed).fit(X)

    training = cells_one_row_at_a_time(fitted, X)
    known = [{row[grid] for row in training} for grid in range(15)]
    assert_array_equal(np.diff(fitted.column_indptr_), [len(cells) for cells in known])

    columns = {}
    for rows in (X, new):
        Phi = fitted.transform(rows)
        for n, row in enumerate(cells_one_row_at_a_time(fitted, rows)):
            met = [grid for grid in range(15) if row[grid] in known[grid]]
            entries = Phi.indices[Phi.indptr[n] : Phi.indptr[n + 1]].tolist()
            assert len(met) == len(entries)
            for grid, column in zip(met, entries, strict=True):
                assert fitted.column_indptr_[grid] <= column < fitted.column_indptr_[grid + 1]
                assert columns.setdefault((grid, row[grid]), column) == column
    assert len(set(columns.values())) == len(columns) == Phi.shape[1]


def test_binning_neighbouring_cells_are_not_merged():
    X = np.array(list(product(range(4), repeat=4)), dtype=np.float64)
    Phi = RandomBinningFeatures(1e4, 10, random_state=0).fit_transform(X)
    assert Phi.shape == (256, 2560)
    assert_array_equal(gram(Phi, Phi) > 0, np.eye(256, dtype=bool))


def test_binning_values_of_new_rows():
    X, lifetime = sample(2)
    new, _ = sample(2, seed=1, low=-0.5, high=1.5)
    fitted = RandomBinningFeatures(lifetime, 50, random_state=0).fit(X)
    Phi = fitted.transform(new)
    assert 0 < Phi.nnz < 50 * len(new)
    assert_array_equal(Phi.data, 1 / np.sqrt(50))
    far = fitted.transform([[1e9, 1e9], [-1e300, 1e300]])
    assert far.nnz == 0


def test_binning_does_not_mind_where_the_data_lies():
    """Data far from 0 loses no bins: a power of two keeps the shifted numbers exact."""
    X = np.random.default_rng(0).integers(0, 64, size=(30, 2)) / 64
    Phi = RandomBinningFeatures(2.0, 40, random_state=0).fit_transform(X)
    assert_same(Phi, RandomBinningFeatures(2.0, 40, random_state=0).fit_transform(X + 2.0**45))


def test_binning_widths_have_mean_two_over_lifetime():
    """Gamma(2, 1/λ): mean 2/λ, variance 2/λ²; five standard errors."""
    fitted = RandomBinningFeatures(4.0, 40_000, random_state=0).fit([[0.0]])
    widths = 1 / fitted.inverse_widths_
    assert abs(widths.mean() - 0.5) < 5 * np.sqrt(2) / 4 / np.sqrt(40_000)


@pytest.mark.parametrize(
    ("X", "lifetime"),
    [([[0.0], [1e300]], 1.0), ([[-8e307], [8e307]], 1.0), ([[0.0], [1.0]], 1e308)],
)
def test_binning_too_many_bins_names_the_remedy(X, lifetime):
    with pytest.raises(ValueError, match=r"column 0 of X.*scale X or lower the lifetime"):
        RandomBinningFeatures(lifetime, random_state=0).fit(X)


def test_binning_too_large_for_int32_names_the_remedy(monkeypatch):
    X, _ = sample(2)
    fitted = RandomBinningFeatures(3.0, 10, random_state=0).fit(X)
    monkeypatch.setattr(baselines, "_INT32_MAX", 100)
    with pytest.raises(ValueError, match="transform the rows in batches"):
        fitted.transform(X)
    monkeypatch.setattr(baselines, "_INT32_MAX", 20)
    with pytest.raises(ValueError, match="use fewer grids or a smaller lifetime"):
        fitted.fit(X)
