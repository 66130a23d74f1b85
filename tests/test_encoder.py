"""Tables become numbers: the same from every library, and with the distances that are promised."""

import datetime
import decimal
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import skrub
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

from mondrian_kernel import (
    MondrianFeatures,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
    TableEncoder,
    load,
    save,
)
from mondrian_kernel._tables.encoding import special_output, special_values
from mondrian_kernel.encoder import relevance_groups
from mondrian_kernel.persistence import ModelFileError
from mondrian_kernel.portable import load_portable
from scikit_learn_checks import assert_all_run_and_pass

COLUMNS = {
    "area": [70.0, None, 90.0, 80.0],
    "kind": ["wood", "brick", None, "wood"],
    "sold": [True, False, True, True],
    "rooms": [3, 4, 5, 4],
}
NAMES = [
    "area", "area is missing", "kind=brick", "kind=wood", "kind is missing",
    "sold=False", "sold=True", "rooms",
]  # fmt: skip
ROWS = [
    [70, 0, 0, 0.5, 0, 0, 0.5, 3],
    [80, 1, 0.5, 0, 0, 0.5, 0, 4],
    [90, 0, 0, 0, 0.5, 0, 0.5, 5],
    [80, 0, 0, 0.5, 0, 0, 0.5, 4],
]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def objects(columns):
    return np.array(list(columns.values()), dtype=object).T


# --- numbers -------------------------------------------------------------------------------------


def test_tables_of_every_library_become_the_same_numbers(frame):
    encoder = TableEncoder()
    assert_array_equal(encoder.fit_transform(frame(COLUMNS)), ROWS)
    assert_array_equal(encoder.transform(frame(COLUMNS)), ROWS)
    assert encoder.get_feature_names_out().tolist() == NAMES
    assert encoder.column_of_output_.tolist() == [0, 0, 1, 1, 1, 2, 2, 3]
    assert encoder.is_number_.tolist() == [True] + [False] * 6 + [True]
    assert encoder.feature_names_in_.tolist() == list(COLUMNS)
    assert encoder.n_features_in_ == 4


@pytest.mark.parametrize(
    "rows", [objects(COLUMNS), objects(COLUMNS).tolist()], ids=["array", "list"]
)
def test_arrays_of_objects_are_tables_without_names(rows):
    encoder = TableEncoder()
    assert_array_equal(encoder.fit_transform(rows), ROWS)
    assert encoder.get_feature_names_out()[:3].tolist() == ["x0", "x0 is missing", "x1=brick"]
    assert encoder.get_feature_names_out(list(COLUMNS)).tolist() == NAMES


def test_numbers_stay_as_they_are(frame):
    numbers = np.array([-0.0, 5e-324, -1.7e308, 0.1, 2.0**53])
    found = TableEncoder().fit_transform(frame({"a": numbers}))
    assert found[:, 0].tobytes() == numbers.tobytes()
    X = np.random.default_rng(0).normal(size=(20, 3))
    for rows in (X, np.asfortranarray(X), X[::2]):
        found = TableEncoder().fit_transform(rows)
        assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(rows).tobytes()
        assert not np.shares_memory(found, rows)


@pytest.mark.parametrize(
    "dtype", ["float32", "int8", "uint64", "Int64", "Float32", "int32[pyarrow]"]
)
def test_dtypes_of_numbers(dtype):
    found = TableEncoder().fit_transform(pd.DataFrame({"a": pd.Series([1, 2, 3], dtype=dtype)}))
    assert found.tolist() == [[1.0], [2.0], [3.0]]


def test_decimals_are_numbers(frame):
    values = [decimal.Decimal("1.5"), None, decimal.Decimal("3.0")]
    assert TableEncoder().fit_transform(frame({"a": values})).tolist() == [
        [1.5, 0],
        [1.5, 1],
        [3, 0],
    ]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, decimal.Decimal("nan")])
