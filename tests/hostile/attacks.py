"""The attacks: what is done to an argument, and what must come of it.

An attack is a function of a good argument, and the outcome: ``SAME`` result as without it, a result
that makes sense (``SANE``) or a clear error, or a clear error whose words match a pattern.
"""

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

SAME, SANE = "the same", "makes sense"
HUGE = r"overflow|too many|more than|too large|rounding|" + SANE


def put(value, place=(2,)):
    """Return an attack that writes a value into an array, which it may turn into objects."""

    def change(array):
        kind = np.result_type(array, type(value)) if isinstance(value, float) else object
        changed = np.array(array, dtype=kind)
        changed[place if changed.ndim == len(place) else (*place, 1)] = value
        return changed

    return change


def times(factor):
    return lambda array: array * factor


def as_type(dtype):
    return lambda array: array.astype(dtype)


def strided(array):
    return np.repeat(array, 2, axis=0)[::2]


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def table(names=("a", "b", "c")):
    return lambda X: pd.DataFrame(X, columns=list(names))


TEXT = (
    r"could not convert|must be a string or a real number|numbers are needed|not a dask|dask array"
)
LAYOUTS = {
    "strided": (strided, SAME),
    "backwards": (lambda a: a[::-1].copy()[::-1], SAME),
    "read-only": (read_only, SAME),
    "big-endian": (as_type(">f8"), SAME),
    "long double": (as_type(np.longdouble), SAME),
    "half": (as_type(np.float16), SAME),
}
NOT_FINITE = {
    "NaN": (put(np.nan), r"NaN"),
    "infinity": (put(np.inf), r"infinity"),
    "minus infinity": (put(-np.inf), r"infinity"),
    "None": (put(None), r"NaN|numbers are needed|different types"),
    "masked": (lambda a: np.ma.masked_array(a, np.arange(a.size).reshape(a.shape) == 4), "masked"),
    "too long double": (lambda a: (1 + abs(a.astype(np.longdouble))) * 1e308 * 100, "infinity"),
}
STRANGE = {
    "nothing": (lambda a: None, r"2D|NaN|requires y|1d|dask array|needs y|inconsistent"),
    "a number": (lambda a: 3.0, r"scalar|1d|dask array|shape|0-dimensional|inconsistent"),
    "a dict": (lambda a: {"a": 1}, r"dict|1d|scalar|shape|dask array"),
    "complex": (as_type(complex), r"[Cc]omplex"),
    "dates": (lambda a: a.astype("M8[D]"), r"holds dates|datetime64"),
    "missing dates": (lambda a: np.full(a.shape, "NaT", "M8[s]"), r"holds dates|datetime64"),
    "durations": (lambda a: a.astype("m8[s]"), r"holds dates|timedelta64"),
    "sparse": (
        lambda a: sparse.csr_matrix(np.atleast_2d(a.astype(float).T).T),
        r"[Ss]parse|shape|dask|one target",
    ),
    "records": (
        lambda a: np.zeros(len(a), [("p", "f8"), ("q", "f8")]),
        r"cast|2D|one class|dtype|dim",
    ),
}
ROWS = {
    **LAYOUTS,
    **NOT_FINITE,
    **STRANGE,
    "list": (np.ndarray.tolist, SAME),
    "Fortran": (np.asfortranarray, SAME),
    "matrix of objects": (as_type(object), SAME),
    "table": (table(), SAME),
    "table of Float64": (lambda X: table()(X).astype("Float64"), SAME),
    "polars": (lambda X: pl.DataFrame(X, schema=["a", "b", "c"]), SAME),
    "one column": (lambda X: X[:, 0], r"2D|two dimensions"),
    "three axes": (lambda X: X[:, :, None], r"dim"),
    "no rows": (lambda X: X[:0], r"0 sample|no rows|inconsistent|rows and y"),
    "no columns": (lambda X: X[:, :0], r"0 feature|no columns"),
    "ragged": (lambda X: [[1.0, 2.0], *X[1:].tolist()], r"inhomogeneous|dask array"),
    # Estimators take gaps and categories; features and paths refuse them.
    "NaN": (put(np.nan), SANE),
    "None": (put(None), SANE),
    "masked": (NOT_FINITE["masked"][0], SANE),
    "too large a whole number": (put(10**400), r"infinity|too large|numbers are needed|convert"),
    "text": (lambda X: np.where(X > 1, "x", X.astype(str)), SANE),
    "text in a table": (lambda X: table()(X).assign(b="x"), SANE),
    "series": (lambda X: pd.Series(X[:, 0]), r"2-dimensional|two dimensions"),
    "equal names": (table("aab"), r"unique|Two columns are named|" + SANE),
    "numbers and names": (table(("a", 1, "c")), r"string names|" + SANE),
    "missing in a table": (lambda X: table()(X).mask(X > 1).astype("Float64"), SANE),
    "equal rows": (times(0.0), SANE),
    "an equal column": (lambda X: X * [0.0, 1.0, 1.0], SANE),
    "two rows over and over": (lambda X: np.resize(X[:2], X.shape), SANE),
    "far away": (lambda X: X + 1e15, SANE),
    "nearly equal": (lambda X: 1.0 + X * 1e-15, SANE),
    "an outlier": (put(1e30, (0, 1)), SANE),
    "a far outlier": (put(1.7e308, (0, 1)), SANE),
    "both ends": (lambda X: np.where(X > 0, 1.7e308, -1.7e308), HUGE),
    "large whole numbers": (lambda X: (X * 8).astype(np.int64) * 2**56, SANE),
    **{
        f"times {f:g}": (times(f), SANE)
        for f in (1e-323, 1e-310, 1e-200, 1e-98, 1e98, 1e160, 1e300)
    },
    **{
        f"a column times {f:g}": (times([f, 1.0, 1.0]), SANE)
        for f in (1e-310, 1e-160, 1e-98, 1e98, 1e160, 1e300)
    },
}
COLUMN = {
    "one short": (lambda y: y[:-1], r"inconsistent|rows and|expected|shape"),
    "one long": (lambda y: np.append(y, y[:1]), r"inconsistent|rows and|expected|shape"),
    "empty": (lambda y: y[:0], r"inconsistent|0 sample|rows and|expected|shape"),
    "three axes": (lambda y: y[:, None, None], r"dim|1d|shape|1D|one target"),
    "no column": (lambda y: y[:, None][:, :0], r"0 feature|1d|shape|1D|one target"),
}
NUMBERS = {
    **LAYOUTS,
    **NOT_FINITE,
    **STRANGE,
    **COLUMN,
    "list": (np.ndarray.tolist, SAME),
    "objects": (as_type(object), SAME),
    "series": (pd.Series, SAME),
    "Float64": (lambda y: pd.Series(y).astype("Float64"), SAME),
    "text": (put("x"), r"could not convert|holds classes"),
    "too large a whole number": (put(10**400), r"too large"),
    "constant": (times(0.0), SANE),
    "truths": (lambda y: y > 0, SANE),
    "large whole numbers": (lambda y: (y > 0).astype(np.uint64) * 2**63, SANE),
    "far away": (lambda y: y + 1e12, SANE),
    "an outlier": (put(1e90), SANE),
    "a far outlier": (put(1e200), r"y runs from"),
    "the farthest outlier": (put(1.7e308), r"y runs from"),
    "both ends": (lambda y: np.where(y > 0, 1.7e308, -1.7e308), r"y runs from"),
    "two scales": (lambda y: np.c_[y * 1e90, y * 1e-90], SANE),
    **{f"times {f:g}": (times(f), SANE) for f in (1e-320, 1e-200, 1e-98, 1e-30, 1e30, 1e98)},
    **{f"times {f:g}": (times(f), r"y runs from") for f in (1e160, 1e300)},
}
BIG = 2**53


