"""Predict with a saved model by numpy alone: this file needs nothing else and can be copied.

Rows are a sequence of rows, or a data frame, with the columns of the fit in their order. Models
that went on with ``partial_fit``, and those of ``lifetime="average"``, are refused.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MAGIC, _FORMAT = b"\x89MONDR\r\n", 8
_PREFIX = struct.Struct("<8sIIQ32s")
_ROWS, _LARGEST = 256, 1e100  # rows that walk down trees at once; largest number in a row
_LEFT_OUT = {"rows", "_notes", "_stream", "_fixed", "_shared", "path_", "random_state", "spread"}


class PortableModel:
    """A fitted model; make it with :func:`load_portable`."""

    def __init__(self, kind: str, state: dict[str, Any]) -> None:
        if state.get("_model") is None or state.get("_mixture") is not None:
            raise ValueError(f"A {kind} after partial_fit or of averaged widths: fit one anew.")
        self.kind, self.model, self.encoder = kind, _unpacked(state["_model"]), state["_encoder"]
        self.classes_, self._one_output = state.get("classes_"), state.get("_one_output", False)

    def predict(self, X: Any) -> Any:
        """Return predictions, or the likeliest classes."""
        if self.classes_ is None:
            return self._scores(X)[:, 0 if self._one_output else slice(None)]
        return np.asarray(self.classes_)[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of the classes."""
        if self.classes_ is None:
            raise ValueError(f"A {self.kind} has no classes.")
        F, link = self._scores(X), self.model["link"]
        if self.kind == "MondrianForestClassifier":
            P = F.clip(0.0, 1.0)
        else:
            F = F if link is None else link[0] * F + link[1:]
            Z = np.hstack([np.zeros_like(F), F]) if F.shape[1] == 1 else F
            P = np.exp(Z - Z.max(axis=1, keepdims=True))
        return P / P.sum(axis=1, keepdims=True)

    def _numbers(self, X: Any) -> Floats:
        """Encode the columns of a table as numbers."""
        table, encoder, parts = np.array(X, dtype=object), self.encoder, []
        n, names = len(encoder["categories_"]), list(encoder.get("feature_names_in_", ()))
        given = list(getattr(X, "column_names", getattr(X, "columns", names)))
        if table.shape[1:] != (n,) or len(table) == 0 or (names and given != names):
            raise ValueError(f"X has another shape than (n, {n}), or columns other than {names}.")
        for j, words in enumerate(encoder["categories_"]):
            column = [None if type(v).__name__ == "NAType" or v != v else v for v in table[:, j]]
            if words is None:
                filled = [encoder["medians_"][j] if v is None else v for v in column]
                both = [filled, [v is None for v in column]][: 1 + encoder["has_gaps_"][j]]
                special = encoder["special_values_"][j]
                own = {} if special is None else dict(special.tolist())
                both += [[own.get(v, 0.0) for v in column]] if own else []
                parts.append(np.array(both, np.float64).T)
            else:
                place = {word: k for k, word in enumerate(words)}
                parts.append(encoder["tables_"][j][[place.get(v, len(words)) for v in column]])
        rows: Floats = np.concatenate(parts, axis=1)
        if not np.abs(rows).max() <= _LARGEST:
            raise ValueError(f"Columns of X are infinite, or beyond {_LARGEST:g}.")
        return rows

    def _scores(self, table: Any) -> Floats:
        """Return the scores of rows, (n, K)."""
        model, columns, X = self.model, self.model["columns"], self._numbers(table)
        centre = columns["centre"]
        rows = (X - (0.0 if centre is None else centre)) / columns["scale"]
        for d in np.flatnonzero(columns["bend"]):
            ranks = np.interp(X[:, d], columns["knots"][:, d], columns["ranks"][:, d])
            rows[:, d] += columns["bend"][d] * ranks
        if centre is not None:  # the library goes on in single precision
            rows = rows.astype(np.float32).astype(np.float64)
        parts = []
        for block in np.split(rows, range(_ROWS, len(rows), _ROWS)):
            sums = _over_cells(model["trees"], model["levels"], block, model["cell_weights"])
            trend = 0.0 if model["trend"] is None else _trend(model["trend"], block)
            parts.append(sums + model["intercept"] + trend)
        return np.concatenate(parts)


def _unpacked(model: Any) -> Any:
    """Return a model with all arrays of its nodes, which follow from their cuts and the rows."""
    if "trees" in model:
        return model
    dim, n, X, lifetimes = (model[k] for k in ("dim", "n_nodes", "X", "level_lifetimes"))
    is_cut, root, tree = dim >= 0, np.cumsum(n) - n, np.repeat(np.arange(n.size), n)
    n_open = np.append(0, np.cumsum(np.where(is_cut, 1, -1))[:-1]) + tree
    order, cut = np.lexsort([n_open, tree]), np.flatnonzero(is_cut)
    left, right, parent = np.full((3, dim.size), -1)
    left[cut], right[order[:-1]] = cut + 1, order[1:]  # the next with as many open subtrees
    parent[left[cut]] = parent[right[cut]] = cut
    loc, time = np.full((2, dim.size), np.inf)
    loc[cut], time[cut] = model["loc"], model["time"]
    last = np.where(is_cut, right, np.arange(dim.size))  # soon the last leaf below a node
    while is_cut[last].any():
        last = last[last]
    lower, upper = np.empty((2, dim.size, X.shape[1]))
    for own, leaf in zip(np.split(np.arange(dim.size), root[1:]), model["leaf"].T, strict=True):
        order = np.argsort(leaf)  # the rows of a node follow each other
        ends = np.searchsorted(leaf[order] + own[0], np.stack([own, last[own] + 1], 1).ravel())
        rows = X[np.append(order, order[-1])]
        lower[own] = np.minimum.reduceat(rows, ends)[::2]
        upper[own] = np.maximum.reduceat(rows, ends)[::2]
    late = time > lifetimes[:, None]  # cells are numbered in the order of the nodes
    is_top = late & ((parent < 0) | ~late[:, parent])
    column = np.where(late, np.cumsum(is_top, axis=1) - 1, -1)
    trees = {"root": root, "dim": dim, "loc": loc, "time": time, "left": left, "right": right}
    trees |= {"parent": parent, "lower": lower, "upper": upper}
    levels = {"lifetimes": lifetimes, "weights": model["level_weights"], "column": column}
    return model["others"] | {"trees": trees, "levels": levels | {"per_tree": is_top.sum(axis=1)}}


