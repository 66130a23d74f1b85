"""What the estimators on Dask share: how rows come, how trees grow, how predictions stay lazy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from inspect import isfunction, signature
from numbers import Real
from typing import Any, Self, TypeVar

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._estimator.base import MondrianEstimator
from mondrian_kernel._model.columns import Columns, is_learnt
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.learn_columns import learn_columns
from mondrian_kernel._path.choose import Choice, enough_trees, sample_rows
from mondrian_kernel._trees.checks import check_budget, check_penalty, draw_seed
from mondrian_kernel._trees.levels import Levels, run_growth
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.cluster import (
    CollectionParts,
    beside,
    delayed_blocks,
    is_collection,
    known_rows,
    on_client,
    row_array,
)
from mondrian_kernel.dask.shares import cells_on_blocks, start_growth

Method = TypeVar("Method", bound=Callable[..., Any])

_ROWS = """Rows, finite. They are read in several passes: ``persist`` them if they fit into the
            memory of the workers."""


def docs_of(local: Callable[..., Any]) -> Callable[[Method], Method]:
    """Give a method the docstring of a local one, for collections."""
    text = local.__doc__ or ""
    if local.__name__.startswith("fit"):
        text = re.sub("Rows, finite.*[.]", _ROWS, text, count=1)
        text = text.replace(" : array-like of", " : dask array or dataframe of")
    elif "X : array-like" in text:
        text = text.replace("\n\n", "\n\n        Lazy where X is a dask collection.\n\n", 1)
        text = text.replace("X : array-like of", "X : dask collection or array-like of")
    for kind in "ndarray", "csr_matrix":
        text = text.replace(f" : {kind} of", f" : dask array or {kind} of")

    def write(method: Method) -> Method:
        method.__doc__ = text
        return method

    return write


def not_on_dask(local: Callable[..., Any]) -> Any:
    """Hide a method of a local estimator, which needs its rows in one place."""

    def refuse(model: object) -> bool:
        raise AttributeError(
            f"{type(model).__name__} has no {local.__name__}, which needs all rows in one place. "
            "Use the estimator without Dask."
        )

    return available_if(refuse)(local)


def if_learnt(method: Callable[..., Any]) -> Any:
    """Offer a method only with ``lifetime="auto"``, which holds rows out."""

    def check(model: Any) -> bool:
        if model.lifetime != "auto":
            raise AttributeError(
                f'{type(model).__name__} has {method.__name__} only with lifetime="auto", which '
                "measures errors of rows held out."
            )
        return True

    return available_if(check)(method)


def lazy(
    local: Callable[..., Any],
    width: Callable[..., int | None] = lambda model: None,
    dtype: Any = float,
) -> Any:
    """Return a method of a local estimator that is lazy where X is a dask collection.

    ``width`` of the model and the options is the number of columns of the answer, None for a
    vector; ``dtype`` may be a function of the model.
    """

    @docs_of(local)
    @wraps(local)
    def method(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_collection(X):
            return local(self, X, *args, **options)
        check_is_fitted(self)
        options = signature(local).bind_partial(self, X, *args, **options).arguments
        own = {name: value for name, value in options.items() if name not in ("self", "X")}
        kind = dtype(self) if isfunction(dtype) else dtype
        return self._lazily(local.__name__, X, width(self, **own), kind, **own)

    return method


class BlockEstimator(MondrianEstimator):
    """Base of regressor and classifier on Dask. They hold the same fitted record as without it."""

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"path", "auto"})],
        "keep_cells": ["boolean", StrOptions({"auto"})],
    }
    keep_cells: bool | str
    # What makes targets of blocks of y, given blocks and the number of dimensions of y; a choice as
    # the local estimator makes it, on rows that were fetched; whether a square matrix of so many
    # features is summed up; the record with weights.
    _encoding: Callable[[Blocks, int], Any]
    _choose: Callable[[FloatArray, Any, FloatArray, Any, int], Choice]
    _makes_matrix: Callable[[int], bool]
    _solved: Callable[[FittedModel, CellBlocks, Any], FittedModel]

    def _fit_blocks(
        self, local: Callable[..., Any], X: Any, y: Any, sample_weight: Any, *, numeric: bool
    ) -> None:
        """Fit on blocks; ``lifetime="auto"`` by a local ``fit`` that reads them one at a time."""
        if self.lifetime == "auto":
            for name in "alpha", "loss":
                value = getattr(self, name, "auto")
                if value != "auto":
                    raise ValueError(
                        f'lifetime="auto" learns without {name}={value!r}: leave {name}="auto", or '
                        'choose one width with lifetime="path".'
                    )
            if not is_collection(X):
                row_array(X)  # refuses it
            local(self, CollectionParts(X), on_client(y), on_client(sample_weight))
            return
        check_budget(self.max_cells, self.n_estimators)
        rows, names = row_array(X)
        targets = beside(y, rows, "y")
        blocks = Blocks(rows, targets, sample_weight, numeric=numeric)
        blocks.check_numbers()
        if not isinstance(self.alpha, str):
            check_penalty(self.alpha, blocks.summary.weight)
        seed, encode = draw_seed(self.random_state), self._encoding(blocks, targets.ndim)
        columns, (lifetime, alpha, path) = self._chosen(blocks, encode, seed)
        blocks = blocks.scaled(columns.scale)
        n_trees = enough_trees(
            self.n_estimators,
            (blocks.n_rows, blocks.n_columns),
            self.max_cells,
            partial(cells_on_blocks, blocks, float(lifetime), seed),
            encode.n_classes,
        )
        growth = start_growth(blocks, n_trees, seed)
        trees, _ = run_growth(growth, float(lifetime), self.max_cells)
        levels, none = Levels.of(trees, np.array([trees.lifetime])), np.empty(0)
        blank = FittedModel(trees, levels, none, none, columns, float(alpha), seed, none)
        keep = False if self._makes_matrix(levels.n_features) else self.keep_cells
        cells = CellBlocks(blocks, trees, levels, encode, keep=keep)
        self._set_fitted(self._solved(blank, cells, encode), path)
        self.n_features_in_ = blocks.n_columns
        keep_names(self, names)

    def _chosen(self, blocks: Blocks, encode: Any, seed: int) -> tuple[Columns, Choice]:
        """Return scaled columns and a width; what is to be learnt of them, on rows it fetches."""
        scale = blocks.column_scale(self.scale)
        columns = Columns.scaled(scale)
        learns = is_learnt(self.relevance, self.lifetime, self.scale)
        chooses = isinstance(self.lifetime, str) or isinstance(self.alpha, str)
        if learns or chooses:
            X, y, weight = blocks.take(sample_rows(blocks.n_rows, seed))
        if learns:
            own, no_ranks = unless_one(weight), np.zeros(scale.size, bool)
            Y = encode.columns(y)
            relevance = learn_columns(
                X, Y, own, seed, scale=scale, ranked=no_ranks
            ).columns.relevance
            columns = Columns.scaled(scale / relevance, relevance)
        if chooses:
            return columns, self._choose(X / columns.scale, y, weight, encode, seed)
        return columns, (self.lifetime, float(self.alpha), None)

    def _for_workers(self, method: str) -> Self:
        """Return a copy whose ``method`` takes arrays, without anything large that it needs not."""
        model = self._copy_with(replace(self._fitted(), rows=None))
        model.path_ = model._notes = None
        model.n_jobs = 1  # workers are many
        if model.encoder_ is None:  # blocks have no names; those of the collection are checked
            keep_names(model, None)
        return model

    def _lazily(
        self, method: str, X: Any, n_columns: int | None, dtype: Any = float, **options: Any
    ) -> da.Array:
        """Lazy ``method`` of the rows of a collection, block by block."""
        is_table = self.encoder_ is not None and not isinstance(X, da.Array)
        none = np.empty((0,) if n_columns is None else (0, n_columns), dtype)
        rows = X if is_table else known_rows(self, X)
        return map_rows(method, self._for_workers(method), rows, none, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        takes_tables = self.lifetime == "auto"
        tags.input_tags.allow_nan = tags.input_tags.categorical = takes_tables
        return tags


def map_rows(method: str, model: Any, rows: Any, none: Any, **options: Any) -> da.Array:
    """Lazy ``model.method(block, **options)`` for all blocks of rows, of all columns each.

    Rows are an array, or a table with categories and gaps. The model goes to every worker once.
    ``none`` is the answer to a block without rows.
    """
    sent = dask.delayed(model, traverse=False)
    if isinstance(rows, da.Array):
        shape = {"chunks": (rows.chunks[0], none.shape[1:])} if none.ndim == 2 else {"drop_axis": 1}
        call = {"method": method, "model": sent, "options": options, "none": none}
        return rows.map_blocks(_apply, **call, meta=none, **shape)
    apply, size = dask.delayed(_apply, pure=False), (np.nan, *none.shape[1:])
    parts = [apply(part, method, sent, options, none) for part in delayed_blocks(rows)]
    return da.concatenate([da.from_delayed(part, size, meta=none) for part in parts])


def _apply(block: Any, method: str, model: Any, options: dict[str, Any], none: Any) -> Any:
    if len(block) == 0:  # partitions of a dataframe may be empty
        return none
    if isinstance(block, np.ndarray):
        block = np.ascontiguousarray(block, dtype=np.float64)
    return getattr(model, method)(block, **options)


def unless_one(weight: FloatArray) -> FloatArray | None:
    """Return weights, or None where all are 1."""
    return None if (weight == 1.0).all() else weight


def keep_names(estimator: Any, names: NDArray[np.object_] | None) -> None:
    """Remember the names of columns, or forget those of an earlier fit."""
    if names is not None:
        estimator.feature_names_in_ = names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
