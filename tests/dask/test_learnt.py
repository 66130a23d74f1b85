"""Models that learn their widths, from blocks that come to the client one at a time."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.dask import DaskMondrianKernelClassifier, DaskMondrianKernelRegressor

OPTIONS = {"n_estimators": 10, "random_state": 0}
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, 3))
TARGETS = ROWS[:, 0] * ROWS[:, 1] + 0.1 * RNG.normal(size=400)
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(
    a=lambda frame: frame["a"].where(frame["c"] < 1.0), kind=RNG.choice(["u", "v", None], 400)
)


def test_regressor_of_a_table_is_that_in_one_place():
    local = MondrianKernelRegressor(**OPTIONS).fit(FRAME, TARGETS)
    X = dd.from_pandas(FRAME, npartitions=3)
    y = dd.from_pandas(pd.Series(TARGETS), npartitions=3)
    model = DaskMondrianKernelRegressor("auto", **OPTIONS).fit(X, y)
    np.testing.assert_array_equal(model.predict(FRAME), local.predict(FRAME))
    np.testing.assert_array_equal(model.feature_importances_, local.feature_importances_)
    lazy = [*model.predict(X, return_std=True), model.predict_interval(X, 0.8)]
    lazy.append(model.predict_quantiles(X, [0.1, 0.9]))
    blocks = [part.compute() for part in X.partitions]  # rounding may differ in other blocks
    pairs = [local.predict(block, return_std=True) for block in blocks]
    wanted = [np.concatenate(parts) for parts in zip(*pairs, strict=True)]
    wanted.append(np.concatenate([local.predict_interval(block, 0.8) for block in blocks]))
    wanted.append(np.concatenate([local.predict_quantiles(b, [0.1, 0.9]) for b in blocks]))
    for one, other in zip(dask.compute(*lazy), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="one coverage"):
        model.predict_interval(X, [0.5, 0.9])


@pytest.mark.parametrize("weighted", [False, True])
def test_classifier_of_an_array_is_that_in_one_place(weighted):
    labels, weight = np.where(TARGETS > 0, "high", "low"), None
    if weighted:
        weight = RNG.integers(0, 3, 400)
    local = MondrianKernelClassifier(**OPTIONS).fit(ROWS, labels, weight)
    X = da.from_array(ROWS, chunks=(150, 2))
    model = DaskMondrianKernelClassifier("auto", **OPTIONS)
    model.fit(X, da.from_array(labels, chunks=90), weight)
    lazy = model.predict_proba(X), model.predict_set(X, 0.8), model.predict(X)
    P, member, labels = dask.compute(*lazy)
    blocks = ROWS[:150], ROWS[150:300], ROWS[300:]
    np.testing.assert_array_equal(P, np.concatenate([local.predict_proba(b) for b in blocks]))
    np.testing.assert_array_equal(member, local.predict_set(ROWS, 0.8))
    np.testing.assert_array_equal(labels, local.predict(ROWS))


def test_what_belongs_to_one_width_is_refused():
    X = da.from_array(ROWS, chunks=(200, 3))
    with pytest.raises(ValueError, match="leave alpha"):
        DaskMondrianKernelRegressor("auto", 0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="leave loss"):
        DaskMondrianKernelClassifier("auto", loss="squared").fit(X, X[:, 0] > 0)
    with pytest.raises(TypeError, match="pass a dask array"):
        DaskMondrianKernelRegressor("auto").fit(ROWS, ROWS[:, 0])
    assert not hasattr(DaskMondrianKernelRegressor(), "predict_interval")
    assert not hasattr(DaskMondrianKernelClassifier(), "predict_set")


def test_partitions_without_rows_have_no_predictions():
    labels = np.where(TARGETS > 0, "high", "low")
    X = dd.from_pandas(FRAME, npartitions=3)
    model = DaskMondrianKernelClassifier("auto", **OPTIONS)
    model.fit(X, dd.from_pandas(pd.Series(labels), npartitions=3))
    some = X.map_partitions(lambda part: part if part.index[0] else part.iloc[:0], meta=X._meta)
    assert model.predict_proba(some).compute().shape == (len(some), 2)
