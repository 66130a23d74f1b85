"""Fit, inspect and predict tables."""

import csv
import gzip
import io
import json
import re
import types
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

from house_table import rows, write
from mondrian_kernel import load
from mondrian_kernel.app.main import main


def run(capsys, *words):
    """Run what must succeed; return what it says."""
    assert main([str(word) for word in words]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def fit(capsys, data, *words):
    options = {"--target": "price", "--drop": "sold", "--trees": "20"}
    for name, value in options.items():
        if name not in words:
            words = [*words, name, value]
    return run(capsys, "fit", data, *words)


# ---- fit -------------------------------------------------------------------------------------


def test_fit_tells_and_saves(houses, tmp_path, capsys):
    out = fit(capsys, houses, "-o", tmp_path / "m")
    assert "predicting 'price' (regression, guessed; change it with --task)" in out
    assert "on 12 rows held out, by a model that had not seen them" in out
    assert "fitted to all rows, also those held out" in out
    assert re.search(r"by fifths of the prediction +\d+, \d+, \d+, \d+, \d+ %", out)
    shuffled = out.partition("importance: fall of R² on rows held out in the fit")[2].splitlines()[
        1:
    ]
    assert [line.split()[0] for line in shuffled[:2]] == ["area", "kind"]
    model = load(tmp_path / "m")
    assert (model.target, model.task, model.n_rows) == ("price", "regression", 60)
    first = model.estimator.feature_importances_[0]
    assert shuffled[0].split()[1] == f"{first:.3f}"
    assert model.held_out["r2"] > 0.8


def test_fit_as_json(houses, tmp_path, capsys):
    result = json.loads(fit(capsys, houses, "-o", tmp_path / "m", "--json"))
    model = load(tmp_path / "m")
    assert result["held_out"] == model.held_out
    importance = dict(zip(["area", "kind"], model.estimator.feature_importances_, strict=True))
    assert result["importance"] == importance
    described = json.loads(run(capsys, "inspect", tmp_path / "m", "--json"))
    assert described["importance"] == importance
    assert result["lifetimes"] == model.estimator.lifetimes_.tolist()
    assert_allclose(sum(result["lifetime_weights"]), 1)
    assert result["columns"] == {"area": None, "kind": ["brick", "stone", "wood"]}
    assert (result["rows"], result["rows_in_file"], result["trees"]) == (60, 60, 20)
    assert result["model_bytes"] == (tmp_path / "m").stat().st_size


def test_fit_quietly_to_the_usual_place(houses, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fit(capsys, houses, "--quiet") == ""
    assert load("model.mondrian").n_rows == 60


def test_the_seed_decides(houses, tmp_path, capsys):
    results = []
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        fit(capsys, houses, "-o", tmp_path / name, "--seed", seed)
        results.append((tmp_path / name).read_bytes())
    assert results[0] == results[1] != results[2]


def test_fit_classes(houses, tmp_path, capsys):
    out = fit(capsys, houses, "--target", "sold", "--drop", "price", "-o", tmp_path / "m")
    assert "predicting 'sold' (classification, guessed" in out
    assert "commonest class" in out
    assert load(tmp_path / "m").estimator.classes_.tolist() == ["no", "yes"]


def test_the_task_and_categories_can_be_chosen(tmp_path, capsys):
    table = [row | {"zone": str(k % 3)} for k, row in enumerate(rows())]
    data = write(tmp_path / "t.csv", table)
    words = ["--target", "zone", "--drop", "sold", "--drop", "price", "-o", tmp_path / "m"]
    out = fit(capsys, data, *words, "--task", "classification")
    assert "predicting 'zone' (classification)" in out
    assert load(tmp_path / "m").estimator.classes_.tolist() == ["0", "1", "2"]
    fit(capsys, data, "--categorical", "zone", "-o", tmp_path / "m")
    assert list(load(tmp_path / "m").categories) == ["area", "kind", "zone"]


def test_without_rows_held_out(houses, tmp_path, capsys):
    assert "no rows were held out" in fit(capsys, houses, "--holdout", 0, "-o", tmp_path / "m")


def test_stages_and_their_times(houses, tmp_path, capsys):
    out = fit(capsys, houses, "-o", tmp_path / "m")
    told = out.partition("  time\n")[2].partition("\n\n")[0].splitlines()
    stages = [re.fullmatch(r"    (.*\S) +\d+\.\d s", line)[1] for line in told]
    assert stages == [
        "reading the table",
        "fitting",
        "fitting all rows",
        "measuring on the rows held out",
        "saving the model",
        "in all",
    ]
    result = json.loads(fit(capsys, houses, "-o", tmp_path / "m", "--json"))
    assert list(result["seconds"]) == stages[:-1]


@pytest.mark.parametrize("target", ["1 2 3", "3 1 2", "2 3 1"])
def test_three_rows(target, tmp_path, capsys):
    table = [{"x": k, "y": y} for k, y in enumerate(target.split())]
    data = write(tmp_path / "t.csv", table)
    out = run(capsys, "fit", data, "--target", "y", "--trees", "5", "-o", tmp_path / "m")
    assert "on 1 row held out" in out
    assert load(tmp_path / "m").n_rows == 3
    run(capsys, "inspect", tmp_path / "m", "--json")


class TestDecimalComma:
    @pytest.fixture
    def comma(self, tmp_path):
        """The houses with decimal commas."""
        table = [{k: v.replace(".", ",") for k, v in row.items()} for row in rows()]
        return write(tmp_path / "komma.csv", table)

    def test_it_is_told_and_not_taken_for_classes(self, comma, capsys):
        assert main(["fit", comma, "--target", "price"]) == 1
        message = capsys.readouterr().err
        assert f"{comma}: column 'price' holds '" in message
        assert "a number with a decimal comma: read the file with --decimal ,; if" in message
        assert message.endswith("say --task classification.\n")

    def test_a_class_for_every_row_is_told(self, tmp_path, capsys):
        table = [row | {"price": f"{row['price']}{i} USD"} for i, row in enumerate(rows(120))]
        data = write(tmp_path / "usd.csv", table)
        assert main(["fit", data, "--target", "price"]) == 1
        message = capsys.readouterr().err
        assert "column 'price' has 120 different texts in 120 rows, such as '" in message
        assert message.endswith(
            "USD': turn it into numbers; if these are classes, say --task classification.\n"
        )

    def test_it_is_told_of_other_columns(self, comma, capsys):
        assert main(["fit", comma, "--target", "sold", "--drop", "price"]) == 1
        message = capsys.readouterr().err
        assert "column 'area' holds '" in message
        assert "--decimal ,; if these are categories, say --categorical 'area'." in message

    def test_the_option_reads_it(self, comma, houses, tmp_path, capsys):
        fit(capsys, comma, "--decimal", ",", "-o", tmp_path / "comma")
        fit(capsys, houses, "-o", tmp_path / "point")
        assert (tmp_path / "comma").read_bytes() == (tmp_path / "point").read_bytes()
        words = [("comma", comma, "--decimal", ","), ("point", houses)]
        one, two = (run(capsys, "predict", tmp_path / m, *more) for m, *more in words)
        assert one == two

    def test_currencies_are_told(self, tmp_path, capsys):
        table = [row | {"price": f"${row['price']}"} for row in rows()]
        data = write(tmp_path / "t.csv", table)
        assert main(["fit", data, "--target", "price"]) == 1
        assert "column 'price' holds '$" in capsys.readouterr().err


def test_a_report(houses, tmp_path, capsys):
    out = fit(capsys, houses, "-o", tmp_path / "m", "--report", tmp_path / "r.html")
    assert f"report in {tmp_path / 'r.html'}" in out
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<title>houses.csv</title>" in text
    assert "Regression of price" in text
    held_out = load(tmp_path / "m").held_out
    assert f"is {held_out['rmse']:.3g}." in text
    assert f"{held_out['rmse']:.4g}" in out


def test_a_report_that_fails_leaves_the_model(houses, tmp_path, capsys, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device", "r.html")

    monkeypatch.setattr("mondrian_kernel.app.report.write_page", full)
    words = ["fit", houses, "--target", "price", "--drop", "sold", "--trees", "5"]
    words += ["-o", str(tmp_path / "m"), "--report", str(tmp_path / "r.html")]
    assert main(words) == 1
    message = capsys.readouterr().err
    assert "No space left" in message
    assert message.endswith(f"the model is saved in {tmp_path / 'm'}, no report was written.\n")
    assert load(tmp_path / "m").n_rows == 60


def test_a_report_without_rows_held_out_is_refused_at_once(houses, tmp_path, capsys):
    words = ["fit", houses, "--target", "price", "--holdout", "0", "--report"]
    assert main([*words, str(tmp_path / "r.html"), "-o", str(tmp_path / "m")]) == 1
    assert "A report needs rows that are held out" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["houses.csv"]


def test_bad_rows_are_named_and_nothing_is_written(tmp_path, capsys):
    table = rows()
    table[4]["area"] = "wide"
    data = write(tmp_path / "t.csv", table)
    assert main(["fit", data, "--target", "price", "-o", str(tmp_path / "m")]) == 1
    assert capsys.readouterr().err == (
        f"mondrian-kernel: {data}: row 5 below the header, column 'area' holds 'wide', which is "
        "not a number.\n"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_ctrl_c_later_writes_nothing(houses, tmp_path, capsys, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mondrian_kernel.app.table_model.Measured", interrupt)
    assert main(["fit", houses, "--target", "price", "-o", str(tmp_path / "m")]) == 1
    assert capsys.readouterr().err == "mondrian-kernel: Stopped; nothing was written.\n"
    assert [file.name for file in tmp_path.iterdir()] == ["houses.csv"]


def test_ctrl_c_after_saving_says_so(houses, tmp_path, capsys, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mondrian_kernel.app.commands._fit_words", interrupt)
    file = tmp_path / "m"
    words = ["fit", houses, "--target", "price", "--trees", "5", "-o", str(file)]
    assert main(words) == 1
    assert capsys.readouterr().err == f"mondrian-kernel: Stopped; the model is saved in {file}.\n"


# ---- inspect ---------------------------------------------------------------------------------


def test_inspect(models, capsys):
    out = run(capsys, "inspect", models["regression"])
    assert "regression of 'price'" in out
    assert "3 categories: brick, stone, wood" in out
    result = json.loads(run(capsys, "inspect", models["classification"], "--json"))
    assert result["target"] == "sold"
    assert result["held_out"]["accuracy"] > 0.7


def test_inspect_models_that_were_saved_by_themselves(models, tmp_path, capsys):
    from mondrian_kernel import save

    estimator = load(models["regression"]).estimator
    save(estimator, tmp_path / "estimator")
    result = json.loads(run(capsys, "inspect", tmp_path / "estimator", "--json"))
    assert result["class"] == "MondrianKernelRegressor"
    assert result["lifetime_"] == estimator.lifetime_


# ---- predict ---------------------------------------------------------------------------------


def predicted(text, separator=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=separator))


def truth(name):
    return [row[name] for row in rows()]


def test_predict_numbers(models, houses, capsys):
    table = predicted(run(capsys, "predict", models["regression"], houses, "--interval", "0.8"))
    assert list(table[0]) == ["price", "lower", "upper"]
    mean, lower, upper = (np.array([float(row[c]) for row in table]) for c in table[0])
    y = np.array(truth("price"), float)
    assert np.corrcoef(mean, y)[0, 1] > 0.9
    assert ((lower < mean) & (mean < upper)).all()
    usual = predicted(run(capsys, "predict", models["regression"], houses))
    assert upper[0] < float(usual[0]["upper"])
    wide = predicted(run(capsys, "predict", models["regression"], houses, "--interval", "0.99"))
    assert float(usual[0]["upper"]) < float(wide[0]["upper"])


def test_predict_classes(models, houses, capsys):
    table = predicted(run(capsys, "predict", models["classification"], houses))
    assert list(table[0]) == ["sold", "P(sold=no)", "P(sold=yes)"]
    for row in table:
        yes = float(row["P(sold=yes)"])
        assert row["sold"] == ("yes" if yes > 0.5 else "no")
        assert_allclose(yes + float(row["P(sold=no)"]), 1)
    right = [row["sold"] == sold for row, sold in zip(table, truth("sold"), strict=True)]
    assert np.mean(right) > 0.8


def test_intervals_of_classes_are_refused(models, houses, capsys):
    assert main(["predict", models["classification"], houses, "--interval", "0.9"]) == 1
    assert "it predicts classes, which have no intervals" in capsys.readouterr().err


def test_predictions_of_many_blocks_are_those_of_one(models, houses, capsys, monkeypatch):
    whole = run(capsys, "predict", models["regression"], houses)
    monkeypatch.setattr("mondrian_kernel._settings.PREDICT_BLOCK_ROWS", 7)
    blocks = run(capsys, "predict", models["regression"], houses)
    assert_allclose(*([float(row["price"]) for row in predicted(t)] for t in (whole, blocks)))


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.parquet", "p"])
def test_the_name_says_the_kind_of_file(name, models, houses, tmp_path, capsys):
    file = tmp_path / name
    assert run(capsys, "predict", models["regression"], houses, "-o", file) == ""
    plain = predicted(run(capsys, "predict", models["regression"], houses))
    if name.endswith("parquet"):
        table = pq.read_table(file).to_pylist()
    else:
        read = gzip.decompress if name.endswith("gz") else bytes
        table = predicted(read(file.read_bytes()).decode(), "\t" if "tsv" in name else ",")
    assert [float(row["price"]) for row in table] == [float(row["price"]) for row in plain]


def test_predictions_as_json(models, houses, capsys):
    table = json.loads(run(capsys, "predict", models["classification"], houses, "--json"))
    assert len(table) == 60
    assert set(table[0]) == {"sold", "P(sold=no)", "P(sold=yes)"}


def test_predict_a_pipe(models, houses, capsys, monkeypatch):
    expected = run(capsys, "predict", models["regression"], houses)
    stream = io.BytesIO(gzip.compress(Path(houses).read_bytes()))
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=stream))
    assert run(capsys, "predict", models["regression"], "-") == expected


def test_rows_to_predict_may_lack_values_and_hold_new_categories(models, tmp_path, capsys):
    file = tmp_path / "new.csv"
    file.write_text("kind,area\nstraw,0.5\n,\nbrick,0.5\n")
    table = predicted(run(capsys, "predict", models["regression"], file))
    assert np.isfinite([float(row["price"]) for row in table]).all()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("area\n1\n", "there is no column 'kind', which the model predicts from; it has area."),
        ("area,kind\nbig,brick\n", "row 1 below the header, column 'area' holds 'big'"),
        ("area,kind\n1,brick\n1\n", "row 2 below the header has 1 values"),
        ("area,kind\n1,brick\ninf,brick\n", "row 2 below the header, column 'area' is infinite"),
    ],
)
def test_bad_rows_to_predict_leave_an_older_file(text, problem, models, tmp_path, capsys):
    (tmp_path / "new.csv").write_text(text)
    (tmp_path / "out.csv").write_text("older")
    words = ["predict", models["regression"], tmp_path / "new.csv", "-o", tmp_path / "out.csv"]
    assert main([str(word) for word in words]) == 1
    assert problem in capsys.readouterr().err
    assert (tmp_path / "out.csv").read_text() == "older"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failure_while_writing_leaves_an_older_file(
    models, houses, tmp_path, capsys, monkeypatch
):
    def full(descriptor):
        raise OSError(28, "No space left on device", "disk")

    (tmp_path / "out.csv").write_text("older")
    monkeypatch.setattr("os.fsync", full)
    words = ["predict", models["regression"], houses, "-o", str(tmp_path / "out.csv")]
    assert main(words) == 1
    assert "No space left" in capsys.readouterr().err
    assert (tmp_path / "out.csv").read_text() == "older"
    assert len(list(tmp_path.iterdir())) == 2
