"""Predict with a saved model by numpy alone: this file needs nothing else and can be copied.

    from portable import load_portable

    model = load_portable("model.mondrian")
    model.predict(rows), model.predict_interval(rows), model.predict_proba(rows)

Rows are a sequence of rows, or a data frame, whose columns are those of the fit in their order.
Models that went on with ``partial_fit``, and those of ``lifetime="average"``, are refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from itertools import accumulate
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FORMAT = 2
_PREFIX = struct.Struct("<8sIIQ32s")
_LEAST_SHARE = 1e-3  # LINK_FLOOR of the library
_ROWS = 256  # rows that walk down the trees at once
_SPECIAL = {"float": float, "list": list, "tuple": list, "dict": dict}


class PortableModel:
    """A fitted model; make it with :func:`load_portable`."""

    def __init__(self, kind: str, state: dict[str, Any]) -> None:
        if state.get("_model") is None or state.get("_mixture") is not None:
            raise ValueError(f"A {kind} after partial_fit or of averaged widths: fit one anew.")
        self.kind, self.model, self.encoder = kind, state["_model"], state["_encoder"]
        self.classes_ = state.get("classes_")
        self._one_output = state.get("_one_output", False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return predictions, or the likeliest classes."""
        if self.classes_ is None:
            S = self._scores(self._numbers(X))[0]
            return S[:, 0] if self._one_output else S
        F = self._class_scores(X)
        best = (F[:, 0] > 0).astype(int) if F.shape[1] == 1 else F.argmax(axis=1)
        return np.asarray(self.classes_)[best]

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities of the classes."""
        F = self._class_scores(X)
        if self.kind == "MondrianForestClassifier":
            P = np.clip(F, 0.0, 1.0)
            return P / P.sum(axis=1, keepdims=True)
        Z = np.hstack([np.zeros_like(F), F]) if F.shape[1] == 1 else F
        P = np.exp(Z - Z.max(axis=1, keepdims=True))
        return P / P.sum(axis=1, keepdims=True)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Return the lower and upper end of an interval for a new y."""
        spread = self.model["spread"]
        if spread is None:
            raise ValueError(f"A {self.kind} has no intervals.")
        mean, log_scale, mass = self._scores(self._numbers(X))
        local = np.exp(np.clip(log_scale + spread["intercept"], -700.0, 700.0))
        unknown = np.sqrt(np.clip(1.0 - mass, 0.0, 1.0))[:, None]
        scale, share = np.hypot(local, unknown * spread["far"]), 0.5 + 0.5 * coverage
        errors, weight = spread["errors"], spread["weight"]
        ends = [-_upper_quantile(-errors, weight, share), _upper_quantile(errors, weight, share)]
        both = np.stack([mean + scale * end for end in ends], axis=1)
        both = np.clip(both, spread["lowest"], spread["highest"])
        return both[..., 0] if self._one_output else both

    def _class_scores(self, X: Any) -> Floats:
        if self.classes_ is None:
            raise ValueError(f"A {self.kind} has no classes.")
        S, link = self._scores(self._numbers(X))[0], self.model["link"]
        if link is None:
            return S
        q = 0.5 + 0.5 * (np.hstack([-S, S]) if S.shape[1] == 1 else S)
        Z = link[0] * np.log(np.maximum(q, _LEAST_SHARE)) + link[1:]
        return np.asarray(Z[:, 1:] - Z[:, :1] if Z.shape[1] == 2 else Z)

    def _numbers(self, X: Any) -> Floats:
        """Encode the columns of a table as numbers."""
        table, encoder = np.array(X, dtype=object), self.encoder
        n_columns = len(encoder["categories_"])
        if table.ndim != 2 or table.shape[1] != n_columns:
            raise ValueError(f"X has the shape {table.shape}, but the model has {n_columns} columns.")
        parts = []
        for j, words in enumerate(encoder["categories_"]):
            column = [getattr(value, "item", lambda value=value: value)() for value in table[:, j]]
            column = [None if v is None or v != v else v for v in column]
            if words is None:
                missing = np.array([value is None for value in column])
                median = encoder["medians_"][j]
                filled = np.array([median if v is None else v for v in column], np.float64)
                parts.append(np.stack([filled, missing][: 1 + encoder["has_gaps_"][j]], axis=1))
            else:
                place = {word: k for k, word in enumerate(words)}
                parts.append(encoder["tables_"][j][[place.get(v, len(words)) for v in column]])
        return np.concatenate(parts, axis=1)

    def _scores(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """Return scores, logarithms of the scale of errors, and the mass of the widest cells."""
        model, columns = self.model, self.model["columns"]
        rows = X / columns["scale"]
        for d in np.flatnonzero(columns["bend"]):
            ranks = np.interp(X[:, d], columns["knots"][:, d], columns["ranks"][:, d])
            rows[:, d] += columns["bend"][d] * ranks
        W = model["cell_weights"]
        if model["spread"] is not None:
            W = np.hstack([W, model["spread"]["cell_weights"]])
        blocks = [rows[i : i + _ROWS] for i in range(0, max(len(rows), 1), _ROWS)]
        found = [_over_cells(model["trees"], model["levels"], block, W) for block in blocks]
        sums, mass = (np.concatenate(parts) for parts in zip(*found, strict=True))
        K = model["intercept"].size
        scores = sums[:, :K] + model["intercept"]
        if model["trend"] is not None:
            scores += np.concatenate([_trend(model["trend"], block) for block in blocks])
        return scores, sums[:, K:], mass


def _trend(trend: dict[str, Any], rows: Floats) -> Floats:
    away = rows[:, None] - trend["landmarks"]
    if trend["lifetimes"].size == 0:
        r = np.sqrt((away**2).sum(axis=2)) / trend["width"]
        kernel = (1.0 + r) * np.exp(-r)
    else:
        distance = np.abs(away).sum(axis=2)[..., None]
        kernel = np.exp(-trend["lifetimes"] * distance) @ trend["shares"]
    return np.asarray(kernel @ trend["coef"] + trend["intercept"])


def _over_cells(
    trees: dict[str, Any], levels: dict[str, Any], rows: Floats, W: Floats
) -> tuple[Floats, Floats]:
    """Return the sums of weights W over the cells of rows, and the mass of the widest cells.

    At a node that lives from t0 to t1 a row at distance d from its box stays in it with probability
    exp(-d (t1 - t0)); what it has in a cell is the product along the way.
    """
    time, lifetimes, n, M = trees["time"], levels["lifetimes"], len(rows), trees["root"].size
    node, row = np.tile(trees["root"], n), np.repeat(np.arange(n), M)
    while (go := time[node] <= lifetimes[-1]).any():
        at = node[go]
        is_left = rows[row[go], trees["dim"][at]] <= trees["loc"][at]
        node[go] = np.where(is_left, trees["left"][at], trees["right"][at])
    log_stay = np.zeros((node.size, lifetimes.size))
    here, death, active = node.copy(), np.full(node.size, lifetimes[-1]), np.arange(node.size)
    while active.size:
        at, x = here[active], rows[row[active]]
        outside = np.maximum(np.maximum(trees["lower"][at] - x, x - trees["upper"][at]), 0.0)
        distance = outside.sum(axis=1)
        active, at, distance = (part[distance > 0.0] for part in (active, at, distance))
        up = trees["parent"][at]
        birth = np.where(up >= 0, time[up], 0.0)
        lived = np.minimum(death[active, None], lifetimes) - birth[:, None]
        log_stay[active] -= distance[:, None] * np.maximum(lived, 0.0)
        here[active], death[active] = up, birth
        active = active[up >= 0]
    total, offset = np.zeros((n, W.shape[1])), 0
    for level, weight in enumerate(levels["weights"]):
        stay = np.sqrt(weight / M) * np.exp(log_stay[:, level])
        cell = offset + levels["column"][level, node]
        total += (stay[:, None] * W[cell]).reshape(n, M, -1).sum(axis=1)
        offset += int(levels["per_tree"][level].sum())
    return total, np.exp(2.0 * log_stay[:, 0]).reshape(n, M).mean(axis=1)


def _upper_quantile(errors: Floats, weight: Floats, share: float) -> Floats:
    """Return the smallest error with ``share`` of n + 1 rows at or below it, for each output."""
    order, n = np.argsort(errors, axis=0), float(weight.sum())
    below = np.cumsum(weight[order], axis=0) < share * (n + 1.0) * (1 - 1e-12)
    at = np.take_along_axis(order, np.minimum(below.sum(axis=0), len(errors) - 1)[None], axis=0)
    out = np.take_along_axis(errors, at, axis=0)[0]
    if share > n / (n + 1.0):  # too few rows: as far out as a normal error would be
        normal = NormalDist().inv_cdf
        out = np.where(out > 0, out * normal(share) / normal(max(n / (n + 1.0), 0.75)), out)
    return out


def load_portable(path: Any) -> PortableModel:
    """Read a model from a file that ``mondrian_kernel.save`` has written; nothing is executed."""
    with open(path, "rb") as file:
        data = file.read()
    magic, number, length, size, digest = _PREFIX.unpack_from(data.ljust(_PREFIX.size))
    if (magic, number, size) != (b"\x89MONDR\r\n", _FORMAT, len(data)):
        raise ValueError(f"{path} is not a whole model file of format {_FORMAT}.")
    start = _PREFIX.size
    if hashlib.blake2b(data[: start - 32] + data[start:], digest_size=32).digest() != digest:
        raise ValueError(f"{path} is damaged: its checksum does not match.")
    header = json.loads(data[start : start + length])
    entries = header["arrays"]
    begins = list(accumulate((entry[-1] for entry in entries), initial=start + length))

    def decode(code: Any) -> Any:
        if not isinstance(code, dict):
            return code
        ((kind, content),) = code.items()
        if kind == "object":
            return {name: decode(value) for name, value in header["objects"][content][1].items()}
        if kind == "array":
            return _array(entries[content], data[begins[content] : begins[content + 1]])
        if kind == "objects":
            flat = np.empty(len(content[1]), object)
            flat[:] = [decode(item) for item in content[1]]
            return flat.reshape(content[0])
        if kind == "scalar":
            return decode(content)[()]
        if kind == "dict":
            return {decode(k): decode(v) for k, v in content}
        return float(content) if kind == "float" else [decode(item) for item in content]

    kind, state = header["objects"][header["model"]["object"]]
    if kind == "TableModel":  # of the command line
        kind, state = header["objects"][state["estimator"]["object"]]
    needed = ("_model", "_encoder", "_mixture", "_one_output", "classes_")
    return PortableModel(kind, {name: decode(state[name]) for name in needed if name in state})


def _array(entry: list[Any], chunk: bytes) -> NDArray[Any]:
    """Return an array: numbers less their minimum in a small type, by column, compressed."""
    dtype, shape, _, packed, base, _ = entry
    flat = np.frombuffer(zlib.decompress(chunk), packed)
    numbers = np.dtype("<u4" if dtype.startswith("<U") else dtype)
    if flat.dtype != numbers:
        flat = flat.astype(numbers) + numbers.type(base)
    n_items = math.prod(shape)
    text = flat.view(dtype) if n_items else np.empty(0, dtype)
    return np.ascontiguousarray(text.reshape(shape, order="F"))
