"""The command runs what it is asked for and prints the claims."""

from pathlib import Path

import pytest

from experiments import __main__ as command
from experiments.claims import Claim, Outcome


@pytest.fixture
def asked(monkeypatch):
    """Replace the experiments by a record of what was asked for."""
    asked = {}

    def run(names, **options):
        asked.update(options, names=names)
        options["progress"](1, 2, "first")
        claims = [
            Claim("it is fast", {"seconds": 1.5}, True),
            Claim("small", {}, False, "not ours"),
        ]
        return [Outcome("first", claims=claims), Outcome("second", skipped="no data")]

    monkeypatch.setattr(command, "run", run)
    return asked


@pytest.mark.parametrize("names", [[], ["all"]])
def test_all_by_default(asked, capsys, names):
    command.main([*names, "--quick", "--seed", "3"])
    assert asked == {
        "names": None,
        "data": None,
        "out": Path("reproduced"),
        "quick": True,
        "seed": 3,
        "progress": command._tell,
    }
    printed = capsys.readouterr()
    assert printed.err == " 50 %  first\n"
    assert printed.out == (
        "first\n  held: it is fast\n      seconds: 1.5\n  NOT HELD: small\n      (not ours)\n\n"
        "second\n  skipped: no data\n\nresults in reproduced\n"
    )


def test_some(asked):
    command.main(["a", "b", "--data", "d", "--out", "o"])
    assert (asked["names"], asked["data"], asked["out"]) == (["a", "b"], Path("d"), Path("o"))


def test_unknown_name(capsys, tmp_path):
    with pytest.raises(SystemExit):
        command.main(["figure-1", "--out", str(tmp_path)])
    assert "There is no experiment 'figure-1'; there are partition," in capsys.readouterr().err


def test_ctrl_c_says_what_is_kept(monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    with pytest.raises(SystemExit, match="finished experiments are in reproduced"):
        command.main([])
