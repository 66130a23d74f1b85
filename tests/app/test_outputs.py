"""Where and how the command line writes: files, devices, closed or poor standard outputs."""

import csv
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest

from house_table import rows, write
from mondrian_kernel import load
from mondrian_kernel.app.console import printable
from mondrian_kernel.app.main import main

FAST = ["--target", "price", "--drop", "sold", "--trees", "5"]


def run(*words, env=(), **options):
    """Run the command line in a process of its own."""
    words = [sys.executable, "-m", "mondrian_kernel", *map(str, words)]
    environment = dict(os.environ) | dict(env)
    return subprocess.run(words, env=environment, stderr=subprocess.PIPE, **options)


def failure(capsys, *words):
    """Run what must fail at once; return its one sentence."""
    assert main([str(word) for word in words]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.fixture
def no_fit(monkeypatch):
    def fitted(*args, **options):
        raise AssertionError("a fit has begun")

    monkeypatch.setattr("mondrian_kernel.app.commands.fit_table", fitted)


# ---- places, checked before any work ---------------------------------------------------------


@pytest.mark.usefixtures("no_fit")
class TestPlaces:
    def test_a_folder(self, houses, tmp_path, capsys):
        for option in ("--output", "--report"):
            message = failure(capsys, "fit", houses, *FAST, option, tmp_path)
            assert f"{tmp_path}: it is a folder; give the name of a file." in message

    def test_model_and_report_in_one_file(self, houses, tmp_path, capsys):
        (tmp_path / "link").symlink_to(tmp_path)
        words = ["-o", tmp_path / "one", "--report", tmp_path / "link" / "one"]
        assert "one: this command uses the file twice" in failure(
            capsys, "fit", houses, *FAST, *words
        )

    @pytest.mark.parametrize("option", ["--output", "--report"])
    def test_the_data_are_not_replaced(self, option, houses, capsys):
        message = failure(capsys, "fit", houses, *FAST, option, houses)
        assert "uses the file twice; give another name" in message

    def test_a_name_that_is_too_long(self, houses, tmp_path, capsys):
        message = failure(capsys, "fit", houses, *FAST, "-o", tmp_path / ("n" * 300))
        assert "File name too long" in message

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_must_not_be_written(self, houses, tmp_path, capsys):
        (tmp_path / "locked").mkdir(mode=0o500)
        message = failure(capsys, "fit", houses, *FAST, "-o", tmp_path / "locked" / "m")
        assert "locked: you may not write here." in message


def test_predictions_do_not_replace_model_or_data(models, houses, capsys):
    for file in (models["regression"], houses):
        message = failure(capsys, "predict", models["regression"], houses, "-o", file)
        assert "uses the file twice" in message


def test_a_long_name_can_be_saved(houses, tmp_path):
    file = tmp_path / ("n" * 240)
    assert main(["fit", houses, *FAST, "-o", str(file), "--quiet"]) == 0
    assert load(file).n_rows == 60


def test_an_update_keeps_the_permissions(models, houses, tmp_path):
    model = shutil.copy(models["regression"], tmp_path / "model")
    os.chmod(model, 0o600)
    assert main(["update", str(model), houses, "--quiet"]) == 0
    assert stat.S_IMODE(os.stat(model).st_mode) == 0o600


# ---- standard output -------------------------------------------------------------------------


def test_predictions_to_the_device_of_the_standard_output(models, houses, tmp_path):
    words = ["predict", models["regression"], houses]
    plain = run(*words, stdout=subprocess.PIPE)
    device = run(*words, "-o", "/dev/stdout", stdout=subprocess.PIPE)
    assert (device.returncode, device.stderr) == (0, b"")
    assert device.stdout == plain.stdout != b""
    with (tmp_path / "all").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        run(*words, "-o", "/dev/stdout", stdout=file)
    assert (tmp_path / "all").read_bytes() == b"before\n" + plain.stdout


def test_a_model_to_a_device_leaves_the_device(houses):
    assert main(["fit", houses, *FAST, "-o", "/dev/null", "--quiet"]) == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("output", ["closed", "full", "left", "ascii"])
def test_a_saved_model_is_no_failure_whatever_the_standard_output(output, houses, tmp_path):
    words, options = ["fit", houses, *FAST, "-o", tmp_path / "m"], {}
    if output == "closed":
        options["preexec_fn"] = lambda: os.close(1)
    if output == "ascii":
        options |= {"env": {"PYTHONIOENCODING": "ascii"}, "stdout": subprocess.PIPE}
    reader, writer = os.pipe()
    if output == "left":
        os.close(reader)
        options["stdout"] = writer
    with open("/dev/full", "wb") as full:
        if output == "full":
            options["stdout"] = full
        done = run(*words, **options)
    assert done.returncode == 0
    assert load(tmp_path / "m").n_rows == 60
    told = done.stderr.decode()
    if output in ("full", "left"):
        assert re.fullmatch(r"note: standard output: .*\. The model is saved in .*m\.\n", told)
    else:
        assert told == ""
    if output == "ascii":
        assert "R2 " in done.stdout.decode("ascii")


def test_a_full_disk_is_named(models, houses):
    for words in (["inspect", models["regression"]], ["predict", models["regression"], houses]):
        with open("/dev/full", "wb") as full:
            done = run(*words, stdout=full)
        assert done.returncode == 1
        assert done.stderr == b"mondrian-kernel: standard output: No space left on device.\n"


def test_predictions_need_a_standard_output_or_a_file(models, houses, tmp_path):
    closed = {"preexec_fn": lambda: os.close(1)}
    done = run("predict", models["regression"], houses, **closed)
    assert done.returncode == 1
    assert b"The standard output is closed: give the name of a file with -o." in done.stderr
    assert (
        run("predict", models["regression"], houses, "-o", tmp_path / "p", **closed).returncode == 0
    )


def test_json_on_a_poor_standard_output(tmp_path):
    table = [{"größe": row["area"], "price": row["price"]} for row in rows()]
    data = write(tmp_path / "t.csv", table)
    words = ["fit", data, "--target", "price", "--trees", "5", "-o", tmp_path / "m", "--json"]
    done = run(*words, env={"PYTHONIOENCODING": "ascii"}, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert list(json.loads(done.stdout)["columns"]) == ["größe"]


# ---- names that steer ------------------------------------------------------------------------


def test_control_characters_are_shown_and_not_sent():
    assert printable("a\x1b[31m\x07\x9b\u202eb\r") == r"a\x1b[31m\x07\x9b\u202eb\r"
    assert printable("grün\n猫 👩‍🔬") == "grün\n猫 👩‍🔬"
    assert printable("\udcff") == r"\udcff"


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_names_do_not_steer_the_terminal(as_json, tmp_path, capsys):
    table = [{"a\x1b[2J\x9bb": row["area"], "y\x1b]0": row["price"]} for row in rows()]
    file = str(tmp_path / "m\x1b[31m")
    data = write(tmp_path / "t\x1b.csv", table)
    words = ["fit", data, "--target", "y\x1b]0", "--trees", "5", "-o", file]
    assert main([*words, *as_json]) == 0
    assert main(["inspect", file, *as_json]) == 0
    assert main(["fit", data, "--target", "\x1b[31mz"]) == 1
    captured = capsys.readouterr()
    for text in captured:
        assert "1b" in text
        assert not set("\x1b\x9b") & set(text)


def predicted(text):
    return list(csv.reader(io.StringIO(text)))


def test_formulas_are_text_in_csv_files(tmp_path, capsys):
    kinds = ["=1+1", "-1", "@x"]
    table = [{"a": k, "=cmd()": kinds[k % 3]} for k in range(60)]
    data = write(tmp_path / "t.csv", table)
    assert main(["fit", data, "--target", "=cmd()", "--trees", "5", "-o", str(tmp_path / "m")]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "m"), data]) == 0
    head, *lines = predicted(capsys.readouterr().out)
    assert head[0] == "'=cmd()"
    assert {line[0] for line in lines} <= {"'=1+1", "-1", "'@x"}
    assert main(["predict", str(tmp_path / "m"), data, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert {row["=cmd()"] for row in plain} <= set(kinds)


@pytest.mark.parametrize("target", ["lower", "upper"])
def test_a_target_named_like_an_end_keeps_its_prediction(target, tmp_path, capsys):
    table = [{"area": row["area"], target: row["price"]} for row in rows()]
    data, model = write(tmp_path / "t.csv", table), str(tmp_path / "m")
    assert main(["fit", data, "--target", target, "--trees", "20", "-o", model, "--quiet"]) == 0
    assert main(["predict", model, data, "--interval", "0.9"]) == 0
    head, *lines = predicted(capsys.readouterr().out)
    assert head == [target, f"{target}_lower", f"{target}_upper"]
    mean, low, high = np.array(lines, float).T
    assert ((low < mean) & (mean < high)).all()
