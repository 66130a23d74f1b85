"""The lifetime path on a grid: plan, models behind the scores, interruptions, bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.pipeline import make_pipeline

from mondrian_kernel import LifetimePath, MondrianFeatures, every_cut_path, lifetime_path
from mondrian_kernel import _settings as settings
from mondrian_kernel._path import driver
from mondrian_kernel._path import ridge_path as module
from mondrian_kernel._settings import CLEARLY_WORSE, PATH_PATIENCE

rng = np.random.default_rng(0)
X = rng.uniform(size=(80, 2))
Y = np.stack([np.sin(6 * X[:, 0]), X[:, 1]], axis=1) + 0.1 * rng.normal(size=(80, 2))
y = Y[:, 0]
X_VAL = rng.uniform(-0.2, 1.2, size=(30, 2))
Y_VAL = np.stack([np.sin(6 * X_VAL[:, 0]), X_VAL[:, 1]], axis=1)
ALPHAS = [0.01, 0.1, 1.0]
OPTIONS = {
    "n_estimators": 20, "max_lifetime": 10.0, "n_lifetimes": 12, "alphas": ALPHAS,
    "random_state": 0,
}  # fmt: skip
SCORES = (
    "lifetimes", "n_cells", "alphas", "train_error", "loo_error", "log_marginal_likelihood",
    "log_marginal_likelihood_paper", "log_marginal_likelihood_std", "loo_error_std",
)  # fmt: skip


def make_path(rows=X, targets=y, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The best lifetime")
        return lifetime_path(rows, targets, **{**OPTIONS, **options})


def assert_same(a, b):
    for name in SCORES:
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert_array_equal(a.predict(X_VAL), b.predict(X_VAL))


class TestPlan:
    @pytest.mark.parametrize("max_lifetime", [10.0, None])
    def test_lifetimes_increase_and_cells_are_those_of_the_features(self, max_lifetime):
        path = make_path(max_lifetime=max_lifetime)
        assert np.all(np.diff(path.lifetimes) > 0)
        assert path.lifetimes.size <= 12
        for lifetime, n_cells in zip(path.lifetimes, path.n_cells, strict=True):
            assert path.features(lifetime).n_cells_ == n_cells
        assert np.all(np.diff(path.n_cells) >= 0)
        shape = (path.lifetimes.size, 3)
        for name in SCORES[3:]:
            assert getattr(path, name).shape == shape
        assert path.score.shape == shape
        assert path.complete

    def test_ends_at_the_terminal_lifetime(self):
        assert make_path().lifetimes[-1] == 10.0

    def test_no_terminal_lifetime_ends_where_all_rows_are_apart(self):
        path = make_path(max_lifetime=np.inf)
        assert np.isfinite(path.lifetimes[-1])
        assert path.n_cells[-1] == 80 * 20

    def test_cells_grow_geometrically(self):
        path = make_path(n_estimators=200, n_lifetimes=10)
        growth = np.diff(np.log(path.n_cells))
        assert growth.max() < 1.1 * growth.min()

    def test_given_lifetimes(self):
        path = make_path(lifetimes=[3.0, 1.0, 0.0, 3.0])
        assert_array_equal(path.lifetimes, [0.0, 1.0, 3.0])
        assert path.n_cells[0] == 20

    def test_growing_stops_after_the_best(self):
        path = make_path(max_lifetime=None, n_lifetimes=40)
        best = path.score.min(axis=1)
        assert best.argmin() <= best.size - 1 - PATH_PATIENCE
        assert best[-1] > best.min()
        fully_grown = MondrianFeatures(np.inf, 20, random_state=0).fit(X).n_cells_
        assert path.n_cells[-1] < fully_grown

    @pytest.mark.parametrize("n_lifetimes", [15, 20, 40])
    def test_growing_stops_within_a_fifth_of_the_lifetimes(self, n_lifetimes):
        path = make_path(max_lifetime=None, n_lifetimes=n_lifetimes)
        best = path.score.min(axis=1)
        patience = best.argmin() + PATH_PATIENCE
        first = np.flatnonzero(best[patience:] > (1 + CLEARLY_WORSE) * best.min())[0] + patience
        assert best.size - 1 - first < n_lifetimes / 5

    def test_growing_trees_are_the_trees_grown_at_once(self):
        growing = make_path(max_lifetime=None, n_lifetimes=40)  # eight at once, as those given
        given = make_path(lifetimes=growing.lifetimes)
        assert_same(growing, given)

    def test_all_trees_are_those_of_the_features_with_the_same_seed(self):
        path = make_path()
        alone = MondrianFeatures(path.lifetimes[4], 20, random_state=0).fit(X)
        ours = path.features(path.lifetimes[4])
        assert (alone.transform(X_VAL) != ours.transform(X_VAL)).nnz == 0


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
class TestDeterminism:
    def test_threads(self, solver):
        options = {"lifetimes": [1.0, 4.0], "alphas": [0.3, 3.0]}
        one, two = (make_path(solver=solver, n_jobs=n, **options) for n in (1, 2))
        assert_same(one, two)

    def test_seed(self, solver):
        assert_same(make_path(solver=solver), make_path(solver=solver))
        other = make_path(solver=solver, random_state=1)
        assert not np.array_equal(other.lifetimes, make_path(solver=solver).lifetimes)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("targets", [y, Y], ids=["one", "two"])
class TestModels:
    def test_equal_a_pipeline_with_ridge(self, targets, fit_intercept):
        path = make_path(targets=targets, fit_intercept=fit_intercept)
        for lifetime, alpha in ((path.lifetimes[5], 0.1), (path.lifetimes[-1], 1.0)):
            features = MondrianFeatures(lifetime, 20, random_state=0)
            ridge = Ridge(alpha, fit_intercept=fit_intercept, solver="sparse_cg", tol=1e-14)
            pipeline = make_pipeline(features, ridge).fit(X, targets)
            coef, intercept = path.coef(lifetime, alpha)
            assert_allclose(coef.T, ridge.coef_, atol=1e-8)
            assert_allclose(intercept, np.broadcast_to(ridge.intercept_, np.shape(intercept)))
            prediction = path.predict(X_VAL, lifetime, alpha)
            assert_allclose(prediction, pipeline.predict(X_VAL), atol=1e-8)
            k, a = np.flatnonzero(path.lifetimes == lifetime)[0], ALPHAS.index(alpha)
            train = np.mean((pipeline.predict(X) - targets) ** 2)
            assert_allclose(path.train_error[k, a], train)

    @pytest.mark.parametrize("solver", ["dense", "lanczos"])
    def test_validation_error_is_that_of_the_predictions(self, targets, fit_intercept, solver):
        held_out = Y_VAL[:, 0] if targets.ndim == 1 else Y_VAL
        path = make_path(
            targets=targets, fit_intercept=fit_intercept, validation=(X_VAL, held_out),
            criterion="holdout", solver=solver, tol=1e-10,
        )  # fmt: skip
        assert_array_equal(path.score, path.validation_error)
        for k, lifetime in enumerate(path.lifetimes):
            for a, alpha in enumerate(ALPHAS):
                error = np.mean((path.predict(X_VAL, lifetime, alpha) - held_out) ** 2)
                assert_allclose(path.validation_error[k, a], error, rtol=1e-6)

    def test_best_is_the_default(self, targets, fit_intercept):
        path = make_path(targets=targets, fit_intercept=fit_intercept)
        k, a = path.best_index
        assert path.score[k, a] == path.score.min()
        assert (path.best_lifetime, path.best_alpha) == (path.lifetimes[k], path.alphas[a])
        assert path.features().lifetime_ == path.best_lifetime
        expected = path.predict(X_VAL, path.best_lifetime, path.best_alpha)
        assert_array_equal(path.predict(X_VAL), expected)


def test_lanczos_agrees_with_dense():
    held_out = X_VAL, Y_VAL[:, 0]
    dense, lanczos = (
        make_path(solver=s, tol=1e-10, validation=held_out) for s in ("dense", "lanczos")
    )
    assert set(dense.solver) == {"dense"}
    assert set(lanczos.solver) == {"lanczos"}
    assert_array_equal(dense.lifetimes, lanczos.lifetimes)
    for name in (
        "train_error", "loo_error", "validation_error", "log_marginal_likelihood",
        "log_marginal_likelihood_paper",
    ):  # fmt: skip
        assert_allclose(getattr(lanczos, name), getattr(dense, name), rtol=1e-6)
    for path in (dense, lanczos):  # of so few rows all is exact
        assert not path.loo_error_std.any()
        assert not path.log_marginal_likelihood_std.any()


def test_scores_of_many_rows_come_with_standard_errors():
    X, y = rng.uniform(size=(520, 2)), rng.normal(size=520)
    path = lifetime_path(X, y, n_estimators=10, lifetimes=[1.0, 3.0], solver="lanczos")
    assert np.all(path.loo_error_std > 0)
    assert np.all(path.log_marginal_likelihood_std > 0)


def test_solver_is_chosen_by_cost(monkeypatch):
    assert set(make_path().solver) == {"dense"}
    monkeypatch.setattr(settings, "PATH_DENSE_COST", 0.0)
    assert set(make_path().solver) == {"lanczos"}


@pytest.mark.parametrize(
    ("criterion", "values"),
    [
        ("loo", lambda p: p.loo_error),
        ("holdout", lambda p: p.validation_error),
        ("evidence", lambda p: -p.log_marginal_likelihood),
        ("evidence-paper", lambda p: -p.log_marginal_likelihood_paper),
    ],
)
def test_criteria_by_name(criterion, values):
    path = make_path(criterion=criterion, validation=(X_VAL, Y_VAL[:, 0]))
    assert path.criterion == criterion
    assert_array_equal(path.score, values(path))
    assert_same(path, make_path(criterion=criterion, validation=(X_VAL, Y_VAL[:, 0])))


def test_weights_count_copies():
    counts = rng.integers(1, 4, size=80)
    copies = np.repeat(np.arange(80), counts)
    weighted = make_path(sample_weight=counts)
    repeated = make_path(X[copies], y[copies], lifetimes=weighted.lifetimes)
    # Growth does not see copies: they part from nobody.
    assert_array_equal(weighted.n_cells, repeated.n_cells)
    for name in ("train_error", "log_marginal_likelihood", "log_marginal_likelihood_paper"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-8)
    assert_allclose(weighted.predict(X_VAL, 5.0, 0.1), repeated.predict(X_VAL, 5.0, 0.1))


def test_weight_zero_leaves_a_row_out():
    weight = np.ones(80)
    weight[50:] = 0.0
    assert_same(
        make_path(sample_weight=weight), make_path(X[:50], y[:50], sample_weight=weight[:50])
    )


class TestWarnings:
    def test_best_at_the_end(self):
        with pytest.warns(UserWarning, match="is the last of the path"):
            lifetime_path(X, y, **{**OPTIONS, "max_lifetime": 0.2})

    def test_cell_budget(self, monkeypatch):
        monkeypatch.setattr(driver, "cell_budget", lambda shape, n_trees: 60)
        with pytest.warns(UserWarning, match="as many cells as fit into memory"):
            path = make_path()
        assert path.n_cells[-1] <= 60
        with pytest.warns(UserWarning, match="as many cells as fit into memory"):
            path = make_path(max_lifetime=None)
        assert path.n_cells[-1] <= 60


class TestCallback:
    def test_is_told_how_far(self):
        calls = []
        path = make_path(callback=lambda *call: calls.append(call))
        done, total, info = zip(*calls, strict=True)
        assert list(done) == sorted(set(done))
        assert done[-1] == path.lifetimes.size
        assert set(total) == {12}
        assert info[-1]["lifetime"] == path.lifetimes[-1]
        assert info[-1]["best"] == path.score.min()

    @pytest.mark.parametrize("max_lifetime", [10.0, None])
    def test_interrupt_leaves_a_usable_path(self, max_lifetime):
        def interrupt(done, total, info):
            raise KeyboardInterrupt

        options = {"max_lifetime": max_lifetime, "n_lifetimes": 30}
        whole, partial = make_path(**options), make_path(callback=interrupt, **options)
        assert whole.complete
        assert not partial.complete
        n = partial.lifetimes.size
        assert 0 < n < whole.lifetimes.size
        for name in ("lifetimes", "loo_error", "log_marginal_likelihood"):
            assert_array_equal(getattr(partial, name), getattr(whole, name)[:n])
        lifetime = partial.lifetimes[-1]
        expected = whole.predict(X_VAL, lifetime, 0.1)
        assert_allclose(partial.predict(X_VAL, lifetime, 0.1), expected)
        assert np.all(np.isfinite(partial.predict(X_VAL)))

    def test_interrupt_before_the_first_result_is_passed_on(self, monkeypatch):
        def interrupt(*args):
            raise KeyboardInterrupt

        monkeypatch.setattr(module.RidgeLearner, "score", interrupt)
        with pytest.raises(KeyboardInterrupt):
            make_path()


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
class TestDegenerate:
    def check(self, path, value):
        for name in SCORES:
            assert np.all(np.isfinite(getattr(path, name))), name
        assert_allclose(path.predict(X_VAL), value, atol=1e-9)

    @pytest.mark.parametrize("max_lifetime", [10.0, None])
    def test_constant_target(self, solver, max_lifetime):
        targets = np.full(80, 3.0)
        path = make_path(targets=targets, solver=solver, max_lifetime=max_lifetime)
        self.check(path, 3.0)
        assert_allclose(path.train_error, 0.0, atol=1e-12)

    @pytest.mark.parametrize("max_lifetime", [10.0, None])
    def test_one_row(self, solver, max_lifetime):
        path = make_path(X[:1], y[:1], solver=solver, max_lifetime=max_lifetime)
        self.check(path, y[0])

    @pytest.mark.parametrize("max_lifetime", [10.0, None])
    def test_equal_rows(self, solver, max_lifetime):
        rows = np.tile(X[:1], (7, 1))
        path = make_path(rows, y[:7], solver=solver, max_lifetime=max_lifetime)
        self.check(path, y[:7].mean())
        assert_array_equal(path.n_cells, 20)

    @pytest.mark.parametrize("max_lifetime", [10.0, None])
    def test_duplicated_rows_share_their_cells(self, solver, max_lifetime):
        rows, targets = np.tile(X[:10], (3, 1)), np.tile(y[:10], 3)
        path = make_path(rows, targets, solver=solver, max_lifetime=max_lifetime)
        assert path.n_cells[-1] <= 10 * 20
        for name in SCORES:
            assert np.all(np.isfinite(getattr(path, name))), name
        assert_allclose(path.predict(rows[:10]), path.predict(rows[20:]))


BAD = {
    "NaN in y": ({"targets": np.where(np.arange(80) == 3, np.nan, y)}, "NaN"),
    "y too short": ({"targets": y[:-1]}, "inconsistent"),
    "y of classes": ({"targets": np.array(["a", "b"] * 40)}, "y holds classes"),
    "NaN in X": ({"rows": np.vstack([X[:-1], [[np.nan, 0.0]]])}, "NaN"),
    "alpha 0": ({"alphas": [0.0, 1.0]}, "alphas must be positive"),
    "alpha < 0": ({"alphas": [-1.0]}, "alphas must be positive"),
    "alpha NaN": ({"alphas": [np.nan]}, "alphas contains NaN"),
    "no alphas": ({"alphas": []}, "alphas must be positive numbers, at least one"),
    "max_lifetime 0": ({"max_lifetime": 0.0}, "'max_lifetime' parameter"),
    "max_lifetime < 0": (
        {"max_lifetime": -2.0},
        "'max_lifetime' parameter",
    ),
    "max_lifetime NaN": (
        {"max_lifetime": np.nan},
        "'max_lifetime' parameter",
    ),
    "lifetime < 0": ({"lifetimes": [-1.0, 1.0]}, "and not negative"),
    "no lifetimes": ({"lifetimes": []}, "lifetimes must be at least one"),
    "max_lifetime text": (
        {"max_lifetime": "a"},
        "'max_lifetime' parameter",
    ),
    "n_lifetimes": ({"n_lifetimes": 0}, "'n_lifetimes' parameter"),
    "n_lifetimes not whole": (
        {"n_lifetimes": 2.5},
        "'n_lifetimes' parameter",
    ),
    "tol": ({"tol": -1.0}, "'tol' parameter"),
    "validation alone": (
        {"validation": X_VAL},
        "'validation' parameter",
    ),
    "loss": ({"loss": "absolute"}, "loss"),
    "features and a loss": ({"loss": "log_loss", "features": MondrianFeatures()}, "are for loss="),
    "sgd": ({"solver": "sgd"}, "'solver' parameter"),
    "validation columns": ({"validation": (X_VAL[:, :1], Y_VAL[:, 0])}, "validation: .*2 features"),
    "validation length": ({"validation": (X_VAL, Y_VAL[1:, 0])}, "validation: .*inconsistent"),
    "validation outputs": ({"validation": (X_VAL, Y_VAL)}, "number of outputs"),
    "validation NaN": ({"validation": (X_VAL, Y_VAL[:, 0] * np.nan)}, "validation: .*NaN"),
    "no validation": ({"criterion": "holdout"}, "validation="),
    "criterion": ({"criterion": "aic"}, "'criterion' parameter"),
    "solver": ({"solver": "svd"}, "'solver' parameter"),
    "weights < 0": ({"sample_weight": -np.ones(80)}, "[Nn]egative"),
    "weights too short": ({"sample_weight": np.ones(79)}, "sample_weight"),
    "weights all 0": ({"sample_weight": np.zeros(80)}, "zero"),
    "n_estimators": ({"n_estimators": 0}, "n_estimators"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_before_any_work(name, monkeypatch):
    def work(*args):
        raise AssertionError("the trees have been planted")

    monkeypatch.setattr(driver, "Growth", work)
    options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        make_path(**options)


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf])
def test_a_model_is_asked_for_with_a_positive_alpha(alpha):
    with pytest.raises(ValueError, match="alpha must be positive and finite"):
        make_path().coef(alpha=alpha)


def gaussian_process(seed, n_rows=1000, lifetime=10.0, noise=0.01):
    """Rows in the unit square, and a draw of the Laplace kernel's Gaussian process with noise."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(size=(n_rows, 2))
    cov = laplacian_kernel(rows, gamma=lifetime) + noise**2 * np.eye(n_rows)
    return rows, np.linalg.cholesky(cov) @ rng.normal(size=n_rows)


