"""Models as JSON values and arrays, and back, by the attributes of listed classes.

A JSON value stands for itself, or is an object of one key that says what it is: ``float`` (not
finite), ``list``, ``tuple``, ``dict``, ``array`` and ``object`` (a number in a table), ``objects``
(an array of Python values), ``scalar`` (of numpy) and ``random_state``. What is shared in a model
has one place in the tables, and is shared again when it is read.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from mondrian_kernel import _settings as settings
from mondrian_kernel.persistence.container import (
    ModelFileError,
    little_endian,
    restore,
    stored_arrays,
)

CLASSES = {
    "Basis": "_model.fitted",
    "Columns": "_model.columns",
    "Committee": "_online.committee",
    "ExactStream": "_online.exact",
    "Filter": "_online.learners",
    "FitNotes": "_model.notes",
    "FittedModel": "_model.fitted",
    "Levels": "_trees.levels",
    "LifetimePath": "_path.result",
    "Linear": "_online.linear",
    "Means": "_online.learners",
    "Mixture": "_online.mixture",
    "MondrianFeatures": "features",
    "MondrianForestClassifier": "forest",
    "MondrianForestRegressor": "forest",
    "MondrianKernelClassifier": "classifier",
    "MondrianKernelRegressor": "regressor",
    "PackedModel": "_model.packed",
    "PackedOnline": "_trees.packed",
    "PackedTrees": "_trees.packed",
    "RidgeRows": "_path.result",
    "SgdWeights": "_path.result",
    "Spread": "_model.spread",
    "Stream": "_online.stream",
    "TableEncoder": "encoder",
    "TableModel": "app.table_model",
    "TrainingRows": "_model.fitted",
    "Trees": "_trees.trees",
    "Trend": "_model.trend",
    "WidthMixture": "_path.posterior",
}
# These are checked by the object that holds them, against its trees.
CHECKED_BY_OWNER = {
    *("Basis", "Columns", "FitNotes", "Levels", "OnlineTrees", "Spread", "TrainingRows", "Trend"),
}
# Parameters that belong to a machine and not to a model: they are not saved.
_MACHINE = {"n_jobs", "verbose"}
_PLAIN = (bool, int, str, type(None))


def cannot_save(where: str, what: str) -> TypeError:
    """Return the error that says what of a model a file cannot hold, and what it can."""
    return TypeError(
        f"Cannot save {where}: {what}. A file holds plain Python, arrays of numbers or text, and "
        "Mondrian features, kernels, forests and paths."
    )


class Encoder:
    """Collects the tables of a file while values are encoded."""

    def __init__(self) -> None:
        self.objects: list[list[Any]] = []
        self.arrays: list[NDArray[Any]] = []
        self._seen: dict[int, tuple[Any, dict[str, Any]]] = {}  # values stay alive, ids unique

    def encode(self, value: Any, where: str) -> Any:
        """Return the JSON value that stands for a value; ``where`` names it in errors."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list or kind is tuple:
            return {kind.__name__: [self.encode(item, where) for item in value]}
        if kind is dict:
            pairs = value.items()
            return {"dict": [[self.encode(k, where), self.encode(v, where)] for k, v in pairs]}
        if isinstance(value, np.generic):
            return {"scalar": self.encode(np.asarray(value), where)}
        if kind is np.random.RandomState:
            return {"random_state": self.encode(value.get_state(legacy=False), where)}
        if id(value) not in self._seen:
            is_array = kind is np.ndarray
            code = self._array(value, where) if is_array else self._object(value, where)
            self._seen[id(value)] = value, code
        return self._seen[id(value)][1]

    def _array(self, value: NDArray[Any], where: str) -> dict[str, Any]:
        if value.dtype.kind == "O":
            items = value.ravel().tolist()
            if not all(type(item) in (*_PLAIN, float) for item in items):
                raise cannot_save(where, "an array of objects that are not text")
            codes = [self.encode(item, where) for item in items]
            return {"objects": [list(value.shape), codes]}
        try:
            self.arrays.append(little_endian(value))
        except TypeError as error:
            raise cannot_save(where, str(error)) from error
        return {"array": len(self.arrays) - 1}

    def _object(self, value: Any, where: str) -> dict[str, int]:
        cls = type(value)
        if cls.__module__ != f"mondrian_kernel.{CLASSES.get(cls.__name__)}":
            raise cannot_save(where, f"a value of type {cls.__module__}.{cls.__name__}")
        _check(value)
        if hasattr(value, "packed"):
            value = value.packed(settings.FILE_UNPACKED)
            cls = type(value)
        state = value.file_state() if hasattr(value, "file_state") else _state(value)
        code = {name: self.encode(v, f"{cls.__name__}.{name}") for name, v in state.items()}
        self.objects.append([cls.__name__, code])
        return {"object": len(self.objects) - 1}


