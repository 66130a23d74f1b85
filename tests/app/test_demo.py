"""The demonstration finds a width that is known, and leaves a report."""

import json

import pytest

from mondrian_kernel.app import path_demo_reproduce
from mondrian_kernel.app.main import main


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(path_demo_reproduce, "DEMO_ROWS", 300)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_finds_the_width_and_is_as_good_as_the_exact_kernel(small, capsys):
    assert main(["demo", "--seed", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert 5 / 3 < result["lifetime"] < 5 * 3
    low, high = result["lifetime_interval"]
    assert 0 < low < high
    errors = {name: rmse for name, (rmse, _) in result["rmse"].items()}
    ours, exact = errors["Mondrian kernel"], errors["exact Laplace kernel, 28 pairs searched"]
    assert ours < 1.1 * exact
    assert exact < errors["linear ridge"] <= errors["mean of y"]
    assert (small / result["report"]).read_text(encoding="utf-8").startswith("<!")


def test_demo_in_words(small, capsys):
    assert main(["demo", "--report", "mine.html"]) == 0
    out = capsys.readouterr().out
    assert "lifetime (true 5)" in out
    assert "report in mine.html; open it in a browser." in out
    assert (small / "mine.html").exists()
    assert not (small / "mondrian-demo.html").exists()


def test_an_impossible_report_is_refused_at_once(small, capsys):
    assert main(["demo", "--report", "no/where.html"]) == 1
    assert capsys.readouterr() == ("", "mondrian-kernel: no: there is no such folder.\n")