def _trend(trend: Any, rows: Floats) -> Any:
    seen = np.clip(rows, *trend["ends"]) - trend["ends"].mean(axis=0)
    seen = seen * trend["factor"] if trend["factor"].ndim == 1 else seen @ trend["factor"]
    away = seen[:, None] - trend["landmarks"]
    if trend["lifetimes"].size:
        kernel = np.exp(-trend["lifetimes"] * np.abs(away).sum(axis=2)[..., None]) @ trend["shares"]
    else:
        r = np.sqrt((away**2).sum(axis=2)) / trend["width"]
        kernel = (1.0 + r) * np.exp(-r)
    if trend["linear"]:
        kernel = np.hstack([kernel, trend["linear"] * seen])
    return np.clip(kernel @ trend["coef"] + trend["intercept"], trend["low"], trend["high"])


def _over_cells(trees: Any, levels: Any, rows: Floats, W: Floats) -> Any:
    """Return the sums of weights W over the cells of rows, (n, K)."""
    time, lifetimes, n, M = trees["time"], levels["lifetimes"], len(rows), trees["root"].size
    node, row = np.tile(trees["root"], n), np.repeat(np.arange(n), M)
    while (go := time[node] <= lifetimes[-1]).any():
        at = node[go]
        is_left = rows[row[go], trees["dim"][at]] <= trees["loc"][at]
        node[go] = np.where(is_left, trees["left"][at], trees["right"][at])
    # At a node that lives from t0 to t1 a row at distance d from its box stays with probability
    # exp(-d (t1 - t0)). Boxes are nested: above one that holds the row nothing is lost.
    log_stay = np.zeros((node.size, lifetimes.size))
    here, active = node.copy(), np.arange(node.size)
    while active.size:
        at, x = here[active], rows[row[active]]
        distance = np.maximum(trees["lower"][at] - x, x - trees["upper"][at]).clip(0.0).sum(axis=1)
        active, at, distance = (part[distance > 0.0] for part in (active, at, distance))
        up = trees["parent"][at]
        birth = np.where(up >= 0, time[up], 0.0)
        lived = np.minimum(time[at, None], lifetimes) - birth[:, None]
        log_stay[active] -= distance[:, None] * lived.clip(0.0)
        here[active] = up
        active = active[up >= 0]
    size = np.array([own.sum() for own in levels["per_tree"]])
    cells = levels["column"][:, node].T + np.cumsum(size) - size
    stay = np.sqrt(levels["weights"] / M) * np.exp(log_stay)
    return np.einsum("rl,rlk->rk", stay, W[cells]).reshape(n, M, -1).sum(axis=1)


def load_portable(path: Any) -> PortableModel:
    """Read a model from a file that ``mondrian_kernel.save`` has written; nothing is executed."""
    with open(path, "rb") as file:
        data = file.read()
    start = _PREFIX.size
    magic, number, length, _, digest = _PREFIX.unpack_from(data.ljust(start))
    found = hashlib.blake2b(data[: start - 32] + data[start:], digest_size=32).digest()
    if (magic, number, digest) != (_MAGIC, _FORMAT, found):
        raise ValueError(f"{path} is damaged, or no model file of format {_FORMAT}.")
    header = json.loads(data[start : start + length])
    begins = np.cumsum([start + length, *(entry[-1] for entry in header["arrays"])])

    def decode(code: Any) -> Any:
        if not isinstance(code, dict):
            return code
        ((kind, content),) = code.items()
        if kind == "object":
            state = header["objects"][content][1].items()
            return {name: decode(value) for name, value in state if name not in _LEFT_OUT}
        if kind == "array":
            dtype, shape, _, in_file, _ = header["arrays"][content]
            raw = zlib.decompress(data[begins[content] : begins[content + 1]])
            return np.frombuffer(raw, in_file).reshape(shape, order="F").astype(dtype, order="C")
        if kind == "objects":  # classes, as Python's own values
            return np.array(content[1], object)
        if kind == "float":
            return float(content)
        if kind == "dict":
            return {name: decode(value) for name, value in content}
        return [decode(item) for item in content]

    kind, state = header["objects"][header["model"]["object"]]
    if kind == "TableModel":  # of the command line
        kind, state = header["objects"][state["estimator"]["object"]]
    return PortableModel(kind, {n: decode(v) for n, v in state.items() if n not in _LEFT_OUT})