class Decoder:
    """Reads values back from the tables of a file.

    An object refers only to objects before it.
    """

    def __init__(self, arrays: list[Any], objects: list[Any], body: memoryview) -> None:
        self._codes, self._n_bytes = objects, len(body)
        self._tables: dict[str, list[Any]] = {
            "array": restore(stored_arrays(arrays, len(body)), body),
            "object": [],
        }
        self._used: set[tuple[str, int]] = set()

    def model(self, code: Any) -> Any:
        """Return the model of the file, to which everything else in it must belong."""
        if type(code) is not dict or list(code) != ["object"]:
            raise ModelFileError("Its model is not an object.")
        for name, state in self._codes:
            self._tables["object"].append(self._object(name, state))
        model = self._decode(code)
        n_unused = sum(map(len, self._tables.values())) - len(self._used)
        if n_unused:
            raise ModelFileError(f"{n_unused} of its arrays and objects belong to nothing.")
        return model

    def _decode(self, code: Any) -> Any:
        if type(code) in (*_PLAIN, float):
            return code
        if type(code) is not dict or len(code) != 1:
            raise ModelFileError(f"Its header holds a value without a kind: {str(code)[:60]}")
        ((kind, content),) = code.items()
        if kind == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if kind == "list" or kind == "tuple":
            items = [self._decode(item) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {self._decode(k): self._decode(v) for k, v in content}
        if kind == "array" or kind == "object":
            return self._referred(kind, content)
        if kind == "objects":
            return self._object_array(*content)
        if kind == "scalar":
            return self._decode(content)[()]
        if kind == "random_state":
            return _random_state(self._decode(content))
        raise ModelFileError(f"Its header holds a value of unknown kind {kind[:60]!r}.")

    def _referred(self, kind: str, number: Any) -> Any:
        table = self._tables[kind]
        if type(number) is not int or not 0 <= number < len(table):
            raise ModelFileError(f"Its header refers to a missing {kind}, number {number}.")
        self._used.add((kind, number))
        return table[number]

    def _object_array(self, shape: Any, codes: Any) -> NDArray[Any]:
        items = [self._decode(code) for code in codes]
        if len(items) != math.prod(shape) or not all(type(i) in (*_PLAIN, float) for i in items):
            raise ModelFileError(f"An array of objects of shape {shape} has other items.")
        flat = np.empty(len(items), object)
        flat[:] = items
        return flat.reshape(shape)

    def _object(self, name: Any, code: Any) -> Any:
        if name not in CLASSES:
            raise ModelFileError(f"It holds an object of unknown class {str(name)[:60]!r}.")
        cls: Any = getattr(import_module(f"mondrian_kernel.{CLASSES[name]}"), name)
        _check_names(cls, set(code))
        state = {attribute: self._decode(value) for attribute, value in code.items()}
        if not hasattr(cls, "__setstate__"):  # a dataclass
            value = cls(**state)
            if hasattr(value, "unpacked"):
                return self._unpacked(value)
        else:
            value = cls() if issubclass(cls, BaseEstimator) else cls.__new__(cls)
            value.__setstate__(state)
            if set(_state(value)) != set(state):
                raise ModelFileError(f"A {name} lacks, or must not have, some attributes.")
        _check(value)
        return value

    def _unpacked(self, packed: Any) -> Any:
        _check(packed)
        if packed.n_bytes > settings.FILE_UNPACKED * self._n_bytes:
            raise ModelFileError("Its model claims far more memory than the file has bytes.")
        try:
            value = packed.unpacked()
        except ValueError as error:
            raise ModelFileError(f"Its model is inconsistent: {error}") from error
        _check(value, follows=True)
        return value


def _state(value: Any) -> dict[str, Any]:
    """Attributes of an object that make it again."""
    if dataclasses.is_dataclass(value) and "__getstate__" not in vars(type(value)):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    state: dict[str, Any] = value.__getstate__()
    if isinstance(value, BaseEstimator):
        state = {name: attribute for name, attribute in state.items() if name not in _MACHINE}
    return state


def _check_names(cls: Any, names: set[str]) -> None:
    """Refuse a state that lacks attributes, or has some that would hide those of the class."""
    wrong: set[str] = set()
    if dataclasses.is_dataclass(cls):
        wrong = {field.name for field in dataclasses.fields(cls)} ^ names
    elif issubclass(cls, BaseEstimator):
        wrong = set(cls._get_param_names()) - _MACHINE - names | _MACHINE & names
        wrong |= {n for n in names if not n.isidentifier() or getattr(cls, n, None) is not None}
    if wrong:
        raise ModelFileError(f"A {cls.__name__} lacks, or must not have, {sorted(wrong)}.")


def _check(value: Any, *, follows: bool = False) -> None:
    """Refuse an object whose fields have other types than it declares, or that contradicts itself.

    The parts of the object have been checked before, and so has what it ``follows`` from.
    """
    cls = type(value)
    try:
        if dataclasses.is_dataclass(cls):
            hints = typing.get_type_hints(cls)
            for field in dataclasses.fields(cls):
                if not _is_a(getattr(value, field.name), hints[field.name]):
                    raise ValueError(f"{field.name} is not of the type {field.type}.")
        elif isinstance(value, BaseEstimator):
            value._validate_params()
        if cls.__name__ not in CHECKED_BY_OWNER:
            check = getattr(value, "check_numbers", value.check) if follows else value.check
            check()
    except ValueError as error:
        raise ModelFileError(f"Its {cls.__name__} is inconsistent: {error}") from error


def _is_a(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; arrays must have the dtype."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(origin, "__value__"):  # an alias, as NDArray is from numpy 2.5 on
        return _is_a(value, origin.__value__[args])
    if hint is Any:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(_is_a(value, part) for part in args)
    if origin is np.ndarray:
        (dtype,) = typing.get_args(args[1])
        return type(value) is np.ndarray and (dtype is Any or issubclass(value.dtype.type, dtype))
    if type(value) is not origin and origin is not None:
        return False
    if origin is list:
        return all(_is_a(item, args[0]) for item in value)
    if origin is dict:
        return all(_is_a(k, args[0]) and _is_a(v, args[1]) for k, v in value.items())
    if origin is tuple:
        return len(value) == len(args) and all(map(_is_a, value, args))
    return isinstance(value, hint) and (hint is bool or type(value) is not bool)


def _random_state(state: dict[str, Any]) -> np.random.RandomState:
    key, pos = state["state"]["key"], state["state"]["pos"]
    plain = type(pos) is int and type(state["gauss"]) is float and state["has_gauss"] in (0, 1)
    if not plain or not 0 <= pos <= 624 or key.dtype != np.uint32 or key.shape != (624,):
        raise ModelFileError("It holds an impossible state of a random generator.")
    generator = np.random.RandomState(0)
    generator.set_state(state)
    return generator
