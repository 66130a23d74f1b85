"""MondrianFeatures: the contract, scikit-learn's checks, exact equalities, bad input, any array."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge, SGDRegressor
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from feature_map_contract import FeatureMapContract, assert_same, sample
from mondrian_kernel import MondrianFeatures
from scikit_learn_checks import assert_all_run_and_pass

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)) * [1.0, 2.0, 0.5]
NEW = rng.normal(size=(25, 3)) * 2.0
LIFETIME = 0.7


def fit(lifetime=LIFETIME, n_estimators=12, rows=X, **options):
    options = {"random_state": 0, **options}
    return MondrianFeatures(lifetime, n_estimators, **options).fit(rows)


def assert_same_map(a, b, rows=X, new=NEW):
    """Bit for bit the same features of fitted and new rows, columns in the same order."""
    assert a.n_cells_ == b.n_cells_
    assert_array_equal(a.n_cells_per_tree_, b.n_cells_per_tree_)
    assert_same(a.transform(rows), b.transform(rows))
    assert_same(a.transform(new), b.transform(new))
    assert_array_equal(a.apply(new), b.apply(new))


class TestContract(FeatureMapContract):
    """A draw is 1 where x and x' share the cell of a tree, or the mean of that over extensions."""

    estimator = MondrianFeatures
    draws_parameter = "n_estimators"

    @pytest.mark.parametrize("lifetime", [-1.0, -np.inf, np.nan, "1", None, 1j])
    def test_bad_lifetime(self, lifetime):
        """Infinity is a lifetime here: trees on rows are finite."""
        rows, _ = sample(2)
        with pytest.raises(ValueError, match="lifetime"):
            self.make(lifetime).fit(rows)


# ---- scikit-learn's checks -------------------------------------------------------------------


@parametrize_with_checks([MondrianFeatures()])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_scikit_learn_checks_all_run_and_none_is_expected_to_fail():
    assert_all_run_and_pass(MondrianFeatures(), at_least=45)


# ---- shape -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("lifetime", [0.0, 0.1, LIFETIME, np.inf])
def test_training_rows(lifetime, n_jobs):
    features = MondrianFeatures(lifetime, 12, random_state=0, n_jobs=n_jobs)
    Phi = features.fit_transform(X)
    assert sp.issparse(Phi)
    assert Phi.format == "csr"
    assert Phi.shape == (60, features.n_cells_)
    assert Phi.indices.dtype == Phi.indptr.dtype == np.int32
    assert Phi.has_canonical_format
    assert_array_equal(np.diff(Phi.indptr), 12)
    assert_array_equal(Phi.data, 12**-0.5)
    assert_same(features.transform(X), Phi)
    assert_array_equal(features.transform(X).data, 12**-0.5)
    assert_array_equal(features.apply(X), Phi.indices.reshape(60, 12))
    assert_array_equal(np.unique(Phi.indices), np.arange(features.n_cells_))


def test_attributes():
    features = fit()
    assert features.lifetime_ == LIFETIME
    assert features.n_features_in_ == 3
    assert features.n_cells_per_tree_.shape == (12,)
    assert features.n_cells_ == features.n_cells_per_tree_.sum() > 12
    names = features.get_feature_names_out()
    assert names.shape == (features.n_cells_,)
    assert names[0] == "mondrianfeatures0"
    cells = features.apply(NEW)
    assert cells.dtype == np.int32
    assert cells.shape == (25, 12)
    ends = np.cumsum(features.n_cells_per_tree_)
    assert (cells < ends).all()
    assert (cells >= ends - features.n_cells_per_tree_).all()


def test_new_rows():
    features = fit()
    Phi = features.transform(NEW)
    assert Phi.has_canonical_format
    assert Phi.indices.dtype == Phi.indptr.dtype == np.int32
    assert (np.diff(Phi.indptr) <= 12).all()
    assert ((Phi.data > 0) & (Phi.data <= 12**-0.5)).all()
    assert (Phi.data < 12**-0.5).any()
    cells = features.apply(NEW)
    assert_array_equal(Phi.indices, cells[Phi[np.arange(25)[:, None], cells].toarray() > 0])


