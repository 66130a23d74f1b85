"""Read a table from a file or a pipe: CSV or TSV, plain or gzipped, and Parquet."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.on_disk import ParquetTable, TableParts

MISSING = ["", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>"]
_SEPARATORS = "\t;,"
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_QUOTED = r'(?m)(^|[\t;,])"[^"]*(?:""[^"]*)*"'
_UTF8_ADVICE = "save the file as UTF-8"
# The longer mark of UTF-32 begins with that of UTF-16.
_MARKS = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
# Numbers that are not read as such, by decimal sign: what they have, a pattern, what to do.
_THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"
_COMMA = r"^[+-]?(\d*|\d{1,3}([. ']\d{3})+),\d+$"
_UNIT = r"^[+-]?\s*[$€£¥]\s*[+-]?[\d.,' ]*\d$|^[+-]?\d[\d.,' ]*\s*[$€£¥%]$"
_WITH_UNIT = ("a currency or per cent sign", _UNIT, "take the sign out of the file")
_DATE = r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([ T]\d{1,2}:\d\d.*)?$"
_WITH_DATE = ("year, month and day", _DATE, "turn dates into numbers such as days, or --drop them")
_TAKE_OUT = "take the commas out, or read the file with --decimal , if they are decimal commas"
_DISGUISES = {
    ".": [
        ("commas between thousands", _THOUSANDS, _TAKE_OUT),
        ("a decimal comma", _COMMA, "read the file with --decimal ,"),
        _WITH_UNIT,
        _WITH_DATE,
    ],
    ",": [
        ("a decimal point", r"^[+-]?\d*\.\d+$", "read the file without --decimal ,"),
        _WITH_UNIT,
        _WITH_DATE,
    ],
}


@cache
def _arrow() -> Any:
    """Return pyarrow and its functions, which are imported when a table is read."""
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    return pa, pyarrow.compute


class TableError(ValueError):
    """A table that cannot be used; names the file and, where there is one, row and column."""


class Table:
    """Named columns of text or numbers, and where they came from.

    ``source`` is the name of the file, for errors; ``data`` a pyarrow table, or a Parquet file, of
    which columns are read when they are used; ``decimal`` the sign in numbers that are text;
    ``first`` the number of the first row, where this is a part of a table.
    """

    def __init__(self, source: str, data: Any, decimal: str = ".", first: int = 0) -> None:
        on_disk = isinstance(data, ParquetTable)
        names = data.columns if on_disk else data.column_names
        n_rows = data.n_rows if on_disk else data.num_rows
        for position, name in enumerate(names):
            if not name.strip():
                raise TableError(f"{source}: column {position + 1} has no name in the header.")
            if names.index(name) < position:
                raise TableError(f"{source}: two columns are named {name!r}.")
        if n_rows == 0:
            raise TableError(f"{source}: there are no rows below the header.")
        self.source, self._data, self._decimal, self._first = source, data, decimal, first
        self._disguises = _DISGUISES[decimal]
        self._number = _NUMBER.replace(r"\.", re.escape(decimal))
        self.names: list[str] = names
        self.n_rows: int = n_rows

    def require(self, names: list[str], why: str = "") -> None:
        """Raise an error if a column is not there; ``why`` says why it is needed."""
        for name in names:
            if name not in self.names:
                more = ", ..." if len(self.names) > settings.NAMES_IN_ERRORS else ""
                there = ", ".join(self.names[: settings.NAMES_IN_ERRORS]) + more
                raise TableError(
                    f"{self.source}: there is no column {name!r}{why}; it has {there}."
                )

    def numbers(self, name: str) -> FloatArray:
        """Return a column as numbers, NaN where they are missing."""
        pa, pc = _arrow()
        column = self._column(name)
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
            is_number = pc.fill_null(pc.match_substring_regex(column, self._number), True)
            if not pc.all(is_number).as_py():
                row = pc.index(is_number, False).as_py()
                word = column[row].as_py()
                advice = next((f": {a}" for _, p, a in self._disguises if re.match(p, word)), "")
                self.fail(row, name, f"holds {word!r}, which is not a number{advice}")
            if self._decimal != ".":
                column = pc.replace_substring(column, self._decimal, ".")
        out: FloatArray = pc.cast(column, pa.float64(), safe=False).to_numpy().astype(np.float64)
        infinite = np.flatnonzero(np.isinf(out))
        if infinite.size:
            self.fail(infinite[0], name, "is infinite")
        return out

    def texts(self, name: str) -> NDArray[Any]:
        """Return a column as text, None where it is missing; a number has one way to be written."""
        pa, pc = _arrow()
        column, decimal = self._column(name, exact=True), self._decimal
        if not pa.types.is_string(column.type):
            column, decimal = pc.cast(column, pa.string()), "."
        encoded = pc.dictionary_encode(column).combine_chunks()
        words = [_plain_word(word, decimal) for word in encoded.dictionary.to_pylist()]
        index = pc.fill_null(encoded.indices, len(words)).to_numpy()
        texts: NDArray[Any] = np.array([*words, None], object)[index]
        return texts

    def frame(self, is_text: dict[str, bool]) -> Any:
        """Return columns as a pyarrow table of text or numbers, with nulls for missing values."""
        pa, _ = _arrow()
        columns = {
            name: pa.array(self.texts(name), pa.string(), from_pandas=True)
            if text
            else pa.array(self.numbers(name), from_pandas=True)
            for name, text in is_text.items()
        }
        return pa.table(columns)

    def parts(self, is_text: dict[str, bool]) -> TableParts:
        """Return the same as :meth:`frame`, some rows at a time."""
        return _Frames(self, is_text)

    def pieces(self, names: list[str]) -> Iterator[Table]:
        """Yield columns of some rows at a time, as tables."""
        pa, _ = _arrow()
        first, data, n = 0, self._data, settings.BLOCK_ROWS
        with _clear_errors(self.source):
            if isinstance(data, ParquetTable):
                batches = ParquetTable(data.file, names).batches(n)
            else:
                batches = data.select(names).to_batches(n)
            for batch in batches:
                yield Table(self.source, pa.Table.from_batches([batch]), self._decimal, first)
                first += batch.num_rows

    def share_of_numbers(self, name: str) -> float:
        """Return the share of numbers among the values that are not missing; NaN if all are."""
        pa, _ = _arrow()
        column = self._column(name)
        if pa.types.is_boolean(column.type):
            return 0.0
        if not pa.types.is_string(column.type):
            return 1.0
        return _share(column, self._number)

    def refuse_disguised_numbers(self, name: str, otherwise: str) -> None:
        """Raise an error if a column of text holds numbers in another notation.

        The error ends with ``otherwise``: what to do if the values are not numbers.
        """
        pa, pc = _arrow()
        column = self._column(name)
        if not pa.types.is_string(column.type):
            return
        shares = [_share(column, pattern) for _, pattern, _ in self._disguises]
        looks, pattern, advice = self._disguises[int(np.argmax(shares))]
        if max(shares) > 0 and _share(column, f"{self._number}|{pattern}") >= 0.5:
            found = pc.match_substring_regex(pc.utf8_trim_whitespace(column), pattern)
            word = column[pc.index(pc.fill_null(found, False), True).as_py()].as_py()
            raise TableError(
                f"{self.source}: column {name!r} holds {word!r}, a number with {looks}: {advice}; "
                f"{otherwise}."
            )

    def fail(self, row: int, name: str, problem: str) -> NoReturn:
        """Raise an error about one value, by its row counted from 0."""
        where = f"row {self._first + row + 1} below the header, column {name!r}"
        raise TableError(f"{self.source}: {where} {problem}.")

    def _column(self, name: str, *, exact: bool = False) -> Any:
        """Return a column as text, integers, floats without NaN, or truth values.

        Decimals become floats, unless every digit is to be kept.
        """
        pa, pc = _arrow()
        types, data = pa.types, self._data
        with _clear_errors(self.source):
            column = data.read(name) if isinstance(data, ParquetTable) else data.column(name)
        if types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        kind = column.type
        if types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind):
            return column
        if types.is_large_string(kind) or types.is_null(kind):
            return pc.cast(column, pa.string())
        if types.is_decimal(kind) and exact:
            return column
        if types.is_floating(kind) or types.is_decimal(kind):
            column = pc.cast(column, pa.float64())
            return pc.if_else(pc.is_nan(column), None, column)
        raise TableError(
            f"{self.source}: column {name!r} holds values of type {kind}; use numbers, text or "
            "truth values, or leave it out (--drop)."
        )


class _Frames(TableParts):
    """Columns of a table as text or numbers, made of some rows at a time."""

    def __init__(self, table: Table, is_text: dict[str, bool]) -> None:
        self._table, self._is_text, self.n_rows = table, is_text, table.n_rows

    def __iter__(self) -> Iterator[Any]:
        for piece in self._table.pieces(list(self._is_text)):
            yield piece.frame(self._is_text)


@contextmanager
def _clear_errors(source: str) -> Iterator[None]:
    """Name the file in errors of pyarrow."""
    pa, _ = _arrow()
    try:
        yield
    except pa.ArrowException as error:
        raise TableError(f"{source}: {_first_line(error)}.") from error


def read_table(source: str, decimal: str = ".") -> Table:
    """Read a table from a file or, if its name is "-", from the standard input.

    The contents decide how it is read, not the name: Parquet, gzip and UTF-16 are known by their
    first bytes, the separator of a text file (tab, semicolon or comma) by the header. Columns of a
    text file are text, turned into numbers where they are used.
    """
    pa, _ = _arrow()
    name = "standard input" if source == "-" else source
    with _clear_errors(name):
        if source != "-" and Path(source).is_file():  # a pipe can be read once
            with Path(source).open("rb") as opened:
                if opened.read(4) == b"PAR1":
                    return Table(name, ParquetTable(source), decimal)
        if source == "-" and sys.stdin is None:
            raise TableError("standard input: it is closed; give the name of a file.")
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        if data[:2] == b"\x1f\x8b":
            try:
                data = gzip.decompress(data)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise TableError(f"{name}: it is damaged: {error}.") from error
        if data[:4] == b"PAR1":
            return Table(name, pa.parquet.read_table(pa.BufferReader(data)), decimal)
        return Table(name, _parse(_as_utf8_lines(data, name), name), decimal)


def _as_utf8_lines(data: bytes, name: str) -> bytes:
    """Turn UTF-16 and UTF-32 into UTF-8, and lines that end with a carriage return into others."""
    encoding = next((e for e, marks in _MARKS.items() if data.startswith(marks)), None)
    if encoding is not None:
        try:
            data = data.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise TableError(f"{name}: its text is not {encoding}; {_UTF8_ADVICE}.") from error
    if b"\0" in data[: settings.HEADER_BYTES]:
        raise TableError(
            f"{name}: it holds bytes that are zero: it is not a text file, or one in UTF-16 "
            f"without a mark; {_UTF8_ADVICE}."
        )
    return data if b"\n" in data else data.replace(b"\r", b"\n")


def _parse(data: bytes, name: str) -> Any:
    """Parse the text of a table, every column as text."""
    pa, _ = _arrow()
    if not data.strip():
        raise TableError(f"{name}: it is empty.")
    start = data[: settings.HEADER_BYTES].decode("utf-8-sig", errors="replace").lstrip("\r\n")
    line = re.sub(_QUOTED, r"\1", start).partition("\n")[0]
    separator = max(_SEPARATORS, key=line.count)
    header = next(csv.reader(io.StringIO(start, newline=""), delimiter=separator))
    for position, column in enumerate(header):
        if "\ufffd" in column and column.encode() not in data[: settings.HEADER_BYTES]:
            raise TableError(
                f"{name}: the name of column {position + 1} in the header is not in UTF-8; "
                f"{_UTF8_ADVICE}."
            )
    if not data.rstrip(b"\r\n").count(b"\n"):
        raise TableError(f"{name}: there are no rows below the header.")
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(header, pa.string()),
        null_values=MISSING,
        strings_can_be_null=True,
    )
    try:
        return pa.csv.read_csv(
            pa.BufferReader(data),
            # One thread, so that an error tells its row.
            read_options=pa.csv.ReadOptions(use_threads=False),
            parse_options=pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=convert,
        )
    except pa.ArrowException as error:
        raise TableError(f"{name}: {_reason(error, header)}.") from error


def _reason(error: Exception, header: list[str]) -> str:
    """Arrow's message, with rows counted below the header and columns by name."""
    first = _first_line(error)
    ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", first)
    if ragged:
        row, expected, got = (int(number) for number in ragged.groups())
        return f"row {row - 1} below the header has {got} values where the header has {expected}"
    utf8 = re.search(r"column #(\d+): Row #(\d+): .*invalid UTF8", first)
    if utf8:
        column, row = header[int(utf8[1])], int(utf8[2]) - 1
        return f"row {row} below the header, column {column!r} is not in UTF-8; {_UTF8_ADVICE}"
    return first


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def _share(column: Any, pattern: str) -> float:
    """Share of the texts that match a pattern, of those not missing; NaN if all are missing."""
    _, pc = _arrow()
    share = pc.mean(pc.match_substring_regex(pc.utf8_trim_whitespace(column), pattern)).as_py()
    return float("nan") if share is None else float(share)


def _plain_word(word: str, decimal: str) -> str:
    """Write a number as its shortest decimal and truth in small letters, trim other text.

    So 1, 1.0 and 01 are one word, as are True and true, whatever kind of file they come from.
    Whole numbers keep all their digits, also where a float would not.
    """
    word = word.strip()
    if word.lower() in ("true", "false"):
        return word.lower()
    if not re.match(_NUMBER.replace(r"\.", re.escape(decimal)), word):
        return word
    number = Decimal(word.replace(decimal, "."))
    if number.is_finite() and number.adjusted() < settings.EXACT_DIGITS and number == int(number):
        return str(int(number))
    return repr(float(number))
