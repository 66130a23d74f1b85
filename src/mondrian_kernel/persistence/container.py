"""The file: a checksummed prefix, a JSON header and the bytes of arrays.

All numbers are little-endian::

    8 bytes   magic
    4 bytes   format number
    4 bytes   length of the header
    8 bytes   length of the file
    32 bytes  BLAKE2b of everything else
    header    JSON in ASCII
    body      bytes of the arrays, one after the other
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings

PathLike = str | os.PathLike[str]
FORMAT = 8
_MAGIC = b"\x89MONDR\r\n"
_PREFIX = struct.Struct("<8sIIQ")
_DIGEST_SIZE = 32
_DTYPES = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
# Types in which a file may hold an array, if no number changes: the first one that does.
_FEWER_BYTES = {
    "<f8": ["<f4"],
    "<i4": ["|i1", "<i2", "<u2"],
    "<i8": ["|i1", "<i2", "<u2", "<i4"],
}
_LAST_CHARACTER = 0x10FFFF


class ModelFileError(ValueError):
    """A model file that cannot be trusted: foreign, damaged, of another format or inconsistent."""


def pack(header: dict[str, Any], chunks: list[bytes]) -> list[bytes]:
    """Return the parts of a file, in order."""
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode("ascii")
    length = _PREFIX.size + _DIGEST_SIZE + len(text) + sum(map(len, chunks))
    prefix = _PREFIX.pack(_MAGIC, FORMAT, len(text), length)
    return [prefix, _digest(prefix, text, *chunks), text, *chunks]


def unpack(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and the body of a file, or say why it cannot be read."""
    if data[: len(_MAGIC)] != _MAGIC[: len(data)] or not data:
        raise ModelFileError("It is not a file of mondrian_kernel.")
    start = _PREFIX.size + _DIGEST_SIZE
    if len(data) < start:
        raise ModelFileError(f"It is truncated: {len(data)} bytes, less than its prefix.")
    _, number, header_length, length = _PREFIX.unpack_from(data)
    if number != FORMAT:
        raise ModelFileError(
            f"It has the format number {number}, but this version of mondrian_kernel reads "
            f"{FORMAT}. Use the version that wrote the file, or the file is damaged."
        )
    if len(data) < length:
        raise ModelFileError(f"It is truncated: {len(data)} of {length} bytes.")
    if len(data) > length or start + header_length > length:
        raise ModelFileError("It is damaged: its prefix contradicts its length.")
    view = memoryview(data)
    if _digest(view[: _PREFIX.size], view[start:]) != data[_PREFIX.size : start]:
        raise ModelFileError("It is damaged: its checksum does not match its contents.")
    try:
        text = str(view[start : start + header_length], "ascii")
        header = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"Its header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise ModelFileError("Its header is not a JSON object.")
    return header, view[start + header_length :]


def read_bytes(path: PathLike) -> bytes:
    """Read a file; of a foreign one only the beginning."""
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC))
        if start != _MAGIC:
            return start
        file.seek(0)
        return file.read()


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class StoredArray(NamedTuple):
    """What the header says of an array, whose numbers follow each other by column.

    ``dtype``, ``shape`` and ``order`` are those in memory. The file holds ``n_bytes`` bytes of
    them, compressed. ``in_file`` is the dtype there, with fewer bytes if that changes no number.
    """

    dtype: str
    shape: list[int]
    order: str
    in_file: str
    n_bytes: int

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def excess(self) -> int:
        """Bytes in memory beyond those that the bytes in the file allow."""
        return max(0, self.size - settings.FILE_EXPANSION * self.n_bytes)

    def check(self) -> None:
        """Raise ModelFileError unless there can be such an array."""
        dtype, shape, count = self.dtype, self.shape, (*self.shape, self.n_bytes)
        if any(type(n) is not int or n < 0 for n in count) or len(shape) > 8:
            raise ModelFileError(f"An array has the impossible shape {shape} or length.")
        is_text = dtype.startswith("<U") and dtype.isascii() and 0 < int(dtype[2:]) < 2**28
        if self.order not in ("C", "F") or not (is_text or dtype in _DTYPES):
            raise ModelFileError(f"An array has the unknown dtype {dtype!r} or order.")
        if self.in_file != dtype and self.in_file not in _FEWER_BYTES.get(dtype, ()):
            raise ModelFileError(f"An array of dtype {dtype!r} is stored as {self.in_file!r}.")


def stored_arrays(entries: list[Any], n_bytes: int) -> list[StoredArray]:
    """Return the arrays of a header, if a body of ``n_bytes`` bytes can hold them.

    An array may have 64 times as many bytes in memory as in the file. What all arrays have beyond
    may be 16 MiB. So a small file cannot fill the memory.
    """
    arrays = [StoredArray(*entry) for entry in entries]
    for array in arrays:
        array.check()
    if sum(array.n_bytes for array in arrays) != n_bytes:
        raise ModelFileError(f"Its arrays do not have the {n_bytes} bytes that there are.")
    if sum(array.excess for array in arrays) > settings.FILE_EXPANSION_FREE:
        raise ModelFileError("Its arrays claim far more memory than the file has bytes.")
    return arrays


