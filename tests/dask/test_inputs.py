"""What is not fit to be fitted is refused, with a reason, and leaves no trace."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from mondrian_kernel import MondrianKernelRegressor, TableEncoder
from mondrian_kernel.dask import (
    DaskMondrianFeatures,
    DaskMondrianKernelClassifier,
    DaskMondrianKernelRegressor,
)

rng = np.random.default_rng(0)
ROWS, TARGETS = rng.normal(size=(60, 2)), rng.normal(size=60)
X, y = da.from_array(ROWS, chunks=(20, 2)), da.from_array(TARGETS, chunks=20)
FRAME = dd.from_pandas(pd.DataFrame(ROWS, columns=["a", "b"]), npartitions=3)
REGRESSOR = DaskMondrianKernelRegressor(1.0, 0.1, 10, random_state=0)


def with_nan(row, column):
    rows = ROWS.copy()
    rows[row, column] = np.nan
    return da.from_array(rows, chunks=(20, 2))


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (ROWS, TypeError, "X is a ndarray: pass a dask array"),
        (X[:, 0], ValueError, "two dimensions"),
        (X[:, :0], ValueError, "no columns"),
        (X[:0], ValueError, "X has no rows"),
        (X.astype(str), TypeError, "numbers are needed"),
        (FRAME.assign(c="word"), TypeError, "Column 'c' of X"),
        (with_nan(50, 1), ValueError, "X holds NaN or infinity, in column 1"),
        (X * 1e308 * 1e2, ValueError, "X holds NaN or infinity, in column 0"),
        (da.sign(X) * 1.7e308, ValueError, "overflow"),
    ],
)
def test_bad_rows(bad, error, message):
    features = DaskMondrianFeatures(1.0, 5)
    with np.errstate(over="ignore"), pytest.raises(error, match=message):
        features.fit(bad)
    assert not hasattr(features, "trees_")


def test_a_dataframe_with_categories_is_encoded_block_by_block():
    kinds = np.array(["u", "v", "w"])[np.arange(60) % 3]
    table = pd.DataFrame(ROWS, columns=["a", "b"]).assign(kind=kinds)
    table.loc[3, "a"] = np.nan
    encoder = TableEncoder().set_output(transform="pandas").fit(table[:40])
    encoded = dd.from_pandas(table, npartitions=3).map_partitions(encoder.transform)
    scale = np.where(encoder.is_number_, encoded.std().compute(), 1.0)
    options = {"scale": scale, "random_state": 0}
    model = DaskMondrianKernelRegressor(1.0, 0.1, 10, **options).fit(encoded, y)
    local = MondrianKernelRegressor(1.0, 0.1, 10, **options).fit(encoder.transform(table), TARGETS)
    # The same trees; their weights differ by the rounding of two solvers of 60 equations.
    expected = local.predict(encoder.transform(table))
    np.testing.assert_allclose(model.predict(encoded).compute(), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (None, ValueError, r"^A fit needs y: pass it as a dask collection beside X\.$"),
        (y[:-1], ValueError, "X has 60 rows and y has 59"),
        (da.where(y > 1, np.inf, y), ValueError, "y holds NaN or infinity"),
    ],
)
def test_bad_targets(bad, error, message):
    with pytest.raises(error, match=message):
        REGRESSOR.fit(X, bad)


def test_blocks_of_unknown_sizes():
    rows = FRAME.to_dask_array()
    with pytest.raises(ValueError, match="X has 60 rows and y has 59"):
        REGRESSOR.fit(rows, da.from_array(TARGETS[:-1], chunks=30))
    with pytest.raises(TypeError, match="compute_chunk_sizes"):
        REGRESSOR.fit(rows, TARGETS)
    shifted = da.from_array(TARGETS, chunks=((19, 21, 20),))
    with pytest.raises(ValueError, match=r"A block of X has 20 rows and that of y has (19|21)"):
        REGRESSOR.fit(rows, shifted)
    assert REGRESSOR.fit(rows, y).n_features_in_ == 2


def test_targets_in_other_blocks_or_in_memory():
    one = REGRESSOR.fit(X, y).predict(ROWS)
    for other in TARGETS, TARGETS.tolist(), da.from_array(TARGETS, chunks=7):
        np.testing.assert_array_equal(REGRESSOR.fit(X, other).predict(ROWS), one)


def test_bad_weights():
    with pytest.raises(ValueError, match="negative entry"):
        REGRESSOR.fit(X, y, -da.ones(60, chunks=20))
    with pytest.raises(ValueError, match="zero for every one"):
        REGRESSOR.fit(X, y, da.zeros(60, chunks=20))


def test_bad_classes():
    classifier = DaskMondrianKernelClassifier(1.0, 0.1, 10)
    with pytest.raises(ValueError, match="A fit needs y"):
        classifier.fit(X, None)
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier.fit(X, y)
    with pytest.raises(ValueError, match="All rows are of one class, 1"):
        classifier.fit(X, da.ones(60, chunks=20, dtype=int))
    with pytest.raises(ValueError, match="one dimension"):
        classifier.fit(X, X > 0)


@pytest.mark.parametrize(
    "model",
    [
        DaskMondrianFeatures(lifetime=-1.0),
        DaskMondrianKernelRegressor(solver="exact"),
        DaskMondrianKernelRegressor(keep_cells="yes"),
        DaskMondrianKernelRegressor(scale=[1.0]),
        DaskMondrianKernelClassifier(loss="hinge"),
        DaskMondrianKernelClassifier(n_estimators=5, max_cells=3),
    ],
)
def test_bad_parameters(model):
    with pytest.raises(ValueError, match=r"lifetime|solver|keep_cells|scale|loss|max_cells"):
        model.fit(X, y > 0)


def test_another_number_of_columns():
    with pytest.raises(ValueError, match="X has 1 columns, but DaskMondrianKernelRegressor"):
        REGRESSOR.fit(X, y).predict(X[:, :1])


def test_nullable_columns():
    one = REGRESSOR.fit(X, y).cell_weights_
    targets = dd.from_dask_array(y).astype("Float64")
    np.testing.assert_array_equal(
        REGRESSOR.fit(FRAME.astype("Float64"), targets).cell_weights_, one
    )


def test_columns_of_files_that_are_read_in_other_parts(tmp_path):
    """Dask joins small files where few columns are read, so that y has fewer parts than X."""
    frame = pd.DataFrame(ROWS, columns=["a", "b"]).assign(y=TARGETS)
    for k in range(12):
        frame.iloc[5 * k : 5 * k + 5].to_parquet(tmp_path / f"part{k:02d}.parquet")
    parts = dd.read_parquet(tmp_path)
    rows, targets = parts[["a", "b"]], parts["y"]
    if rows.to_dask_array().numblocks[0] == targets.to_dask_array().numblocks[0]:
        pytest.skip("This version of Dask joins no files.")
    one = REGRESSOR.fit(X, y).cell_weights_
    np.testing.assert_allclose(REGRESSOR.fit(rows, targets).cell_weights_, one, atol=1e-10)
