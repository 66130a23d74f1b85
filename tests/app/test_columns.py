"""Columns of a table become numbers or text, and useless ones are refused."""

import numpy as np
import pyarrow as pa
import pytest

from mondrian_kernel._settings import MAX_CATEGORIES
from mondrian_kernel.app.table_model import frame_to_learn, refuse_useless_columns
from mondrian_kernel.app.tables import Table, TableError


def table(columns):
    return Table("t.csv", pa.table(columns))


def frame(columns, categorical=()):
    data = table(columns)
    return frame_to_learn(data, data.names, list(categorical))


def test_numbers_and_text():
    columns = {
        "age": ["1", None, "4.5"],
        "colour": ["red", None, " red"],
        "old": [True, None, True],
    }
    (found,) = frame(columns)
    assert found.schema.types == [pa.float64(), pa.string(), pa.string()]
    assert found.to_pydict() == {
        "age": [1.0, None, 4.5],
        "colour": ["red", None, "red"],
        "old": ["true", None, "true"],
    }


def test_numbers_can_be_categories():
    (found,) = frame({"zip": ["10", "020", "10.0", str(2**60 + 1)]}, categorical=["zip"])
    assert found.to_pydict() == {"zip": ["10", "20", "10", str(2**60 + 1)]}


def test_mostly_numbers_is_a_column_of_numbers():
    with pytest.raises(TableError, match="row 3 below the header, column 'a' holds 'oops'"):
        list(frame({"a": ["1", "2", "oops"]}))
    assert next(iter(frame({"a": ["1", "x", "y"]}))).to_pydict() == {"a": ["1", "x", "y"]}


def test_identifiers_are_refused():
    names = [f"name {k}" for k in range(MAX_CATEGORIES + 10)]
    with pytest.raises(TableError, match="column 'a' has 60 different texts in 60 rows"):
        refuse_useless_columns(table({"a": names}), frame({"a": names}))
    refuse_useless_columns(table({"a": names}), frame({"a": names * 2}))
    both = {"a b": names, "c": [None] * len(names)}
    with pytest.raises(TableError, match="--drop c --drop 'a b'"):
        refuse_useless_columns(table(both), frame(both))


@pytest.mark.parametrize("empty", [[None, None], [None, "x"], [None, 1.0]])
def test_a_column_without_values_is_refused(empty):
    with pytest.raises(TableError, match="column 'a' has no values in the 1 rows to learn from"):
        refuse_useless_columns(table({"a": empty}), frame({"a": empty}).take(np.arange(1)))
