"""The file itself: written whole or not at all, and any damage noticed."""

import os
import pickle
import struct

import numpy as np
import pytest

from mondrian_kernel import MondrianFeatures
from mondrian_kernel.persistence import ModelFileError, load, save

X = np.random.default_rng(0).normal(size=(8, 3))


def features(n_trees=3):
    return MondrianFeatures(0.7, n_trees, random_state=0).fit(X)


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_no_other(call, error, tmp_path, monkeypatch):
    path = tmp_path / "m"
    save(features(), path)
    before = path.read_bytes()

    def fail(*args):
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        save(features(5), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_save_follows_links_and_the_umask(tmp_path):
    save(features(), tmp_path / "m")
    (tmp_path / "plain").touch()
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "link").symlink_to(tmp_path / "m")
    save(features(5), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "m").n_estimators == 5


@pytest.mark.parametrize("mask", [0xFF, 0x01])
def test_every_flipped_byte_is_noticed(mask, tmp_path):
    path = tmp_path / "m"
    save(features(), path)
    data = path.read_bytes()
    for i, byte in enumerate(data):
        path.write_bytes(data[:i] + bytes([byte ^ mask]) + data[i + 1 :])
        with pytest.raises(ModelFileError):
            load(path)


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "m"
    save(features(), path)
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        with pytest.raises(ModelFileError, match="truncated" if length else "not a file of"):
            load(path)


def test_appended_bytes_are_noticed(tmp_path):
    save(features(), tmp_path / "m")
    with open(tmp_path / "m", "ab") as file:
        file.write(b"\0")
    with pytest.raises(ModelFileError, match="damaged"):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\r\n", b"PK\x03\x04" + bytes(999), pickle.dumps(1)]
)
def test_a_foreign_file_is_refused(content, tmp_path):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"Cannot load '.*m'\. It is not a file of"):
        load(tmp_path / "m")


def test_missing_files_and_folders_are_the_systems_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "m")
    with pytest.raises(OSError, match=r"directory|denied"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        save(features(), tmp_path / "no" / "m")
    with pytest.raises(OSError, match=r"directory|denied"):
        save(features(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_newer_format_is_refused(tmp_path):
    save(features(), tmp_path / "m")
    data = bytearray((tmp_path / "m").read_bytes())
    struct.pack_into("<I", data, 8, 2)
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match=r"format number 2; .*up to 1"):
        load(tmp_path / "m")
