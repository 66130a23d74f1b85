"""Rows on disk make the models that they make in memory, and never come into it as a whole."""

import tempfile
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mondrian_kernel import MondrianKernelRegressor, TableEncoder, on_disk, open_table
from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.base import MondrianEstimator
from mondrian_kernel._model.columns import Columns, column_scale

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "BLOCK_ROWS", 70)
    monkeypatch.setattr(settings, "NUMBERS_IN_MEMORY", 100)
    monkeypatch.setattr(settings, "COLUMN_GROUP_NUMBERS", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def saved(X, folder, name="X"):
    np.save(folder / f"{name}.npy", X)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def table(n_rows=300):
    frame = pd.DataFrame(RNG.normal(size=(n_rows, 2)), columns=["a", "b"])
    frame["a"] = frame["a"].where((frame["b"] < 1.0) | (frame.index > 100))  # gaps at first alone
    frame["kind"] = RNG.choice(["u", "v", None], n_rows)
    frame["is"] = RNG.choice([True, False], n_rows)
    frame["many"] = RNG.integers(0, 60, n_rows).astype(str)
    frame["y"] = frame["b"] + (frame["kind"] == "u") + 0.1 * RNG.normal(size=n_rows)
    return frame


@pytest.mark.parametrize("change", ["none", "single", "columns first", "gaps", "whole numbers"])
def test_a_memory_map_gives_the_rows_of_an_array(change, tmp_path):
    X, y = 10.0 * RNG.normal(size=(300, 3)), RNG.normal(size=300)
    if change == "gaps":
        X[::7, 1] = np.nan
    X = X.astype({"single": np.float32, "whole numbers": int}.get(change, float))
    mapped = saved(np.asfortranarray(X) if change == "columns first" else X, tmp_path)
    models = MondrianKernelRegressor(), MondrianKernelRegressor()
    rows, _, _ = models[0]._check_fit(X, y, None)
    on_file, _, _ = models[1]._check_fit(mapped, y, None)
    np.testing.assert_array_equal(on_file, rows)
    assert on_disk.is_on_disk(on_file)
    medians = [model._encoder.medians_.tolist() for model in models]
    assert medians[0] == medians[1]


def test_rows_of_weight_0_are_left_out_on_disk(tmp_path):
    X, y, weight = RNG.normal(size=(300, 3)), RNG.normal(size=300), RNG.integers(0, 2, 300)
    rows, targets, _ = MondrianKernelRegressor()._check_fit(saved(X, tmp_path), y, weight)
    assert on_disk.is_on_disk(rows)
    np.testing.assert_array_equal(rows, X[weight > 0])
    np.testing.assert_array_equal(targets, y[weight > 0])


def test_no_step_before_the_compact_form_copies_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "BLOCK_ROWS", 2000)
    monkeypatch.setattr(settings, "COLUMN_GROUP_NUMBERS", 100_000)
    X = saved(RNG.normal(size=(100_000, 20)), tmp_path)
    y = RNG.normal(size=100_000)
    model = MondrianKernelRegressor(relevance="equal")
    tracemalloc.start()
    rows, targets, _ = model._check_fit(X, y, None)
    columns = MondrianEstimator._learn_columns(model, rows, targets[:, None], None, 0).columns
    before = tracemalloc.get_traced_memory()[1]
    compact = replace(columns, centre=rows.mean(axis=0))(rows)
    after = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert on_disk.is_on_disk(rows)
    assert before < X.nbytes / 4
    assert after < before + compact.nbytes


def test_scales_and_columns_do_not_depend_on_blocks(monkeypatch):
    X = RNG.normal(size=(300, 3))
    scale = column_scale("std", X, None)
    np.testing.assert_allclose(scale, X.std(axis=0), rtol=2.0**-32)  # the bits that are kept
    columns = replace(Columns.scaled(scale), centre=X.mean(axis=0))
    in_blocks = columns(X)
    monkeypatch.setattr(settings, "BLOCK_ROWS", 1000)
    np.testing.assert_array_equal(columns(X), in_blocks)


def test_a_parquet_file_is_encoded_as_a_frame(tmp_path):
    frame = table()
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=110)
    opened = open_table(tmp_path / "t.parquet")
    assert len(opened) == 300
    here, there = TableEncoder(), TableEncoder()
    rows = here.fit_transform(frame.drop(columns="y"), frame["y"])
    on_file = there.fit_transform(opened.drop("y"), opened["y"])
    assert on_disk.is_on_disk(on_file)
    np.testing.assert_array_equal(on_file, rows)
    again = here.transform(frame.drop(columns="y"))
    np.testing.assert_array_equal(there.transform(opened.drop("y")), again)
    some = np.array([3, 109, 110, 299])
    np.testing.assert_array_equal(there.transform(opened.drop("y").take(some)), again[some])
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_a_parquet_file_makes_the_model_of_a_frame(tmp_path):
    frame = table()
    frame.to_parquet(tmp_path / "t.parquet")
    opened = open_table(tmp_path / "t.parquet")
    X = frame.drop(columns="y")
    one = MondrianKernelRegressor(n_estimators=5, random_state=0).fit(X, frame["y"])
    other = MondrianKernelRegressor(n_estimators=5, random_state=0)
    other.fit(opened.drop("y"), opened["y"])
    np.testing.assert_array_equal(other.predict_interval(X), one.predict_interval(X))
    np.testing.assert_array_equal(other.predict(opened.drop("y")), one.predict(X))
    assert other.feature_names_in_.tolist() == ["a", "b", "kind", "is", "many"]


def test_errors_name_the_culprit(tmp_path):
    frame = table()
    frame.loc[200, "b"] = np.inf
    frame.loc[5, "y"] = None
    frame.to_parquet(tmp_path / "t.parquet")
    opened = open_table(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="Column 'b' contains infinity, first in row 200"):
        MondrianKernelRegressor().fit(opened.drop("y"), np.zeros(300))
    with pytest.raises(ValueError, match="y contains NaN, first in row 5"):
        MondrianKernelRegressor().fit(opened.drop("y"), opened["y"])
    with pytest.raises(KeyError, match="no column 'z'"):
        opened.drop("z")
    frame = table().drop(columns="y")
    model = MondrianKernelRegressor(1.0, 0.1, 3).fit(frame, np.arange(300))
    frame[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="The table has no rows"):
        model.predict(open_table(tmp_path / "empty.parquet"))
    with pytest.raises(KeyError, match="no column 'z'"):
        open_table(tmp_path / "t.parquet", ["a", "z"])


def test_too_full_a_disk_is_said(monkeypatch, tmp_path):
    full = SimpleNamespace(free=10)
    monkeypatch.setattr(on_disk.shutil, "disk_usage", lambda folder: full)
    with pytest.raises(OSError, match="Set the environment variable TMPDIR"):
        on_disk.blank_rows(1000, 10)
    assert list(tmp_path.iterdir()) == []
