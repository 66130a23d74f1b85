"""Tables are read whatever they come as, and refused with the place of what is wrong."""

import gzip
import io
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel.app.tables import MISSING, TableError, read_table


@pytest.fixture
def written(tmp_path):
    """Write a file and return its name."""

    def write(contents, name="data.csv"):
        file = tmp_path / name
        file.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return str(file)

    return write


def parquet(columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


TEXT = "size,kind\n1.5,brick\n-2e3,\n"
SAME = {
    "csv": TEXT,
    "no name that tells": TEXT,
    "gzip": gzip.compress(TEXT.encode()),
    "tab": TEXT.replace(",", "\t"),
    "semicolon": TEXT.replace(",", ";"),
    "windows": TEXT.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + TEXT,
    "no last newline": TEXT.rstrip("\n"),
    "empty lines": TEXT.replace("\n", "\n\n"),
    "blanks": TEXT.replace("1.5,", " 1.5 ,").replace("brick", " brick"),
    "lines that end with a carriage return": TEXT.replace("\n", "\r"),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-16, big-endian": b"\xfe\xff" + TEXT.encode("utf-16-be"),
    "UTF-32": TEXT.encode("utf-32"),
    "quotes": TEXT.replace("brick", '"brick"').replace("1.5", '"1.5"'),
    "parquet": parquet({"size": [1.5, -2000.0], "kind": ["brick", None]}),
    "parquet of categories": parquet(
        {"size": [1.5, -2000.0], "kind": pa.array(["brick", None]).dictionary_encode()}
    ),
    "gzipped parquet": gzip.compress(parquet({"size": [1.5, -2e3], "kind": ["brick", None]})),
}


@pytest.mark.parametrize("kind", SAME)
def test_every_kind_of_file_gives_the_same_table(kind, written):
    table = read_table(written(SAME[kind], "data"))
    assert table.names == ["size", "kind"]
    assert_array_equal(table.numbers("size"), [1.5, -2000.0])
    assert_array_equal(table.texts("kind"), np.array(["brick", None], object))


def test_a_pipe_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    table = read_table("-")
    assert table.n_rows == 2
    with pytest.raises(TableError, match=r"^standard input: there is no column 'x'; it has size, "):
        table.require(["x"])


def test_quoted_values_hold_separators_and_lines_and_any_alphabet(written):
    table = read_table(written('größe,"a,b"\n1,"x, y\nz"\n2,"say ""猫"""\n'))
    assert table.names == ["größe", "a,b"]
    assert table.texts("a,b").tolist() == ["x, y\nz", 'say "猫"']


def test_lines_within_values_of_a_large_file(written):
    n = 150_000  # several blocks of the parser
    table = read_table(written("a,b\n" + '1,"x\ny\nz"\n' * n))
    assert table.n_rows == n
    assert set(table.texts("b")) == {"x\ny\nz"}


@pytest.mark.parametrize("word", MISSING)
def test_missing_values(word, written):
    table = read_table(written(f"a,b\n1,x\n{word},{word}\n"))
    assert_array_equal(table.numbers("a"), [1.0, np.nan])
    assert table.texts("b").tolist() == ["x", None]


def test_missing_numbers_of_parquet(written):
    table = read_table(written(parquet({"a": [1.0, None, np.nan], "b": [1, None, 3]})))
    assert_array_equal(table.numbers("a"), [1.0, np.nan, np.nan])
    assert_array_equal(table.numbers("b"), [1.0, np.nan, 3.0])
    assert table.texts("a").tolist() == ["1", None, None]


def test_a_number_or_a_truth_has_one_way_to_be_written(written):
    table = read_table(written("a\n1\n1.0\n+01\n1e0\n0.5\n.50\nTrue\nTRUE\n1x\n"))
    assert table.texts("a").tolist() == ["1"] * 4 + ["0.5"] * 2 + ["true"] * 2 + ["1x"]
    stored = read_table(written(parquet({"a": [1.0, 0.5], "b": [True, False], "c": [1, 2]})))
    assert stored.texts("a").tolist() == ["1", "0.5"]
    assert stored.texts("b").tolist() == ["true", "false"]
    assert stored.texts("c").tolist() == ["1", "2"]


def test_share_of_numbers(written):
    table = read_table(written("a,b,c,d\n1,x,1,\n2,y,x,\n,z,,\n3,,,\n"))
    shares = [table.share_of_numbers(name) for name in "abcd"]
    assert_array_equal(shares, [1.0, 0.0, 0.5, np.nan])
    stored = read_table(written(parquet({"a": [1], "b": [True], "c": ["x"]})))
    assert [stored.share_of_numbers(name) for name in "abc"] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("separator", "header", "names"),
    [
        (",", '"a;b;c;d",e', ["a;b;c;d", "e"]),
        (";", '"a,b,c";"d"', ["a,b,c", "d"]),
        ("\t", '"a, ""b"", c, d"\te', ['a, "b", c, d', "e"]),
        (",", '"a\n;;;b",c', ["a\n;;;b", "c"]),
        (",", 'a"b,c', ['a"b', "c"]),
    ],
)
def test_separators_in_quoted_names_do_not_count(separator, header, names, written):
    table = read_table(written(f"{header}\n1{separator}2\n"))
    assert table.names == names
    assert table.numbers(names[1]).tolist() == [2.0]


@pytest.mark.parametrize("kind", ["text", "integers", "decimals"])
def test_whole_numbers_keep_all_digits_as_categories(kind, written):
    one, two = 2**53, 2**53 + 1
    values = {
        "text": f"a\n{one}\n{two}\n+0{two}.0\n",
        "integers": parquet({"a": pa.array([one, two, two])}),
        "decimals": parquet({"a": pa.array([one, two, two]).cast(pa.decimal128(20, 0))}),
    }
    assert read_table(written(values[kind])).texts("a").tolist() == [str(one), str(two), str(two)]