def test_every_way_to_be_missing(missing):
    numbers = pd.DataFrame({"a": pd.Series([1.0, missing, 2.0, 5.0], dtype=object)})
    assert TableEncoder().fit_transform(numbers).tolist() == [[1, 0], [2, 1], [2, 0], [5, 0]]
    words = pd.DataFrame({"a": pd.Series(["u", missing, "v"], dtype=object)})
    encoder = TableEncoder().fit(words)
    assert encoder.categories_ == [["u", "v", None]]
    assert encoder.transform(words)[1].tolist() == [0, 0, 0.5]
    assert_array_equal(TableEncoder().fit_transform(words.to_numpy()), encoder.transform(words))


def test_a_gap_is_marked_only_where_there_were_gaps(frame):
    encoder = TableEncoder().fit(frame({"a": [1.0, 2.0, 7.0], "b": [1.0, None, 3.0]}))
    assert encoder.transform(frame({"a": [None], "b": [None]})).tolist() == [[2.0, 1.0, 1.0]]
    nothing = {"a": [None], "b": pa.nulls(1) if frame is pa.table else [None]}
    assert encoder.transform(frame(nothing)).tolist() == [[2.0, 1.0, 1.0]]


def test_the_median_is_a_value_and_does_not_overflow():
    encoder = TableEncoder().fit(np.array([[1.7e308], [1.6e308], [np.nan]]))
    assert encoder.medians_.tolist() == [1.6e308]


# --- categories ----------------------------------------------------------------------------------


def test_all_categories_have_the_distance_one(frame):
    words = ["a", "b", "c", "d", None]
    encoder = TableEncoder().fit(frame({"k": words}))
    rows = encoder.transform(frame({"k": [*words, "not fitted"]}))
    assert_array_equal(cdist(rows, rows, "cityblock"), 1.0 - np.eye(6))
    others = encoder.transform(frame({"k": ["another", "not fitted"]}))
    assert_array_equal(others[0], others[1])


