"""The file itself: written whole or not at all, and any damage noticed."""

import os
import pickle
import struct

import numpy as np
import pytest

from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor
from mondrian_kernel.persistence import ModelFileError, load, save
from mondrian_kernel.persistence.container import (
    FORMAT,
    little_endian,
    restore,
    store,
    stored_arrays,
)

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


@pytest.mark.parametrize("number", [0, FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused(number, tmp_path):
    save(features(), tmp_path / "m")
    data = bytearray((tmp_path / "m").read_bytes())
    struct.pack_into("<I", data, 8, number)
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match=f"format number {number}, but .* reads {FORMAT}"):
        load(tmp_path / "m")


def round_trip(array):
    (stored,), (chunk,) = store([little_endian(array)])
    (again,) = stored_arrays([list(stored)], len(chunk))
    return restore([again], memoryview(chunk))[0], stored


@pytest.mark.parametrize("value", [0.5, -0.0, np.inf, 2.0**127])
def test_doubles_that_single_precision_holds_take_half_the_bytes(value):
    array = np.full((5, 3), value)
    again, stored = round_trip(array)
    assert (stored.dtype, stored.in_file) == ("<f8", "<f4")
    assert again.dtype == np.float64
    assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize("value", [0.1, 1e300, 1e-300, np.nan, 2.0**24 + 1])
def test_other_doubles_keep_every_bit(value):
    array = np.array([0.5, value])
    again, stored = round_trip(array)
    assert stored.in_file == stored.dtype == "<f8"
    assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("dtype", "in_file"), [("<f4", "<f8"), ("<i8", "<f4"), ("<i2", "|i1"), ("<f8", "<f2")]
)
def test_an_array_is_stored_as_itself_or_in_fewer_bytes(dtype, in_file):
    with pytest.raises(ModelFileError, match="is stored as"):
        stored_arrays([[dtype, [1], "C", in_file, 0]], 0)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u8"])
def test_whole_numbers_keep_their_values_and_dtype(dtype):
    bounds, native = np.iinfo(dtype), np.dtype(dtype).newbyteorder("=")
    for low, high in [
        (bounds.min, bounds.max),
        (bounds.min, bounds.min + 100),
        (bounds.max - 100, bounds.max),
        (5, 5),
        (0, 127),
        (0, min(255, bounds.max)),
        (0, min(256, bounds.max)),
        (max(-1, bounds.min), min(2**15, bounds.max)),
    ]:
        array = np.array([low, high, (low + high) // 2], dtype)
        again, stored = round_trip(array)
        np.testing.assert_array_equal(again, array.astype(native), strict=True)
        if dtype in ("i4", "i8") and (low, high) == (0, 127):
            assert stored.in_file == "|i1"
        assert again.flags.writeable


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f4", "f8", ">f8", "U1", "U3", ">U3"])
def test_arrays_keep_shape_dtype_and_layout(shape, dtype):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for order in "CF":
        array = np.array(values.astype(dtype), order=order)
        again, _ = round_trip(array)
        np.testing.assert_array_equal(again, array)
        assert again.dtype == array.dtype.newbyteorder("=")
        assert again.flags.c_contiguous == array.flags.c_contiguous
        assert again.flags.f_contiguous == array.flags.f_contiguous


def test_a_model_is_small(tmp_path):
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    model = MondrianKernelRegressor(3.0, 0.1, 50, random_state=0).fit(rows, rows[:, 0])
    save(model, tmp_path / "m")
    record = model.model_
    whole = [record.rows.leaf, *(a for a in record.trees.nodes if a.dtype == np.int32)]
    whole = sum(array.size for array in whole) + record.levels.column.size
    fractions = [record.cell_weights, record.rows.Y, *record.trees.nodes]
    fractions = sum(array.nbytes for array in fractions if array.dtype == np.float64)
    assert (tmp_path / "m").stat().st_size < 1.3 * whole + fractions
