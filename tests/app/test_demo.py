"""The demonstration compares methods on generated data, and leaves a report."""

import json
import re

import pytest

from mondrian_kernel import _settings as settings
from mondrian_kernel.app.main import main


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "DEMO_ROWS", 400)
    monkeypatch.setattr(settings, "DEMO_COMPILE_ROWS", 50)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_is_better_than_others_and_its_intervals_follow_the_noise(small, capsys):
    assert main(["demo", "--seed", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    errors = {name: method["rmse"] for name, method in result["methods"].items()}
    best = errors.pop("Mondrian kernel, defaults")
    assert result["noise"] < best < min(errors.values())
    assert max(errors, key=errors.get) == "RidgeCV"
    parts = result["intervals"]
    least, most = parts["fifth with the least noise"], parts["fifth with the most noise"]
    assert (
        least["interval_width"] < parts["all test rows"]["interval_width"] < most["interval_width"]
    )
    assert len(result["lifetimes"]) == len(result["lifetime_weights"])
    assert min(result["importance"], key=result["importance"].get) == "x6"
    report = (small / result["report"]).read_text(encoding="utf-8")
    assert f"The error (root mean squared) is {best:.3g}." in report
    assert f"has {errors['HistGradientBoosting']:.3g}." in report


def test_demo_in_words(small, capsys):
    assert main(["demo", "--report", "mine.html"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"fit and predict\n    Mondrian kernel, defaults +0\.\d+ ", out)
    assert "fifth with the most noise" in out
    assert "report in mine.html; open it in a browser" in out
    assert (small / "mine.html").exists()
    assert not (small / "mondrian-demo.html").exists()


def test_an_impossible_report_is_refused_at_once(small, capsys):
    assert main(["demo", "--report", "no/where.html"]) == 1
    assert capsys.readouterr() == ("", "mondrian-kernel: no: there is no such folder.\n")