def test_the_kernel_of_a_table_is_that_of_equal_categories():
    r"""k = exp(-λ (|x - x'| + r [k ≠ k'])), to rounding of one exponential."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=30), "k": rng.choice(list("abc"), 30)})
    encoder, relevance = TableEncoder(), 2.5
    rows = encoder.fit_transform(table) * np.where([True, False, False, False], 1.0, relevance)
    differs = table["k"].to_numpy()[:, None] != table["k"].to_numpy()
    x = table["x"].to_numpy()
    expected = np.exp(-0.7 * (np.abs(x[:, None] - x) + relevance * differs))
    np.testing.assert_allclose(laplacian_kernel(rows, gamma=0.7), expected, rtol=1e-14)


def test_trees_part_categories_at_the_same_rate():
    """The share of trees that keep two categories together is exp(-λ), also for a new one."""
    lifetime, n_trees = 0.8, 4000
    encoder = TableEncoder()
    rows = encoder.fit_transform(pd.DataFrame({"k": ["a", "b", "c", None]}))
    features = MondrianFeatures(lifetime, n_trees, random_state=0).fit(rows)
    new = encoder.transform(pd.DataFrame({"k": ["d"]}))
    together = features.kernel(np.concatenate([rows, new]), rows)[~np.eye(5, 4, dtype=bool)]
    p = np.exp(-lifetime)
    # Five standard errors; a share of a new row is a mean of probabilities, which varies less.
    assert np.abs(together - p).max() < 5 * np.sqrt(p * (1 - p) / n_trees)


@pytest.mark.parametrize(
    "make",
    [
        lambda numbers: pd.DataFrame({"id": numbers}),
        lambda numbers: pd.DataFrame({"id": pd.array(numbers, dtype="Int64")}),
        lambda numbers: pl.DataFrame({"id": numbers}),
        lambda numbers: pa.table({"id": numbers}),
        lambda numbers: np.array(numbers)[:, None],
        lambda numbers: np.array(numbers, dtype=object)[:, None],
        lambda numbers: pd.DataFrame({"id": pd.Categorical(numbers)}),
        lambda numbers: pa.table({"id": pa.array(numbers).dictionary_encode()}),
    ],
)
def test_large_integers_are_not_merged(make):
    numbers = [2**53, 2**53 + 1, 2**62, 2**62 + 1]
    encoder = TableEncoder(categorical_features=[0]).fit(make(numbers))
    assert encoder.categories_ == [numbers]
    assert_array_equal(encoder.transform(make(numbers)), np.eye(4) / 2)


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(["b", "a", None], dtype="string"),
        pd.Series(["b", "a", None], dtype="string[pyarrow]"),
        pd.Series(["b", "a", None], dtype="category"),
        pd.Series(pd.Categorical(["b", "a", None], ["c", "b", "a"], ordered=True)),
        pl.Series(["b", "a", None], dtype=pl.Categorical),
        pl.Series(["b", "a", None], dtype=pl.Enum(["c", "b", "a"])),
        pa.array(["b", "a", None], pa.large_string()),
        pa.array(["b", "a", None]).dictionary_encode(),
    ],
    ids=lambda series: str(getattr(series, "dtype", None) or series.type),
)
def test_dtypes_of_categories(series):
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame}.get(
        type(series).__module__.split(".")[0]
    )
    encoder = TableEncoder().fit((kind or pa.table)({"k": series}))
    assert encoder.categories_ == [["a", "b", None]]


@pytest.mark.parametrize("dtype", [object, "bool", "boolean", "bool[pyarrow]"])
def test_truth_values_are_categories(dtype):
    encoder = TableEncoder().fit(pd.DataFrame({"k": pd.Series([True, False, True], dtype=dtype)}))
    assert encoder.categories_ == [[False, True]]


def test_categories_of_other_kinds_are_text():
    table = pd.DataFrame({"age": pd.cut(pd.Series([1.0, 5.0, 9.0]), [0, 4, 10])})
    table["day"] = pd.Categorical(pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-01"]))
    assert TableEncoder().fit(table).categories_ == [
        ["(0, 4]", "(4, 10]"],
        ["2020-01-01 00:00:00", "2020-01-02 00:00:00"],
    ]


@pytest.mark.parametrize("chosen", [["rooms"], [2], [False, False, True], np.array([2])])
def test_chosen_columns_are_categories(frame, chosen):
    columns = {name: COLUMNS[name] for name in ("area", "sold", "rooms")}
    encoder = TableEncoder(chosen).fit(frame(columns))
    assert encoder.categories_ == [None, None, [3, 4, 5]]
    assert encoder.transform(frame(columns))[:, 2].tolist() == [1, 0, 1, 1]  # sold, a number


def test_no_column_is_a_category():
    encoder = TableEncoder(None).fit(pd.DataFrame({"a": [True, False], "b": [1.0, 2.0]}))
    assert encoder.categories_ == [None, None]
    assert TableEncoder([]).fit(np.ones((3, 2))).categories_ == [None, None]


# --- many categories -----------------------------------------------------------------------------


@pytest.fixture
def many():
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=400)
    table = pd.DataFrame({"zip": [f"z{c:02}" for c in codes], "x": rng.normal(size=400)})
    return table, codes % 7 + rng.normal(size=400), codes


def test_many_categories_become_means_of_y(many):
    table, y, codes = many
    encoder = TableEncoder(max_categories=29).fit(table, y)
    expected = TargetEncoder(target_type="continuous").fit(codes[:, None], y)
    assert_array_equal(encoder.transform(table)[:, [0]], expected.transform(codes[:, None]))
    new = encoder.transform(pd.DataFrame({"zip": ["not fitted", None], "x": [0.0, 0.0]}))
    assert_array_equal(new[:, 0], [y.mean(), y.mean()])
    assert encoder.is_number_.tolist() == [True, True]
    assert encoder.get_feature_names_out().tolist() == ["zip", "x"]
    assert TableEncoder(max_categories=30).fit(table).is_number_.sum() == 1


def test_a_row_does_not_see_its_own_target(many):
    table, y, _ = many
    encoder = TableEncoder(max_categories=5)
    rows = encoder.fit_transform(table, y)
    changed = y.copy()
    changed[17] += 1e6
    again = encoder.fit_transform(table, changed)
    assert again[17, 0] == rows[17, 0]
    assert (again[:, 0] != rows[:, 0]).sum() > 200
    assert encoder.transform(table)[17, 0] > 1e3


def test_classes_and_several_targets(many):
    table, y, codes = many
    two = TableEncoder(max_categories=5).fit(table, np.where(y > 3, "high", "low"))
    assert two.tables_[0].shape == (31, 1)
    three = TableEncoder(max_categories=5).fit(table, codes.astype(str).astype("U1"))
    assert three.tables_[0].shape[1] == len(np.unique(codes.astype(str).astype("U1")))
    np.testing.assert_allclose(three.tables_[0].sum(axis=1), 1.0, rtol=1e-12)
    both = TableEncoder(max_categories=5).fit(table, np.stack([y, -y], axis=1))
    assert both.get_feature_names_out().tolist() == ["zip:0", "zip:1", "x"]
    np.testing.assert_allclose(both.tables_[0][:, 0], -both.tables_[0][:, 1], rtol=1e-12)


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        (None, "Column 'zip' has 30 categories, more than max_categories=5: pass y"),
        (np.full(400, np.nan), "Input y contains NaN, first in row 0"),
        (np.ones(399), "inconsistent numbers of samples"),
    ],
)
def test_many_categories_need_targets(many, y, problem):
    with pytest.raises(ValueError, match=problem):
        TableEncoder(max_categories=5).fit(many[0], y)


# --- streams -------------------------------------------------------------------------------------


def test_a_stream_keeps_its_outputs():
    encoder = TableEncoder()
    encoder.partial_fit(pd.DataFrame({"a": [1.0, 3.0, 5.0], "k": ["u", "v", "u"]}))
    names = encoder.get_feature_names_out().tolist()
    later = pd.DataFrame({"a": [None, 100.0], "k": ["w", "x"]})
    encoder.partial_fit(later)
    assert encoder.get_feature_names_out().tolist() == names == ["a", "k=u", "k=v"]
    assert encoder.transform(later).tolist() == [[3.0, -0.5, 0.0], [100.0, -0.5, 0.0]]
    with pytest.raises(ValueError, match="Column 'a' contains infinity, first in row 1"):
        encoder.partial_fit(pd.DataFrame({"a": [1.0, np.inf], "k": ["u", "u"]}))


def test_a_stream_of_arrays():
    encoder = TableEncoder().partial_fit(np.array([[1.0, "u"], [None, "v"]], dtype=object))
    assert encoder.categories_ == [None, ["u", "v"]]


def test_listed_categories_of_other_kinds_are_text():
    ages = pd.cut(pd.Series([1.0]), [0, 4, 10])
    encoder = TableEncoder().partial_fit(pd.DataFrame({"age": ages}))
    assert encoder.categories_ == [["(0, 4]", "(4, 10]"]]


@pytest.mark.parametrize(
    "first",
    [
        pd.DataFrame({"k": pd.Categorical(["v"], ["w", "u", "v"])}),
        pd.DataFrame({"k": pd.Categorical(["v"], ["w", "u", "v"], ordered=True)}),
        pl.DataFrame({"k": pl.Series(["v"], dtype=pl.Enum(["w", "u", "v"]))}),
    ],
    ids=["pandas", "ordered", "polars"],
)
def test_listed_categories_are_known_from_the_start_of_a_stream(first):
    assert TableEncoder().partial_fit(first).categories_ == [["u", "v", "w"]]
    assert TableEncoder().fit(first).categories_ == [["v"]]


# --- errors --------------------------------------------------------------------------------------

DAY = datetime.datetime(2020, 1, 1)
REFUSED = {
    "infinite": (
        [1.0, np.inf],
        ValueError,
        "Column 'a' contains infinity, first in row 1: ",
    ),
    "no numbers": ([np.nan, np.nan], ValueError, "Column 'a' has no values: drop it"),
    "no words": ([None, None], ValueError, "Column 'a' has no values: drop it"),
    "date": ([DAY.date()] * 2, TypeError, r"'a' holds dates .* skrub\.DatetimeEncoder\(\)"),
    "datetime": ([DAY, DAY], TypeError, r"'a' holds dates .*fit_transform\(X\['a'\]\)"),
    "span": ([DAY - DAY] * 2, TypeError, "'a' holds dates"),
    "list": ([[1], [2]], TypeError, "Column 'a' holds nested values, but an argument must be"),
    "dict": ([{"b": 1}] * 2, TypeError, "Column 'a' holds nested values"),
    "bytes": ([b"u", b"v"], TypeError, "Column 'a' holds values of type bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_column_and_the_remedy(frame, name):
    values, error, problem = REFUSED[name]
    with pytest.raises(error, match=problem):
        TableEncoder().fit(frame({"z": ["u", "v"], "a": values}))


def test_text_beside_numbers_is_refused():
    for rows in (pd.DataFrame({"a": [1.0, "u"]}), [[1.0], ["u"]]):
        with pytest.raises(ValueError, match=r"Column ('a'|0) mixes text and numbers: turn all"):
            TableEncoder().fit(rows)


def test_errors_of_arrays_have_the_number_of_the_column():
    with pytest.raises(ValueError, match="Column 1 contains infinity, first in row 2"):
        TableEncoder().fit([[0.0, 1.0], [1.0, 1.0], [0.0, -np.inf]])
    with pytest.raises(TypeError, match="Column 0 holds dates"):
        TableEncoder().fit(np.array([["2020-01-01"]], "M8[ns]"))
    with pytest.raises(TypeError, match="Column 1 holds values of type object"):
        TableEncoder().fit(np.array([[1.0, object()]], dtype=object))


CHANGED = {
    "text for numbers": ({"area": ["big"]}, "Column 'area' holds text such as 'big', but held num"),
    "infinite": ({"area": [np.inf]}, "Column 'area' contains infinity"),
    "numbers for text": ({"kind": [3]}, "Column 'kind' holds numbers, but its categories were te"),
    "text for truth": ({"sold": ["yes"]}, "Column 'sold' holds text, but its categories were num"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_new_rows_of_another_kind_are_refused(frame, name):
    encoder = TableEncoder().fit(frame(COLUMNS))
    change, problem = CHANGED[name]
    row = {key: values[:1] for key, values in COLUMNS.items()} | change
    with pytest.raises(ValueError, match=problem):
        encoder.transform(frame(row))


def test_columns_are_those_that_were_fitted(frame):
    encoder = TableEncoder().fit(frame(COLUMNS))
    with pytest.raises(ValueError, match="same order"):
        encoder.transform(frame(dict(reversed(COLUMNS.items()))))
    with pytest.raises(ValueError, match=r"unseen at fit time|missing"):
        encoder.transform(frame({"area": [1.0]}))
    with pytest.raises(ValueError, match="Found 0 sample"):
        encoder.transform(frame({name: values[:0] for name, values in COLUMNS.items()}))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame([[1, "u"]], columns=["a", "a"]),
        pa.table([pa.array([1]), pa.array(["u"])], names=["a", "a"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_two_columns_of_one_name_are_refused(table):
    with pytest.raises(ValueError, match="unique column names, got:\n- 'a' 2 times"):
        TableEncoder().fit(table)


def test_a_lazy_frame_must_be_collected():
    with pytest.raises(TypeError, match=r"X is a LazyFrame: call X\.collect\(\) first"):
        TableEncoder().fit(pl.DataFrame(COLUMNS).lazy())


@pytest.mark.parametrize("chosen", [["roof"], [4], [-1], [0.5], [True, False]])
def test_impossible_choices_are_refused(chosen):
    with pytest.raises(ValueError, match=r"categorical_features has .*: give names or indices"):
        TableEncoder(chosen).fit(pd.DataFrame(COLUMNS))


def test_text_that_is_not_chosen_is_refused():
    with pytest.raises(ValueError, match="Column 'kind' holds text such as 'wood', but is not in"):
        TableEncoder(["sold"]).fit(pd.DataFrame(COLUMNS))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_remedy_for_dates_works(kind):
    X = kind({"a": [datetime.datetime(2020, month, 1) for month in (1, 2, 3)]})
    numbers = skrub.DatetimeEncoder().fit_transform(X["a"])
    assert np.isfinite(TableEncoder().fit_transform(numbers)).all()


# --- scikit-learn --------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["from_dtype", [0]])
def test_scikit_learn_checks(chosen):
    assert_all_run_and_pass(TableEncoder(chosen), at_least=40)


@pytest.mark.parametrize(("output", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(frame, output, kind):
    found = TableEncoder().set_output(transform=output).fit_transform(frame(COLUMNS))
    assert isinstance(found, kind)
    assert list(found.columns) == NAMES
    assert_array_equal(found.to_numpy(), ROWS)


def test_in_a_column_transformer_and_before_features():
    table, y = pd.DataFrame(COLUMNS), np.arange(4.0)
    some = ColumnTransformer([("table", TableEncoder(), ["kind", "area"])], remainder="drop")
    assert some.fit_transform(table).shape == (4, 5)
    assert some.get_feature_names_out()[0] == "table__kind=brick"
    model = make_pipeline(TableEncoder(), MondrianFeatures(1.0, 20, random_state=0), Ridge())
    assert np.isfinite(model.fit(table, y).predict(table)).all()
    assert clone(TableEncoder([0], max_categories=7)).get_params() == {
        "categorical_features": [0],
        "max_categories": 7,
        "special_values": False,
    }


def test_pickles_and_model_files(frame, tmp_path):
    encoder = TableEncoder().fit(frame(COLUMNS))
    save(encoder, tmp_path / "encoder")
    for kept in (load(tmp_path / "encoder"), pickle.loads(pickle.dumps(encoder))):
        assert_array_equal(kept.transform(frame(COLUMNS)), ROWS)
        assert kept.get_feature_names_out().tolist() == NAMES
        assert kept.categories_ == encoder.categories_


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"medians_": np.zeros(3)}, "no median of each of the 4 columns"),
        ({"medians_": np.full(4, np.nan)}, "no median of each"),
        ({"has_gaps_": np.zeros(3, bool)}, "no median of each"),
        ({"categories_": [None]}, "zip"),
        ({"categories_": [None, [b"u"], [False, True], None]}, "Cannot save|neither text nor"),
        ({"tables_": [None, np.ones((2, 1)), np.ones((3, 2)), None]}, "their table has others"),
        ({"column_of_output_": np.zeros(8, int)}, "belong to other columns"),
        ({"is_number_": np.zeros(7, bool)}, "not said to be numbers"),
        ({"is_number_": np.zeros(8)}, "not said to be numbers"),
    ],
)
def test_contradicting_encoders_are_refused(change, problem, tmp_path):
    encoder = TableEncoder().fit(pd.DataFrame(COLUMNS))
    vars(encoder).update(change)
    with pytest.raises((ModelFileError, TypeError), match=problem):
        save(encoder, tmp_path / "encoder")


def test_no_library_of_tables_is_needed():
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name in ('pandas', 'polars', 'pyarrow'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "import numpy as np\n"
        "from mondrian_kernel import TableEncoder\n"
        "rows = np.array([[1.0, 'u'], [None, 'v']], dtype=object)\n"
        "print(TableEncoder().fit_transform(rows).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[1.0, 0.0, 0.5, 0.0], [1.0, 1.0, 0.0, 0.5]]"


def test_empty_text_is_a_category_like_others():
    encoder = TableEncoder().fit(np.array([["b"], [""], ["a"], [None]], object))
    assert encoder.categories_ == [["", "a", "b", None]]


# --- special values ------------------------------------------------------------------------------


def amounts(n=3000, peaks=(130.0, 520.0), height=4.0, slope=0.01, seed=0):
    """A column of 800 values, and y with a slope, a step, noise, and peaks at shared values."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 800, size=n).astype(float)
    at = rng.permutation(n)
    for k, peak in enumerate(peaks):
        x[at[40 * k : 40 * (k + 1)]] = peak
    y = slope * x + 3.0 * (x > 400) + np.isin(x, peaks) * height + rng.normal(size=n)
    return x, y