def test_features_at_the_very_time_of_a_cut():
    """The cut parts the rows at its own time, and not a moment before."""
    features = fit()
    cuts = features.trees_.cuts
    for number in (0, 7, -1):
        at = features.at(cuts.time[number])
        before = features.at(np.nextafter(cuts.time[number], 0.0))
        assert at.n_cells_ == before.n_cells_ + 1
        assert_array_equal(at.transform(X).indices.reshape(60, 12), at.apply(X))
        together = before.kernel(X) - at.kernel(X)
        left = X[:, cuts.dim[number]] <= cuts.loc[number]
        assert together.max() > 0
        assert not together[np.ix_(left, left)].any()
        assert not together[np.ix_(~left, ~left)].any()


def test_kernel():
    features = fit()
    Phi, Psi = features.transform(X), features.transform(NEW)
    assert_array_equal(features.kernel(X), (Phi @ Phi.T).toarray())
    assert_array_equal(features.kernel(X, NEW), (Phi @ Psi.T).toarray())
    cells = features.apply(X)
    share = (cells[:, None] == cells).mean(axis=2)
    assert_allclose(features.kernel(X), share, rtol=1e-12)


def test_kernel_is_the_one_asked_for_whatever_the_units():
    """Inputs are not scaled: units go into the lifetime."""
    k = fit(0.7 / 8.0, 4000, rows=8.0 * X).kernel(8.0 * X)
    assert_array_equal(k, fit(0.7, 4000).kernel(X))
    assert np.abs(k - laplacian_kernel(X, gamma=0.7)).max() < 0.06


def test_far_rows_have_no_features():
    far = np.array([[1e4, 0.0, 0.0], [-1e300, 1e300, 1e300], [1.7e308, -1.7e308, 1.7e308]])
    features = fit()
    Phi = features.transform(far)
    assert Phi.nnz == 0
    assert Phi.shape == (3, features.n_cells_)
    assert_array_equal(features.kernel(far, X), 0.0)
    distances = [0.0, 0.3, 1.0, 3.0, 10.0, 100.0]
    length = [sp.linalg.norm(features.transform(np.add(X[:1], [[d, 0, 0]]))) for d in distances]
    assert length[0] == pytest.approx(1.0)
    assert length[-1] < 1e-6


def test_features_are_smooth_where_no_cell_changes():
    features = fit()
    edge = X[[np.argmax(X[:, 0])]]
    steps = np.linspace(0.0, 1.0, 9)[:, None] * [[1.0, 0.0, 0.0]]
    Phi = features.transform(edge + steps)
    assert_array_equal(features.apply(edge + steps), np.repeat(features.apply(edge), 9, axis=0))
    # Beyond the box of all rows a feature in a tree falls with one rate: λ, at the least.
    values = Phi.toarray()[:, features.apply(edge)[0]]
    assert_allclose(values[1:] / values[:-1], np.exp(-LIFETIME / 8.0), rtol=1e-12)


# ---- the same trees, however they are asked for ------------------------------------------------


@pytest.mark.parametrize("lifetime", [0.0, 1e-3, 0.2, LIFETIME])
@pytest.mark.parametrize("grown", [LIFETIME, 5.0, np.inf])
def test_at_equals_fit(lifetime, grown):
    """Columns too: cells are numbered from left to right, whatever came of them later."""
    view = fit(grown).at(lifetime)
    assert view.lifetime_ == view.lifetime == lifetime
    assert_same_map(view, fit(lifetime))
    assert_same_map(fit(grown).at(LIFETIME).at(lifetime), view)
    assert_array_equal(view.get_feature_names_out(), fit(lifetime).get_feature_names_out())


def test_at_shares_memory_and_leaves_the_original_alone():
    features = fit()
    before = features.transform(NEW)
    view = features.at(0.2)
    assert view.trees_ is features.trees_
    assert features.lifetime_ == features.lifetime == LIFETIME
    assert_same(features.transform(NEW), before)
    assert view.n_cells_ < features.n_cells_
    assert_same_map(clone(view).fit(X), view)


@pytest.mark.parametrize("lifetime", [-1e-9, np.nextafter(LIFETIME, 1), np.inf, np.nan])
def test_at_refuses_what_the_trees_have_not_run(lifetime):
    with pytest.raises(ValueError, match="lifetime"):
        fit().at(lifetime)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
