"""Ctrl-C at any line of a call: it is done as a whole, or it has not begun."""

import os
import pickle
import sys
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from typing import NamedTuple

import numpy as np

import mondrian_kernel as mk
from hostile.files import new_folder
from hostile.judge import ACCEPTED, REFUSED, Attack
from hostile.subjects import NEW, X
from mondrian_kernel.persistence import load, save

LAST_LINES = 20
PACKAGE = os.path.dirname(mk.__file__)
RNG = np.random.default_rng(0)
MANY, BATCH, LATER = (RNG.normal(size=(n, 3)) for n in (2040, 20, 15))


class Line:
    """A count of the lines of the package that a call has come to; one of them interrupts it."""

    def __init__(self, number):
        self.number, self.n_seen = number, 0

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        self.n_seen += event == "line"
        if event == "line" and self.n_seen == self.number:
            raise KeyboardInterrupt
        return self


@contextmanager
def interrupted_at(number):
    """Interrupt what is called at the line of this number, if it comes so far."""
    line, before = Line(number), sys.gettrace()
    sys.settrace(line)
    try:
        yield line
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)


def target(model, rows):
    return rows[:, 0] > 0 if hasattr(model, "class_weight") else 5 * np.sin(rows[:, 0])


def go_on(model, rows):
    """Let a model learn a batch."""
    if isinstance(model, mk.MondrianFeatures):
        return model.partial_fit(rows)
    options = {"classes": [False, True]} if hasattr(model, "class_weight") else {}
    return model.partial_fit(rows, target(model, rows), **options)


def fit_anew(model, rows):
    return model.fit(rows[:, :2], target(model, rows))


def learnt(cls, *arguments, fit=False, rows=X):
    """Return a model of rows, by a fit or by two batches."""
    model = cls(*arguments, n_estimators=3, random_state=0)
    if fit:
        model.fit(rows[:-5], target(model, rows)[:-5])
    return go_on(model if fit else go_on(model, rows[:-5]), rows[-5:])


SUBJECTS = {
    "stream": (partial(learnt, mk.MondrianKernelRegressor), go_on),
    "long stream": (partial(learnt, mk.MondrianKernelRegressor, rows=MANY), go_on),
    "exact stream": (partial(learnt, mk.MondrianKernelRegressor, 1.0), go_on),
    "stream after a fit": (partial(learnt, mk.MondrianKernelRegressor, fit=True), go_on),
    "stream of classes": (partial(learnt, mk.MondrianKernelClassifier, rows=MANY), go_on),
    "classes after a fit": (partial(learnt, mk.MondrianKernelClassifier, fit=True), go_on),
    "stream of a forest": (partial(learnt, mk.MondrianForestRegressor), go_on),
    "stream of features": (partial(learnt, mk.MondrianFeatures, 1.0), go_on),
    "second fit": (partial(learnt, mk.MondrianKernelRegressor, 1.0, 0.1, fit=True), fit_anew),
}


class Known(NamedTuple):
    """A model as bytes, the lines of a call, and what the model says without or after it."""

    model: bytes
    n_lines: int
    states: list


def says(model):
    """Return what a model says now, and what it says after a further batch."""
    found = []
    for more in (False, True):
        new = NEW[:, : model.n_features_in_]
        if more:
            go_on(model, LATER[:, : model.n_features_in_])
        if hasattr(model, "transform"):
            found.append(model.transform(new).toarray())
            continue
        found.append(model.predict(new).astype(float))
        methods = "predict_interval", "predict_proba"
        found += [getattr(model, m)(new) for m in methods if hasattr(model, m)]
    return found


@cache
def known(name):
    make, call = SUBJECTS[name]
    model = pickle.dumps(make())
    done = pickle.loads(model)
    with interrupted_at(0) as line:
        call(done, BATCH)
    return Known(model, line.n_seen, [says(pickle.loads(model)), says(done)])


def is_close(found, expected):
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-8, atol=1e-10)
        for a, b in zip(found, expected, strict=True)
    )


def interrupt(name, seed, attempt):
    """Interrupt a call at a line; the model says what it said before, or all of it.

    The last lines come first, since there the model takes over what was learnt; then random ones.
    """
    case = known(name)
    number = case.n_lines - attempt
    if attempt >= LAST_LINES:
        number = int(np.random.default_rng([seed, attempt]).integers(1, case.n_lines + 1))
    model = pickle.loads(case.model)
    with interrupted_at(number):
        SUBJECTS[name][1](model, BATCH)
    found = says(model)
    for outcome, state in zip((REFUSED, ACCEPTED), case.states, strict=True):
        if is_close(found, state):
            return outcome
    raise AssertionError(f"Interrupted at line {number} of {case.n_lines}, it is half changed.")


@cache
def saved_twice():
    """Return a folder with a file, and the model that is to replace it."""
    folder = new_folder()
    save(mk.MondrianFeatures(1.0, 3, random_state=0).fit(X), folder / "model")
    model = mk.MondrianFeatures(2.0, 3, random_state=0).fit(X)
    with interrupted_at(0) as line:
        save(model, folder / "new")
    return folder, model, line.n_seen, [(folder / f).read_bytes() for f in ("model", "new")]


def interrupt_save(seed):
    """Interrupt the writing of a file: it is the old or the new one, and nothing else is left."""
    folder, model, n_lines, contents = saved_twice()
    (folder / "model").write_bytes(contents[0])
    with interrupted_at(int(np.random.default_rng(seed).integers(1, n_lines + 1))):
        save(model, folder / "model")
    assert sorted(os.listdir(folder)) == ["model", "new"]
    load(folder / "model")
    return (REFUSED, ACCEPTED)[contents.index((folder / "model").read_bytes())]


def interrupt_attacks(name, seed):
    """Yield interrupts of a call, without an end."""
    for number in count():
        run = partial(interrupt, name, seed, number)
        yield Attack("interrupted " + name, f"seed {seed}, {number}", run)


def save_attacks(seed):
    """Yield interrupts of the writing of a file, without an end."""
    for number in count():
        run = partial(interrupt_save, [seed, number])
        yield Attack("interrupted save", f"seed {seed}, {number}", run)