def literal_special_values(x, y, rows=10, near=50, errors=6.0):
    """The rule, row by row: nearest whole values that hold ``near`` rows on either side."""
    found = {}
    for value in np.unique(x):
        own, below, above = y[x == value], np.sort(x[x < value])[::-1], np.sort(x[x > value])
        if own.size < rows or min(below.size, above.size) < near:
            continue
        left = y[(x < value) & (x >= below[near - 1])]
        right = y[(x > value) & (x <= above[near - 1])]
        n = own.size + left.size + right.size
        variance = sum(part.size * part.var() for part in (left, own, right)) / n
        steps = [own.mean() - side.mean() for side in (left, right)]
        bounds = [
            errors * np.sqrt(variance * (1 / own.size + 1 / side.size)) for side in (left, right)
        ]
        if np.prod(steps) > 0 and all(np.abs(steps) > bounds):
            found[value] = min(steps, key=abs)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_special_values_are_those_of_the_rule(seed):
    x, y = amounts(seed=seed)
    found = special_values(x, y)
    wanted = literal_special_values(x, y)
    assert set(wanted) == {130.0, 520.0}
    assert_array_equal(found[:, 0], sorted(wanted))
    np.testing.assert_allclose(found[:, 1], [wanted[v] for v in sorted(wanted)], rtol=1e-6)