@pytest.mark.parametrize("seed", range(3))
def test_recovers_the_width_of_a_gaussian_process(seed):
    """Within a factor 2 of λ₀ = 10 by leave-one-out, 200 trees; some 3 s a seed."""
    rows, targets = gaussian_process(seed)
    path = lifetime_path(
        rows, targets, n_estimators=200, lifetimes=np.geomspace(2.5, 40.0, 7), alphas=[1e-4],
        random_state=seed,
    )  # fmt: skip
    assert 5.0 <= path.best_lifetime <= 20.0


def make_cut_path(rows=X, targets=y, **options):
    given = {"n_estimators": 20, "max_lifetime": 1.0, "alphas": ALPHAS, "random_state": 0}
    return every_cut_path(rows, targets, **given | options)


class TestEveryCut:
    def test_is_the_grid_at_each_cut_without_an_intercept(self):
        path = make_cut_path(fit_intercept=False)
        grid = make_path(lifetimes=path.lifetimes, fit_intercept=False, max_lifetime=None)
        for name in SCORES[3:-1]:
            assert_allclose(getattr(path, name), getattr(grid, name), rtol=1e-7, err_msg=name)
        assert_array_equal(path.n_cells, grid.n_cells)
        assert_allclose(path.predict(X_VAL), grid.predict(X_VAL, *best(path)), rtol=1e-8)

    def test_errors_are_those_of_its_predictions(self):
        path = make_cut_path(validation=(X_VAL, Y_VAL[:, 0]))
        k, a = path.best_index
        assert_allclose(path.train_error[k, a], np.mean((path.predict(X) - y) ** 2))
        error = np.mean((path.predict(X_VAL) - Y_VAL[:, 0]) ** 2)
        assert_allclose(path.validation_error[k, a], error)

    def test_all_cuts_of_features_that_exist(self):
        features = MondrianFeatures(1.0, 20, random_state=0).fit(X)
        path = every_cut_path(X, y, features=features)
        assert path.lifetimes.size == 1 + features.n_cells_ - 20
        assert_array_equal(path.alphas, [0.01])
        with pytest.raises(ValueError, match="drop max_lifetime"):
            every_cut_path(X, y, features=features, max_lifetime=0.5)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_lifetime": None}, "needs max_lifetime"),
            ({"targets": Y}, "takes one target"),
            ({"criterion": "holdout"}, "validation="),
            ({"alphas": [0.0]}, "alphas must be positive"),
        ],
    )
    def test_what_it_does_not_take(self, options, message):
        with pytest.raises(ValueError, match=message):
            make_cut_path(**options)


