"""Models as JSON values and arrays, and back, by the plain attributes of known classes.

A JSON value stands for itself, or is an object of one key that says what it is: ``float`` (not
finite), ``list``, ``tuple``, ``dict``, ``array`` and ``object`` (a number in a table), ``strings``
(an array of text or objects), ``scalar`` (of numpy) and ``random_state``. What is shared in a
model has one place in the tables, and is shared again when it is read.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import zlib
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel.persistence.checks import check
from mondrian_kernel.persistence.container import ModelFileError

CLASSES = {
    "Cells": "_trees.trees",
    "Columns": "app.columns",
    "Filter": "_online.learners",
    "LifetimePath": "_path.result",
    "Means": "_online.learners",
    "MondrianFeatures": "features.transformer",
    "MondrianForestClassifier": "forest.classifier",
    "MondrianForestRegressor": "forest.regressor",
    "MondrianKernelClassifier": "classifier",
    "MondrianKernelRegressor": "regressor",
    "RidgeRows": "_path.result",
    "Stream": "_online.stream",
    "TableModel": "app.table_model",
    "Trees": "_trees.trees",
    "WidthMixture": "_path.mixture",
}
_DTYPES = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
_PLAIN = (bool, int, str, type(None))
# A byte of a zlib stream holds at most 1032 bytes.
_RATIO = 1032


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
        self.arrays: list[list[Any]] = []
        self.chunks: list[bytes] = []
        self._seen: dict[int, tuple[Any, dict[str, int]]] = {}  # holds what it has the id of

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
        if value.dtype.kind in "UO":
            items = value.ravel().tolist()
            if not all(type(item) in (*_PLAIN, float) for item in items):
                raise cannot_save(where, "an array of objects that are not text")
            codes = [self.encode(item, where) for item in items]
            return {"strings": [value.dtype.str.lstrip("<>|"), list(value.shape), codes]}
        value = value.astype(value.dtype.newbyteorder("<"), copy=False)
        if value.dtype.str not in _DTYPES:
            raise cannot_save(where, f"an array of dtype {value.dtype}")
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        # By column: neighbours in a column of leaves or boxes are often equal.
        self.chunks.append(zlib.compress(value.tobytes(order="F")))
        stored = len(self.chunks[-1])
        self.arrays.append([value.dtype.str, list(value.shape), order, stored])
        return {"array": len(self.arrays) - 1}

    def _object(self, value: Any, where: str) -> dict[str, int]:
        cls = type(value)
        home = f"mondrian_kernel.{CLASSES.get(cls.__name__)}"
        if cls.__module__ != home:
            raise cannot_save(where, f"a value of type {cls.__module__}.{cls.__name__}")
        check(value)
        state = _state(value)
        _check_names(cls, state)
        code = {name: self.encode(v, f"{cls.__name__}.{name}") for name, v in state.items()}
        self.objects.append([cls.__name__, code])
        return {"object": len(self.objects) - 1}


class Decoder:
    """Reads values back from the tables of a file, in their order."""

    def __init__(self, arrays: list[Any], objects: list[Any], body: memoryview) -> None:
        self._allowance = _RATIO * len(body) + 2**20
        self._arrays: list[NDArray[Any]] = []
        begin = 0
        for dtype, shape, order, stored in arrays:
            if type(stored) is not int or not 0 <= stored <= len(body) - begin:
                raise ModelFileError(f"An array of {stored} bytes does not fit into the file.")
            self._arrays.append(self._array(dtype, shape, order, body[begin : begin + stored]))
            begin += stored
        if begin != len(body):
            raise ModelFileError(f"{len(body) - begin} bytes of the file belong to no array.")
        self._objects: list[Any] = []
        for name, state in objects:
            self._objects.append(self._object(name, state))

    def decode(self, code: Any) -> Any:
        """Return the value that a JSON value stands for."""
        if type(code) in (*_PLAIN, float):
            return code
        if type(code) is not dict or len(code) != 1:
            raise ModelFileError(f"Its header holds a value without a kind: {str(code)[:60]}")
        ((kind, content),) = code.items()
        if kind == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if kind == "list" or kind == "tuple":
            items = [self.decode(item) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {self.decode(k): self.decode(v) for k, v in content}
        if kind == "array" or kind == "object":
            table = self._arrays if kind == "array" else self._objects
            if type(content) is not int or not 0 <= content < len(table):
                raise ModelFileError(f"Its header refers to a missing {kind}, number {content}.")
            return table[content]
        if kind == "strings":
            return self._strings(*content)
        if kind == "scalar":
            return self.decode(content)[()]
        if kind == "random_state":
            return _random_state(self.decode(content))
        raise ModelFileError(f"Its header holds a value of unknown kind {kind[:60]!r}.")

    def _take(self, shape: Any, itemsize: int) -> int:
        """Size in bytes of an array that the file may claim, checked before it is made."""
        if len(shape) > 8 or any(type(n) is not int or n < 0 for n in shape):
            raise ModelFileError(f"An array has the impossible shape {shape}.")
        size = int(math.prod(shape) * itemsize)
        self._allowance -= size
        if self._allowance < 0:
            raise ModelFileError(f"An array of shape {shape} is larger than the file can hold.")
        return size

    def _array(self, dtype: Any, shape: Any, order: Any, chunk: memoryview) -> NDArray[Any]:
        if dtype not in _DTYPES or order not in ("C", "F"):
            raise ModelFileError(f"An array has the unknown dtype {dtype!r} or order {order!r}.")
        size = self._take(shape, np.dtype(dtype).itemsize)
        inflate = zlib.decompressobj()
        raw = inflate.decompress(chunk, size + 1)
        if len(raw) != size or not inflate.eof or inflate.unused_data:
            raise ModelFileError(f"An array of shape {shape} and dtype {dtype} has other bytes.")
        if dtype == "|b1" and raw.strip(b"\0\1"):
            raise ModelFileError("An array of truth values holds others than 0 and 1.")
        array = np.frombuffer(raw, dtype).reshape(shape, order="F")
        return array.astype(array.dtype.newbyteorder("="), order=order)

    def _strings(self, dtype: Any, shape: Any, codes: Any) -> NDArray[Any]:
        width = dtype.removeprefix("U")
        if dtype != "O" and not (width.isascii() and width.isdecimal() and len(width) < 8):
            raise ModelFileError(f"An array of text has the unknown dtype {dtype[:60]!r}.")
        self._take(shape, 8 if dtype == "O" else 4 * int(width))
        items = [self.decode(code) for code in codes]
        if len(items) != math.prod(shape) or not all(
            type(item) is str if dtype != "O" else type(item) in (*_PLAIN, float) for item in items
        ):
            raise ModelFileError(f"An array of text of shape {shape} has other items.")
        flat = np.empty(len(items), dtype)
        flat[:] = items
        return flat.reshape(shape)

    def _object(self, name: Any, code: Any) -> Any:
        if name not in CLASSES:
            raise ModelFileError(f"It holds an object of unknown class {str(name)[:60]!r}.")
        cls = getattr(import_module(f"mondrian_kernel.{CLASSES[name]}"), name)
        _check_names(cls, code)
        state = {attribute: self.decode(value) for attribute, value in code.items()}
        if dataclasses.is_dataclass(cls) or issubclass(cls, tuple):
            value = cls(**state)
        else:
            value = cls.__new__(cls)
            value.__dict__.update(state)
        check(value)
        return value


def _state(value: Any) -> dict[str, Any]:
    """Attributes of an object without those that are caches."""
    if isinstance(value, tuple):
        return dict(zip(value._fields, value, strict=True))  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    cls = type(value)
    return {
        name: attribute
        for name, attribute in value.__getstate__().items()
        if not isinstance(inspect.getattr_static(cls, name, None), cached_property)
    }


def _check_names(cls: Any, state: dict[str, Any]) -> None:
    """Refuse a state that lacks attributes, or has some that would hide those of the class."""
    if issubclass(cls, tuple) or dataclasses.is_dataclass(cls):
        fields = getattr(cls, "_fields", None) or [f.name for f in dataclasses.fields(cls)]
        wrong = set(fields) ^ set(state)
    else:
        wrong = set(cls._get_param_names()) - set(state)
        wrong |= {name for name in state if not name.isidentifier() or hasattr(cls, name)}
    if wrong:
        raise ModelFileError(f"A {cls.__name__} lacks, or must not have, {sorted(wrong)}.")


def _random_state(state: dict[str, Any]) -> np.random.RandomState:
    key, pos = state["state"]["key"], state["state"]["pos"]
    plain = type(pos) is int and type(state["gauss"]) is float and state["has_gauss"] in (0, 1)
    if not plain or not 0 <= pos <= 624 or key.dtype != np.uint32 or key.shape != (624,):
        raise ModelFileError("It holds an impossible state of a random generator.")
    generator = np.random.RandomState(0)
    generator.set_state(state)
    return generator
