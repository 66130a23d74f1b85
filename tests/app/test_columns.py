"""Columns become numbers, the same way for the rows that are fitted and for new ones."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel._settings import MAX_CATEGORIES
from mondrian_kernel.app.columns import learn_columns
from mondrian_kernel.app.tables import Table, TableError

ALL = {
    "age": [1.0, None, 4.0, 3.0],
    "colour": ["red", "blue", None, "red"],
    "size": [2.0, 2.0, 2.0, 2.0],
}


def table(columns):
    return Table("t.csv", pa.table(columns))


def learn(columns, categorical=(), rows=None):
    data = table(columns)
    rows = np.arange(data.n_rows) if rows is None else np.array(rows)
    return learn_columns(data, data.names, list(categorical), rows)


def test_numbers_categories_and_missing_values():
    columns = learn(ALL)
    assert columns.encoded_names == [
        "age", "age is missing", "colour=blue", "colour=red", "colour is missing", "size",
    ]  # fmt: skip
    assert_array_equal(
        columns.encode(table(ALL)),
        [[1, 0, 0, 1, 0, 2], [3, 1, 1, 0, 0, 2], [4, 0, 0, 0, 1, 2], [3, 0, 0, 1, 0, 2]],
    )
    assert_allclose(columns.scale, [np.std([1, 3, 4, 3]), 1, 1, 1, 1, 1])


def test_only_the_given_rows_are_learnt_from():
    columns = learn(ALL, rows=[0, 3])
    assert columns.encoded_names == ["age", "colour=red", "size"]
    assert_array_equal(columns.medians, [2.0, 0.0, 2.0])


def test_new_rows_in_another_order_with_other_columns_and_gaps():
    columns = learn(ALL, rows=[0, 3])
    new = {"extra": [1.0], "size": [None], "colour": ["green"], "age": [7.5]}
    assert_array_equal(columns.encode(table(new)), [[7.5, 0.0, 2.0]])
    assert_array_equal(columns.encode(table(ALL), np.array([3, 1])), [[3, 1, 2], [2, 0, 2]])


def test_a_missing_column_is_named():
    with pytest.raises(TableError, match=r"t.csv: there is no column 'colour'; it has age\."):
        learn(ALL).encode(table({"age": [1.0]}))


def test_text_where_a_number_was_is_named():
    new = {"age": ["1", "old"], "colour": ["red", "red"], "size": [1, 1]}
    with pytest.raises(TableError, match="row 2 below the header, column 'age' holds 'old'"):
        learn(ALL).encode(table(new))


def test_numbers_can_be_categories():
    columns = learn({"zip": [10, 20, 10]}, categorical=["zip"])
    assert columns.encoded_names == ["zip=10", "zip=20"]
    assert_array_equal(
        columns.encode(table({"zip": ["10.0", "x", None]})), [[1, 0], [0, 0], [0, 0]]
    )


def test_mostly_numbers_is_a_column_of_numbers():
    with pytest.raises(TableError, match="row 3 below the header, column 'a' holds 'oops'"):
        learn({"a": ["1", "2", "oops"]})
    assert learn({"a": ["1", "x", "y"]}).encoded_names == ["a=1", "a=x", "a=y"]


def test_rare_categories_are_none():
    words = [f"w{k:03}" for k in range(MAX_CATEGORIES + 5)]
    columns = learn({"a": words * 2 + words[5:]})
    assert columns.encoded_names == [f"a={word}" for word in words[5:]]
    assert columns.encode(table({"a": words[:5]})).sum() == 0


def test_identifiers_are_refused():
    with pytest.raises(TableError, match="column 'a' has 60 different texts in 60 rows"):
        learn({"a": [f"name {k}" for k in range(60)]})


@pytest.mark.parametrize("empty", [[None, None], [None, "x"], [None, 1.0]])
def test_a_column_without_values_is_refused(empty):
    with pytest.raises(TableError, match="column 'a' has no values in the 1 rows to learn from"):
        learn({"a": empty}, rows=[0])