def best(path):
    return path.best_lifetime, path.best_alpha


class TestFeaturesThatExist:
    def test_equals_the_path_that_grows_them(self):
        features = MondrianFeatures(10.0, 20, random_state=0).fit(X)
        assert_same(make_path(features=features, max_lifetime=None), make_path())

    def test_other_rows_and_later_times_are_refused(self):
        features = MondrianFeatures(1.0, 20, random_state=0).fit(X)
        with pytest.raises(ValueError, match="not fitted on these rows: row 0"):
            make_path(X + 1, features=features, max_lifetime=None)
        with pytest.raises(ValueError, match="end at lifetime_=1"):
            make_path(features=features, lifetimes=[2.0])


@pytest.mark.parametrize("make", [make_path, make_cut_path])
def test_names_of_columns_are_kept(make):
    frame = pd.DataFrame(X, columns=["a", "b"])
    path = make(frame)
    assert list(path.features().feature_names_in_) == ["a", "b"]
    path.predict(frame)  # warns of nothing
    with pytest.raises(ValueError, match="feature names"):
        path.predict(frame.rename(columns={"a": "c"}))


@pytest.mark.parametrize("make", [make_path, make_cut_path], ids=["grid", "every cut"])
def test_the_path_does_not_change_with_the_arrays_it_was_made_of(make):
    rows, targets, options = X.copy(), y.copy(), {}
    if make is make_path:
        options["sample_weight"] = np.random.default_rng(3).uniform(0.5, 2.0, size=80)
    path = make(rows, targets, **options)
    before = path.predict(X_VAL), path.coef(), path.predict(X_VAL, path.lifetimes[2])
    rows[:], targets[:] = 7.0, -100.0
    if options:
        options["sample_weight"][:] = 5.0
    after = path.predict(X_VAL), path.coef(), path.predict(X_VAL, path.lifetimes[2])
    assert_array_equal(before[0], after[0])
    assert_array_equal(before[1][0], after[1][0])
    assert_array_equal(before[2], after[2])


