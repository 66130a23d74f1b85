"""The file: a checksummed prefix, a JSON header and the arrays.

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

import hashlib
import json
import struct
from typing import Any, NoReturn

from mondrian_kernel.persistence.file_writing import PathLike

FORMAT = 1
_MAGIC = b"\x89MONDR\r\n"
_PREFIX = struct.Struct("<8sIIQ")
_DIGEST_SIZE = 32


class ModelFileError(ValueError):
    """A model file that cannot be trusted: foreign, damaged, too new or inconsistent."""


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
    if number > FORMAT:
        raise ModelFileError(
            f"It has the format number {number}; this version of mondrian_kernel reads numbers up "
            f"to {FORMAT}. Upgrade mondrian_kernel, or the file is damaged."
        )
    if len(data) < length:
        raise ModelFileError(f"It is truncated: {len(data)} of {length} bytes.")
    if len(data) > length or number < 1 or start + header_length > length:
        raise ModelFileError("It is damaged: its prefix contradicts its length or format.")
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
        return start + file.read() if start == _MAGIC else start


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
