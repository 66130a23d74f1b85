"""Model files with a wrong value and a valid checksum, or with damaged bytes, without an end."""

import atexit
import copy
import shutil
import tempfile
import warnings
from functools import cache, partial
from itertools import count
from pathlib import Path

import numpy as np

import mondrian_kernel as mk
from forgery import Forgery
from hostile.judge import ACCEPTED, CLEAR, REFUSED, Attack
from hostile.subjects import NEW, X, Y
from mondrian_kernel.persistence import ModelFileError, load
from mondrian_kernel.persistence.container import pack

OPTIONS = {"n_estimators": 3, "random_state": 0}
SAVED = {
    "regressor": lambda: mk.MondrianKernelRegressor(**OPTIONS).fit(X, Y["numbers"]),
    "average": lambda: mk.MondrianKernelRegressor("average", **OPTIONS).fit(X, Y["numbers"]),
    "classifier": lambda: mk.MondrianKernelClassifier(**OPTIONS).fit(X, Y["classes"]),
    "forest": lambda: mk.MondrianForestRegressor(**OPTIONS).fit(X, Y["numbers"]),
    "table": lambda: mk.MondrianForestClassifier(**OPTIONS).fit(X.astype(str), Y["classes"]),
    "features": lambda: mk.MondrianFeatures([0.5, 1.0], 3, random_state=0).fit(X),
    "stream": lambda: mk.MondrianKernelRegressor(**OPTIONS).partial_fit(X, Y["numbers"]),
    "exact stream": lambda: mk.MondrianKernelRegressor(1.0, **OPTIONS).partial_fit(X, Y["numbers"]),
    "path": lambda: mk.lifetime_path(X, Y["numbers"], lifetimes=[0.3, 0.8], **OPTIONS),
    "gradients": lambda: mk.sgd_path(X, Y["numbers"], alpha=0.1, max_lifetime=1.0, **OPTIONS),
}
WHOLE = [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1]
REAL = [np.nan, np.inf, -np.inf, -1e308, -1.0, -1e-320, 0.0, 1e-320, 0.5, 1.0, 1e308]
PLAIN = [
    None, True, -1, 0, 1, 2, 10**9, 2**70, -1.0, 0.0, 1e-320, 1e308, "", "x", [], {}, {"list": []},
    {"float": "nan"}, {"float": "inf"}, {"array": 0}, {"object": 0}, {"dict": []}, {"tuple": [1]},
]  # fmt: skip


def new_folder():
    """Return a folder that is removed at the end."""
    folder = tempfile.mkdtemp(prefix="hostile-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def saved(name):
    return Forgery(SAVED[name](), new_folder())


def places(value, at=()):
    """Yield the keys that lead to each plain value in the header of a file."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))
    else:
        yield at


def wrong_entry(forgery, rng):
    """Put a number on the edge of what is allowed, or beyond, into an array."""
    index = int(rng.integers(len(forgery.chunks)))
    array = forgery.get(index).copy()
    if array.dtype.kind == "U" or array.size == 0:
        return wrong_shape(forgery, rng)
    whole = array.dtype.kind != "f"
    edges = [array.max() + 1, array.min() - 1, array.size] if whole else [array.max(), array.min()]
    entry = rng.choice([*(WHOLE if whole else REAL), *edges])
    place = int(rng.integers(array.size))
    with np.errstate(all="ignore"):
        array.flat[place] = np.asarray(entry).astype(array.dtype)
    forgery.set(index, array)
    return f"array {index} is {entry} at {place}"


def wrong_shape(forgery, rng):
    index = int(rng.integers(len(forgery.chunks)))
    array = forgery.get(index)
    changes = [array[:0], array[..., None], array[:-1], np.concatenate([array, array[-1:]])]
    number = int(rng.integers(len(changes)))
    forgery.set(index, changes[number])
    return f"array {index} has the shape {changes[number].shape}"


def wrong_value(forgery, rng):
    """Put another value in the place of one in the header."""
    found = list(places(forgery.header))
    *way, last = found[rng.integers(len(found))]
    value, inside = PLAIN[rng.integers(len(PLAIN))], forgery.header
    for key in way:
        inside = inside[key]
    inside[last] = value
    return f"{'.'.join(map(str, [*way, last]))} is {value!r}"


def damaged(contents, rng):
    """Change, leave out or add bytes of a file."""
    contents = bytearray(contents)
    at = int(rng.integers(len(contents)))
    kind = rng.integers(3)
    if kind == 0:
        contents[at] ^= int(rng.integers(1, 256))
    elif kind == 1:
        del contents[at:]
    else:
        contents[at:at] = rng.bytes(3)
    return bytes(contents)


def use(model):
    """Let a model that was loaded predict and go on; bad states must not show only here."""
    if isinstance(model, mk.MondrianFeatures):
        assert model.transform(NEW).shape == (5, model.n_cells_)
    elif isinstance(model, mk.LifetimePath):
        assert model.predict(NEW).shape[0] == 5
    else:
        table = "U" if getattr(model, "encoder_", None) is not None else "f8"
        assert model.predict(NEW.astype(table)).shape[0] == 5
        y = Y["classes" if hasattr(model, "classes_") else "numbers"]
        model.partial_fit(X.astype(table), y)


def forge(name, seed):
    """Load a forged or damaged file, and use the model if it is taken."""
    rng, forgery = np.random.default_rng(seed), copy.deepcopy(saved(name))
    if rng.uniform() < 0.1:
        forgery.path.write_bytes(damaged(b"".join(pack(forgery.header, forgery.chunks)), rng))
        try:
            load(forgery.path)
        except ModelFileError:
            return REFUSED
        raise AssertionError("A damaged file was loaded.")
    change = rng.choice([wrong_entry, wrong_shape, wrong_value], p=[0.5, 0.1, 0.4])
    what = change(forgery, rng)
    try:
        model = forgery.load()
    except ModelFileError:
        return REFUSED
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__} {error}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers may be as large as they please
        try:
            use(model)
        except Exception as error:
            if type(error).__name__ not in CLEAR:
                raise AssertionError(f"{what}: {type(error).__name__} {error}") from error
    return ACCEPTED


def file_attacks(name, seed):
    """Yield attacks on the file of a model, without an end."""
    for number in count():
        run = partial(forge, name, [seed, number])
        yield Attack(f"{name} file", f"seed {seed}, {number}", run)
