"""The experiments of the paper are run and their claims told."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mondrian_kernel import experiments
from mondrian_kernel.app.main import main


@dataclass
class Claim:
    text: str
    measured: dict
    held: bool
    remark: str = ""


@dataclass
class Outcome:
    name: str
    skipped: str | None = None
    claims: list = field(default_factory=list)
    files: list = field(default_factory=list)


@pytest.fixture
def asked(monkeypatch):
    """Stand-in for the experiments, which records what it was asked for."""
    asked = {}

    def run(names, **options):
        asked.update(options, names=names)
        options["progress"](1, 2, "first")
        claims = [
            Claim("it is fast", {"seconds": 1.5}, True),
            Claim("small", {}, False, "not ours"),
        ]
        return [
            Outcome("first", claims=claims, files=[Path("a.json")]),
            Outcome("second", skipped="no data"),
        ]

    monkeypatch.setattr(experiments, "run", run)
    return asked


def test_all_by_default(asked, capsys):
    assert main(["reproduce", "--quick", "--seed", "3"]) == 0
    progress = asked.pop("progress")
    assert callable(progress)
    assert asked == {
        "names": None, "data": None, "out": Path("reproduced"), "quick": True, "seed": 3,
    }  # fmt: skip
    assert capsys.readouterr().out.partition("\n  time\n")[0] == (
        "first\n  held: it is fast\n      seconds: 1.5\n  NOT HELD: small\n      (not ours)\n\n"
        "second\n  skipped: no data\n\nresults in reproduced\n"
    )


def test_some_as_json(asked, capsys):
    assert main(["reproduce", "a", "b", "--data", "d", "--out", "o", "--json"]) == 0
    assert (asked["names"], asked["data"], asked["out"]) == (["a", "b"], Path("d"), Path("o"))
    result = json.loads(capsys.readouterr().out)
    assert result["experiments"][0]["claims"][0]["measured"] == {"seconds": 1.5}
    assert result["experiments"][0]["files"] == ["a.json"]


def test_ctrl_c_says_what_is_kept(asked, monkeypatch, capsys):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "run", interrupted)
    assert main(["reproduce"]) == 1
    assert "Stopped; finished experiments are in reproduced." in capsys.readouterr().err
