"""The command line makes the model that Python makes of the same rows, part by part."""

import json

import numpy as np
import pandas as pd
import pytest

from mondrian_kernel import (
    MondrianKernelClassifier,
    MondrianKernelRegressor,
    load,
    open_table,
)
from mondrian_kernel import _settings as settings
from mondrian_kernel.app.main import main

RNG = np.random.default_rng(0)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(settings, "BLOCK_ROWS", 90)
    monkeypatch.setattr(settings, "NUMBERS_IN_MEMORY", 100)


def frame(n_rows):
    found = pd.DataFrame(RNG.normal(size=(n_rows, 2)), columns=["a", "b"])
    found["a"] = found["a"].where(found["b"] < 1.0)
    found["kind"] = RNG.choice(["u", "v", None], n_rows)
    found["y"] = found["b"] + (found["kind"] == "u") + 0.1 * RNG.normal(size=n_rows)
    return found


@pytest.mark.parametrize("n_rows", [400, 1100])  # equal rows are joined up to 1000
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers(n_rows, kind, tmp_path, small_parts):
    table, file = frame(n_rows), tmp_path / f"t.{kind}"
    if kind == "csv":
        table.to_csv(file, index=False)
    else:
        table.to_parquet(file, row_group_size=250)
    words = ["fit", file, "--target", "y", "--trees", 5, "--quiet", "-o", tmp_path / "m"]
    assert main([str(word) for word in words]) == 0
    X = table.drop(columns="y")
    python = MondrianKernelRegressor(n_estimators=5, random_state=0).fit(X, table["y"])
    np.testing.assert_array_equal(load(tmp_path / "m").estimator.predict(X), python.predict(X))


def test_classes_of_a_parquet_file(tmp_path, small_parts):
    table, file = frame(300), tmp_path / "t.parquet"
    table["y"] = np.where(table["y"] > 0.5, "high", "low")
    table.to_parquet(file)
    words = ["fit", file, "--target", "y", "--trees", 5, "--quiet", "-o", tmp_path / "m"]
    assert main([str(word) for word in words]) == 0
    opened, X = open_table(file), table.drop(columns="y")
    python = MondrianKernelClassifier(n_estimators=5, random_state=0)
    python.fit(opened.drop("y"), opened["y"])
    found = load(tmp_path / "m").estimator
    np.testing.assert_array_equal(found.predict_proba(X), python.predict_proba(X))


def test_a_row_is_named_by_its_place_in_the_file(tmp_path, small_parts, capsys):
    table, file = frame(300), tmp_path / "t.parquet"
    table.loc[210, "b"] = np.inf
    table.to_parquet(file)
    assert main(["fit", str(file), "--target", "y", "-o", str(tmp_path / "m")]) == 1
    assert "row 211 below the header, column 'b' is infinite" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_the_report_describes_the_model_that_is_saved(tmp_path, capsys):
    """Terminal and report have the same widths and cells, those of the fit to all rows."""
    frame(200).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", "t.csv", "--target", "y", "--trees", "5", "--json", "-o", "m", "--report", "r"]
    folder = dict.fromkeys(["t.csv", "m", "r"], str(tmp_path) + "/")
    assert main([folder.get(word, "") + word for word in words]) == 0
    told, page = json.loads(capsys.readouterr().out), (tmp_path / "r").read_text("utf-8")
    assert f"5 trees, {told['cells']} cells" in page
    for lifetime in told["lifetimes"]:
        assert f" {lifetime:.3g} (" in page
    assert "then fitted to all rows" in page
