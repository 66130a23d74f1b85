"""What may come of an attack: the right result, or a clear error and a model as it was before."""

import os
import re
import warnings
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout
from functools import partial
from inspect import signature
from typing import NamedTuple

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from hostile.attacks import CLASSES, NUMBERS, PARAMETERS, ROWS, SAME, SANE, WEIGHTS
from hostile.subjects import KIND, NEW, VERBS, WEIGHT, Box, Path, X, Y, learn, make, seen

ACCEPTED, REFUSED = "accepted", "refused"
CLEAR = {"ValueError", "TypeError", "InvalidParameterError", "NotFittedError", "DuplicateError"}
TARGETS = {"numbers": NUMBERS, "classes": CLASSES, "rows": {}, "tables": {}, "boxes": {}}
SIZES = {"n_estimators", "n_grids", "n_components", "n_lifetimes", "passes"}


class Attack(NamedTuple):
    """An attack on a subject: ``run()`` returns the outcome or raises a fault."""

    name: str
    what: str
    run: Callable[[], str]


@contextmanager
def watched():
    """Let warnings pass; but where nothing is refused, no number may overflow or be lost."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    lost = [str(w.message) for w in told if issubclass(w.category, RuntimeWarning)]
    assert not lost, lost


def check_clear(error, pattern):
    """Check that an error is one that a user can act on, and not a fault found by a test."""
    if isinstance(error, AssertionError) or type(error).__name__ not in CLEAR:
        raise error
    assert re.search(pattern, str(error)), str(error)


def check_same(found, before):
    for now, then in zip(found, before, strict=True):
        assert_array_equal(now, then)


def check_unfitted(model):
    try:
        check_is_fitted(model)
    except NotFittedError:
        return
    raise AssertionError("The model counts as fitted.")


def check_sane(name, found, y):
    """Check that what a model says is finite and not beside the point."""
    for values in found:
        assert values.dtype.kind != "f" or np.isfinite(values).all()
    if KIND[name] == "numbers":
        y = np.asarray(y, float)
        low, high = y.min(axis=0), y.max(axis=0)
        room = 10 * (high - low) + 1e-6 * abs(high)
        assert ((found[0] >= low - room) & (found[0] <= high + room)).all(), found[0]
    elif KIND[name] == "classes" and name != "loss path":
        assert set(found[0].tolist()) <= set(np.asarray(y).ravel().tolist())
    elif KIND[name] == "rows":
        assert ((found[0] ** 2).sum(axis=1) < 3).all()


def attack_argument(name, verb, attacked, change, outcome, *, fitted):
    """Attack an argument of a fresh or of a fitted model."""
    model, on_dask, learnt = make(name), name.startswith("Dask"), False
    given = {"X": X, "y": Y[KIND[name]], "sample_weight": None, "new": NEW}
    if fitted:
        # A fit may be on other columns than the one before; a batch may not.
        columns = slice(0, 1) if verb == "fit" else slice(None)
        learn(name, model, verb, X[:, columns], given["y"])
        before = seen(name, model, NEW[:, columns])
    try:
        with watched():
            good = {**given, "sample_weight": WEIGHT} if attacked == "sample_weight" else given
            bad = {**good, attacked: change(good[attacked])}
            new = change(NEW) if attacked == "X" and not on_dask else NEW
            learn(name, model, verb, bad["X"], bad["y"], bad["sample_weight"])
            learnt = True
            found = seen(name, model, new)
    except Exception as error:
        check_clear(error, r"\w{3}" if on_dask or outcome in (SAME, SANE) else outcome)
        if outcome == SAME and not on_dask:
            raise AssertionError("This must not be refused.") from error
        if fitted and not learnt:
            check_same(seen(name, model, NEW[:, columns]), before)
        elif not learnt:
            check_unfitted(model)
        return REFUSED
    assert on_dask or outcome == SAME or outcome.endswith(SANE), "This must be refused."
    if outcome == SAME and not fitted:
        plain = make(name)
        learn(name, plain, verb, good["X"], good["y"], good["sample_weight"])
        for now, then in zip(found, seen(name, plain, NEW), strict=True):
            compare = assert_allclose if now.dtype.kind == "f" else assert_array_equal
            compare(now, then, **{"rtol": 1e-9, "atol": 1e-12} if now.dtype.kind == "f" else {})
    y = bad["y"]
    if fitted and verb == "partial_fit" and KIND[name] == "numbers" and np.ndim(y) == 1:
        y = np.append(np.asarray(y, float), given["y"])
    check_sane(name, found, y)
    return ACCEPTED


def attack_parameter(name, verb, parameter, value):
    """Fit with a parameter, which is refused by its name or makes sense."""
    model = make(name)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        try:
            with watched():
                learn(name, model.set_params(**{parameter: value}), verb, X, Y[KIND[name]])
                found = seen(name, model, NEW)
        except Exception as error:
            check_clear(error, rf"\b{parameter.removesuffix('s')}s?\b")
            check_unfitted(model)
            return REFUSED
    check_sane(name, found, Y[KIND[name]])
    return ACCEPTED


def attack_new_rows(name, change, outcome):
    """Attack the rows to predict; the model stays as it is."""
    model = make(name)
    learn(name, model, "fit", X, Y[KIND[name]])
    before, result = seen(name, model, NEW), ACCEPTED
    try:
        with watched():
            found = seen(name, model, change(NEW))
    except Exception as error:
        check_clear(error, r"\w{3}" if outcome in (SAME, SANE) else outcome)
        if outcome == SAME:
            raise AssertionError(str(error)) from error
        result = REFUSED
    else:
        check_sane(name, found, Y[KIND[name]])
        if outcome == SAME:
            check_same(found, before)
    check_same(seen(name, model, NEW), before)
    return result


def argument_attacks(name, verb):
    """Yield the attacks on rows, targets and weights of a method of a subject."""
    model = make(name)
    learner = model.function if isinstance(model, Path) else model.fit
    tables = {"X": ROWS, "y": TARGETS[KIND[name]]}
    if "sample_weight" in signature(learner).parameters:
        tables["sample_weight"] = WEIGHTS
    # Paths have no state; Dask and learning of widths are slow.
    states = [False, True]
    if isinstance(model, Path | Box) or "default" in name:
        states = [False]
    elif "Dask" in name:
        states = [True]
    for argument, table in tables.items():
        for kind, (change, outcome) in table.items():
            for fitted in states:
                what = f"{argument}: {kind}, {'fitted' if fitted else 'fresh'}"
                run = partial(attack_argument, name, verb, argument, change, outcome, fitted=fitted)
                yield Attack(name, what, run)


def parameter_attacks(name, verb):
    """Yield the attacks on parameters; a wish for more memory than there is, is none."""
    for parameter in make(name).get_params():
        for value in PARAMETERS:
            if not (
                parameter in SIZES and isinstance(value, int) and (value is True or value > 999)
            ):
                what = f"{parameter}={value!r}"
                run = partial(attack_parameter, name, verb, parameter, value)
                yield Attack(name, what, run)


def new_row_attacks(name):
    """Yield the attacks on the rows to predict."""
    for kind, (change, outcome) in ROWS.items():
        yield Attack(name, kind, partial(attack_new_rows, name, change, outcome))


def argument_groups():
    """Yield the name and the attacks on the methods of all subjects."""
    for name, verb in VERBS:
        if KIND[name] != "boxes":
            yield f"{name} {verb} arguments", argument_attacks(name, verb)
        if not {"Dask", "default"} & {*name.split()}:
            yield f"{name} {verb} parameters", parameter_attacks(name, verb)
    for name in KIND:
        if name not in ("loss path", "partition") and not {"Dask", "default"} & {*name.split()}:
            yield f"{name} predict", new_row_attacks(name)
