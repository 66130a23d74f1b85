"""Wrong arguments of the methods of fitted models, and wrong rows of a stream of dicts."""

from functools import cache, partial

import numpy as np
import pandas as pd

import mondrian_kernel as mk
from hostile.files import SAVED
from hostile.judge import REFUSED, Attack, check_clear, check_same, watched
from hostile.subjects import NEW, X, Y
from mondrian_kernel import river

SHARES = [None, "bad", "", -1, 0, 1, 2, np.nan, np.inf, 1j, [], {}, True, [0.5, np.nan], [[0.5]]]
WHOLE = [None, "bad", -1, 0, 1.5, np.nan, [], [3], {}]
WRONG = {
    ("predict_interval", "coverage"): SHARES,
    ("predict_quantiles", "quantiles"): SHARES[:-1],
    ("predict_set", "coverage"): [*SHARES, [0.5, 0.6]],
    ("sample_y", "n_samples"): WHOLE,
    ("explain", "n_neighbours"): WHOLE,
    ("explain", "background"): ["bad", X[:0], X[:, :2], X[0], X[None], X - np.inf, X + 1e308, 3.0],
    ("at", "lifetime"): [None, "bad", -1, np.nan, np.inf, 1e300, 1j, [], [0.1], {}],
}
COLUMNS = pd.DataFrame(X, columns=list("abc"))
ROW = {"a": 0.5, "b": 1.0}
BAD_ROWS = [
    {"a": bad} for bad in (np.nan, np.inf, None, "x", 1j, [1.0], {}, 1e200, pd.NA, np.zeros(2))
] + [{"new": np.nan}]
BAD_NUMBERS = [None, np.nan, np.inf, "x", 1j, [1.0, 2.0], {}, pd.NA, 1e200]
BAD_LABELS = [None, np.nan, float("nan"), pd.NA, pd.NaT]
BAD_TABLES = {
    "a short y": (COLUMNS, pd.Series(Y["numbers"][:5])),
    "a long y": (COLUMNS[:5], pd.Series(Y["numbers"])),
    "gaps": (COLUMNS.mask(COLUMNS > 1), pd.Series(Y["numbers"])),
    "text": (COLUMNS.assign(b="x"), pd.Series(Y["numbers"])),
    "gaps in y": (COLUMNS, pd.Series(Y["numbers"]).mask(Y["numbers"] > 1)),
    "equal names": (COLUMNS.set_axis(list("aab"), axis=1), pd.Series(Y["numbers"])),
}


METHODS = {
    "regressor": mk.MondrianKernelRegressor,
    "average": mk.MondrianKernelRegressor,
    "classifier": mk.MondrianKernelClassifier,
    "forest": mk.MondrianForestRegressor,
    "stream": mk.MondrianKernelRegressor,
    "exact stream": mk.MondrianKernelRegressor,
}


@cache
def fitted(name):
    return SAVED[name]()


def refused(call, pattern):
    """Check that a call is refused for a reason that its words name."""
    try:
        with watched():
            found = call()
    except Exception as error:
        check_clear(error, pattern)
        return REFUSED
    raise AssertionError(f"This must be refused, but it gives {found!r}."[:200])


def attack_method(name, method, argument, value):
    """Call a method with a wrong argument; the model stays as it is."""
    model = fitted(name)
    before = model.predict(NEW)
    given = [] if method == "at" else [NEW]
    outcome = refused(partial(getattr(model, method), *given, **{argument: value}), argument)
    check_same([model.predict(NEW)], [before])
    return outcome


def method_attacks(name):
    """Yield wrong arguments of the methods of a fitted model."""
    for (method, argument), values in WRONG.items():
        for value in values if hasattr(METHODS[name], method) else ():
            what = f"{method}, {argument}={value!r}"
            run = partial(attack_method, name, method, argument, value)
            yield Attack(f"{name} methods", what, run)


def attack_stream(cls, learn, pattern):
    """Let a stream of dicts learn something wrong; it stays as it is."""
    model = cls(n_estimators=3, seed=0)
    target = (Y["classes"] if cls is river.MondrianKernelClassifier else Y["numbers"])[:4]
    for x, y in zip(COLUMNS.to_dict("records"), target.tolist(), strict=False):
        model.learn_one(x, y)
    says = model.predict_one if target.dtype.kind == "f" else model.predict_proba_one
    before = says(ROW)
    outcome = refused(partial(learn, model), pattern)
    assert says(ROW) == before
    return outcome


def stream_attacks():
    """Yield wrong rows, targets and tables of streams of dicts."""
    numbers, classes = river.MondrianKernelRegressor, river.MondrianKernelClassifier
    cases = [
        (cls, f"row {x}", lambda m, x=x: m.learn_one(x, 1), "a|new")
        for x in BAD_ROWS
        for cls in (numbers, classes)
    ]
    cases += [(numbers, f"y={y!r}", lambda m, y=y: m.learn_one(ROW, y), "y") for y in BAD_NUMBERS]
    cases += [
        (classes, f"y={y!r}", lambda m, y=y: m.learn_one(ROW, y), "y contains NaN")
        for y in BAD_LABELS
    ]
    cases += [
        (numbers, f"coverage={c!r}", lambda m, c=c: m.predict_interval_one(ROW, c), "coverage")
        for c in SHARES
    ]
    cases += [
        (cls, what, lambda m, table=table: m.learn_many(*table), r"rows|finite|duplicate|NaN")
        for what, table in BAD_TABLES.items()
        for cls in (numbers, classes)
    ]
    for cls, what, learn, pattern in cases:
        yield Attack(
            "stream of dicts",
            f"{cls.__name__}, {what}",
            partial(attack_stream, cls, learn, pattern),
        )


def method_groups():
    """Yield the name and the attacks on the methods of fitted models."""
    for name in METHODS:
        yield f"{name} methods", method_attacks(name)
    yield "stream of dicts", stream_attacks()
