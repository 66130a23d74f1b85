"""The contract that every feature map of the Laplace kernel passes, to be subclassed in tests.

A test module names the estimator and says how its kernel is a mean of independent draws::

    class TestRandomBinning(FeatureMapContract):
        estimator = RandomBinningFeatures
        draws_parameter = "n_grids"

and pytest collects every ``test_…`` below for it. A map whose draws are not indicators overrides
`variance`, `spread`, and `size`; a dense one says ``sparse = False``.

The statistical tests compare Φ(X)Φ(X')ᵀ with ``laplacian_kernel(X, X', gamma=lifetime)`` from
both sides. Each entry is a mean of n independent draws with mean k, known variance and known
range, so Bernstein's inequality and a union bound over the entries give a tolerance that a right
map exceeds with probability at most `FALSE_ALARM`, in every test, without any approximation.
"""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics.pairwise import laplacian_kernel

FALSE_ALARM = 1e-6
N_COLUMNS = (1, 2, 5)


def bernstein_tolerance(variance, spread, n_draws, n_entries):
    """Return t with P(any |mean - k| > t) ≤ FALSE_ALARM, for means of `n_draws` draws.

    `variance` is of one draw (an array, one value an entry) and `spread` bounds |draw - k|:
    P(|mean - k| > t) ≤ 2 exp(-n t² / (2 variance + 2 spread t / 3)), solved for t.
    """
    log_term = np.log(2 * n_entries / FALSE_ALARM)
    linear = spread * log_term / (3 * n_draws)
    return linear + np.sqrt(linear**2 + 2 * variance * log_term / n_draws)


def sample(n_columns, n_rows=25, seed=0, low=0.0, high=1.0):
    """Return rows uniform in a cube, and a lifetime at which a typical kernel value is 1/e."""
    rows = np.random.default_rng([seed, n_columns]).uniform(low, high, size=(n_rows, n_columns))
    return rows, 3.0 / n_columns


def dense(Phi):
    return Phi.toarray() if sp.issparse(Phi) else Phi


def gram(Phi, Psi):
    return dense(Phi @ Psi.T)


def assert_same(Phi, Psi):
    """Bit by bit the same features, in the same container."""
    assert type(Phi) is type(Psi), (type(Phi), type(Psi))
    assert_array_equal(dense(Phi), dense(Psi))