def test_slopes_steps_and_noise_have_no_special_values():
    """Three shared values, 200 draws: beyond 6 standard errors there is none by chance.

    One of them is the first value above the step. The slope is so steep that means on either side
    differ by more, but in opposite directions.
    """
    for seed in range(200):
        x, y = amounts(peaks=(130.0, 401.0, 520.0), height=0.0, slope=0.3, seed=seed)
        assert special_values(x, y) is None


def test_few_values_and_gaps():
    x, y = amounts()
    assert special_values(np.floor(x / 40), y) is None  # 20 values
    x[::7] = np.nan
    found = special_values(x, y)
    assert_array_equal(found, special_values(x, -y) * [1, -1])
    assert special_values(x, 0 * y) is None
    outputs = special_output(np.array([np.nan, 130.0, 131.0, 1e9]), found)
    assert_array_equal(outputs, [0, found[0, 1], 0, 0])


def test_a_row_does_not_see_its_own_target_at_a_special_value():
    """The output of a row is the mean of y in the other folds, less that on the nearer side."""
    x, y = amounts()
    found = special_values(x, y)
    outputs, new = special_output(x, found, y), special_output(x, found)
    changed = y.copy()
    row = np.flatnonzero(x == 130.0)[0]
    changed[row] += 10.0
    again = special_output(x, special_values(x, changed), changed)
    np.testing.assert_allclose(again[row], outputs[row], rtol=1e-6)  # single precision
    assert abs(again - outputs)[x == 130.0].max() > 0.2
    for train, own in KFold(5, shuffle=True, random_state=0).split(x):
        at, others = own[x[own] == 130.0], train[x[train] == 130.0]
        shift = y[others].mean() - y[x == 130.0].mean()
        np.testing.assert_allclose(outputs[at], new[at] + shift, atol=1e-12)
    assert not outputs[~np.isin(x, [130.0, 520.0])].any()