@pytest.mark.parametrize("n_estimators", [1, 2, 13])
@pytest.mark.parametrize("max_cells", [None, 40])
@pytest.mark.filterwarnings("ignore:max_cells")
def test_threads_change_nothing(n_jobs, n_estimators, max_cells):
    one, more = (fit(n_estimators=n_estimators, max_cells=max_cells, n_jobs=j) for j in (1, n_jobs))
    assert one.lifetime_ == more.lifetime_
    assert_same_map(one, more)
    for name in ("time", "loc", "dim", "left", "right", "parent", "count", "lower", "upper"):
        assert_array_equal(getattr(one.trees_, name), getattr(more.trees_, name))


def test_more_trees_begin_with_the_same_trees():
    few, many = fit(n_estimators=5), fit(n_estimators=9)
    assert_array_equal(few.apply(NEW), many.apply(NEW)[:, :5])


def test_random_state_instance_is_drawn_from():
    state = np.random.RandomState(3)
    a, b = fit(random_state=state), fit(random_state=state)
    assert not np.array_equal(a.apply(X), b.apply(X))
    assert_same_map(a, fit(random_state=np.random.RandomState(3)))
    assert_same_map(a, fit(random_state=3))


def test_no_seed_gives_other_trees_each_time():
    assert not np.array_equal(fit(random_state=None).apply(X), fit(random_state=None).apply(X))


# ---- the budget ----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_cells", [12, 13, 50, 200])
@pytest.mark.parametrize("lifetime", [LIFETIME, 100.0, np.inf])
def test_budget(max_cells, lifetime):
    features = MondrianFeatures(lifetime, 12, max_cells=max_cells, random_state=0)
    with pytest.warns(UserWarning, match="max_cells") as caught:
        Phi = features.fit_transform(X)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert f"max_cells={max_cells} was reached before lifetime={lifetime}" in message
    assert f"lifetime_={features.lifetime_:.6g}" in message
    assert features.n_cells_ == Phi.shape[1] == max_cells
    assert features.lifetime_ < lifetime
    assert_same_map(features, fit(features.lifetime_))
    next_moment = np.nextafter(features.lifetime_, np.inf)
    assert fit(next_moment).n_cells_ == max_cells + 1, "growth stops before the first cut too many"


@pytest.mark.parametrize("lifetime", [0.0, 0.2, LIFETIME])
def test_budget_that_is_large_enough_changes_nothing(lifetime):
    free = fit(lifetime)
    for max_cells in (free.n_cells_, free.n_cells_ + 1, 10**6):
        bounded = fit(lifetime, max_cells=max_cells)
        assert bounded.lifetime_ == lifetime
        assert_same_map(bounded, free)


def test_budget_for_full_growth():
    assert fit(np.inf, max_cells=12 * 60).lifetime_ == np.inf
    with pytest.warns(UserWarning, match="max_cells=719 was reached"):
        fit(np.inf, max_cells=12 * 60 - 1)


def test_budget_less_than_a_cell_for_every_tree():
    with pytest.raises(ValueError, match=r"max_cells=11 is less than n_estimators=12"):
        fit(max_cells=11)


def test_budget_with_ranges_near_overflow():
    with pytest.warns(UserWarning, match="max_cells=50 was reached"):
        features = fit(1.0, rows=X / np.abs(X).max() * 2e307, max_cells=50)
    assert features.n_cells_ == 50
    widest = np.array([[0.0], [np.finfo(float).max]])
    with pytest.warns(UserWarning, match="max_cells=13 was reached") as caught:
        assert fit(np.inf, rows=widest, max_cells=13).n_cells_ == 13
    assert len(caught) == 1


# ---- rows of all kinds -------------------------------------------------------------------------


def test_duplicated_rows_change_nothing():
    """The trees see boxes, not numbers of rows."""
    twice = np.vstack([X, X[::-1], X[:7]])
    assert_same_map(fit(), fit(rows=twice))
    full = fit(np.inf, rows=twice)
    assert_array_equal(full.n_cells_per_tree_, 60)