def test_curves_by_name():
    path = make_path(validation=(X_VAL, Y_VAL[:, 0]))
    assert set(SCORES[3:]) | {"validation_error"} == set(path.curves)
    for name, values in path.curves.items():
        assert getattr(path, name) is values
        assert values.shape == (path.lifetimes.size, path.alphas.size)
    with pytest.raises(AttributeError, match="no train_loss: it has train_error"):
        path.train_loss  # noqa: B018
    assert path.validation_loss is None


def test_repr_is_a_summary_of_a_few_lines():
    path = make_path()
    first, second, third = repr(path).splitlines()
    assert first == f"LifetimePath(12 lifetimes {path.lifetimes[0]:.3g} to 10, 3 alphas 0.01 to 1)"
    assert f"lifetime {path.best_lifetime:.4g}, alpha {path.best_alpha:.3g}" in second
    assert "leave-one-out" in second
    assert third.startswith("  curves: train_error, loo_error")
    assert max(map(len, (first, second, third))) < 200


def test_a_path_of_scores_alone_predicts_nothing():
    path = LifetimePath(
        np.ones(1), np.ones(1, int), np.ones(1), {"loo_error": np.ones((1, 1))}, "loo"
    )
    for call in (path.coef, path.features, lambda: path.predict(X)):
        with pytest.raises(ValueError, match="scores only"):
            call()