def label(pair, dtype=object):
    return lambda y: np.array(pair, dtype)[y]


MISSING = r"y contains NaN|labels of different types|NAType"
CLASSES = {
    **{name: STRANGE[name] for name in ("nothing", "a number", "a dict", "complex", "sparse")},
    **COLUMN,
    "NaN": (lambda y: put(np.nan)(y.astype(float)), r"NaN"),
    "infinity": (lambda y: put(np.inf)(y.astype(float)), r"infinity"),
    "None": (put(None), MISSING),
    "masked": NOT_FINITE["masked"],
    "a word": (put("x"), r"labels of different types, number and str"),
    "words and None": (
        label(["a", None]),
        MISSING,
    ),
    "words and NaN": (
        label(["a", np.nan]),
        MISSING,
    ),
    "words and NA": (
        lambda y: pd.Series(label(["a", pd.NA])(y)),
        MISSING,
    ),
    "bytes": (label([b"a", b"b"], "S1"), r"bytes"),
    "pairs": (lambda y: np.c_[y, y], r"1d|multi|shape|dim"),
    "one class": (lambda y: y * 0, r"one class|fewer than two"),
    "zeros of both signs": (lambda y: np.where(y, 0.0, -0.0), r"one class|fewer than two"),
    "many decimals": (lambda y: y + np.linspace(0.1, 0.3, len(y)), r"continuous"),
    "a class a row": (lambda y: np.arange(len(y)), SANE),
    "list": (np.ndarray.tolist, SAME),
    "truths": (as_type(bool), SANE),
    "words": (label(["a", "b"], "U1"), SANE),
    "long words": (label(["a" * 999, "b"]), SANE),
    "categories": (lambda y: pd.Series(pd.Categorical(label(["a", "b"])(y))), SANE),
    "above 2^53": (lambda y: y + BIG, SANE),
    "above 2^53 unsigned": (lambda y: (y + BIG).astype(np.uint64), SANE),
    "above 2^63": (lambda y: y.astype(np.uint64) + np.uint64(2**63 + 1), SANE),
    "above 2^53 of Python": (lambda y: (y + BIG).tolist(), SANE),
    "above 2^53 as objects": (lambda y: (y + BIG).astype(object), SANE),
    "above 2^53 of pandas": (lambda y: pd.Series(y + BIG).astype("Int64"), SANE),
    "above 2^53 of Arrow": (lambda y: pd.Series(y + BIG).astype("int64[pyarrow]"), SANE),
    "missing of pandas": (
        lambda y: pd.Series(y).astype("Int64").mask(y > 0),
        MISSING,
    ),
}
WEIGHTS = {
    **{name: LAYOUTS[name] for name in ("strided", "read-only", "half")},
    **{name: NOT_FINITE[name] for name in ("NaN", "infinity", "masked")},
    **{name: STRANGE[name] for name in ("complex", "sparse")},
    **{name: COLUMN[name] for name in ("one short", "one long", "three axes")},
    "list": (np.ndarray.tolist, SAME),
    "a column": (lambda w: w[:, None], r"1D|shape"),
    "negative": (put(-1.0), r"[Nn]egative"),
    "all zero": (times(0.0), r"zero"),
    "text": (lambda w: ["x"] * len(w), r"could not convert"),
    "one row": (lambda w: w * (np.arange(len(w)) == 3), SANE),
    "some zero": (lambda w: w * (np.arange(len(w)) % 3 > 0), SANE),
    "shares": (lambda w: w / w.sum(), SANE),
    **{f"times {f:g}": (times(f), SANE) for f in (1e-9, 1e-6, 1e3, 1e6)},
    **{
        f"times {f:g}": (times(f), r"sample_weight gives weights from")
        for f in (1e-320, 1e-160, 1e-20, 1e20, 1e160, 1e300)
    },
    **{
        f"one of {f:g}": (put(f), r"sample_weight gives weights from")
        for f in (1e-320, 1e-100, 1e-20, 1e20, 1e100, 1e300)
    },
    **{f"one of {f:g}": (put(f), SANE) for f in (1e-9, 1e9)},
}
PARAMETERS = [
    None, True, -1, 0, 1, 3, 3.5, -0.5, 1e-320, 1e-300, 1e300, 2**70, -(2**70), np.nan, np.inf,
    -np.inf, 1j, "", "bad", "balanced", b"x", [], {}, (1, 2), [1.0], [0.0, 1, 2], [1.0, 2.0, 3.0],
    [np.nan] * 3, [1e-320] * 3, [1e308] * 3, ["a"] * 3, {0: 1.0, 1: 2.0}, {0: -1.0}, {0: 1e300},
    {5: 1.0}, np.float32(0.5), np.int64(3), np.array([3]), range(3), slice(3), object(), print,
    np.random.default_rng(0),
]  # fmt: skip