def test_constant_columns_change_nothing_for_rows_that_share_them():
    wider = np.insert(X, 1, 3.25, axis=1)
    features = fit(rows=wider)
    assert_array_equal(features.transform(wider).toarray(), fit().transform(X).toarray())
    Psi = features.transform(np.insert(NEW, 1, 3.25, axis=1))  # distances sum in another order
    assert_allclose(Psi.toarray(), fit().transform(NEW).toarray(), rtol=1e-13)
    off = features.transform(np.add(wider, [0.0, 0.5, 0.0, 0.0]))
    assert_allclose(off.data, 12**-0.5 * np.exp(-0.5 * LIFETIME), rtol=1e-12)


def test_one_row():
    features = fit(1.5, 4, rows=[[1.0, -2.0]])
    assert features.n_cells_ == 4
    assert_array_equal(features.n_cells_per_tree_, 1)
    Phi = features.transform([[1.0, -2.0], [2.0, -2.5]]).toarray()
    assert_array_equal(Phi[0], 0.5)
    assert_allclose(Phi[1], 0.5 * np.exp(-1.5 * 1.5), rtol=1e-12)


def test_equal_rows():
    assert fit(np.inf, rows=np.full((9, 2), 4.0)).n_cells_ == 12


def test_lifetime_zero_is_one_cell_a_tree():
    features = fit(0.0)
    assert features.n_cells_ == 12
    far = np.array([[1.7e308, 1.7e308, -1.7e308]])
    assert_array_equal(features.transform(np.vstack([NEW, far])).toarray(), 12**-0.5)


def test_lifetime_infinity_is_one_cell_a_row():
    features = fit(np.inf)
    assert features.lifetime_ == np.inf
    assert_array_equal(features.n_cells_per_tree_, 60)
    assert_array_equal(features.kernel(X) > 0, np.eye(60, dtype=bool))
    assert features.transform(NEW).nnz == 0
    assert_same_map(pickle.loads(pickle.dumps(features)), features)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e-160])
def test_tiny_ranges(scale):
    rows = np.arange(8.0)[:, None] * scale
    features = fit(1.0, rows=rows)
    assert features.n_cells_ == 12, "no cut in so short a time"
    assert_array_equal(features.transform(rows).toarray(), 12**-0.5)
    if scale >= 1e-300:
        assert fit(np.inf, rows=rows).n_cells_ == 12 * 8
        assert 12 < fit(1.0 / scale, rows=rows).n_cells_ <= 12 * 8


def test_narrowest_ranges():
    """Neighbouring numbers are told apart, whatever their size."""
    for low in (1.0, -1e300, 1e-250):
        rows = np.array([[low], [np.nextafter(low, np.inf)]])
        assert fit(np.inf, rows=rows).n_cells_ == 24


def test_ranges_near_overflow():
    rows = X / np.abs(X).max() * 2e307
    features = fit(1e-307, rows=rows)
    assert 12 < features.n_cells_ <= 12 * 60
    Phi = features.transform(np.vstack([rows, -rows, np.full((1, 3), 1.7e308)]))
    assert np.isfinite(Phi.data).all()
    assert_array_equal(Phi[:60].data, 12**-0.5)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.int8, np.int32, np.int64, np.uint64, bool]
)
def test_dtypes(dtype):
    rows = (np.abs(X) * 10).astype(dtype)
    assert_same_map(fit(0.1, rows=rows), fit(0.1, rows=rows.astype(np.float64)), rows)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames(frame):
    data = frame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    features = fit(rows=data)
    assert list(features.feature_names_in_) == ["a", "b", "c"]
    assert_same(features.transform(data), fit().transform(X))
    with pytest.raises(ValueError, match="feature names"):
        features.transform(frame({"a": X[:, 0], "c": X[:, 2], "b": X[:, 1]}))
    with pytest.warns(UserWarning, match="feature names"):
        features.transform(X)


def test_views_keep_names():
    data = pd.DataFrame(X, columns=["a", "b", "c"])
    view = fit(rows=data).at(0.1)
    assert list(view.feature_names_in_) == ["a", "b", "c"]
    assert view.transform(data).shape == (60, view.n_cells_)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(container):
    """A frame cannot hold sparse features: scikit-learn says so, and "default" undoes it."""
    features = fit().set_output(transform=container)
    with pytest.raises(ValueError, match="sparse"):
        features.transform(X)
    with pytest.raises(ValueError, match="sparse"):
        features.fit_transform(X)
    assert sp.issparse(features.set_output(transform="default").transform(X))