class FeatureMapContract:
    estimator: type
    draws_parameter: str
    sparse = True
    # Of one draw: the most that it can be away from its mean.
    spread = 1.0

    # ---- what a map may override -------------------------------------------------------------

    def variance(self, k):
        """Variance of one draw with mean k; for a draw in [0, 1] it is at most this."""
        return k * (1.0 - k)

    def size(self, n_draws):
        """Value of the size parameter that gives a mean of `n_draws` draws."""
        return n_draws

    def make(self, lifetime=1.0, n_draws=30, seed=0):
        size = {self.draws_parameter: self.size(n_draws)}
        return self.estimator(lifetime=lifetime, random_state=seed, **size)

    # ---- the law -------------------------------------------------------------------------------

    def assert_kernel(self, estimate, exact, n_draws):
        tolerance = bernstein_tolerance(self.variance(exact), self.spread, n_draws, exact.size)
        excess = np.abs(estimate - exact) - tolerance
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        assert excess[worst] <= 1e-12, (
            f"kernel {estimate[worst]:.4f} where {exact[worst]:.4f} ± {tolerance[worst]:.4f} "
            f"is right, and {np.mean(excess > 0):.0%} of the entries are as bad"
        )

    @pytest.mark.parametrize("n_columns", N_COLUMNS)
    def test_kernel_of_training_rows(self, n_columns):
        X, lifetime = sample(n_columns)
        Phi = self.make(lifetime, n_draws=4000).fit_transform(X)
        self.assert_kernel(gram(Phi, Phi), laplacian_kernel(X, gamma=lifetime), 4000)

    @pytest.mark.parametrize("n_columns", N_COLUMNS)
    def test_kernel_between_new_and_training_rows(self, n_columns):
        X, lifetime = sample(n_columns)
        # Half of the new rows, or more with more columns, lie outside the training box.
        new, _ = sample(n_columns, seed=1, low=-0.5, high=1.5)
        fitted = self.make(lifetime, n_draws=4000).fit(X)
        estimate = gram(fitted.transform(new), fitted.transform(X))
        self.assert_kernel(estimate, laplacian_kernel(new, X, gamma=lifetime), 4000)

    @pytest.mark.parametrize("n_columns", N_COLUMNS)
    def test_kernel_is_unbiased(self, n_columns):
        """The mean over seeds, where a bias shows that hides in the noise of one map."""
        X, lifetime = sample(n_columns, n_rows=12)
        new, _ = sample(n_columns, n_rows=12, seed=1, low=-0.5, high=1.5)
        rows = np.vstack([X, new])
        n_seeds, n_draws = 20, 2000
        total = np.zeros((24, 12))
        for seed in range(n_seeds):
            Phi = self.make(lifetime, n_draws, seed).fit(X).transform(rows)
            total += gram(Phi, Phi[:12])
        exact = laplacian_kernel(rows, X, gamma=lifetime)
        self.assert_kernel(total / n_seeds, exact, n_seeds * n_draws)

    @pytest.mark.parametrize("n_draws", [1, 7])
    def test_rows_are_unit_vectors_and_new_rows_no_longer(self, n_draws):
        X, lifetime = sample(2)
        fitted = self.make(lifetime, n_draws).fit(X)
        assert_allclose(np.linalg.norm(dense(fitted.transform(X)), axis=1), 1.0, rtol=1e-12)
        new, _ = sample(2, seed=1, low=-3.0, high=4.0)
        assert np.linalg.norm(dense(fitted.transform(new)), axis=1).max() <= 1.0 + 1e-12

    def test_lifetime_zero_is_the_constant_kernel(self):
        X, _ = sample(2)
        fitted = self.make(lifetime=0.0, n_draws=5).fit(X)
        Phi = fitted.transform(np.vstack([X, 10.0 + X, [[1e6, -1e6]]]))
        assert_allclose(gram(Phi, Phi), 1.0, rtol=1e-12)

    # ---- the shape -----------------------------------------------------------------------------

    @pytest.mark.parametrize("n_draws", [1, 7])
    def test_format_and_nonzeros(self, n_draws):
        X, lifetime = sample(2)
        new, _ = sample(2, seed=1, low=-3.0, high=4.0)
        fitted = self.make(lifetime, n_draws).fit(X)
        Phi, Psi = fitted.transform(X), fitted.transform(new)
        assert len(fitted.get_feature_names_out()) == Phi.shape[1] == Psi.shape[1]
        assert Phi.dtype == Psi.dtype == np.float64
        if not self.sparse:
            assert isinstance(Phi, np.ndarray)
            assert Phi.shape == (len(X), self.size(n_draws))
            return
        for features in (Phi, Psi):
            assert sp.issparse(features)
            assert features.format == "csr"
            assert features.indices.dtype == features.indptr.dtype == np.int32
            assert features.has_canonical_format
            assert np.diff(features.indptr).max() <= n_draws
        assert_array_equal(np.diff(Phi.indptr), n_draws)
        assert_allclose(Phi.data, n_draws**-0.5, rtol=1e-15)
        assert ((Psi.data > 0) & (Psi.data <= n_draws**-0.5 * (1 + 1e-12))).all()
        assert (Phi.getnnz(axis=0) > 0).all(), "a column that no training row uses"

    @pytest.mark.parametrize("kind", ["one row", "equal rows", "constant column", "many columns"])
    def test_degenerate_shapes(self, kind):
        X = {
            "one row": np.array([[0.3, -2.0]]),
            "equal rows": np.full((6, 2), 0.7),
            "constant column": np.column_stack([np.linspace(0.0, 1.0, 9), np.full(9, 5.0)]),
            "many columns": np.random.default_rng(0).normal(size=(8, 200)),
        }[kind]
        Phi = dense(self.make(lifetime=2.0).fit_transform(X))
        assert np.isfinite(Phi).all()
        assert_allclose(np.linalg.norm(Phi, axis=1), 1.0, rtol=1e-12)
        if kind == "equal rows":
            assert_array_equal(Phi, np.broadcast_to(Phi[0], Phi.shape))

    # ---- the same answer, however it is asked for ----------------------------------------------

    def test_same_seed_same_features(self):
        X, lifetime = sample(2)
        Phi = self.make(lifetime).fit_transform(X)
        assert_same(Phi, self.make(lifetime).fit_transform(X))
        assert_same(Phi, self.make(lifetime).fit(X).transform(X))
        once_more = self.make(lifetime).fit(X[::-1]).fit(X)
        assert_same(Phi, once_more.transform(X))

    def test_other_seeds_other_features(self):
        X, lifetime = sample(2)
        seeds = [0, 1, np.random.RandomState(5)]
        grams = [
            gram(Phi, Phi) for Phi in (self.make(lifetime, 30, s).fit_transform(X) for s in seeds)
        ]
        assert not np.array_equal(grams[0], grams[1])
        assert not np.array_equal(grams[0], grams[2])

    def test_global_random_state_is_left_alone(self):
        X, lifetime = sample(2)
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        self.make(lifetime).fit_transform(X)
        assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    @pytest.mark.parametrize("n_columns", N_COLUMNS)
    @pytest.mark.parametrize("batch", [1, 2, 7])
    def test_batches_equal_all_at_once(self, n_columns, batch):
        X, lifetime = sample(n_columns)
        new, _ = sample(n_columns, n_rows=40, seed=1, low=-0.5, high=1.5)
        fitted = self.make(lifetime).fit(X)
        parts = [dense(fitted.transform(new[i : i + batch])) for i in range(0, len(new), batch)]
        assert_array_equal(np.vstack(parts), dense(fitted.transform(new)))

    def test_clone_and_pickle(self):
        X, lifetime = sample(2)
        new, _ = sample(2, seed=1, low=-0.5, high=1.5)
        fitted = self.make(lifetime).fit(X)
        expected = fitted.transform(new)
        assert_same(expected, pickle.loads(pickle.dumps(fitted)).transform(new))
        assert_same(expected, clone(fitted).fit(X).transform(new))

    def test_transform_reads_only_what_fit_left(self):
        X, lifetime = sample(2)
        fitted = self.make(lifetime).fit(X)
        expected = fitted.transform(X)
        fitted.set_params(lifetime=7 * lifetime, **{self.draws_parameter: self.size(3)})
        assert_same(expected, fitted.transform(X))

    @pytest.mark.parametrize(
        "convert",
        [
            pytest.param(lambda X: X.astype(np.float32), id="float32"),
            pytest.param(lambda X: X.astype(np.int64), id="int64"),
            pytest.param(lambda X: X.astype(np.int64).tolist(), id="list"),
            pytest.param(lambda X: pd.DataFrame(X, columns=["a", "b"]), id="pandas"),
            pytest.param(lambda X: pl.DataFrame(X, schema=["a", "b"]), id="polars"),
            pytest.param(np.asfortranarray, id="fortran"),
            pytest.param(lambda X: np.repeat(X, 2, axis=1)[:, ::2], id="strided"),
        ],
    )
    def test_any_container_of_the_same_numbers(self, convert):
        X = np.random.default_rng(0).integers(-3, 4, size=(20, 2)).astype(np.float64)
        Phi = self.make(lifetime=0.5).fit_transform(X)
        fitted = self.make(lifetime=0.5).fit(convert(X))
        assert_same(Phi, fitted.transform(convert(X)))

    def test_float32_is_taken_at_its_value(self):
        X, lifetime = sample(2)
        single = X.astype(np.float32)
        expected = self.make(lifetime).fit_transform(single.astype(np.float64))
        assert_same(expected, self.make(lifetime).fit_transform(single))

    def test_input_is_not_changed(self):
        X, lifetime = sample(2)
        X.flags.writeable = False
        self.make(lifetime).fit(X).transform(X)

    def test_set_output(self):
        X, lifetime = sample(2)
        mapped = self.make(lifetime).set_output(transform="pandas")
        if self.sparse:
            with pytest.raises(ValueError, match="sparse"):
                mapped.fit_transform(X)
        else:
            frame = mapped.fit_transform(X)
            assert isinstance(frame, pd.DataFrame)
            assert list(frame.columns) == list(mapped.get_feature_names_out())

    # ---- what it refuses -----------------------------------------------------------------------

    @pytest.mark.parametrize("lifetime", [-1.0, np.nan, np.inf, "1", None])
    def test_bad_lifetime(self, lifetime):
        X, _ = sample(2)
        with pytest.raises(ValueError, match="lifetime"):
            self.make(lifetime).fit(X)

    @pytest.mark.parametrize("size", [0, -2, 2.0])
    def test_bad_size(self, size):
        X, _ = sample(2)
        mapped = self.make().set_params(**{self.draws_parameter: size})
        with pytest.raises(ValueError, match=self.draws_parameter):
            mapped.fit(X)
