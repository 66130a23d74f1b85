"""The lifetime path of a table: as words, as JSON, as a picture."""

import json

import numpy as np
import pytest

from mondrian_kernel._path.loss_path import LossLearner
from mondrian_kernel._path.ridge_path import RidgeLearner
from mondrian_kernel.app.main import main

TARGETS = {"regression": ("price", "sold"), "classification": ("sold", "price")}


def words(houses, task, *more):
    target, other = TARGETS[task]
    return ["path", houses, "--target", target, "--drop", other, "--trees", "20", *more]


def result(houses, task, capsys):
    assert main(words(houses, task, "--json")) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("task", TARGETS)
def test_path_as_json(task, houses, capsys):
    found = result(houses, task, capsys)
    path = found["path"]
    score = {"regression": "rmse_left_out", "classification": "log_loss_held_out"}[task]
    assert found["task"] == task
    assert found["complete"]
    lifetimes = [row["lifetime"] for row in path]
    assert lifetimes == sorted(lifetimes)
    best = path[int(np.argmin([row[score] for row in path]))]
    assert (found["best_lifetime"], found["best_alpha"]) == (best["lifetime"], best["alpha"])


@pytest.mark.parametrize("task", TARGETS)
def test_path_as_words(task, houses, capsys):
    found = result(houses, task, capsys)
    assert main(words(houses, task)) == 0
    table, _, times = capsys.readouterr().out.partition("\n\n  time\n")
    header, *lines = table.splitlines()
    assert "following the path" in times
    assert header.split()[:3] == ["lifetime", "cells", "alpha"]
    assert len(lines) == len(found["path"])
    starred = [line for line in lines if line.endswith("*")]
    assert [float(line.split()[0]) for line in starred] == [
        pytest.approx(found["best_lifetime"], rel=1e-4)
    ]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_path_as_a_picture(ending, houses, tmp_path, capsys):
    file = tmp_path / f"path.{ending}"
    assert main(words(houses, "regression", "--plot", str(file))) == 0
    assert f"drawn in {file}" in capsys.readouterr().out
    assert file.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")


def test_other_pictures_are_refused_at_once(houses, tmp_path, capsys):
    assert main(words(houses, "regression", "--plot", str(tmp_path / "path.doc"))) == 1
    assert "a picture is a file .png, .svg, .pdf" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "learner"), [("regression", RidgeLearner), ("classification", LossLearner)]
)
def test_ctrl_c_shows_the_path_so_far(task, learner, houses, capsys, monkeypatch):
    whole = result(houses, task, capsys)["path"]
    score = learner.score

    def interrupted(self, *args):
        yield next(score(self, *args))
        raise KeyboardInterrupt

    monkeypatch.setattr(learner, "score", interrupted)
    assert main(words(houses, task, "--json")) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err.startswith("note: stopped: this is the path up to lifetime")
    assert not found["complete"]
    assert found["path"] == whole[: len(found["path"])]
    assert len(found["path"]) < len(whole)


def test_a_sample_is_told(houses, capsys):
    assert main(words(houses, "regression", "--max-rows", "30", "--json")) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rows"] == 30
    assert captured.err.startswith("note: a random sample of 30 of 60 rows is used")


def test_ctrl_c_at_once_shows_nothing(houses, capsys, monkeypatch):
    def interrupted(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(LossLearner, "score", interrupted)
    assert main(words(houses, "classification")) == 1
    assert capsys.readouterr() == ("", "mondrian-kernel: Stopped; nothing was written.\n")
