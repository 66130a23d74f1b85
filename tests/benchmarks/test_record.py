import json
import time
from dataclasses import replace

import pytest

from benchmarks.record import Cell, Key, Options, Results, path_of, run


@pytest.fixture
def options(tmp_path):
    return Options(data=tmp_path, out=tmp_path)


def answer(*values):
    return {"values": list(values)}


def fail(path):
    raise ValueError("no luck") if not path.exists() else AssertionError


def plan(*names, call=answer, arguments=(1,)):
    return {Key(name, 0, "a"): Cell(call, arguments) for name in names}


def cells_of(options, part="part"):
    return {cell["set"]: cell for cell in json.loads(path_of(part, options).read_text())["cells"]}


def test_a_run_goes_on_where_it_was_and_again_means_again(options, capsys):
    run("part", plan("x"), options)
    run("part", plan("x", "y", arguments=(2,)), options)
    assert "1 cells to measure, 1 kept" in capsys.readouterr().out
    found = cells_of(options)
    assert (found["x"]["values"], found["y"]["values"]) == ([1], [2])
    run("part", plan("x", arguments=(3,)), replace(options, again=True))
    assert cells_of(options)["x"]["values"] == [3]


def test_every_cell_knows_the_run_that_measured_it(options):
    run("part", plan("x"), options)
    run("part", plan("y"), options)  # alike
    run("part", plan("z"), replace(options, seed=7))
    results = Results(path_of("part", options))
    assert [cell["run"] for cell in results.cells.values()] == [0, 0, 1]
    assert [found["seed"] for found in results.runs] == [0, 7]
    assert results.runs[0]["versions"]["numpy"]


def test_a_cell_that_fails_is_told_and_tried_again(options, capsys):
    run("part", plan("x", call=fail, arguments=(options.out / "none",)), options)
    assert cells_of(options)["x"]["failed"] == "ValueError: no luck"
    assert "no luck" in capsys.readouterr().out
    run("part", plan("x"), options)
    assert cells_of(options)["x"]["values"] == [1]


def test_a_cell_gets_what_it_needs_in_any_order(options):
    first, second = Key("x", 0, "a"), Key("x", 0, "b")
    both = {second: Cell(answer, (1,), (first,)), first: Cell(answer, (5,))}
    run("part", both, options)
    _, needed = Results(path_of("part", options)).cells[second]["values"]
    assert needed["values"] == [5]


def test_a_cell_whose_need_ran_out_of_time_says_so(options):
    first, second = Key("x", 0, "a"), Key("x", 0, "b")
    both = {first: Cell(time.sleep, (60,)), second: Cell(answer, (1,), (first,))}
    run("part", both, replace(options, limit=0.05))
    cells = Results(path_of("part", options)).cells
    assert cells[first]["over_seconds"] == 0.05
    assert cells[second]["failed"] == "needs x / 0 / a first"


def test_sets_and_methods_are_chosen_by_name(options):
    run("part", plan("x", "y"), replace(options, sets=["y"]))
    assert list(cells_of(options)) == ["y"]
    with pytest.raises(SystemExit, match="unknown set 'z'; there are: x, y"):
        run("part", plan("x", "y"), replace(options, sets=["z"]))
    with pytest.raises(SystemExit, match="unknown method"):
        run("part", plan("x"), replace(options, methods=["b"]))


def test_a_bad_value_spoils_nothing_and_no_draft_stays(options):
    results = Results(options.out / "part.json")
    results.begin({})
    results.put(Key("x", 0, "a"), {"error": 1.0})
    with pytest.raises(TypeError):
        results.put(Key("y", 0, "a"), {"error": object()})
    assert list(cells_of(options)) == ["x"]
    assert [path.name for path in options.out.iterdir()] == ["part.json"]


def test_quick_runs_and_more_threads_have_files_of_their_own(options):
    quick = options.made_quick()
    assert (quick.rows, quick.splits) == (300, 2)
    paths = {path_of("part", o) for o in (options, quick, replace(options, threads=2))}
    assert len(paths) == 3