def test_special_values_are_outputs_of_the_encoder(tmp_path):
    x, y = amounts()
    table = pd.DataFrame({"a": x, "kind": np.where(x > 300, "u", "v"), "b": -x})
    table.loc[5, "a"] = np.nan
    encoder = TableEncoder(special_values=True)
    rows = encoder.fit_transform(table, y)
    names = ["a", "a is missing", "a is special", "kind=u", "kind=v", "b", "b is special"]
    assert encoder.get_feature_names_out().tolist() == names
    assert encoder.column_of_output_.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert relevance_groups(encoder).tolist() == [0, 1, 2, 3, 3, 4, 5]
    plain = [0, 1, 3, 4, 5]
    assert_array_equal(encoder.transform(table)[:, plain], rows[:, plain])
    assert_array_equal(rows[:, 2] != 0, np.isin(table["a"], [130.0, 520.0]))
    encoder.check()
    save(encoder, tmp_path / "encoder")
    assert_array_equal(load(tmp_path / "encoder").transform(table), encoder.transform(table))
    assert TableEncoder(special_values=True).fit_transform(table, np.stack([y, y], 1)).shape[1] == 5
    encoder.special_values_[0] = encoder.special_values_[0][::-1]
    with pytest.raises(ValueError, match="ascending"):
        encoder.check()
    assert_array_equal(TableEncoder().fit_transform(table, y), rows[:, plain])


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_models_learn_peaks_at_single_values(kind, tmp_path):
    """In the rows of the peaks the model errs about as little as in all others."""
    x, y = amounts(4000)
    X = np.column_stack([x, np.random.default_rng(1).normal(size=x.size)])
    train, test = slice(3000), slice(3000, None)
    peaks = np.isin(x[test], [130.0, 520.0])
    if kind == "regression":
        model = MondrianKernelRegressor(random_state=0).fit(X[train], y[train])
        found = model.predict(X[test])
        # The noise is 1; the mean of 40 draws of a squared normal is below 1.8 but for 1 in 1000.
        assert np.mean((found - y[test])[peaks] ** 2) < 1.8
    else:
        labels = np.where(np.isin(x, [130.0, 520.0]), "yes", "no")
        model = MondrianKernelClassifier(random_state=0).fit(X[train], labels[train])
        found = model.predict_proba(X[test])
        assert found[peaks, 1].min() > 0.8 > 0.2 > found[~peaks, 1].max()
    assert model.encoder_.get_feature_names_out().tolist() == ["x0", "x0 is special", "x1"]
    assert model.relevance_.shape == model.feature_importances_.shape == (2,)
    save(model, tmp_path / "model")
    predict = "predict" if kind == "regression" else "predict_proba"
    assert_array_equal(getattr(load(tmp_path / "model"), predict)(X[test]), found)
    portable = getattr(load_portable(tmp_path / "model"), predict)(X[test][:200])
    # Sums of a thousand landmarks in single precision: 1e-7 of coefficients up to 1e4.
    np.testing.assert_allclose(portable, found[:200], atol=1e-2)
    before = getattr(model, predict)(X[:5])
    model.partial_fit(X[test], y[test] if kind == "regression" else labels[test])
    assert before.shape == getattr(model, predict)(X[:5]).shape


def test_one_width_and_streams_have_no_special_values():
    x, y = amounts()
    rows = x[:, None]
    assert MondrianKernelRegressor(lifetime=1.0, alpha=1.0).fit(rows, y).encoder_ is None
    assert MondrianKernelRegressor().partial_fit(rows, y).encoder_ is None
