"""The command line."""

import pytest

from mondrian_kernel import __version__, cli
from mondrian_kernel.datasets import make_laplace_gp


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.strip() == f"mondrian-kernel {__version__}"


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["demo", "--seed", "x"]])
def test_wrong_words_exit_with_two_and_no_traceback(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert "usage: mondrian-kernel" in capsys.readouterr().err


def test_demo_finds_the_width(capsys, monkeypatch):
    def smaller(n_samples, *args, **options):
        return make_laplace_gp(600, *args, **options)

    monkeypatch.setattr("mondrian_kernel.datasets.make_laplace_gp", smaller)
    assert cli.main(["demo", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    lifetime = float(
        next(line for line in out.splitlines() if "lifetime (true" in line).split()[-1]
    )
    assert 5 / 3 < lifetime < 5 * 3


def test_interrupt_stops_cleanly(capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "demo", interrupted)
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == "stopped\n"
