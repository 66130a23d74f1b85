"""Estimators take data frames and gaps: at a fit, in a stream and at prediction."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import skrub
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from mondrian_kernel import (
    MondrianForestClassifier,
    MondrianForestRegressor,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
    TableEncoder,
    load,
    save,
)
from mondrian_kernel.app.report import write_report
from mondrian_kernel.encoder import relevance_groups

MODELS = {
    "regressor": MondrianKernelRegressor,
    "classifier": MondrianKernelClassifier,
    "forest regressor": MondrianForestRegressor,
    "forest classifier": MondrianForestClassifier,
}
LIBRARIES = {"pandas": lambda f: f, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
RNG = np.random.default_rng(0)
N = 90
TABLE = pd.DataFrame(
    {
        "area": 100 * RNG.uniform(size=N),
        "kind": RNG.choice(["brick", "stone", "wood"], N),
        "sold": RNG.uniform(size=N) < 0.5,
        "rooms": RNG.integers(1, 6, N),
    }
)
PRICE = TABLE["area"].to_numpy() + 50 * (TABLE["kind"] == "brick") + 20 * TABLE["rooms"]
TABLE.loc[3, "area"], TABLE.loc[5, "kind"] = np.nan, None
NEW = pd.DataFrame(
    {
        "area": [50.0, np.nan, 50.0],
        "kind": ["straw", "brick", None],
        "sold": [True, False, True],
        "rooms": [2.0, 3.0, np.nan],
    }
)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param](0.5, 0.1, 20, random_state=0)


def targets(model, price=PRICE):
    return np.where(price > 120, "high", "low") if is_classifier(model) else np.asarray(price)


def scores(model, X):
    return model.predict_proba(X) if is_classifier(model) else model.predict(X)


def learn(model, X, y):
    return model.partial_fit(X, y, **({"classes": ["high", "low"]} if is_classifier(model) else {}))


def encoded(table):
    """Return the encoded rows and what they are divided by."""
    encoder = TableEncoder()
    rows = encoder.fit_transform(table)
    return rows, np.where(encoder.is_number_, rows.std(axis=0), 1.0)


# --- fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_masked_entries_are_gaps(method):
    X, y = RNG.normal(size=(40, 2)), np.arange(40.0)
    gaps = np.where(X > 1, np.nan, X)
    expected, found = (
        getattr(MondrianKernelRegressor(1.0, 0.1, 5, random_state=0), method)(rows, y).predict(rows)
        for rows in (gaps, np.ma.masked_greater(X, 1))
    )
    assert_array_equal(found, expected)


@pytest.mark.parametrize("words", ["pq", (0.0, 1.0)])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_list_is_a_table_as_a_frame_is(method, words):
    """Numbers beside text stay numbers, and large whole ones beside others stay apart."""
    rows = [[2**53 + i % 2, 0.1 * i, words[i % 3 > 0]] for i in range(40)]
    expected, found = (
        getattr(
            MondrianKernelRegressor(1.0, 0.1, 5, categorical_features=[0, 2], random_state=0),
            method,
        )(X, np.arange(40) % 2).predict(X)
        for X in (pd.DataFrame(rows, columns=list("abc")), rows)
    )
    assert_array_equal(found, expected)
    assert found[0] < 0.5 < found[1]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_table_is_fitted_as_its_encoded_rows(model, library):
    table, y = LIBRARIES[library](TABLE), targets(model)
    fitted = clone(model).fit(table, y)
    rows, scale = encoded(TABLE)
    # The library rounds standard deviations to 32 bits.
    assert_allclose(fitted.scale_, scale, rtol=2.0**-31)
    plain = clone(model).set_params(scale=fitted.scale_).fit(rows, y)
    assert_array_equal(scores(fitted, table), scores(plain, rows))
    assert fitted.n_features_in_ == 4
    assert fitted.feature_names_in_.tolist() == list(TABLE.columns)
    assert fitted.encoder_.column_of_output_.tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 3]
    assert fitted.features_.transform(rows / fitted.scale_).shape[0] == N
    new = scores(fitted, LIBRARIES[library](NEW))
    assert_array_equal(new, scores(plain, fitted.encoder_.transform(LIBRARIES[library](NEW))))


def test_relevances_are_learnt_for_tables():
    chosen = MondrianKernelRegressor(n_estimators=20, random_state=0).fit(TABLE, PRICE)
    assert np.ptp(chosen.relevance_) > 0
    assert chosen.relevance_.shape == (TABLE.shape[1],)
    columns, scale = chosen.model_.columns, encoded(TABLE)[1]
    # t(x) = r [(1 - m) x / scale + m √12 F(x)], with no ranks for what is not a number.
    one_less_m = scale / (columns.scale * columns.relevance)
    is_number = chosen.encoder_.is_number_
    assert_allclose(one_less_m[~is_number], 1.0, rtol=1e-9)
    assert ((one_less_m > 0) & (one_less_m < 1))[is_number].all()
    assert_array_equal(columns.bend > 0, is_number)
    group = relevance_groups(chosen.encoder_)
    first = np.unique(group, return_index=True)[1]
    assert_array_equal(columns.relevance, columns.relevance[first][group])
    outputs = np.unique(chosen.encoder_.column_of_output_, return_index=True)[1]
    assert_array_equal(chosen.relevance_, columns.relevance[outputs])
    assert chosen.score(TABLE, PRICE) > 0.9


def test_arrays_of_numbers_need_no_encoder(model):
    X, y = TABLE[["area", "rooms"]].fillna(50.0).to_numpy(), targets(model)
    plain = clone(model).fit(X, y)
    assert plain.encoder_ is None
    frame = pd.DataFrame(X, columns=["a", "b"])
    for other in (frame, pl.from_pandas(frame), X.astype(object), X.tolist()):
        same = clone(model).fit(other, y)
        assert same.encoder_ is None
        assert_array_equal(scores(same, other), scores(plain, X))


def test_gaps_in_arrays(model):
    X, y = TABLE[["area", "rooms"]].to_numpy(dtype=float), targets(model)
    fitted = clone(model).fit(X, y)
    assert fitted.encoder_.get_feature_names_out().tolist() == ["x0", "x0 is missing", "x1"]
    assert np.isfinite(fitted.scale_).all()
    assert get_tags(model).input_tags.allow_nan
    full = clone(model).fit(X[5:], y[5:])
    median = np.sort(X[5:], axis=0)[(N - 6) // 2]
    assert_array_equal(scores(full, np.full((1, 2), np.nan)), scores(full, median[None]))


def test_categories_of_an_array_can_be_listed(model):
    X, y = TABLE[["rooms", "sold"]].to_numpy(dtype=int), targets(model)
    fitted = clone(model).set_params(categorical_features=[0]).fit(X, y)
    assert fitted.encoder_.categories_ == [[1, 2, 3, 4, 5], None]
    unknown = scores(fitted, [[99, 1]])
    assert np.isfinite(unknown).all()


@pytest.mark.parametrize("chosen", [["rooms"], [1], [False, True]])
def test_categories_of_a_frame_can_be_listed(chosen):
    model = MondrianKernelRegressor(0.5, 0.1, 5, categorical_features=chosen, random_state=0)
    fitted = model.fit(TABLE[["area", "rooms"]], PRICE)
    assert fitted.encoder_.categories_[1] == [1, 2, 3, 4, 5]


def test_the_scale_may_be_given_for_the_columns(model):
    y, scale = targets(model), [10.0, 2.0, 3.0, 4.0]
    fitted = clone(model).set_params(scale=scale).fit(TABLE, y)
    assert fitted.scale_.tolist() == [10, 10, 2, 2, 2, 2, 3, 3, 4]
    assert clone(model).set_params(scale=None).fit(TABLE, y).scale_.tolist() == [1.0] * 9
    mixed = np.array(["std", 1.0, 2.0, "std"], dtype=object)
    found = clone(model).set_params(scale=mixed).fit(TABLE, y).scale_
    assert found[2:8].tolist() == [1, 1, 1, 1, 2, 2]
    assert_allclose(found[[0, 8]], encoded(TABLE)[1][[0, 8]], rtol=2.0**-31)


def test_many_categories_do_not_leak_the_target():
    """Names that say nothing of y must not fit it: their means of y are cross-fitted."""
    rng = np.random.default_rng(1)
    names = pd.DataFrame({"name": [f"n{k}" for k in rng.integers(80, size=300)]})
    y = rng.normal(size=300)
    model = MondrianKernelRegressor(n_estimators=20, random_state=0).fit(names, y)
    assert model.encoder_.is_number_.tolist() == [True]
    assert model.predict(names).std() < 0.5 * y.std()
    classes = np.repeat([0, 1, 2], 100)
    classifier = MondrianKernelClassifier(0.5, 0.1, 5, random_state=0).fit(names, classes)
    assert classifier.encoder_.is_number_.size == 3


def test_a_mixture_of_lifetimes_takes_tables():
    model = MondrianKernelRegressor("average", n_estimators=20, random_state=0).fit(TABLE, PRICE)
    assert np.isfinite(model.predict_interval(NEW)).all()
    assert np.isfinite(model.at(0.01).predict(NEW)).all()


def test_a_forest_on_the_trees_of_a_table():
    kernel = MondrianKernelRegressor(0.5, 0.1, 20, random_state=0).fit(TABLE, PRICE)
    forest = MondrianForestRegressor.from_features(kernel.features_, scale=kernel.scale_)
    assert np.isfinite(forest.fit(TABLE, PRICE).predict(NEW)).all()


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [0.5, "auto"])
def test_a_stream_of_tables_is_that_of_its_encoded_rows(model, lifetime):
    table, y = TABLE.astype({"kind": "category"}), targets(model)
    encoder = TableEncoder().partial_fit(table[:20])
    plain = clone(model).set_params(lifetime=lifetime, relevance="equal")
    stream = clone(plain)
    rule = np.where(encoder.is_number_, "std", np.array(1.0, object))
    plain.set_params(scale=rule)
    for begin in range(0, N, 20):
        part = slice(begin, begin + 20)
        learn(stream, table[part], y[part])
        learn(plain, encoder.transform(table[part]), y[part])
        assert_array_equal(scores(stream, table), scores(plain, encoder.transform(table)))
    kinds = ~encoder.is_number_
    assert_array_equal(stream.scale_[kinds], np.ones(kinds.sum()))
    assert stream.scale_[0] > 10


def test_a_stream_after_a_fit_learns_unknown_categories(model):
    y = targets(model)
    fitted = clone(model).fit(TABLE, y)
    before = scores(fitted, NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(fitted, NEW, y[:3])
    assert fitted.encoder_.categories_[1] == ["brick", "stone", "wood", None]
    assert np.abs(scores(fitted, NEW) - before).max() > 0


@pytest.mark.parametrize("first", ["numbers", "table"])
def test_a_bad_batch_leaves_the_model_as_it_was(model, first):
    table, y = TABLE if first == "table" else TABLE[["area", "rooms"]][6:], targets(model)
    y = y[-len(table) :]
    learn(model, table[:40], y[:40])
    before = scores(model, table)
    bad = table[40:].astype({"area": object})
    for value, problem in [("big", "Column 'area' holds text such as 'big'"), (np.inf, "infinity")]:
        bad.loc[bad.index[4], "area"] = value
        with pytest.raises(ValueError, match=problem):
            learn(model, bad, y[40:])
        assert_array_equal(scores(model, table), before)
    gap = table[40:].copy()
    gap.loc[gap.index[4], "area"] = np.nan
    learn(model, gap, y[40:])


def test_a_fit_that_fails_leaves_no_model_with_another_encoder(model):
    y = targets(model)
    model.fit(TABLE, y)
    before = scores(model, NEW)
    with pytest.raises(ValueError, match="Column 'rooms' contains infinity"):
        model.fit(TABLE.assign(rooms=np.inf), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(TABLE.assign(area=1.0), y[:-1])
    assert_array_equal(scores(model, NEW), before)


def test_a_fit_that_is_interrupted_changes_nothing(model, monkeypatch):
    """Neither the encoder nor the trees are those of the new rows."""
    model.fit(TABLE, targets(model))
    before = scores(model, NEW)

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mondrian_kernel._estimator.base.column_scale", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(TABLE.assign(area=1.0), targets(model))
    assert_array_equal(scores(model, NEW), before)


# --- errors --------------------------------------------------------------------------------------


def test_new_rows_of_another_kind_are_named(model):
    model.fit(TABLE, targets(model))
    with pytest.raises(ValueError, match="Column 'area' holds text such as 'big'"):
        model.predict(NEW.assign(area="big"))
    with pytest.raises(ValueError, match="Column 'kind' holds numbers"):
        model.predict(NEW.assign(kind=1))
    with pytest.raises(ValueError, match="yet now missing:\n- rooms"):
        model.predict(NEW[["area", "kind"]])
    with pytest.warns(UserWarning, match=f"{type(model).__name__} was fitted with feature names"):
        model.predict(NEW.to_numpy())


@pytest.mark.parametrize("fill", [np.inf, -np.inf])
def test_an_infinite_number_of_an_array_is_named(fill):
    X = np.arange(40.0).reshape(20, 2)
    model = MondrianKernelRegressor(n_estimators=5, random_state=0).fit(X, X[:, 0])
    X[3, 1] = fill
    for call in (lambda: model.predict(X), lambda: clone(model).fit(X, X[:, 0])):
        with pytest.raises(ValueError, match="Column 1 contains infinity, first in row 3"):
            call()


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_missing_target_is_named(model, method, missing):
    y = targets(model).astype(object)
    y[7] = missing
    with pytest.raises(ValueError, match="Input y contains NaN, first in row 7: leave"):
        model.fit(TABLE, y) if method == "fit" else learn(model, TABLE, y)
    learn(model, TABLE, targets(model))
    with pytest.raises(ValueError, match="Input y contains NaN, first in row 7: leave"):
        learn(model, TABLE, y)


# --- with others ---------------------------------------------------------------------------------


def test_pickles_and_model_files(model, tmp_path):
    model.fit(TABLE, targets(model))
    save(model, tmp_path / "model")
    for kept in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(scores(kept, NEW), scores(model, NEW))
        learn(kept, NEW, targets(model)[:3])


@pytest.mark.parametrize("lifetime", [0.5, "auto"])
def test_model_files_of_streams(model, lifetime, tmp_path):
    learn(model.set_params(lifetime=lifetime), TABLE[:30], targets(model)[:30])
    save(model, tmp_path / "model")
    kept = load(tmp_path / "model")
    for one in (model, kept):
        learn(one, TABLE[30:], targets(model)[30:])
    assert_array_equal(scores(kept, NEW), scores(model, NEW))


def test_scikit_learn_works_with_tables(model):
    y = targets(model)
    assert np.isfinite(cross_val_score(model, TABLE, y, cv=3)).all()
    model.fit(TABLE, y)
    found = permutation_importance(model, TABLE, y, n_repeats=2, random_state=0)
    assert found.importances_mean.shape == (4,)
    curve = partial_dependence(model, TABLE.dropna(), ["kind"], categorical_features=["kind"])
    assert curve["average"].shape[1] == 3


def test_in_pipelines(model):
    y = targets(model)
    some = make_column_transformer((TableEncoder(), ["kind", "area"]), remainder="passthrough")
    for pipeline in (make_pipeline(some, model), skrub.tabular_pipeline(model)):
        assert np.isfinite(scores(pipeline.fit(TABLE, y), NEW[1:])).all()


@pytest.mark.parametrize("lifetime", [0.5, "average", "auto"])
def test_a_report_of_a_table(lifetime, tmp_path):
    model = MondrianKernelRegressor(lifetime, "auto", 20, random_state=0).fit(
        TABLE[:60], PRICE[:60]
    )
    rows = TABLE[:60], PRICE[:60], TABLE[60:], PRICE[60:]
    file = write_report(tmp_path / "r.html", model, *rows, title="Houses", target="price")
    text = file.read_text(encoding="utf-8")
    assert "kind" in text
    assert "kind=brick" not in text  # a column of categories is one column
