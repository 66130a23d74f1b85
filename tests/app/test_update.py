"""A saved model learns further rows: all of them, or none."""

import json
import shutil

import numpy as np
import pytest

from house_table import rows, write
from mondrian_kernel import _settings as settings
from mondrian_kernel import load
from mondrian_kernel.app.main import main
from mondrian_kernel.app.tables import read_table

both = pytest.mark.parametrize("model", ["regression", "classification"], indirect=True)


@pytest.fixture
def model(models, tmp_path, request):
    """A copy of a model of the houses."""
    return shutil.copy(models[getattr(request, "param", "regression")], tmp_path / "model")


@pytest.fixture
def more(tmp_path):
    return write(tmp_path / "more.csv", rows(25, seed=1))


def failure(capsys, model, data):
    """Try an update which must fail and change nothing; return its sentence."""
    before = model.read_bytes()
    assert main(["update", str(model), str(data)]) == 1
    assert model.read_bytes() == before
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def scores(model, X):
    estimator = model.estimator
    return estimator.predict(X) if model.task == "regression" else estimator.predict_proba(X)


@both
def test_update_learns(model, more, capsys):
    before = load(model)
    assert main(["update", str(model), more]) == 0
    assert f"{model}: learnt 25 more rows, 85 in all" in capsys.readouterr().out
    after = load(model)
    assert after.n_rows == 85
    X = before.frame(read_table(more))
    assert not np.allclose(scores(after, X), scores(before, X))
    assert main(["predict", str(model), more]) == 0
    assert main(["update", str(model), more]) == 0
    assert load(model).n_rows == 110


def test_intervals_after_an_update(model, more, capsys):
    assert main(["update", str(model), more, "--quiet"]) == 0
    assert main(["predict", str(model), more, "--interval", "0.9", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert all(row["lower"] < row["price"] < row["upper"] for row in table)


def test_update_to_another_place(model, more, tmp_path, capsys):
    contents = model.read_bytes()
    assert main(["update", str(model), more, "-o", str(tmp_path / "new"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result.pop("seconds")) == [
        "reading model and table",
        "learning",
        "saving the model",
    ]
    assert result == {"rows_learnt": 25, "rows": 85, "model": str(tmp_path / "new")}
    assert model.read_bytes() == contents
    assert load(tmp_path / "new").n_rows == 85


def test_a_missing_target_is_named(model, tmp_path, capsys):
    table = rows(5)
    table[3]["price"] = ""
    data = write(tmp_path / "bad.csv", table)
    message = failure(capsys, model, data)
    assert f"{data}: row 4 below the header, column 'price' is missing" in message


def test_a_table_without_the_target_is_refused(model, tmp_path, capsys):
    (tmp_path / "bad.csv").write_text("area,kind\n1,brick\n")
    assert "there is no column 'price'" in failure(capsys, model, tmp_path / "bad.csv")


@pytest.mark.parametrize("model", ["classification"], indirect=True)
def test_a_new_class_is_named(model, tmp_path, capsys):
    table = rows(5)
    table[2]["sold"] = "perhaps"
    message = failure(capsys, model, write(tmp_path / "bad.csv", table))
    assert "row 3 below the header, column 'sold' is 'perhaps', a class the model" in message


@both
def test_ctrl_c_changes_nothing(model, more, capsys, monkeypatch):
    cls = type(load(model).estimator)
    learn = cls.partial_fit
    calls = []

    def interrupted(self, X, y):
        calls.append(len(y))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return learn(self, X, y)

    monkeypatch.setattr(settings, "LEARN_BLOCK_ROWS", 10)
    monkeypatch.setattr(cls, "partial_fit", interrupted)
    assert failure(capsys, model, more) == f"mondrian-kernel: Stopped; {model} is as it was.\n"
    assert calls == [10, 10]
