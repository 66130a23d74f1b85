"""The CPU data: its split, its places, and what is said without it."""

import gzip
from urllib.error import URLError

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import experiments
from experiments import cpu_data
from experiments.cpu_data import DataMissing, load_cpu


@pytest.fixture
def folder(tmp_path):
    """Rows (i, 2i) with target 10 i, in the shape of the file."""
    lines = ["a,b,usr", *(f"{i},{2 * i},{10 * i}" for i in range(2000))]
    (tmp_path / "cpu_act.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    def refuse(**kwargs):
        raise URLError("offline")

    monkeypatch.delenv("MONDRIAN_KERNEL_DATA", raising=False)
    monkeypatch.setattr(cpu_data, "fetch_openml", refuse)


def test_split(folder):
    split = load_cpu(folder, quick=False, seed=0)
    i = np.arange(2000)
    assert_array_equal(split.X[:, 0], i[i % 10 < 8])
    assert_array_equal(split.X_validation[:, 0], i[i % 10 == 8])
    assert_array_equal(split.X_test, np.stack([i, 2 * i], axis=1)[i % 10 == 9])
    assert_array_equal(split.y_test, 10.0 * i[i % 10 == 9] + 1)
    assert split.name == "CPU"


def test_quick_takes_fewer_rows_of_the_same_split(folder):
    split = load_cpu(folder, quick=True, seed=0)
    assert split.X.shape == (800, 2)
    assert len(set(split.X[:, 0])) == 800
    assert np.all(split.X[:, 0] % 10 < 8)
    assert len(split.X_test) == 200
    assert "800" in split.name


def test_errors_are_relative_to_the_targets(folder):
    split = load_cpu(folder, quick=False, seed=0)
    assert split.percent("train", split.centred) == 0.0
    assert split.percent("test", split.y_test - split.mean) == 0.0
    assert split.percent("validation", -split.mean + 0 * split.y_validation) == 100.0


def test_folder_of_the_environment(folder, monkeypatch):
    monkeypatch.setenv("MONDRIAN_KERNEL_DATA", str(folder))
    assert len(load_cpu(None, quick=False, seed=0).y) == 1600


def test_wrong_folder_is_named(tmp_path):
    for quick in (False, True):
        with pytest.raises(DataMissing, match=r"cpu_act\.csv\.gz does not exist"):
            load_cpu(tmp_path, quick=quick, seed=0)


def test_online(offline, monkeypatch):
    def fetch(*, data_id, **kwargs):
        assert data_id == 197
        return np.arange(40).reshape(20, 2), np.arange(20)

    monkeypatch.setattr(cpu_data, "fetch_openml", fetch)
    split = load_cpu(None, quick=False, seed=0)
    assert split.y_test.tolist() == [10.0, 20.0]
    assert split.X.dtype == np.float64


@pytest.mark.usefixtures("offline")
def test_without_it_the_experiment_is_skipped(tmp_path):
    (outcome,) = experiments.run(["cpu-error"], out=tmp_path)
    assert "MONDRIAN_KERNEL_DATA" in outcome.skipped
    assert outcome.claims == outcome.files == []
    assert not list((tmp_path / "results").iterdir())


@pytest.mark.usefixtures("offline")
def test_stand_in_is_for_quick_runs_without_a_folder():
    split = load_cpu(None, quick=True, seed=0)
    assert split.name == "synthetic stand-in"
    assert split.X.max() > 9e5
    assert len(split.X) == 800
    assert len(split.X_validation) == len(split.X_test) == 200
    with pytest.raises(DataMissing):
        load_cpu(None, quick=False, seed=0)
