"""Parts of a larger sample of features are samples of fewer features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge

from experiments import cpu_error
from experiments.cpu_data import stand_in
from experiments.schemes import SCHEMES, columns_of_first, make_features, sizes


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n_nonzeros", [2, 6, 12])
def test_first_columns_have_so_many_nonzeros_and_norm_one(scheme, n_nonzeros):
    X = np.random.default_rng(0).uniform(size=(30, 3))
    features = make_features(scheme, 2.0, 12, seed=0)
    Phi = sparse.csr_array(features.fit_transform(X)).toarray()
    part = Phi[:, columns_of_first(features, n_nonzeros)]
    assert np.all((part != 0).sum(axis=1) == n_nonzeros)
    assert_allclose((part**2).sum(axis=1) * 12 / n_nonzeros, 1)


def test_first_trees_are_the_trees_of_a_smaller_sample():
    X = np.random.default_rng(0).uniform(size=(40, 3))
    large, small = (make_features("mondrian", 3.0, n, seed=5) for n in (20, 6))
    Phi = large.fit_transform(X)[:, columns_of_first(large, 6)]
    small.fit(X)
    assert_allclose((Phi @ Phi.T).toarray() * 20 / 6, small.kernel(X), atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_error_from_parts_of_the_normal_equations_is_that_of_ridge(scheme):
    split = stand_in(0)
    errors = cpu_error._errors(scheme, split, 8, seed=0)
    features = make_features(scheme, 1e-6, 8, seed=0)
    M = 4
    columns = columns_of_first(features.fit(split.X), M)
    train, test = (
        sparse.csc_array(features.transform(X)).toarray()[:, columns] * np.sqrt(8 / M)
        for X in (split.X, split.X_test)
    )
    ridge = Ridge(1e-4, fit_intercept=False, solver="cholesky").fit(train, split.centred)
    expected = split.percent("test", ridge.predict(test))
    assert_allclose(errors[sizes(scheme, 8).index(M)], expected, rtol=1e-5)