def test_pickle_and_clone():
    features = fit()
    assert_same_map(pickle.loads(pickle.dumps(features)), features)
    again = clone(features)
    with pytest.raises(NotFittedError):
        again.transform(X)
    with pytest.raises(NotFittedError):
        again.at(0.1)
    with pytest.raises(NotFittedError):
        again.apply(X)
    assert_same_map(again.fit(X), features)


def test_refit_forgets():
    features = fit(rows=NEW)
    assert_same_map(features.fit(X), fit())
    features.fit(X[:, :2])
    assert features.n_features_in_ == 2


@pytest.mark.parametrize(
    "learner", [Ridge(), SGDRegressor(max_iter=5, tol=None), LogisticRegression()]
)
def test_linear_learners_take_the_features(learner):
    y = (X[:, 0] > 0).astype(int)
    pipeline = make_pipeline(StandardScaler(), MondrianFeatures(0.5, 30, random_state=0), learner)
    assert pipeline.fit(X, y).predict(NEW).shape == (25,)


def test_in_a_search_and_a_column_transformer():
    pipeline = make_pipeline(
        make_column_transformer((MondrianFeatures(1.0, 20, random_state=0), [0, 2])), Ridge(1e-2)
    )
    name = "columntransformer__mondrianfeatures__lifetime"
    search = GridSearchCV(pipeline, {name: [0.01, 1.0]}, cv=3)
    assert search.fit(X, np.sin(X[:, 0])).best_params_[name] == 1.0


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, "contains NaN"),
        (np.inf, "contains infinity"),
        (-np.inf, "contains infinity"),
    ],
)
def test_values_that_are_not_numbers(bad, message):
    rows = X.copy()
    rows[3, 1] = bad
    with pytest.raises(ValueError, match=message):
        fit(rows=rows)
    for method in ("transform", "apply", "kernel"):
        with pytest.raises(ValueError, match=message):
            getattr(fit(), method)(rows)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[0.0, -1.5e308], [0.0, 1.5e308]]),
        np.array([[0.0] * 3, [1e308] * 3]),
    ],
    ids=["one range", "sum of ranges"],
)
def test_ranges_that_overflow(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"overflow: column \d runs from .* Rescale X"):
            fit(rows=rows)


def test_overflowing_column_is_named():
    with pytest.raises(ValueError, match=r"column 1 runs from -1.5e.308 to 1.5e.308"):
        fit(rows=np.array([[0.0, -1.5e308], [1.0, 1.5e308]]))


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_estimators", 0),
        ("n_estimators", -3),
        ("n_estimators", 2.5),
        ("n_estimators", "3"),
        ("n_estimators", None),
        ("max_cells", 0),
        ("max_cells", 99.5),
        ("max_cells", "all"),
        ("random_state", "seed"),
        ("random_state", -1),
        ("n_jobs", 1.5),
        ("n_jobs", "all"),
    ],
)
def test_bad_parameters(parameter, value):
    with pytest.raises(ValueError, match=parameter if value != -1 else "Seed|seed|random_state"):
        fit(**{parameter: value})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.empty((0, 3)), "0 sample"),
        (np.empty((3, 0)), "0 feature"),
        (np.arange(5.0), "2D array"),
        (np.float64(3.0), "2D array"),
        (np.zeros((2, 2, 2)), "dim 3"),
        ([["a", "b"], ["c", "d"]], "could not convert string|Unable to convert"),
        (np.array([[1 + 1j, 2]]), "[Cc]omplex"),
        (pd.DataFrame({"number": [1.0, 2.0], "text": ["x", "y"]}), "could not convert|convert"),
        (pd.DataFrame({"a": [1.0, None]}), "NaN"),
    ],
)
def test_rows_that_are_no_table_of_numbers(rows, message):
    with pytest.raises(ValueError, match=message):
        fit(rows=rows)


def test_sparse_rows_are_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        fit(rows=sp.csr_matrix(X))


