"""Rows that lie on disk: tables that are read part by part, and files of numbers."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray


class TableParts(ABC):
    """A table of which only a part is in memory. Estimators take it in the place of X.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    """

    n_rows: int

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Yield data frames or arrays of some rows each, always in the same order."""

    def __len__(self) -> int:
        return self.n_rows

    def take(self, rows: NDArray[np.intp]) -> TableParts:
        """Return a table of some of the rows, by their ascending numbers."""
        return _SomeRows(self, rows)


class _SomeRows(TableParts):
    def __init__(self, table: TableParts, rows: NDArray[np.intp]) -> None:
        self._table, self._rows, self.n_rows = table, rows, rows.size

    def __iter__(self) -> Iterator[Any]:
        begin = 0
        for part in self._table:
            first, last = np.searchsorted(self._rows, [begin, begin + len(part)])
            own = self._rows[first:last] - begin
            begin += len(part)
            if own.size:
                yield part.take(own)


class ArrayParts(TableParts):
    """An array of numbers, such as a memory map, as a table in parts."""

    def __init__(self, X: NDArray[Any]) -> None:
        self._X, self.n_rows = X, X.shape[0]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for block in row_blocks(self.n_rows):
            yield np.asarray(self._X[block])


class ParquetTable(TableParts):
    """Columns of a Parquet file, which are read some rows at a time; see :func:`open_table`.

    Attributes
    ----------
    file : str
        Name of the file.
    columns : list of str
        Names of the columns.
    n_rows : int
        Number of rows.
    """

    def __init__(self, file: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        self.file = os.fspath(file)
        with self._open() as opened:
            there, self.n_rows = opened.schema_arrow.names, opened.metadata.num_rows
        self.columns = list(there if columns is None else columns)
        for name in self.columns:
            if name not in there:
                raise KeyError(f"{self.file} has no column {name!r}; it has {', '.join(there)}.")

    def _open(self) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise ImportError(
                "Parquet files need pyarrow. Install it: pip install pyarrow."
            ) from error
        # Without these options a whole group of rows is read ahead, which may be the whole file.
        return ParquetFile(self.file, memory_map=True, pre_buffer=False)

    def __iter__(self) -> Iterator[Any]:
        import pyarrow as pa

        return (pa.Table.from_batches([batch]) for batch in self.batches(settings.BLOCK_ROWS))

    def batches(self, n_rows: int) -> Iterator[Any]:
        """Yield so many rows at a time, as batches of pyarrow."""
        with self._open() as opened:
            for batch in opened.iter_batches(n_rows, columns=self.columns):
                yield batch.select(self.columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column in memory: numbers, or text."""
        values = self.read(name)
        found: NDArray[Any] = values.to_numpy()
        return found if found.dtype != object else np.array(values.to_pylist())

    def read(self, name: str) -> Any:
        """Return a column in memory, as one of pyarrow."""
        self._require(name)
        with self._open() as opened:
            return opened.read([name]).column(0)

    def _require(self, name: str) -> None:
        if name not in self.columns:
            raise KeyError(f"There is no column {name!r} among {', '.join(self.columns)}.")

    def drop(self, *names: str) -> ParquetTable:
        """Return the table without some of the columns.

        Parameters
        ----------
        *names : str
            Names of these columns.

        Returns
        -------
        table : ParquetTable
            The other columns.
        """
        for name in names:
            self._require(name)
        return ParquetTable(self.file, [name for name in self.columns if name not in names])


def open_table(file: str | os.PathLike[str], columns: Sequence[str] | None = None) -> ParquetTable:
    """Open a Parquet file, which may be larger than memory, to fit or predict its rows.

    Columns of text, truth values and category types are categories, and nulls are gaps, as in a
    data frame. Encoded rows lie in a temporary file, 8 bytes a number, where they are more than
    64 MB. It is gone when the fit ends, however it ends.

    Parameters
    ----------
    file : path
        Name of the file.
    columns : sequence of str or None, default=None
        Names of the columns to use; None for all.

    Returns
    -------
    table : ParquetTable
        The table: ``table["y"]`` is a column in memory, ``table.drop("y")`` all others on disk.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import numpy as np
    >>> import pandas as pd
    >>> from mondrian_kernel import MondrianKernelRegressor, open_table
    >>> frame = pd.DataFrame({"x": np.linspace(0, 1, 200), "kind": ["a", "b"] * 100})
    >>> frame["y"] = frame["x"] + (frame["kind"] == "a")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "rows.parquet"
    ...     frame.to_parquet(file)
    ...     table = open_table(file)
    ...     model = MondrianKernelRegressor(random_state=0).fit(table.drop("y"), table["y"])
    >>> model.predict(pd.DataFrame({"x": [0.5], "kind": ["a"]})).round(1)
    array([1.5])
    """
    return ParquetTable(file, columns)


def as_parts(X: Any) -> Any:
    """Return a memory map that cannot be used as it is, as a table in parts; all else as it is."""
    if not isinstance(X, np.memmap) or X.ndim != 2 or X.dtype.kind not in "fiub" or 0 in X.shape:
        return X
    usable = X.dtype == np.float64 and X.flags.c_contiguous
    if usable and not any(np.isnan(X[block]).any() for block in row_blocks(X.shape[0])):
        return X
    return ArrayParts(X)


def row_blocks(n_rows: int) -> list[slice]:
    """Return the blocks in which many rows are read and made, at least one."""
    edges = range(0, max(n_rows, 1), settings.BLOCK_ROWS)
    return [slice(begin, min(begin + settings.BLOCK_ROWS, n_rows)) for begin in edges]


def column_groups(rows: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """Yield the number and a copy of each column, of as many as fit into memory in one pass."""
    n_rows, n_columns = rows.shape
    size = max(1, settings.COLUMN_GROUP_NUMBERS // max(n_rows, 1))
    for first in range(0, n_columns, size):
        own = np.ascontiguousarray(rows[:, first : first + size].T)
        yield from enumerate(own, start=first)


def is_on_disk(rows: Any) -> bool:
    """Whether an array is a memory map, or a view of one."""
    while isinstance(rows, np.ndarray):
        if isinstance(rows, np.memmap):
            return True
        rows = rows.base
    return False


def blank_rows(n_rows: int, n_columns: int) -> FloatArray:
    """Return an array to write rows into: in memory if it is small, else in a temporary file.

    The file has no name, so that nothing is left of it when the array is gone or the process dies.
    """
    n_bytes = 8 * n_rows * n_columns
    if n_rows * n_columns <= settings.NUMBERS_IN_MEMORY:
        return np.empty((n_rows, n_columns))
    folder = tempfile.gettempdir()
    with tempfile.TemporaryFile() as file:
        free = shutil.disk_usage(folder).free
        if n_bytes > free:
            raise OSError(
                f"The encoded rows take {n_bytes / 1e9:.3g} GB in {folder}, which has "
                f"{free / 1e9:.3g} GB free. Set the environment variable TMPDIR to a larger folder."
            )
        if hasattr(os, "posix_fallocate"):  # else a full disk would end the process
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        return np.memmap(file, np.float64, "r+", shape=(n_rows, n_columns))


def taken(rows: FloatArray, used: NDArray[np.bool_]) -> FloatArray:
    """Return the rows in a mask; those of rows on disk stay on disk."""
    if not is_on_disk(rows):
        return rows[used]
    out, begin = blank_rows(int(used.sum()), rows.shape[1]), 0
    for block in row_blocks(rows.shape[0]):
        some = rows[block][used[block]]
        out[begin : begin + some.shape[0]] = some
        begin += some.shape[0]
    return out