def store(values: list[NDArray[Any]]) -> tuple[list[StoredArray], list[bytes]]:
    """Return arrays as the header has them, and their bytes, which threads compress.

    Arrays that would be too small for :func:`stored_arrays` are not compressed.
    """
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(_store, values))
    excess = 0
    for k, (stored, _) in enumerate(found):
        if excess + stored.excess > settings.FILE_EXPANSION_FREE:
            found[k] = _store(values[k], level=0)
        excess += found[k][0].excess
    return [stored for stored, _ in found], [chunk for _, chunk in found]


def little_endian(value: NDArray[Any]) -> NDArray[Any]:
    """Return an array as a file holds it, or raise TypeError for values that none can hold."""
    value = value.astype(value.dtype.newbyteorder("<"), copy=False)
    if value.dtype.str not in _DTYPES and not (value.dtype.kind == "U" and value.dtype.itemsize):
        raise TypeError(f"an array of dtype {value.dtype}")
    return value


def _store(value: NDArray[Any], level: int = settings.FILE_LEVEL) -> tuple[StoredArray, bytes]:
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    held = _in_few_bytes(value)
    # By column: neighbours in a column of leaves or boxes are often equal.
    raw = held.ravel(order="F").view(np.uint8).data
    probe = raw[len(raw) // 2 :][: settings.FILE_PROBE]
    if len(zlib.compress(probe, level)) > settings.FILE_GAIN * len(probe):
        level = 0  # random digits: compression would take time only
    chunk = zlib.compress(raw, level)
    shape = list(value.shape)
    return StoredArray(value.dtype.str, shape, order, held.dtype.str, len(chunk)), chunk


def _in_few_bytes(value: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the smallest type in which all stay the same."""
    ends = value
    if value.dtype.kind == "i":
        ends = np.array([value.min(initial=0), value.max(initial=0)])
    for dtype in _FEWER_BYTES.get(value.dtype.str, ()):
        with np.errstate(over="ignore"):
            if (ends.astype(dtype) == ends).all():
                return value.astype(dtype)
    return value


def restore(arrays: list[StoredArray], body: memoryview) -> list[NDArray[Any]]:
    """Return the arrays of a file from its body, which threads decompress."""
    ends = list(accumulate(array.n_bytes for array in arrays))
    chunks = [body[a:b] for a, b in pairwise([0, *ends])]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(_restore, arrays, chunks))


def _restore(stored: StoredArray, chunk: memoryview) -> NDArray[Any]:
    inflate = zlib.decompressobj()
    size = math.prod(stored.shape) * np.dtype(stored.in_file).itemsize
    raw = inflate.decompress(chunk, size + 1)
    if len(raw) != size or not inflate.eof or inflate.unused_data:
        raise ModelFileError(f"An array of shape {stored.shape} has other bytes.")
    if stored.dtype == "|b1" and raw.strip(b"\0\1"):
        raise ModelFileError("An array of truth values holds others than 0 and 1.")
    is_text = stored.dtype.startswith("<U")
    if is_text and np.frombuffer(raw, "<u4").max(initial=0) > _LAST_CHARACTER:
        raise ModelFileError("An array of text holds an impossible character.")
    array: NDArray[Any] = np.frombuffer(raw, stored.in_file).reshape(stored.shape, order="F")
    dtype = np.dtype(stored.dtype).newbyteorder("=")
    return array.astype(dtype, order="C" if stored.order == "C" else "F")


def write_file(path: PathLike, parts: Iterable[bytes]) -> None:
    """Write a file.

    A regular file, or one that is not there yet, is written beside its place and then moved
    there: on failure nothing has changed. It keeps the permissions, the owner and the group of the
    file it replaces, as far as the system lets it; if not the group, the group may not read it.
    What is neither (a device, a pipe) is opened and written to. A link is followed.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with _naming(path), open(path, "wb") as device:
            device.writelines(parts)
        return
    target = os.path.realpath(path)
    # A name of its own: that of the file may already be as long as the system allows.
    temporary = os.path.join(os.path.dirname(target), f".mondrian-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        # Nobody may read the new file who may not read the old one, not even for a moment.
        descriptor = os.open(temporary, flags, 0o666 if old is None else 0o600)
        with _naming(path), open(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            os.chmod(temporary, _keep_owner(temporary, old))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Put the name of a file into errors of writing to it, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # else the message would be lost
            error.filename = os.fspath(path)
        raise


def _keep_owner(file: str, old: os.stat_result) -> int:
    """Give a file the owner and the group of another; return the permissions it may then have."""
    mode, new = stat.S_IMODE(old.st_mode), os.stat(file)
    for owner in (old.st_uid, -1):
        try:
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                os.chown(file, owner, old.st_gid)
            return mode
        except PermissionError:
            continue
    return mode & ~stat.S_IRWXG