@pytest.mark.parametrize("n_columns", [2, 4])
def test_wrong_number_of_columns(n_columns):
    for method in ("transform", "apply", "kernel"):
        with pytest.raises(ValueError, match=f"{n_columns} features, but .* expecting 3"):
            getattr(fit(), method)(np.zeros((2, n_columns)))


# ---- any array at all --------------------------------------------------------------------------


def floats_of_every_size():
    special = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e-300, 1.0, 1e15, 1e300, 8e307, 1.7e308]
    return st.floats(width=64) | st.sampled_from([*special, -1.7e308, np.inf, np.nan])


def small_shapes(n_dims=2):
    return hnp.array_shapes(min_dims=n_dims, max_dims=n_dims, min_side=1, max_side=6)


@given(
    rows=hnp.arrays(np.float64, small_shapes(), elements=floats_of_every_size()),
    new=hnp.arrays(np.float64, st.tuples(st.just(4), st.just(6)), elements=floats_of_every_size()),
    lifetime=st.floats(0.0) | st.just(np.inf),
    max_cells=st.none() | st.integers(3, 20),
)
@settings(max_examples=200, deadline=None)
def test_any_floats_are_mapped_or_refused(rows, new, lifetime, max_cells):
    features = MondrianFeatures(lifetime, 3, max_cells=max_cells, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="max_cells")
        # Of scikit-learn's validation, which sums to see whether all is finite.
        warnings.filterwarnings("ignore", message="invalid value encountered in reduce")
        try:
            Phi = features.fit_transform(rows)
        except ValueError:
            with np.errstate(over="ignore", invalid="ignore"):
                sides = rows.max(axis=0) - rows.min(axis=0)
                assert not np.isfinite(sides.sum()) or np.isnan(lifetime)
            return
    assert max_cells is None or features.n_cells_ <= max_cells
    assert features.lifetime_ <= lifetime
    assert_array_equal(np.diff(Phi.indptr), 3)
    assert_array_equal(Phi.data, 3**-0.5)
    with np.errstate(invalid="ignore"):
        assert_same(Phi, features.transform(rows))
    new = new[:, : rows.shape[1]]
    new = new[np.isfinite(new).all(axis=1)]
    if len(new):
        with np.errstate(invalid="ignore"):
            Psi, cells = features.transform(new), features.apply(new)
        assert ((Psi.data > 0) & (Psi.data <= 3**-0.5 * (1 + 1e-15))).all()
        assert ((cells >= 0) & (cells < features.n_cells_)).all()
    half = features.at(features.lifetime_ / 2)
    assert half.n_cells_ <= features.n_cells_


@given(
    rows=hnp.arrays(
        hnp.scalar_dtypes() | hnp.unicode_string_dtypes() | hnp.byte_string_dtypes(),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
@settings(max_examples=200, deadline=None)
def test_any_array_is_mapped_or_refused(rows):
    """No crash of the process, and no error but those that scikit-learn itself raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            Phi = MondrianFeatures(1.0, 3, random_state=0).fit_transform(rows)
        except (ValueError, TypeError):
            return
    assert Phi.shape[0] == len(rows)
    assert_array_equal(Phi.data, 3**-0.5)


@given(
    rows=hnp.arrays(
        np.float64, small_shapes(), elements=st.floats(-100, 100).map(lambda v: round(v, 2))
    ),
    seed=st.integers(0, 2**32 - 1),
    lifetimes=st.tuples(st.floats(0, 2), st.floats(0, 2)),
    n_jobs=st.sampled_from([1, 2]),
)
@settings(max_examples=100, deadline=None)
def test_any_rows_lifetimes_and_seeds(rows, seed, lifetimes, n_jobs):
    low, high = sorted(lifetimes)
    options = {"n_estimators": 4, "random_state": seed}
    fine = MondrianFeatures(high, n_jobs=n_jobs, **options).fit(rows)
    coarse = MondrianFeatures(low, **options).fit(rows)
    assert_same_map(fine.at(low), coarse, rows, rows + 0.5)
    together = [f.apply(rows)[:, None] == f.apply(rows) for f in (coarse, fine)]
    assert (together[0] | ~together[1]).all(), "cells at a larger lifetime lie in cells at a less"
    # At the larger lifetime, too, equal rows are never parted.
    equal = (rows[:, None] == rows).all(axis=2)
    assert together[1][equal].all()
