import json

import pytest

from benchmarks.record import Run, path_of


def run(folder, quick=False):
    return Run(data=folder, out=folder, quick=quick)


def test_parts_share_a_file_and_a_part_begins_afresh(tmp_path):
    run(tmp_path).section("one").put(1.0, "a", "b")
    run(tmp_path).section("two").put(2, "c")
    run(tmp_path).section("one").put(3, "d")
    found = json.loads(path_of(tmp_path).read_text())
    assert found["two"]["c"] == 2
    assert found["one"]["d"] == 3
    assert "a" not in found["one"]
    assert found["one"]["seed"] == 0
    assert found["one"]["machine"]["cpus"] >= 1


def test_a_part_of_which_some_methods_are_measured_keeps_the_others(tmp_path):
    run(tmp_path).section("one").put(1.0, "a", "b")
    run(tmp_path).section("one", keep=True).put(2.0, "a", "c")
    assert json.loads(path_of(tmp_path).read_text())["one"]["a"] == {"b": 1.0, "c": 2.0}


def test_every_entry_is_on_disk_at_once_and_a_bad_one_spoils_nothing(tmp_path):
    section = run(tmp_path).section("one")
    section.put([1, 2], "a")
    with pytest.raises(TypeError):
        section.put(object(), "b")
    assert json.loads(path_of(tmp_path).read_text())["one"]["a"] == [1, 2]


def test_a_quick_run_does_not_touch_the_results(tmp_path):
    run(tmp_path).section("one").put(1, "a")
    run(tmp_path, quick=True).section("one").put(2, "a")
    assert json.loads(path_of(tmp_path).read_text())["one"]["a"] == 1
    assert json.loads(path_of(tmp_path, quick=True).read_text())["one"]["a"] == 2