class TestDecimalComma:
    CSV = "size;price;zone\n1;99,12;1,0\n2;100;1\n3;-0,5;2\n"

    def test_read_with_the_option(self, written):
        table = read_table(written(self.CSV), ",")
        assert table.numbers("price").tolist() == [99.12, 100.0, -0.5]
        assert table.numbers("size").tolist() == [1.0, 2.0, 3.0]
        assert table.share_of_numbers("price") == 1.0
        assert table.texts("zone").tolist() == ["1", "1", "2"]

    def test_numbers_of_parquet_stay(self, written):
        table = read_table(written(parquet({"a": [0.5, 1.5], "b": ["0,5", "1,5"]})), ",")
        assert table.numbers("a").tolist() == table.numbers("b").tolist() == [0.5, 1.5]
        assert table.texts("a").tolist() == table.texts("b").tolist() == ["0.5", "1.5"]

    def test_without_the_option_the_error_offers_it(self, written):
        table = read_table(written(self.CSV))
        with pytest.raises(
            TableError, match=r"holds '99,12', which is not .*: read .* --decimal ,"
        ):
            table.numbers("price")

    def test_one_piece_of_advice_is_enough(self, written):
        table = read_table(written('a,b\n1,"1,234"\n'))
        with pytest.raises(TableError, match=r"not a number: take the commas out, or .* commas\.$"):
            table.numbers("b")

    @pytest.mark.parametrize(
        ("decimal", "words", "looks", "advice"),
        [
            (".", ["99,12", "5,1", "7"], "99,12', a number with a decimal comma", "--decimal ,"),
            (".", ["1.099,12", "2.000,00"], "a decimal comma", "--decimal ,"),
            (".", ["1,099", "2,000"], "commas between thousands", "take the commas out, or"),
            (".", ["$5", "$ 1,099.50"], "a currency or per cent sign", "take the sign out"),
            (".", ["5 €", "7,50 €"], "a currency", "take the sign out"),
            (".", ["2021-03-01", "2021-03-02 13:05"], "with year, month and day", "--drop them"),
            (",", ["1.3.2021", "24.12.2021"], "with year, month and day", "such as days"),
            (".", ["5%", "7 %"], "per cent sign", "take the sign out"),
            (",", ["1.5", "2.5"], "a decimal point", "without --decimal ,"),
        ],
    )
    def test_numbers_in_another_notation_are_told(self, decimal, words, looks, advice, written):
        table = read_table(written(parquet({"a": words})), decimal)
        with pytest.raises(TableError) as caught:
            table.refuse_disguised_numbers("a", "otherwise do that")
        message = str(caught.value)
        assert "column 'a' holds" in message
        assert looks in message
        assert advice in message
        assert message.endswith("; otherwise do that.")

    @pytest.mark.parametrize("words", [["a", "b,c"], ["1", "2"], ["a", "b", "1,5"], [None, None]])
    def test_other_text_is_text(self, words, written):
        read_table(written(parquet({"a": words}))).refuse_disguised_numbers("a", "")


BAD = {
    b"a\xe4,b\n1,2\n": "the name of column 1 in the header is not in UTF-8; save",
    "a,b\n1,2\n".encode("utf-16-le"): "in UTF-16 without a mark; save the file as UTF-8",
    b"\xff\xfea\0,\0b": "its text is not utf-16; save the file as UTF-8",
    "": "it is empty",
    "\n \n": "it is empty",
    "a,b\n": "there are no rows below the header",
    "a,b": "there are no rows below the header",
    "a,b\n1,2\n3\n": "row 2 below the header has 1 values where the header has 2",
    "a,b\n1,2\n3,4,5\n": "row 2 below the header has 3 values where the header has 2",
    "a,a\n1,2\n": "two columns are named 'a'",
    ",b\n1,2\n": "column 1 has no name in the header",
    b"a,b\n1,2\n3,\xff\n": "row 2 below the header, column 'b' is not in UTF-8; save",
    gzip.compress(TEXT.encode(), mtime=0)[:-9]: "it is damaged: ",
    parquet({"a": [1]})[:-5]: "Parquet",
    parquet({"a": pa.array([], pa.int64())}): "there are no rows below the header",
}


@pytest.mark.parametrize("contents", BAD)
def test_bad_files_are_refused_in_one_sentence(contents, written):
    name = written(contents)
    with pytest.raises(TableError) as caught:
        read_table(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert BAD[contents] in message
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("word", "problem"),
    [("x", "holds 'x', which is not a number"), ("1,5", "holds '1,5', which"),
     ("0x1A", "holds '0x1A'"), ("inf", "is infinite"), ("-Infinity", "is infinite"),
     ("1e999", "is infinite")],
)  # fmt: skip
def test_what_is_no_finite_number_is_named(word, problem, written):
    table = read_table(written(f'a,b\n1,2\n3,4\n5,"{word}"\n'))
    with pytest.raises(TableError, match=f"row 3 below the header, column 'b' {problem}"):
        table.numbers("b")


def test_other_types_are_refused(written):
    table = read_table(written(parquet({"when": pa.array([0], pa.timestamp("s"))})))
    with pytest.raises(TableError, match="column 'when' holds values of type timestamp"):
        table.numbers("when")


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.float32(), pa.int8(), pa.large_string()])
def test_numbers_of_any_type(kind, written):
    column = pa.array(["1", None], pa.string()).cast(kind)
    table = read_table(written(parquet({"a": column})))
    assert_array_equal(table.numbers("a"), [1.0, np.nan])
