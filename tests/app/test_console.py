"""The bar tells what is left, and is seen on terminals only."""

import time

import pytest
from numba.core import event

from mondrian_kernel import _settings as settings
from mondrian_kernel.app import console as module
from mondrian_kernel.app.console import Console, Progress


@pytest.fixture
def progress(monkeypatch):
    """Progress at a time that the test sets; it starts at 100 seconds."""
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    progress = Progress(enabled=False)
    progress.stage("working")
    progress.clock = clock
    return progress


def test_time_gone_by_before_anything_is_heard(progress):
    assert progress.line(103.0) == "working ... 0:00:03"


def test_time_left(progress):
    progress.clock[0] = 110.0
    progress(1, 4, {})
    assert progress.line(110.0) == "working [######------------------] 1/4, 0:00:30 left"
    assert progress.line(125.0) == "working [######------------------] 1/4, 0:00:15 left"
    assert progress.line(150.0) == "working ... 0:00:50"
    progress.clock[0] = 160.0
    progress(4, 4, {})
    assert progress.line(160.0) == "working ... 0:01:00"


def test_time_left_of_a_step(progress):
    progress(3, 7, {"stage": "solving", "share": 0.5, "seconds_left": 40.0})
    wanted = "working 4/7: solving [############------------]"
    assert progress.line(100.0) == f"{wanted} 0:00:40 left"
    assert progress.line(110.0) == f"{wanted} 0:00:30 left"
    progress(4, 7, {})
    assert "solving" not in progress.line(110.0)


def test_fewer_steps_begin_anew(progress):
    progress.clock[0] = 120.0
    progress(3, 4, {})
    progress.clock[0] = 130.0
    progress(1, 2, {})
    assert progress.line(131.0) == "working ... 0:00:01"


def test_seconds_of_every_stage(progress):
    progress.clock[0] = 103.0
    progress.stage("more")
    progress.clock[0] = 107.0
    assert progress.stage_seconds() == {"working": 3.0, "more": 4.0}


def test_a_terminal_sees_it_and_it_goes_away(capsys, monkeypatch):
    monkeypatch.setattr(settings, "PROGRESS_SECONDS", 0.01)
    progress = Progress(enabled=True)
    progress.stage("working")
    time.sleep(0.1)
    for _ in range(2):
        with event.trigger_event("numba:compile"):
            pass
    time.sleep(0.1)
    progress.print_above("note: look\n")
    time.sleep(0.1)
    progress.clear()
    err = capsys.readouterr().err
    assert err.count("note: compiling takes some seconds, once on this machine.\n") == 1
    assert "\r\x1b[Kworking ... 0:00:00" in err
    assert "\r\x1b[Knote: look\n\r\x1b[Kworking" in err
    assert err.endswith("\r\x1b[K")
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("terminal", "quiet"), [(False, False), (True, True)])
def test_pipes_and_the_quiet_see_nothing(terminal, quiet, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    console = Console(as_json=False, quiet=quiet)
    console.progress.stage("working")
    console.progress(1, 2, {})
    console.result({}, "done")
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("done\n\n  time\n    working ") != quiet
