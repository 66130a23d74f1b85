"""The command line as a whole: help, exit codes, one sentence for every error."""

import os
import subprocess
import sys

import pytest

from mondrian_kernel import MondrianFeatures, __version__, save
from mondrian_kernel.app.main import main

COMMANDS = ["demo", "fit", "predict", "path", "update", "inspect"]


def failure(words, capsys):
    """Run what must fail; return its one sentence."""
    assert main([str(word) for word in words]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mondrian-kernel: ")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith(".\n")
    return captured.err


def test_the_package_can_be_run():
    words = [sys.executable, "-m", "mondrian_kernel", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"mondrian-kernel {__version__}"


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.strip() == f"mondrian-kernel {__version__}"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_two_examples(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    examples = capsys.readouterr().out.partition("\nexamples:\n")[2].splitlines()
    assert len(examples) == 2
    assert all(f"mondrian-kernel {command}" in example for example in examples)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom mondrian_kernel.app.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'sklearn', 'pyarrow', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["no-such-command"],
        ["demo", "--seed", "x"],
        ["demo", "--seed", "-1"],
        ["fit", "data.csv"],
        ["fit", "data.csv", "--target", "y", "--holdout", "1"],
        ["fit", "data.csv", "--target", "y", "--task", "ranking"],
        ["fit", "data.csv", "--target", "y", "--trees", "0"],
        ["fit", "data.csv", "--target", "y", "--jobs", "many"],
        ["predict", "model"],
        ["inspect", "model", "--seed", "1"],
        ["predict", "model", "data.csv", "--interval", "0"],
        ["predict", "model", "data.csv", "--interval", "90"],
    ],
)
def test_wrong_words_exit_with_two(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: mondrian-kernel" in capsys.readouterr().err


def test_missing_files_and_folders(houses, tmp_path, capsys):
    nowhere = tmp_path / "no" / "where"
    assert "where: No such file" in failure(["inspect", nowhere], capsys)
    assert "where: No such file" in failure(["fit", nowhere, "--target", "y"], capsys)
    assert "Is a directory" in failure(["fit", tmp_path, "--target", "y"], capsys)
    for option in ("--output", "--report"):
        words = ["fit", houses, "--target", "price", option, nowhere]
        assert "no: there is no such folder" in failure(words, capsys)


@pytest.mark.parametrize("option", ["--output", "--report"])
def test_models_and_reports_go_to_files(option, houses, capsys):
    message = failure(["fit", houses, "--target", "price", option, "-"], capsys)
    assert "Only predictions can be written to a pipe" in message


def test_what_is_no_model_is_refused(houses, tmp_path, capsys):
    assert "It is not a file of mondrian_kernel" in failure(["inspect", houses], capsys)
    save(MondrianFeatures(1.0, 2).fit([[0.0], [1.0]]), tmp_path / "features")
    message = failure(["predict", tmp_path / "features", houses], capsys)
    assert "holds a MondrianFeatures, not a model that 'fit' has written" in message


def test_debug_shows_the_traceback(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "none"), "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_unexpected_is_one_sentence_too(models, monkeypatch, capsys):
    def broken(file):
        raise RuntimeError("a wheel came off")

    monkeypatch.setattr("mondrian_kernel.app.commands.load", broken)
    message = failure(["inspect", models["regression"]], capsys)
    assert "An unexpected RuntimeError: a wheel came off" in message


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModuleNotFoundError("x", name="pyarrow"), "pip install 'mondrian-kernel[cli]'"),
        (ModuleNotFoundError("x", name="matplotlib"), "pip install 'mondrian-kernel[plot]'"),
        (MemoryError(), "not enough memory"),
        (ValueError("two\n  lines."), "two lines."),
        (KeyboardInterrupt(), "Stopped; nothing was written."),
    ],
)
def test_errors_say_what_to_do(error, sentence, models, monkeypatch, capsys):
    def broken(file):
        raise error

    monkeypatch.setattr("mondrian_kernel.app.commands.load", broken)
    assert sentence in failure(["inspect", models["regression"]], capsys)


def test_warnings_are_notes(models, monkeypatch, capsys):
    import warnings

    from mondrian_kernel import load

    def warned(file):
        warnings.warn("the best lies at the end", UserWarning, stacklevel=1)
        return load(file)

    monkeypatch.setattr("mondrian_kernel.app.commands.load", warned)
    assert main(["inspect", models["regression"]]) == 0
    assert capsys.readouterr().err == "note: the best lies at the end\n"
    assert main(["inspect", models["regression"], "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("command", ["predict", "inspect"])
@pytest.mark.parametrize("unbuffered", [[], ["-u"]])
def test_a_closed_pipe_is_no_drama(command, unbuffered, models, houses):
    """What reads the output may have left: that is no error to be told."""
    code = "import sys; from mondrian_kernel.app.main import main; sys.exit(main())"
    words = [sys.executable, *unbuffered, "-c", code, command, models["regression"]]
    words += [houses] if command == "predict" else []
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, env=environment, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
