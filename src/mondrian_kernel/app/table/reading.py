"""Read a table from a file or a pipe: CSV or TSV, plain or gzipped, and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray

MISSING = ["", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>"]
_SEPARATORS = "\t;,"
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_HEADER = 2**20


class TableError(ValueError):
    """A table that cannot be used; names the file and, where there is one, row and column."""


class Table:
    """Named columns of text or numbers, and where they came from.

    Parameters
    ----------
    source : str
        Name of the file, for errors.
    data : pyarrow.Table
        The columns.
    """

    def __init__(self, source: str, data: Any) -> None:
        names = data.column_names
        for position, name in enumerate(names):
            if not name.strip():
                raise TableError(f"{source}: column {position + 1} has no name in the header.")
            if names.index(name) < position:
                raise TableError(f"{source}: two columns are named {name!r}.")
        if data.num_rows == 0:
            raise TableError(f"{source}: there are no rows below the header.")
        self.source, self._data = source, data
        self.names: list[str] = names
        self.n_rows: int = data.num_rows

    def require(self, names: list[str]) -> None:
        """Refuse a table that lacks a column."""
        for name in names:
            if name not in self.names:
                there = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
                raise TableError(f"{self.source}: there is no column {name!r}; it has {there}.")

    def numbers(self, name: str) -> FloatArray:
        """Return a column as numbers, NaN where they are missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._column(name)
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
            is_number = pc.fill_null(pc.match_substring_regex(column, _NUMBER), True)
            if not pc.all(is_number).as_py():
                row = pc.index(is_number, False).as_py()
                self.fail(row, name, f"holds {column[row].as_py()!r}, which is not a number")
        out: FloatArray = pc.cast(column, pa.float64(), safe=False).to_numpy().astype(np.float64)
        infinite = np.flatnonzero(np.isinf(out))
        if infinite.size:
            self.fail(infinite[0], name, "is infinite")
        return out

    def texts(self, name: str) -> NDArray[Any]:
        """Return a column as text, None where it is missing; a number has one way to be written."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._column(name)
        if not pa.types.is_string(column.type):
            column = pc.cast(column, pa.string())
        encoded = pc.dictionary_encode(column).combine_chunks()
        words = np.array([_plain(word) for word in encoded.dictionary.to_pylist()] + [None], object)
        index = pc.fill_null(encoded.indices, len(words) - 1).to_numpy()
        texts: NDArray[Any] = words[index]
        return texts

    def share_of_numbers(self, name: str) -> float:
        """Part of the values that are numbers, of those not missing; NaN where all are missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._column(name)
        if pa.types.is_boolean(column.type):
            return 0.0
        if not pa.types.is_string(column.type):
            return 1.0
        is_number = pc.match_substring_regex(pc.utf8_trim_whitespace(column), _NUMBER)
        share = pc.mean(is_number).as_py()
        return float("nan") if share is None else float(share)

    def fail(self, row: int, name: str, problem: str) -> NoReturn:
        """Raise an error about one value, by its row counted from 0."""
        where = f"row {row + 1} below the header, column {name!r}"
        raise TableError(f"{self.source}: {where} {problem}.")

    def _column(self, name: str) -> Any:
        """Return a column as text, integers, floats without NaN, or truth values."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import types

        column = self._data.column(name)
        if types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        kind = column.type
        if types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind):
            return column
        if types.is_large_string(kind) or types.is_null(kind):
            return pc.cast(column, pa.string())
        if types.is_floating(kind) or types.is_decimal(kind):
            column = pc.cast(column, pa.float64())
            return pc.if_else(pc.is_nan(column), None, column)
        raise TableError(
            f"{self.source}: column {name!r} holds values of type {kind}; numbers, text and truth "
            "values can be used."
        )


def read_table(source: str) -> Table:
    r"""Read a table.

    What it is shows in its contents, not in its name: Parquet and gzip by their first bytes, the
    separator of a text file (tab, semicolon or comma) by the header.

    Parameters
    ----------
    source : str
        Name of the file; "-" reads the standard input.

    Returns
    -------
    table : Table
        Its columns. Those of a text file are text, turned into numbers where they are used.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from mondrian_kernel.app.table.reading import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "rooms.csv"
    ...     _ = file.write_text("area,kind\n12.5,kitchen\n,hall\n")
    ...     table = read_table(str(file))
    >>> table.numbers("area"), table.texts("kind")
    (array([12.5,  nan]), array(['kitchen', 'hall'], dtype=object))
    """
    import pyarrow as pa
    import pyarrow.parquet

    name = "standard input" if source == "-" else source
    data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        if data[:4] == b"PAR1":
            return Table(name, pyarrow.parquet.read_table(pa.BufferReader(data)))
        return Table(name, _parse(data, name))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(f"{name}: it is damaged: {error}.") from error
    except pa.ArrowException as error:
        raise TableError(f"{name}: {_reason(str(error))}.") from error


def _parse(data: bytes, name: str) -> Any:
    """Parse the text of a table, every column as text."""
    import pyarrow as pa
    import pyarrow.csv

    if not data.strip():
        raise TableError(f"{name}: it is empty.")
    start = data[:_HEADER].decode("utf-8-sig", errors="replace").lstrip("\r\n")
    line = start.partition("\n")[0]
    separator = max(_SEPARATORS, key=line.count)
    header = next(csv.reader(io.StringIO(start, newline=""), delimiter=separator))
    if not data.rstrip(b"\r\n").count(b"\n"):
        raise TableError(f"{name}: there are no rows below the header.")
    return pyarrow.csv.read_csv(
        pa.BufferReader(data),
        # One thread, so that an error tells its row.
        read_options=pyarrow.csv.ReadOptions(use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            null_values=MISSING, strings_can_be_null=True,
        ),
    )  # fmt: skip


def _reason(message: str) -> str:
    """Arrow's message, with rows counted below the header."""
    first = message.strip().partition("\n")[0].rstrip(".")
    ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", first)
    if ragged:
        row, expected, got = (int(number) for number in ragged.groups())
        return f"row {row - 1} below the header has {got} values where the header has {expected}"
    utf8 = re.search(r"column #(\d+): Row #(\d+): .*invalid UTF8", first)
    if utf8:
        column, row = int(utf8[1]), int(utf8[2])
        return f"row {row - 1} below the header, column number {column + 1} is not in UTF-8"
    return first


def _plain(word: str) -> str:
    """Write a number as its shortest decimal and truth in small letters, trim other text.

    So 1, 1.0 and 01 are one word, as are True and true, whatever kind of file they come from.
    """
    word = word.strip()
    if word.lower() in ("true", "false"):
        return word.lower()
    if not re.match(_NUMBER, word):
        return word
    number = float(word)
    return str(int(number)) if number.is_integer() else repr(number)
